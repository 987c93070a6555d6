#include "base/status.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/number.h"

mmc_status mmci_fail(mmci_error *error, mmc_status status, const char *format, ...) {
  if (error != NULL) {
    va_list args;
    va_start(args, format);
    error->status = status;
    error->argument = NULL;
    mmci_vprint(error->text, sizeof error->text, format, args);
    va_end(args);
  }
  return status;
}

mmc_status mmci_fail_argument(mmci_error *error, mmc_status status, const char *argument,
                              const char *format, ...) {
  if (error != NULL) {
    va_list args;
    va_start(args, format);
    error->status = status;
    error->argument = argument;
    const int used = snprintf(error->text, sizeof error->text, "%s: ", argument);
    mmci_vprint(error->text + used, sizeof error->text - (size_t)used, format, args);
    va_end(args);
  }
  return status;
}

mmc_status mmci_fail_nomem(mmci_error *error, uint64_t size_bytes) {
  return mmci_fail(error, MMC_E_NOMEM, "out of memory: %" PRIu64 " bytes wanted", size_bytes);
}

const char *mmc_status_string(mmc_status status) {
  switch (status) {
#define MMC_STATUS_TEXT(name, value, text) \
  case MMC_##name:                         \
    return text;
    MMC_STATUS_MAP(MMC_STATUS_TEXT)
#undef MMC_STATUS_TEXT
  }
  return "unknown status";
}

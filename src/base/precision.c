#include "base/precision.h"

#include <stdlib.h>
#include <string.h>

#include "base/number.h"

const char *mmci_precision_name(mmci_precision precision) {
  static const char *const names[MMCI_PRECISIONS] = {
      [MMCI_NATIVE] = "native",
      [MMCI_FAITHFUL] = "faithful",
      [MMCI_FAST] = "fast",
      [MMCI_REPRODUCIBLE] = "reproducible",
      [MMCI_REPRODUCIBLE_FAITHFUL] = "reproducible+faithful"};
  return (unsigned)precision < MMCI_PRECISIONS ? names[precision] : NULL;
}

mmc_status mmci_precision_read(const char *name, mmci_precision *out, mmci_error *error) {
  for (mmci_precision p = MMCI_NATIVE; p < MMCI_PRECISIONS; p = (mmci_precision)(p + 1)) {
    if (name != NULL && strcmp(name, mmci_precision_name(p)) != 0) continue;
    *out = p;
    return MMC_OK;
  }
  return mmci_fail_argument(error, MMC_E_ARG, "precision",
                            "expected native, faithful, fast, reproducible or "
                            "reproducible+faithful, got '%s'",
                            name);
}

mmc_status mmci_precision_read_tolerance(const char *name, mmci_precision *out, double *tolerance,
                                         mmci_error *error) {
  *tolerance = 0;
  if (name == NULL || strchr("0123456789.+-", name[0]) == NULL || name[0] == '\0')
    return mmci_precision_read(name, out, error);
  char *end;
  *tolerance = mmci_number_read(name, &end);
  *out = MMCI_FAITHFUL;
  if (*end == '\0' && *tolerance > 0 && *tolerance < 1) return MMC_OK;
  return mmci_fail_argument(error, MMC_E_ARG, "tolerance",
                            "expected a number above 0 and below 1, got '%s'", name);
}

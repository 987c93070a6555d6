#include "base/options.h"

#include <string.h>

/* Returns where the first byte that is not 0 lies between two places; the end when there is
 * none. */
static size_t find_set(const unsigned char *bytes, size_t from, size_t end) {
  while (from < end && bytes[from] == 0) from++;
  return from;
}

mmc_status mmci_options_read(const char *name, const void *given, void *out, size_t size,
                             mmci_error *error) {
  if (given == NULL) return MMC_OK;
  size_t given_size;
  memcpy(&given_size, given, sizeof given_size);
  if (given_size < sizeof given_size || given_size > MMCI_OPTIONS_MOST_BYTES ||
      given_size % sizeof given_size != 0)
    return mmci_fail(error, MMC_E_ARG,
                     "%s: expected a size of %zu, as its _INIT sets it, or that of another version "
                     "of mmchain.h, got %zu",
                     name, size, given_size);
  size_t set = find_set(given, size, given_size);
  if (set < given_size)
    return mmci_fail(error, MMC_E_ARG,
                     "%s: expected 0 in the fields after byte %zu, which this version of mmchain "
                     "does not know, got one that is set at byte %zu",
                     name, size, set);
  memcpy(out, given, given_size < size ? given_size : size);
  memcpy(out, &size, sizeof size);
  return MMC_OK;
}

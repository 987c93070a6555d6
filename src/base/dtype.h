/* dtype.h: what is known of an element type besides mmc_dtype_name() and mmc_dtype_size(). */
#ifndef MMCI_DTYPE_H
#define MMCI_DTYPE_H

#include "mmchain.h"

enum { MMCI_DTYPES = MMC_BF16 + 1 };

static inline bool mmci_dtype_is_complex(mmc_dtype dtype) {
  return dtype == MMC_C64 || dtype == MMC_C128;
}

/* Reads a name of so many characters, which need not end with a NUL. Returns false and leaves out
 * as it was when no dtype has that name. */
bool mmci_dtype_read(const char *name, size_t length, mmc_dtype *out);

#endif

/* dtype.h: what is known of an element type besides mmc_dtype_name() and mmc_dtype_size(). */
#ifndef MMCI_DTYPE_H
#define MMCI_DTYPE_H

#include "base/status.h"

enum { MMCI_DTYPES = MMC_BOOL + 1 };

#define MMCI_DTYPE_NAMES \
  "f32, f64, c64, c128, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64 or bool"

static inline bool mmci_dtype_is_complex(mmc_dtype dtype) {
  return dtype == MMC_C64 || dtype == MMC_C128;
}

/* Says whether products are exact: of integers, and of bool. */
static inline bool mmci_dtype_is_integer(mmc_dtype dtype) {
  return dtype >= MMC_I8;
}

static inline bool mmci_dtype_is_signed(mmc_dtype dtype) {
  return dtype < MMC_U8;
}

/* Says whether an element of f32, f64, c64 or c128 is zero. */
static inline bool mmci_element_is_zero(mmc_dtype dtype, const void *element) {
  const float *f = (const float *)element;
  const double *d = (const double *)element;
  if (dtype == MMC_F32) return f[0] == 0;
  if (dtype == MMC_F64) return d[0] == 0;
  if (dtype == MMC_C64) return f[0] == 0 && f[1] == 0;
  return d[0] == 0 && d[1] == 0;
}

static inline void mmci_element_conjugate(mmc_dtype dtype, void *element) {
  if (dtype == MMC_C64) ((float *)element)[1] = -((float *)element)[1];
  if (dtype == MMC_C128) ((double *)element)[1] = -((double *)element)[1];
}

/* Returns the greatest integer of an integer dtype, 1 of bool. */
static inline uint64_t mmci_dtype_most(mmc_dtype dtype) {
  if (dtype == MMC_BOOL) return 1;
  unsigned bits = 8 * (unsigned)mmc_dtype_size(dtype) - mmci_dtype_is_signed(dtype);
  return UINT64_MAX >> (64 - bits);
}

/* Reads a name of so many characters, which need not end with a NUL. Returns false and leaves out
 * as it was when no dtype has that name. */
bool mmci_dtype_read(const char *name, size_t length, mmc_dtype *out);

/* Reads a name of so many characters; false, with out as it was, when no semiring has that name. */
bool mmci_semiring_read(const char *name, size_t length, mmc_semiring *out);
/* Checks that the semiring is one, and has elements of that dtype. */
mmc_status mmci_semiring_check(mmc_dtype dtype, mmc_semiring semiring, mmci_error *error);

#endif

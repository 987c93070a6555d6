/* scale.h: matrices with a power of two beside them, so that products of many neither overflow nor
 * vanish.
 *
 * A matrix of digits stands for itself times 2^exponent. Where its largest element leaves the range
 * of 2^-L to 2^L, it is multiplied by a power of two that brings it to 1, which rounds nothing; so
 * a product of two such matrices is far from both ends of the dtype's range. */
#ifndef MMCI_SCALE_H
#define MMCI_SCALE_H

#include "chain/gemm.h"

/* Checks that a dtype can be scaled: f32, f64, c64 or c128; the message names the option. */
mmc_status mmci_scale_check(mmc_dtype dtype, mmci_error *error);

/* Returns the power of two that brings the largest finite element to between 1/2 and 1, negated:
 * 0 where that is within the range already, and where there is none but zeros. A matrix is lines of
 * length elements, ld apart. */
int mmci_scale_needed(mmc_dtype dtype, int64_t lines, int64_t length, const void *data, int64_t ld);

/* Multiplies all elements by 2^-exponent. */
void mmci_scale_by(mmc_dtype dtype, int64_t lines, int64_t length, void *data, int64_t ld,
                   int exponent);

/* Does both, and returns the exponent. */
static inline int mmci_scale(mmc_dtype dtype, int64_t lines, int64_t length, void *data,
                             int64_t ld) {
  const int exponent = mmci_scale_needed(dtype, lines, length, data, ld);
  if (exponent != 0) mmci_scale_by(dtype, lines, length, data, ld, exponent);
  return exponent;
}

#endif

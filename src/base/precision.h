/* precision.h: the arithmetic that a product may be computed in. */
#ifndef MMCI_PRECISION_H
#define MMCI_PRECISION_H

#include <stdbool.h>

#include "base/status.h"

typedef enum mmci_precision {
  MMCI_NATIVE,   /* the arithmetic of the dtype */
  MMCI_FAITHFUL, /* other arithmetic is allowed where it is no less accurate */
  MMCI_FAST,     /* less accurate arithmetic is allowed: TF32 for f32 and c64 */
  /* Each element is one chain of fused multiply-adds from the first k to the last, beginning with
   * +0 or what it is added to, in the dtype, of f16 and bf16 in f32, or, of a product with few
   * elements and many terms, the sum of several such chains, as mmci_sums says. Of complex elements
   * the real part takes Re a Re b, then - Im a Im b, the imaginary part Re a Im b, then Im a Re b,
   * where a and b are the left and the right operand of the chain. Zeros are +0, and NaN is the
   * positive quiet one without a payload. */
  MMCI_REPRODUCIBLE,
  /* Large products are sums of whole numbers, as device/whole/whole.h says, no less accurate than
   * native ones unless rows of A grow along k where columns of B shrink; all others are as
   * MMCI_REPRODUCIBLE says. */
  MMCI_REPRODUCIBLE_FAITHFUL,
  MMCI_PRECISIONS
} mmci_precision;

/* Says whether the bits of a result are to depend on its factors and their order alone. */
static inline bool mmci_precision_is_reproducible(mmci_precision precision) {
  return precision == MMCI_REPRODUCIBLE || precision == MMCI_REPRODUCIBLE_FAITHFUL;
}

/* Returns "native" ...; NULL for other values. */
const char *mmci_precision_name(mmci_precision precision);
/* Reads the option; NULL stands for native. Returns: E_ARG. */
mmc_status mmci_precision_read(const char *name, mmci_precision *out, mmci_error *error);
/* Reads the option, or a tolerance, a number above 0 and below 1, which is MMCI_FAITHFUL;
 * *tolerance is 0 where there is none. Returns: E_ARG. */
mmc_status mmci_precision_read_tolerance(const char *name, mmci_precision *out, double *tolerance,
                                         mmci_error *error);

#endif

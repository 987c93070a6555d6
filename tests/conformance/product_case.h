/* product_case.h: one product, or a batch of them, on a device under test against sums in float64.
 */
#ifndef MMC_TEST_PRODUCT_CASE_H
#define MMC_TEST_PRODUCT_CASE_H

#include "device_stacks.h"

/* What operands hold. WIDE elements differ by powers of two at random; of GRADED ones the rows of A
 * and the columns of B shrink from first to last and what is summed grows, so that large terms hide
 * small ones. WITH_NAN and WITH_INF have such elements among ordinary ones and zeros. */
typedef enum values { ORDINARY, POSITIVE, WIDE, GRADED, WITH_NAN, WITH_INF, VALUES } values;

typedef struct product_case {
  mmci_gemm gemm;
  int shifts[3]; /* reals by which A, B and C are off what an allocation is aligned to */
  values values;
  bool twice;         /* the second run must give the bits of the first */
  const char *kernel; /* that must do it; NULL: the one that the device claims, if it claims any */
  uint64_t seed;      /* of the elements */
} product_case;

/* Forms by number from 0 to 3: as it is, transposed, conjugated, both. */
mmci_form form_of(int kind, int64_t rows, int64_t cols, int64_t gap);
/* Forms, gaps, precision, alignment and what is added to at random, in ordinary values. */
product_case random_case(mmc_dtype dtype, int64_t m, int64_t k, int64_t n, uint64_t *random);

/* Multiplies and compares each element of C, what lies beside them, and the kernel's name. An
 * element may be off by 4 k + 8 roundings of the sums' arithmetic times the sum of the products'
 * absolute values, which holds for any order of summation (Higham 2002, section 3.1); in ordinary
 * values, whose errors are off in either direction as it comes, by 8 sqrt(k) + 8, if that is less.
 */
bool try_product(const subject *on, const product_case *x);

#endif

/* ordered_complex.c: see ordered_complex.h. Its numbers are of 25 products and batches of up to 256
 * rows and columns on an H200, of which nine of ten predictions are off by 12 % at most. */
#include "device/cuda/product/ordered_complex.h"

#include <math.h>

#include "device/cuda/element_bytes.h"

/* A multiprocessor takes `shared` seconds for each term of each of its tiles, but a term of all of
 * them takes no less than `alone`. */
typedef struct tiles {
  int side;
  double shared, alone;
} tiles;

static const tiles C64[] = {{MMCI_ORDERED_C64_SMALL, 3.2e-8, 1.5e-7},
                            {MMCI_ORDERED_C64_LARGE, 1.16e-7, 1.8e-7}};
static const tiles C128[] = {{MMCI_ORDERED_C128_SMALL, 1.4e-8, 1.2e-7},
                             {MMCI_ORDERED_C128_LARGE, 3.8e-8, 1.5e-7}};

/* Terms are computed four at a time. What a tile takes besides is as long as some terms. */
static double seconds_of(const mmci_gemm *gemm, bool large, int multiprocessors) {
  enum { STEP = 4, EXTRA_TERMS = 8 };
  static const double LAUNCH_S = 3e-6, BYTES_PER_S = 3.2e12;
  const tiles *x = &(gemm->dtype == MMC_C64 ? C64 : C128)[large];
  const double m = (double)gemm->m, n = (double)gemm->n, k = (double)gemm->k,
               batch = gemm->batch > 1 ? (double)gemm->batch : 1;
  const double count = batch * ceil(m / x->side) * ceil(n / x->side),
               each = ceil(count / multiprocessors), terms = ceil(k / STEP) * STEP + EXTRA_TERMS,
               bytes =
                   batch * (m * k + k * n + m * n) * (double)mmci_cuda_element_bytes(gemm->dtype);
  return LAUNCH_S + fmax(terms * fmax(each * x->shared, x->alone), bytes / BYTES_PER_S);
}

bool mmci_ordered_complex_is_large(const mmci_gemm *gemm, int multiprocessors) {
  return seconds_of(gemm, true, multiprocessors) < seconds_of(gemm, false, multiprocessors);
}

double mmci_ordered_complex_seconds(const mmci_gemm *gemm, int multiprocessors) {
  return fmin(seconds_of(gemm, false, multiprocessors), seconds_of(gemm, true, multiprocessors));
}

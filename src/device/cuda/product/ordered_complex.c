/* ordered_complex.c: see ordered_complex.h. */
#include "device/cuda/product/ordered_complex.h"

#include <math.h>

#include "device/cuda/element_bytes.h"

/* A multiprocessor takes `shared` seconds for each term of each of its tiles, but a term of all of
 * them takes no less than `alone`; `start` seconds go by until the first terms are there. */
typedef struct cost {
  double shared, alone, start;
} cost;

/* Those of 32 x 32 and, of c128, 16 x 16 were fitted to 25 products and batches on an H200. The
 * others are estimates: cycles of 1.8 GHz for what a term of a tile is to the units that are
 * busiest, multiplied by 1.3. */
static const cost C64[MMCI_ORDERED_COMPLEX_TILES] = {
    {6e-9, 8e-9, 1e-6},     {2.4e-8, 2.8e-8, 1e-6}, {3.2e-8, 1.5e-7, 0},
    {5.2e-8, 5.8e-8, 1e-6}, {1.0e-7, 1.9e-7, 1e-6}, {2.0e-7, 2.2e-7, 1e-6}};
static const cost C128[MMCI_ORDERED_COMPLEX_TILES] = {
    {7e-9, 1.1e-8, 1e-6}, {1.4e-8, 1.2e-7, 0},    {1.8e-8, 2.4e-8, 1e-6},
    {3.8e-8, 1.5e-7, 0},  {5.4e-8, 6.0e-8, 1e-6}, {1.0e-7, 1.2e-7, 1e-6}};

static const mmci_ordered_complex_sides *sides_of(mmc_dtype dtype) {
#define SIDES(rows, cols) {rows, cols},
  static const mmci_ordered_complex_sides c64[MMCI_ORDERED_COMPLEX_TILES] = {MMCI_ORDERED_C64_TILES(
      SIDES)},
                                          c128[MMCI_ORDERED_COMPLEX_TILES] = {
                                              MMCI_ORDERED_C128_TILES(SIDES)};
#undef SIDES
  return dtype == MMC_C64 ? c64 : c128;
}

/* Terms are computed four at a time. What a tile takes besides is as long as some terms. Tiles lie
 * in the rows of a product that is not turned. */
double mmci_ordered_complex_seconds_by(const mmci_gemm *gemm, int tile, int multiprocessors) {
  enum { STEP = 4, EXTRA_TERMS = 8 };
  static const double LAUNCH_S = 3e-6, BYTES_PER_S = 3.2e12;
  const cost *x = &(gemm->dtype == MMC_C64 ? C64 : C128)[tile];
  const mmci_ordered_complex_sides *sides = &sides_of(gemm->dtype)[tile];
  const double m = (double)(gemm->turned ? gemm->n : gemm->m),
               n = (double)(gemm->turned ? gemm->m : gemm->n), k = (double)gemm->k,
               batch = gemm->batch > 1 ? (double)gemm->batch : 1;
  const double count = batch * ceil(m / sides->rows) * ceil(n / sides->cols),
               each = ceil(count / multiprocessors), terms = ceil(k / STEP) * STEP + EXTRA_TERMS,
               bytes =
                   batch * (m * k + k * n + m * n) * (double)mmci_cuda_element_bytes(gemm->dtype);
  return LAUNCH_S + x->start + fmax(terms * fmax(each * x->shared, x->alone), bytes / BYTES_PER_S);
}

int mmci_ordered_complex_choose(const mmci_gemm *gemm, int multiprocessors) {
  int best = 0;
  double least_s = mmci_ordered_complex_seconds_by(gemm, best, multiprocessors);
  for (int tile = 1; tile < MMCI_ORDERED_COMPLEX_TILES; tile++) {
    const double s = mmci_ordered_complex_seconds_by(gemm, tile, multiprocessors);
    if (s < least_s) {
      best = tile;
      least_s = s;
    }
  }
  return best;
}

double mmci_ordered_complex_seconds(const mmci_gemm *gemm, int multiprocessors) {
  const int tile = mmci_ordered_complex_choose(gemm, multiprocessors);
  return mmci_ordered_complex_seconds_by(gemm, tile, multiprocessors);
}

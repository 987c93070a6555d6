/* ordered_complex.c: see ordered_complex.h. */
#include "device/cuda/product/ordered_complex.h"

#include <math.h>

#include "device/cuda/element_bytes.h"

/* A multiprocessor takes `shared` seconds for each term of each of its tiles, but a term of all of
 * them takes no less than `alone`; both are `turned` times as long where an operand is. What a tile
 * takes besides is as long as `extra` terms, and what a launch takes is `start` seconds. */
typedef struct cost {
  double shared, alone, start, extra, turned;
} cost;

/* The costs were fitted to 55 products and batches on an H200, beside cuBLAS 13.1. */
static const cost C64[MMCI_ORDERED_COMPLEX_TILES] = {
    {6.17e-9, 6.70e-9, 4.6e-6, 102, 1.05}, {7.62e-9, 9.83e-9, 4.45e-6, 54, 1.15},
    {3.07e-8, 3.97e-8, 4.64e-6, 11, 1.06}, {2.75e-8, 1.21e-7, 4.86e-6, 12, 1.04},
    {5.71e-8, 7.15e-8, 4.37e-6, 7, 1.02},  {1.04e-7, 2.10e-7, 6.25e-6, 10, 1.03}};
static const cost C128[MMCI_ORDERED_COMPLEX_TILES] = {
    {6.07e-9, 8.91e-9, 4.75e-6, 74, 1.15}, {8.03e-9, 6.15e-8, 4.33e-6, 38, 2.2},
    {1.80e-8, 2.63e-8, 4.13e-6, 33, 1.6},  {2.62e-8, 8.11e-8, 4.62e-6, 28, 1.3},
    {4.68e-8, 6.78e-8, 4.19e-6, 41, 1.5},  {5.08e-8, 1.30e-7, 3.0e-6, 45, 1.15}};

static const mmci_ordered_complex_sides *sides_of(mmc_dtype dtype) {
#define SIDES(rows, cols) {rows, cols},
  static const mmci_ordered_complex_sides c64[MMCI_ORDERED_COMPLEX_TILES] = {MMCI_ORDERED_C64_TILES(
      SIDES)},
                                          c128[MMCI_ORDERED_COMPLEX_TILES] = {
                                              MMCI_ORDERED_C128_TILES(SIDES)};
#undef SIDES
  return dtype == MMC_C64 ? c64 : c128;
}

/* Terms are computed four at a time. Tiles lie in the rows of a product that is not turned. */
double mmci_ordered_complex_seconds_by(const mmci_gemm *gemm, int tile, int multiprocessors) {
  enum { STEP = 4 };
  static const double BYTES_PER_S = 3.2e12;
  const cost *x = &(gemm->dtype == MMC_C64 ? C64 : C128)[tile];
  const mmci_ordered_complex_sides *sides = &sides_of(gemm->dtype)[tile];
  const double m = (double)(gemm->turned ? gemm->n : gemm->m),
               n = (double)(gemm->turned ? gemm->m : gemm->n), k = (double)gemm->k,
               batch = gemm->batch > 1 ? (double)gemm->batch : 1;
  const double count = batch * ceil(m / sides->rows) * ceil(n / sides->cols),
               each = ceil(count / multiprocessors), terms = ceil(k / STEP) * STEP + x->extra,
               bytes =
                   batch * (m * k + k * n + m * n) * (double)mmci_cuda_element_bytes(gemm->dtype);
  const bool is_turned = gemm->a.trans != gemm->turned || gemm->b.trans != gemm->turned;
  const double sums_s = terms * fmax(each * x->shared, x->alone) * (is_turned ? x->turned : 1);
  return x->start + fmax(sums_s, bytes / BYTES_PER_S);
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

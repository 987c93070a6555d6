/* ordered_complex.h: which tiles ordered_complex.cu cuts a complex product or batch into, and how
 * long it takes. */
#ifndef MMCI_CUDA_PRODUCT_ORDERED_COMPLEX_H
#define MMCI_CUDA_PRODUCT_ORDERED_COMPLEX_H

#include "chain/gemm.h"

/* Rows and columns of tiles, and how many blocks of a tile each a multiprocessor holds. */
enum {
  MMCI_ORDERED_C64_LARGE = 64,
  MMCI_ORDERED_C64_LARGE_BLOCKS = 4,
  MMCI_ORDERED_C64_SMALL = 32,
  MMCI_ORDERED_C64_SMALL_BLOCKS = 12,
  MMCI_ORDERED_C128_LARGE = 32,
  MMCI_ORDERED_C128_LARGE_BLOCKS = 8,
  MMCI_ORDERED_C128_SMALL = 16,
  MMCI_ORDERED_C128_SMALL_BLOCKS = 12
};

/* Says whether large tiles are predicted to take less time than small ones, on so many
 * multiprocessors. */
bool mmci_ordered_complex_is_large(const mmci_gemm *gemm, int multiprocessors);

/* Predicts the seconds of a product or batch by the tiles that are chosen, launch included. */
double mmci_ordered_complex_seconds(const mmci_gemm *gemm, int multiprocessors);

#endif

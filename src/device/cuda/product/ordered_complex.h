/* ordered_complex.h: which tiles ordered_complex.cu cuts a complex product or batch into, and how
 * long it takes. The bits are the same by any. */
#ifndef MMCI_CUDA_PRODUCT_ORDERED_COMPLEX_H
#define MMCI_CUDA_PRODUCT_ORDERED_COMPLEX_H

#include "chain/gemm.h"

/* Rows and columns of the tiles of each dtype, which are numbered from 0. */
typedef struct mmci_ordered_complex_sides {
  int rows, cols;
} mmci_ordered_complex_sides;

#define MMCI_ORDERED_C64_TILES(X) X(8, 8) X(16, 8) X(32, 32) X(32, 32) X(64, 32) X(64, 64)
#define MMCI_ORDERED_C128_TILES(X) X(16, 8) X(16, 16) X(16, 32) X(32, 32) X(64, 32) X(32, 64)
enum { MMCI_ORDERED_COMPLEX_TILES = 6 };

/* Returns the number of the tile that is predicted to take least on so many multiprocessors. */
int mmci_ordered_complex_choose(const mmci_gemm *gemm, int multiprocessors);

/* Predicts the seconds of a product or batch by that tile, launch included. */
double mmci_ordered_complex_seconds(const mmci_gemm *gemm, int multiprocessors);

/* Predicts those by any tile. */
double mmci_ordered_complex_seconds_by(const mmci_gemm *gemm, int tile, int multiprocessors);

#endif

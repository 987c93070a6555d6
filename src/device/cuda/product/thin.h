/* thin.h: products of few elements and long sums, and batches of small products, by thin.cu: which
 * of them it computes faster than cuBLAS, how long it takes, and how it shares them out. */
#ifndef MMCI_CUDA_PRODUCT_THIN_H
#define MMCI_CUDA_PRODUCT_THIN_H

#include "chain/gemm.h"

/* Says whether a product without a batch, of floating point, is one that thin.cu computes faster
 * than cuBLAS. */
bool mmci_thin_pays(const mmci_gemm *gemm);
/* Predicts the microseconds that thin.cu takes for such a product, launch included. */
double mmci_thin_us(const mmci_gemm *gemm);
/* Predicts the microseconds of a batch of small products of floating point, launch included; NAN
 * where thin.cu was not measured. */
double mmci_thin_batch_us(const mmci_gemm *gemm);

enum {
  MMCI_THIN_WARP = 32,
  MMCI_THIN_WARPS = 16,              /* most warps of a block */
  MMCI_THIN_SIDE = 4,                /* rows and columns of a block's tile; 1 of a vector's */
  MMCI_THIN_WARPS_AT_ONCE = 132 * 16 /* warps of all blocks that work together */
};

/* Returns the tiles along rows or columns of C. */
static inline int64_t mmci_thin_tiles(int64_t length) {
  return length == 1 ? 1 : (length + MMCI_THIN_SIDE - 1) / MMCI_THIN_SIDE;
}

/* Returns the warps of each of so many blocks: a thread takes two terms of a sum, or more where all
 * blocks together would be too many. */
static inline int mmci_thin_warps(int64_t k, int64_t blocks) {
  const int64_t most = MMCI_THIN_WARPS, two = (k + 2 * MMCI_THIN_WARP - 1) / (2 * MMCI_THIN_WARP),
                shared = MMCI_THIN_WARPS_AT_ONCE / blocks, few = shared < 2 ? 2 : shared;
  const int64_t warps = two < few ? two : few;
  return (int)(warps < most ? warps : most);
}

#endif

/* vectors.h: batches of matrices by vectors and of vectors by matrices, by vectors.cu: which of
 * them it computes, how it shares them out, and how long it takes. */
#ifndef MMCI_CUDA_PRODUCT_VECTORS_H
#define MMCI_CUDA_PRODUCT_VECTORS_H

#include "chain/gemm.h"

/* A batch as lines of a stored matrix and a vector: element e of line l of the matrix is at
 * l * ld + e * step. Along, every line has its own sum, over its elements; across, every element of
 * a line has, over the lines. There are `outs` sums of `terms` terms a product. */
typedef struct mmci_vectors_cut {
  int64_t outs, terms, products;
  int64_t ld, step;                   /* of the matrix; step is 1 but where one sum lies across */
  int64_t x_step, y_step;             /* from element to element of the vector, and of the result */
  int64_t stride, x_stride, y_stride; /* from product to product */
  bool matrix_is_left, along;
  bool conj, x_conj;
  int32_t word;   /* elements of a line, and along, of the vector, that are read at once */
  int32_t lanes;  /* along: threads that share a sum, a power of 2 up to MMCI_VECTORS_THREADS */
  int32_t across; /* across: threads side by side in a tile, each with `word` sums */
  int32_t shares; /* across: threads that share a sum */
  int64_t blocks;
} mmci_vectors_cut;

enum {
  MMCI_VECTORS_THREADS = 256, /* of a block */
  MMCI_VECTORS_FEW = 4        /* words that a thread reads together where no more are left */
};

#ifdef __cplusplus
#define MMCI_VECTORS_INLINE static constexpr __host__ __device__
#else
#define MMCI_VECTORS_INLINE static inline
#endif
/* Returns how many words of so many bytes a thread reads together, where it has so many: memory is
 * waited for once for all of them. */
MMCI_VECTORS_INLINE int mmci_vectors_many(int bytes) {
  return bytes >= 4 ? 64 / bytes : 16;
}

/* Says whether vectors.cu computes such a batch: of floating point, with one row or one column, no
 * size 0, neither gathered nor added to C, with fewer than 2^31 elements of all results and 2^32
 * bytes between the first term of a sum and the last. */
bool mmci_vectors_supports(const mmci_gemm *gemm);
/* Shares out a batch that is supported, of operands at these addresses; NULL stands for one of
 * which nothing is known but that it is a multiple of 16 bytes. */
mmci_vectors_cut mmci_vectors_cut_of(const mmci_gemm *gemm, const void *a, const void *b);
/* Predicts the microseconds of it, launch included; NAN where it is not supported. */
double mmci_vectors_us(const mmci_gemm *gemm);

#endif

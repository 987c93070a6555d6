/* outer.h: products of f16 and bf16 whose sums are short beside what is written, by outer.cu: which
 * of them it computes, how it shares them out, and how long it takes. */
#ifndef MMCI_CUDA_PRODUCT_OUTER_H
#define MMCI_CUDA_PRODUCT_OUTER_H

#include "chain/gemm.h"

/* How a product is cut: into tiles of so many bands of rows, one after the other, and so many
 * columns; the last of each may be smaller. A packed tile has all columns of C, which lie in one
 * piece. */
typedef struct mmci_outer_cut {
  int32_t bands, rows, cols, pitch; /* pitch: elements from row to row of C in shared memory */
  int32_t shared_bytes, threads;
  int64_t tiles; /* of one product */
  bool packed;
} mmci_outer_cut;

#ifdef __CUDACC__
#define MMCI_OUTER_INLINE static __host__ __device__ __forceinline__
#else
#define MMCI_OUTER_INLINE static inline
#endif
/* Returns the elements from row to row of so many, that are read 8 rows at a time: an odd number of
 * words of 8, so that they begin in different banks. */
MMCI_OUTER_INLINE uint32_t mmci_outer_pitch(uint32_t elements) {
  return ((elements + 7) / 8 | 1) * 8;
}
/* Returns the elements of shared memory for so many lines of an operand of so many terms, with
 * their terms together or their lines. */
MMCI_OUTER_INLINE uint32_t mmci_outer_lines(uint32_t lines, uint32_t terms) {
  const uint32_t whole = (lines + 15) / 16 * 16, together = whole * (terms + 8),
                 apart = terms * mmci_outer_pitch(whole);
  return together > apart ? together : apart;
}

/* Says whether outer.cu computes such a product, or a batch: of f16 or bf16 and up to 32 terms, no
 * size 0, neither gathered nor added to C. */
bool mmci_outer_supports(const mmci_gemm *gemm);
/* Cuts a product that is supported. */
mmci_outer_cut mmci_outer_cut_of(const mmci_gemm *gemm);
/* Predicts the microseconds of it, launch included; NAN where it is not supported. */
double mmci_outer_us(const mmci_gemm *gemm);

#endif

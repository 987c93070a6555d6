/* vector_chains.h: chains whose running product is a vector, by vector_chains.cu: which of them it
 * takes, how their matrices are cut into chunks, and how many warps work on a chain. */
#ifndef MMCI_CUDA_GROUP_VECTOR_CHAINS_H
#define MMCI_CUDA_GROUP_VECTOR_CHAINS_H

#include "device/cuda/group/group.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  MMCI_VECTOR_STEPS = 8,       /* matrices of a chain, at most */
  MMCI_VECTOR_WARPS = 8,       /* warps of a block that multiply */
  MMCI_VECTOR_BLOCKS = 3,      /* blocks of a multiprocessor that kernels are compiled for */
  MMCI_VECTOR_SHARES = 32,     /* threads that share a sum, at most */
  MMCI_VECTOR_SUMS_BYTES = 32, /* bytes of a thread's sums, at most */
  MMCI_VECTOR_SLOTS = 2        /* of a team's ring */
};

/* A matrix that a vector meets, stored as lines of elements without gaps. Along, each line has its
 * own sum, over its elements; across, each element of a line has, over the lines. */
typedef struct mmci_vector_step {
  const void *data;
  int64_t stride;
  uint32_t lines, length;
  uint32_t each; /* lines of a chunk */
  uint8_t operand;
  bool along, conj;
} mmci_vector_step;

typedef struct mmci_vector_chain {
  mmci_vector_step steps[MMCI_VECTOR_STEPS];
  const void *x;
  void *y;
  int64_t x_stride, y_stride, batch;
  uint32_t first, most;         /* elements of x, and of the longest vector */
  uint32_t x_bytes, slot_bytes; /* room for x in a slot, and the slot */
  uint8_t count, word;          /* steps; elements that are read at once */
  uint8_t team;                 /* warps that work on a chain */
  uint8_t x_operand;
  bool x_conj;
} mmci_vector_chain;

/* Lays the chain out; returns false when the kernel does not take it. Matrices may not be shared by
 * chains, nor lie at addresses of their own, and half of the multiprocessors must have a chain. */
bool mmci_vector_chain_plan(const mmci_group_limits *limits, const mmci_group *chain,
                            mmci_vector_chain *out);
/* Returns how many blocks a multiprocessor works on together. */
int mmci_vector_chain_blocks(const mmci_group_limits *limits, mmc_dtype dtype,
                             const mmci_vector_chain *x);
/* Returns a block's shared memory. */
size_t mmci_vector_chain_bytes(mmc_dtype dtype, const mmci_vector_chain *x);
/* Returns the lanes that share one of so many lines of so many words, where it is summed along: a
 * power of two. Few lanes have little to add up in the end, and of short lines so few that lanes of
 * several lines read from different banks; where there are few lines, so many as are left. */
#ifdef __cplusplus
#define MMCI_VECTOR_INLINE static constexpr __host__ __device__
#else
#define MMCI_VECTOR_INLINE static inline
#endif
MMCI_VECTOR_INLINE uint32_t mmci_vector_lanes(uint32_t words, uint32_t lines, uint32_t threads) {
  enum { WARP = 32, SOME = 8, FEW_WORDS = 48, MANY_WORDS = 256 };
  if (words >= MANY_WORDS) return WARP;
  uint32_t lanes = SOME;
  if (words <= FEW_WORDS)
    while (words % lanes != 0) lanes /= 2;
  while (lanes > words) lanes /= 2;
  while (2 * lanes <= WARP && 2 * lanes <= words && 2 * lanes * lines <= threads) lanes *= 2;
  return lanes;
}
/* Returns the rounds of a team's threads, side by side, over the words of a line that is summed
 * across, and in *shares how many lines they take together. */
MMCI_VECTOR_INLINE uint32_t mmci_vector_rounds(uint32_t words, uint32_t lines, uint32_t threads,
                                               uint32_t *shares) {
  const uint32_t rounds = (words + threads - 1) / threads, width = (words + rounds - 1) / rounds;
  uint32_t most = threads / width;
  if (most > MMCI_VECTOR_SHARES) most = MMCI_VECTOR_SHARES;
  *shares = most < lines ? most : lines;
  return rounds;
}

/* Lets words be so small that the addresses of operands and result are whole words. */
void mmci_vector_chain_bind(mmc_dtype dtype, mmci_vector_chain *x, const void *const *operands,
                            void *c);
/* Makes the kernels of all words ready. */
mmc_status mmci_vector_chain_prepare(mmc_dtype dtype, const mmci_vector_chain *x,
                                     mmci_error *error);
mmc_status mmci_vector_chain_launch(cudaStream_t stream, const mmci_group_limits *limits,
                                    mmc_dtype dtype, const mmci_vector_chain *x, mmci_error *error);

#ifdef __cplusplus
}
#endif

#endif

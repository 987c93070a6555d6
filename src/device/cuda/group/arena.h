/* arena.h: where the matrices of one chain lie in shared memory, and for how long. */
#ifndef MMCI_CUDA_GROUP_ARENA_H
#define MMCI_CUDA_GROUP_ARENA_H

#include "chain/group.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A matrix, which lives from product first to product last; -1 is before all products. The caller
 * sets pitch and size, in elements. */
typedef struct mmci_place {
  int64_t rows, cols;
  uint32_t at, pitch, size;
  int first, last;
} mmci_place;

/* Operands are loaded all at first; while the product before is computed; or when needed. */
typedef enum mmci_hurry { MMCI_EAGER, MMCI_AHEAD, MMCI_LATE } mmci_hurry;

/* Says whether no dimension of a product exceeds MMCI_GROUP_SIDE, or MMCI_GROUP_ALONE_SIDE where it
 * is a reproducible one on its own. */
bool mmci_arena_is_small(const mmci_group *chain);
/* Says whether a chain is small and has 1 to `most` products, and no factors beside theirs. */
bool mmci_arena_takes(const mmci_group *chain, int most);
/* Finds the sizes and lives of operands and results; the last result lives until its product. */
void mmci_arena_find_lives(const mmci_group *chain, mmci_hurry when, mmci_place *places);
/* Gives each of the matrices the lowest place that no other has at the same time. Returns how many
 * elements they take. */
uint32_t mmci_arena_lay_out(int count, mmci_place *places);

/* Returns the factor by which quotient() of group_kernels.cuh divides by the divisor: right for
 * numbers that times the divisor are below 2^32. */
static inline uint32_t mmci_arena_magic(uint32_t divisor) {
  return divisor > 1 ? (uint32_t)((((uint64_t)1 << 32) + divisor - 1) / divisor) : 0;
}

static inline uint32_t mmci_arena_up(int64_t x, uint32_t to) {
  return ((uint32_t)x + to - 1) / to * to;
}

#ifdef __cplusplus
}
#endif

#endif

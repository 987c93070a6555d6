/* chain_spines.h: what chain_spines.c lays out for chain_spines.cu. */
#ifndef MMCI_CUDA_CHAIN_SPINES_H
#define MMCI_CUDA_CHAIN_SPINES_H

#include "device/cuda/chain.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  MMCI_SPINES_THREADS = 256,
  MMCI_SPINES_GROUPS = 8,  /* pieces that a block works on side by side, at most */
  MMCI_SPINES_LENGTH = 32, /* operands of a spine */
  MMCI_SPINES_RESULT = -1, /* the place of the chain's result */
};

/* An operand of a spine, k x n; that of a product lies in the scratch, row-major. */
typedef struct mmci_spine_operand {
  int64_t scratch; /* in elements; -1: operand number source, at an address of the caller's */
  int64_t ld;
  int32_t source;
  int16_t rows, cols;
  int8_t trans, wide; /* wide: 16 bytes at once, where the address allows it */
  int16_t pad;
} mmci_spine_operand;

/* A spine that a piece waits for: its counter grows by this much a launch. */
typedef struct mmci_spine_wait {
  int32_t counter, pieces;
} mmci_spine_wait;

/* Rows row to row + rows of a spine. Beyond the operands' number lie none. */
typedef struct mmci_spine_piece {
  int64_t to, ld; /* in the scratch, or MMCI_SPINES_RESULT */
  int32_t first, operands, first_wait, waits, counter;
  int16_t row, rows;
} mmci_spine_piece;

/* Pieces that one block takes together: side by side, threads / groups each. */
typedef struct mmci_spine_task {
  int32_t first, pieces, groups;
  int32_t group_elements; /* of each group's shared memory; 0: few rows, one group */
} mmci_spine_task;

/* What the kernel is told. It lies in the device's memory but for the operands' addresses, which
 * are spaced evenly, or travel with the launch when they are few, or are put into a table before.
 */
typedef struct mmci_spines_call {
  const mmci_spine_task *tasks;
  const mmci_spine_piece *pieces;
  const mmci_spine_operand *operands;
  const mmci_spine_wait *waits;
  unsigned long long *ticket; /* grows by tasks + blocks a launch; NULL: a block has one task */
  unsigned *counters;
  void *scratch, *c;
  const void **table;
  const char *base; /* not NULL: operand i is at base + i * step bytes */
  int64_t step;
  int32_t tasks_count, depth; /* depth: factors on their way where a piece has many rows */
} mmci_spines_call;

/* What a kernel takes of shared memory and how long a piece may be. */
typedef struct mmci_spines_facts {
  int rows_most; /* up to so many rows the sums over k are shared by warps */
  size_t rows_bytes;
} mmci_spines_facts;

/* dtype MMC_F32 or MMC_F64, side 32, 64 or 128. */
mmci_spines_facts mmci_spines_kernel_facts(mmc_dtype dtype, int side);
mmc_status mmci_spines_kernel_prepare(mmc_dtype dtype, int side, size_t shared_bytes,
                                      mmci_error *error);
mmc_status mmci_spines_kernel_launch(cudaStream_t stream, bool overlap, mmc_dtype dtype, int side,
                                     size_t shared_bytes, int blocks, int32_t n,
                                     const mmci_spines_call *call, const void *const *operands,
                                     mmci_error *error);

#ifdef __cplusplus
}
#endif

#endif

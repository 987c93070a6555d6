/* spines.h: what spines.c lays out for spines.cu. */
#ifndef MMCI_CUDA_GROUP_SPINES_H
#define MMCI_CUDA_GROUP_SPINES_H

#include "device/cuda/group/group.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  MMCI_SPINES_THREADS = 256,
  MMCI_SPINES_GROUPS = 8,  /* pieces that a block works on side by side */
  MMCI_SPINES_LENGTH = 32, /* most operands of a spine */
  MMCI_SPINES_FEW = 16,    /* most operands that travel with the launch of a single spine */
  MMCI_SPINES_FEW_ROWS = 2 /* most rows of a block there */
};

/* Ways in which an operand is copied: element by element, also from its transpose, or 16 bytes at
 * once where the address allows it. */
enum { MMCI_SPINES_PLAIN, MMCI_SPINES_TRANSPOSED, MMCI_SPINES_WIDE };

/* An operand of a spine, rows x cols, of every chain of the batch. */
typedef struct mmci_spine_operand {
  alignas(16) const
      void *data; /* NULL means operand number source, at an address of the caller's */
  int64_t ld;
  int64_t stride; /* bytes from a chain's matrix to that of the next chain */
  int32_t source;
  uint8_t rows, cols, way;
  uint8_t gathered; /* the address is that of an array of the chains' addresses */
} mmci_spine_operand;

/* A spine that a piece waits for; its counter grows by this much with each launch. */
typedef struct mmci_spine_wait {
  int32_t counter, pieces;
} mmci_spine_wait;

/* Rows row to row + rows of a chain's spine. There are no pieces beyond the number of operands. */
typedef struct mmci_spine_piece {
  alignas(16) void *to; /* NULL means the chain's result */
  int64_t ld, stride;   /* stride: bytes from a chain's result to that of the next chain */
  int32_t chain, counter;
  int16_t operands, waits, row, rows;
} mmci_spine_piece;

/* Pieces that one block takes together, side by side, each by threads >> split threads. It heads a
 * record of all that a block must know: for each piece, piece_bytes apart, the piece, its operands
 * and its waits. */
typedef struct mmci_spine_task {
  int32_t pieces, split;
  /* Elements of each group's shared memory; 0 means that there are few rows, and one group. */
  int32_t group_elements;
  int32_t piece_bytes;
} mmci_spine_task;

enum {
  MMCI_SPINES_PIECE_BYTES =
      sizeof(mmci_spine_piece) +
      MMCI_SPINES_LENGTH * (sizeof(mmci_spine_operand) + sizeof(mmci_spine_wait)),
  MMCI_SPINES_RECORD_BYTES = sizeof(mmci_spine_task) + MMCI_SPINES_GROUPS * MMCI_SPINES_PIECE_BYTES
};

/* The argument of the kernel. The operands' addresses are spaced evenly, or travel with the launch
 * when they are few, or are put into a table before. */
typedef struct mmci_spines_call {
  const char *records; /* one for each task, record_bytes apart, multiples of 16 */
  /* Its upper half counts the launches so far, its lower half the tasks that blocks have drawn.
   * NULL means that a block has one task. */
  unsigned long long *ticket;
  unsigned *counters;
  void *c; /* the result, or the array of the chains' results where c_gathered */
  const void **table;
  const char *base; /* when not NULL, operand i is at base + i * step bytes */
  int64_t step;
  int32_t tasks_count, record_bytes;
  int32_t depth; /* how many factors are fetched ahead where a piece has many rows: 1 to 3 */
  bool c_gathered;
} mmci_spines_call;

/* Chains that are one spine of few operands each; stride is that of a piece. */
typedef struct mmci_spine_alone {
  void *to;
  int64_t ld, stride;
  int32_t operands, rows, batch;
  mmci_spine_operand list[MMCI_SPINES_FEW]; /* operands with their data */
} mmci_spine_alone;

/* The shared memory that a kernel takes, and the most rows of a piece. */
typedef struct mmci_spines_facts {
  int rows_most; /* up to so many rows, warps share the sums over k */
  size_t rows_bytes;
} mmci_spines_facts;

/* Which kernel is meant: dtype MMC_F32 or MMC_F64, side 32, 64 or 128. It is even, of side 32 or
 * 64, when all matrices are squares of that side, none transposed, rows and addresses in whole
 * 16-byte words, and rows so near that 32 bits count the elements of a matrix. */
typedef struct mmci_spines_kind {
  mmc_dtype dtype;
  int side;
  bool even;
} mmci_spines_kind;

mmci_spines_facts mmci_spines_kernel_facts(mmci_spines_kind kind);
mmc_status mmci_spines_kernel_prepare(mmci_spines_kind kind, size_t shared_bytes,
                                      mmci_error *error);
mmc_status mmci_spines_kernel_launch(cudaStream_t stream, bool overlap, mmci_spines_kind kind,
                                     size_t shared_bytes, int blocks, int32_t n,
                                     const mmci_spines_call *call, const void *const *operands,
                                     mmci_error *error);
mmc_status mmci_spines_kernel_launch_alone(cudaStream_t stream, bool overlap, mmci_spines_kind kind,
                                           const mmci_spine_alone *alone, mmci_error *error);

#ifdef __cplusplus
}
#endif

#endif

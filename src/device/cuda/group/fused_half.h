/* fused_half.h: two products of f16 or bf16 in one kernel of Hopper's tensor cores, as C sees it.
 *
 * A left fuse, (A B) C, keeps T = A B in registers, up to MMCI_FUSED_HALF_WIDTH columns of it. A
 * right fuse, A (B C), is the left fuse of the transposed matrices, ((C' B') A')'. T is rounded to
 * the dtype as a product of its own is, sums are in f32, nothing is added by atomics. */
#ifndef MMCI_CUDA_GROUP_FUSED_HALF_H
#define MMCI_CUDA_GROUP_FUSED_HALF_H

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  MMCI_FUSED_HALF_WIDTH = 256, /* the widest intermediate that registers keep, in columns */
  MMCI_FUSED_HALF_BOX = 64,    /* rows and columns of what is loaded and stored at once */
  MMCI_FUSED_HALF_BOXES = 28   /* boxes that shared memory holds */
};

/* A matrix as the kernel multiplies it, rows x cols; its rows lie ld elements apart, or its columns
 * when by_columns, and the next one of a batch stride elements further. */
typedef struct mmci_fused_half_matrix {
  int64_t rows, cols, ld, stride;
  bool by_columns;
} mmci_fused_half_matrix;

typedef struct mmci_fused_half {
  mmc_dtype dtype;
  bool right;          /* the operands have changed places */
  int64_t m, k, w, n;  /* A m x k, B k x w, C w x n */
  int64_t batch;       /* >= 1 */
  int first, last;     /* the operands of the chain that are A and C */
  int multiprocessors; /* multiprocessors of the device */
  mmci_fused_half_matrix a, b, c, d;
} mmci_fused_half;

/* What the kernel is started with: tensor maps of boxes of 64 x 64 elements, and sizes. */
typedef struct mmci_fused_half_maps {
  CUtensorMap a, b, c, d;
} mmci_fused_half_maps;

/* Says whether the kernel can compute the chain on Hopper: two products of three operands of f16 or
 * bf16, nothing empty or gathered, whole 16 bytes from line to line, and an intermediate that is
 * narrow enough. Fills out. */
bool mmci_fused_half_describe(const mmci_group *chain, int multiprocessors, mmci_fused_half *out);
/* Returns static text: "fused left bf16 128x128". */
const char *mmci_fused_half_name(const mmci_fused_half *fused);
/* Returns how many bytes of operands, result and repeated weights go through the L2, and how many
 * flops a multiprocessor does, rounded up to whole tiles. */
typedef struct mmci_fused_half_work {
  double memory_bytes; /* every operand once, and the result */
  double cache_bytes;  /* what all blocks load */
  double flops;        /* of the busiest multiprocessor, tiles filled up */
} mmci_fused_half_work;
mmci_fused_half_work mmci_fused_half_work_of(const mmci_fused_half *fused);

/* Lets the kernel have, on the current device, the shared memory that it needs. */
mmc_status mmci_fused_half_prepare(const mmci_fused_half *fused, mmci_error *error);
/* Enqueues the kernel; operands are those of the chain. Fails with MMC_E_UNSUPPORTED where an
 * address is not a multiple of 16 bytes. */
mmc_status mmci_fused_half_enqueue(cudaStream_t stream, const mmci_fused_half *fused,
                                   const void *const *operands, void *out, mmci_error *error);

/* What the kernels in fused_half.cu share with the host. */
typedef struct mmci_fused_half_job {
  int m, n, w;            /* elements */
  int k_blocks, w_blocks; /* blocks of 64 */
  int chunks;             /* pieces of the columns of C */
  int rounds, blocks; /* rounds of rows of one matrix of the batch, and blocks that share them */
  int stages, kept;   /* pieces of B and C in all, and those that stay in shared memory */
  int slots, a_stages, outs; /* places for such pieces, for blocks of A, and results of a group */
  bool a_by_columns, b_by_columns, c_by_columns, d_by_columns;
  bool is_repeated[4]; /* A, B, C and D: one matrix for the whole batch */
  /* Tensor copies would write whole 16 bytes past the end of D's lines where d_ragged; the last
   * ones are written element by element. */
  bool d_ragged;
  int d_length, d_lines; /* elements of a line, and lines */
  int64_t d_ld, d_stride;
  void *d;
} mmci_fused_half_job;

/* Kernels by width of T, columns of C that are worked on at once, and dtype; a slot holds a piece
 * of B or C, and so many groups work on 64 rows each. */
typedef struct mmci_fused_half_kernel {
  int width, chunk, groups, slot_bytes;
  const char *left[2], *right[2];
  const void *function[2]; /* f16, bf16 */
} mmci_fused_half_kernel;
enum { MMCI_FUSED_HALF_KERNELS = 5 };
extern const mmci_fused_half_kernel mmci_fused_half_kernels[MMCI_FUSED_HALF_KERNELS];

#ifdef __cplusplus
}
#endif

#endif

/* fused_tf32.h: two products of f32 in one kernel of Hopper's tensor cores in TF32, as C sees it.
 *
 * As fused_half.h, with B and C whole in the shared memory of every multiprocessor. Operands, and
 * T, are rounded to nearest TF32; sums are in f32, nothing is added by atomics. */
#ifndef MMCI_CUDA_GROUP_FUSED_TF32_H
#define MMCI_CUDA_GROUP_FUSED_TF32_H

#include "device/cuda/group/fused_half.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  MMCI_FUSED_TF32_ROWS = 64,          /* rows of a group of warps */
  MMCI_FUSED_TF32_TERMS = 32,         /* terms in a line of 128 bytes of shared memory */
  MMCI_FUSED_TF32_STAGE_BYTES = 8192, /* rows by terms of A */
  MMCI_FUSED_TF32_STAGES = 16         /* such places at most */
};

/* Says whether the kernel can compute the chain on Hopper: two products of three operands of f32
 * that may be rounded to TF32, B and C that fit in shared memory, and whole 16 bytes from line to
 * line of A. Fills out. */
bool mmci_fused_tf32_describe(const mmci_group *chain, int multiprocessors, mmci_fused_half *out);
/* Returns static text: "fused left tf32 wgmma 128x128". */
const char *mmci_fused_tf32_name(const mmci_fused_half *fused);
/* Returns the microseconds that the kernel is predicted to take, by what was measured on an H200.
 */
double mmci_fused_tf32_us(const mmci_fused_half *fused);
/* Lets the kernel have, on the current device, the shared memory that it needs. */
mmc_status mmci_fused_tf32_prepare(const mmci_fused_half *fused, mmci_error *error);
/* Enqueues the kernel; operands are those of the chain. Fails with MMC_E_UNSUPPORTED where A's
 * address is not a multiple of 16 bytes. */
mmc_status mmci_fused_tf32_enqueue(cudaStream_t stream, const mmci_fused_half *fused,
                                   const void *const *operands, void *out, mmci_error *error);

/* What the kernel in fused_tf32.cu shares with the host. Element (r, c) of a matrix is at r * row +
 * c * col, for chain i of the batch i * batch further. */
typedef struct mmci_fused_tf32_place {
  int64_t row, col, batch;
} mmci_fused_tf32_place;

typedef struct mmci_fused_tf32_job {
  int m, k, w, n;         /* elements */
  int k_blocks, w_blocks; /* blocks of 32 terms */
  int chunks;             /* pieces of the columns of C */
  int rounds, blocks; /* rounds of rows of one matrix of the batch, and blocks that share them */
  int stages;         /* places for A of each group */
  bool a_by_columns, a_is_repeated;
  bool in_pairs; /* D's rows lie in whole pairs of elements */
  mmci_fused_tf32_place b_place, c_place, d_place;
  const float *b, *c;
  float *d;
} mmci_fused_tf32_job;

/* A multiprocessor does so many flops in a microsecond. */
typedef struct mmci_fused_tf32_kernel {
  int width, chunk, groups;
  double flops;
  const char *left, *right;
  const void *function;
} mmci_fused_tf32_kernel;
enum { MMCI_FUSED_TF32_KERNELS = 3 };
extern const mmci_fused_tf32_kernel mmci_fused_tf32_kernels[MMCI_FUSED_TF32_KERNELS];

#ifdef __cplusplus
}
#endif

#endif

/* fused.h: two products in one kernel, as C sees it; the intermediate never leaves the chip.
 *
 * In a left fuse, (A B) C, a block owns whole rows of T = A B, keeps them in shared memory and
 * multiplies them by C. A right fuse, A (B C), is the left fuse of the transposed matrices, ((C'
 * B') A')'. Nothing is added by atomics, so the same operands give the same bits. The fused kernels
 * of the TEE-ACM2 poster, from which these derive, add into memory by atomics; docs/energy.md
 * compares. */
#ifndef MMCI_CUDA_GROUP_FUSED_H
#define MMCI_CUDA_GROUP_FUSED_H

#ifndef MMCI_EMULATE_CUDA
#include <cuda_runtime_api.h>
#endif

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The widest intermediates that a block keeps, in columns: of f32, and of f64 and TF32. Those above
 * the latter take longer than two products (docs/benchmarks.md), and run where they are asked for.
 */
enum { MMCI_FUSED_WIDTH = 64, MMCI_FUSED_WIDEST = 1024 };

/* Describes a chain of three operands as the left kernel computes it, D' and C' B' A' when
 * by_columns. Element (r, c) of an operand is at r * row + c * col, for chain i of a batch batch *
 * i elements further. */
typedef struct mmci_fused_place {
  int64_t row, col, batch;
} mmci_fused_place;

typedef struct mmci_fused {
  mmc_dtype dtype;
  bool tf32;
  bool right;                /* the operands have changed places */
  int64_t m, k, w, n;        /* A m x k, B k x w, C w x n */
  int64_t batch;             /* >= 1 */
  mmci_fused_place place[4]; /* where A, B, C and D lie */
  int first, last;           /* the operands of the chain that are A and C */
  int multiprocessors;       /* multiprocessors of the device */
} mmci_fused;

/* Says whether the kernel can compute the chain: two products of three operands, f32 (TF32 when
 * fast) or f64, nothing gathered, an intermediate of at most MMCI_FUSED_WIDTH columns (left) or
 * rows (right), or of MMCI_FUSED_WIDEST in f32. Fills out. */
bool mmci_fused_describe(const mmci_group *chain, int multiprocessors, mmci_fused *out);
/* Returns static text: "fused left f32 128x64". */
const char *mmci_fused_name(const mmci_fused *fused);
/* Lets the kernels have, on the current device, the shared memory that they need. */
mmc_status mmci_fused_prepare(const mmci_fused *fused, mmci_error *error);
/* Enqueues the kernel; operands are those of the chain. */
mmc_status mmci_fused_enqueue(cudaStream_t stream, const mmci_fused *fused,
                              const void *const *operands, void *out, mmci_error *error);

#ifdef __cplusplus
}
#endif

#endif

/* emulated.h: FP32 products on the tensor cores of Ampere and Hopper, with no more error than
 * cuBLAS's FP32; docs/faithful.md says how and when.
 *
 * Every number is split into three bytes, on Hopper and where all rows of op(A) and columns of
 * op(B) are spread evenly enough, or else into two FP16 parts. What those cannot hold as well as
 * FP32 does (NaN, infinity, rows where a few elements outweigh the rest) is found while splitting
 * and computed in FP64, element by element of C. All of that is decided on the device: nothing
 * waits, and work can be captured in a graph. */
#ifndef MMCI_CUDA_EMULATED_EMULATED_H
#define MMCI_CUDA_EMULATED_EMULATED_H

#include <cuda_runtime_api.h>

#include "device/cuda/emulated/emulated_kernels.h"

/* A prepared product. It holds the parts, so its executions must follow each other: on one stream,
 * or on streams that wait for each other. */
typedef struct mmci_emulated mmci_emulated;

/* Returns the kernel's name, as plans and explain show it. */
const char *mmci_emulated_name(mmci_emulated_kind kind);

/* Says whether there are kernels for it: products of real FP32 matrices, compute capability 8.0 or
 * 9.0, no size 0. Those of a batch go one after the other. */
bool mmci_emulated_supports(const struct cudaDeviceProp *device, const mmci_gemm *gemm);
/* Says whether it was measured to be faster than FP32 and as accurate on a device of so many
 * multiprocessors (docs/faithful.md). */
bool mmci_emulated_pays(const mmci_gemm *gemm, int multiprocessors);

/* Returns the bytes of device memory that a prepared product holds: 4 for every element of A and B
 * and 24 for each row of A and column of B, with k rounded up to a multiple of 64 and those to one
 * of 32. */
uint64_t mmci_emulated_bytes(const mmci_gemm *gemm);

/* Prepares a product for the current device, which has so many multiprocessors. Returns E_NOMEM,
 * E_DEVICE, E_UNSUPPORTED (the driver has no tensor maps). */
mmc_status mmci_emulated_prepare(const mmci_gemm *gemm, mmci_emulated_kind kind,
                                 int multiprocessors, mmci_emulated **out, mmci_error *error);
void mmci_emulated_release(mmci_emulated *emulated);

/* Says that B is A, transposed, at the same address, so that its parts are those of A; or, with
 * false, that it need not be. Returns whether they are. */
bool mmci_emulated_share_own(mmci_emulated *emulated, bool alike);

/* Enqueues C = A B or C += A B, as prepared; addresses are in device memory, aligned to 4 bytes. */
mmc_status mmci_emulated_enqueue(cudaStream_t stream, const mmci_emulated *emulated, const float *a,
                                 const float *b, float *c, mmci_error *error);

/* Returns the kind that is likely the fastest: bytes for many long sums on Hopper, else FP16 parts.
 */
mmci_emulated_kind mmci_emulated_choose(const struct cudaDeviceProp *device, const mmci_gemm *gemm);

#endif

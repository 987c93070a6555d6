/* toy_kernel.h: a kernel for products that the CUDA device does not have. */
#ifndef TOY_KERNEL_H
#define TOY_KERNEL_H

#include "chain/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues C = A B on the stream: f32, no ops, no batch, not accumulating. Addresses are of the
 * device's memory. Returns E_DEVICE when the launch fails. */
mmc_status toy_kernel_enqueue(cudaStream_t stream, const mmci_gemm *gemm, const float *a,
                              const float *b, float *c, mmci_error *error);

#ifdef __cplusplus
}
#endif

#endif

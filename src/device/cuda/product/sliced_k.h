/* sliced_k.h: C = op(A) op(B) of few elements, in native FP32: k in slices, so that the whole chip
 * works on a product whose tiles alone would leave most of it idle.
 *
 * A block computes a small tile of C, and each of its warps another slice of every step along k.
 * Where even so there are too few blocks, the tile is a cluster's: each of its blocks, up to 8, has
 * a part of k and sends its sums through the cluster's shared memory to whoever adds them and
 * writes C. Nothing goes through memory of the device and nothing is added by atomics: the result
 * is the same in every run. A kernel has one shape of the tile, and a number of warps that share
 * its steps:
 *
 *     0  16 x 32, 8    1  16 x 32, 4    2  32 x 32, 8    3  32 x 32, 4    4  64 x 64, 2
 *
 * Numbers of shapes stay what they are: records name them. Operands and C lie anywhere; those at
 * multiples of 16 bytes are read faster. Clusters need compute capability 9.0 or later; elsewhere
 * a tile is one block's. No device memory is taken. In FP64 such kernels gained nothing over
 * cuBLAS, whose own use the tensor cores. */
#ifndef MMCI_CUDA_PRODUCT_SLICED_K_H
#define MMCI_CUDA_PRODUCT_SLICED_K_H

#include <cuda_runtime_api.h>

#include "device/cuda/product/sliced_k_kernels.h"
#include "device/device.h"

/* A prepared product. */
typedef struct mmci_sliced_k {
  const mmci_sliced_k_kernel *kernel;
  const void *function;
  mmci_sliced_k_job job; /* the job without its addresses */
} mmci_sliced_k;

/* Returns how many shapes there are for the dtype; 0 when there are none. */
int mmci_sliced_k_shapes(mmc_dtype dtype);
/* Returns static text: "sliced_k 16x32 k8". */
const char *mmci_sliced_k_name(int shape);
/* Says whether a device of these properties computes the product, whose lines do not overlap, in
 * this shape: those that are too large for these kernels to pay are left to others. */
bool mmci_sliced_k_supports(const struct cudaDeviceProp *device, const mmci_gemm *gemm, int shape);

/* Prepares the product for the current device, whose properties are given. Returns E_UNSUPPORTED
 * (no such shape here), E_DEVICE. Sizes of gemm are positive; its variant does not matter. */
mmc_status mmci_sliced_k_prepare(const struct cudaDeviceProp *device, const mmci_gemm *gemm,
                                 int shape, mmci_sliced_k *out, mmci_error *error);
/* Enqueues the product; all addresses are in device memory. Returns once the work is launched;
 * allocates nothing. */
mmc_status mmci_sliced_k_enqueue(const mmci_sliced_k *product, cudaStream_t stream, const void *a,
                                 const void *b, void *c, mmci_error *error);

#endif

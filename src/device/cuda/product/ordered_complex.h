/* ordered_complex.h: large reproducible products of complex elements, by real ones.
 *
 * A row of A, real parts beside imaginary ones, times [B; iB], each row of B followed by the same
 * times i, takes the very terms of MMCI_REPRODUCIBLE in their order: one real product of m x 2k by
 * 2k x 2n, by the tiles of large_tile.h, right into C. It is not for turned products, whose
 * imaginary parts have another order. */
#ifndef MMCI_CUDA_PRODUCT_ORDERED_COMPLEX_H
#define MMCI_CUDA_PRODUCT_ORDERED_COMPLEX_H

#include <cuda_runtime_api.h>

#include "device/device.h"

typedef struct mmci_ordered_complex mmci_ordered_complex;

/* Returns the real product of an upright product of c64 or c128 whose sizes are positive. */
mmci_gemm mmci_ordered_complex_real(const mmci_gemm *gemm);

/* Returns the bytes of device memory that it holds, by a shape of large_tile.h. */
uint64_t mmci_ordered_complex_bytes(const struct cudaDeviceProp *device, const mmci_gemm *gemm,
                                    int shape);
/* Takes what the product needs on the current device, whose properties are given, for one stream at
 * a time. Returns E_UNSUPPORTED, E_NOMEM, E_DEVICE. */
mmc_status mmci_ordered_complex_prepare(const struct cudaDeviceProp *device, const mmci_gemm *gemm,
                                        int shape, mmci_ordered_complex **out, mmci_error *error);
void mmci_ordered_complex_release(mmci_ordered_complex *x);
mmc_status mmci_ordered_complex_enqueue(const mmci_ordered_complex *x, cudaStream_t stream,
                                        const void *a, const void *b, void *c, mmci_error *error);

#endif

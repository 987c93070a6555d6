/* complex_by_real.h: large products of complex elements, by real ones.
 *
 * A row of A, real parts beside imaginary ones, times [B; iB], each row of B followed by the same
 * times i, is a row of C: one real product of m x 2k by 2k x 2n, right into C. Whole tiles of
 * large_tile.h take the very terms of MMCI_REPRODUCIBLE in their order, but not for turned
 * products, whose imaginary parts have another order. Faithful products are emulated ones of f32,
 * or f64 by residues. */
#ifndef MMCI_CUDA_PRODUCT_COMPLEX_BY_REAL_H
#define MMCI_CUDA_PRODUCT_COMPLEX_BY_REAL_H

#include <cuda_runtime_api.h>

#include "device/device.h"

typedef struct mmci_complex_product mmci_complex_product;

/* Returns the real product of one product of c64 or c128 whose sizes are positive; of a batch, each
 * of whose products is computed alone, that of one. Sums of whole numbers are computed upright. */
mmci_gemm mmci_complex_by_real(const mmci_gemm *gemm);

/* These are of MMCI_REPRODUCIBLE products by a shape of large_tile.h, and of MMCI_FAITHFUL ones,
 * whose shape is not asked for. */

/* Returns the bytes of device memory that it holds. */
uint64_t mmci_complex_product_bytes(const struct cudaDeviceProp *device, const mmci_gemm *gemm,
                                    int shape);
/* Takes what the product needs on the current device, whose properties are given, for one stream at
 * a time. Returns E_UNSUPPORTED, E_NOMEM, E_DEVICE. */
mmc_status mmci_complex_product_prepare(mmci_device *device, const mmci_gemm *gemm, int shape,
                                        mmci_complex_product **out, mmci_error *error);
void mmci_complex_product_release(mmci_complex_product *product);
mmc_status mmci_complex_product_enqueue(const mmci_complex_product *product, cudaStream_t stream,
                                        const void *a, const void *b, void *c, mmci_error *error);

#endif

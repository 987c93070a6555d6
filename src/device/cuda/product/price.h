/* price.h: what products take by the kernels that they go to; mmci_cuda_product_seconds() and
 * mmci_cuda_product_better() are in cuda_device.h. */
#ifndef MMCI_CUDA_PRODUCT_PRICE_H
#define MMCI_CUDA_PRODUCT_PRICE_H

#include "device/cuda/product/way.h"

/* Returns the seconds of the loops of ordered.cu, ordered_complex.cu and ordered_half.cu, which
 * compute whole tiles, at rates that were measured on an H200. */
double mmci_cuda_loops_seconds(const mmci_device *device, const mmci_gemm *gemm);
/* Returns the seconds of a reproducible product by cuBLAS and a passage over its result, or by
 * loops; NAN for large complex ones, which are real ones. */
double mmci_cuda_in_order_seconds(const mmci_device *device, const mmci_gemm *gemm,
                                  mmci_way_kind kind);

#endif

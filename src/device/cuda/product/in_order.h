/* in_order.h: reproducible products by algorithms of cuBLASLt that were seen to add up as the
 * kernels of ordered.cu and ordered_half.cu do.
 *
 * An algorithm may use no workspace and no cut of k. The first time that one is proposed for a kind
 * of operands, it multiplies small matrices, and what it does is compared with those kernels, bit
 * for bit; where it differs, it is never taken. So a product has the same bits, whichever is. */
#ifndef MMCI_CUDA_PRODUCT_IN_ORDER_H
#define MMCI_CUDA_PRODUCT_IN_ORDER_H

#include <cuda_runtime_api.h>

#include "device/device.h"

typedef struct mmci_in_order mmci_in_order;

enum { MMCI_IN_ORDER_KNOWN = 256 };

/* What is known of algorithms on a device: the last ones that were compared. */
typedef struct mmci_in_order_known {
  int count; /* of all times */
  uint64_t keys[MMCI_IN_ORDER_KNOWN];
  bool same[MMCI_IN_ORDER_KNOWN];
} mmci_in_order_known;

/* Says whether an algorithm may be looked for: numbers without imaginary parts, results that are
 * not added to, and enough to do. */
bool mmci_in_order_pays(const mmci_gemm *gemm);

/* Prepares a product or a strided batch for the current device, whose cuBLAS was found. With
 * as_sums, results are sums that are neither rounded nor settled, of 16 bits in f32. Returns
 * E_UNSUPPORTED where no algorithm adds up in this order, E_NOMEM, E_DEVICE. */
mmc_status mmci_in_order_prepare(mmci_device *device, const mmci_gemm *gemm, bool as_sums,
                                 mmci_in_order **out, mmci_error *error);
void mmci_in_order_release(mmci_in_order *product);

/* Says whether operands lie where the algorithm reads them. */
bool mmci_in_order_takes(const void *a, const void *b, const void *c);
mmc_status mmci_in_order_enqueue(cudaStream_t stream, const mmci_in_order *product, const void *a,
                                 const void *b, void *c, mmci_error *error);

#endif

/* products.h: a batch of a device's products, one by one where the device takes no batches. */
#ifndef MMCI_SCAN_PRODUCTS_H
#define MMCI_SCAN_PRODUCTS_H

#include "device/device.h"

typedef struct mmci_products {
  mmci_gemm gemm;
  mmci_kernel *kernel; /* NULL where there is no product */
  bool one_by_one;
} mmci_products;

/* Prepares the products of gemm. Returns also E_UNSUPPORTED, where the device has none of that
 * dtype. */
mmc_status mmci_products_prepare(const mmci_opened *on, const mmci_gemm *gemm, mmci_products *out,
                                 mmci_error *error);
void mmci_products_release(const mmci_opened *on, mmci_products *products);
mmc_status mmci_products_enqueue(const mmci_opened *on, mmci_queue *queue,
                                 const mmci_products *products, const void *a, const void *b,
                                 void *c, mmci_error *error);

#endif

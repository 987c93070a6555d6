/* blas_chain.h: whole chains, as device.h describes them, for the device "blas". One execution of a
 * kernel at a time. */
#ifndef MMCI_BLAS_CHAIN_H
#define MMCI_BLAS_CHAIN_H

#include "device/device.h"

/* Factors and results of at most MMCI_CHAIN_SIDE rows and columns, whose products stay in cache. */
enum { MMCI_CHAIN_SIDE = 128 };

bool mmci_blas_chain_supports(const mmci_device *device, const mmci_device_chain *chain);
const char *mmci_blas_chain_name(const mmci_device *device, const mmci_device_chain *chain);
mmc_status mmci_blas_chain_prepare(mmci_device *device, const mmci_device_chain *chain,
                                   mmci_chain_kernel **out, mmci_error *error);
void mmci_blas_chain_release(mmci_chain_kernel *kernel);
mmc_status mmci_blas_chain_enqueue(mmci_queue *queue, const mmci_chain_kernel *kernel,
                                   const void *const *operands, void *c, mmci_error *error);

#endif

/* blas_group.h: the group_* slots of device.h for the device "blas". A kernel does one execution at
 * a time. */
#ifndef MMCI_BLAS_GROUP_H
#define MMCI_BLAS_GROUP_H

#include "device/device.h"

/* Factors and results have at most so many rows and columns, so that the products stay in cache. */
enum { MMCI_GROUP_SIDE = 128 };

bool mmci_blas_group_supports(const mmci_device *device, const mmci_group *group);
const char *mmci_blas_group_name(const mmci_device *device, const mmci_group *group);
mmc_status mmci_blas_group_prepare(mmci_device *device, const mmci_group *group,
                                   mmci_group_kernel **out, mmci_error *error);
void mmci_blas_group_release(mmci_group_kernel *kernel);
mmc_status mmci_blas_group_enqueue(mmci_queue *queue, const mmci_group_kernel *kernel,
                                   const void *const *operands, void *c, mmci_error *error);

#endif

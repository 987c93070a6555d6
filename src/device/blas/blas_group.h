/* blas_group.h: whole chains, as device.h describes them, for the device "blas". One execution of a
 * kernel at a time. */
#ifndef MMCI_BLAS_GROUP_H
#define MMCI_BLAS_GROUP_H

#include "device/device.h"

/* Factors and results of at most MMCI_GROUP_SIDE rows and columns, whose products stay in cache. */
enum { MMCI_GROUP_SIDE = 128 };

bool mmci_blas_group_supports(const mmci_device *device, const mmci_group *group);
const char *mmci_blas_group_name(const mmci_device *device, const mmci_group *group);
mmc_status mmci_blas_group_prepare(mmci_device *device, const mmci_group *group,
                                   mmci_group_kernel **out, mmci_error *error);
void mmci_blas_group_release(mmci_group_kernel *kernel);
mmc_status mmci_blas_group_enqueue(mmci_queue *queue, const mmci_group_kernel *kernel,
                                   const void *const *operands, void *c, mmci_error *error);

#endif

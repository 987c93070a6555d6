/* stacks.h: stacks of matrices on the host on their way to the device and back, where they lie
 * one after the other without gaps. */
#ifndef MMCI_STACKS_H
#define MMCI_STACKS_H

#include "device/device.h"

/* Elements of one matrix. */
int64_t mmci_stack_stride(const mmc_matrix *matrix);

/* Matrices begin to end of a batch to device, or from it. In as few transfers as they lie in. */
mmc_status mmci_stack_upload(const mmci_device_ops *ops, mmci_queue *queue, mmc_dtype dtype,
                             const mmc_matrix *matrix, int64_t begin, int64_t end, char *device,
                             mmci_error *error);
mmc_status mmci_stack_download(const mmci_device_ops *ops, mmci_queue *queue, mmc_dtype dtype,
                               const mmc_matrix *matrix, int64_t begin, int64_t end, char *device,
                               mmci_error *error);

#endif

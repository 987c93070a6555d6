/* stacks.h: moves stacks of matrices between the host and the device, where they lie one after the
 * other without gaps. */
#ifndef MMCI_STACKS_H
#define MMCI_STACKS_H

#include "device/device.h"

/* Returns the elements of one matrix. */
int64_t mmci_stack_stride(const mmc_matrix *matrix);

/* Move matrices begin to end of a batch to the device, or from it, in as few transfers as the
 * layout allows. */
mmc_status mmci_stack_upload(const mmci_device_ops *ops, mmci_queue *queue, mmc_dtype dtype,
                             const mmc_matrix *matrix, int64_t begin, int64_t end, char *device,
                             mmci_error *error);
mmc_status mmci_stack_download(const mmci_device_ops *ops, mmci_queue *queue, mmc_dtype dtype,
                               const mmc_matrix *matrix, int64_t begin, int64_t end, char *device,
                               mmci_error *error);

#endif

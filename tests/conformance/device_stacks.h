/* device_stacks.h: stacks of matrices (tests/stacks.h) that a device under test sees. */
#ifndef MMC_TEST_DEVICE_STACKS_H
#define MMC_TEST_DEVICE_STACKS_H

#include "../stacks.h"
#include "devices.h"

/* Lays a stack out, all of it 0xff; on a device with memory of its own in memory of both. Elements
 * begin shift reals past where an allocation is aligned. device_stack_destroy() takes it in any
 * case. */
bool device_stack_create(stack *x, const subject *on, mmc_dtype dtype, int64_t rows, int64_t cols,
                         int64_t batch, mmci_form form, int shift);
void device_stack_destroy(stack *x, const subject *on);

/* To the device and back, on a queue; a download has landed on return. Where the host's memory is
 * the device's, nothing moves. */
mmc_status device_stack_upload(const stack *x, const subject *on, mmci_queue *queue,
                               mmci_error *error);
mmc_status device_stack_download(const stack *x, const subject *on, mmci_queue *queue,
                                 mmci_error *error);

/* What a product or a group takes as the operand: the first matrix's address, or the table's. */
void *device_stack_argument(const stack *x);

#endif

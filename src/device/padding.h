/* padding.h: the copies of a product whose operands get zeros around them (mmci_gemm_padded), on a
 * device with memory of its own. */
#ifndef MMCI_PADDING_H
#define MMCI_PADDING_H

#include "device/device.h"

enum { MMCI_PADDED_OPERANDS = 3 }; /* copies of A, B and C */

typedef struct mmci_padding {
  int multiple; /* the multiple of elements that lines get; 0 means that there are no copies */
  char *room;   /* mmci_padding_bytes() bytes in the device's memory */
  mmci_gemm gemm, padded;
  void *copies[MMCI_PADDED_OPERANDS]; /* the copy; NULL where the operand is used as it lies */
} mmci_padding;

/* Sees which operands of gemm need copies, and writes the product of the copies to padding->padded.
 * multiple and room have been set. */
void mmci_padding_bind(mmci_padding *padding, const mmci_gemm *gemm);

/* begin, before the product, copies A and B, and C when it is added to, and lets a, b and c point
 * at the copies. end, after it, copies C back to the caller's c. Both work in the queue and
 * allocate nothing. */
mmc_status mmci_padding_begin(const mmci_padding *padding, const mmci_device_ops *ops,
                              mmci_queue *queue, const void **a, const void **b, void **c,
                              mmci_error *error);
mmc_status mmci_padding_end(const mmci_padding *padding, const mmci_device_ops *ops,
                            mmci_queue *queue, void *c, mmci_error *error);

#endif

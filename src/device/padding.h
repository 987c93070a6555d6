/* padding.h: a product whose operands have zeros around them (mmci_gemm_padded), on a device with
 * memory of its own: the copies that it takes. */
#ifndef MMCI_PADDING_H
#define MMCI_PADDING_H

#include "device/device.h"

enum { MMCI_PADDED_OPERANDS = 3 }; /* A, B, C */

typedef struct mmci_padding {
  int multiple; /* of elements; 0: no copies */
  char *room;   /* in the device's memory, mmci_padding_bytes() */
  mmci_gemm gemm, padded;
  void *copies[MMCI_PADDED_OPERANDS]; /* NULL: used where it lies */
} mmci_padding;

/* Sees which operands of gemm need copies, and what gemm is with them: padding->padded. multiple
 * and room are set. */
void mmci_padding_bind(mmci_padding *padding, const mmci_gemm *gemm);

/* Before the product: copies A and B, and C when it is added to; a, b, c become where the product
 * has them. After it: copies C back to the caller's c. In the queue; allocates nothing. */
mmc_status mmci_padding_begin(const mmci_padding *padding, const mmci_device_ops *ops,
                              mmci_queue *queue, const void **a, const void **b, void **c,
                              mmci_error *error);
mmc_status mmci_padding_end(const mmci_padding *padding, const mmci_device_ops *ops,
                            mmci_queue *queue, void *c, mmci_error *error);

#endif

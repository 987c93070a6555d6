/* cuda_order.h: the table solvers of the CUDA module. Each solves order on the current device,
 * fills splits, multiplications, seconds, kernel_used and, when asked, table; and releases all that
 * it took, on failure too. */
#ifndef MMCI_CUDA_ORDER_CUDA_ORDER_H
#define MMCI_CUDA_ORDER_CUDA_ORDER_H

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Ties are broken as mmc_order_create() says (order.h: mmci_tie_goes_before()): let K be the splits
 * of least cost of (i, j), L the lightest (least dim, leftmost of equals) of i, j and K. The split
 * is L when it is in K, the greatest of K when L is i, the least of K when L is j. */

/* Solves by the kernels "tiled" and "auto": ours, blocked (min,+) products. */
mmc_status mmci_cuda_order_tiled(mmci_device_order *order, mmci_error *error);

/* Solves by the kernels "thread", "block", "blocks" and "paper": Nishida, Ito and Nakano (2011),
 * section IV. */
mmc_status mmci_cuda_order_paper(mmci_device_order *order, mmci_error *error);

#ifdef __cplusplus
}
#endif

#endif

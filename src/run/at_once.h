/* at_once.h: executes a chain once, without a plan and a run that would be kept for more. */
#ifndef MMCI_AT_ONCE_H
#define MMCI_AT_ONCE_H

#include "device/device.h"
#include "plan/plan.h"

/* Multiplies a chain of one product or more in the order of its products, which are as in
 * mmci_tree and computed by these recipes. The result has the bits that a run gives whose steps
 * are plain calls or, where they are small, one call. *done is false, and out is as it was, where
 * only a run can do it: the device computes some product otherwise, intermediates are large, or the
 * result lies as a table of addresses or by columns. Returns what mmci_matrices_check()
 * does, E_NOMEM. */
mmc_status mmci_multiply_at_once(const mmci_device_ops *ops, mmci_device *device,
                                 const mmc_chain *chain, const mmci_product *products,
                                 const mmci_recipe *recipes, const mmc_matrix *factors,
                                 const mmc_matrix *out, bool *done, mmci_error *error);

#endif

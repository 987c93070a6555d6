/* streamed.h: runs a plan that does not fit into the device's memory: intermediates are on the
 * host, and every product passes through the device in panels. */
#ifndef MMCI_STREAMED_H
#define MMCI_STREAMED_H

#include "run/actions.h"

typedef struct mmci_streamed mmci_streamed;

/* Makes one; actions must outlive it. */
mmc_status mmci_streamed_create(mmci_actions *actions, mmci_streamed **out, mmci_error *error);
void mmci_streamed_destroy(mmci_streamed *streamed);

/* Do what mmc_execute() and mmc_enqueue() say; both wait for the end. */
mmc_status mmci_streamed_execute(mmci_streamed *streamed, const mmc_matrix *factors,
                                 const mmc_matrix *out, mmci_error *error);
mmc_status mmci_streamed_enqueue(mmci_streamed *streamed, void *stream, const mmc_matrix *factors,
                                 const mmc_matrix *out, mmci_error *error);

#endif

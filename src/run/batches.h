/* batches.h: multiplies a batch with more chains than fit into the device's memory, in chunks that
 * pass through it. */
#ifndef MMCI_BATCHES_H
#define MMCI_BATCHES_H

#include "run/actions.h"

typedef struct mmci_batches mmci_batches;

/* whole multiplies the plan's chunk of chains; rest, which may be NULL, the chains that are left at
 * the end. Both must outlive it. */
mmc_status mmci_batches_create(mmci_actions *whole, mmci_actions *rest, mmci_batches **out,
                               mmci_error *error);
void mmci_batches_destroy(mmci_batches *batches);

/* Do what mmc_execute() and mmc_enqueue() say; both wait for the end. */
mmc_status mmci_batches_execute(mmci_batches *batches, const mmc_matrix *factors,
                                const mmc_matrix *out, mmci_error *error);
mmc_status mmci_batches_enqueue(mmci_batches *batches, void *stream, const mmc_matrix *factors,
                                const mmc_matrix *out, mmci_error *error);

#endif

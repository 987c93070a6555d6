/* sparse.h: chains of which factors are sparse: planned from their nonzeros, and executed. */
#ifndef MMCI_SPARSE_H
#define MMCI_SPARSE_H

#include "device/device.h"
#include "sparse/order.h"

typedef struct mmci_sparse_chain mmci_sparse_chain;

/* Plans. traits are NULL or say what each factor is. The device must outlive the chain; factors and
 * traits may go. Returns E_ARG, E_UNSUPPORTED, E_NOMEM. */
mmc_status mmci_sparse_chain_create(const mmci_opened *on, mmc_dtype dtype, int64_t n,
                                    const mmc_sparse_factor *factors, const uint32_t *traits,
                                    mmci_sparse_request request, mmci_sparse_chain **out,
                                    mmci_error *error);
void mmci_sparse_chain_destroy(mmci_sparse_chain *chain);
mmc_status mmci_sparse_chain_explain(const mmci_sparse_chain *chain, mmc_format format,
                                     mmc_write_fn write, void *user, mmci_error *error);
const mmci_sparse_order *mmci_sparse_chain_order(const mmci_sparse_chain *chain);

/* Executes with matrices of the same sides and kinds. The result goes to dense, or is made in
 * sparse, whichever was planned for; the other is NULL. Returns E_ARG (also where a factor is
 * singular or not definite), E_NOMEM, E_DEVICE. */
mmc_status mmci_sparse_chain_execute(mmci_sparse_chain *chain, const mmc_sparse_factor *factors,
                                     const mmc_matrix *dense, mmci_csr *sparse, mmci_error *error);

#endif

/* traffic_fusion.h: plans for least traffic: which steps share a kernel, and the words they move.
 *
 * A fusion is in the cost alone, and steps and workspace are those of the same order without it,
 * until mmci_plan_choose_groups() makes one call of a pair. */
#ifndef MMCI_TRAFFIC_FUSION_H
#define MMCI_TRAFFIC_FUSION_H

#include "plan/predictions.h"

/* Reads the options fuse, on_chip_words and tile of mmc_plan_options. Returns E_ARG. */
mmc_status mmci_traffic_request_read(const mmc_plan_options *options, mmci_traffic_request *out,
                                     mmci_error *error);

/* Chooses the fusions of a plan whose steps are final. Returns E_NOMEM, E_OVERFLOW. */
mmc_status mmci_plan_fuse(mmci_plan *plan, const mmci_traffic_request *request, mmci_error *error);

/* Plans the chain in the order of least traffic; mmci_plan_fuse() must follow. Returns E_ARG (too
 * many factors), E_NOMEM, E_OVERFLOW, E_MEMORY_LIMIT. */
mmc_status mmci_plan_create_joint(const mmc_chain *chain, int64_t on_chip_words, mmci_bounds bounds,
                                  mmci_plan *out, mmci_error *error);

#endif

/* layout.h: the sequence of a tree's products, and a place in the workspace for every result. */
#ifndef MMCI_LAYOUT_H
#define MMCI_LAYOUT_H

#include "plan/plan.h"

/* Fills plan->steps and workspace_bytes from its chain and tree; may be called again. When
 * parallel, sub-trees that meet in a product share no memory, so that both may be computed at the
 * same time. */
mmc_status mmci_plan_lay_out(mmci_plan *plan, bool parallel, mmci_error *error);

/* Lays the plan out anew for at most `most` >= 1 chains at a time, about the same number each time.
 */
mmc_status mmci_plan_set_chunk(mmci_plan *plan, int64_t most, mmci_error *error);

/* Bytes that an element of the chains that are multiplied together takes in all of them. */
size_t mmci_plan_element_bytes(const mmci_plan *plan);

#endif

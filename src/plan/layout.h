/* layout.h: the sequence of a tree's products, and a place in the workspace for every result. */
#ifndef MMCI_LAYOUT_H
#define MMCI_LAYOUT_H

#include "plan/plan.h"

/* Fills plan->steps and workspace_bytes from its chain and tree; it may be called again. When the
 * plan is no tree, its steps are there already and mmci_plan_place() gives the results their
 * places. When parallel, sub-trees that meet in a product share no memory, so that both may be
 * computed at the same time. */
mmc_status mmci_plan_lay_out(mmci_plan *plan, bool parallel, mmci_error *error);

/* Gives every result of a plan with groups, or with results that are read several times, a place by
 * its exact lifetime, and sets workspace_bytes. When the plan is parallel, memory is used again
 * only by what waits for its last readers. It takes time quadratic in the number of calls where
 * results are read several times by calls that run at the same time. Returns E_NOMEM. */
mmc_status mmci_plan_place(mmci_plan *plan, mmci_error *error);

/* Counts the levels of steps whose operands are known. */
void mmci_plan_count_levels(mmci_plan *plan);
/* Finds which of these have common results. */
void mmci_plan_find_common(mmci_plan *plan);
/* Lays the plan out anew for at most `most` >= 1 chains at a time, about the same number each
 * time. */
mmc_status mmci_plan_set_chunk(mmci_plan *plan, int64_t most, mmci_error *error);

/* Returns the bytes that one element takes in all of the chains that are multiplied together. */
size_t mmci_plan_element_bytes(const mmci_plan *plan);
/* Returns those of a matrix that is common to all chains, or not. */
static inline size_t mmci_plan_matrix_element_bytes(const mmci_plan *plan, bool is_common) {
  return is_common ? mmc_dtype_size(plan->chain->dtype) : mmci_plan_element_bytes(plan);
}

#endif

/* fewest.h: plans of fewest multiplications, or in the order of a solver. */
#ifndef MMCI_FEWEST_H
#define MMCI_FEWEST_H

#include "plan/plan.h"

/* Longer chains are ordered as if each chain of a batch had matrices of its own. */
enum { MMCI_COMMON_MOST_FACTORS = 64 };

/* Plans of more steps are trees: placing results that are read several times takes time quadratic
 * in their number. */
enum { MMCI_SHARED_MOST_STEPS = 2048 };

/* Plans the chain with the solver of that name. All but hu-shing and left-to-right count what the
 * chains of a batch share once. "auto" computes once what repeats, when the chain
 * says which factors are the same, that takes fewer multiplications and its results fit within the
 * limit. Returns what mmc_plan_create() does. */
mmc_status mmci_plan_create(const mmc_chain *chain, const char *solver, mmci_bounds bounds,
                            mmci_plan *out, mmci_error *error);
/* Plans the chain as mmci_plan_create() does, but never computes once what repeats: the plan has
 * n-1 steps. */
mmc_status mmci_plan_create_tree(const mmc_chain *chain, const char *solver, mmci_bounds bounds,
                                 mmci_plan *out, mmci_error *error);

#endif

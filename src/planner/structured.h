/* structured.h: plans of chains whose factors have structure. */
#ifndef MMCI_STRUCTURED_PLAN_H
#define MMCI_STRUCTURED_PLAN_H

#include "planner/objective.h"

/* Says whether the chain has inverses, which only a plan of this kind computes. */
bool mmci_chain_has_inverses(const mmc_chain *chain);

/* Plans the chain, whose traits are known, for multiplications or for time. Where beats_dense is
 * not NULL it tells whether no dense plan can take as little time; false says nothing. Returns
 * E_UNSUPPORTED where the device, the dtype or an option does not go with it; E_NOMEM, E_OVERFLOW,
 * E_MEMORY_LIMIT, E_ARG (an order that cuts through a group). */
mmc_status mmci_plan_structured(const mmci_planning *p, bool by_time, const char *device,
                                bool *beats_dense, mmci_plan *out, mmci_error *error);

#endif

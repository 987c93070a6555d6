/* planner.h: makes plans for a device, in one sequence for all objectives. */
#ifndef MMCI_PLANNER_H
#define MMCI_PLANNER_H

#include "plan/plan.h"
#include "wisdom/wisdom.h"

struct mmci_opened;
typedef struct mmci_objective mmci_objective;

/* Finds the objective of that name; NULL means fewest multiplications. Returns E_ARG. */
mmc_status mmci_objective_read(const char *name, const mmci_objective **out, mmci_error *error);

/* Checks what the options say about the objective and what goes with it. Returns E_ARG. */
mmc_status mmci_planner_check(const mmci_objective *objective, const mmc_plan_options *options,
                              mmci_error *error);

/* Plans the chain for the device, which must stay. options has this library's size and is checked.
 * *precision is the one asked for, and on return the one to be used; tolerance is what the result
 * may be off by, 0 where nothing was said. Returns what mmc_plan_create() does. */
mmc_status mmci_planner_plan(const mmci_objective *objective, const mmc_chain *chain,
                             const mmc_plan_options *options, const struct mmci_opened *on,
                             const char *device, mmci_wisdom *wisdom, mmci_precision *precision,
                             double tolerance, mmci_plan *out, mmci_error *error);

#endif

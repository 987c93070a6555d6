/* planner.h: plans for a device, whatever they are made for, in one sequence. */
#ifndef MMCI_PLANNER_H
#define MMCI_PLANNER_H

#include "plan/plan.h"
#include "wisdom/wisdom.h"

struct mmci_opened;
typedef struct mmci_objective mmci_objective;

/* The objective of that name; NULL: that of fewest multiplications. Returns E_ARG. */
mmc_status mmci_objective_read(const char *name, const mmci_objective **out, mmci_error *error);

/* Checks what the options say of the objective and of what goes with it. Returns E_ARG. */
mmc_status mmci_planner_check(const mmci_objective *objective, const mmc_plan_options *options,
                              mmci_error *error);

/* Plans the chain for the device, which must stay. options: of this library's size, and checked.
 * *precision: the one that is asked for, then the one to be used. Returns what mmc_plan_create()
 * does. */
mmc_status mmci_planner_plan(const mmci_objective *objective, const mmc_chain *chain,
                             const mmc_plan_options *options, const struct mmci_opened *on,
                             const char *device, mmci_wisdom *wisdom, mmci_precision *precision,
                             mmci_plan *out, mmci_error *error);

#endif

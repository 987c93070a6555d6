/* objective_flops.c: plans of fewest multiplications. */
#include "planner/fewest.h"
#include "planner/objective.h"

static mmc_status order(mmci_planning *p, mmci_error *error) {
  return mmci_plan_create(p->chain, p->solver, mmci_planning_bounds(p), &p->plan, error);
}

/* Groups must save a hundredth of the arithmetic's seconds; less is not worth placing the results
 * anew. */
static mmc_status group(mmci_planning *p, mmci_error *error) {
  const double least_gain = 0.01;
  return mmci_planning_group(p, least_gain, error);
}

const mmci_objective mmci_objective_flops = {
    .name = "flops", .takes_kernel = true, .order = order, .group = group};

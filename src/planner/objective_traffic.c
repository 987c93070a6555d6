/* objective_traffic.c: plans of fewest words between the chip and its memory. */
#include "planner/fewest.h"
#include "planner/objective.h"
#include "planner/offers.h"
#include "planner/traffic_fusion.h"

static mmc_status order(mmci_planning *p, mmci_error *error) {
  const mmci_bounds bounds = mmci_planning_bounds(p);
  return p->traffic.joint
             ? mmci_plan_create_joint(p->chain, p->traffic.chip.words, bounds, &p->plan, error)
             : mmci_plan_create_tree(p->chain, p->solver, bounds, &p->plan, error);
}

/* Makes groups of the pairs that are fused. */
static mmc_status group(mmci_planning *p, mmci_error *error) {
  mmc_status status = mmci_plan_fuse(&p->plan, &p->traffic, error);
  if (status == MMC_OK) status = mmci_planning_group(p, 0, error);
  return status == MMC_OK ? mmci_plan_count_pairs(&p->plan, p->on, p->precision, error) : status;
}

const mmci_objective mmci_objective_traffic = {
    .name = "traffic", .takes_fusion = true, .takes_kernel = true, .order = order, .group = group};

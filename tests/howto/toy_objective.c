/* toy_objective.c: the worked example of docs/howto-objective.md: "levels", plans in which few
 * products wait for one another, as many workers want it. */
#include "toy_objective.h"

#include <inttypes.h>

#include "plan/explain.h"
#include "planner/fewest.h"
#include "planner/objective.h"

/* A balanced tree over runs of nearly equal dims; the order of fewest multiplications where there
 * is no run. */
static mmc_status order(mmci_planning *p, mmci_error *error) {
  const mmci_order_problem problem = {.n = p->chain->n, .dims = p->chain->dims};
  mmci_tree tree;
  bool found;
  mmc_status status = mmci_order_wide(&problem, INT32_MAX, &tree, &found, error);
  if (status != MMC_OK) return status;
  if (!found)
    return mmci_plan_create_tree(p->chain, p->solver, mmci_planning_bounds(p), &p->plan, error);
  status = mmci_plan_from_tree(p->chain, &tree, &p->plan, error);
  if (status == MMC_OK) p->plan.solver = "wide";
  return status;
}

/* Every step is a call of its own. */
static mmc_status group(mmci_planning *p, mmci_error *error) {
  (void)p, (void)error;
  return MMC_OK;
}

static void put_summary(const mmci_plan *plan, mmci_text *text) {
  mmci_text_printf(text, "\nlevels           %" PRId32, mmci_plan_levels(plan));
}

static const mmci_explainer explain_levels = {.objective = "levels", .put_summary = put_summary};

static mmc_status price(mmci_planning *p, mmci_error *error) {
  (void)error;
  p->plan.explainer = &explain_levels;
  return MMC_OK;
}

const mmci_objective toy_objective = {
    .name = "levels",
    .order = order,
    .group = group,
    .price = price,
};

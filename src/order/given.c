/* given.c: the order that the caller gives, whatever it costs. */
#include <string.h>

#include "order/order.h"

static bool applicable(const mmci_order_problem *problem, const char **reason) {
  *reason = "no order is given";
  return problem->given != NULL;
}

static mmc_status solve(const mmci_order_problem *problem, bool keep_table, mmci_order_answer *out,
                        mmci_error *error) {
  (void)keep_table;
  *out = (mmci_order_answer){.kernel = ""};
  mmc_status status = mmci_tree_create(problem->n, &out->tree, error);
  if (status != MMC_OK) return status;
  size_t count = (size_t)problem->n - 1;
  if (count > 0)
    memcpy(out->tree.products, problem->given->products, count * sizeof *out->tree.products);
  status = mmci_tree_multiplications(&out->tree, problem->dims, &out->multiplications, error);
  if (status != MMC_OK) mmci_tree_destroy(&out->tree);
  return status;
}

const mmci_solver mmci_solver_given = {
    .name = "given",
    .applicable = applicable,
    .solve = solve,
};

/* left_to_right.c: the order (((A1 A2) A3) A4), which is what multiplying as written costs. */
#include "order/order.h"

static bool applicable(const mmci_order_problem *problem, const char **reason) {
  (void)problem, (void)reason;
  return true;
}

static int32_t last_split(void *user, int32_t i, int32_t j) {
  (void)user, (void)i;
  return j - 1;
}

static mmc_status solve(const mmci_order_problem *problem, bool keep_table, mmci_order_answer *out,
                        mmci_error *error) {
  (void)keep_table;
  mmci_tree tree;
  mmc_status status = mmci_tree_create(problem->n, &tree, error);
  if (status != MMC_OK) return status;
  status = mmci_tree_from_splits(&tree, last_split, NULL, error);
  if (status != MMC_OK) {
    mmci_tree_destroy(&tree);
    return status;
  }
  *out = (mmci_order_answer){.tree = tree, .kernel = ""};
  for (int32_t k = 1; k < problem->n; k++) {
    if (problem->price != NULL) out->price += problem->price(problem->price_user, 0, k, k + 1);
    out->multiplications = mmci_u128_add(
        out->multiplications,
        mmci_multiplications(problem->dims[0], problem->dims[k], problem->dims[k + 1]));
  }
  return MMC_OK;
}

const mmci_solver mmci_solver_left_to_right = {
    .name = "left-to-right",
    .applicable = applicable,
    .solve = solve,
};

/* toy_solver.c: the worked example of docs/howto-solver.md: (A1 (A2 (A3 A4))). */
#include "toy_solver.h"

/* Every chain has such an order. */
static bool applicable(const mmci_order_problem *problem, const char **reason) {
  (void)problem, (void)reason;
  return true;
}

/* The sub-chain (i, j) is split after its first factor. */
static int32_t first_split(void *user, int32_t i, int32_t j) {
  (void)user, (void)j;
  return i + 1;
}

/* Adds up what the products cost, by the problem's price or in multiplications. */
static void sum_up(const mmci_order_problem *problem, mmci_order_answer *answer) {
  const int32_t n = problem->n;
  for (int32_t i = 0; i + 1 < n; i++) {
    if (problem->price != NULL)
      answer->price += problem->price(problem->price_user, i, i + 1, n);
    else
      answer->multiplications = mmci_u128_add(
          answer->multiplications,
          mmci_multiplications(problem->dims[i], problem->dims[i + 1], problem->dims[n]));
  }
}

static mmc_status solve(const mmci_order_problem *problem, bool keep_table, mmci_order_answer *out,
                        mmci_error *error) {
  (void)keep_table; /* only "table" keeps one */
  mmci_order_answer answer = {.kernel = ""};
  mmc_status status = mmci_tree_create(problem->n, &answer.tree, error);
  if (status != MMC_OK) return status;
  status = mmci_tree_from_splits(&answer.tree, first_split, NULL, error);
  if (status != MMC_OK) {
    mmci_tree_destroy(&answer.tree);
    return status;
  }
  sum_up(problem, &answer);
  *out = answer;
  return MMC_OK;
}

const mmci_solver toy_solver = {
    .name = "right-to-left",
    .applicable = applicable,
    .solve = solve,
};

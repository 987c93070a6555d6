/* solvers.c: the table of solvers, and the choice among them. */
#include <stdio.h>
#include <string.h>

#include "order/order.h"

/* "auto" takes the first that is applicable. */
static const mmci_solver *const solvers[] = {
    &mmci_solver_hu_shing,
    &mmci_solver_interval_dp,
    &mmci_solver_brute,
    &mmci_solver_left_to_right,
};

enum { SOLVER_COUNT = sizeof solvers / sizeof solvers[0] };

static mmc_status unknown(const char *name, mmci_error *error) {
  char names[128] = "auto";
  for (size_t s = 0; s < SOLVER_COUNT; s++) {
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%s", s + 1 < SOLVER_COUNT ? ", " : " or ",
             solvers[s]->name);
  }
  return mmci_fail_argument(error, MMC_E_ARG, "solver", "expected %s, got '%s'", names, name);
}

mmc_status mmci_order_solve(const char *name, const mmci_order_problem *problem, bool keep_table,
                            const mmci_solver **used, mmci_order_answer *out, mmci_error *error) {
  bool automatic = strcmp(name, "auto") == 0, known = automatic || problem->given != NULL;
  const mmci_solver *solver = problem->given != NULL ? &mmci_solver_given : NULL;
  const char *reason = "";
  for (size_t s = 0; s < SOLVER_COUNT && solver == NULL; s++) {
    if (!automatic && strcmp(name, solvers[s]->name) != 0) continue;
    known = true;
    if (solvers[s]->applicable(problem, &reason)) solver = solvers[s];
  }
  if (!known) return unknown(name, error);
  if (solver == NULL)
    return mmci_fail_argument(error, MMC_E_ARG, "solver", "'%s' cannot solve this: %s", name,
                              reason);

  mmci_order_answer answer;
  mmc_status status = solver->solve(problem, keep_table, &answer, error);
  if (status != MMC_OK) return status;
  if (problem->price == NULL && answer.multiplications == MMCI_U128_MAX) {
    mmci_tree_destroy(&answer.tree);
    if (answer.table != NULL) answer.table->destroy(answer.table);
    return mmci_fail(error, MMC_E_OVERFLOW,
                     "dims: the number of multiplications does not fit 128 bits");
  }
  *used = solver;
  *out = answer;
  return MMC_OK;
}

/* group_problem.h: turns a group of a plan's steps into a problem for a device. */
#ifndef MMCI_GROUP_PROBLEM_H
#define MMCI_GROUP_PROBLEM_H

#include "chain/group.h"
#include "plan/plan.h"

/* group points at forms and products, which are in one allocation with data. */
typedef struct mmci_group_problem {
  mmci_group group;
  mmci_form *forms;
  mmci_group_product *products;
  const void **data; /* addresses of the operands, which the caller sets */
  bool transposed;   /* holds the transposed operands in reverse, for a result by columns */
} mmci_group_problem;

/* Returns the bytes that the arrays of a problem take. */
size_t mmci_group_problem_bytes(size_t operands, size_t steps);
/* Makes the problem of the group in memory of so many bytes, which must stay, with operands and
 * result row-major, without gaps. */
void mmci_group_problem_write(const mmci_plan *plan, const mmci_plan_group *group,
                              mmci_precision precision, void *memory, mmci_group_problem *out);
/* Makes it in memory of its own. Returns E_NOMEM. */
mmc_status mmci_group_problem_create(const mmci_plan *plan, const mmci_plan_group *group,
                                     mmci_precision precision, mmci_group_problem *out,
                                     mmci_error *error);
void mmci_group_problem_destroy(mmci_group_problem *problem);

/* Fills the products for the group or for its transpose. */
void mmci_group_problem_turn(mmci_group_problem *problem, const mmci_plan *plan,
                             const mmci_plan_group *group, bool transposed);
/* Returns where operand o of the group stands among those of the problem. */
static inline int32_t mmci_group_problem_place(const mmci_group_problem *problem, int32_t o) {
  return problem->transposed ? problem->group.n - 1 - o : o;
}

#endif

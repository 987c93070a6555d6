#include "plan/group_problem.h"

#include "base/alloc.h"

/* ---- the products -------------------------------------------------------------------------- */

/* Turns a number of the plan into one of the problem; operands are few, or factors in a row. */
static int32_t number_in(const mmci_group_problem *problem, const mmci_plan *plan,
                         const mmci_plan_group *group, int32_t number) {
  int32_t n = problem->group.n, step = number - plan->chain->n, first = group->operands[0];
  int32_t member = mmci_plan_group_place(group, step);
  if (member >= 0) return n + member;
  int32_t o = number - first;
  if (o < 0 || o >= n || group->operands[o] != number)
    for (o = 0; group->operands[o] != number;) o++;
  return mmci_group_problem_place(problem, o);
}

void mmci_group_problem_turn(mmci_group_problem *problem, const mmci_plan *plan,
                             const mmci_plan_group *group, bool transposed) {
  problem->transposed = transposed;
  for (int32_t i = 0; i < group->step_count; i++) {
    const mmci_plan_step *step = &plan->steps[group->steps[i]];
    int32_t left = number_in(problem, plan, group, step->left);
    int32_t right = number_in(problem, plan, group, step->right);
    problem->products[i] = transposed
                               ? (mmci_group_product){step->n, step->k, step->m, right, left}
                               : (mmci_group_product){step->m, step->k, step->n, left, right};
  }
}

/* ---- made ---------------------------------------------------------------------------------- */

/* Returns the elements from one chain's matrix to the next one's; 0 where all chains share it. */
static int64_t stride_of(const mmci_plan *plan, int32_t number, int64_t rows, int64_t cols) {
  const mmc_chain *chain = plan->chain;
  if (chain->batch <= 1) return 0;
  const bool shared = number < chain->n
                          ? mmci_chain_shares(chain, number)
                          : mmci_plan_step_batch(plan, &plan->steps[number - chain->n]) == 1;
  return shared ? 0 : mmci_elements(rows, cols);
}

/* Writes the form of an operand without gaps: a factor, with its op, or a result. */
static void write_form(const mmci_plan *plan, int32_t number, mmci_form *out) {
  const mmc_chain *chain = plan->chain;
  const bool is_factor = number < chain->n;
  const mmci_plan_step *step = is_factor ? NULL : &plan->steps[number - chain->n];
  const int64_t rows = is_factor ? chain->dims[number] : step->m,
                cols = is_factor ? chain->dims[number + 1] : step->n;
  out->gathered = false;
  out->stride = stride_of(plan, number, rows, cols);
  mmci_form_tighten(out, chain->dtype, rows, cols, is_factor ? chain->ops[number] : MMC_OP_N);
}

size_t mmci_group_problem_bytes(size_t operands, size_t steps) {
  return operands * (sizeof(mmci_form) + sizeof(void *)) + steps * sizeof(mmci_group_product);
}

void mmci_group_problem_write(const mmci_plan *plan, const mmci_plan_group *group,
                              mmci_precision precision, void *memory, mmci_group_problem *out) {
  size_t n = (size_t)group->operand_count, count = (size_t)group->step_count;
  mmci_form *forms = memory;
  mmci_group_product *products = (mmci_group_product *)(forms + n);
  const mmci_plan_step *last = &plan->steps[group->steps[count - 1]];
  *out = (mmci_group_problem){
      .group = {.dtype = plan->chain->dtype,
                .precision = precision,
                .rule = plan->chain->rule,
                .batch = plan->chain->batch,
                .n = group->operand_count,
                .count = group->step_count,
                .forms = forms,
                .products = products,
                .ldc = last->n > 0 ? last->n : 1,
                .c_stride = plan->chain->batch > 1 ? mmci_elements(last->m, last->n) : 0},
      .forms = forms,
      .products = products,
      .data = (const void **)(products + count)};
  for (size_t o = 0; o < n; o++) write_form(plan, group->operands[o], &forms[o]);
  mmci_group_problem_turn(out, plan, group, false);
}

mmc_status mmci_group_problem_create(const mmci_plan *plan, const mmci_plan_group *group,
                                     mmci_precision precision, mmci_group_problem *out,
                                     mmci_error *error) {
  size_t size = mmci_group_problem_bytes((size_t)group->operand_count, (size_t)group->step_count);
  void *memory = malloc(size);
  if (memory == NULL) return mmci_fail_nomem(error, size);
  mmci_group_problem_write(plan, group, precision, memory, out);
  return MMC_OK;
}

void mmci_group_problem_destroy(mmci_group_problem *problem) {
  free(problem->forms);
}

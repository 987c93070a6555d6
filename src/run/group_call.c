#include "run/group_call.h"

#include "base/alloc.h"

/* ---- the products -------------------------------------------------------------------------- */

/* A number of the plan as one of the call; operands are few, or factors in a row. */
static int32_t number_in(const mmci_group_call *call, const mmci_plan *plan,
                         const mmci_plan_group *group, int32_t number) {
  int32_t n = call->chain.n, step = number - plan->chain->n, first = group->operands[0];
  int32_t low = 0, high = group->step_count;
  while (step >= 0 && low < high) {
    int32_t middle = low + (high - low) / 2;
    if (group->steps[middle] < step)
      low = middle + 1;
    else
      high = middle;
  }
  if (step >= 0 && low < group->step_count && group->steps[low] == step) return n + low;
  int32_t o = number - first;
  if (o < 0 || o >= n || group->operands[o] != number)
    for (o = 0; group->operands[o] != number;) o++;
  return mmci_group_call_place(call, o);
}

void mmci_group_call_turn(mmci_group_call *call, const mmci_plan *plan,
                          const mmci_plan_group *group, bool transposed) {
  call->transposed = transposed;
  for (int32_t i = 0; i < group->step_count; i++) {
    const mmci_plan_step *step = &plan->steps[group->steps[i]];
    int32_t left = number_in(call, plan, group, step->left);
    int32_t right = number_in(call, plan, group, step->right);
    call->products[i] = transposed ? (mmci_chain_step){step->n, step->k, step->m, right, left}
                                   : (mmci_chain_step){step->m, step->k, step->n, left, right};
  }
}

/* ---- made ---------------------------------------------------------------------------------- */

/* An operand without gaps: a factor, with its op, or a result. */
static mmci_form form_of(const mmci_plan *plan, int32_t number) {
  const mmc_chain *chain = plan->chain;
  int32_t n = chain->n;
  if (number < n)
    return mmci_form_tight(chain->dtype, chain->dims[number], chain->dims[number + 1],
                           chain->ops[number]);
  int64_t cols = plan->steps[number - n].n;
  return (mmci_form){.ld = cols > 0 ? cols : 1};
}

mmc_status mmci_group_call_create(const mmci_plan *plan, const mmci_plan_group *group,
                                  mmci_precision precision, mmci_group_call *out,
                                  mmci_error *error) {
  size_t n = (size_t)group->operand_count, count = (size_t)group->step_count;
  size_t size = n * (sizeof *out->forms + sizeof *out->data) + count * sizeof *out->products;
  mmci_group_call call = {.forms = malloc(size)};
  if (call.forms == NULL) return mmci_fail_nomem(error, size);
  call.products = (mmci_chain_step *)(call.forms + n);
  call.data = (const void **)(call.products + count);
  const mmci_plan_step *last = &plan->steps[group->steps[count - 1]];
  call.chain = (mmci_device_chain){.dtype = plan->chain->dtype,
                                   .precision = precision,
                                   .batch = plan->chain->batch,
                                   .n = group->operand_count,
                                   .count = group->step_count,
                                   .forms = call.forms,
                                   .products = call.products,
                                   .ldc = last->n > 0 ? last->n : 1};
  for (size_t o = 0; o < n; o++) call.forms[o] = form_of(plan, group->operands[o]);
  mmci_group_call_turn(&call, plan, group, false);
  *out = call;
  return MMC_OK;
}

void mmci_group_call_destroy(mmci_group_call *call) {
  free(call->forms);
}

#include "plan/plan.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/explain.h"
#include "plan/layout.h"
#include "plan/plan_groups.h"

mmc_status mmci_plan_from_tree(const mmc_chain *chain, mmci_tree *tree, mmci_plan *out,
                               mmci_error *error) {
  mmci_plan plan = {.tree = *tree,
                    .solver = "",
                    .device = "",
                    .precision = "native",
                    .explainer = &mmci_explain_flops};
  *tree = (mmci_tree){0};
  plan.chunk = chain->batch;
  mmc_status status = mmci_chain_copy(chain, &plan.chain, error);
  if (status == MMC_OK)
    status = mmci_tree_multiplications_of_batch(&plan.tree, chain, &plan.multiplications, error);
  if (status == MMC_OK) status = mmci_plan_lay_out(&plan, false, error);
  if (status != MMC_OK) {
    mmci_plan_destroy(&plan);
    return status;
  }
  *out = plan;
  return MMC_OK;
}

/* Finds how many chains fit whose common results take room once: at least `fits`, and fewer than
 * `over`. */
static mmc_status set_most(mmci_plan *plan, int64_t fits, int64_t over, uint64_t limit_bytes,
                           mmci_error *error) {
  mmc_status status = MMC_OK;
  while (over - fits > 1 && status == MMC_OK) {
    const int64_t middle = fits + (over - fits) / 2;
    plan->chunk = middle;
    status = mmci_plan_lay_out(plan, plan->parallel, error);
    *(plan->workspace_bytes <= limit_bytes ? &fits : &over) = middle;
  }
  return status == MMC_OK ? mmci_plan_set_chunk(plan, fits, error) : status;
}

mmc_status mmci_plan_shrink(mmci_plan *plan, uint64_t limit_bytes, mmci_error *error) {
  if (plan->workspace_bytes <= limit_bytes || plan->chunk <= 1) return MMC_OK;
  int64_t batch = plan->chunk;
  plan->chunk = 1;
  mmc_status status = mmci_plan_lay_out(plan, plan->parallel, error);
  if (status != MMC_OK || plan->workspace_bytes > limit_bytes) return status;
  /* Each is rounded up to whole cache lines, so many take no more than as many times one. */
  uint64_t fit = limit_bytes / plan->workspace_bytes;
  if (fit >= (uint64_t)batch) return mmci_plan_set_chunk(plan, batch, error);
  return mmci_chain_has_once(plan->chain) ? set_most(plan, (int64_t)fit, batch, limit_bytes, error)
                                          : mmci_plan_set_chunk(plan, (int64_t)fit, error);
}

mmc_status mmci_plan_set_chunk(mmci_plan *plan, int64_t most, mmci_error *error) {
  int64_t batch = plan->chain->batch, chunks = batch / most + (batch % most != 0);
  plan->chunk = batch / chunks + (batch % chunks != 0);
  return mmci_plan_lay_out(plan, plan->parallel, error);
}

void mmci_plan_destroy(mmci_plan *plan) {
  mmc_chain_destroy(plan->chain);
  mmci_tree_destroy(&plan->tree);
  mmci_plan_disband(plan);
  free(plan->steps);
  free(plan->traffic);
  free(plan->kernel_recipes);
  if (plan->structure != NULL) {
    mmci_structure_steps_destroy(&plan->structure->steps);
    free(plan->structure->factors);
  }
  free(plan->structure);
  if (plan->time != NULL) free(plan->time->recipes);
  free(plan->time);
  mmci_plan_energy_destroy(plan->energy);
}

/* Says whether a step takes the line of a matrix for the operand on one of its sides. */
static bool step_takes_line(const mmci_structure_step *x, bool right, bool is_diagonal) {
  if (x->mirrored || right != (x->right != x->reversed)) return false;
  return is_diagonal ? x->kernel == MMCI_STRUCTURE_SCALE && !x->formed[right]
                     : x->kernel == MMCI_STRUCTURE_PERMUTE;
}

bool mmci_plan_takes_line(const mmci_plan *plan, int32_t i) {
  const mmc_chain *chain = plan->chain;
  if (plan->structure == NULL || plan->structure->on_device || chain->traits == NULL ||
      !mmci_traits_take_line(chain->traits[i]) || chain->dims[i] < 2)
    return false;
  const bool is_diagonal = mmci_traits_have(chain->traits[i], MMC_DIAGONAL);
  const int32_t *firsts = chain->stored != NULL ? chain->stored : chain->same;
  for (int32_t d = 0; d <= chain->n; d++)
    if (chain->dims[d] == 0) return false; /* nothing is multiplied */
  bool is_read = false;
  for (int32_t s = 0; s < plan->step_count; s++)
    for (int side = 0; side < 2; side++) {
      const int32_t operand = side == 0 ? plan->steps[s].left : plan->steps[s].right;
      const bool is_it =
          operand == i || (operand < chain->n && firsts != NULL && firsts[operand] == firsts[i]);
      if (is_it && !step_takes_line(&plan->structure->steps.steps[s], side == 1, is_diagonal))
        return false;
      is_read = is_read || is_it;
    }
  return is_read;
}

bool mmci_plan_keeps_k(const mmci_plan *plan, int64_t m, int64_t k, int64_t n) {
  mmci_precision precision;
  if (mmci_precision_read(plan->precision, &precision, NULL) != MMC_OK) return false;
  mmci_gemm gemm = {.dtype = plan->chain->dtype,
                    .precision = precision,
                    .rule = plan->chain->rule,
                    .m = m,
                    .k = k,
                    .n = n};
  mmci_gemm_choose_sums(&gemm);
  return mmci_precision_is_reproducible(precision) && mmci_gemm_keeps_k(&gemm);
}

mmc_status mmci_plan_ranges(const mmci_plan *plan, mmci_range **out, mmci_error *error) {
  size_t count = (size_t)plan->step_count;
  mmci_range *ranges = mmci_alloc_array(count, sizeof *ranges);
  if (ranges == NULL) return mmci_fail_nomem(error, count * sizeof *ranges);
  for (size_t s = 0; s < count; s++) ranges[s] = mmci_plan_range(plan, &plan->steps[s]);
  *out = ranges;
  return MMC_OK;
}

mmci_u128 mmci_plan_step_multiplications(const mmci_plan *plan, const mmci_plan_step *step) {
  const mmc_chain *chain = plan->chain;
  if (plan->structure != NULL)
    return mmci_u128_mul(plan->structure->steps.steps[step - plan->steps].multiplications,
                         (uint64_t)chain->batch);
  return mmci_u128_mul(mmci_multiplications(step->m, step->k, step->n),
                       (uint64_t)mmci_chain_product_batch(chain, step->first, step->last + 1));
}

mmci_u128 mmci_plan_left_to_right(const mmci_plan *plan) {
  const mmc_chain *chain = plan->chain;
  mmci_u128 total = 0;
  for (int32_t k = 1; k < chain->n; k++) {
    const mmci_u128 one = mmci_multiplications(chain->dims[0], chain->dims[k], chain->dims[k + 1]);
    const int64_t times = mmci_chain_product_batch(chain, 0, k + 1);
    total = mmci_u128_add(total, mmci_u128_mul(one, (uint64_t)times));
  }
  return total;
}

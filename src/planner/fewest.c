#include "planner/fewest.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "order/repeats.h"
#include "order/workspace.h"
#include "plan/explain.h"
#include "plan/layout.h"

/* Replaces the best order, which is too large, by the cheapest that fits. An order that was given
 * is kept, or it is an error. */
static mmc_status replace_within(const mmc_chain *chain, const mmci_order_problem *problem,
                                 uint64_t limit_bytes, mmci_plan *plan, mmci_error *error) {
  if (problem->given != NULL)
    return mmci_fail_argument(error, MMC_E_MEMORY_LIMIT, "memory limit",
                              "the order given needs %" PRIu64
                              " bytes of workspace, more than %" PRIu64,
                              plan->workspace_bytes, limit_bytes);
  mmci_order_answer answer;
  uint64_t leanest_bytes = 0;
  mmc_status status = mmci_order_within(problem, mmc_dtype_size(chain->dtype), limit_bytes,
                                        &leanest_bytes, &answer, error);
  if (status == MMC_E_MEMORY_LIMIT)
    return mmci_fail_argument(error, status, "memory limit",
                              "no order fits in %" PRIu64
                              " bytes of workspace; the leanest needs %" PRIu64
                              ", the cheapest %" PRIu64,
                              limit_bytes, leanest_bytes, plan->workspace_bytes);
  if (status != MMC_OK) return status;
  mmci_plan smaller;
  status = mmci_plan_from_tree(chain, &answer.tree, &smaller, error);
  if (status != MMC_OK) return status;
  status = mmci_plan_shrink(&smaller, limit_bytes, error);
  if (status != MMC_OK) {
    mmci_plan_destroy(&smaller);
    return status;
  }
  smaller.limited = true;
  smaller.limit_bytes = limit_bytes;
  smaller.unlimited_multiplications = plan->multiplications;
  smaller.unlimited_bytes = plan->workspace_bytes;
  mmci_plan_destroy(plan);
  *plan = smaller;
  return MMC_OK;
}

/* Returns the multiplications of a product, for all chains. */
static double multiplications_of(void *user, int64_t i, int64_t k, int64_t j) {
  const mmc_chain *chain = user;
  return mmci_mkn(chain->dims[i], chain->dims[k], chain->dims[j]) *
         (double)mmci_chain_product_batch(chain, i, j);
}

/* Lets the solver look for the order by what is shared, where it can. */
static void weigh_products(const mmc_chain *chain, const char *solver,
                           mmci_order_problem *problem) {
  if (!mmci_chain_has_once(chain) || chain->n > MMCI_COMMON_MOST_FACTORS ||
      problem->given != NULL || strcmp(solver, "hu-shing") == 0)
    return;
  problem->price = multiplications_of;
  problem->price_user = (void *)chain;
  problem->is_price_trusted = true;
  problem->threads = 1;
}

mmc_status mmci_plan_create_tree(const mmc_chain *chain, const char *solver, mmci_bounds bounds,
                                 mmci_plan *out, mmci_error *error) {
  mmci_order_problem problem = {.n = chain->n,
                                .dims = chain->dims,
                                .given = bounds.given,
                                .progress = bounds.progress,
                                .progress_user = bounds.progress_user};
  weigh_products(chain, solver, &problem);
  mmci_order_answer answer;
  const mmci_solver *used;
  mmc_status status = mmci_order_solve(solver, &problem, false, &used, &answer, error);
  if (status != MMC_OK) return status;
  /* The table has asked all the while. What others need no search for may be a very long chain, and
   * what may be searched through after it is to come. */
  if (used != &mmci_solver_interval_dp)
    status = mmci_ask_progress(bounds.progress, bounds.progress_user, 0, error);
  if (status != MMC_OK) {
    mmci_tree_destroy(&answer.tree);
    return status;
  }

  mmci_plan plan;
  status = mmci_plan_from_tree(chain, &answer.tree, &plan, error);
  if (status != MMC_OK) return status;
  if (chain->batch > 1 && plan.multiplications == MMCI_U128_MAX)
    status = mmci_fail(error, MMC_E_OVERFLOW,
                       "batch: the number of multiplications does not fit 128 bits");
  if (status == MMC_OK) status = mmci_plan_shrink(&plan, bounds.limit_bytes, error);
  if (status == MMC_OK && plan.workspace_bytes > bounds.limit_bytes)
    status = replace_within(chain, &problem, bounds.limit_bytes, &plan, error);
  if (status == MMC_OK && plan.workspace_bytes == UINT64_MAX)
    status = mmci_fail(error, MMC_E_OVERFLOW, "dims: the intermediates exceed the address space");
  if (status != MMC_OK) {
    mmci_plan_destroy(&plan);
    return status;
  }
  plan.solver = used->name;
  *out = plan;
  return MMC_OK;
}

/* ---- what repeats ---------------------------------------------------------------------------- */

static mmci_plan_step step_of(const mmci_program_product *p) {
  return (mmci_plan_step){.m = p->m,
                          .k = p->k,
                          .n = p->n,
                          .left = p->left,
                          .right = p->right,
                          .first = p->first,
                          .last = p->last,
                          .kernel = "",
                          .predicted_s = NAN,
                          .group = -1};
}

/* Returns the multiplications of all products, for all chains. */
static mmci_u128 program_multiplications(const mmc_chain *chain, const mmci_program *program) {
  mmci_u128 all = 0;
  for (int32_t t = 0; t < program->count; t++) {
    const mmci_program_product *p = &program->products[t];
    const int64_t times = mmci_chain_product_batch(chain, p->first, p->last + 1);
    all =
        mmci_u128_add(all, mmci_u128_mul(mmci_multiplications(p->m, p->k, p->n), (uint64_t)times));
  }
  return all;
}

static mmc_status plan_program(const mmc_chain *chain, const mmci_program *program, mmci_plan *out,
                               mmci_error *error) {
  size_t count = (size_t)program->count;
  mmci_plan plan = {.step_count = program->count,
                    .chunk = chain->batch,
                    .solver = "repeats",
                    .device = "",
                    .precision = "native",
                    .explainer = &mmci_explain_flops};
  plan.multiplications = program_multiplications(chain, program);
  plan.steps = mmci_alloc_array(count, sizeof *plan.steps);
  mmc_status status = mmci_chain_copy(chain, &plan.chain, error);
  if (status == MMC_OK) status = mmci_program_tree(program, &plan.tree, error);
  if (status == MMC_OK && plan.steps == NULL)
    status = mmci_fail_nomem(error, count * sizeof *plan.steps);
  if (status == MMC_OK) {
    for (size_t s = 0; s < count; s++) plan.steps[s] = step_of(&program->products[s]);
    status = mmci_plan_lay_out(&plan, false, error);
  }
  if (status == MMC_OK)
    *out = plan;
  else
    mmci_plan_destroy(&plan);
  return status;
}

static bool has_repeats(const mmc_chain *chain) {
  for (int32_t i = 0; chain->same != NULL && i < chain->n; i++)
    if (chain->same[i] != i) return true;
  return false;
}

/* Replaces a tree by a plan in which what repeats is computed once. */
static mmc_status share_repeats(const mmc_chain *chain, const mmci_bounds *bounds, mmci_plan *plan,
                                mmci_error *error) {
  const uint64_t limit_bytes = bounds->limit_bytes;
  mmci_program program;
  mmc_status status =
      mmci_repeats_solve(chain->n, chain->dims, chain->same, bounds, &program, error);
  if (status != MMC_OK) return status;
  mmci_plan shared;
  bool pays = program_multiplications(chain, &program) < plan->multiplications &&
              program.count <= MMCI_SHARED_MOST_STEPS;
  if (pays) status = plan_program(chain, &program, &shared, error);
  mmci_program_destroy(&program);
  if (status != MMC_OK || !pays) return status;
  shared.tree_multiplications = plan->multiplications;
  status = mmci_plan_shrink(&shared, limit_bytes, error);
  bool fits = shared.workspace_bytes <= limit_bytes && shared.workspace_bytes != UINT64_MAX;
  if (status == MMC_OK && !fits) plan->shared_bytes = shared.workspace_bytes;
  mmci_plan_destroy(status == MMC_OK && fits ? plan : &shared);
  if (status == MMC_OK && fits) *plan = shared;
  return status;
}

/* Makes the plan in which what repeats is computed once, where the limit turns down all trees. Says
 * in *fits whether there is one. */
static mmc_status share_within(const mmc_chain *chain, const char *solver, mmci_bounds bounds,
                               mmci_plan *out, bool *fits, mmci_error *error) {
  mmci_bounds wide = bounds;
  wide.limit_bytes = MMC_NO_LIMIT;
  *fits = false;
  mmc_status status = mmci_plan_create_tree(chain, solver, wide, out, error);
  if (status != MMC_OK) return status;
  status = share_repeats(chain, &bounds, out, error);
  *fits = status == MMC_OK && out->workspace_bytes <= bounds.limit_bytes;
  if (!*fits) mmci_plan_destroy(out);
  return status;
}

mmc_status mmci_plan_create(const mmc_chain *chain, const char *solver, mmci_bounds bounds,
                            mmci_plan *out, mmci_error *error) {
  mmci_plan plan;
  const bool shares = strcmp(solver, "auto") == 0 && has_repeats(chain);
  mmc_status status = mmci_plan_create_tree(chain, solver, bounds, &plan, error);
  if (status == MMC_E_MEMORY_LIMIT && shares) {
    mmci_error other;
    bool fits;
    const mmc_status shared = share_within(chain, solver, bounds, out, &fits, &other);
    if (shared == MMC_OK) return fits ? MMC_OK : status;
    if (error != NULL) *error = other;
    return shared;
  }
  if (status == MMC_OK && shares) {
    status = share_repeats(chain, &bounds, &plan, error);
    if (status != MMC_OK) mmci_plan_destroy(&plan);
  }
  if (status == MMC_OK) *out = plan;
  return status;
}

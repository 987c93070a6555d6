#include "plan/plan_time.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "order/workspace.h"

/* ---- prices -------------------------------------------------------------------------------- */

typedef struct priced_chain {
  const mmc_chain *chain;
  const mmci_time_request *request;
} priced_chain;

static void price_product(const priced_chain *c, int64_t i, int64_t k, int64_t j, mmci_price *out) {
  mmci_gemm gemm = mmci_chain_product(c->chain, c->request->precision, i, k, j);
  c->request->pricing->price(c->request->pricing->user, &gemm, out);
  out->seconds *= (double)c->chain->batch; /* one after the other */
  out->plain_s *= (double)c->chain->batch;
}

static double seconds_of(void *user, int64_t i, int64_t k, int64_t j) {
  mmci_price price;
  price_product(user, i, k, j, &price);
  return price.seconds;
}

/* ---- two orders ---------------------------------------------------------------------------- */

/* What an order takes. Errors of measurements are independent; those of one model are not. */
typedef struct total {
  double seconds;
  double squares, modelled; /* of errors: the sum of squares, and the plain sum */
} total;

static bool has_range(const mmci_range *ranges, int32_t count, mmci_range r) {
  for (int32_t t = 0; t < count; t++)
    if (ranges[t].first == r.first && ranges[t].split == r.split && ranges[t].last == r.last)
      return true;
  return false;
}

/* Of the products that only mine has: what both have says nothing about which is faster. */
static total total_of(const priced_chain *c, const mmci_range *mine, const mmci_range *others) {
  int32_t count = c->chain->n - 1;
  total sum = {0};
  for (int32_t t = 0; t < count; t++) {
    if (has_range(others, count, mine[t])) continue;
    mmci_price price;
    price_product(c, mine[t].first, mine[t].split, mine[t].last, &price);
    double error_s = price.seconds * price.error;
    sum.seconds += price.seconds;
    if (price.modelled)
      sum.modelled += error_s;
    else
      sum.squares += error_s * error_s;
  }
  return sum;
}

/* Whether the products of order b are surely faster than those of a. *gain_s: by how much. */
static bool surely_faster(const priced_chain *c, const mmci_range *a, const mmci_range *b,
                          double *gain_s) {
  total before = total_of(c, a, b), after = total_of(c, b, a);
  *gain_s = before.seconds - after.seconds;
  double error_s = sqrt(before.squares + after.squares) + before.modelled + after.modelled;
  return *gain_s > error_s;
}

/* ---- the order ----------------------------------------------------------------------------- */

mmc_status mmci_plan_by_price(const mmc_chain *chain, mmc_price_fn price, void *user,
                              uint64_t limit_bytes, mmci_plan *out, mmci_error *error) {
  mmci_order_problem problem = {
      .n = chain->n, .dims = chain->dims, .price = price, .price_user = user, .threads = 1};
  mmci_order_answer answer;
  const mmci_solver *used;
  mmci_plan plan;
  mmc_status status = mmci_order_solve("table", &problem, false, &used, &answer, error);
  if (status == MMC_OK) status = mmci_plan_from_tree(chain, &answer.tree, &plan, error);
  if (status != MMC_OK) return status;
  uint64_t unlimited_bytes = plan.workspace_bytes, leanest_bytes;
  status = mmci_plan_shrink(&plan, limit_bytes, error);
  if (status != MMC_OK) {
    mmci_plan_destroy(&plan);
    return status;
  }
  if (plan.workspace_bytes > limit_bytes) {
    mmci_u128 unlimited = plan.multiplications;
    mmci_plan_destroy(&plan);
    status = mmci_order_within(&problem, mmc_dtype_size(chain->dtype), limit_bytes, &leanest_bytes,
                               &answer, error);
    if (status == MMC_OK) status = mmci_plan_from_tree(chain, &answer.tree, &plan, error);
    if (status != MMC_OK) return status;
    plan.limited = true;
    plan.limit_bytes = limit_bytes;
    plan.unlimited_multiplications = unlimited;
    plan.unlimited_bytes = unlimited_bytes;
    status = mmci_plan_shrink(&plan, limit_bytes, error);
    if (status != MMC_OK) {
      mmci_plan_destroy(&plan);
      return status;
    }
  }
  plan.solver = used->name;
  *out = plan;
  return MMC_OK;
}

/* Replaces the plan of fewest multiplications where another is surely faster. */
static mmc_status try_price(priced_chain *c, uint64_t limit_bytes, mmci_plan *plan,
                            mmci_plan_time *time, mmci_error *error) {
  mmci_plan by_price;
  mmc_status status = mmci_plan_by_price(c->chain, seconds_of, c, limit_bytes, &by_price, error);
  if (status != MMC_OK) return status;
  size_t count = (size_t)c->chain->n - 1;
  mmci_range *ranges = mmci_alloc_array(2 * count, sizeof *ranges);
  if (ranges == NULL) {
    mmci_plan_destroy(&by_price);
    return mmci_fail_nomem(error, 2 * count * sizeof *ranges);
  }
  mmci_tree_ranges(&plan->tree, ranges);
  mmci_tree_ranges(&by_price.tree, ranges + count);
  bool possible =
      by_price.workspace_bytes != UINT64_MAX && by_price.multiplications != MMCI_U128_MAX;
  time->by_time = possible && surely_faster(c, ranges, ranges + count, &time->gain_s);
  if (!time->by_time)
    time->kept = possible && time->gain_s > 0 ? "no other order is predicted to be surely faster"
                                              : "no order is predicted to be faster";
  free(ranges);
  mmci_plan_destroy(time->by_time ? plan : &by_price);
  if (time->by_time) *plan = by_price;
  return MMC_OK;
}

/* ---- wide trees ---------------------------------------------------------------------------- */

/* What the plan takes by the cheapest calls. */
static mmc_status seconds_by_calls(const priced_chain *c, const mmci_plan *plan, double *seconds,
                                   mmci_error *error) {
  mmci_cover cover;
  mmc_status status = mmci_plan_cover(plan, c->request->machine, &cover, error);
  if (status != MMC_OK) return status;
  *seconds = cover.seconds;
  mmci_cover_destroy(&cover);
  return MMC_OK;
}

/* Of orders of as many multiplications the faster is taken, of others one that is surely faster. */
static bool is_better(const priced_chain *c, const mmci_plan *a, double a_s, const mmci_plan *b,
                      double b_s) {
  if (a->multiplications == b->multiplications) return b_s < 0.99 * a_s;
  return b_s < a_s && a_s - b_s > c->request->machine->facts.error * (a_s + b_s);
}

/* Replaces the plan, which takes *seconds, where a wide tree is better. */
static mmc_status try_wide(const priced_chain *c, int32_t segments, uint64_t limit_bytes,
                           mmci_plan *plan, mmci_plan_time *time, double *seconds,
                           mmci_error *error) {
  mmci_order_problem problem = {.n = c->chain->n, .dims = c->chain->dims};
  mmci_tree tree;
  bool found;
  mmc_status status = mmci_order_wide(&problem, segments, &tree, &found, error);
  if (status != MMC_OK || !found) return status;
  mmci_plan wide;
  status = mmci_plan_from_tree(c->chain, &tree, &wide, error);
  if (status != MMC_OK) return status;
  double wide_s;
  status = seconds_by_calls(c, &wide, &wide_s, error);
  bool fits = wide.workspace_bytes <= limit_bytes && wide.workspace_bytes != UINT64_MAX &&
              wide.multiplications != MMCI_U128_MAX;
  if (status != MMC_OK || !fits || !is_better(c, plan, *seconds, &wide, wide_s)) {
    mmci_plan_destroy(&wide);
    return status;
  }
  time->gain_s = *seconds - wide_s + (time->by_time ? time->gain_s : 0);
  time->by_time = true;
  time->segments = segments;
  time->kept = "";
  wide.solver = "wide";
  mmci_plan_destroy(plan);
  *plan = wide;
  *seconds = wide_s;
  return MMC_OK;
}

/* As many segments as the device has workers, and a balanced tree. */
static mmc_status try_wide_trees(const priced_chain *c, uint64_t limit_bytes, mmci_plan *plan,
                                 mmci_plan_time *time, mmci_error *error) {
  const mmci_group_machine *machine = c->request->machine;
  if (machine == NULL || c->chain->n - 1 > MMCI_GROUPS_MOST_STEPS) return MMC_OK;
  double seconds;
  mmc_status status = seconds_by_calls(c, plan, &seconds, error);
  int32_t segments[] = {machine->facts.width, INT32_MAX};
  for (int i = 0; i < 2 && status == MMC_OK; i++)
    status = try_wide(c, segments[i], limit_bytes, plan, time, &seconds, error);
  return status;
}

static mmc_status choose_order(const mmc_chain *chain, const char *solver, uint64_t limit_bytes,
                               const mmci_time_request *request, mmci_plan *plan,
                               mmci_plan_time *time, mmci_error *error) {
  priced_chain c = {.chain = chain, .request = request};
  if (strcmp(solver, "auto") != 0 || chain->n < 3) return MMC_OK;
  mmc_status status = MMC_OK;
  if (chain->n <= MMCI_TIME_MOST_FACTORS)
    status = try_price(&c, limit_bytes, plan, time, error);
  else
    time->kept = "longer chains than of 64 factors are not ordered by time";
  return status == MMC_OK ? try_wide_trees(&c, limit_bytes, plan, time, error) : status;
}
static_assert(MMCI_TIME_MOST_FACTORS == 64, "the text of choose_order()");

mmc_status mmci_plan_create_timed(const mmc_chain *chain, const char *solver, uint64_t limit_bytes,
                                  const mmci_time_request *request, mmci_plan *out,
                                  mmci_error *error) {
  mmci_plan plan;
  mmc_status status = mmci_plan_create(chain, solver, limit_bytes, &plan, error);
  if (status != MMC_OK) return status;
  mmci_plan_time *time = mmci_alloc_zeroed(1, sizeof *time);
  if (time == NULL)
    status = mmci_fail_nomem(error, sizeof *time);
  else
    *time = (mmci_plan_time){.kept = ""};
  if (status == MMC_OK)
    status = choose_order(chain, solver, limit_bytes, request, &plan, time, error);
  if (status != MMC_OK) {
    free(time);
    mmci_plan_destroy(&plan);
    return status;
  }
  snprintf(time->notice, sizeof time->notice, "%s", request->notice);
  plan.time = time;
  *out = plan;
  return MMC_OK;
}

/* ---- the steps ----------------------------------------------------------------------------- */

static void price_step(const mmci_plan *plan, const mmci_time_request *request,
                       const mmci_plan_step *step, mmci_price *out) {
  int32_t n = plan->chain->n;
  int32_t split = step->left < n ? step->left + 1 : plan->steps[step->left - n].last + 1;
  price_product(&(priced_chain){plan->chain, request}, step->first, split, step->last + 1, out);
}

static bool step_is_modelled(const mmci_plan_step *step) {
  return strncmp(step->source, "model", 5) == 0;
}

/* Gives the steps of a group their shares of what its call takes. */
static void share_out(mmci_plan *plan, const mmci_plan_group *group) {
  double separate_s = 0;
  for (int32_t i = 0; i < group->step_count; i++)
    separate_s += plan->steps[group->steps[i]].predicted_s;
  for (int32_t i = 0; i < group->step_count; i++) {
    mmci_plan_step *step = &plan->steps[group->steps[i]];
    step->predicted_s *= group->predicted_s / separate_s;
    if (!step_is_modelled(step)) step->source = "model";
  }
  plan->time->predicted_s += group->predicted_s;
}

mmc_status mmci_plan_price(mmci_plan *plan, const mmci_time_request *request, mmci_error *error) {
  int32_t count = plan->step_count;
  size_t recipes = 0;
  mmci_price price;
  plan->time->predicted_s = 0;
  for (int32_t s = 0; s < count; s++) {
    mmci_plan_step *step = &plan->steps[s];
    price_step(plan, request, step, &price);
    step->predicted_s = price.seconds;
    step->plain_s = price.plain_s;
    step->source = price.source;
    if (step->group < 0) plan->time->predicted_s += price.seconds;
    recipes += !mmci_recipe_is_plain(&price.recipe);
  }
  for (int32_t g = 0; g < plan->group_count; g++) share_out(plan, &plan->groups[g]);
  if (recipes == 0) return MMC_OK;
  mmci_recipe *recipe = plan->time->recipes = mmci_alloc_array(recipes, sizeof *recipe);
  if (recipe == NULL) return mmci_fail_nomem(error, recipes * sizeof *recipe);
  for (int32_t s = 0; s < count; s++) {
    price_step(plan, request, &plan->steps[s], &price);
    if (mmci_recipe_is_plain(&price.recipe)) continue;
    *recipe = price.recipe;
    plan->steps[s].recipe = recipe++;
    mmci_plan_place_padding(plan, &plan->steps[s]);
  }
  return MMC_OK;
}

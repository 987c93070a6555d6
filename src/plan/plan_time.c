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

/* The order of least price within the limit, as a plan. */
static mmc_status plan_by_price(priced_chain *c, uint64_t limit_bytes, mmci_plan *out,
                                mmci_error *error) {
  mmci_order_problem problem = {
      .n = c->chain->n, .dims = c->chain->dims, .price = seconds_of, .price_user = c, .threads = 1};
  mmci_order_answer answer;
  const mmci_solver *used;
  mmci_plan plan;
  mmc_status status = mmci_order_solve("table", &problem, false, &used, &answer, error);
  if (status == MMC_OK) status = mmci_plan_from_tree(c->chain, &answer.tree, &plan, error);
  if (status != MMC_OK) return status;
  uint64_t unlimited_bytes = plan.workspace_bytes, leanest_bytes;
  if (unlimited_bytes > limit_bytes) {
    mmci_u128 unlimited = plan.multiplications;
    mmci_plan_destroy(&plan);
    status = mmci_order_within(&problem, mmc_dtype_size(c->chain->dtype), limit_bytes,
                               &leanest_bytes, &answer, error);
    if (status == MMC_OK) status = mmci_plan_from_tree(c->chain, &answer.tree, &plan, error);
    if (status != MMC_OK) return status;
    plan.limited = true;
    plan.limit_bytes = limit_bytes;
    plan.unlimited_multiplications = unlimited;
    plan.unlimited_bytes = unlimited_bytes;
  }
  plan.solver = used->name;
  *out = plan;
  return MMC_OK;
}

/* Replaces the plan of fewest multiplications where another is surely faster. */
static mmc_status try_price(priced_chain *c, uint64_t limit_bytes, mmci_plan *plan,
                            mmci_plan_time *time, mmci_error *error) {
  mmci_plan by_price;
  mmc_status status = plan_by_price(c, limit_bytes, &by_price, error);
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

static mmc_status choose_order(const mmc_chain *chain, const char *solver, uint64_t limit_bytes,
                               const mmci_time_request *request, mmci_plan *plan,
                               mmci_plan_time *time, mmci_error *error) {
  priced_chain c = {.chain = chain, .request = request};
  if (strcmp(solver, "auto") != 0 || chain->n < 3) return MMC_OK;
  if (chain->n <= MMCI_TIME_MOST_FACTORS) return try_price(&c, limit_bytes, plan, time, error);
  time->kept = "longer chains than of 64 factors are not ordered by time";
  return MMC_OK;
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

mmc_status mmci_plan_price(mmci_plan *plan, const mmci_time_request *request, mmci_error *error) {
  int32_t count = plan->chain->n - 1;
  size_t recipes = 0;
  mmci_price price;
  plan->time->predicted_s = 0;
  for (int32_t s = 0; s < count; s++) {
    mmci_plan_step *step = &plan->steps[s];
    price_step(plan, request, step, &price);
    step->predicted_s = price.seconds;
    step->plain_s = price.plain_s;
    step->source = price.source;
    plan->time->predicted_s += price.seconds;
    recipes += !mmci_recipe_is_plain(&price.recipe);
  }
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

/* structured.c: the cheapest way to compute a chain whose factors have structure, as a plan. */
#include "planner/structured.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/interrupt.h"
#include "plan/explain.h"
#include "plan/layout.h"
#include "structure/rewrite.h"

bool mmci_chain_has_inverses(const mmc_chain *chain) {
  bool any = chain->inverse_count > 0;
  for (int32_t i = 0; chain->traits != NULL && i < chain->n; i++)
    any = any || (chain->traits[i] & MMC_INVERSE) != 0;
  return any;
}

/* ---- prices ---------------------------------------------------------------------------------- */

/* A product that was priced; seconds is 0 where there is none. */
typedef struct priced {
  int64_t m, k, n;
  double seconds, plain_s; /* by the recipe that is known to be the best, and by the plain call */
} priced;

/* What prices of products are made of. Square factors make many products of the same sides, which
 * are priced once. */
enum { PRICED = 64 };
typedef struct gemm_prices {
  mmci_wisdom_pricing *wisdom;
  mmci_pricing pricing;
  mmc_dtype dtype;
  priced *priced; /* PRICED */
  mmci_structure_share shares[MMCI_STRUCTURE_PIECES];
} gemm_prices;

static const priced *price_of(const gemm_prices *x, int64_t m, int64_t k, int64_t n) {
  const uint64_t mixed =
      ((uint64_t)m * 31 + (uint64_t)k) * 31 + (uint64_t)n; /* wraps around harmlessly */
  priced *known = &x->priced[mixed * UINT64_C(0x9e3779b97f4a7c15) >> 58];
  if (known->seconds > 0 && known->m == m && known->k == k && known->n == n) return known;
  mmci_price price;
  mmci_gemm gemm = mmci_gemm_tight(x->dtype, MMCI_NATIVE, m, k, n, MMC_OP_N, MMC_OP_N);
  x->pricing.price(x->pricing.user, &gemm, &price);
  *known = (priced){m, k, n, price.seconds, price.plain_s};
  return known;
}

/* Products of chains with structure are plain calls, to which shares are measured, too. */
static double gemm_seconds(const void *user, int64_t m, int64_t k, int64_t n) {
  return price_of(user, m, k, n)->plain_s;
}

static mmc_status begin_prices(const mmci_planning *p, bool by_time, priced table[PRICED],
                               gemm_prices *prices, mmci_structure_prices *out, mmci_error *error) {
  const mmc_dtype dtype = p->chain->dtype;
  *prices = (gemm_prices){.dtype = dtype, .priced = table};
  *out = (mmci_structure_prices){.element_bytes = (int64_t)mmc_dtype_size(dtype),
                                 .lacks = mmci_offers_structure_lacks(p->on, dtype),
                                 .is_complex = mmci_dtype_is_complex(dtype)};
  if (!by_time) return MMC_OK;
  mmc_status status =
      mmci_offers_pricing(p->on, p->wisdom, dtype, MMCI_NATIVE, &prices->wisdom, error);
  if (status != MMC_OK) return status;
  const mmci_roofline *roofline = mmci_wisdom_pricing_roofline(prices->wisdom);
  prices->pricing = mmci_wisdom_pricing_of(prices->wisdom);
  out->user = prices;
  out->gemm_s = gemm_seconds;
  out->shares =
      mmci_offers_device_memory(p->on) ? mmci_structure_device_shares : mmci_structure_shares;
  memcpy(prices->shares, out->shares, sizeof prices->shares);
  if (mmci_wisdom_pricing_shares(prices->wisdom, prices->shares)) out->shares = prices->shares;
  out->bytes_per_s = roofline->bytes_per_s;
  out->launch_s = roofline->launch_s;
  return MMC_OK;
}

/* ---- what goes with structure ---------------------------------------------------------------- */

static mmc_status check_request(const mmci_planning *p, mmci_error *error) {
  const mmc_plan_options *options = p->options;
  if (strcmp(p->solver, "auto") != 0 && strcmp(p->solver, "given") != 0 &&
      strcmp(p->solver, "left-to-right") != 0)
    return mmci_fail_argument(error, MMC_E_ARG, "solver",
                              "expected auto or left-to-right where factors have structure, got "
                              "'%s'",
                              p->solver);
  if (options->kernel != NULL)
    return mmci_fail_argument(error, MMC_E_ARG, "kernel",
                              "expected none where factors have structure");
  return MMC_OK;
}

static int32_t left_to_right(void *user, int32_t i, int32_t j) {
  (void)user;
  (void)i;
  return j - 1;
}

/* Makes the ranges of the order that is asked for; NULL for any. */
static mmc_status ask_order(const mmci_planning *p, mmci_range **out, mmci_error *error) {
  const int32_t n = p->chain->n;
  const size_t count = (size_t)n;
  mmci_tree tree = {0};
  const bool in_turn = strcmp(p->solver, "left-to-right") == 0;
  *out = NULL;
  if (p->given.n == 0 && !in_turn) return MMC_OK;
  mmci_range *ranges = mmci_alloc_array(count, sizeof *ranges);
  if (ranges == NULL) return mmci_fail_nomem(error, count * sizeof *ranges);
  mmc_status status = in_turn ? mmci_tree_create(n, &tree, error) : MMC_OK;
  if (status == MMC_OK && in_turn)
    status = mmci_tree_from_splits(&tree, left_to_right, NULL, error);
  if (status == MMC_OK) mmci_tree_ranges(in_turn ? &tree : &p->given, ranges);
  mmci_tree_destroy(&tree);
  if (status == MMC_OK)
    *out = ranges;
  else
    free(ranges);
  return status;
}

/* ---- the plan -------------------------------------------------------------------------------- */

static int32_t best_split(void *user, int32_t i, int32_t j) {
  return mmci_structure_split(user, i, j);
}

/* Returns an operand of a plan by what it is in the table's chain. */
static int32_t operand_of(const mmci_plan *plan, int32_t operand) {
  const int32_t *factors = plan->structure->factors;
  return operand < plan->chain->n && factors != NULL ? factors[operand] : operand;
}

/* Tells which factors a step covers; of those that stand in another order the first and the last.
 */
static void fill_range(const int32_t *factors, const int32_t range[3], mmci_plan_step *step) {
  step->first = range[0];
  step->last = range[2] - 1;
  if (factors == NULL) return;
  step->first = step->last = factors[range[0]];
  for (int32_t i = range[0] + 1; i < range[2]; i++) {
    if (factors[i] < step->first) step->first = factors[i];
    if (factors[i] > step->last) step->last = factors[i];
  }
}

static mmc_status fill_steps(const mmci_structure_steps *list, const int64_t *dims, mmci_plan *plan,
                             mmci_error *error) {
  const size_t count = (size_t)list->count + 1;
  plan->steps = mmci_alloc_array(count, sizeof *plan->steps);
  if (plan->steps == NULL) return mmci_fail_nomem(error, count * sizeof *plan->steps);
  plan->step_count = list->count;
  for (int32_t s = 0; s < list->count; s++) {
    plan->steps[s] = (mmci_plan_step){
        .m = dims[list->ranges[s][0]],
        .k = dims[list->ranges[s][1]],
        .n = dims[list->ranges[s][2]],
        .left = operand_of(plan, list->operands[s][0]),
        .right = operand_of(plan, list->operands[s][1]),
        .kernel = mmci_structure_kernel_name(list->steps[s].kernel),
        .predicted_s = plan->structure->by_time ? list->steps[s].predicted_s : (double)NAN,
        .group = -1,
    };
    fill_range(plan->structure->factors, list->ranges[s], &plan->steps[s]);
  }
  mmci_plan_count_levels(plan);
  return list->count > 0 ? mmci_plan_place(plan, error) : MMC_OK;
}

/* Adds room for what the steps copy. */
static mmc_status add_scratch(mmci_plan *plan, mmci_error *error) {
  uint64_t most = 0;
  for (int32_t s = 0; s < plan->step_count; s++) {
    const mmci_plan_step *step = &plan->steps[s];
    uint64_t bytes = mmci_structure_scratch(&plan->structure->steps.steps[s], plan->chain->dtype,
                                            plan->structure->on_device, step->m, step->k, step->n);
    if (bytes > most) most = bytes;
  }
  plan->structure->scratch_offset_bytes = (plan->workspace_bytes + 63) & ~(uint64_t)63;
  if (most > UINT64_MAX / 4)
    return mmci_fail(error, MMC_E_OVERFLOW, "an intermediate exceeds the address space");
  if (most > 0) plan->workspace_bytes = plan->structure->scratch_offset_bytes + most;
  return MMC_OK;
}

static mmc_status add_time(const mmci_planning *p, const gemm_prices *prices, mmci_plan *plan,
                           mmci_error *error) {
  plan->time = mmci_alloc_zeroed(1, sizeof *plan->time);
  if (plan->time == NULL) return mmci_fail_nomem(error, sizeof *plan->time);
  plan->time->predicted_s = plan->structure->steps.cost.seconds * (double)p->chain->batch;
  plan->time->kept = "";
  plan->time->roofline = mmci_roofline_public(mmci_wisdom_pricing_roofline(prices->wisdom));
  return MMC_OK;
}

/* Copies which factor stands at each place of the table's chain; NULL where they stand as given. */
static mmc_status copy_factors(const int32_t *factors, int32_t n, mmci_plan *plan,
                               mmci_error *error) {
  if (factors == NULL) return MMC_OK;
  const size_t count = (size_t)n;
  plan->structure->factors = mmci_alloc_array(count, sizeof *factors);
  if (plan->structure->factors == NULL) return mmci_fail_nomem(error, count * sizeof *factors);
  memcpy(plan->structure->factors, factors, count * sizeof *factors);
  return MMC_OK;
}

static mmc_status build(const mmci_planning *p, const mmci_structure_table *table,
                        const int32_t *factors, const mmci_structure_prices *prices,
                        mmci_plan *plan, mmci_error *error) {
  plan->structure = mmci_alloc_zeroed(1, sizeof *plan->structure);
  if (plan->structure == NULL) return mmci_fail_nomem(error, sizeof *plan->structure);
  plan->structure->by_time = prices->gemm_s != NULL;
  plan->structure->on_device = mmci_offers_device_memory(p->on);
  mmci_structure_steps *list = &plan->structure->steps;
  mmc_status status = mmci_structure_list(table, prices, list, error);
  if (status == MMC_OK) status = mmci_chain_copy(p->chain, &plan->chain, error);
  if (status == MMC_OK) status = copy_factors(factors, p->chain->n, plan, error);
  if (status == MMC_OK) status = mmci_tree_create(p->chain->n, &plan->tree, error);
  if (status == MMC_OK)
    status = mmci_tree_from_splits(&plan->tree, best_split, (void *)table, error);
  if (status == MMC_OK)
    status = mmci_tree_multiplications(&plan->tree, table->chain->dims, &plan->tree_multiplications,
                                       error);
  if (status == MMC_OK) status = fill_steps(list, table->chain->dims, plan, error);
  if (status == MMC_OK) status = add_scratch(plan, error);
  if (status != MMC_OK) return status;
  const uint64_t batch = (uint64_t)p->chain->batch;
  plan->multiplications = mmci_u128_mul(list->cost.count, batch);
  plan->tree_multiplications = mmci_u128_mul(plan->tree_multiplications, batch);
  if (plan->workspace_bytes > p->options->memory_limit_bytes)
    return mmci_fail_argument(error, MMC_E_MEMORY_LIMIT, "memory limit",
                              "the plan with structure needs %llu bytes of workspace",
                              (unsigned long long)plan->workspace_bytes);
  return MMC_OK;
}

/* Sums of the same seconds in another order differ by less. */
static const double rounded_sums = 1 - 1e-9;

/* Finds the seconds of the products of the best order where all are GEMM, one after the other. */
static mmc_status dense_seconds(const mmc_chain *chain, const gemm_prices *prices, double *out,
                                mmci_error *error) {
  const int64_t *dims = chain->dims;
  const size_t n = (size_t)chain->n;
  double *best = mmci_alloc_zeroed(n * n, sizeof *best);
  if (best == NULL) return mmci_fail_nomem(error, n * n * sizeof *best);
  for (size_t length = 2; length <= n; length++)
    for (size_t i = 0, j = length - 1; j < n; i++, j++) {
      double least = INFINITY;
      for (size_t k = i; k < j; k++) {
        const double before = best[i * n + k] + best[(k + 1) * n + j];
        const double s = before + price_of(prices, dims[i], dims[k + 1], dims[j + 1])->seconds;
        if (s < least) least = s;
      }
      best[i * n + j] = least;
    }
  *out = best[n - 1];
  free(best);
  return MMC_OK;
}

/* Says whether the device may take several products of the chain as one call, which needs four
 * sides that are no longer than it takes. */
static bool may_group(const mmci_planning *p) {
  const int64_t side = mmci_offers_group_side(p->on);
  int32_t few = 0;
  for (int32_t d = 0; d <= p->chain->n; d++) few += p->chain->dims[d] <= side;
  return few >= 4;
}

/* What is planned: the chain as it was given, or with its groups taken apart. */
typedef struct problem {
  mmci_structure_table table;
  mmci_structure_rewritten rewritten;
} problem;

static void end_problem(problem *x) {
  mmci_structure_destroy(&x->table);
  mmci_structure_rewritten_destroy(&x->rewritten);
}

/* Takes the groups of a chain apart where that is cheaper. */
static mmc_status try_rewriting(const mmci_planning *p, const mmci_structure_prices *prices,
                                problem *given, mmci_error *error) {
  problem apart = {0};
  mmc_status status = mmci_structure_rewrite(p->chain, &apart.rewritten, error);
  if (status != MMC_OK || apart.rewritten.chain == NULL) return status;
  status = mmci_structure_solve(apart.rewritten.chain, prices, NULL, &apart.table, error);
  if (status == MMC_OK &&
      mmci_structure_less(mmci_structure_cost_of(&apart.table),
                          mmci_structure_cost_of(&given->table), prices->gemm_s != NULL)) {
    const problem other = *given;
    *given = apart;
    apart = other;
  }
  end_problem(&apart);
  return status;
}

mmc_status mmci_plan_structured(const mmci_planning *p, bool by_time, const char *device,
                                bool *beats_dense, mmci_plan *out, mmci_error *error) {
  mmci_plan plan = {.solver = strcmp(p->solver, "auto") == 0 ? "structure" : p->solver,
                    .device = device,
                    .precision = "native",
                    .chunk = p->chain->batch > 0,
                    .explainer = by_time ? &mmci_explain_structure_time : &mmci_explain_structure};
  gemm_prices gemms = {0};
  priced table_of_prices[PRICED] = {{0}};
  mmci_structure_prices prices;
  problem x = {0};
  mmci_range *order = NULL;
  mmc_status status = check_request(p, error);
  if (status == MMC_OK) status = begin_prices(p, by_time, table_of_prices, &gemms, &prices, error);
  if (status == MMC_OK) status = ask_order(p, &order, error);
  mmci_interrupt asks = {.ask = p->options->progress, .user = p->options->progress_user};
  mmci_interrupt *before = mmci_interrupt_begin(&asks);
  const bool rewrites = order == NULL && p->chain->inverse_count > 0;
  mmci_interrupt_span(0, rewrites ? 0.5 : 1);
  if (status == MMC_OK)
    status = mmci_structure_solve(p->chain, &prices, (const int32_t(*)[3])order, &x.table, error);
  mmci_interrupt_span(0.5, 1);
  if (status == MMC_OK && rewrites) status = try_rewriting(p, &prices, &x, error);
  mmci_interrupt_end(before);
  if (status == MMC_OK) status = build(p, &x.table, x.rewritten.factors, &prices, &plan, error);
  if (status == MMC_OK && by_time) status = add_time(p, &gemms, &plan, error);
  if (status == MMC_OK) status = mmci_offers_structured(p->on, &plan, error);
  double dense_s = 0;
  if (status == MMC_OK && beats_dense != NULL && by_time && order == NULL && !may_group(p))
    status = dense_seconds(p->chain, &gemms, &dense_s, error);
  if (status == MMC_OK && beats_dense != NULL)
    *beats_dense = plan.structure->steps.cost.seconds < dense_s * rounded_sums;
  if (gemms.wisdom != NULL) mmci_wisdom_pricing_release(gemms.wisdom);
  end_problem(&x);
  free(order);
  if (status == MMC_OK)
    *out = plan;
  else
    mmci_plan_destroy(&plan);
  return status;
}

#include "planner/planner.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/layout.h"
#include "planner/objective.h"
#include "planner/structured.h"
#include "planner/traffic_fusion.h"

/* ---- objectives ---------------------------------------------------------------------------- */

mmc_status mmci_objective_read(const char *name, const mmci_objective **out, mmci_error *error) {
  static const mmci_objective *const objectives[] = {&mmci_objective_flops, &mmci_objective_traffic,
                                                     &mmci_objective_time, &mmci_objective_energy};
  for (size_t o = 0; o < sizeof objectives / sizeof objectives[0]; o++) {
    if (name != NULL && strcmp(name, objectives[o]->name) != 0) continue;
    *out = objectives[o];
    return MMC_OK;
  }
  return mmci_fail_argument(error, MMC_E_ARG, "objective",
                            "expected flops, traffic, time or energy, got '%s'", name);
}

static const char *solver_of(const mmc_plan_options *options) {
  if (options->order != NULL) return "given";
  return options->solver != NULL ? options->solver : "auto";
}

mmc_status mmci_planner_check(const mmci_objective *objective, const mmc_plan_options *options,
                              mmci_error *error) {
  if (!objective->takes_fusion && options->fuse != NULL)
    return mmci_fail_argument(error, MMC_E_ARG, "fuse", "expected objective traffic with it");
  if (!objective->takes_kernel && options->kernel != NULL)
    return mmci_fail_argument(error, MMC_E_ARG, "kernel",
                              "expected objective flops or traffic with it");
  if (!objective->takes_fusion && options->on_chip_words != 0)
    return mmci_fail_argument(error, MMC_E_ARG, "on_chip_words",
                              "expected objective traffic with it");
  if (!objective->takes_fusion && (options->tile[0] != 0 || options->tile[1] != 0))
    return mmci_fail_argument(error, MMC_E_ARG, "tile", "expected objective traffic with it");
  if (options->order != NULL && options->solver != NULL && strcmp(options->solver, "auto") != 0)
    return mmci_fail_argument(error, MMC_E_ARG, "solver", "expected auto with an order, got '%s'",
                              options->solver);
  double slowdown = options->max_slowdown;
  if (slowdown != 0 && !(slowdown >= 1 && isfinite(slowdown)))
    return mmci_fail_argument(error, MMC_E_ARG, "max_slowdown",
                              "expected a number from 1, or 0 for no bound, got %g", slowdown);
  if (!objective->takes_slowdown && slowdown != 0)
    return mmci_fail_argument(error, MMC_E_ARG, "max_slowdown",
                              "expected objective energy with it");
  mmci_traffic_request traffic;
  mmc_status status = mmci_traffic_request_read(options, &traffic, error);
  if (status == MMC_OK && traffic.joint && strcmp(solver_of(options), "auto") != 0)
    return mmci_fail_argument(error, MMC_E_ARG, options->order != NULL ? "order" : "solver",
                              "expected auto with fuse joint, got '%s'",
                              options->order != NULL ? options->order : options->solver);
  return status;
}

/* ---- groups by the model ------------------------------------------------------------------- */

static mmc_status group_by_model(mmci_planning *p, double least_gain, const char *kernel,
                                 mmci_error *error) {
  const mmc_dtype dtype = p->chain->dtype;
  mmci_facts facts;
  mmc_status status = mmci_offers_facts(p->on, dtype, p->precision, &facts, error);
  if (status != MMC_OK) return status;
  mmci_roofline roofline = mmci_roofline_assumed(&facts);
  mmci_pricing pricing = mmci_roofline_pricing(&roofline);
  const mmci_group_query query = {
      .on = p->on, .dtype = dtype, .precision = p->precision, .kernel = kernel};
  mmci_group_machine machine;
  if (!mmci_group_machine_of(&query, &pricing, &roofline, &machine)) return MMC_OK;
  if (kernel == NULL) machine.least_gain = least_gain;
  return mmci_plan_choose_groups(&p->plan, &machine, p->options->memory_limit_bytes, error);
}

mmc_status mmci_planning_group(mmci_planning *p, double least_gain, mmci_error *error) {
  const char *kernel = p->options->kernel;
  /* Fusions that were asked for of a GPU are executed by any kernel that takes them. */
  const bool asked = p->options->fuse != NULL && !mmci_offers_host_memory(p->on);
  if (kernel == NULL) return group_by_model(p, least_gain, asked ? "" : NULL, error);
  bool found;
  mmc_status status = mmci_plan_by_kernel(&p->plan, p->on, p->precision, kernel, &found, error);
  if (status != MMC_OK || found) return status;
  status = group_by_model(p, least_gain, kernel, error);
  if (status != MMC_OK || p->plan.group_count > 0) return status;
  return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "kernel",
                            "device '%s' has none called '%s' for these products", p->plan.device,
                            kernel);
}

/* ---- the sequence -------------------------------------------------------------------------- */

/* On host memory, a batch that keeps no intermediates in memory need not be cut. */
static void keep_batch_whole(mmci_planning *p) {
  if (mmci_offers_host_memory(p->on) && p->plan.workspace_bytes == 0)
    p->plan.chunk = p->plan.chain->batch;
}

/* Asks whether to go on. In very long chains, what follows the order takes longer than the search.
 */
static mmc_status ask_progress(const mmci_planning *p, mmci_error *error) {
  return mmci_ask_progress(p->options->progress, p->options->progress_user, 1, error);
}

/* Does all that follows the order. *fits is false where the device is to be asked for its memory,
 * and the plan to be made again. */
static mmc_status finish_plan(const mmci_objective *objective, mmci_planning *p, bool *fits,
                              mmci_error *error) {
  const mmc_plan_options *options = p->options;
  mmci_offers_memory memory = {.on = p->on,
                               .precision = p->precision,
                               .staged = options->location == MMC_HOST,
                               .asks = p->asks_memory};
  mmc_status status = mmci_offers_fit(&memory, options->device_memory_bytes,
                                      options->memory_limit_bytes, &p->plan, error);
  p->plan.scaled = options->scaled;
  p->plan.most_bytes = options->memory_limit_bytes < options->device_memory_bytes
                           ? options->memory_limit_bytes
                           : options->device_memory_bytes;
  if (status == MMC_OK) status = ask_progress(p, error);
  if (status == MMC_OK && !options->scaled) status = objective->group(p, error);
  if (status == MMC_OK) keep_batch_whole(p);
  if (status == MMC_OK) status = ask_progress(p, error);
  if (status == MMC_OK && objective->price != NULL) {
    status = objective->price(p, error);
    if (status == MMC_OK)
      mmci_plan_fit_recipes(&p->plan, &memory.machine, options->memory_limit_bytes);
  }
  *fits = status == MMC_OK && mmci_offers_fits(&memory, &p->plan);
  if (*fits) status = mmci_plan_name_kernels(&p->plan, p->on, p->precision, error);
  return status;
}

/* Notes what the order that was found takes before groups are formed. */
static mmc_status note_order_bytes(mmci_planning *p, mmci_error *error) {
  const int64_t chunk = p->plan.chunk;
  p->order_bytes = p->order_chain_bytes = p->plan.workspace_bytes;
  if (chunk <= 1) return MMC_OK;
  mmc_status status = mmci_plan_shrink(&p->plan, 0, error);
  p->order_chain_bytes = p->plan.workspace_bytes;
  p->plan.chunk = chunk;
  if (status == MMC_OK) status = mmci_plan_lay_out(&p->plan, p->plan.parallel, error);
  if (status != MMC_OK) mmci_plan_destroy(&p->plan);
  return status;
}

static mmc_status make_once(const mmci_objective *objective, const char *device, mmci_planning *p,
                            bool *fits, mmci_error *error) {
  p->known = NULL;
  p->order_bytes = p->order_chain_bytes = 0;
  mmc_status status = objective->begin != NULL ? objective->begin(p, error) : MMC_OK;
  if (status == MMC_OK) status = objective->order(p, error);
  if (status == MMC_OK && p->options->memory_limit_bytes != MMC_NO_LIMIT)
    status = note_order_bytes(p, error);
  if (status == MMC_OK) {
    p->plan.device = device;
    p->plan.precision = mmci_precision_name(p->precision);
    status = finish_plan(objective, p, fits, error);
    if (status != MMC_OK || !*fits) mmci_plan_destroy(&p->plan);
  }
  if (objective->end != NULL) objective->end(p);
  return status;
}

static mmc_status make(const mmci_objective *objective, const char *device, mmci_planning *p,
                       mmci_error *error) {
  const mmci_precision precision = p->precision;
  bool fits = true;
  p->asks_memory = false;
  mmc_status status = make_once(objective, device, p, &fits, error);
  if (status != MMC_OK || fits) return status;
  p->precision = precision;
  p->asks_memory = true;
  return make_once(objective, device, p, &fits, error);
}

/* Says whether one plan is predicted to be cheaper than the other, by more than sums in another
 * order differ. */
static bool is_cheaper(const mmci_plan *plan, const mmci_plan *than) {
  const double rounded_sums = 1 - 1e-9;
  if (plan->energy != NULL && than->energy != NULL)
    return plan->energy->joules < than->energy->joules * rounded_sums;
  if (plan->time != NULL && than->time != NULL)
    return plan->time->predicted_s < than->time->predicted_s * rounded_sums;
  if (plan->traffic != NULL && than->traffic != NULL)
    return plan->traffic->words < than->traffic->words;
  return plan->multiplications < than->multiplications;
}

/* Makes the plan with a wider limit for its order, and keeps it where its groups leave no more in
 * memory than is allowed. Otherwise there is no plan: E_MEMORY_LIMIT. */
static mmc_status make_wider(const mmci_objective *objective, const char *device, mmci_planning *p,
                             uint64_t order_limit_bytes, mmci_error *error) {
  p->order_limit_bytes = order_limit_bytes;
  mmc_status status = make(objective, device, p, error);
  if (status != MMC_OK) return status == MMC_E_OVERFLOW ? MMC_E_MEMORY_LIMIT : status;
  uint64_t bytes = mmci_bytes_add(p->plan.workspace_bytes, p->plan.scratch_bytes);
  p->plan.limit_bytes = p->options->memory_limit_bytes;
  if (bytes <= p->options->memory_limit_bytes) return MMC_OK;
  mmci_plan_destroy(&p->plan);
  return MMC_E_MEMORY_LIMIT;
}

/* Puts a plan in place of the best so far unless it is dearer, because it leaves more room; else
 * drops it. One that is crowded is no better than one that is not. */
static void take_best(mmc_status *best, mmci_planning *p, mmc_status status, mmci_planning *next) {
  if (status != MMC_OK) return;
  if (*best == MMC_OK && (next->plan.crowded || is_cheaper(&p->plan, &next->plan))) {
    mmci_plan_destroy(&next->plan);
    return;
  }
  if (*best == MMC_OK) mmci_plan_destroy(&p->plan);
  *best = MMC_OK;
  *p = *next;
}

/* Makes the plan within the limit on its memory. Groups may keep results elsewhere, so the best
 * order of all is tried first, and then the next best ones, each of which needs less than the one
 * before, with fewer and fewer chains at a time, and then one; and at last one that is held to the
 * limit as if all results were kept in memory. The cheapest plan that fits is taken. Which orders
 * are tried does not depend on the limit: what a plan says that it needs is enough for one that is
 * no dearer.
 */
static mmc_status make_within(const mmci_objective *objective, const char *device, mmci_planning *p,
                              mmci_error *error) {
  enum { STEPS = 64, MOST_FACTORS = 64 }; /* the search is slow in longer chains */
  const uint64_t limit_bytes = p->options->memory_limit_bytes;
  const int steps = limit_bytes == MMC_NO_LIMIT ? 0 : p->chain->n > MOST_FACTORS ? 1 : STEPS;
  const mmci_planning asked = *p;
  mmci_planning next = asked;
  mmc_status status = MMC_OK, best = MMC_E_MEMORY_LIMIT;
  uint64_t order_limit_bytes = MMC_NO_LIMIT;
  for (int s = 0; s < steps && order_limit_bytes > limit_bytes; s++) {
    next = asked;
    status = make_wider(objective, device, &next, order_limit_bytes, error);
    if (status != MMC_OK && status != MMC_E_MEMORY_LIMIT) break;
    take_best(&best, p, status, &next);
    const bool is_held = next.order_bytes <= limit_bytes; /* also where there is no order */
    if (best == MMC_OK && is_held && s == 0) return MMC_OK;
    /* No order that needs less takes fewer multiplications. */
    if (is_held || (best == MMC_OK && objective == &mmci_objective_flops)) break;
    const uint64_t more_bytes = next.order_bytes - next.order_chain_bytes; /* but for one chain */
    order_limit_bytes =
        more_bytes > 0 ? next.order_chain_bytes + more_bytes / 4 : next.order_bytes - 1;
  }
  if (status == MMC_OK || status == MMC_E_MEMORY_LIMIT) {
    next = asked;
    next.order_limit_bytes = limit_bytes;
    status = make(objective, device, &next, error);
    take_best(&best, p, status, &next);
    if (best == MMC_OK && status == MMC_E_MEMORY_LIMIT) return MMC_OK;
  }
  if (status != MMC_OK && best == MMC_OK) mmci_plan_destroy(&p->plan);
  return status;
}

/* ---- structure ------------------------------------------------------------------------------- */

/* A plan that uses the structure of factors, where there is one. */
typedef struct structured {
  bool there, beats_dense;
  mmci_plan plan;
} structured;

/* Makes a plan that uses the structure of factors, where there is any, it is asked for, and the
 * device computes it. Chains with inverses have no other: not to have it is an error. */
static mmc_status plan_structure(const mmci_objective *objective, const char *device,
                                 const mmci_planning *p, structured *out, mmci_error *error) {
  const bool has_inverses = mmci_chain_has_inverses(p->chain);
  const bool by_time = objective == &mmci_objective_time;
  const bool asked = by_time || objective == &mmci_objective_flops;
  if (mmci_precision_is_reproducible(p->precision)) {
    /* Matrices are stored whole, so dense products compute the same. */
    if (!has_inverses) return MMC_OK;
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "precision",
                              "factors that are inverses are not computed reproducibly");
  }
  if (!asked && has_inverses)
    return mmci_fail_argument(error, MMC_E_ARG, "objective",
                              "expected flops or time where factors are inverses, got '%s'",
                              objective->name);
  if (!asked || (!has_inverses && !mmci_offers_structure(p->on, p->chain->dtype))) return MMC_OK;
  /* A device takes a batch of dense products as one call. */
  if (!has_inverses && p->chain->batch != 1) return MMC_OK;
  mmc_status status =
      mmci_plan_structured(p, by_time, device, &out->beats_dense, &out->plan, error);
  out->there = status == MMC_OK;
  const bool ends = has_inverses || status == MMC_E_NOMEM || status == MMC_E_INTERRUPTED;
  return ends ? status : MMC_OK;
}

static mmc_status plan_dense(const mmci_objective *objective, const char *device, mmci_planning *p,
                             mmci_error *error) {
  mmc_status status = make_within(objective, device, p, error);
  if (status != MMC_OK || !p->plan.crowded || p->precision == MMCI_NATIVE ||
      mmci_precision_is_reproducible(p->precision))
    return status;
  /* Other arithmetic is allowed, never demanded: where there is no room for what its products
   * hold, the plan becomes a native one. */
  mmci_plan_destroy(&p->plan);
  p->precision = MMCI_NATIVE;
  return make_within(objective, device, p, error);
}

/* Makes the plan with structure and the dense one, and keeps the cheaper; where one cannot be, or
 * can be no cheaper, the other alone. */
static mmc_status plan_both(const mmci_objective *objective, const char *device, mmci_planning *p,
                            mmci_error *error) {
  structured structured = {0};
  const bool looks = p->chain->traits != NULL && !p->options->scaled;
  mmc_status status = looks ? plan_structure(objective, device, p, &structured, error) : MMC_OK;
  const bool alone = structured.beats_dense || mmci_chain_has_inverses(p->chain);
  if (status == MMC_OK && !alone) status = plan_dense(objective, device, p, error);
  if (status != MMC_OK || !structured.there) {
    if (structured.there) mmci_plan_destroy(&structured.plan);
    return status;
  }
  if (!alone && !is_cheaper(&structured.plan, &p->plan)) {
    mmci_plan_destroy(&structured.plan);
    return MMC_OK;
  }
  if (!alone) mmci_plan_destroy(&p->plan);
  p->plan = structured.plan;
  return MMC_OK;
}

/* ---- tolerances ------------------------------------------------------------------------------ */

/* Where every product of a tree is off by so much of its operands' lengths, or less, their errors
 * add up to this part of all factors' lengths, times 1 and little more. */
static double compounded(double each, int32_t products) {
  return expm1(products * log1p(each));
}

static mmc_status check_tolerance(const mmci_planning *p, mmci_error *error) {
  if (mmci_chain_has_inverses(p->chain))
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "tolerance",
                              "expected no factors that are inverses with it");
  if (p->options->scaled || p->chain->rule.semiring != MMC_PLUS_TIMES)
    return mmci_fail_argument(error, MMC_E_ARG, "tolerance", "expected none with %s",
                              p->options->scaled ? "scaled" : "a semiring");
  return MMC_OK;
}

/* Finds what the result is off by at most: all products count as the worst. */
static void bound_error(const mmci_planning *p, double tolerance, mmci_plan *plan) {
  double most = 0;
  plan->tolerance = tolerance;
  for (int32_t s = 0; s < plan->step_count; s++) {
    const mmci_gemm gemm = mmci_step_gemm(plan, p->on, p->precision, s);
    most = fmax(most, mmci_offers_error_bound(p->on, &gemm));
  }
  plan->error_bound = compounded(most, plan->chain->n - 1);
}

mmc_status mmci_planner_plan(const mmci_objective *objective, const mmc_chain *chain,
                             const mmc_plan_options *options, const struct mmci_opened *on,
                             const char *device, mmci_wisdom *wisdom, mmci_precision *precision,
                             double tolerance, mmci_plan *out, mmci_error *error) {
  mmc_chain within = *chain; /* the same, with what a product may be off by */
  if (tolerance > 0 && chain->n > 1)
    within.rule.tolerance = expm1(log1p(tolerance) / (chain->n - 1));
  /* The order of reproducible products, and so their bits, must not depend on the other chains. */
  if (mmci_precision_is_reproducible(*precision)) within.shared = NULL;
  mmci_planning p = {.chain = &within,
                     .options = options,
                     .solver = solver_of(options),
                     .on = on,
                     .wisdom = wisdom,
                     .precision = *precision};
  mmc_status status = mmci_traffic_request_read(options, &p.traffic, error);
  if (status == MMC_OK && tolerance > 0) status = check_tolerance(&p, error);
  if (status == MMC_OK && options->order != NULL)
    status = mmci_tree_read(options->order, chain->n, &p.given, error);
  if (status == MMC_OK) status = plan_both(objective, device, &p, error);
  mmci_tree_destroy(&p.given);
  if (status != MMC_OK) return status;
  if (mmci_precision_is_reproducible(p.precision))
    status = mmci_offers_check_sums(&p.plan, on, p.precision, error);
  if (status != MMC_OK) {
    mmci_plan_destroy(&p.plan);
    return status;
  }
  if (tolerance > 0) bound_error(&p, tolerance, &p.plan);
  *precision = p.precision;
  *out = p.plan;
  return MMC_OK;
}

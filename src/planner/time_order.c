#include "planner/time_order.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "order/workspace.h"
#include "plan/explain.h"
#include "planner/fewest.h"
#include "planner/fit.h"

/* ---- prices -------------------------------------------------------------------------------- */

typedef struct priced_chain {
  const mmc_chain *chain;
  const mmci_time_request *request;
} priced_chain;

/* Prices a product that is computed so often. */
static void price_times(const priced_chain *c, mmci_range r, int64_t times, mmci_price *out) {
  mmci_gemm gemm;
  mmci_chain_product(c->chain, c->request->precision, r.first, r.split, r.last, &gemm);
  gemm.batch = times;
  c->request->pricing->price(c->request->pricing->user, &gemm, out);
  if (gemm.batch == 0) out->seconds = out->plain_s = 0;
}

static void price_product(const priced_chain *c, mmci_range r, mmci_price *out) {
  price_times(c, r, mmci_chain_product_batch(c->chain, r.first, r.last), out);
}

/* A priced chain whose products are asked for one after the other. */
typedef struct asked_chain {
  const priced_chain *chain;
  mmci_gemm gemm; /* the last product */
} asked_chain;

static asked_chain asked_of(const priced_chain *c) {
  asked_chain x = {.chain = c};
  mmci_chain_product(c->chain, c->request->precision, 0, 1, 2, &x.gemm);
  return x;
}

static double seconds_of(void *user, int64_t i, int64_t k, int64_t j) {
  asked_chain *x = user;
  const mmci_pricing *pricing = x->chain->request->pricing;
  mmci_price price;
  x->gemm.batch = mmci_chain_product_batch(x->chain->chain, i, j);
  if (x->gemm.batch == 0) return 0;
  mmci_chain_product_turn(x->chain->chain, i, k, j, &x->gemm);
  pricing->price(pricing->user, &x->gemm, &price);
  return price.seconds;
}

/* ---- two orders ---------------------------------------------------------------------------- */

/* The seconds of an order. Errors of measurements are independent; those of one model are not. */
typedef struct total {
  double seconds;
  double squares, modelled; /* sums of the errors' squares, and of the errors */
  double hidden_s;          /* seconds that find_beside() saves; 0 when it was not asked */
} total;

/* The products of a plan's steps. */
typedef struct products {
  mmci_range *ranges;
  int32_t count;
} products;

static bool has_range(const products *p, mmci_range r) {
  for (int32_t t = 0; t < p->count; t++)
    if (p->ranges[t].first == r.first && p->ranges[t].split == r.split &&
        p->ranges[t].last == r.last)
      return true;
  return false;
}

/* Adds up the products that only mine has, because those that both have do not say which is
 * faster. */
static total total_of(const priced_chain *c, const products *mine, const products *others) {
  total sum = {0};
  for (int32_t t = 0; t < mine->count; t++) {
    mmci_range r = mine->ranges[t];
    if (has_range(others, r)) continue;
    mmci_price price;
    price_product(c, r, &price);
    double error_s = price.seconds * mmci_doubt_of(price.source, price.error);
    sum.seconds += price.seconds;
    if (price.modelled)
      sum.modelled += error_s;
    else
      sum.squares += error_s * error_s;
  }
  return sum;
}

/* Two sub-trees of plain calls side by side take the longer one's seconds and this share of the
 * shorter one's, or the seconds of their arithmetic at this share of the device's peak: two
 * products of 350x767x128 and 128x216x959 in FP32, which take 7.7 and 6.1 us alone, take 10.7 us on
 * an H200. Calls of other kernels gain nothing: with one of them by a kernel of ours the same two
 * take longer than one after the other. */
static const double of_the_shorter = 0.5, of_peak = 0.7;

/* A step's sub-tree: its seconds at best and by plain calls, and those of its arithmetic alone. */
typedef struct subtree {
  double seconds, plain_s, least_s;
} subtree;

static double beside_s(const subtree *x, const subtree *y) {
  double longer = fmax(x->plain_s, y->plain_s), shorter = fmin(x->plain_s, y->plain_s);
  return fmax(longer + of_the_shorter * shorter, (x->least_s + y->least_s) / of_peak);
}

/* Finds the steps whose two sub-trees are best computed by plain calls side by side, and sets their
 * entries in beside, unless that is NULL. *hidden_s is what that saves in all. */
static mmc_status find_beside(const priced_chain *c, const mmci_plan *plan, bool *beside,
                              double *hidden_s, mmci_error *error) {
  const double rate = c->request->shared_flops_per_s;
  const int32_t n = plan->chain->n;
  *hidden_s = 0;
  if (!(rate > 0) || plan->step_count == 0) return MMC_OK;
  size_t count = (size_t)plan->step_count;
  subtree *trees = mmci_alloc_array(count, sizeof *trees);
  if (trees == NULL) return mmci_fail_nomem(error, count * sizeof *trees);
  for (int32_t s = 0; s < plan->step_count; s++) {
    const mmci_plan_step *step = &plan->steps[s];
    const subtree none = {0}, *left = step->left < n ? &none : &trees[step->left - n],
                  *right = step->right < n ? &none : &trees[step->right - n];
    mmci_range r = mmci_plan_range(plan, step);
    mmci_price price;
    price_product(c, r, &price);
    double flops = mmci_flops(plan->chain->dtype, step->m, step->k, step->n) *
                   (double)mmci_chain_product_batch(plan->chain, r.first, r.last);
    double best_s = left->seconds + right->seconds, plain_s = left->plain_s + right->plain_s;
    if (left != &none && right != &none) {
      double together_s = beside_s(left, right);
      if (together_s < best_s) {
        *hidden_s += best_s - together_s;
        best_s = together_s;
        if (beside != NULL) beside[s] = true;
      }
      plain_s = fmin(plain_s, together_s);
    }
    trees[s] = (subtree){best_s + price.seconds, plain_s + price.plain_s,
                         left->least_s + right->least_s + flops / rate};
  }
  free(trees);
  return MMC_OK;
}

/* Returns the most that a plan saves less than another in its place. */
static double less_hidden(double before_s, double after_s) {
  return fmax(0, before_s - after_s);
}

/* Adds up what the plan takes by the cheapest calls. */
static mmc_status total_by_calls(const priced_chain *c, const mmci_plan *plan, total *out,
                                 mmci_error *error) {
  mmci_cover cover;
  mmc_status status = mmci_plan_cover(plan, c->request->machine, &cover, error);
  if (status != MMC_OK) return status;
  *out = (total){cover.seconds, cover.squares, cover.modelled, 0};
  bool separate = cover.groups == 0;
  mmci_cover_destroy(&cover);
  return separate ? find_beside(c, plan, NULL, &out->hidden_s, error) : MMC_OK;
}

/* Says whether plan b takes no longer than a by the cheapest calls of either. */
static mmc_status compare_calls(const priced_chain *c, const mmci_plan *a, const mmci_plan *b,
                                bool *out, mmci_error *error) {
  total before, after;
  *out = true;
  if (c->request->machine == NULL || a->step_count > MMCI_GROUPS_MOST_STEPS) return MMC_OK;
  mmc_status status = total_by_calls(c, a, &before, error);
  if (status == MMC_OK) status = total_by_calls(c, b, &after, error);
  if (status == MMC_OK) *out = after.seconds - after.hidden_s <= before.seconds - before.hidden_s;
  return status;
}

/* Says whether plan b is surely faster than a. *gain_s is by how much. */
static mmc_status compare_plans(const priced_chain *c, const mmci_plan *a, const mmci_plan *b,
                                bool *surely, double *gain_s, mmci_error *error) {
  products x = {.count = a->step_count}, y = {.count = b->step_count};
  double hidden_a, hidden_b;
  mmc_status status = mmci_plan_ranges(a, &x.ranges, error);
  if (status == MMC_OK) status = mmci_plan_ranges(b, &y.ranges, error);
  if (status == MMC_OK) status = find_beside(c, a, NULL, &hidden_a, error);
  if (status == MMC_OK) status = find_beside(c, b, NULL, &hidden_b, error);
  if (status == MMC_OK) {
    total before = total_of(c, &x, &y), after = total_of(c, &y, &x);
    *gain_s = before.seconds - after.seconds - less_hidden(hidden_a, hidden_b);
    double error_s = sqrt(before.squares + after.squares) + before.modelled + after.modelled;
    *surely = *gain_s > error_s;
  }
  free(x.ranges);
  free(y.ranges);
  return status;
}

/* ---- the order ----------------------------------------------------------------------------- */

static mmci_order_problem problem_of(const mmc_chain *chain, mmc_price_fn price, void *user,
                                     mmci_bounds bounds) {
  return (mmci_order_problem){.n = chain->n,
                              .dims = chain->dims,
                              .price = price,
                              .price_user = user,
                              .threads = 1,
                              .progress = bounds.progress,
                              .progress_user = bounds.progress_user};
}

/* Makes the plan of a tree, which it takes over, and of one that fits where it does not. */
static mmc_status plan_within(const mmc_chain *chain, const mmci_order_problem *problem,
                              const mmci_solver *used, mmci_order_answer *answer,
                              mmci_bounds bounds, mmci_plan *out, mmci_error *error) {
  mmci_plan plan;
  mmc_status status = mmci_plan_from_tree(chain, &answer->tree, &plan, error);
  if (status != MMC_OK) return status;
  uint64_t unlimited_bytes = plan.workspace_bytes, leanest_bytes;
  status = mmci_plan_shrink(&plan, bounds.limit_bytes, error);
  if (status != MMC_OK) {
    mmci_plan_destroy(&plan);
    return status;
  }
  if (plan.workspace_bytes > bounds.limit_bytes) {
    mmci_u128 unlimited = plan.multiplications;
    mmci_plan_destroy(&plan);
    status = mmci_order_within(problem, mmc_dtype_size(chain->dtype), bounds.limit_bytes,
                               &leanest_bytes, answer, error);
    if (status == MMC_OK) status = mmci_plan_from_tree(chain, &answer->tree, &plan, error);
    if (status != MMC_OK) return status;
    plan.limited = true;
    plan.limit_bytes = bounds.limit_bytes;
    plan.unlimited_multiplications = unlimited;
    plan.unlimited_bytes = unlimited_bytes;
    status = mmci_plan_shrink(&plan, bounds.limit_bytes, error);
    if (status != MMC_OK) {
      mmci_plan_destroy(&plan);
      return status;
    }
  }
  plan.solver = used->name;
  *out = plan;
  return MMC_OK;
}

mmc_status mmci_plan_by_price(const mmc_chain *chain, mmc_price_fn price, void *user,
                              mmci_bounds bounds, mmci_plan *out, mmci_error *error) {
  const mmci_order_problem problem = problem_of(chain, price, user, bounds);
  mmci_order_answer answer;
  const mmci_solver *used;
  mmc_status status = mmci_order_solve("table", &problem, false, &used, &answer, error);
  if (status != MMC_OK) return status;
  return plan_within(chain, &problem, used, &answer, bounds, out, error);
}

static const char not_faster[] = "no order is predicted to be faster";

/* What is known of the seconds of an order's products, one by one: that they are no less than
 * these, and whether they are these. */
typedef struct known {
  double least_s;
  bool is_exact;
} known;

/* Replaces the plan of fewest multiplications where another is surely faster. */
static mmc_status try_price(priced_chain *c, mmci_bounds bounds, mmci_plan *plan,
                            mmci_plan_time *time, known *out, mmci_error *error) {
  asked_chain asked = asked_of(c);
  mmci_order_problem problem = problem_of(c->chain, seconds_of, &asked, bounds);
  problem.is_price_trusted = true;
  mmci_order_answer answer;
  const mmci_solver *used;
  mmci_plan by_price;
  mmc_status status = mmci_order_solve("table", &problem, false, &used, &answer, error);
  if (status != MMC_OK) return status;
  *out = (known){answer.price, mmci_tree_equal(&answer.tree, &plan->tree)};
  if (out->is_exact) {
    mmci_tree_destroy(&answer.tree);
    time->kept = not_faster;
    return MMC_OK;
  }
  status = plan_within(c->chain, &problem, used, &answer, bounds, &by_price, error);
  if (status != MMC_OK) return status;
  bool surely = false, possible = by_price.workspace_bytes != UINT64_MAX &&
                                  by_price.multiplications != MMCI_U128_MAX;
  if (possible) status = compare_plans(c, plan, &by_price, &surely, &time->gain_s, error);
  if (status == MMC_OK && surely) status = compare_calls(c, plan, &by_price, &surely, error);
  if (status != MMC_OK) {
    mmci_plan_destroy(&by_price);
    return status;
  }
  time->by_time = surely;
  if (!time->by_time)
    time->kept = possible && time->gain_s > 0 ? "no other order is predicted to be surely faster"
                                              : not_faster;
  mmci_plan_destroy(time->by_time ? plan : &by_price);
  if (time->by_time) *plan = by_price;
  return MMC_OK;
}

/* ---- trees by their calls ------------------------------------------------------------------ */

/* Says whether order b is better than a: where both have as many multiplications it is if it is
 * faster, else only if it surely is. */
static bool is_better(const mmci_plan *a, const total *x, const mmci_plan *b, const total *y) {
  double gain_s = x->seconds - y->seconds - less_hidden(x->hidden_s, y->hidden_s);
  if (a->multiplications == b->multiplications) return gain_s > 0.01 * x->seconds;
  return gain_s > sqrt(x->squares + y->squares) + x->modelled + y->modelled;
}

/* The best plan so far, and what it takes. */
typedef struct best {
  const priced_chain *chain;
  known known;
  uint64_t limit_bytes;
  mmci_plan *plan;
  mmci_plan_time *time;
  bool totalled; /* total is known, which it is when a tree is there to be compared with it */
  total total;
} best;

/* Finds the total of the plan so far, unless it is known. */
static mmc_status total_best(best *x, mmci_error *error) {
  mmc_status status = MMC_OK;
  if (!x->totalled) status = total_by_calls(x->chain, x->plan, &x->total, error);
  x->totalled = status == MMC_OK;
  return status;
}

/* Replaces the plan where the tree, which it takes over, is better. segments is 0, or that of a
 * wide tree. */
static mmc_status try_tree(best *x, mmci_tree *tree, const char *solver, int32_t segments,
                           mmci_error *error) {
  mmci_plan plan;
  if (mmci_tree_equal(tree, &x->plan->tree)) {
    mmci_tree_destroy(tree);
    return MMC_OK;
  }
  mmc_status status = mmci_plan_from_tree(x->chain->chain, tree, &plan, error);
  if (status != MMC_OK) return status;
  total taken;
  status = total_best(x, error);
  if (status == MMC_OK) status = total_by_calls(x->chain, &plan, &taken, error);
  bool fits = plan.workspace_bytes <= x->limit_bytes && plan.workspace_bytes != UINT64_MAX &&
              plan.multiplications != MMCI_U128_MAX;
  if (status != MMC_OK || !fits || !is_better(x->plan, &x->total, &plan, &taken)) {
    mmci_plan_destroy(&plan);
    return status;
  }
  mmci_plan_time *time = x->time;
  time->gain_s = x->total.seconds - taken.seconds + (time->by_time ? time->gain_s : 0);
  time->by_time = true;
  time->segments = segments;
  time->kept = "";
  plan.solver = solver;
  mmci_plan_destroy(x->plan);
  *x->plan = plan;
  x->total = taken;
  return MMC_OK;
}

/* Tries the wide tree, which it takes over, of so many segments. One of other multiplications must
 * be faster by all that both may be off, so it is not tried where few factors are in runs, and most
 * products theirs both. */
static mmc_status try_wide(best *x, mmci_tree *tree, int32_t segments, bool in_runs,
                           mmci_error *error) {
  const mmc_chain *chain = x->chain->chain;
  mmci_u128 multiplications;
  mmc_status status = mmci_tree_multiplications_of_batch(tree, chain, &multiplications, error);
  const bool other = multiplications != x->plan->multiplications;
  if (status == MMC_OK && (in_runs || !other)) return try_tree(x, tree, "wide", segments, error);
  mmci_tree_destroy(tree);
  return status;
}

/* Says whether wide trees are worth looking for, by what the plan's products take one by one. */
static bool is_long(const best *x) {
  const double least_s = mmci_least_wide_s * x->plan->step_count;
  if (x->known.least_s >= least_s || x->known.is_exact) return x->known.least_s >= least_s;
  double sum_s = 0;
  for (int32_t s = 0; s < x->plan->step_count && sum_s < least_s; s++) {
    mmci_price price;
    price_product(x->chain, mmci_plan_range(x->plan, &x->plan->steps[s]), &price);
    sum_s += price.seconds;
  }
  return sum_s >= least_s;
}

/* Tries a tree with as many segments as the device has workers, and a balanced one. */
static mmc_status try_both_wide(best *x, mmci_error *error) {
  const mmc_chain *chain = x->chain->chain;
  if (!is_long(x)) return MMC_OK;
  const mmci_order_problem problem = {.n = chain->n, .dims = chain->dims};
  const int32_t segments[] = {x->chain->request->machine->facts.width, INT32_MAX};
  mmci_tree trees[2];
  bool found;
  const bool in_runs = mmci_order_in_runs(&problem) >= chain->n / 2;
  /* Where few factors are in runs only a tree of as many multiplications is tried. Runs of dims
   * that differ have others but by chance, which is not worth ordering a long chain again. */
  if (!in_runs && chain->n > MMCI_TIME_MOST_FACTORS && !mmci_order_has_equal_run(&problem))
    return MMC_OK;
  mmc_status status = mmci_order_wide_trees(&problem, segments, 2, trees, &found, error);
  if (status != MMC_OK || !found) return status;
  for (int t = 0; t < 2; t++) {
    if (status == MMC_OK)
      status = try_wide(x, &trees[t], segments[t], in_runs, error);
    else
      mmci_tree_destroy(&trees[t]);
  }
  return status;
}

/* A device that tells what calls take is asked about every order of a batch of at most so many
 * factors. */
enum { EVERY_TOLD = 4 };

/* Says whether the multiplications of a tree alone take longer than the plan so far, even at twice
 * the device's peak: then no calls of it are looked for. */
static mmc_status is_hopeless(best *x, const mmci_tree *tree, bool *out, mmci_error *error) {
  const priced_chain *c = x->chain;
  const mmci_roofline *roofline = c->request->machine->roofline;
  mmci_u128 multiplications;
  mmc_status status = mmci_tree_multiplications_of_batch(tree, c->chain, &multiplications, error);
  *out = status == MMC_OK && multiplications == MMCI_U128_MAX;
  if (status == MMC_OK) status = total_best(x, error);
  if (status != MMC_OK || *out || roofline == NULL) return status;
  const double flops = mmci_u128_to_double(multiplications) * mmci_flops(c->chain->dtype, 1, 1, 1);
  *out = flops / (2 * roofline->flops_per_s) > x->total.seconds;
  return MMC_OK;
}

/* Tries every order of a short chain, and both spines of a longer one, because where calls were
 * measured, or are told, the order of fewest multiplications need not have the fastest. */
static mmc_status try_every(best *x, mmci_error *error) {
  const mmci_group_machine *machine = x->chain->request->machine;
  const mmc_chain *chain = x->chain->chain;
  mmc_status status = MMC_OK;
  bool found = machine->measured != NULL ||
               (machine->doubt > 0 && chain->batch > 1 && chain->n <= EVERY_TOLD);
  for (int32_t number = 0; found && status == MMC_OK; number++) {
    mmci_tree tree;
    bool hopeless = false;
    status = mmci_order_every(chain->n, number, &tree, &found, error);
    if (status != MMC_OK || !found) break;
    if (chain->n > MMCI_TIME_MOST_FACTORS) status = is_hopeless(x, &tree, &hopeless, error);
    if (status == MMC_OK && !hopeless)
      status = try_tree(x, &tree, "calls", 0, error);
    else
      mmci_tree_destroy(&tree);
  }
  return status;
}

/* Tries a tree with as many segments as the device has workers, a balanced tree, and others. */
static mmc_status try_trees(const priced_chain *c, known known, uint64_t limit_bytes,
                            mmci_plan *plan, mmci_plan_time *time, mmci_error *error) {
  const mmci_group_machine *machine = c->request->machine;
  if (machine == NULL || c->chain->n - 1 > MMCI_GROUPS_MOST_STEPS) return MMC_OK;
  best x = {.chain = c, .known = known, .limit_bytes = limit_bytes, .plan = plan, .time = time};
  mmc_status status = try_both_wide(&x, error);
  return status == MMC_OK ? try_every(&x, error) : status;
}

static mmc_status choose_order(const mmc_chain *chain, const char *solver, mmci_bounds bounds,
                               const mmci_time_request *request, mmci_plan *plan,
                               mmci_plan_time *time, mmci_error *error) {
  priced_chain c = {.chain = chain, .request = request};
  if (strcmp(solver, "auto") != 0 || chain->n < 3) return MMC_OK;
  mmc_status status = MMC_OK;
  known known = {0, false};
  if (chain->n <= MMCI_TIME_MOST_FACTORS)
    status = try_price(&c, bounds, plan, time, &known, error);
  else
    time->kept = "longer chains than of 64 factors are not ordered by time";
  return status == MMC_OK ? try_trees(&c, known, bounds.limit_bytes, plan, time, error) : status;
}
static_assert(MMCI_TIME_MOST_FACTORS == 64, "the text of choose_order()");

mmc_status mmci_plan_create_timed(const mmc_chain *chain, const char *solver, mmci_bounds bounds,
                                  const mmci_time_request *request, mmci_plan *out,
                                  mmci_error *error) {
  mmci_plan plan;
  mmc_status status = mmci_plan_create(chain, solver, bounds, &plan, error);
  if (status != MMC_OK) return status;
  mmci_plan_time *time = mmci_alloc_array(1, sizeof *time);
  if (time == NULL)
    status = mmci_fail_nomem(error, sizeof *time);
  else
    *time = (mmci_plan_time){.kept = ""};
  if (status == MMC_OK) status = mmci_ask_progress(bounds.progress, bounds.progress_user, 1, error);
  if (status == MMC_OK) status = choose_order(chain, solver, bounds, request, &plan, time, error);
  if (status != MMC_OK) {
    free(time);
    mmci_plan_destroy(&plan);
    return status;
  }
  const size_t length = strlen(request->notice), most = sizeof time->notice - 1;
  memcpy(time->notice, request->notice, length < most ? length : most);
  time->notice[length < most ? length : most] = '\0';
  time->facts = request->facts;
  plan.time = time;
  plan.explainer = &mmci_explain_time;
  *out = plan;
  return MMC_OK;
}

/* ---- the steps ----------------------------------------------------------------------------- */

static void price_step(const mmci_plan *plan, const mmci_time_request *request,
                       const mmci_plan_step *step, mmci_price *out) {
  const priced_chain c = {plan->chain, request};
  price_times(&c, mmci_plan_range(plan, step), mmci_plan_step_batch(plan, step), out);
}

/* Gives the steps of a group their shares of what its call takes. */
static void share_out(mmci_plan *plan, const mmci_plan_group *group) {
  double separate_s = 0;
  for (int32_t i = 0; i < group->step_count; i++)
    separate_s += plan->steps[group->steps[i]].predicted_s;
  for (int32_t i = 0; i < group->step_count; i++) {
    mmci_plan_step *step = &plan->steps[group->steps[i]];
    step->predicted_s *= group->predicted_s / separate_s;
    if (group->source == MMCI_MEASURED || !mmci_provenance_is_model(step->source))
      step->source = group->source;
  }
  plan->time->predicted_s += group->predicted_s;
}

/* Finds the steps in sub-trees that plain calls compute beside another. beside has room for as many
 * flags, all false. */
static mmc_status find_plain(const mmci_plan *plan, const mmci_time_request *request, bool *beside,
                             bool *plain, mmci_error *error) {
  const priced_chain c = {plan->chain, request};
  const int32_t n = plan->chain->n;
  double hidden_s;
  if (!plan->parallel || plan->group_count > 0) return MMC_OK;
  mmc_status status = find_beside(&c, plan, beside, &hidden_s, error);
  /* Readers come after what they read, so the steps are gone through from the last. */
  for (int32_t s = plan->step_count - 1; s >= 0 && status == MMC_OK; s--) {
    const int32_t reads[] = {plan->steps[s].left, plan->steps[s].right};
    for (int o = 0; o < 2; o++)
      if (reads[o] >= n && (beside[s] || plain[s])) plain[reads[o] - n] = true;
  }
  return status;
}

/* Takes the recipes that come with the steps' prices, except where steps are to be plain. */
static mmc_status price_steps(mmci_plan *plan, const mmci_time_request *request, const bool *plain,
                              mmci_error *error) {
  int32_t count = plan->step_count;
  size_t recipes = 0;
  mmci_price price;
  plan->time->predicted_s = 0;
  for (int32_t s = 0; s < count; s++) {
    mmci_plan_step *step = &plan->steps[s];
    price_step(plan, request, step, &price);
    step->predicted_s = plain[s] ? price.plain_s : price.seconds;
    step->plain_s = price.plain_s;
    step->source = price.source;
    if (step->group < 0) plan->time->predicted_s += step->predicted_s;
    recipes += !plain[s] && !mmci_recipe_is_plain(&price.recipe);
  }
  for (int32_t g = 0; g < plan->group_count; g++) share_out(plan, &plan->groups[g]);
  if (recipes == 0) return MMC_OK;
  mmci_recipe *recipe = plan->time->recipes = mmci_alloc_array(recipes, sizeof *recipe);
  if (recipe == NULL) return mmci_fail_nomem(error, recipes * sizeof *recipe);
  for (int32_t s = 0; s < count; s++) {
    price_step(plan, request, &plan->steps[s], &price);
    if (plain[s] || mmci_recipe_is_plain(&price.recipe)) continue;
    *recipe = price.recipe;
    plan->steps[s].recipe = recipe++;
    mmci_plan_place_padding(plan, &plan->steps[s]);
  }
  return MMC_OK;
}

mmc_status mmci_plan_price(mmci_plan *plan, const mmci_time_request *request, mmci_error *error) {
  size_t count = (size_t)plan->step_count;
  bool *beside = mmci_alloc_zeroed(2 * count + 1, sizeof *beside);
  if (beside == NULL) return mmci_fail_nomem(error, 2 * count + 1);
  bool *plain = beside + count;
  mmc_status status = find_plain(plan, request, beside, plain, error);
  if (status == MMC_OK) status = price_steps(plan, request, plain, error);
  free(beside);
  return status;
}

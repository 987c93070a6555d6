#include "planner/little.h"

#include <math.h>
#include <string.h>

#include "planner/cover.h"
#include "planner/objective.h"
#include "planner/time_order.h"

enum { VERTICES = MMCI_LITTLE_FACTORS + 1 };

/* The two tables of the dynamic program: multiplications, which fit 63 bits at these sizes, and
 * seconds. Ties go by mmci_tie_goes_before(), as in all solvers. */
typedef struct tables {
  const mmc_chain *chain;
  const mmci_pricing *pricing; /* NULL for fewest multiplications */
  mmci_gemm gemm;              /* the product that was priced last */
  const mmci_roofline *model;  /* where it alone prices products, or NULL */
  double sum_s;                /* of the order of fewest multiplications, product by product */
  bool is_usual;               /* whether these products all are; see is_usual() */
  int64_t count[VERTICES][VERTICES];
  double seconds[VERTICES][VERTICES];
  struct {
    int8_t fewest[VERTICES][VERTICES], fastest[VERTICES][VERTICES]; /* splits */
  } best;
} tables;

/* ---- what is little ------------------------------------------------------------------------ */

/* Sums of bool are over a semiring. */
static bool has_plain_sums(const mmc_chain *chain) {
  const mmci_rule *rule = &chain->rule;
  return chain->dtype != MMC_BOOL && rule->modulus == 0 && !rule->checked &&
         rule->semiring == MMC_PLUS_TIMES;
}

static bool is_little(const mmc_chain *chain) {
  const int64_t *dims = chain->dims, batch = chain->batch;
  enum { LEAST_REPEATS = 4 }; /* of fewer factors no two products are the same */
  if (!has_plain_sums(chain) || chain->n < 2 || chain->n > MMCI_LITTLE_FACTORS || batch < 1 ||
      (chain->same != NULL && chain->n >= LEAST_REPEATS) || mmci_chain_has_once(chain) ||
      chain->traits != NULL)
    return false;
  double multiplications = 0; /* from left to right, which the best order takes at most */
  for (int32_t v = 0; v <= chain->n; v++) {
    if (dims[v] < 1 || dims[v] > MMCI_LITTLE_SIDE) return false;
    if (v > 1) multiplications += (double)dims[0] * (double)dims[v - 1] * (double)dims[v];
  }
  return batch == 1 ? multiplications <= MMCI_LITTLE_MULTIPLICATIONS
                    : multiplications * (double)batch <= MMCI_LITTLE_IN_BATCH;
}

/* Says whether the options ask for nothing that changes a plan of least time or multiplications. */
static bool is_plain(const mmc_plan_options *x) {
  return (x->solver == NULL || strcmp(x->solver, "auto") == 0) && x->order == NULL &&
         x->kernel == NULL && x->memory_limit_bytes == MMC_NO_LIMIT &&
         x->device_memory_bytes == MMC_NO_LIMIT && x->progress == NULL && x->ranks == 0 &&
         (x->precision == NULL || strcmp(x->precision, "native") == 0);
}

/* ---- the tables ---------------------------------------------------------------------------- */

/* Says whether split k is better than the best so far, 0 for none. */
static bool is_better(const tables *t, int32_t i, int32_t j, int32_t k, int32_t best, bool less,
                      bool same) {
  return best == 0 || less || (same && mmci_tie_goes_before(t->chain->dims, i, j, k, best));
}

/* Prices a product. Returns false where it is best computed with copies of its operands, or one of
 * a batch by more than one call. */
static bool price_product(tables *t, int32_t i, int32_t k, int32_t j, mmci_price *price) {
  mmci_chain_product_turn(t->chain, i, k, j, &t->gemm);
  t->pricing->price(t->pricing->user, &t->gemm, price);
  return price->recipe.pad == 0 && price->seconds >= 0 &&
         (t->chain->batch == 1 || mmci_recipe_count(&price->recipe) == 1);
}

static void fill_fewest(tables *t, int32_t i, int32_t j) {
  const int64_t *dims = t->chain->dims;
  int32_t fewest = 0;
  int64_t count = 0;
  for (int32_t k = i + 1; k < j; k++) {
    const int64_t sum = t->count[i][k] + t->count[k][j] + dims[i] * dims[k] * dims[j];
    if (!is_better(t, i, j, k, fewest, sum < count, sum == count)) continue;
    fewest = k;
    count = sum;
  }
  t->count[i][j] = count;
  t->best.fewest[i][j] = (int8_t)fewest;
}

/* Returns false where a product has no seconds. */
static bool fill_fastest(tables *t, int32_t i, int32_t j) {
  int32_t fastest = 0;
  double seconds = 0;
  for (int32_t k = i + 1; k < j; k++) {
    const double parts_s = t->seconds[i][k] + t->seconds[k][j];
    if (fastest != 0 && parts_s > seconds) continue;
    mmci_price price;
    if (!price_product(t, i, k, j, &price)) return false;
    const double sum_s = parts_s + price.seconds;
    if (!is_better(t, i, j, k, fastest, sum_s < seconds, sum_s == seconds)) continue;
    fastest = k;
    seconds = sum_s;
  }
  t->seconds[i][j] = seconds;
  t->best.fastest[i][j] = (int8_t)fastest;
  return true;
}

/* ---- two orders ---------------------------------------------------------------------------- */

/* A product of a tree: of the sub-chains from first to split and from split to last. */
typedef struct range {
  int32_t first, split, last;
} range;

typedef int8_t splits[VERTICES][VERTICES];

static void list_ranges(splits by, int32_t i, int32_t j, range *ranges, int32_t *count) {
  if (j == i + 1) return;
  const int32_t k = by[i][j];
  ranges[(*count)++] = (range){i, k, j};
  list_ranges(by, i, k, ranges, count);
  list_ranges(by, k, j, ranges, count);
}

/* Adds up the products that only mine has, with what they may be off by, as plans for time do. */
static void add_up(tables *t, const range *mine, const range *others, int32_t count,
                   double *seconds, double *squares, double *modelled) {
  for (int32_t x = 0; x < count; x++) {
    bool both = false;
    for (int32_t y = 0; y < count && !both; y++)
      both = mine[x].first == others[y].first && mine[x].split == others[y].split &&
             mine[x].last == others[y].last;
    mmci_price price;
    if (both || !price_product(t, mine[x].first, mine[x].split, mine[x].last, &price)) continue;
    const double error_s = price.seconds * mmci_doubt_of(price.source, price.error);
    *seconds += price.seconds;
    *squares += price.modelled ? 0 : error_s * error_s;
    *modelled += price.modelled ? error_s : 0;
  }
}

/* Says whether a plan would keep the order of fewest multiplications, since the one of least
 * seconds is not surely faster. */
static bool keeps_fewest(tables *t) {
  range fewest[VERTICES], fastest[VERTICES];
  int32_t count = 0, other = 0;
  const int32_t n = t->chain->n;
  double before_s = 0, after_s = 0, squares = 0, modelled = 0;
  list_ranges(t->best.fewest, 0, n, fewest, &count);
  list_ranges(t->best.fastest, 0, n, fastest, &other);
  add_up(t, fewest, fastest, count, &before_s, &squares, &modelled);
  add_up(t, fastest, fewest, count, &after_s, &squares, &modelled);
  return before_s - after_s <= sqrt(squares) + modelled;
}

/* Says whether a product of the order of fewest multiplications, the last that was priced, takes so
 * little that no order is surely faster, when all of its products do. By the model a product takes
 * at least a launch and its flops at the device's peak. Where x are the seconds of products that
 * only ours has, and y those of products that only another order has, whose flops are no fewer, sum
 * y is at least the sum of these bounds for ours. The other gains sum x - sum y, which may be off
 * by (sum x + sum y) * doubt: it is not surely faster where each x is at most its bound times (1 +
 * doubt) / (1 - doubt). */
static bool is_usual(const tables *t, const mmci_price *price) {
  const mmci_roofline *r = t->model;
  if (r == NULL) return false;
  const double doubt = mmci_doubt_of(price->source, price->error);
  const double least_s = r->launch_s + mmci_gemm_flops(&t->gemm) / r->flops_per_s;
  return price->seconds * (1 - doubt) <= least_s * (1 + doubt);
}

/* Writes the products of the sub-chain in the order of fewest multiplications, children before
 * parents, and returns what it is called. */
static int32_t write_products(tables *t, int32_t i, int32_t j, int32_t *count,
                              mmci_product *products, mmci_recipe *recipes) {
  if (j == i + 1) return i;
  const int32_t k = t->best.fewest[i][j];
  const int32_t left = write_products(t, i, k, count, products, recipes);
  const int32_t right = write_products(t, k, j, count, products, recipes);
  mmci_recipe *recipe = &recipes[*count];
  mmci_price price;
  products[*count] = (mmci_product){left, right};
  mmci_recipe_set_whole(recipe, 0);
  if (t->pricing != NULL) {
    const bool is_priced = price_product(t, i, k, j, &price);
    if (is_priced && !mmci_recipe_is_plain(&price.recipe)) *recipe = price.recipe;
    t->sum_s += price.seconds;
    t->is_usual = t->is_usual && is_priced && is_usual(t, &price);
  }
  return t->chain->n + (*count)++;
}

/* ---- the order ----------------------------------------------------------------------------- */

static void find_fewest(tables *t, mmci_product *products, mmci_recipe *recipes) {
  const int32_t n = t->chain->n;
  memset(&t->best, 0, sizeof t->best);
  for (int32_t i = n - 1; i >= 0; i--) {
    t->count[i][i + 1] = 0;
    for (int32_t j = i + 2; j <= n; j++) fill_fewest(t, i, j);
  }
  int32_t count = 0;
  t->sum_s = 0;
  t->is_usual = true;
  write_products(t, 0, n, &count, products, recipes);
}

/* Says whether a plan would keep the order of fewest multiplications of all that differ from it;
 * false as well where a product has no seconds. */
static bool is_kept(tables *t) {
  const int32_t n = t->chain->n;
  if (t->is_usual) return true;
  for (int32_t i = n - 1; i >= 0; i--) {
    t->seconds[i][i + 1] = 0;
    for (int32_t j = i + 2; j <= n; j++)
      if (!fill_fastest(t, i, j)) return false;
  }
  /* Where another order is surely faster, a plan compares them by what groups take. */
  return memcmp(t->best.fewest, t->best.fastest, sizeof t->best.fewest) == 0 || keeps_fewest(t);
}

/* Says whether a plan for time would try wide trees, of a chain whose products take so long one by
 * one. */
static bool tries_wide(const struct mmci_opened *on, const mmc_chain *chain, double sum_s) {
  const mmci_order_problem problem = {.n = chain->n, .dims = chain->dims};
  return sum_s >= mmci_least_wide_s * (chain->n - 1) && mmci_offers_groups(on) &&
         mmci_order_in_runs(&problem) > 0;
}

mmc_status mmci_little_order(const mmci_objective *objective, const mmc_chain *chain,
                             const mmc_plan_options *options, const struct mmci_opened *on,
                             mmci_wisdom *wisdom, mmci_product *products, mmci_recipe *recipes,
                             bool *found, mmci_error *error) {
  const bool by_time = objective == &mmci_objective_time;
  tables t;
  t.chain = chain;
  t.pricing = NULL;
  *found = false;
  if ((!by_time && objective != &mmci_objective_flops) || !mmci_offers_host_memory(on) ||
      !is_little(chain) || !is_plain(options))
    return MMC_OK;
  if (!by_time) {
    find_fewest(&t, products, recipes);
    *found = true;
    return MMC_OK;
  }
  mmci_wisdom_pricing *known;
  mmc_status status = mmci_offers_pricing(on, wisdom, chain->dtype, MMCI_NATIVE, &known, error);
  if (status != MMC_OK) return status;
  const mmci_pricing pricing = mmci_wisdom_pricing_of(known);
  if (chain->n == 2 && !mmci_wisdom_pricing_knows_products(known)) {
    products[0] = (mmci_product){0, 1};
    mmci_recipe_set_whole(&recipes[0], 0);
    *found = true;
  } else if (!mmci_offers_groups(on) || !mmci_wisdom_pricing_knows_groups(known, chain)) {
    t.pricing = &pricing;
    mmci_chain_product(chain, MMCI_NATIVE, 0, 1, 2, &t.gemm);
    t.gemm.batch = chain->batch;
    const mmci_roofline *model = mmci_wisdom_pricing_roofline(known);
    t.model =
        mmci_wisdom_pricing_knows_products(known) || model->model.seconds != NULL ? NULL : model;
    find_fewest(&t, products, recipes);
    *found = !tries_wide(on, chain, t.sum_s) && is_kept(&t);
  }
  mmci_wisdom_pricing_release(known);
  return MMC_OK;
}

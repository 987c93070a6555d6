#include "planner/little.h"

#include <math.h>
#include <string.h>

#include "planner/objective.h"

enum { VERTICES = MMCI_LITTLE_FACTORS + 1 };

/* The two tables of the dynamic program: multiplications, which fit 64 bits at these sizes, and
 * seconds. Ties go by mmci_tie_goes_before(), as in all solvers. */
typedef struct tables {
  const mmc_chain *chain;
  const mmci_pricing *pricing; /* NULL for fewest multiplications */
  mmci_gemm gemm;              /* the product that was priced last */
  int64_t count[VERTICES][VERTICES];
  double seconds[VERTICES][VERTICES];
  struct {
    int8_t fewest[VERTICES][VERTICES], fastest[VERTICES][VERTICES]; /* splits */
    int variant[VERTICES][VERTICES]; /* of the last product of the sub-chain */
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
      (chain->same != NULL && chain->n >= LEAST_REPEATS) || chain->shared != NULL ||
      chain->traits != NULL)
    return false;
  double multiplications = 0; /* from left to right, which the best order takes at most */
  for (int32_t v = 0; v <= chain->n; v++) {
    if (dims[v] < 1) return false;
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

/* Returns the seconds of a product, and the variant of its call; NAN where it is best computed by
 * more than one call. */
static double seconds_of(tables *t, int32_t i, int32_t k, int32_t j, int *variant) {
  mmci_price price;
  mmci_chain_product_turn(t->chain, i, k, j, &t->gemm);
  t->pricing->price(t->pricing->user, &t->gemm, &price);
  const bool is_call = mmci_recipe_count(&price.recipe) == 1 && price.recipe.pad == 0;
  *variant = is_call ? price.recipe.nodes[0].variant : 0;
  return is_call && price.seconds >= 0 ? price.seconds : (double)NAN;
}

/* Fills the entry of the sub-chain (i, j). Returns false where a product has no seconds. */
static bool fill_entry(tables *t, int32_t i, int32_t j) {
  const int64_t *dims = t->chain->dims;
  int32_t fewest = 0, fastest = 0;
  int64_t count = 0;
  double seconds = 0;
  for (int32_t k = i + 1; k < j; k++) {
    const int64_t sum = t->count[i][k] + t->count[k][j] + dims[i] * dims[k] * dims[j];
    if (is_better(t, i, j, k, fewest, sum < count, sum == count)) {
      fewest = k;
      count = sum;
    }
    const double parts_s = t->seconds[i][k] + t->seconds[k][j];
    if (t->pricing == NULL || (fastest != 0 && parts_s > seconds)) continue;
    int variant;
    const double sum_s = parts_s + seconds_of(t, i, k, j, &variant);
    if (isnan(sum_s)) return false;
    if (is_better(t, i, j, k, fastest, sum_s < seconds, sum_s == seconds)) {
      fastest = k;
      seconds = sum_s;
      t->best.variant[i][j] = variant;
    }
  }
  t->count[i][j] = count;
  t->seconds[i][j] = seconds;
  t->best.fewest[i][j] = (int8_t)fewest;
  t->best.fastest[i][j] = (int8_t)(t->pricing != NULL ? fastest : fewest);
  return true;
}

/* Writes the products of the sub-chain, children before parents, and returns what it is called; -1
 * where fewest multiplications and least seconds have other orders, between which a plan decides by
 * what the prices may be off by. */
static int32_t write_products(const tables *t, int32_t i, int32_t j, int32_t *count,
                              mmci_product *products, int *variants) {
  if (j == i + 1) return i;
  const int32_t k = t->best.fewest[i][j];
  if (k != t->best.fastest[i][j]) return -1;
  const int32_t left = write_products(t, i, k, count, products, variants);
  const int32_t right = left < 0 ? -1 : write_products(t, k, j, count, products, variants);
  if (right < 0) return -1;
  products[*count] = (mmci_product){left, right};
  variants[*count] = t->pricing != NULL ? t->best.variant[i][j] : 0;
  return t->chain->n + (*count)++;
}

/* ---- the order ----------------------------------------------------------------------------- */

static bool find_order(tables *t, mmci_product *products, int *variants) {
  const int32_t n = t->chain->n;
  memset(&t->best, 0, sizeof t->best);
  for (int32_t i = n - 1; i >= 0; i--) {
    t->count[i][i + 1] = 0;
    t->seconds[i][i + 1] = 0;
    for (int32_t j = i + 2; j <= n; j++)
      if (!fill_entry(t, i, j)) return false;
  }
  int32_t count = 0;
  return write_products(t, 0, n, &count, products, variants) >= 0;
}

/* Says whether a plan for time would try wide trees, or every tree where calls were measured. */
static bool tries_more(const struct mmci_opened *on, const mmc_chain *chain,
                       const mmci_wisdom_pricing *wisdom) {
  const mmci_order_problem problem = {.n = chain->n, .dims = chain->dims};
  if (!mmci_offers_groups(on)) return false;
  return mmci_order_in_runs(&problem) > 0 || mmci_wisdom_pricing_knows_groups(wisdom, chain);
}

mmc_status mmci_little_order(const mmci_objective *objective, const mmc_chain *chain,
                             const mmc_plan_options *options, const struct mmci_opened *on,
                             mmci_wisdom *wisdom, mmci_product *products, int *variants,
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
    *found = find_order(&t, products, variants);
    return MMC_OK;
  }
  mmci_wisdom_pricing *known;
  mmc_status status = mmci_offers_pricing(on, wisdom, chain->dtype, MMCI_NATIVE, &known, error);
  if (status != MMC_OK) return status;
  const mmci_pricing pricing = mmci_wisdom_pricing_of(known);
  if (chain->n == 2 && !mmci_wisdom_pricing_knows_products(known)) {
    products[0] = (mmci_product){0, 1};
    variants[0] = 0;
    *found = true;
  } else if (!tries_more(on, chain, known)) {
    t.pricing = &pricing;
    t.gemm = mmci_chain_product(chain, MMCI_NATIVE, 0, 1, 2);
    *found = find_order(&t, products, variants);
  }
  mmci_wisdom_pricing_release(known);
  return MMC_OK;
}

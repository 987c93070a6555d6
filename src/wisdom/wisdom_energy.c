#include "wisdom/wisdom_energy.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

struct mmci_wisdom_energy {
  mmci_wisdom_pricing *time;
  const mmci_wisdom_table *table; /* the table of the pricing; NULL when there is no store */
  mmci_energy_model model;
};

/* ---- made ---------------------------------------------------------------------------------- */

static void take_model(mmci_wisdom_energy *e) {
  double facts[MMCI_ENERGY_FACTS];
  for (int f = 0; f < MMCI_ENERGY_FACTS; f++) {
    const mmci_wisdom_fact *fact = mmci_wisdom_find_fact(e->table, mmci_energy_names[f]);
    facts[f] = fact != NULL ? fact->number : (double)NAN;
  }
  mmci_energy_of_facts(facts, &e->model);
}

mmc_status mmci_wisdom_energy_create(mmci_wisdom *wisdom, const mmci_fingerprint *fingerprint,
                                     const mmci_facts *facts, mmc_dtype dtype,
                                     mmci_precision precision, mmci_wisdom_energy **out,
                                     mmci_error *error) {
  mmci_wisdom_energy *e = mmci_alloc_zeroed(1, sizeof *e);
  if (e == NULL) return mmci_fail_nomem(error, sizeof *e);
  e->model = mmci_energy_assumed(facts);
  mmc_status status =
      mmci_wisdom_pricing_acquire(wisdom, fingerprint, facts, dtype, precision, &e->time, error);
  if (status != MMC_OK) {
    free(e);
    return status;
  }
  e->table = mmci_wisdom_pricing_table(e->time);
  if (e->table != NULL) take_model(e);
  *out = e;
  return MMC_OK;
}

void mmci_wisdom_energy_destroy(mmci_wisdom_energy *e) {
  if (e == NULL) return;
  mmci_wisdom_pricing_release(e->time);
  free(e);
}

const mmci_wisdom_pricing *mmci_wisdom_energy_time(const mmci_wisdom_energy *e) {
  return e->time;
}

bool mmci_wisdom_energy_calibrated(const mmci_wisdom_energy *e) {
  return e->model.calibrated;
}

/* ---- looked up ----------------------------------------------------------------------------- */

static void model_joules(const mmci_wisdom_energy *e, const mmci_gemm *gemm, mmci_way *way) {
  way->joules = mmci_energy_joules(&e->model, gemm, way->time.seconds);
  way->error = e->model.error;
  way->modelled = true;
  way->source = mmci_provenance_of_model(e->model.calibrated);
}

/* Adds a way that was measured, in place of the same one that was not. */
static int add_measured(mmci_way *ways, int count, const mmci_recipe *recipe, double seconds,
                        double joules, double error) {
  mmci_way way = {.time = {.seconds = seconds, .source = MMCI_MEASURED, .recipe = *recipe},
                  .joules = joules,
                  .error = error,
                  .source = MMCI_MEASURED};
  for (int w = 0; w < count; w++) {
    if (!mmci_recipe_equal(&ways[w].time.recipe, recipe)) continue;
    /* A time that was measured for itself is a better one. */
    if (ways[w].time.source == MMCI_MEASURED) way.time = ways[w].time;
    ways[w] = way;
    return count;
  }
  ways[count] = way;
  return count + 1;
}

static const mmci_wisdom_product *find_record(const mmci_wisdom_energy *e, const mmci_gemm *gemm,
                                              mmci_wisdom_objective objective) {
  mmci_wisdom_key key = {.m = gemm->m, .k = gemm->k, .n = gemm->n, .objective = objective};
  if (e->table == NULL || gemm->batch > 1 || !mmci_form_op(&gemm->a, &key.op_a) ||
      !mmci_form_op(&gemm->b, &key.op_b))
    return NULL;
  return mmci_wisdom_find(e->table, &key);
}

/* Tuning for energy leaves two records: the one for energy holds the plain call, the recipe of
 * fewest joules and the spread of both; the one for time holds the fastest recipe. */
static int ways(const void *user, const mmci_gemm *gemm, mmci_way out[MMCI_WAYS]) {
  const mmci_wisdom_energy *e = user;
  mmci_pricing pricing = mmci_wisdom_pricing_of(e->time);
  pricing.price(pricing.user, gemm, &out[0].time);
  model_joules(e, gemm, &out[0]);
  const mmci_wisdom_product *least = find_record(e, gemm, MMCI_WISDOM_ENERGY);
  const mmci_wisdom_product *fastest = find_record(e, gemm, MMCI_WISDOM_TIME);
  mmci_recipe recipe, plain = mmci_recipe_whole(0);
  mmci_error error;
  if (least == NULL || !isfinite(least->joules) || !isfinite(least->plain_joules) ||
      mmci_recipe_parse(least->recipe, gemm->m, gemm->k, gemm->n,
                        mmci_wisdom_pricing_variants(e->time), &recipe, &error) != MMC_OK)
    return 1;
  double spread = least->spread;
  int count = 1;
  if (fastest != NULL && isfinite(fastest->joules) && out[0].time.source == MMCI_MEASURED)
    count =
        add_measured(out, count, &out[0].time.recipe, fastest->seconds, fastest->joules, spread);
  count = add_measured(out, count, &plain, least->plain_seconds, least->plain_joules, spread);
  return add_measured(out, count, &recipe, least->seconds, least->joules, spread);
}

mmci_energy_pricing mmci_wisdom_energy_of(const mmci_wisdom_energy *e) {
  return (mmci_energy_pricing){.user = e, .ways = ways, .model = e->model};
}

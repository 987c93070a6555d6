#include "wisdom/wisdom_pricing.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/monotonic.h"
#include "chain/group.h"
#include "cost/efficiency.h"
#include "cost/roofline.h"
#include "wisdom/record.h"

enum { OPS = MMC_OP_H + 1 };

/* Which calls of several products may have been measured: bits by a hash of the rows and columns of
 * their results. Plans ask for many that were not. */
enum { FILTER_WORDS = 512 };
typedef struct call_filter {
  bool any, other; /* whether there are any, and whether there are some whose names do not tell */
  uint64_t words[FILTER_WORDS];
} call_filter;

struct mmci_wisdom_pricing {
  atomic_long references;
  mmci_fingerprint fingerprint; /* the device of the prices, with its facts */
  mmci_facts facts;
  mmci_variants variants;
  mmci_wisdom_table *table; /* NULL when there is no store */
  mmci_array *arrays[OPS][OPS];
  mmci_roofline roofline;
  bool knows_products, knows_batches, knows_structure;
  mmci_structure_share shares[MMCI_STRUCTURE_PIECES]; /* NaN where they were not measured */
  call_filter calls;
  char notice[sizeof((mmci_error *)0)->text];
  /* The cache's lock guards these. */
  mmci_wisdom_pricing *next;
  double looked_s;     /* when the file was last found to be the table's, by the monotonic clock */
  uint64_t generation; /* the store's generation at looked_s */
  mmci_pricing_owner owner;
};

/* ---- made ---------------------------------------------------------------------------------- */

void mmci_array_margin_name(mmc_op op_a, mmc_op op_b, bool between,
                            char name[MMCI_MARGIN_NAME_SIZE]) {
  snprintf(name, MMCI_MARGIN_NAME_SIZE, "array %s%s %s", mmci_op_word(op_a), mmci_op_word(op_b),
           between ? "between" : "margin");
}

static const mmci_wisdom_fact *find_margin(const mmci_wisdom_table *table, mmc_op op_a, mmc_op op_b,
                                           bool between) {
  char name[MMCI_MARGIN_NAME_SIZE];
  mmci_array_margin_name(op_a, op_b, between, name);
  return mmci_wisdom_find_fact(table, name);
}

/* Reads the grids of an array, whose first value is the step. Returns false when there are more
 * values than an array takes. */
static bool grids_of(const mmci_wisdom_grid *kept, mmci_grid grids[3]) {
  for (int d = 0; d < 3; d++) {
    if (kept->count[d] > MMCI_ARRAY_VALUES) return false;
    grids[d] = (mmci_grid){.step = kept->axis[d][0], .count = kept->count[d]};
    memcpy(grids[d].values, kept->axis[d], (size_t)kept->count[d] * sizeof(int64_t));
  }
  return true;
}

mmc_status mmci_wisdom_array_restore(const mmci_wisdom_table *table, const mmci_gemm *like,
                                     mmc_op op_a, mmc_op op_b, mmci_array **out,
                                     mmci_error *error) {
  const mmci_wisdom_array *kept = mmci_wisdom_find_array(table, op_a, op_b, MMCI_WISDOM_TIME);
  const mmci_wisdom_fact *margin = find_margin(table, op_a, op_b, false),
                         *between = find_margin(table, op_a, op_b, true);
  mmci_grid grids[3];
  *out = NULL;
  if (kept == NULL || margin == NULL || between == NULL || !grids_of(&kept->grid, grids))
    return MMC_OK;
  mmci_array *array;
  mmc_status status = mmci_array_create(like, grids, &array, error);
  if (status != MMC_OK) return status;
  int64_t at = 0;
  for (int i = 0; i < grids[0].count; i++)
    for (int j = 0; j < grids[1].count; j++)
      for (int l = 0; l < grids[2].count; l++, at++)
        array->seconds[at] =
            mmci_flops(like->dtype, grids[0].values[i], grids[1].values[j], grids[2].values[l]) /
            kept->grid.values[at];
  mmci_trust trust = {margin->number, between->number, between->spread};
  status = mmci_array_restore(like, grids, array->seconds, &trust, out, error);
  mmci_array_destroy(array);
  return status == MMC_E_FORMAT ? MMC_OK : status;
}

/* The model that the device has of its products stays. */
static void take_roofline(mmci_wisdom_pricing *p) {
  double facts[MMCI_ROOFLINE_FACTS];
  for (int f = 0; f < MMCI_ROOFLINE_FACTS; f++) {
    const mmci_wisdom_fact *fact = mmci_wisdom_find_fact(p->table, mmci_roofline_names[f]);
    facts[f] = fact != NULL ? fact->number : (double)NAN;
  }
  const mmci_model model = p->roofline.model;
  mmci_roofline_of_facts(facts, &p->roofline);
  p->roofline.model = model;
}

static void take_shares(mmci_wisdom_pricing *p) {
  p->knows_structure = mmci_wisdom_has_facts(p->table, "structure ");
  for (int piece = 0; piece < MMCI_STRUCTURE_PIECES && p->knows_structure; piece++) {
    double numbers[2] = {(double)NAN, (double)NAN};
    for (int small = 0; small < 2; small++) {
      char name[MMCI_PIECE_NAME_SIZE];
      mmci_structure_piece_name((mmci_structure_piece)piece, small != 0, name);
      const mmci_wisdom_fact *fact = mmci_wisdom_find_fact(p->table, name);
      if (fact != NULL && fact->number >= 0) numbers[small] = fact->number;
    }
    p->shares[piece] = (mmci_structure_share){numbers[0], numbers[1]};
  }
}

/* The finalizer of splitmix64 (Steele, Lea and Flood 2014) mixes all bits. */
static uint32_t bit_of(int64_t rows, int64_t cols) {
  uint64_t hash = (uint64_t)rows * UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)cols;
  hash = (hash ^ hash >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  hash = (hash ^ hash >> 27) * UINT64_C(0x94D049BB133111EB);
  return (uint32_t)(hash >> 49); /* the number of one of FILTER_WORDS * 64 = 2^15 bits */
}

static void add_call(void *user, const mmci_wisdom_fact *fact) {
  call_filter *calls = user;
  int64_t rows, cols;
  calls->any = true;
  if (mmci_group_name_result(fact->name, &rows, &cols))
    calls->words[bit_of(rows, cols) / 64] |= UINT64_C(1) << bit_of(rows, cols) % 64;
  else
    calls->other = true;
}

static bool may_know(const call_filter *calls, int64_t rows, int64_t cols) {
  const uint32_t bit = bit_of(rows, cols);
  return calls->other || (calls->words[bit / 64] >> bit % 64 & 1) != 0;
}

static mmc_status read_table(mmci_wisdom_pricing *p, mmc_dtype dtype, mmci_precision precision,
                             mmci_error *error) {
  take_roofline(p);
  take_shares(p);
  mmci_wisdom_each_fact(p->table, "call ", add_call, &p->calls);
  p->knows_batches = mmci_wisdom_has_facts(p->table, "batch ");
  p->knows_products = p->knows_batches || mmci_wisdom_has_products(p->table);
  for (int a = 0; a < OPS; a++)
    for (int b = 0; b < OPS; b++) {
      mmci_gemm like = mmci_gemm_tight(dtype, precision, 1, 1, 1, (mmc_op)a, (mmc_op)b);
      mmc_status status =
          mmci_wisdom_array_restore(p->table, &like, (mmc_op)a, (mmc_op)b, &p->arrays[a][b], error);
      if (status != MMC_OK) return status;
      p->knows_products = p->knows_products || p->arrays[a][b] != NULL;
    }
  return MMC_OK;
}

void mmci_wisdom_pricing_release(mmci_wisdom_pricing *p) {
  if (p == NULL || atomic_fetch_sub(&p->references, 1) != 1) return;
  mmci_wisdom_release(p->table);
  for (int a = 0; a < OPS; a++)
    for (int b = 0; b < OPS; b++) mmci_array_destroy(p->arrays[a][b]);
  free(p);
}

/* Makes the prices of a table, whose reference goes to them even when that fails. */
static mmc_status create_pricing(mmci_wisdom_table *table, const mmci_fingerprint *fingerprint,
                                 const mmci_facts *facts, mmc_dtype dtype, mmci_precision precision,
                                 mmci_wisdom_pricing **out, mmci_error *error) {
  mmci_wisdom_pricing *p = mmci_alloc_zeroed(1, sizeof *p);
  if (p == NULL) {
    mmci_wisdom_release(table);
    return mmci_fail_nomem(error, sizeof *p);
  }
  atomic_init(&p->references, 1);
  p->fingerprint = *fingerprint;
  p->facts = *facts;
  p->variants = (mmci_variants){.name = facts->variant_name, .dtype = dtype};
  p->table = table;
  p->roofline = mmci_roofline_assumed(facts);
  mmc_status status = table != NULL ? read_table(p, dtype, precision, error) : MMC_OK;
  if (status == MMC_OK)
    *out = p;
  else
    mmci_wisdom_pricing_release(p);
  return status;
}

/* ---- kept ---------------------------------------------------------------------------------- */

bool mmci_pricing_cache_init(mmci_pricing_cache *cache) {
  return pthread_mutex_init(&cache->lock, NULL) == 0;
}

void mmci_pricing_cache_end(mmci_pricing_cache *cache) {
  while (cache->first != NULL) {
    mmci_wisdom_pricing *p = cache->first;
    cache->first = p->next;
    mmci_wisdom_pricing_release(p);
  }
  pthread_mutex_destroy(&cache->lock);
}

static mmci_wisdom_pricing **place_of_pricing(mmci_pricing_cache *cache,
                                              const mmci_fingerprint *fingerprint) {
  mmci_wisdom_pricing **at = &cache->first;
  while (*at != NULL && !mmci_fingerprint_equal(&(*at)->fingerprint, fingerprint))
    at = &(*at)->next;
  return at;
}

/* Puts a pricing, whose reference goes to the cache, in place of the one that is there. */
static void replace(mmci_wisdom_pricing **at, mmci_wisdom_pricing *fresh) {
  mmci_wisdom_pricing *old = *at;
  fresh->next = old != NULL ? old->next : NULL;
  *at = fresh;
  mmci_wisdom_pricing_release(old);
}

/* Says whether facts are the same, bit for bit: of others only the prices are made again. */
static bool same_facts(const mmci_facts *a, const mmci_facts *b) {
  const void *x = a, *y = b;
  return memcmp(x, y, sizeof *a) == 0;
}

/* Looks at the file, and makes new prices where the kept ones are not those of its table. */
static mmc_status refresh(mmci_wisdom *wisdom, mmci_wisdom_pricing **at,
                          const mmci_fingerprint *fingerprint, const mmci_facts *facts,
                          mmc_dtype dtype, mmci_precision precision, mmci_error *error) {
  const uint64_t generation = mmci_wisdom_generation(wisdom);
  const double looked_s = mmci_now_s();
  mmci_wisdom_table *table = NULL;
  mmc_status status = mmci_wisdom_acquire(wisdom, fingerprint, &table, error);
  if (status == MMC_E_NOMEM) return status;
  mmci_wisdom_pricing *kept = *at;
  if (status == MMC_OK && kept != NULL && kept->table == table && same_facts(&kept->facts, facts)) {
    mmci_wisdom_release(table);
  } else {
    const bool unread = status != MMC_OK;
    mmci_wisdom_pricing *fresh;
    status = create_pricing(table, fingerprint, facts, dtype, precision, &fresh, error);
    if (status != MMC_OK) return status;
    if (unread) snprintf(fresh->notice, sizeof fresh->notice, "%s", error->text);
    replace(at, fresh);
  }
  (*at)->looked_s = looked_s;
  (*at)->generation = generation;
  return MMC_OK;
}

static bool is_fresh(const mmci_wisdom_pricing *p, mmci_wisdom *wisdom, const mmci_facts *facts) {
  return p != NULL && p->generation == mmci_wisdom_generation(wisdom) &&
         mmci_now_s() - p->looked_s < MMCI_PRICING_FRESH_S && same_facts(&p->facts, facts);
}

mmc_status mmci_wisdom_pricing_acquire(mmci_wisdom *wisdom, const mmci_fingerprint *fingerprint,
                                       const mmci_facts *facts, mmc_dtype dtype,
                                       mmci_precision precision, mmci_wisdom_pricing **out,
                                       mmci_error *error) {
  mmci_pricing_cache *cache = mmci_wisdom_pricings(wisdom);
  pthread_mutex_lock(&cache->lock);
  mmci_wisdom_pricing **at = place_of_pricing(cache, fingerprint);
  mmc_status status = MMC_OK;
  if (!is_fresh(*at, wisdom, facts))
    status = refresh(wisdom, at, fingerprint, facts, dtype, precision, error);
  if (status == MMC_OK) {
    *out = *at;
    atomic_fetch_add(&(*out)->references, 1);
  }
  pthread_mutex_unlock(&cache->lock);
  return status;
}

static bool is_owner(const mmci_pricing_owner *a, const mmci_pricing_owner *b) {
  return a->ops == b->ops && a->device == b->device && a->dtype == b->dtype &&
         a->precision == b->precision;
}

bool mmci_wisdom_pricing_kept(mmci_wisdom *wisdom, const mmci_pricing_owner *owner,
                              const mmci_facts *facts, mmci_wisdom_pricing **out) {
  mmci_pricing_cache *cache = mmci_wisdom_pricings(wisdom);
  pthread_mutex_lock(&cache->lock);
  mmci_wisdom_pricing *p = cache->first;
  while (p != NULL && !is_owner(&p->owner, owner)) p = p->next;
  const bool kept = is_fresh(p, wisdom, facts);
  if (kept) {
    atomic_fetch_add(&p->references, 1);
    *out = p;
  }
  pthread_mutex_unlock(&cache->lock);
  return kept;
}

void mmci_wisdom_pricing_keep(mmci_wisdom *wisdom, mmci_wisdom_pricing *pricing,
                              const mmci_pricing_owner *owner) {
  mmci_pricing_cache *cache = mmci_wisdom_pricings(wisdom);
  pthread_mutex_lock(&cache->lock);
  pricing->owner = *owner;
  pthread_mutex_unlock(&cache->lock);
}

const mmci_wisdom_table *mmci_wisdom_pricing_table(const mmci_wisdom_pricing *p) {
  return p->table;
}

const char *mmci_wisdom_pricing_notice(const mmci_wisdom_pricing *p) {
  return p->notice;
}

bool mmci_wisdom_pricing_calibrated(const mmci_wisdom_pricing *p) {
  return p->roofline.calibrated;
}

const mmci_facts *mmci_wisdom_pricing_facts(const mmci_wisdom_pricing *p) {
  return &p->facts;
}

const mmci_variants *mmci_wisdom_pricing_variants(const mmci_wisdom_pricing *p) {
  return &p->variants;
}

const mmci_roofline *mmci_wisdom_pricing_roofline(const mmci_wisdom_pricing *p) {
  return &p->roofline;
}

/* ---- looked up ----------------------------------------------------------------------------- */

static bool find_product(const mmci_wisdom_pricing *p, const mmci_gemm *gemm, mmc_op op_a,
                         mmc_op op_b, mmci_price *out) {
  mmci_wisdom_key key = {gemm->m, gemm->k, gemm->n, op_a, op_b, MMCI_WISDOM_TIME};
  const mmci_wisdom_product *found = mmci_wisdom_find(p->table, &key);
  mmci_error error;
  if (found == NULL) return false;
  mmci_price_plain(out, found->seconds, found->spread);
  out->plain_s = found->plain_seconds;
  return strcmp(found->recipe, "whole") == 0 ||
         mmci_recipe_parse(found->recipe, gemm->m, gemm->k, gemm->n, &p->variants, &out->recipe,
                           &error) == MMC_OK;
}

static bool find_in_array(const mmci_wisdom_pricing *p, const mmci_gemm *gemm, mmc_op op_a,
                          mmc_op op_b, mmci_price *out) {
  const mmci_array *array = p->arrays[op_a][op_b];
  return array != NULL && mmci_array_price(array, gemm->m, gemm->k, gemm->n, out);
}

static bool find_call(const mmci_wisdom_pricing *p, const char *name, double *seconds,
                      double *error) {
  const mmci_wisdom_fact *fact = mmci_wisdom_find_fact(p->table, name);
  if (fact == NULL || !(fact->number > 0)) return false;
  *seconds = fact->number;
  *error = fact->spread;
  return true;
}

bool mmci_wisdom_pricing_group(const mmci_wisdom_pricing *p, const mmci_group *group,
                               double *seconds, double *error) {
  const mmci_group_product *last = &group->products[group->count - 1];
  char name[MMCI_GROUP_NAME_SIZE];
  if (!p->calls.any || !may_know(&p->calls, last->m, last->n)) return false;
  mmci_group_name(group, name);
  return find_call(p, name, seconds, error);
}

bool mmci_wisdom_pricing_knows_products(const mmci_wisdom_pricing *p) {
  return p->knows_products || p->roofline.model.better != NULL;
}

bool mmci_wisdom_pricing_knows_groups(const mmci_wisdom_pricing *p, const mmc_chain *chain) {
  enum { MOST_FACTORS = 64 }; /* to ask for every sub-chain of longer ones takes long */
  if (!p->calls.any || p->calls.other || chain->n > MOST_FACTORS) return p->calls.any;
  for (int32_t i = 0; i < chain->n; i++)
    for (int32_t j = i + 3; j <= chain->n; j++)
      if (may_know(&p->calls, chain->dims[i], chain->dims[j])) return true;
  return false;
}

static bool find_batch(const mmci_wisdom_pricing *p, const mmci_gemm *gemm, mmci_price *out) {
  char name[MMCI_BATCH_NAME_SIZE];
  if (gemm->batch <= 1 || !p->knows_batches) return false;
  mmci_batch_name(gemm, name);
  double seconds, error;
  if (!find_call(p, name, &seconds, &error)) return false;
  mmci_price_plain(out, seconds, error);
  return true;
}

/* What is measured is the device's arithmetic without a tolerance. With one the device's own choice
 * takes as much less as the device's model says, where it says anything. */
static void loosen(const mmci_model *model, const mmci_gemm *gemm, mmci_price *out) {
  if (gemm->rule.tolerance <= 0 || model->seconds == NULL) return;
  mmci_gemm tight = *gemm;
  tight.rule.tolerance = 0;
  const double part = model->seconds(model->user, gemm) / model->seconds(model->user, &tight);
  if (!isfinite(part)) return;
  const double plain_s = out->plain_s * part;
  if (mmci_recipe_is_plain(&out->recipe) || plain_s <= out->seconds) {
    out->seconds = plain_s;
    mmci_recipe_set_whole(&out->recipe, 0);
  }
  out->plain_s = plain_s;
}

static bool find_measured(const mmci_wisdom_pricing *p, const mmci_gemm *gemm, mmci_price *out) {
  mmc_op op_a, op_b;
  if (!p->knows_products) return false;
  if (find_batch(p, gemm, out)) return true;
  /* A measurement of one product does not price a batch, which another kernel computes. */
  return gemm->batch <= 1 && mmci_form_op(&gemm->a, &op_a) && mmci_form_op(&gemm->b, &op_b) &&
         (find_product(p, gemm, op_a, op_b, out) || find_in_array(p, gemm, op_a, op_b, out));
}

/* Takes the recipe of which the device knows that it is faster than the plain call, unless this
 * very product was tuned. */
static void improve(const mmci_model *model, const mmci_gemm *gemm, mmci_price *out) {
  if (model->better == NULL || out->source == MMCI_MEASURED || gemm->batch > 1 ||
      !mmci_recipe_is_plain(&out->recipe))
    return;
  const double least_s = out->modelled ? 0 : out->plain_s * fmax(1 - out->error, 0);
  mmci_better better;
  if (!model->better(model->user, gemm, least_s, &better)) return;
  mmci_recipe_set_whole(&out->recipe, better.variant);
  out->recipe.pad = better.pad;
  out->plain_s = fmax(out->plain_s, better.plain_s);
  out->seconds = better.seconds;
  out->error = model->error;
  out->modelled = true;
  out->source = MMCI_SHIPPED;
}

static void price(const void *user, const mmci_gemm *gemm, mmci_price *out) {
  const mmci_wisdom_pricing *p = user;
  if (find_measured(p, gemm, out))
    loosen(&p->roofline.model, gemm, out);
  else
    mmci_roofline_price(&p->roofline, gemm, out);
  improve(&p->roofline.model, gemm, out);
}

mmci_pricing mmci_wisdom_pricing_of(const mmci_wisdom_pricing *p) {
  return (mmci_pricing){.user = p, .price = price};
}

bool mmci_wisdom_pricing_shares(const mmci_wisdom_pricing *p,
                                mmci_structure_share shares[MMCI_STRUCTURE_PIECES]) {
  for (int piece = 0; piece < MMCI_STRUCTURE_PIECES && p->knows_structure; piece++)
    if (p->shares[piece].large >= 0 && p->shares[piece].small >= 0)
      shares[piece] = p->shares[piece];
  return p->knows_structure;
}

#include "tune/session.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "cost/roofline.h"
#include "planner/fewest.h"
#include "planner/offers.h"
#include "tune/array.h"
#include "tune/calibrate.h"
#include "tune/cuts.h"
#include "tune/groups.h"
#include "tune/joules.h"
#include "tune/journal.h"
#include "tune/measure.h"
#include "tune/search.h"
#include "tune/structure.h"
#include "wisdom/wisdom_energy.h"

/* A chain of at most so many factors has all its products tuned, at most 35. */
enum { ALL_PRODUCTS = 6 };
/* So many groups of a chain are measured, at most. */
enum { MOST_GROUPS = 96 };

/* One call of mmc_tune(). */
typedef struct tuning {
  const mmci_tune_request *request;
  const mmc_tune_options *options; /* the options of the request */
  mmci_bench *bench;
  mmci_machine machine;
  mmc_tune_product *products; /* products of all chains and of the caller's list, each once */
  int64_t count, capacity;
  mmci_gemm *gemms; /* products of the dtype being tuned */
  mmci_choice *choices;
  mmci_group_list groups;      /* groups of all chains, those of a whole chain first */
  const mmci_group **of_dtype; /* groups of the dtype being tuned */
  double start_s;
  mmc_dtype dtype;        /* the dtype being tuned */
  mmci_variants variants; /* names of the variants for that dtype */
  bool stopped;           /* the caller has stopped the tuning */
  mmc_tune_progress told; /* what the caller was last told, */
  double told_s;          /* and when, in seconds of the machine's clock */
  mmc_tune_report report;
} tuning;

/* The tuning of one dtype. */
typedef struct session {
  tuning *tuning;
  mmc_dtype dtype;
  mmci_wisdom_journal journal;
  mmci_tuner *tuner;
  mmci_array *array; /* seconds over the range of sizes, when that is measured */
} session;

/* ---- products ------------------------------------------------------------------------------ */

/* Replaces H by T for real numbers, which have no conjugates. */
static mmc_op plain_op(mmc_dtype dtype, mmc_op op) {
  return op == MMC_OP_H && !mmci_dtype_is_complex(dtype) ? MMC_OP_T : op;
}

static bool same_product(const mmc_tune_product *a, const mmc_tune_product *b) {
  return a->dtype == b->dtype && a->m == b->m && a->k == b->k && a->n == b->n &&
         a->op_a == b->op_a && a->op_b == b->op_b;
}

static mmc_status add_product(tuning *t, mmc_tune_product product, mmci_error *error) {
  if (product.m == 0 || product.k == 0 || product.n == 0) return MMC_OK;
  product.op_a = plain_op(product.dtype, product.op_a);
  product.op_b = plain_op(product.dtype, product.op_b);
  for (int64_t p = 0; p < t->count; p++)
    if (same_product(&t->products[p], &product)) return MMC_OK;
  if (t->count == t->capacity) {
    size_t capacity = 2 * (size_t)t->capacity + 64;
    mmc_tune_product *grown = realloc(t->products, capacity * sizeof *grown);
    if (grown == NULL) return mmci_fail_nomem(error, capacity * sizeof *grown);
    t->products = grown;
    t->capacity = (int64_t)capacity;
  }
  t->products[t->count++] = product;
  return MMC_OK;
}

static mmc_status add_of_chain(tuning *t, const mmc_chain *chain, int64_t i, int64_t k, int64_t j,
                               mmci_error *error) {
  mmc_tune_product product = {.dtype = chain->dtype,
                              .m = chain->dims[i],
                              .k = chain->dims[k],
                              .n = chain->dims[j],
                              .op_a = k == i + 1 ? chain->ops[i] : MMC_OP_N,
                              .op_b = j == k + 1 ? chain->ops[k] : MMC_OP_N};
  return add_product(t, product, error);
}

static mmc_status add_all_of_chain(tuning *t, const mmc_chain *chain, mmci_error *error) {
  mmc_status status = MMC_OK;
  for (int32_t i = 0; i < chain->n; i++)
    for (int32_t j = i + 2; j <= chain->n; j++)
      for (int32_t k = i + 1; k < j && status == MMC_OK; k++)
        status = add_of_chain(t, chain, i, k, j, error);
  return status;
}

static mmc_status add_fewest_of_chain(tuning *t, const mmc_chain *chain, mmci_error *error) {
  mmci_plan plan;
  mmc_status status = mmci_plan_create(chain, "auto", mmci_within(UINT64_MAX), &plan, error);
  if (status != MMC_OK) return status;
  for (int32_t s = 0; status == MMC_OK && s < plan.step_count; s++) {
    mmci_range r = mmci_plan_range(&plan, &plan.steps[s]);
    status = add_of_chain(t, chain, r.first, r.split, r.last, error);
  }
  mmci_plan_destroy(&plan);
  return status;
}

static mmc_status add_products(tuning *t, mmci_error *error) {
  const mmc_tune_options *o = t->options;
  mmc_status status = MMC_OK;
  for (int64_t c = 0; status == MMC_OK && c < o->chain_count; c++) {
    const mmc_chain *chain = o->chains[c];
    status = add_fewest_of_chain(t, chain, error); /* the likeliest products come first */
    if (status == MMC_OK && chain->n <= ALL_PRODUCTS) status = add_all_of_chain(t, chain, error);
  }
  for (int64_t p = 0; status == MMC_OK && p < o->product_count; p++)
    status = add_product(t, o->products[p], error);
  t->report.products = t->count;
  return status;
}

/* ---- groups -------------------------------------------------------------------------------- */

/* Moves the groups of so many products, from group first on, to the front. */
static void whole_first(mmci_group_list *groups, int first, int32_t products) {
  int front = first;
  for (int g = first; g < groups->count; g++) {
    mmci_group_entry entry = groups->entries[g];
    if (entry.group->count != products) continue;
    memmove(&groups->entries[front + 1], &groups->entries[front],
            (size_t)(g - front) * sizeof *groups->entries);
    groups->entries[front++] = entry;
  }
}

/* Adds the groups that plans for time of the chains would ask for. */
static mmc_status add_groups(tuning *t, mmci_error *error) {
  const mmc_tune_options *o = t->options;
  mmc_status status = MMC_OK;
  for (int64_t c = 0; status == MMC_OK && c < o->chain_count; c++) {
    const mmc_chain *chain = o->chains[c];
    mmci_wisdom_pricing *known;
    status = mmci_offers_pricing(t->request->on, t->request->wisdom, chain->dtype,
                                 t->request->precision, &known, error);
    if (status != MMC_OK) break;
    mmci_pricing pricing = mmci_wisdom_pricing_of(known);
    int first = t->groups.count;
    status = mmci_groups_of_chain(t->request->on, t->request->precision, chain, &pricing,
                                  mmci_wisdom_pricing_roofline(known), &t->groups, error);
    whole_first(&t->groups, first, chain->n - 1);
    while (t->groups.count > first + MOST_GROUPS) free(t->groups.entries[--t->groups.count].group);
    mmci_wisdom_pricing_release(known);
  }
  return status;
}

/* ---- told to the caller -------------------------------------------------------------------- */

/* Returns what is left of the budget. */
static double budget_left_s(const tuning *t) {
  if (t->options->budget_s == 0) return (double)INFINITY;
  return fmax(0, t->options->budget_s - (t->machine.now_s(t->machine.user) - t->start_s));
}

/* Returns the share of the budget that is spent, NaN without one. */
static double budget_spent(const tuning *t) {
  if (t->options->budget_s == 0) return (double)NAN;
  return 1 - budget_left_s(t) / t->options->budget_s;
}

static int progress(void *user, const char *unit, int64_t decided, int64_t count) {
  tuning *t = user;
  t->told = (mmc_tune_progress){budget_spent(t), unit, decided, count, t->dtype};
  if (t->options->progress != NULL && t->options->progress(t->options->user, &t->told) != 0)
    t->stopped = true;
  t->told_s = t->machine.now_s(t->machine.user);
  return t->stopped;
}

/* Tells the caller of a measurement that takes long, several times a second. */
static int tell_again(void *user) {
  const double every_s = 0.1;
  tuning *t = user;
  if (t->machine.now_s(t->machine.user) - t->told_s < every_s) return 0;
  return progress(t, t->told.unit, t->told.decided, t->told.count);
}

static mmc_status tell_tuned(tuning *t, const mmci_gemm *gemm, mmc_tuned *tuned,
                             mmci_error *error) {
  t->report.decided++;
  tuned->product =
      (mmc_tune_product){.dtype = gemm->dtype, .m = gemm->m, .k = gemm->k, .n = gemm->n};
  mmci_form_op(&gemm->a, &tuned->product.op_a);
  mmci_form_op(&gemm->b, &tuned->product.op_b);
  if (t->options->decided == NULL || t->options->decided(t->options->user, tuned) == 0)
    return MMC_OK;
  t->stopped = true;
  return mmci_fail(error, MMC_E_INTERRUPTED, "tuning: stopped by the callback decided");
}

static mmc_status tell_choice(void *user, const mmci_gemm *gemm, const mmci_choice *choice,
                              mmci_error *error) {
  tuning *t = user;
  char recipe[MMCI_RECIPE_TEXT_SIZE];
  mmci_recipe_format(&choice->recipe, &t->variants, recipe);
  mmc_tuned tuned = {.recipe = recipe,
                     .plain_joules = (double)NAN,
                     .joules = (double)NAN,
                     .plain_s = choice->plain_s,
                     .seconds = choice->seconds,
                     .gain = choice->gain.value,
                     .gain_low = choice->gain.low,
                     .gain_high = choice->gain.high};
  return tell_tuned(t, gemm, &tuned, error);
}

static mmc_status tell_group(void *user, const char *name, const mmci_estimate *seconds,
                             mmci_error *error) {
  tuning *t = user;
  const mmc_timed timed = {name, t->dtype, seconds->value, seconds->low, seconds->high};
  t->report.calls++;
  if (t->options->timed == NULL || t->options->timed(t->options->user, &timed) == 0) return MMC_OK;
  t->stopped = true;
  return mmci_fail(error, MMC_E_INTERRUPTED, "tuning: stopped by the callback timed");
}

static mmc_status tell_saving(tuning *t, const mmci_gemm *gemm, const mmci_saving *saving,
                              mmci_error *error) {
  char recipe[MMCI_RECIPE_TEXT_SIZE];
  mmci_recipe_format(&saving->recipe, &t->variants, recipe);
  mmc_tuned tuned = {.recipe = recipe,
                     .plain_s = saving->plain_s,
                     .seconds = saving->seconds,
                     .gain = saving->gain.value,
                     .gain_low = saving->gain.low,
                     .gain_high = saving->gain.high,
                     .plain_joules = saving->plain_joules.value,
                     .joules = saving->joules.value};
  return tell_tuned(t, gemm, &tuned, error);
}

/* ---- one dtype ----------------------------------------------------------------------------- */

static bool has_products(const tuning *t, mmc_dtype dtype) {
  for (int64_t p = 0; p < t->count; p++)
    if (t->products[p].dtype == dtype) return true;
  return false;
}

static bool has_session(const tuning *t, mmc_dtype dtype) {
  bool asked = t->options->range > 0 || t->options->calibrate;
  return has_products(t, dtype) || (asked && dtype == t->options->dtype);
}

/* Measures the facts of the roofline, where they are not known yet. */
static mmc_status calibrate_time(session *s, mmci_error *error) {
  tuning *t = s->tuning;
  mmci_wisdom_pricing *known;
  mmc_status status = mmci_offers_pricing(t->request->on, t->request->wisdom, s->dtype,
                                          t->request->precision, &known, error);
  if (status != MMC_OK) return status;
  bool calibrated = mmci_wisdom_pricing_calibrated(known);
  mmci_wisdom_pricing_release(known);
  if (calibrated) return MMC_OK;
  mmci_roofline roofline;
  status = mmci_calibrate(s->tuner, s->dtype, t->request->precision, &roofline, error);
  if (status == MMC_OK) status = mmci_journal_roofline(&s->journal, &roofline, error);
  return status;
}

static bool has_structure(const tuning *t, mmc_dtype dtype) {
  for (int64_t c = 0; c < t->options->chain_count; c++)
    if (t->options->chains[c]->dtype == dtype && t->options->chains[c]->traits != NULL) return true;
  return false;
}

/* Measures the shares of kernels with structure where a chain may gain by them, and they are not
 * known yet. */
static mmc_status calibrate_structure(session *s, mmci_error *error) {
  const mmci_opened *on = s->tuning->request->on;
  if (!has_structure(s->tuning, s->dtype) || !mmci_offers_structure(on, s->dtype)) return MMC_OK;
  mmci_wisdom_pricing *known;
  mmci_structure_share shares[MMCI_STRUCTURE_PIECES];
  mmc_status status = mmci_offers_pricing(on, s->tuning->request->wisdom, s->dtype,
                                          s->tuning->request->precision, &known, error);
  if (status != MMC_OK) return status;
  const bool measured = mmci_wisdom_pricing_shares(known, shares);
  mmci_wisdom_pricing_release(known);
  if (measured) return MMC_OK;
  status = mmci_calibrate_structure(s->tuner, on->ops, on->device, s->dtype, shares, error);
  return status == MMC_OK ? mmci_journal_shares(&s->journal, shares, error) : status;
}

/* Measures the facts of energy's model, by products chosen by their times. */
static mmc_status calibrate_energy(session *s, mmci_error *error) {
  tuning *t = s->tuning;
  mmci_wisdom_energy *known;
  mmci_energy_model model;
  mmc_status status = mmci_offers_energy(t->request->on, t->request->wisdom, s->dtype,
                                         t->request->precision, &known, error);
  if (status != MMC_OK) return status;
  mmci_pricing pricing = mmci_wisdom_pricing_of(mmci_wisdom_energy_time(known));
  bool calibrated = mmci_wisdom_energy_calibrated(known);
  if (!calibrated)
    status =
        mmci_calibrate_joules(s->tuner, s->dtype, t->request->precision, &pricing, &model, error);
  mmci_wisdom_energy_destroy(known);
  return status != MMC_OK || calibrated ? status : mmci_journal_energy(&s->journal, &model, error);
}

static bool has_range(const session *s) {
  const mmc_tune_options *o = s->tuning->options;
  return o->range > 0 && o->dtype == s->dtype;
}

static mmci_gemm like_range(const session *s) {
  const mmc_tune_options *o = s->tuning->options;
  return mmci_gemm_tight(s->dtype, s->tuning->request->precision, 1, 1, 1,
                         plain_op(s->dtype, o->op_a), plain_op(s->dtype, o->op_b));
}

static mmc_status tune_range(session *s, mmci_error *error) {
  if (!has_range(s)) return MMC_OK;
  const mmc_tune_options *o = s->tuning->options;
  mmci_gemm like = like_range(s);
  mmci_array_options options = mmci_array_defaults(o->range);
  mmc_status status = mmci_tune_array(s->tuner, &like, &options, &s->array, error);
  if (status == MMC_OK)
    status = mmci_journal_array(&s->journal, s->array, plain_op(s->dtype, o->op_a),
                                plain_op(s->dtype, o->op_b), error);
  return status;
}

/* Proves cuts with what is left of the budget. Of so many sizes, only the number of cut ones is
 * told. */
static mmc_status tune_cuts(session *s, mmci_error *error) {
  if (s->array == NULL) return MMC_OK;
  int64_t cut;
  s->journal.chosen = NULL;
  mmc_status status = mmci_tune_cuts(s->tuner, s->array, &cut, error);
  s->tuning->report.cut += cut;
  return status;
}

/* Decides one product for energy. */
static mmc_status save_joules(session *s, const mmci_gemm *gemm, mmci_error *error) {
  mmci_recipe fastest;
  mmci_saving saving;
  bool found;
  mmc_status status = mmci_journal_fastest(&s->journal, gemm, &found, &fastest, error);
  if (status == MMC_OK)
    status = mmci_tune_joules(s->tuner, gemm, found ? &fastest : NULL, &saving, error);
  if (status == MMC_OK) status = mmci_journal_saving(&s->journal, gemm, &saving, error);
  return status == MMC_OK ? tell_saving(s->tuning, gemm, &saving, error) : status;
}

/* Lists the products of the dtype in gemms; returns how many there are. */
static int64_t list_products(const session *s) {
  const tuning *t = s->tuning;
  int64_t count = 0;
  for (int64_t p = 0; p < t->count; p++) {
    const mmc_tune_product *product = &t->products[p];
    if (product->dtype == s->dtype)
      t->gemms[count++] = mmci_gemm_tight(s->dtype, t->request->precision, product->m, product->k,
                                          product->n, product->op_a, product->op_b);
  }
  return count;
}

static mmc_status tune_products(session *s, int64_t count, mmci_error *error) {
  tuning *t = s->tuning;
  int64_t decided;
  if (!t->request->for_energy)
    return mmci_tune_set(s->tuner, t->gemms, count, t->choices, &decided, error);
  mmc_status status = MMC_OK;
  for (int64_t p = 0; status == MMC_OK && p < count; p++) {
    mmci_tuner_reached(s->tuner, "products", p, count);
    status = save_joules(s, &t->gemms[p], error);
  }
  return status;
}

/* Puts the groups of the dtype into of_dtype, and returns how many there are. */
static int list_groups(const session *s) {
  const mmci_group_list *all = &s->tuning->groups;
  int count = 0;
  for (int g = 0; g < all->count; g++)
    if (all->entries[g].group->dtype == s->dtype)
      s->tuning->of_dtype[count++] = all->entries[g].group;
  return count;
}

static mmc_status tune_groups(session *s, mmci_error *error) {
  int count = list_groups(s);
  return mmci_tune_groups(s->tuner, s->tuning->of_dtype, count, error);
}

static mmc_status tune_dtype(tuning *t, mmc_dtype dtype, mmci_error *error) {
  mmci_facts facts;
  mmc_status status =
      mmci_offers_facts(t->request->on, dtype, t->request->precision, &facts, error);
  if (status != MMC_OK) return status;
  t->dtype = dtype;
  t->variants = (mmci_variants){.name = facts.variant_name, .dtype = dtype};
  t->machine.variant_name = facts.variant_name;
  session s = {.tuning = t,
               .dtype = dtype,
               .journal = {.wisdom = t->request->wisdom,
                           .variants = t->variants,
                           .chosen = tell_choice,
                           .timed = tell_group,
                           .user = t}};
  mmci_offers_fingerprint(t->request->on, dtype, mmci_precision_name(t->request->precision),
                          &s.journal.fingerprint);
  mmci_tune_options options = mmci_tune_defaults();
  options.budget_s = budget_left_s(t);
  options.progress = progress;
  options.progress_user = t;
  options.journal = mmci_journal_of(&s.journal);
  status = mmci_tuner_create(&t->machine, &options, &s.tuner, error);
  if (status != MMC_OK) return status;
  int64_t count = list_products(&s);
  status = calibrate_time(&s, error);
  if (status == MMC_OK && !t->request->for_energy) status = calibrate_structure(&s, error);
  if (status == MMC_OK && t->request->for_energy) status = calibrate_energy(&s, error);
  if (status == MMC_OK) status = tune_groups(&s, error);
  if (status == MMC_OK) status = tune_range(&s, error);
  if (status == MMC_OK) status = tune_products(&s, count, error);
  if (status == MMC_OK) status = tune_cuts(&s, error);
  t->report.measurements += mmci_tuner_measurements(s.tuner);
  mmci_array_destroy(s.array);
  mmci_tuner_destroy(s.tuner);
  return status;
}

/* ---- all of it ----------------------------------------------------------------------------- */

static mmc_status open(tuning *t, mmci_error *error) {
  const mmci_tune_request *request = t->request;
  mmc_status status = add_products(t, error);
  if (status == MMC_OK && !request->for_energy) status = add_groups(t, error);
  if (status != MMC_OK) return status;
  size_t count = (size_t)t->count + 1, size = sizeof *t->gemms + sizeof *t->choices;
  t->gemms = mmci_alloc_array(count, sizeof *t->gemms);
  t->choices = mmci_alloc_array(count, sizeof *t->choices);
  t->of_dtype = mmci_alloc_array((size_t)t->groups.count + 1, sizeof *t->of_dtype);
  if (t->gemms == NULL || t->choices == NULL || t->of_dtype == NULL)
    return mmci_fail_nomem(error, count * size);
  mmci_measure_options measure = mmci_measure_defaults();
  measure.meter_ops = request->meter_ops;
  measure.meter = request->meter;
  measure.ask = tell_again;
  measure.ask_user = t;
  status = mmci_bench_open(request->on->ops, request->on->device, &measure, &t->bench, error);
  if (status != MMC_OK) return status;
  t->machine = mmci_bench_machine(t->bench);
  t->start_s = t->machine.now_s(t->machine.user);
  return MMC_OK;
}

/* A budget that is spent is no failure. */
static mmc_status tune_dtypes(tuning *t, mmci_error *error) {
  mmc_status status = open(t, error);
  if (status != MMC_OK) return status;
  for (int d = 0; status == MMC_OK && d < MMCI_DTYPES; d++)
    if (has_session(t, (mmc_dtype)d)) status = tune_dtype(t, (mmc_dtype)d, error);
  t->report.complete = status == MMC_OK;
  return status == MMC_E_INTERRUPTED && !t->stopped ? MMC_OK : status;
}

mmc_status mmci_tune_session(const mmci_tune_request *request, mmc_tune_report *report,
                             mmci_error *error) {
  tuning t = {.request = request, .options = request->options};
  mmc_status status = tune_dtypes(&t, error);
  mmci_bench_close(t.bench);
  free(t.gemms);
  free(t.choices);
  free(t.products);
  mmci_group_list_destroy(&t.groups);
  free(t.of_dtype);
  *report = t.report;
  return status;
}

#include "tune/joules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  MOST_RECIPES = 64, /* recipes that are timed at most */
  CONFIRMED = 2      /* recipes whose joules are measured again */
};
static const double most_slowdown = 1.3;

typedef struct candidate {
  mmci_recipe recipe;
  double seconds;
  mmci_estimate joules; /* joules over all rounds; 0 when not measured */
} candidate;

typedef struct contest {
  mmci_tuner *tuner;
  const mmci_gemm *gemm;
  candidate plain, others[MOST_RECIPES];
  int count;
  mmci_error *error;
} contest;

/* ---- candidates ---------------------------------------------------------------------------- */

static mmc_status time_one(contest *c, const mmci_recipe *recipe, double *seconds) {
  mmci_measured measured;
  mmc_status status = mmci_tuner_ask(c->tuner, MMCI_ASK_TIME, c->gemm, recipe, &measured, c->error);
  if (status == MMC_OK) *seconds = measured.seconds.value;
  return status;
}

/* Adds a recipe unless it is there. */
static mmc_status add_recipe(contest *c, const mmci_recipe *recipe) {
  double seconds;
  if (mmci_recipe_equal(recipe, &c->plain.recipe)) return MMC_OK;
  for (int i = 0; i < c->count; i++)
    if (mmci_recipe_equal(recipe, &c->others[i].recipe)) return MMC_OK;
  mmc_status status = time_one(c, recipe, &seconds);
  if (status == MMC_OK && isfinite(seconds) && c->count < MOST_RECIPES)
    c->others[c->count++] = (candidate){.recipe = *recipe, .seconds = seconds};
  return status;
}

static int by_seconds(const void *a, const void *b) {
  double x = ((const candidate *)a)->seconds, y = ((const candidate *)b)->seconds;
  return (x > y) - (x < y);
}

static int by_joules(const void *a, const void *b) {
  double x = ((const candidate *)a)->joules.value, y = ((const candidate *)b)->joules.value;
  return (x > y) - (x < y);
}

/* Drops all but the fastest few that are not too slow; the one that is known to be fastest
 * stays. */
static void drop_slow(contest *c, const mmci_recipe *fastest) {
  int finalists = mmci_tuner_options(c->tuner)->finalists;
  qsort(c->others, (size_t)c->count, sizeof c->others[0], by_seconds);
  double least_s = c->plain.seconds;
  if (c->count > 0) least_s = fmin(least_s, c->others[0].seconds);
  while (c->count > 0 && c->others[c->count - 1].seconds > most_slowdown * least_s) c->count--;
  for (int i = finalists; fastest != NULL && i < c->count; i++)
    if (mmci_recipe_equal(fastest, &c->others[i].recipe)) c->others[finalists - 1] = c->others[i];
  if (c->count > finalists) c->count = finalists;
}

/* Gathers the device's variants, and the recipe that is known to be fastest. */
static mmc_status gather_recipes(contest *c, const mmci_recipe *fastest) {
  const mmci_machine *machine = mmci_tuner_machine(c->tuner);
  int variants = machine->variants(machine->user, c->gemm);
  c->plain.recipe = mmci_recipe_whole(0);
  mmc_status status = time_one(c, &c->plain.recipe, &c->plain.seconds);
  if (status == MMC_OK && !isfinite(c->plain.seconds))
    status = mmci_fail_argument(c->error, MMC_E_UNSUPPORTED, "device",
                                "expected one that multiplies %s", mmc_dtype_name(c->gemm->dtype));
  if (status == MMC_OK && fastest != NULL) status = add_recipe(c, fastest);
  for (int v = 1; status == MMC_OK && v <= variants && v <= MMCI_RECIPE_MOST; v++) {
    mmci_recipe recipe = mmci_recipe_whole(v);
    status = add_recipe(c, &recipe);
  }
  if (status == MMC_OK) drop_slow(c, fastest);
  return status;
}

/* ---- joules -------------------------------------------------------------------------------- */

/* Measures one more round of a candidate. */
static mmc_status meter(contest *c, mmci_question question, candidate *one) {
  mmci_measured measured;
  mmc_status status =
      mmci_tuner_ask(c->tuner, question, c->gemm, &one->recipe, &measured, c->error);
  if (status != MMC_OK) return status;
  const mmci_estimate *new = &measured.joules, *old = &one->joules;
  one->joules = !(old->value > 0) ? *new
                                  : (mmci_estimate){.value = (old->value + new->value) / 2,
                                                    .low = fmin(old->low, new->low),
                                                    .high = fmax(old->high, new->high)};
  return MMC_OK;
}

static mmc_status first_round(contest *c) {
  mmc_status status = meter(c, MMCI_ASK_JOULES, &c->plain);
  for (int i = 0; status == MMC_OK && i < c->count; i++)
    status = meter(c, MMCI_ASK_JOULES, &c->others[i]);
  return status;
}

/* Measures those again that took fewer joules than the plain call. */
static mmc_status second_round(contest *c) {
  int again = 0;
  while (again < c->count && again < CONFIRMED &&
         c->others[again].joules.value < c->plain.joules.value)
    again++;
  mmc_status status = again > 0 ? meter(c, MMCI_ASK_JOULES_AGAIN, &c->plain) : MMC_OK;
  for (int i = 0; status == MMC_OK && i < again; i++)
    status = meter(c, MMCI_ASK_JOULES_AGAIN, &c->others[i]);
  c->count = again;
  return status;
}

static bool surely_saves(const contest *c, const candidate *one) {
  double least_gain = mmci_tuner_options(c->tuner)->least_gain;
  return one->joules.high < c->plain.joules.low &&
         one->joules.value * (1 + least_gain) <= c->plain.joules.value;
}

static double joules_of(const contest *c, const mmci_recipe *recipe) {
  if (mmci_recipe_equal(recipe, &c->plain.recipe)) return c->plain.joules.value;
  for (int i = 0; i < c->count; i++)
    if (mmci_recipe_equal(recipe, &c->others[i].recipe)) return c->others[i].joules.value;
  return (double)NAN;
}

static void settle_saving(const contest *c, mmci_saving *out) {
  const candidate *best = &c->plain;
  for (int i = 0; i < c->count; i++)
    if (surely_saves(c, &c->others[i]) && c->others[i].joules.value < best->joules.value)
      best = &c->others[i];
  const mmci_estimate *plain = &c->plain.joules, *least = &best->joules;
  out->recipe = best->recipe;
  out->plain_s = c->plain.seconds;
  out->seconds = best->seconds;
  out->plain_joules = *plain;
  out->joules = *least;
  out->gain = best == &c->plain ? (mmci_estimate){1, 1, 1}
                                : (mmci_estimate){.value = plain->value / least->value,
                                                  .low = plain->low / least->high,
                                                  .high = plain->high / least->low};
}

mmc_status mmci_tune_joules(mmci_tuner *tuner, const mmci_gemm *gemm, const mmci_recipe *fastest,
                            mmci_saving *out, mmci_error *error) {
  contest *c = malloc(sizeof *c);
  if (c == NULL) return mmci_fail_nomem(error, sizeof *c);
  *c = (contest){.tuner = tuner, .gemm = gemm, .error = error};
  mmci_saving saving = {.fastest_joules = (double)NAN};
  mmc_status status = gather_recipes(c, fastest);
  if (status == MMC_OK) status = first_round(c);
  if (status == MMC_OK) {
    if (fastest != NULL) saving.fastest_joules = joules_of(c, fastest);
    qsort(c->others, (size_t)c->count, sizeof c->others[0], by_joules);
    status = second_round(c);
  }
  if (status == MMC_OK) {
    settle_saving(c, &saving);
    *out = saving;
  }
  free(c);
  return status;
}

/* ---- the model ----------------------------------------------------------------------------- */

/* m, k, n, the longest first. Some products are mostly arithmetic, some traffic, some the call. */
static const int64_t shapes[][3] = {
    {8192, 8192, 8192}, {4096, 4096, 4096}, {2048, 2048, 2048}, {16384, 16, 16384},
    {8, 16384, 16384},  {1024, 1024, 1024}, {8192, 8, 4096},    {1, 8192, 8192},
    {512, 512, 512},    {4, 2048, 2048},    {256, 256, 256},    {2048, 4, 2048},
    {64, 64, 64},       {1, 1024, 1024},    {16, 16, 16},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0], SAMPLES = 8 };
static const double longest_s = 0.1;

/* Chooses the shapes that do not take long by these prices, SAMPLES at most, evenly from the
 * longest to the shortest; returns how many. */
static int choose_shapes(mmc_dtype dtype, mmci_precision precision, const mmci_pricing *pricing,
                         mmci_gemm out[SAMPLES]) {
  mmci_gemm fitting[SHAPES];
  int count = 0;
  for (int s = 0; s < SHAPES; s++) {
    mmci_price price;
    fitting[count] = mmci_gemm_tight(dtype, precision, shapes[s][0], shapes[s][1], shapes[s][2],
                                     MMC_OP_N, MMC_OP_N);
    pricing->price(pricing->user, &fitting[count], &price);
    count += price.seconds <= longest_s;
  }
  if (count <= SAMPLES) {
    memcpy(out, fitting, (size_t)count * sizeof *out);
    return count;
  }
  for (int s = 0; s < SAMPLES; s++) out[s] = fitting[s * (count - 1) / (SAMPLES - 1)];
  return SAMPLES;
}

mmc_status mmci_calibrate_joules(mmci_tuner *tuner, mmc_dtype dtype, mmci_precision precision,
                                 const mmci_pricing *pricing, mmci_energy_model *out,
                                 mmci_error *error) {
  mmci_gemm gemms[SAMPLES];
  mmci_energy_sample samples[SAMPLES];
  mmci_recipe plain = mmci_recipe_whole(0);
  int asked = choose_shapes(dtype, precision, pricing, gemms), count = 0;
  for (int s = 0; s < asked; s++) {
    mmci_measured measured;
    mmci_tuner_reached(tuner, "samples", s, asked);
    mmc_status status = mmci_tuner_ask(tuner, MMCI_ASK_JOULES, &gemms[s], &plain, &measured, error);
    if (status != MMC_OK) return status;
    /* The machine does not support the measurement. */
    if (!isfinite(measured.seconds.value)) continue;
    samples[count++] = (mmci_energy_sample){
        .gemm = gemms[s], .seconds = measured.seconds.value, .joules = measured.joules.value};
  }
  if (count == 0)
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "device", "expected one that multiplies %s",
                              mmc_dtype_name(dtype));
  *out = mmci_energy_fit(samples, count);
  return MMC_OK;
}

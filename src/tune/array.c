#include "tune/array.h"

#include <inttypes.h>
#include <math.h>

#include "base/alloc.h"
#include "base/ascending.h"
#include "base/random.h"
#include "base/sizes.h"
#include "base/wide.h"

enum {
  RUNS = 12,   /* runs of a product in one measurement at most */
  TRIES = 10,  /* random sizes that are tried for each predicted gain */
  TRUSTED = 20 /* one cut in so many may be slower than the plain call */
};
/* The grid gets this share of the budget that is left; the rest is for trying what it predicts. */
static const double grid_share = 0.7, half_spare_share = 0.55, spare_share = 0.1;

mmci_array_options mmci_array_defaults(int64_t most) {
  return (mmci_array_options){.most = {most, most, most},
                              .reach = 256,
                              .beside = 256,
                              .dense = 8,
                              .across = 32,
                              .checks = 64,
                              .seed = 1};
}

/* ---- steps --------------------------------------------------------------------------------- */

static mmci_gemm product_of(const mmci_gemm *like, int64_t m, int64_t k, int64_t n) {
  mmci_gemm gemm = *like;
  gemm.m = m, gemm.k = k, gemm.n = n;
  gemm.a.ld = gemm.a.trans ? m : k;
  gemm.b.ld = gemm.b.trans ? k : n;
  gemm.ldc = n;
  gemm.accumulate = false;
  gemm.variant = 0;
  return gemm;
}

static mmc_status ask_product(mmci_tuner *tuner, const mmci_gemm *gemm, mmci_measured *out,
                              mmci_error *error) {
  mmci_recipe plain = mmci_recipe_whole(0);
  mmc_status status = mmci_tuner_ask(tuner, MMCI_ASK_TIME, gemm, &plain, out, error);
  if (status == MMC_OK && !isfinite(out->seconds.value))
    return mmci_fail(error, MMC_E_UNSUPPORTED,
                     "array: expected a device that multiplies %" PRId64 "x%" PRId64 "x%" PRId64,
                     gemm->m, gemm->k, gemm->n);
  return status;
}

/* Returns the third largest rise. Where a device begins to use threads, say, one rise or two are
 * larger than all others: these are cliffs and no ladder, so no rise counts for more than the
 * third. */
static double third_largest(const double *rises, int64_t reach) {
  double largest[3] = {0};
  for (int64_t x = 1; x < reach; x++) {
    int t = 3;
    for (; t > 0 && rises[x] > largest[t - 1]; t--)
      if (t < 3) largest[t] = largest[t - 1];
    if (t < 3) largest[t] = rises[x];
  }
  return largest[2];
}

static int64_t step_of(const double *rises, int64_t reach) {
  double most = third_largest(rises, reach), all = 0;
  for (int64_t x = 1; x < reach; x++) all += fmin(rises[x], most);
  if (!(all > 0)) return 1;
  for (int64_t step = reach - 1; step > 1; step--) {
    double behind = 0;
    for (int64_t x = step; x < reach; x += step) behind += fmin(rises[x], most);
    if (behind >= 0.75 * all) return step;
  }
  return 1;
}

/* Returns one of the products that steps are found from. */
static mmci_gemm stair(const mmci_gemm *like, mmci_axis axis, int64_t x) {
  mmci_gemm resized = mmci_gemm_resized(like, axis, x);
  return product_of(like, resized.m, resized.k, resized.n);
}

mmc_status mmci_find_step(mmci_tuner *tuner, const mmci_gemm *like, mmci_axis axis, int64_t reach,
                          int64_t *step, double *took_s, mmci_error *error) {
  static const char *const units[] = {"sizes along m", "sizes along k", "sizes along n"};
  /* rises[x] is how far the time rises from x to x+1, beyond the noise of both. */
  double *rises = mmci_alloc_zeroed((size_t)reach + 1, sizeof *rises);
  if (rises == NULL) return mmci_fail_nomem(error, ((uint64_t)reach + 1) * sizeof *rises);
  mmc_status status = MMC_OK;
  mmci_estimate before = {0, 0, (double)INFINITY};
  *took_s = 0;
  for (int64_t x = 1; status == MMC_OK && x <= reach; x++) {
    mmci_gemm gemm = stair(like, axis, x);
    mmci_measured measured;
    mmci_tuner_reached(tuner, units[axis - MMCI_AXIS_M], x - 1, reach);
    status = ask_product(tuner, &gemm, &measured, error);
    if (status != MMC_OK) break;
    rises[x - 1] = fmax(0, measured.seconds.low - before.high);
    before = measured.seconds;
    *took_s += measured.cost_s;
  }
  if (status == MMC_OK) *step = step_of(rises, reach);
  free(rises);
  return status;
}

/* ---- the grid ------------------------------------------------------------------------------ */

/* Lists multiples of step up to the one that holds most: all up to dense of them, then dense/2 from
 * one doubling to the next; where across is not 0, only as many as make across over the whole axis.
 * So the values of a thinner grid are among those of a denser one. The last is what most is rounded
 * up to. Returns false when there are more than fit. */
static bool make_grid(int64_t step, int64_t most, int dense, int across, mmci_grid *grid) {
  int64_t last = (most + step - 1) / step, stride = 1, widest = across > 0 ? 1 : INT64_MAX;
  while (across > 0 && last / widest > across) widest *= 2;
  *grid = (mmci_grid){.step = step};
  for (int64_t x = 1;; x += stride) {
    if (grid->count == MMCI_ARRAY_VALUES) return false;
    grid->values[grid->count++] = mmci_smaller(x, last) * step;
    if (x >= last) return true;
    if (x >= stride * dense && stride < widest) stride *= 2;
  }
}

static mmci_gemm grid_product(const mmci_array *array, int64_t at) {
  const mmci_grid *grid = array->grid;
  int64_t l = at % grid[2].count, j = at / grid[2].count % grid[1].count;
  int64_t i = at / grid[2].count / grid[1].count;
  return product_of(&array->like, grid[0].values[i], grid[1].values[j], grid[2].values[l]);
}

/* ---- measured ------------------------------------------------------------------------------ */

/* Draws a size, log-uniform from step to the last value, because sizes of all orders are asked
 * for. */
static int64_t random_size(const mmci_grid *grid, uint64_t *state) {
  double share = (double)(mmci_random_bits(state) >> 11) * 0x1p-53;
  double span = log((double)grid->values[grid->count - 1] / (double)grid->step);
  int64_t size = (int64_t)llround((double)grid->step * exp(share * span));
  return mmci_smaller(size, grid->values[grid->count - 1]);
}

/* A trial compares the gain of a cut, or the time, that the array predicts with the measured
 * one. */
typedef struct trial {
  double predicted, gain;
} trial;

typedef struct trials {
  int count, error_count, most;
  trial *cuts;
  double *errors;
} trials;

/* Returns the largest ratio of predicted to measured gain of all cuts that were tried. */
static double most_overstated(const trials *t) {
  double most = 1;
  for (int c = 0; c < t->count; c++) most = fmax(most, t->cuts[c].predicted / t->cuts[c].gain);
  return most;
}

static int by_prediction(const void *a, const void *b) {
  double x = ((const trial *)a)->predicted, y = ((const trial *)b)->predicted;
  return (x < y) - (x > y);
}

/* Draws a size to try: one that the grid value next to it stands for, or any. */
static int64_t tried_size(const mmci_grid *grid, bool on_grid, uint64_t *random) {
  int64_t size = random_size(grid, random);
  if (!on_grid) return size;
  int at = 0;
  while (grid->values[at] < size) at++;
  return grid->values[at] - (int64_t)(mmci_random_bits(random) % (uint64_t)grid->step);
}

static bool is_enough(const trials *t) {
  return t->error_count == t->most && t->count == t->most;
}

/* Makes the next trial; returns false when nothing of it is to be measured. */
static bool next_trial(const mmci_array *array, bool on_grid, const trials *t, uint64_t *random,
                       mmci_gemm *gemm, mmci_choice *choice, bool *is_cut) {
  int64_t size[3];
  for (int i = 0; i < 3; i++) size[i] = tried_size(&array->grid[i], on_grid, random);
  *gemm = product_of(&array->like, size[0], size[1], size[2]);
  if (!mmci_array_choose(array, gemm->m, gemm->k, gemm->n, choice)) return false;
  *is_cut = choice->recipe.count > 1 && t->count < t->most;
  return *is_cut || t->error_count < t->most;
}

/* Compares a cut with the plain call. A gain that is overstated more than any before is measured
 * once more, since a single comparison may be disturbed. */
static mmc_status try_cut(mmci_tuner *tuner, const mmci_gemm *gemm, const mmci_choice *choice,
                          const trials *t, mmci_measured *out, mmci_error *error) {
  mmc_status status = mmci_tuner_ask(tuner, MMCI_ASK_COMPARE, gemm, &choice->recipe, out, error);
  if (status != MMC_OK || !(out->plain_s > 0)) return status;
  double most = fmax(most_overstated(t), 1 + mmci_tuner_options(tuner)->least_gain);
  if (choice->gain.value <= most * out->gain.value) return MMC_OK;
  mmci_measured again;
  status = mmci_tuner_ask(tuner, MMCI_ASK_CONFIRM, gemm, &choice->recipe, &again, error);
  if (status == MMC_OK && again.gain.value > out->gain.value) *out = again;
  return status;
}

/* Tries one random size: how wrong its predicted time is, and what the cut that is predicted to be
 * best gains. */
static mmc_status try_size(mmci_tuner *tuner, const mmci_array *array, bool on_grid,
                           uint64_t *random, trials *t, mmci_error *error) {
  mmci_gemm gemm;
  mmci_choice choice;
  bool is_cut;
  if (!next_trial(array, on_grid, t, random, &gemm, &choice, &is_cut)) return MMC_OK;
  mmci_measured measured = {0};
  mmc_status status = is_cut ? try_cut(tuner, &gemm, &choice, t, &measured, error)
                             : ask_product(tuner, &gemm, &measured, error);
  if (status != MMC_OK) return status;
  double plain_s = is_cut ? measured.plain_s : measured.seconds.value;
  if (is_cut && !(plain_s > 0)) return MMC_OK; /* the machine does not support the measurement */
  if (t->error_count < t->most)
    t->errors[t->error_count++] = expm1(fabs(log(choice.plain_s / plain_s)));
  if (is_cut) t->cuts[t->count++] = (trial){choice.gain.value, measured.gain.value};
  return MMC_OK;
}

static mmc_status measure_grid(mmci_tuner *tuner, mmci_array *array, mmci_error *error) {
  int64_t count = mmci_array_count(array);
  for (int64_t at = 0; at < count; at++) {
    mmci_gemm gemm = grid_product(array, at);
    mmci_measured measured;
    mmci_tuner_reached(tuner, "grid points", at, count);
    mmc_status status = ask_product(tuner, &gemm, &measured, error);
    if (status != MMC_OK) return status;
    array->seconds[at] = measured.seconds.value;
  }
  return MMC_OK;
}

/* Tries random sizes until there are enough of both kinds, or too many were tried, or spare_s are
 * left. */
static mmc_status try_sizes(mmci_tuner *tuner, const mmci_array *array, bool on_grid,
                            const mmci_array_options *options, double spare_s, trials *t,
                            mmci_error *error) {
  uint64_t random = options->seed + on_grid;
  mmc_status status = MMC_OK;
  for (int c = 0; status == MMC_OK && c < options->checks * TRIES && !is_enough(t); c++) {
    if (t->error_count > 0 && mmci_tuner_left_s(tuner) < spare_s) break;
    mmci_tuner_reached(tuner, on_grid ? "trials" : "trials between", t->error_count + t->count,
                       2 * (int64_t)t->most);
    status = try_size(tuner, array, on_grid, &random, t, error);
  }
  return status;
}

/* Returns the least predicted gain from which on predictions hold: of the cuts predicted to gain as
 * much or more, at most one in twenty loses more than a percent, and all together gain. It lies
 * between that cut and the next that was tried; when no cut holds, it is more than any that was
 * tried. */
static double gain_to_trust(const trials *t, double least_gain) {
  qsort(t->cuts, (size_t)t->count, sizeof t->cuts[0], by_prediction);
  int kept = 0, lost = 0;
  double gained = 0;
  for (int c = 0; c < t->count; c++) {
    lost += t->cuts[c].gain < 1 - least_gain;
    gained += log(t->cuts[c].gain);
    if (TRUSTED * lost <= c + 1 && gained >= (c + 1) * log1p(least_gain) / 2) kept = c + 1;
  }
  if (kept == t->count) return 1 + least_gain;
  double next = t->cuts[kept].predicted;
  return kept > 0 ? (t->cuts[kept - 1].predicted + next) / 2 : next;
}

/* Returns the margin: a cut's predictions must hold, and it must gain even if it is overstated as
 * much as any that was tried, because cuts of other sizes, in another state of the machine, are. */
static double margin_of(const trials *t, double least_gain) {
  double doubt = most_overstated(t) * (1 + least_gain);
  return fmax(doubt, gain_to_trust(t, least_gain)) - 1;
}

/* Judges the trials: the margin of cuts, and the error of predicted times. */
static void judge(const trials *t, double least_gain, double *margin, double *error_of_times) {
  qsort(t->errors, (size_t)t->error_count, sizeof *t->errors, mmci_ascending_doubles);
  *error_of_times = t->errors[t->error_count * 9 / 10];
  /* Where no cut was predicted, nothing shows that one would gain. */
  *margin = t->count > 0 ? margin_of(t, least_gain) : fmax(*error_of_times, least_gain);
}

/* Tries grid values, then any sizes. */
static mmc_status find_trust(mmci_tuner *tuner, mmci_array *array,
                             const mmci_array_options *options, mmci_error *error) {
  size_t most = (size_t)options->checks;
  trials t = {.most = options->checks,
              .cuts = mmci_alloc_array(most, sizeof *t.cuts),
              .errors = mmci_alloc_array(most, sizeof *t.errors)};
  mmc_status status = MMC_OK;
  if (t.cuts == NULL || t.errors == NULL)
    status = mmci_fail_nomem(error, most * (sizeof *t.cuts + sizeof *t.errors));
  double least_gain = mmci_tuner_options(tuner)->least_gain, left_s = mmci_tuner_left_s(tuner);
  mmci_trust trust = {0};
  for (int on_grid = 1; status == MMC_OK && on_grid >= 0; on_grid--) {
    double spare_s = isfinite(left_s) ? left_s * (on_grid ? half_spare_share : spare_share) : 0;
    t.count = t.error_count = 0;
    status = try_sizes(tuner, array, on_grid, options, spare_s, &t, error);
    if (status == MMC_OK)
      judge(&t, least_gain, on_grid ? &trust.margin : &trust.between, &trust.error);
  }
  array->trust = trust;
  free(t.cuts);
  free(t.errors);
  return status;
}

/* The seconds that measuring takes: those of a small product, and those that a product's flops
 * add. */
typedef struct pace {
  double least_s, s_per_mkn;
} pace;

static double grid_s(const mmci_grid grid[3], const pace *p) {
  double sums[3], count = 1;
  for (int i = 0; i < 3; i++) {
    sums[i] = 0;
    for (int j = 0; j < grid[i].count; j++) sums[i] += (double)grid[i].values[j];
    count *= grid[i].count;
  }
  return p->least_s * count + p->s_per_mkn * sums[0] * sums[1] * sums[2];
}

/* Chooses the densest grid that the budget is thought to allow, or else the thinnest; being dense
 * along the whole range comes before being dense among small sizes. Without a budget, sizes are as
 * dense at all scales, because evenly spaced ones take too long. */
static mmc_status choose_grid(double left_s, const int64_t steps[3],
                              const mmci_array_options *options, const pace *p, mmci_grid grid[3],
                              mmci_error *error) {
  for (int across = isfinite(left_s) ? options->across : 0;; across /= 2) {
    if (across < 4) across = 0;
    for (int dense = options->dense; dense >= 2; dense /= 2) {
      bool fits = true, thinnest = across == 0 && dense < 4;
      for (int i = 0; i < 3; i++)
        fits &= make_grid(steps[i], options->most[i], dense, across, &grid[i]);
      if (fits && (thinnest || grid_s(grid, p) <= grid_share * left_s)) return MMC_OK;
    }
    if (across == 0) break;
  }
  return mmci_fail_argument(
      error, MMC_E_ARG, "range",
      "expected sizes of which %d suffice, got %" PRId64 "x%" PRId64 "x%" PRId64, MMCI_ARRAY_VALUES,
      options->most[0], options->most[1], options->most[2]);
}

/* Returns a product that takes longer than measuring does: of a quarter of the largest size. */
static mmci_gemm large_product(const mmci_gemm *like, const mmci_array_options *options) {
  int64_t size[3];
  for (int i = 0; i < 3; i++) {
    int64_t beside = mmci_smaller(options->beside, options->most[i]),
            quarter = options->most[i] / 4;
    size[i] = quarter > beside ? quarter : beside;
  }
  return product_of(like, size[0], size[1], size[2]);
}

static mmc_status find_pace(mmci_tuner *tuner, const mmci_gemm *like,
                            const mmci_array_options *options, pace *p, mmci_error *error) {
  mmci_gemm large = large_product(like, options);
  mmci_measured measured;
  mmc_status status = ask_product(tuner, &large, &measured, error);
  if (status == MMC_OK) p->s_per_mkn = RUNS * measured.seconds.value / mmci_gemm_mkn(&large);
  return status;
}

/* Returns the product along whose axis steps are looked for, with the other sizes in the middle. */
static mmci_gemm middle_product(const mmci_gemm *like, const mmci_array_options *options) {
  int64_t beside[3];
  for (int i = 0; i < 3; i++) beside[i] = mmci_smaller(options->beside, options->most[i]);
  return product_of(like, beside[0], beside[1], beside[2]);
}

static int64_t reach_of(const mmci_array_options *options, int axis) {
  return mmci_smaller(options->reach, options->most[axis]);
}

/* Finds the steps; p->least_s is what a measurement for them took. */
static mmc_status find_steps(mmci_tuner *tuner, const mmci_gemm *like,
                             const mmci_array_options *options, int64_t steps[3], pace *p,
                             mmci_error *error) {
  mmci_gemm middle = middle_product(like, options);
  double all_s = 0, count = 0;
  for (int i = 0; i < 3; i++) {
    double took_s;
    int64_t reach = reach_of(options, i);
    mmc_status status = mmci_find_step(tuner, &middle, (mmci_axis)(MMCI_AXIS_M + i), reach,
                                       &steps[i], &took_s, error);
    if (status != MMC_OK) return status;
    all_s += took_s;
    count += (double)reach;
  }
  p->least_s = all_s / count + mmci_tuner_writing_s(tuner);
  return MMC_OK;
}

mmc_status mmci_tune_array(mmci_tuner *tuner, const mmci_gemm *like,
                           const mmci_array_options *options, mmci_array **out, mmci_error *error) {
  for (int i = 0; i < 3; i++)
    if (options->most[i] < 1 || options->most[i] > MMCI_ARRAY_MOST)
      return mmci_fail_argument(error, MMC_E_ARG, "range",
                                "expected sizes from 1 to %" PRId64 ", got %" PRId64,
                                MMCI_ARRAY_MOST, options->most[i]);
  if (options->reach < 1 || options->beside < 1 || options->dense < 2 || options->checks < 1 ||
      options->across < 0)
    return mmci_fail_argument(error, MMC_E_ARG, "range",
                              "expected counts of at least 1, dense at least 2");
  int64_t steps[3] = {0};
  pace p = {0};
  mmci_grid grid[3];
  mmci_array *array;
  mmc_status status = find_steps(tuner, like, options, steps, &p, error);
  if (status == MMC_OK) status = find_pace(tuner, like, options, &p, error);
  if (status == MMC_OK)
    status = choose_grid(mmci_tuner_left_s(tuner), steps, options, &p, grid, error);
  if (status == MMC_OK) status = mmci_array_create(like, grid, &array, error);
  if (status != MMC_OK) return status;
  double least_gain = mmci_tuner_options(tuner)->least_gain;
  array->trust = (mmci_trust){.margin = least_gain, .between = least_gain};
  status = measure_grid(tuner, array, error);
  if (status == MMC_OK) status = find_trust(tuner, array, options, error);
  if (status != MMC_OK) {
    mmci_array_destroy(array);
    return status;
  }
  *out = array;
  return MMC_OK;
}

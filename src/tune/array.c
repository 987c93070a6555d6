#include "tune/array.h"

#include <inttypes.h>
#include <math.h>

#include "base/alloc.h"

mmci_array_options mmci_array_defaults(int64_t most) {
  return (mmci_array_options){
      .most = {most, most, most}, .reach = 256, .beside = 256, .dense = 8, .checks = 32, .seed = 1};
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
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

static mmc_status ask(mmci_tuner *tuner, const mmci_gemm *gemm, mmci_measured *out,
                      mmci_error *error) {
  mmci_recipe plain = mmci_recipe_whole(0);
  mmc_status status = mmci_tuner_ask(tuner, MMCI_ASK_TIME, gemm, &plain, out, error);
  if (status == MMC_OK && !isfinite(out->seconds.value))
    return mmci_fail(error, MMC_E_UNSUPPORTED,
                     "array: expected a device that multiplies %" PRId64 "x%" PRId64 "x%" PRId64,
                     gemm->m, gemm->k, gemm->n);
  return status;
}

/* A cliff is no ladder: where a device begins to use threads, say, one rise or two are larger than
 * all others. So none counts for more than the third. */
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

mmc_status mmci_find_step(mmci_tuner *tuner, const mmci_gemm *like, mmci_axis axis, int64_t reach,
                          int64_t *step, mmci_error *error) {
  /* rises[x]: from x to x+1, as far as it is beyond the noise of both. */
  double *rises = mmci_alloc_zeroed((size_t)reach + 1, sizeof *rises);
  if (rises == NULL) return mmci_fail_nomem(error, ((uint64_t)reach + 1) * sizeof *rises);
  mmci_tuner_expect(tuner, reach);
  mmc_status status = MMC_OK;
  mmci_estimate before = {0, 0, (double)INFINITY};
  for (int64_t x = 1; status == MMC_OK && x <= reach; x++) {
    mmci_gemm resized = mmci_gemm_resized(like, axis, x);
    mmci_gemm gemm = product_of(like, resized.m, resized.k, resized.n);
    mmci_measured measured;
    status = ask(tuner, &gemm, &measured, error);
    if (status != MMC_OK) break;
    rises[x - 1] = fmax(0, measured.seconds.low - before.high);
    before = measured.seconds;
  }
  if (status == MMC_OK) *step = step_of(rises, reach);
  free(rises);
  return status;
}

/* ---- the grid ------------------------------------------------------------------------------ */

/* Multiples of step up to the one that holds most: all up to dense of them, then dense/2 from one
 * doubling to the next, so that the values of a thinner grid are among those of a denser one. The
 * last is what most is rounded up to. False: more than fit. */
static bool make_grid(int64_t step, int64_t most, int dense, mmci_grid *grid) {
  int64_t last = (most + step - 1) / step, stride = 1;
  *grid = (mmci_grid){.step = step};
  for (int64_t x = 1;; x += stride) {
    if (grid->count == MMCI_ARRAY_VALUES) return false;
    grid->values[grid->count++] = least(x, last) * step;
    if (x >= last) return true;
    if (x >= stride * dense) stride *= 2;
  }
}

static mmci_gemm grid_product(const mmci_array *array, int64_t at) {
  const mmci_grid *grid = array->grid;
  int64_t l = at % grid[2].count, j = at / grid[2].count % grid[1].count;
  int64_t i = at / grid[2].count / grid[1].count;
  return product_of(&array->like, grid[0].values[i], grid[1].values[j], grid[2].values[l]);
}

/* ---- measured ------------------------------------------------------------------------------ */

static mmc_status measure_grid(mmci_tuner *tuner, mmci_array *array, mmci_error *error) {
  int64_t count = mmci_array_count(array);
  mmci_tuner_expect(tuner, count);
  for (int64_t at = 0; at < count; at++) {
    mmci_gemm gemm = grid_product(array, at);
    mmci_measured measured;
    mmc_status status = ask(tuner, &gemm, &measured, error);
    if (status != MMC_OK) return status;
    array->seconds[at] = measured.seconds.value;
  }
  return MMC_OK;
}

static uint64_t next_random(uint64_t *state) { /* splitmix64 (Steele, Lea and Flood 2014) */
  uint64_t z = (*state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/* Log-uniform from step to the last value: sizes of all orders are asked for. */
static int64_t random_size(const mmci_grid *grid, uint64_t *state) {
  double share = (double)(next_random(state) >> 11) * 0x1p-53;
  double span = log((double)grid->values[grid->count - 1] / (double)grid->step);
  int64_t size = (int64_t)llround((double)grid->step * exp(share * span));
  return least(size, grid->values[grid->count - 1]);
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static mmc_status find_margin(mmci_tuner *tuner, mmci_array *array,
                              const mmci_array_options *options, mmci_error *error) {
  double *errors = mmci_alloc_array((size_t)options->checks + 1, sizeof *errors);
  if (errors == NULL) return mmci_fail_nomem(error, (size_t)options->checks * sizeof *errors);
  uint64_t random = options->seed;
  mmc_status status = MMC_OK;
  mmci_tuner_expect(tuner, options->checks);
  for (int c = 0; status == MMC_OK && c < options->checks; c++) {
    int64_t m = random_size(&array->grid[0], &random), k = random_size(&array->grid[1], &random);
    int64_t n = random_size(&array->grid[2], &random);
    mmci_gemm gemm = product_of(&array->like, m, k, n);
    mmci_measured measured;
    status = ask(tuner, &gemm, &measured, error);
    if (status != MMC_OK) break;
    errors[c] = expm1(fabs(log(mmci_array_seconds(array, m, k, n) / measured.seconds.value)));
  }
  if (status == MMC_OK) {
    qsort(errors, (size_t)options->checks, sizeof *errors, ascending);
    array->margin = fmax(errors[options->checks * 9 / 10], mmci_tuner_options(tuner)->least_gain);
  }
  free(errors);
  return status;
}

/* What measuring takes: the least of any product, and what a product's flops add. */
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

/* The densest grid that the budget is thought to allow, or else the thinnest. */
static mmc_status choose_grid(const mmci_tuner *tuner, const int64_t steps[3],
                              const mmci_array_options *options, const pace *p, mmci_grid grid[3],
                              mmci_error *error) {
  for (int dense = options->dense; dense >= 2; dense /= 2) {
    bool fits = true;
    for (int i = 0; i < 3; i++) fits &= make_grid(steps[i], options->most[i], dense, &grid[i]);
    if (fits && (dense < 4 || grid_s(grid, p) <= mmci_tuner_left_s(tuner))) return MMC_OK;
  }
  return mmci_fail(error, MMC_E_ARG,
                   "range: expected sizes of which %d suffice, got %" PRId64 "x%" PRId64
                   "x%" PRId64,
                   MMCI_ARRAY_VALUES, options->most[0], options->most[1], options->most[2]);
}

static mmc_status find_steps(mmci_tuner *tuner, const mmci_gemm *like,
                             const mmci_array_options *options, int64_t steps[3], pace *p,
                             mmci_error *error) {
  int64_t beside[3];
  for (int i = 0; i < 3; i++) beside[i] = least(options->beside, options->most[i]);
  mmci_gemm middle = product_of(like, beside[0], beside[1], beside[2]);
  for (int i = 0; i < 3; i++) {
    mmc_status status = mmci_find_step(tuner, &middle, (mmci_axis)(MMCI_AXIS_M + i),
                                       least(options->reach, options->most[i]), &steps[i], error);
    if (status != MMC_OK) return status;
  }
  mmci_gemm small = product_of(like, steps[0], steps[1], steps[2]);
  mmci_measured of_middle, of_small;
  mmc_status status = ask(tuner, &middle, &of_middle, error);
  if (status == MMC_OK) status = ask(tuner, &small, &of_small, error);
  if (status != MMC_OK) return status;
  double mkn = (double)beside[0] * (double)beside[1] * (double)beside[2];
  *p = (pace){.least_s = of_small.cost_s, .s_per_mkn = of_middle.cost_s / mkn};
  return MMC_OK;
}

mmc_status mmci_tune_array(mmci_tuner *tuner, const mmci_gemm *like,
                           const mmci_array_options *options, mmci_array **out, mmci_error *error) {
  for (int i = 0; i < 3; i++)
    if (options->most[i] < 1 || options->most[i] > MMCI_ARRAY_MOST)
      return mmci_fail(error, MMC_E_ARG,
                       "range: expected sizes from 1 to %" PRId64 ", got %" PRId64, MMCI_ARRAY_MOST,
                       options->most[i]);
  if (options->reach < 1 || options->beside < 1 || options->dense < 2 || options->checks < 1)
    return mmci_fail(error, MMC_E_ARG, "range: expected counts of at least 1, dense at least 2");
  int64_t steps[3];
  pace p;
  mmci_grid grid[3];
  mmci_array *array;
  mmc_status status = find_steps(tuner, like, options, steps, &p, error);
  if (status == MMC_OK) status = choose_grid(tuner, steps, options, &p, grid, error);
  if (status == MMC_OK) status = mmci_array_create(like, grid, &array, error);
  if (status != MMC_OK) return status;
  status = measure_grid(tuner, array, error);
  if (status == MMC_OK) status = find_margin(tuner, array, options, error);
  if (status != MMC_OK) {
    mmci_array_destroy(array);
    return status;
  }
  *out = array;
  return MMC_OK;
}

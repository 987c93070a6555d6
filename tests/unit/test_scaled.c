/* test_scaled.c: products with exponents: running ones, chains and ranges, whose plain products
 * overflow or vanish, against those that do not. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../random.h"
#include "chain/scale.h"
#include "mmchain.h"

static const uint64_t seed = 20262;
static const char *const devices[] = {"ref", "cpu"};

static mmc_context *context;

static void ok(mmc_status status, const char *what) {
  char message[512];
  if (status != MMC_OK)
    fail_msg("%s: %s", what, mmc_context_message(context, message, sizeof message));
}

static void refused(mmc_status status, mmc_status expected, const char *argument) {
  char name[64];
  assert_int_equal(status, expected);
  assert_string_equal(mmc_context_argument(context, name, sizeof name), argument);
}

/* ---- exponents ------------------------------------------------------------------------------- */

/* Fills with normal-sized numbers times 2^power. */
static void fill_scaled(uint64_t *state, mmc_dtype dtype, int64_t reals, int power, void *data) {
  for (int64_t i = 0; i < reals; i++) {
    const double x = ldexp(random_unit(state), power);
    if (dtype == MMC_F32 || dtype == MMC_C64)
      ((float *)data)[i] = (float)x;
    else
      ((double *)data)[i] = x;
  }
}

static double real_at(mmc_dtype dtype, const void *data, int64_t i) {
  return dtype == MMC_F32 || dtype == MMC_C64 ? (double)((const float *)data)[i]
                                              : ((const double *)data)[i];
}

static mmc_status run_scan(mmc_dtype dtype, int64_t n, int64_t length, bool scaled, bool reverse,
                           const char *device, void *a, void *out, int64_t *exponents) {
  mmc_scan_options options = MMC_SCAN_OPTIONS_INIT;
  options.device = device;
  options.scaled = scaled;
  options.reverse = reverse;
  mmc_scan *scan;
  ok(mmc_scan_create(context, dtype, n, length, &options, &scan), "scan");
  mmc_scan_operands operands = MMC_SCAN_OPERANDS_INIT;
  operands.factors = (mmc_matrix){.data = a, .rows = n, .cols = n};
  operands.out = (mmc_matrix){.data = out, .rows = n, .cols = n};
  operands.factors_step = operands.out_step = n * n;
  operands.exponents = exponents;
  const mmc_status status = mmc_scan_execute(scan, &operands);
  mmc_scan_destroy(scan);
  return status;
}

static const mmc_dtype floats[] = {MMC_F32, MMC_F64, MMC_C64, MMC_C128};

/* Multiplying every factor by a power of two changes exponents and no digit, however far the plain
 * product is from the range. */
static void powers_of_two_change_no_digit(void **unused) {
  enum { N = 5, LENGTH = 300 };
  uint64_t state = seed + 4;
  (void)unused;
  for (int d = 0; d < 8; d++)
    for (int reverse = 0; reverse < 2; reverse++) {
      const mmc_dtype dtype = floats[d % 4];
      const char *device = devices[d / 4];
      const size_t size = mmc_dtype_size(dtype), all = (size_t)LENGTH * N * N * size;
      const bool single = dtype == MMC_F32 || dtype == MMC_C64;
      const int64_t reals = LENGTH * N * N * (dtype == MMC_C64 || dtype == MMC_C128 ? 2 : 1);
      char *a = malloc(all), *b = malloc(all), *of_a = malloc(all), *of_b = malloc(all);
      int64_t ea[LENGTH], eb[LENGTH], sum = 0;
      int powers[LENGTH];
      fill_scaled(&state, dtype, reals, 0, a);
      for (int64_t t = 0; t < LENGTH; t++) {
        powers[t] = (int)random_below(&state, single ? 161 : 1201) - (single ? 80 : 600);
        for (int64_t i = 0; i < reals / LENGTH; i++) {
          const int64_t at = t * (reals / LENGTH) + i;
          if (single)
            ((float *)b)[at] = ldexpf(((float *)a)[at], powers[t]);
          else
            ((double *)b)[at] = ldexp(((double *)a)[at], powers[t]);
        }
      }
      ok(run_scan(dtype, N, LENGTH, true, reverse != 0, device, a, of_a, ea), "scaled");
      ok(run_scan(dtype, N, LENGTH, true, reverse != 0, device, b, of_b, eb), "scaled");
      for (int64_t s = 0; s < LENGTH; s++) {
        const int64_t t = reverse != 0 ? LENGTH - 1 - s : s;
        sum += powers[t];
        for (int64_t i = 0; i < reals / LENGTH; i++) {
          const int64_t at = t * (reals / LENGTH) + i;
          const double x = real_at(dtype, of_a, at), y = real_at(dtype, of_b, at);
          int ex, ey;
          const double mx = frexp(x, &ex), my = frexp(y, &ey);
          assert_true(isfinite(x) && isfinite(y));
          if (mx != my || ex + ea[t] + sum != ey + eb[t])
            fail_msg("%s on %s: state %" PRId64 ", element %" PRId64 ": %a 2^%" PRId64
                     " and %a 2^%" PRId64 ", seed %" PRIu64,
                     mmc_dtype_name(dtype), device, t, i, x, ea[t], y, eb[t], seed);
        }
      }
      free(a);
      free(b);
      free(of_a);
      free(of_b);
    }
}

/* Where the plain product stays within the range, the digits are the same bits. */
static void digits_are_those_of_plain_products(void **unused) {
  enum { N = 4, LENGTH = 60 };
  uint64_t state = seed + 5;
  (void)unused;
  double a[LENGTH * N * N], plain[LENGTH * N * N], scaled[LENGTH * N * N];
  int64_t exponents[LENGTH];
  for (int d = 0; d < 2; d++) {
    fill_scaled(&state, MMC_F64, LENGTH * N * N, 12, a); /* up to 2^720 or so */
    mmc_scan_options options = MMC_SCAN_OPTIONS_INIT;
    (void)options;
    ok(run_scan(MMC_F64, N, LENGTH, false, false, "ref", a, plain, NULL), "plain");
    ok(run_scan(MMC_F64, N, LENGTH, true, false, "ref", a, scaled, exponents), "scaled");
    for (int64_t t = 0; t < LENGTH; t++)
      for (int64_t i = 0; i < N * N; i++)
        if (ldexp(scaled[t * N * N + i], (int)exponents[t]) != plain[t * N * N + i])
          fail_msg("state %" PRId64 ": %a 2^%" PRId64 ", not %a", t, scaled[t * N * N + i],
                   exponents[t], plain[t * N * N + i]);
    assert_int_equal(exponents[0], 0);
    assert_true(exponents[LENGTH - 1] > 256);
  }
}

/* A million factors: the logarithm of the norm grows as that of their determinant and trace does.
 */
static void a_million_factors_neither_overflow_nor_vanish(void **unused) {
  enum { LENGTH = 1000000 };
  (void)unused;
  const double root = 0.70710678118654752;
  for (int s = 0; s < 2; s++) {
    /* A rotation by 45 degrees times 4 or 1/4: the power of 8 is the identity. */
    const double f = s == 0 ? 4 : 0.25;
    double a[4] = {f * root, -f * root, f * root, f * root}, out[4];
    int64_t exponent;
    mmc_chain *chain;
    mmc_plan *plan;
    mmc_run *run;
    mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
    options.scaled = true;
    int64_t *dims = malloc((LENGTH + 1) * sizeof *dims), *same = calloc(LENGTH, sizeof *same);
    mmc_matrix *factors = malloc(LENGTH * sizeof *factors);
    for (int64_t i = 0; i <= LENGTH; i++) dims[i] = 2;
    for (int64_t i = 0; i < LENGTH; i++) factors[i] = (mmc_matrix){.data = a, .rows = 2, .cols = 2};
    mmc_chain_options chain_options = MMC_CHAIN_OPTIONS_INIT;
    if (s == 0) chain_options.same = same;
    ok(mmc_chain_create_batch(context, MMC_F64, LENGTH, dims, NULL, &chain_options, &chain),
       "chain");
    ok(mmc_plan_create(context, chain, &options, &plan), "plan");
    ok(mmc_run_create(plan, &run), "run");
    const mmc_matrix result = {.data = out, .rows = 2, .cols = 2};
    ok(mmc_execute_scaled(run, factors, &result, &exponent), "execute");
    int e0;
    const double m0 = frexp(out[0], &e0);
    assert_true(fabs(m0 - 0.5) < 1e-8 || fabs(m0 - 1) < 1e-8);
    const int64_t power = e0 + exponent - (m0 < 0.75);
    assert_int_equal(power, s == 0 ? 2 * LENGTH : -2 * LENGTH);
    assert_true(fabs(out[1]) < 1e-8 * fabs(out[0]));
    assert_int_equal(mmc_execute(run, factors, &result), MMC_E_ARG);
    mmc_run_destroy(run);
    mmc_plan_destroy(plan);
    mmc_chain_destroy(chain);
    free(dims);
    free(same);
    free(factors);
  }
}

enum { MOST = 6 };

/* Chains of other shapes, ops, layouts and batches, against those without exponents; and against
 * those of factors that are multiplied by powers of two, which have the same digits. */
static void scaled_chains_are_plain_chains(void **unused) {
  uint64_t state = seed + 6;
  (void)unused;
  for (int trial = 0; trial < 120; trial++) {
    const int64_t n = 1 + random_below(&state, MOST), batch = 1 + random_below(&state, 3);
    const mmc_dtype dtype = floats[random_below(&state, 4)];
    const int parts = dtype == MMC_C64 || dtype == MMC_C128 ? 2 : 1;
    const size_t size = mmc_dtype_size(dtype);
    int64_t dims[MOST + 1], exponents[3], own_exponents[3], plain_exponents = 0;
    mmc_op ops[MOST];
    mmc_matrix factors[MOST], large[MOST];
    for (int64_t i = 0; i <= n; i++) dims[i] = 1 + random_below(&state, 9);
    for (int64_t i = 0; i < n; i++) {
      const int64_t power = random_below(&state, 101) - 50;
      ops[i] = (mmc_op)random_below(&state, 3);
      const bool turned = ops[i] != MMC_OP_N;
      factors[i] = (mmc_matrix){.rows = dims[i + turned],
                                .cols = dims[i + !turned],
                                .layout = (mmc_layout)random_below(&state, 2)};
      const bool by_rows = factors[i].layout == MMC_ROW_MAJOR;
      factors[i].ld = (by_rows ? factors[i].cols : factors[i].rows) + random_below(&state, 3);
      const int64_t count = (by_rows ? factors[i].rows : factors[i].cols) * factors[i].ld;
      factors[i].stride = count;
      factors[i].data = malloc((size_t)(batch * count) * size);
      large[i] = factors[i];
      large[i].data = malloc((size_t)(batch * count) * size);
      fill_scaled(&state, dtype, batch * count * parts, 0, factors[i].data);
      plain_exponents += power;
      for (int64_t e = 0; e < batch * count * parts; e++)
        if (size == 4 || dtype == MMC_C64)
          ((float *)large[i].data)[e] = ldexpf(((float *)factors[i].data)[e], (int)power);
        else
          ((double *)large[i].data)[e] = ldexp(((double *)factors[i].data)[e], (int)power);
    }
    mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
    options.batch = batch;
    mmc_chain *chain;
    ok(mmc_chain_create_batch(context, dtype, n, dims, ops, &options, &chain), "chain");
    const int64_t count = dims[0] * dims[n];
    void *out[3];
    mmc_matrix result = {.rows = dims[0],
                         .cols = dims[n],
                         .stride = count,
                         .layout = (mmc_layout)random_below(&state, 2)};
    for (int s = 0; s < 3; s++) {
      mmc_plan *plan;
      mmc_run *run;
      mmc_plan_options plan_options = MMC_PLAN_OPTIONS_INIT;
      plan_options.device = devices[trial % 2];
      plan_options.scaled = s > 0;
      result.data = out[s] = malloc((size_t)(batch * count) * size);
      ok(mmc_plan_create(context, chain, &plan_options, &plan), "plan");
      ok(mmc_run_create(plan, &run), "run");
      ok(s == 0   ? mmc_execute(run, factors, &result)
         : s == 1 ? mmc_execute_scaled(run, large, &result, exponents)
                  : mmc_execute_scaled(run, factors, &result, own_exponents),
         "execute");
      mmc_run_destroy(run);
      mmc_plan_destroy(plan);
    }
    double most = 0, error = 0;
    for (int64_t b = 0; b < batch; b++)
      for (int64_t e = 0; e < count * parts; e++) {
        const double x = real_at(dtype, out[0], b * count * parts + e);
        const double y = ldexp(real_at(dtype, out[1], b * count * parts + e),
                               (int)(exponents[b] - plain_exponents));
        const double own =
            ldexp(real_at(dtype, out[2], b * count * parts + e), (int)own_exponents[b]);
        if (own != y)
          fail_msg("trial %d: %a, and %a of multiplied factors, seed %" PRIu64, trial, own, y,
                   seed);
        most = fabs(x) > most ? fabs(x) : most;
        error = fabs(x - y) > error || isnan(y) ? fabs(x - y) : error;
      }
    const double eps = dtype == MMC_F32 || dtype == MMC_C64 ? 0x1p-23 : 0x1p-52;
    if (!(error <= 400 * eps * (most + 1)))
      fail_msg("trial %d: off by %g of %g, seed %" PRIu64, trial, error, most, seed);
    mmc_chain_destroy(chain);
    for (int64_t i = 0; i < n; i++) {
      free(factors[i].data);
      free(large[i].data);
    }
    for (int s = 0; s < 3; s++) free(out[s]);
  }
}

/* Changes of a row whose products overflow, in random order, against multiplying anew. */
static void scaled_ranges_are_recomputed_products(void **unused) {
  enum { N = 3, BATCH = 2, OPERATIONS = 2000, ROOM = 64 };
  uint64_t state = seed + 7;
  (void)unused;
  mmc_ranges_options options = MMC_RANGES_OPTIONS_INIT;
  mmc_ranges *row;
  options.batch = BATCH;
  options.scaled = true;
  refused(mmc_ranges_create(context, MMC_I64, N, &options, &row), MMC_E_ARG, "scaled");
  ok(mmc_ranges_create(context, MMC_F64, N, &options, &row), "ranges");
  static double held[ROOM][BATCH][N * N];
  int64_t length = 0;
  for (int t = 0; t < OPERATIONS; t++) {
    const int64_t what = random_below(&state, 4);
    double fresh[BATCH][N * N];
    fill_scaled(&state, MMC_F64, BATCH * N * N, (int)random_below(&state, 1201) - 600, fresh);
    const mmc_matrix factor = {.data = fresh, .rows = N, .cols = N, .stride = N * N};
    if (what == 0 && length < ROOM) {
      ok(mmc_ranges_append(row, 1, &factor), "append");
      memcpy(held[length++], fresh, sizeof fresh);
    } else if (what == 1 && length > 0) {
      const int64_t i = random_below(&state, length);
      ok(mmc_ranges_update(row, 1, &i, &factor), "update");
      memcpy(held[i], fresh, sizeof fresh);
    } else if (what == 2 && length > ROOM / 2) {
      ok(mmc_ranges_pop_front(row, 1), "pop_front");
      memmove(held, held[1], (size_t)--length * sizeof held[0]);
    } else {
      const int64_t first = random_below(&state, length + 1);
      const int64_t end = first + random_below(&state, length - first + 1);
      double out[BATCH][N * N];
      int64_t exponents[BATCH];
      const mmc_matrix result = {.data = out, .rows = N, .cols = N, .stride = N * N};
      ok(mmc_ranges_product_scaled(row, first, end, &result, exponents), "product");
      assert_int_equal(mmc_ranges_product(row, first, end, &result), MMC_E_ARG);
      for (int b = 0; b < BATCH; b++) {
        double left[N * N] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, next[N * N], most = 0, error = 0;
        int64_t power = 0;
        for (int64_t i = first; i < end; i++) {
          int e;
          double top = 0;
          memset(next, 0, sizeof next);
          frexp(held[i][b][0], &e);
          for (int r = 0; r < N; r++)
            for (int c = 0; c < N; c++)
              for (int l = 0; l < N; l++)
                next[r * N + c] += left[r * N + l] * ldexp(held[i][b][l * N + c], -e);
          power += e;
          for (int x = 0; x < N * N; x++) top = fmax(top, fabs(next[x]));
          frexp(top, &e);
          for (int x = 0; x < N * N; x++) left[x] = ldexp(next[x], -e);
          power += e;
        }
        for (int x = 0; x < N * N; x++) {
          const double got = ldexp(out[b][x], (int)(exponents[b] - power));
          most = fmax(most, fabs(left[x]));
          if (!(fabs(got - left[x]) <= error)) error = fabs(got - left[x]);
        }
        /* Products of random factors may cancel; a bound on that is the product of their norms. */
        if (!(error <= 1e-9 * most))
          fail_msg("operation %d: off by %g of %g, seed %" PRIu64, t, error, most, seed);
      }
    }
  }
  mmc_ranges_destroy(row);
}

static void exponents_are_refused_where_they_mean_nothing(void **unused) {
  mmc_scan *scan;
  (void)unused;
  mmc_scan_options options = MMC_SCAN_OPTIONS_INIT;
  options.scaled = true;
  refused(mmc_scan_create(context, MMC_I32, 4, 9, &options, &scan), MMC_E_ARG, "scaled");
  options.semiring = MMC_MAX_PLUS;
  refused(mmc_scan_create(context, MMC_F32, 4, 9, &options, &scan), MMC_E_ARG, "scaled");
  options.semiring = MMC_PLUS_TIMES;
  double a[4] = {1, 2, 3, 4}, out[4];
  refused(run_scan(MMC_F64, 2, 1, true, false, "cpu", a, out, NULL), MMC_E_ARG, "exponents");
  mmc_chain *chain;
  mmc_plan *plan;
  mmc_plan_options plan_options = MMC_PLAN_OPTIONS_INIT;
  plan_options.scaled = true;
  plan_options.objective = "time";
  ok(mmc_chain_parse(context, "f64:4x4x4", &chain), "chain");
  refused(mmc_plan_create(context, chain, &plan_options, &plan), MMC_E_ARG, "objective");
  mmc_chain_destroy(chain);
}

static int begin(void **unused) {
  (void)unused;
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  options.wisdom_path = "";
  return mmc_context_create(&options, &context) != MMC_OK;
}

static int end(void **unused) {
  (void)unused;
  mmc_context_destroy(context);
  return 0;
}

/* The greatest finite element says by what a matrix is scaled, wherever it and NaN and infinities
 * are; without finite ones, and without elements, nothing does. */
static void what_is_not_finite_does_not_scale(void **state) {
  (void)state;
  enum { LINES = 3, LONGEST = 40, LD = LONGEST + 2 };
  static double doubles[LINES * LD];
  static float floats[LINES * LD];
  uint64_t random = seed;
  for (int c = 0; c < 400; c++) {
    const bool is_single = c % 2 == 0;
    const mmc_dtype dtype = is_single ? MMC_F32 : MMC_F64;
    const int64_t length = 1 + random_below(&random, LONGEST);
    const int power = (is_single ? 40 : 300) * (random_below(&random, 2) == 0 ? 1 : -1);
    const int kinds = (int)random_below(&random, 4); /* finite alone, with infinity, NaN, both */
    double most = 0;
    for (int64_t i = 0; i < LINES * LD; i++) {
      const bool inside = i % LD < length;
      double x = inside ? ldexp(random_unit(&random), power) : HUGE_VAL;
      const int64_t draw = random_below(&random, 6);
      if (inside && draw == 0 && (kinds & 1) != 0)
        x = random_below(&random, 2) ? HUGE_VAL : -HUGE_VAL;
      if (inside && draw == 1 && (kinds & 2) != 0) x = NAN;
      doubles[i] = x;
      floats[i] = (float)x;
      if (inside && isfinite(x)) most = fmax(most, fabs(is_single ? (double)floats[i] : x));
    }
    int expected = 0;
    if (most > 0) frexp(most, &expected);
    const void *data = is_single ? (const void *)floats : (const void *)doubles;
    assert_int_equal(mmci_scale_needed(dtype, LINES, length, data, LD), expected);
  }
  for (int i = 0; i < LINES * LD; i++) doubles[i] = i % 2 ? NAN : -HUGE_VAL;
  assert_int_equal(mmci_scale_needed(MMC_F64, LINES, LONGEST, doubles, LD), 0);
  assert_int_equal(mmci_scale_needed(MMC_F64, (int64_t)1 << 62, 0, doubles, 0), 0);
  mmci_scale_by(MMC_C64, (int64_t)1 << 62, 0, doubles, 0, 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(powers_of_two_change_no_digit),
      cmocka_unit_test(digits_are_those_of_plain_products),
      cmocka_unit_test(a_million_factors_neither_overflow_nor_vanish),
      cmocka_unit_test(scaled_chains_are_plain_chains),
      cmocka_unit_test(scaled_ranges_are_recomputed_products),
      cmocka_unit_test(what_is_not_finite_does_not_scale),
      cmocka_unit_test(exponents_are_refused_where_they_mean_nothing),
  };
  return cmocka_run_group_tests(tests, begin, end);
}

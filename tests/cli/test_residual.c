/* test_residual.c: what `mmchain multiply --check` passes and what it does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

/* After the three that it needs. */
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "half.h"
#include "random.h"
#include "reference.h"

enum { SEED = 11 };

/* A chain with its operands and its product, as the library makes it. */
typedef struct product {
  mmc_context *context;
  cli_factors factors;
  mmc_matrix result;
} product;

static void multiply(product *p) {
  mmc_plan *plan;
  mmc_run *run;
  assert_int_equal(mmc_plan_create(p->context, p->factors.chain, NULL, &plan), MMC_OK);
  assert_int_equal(mmc_run_create(plan, &run), MMC_OK);
  assert_int_equal(mmc_execute(run, p->factors.matrices, &p->result), MMC_OK);
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
}

static product make(const char *chain_text) {
  product p = {0};
  assert_int_equal(mmc_context_create(NULL, &p.context), MMC_OK);
  assert_int_equal(mmc_chain_parse(p.context, chain_text, &p.factors.chain), MMC_OK);
  const mmc_chain *chain = p.factors.chain;
  const int64_t *dims = mmc_chain_dims(chain), n = mmc_chain_length(chain);
  p.factors.n = n;
  p.factors.matrices = calloc((size_t)n, sizeof *p.factors.matrices);
  assert_non_null(p.factors.matrices);
  for (int64_t i = 0; i < n; i++) {
    p.factors.matrices[i] = cli_stored_factor(chain, i);
    assert_true(cli_matrix_allocate(mmc_chain_dtype(chain), mmc_chain_batch(chain),
                                    &p.factors.matrices[i]));
    cli_random_fill_factor(chain, i, SEED, p.factors.matrices[i].data, NULL, NULL);
  }
  p.result = (mmc_matrix){.rows = dims[0], .cols = dims[n], .layout = MMC_ROW_MAJOR};
  assert_true(cli_matrix_allocate(mmc_chain_dtype(chain), mmc_chain_batch(chain), &p.result));
  multiply(&p);
  return p;
}

static void release(product *p) {
  for (int64_t i = 0; i < p->factors.n; i++) free(p->factors.matrices[i].data);
  free(p->factors.matrices);
  free(p->result.data);
  mmc_chain_destroy(p->factors.chain);
  mmc_context_destroy(p->context);
}

static cli_residual residual_within(const product *p, bool is_fast, double bound) {
  cli_call call = {.context = p->context};
  cli_residual residual;
  assert_int_equal(
      cli_residual_compute(&call, &p->factors, &p->result, NULL, is_fast, bound, SEED, &residual),
      CLI_DONE);
  return residual;
}

static cli_residual residual_of(const product *p) {
  return residual_within(p, false, NAN);
}

static bool passes(const product *p) {
  cli_residual residual = residual_of(p);
  print_message("residual %g, tolerance %g, seed %d\n", residual.value, residual.tolerance, SEED);
  return residual.meaningful && residual.value <= residual.tolerance;
}

static const char *const chains[] = {
    "f64:20x30x5x40",  "f32:20x30x5x40:THN", "c64:20x30x5x40:HTN",  "c128:20x30x5x40:NHT",
    "f64:1x300x1",     "f64:7x600x3",        "c64:600x7:T",         "f32:1x1x1x1",
    "f64:40x1x40x1x9", "f16:20x30x5x40:THN", "bf16:20x30x5x40:NHT", "f16:7x600x3",
    "bf16:1x300x1",    "f16:40x1x40x1x9",
};

enum { CHAIN_COUNT = sizeof chains / sizeof chains[0] };

static void right_products_pass(void **state) {
  (void)state;
  for (int c = 0; c < CHAIN_COUNT; c++) {
    product p = make(chains[c]);
    assert_true(passes(&p));
    release(&p);
  }
}

/* Returns the bytes of a real element, or of either part of a complex one. */
static size_t real_size(mmc_dtype dtype) {
  bool is_complex = dtype == MMC_C64 || dtype == MMC_C128;
  return mmc_dtype_size(dtype) / (is_complex ? 2 : 1);
}

static double get(mmc_dtype dtype, const void *data, size_t e) {
  if (cli_is_half(dtype)) return cli_half_load(dtype, ((const uint16_t *)data)[e]);
  return real_size(dtype) == sizeof(float) ? (double)((const float *)data)[e]
                                           : ((const double *)data)[e];
}

static void put(mmc_dtype dtype, void *data, size_t e, double value) {
  if (cli_is_half(dtype))
    ((uint16_t *)data)[e] = cli_half_round(dtype, value);
  else if (real_size(dtype) == sizeof(float))
    ((float *)data)[e] = (float)value;
  else
    ((double *)data)[e] = value;
}

/* Every single element counts: one that is off by a thousandth of the largest is found; in narrower
 * dtypes, one that is off by more. */
static void wrong_products_fail(void **state) {
  (void)state;
  for (int c = 0; c < CHAIN_COUNT; c++) {
    product p = make(chains[c]);
    mmc_dtype dtype = mmc_chain_dtype(p.factors.chain);
    double off = cli_is_half(dtype)                  ? 1e4 * cli_half_epsilon(dtype)
                 : real_size(dtype) == sizeof(float) ? 0.01
                                                     : 0.001;
    void *data = p.result.data;
    size_t reals =
        (size_t)(p.result.rows * p.result.cols) * mmc_dtype_size(dtype) / real_size(dtype);
    double largest = 0;
    for (size_t e = 0; e < reals; e++) largest = fmax(largest, fabs(get(dtype, data, e)));
    for (size_t e = 0; e<reals; e += reals> 50 ? 17 : 1) {
      double before = get(dtype, data, e);
      put(dtype, data, e, before + off * largest);
      assert_false(passes(&p));
      put(dtype, data, e, before);
    }
    assert_true(passes(&p));
    release(&p);
  }
}

/* An intermediate that f16 cannot hold makes a wrong product. */
static void overflow_fails(void **state) {
  (void)state;
  product p = make("f16:3x400x3x3");
  for (int i = 0; i < 2; i++)
    for (int e = 0; e < 1200; e++) put(MMC_F16, p.factors.matrices[i].data, (size_t)e, 16);
  multiply(&p);
  assert_false(passes(&p));
  for (int e = 0; e < 1200; e++) put(MMC_F16, p.factors.matrices[1].data, (size_t)e, 1);
  multiply(&p);
  assert_true(passes(&p));
  release(&p);
}

static void nan_and_infinity_in_the_result_fail(void **state) {
  (void)state;
  const double values[] = {NAN, INFINITY, -INFINITY};
  for (int v = 0; v < 3; v++) {
    product p = make("f64:5x6x7");
    ((double *)p.result.data)[11] = values[v];
    assert_false(passes(&p));
    release(&p);
  }
}

static void nan_and_infinity_in_a_factor_have_no_residual(void **state) {
  (void)state;
  const double values[] = {NAN, INFINITY, -INFINITY};
  for (int v = 0; v < 3; v++) {
    product p = make("f64:5x6x7x8");
    ((double *)p.factors.matrices[1].data)[41] = values[v];
    multiply(&p);
    assert_false(residual_of(&p).meaningful);
    release(&p);
  }
}

/* A1 A2 is zero but for rounding: the check must allow for what the products have rounded away. */
static void products_that_cancel_pass(void **state) {
  (void)state;
  product p = make("f64:6x8x5x4");
  double *a = p.factors.matrices[0].data, *b = p.factors.matrices[1].data;
  for (int r = 0; r < 6; r++)
    for (int k = 0; k < 4; k++) a[r * 8 + k + 4] = a[r * 8 + k] / 3;
  for (int k = 0; k < 4; k++)
    for (int c = 0; c < 5; c++) b[(k + 4) * 5 + c] = -3 * b[k * 5 + c];
  multiply(&p);
  assert_true(passes(&p));
  ((double *)p.result.data)[3] += 1e-3;
  assert_false(passes(&p));
  release(&p);
}

static void empty_products_pass(void **state) {
  (void)state;
  const char *const empty[] = {"f64:0x5x6", "f64:5x6x0",   "f64:5x0x6",
                               "c64:0x0",   "f32:3x0x0x2", "bf16:3x0x2"};
  for (size_t c = 0; c < sizeof empty / sizeof empty[0]; c++) {
    product p = make(empty[c]);
    assert_true(passes(&p));
    release(&p);
  }
}

/* Column-major factors and gaps between lines are read as they lie. */
static void layouts_are_followed(void **state) {
  (void)state;
  product p = make("f64:4x6x5");
  const mmc_matrix before = p.factors.matrices[0];
  enum { ROWS = 4, COLS = 6, LD = 7 };
  double *turned = calloc(COLS * LD, sizeof *turned);
  assert_non_null(turned);
  for (int e = 0; e < COLS * LD; e++) turned[e] = NAN;
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < COLS; c++) turned[c * LD + r] = ((const double *)before.data)[r * COLS + c];
  p.factors.matrices[0] =
      (mmc_matrix){.data = turned, .rows = ROWS, .cols = COLS, .ld = LD, .layout = MMC_COL_MAJOR};
  assert_true(passes(&p));
  free(before.data);
  release(&p);
}

static bool agrees(const product *p) {
  cli_call call = {.context = p->context};
  cli_residual residual;
  assert_int_equal(cli_reference_chain(&call, &p->factors, &p->result, &residual), CLI_DONE);
  return residual.meaningful && residual.value <= residual.tolerance;
}

/* Over a semiring, an element that is less than another of its row counts too. */
static void semirings_are_compared(void **state) {
  (void)state;
  const char *const over[] = {"f64~max-plus:20x30x5x40", "f64~min-plus:7x60x3:TN",
                              "f64~log:9x8x7x6", "f64~max-plus:4x5x6@3"};
  const double values[] = {NAN, INFINITY, -INFINITY, 0};
  for (size_t c = 0; c < sizeof over / sizeof over[0]; c++) {
    product p = make(over[c]);
    assert_true(agrees(&p));
    double *data = p.result.data;
    const int64_t elements = p.result.rows * p.result.cols * mmc_chain_batch(p.factors.chain);
    for (int64_t e = 0; e < elements; e += 7) {
      const double before = data[e];
      for (int v = 0; v < 4; v++) {
        data[e] = v < 3 ? values[v] : before - 1e-9;
        assert_false(agrees(&p));
      }
      data[e] = before;
    }
    release(&p);
  }
}

static void integers_over_a_semiring_are_compared(void **state) {
  (void)state;
  product p = make("i64~min-plus:5x6x7x8");
  int64_t *data = p.result.data;
  assert_true(agrees(&p));
  data[39]++;
  assert_false(agrees(&p));
  data[39]--;
  assert_true(agrees(&p));
  release(&p);
}

/* The product of factors whose plain product overflows: digits and exponents both count. */
static void exponents_are_checked(void **state) {
  (void)state;
  product p = make("f64:6x8x5x4@2");
  cli_call call = {.context = p.context};
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  mmc_plan *plan;
  mmc_run *run;
  int64_t exponents[2];
  cli_residual residual;
  for (int i = 0; i < 3; i++) {
    double *data = p.factors.matrices[i].data;
    const int64_t elements = 2 * p.factors.matrices[i].rows * p.factors.matrices[i].cols;
    for (int64_t e = 0; e < elements; e++) data[e] = ldexp(data[e], 500);
  }
  options.scaled = true;
  assert_int_equal(mmc_plan_create(p.context, p.factors.chain, &options, &plan), MMC_OK);
  assert_int_equal(mmc_run_create(plan, &run), MMC_OK);
  assert_int_equal(mmc_execute_scaled(run, p.factors.matrices, &p.result, exponents), MMC_OK);
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
  for (int wrong = 0; wrong < 4; wrong++) {
    if (wrong == 1) exponents[1]++;
    if (wrong == 2) exponents[0] -= 100000;
    if (wrong == 3) ((double *)p.result.data)[17] *= 1.001;
    assert_int_equal(
        cli_residual_compute(&call, &p.factors, &p.result, exponents, false, NAN, SEED, &residual),
        CLI_DONE);
    assert_true(residual.meaningful && (residual.value <= residual.tolerance) == (wrong == 0));
    if (wrong == 1) exponents[1]--;
    if (wrong == 2) exponents[0] += 100000;
  }
  release(&p);
}

/* Factors are rounded to the 10 bits of TF32, of which fast products are: they pass as such alone,
 * and a wrong element does not pass. */
static void fast_products_pass(void **state) {
  (void)state;
  product p = make("f32:20x30x25x40");
  for (int64_t i = 0; i < p.factors.n; i++) {
    uint32_t *bits = p.factors.matrices[i].data;
    const int64_t count = p.factors.matrices[i].rows * p.factors.matrices[i].cols;
    for (int64_t e = 0; e < count; e++) bits[e] &= ~UINT32_C(0x1FFF);
  }
  multiply(&p);
  for (int64_t i = 0; i < p.factors.n; i++)
    cli_random_fill_factor(p.factors.chain, i, SEED, p.factors.matrices[i].data, NULL, NULL);
  cli_residual fast = residual_within(&p, true, NAN), native = residual_of(&p);
  assert_true(fast.value == native.value && fast.value <= fast.tolerance);
  assert_true(native.value > native.tolerance);
  ((float *)p.result.data)[17] += 100;
  fast = residual_within(&p, true, NAN);
  assert_true(fast.value > fast.tolerance);
  release(&p);
}

/* Every element is off by a tolerance's part of the lengths of its row and column, some up and some
 * down: it passes for that tolerance, for no smaller one and without one, and ten thousand times as
 * much does not pass. */
static void products_within_a_tolerance_pass(void **state) {
  (void)state;
  enum { M = 60, K = 300, N = 50 };
  const double tolerance = 1e-6;
  product p = make("f64:60x300x50");
  const double *a = p.factors.matrices[0].data, *b = p.factors.matrices[1].data;
  double rows[M] = {0}, columns[N] = {0};
  for (int l = 0; l < K; l++) {
    for (int i = 0; i < M; i++) rows[i] += a[i * K + l] * a[i * K + l];
    for (int j = 0; j < N; j++) columns[j] += b[l * N + j] * b[l * N + j];
  }
  cli_random random = cli_random_start(SEED, 9);
  for (int by = 0; by < 2; by++) {
    double *result = p.result.data;
    for (int i = 0; i < M; i++)
      for (int j = 0; j < N; j++) {
        const double sign = cli_random_normal(&random) < 0 ? -1 : 1;
        result[i * N + j] += sign * tolerance * (by == 0 ? 1 : 1e4) * sqrt(rows[i] * columns[j]);
      }
    const cli_residual with = residual_within(&p, false, tolerance), none = residual_of(&p);
    const cli_residual less = residual_within(&p, false, tolerance / 1000);
    assert_true(with.value == none.value && (with.value <= with.tolerance) == (by == 0));
    assert_true(none.value > none.tolerance && less.value > less.tolerance);
    /* A bound that rounding is within anyway loosens nothing. */
    assert_true(residual_within(&p, false, 1e-14).tolerance == none.tolerance);
  }
  release(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(right_products_pass),
      cmocka_unit_test(wrong_products_fail),
      cmocka_unit_test(overflow_fails),
      cmocka_unit_test(nan_and_infinity_in_the_result_fail),
      cmocka_unit_test(nan_and_infinity_in_a_factor_have_no_residual),
      cmocka_unit_test(products_that_cancel_pass),
      cmocka_unit_test(empty_products_pass),
      cmocka_unit_test(layouts_are_followed),
      cmocka_unit_test(semirings_are_compared),
      cmocka_unit_test(integers_over_a_semiring_are_compared),
      cmocka_unit_test(exponents_are_checked),
      cmocka_unit_test(fast_products_pass),
      cmocka_unit_test(products_within_a_tolerance_pass),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

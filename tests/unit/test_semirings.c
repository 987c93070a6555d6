/* test_semirings.c: chains and running products over semirings against plain loops from left to
 * right: random shapes, ops, batches and repeats, with zeros of the semiring, infinities, NaN and
 * integers at the ends of their range.
 *
 *     test_semirings [MODULE]
 *
 * Where MODULE, mmchain-cuda.so, is given, they are computed by the GPU; exit status 77: there is
 * none. */
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
#include "base/wide.h"
#include "device/blas/semiring_tiles.h"
#include "mmchain.h"

static const uint64_t seed = 20261;

/* The last one is that of tests for one device. */
static const char *devices[] = {"ref", "cpu"};
static int device_count = 2;
static const char *module;

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

/* ---- plain loops ----------------------------------------------------------------------------- */

/* Numbers of all dtypes; i64 has integers of its own. */
typedef struct number {
  double real;
  int64_t integer;
} number;

static number zero_of(mmc_semiring semiring) {
  const bool least = semiring == MMC_MIN_PLUS;
  return (number){least ? (double)INFINITY : -(double)INFINITY, least ? INT64_MAX : INT64_MIN};
}

static number load(mmc_dtype dtype, const void *data, int64_t i) {
  if (dtype == MMC_F32) return (number){(double)((const float *)data)[i], 0};
  if (dtype == MMC_F64) return (number){((const double *)data)[i], 0};
  return (number){0, ((const int64_t *)data)[i]};
}

static void store(mmc_dtype dtype, number x, void *data, int64_t i) {
  if (dtype == MMC_F32) ((float *)data)[i] = (float)x.real;
  if (dtype == MMC_F64) ((double *)data)[i] = x.real;
  if (dtype == MMC_I64) ((int64_t *)data)[i] = x.integer;
}

static number times(mmc_dtype dtype, mmc_semiring semiring, number x, number y) {
  const number zero = zero_of(semiring);
  if (dtype == MMC_I64) {
    if (x.integer == zero.integer || y.integer == zero.integer) return zero;
    mmci_i128 sum = (mmci_i128)x.integer + y.integer;
    if (sum > INT64_MAX - (semiring == MMC_MIN_PLUS)) sum = INT64_MAX - (semiring == MMC_MIN_PLUS);
    if (sum < INT64_MIN + (semiring == MMC_MAX_PLUS)) sum = INT64_MIN + (semiring == MMC_MAX_PLUS);
    return (number){0, (int64_t)sum};
  }
  if (isnan(x.real) || isnan(y.real)) return (number){(double)NAN, 0};
  if (x.real == zero.real || y.real == zero.real) return zero;
  /* Sums of f32 are rounded to f32 where none is exponentiated. */
  const double sum = x.real + y.real;
  return (number){dtype == MMC_F32 && semiring != MMC_LOG_SUM_EXP ? (double)(float)sum : sum, 0};
}

static number plus(mmc_dtype dtype, mmc_semiring semiring, number x, number y) {
  if (dtype == MMC_I64)
    return (semiring == MMC_MIN_PLUS ? y.integer < x.integer : y.integer > x.integer) ? y : x;
  if (isnan(x.real) || isnan(y.real)) return (number){(double)NAN, 0};
  if (semiring == MMC_MIN_PLUS) return y.real < x.real ? y : x;
  const number most = y.real > x.real ? y : x;
  if (semiring == MMC_MAX_PLUS || isinf(most.real)) return most;
  return (number){most.real + log(exp(x.real - most.real) + exp(y.real - most.real)), 0};
}

/* c = a b, of m x k by k x n, row-major; magnitude becomes the greatest finite one of any sum. */
static void multiply(mmc_dtype dtype, mmc_semiring semiring, int64_t m, int64_t k, int64_t n,
                     const void *a, const void *b, void *c) {
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      number sum = zero_of(semiring);
      for (int64_t l = 0; l < k; l++)
        sum = plus(dtype, semiring, sum,
                   times(dtype, semiring, load(dtype, a, i * k + l), load(dtype, b, l * n + j)));
      store(dtype, sum, c, i * n + j);
    }
}

/* ---- elements -------------------------------------------------------------------------------- */

/* What a matrix is filled with. */
typedef enum kind {
  SMALL_NUMBERS,
  WITH_ZEROS,
  WITH_INFINITIES, /* and NaN, or integers at the ends */
  FAR_APART,       /* exponentials of differences vanish */
  KINDS
} kind;

static number random_number(uint64_t *state, mmc_semiring semiring, kind kind) {
  const int64_t small = random_below(state, 2001) - 1000;
  number x = {(double)small / 64, small};
  const int64_t chance = random_below(state, 40);
  if (kind >= WITH_ZEROS && kind <= WITH_INFINITIES && chance < 12) return zero_of(semiring);
  if (kind == WITH_INFINITIES && chance == 12)
    return (number){-zero_of(semiring).real, semiring == MMC_MIN_PLUS ? INT64_MIN : INT64_MAX};
  if (kind == WITH_INFINITIES && chance == 13) return (number){(double)NAN, INT64_MAX / 2};
  if (kind == FAR_APART && chance < 20)
    return (number){random_unit(state) * 3000,
                    (int64_t)(random_bits(state) >> 3) - (INT64_C(1) << 60)};
  return x;
}

static void fill(uint64_t *state, mmc_dtype dtype, mmc_semiring semiring, kind kind, int64_t count,
                 void *data) {
  for (int64_t i = 0; i < count; i++) store(dtype, random_number(state, semiring, kind), data, i);
}

/* Exact, but for logarithms, which are within some roundings of the greatest sums. */
static void expect_same(mmc_dtype dtype, mmc_semiring semiring, int64_t count, const void *got,
                        const void *expected, double scale, const char *what) {
  for (int64_t i = 0; i < count; i++) {
    const number x = load(dtype, got, i), y = load(dtype, expected, i);
    const double eps = dtype == MMC_F32 ? 0x1p-23 : 0x1p-52;
    const double tolerance = semiring == MMC_LOG_SUM_EXP ? 64 * eps * (scale + 1) : 0;
    if (x.integer == y.integer && ((isnan(x.real) && isnan(y.real)) || x.real == y.real ||
                                   fabs(x.real - y.real) <= tolerance))
      continue;
    fail_msg("%s: element %" PRId64 ": got %.17g (%" PRId64 "), expected %.17g (%" PRId64
             "), seed %" PRIu64,
             what, i, x.real, x.integer, y.real, y.integer, seed);
  }
}

/* ---- chains ---------------------------------------------------------------------------------- */

enum { MOST = 6 };

static void transpose(mmc_dtype dtype, int64_t rows, int64_t cols, const void *from, void *to) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++)
      store(dtype, load(dtype, from, i * cols + j), to, j * rows + i);
}

static void check_chain(uint64_t *state, mmc_dtype dtype, mmc_semiring semiring, kind kind,
                        int64_t most_side, const char *device) {
  const int64_t n = 1 + random_below(state, MOST - 1), batch = 1 + random_below(state, 3);
  const size_t size = mmc_dtype_size(dtype);
  int64_t dims[MOST + 1];
  mmc_op ops[MOST];
  mmc_matrix factors[MOST];
  void *plain[MOST];
  char what[160];
  for (int64_t i = 0; i <= n; i++)
    dims[i] = random_below(state, 12) == 0 ? 0 : 1 + random_below(state, most_side);
  mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
  options.batch = batch;
  options.semiring = semiring;
  for (int64_t i = 0; i < n; i++) {
    const int64_t rows = dims[i], cols = dims[i + 1], count = batch * rows * cols;
    ops[i] = random_below(state, 2) == 0 ? MMC_OP_N : MMC_OP_T;
    plain[i] = malloc((size_t)count * size + 1);
    void *stored = malloc((size_t)count * size + 1);
    fill(state, dtype, semiring, kind, count, plain[i]);
    for (int64_t b = 0; b < batch; b++) {
      const char *from = (char *)plain[i] + (size_t)(b * rows * cols) * size;
      char *to = (char *)stored + (size_t)(b * rows * cols) * size;
      if (ops[i] == MMC_OP_T)
        transpose(dtype, rows, cols, from, to);
      else
        memcpy(to, from, (size_t)(rows * cols) * size);
    }
    factors[i] = (mmc_matrix){.data = stored,
                              .rows = ops[i] == MMC_OP_T ? cols : rows,
                              .cols = ops[i] == MMC_OP_T ? rows : cols,
                              .stride = rows * cols};
  }
  const int64_t out_count = dims[0] * dims[n];
  void *out = malloc((size_t)(batch * out_count) * size + 1);
  snprintf(what, sizeof what, "%s of %s on %s, kind %d", mmc_semiring_name(semiring),
           mmc_dtype_name(dtype), device, (int)kind);
  mmc_chain *chain;
  mmc_plan *plan;
  mmc_run *run;
  mmc_plan_options plan_options = MMC_PLAN_OPTIONS_INIT;
  plan_options.device = device;
  ok(mmc_chain_create_batch(context, dtype, n, dims, ops, &options, &chain), what);
  assert_int_equal(mmc_chain_semiring(chain), semiring);
  ok(mmc_plan_create(context, chain, &plan_options, &plan), what);
  ok(mmc_run_create(plan, &run), what);
  const mmc_matrix result = {.data = out, .rows = dims[0], .cols = dims[n], .stride = out_count};
  ok(mmc_execute(run, factors, &result), what);
  /* i64 that saturates depends on the order, so chains of it have two factors there. */
  for (int64_t b = 0; b < batch; b++) {
    void *left = malloc((size_t)(dims[0] * dims[1]) * size + 1);
    memcpy(left, (char *)plain[0] + (size_t)(b * dims[0] * dims[1]) * size,
           (size_t)(dims[0] * dims[1]) * size);
    for (int64_t i = 1; i < n; i++) {
      void *next = malloc((size_t)(dims[0] * dims[i + 1]) * size + 1);
      multiply(dtype, semiring, dims[0], dims[i], dims[i + 1], left,
               (char *)plain[i] + (size_t)(b * dims[i] * dims[i + 1]) * size, next);
      free(left);
      left = next;
    }
    if (!(n > 2 && (kind == FAR_APART || kind == WITH_INFINITIES) && dtype == MMC_I64) &&
        !(n > 2 && dtype != MMC_I64 && kind != SMALL_NUMBERS && kind != WITH_ZEROS))
      expect_same(dtype, semiring, out_count, (char *)out + (size_t)(b * out_count) * size, left,
                  kind == FAR_APART ? 6000 * (double)n : 16 * (double)n, what);
    free(left);
  }
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  for (int64_t i = 0; i < n; i++) {
    free(plain[i]);
    free(factors[i].data);
  }
  free(out);
}

static const struct {
  mmc_dtype dtype;
  mmc_semiring semiring;
} cases[] = {{MMC_F32, MMC_MAX_PLUS}, {MMC_F32, MMC_MIN_PLUS}, {MMC_F32, MMC_LOG_SUM_EXP},
             {MMC_F64, MMC_MAX_PLUS}, {MMC_F64, MMC_MIN_PLUS}, {MMC_F64, MMC_LOG_SUM_EXP},
             {MMC_I64, MMC_MAX_PLUS}, {MMC_I64, MMC_MIN_PLUS}};
enum { CASES = sizeof cases / sizeof cases[0] };

static void chains_are_those_of_plain_loops(void **unused) {
  uint64_t state = seed;
  (void)unused;
  for (int t = 0; t < 6; t++)
    for (int c = 0; c < CASES; c++)
      for (int k = 0; k < KINDS; k++)
        for (int d = 0; d < device_count; d++)
          check_chain(&state, cases[c].dtype, cases[c].semiring, (kind)k, t % 6 == 5 ? 90 : 20,
                      devices[d]);
}

/* Several blocks, several depths and several threads. */
static void check_large(int64_t m, int64_t k, int64_t n) {
  uint64_t state = seed + 1;
  for (int c = 0; c < CASES; c++) {
    if (cases[c].semiring == MMC_LOG_SUM_EXP) continue;
    const mmc_dtype dtype = cases[c].dtype;
    const size_t size = mmc_dtype_size(dtype);
    void *a = malloc((size_t)(m * k) * size), *b = malloc((size_t)(k * n) * size),
         *out = malloc((size_t)(m * n) * size), *expected = malloc((size_t)(m * n) * size);
    fill(&state, dtype, cases[c].semiring, SMALL_NUMBERS, m * k, a);
    fill(&state, dtype, cases[c].semiring, WITH_ZEROS, k * n, b);
    /* What the fast loops do not know, in one block alone. */
    store(dtype, (number){(double)NAN, INT64_MAX - 5}, b, 17 * n + 3);
    const int64_t dims[] = {m, k, n};
    mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
    options.semiring = cases[c].semiring;
    mmc_chain *chain;
    mmc_plan *plan;
    mmc_run *run;
    mmc_plan_options plan_options = MMC_PLAN_OPTIONS_INIT;
    plan_options.device = devices[device_count - 1];
    ok(mmc_chain_create_batch(context, dtype, 2, dims, NULL, &options, &chain), "chain");
    ok(mmc_plan_create(context, chain, &plan_options, &plan), "plan");
    ok(mmc_run_create(plan, &run), "run");
    const mmc_matrix factors[] = {{.data = a, .rows = m, .cols = k},
                                  {.data = b, .rows = k, .cols = n}};
    const mmc_matrix result = {.data = out, .rows = m, .cols = n};
    ok(mmc_execute(run, factors, &result), "execute");
    multiply(dtype, cases[c].semiring, m, k, n, a, b, expected);
    expect_same(dtype, cases[c].semiring, m * n, out, expected, 0, "a large product");
    mmc_run_destroy(run);
    mmc_plan_destroy(plan);
    mmc_chain_destroy(chain);
    free(a);
    free(b);
    free(out);
    free(expected);
  }
}

static void large_products_are_exact(void **unused) {
  (void)unused;
  check_large(205, 140, 530);
  check_large(1, 1500, 530);
  check_large(205, 1500, 1);
  check_large(1, 2500, 1);
}

#ifdef MMCI_WITH_BLAS
enum { TILES = 3 };

/* Finds the tiles of every instruction set that this processor has, the portable ones first, and
 * returns how many there are. */
static int tiles_here(const mmci_semiring_tiles *all[TILES]) {
  int count = 0;
  all[count++] = &mmci_semiring_tiles_portable;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) all[count++] = &mmci_semiring_tiles_avx2;
  if (__builtin_cpu_supports("avx512f")) all[count++] = &mmci_semiring_tiles_avx512;
#endif
  return count;
}

static void tiles_agree(void **unused) {
  const mmci_semiring_tiles *all[TILES];
  const int count = tiles_here(all);
  (void)unused;
  enum { K = 37, MOST_ELEMENTS = 8 * 64 };
  for (int s = 0; s < count; s++)
    for (int d = 0; d < 3; d++) {
      const mmci_semiring_tile tile = d == 0 ? all[s]->f32 : d == 1 ? all[s]->f64 : all[s]->i64;
      const mmc_dtype dtype = d == 0 ? MMC_F32 : d == 1 ? MMC_F64 : MMC_I64;
      for (int v = 1; v <= tile.vectors; v++) {
        static _Alignas(64) double a[K * 8], b[K * 64], c[MOST_ELEMENTS], expected[MOST_ELEMENTS];
        const int64_t cols = (int64_t)v * tile.width;
        uint64_t state = seed + (uint64_t)v;
        fill(&state, dtype, MMC_MAX_PLUS, SMALL_NUMBERS, K * tile.rows, a);
        fill(&state, dtype, MMC_MAX_PLUS, SMALL_NUMBERS, K * cols, b);
        for (int64_t i = 0; i < tile.rows; i++)
          for (int64_t j = 0; j < cols; j++) {
            number sum = {-5, -5};
            for (int64_t l = 0; l < K; l++)
              sum = plus(dtype, MMC_MAX_PLUS, sum,
                         times(dtype, MMC_MAX_PLUS, load(dtype, a, l * tile.rows + i),
                               load(dtype, b, l * cols + j)));
            store(dtype, sum, expected, i * cols + j);
            store(dtype, (number){-5, -5}, c, i * cols + j);
          }
        tile.greatest[v - 1](K, a, b, c);
        expect_same(dtype, MMC_MAX_PLUS, tile.rows * cols, c, expected, 0, "a tile");
      }
    }
}

/* A vector by a matrix that lies by rows or by columns, where no sum is NaN, and where some are. */
static void check_vector(const mmci_semiring_tile *tile, mmc_dtype dtype, int64_t k, int64_t n,
                         bool by_columns, bool least, kind kind) {
  enum { LONGEST = 300 };
  static _Alignas(64) double a[LONGEST], b[(LONGEST + 2) * LONGEST], sums[LONGEST], found[LONGEST];
  static double plain[LONGEST * LONGEST], left[LONGEST], expected[LONGEST];
  const mmc_semiring semiring = least ? MMC_MIN_PLUS : MMC_MAX_PLUS;
  const int64_t down = by_columns ? 1 : n + 1, along = by_columns ? k + 2 : 1;
  uint64_t state = seed + (uint64_t)(k * LONGEST + n);
  fill(&state, dtype, semiring, kind == WITH_INFINITIES ? WITH_ZEROS : kind, k, left);
  fill(&state, dtype, semiring, kind, k * n, plain);
  for (int64_t l = 0; l < k; l++) {
    const number x = load(dtype, left, l);
    store(dtype, (number){least ? -x.real : x.real, 0}, a, l);
    for (int64_t j = 0; j < n; j++)
      store(dtype, load(dtype, plain, l * n + j), b, l * down + j * along);
  }
  for (int64_t j = 0; j < n; j++) store(dtype, zero_of(MMC_MAX_PLUS), sums, j);
  const bool sound = tile->vector(k, n, a, b, down, along, least, sums);
  assert_true(sound || kind == WITH_INFINITIES);
  if (!sound) return;
  multiply(dtype, semiring, 1, k, n, left, plain, expected);
  for (int64_t j = 0; j < n; j++) {
    const double x = load(dtype, sums, j).real;
    /* The greatest infinity is left to the caller to see. */
    if (x == (double)INFINITY) return;
    store(dtype, (number){(least ? -x : x) + 0.0, 0}, found, j);
  }
  expect_same(dtype, semiring, n, found, expected, 0, "a vector");
}

static void vectors_agree(void **unused) {
  const mmci_semiring_tiles *all[TILES];
  static const int64_t sides[] = {1, 2, 3, 5, 16, 33, 64, 130, 300};
  const int count = tiles_here(all);
  (void)unused;
  for (int s = 0; s < count; s++)
    for (int x = 0; x < 81; x++)
      for (int t = 0; t < 8; t++)
        for (int k = SMALL_NUMBERS; k <= WITH_INFINITIES; k++)
          check_vector(t % 2 == 0 ? &all[s]->f32 : &all[s]->f64, t % 2 == 0 ? MMC_F32 : MMC_F64,
                       sides[x / 9], sides[x % 9], t / 2 % 2 == 1, t > 3, (kind)k);
}
#endif

static void powers_are_repeated_products(void **unused) {
  enum { N = 9, POWER = 21 };
  uint64_t state = seed + 2;
  (void)unused;
  mmc_chain *chain;
  mmc_plan *plan;
  mmc_run *run;
  char text[64];
  int64_t a[N * N], out[N * N], left[N * N], next[N * N];
  fill(&state, MMC_I64, MMC_MIN_PLUS, WITH_ZEROS, N * N, a);
  snprintf(text, sizeof text, "i64~min-plus:%dx%d^%d:T", N, N, POWER);
  mmc_plan_options plan_options = MMC_PLAN_OPTIONS_INIT;
  plan_options.device = devices[device_count - 1];
  ok(mmc_chain_parse(context, text, &chain), text);
  ok(mmc_plan_create(context, chain, &plan_options, &plan), text);
  assert_in_range(mmc_plan_step_count(plan), 1, POWER / 2);
  ok(mmc_run_create(plan, &run), text);
  mmc_matrix factors[POWER];
  for (int i = 0; i < POWER; i++) factors[i] = (mmc_matrix){.data = a, .rows = N, .cols = N};
  const mmc_matrix result = {.data = out, .rows = N, .cols = N};
  ok(mmc_execute(run, factors, &result), text);
  int64_t turned[N * N];
  transpose(MMC_I64, N, N, a, turned);
  memcpy(left, turned, sizeof left);
  for (int i = 1; i < POWER; i++) {
    multiply(MMC_I64, MMC_MIN_PLUS, N, N, N, left, turned, next);
    memcpy(left, next, sizeof left);
  }
  assert_memory_equal(out, left, sizeof left);
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
}

/* ---- running products ------------------------------------------------------------------------ */

static void check_scan(uint64_t *state, mmc_dtype dtype, mmc_semiring semiring, int64_t n,
                       int64_t length, const char *device) {
  const size_t size = mmc_dtype_size(dtype);
  const bool reverse = random_below(state, 2) == 0, exclusive = random_below(state, 2) == 0;
  const size_t one = (size_t)(n * n) * size;
  char *a = malloc((size_t)length * one + 1), *out = malloc((size_t)length * one + 1);
  char *left = malloc(one), *next = malloc(one);
  char what[160];
  snprintf(what, sizeof what, "scan of %" PRId64 " over %s of %s on %s", length,
           mmc_semiring_name(semiring), mmc_dtype_name(dtype), device);
  fill(state, dtype, semiring, WITH_ZEROS, length * n * n, a);
  mmc_scan_options options = MMC_SCAN_OPTIONS_INIT;
  options.device = device;
  options.semiring = semiring;
  options.reverse = reverse;
  options.exclusive = exclusive;
  mmc_scan *scan;
  ok(mmc_scan_create(context, dtype, n, length, &options, &scan), what);
  mmc_scan_operands operands = MMC_SCAN_OPERANDS_INIT;
  operands.factors = (mmc_matrix){.data = a, .rows = n, .cols = n};
  operands.out = (mmc_matrix){.data = out, .rows = n, .cols = n};
  operands.factors_step = operands.out_step = n * n;
  ok(mmc_scan_execute(scan, &operands), what);
  for (int64_t i = 0; i < n * n; i++)
    store(dtype, i % (n + 1) == 0 ? (number){0, 0} : zero_of(semiring), left, i);
  for (int64_t t = 0; t < length; t++) {
    const int64_t at = reverse ? length - 1 - t : t;
    const char *factor = a + (size_t)at * one;
    if (exclusive)
      expect_same(dtype, semiring, n * n, out + (size_t)at * one, left, 16 * (double)t, what);
    multiply(dtype, semiring, n, n, n, reverse ? factor : left, reverse ? left : factor, next);
    memcpy(left, next, one);
    if (!exclusive)
      expect_same(dtype, semiring, n * n, out + (size_t)at * one, left, 16 * (double)(t + 1), what);
  }
  mmc_scan_destroy(scan);
  free(a);
  free(out);
  free(left);
  free(next);
}

static void scans_are_those_of_plain_loops(void **unused) {
  static const int64_t lengths[] = {0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 255, 257};
  uint64_t state = seed + 3;
  (void)unused;
  for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++)
    for (int c = 0; c < CASES; c++)
      for (int d = 0; d < device_count; d++)
        check_scan(&state, cases[c].dtype, cases[c].semiring, 1 + random_below(&state, 9),
                   lengths[l], devices[d]);
  const char *last = devices[device_count - 1];
  check_scan(&state, MMC_F32, MMC_MAX_PLUS, 70, 20, last);
  check_scan(&state, MMC_I64, MMC_MIN_PLUS, 8, 3000, last);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void other_dtypes_and_options_are_refused(void **unused) {
  const int64_t dims[] = {4, 4, 4};
  const mmc_op ops[] = {MMC_OP_N, MMC_OP_H};
  const uint32_t traits[] = {MMC_LOWER, 0};
  mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
  mmc_chain *chain;
  mmc_plan *plan;
  (void)unused;
  options.semiring = MMC_MAX_PLUS;
  refused(mmc_chain_create_batch(context, MMC_C64, 2, dims, NULL, &options, &chain), MMC_E_ARG,
          "semiring");
  refused(mmc_chain_create_batch(context, MMC_BOOL, 2, dims, NULL, &options, &chain), MMC_E_ARG,
          "semiring");
  refused(mmc_chain_create_batch(context, MMC_F32, 2, dims, ops, &options, &chain), MMC_E_ARG,
          "ops");
  options.traits = traits;
  refused(mmc_chain_create_batch(context, MMC_F32, 2, dims, NULL, &options, &chain), MMC_E_ARG,
          "traits");
  options.traits = NULL;
  options.checked = true;
  refused(mmc_chain_create_batch(context, MMC_I64, 2, dims, NULL, &options, &chain), MMC_E_ARG,
          "checked");
  options.checked = false;
  options.semiring = (mmc_semiring)9;
  refused(mmc_chain_create_batch(context, MMC_F32, 2, dims, NULL, &options, &chain), MMC_E_ARG,
          "semiring");
  options.semiring = MMC_LOG_SUM_EXP;
  refused(mmc_chain_create_batch(context, MMC_I64, 2, dims, NULL, &options, &chain), MMC_E_ARG,
          "semiring");
  assert_int_equal(mmc_chain_parse(context, "f32~max:4x4", &chain), MMC_E_ARG);
  ok(mmc_chain_parse(context, "f32~max-plus:4x4x4", &chain), "f32~max-plus");
  mmc_plan_options plan_options = MMC_PLAN_OPTIONS_INIT;
  plan_options.objective = "time";
  refused(mmc_plan_create(context, chain, &plan_options, &plan), MMC_E_ARG, "objective");
  ok(mmc_plan_create(context, chain, NULL, &plan), "plan");
  mmc_gradients *gradients;
  refused(mmc_gradients_create(plan, NULL, &gradients), MMC_E_UNSUPPORTED, "plan");
  const mmc_chain *chains[] = {chain};
  mmc_tune_options tune = MMC_TUNE_OPTIONS_INIT;
  tune.chains = chains;
  tune.chain_count = 1;
  assert_int_not_equal(mmc_tune(context, &tune, NULL), MMC_OK);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  ok(mmc_chain_parse(context, "bool~or-and:4x4", &chain), "bool~or-and");
  assert_int_equal(mmc_chain_semiring(chain), MMC_OR_AND);
  mmc_chain_destroy(chain);
}

static int begin(void **unused) {
  static char folder[4096];
  (void)unused;
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  options.wisdom_path = "";
  if (module != NULL) {
    const char *slash = strrchr(module, '/');
    snprintf(folder, sizeof folder, "%.*s", slash == NULL ? 1 : (int)(slash - module),
             slash == NULL ? "." : module);
    options.module_dir = folder;
  }
  return mmc_context_create(&options, &context) != MMC_OK;
}

static int end(void **unused) {
  (void)unused;
  mmc_context_destroy(context);
  return 0;
}

/* Says whether there is a GPU. */
static bool finds_gpu(void) {
  mmc_chain *chain = NULL;
  mmc_plan *plan = NULL;
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.device = "cuda";
  if (begin(NULL) != 0) return false;
  const bool found = mmc_chain_parse(context, "f32:4x4", &chain) == MMC_OK &&
                     mmc_plan_create(context, chain, &options, &plan) == MMC_OK;
  char message[512];
  if (!found) printf("skipped: %s\n", mmc_context_message(context, message, sizeof message));
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  end(NULL);
  return found;
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chains_are_those_of_plain_loops),
      cmocka_unit_test(large_products_are_exact),
      cmocka_unit_test(powers_are_repeated_products),
      cmocka_unit_test(scans_are_those_of_plain_loops),
      cmocka_unit_test(other_dtypes_and_options_are_refused),
  };
#ifdef MMCI_WITH_BLAS
  const struct CMUnitTest of_blas[] = {cmocka_unit_test(tiles_agree),
                                       cmocka_unit_test(vectors_agree)};
#endif
  if (argc > 1) {
    module = argv[1];
    if (!finds_gpu()) return 77;
    devices[0] = "cuda";
    device_count = 1;
  }
  int failed = cmocka_run_group_tests(tests, begin, end);
#ifdef MMCI_WITH_BLAS
  if (module == NULL) failed += cmocka_run_group_tests(of_blas, begin, end);
#endif
  return failed;
}

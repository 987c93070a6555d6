/* test_multiply.c: mmc_multiply() gives the bits of a plan of the same options, executed, however
 * matrices lie: of little chains, which have no plan, and of others, one and many of a batch; for
 * both objectives, every kind of dtype and op, and what the chain says of shared ones; the order is
 * the one that a plan has. What lies beside the result stays. Batches whose chains share factors
 * give what plain loops do. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
/* cmocka.h wants the three above. */
#include <cmocka.h>

#include "../how_many.h"
#include "../random.h"
#include "mmchain.h"

static const uint64_t first_seed = 20261125;
enum { MOST_FACTORS = 17, ROUNDS = 1500, GUARD = 0x5a };

typedef struct problem {
  uint64_t seed;
  mmc_dtype dtype;
  int n;
  int64_t batch;
  int64_t dims[MOST_FACTORS + 1];
  mmc_op ops[MOST_FACTORS];
  mmc_matrix factors[MOST_FACTORS], out;
  bool shared[MOST_FACTORS];   /* what the chain says of them */
  void **tables[MOST_FACTORS]; /* of addresses, or NULL */
  size_t out_bytes;
} problem;

/* Half of all numbers are of either sign and some 2^16 apart. */
static void fill(uint64_t *random, mmc_dtype dtype, void *data, size_t bytes) {
  const bool is_single = dtype == MMC_F32 || dtype == MMC_C64;
  if (dtype >= MMC_I8 || dtype == MMC_F16 || dtype == MMC_BF16) {
    for (size_t i = 0; i < bytes; i++) ((unsigned char *)data)[i] = (unsigned char)(i % 3);
    return;
  }
  for (size_t i = 0; i < bytes / (is_single ? sizeof(float) : sizeof(double)); i++) {
    const double x = random_unit(random) * ldexp(1, (int)random_below(random, 16));
    if (is_single)
      ((float *)data)[i] = (float)x;
    else
      ((double *)data)[i] = x;
  }
}

/* Has a factor's matrices be found at addresses, the last one first; returns their table. */
static void **gather(mmc_matrix *x, mmc_dtype dtype, int64_t batch) {
  void **addresses = malloc((size_t)batch * sizeof *addresses);
  assert_non_null(addresses);
  for (int64_t i = 0; i < batch; i++)
    addresses[i] = (char *)x->data + (batch - 1 - i) * x->stride * (int64_t)mmc_dtype_size(dtype);
  x->addresses = addresses;
  return addresses;
}

/* Matrices of any layout, with gaps or without, or one for all of a batch; their memory has *bytes.
 */
static mmc_matrix place(uint64_t *random, mmc_dtype dtype, int64_t rows, int64_t cols,
                        int64_t batch, bool may_be_one, size_t *bytes) {
  mmc_matrix x = {.rows = rows, .cols = cols};
  x.layout = random_below(random, 3) == 0 ? MMC_COL_MAJOR : MMC_ROW_MAJOR;
  const bool by_rows = x.layout == MMC_ROW_MAJOR;
  const int64_t length = by_rows ? cols : rows, lines = by_rows ? rows : cols;
  x.ld = random_below(random, 2) == 0 ? 0 : length + random_below(random, 5) + (length == 0);
  const int64_t ld = x.ld != 0 ? x.ld : length;
  const bool is_one = may_be_one && random_below(random, 4) == 0;
  if (batch > 1 && !is_one) x.stride = lines * ld + random_below(random, 3);
  *bytes = (size_t)(lines * ld + (batch - 1) * x.stride + 1) * mmc_dtype_size(dtype);
  x.data = malloc(*bytes);
  assert_non_null(x.data);
  fill(random, dtype, x.data, *bytes);
  return x;
}

static void draw(uint64_t *random, problem *p) {
  static const mmc_dtype dtypes[] = {MMC_F32, MMC_F64, MMC_F64, MMC_C64, MMC_C128, MMC_BF16,
                                     MMC_F16, MMC_I8,  MMC_I32, MMC_U64, MMC_BOOL};
  static const int64_t most[] = {3, 8, 30, 64, 128, 200};
  static const int64_t leasts[] = {0, 1, 1, 2, 2, 2, 2, 2};
  p->dtype = dtypes[random_below(random, 11)];
  p->n = 1 + (int)random_below(random, MOST_FACTORS);
  p->batch = random_below(random, 3) == 0 ? 2 + random_below(random, 40) : 1;
  const int64_t limit = most[random_below(random, p->batch > 1 ? 3 : 6)],
                least = leasts[random_below(random, 8)];
  const bool equal = random_below(random, 6) == 0;
  for (int i = 0; i <= p->n; i++)
    p->dims[i] = equal && i > 0 ? p->dims[0] : least + random_below(random, limit - least + 1);
  const bool turns = random_below(random, 2) == 0;
  for (int i = 0; i < p->n; i++) {
    size_t bytes;
    p->ops[i] = turns ? (mmc_op)random_below(random, 3) : MMC_OP_N;
    const bool as_is = p->ops[i] == MMC_OP_N;
    p->factors[i] = place(random, p->dtype, p->dims[as_is ? i : i + 1], p->dims[as_is ? i + 1 : i],
                          p->batch, true, &bytes);
    p->shared[i] = p->factors[i].stride == 0 && random_below(random, 2) == 0;
    const bool has_table = random_below(random, 5) == 0;
    p->tables[i] = has_table ? gather(&p->factors[i], p->dtype, p->batch) : NULL;
  }
  p->out = place(random, p->dtype, p->dims[0], p->dims[p->n], p->batch, false, &p->out_bytes);
}

static void execute(mmc_context *context, const mmc_chain *chain, const mmc_plan_options *options,
                    const mmc_matrix *factors, const mmc_matrix *out) {
  mmc_plan *plan;
  mmc_run *run;
  assert_int_equal(mmc_plan_create(context, chain, options, &plan), MMC_OK);
  assert_int_equal(mmc_run_create(plan, &run), MMC_OK);
  assert_int_equal(mmc_execute(run, factors, out), MMC_OK);
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
}

static void multiply_as_a_plan_does(void **state) {
  mmc_context *context = *state;
  for (int round = 0; round < how_many(ROUNDS / 2, ROUNDS); round++) {
    problem p = {.seed = first_seed + (uint64_t)round};
    uint64_t random = p.seed;
    mmc_chain *chain;
    mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
    options.objective = random_below(&random, 3) == 0 ? "flops" : "time";
    if (random_below(&random, 10) == 0) options.device = "ref";
    if (random_below(&random, 10) == 0) options.solver = "left-to-right";
    draw(&random, &p);
    mmc_chain_options chain_options = MMC_CHAIN_OPTIONS_INIT;
    chain_options.batch = p.batch;
    chain_options.shared = p.shared;
    assert_int_equal(
        mmc_chain_create_batch(context, p.dtype, p.n, p.dims, p.ops, &chain_options, &chain),
        MMC_OK);
    unsigned char *expected = malloc(p.out_bytes);
    assert_non_null(expected);
    memset(p.out.data, GUARD, p.out_bytes);
    execute(context, chain, &options, p.factors, &p.out);
    memcpy(expected, p.out.data, p.out_bytes);
    memset(p.out.data, GUARD, p.out_bytes);
    assert_int_equal(mmc_multiply(context, chain, &options, p.factors, &p.out), MMC_OK);
    if (memcmp(expected, p.out.data, p.out_bytes) != 0)
      fail_msg("seed %" PRIu64 ": other bits than a plan gives", p.seed);
    free(expected);
    free(p.out.data);
    for (int i = 0; i < p.n; i++) {
      free(p.tables[i]);
      free(p.factors[i].data);
    }
    mmc_chain_destroy(chain);
  }
}

static void errors_are_those_of_the_plan_and_the_run(void **state) {
  mmc_context *context = *state;
  double data[3][9] = {{0}}, c[9];
  char text[512];
  mmc_chain *chain;
  mmc_matrix factors[3], out = {.data = c, .rows = 3, .cols = 3};
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  for (int i = 0; i < 3; i++)
    factors[i] = (mmc_matrix){.data = data[i], .rows = 3, .cols = i == 1 ? 4 : 3};
  assert_int_equal(mmc_chain_parse(context, "f64:3x3x3x3", &chain), MMC_OK);
  assert_int_equal(mmc_multiply(context, chain, NULL, factors, &out), MMC_E_ARG);
  assert_string_equal(mmc_context_message(context, text, sizeof text),
                      "factors[1]: expected 3 x 3 as stored, got 3 x 4");
  factors[1].cols = 3;
  factors[2].data = &c[1];
  assert_int_equal(mmc_multiply(context, chain, NULL, factors, &out), MMC_E_ARG);
  assert_string_equal(mmc_context_message(context, text, sizeof text),
                      "factors[2]: overlaps the result");
  factors[2].data = data[2];
  options.objective = "tim";
  assert_int_equal(mmc_multiply(context, chain, &options, factors, &out), MMC_E_ARG);
  assert_string_equal(mmc_context_message(context, text, sizeof text),
                      "objective: expected flops, traffic, time or energy, got 'tim'");
  options.objective = "time";
  options.fuse = "none";
  assert_int_equal(mmc_multiply(context, chain, &options, factors, &out), MMC_E_ARG);
  assert_string_equal(mmc_context_message(context, text, sizeof text),
                      "fuse: expected objective traffic with it");
  assert_int_equal(mmc_multiply(context, chain, NULL, factors, &out), MMC_OK);
  mmc_chain_destroy(chain);
}

/* Columns by rows whose products of three sides exceed 64 bits, though the chain is short. */
static void long_vectors_are_multiplied(void **state) {
  enum { N = 6, LONG = 1 << 22 };
  mmc_context *context = *state;
  const int64_t dims[N + 1] = {1, LONG, 1, LONG, 1, LONG, 1};
  int8_t *ones = malloc(LONG), got = 0;
  mmc_matrix factors[N], out = {.data = &got, .rows = 1, .cols = 1};
  mmc_chain *chain;
  assert_non_null(ones);
  memset(ones, 1, LONG);
  ones[0] = 4; /* each sum is LONG + 15, 15 in 8 bits */
  for (int i = 0; i < N; i++)
    factors[i] = (mmc_matrix){.data = ones, .rows = dims[i], .cols = dims[i + 1]};
  assert_int_equal(mmc_chain_create(context, MMC_I8, N, dims, NULL, &chain), MMC_OK);
  assert_int_equal(mmc_multiply(context, chain, NULL, factors, &out), MMC_OK);
  assert_int_equal(got, 15 * 15 * 15 % 256);
  mmc_chain_destroy(chain);
  free(ones);
}

/* ---- shared factors ----------------------------------------------------------------------------
 */

enum { MOST_SHARED = 6, MOST_CHAINS = 40, SHARED_ROUNDS = 400 };

/* Multiplies one chain of doubles from left to right, by plain loops, into out. */
static void multiply_one(const problem *p, int64_t chain, double *out, double *magnitude) {
  double left[64 * 64], size[64 * 64], product[64 * 64], product_size[64 * 64];
  const int64_t m = p->dims[0];
  for (int i = 0; i < p->n; i++) {
    const int64_t k = p->dims[i], n = p->dims[i + 1];
    const bool as_is = p->ops[i] == MMC_OP_N;
    const double *a = (const double *)p->factors[i].data + chain * p->factors[i].stride;
    for (int64_t r = 0; r < m; r++)
      for (int64_t c = 0; c < n; c++) {
        double sum = 0, sizes = 0;
        for (int64_t l = 0; l < k; l++) {
          const double x = as_is ? a[l * n + c] : a[c * k + l];
          sum += i > 0 ? left[r * k + l] * x : r == l ? x : 0;
          sizes += i > 0 ? size[r * k + l] * fabs(x) : r == l ? fabs(x) : 0;
        }
        product[r * n + c] = sum;
        product_size[r * n + c] = sizes;
      }
    memcpy(left, product, sizeof left);
    memcpy(size, product_size, sizeof size);
  }
  memcpy(out, left, (size_t)(m * p->dims[p->n]) * sizeof *out);
  memcpy(magnitude, size, (size_t)(m * p->dims[p->n]) * sizeof *magnitude);
}

static void check_results(const problem *p, int64_t batch, const char *device) {
  static double expected[64 * 64], magnitude[64 * 64];
  const int64_t one = p->dims[0] * p->dims[p->n];
  for (int64_t b = 0; b < batch; b++) {
    const double *got = (const double *)p->out.data + b * one;
    multiply_one(p, b, expected, magnitude);
    for (int64_t t = 0; t < one; t++)
      if (!(fabs(got[t] - expected[t]) <= 1e-12 * magnitude[t]))
        fail_msg("seed %" PRIu64 " on %s: element %" PRId64 " of chain %" PRId64 " is %g, not %g",
                 p->seed, device, t, b, got[t], expected[t]);
  }
}

/* A chain that says which factors its batch shares gives each of its chains the product, in one
 * piece, in chunks and in groups. */
static void shared_factors_are_multiplied(void **state) {
  mmc_context *context = *state;
  static const char *const devices[] = {"cpu", "ref"}, *const objectives[] = {"time", "flops",
                                                                              "energy"};
  int once = 0;
  for (int round = 0; round < SHARED_ROUNDS; round++) {
    problem p = {.seed = first_seed + 7000 + (uint64_t)round, .dtype = MMC_F64};
    uint64_t random = p.seed;
    p.n = 2 + (int)random_below(&random, MOST_SHARED - 1);
    const int64_t most = round % 3 == 0 ? 64 : 12, batch = 2 + random_below(&random, MOST_CHAINS);
    bool shared[MOST_SHARED];
    for (int i = 0; i <= p.n; i++) p.dims[i] = 1 + random_below(&random, most);
    for (int i = 0; i < p.n; i++) {
      shared[i] = random_below(&random, 3) > 0;
      p.ops[i] = (mmc_op)random_below(&random, 2);
      const bool as_is = p.ops[i] == MMC_OP_N;
      const int64_t one = p.dims[i] * p.dims[i + 1];
      const size_t bytes = (size_t)(one * (shared[i] ? 1 : batch)) * sizeof(double);
      p.factors[i] = (mmc_matrix){.data = malloc(bytes),
                                  .rows = p.dims[as_is ? i : i + 1],
                                  .cols = p.dims[as_is ? i + 1 : i],
                                  .stride = shared[i] ? 0 : one};
      assert_non_null(p.factors[i].data);
      fill(&random, MMC_F64, p.factors[i].data, bytes);
    }
    p.out = (mmc_matrix){.rows = p.dims[0], .cols = p.dims[p.n], .stride = p.dims[0] * p.dims[p.n]};
    p.out_bytes = (size_t)(batch * p.out.stride) * sizeof(double);
    p.out.data = malloc(p.out_bytes);
    assert_non_null(p.out.data);
    mmc_chain_options chain_options = MMC_CHAIN_OPTIONS_INIT;
    chain_options.batch = batch;
    chain_options.shared = shared;
    mmc_chain *chain;
    assert_int_equal(
        mmc_chain_create_batch(context, MMC_F64, p.n, p.dims, p.ops, &chain_options, &chain),
        MMC_OK);
    for (int i = 0; i < p.n; i++) once += mmc_chain_shared(chain, i);
    for (int d = 0; d < 2; d++) {
      mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
      options.device = devices[d];
      options.objective = objectives[random_below(&random, 3)];
      if (random_below(&random, 3) == 0) options.solver = "left-to-right";
      memset(p.out.data, 0xff, p.out_bytes); /* NaN */
      execute(context, chain, &options, p.factors, &p.out);
      check_results(&p, batch, devices[d]);
    }
    mmc_chain_destroy(chain);
    free(p.out.data);
    for (int i = 0; i < p.n; i++) free(p.factors[i].data);
  }
  assert_true(once > SHARED_ROUNDS);
}

static int set_up(void **state) {
  return mmc_context_create(NULL, (mmc_context **)state) != MMC_OK;
}

static int tear_down(void **state) {
  mmc_context_destroy(*state);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(multiply_as_a_plan_does),
      cmocka_unit_test(errors_are_those_of_the_plan_and_the_run),
      cmocka_unit_test(long_vectors_are_multiplied),
      cmocka_unit_test(shared_factors_are_multiplied),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

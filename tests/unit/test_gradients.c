/* test_gradients.c: the gradients of random chains against P^H G S^H, the product of all factors
 * before one and all behind it by definition; how much memory they take; what is wrong is an
 * error. */
#include <complex.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../random.h"
#include "mmchain.h"

typedef double complex number;

enum { MOST = 24, SIDE = 12, BATCH = 3 };

/* A matrix of the reference. */
typedef struct table {
  int64_t rows, cols;
  number at[SIDE * SIDE];
} table;

/* The same of absolute values, which bound what rounding can do. */
static void multiply(const table *a, const table *b, table *c) {
  *c = (table){.rows = a->rows, .cols = b->cols};
  for (int64_t i = 0; i < a->rows; i++)
    for (int64_t j = 0; j < b->cols; j++)
      for (int64_t k = 0; k < a->cols; k++)
        c->at[i * c->cols + j] += a->at[i * a->cols + k] * b->at[k * b->cols + j];
}

static void turn(const table *a, bool conjugates, table *out) {
  *out = (table){.rows = a->cols, .cols = a->rows};
  for (int64_t i = 0; i < a->rows; i++)
    for (int64_t j = 0; j < a->cols; j++) {
      const number x = a->at[i * a->cols + j];
      out->at[j * a->rows + i] = conjugates ? conj(x) : x;
    }
}

static void absolute(table *a) {
  for (int64_t e = 0; e < a->rows * a->cols; e++) a->at[e] = cabs(a->at[e]);
}

/* ---- one chain ----------------------------------------------------------------------------- */

/* A matrix of the caller's, in a buffer with guards around it and gaps between its lines. */
typedef struct lying {
  mmc_matrix matrix;
  unsigned char *bytes;
  size_t size;
} lying;

enum { GUARD = 64, POISON = 0xA5 };

typedef struct problem {
  uint64_t seed, state;
  mmc_context *context;
  mmc_dtype dtype;
  int64_t n, batch, dims[MOST + 1];
  mmc_op ops[MOST];
  bool wanted[MOST];
  table factors[BATCH][MOST], cotangent[BATCH]; /* after ops */
  lying given[MOST], out, dc, copies[MOST];
} problem;

static number read_element(mmc_dtype dtype, const void *at) {
  const float *f = at;
  const double *d = at;
  switch (dtype) {
    case MMC_F32:
      return (double)f[0];
    case MMC_C64:
      return (double)f[0] + I * (double)f[1];
    case MMC_C128:
      return d[0] + I * d[1];
    default:
      return d[0];
  }
}

static void write_element(mmc_dtype dtype, void *at, number x) {
  float *f = at;
  double *d = at;
  const bool is_float = dtype == MMC_F32 || dtype == MMC_C64;
  if (is_float) f[0] = (float)creal(x);
  if (!is_float) d[0] = creal(x);
  if (dtype == MMC_C64) f[1] = (float)cimag(x);
  if (dtype == MMC_C128) d[1] = cimag(x);
}

static lying lay(problem *p, int64_t rows, int64_t cols) {
  lying x = {.matrix = {.rows = rows, .cols = cols}};
  const size_t element = mmc_dtype_size(p->dtype);
  x.matrix.layout = random_below(&p->state, 2) ? MMC_COL_MAJOR : MMC_ROW_MAJOR;
  const int64_t length = x.matrix.layout == MMC_COL_MAJOR ? rows : cols;
  const int64_t lines = x.matrix.layout == MMC_COL_MAJOR ? cols : rows;
  x.matrix.ld = length + random_below(&p->state, 2) * random_below(&p->state, 4);
  if (x.matrix.ld == 0) x.matrix.ld = 1;
  x.matrix.stride = lines * x.matrix.ld + random_below(&p->state, 3);
  x.size = (size_t)(p->batch * x.matrix.stride) * element + 2 * GUARD;
  x.bytes = aligned_alloc(64, (x.size + 63) / 64 * 64);
  assert_non_null(x.bytes);
  memset(x.bytes, POISON, x.size);
  x.matrix.data = x.bytes + GUARD;
  return x;
}

static unsigned char *place(const problem *p, const lying *x, int64_t t, int64_t r, int64_t c) {
  const int64_t at =
      x->matrix.layout == MMC_COL_MAJOR ? c * x->matrix.ld + r : r * x->matrix.ld + c;
  return (unsigned char *)x->matrix.data +
         (size_t)(t * x->matrix.stride + at) * mmc_dtype_size(p->dtype);
}

static void fill(problem *p, const lying *x, int64_t t, const table *from) {
  for (int64_t r = 0; r < from->rows; r++)
    for (int64_t c = 0; c < from->cols; c++)
      write_element(p->dtype, place(p, x, t, r, c), from->at[r * from->cols + c]);
}

static void draw(problem *p, int64_t rows, int64_t cols, table *out) {
  *out = (table){.rows = rows, .cols = cols};
  const bool is_complex = p->dtype == MMC_C64 || p->dtype == MMC_C128;
  for (int64_t e = 0; e < rows * cols; e++) {
    /* As a float has it, so that nothing is rounded on the way. */
    out->at[e] = (double)(float)random_unit(&p->state);
    if (is_complex) out->at[e] += I * (double)(float)random_unit(&p->state);
  }
}

static void draw_problem(problem *p, bool is_square) {
  static const mmc_dtype dtypes[] = {MMC_F32, MMC_F64, MMC_C64, MMC_C128};
  p->dtype = dtypes[random_below(&p->state, 4)];
  p->n = 1 + random_below(&p->state, MOST);
  p->batch = random_below(&p->state, 3) ? 1 : 2 + random_below(&p->state, BATCH - 1);
  const int64_t side = 1 + random_below(&p->state, SIDE);
  for (int64_t i = 0; i <= p->n; i++)
    p->dims[i] = is_square                          ? side
                 : random_below(&p->state, 40) == 0 ? 0
                                                    : 1 + random_below(&p->state, SIDE);
  for (int64_t i = 0; i < p->n; i++) {
    p->ops[i] =
        is_square && random_below(&p->state, 4) ? MMC_OP_N : (mmc_op)random_below(&p->state, 3);
    p->wanted[i] = random_below(&p->state, 4) > 0;
    const bool turned = p->ops[i] != MMC_OP_N;
    p->given[i] = lay(p, p->dims[i + turned], p->dims[i + !turned]);
    p->copies[i] = lay(p, p->dims[i + turned], p->dims[i + !turned]);
    for (int64_t t = 0; t < p->batch; t++) {
      table stored;
      draw(p, p->dims[i + turned], p->dims[i + !turned], &stored);
      fill(p, &p->given[i], t, &stored);
      p->factors[t][i] = stored;
      if (turned) turn(&stored, p->ops[i] == MMC_OP_H, &p->factors[t][i]);
    }
  }
  p->out = lay(p, p->dims[0], p->dims[p->n]);
  p->dc = lay(p, p->dims[0], p->dims[p->n]);
  for (int64_t t = 0; t < p->batch; t++) {
    draw(p, p->dims[0], p->dims[p->n], &p->cotangent[t]);
    fill(p, &p->dc, t, &p->cotangent[t]);
  }
}

static void free_problem(problem *p) {
  for (int64_t i = 0; i < p->n; i++) {
    free(p->given[i].bytes);
    free(p->copies[i].bytes);
  }
  free(p->out.bytes);
  free(p->dc.bytes);
}

/* Factor i's gradient as stored, by definition, of the numbers or of their absolute values. */
static void expect_gradient(const problem *p, int64_t t, int64_t i, bool absolutes, table *out) {
  table product = {.rows = p->dims[i], .cols = p->dims[i]}, next, factor, turned;
  for (int64_t e = 0; e < product.rows; e++) product.at[e * (product.cols + 1)] = 1;
  for (int64_t j = i - 1; j >= 0; j--) {
    turn(&p->factors[t][j], true, &turned);
    if (absolutes) absolute(&turned);
    multiply(&product, &turned, &next);
    product = next;
  }
  factor = p->cotangent[t];
  if (absolutes) absolute(&factor);
  multiply(&product, &factor, &next);
  product = next;
  for (int64_t j = p->n - 1; j > i; j--) {
    turn(&p->factors[t][j], true, &turned);
    if (absolutes) absolute(&turned);
    multiply(&product, &turned, &next);
    product = next;
  }
  *out = product;
  if (p->ops[i] != MMC_OP_N) turn(&product, p->ops[i] == MMC_OP_H, out);
}

static void expect_product(const problem *p, int64_t t, bool absolutes, table *out) {
  table next, factor;
  *out = p->factors[t][0];
  if (absolutes) absolute(out);
  for (int64_t j = 1; j < p->n; j++) {
    factor = p->factors[t][j];
    if (absolutes) absolute(&factor);
    multiply(out, &factor, &next);
    *out = next;
  }
}

/* Every product of k terms adds k roundings, and four times as many of complex ones. */
static double rounding(const problem *p) {
  double terms = 0;
  for (int64_t i = 0; i <= p->n; i++) terms += (double)p->dims[i] + 2;
  return 4 * terms *
         (p->dtype == MMC_F32 || p->dtype == MMC_C64 ? (double)FLT_EPSILON : DBL_EPSILON);
}

static void compare(const problem *p, const char *what, int64_t i, number got, number want,
                    number bound) {
  const double error = cabs(got - want);
  if (!(error <= rounding(p) * creal(bound) + 1e-30))
    fail_msg("%s %" PRId64 " of %" PRId64 ": off by %g, at most %g (seed %" PRIu64 ")", what, i,
             p->n, error, rounding(p) * creal(bound), p->seed);
}

/* Elements between lines and around the matrix are as they were. */
static void check_guards(const problem *p, const lying *x) {
  const size_t element = mmc_dtype_size(p->dtype);
  unsigned char *touched = calloc(x->size + 1, 1);
  assert_non_null(touched);
  for (int64_t t = 0; t < p->batch; t++)
    for (int64_t r = 0; r < x->matrix.rows; r++)
      for (int64_t c = 0; c < x->matrix.cols; c++)
        memset(touched + (place(p, x, t, r, c) - x->bytes), 1, element);
  for (size_t b = 0; b < x->size; b++)
    if (!touched[b]) assert_int_equal(x->bytes[b], POISON);
  free(touched);
}

static void check_results(const problem *p, const mmc_gradients *gradients,
                          const unsigned char *memory) {
  table want, bound;
  const size_t element = mmc_dtype_size(p->dtype);
  check_guards(p, &p->out);
  for (int64_t t = 0; t < p->batch; t++) {
    expect_product(p, t, false, &want);
    expect_product(p, t, true, &bound);
    for (int64_t e = 0; e < want.rows * want.cols; e++)
      compare(p, "product", t,
              read_element(p->dtype, place(p, &p->out, t, e / want.cols, e % want.cols)),
              want.at[e], bound.at[e]);
  }
  for (int64_t i = 0; i < p->n; i++) {
    const uint64_t offset = mmc_gradients_offset(gradients, i);
    if (!p->wanted[i]) {
      assert_true(offset == UINT64_MAX);
      lying untouched = p->copies[i];
      untouched.matrix.rows = 0;
      check_guards(p, &untouched);
      continue;
    }
    check_guards(p, &p->copies[i]);
    for (int64_t t = 0; t < p->batch; t++) {
      expect_gradient(p, t, i, false, &want);
      expect_gradient(p, t, i, true, &bound);
      const int64_t count = want.rows * want.cols;
      for (int64_t e = 0; e < count; e++) {
        const unsigned char *copy = place(p, &p->copies[i], t, e / want.cols, e % want.cols);
        const unsigned char *own = memory + offset + (size_t)(t * count + e) * element;
        compare(p, "gradient", i, read_element(p->dtype, copy), want.at[e], bound.at[e]);
        assert_memory_equal(copy, own, element);
      }
    }
  }
}

static void run_problem(problem *p) {
  mmc_chain *chain;
  mmc_plan *plan;
  mmc_gradients *gradients;
  mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
  options.batch = p->batch;
  assert_int_equal(
      mmc_chain_create_batch(p->context, p->dtype, p->n, p->dims, p->ops, &options, &chain),
      MMC_OK);
  assert_int_equal(mmc_plan_create(p->context, chain, NULL, &plan), MMC_OK);
  assert_int_equal(mmc_gradients_create(plan, p->wanted, &gradients), MMC_OK);
  mmc_matrix factors[MOST], copies[MOST];
  for (int64_t i = 0; i < p->n; i++) {
    factors[i] = p->given[i].matrix;
    copies[i] = p->copies[i].matrix;
  }
  const size_t bytes = (size_t)mmc_gradients_bytes(gradients);
  unsigned char *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
  assert_non_null(memory);
  memset(memory, POISON, (bytes + 127) / 64 * 64);
  for (int twice = 0; twice < 2; twice++) {
    assert_int_equal(mmc_gradients_forward(gradients, factors, memory, &p->out.matrix), MMC_OK);
    assert_int_equal(mmc_gradients_backward(gradients, factors, memory, &p->dc.matrix, copies),
                     MMC_OK);
  }
  for (size_t b = bytes; b < (bytes + 127) / 64 * 64; b++) assert_int_equal(memory[b], POISON);
  check_results(p, gradients, memory);
  free(memory);
  mmc_gradients_destroy(gradients);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
}

/* ---- tests --------------------------------------------------------------------------------- */

static mmc_context *open_context(void) {
  mmc_context *context;
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  options.wisdom_path = "";
  assert_int_equal(mmc_context_create(&options, &context), MMC_OK);
  return context;
}

static void random_chains(void **state) {
  (void)state;
  const char *seed = getenv("MMCHAIN_TEST_SEED");
  const uint64_t first = seed != NULL ? strtoull(seed, NULL, 10) : 20261123;
  mmc_context *context = open_context();
  problem *p = calloc(1, sizeof *p);
  assert_non_null(p);
  for (uint64_t i = 0; i < 400; i++) {
    p->seed = p->state = first + i;
    p->context = context;
    draw_problem(p, i % 3 == 0);
    run_problem(p);
    free_problem(p);
  }
  free(p);
  mmc_context_destroy(context);
}

/* The memory of n square factors is that of n gradients, and a few places; where the factors are
 * small, of half as many. */
static void check_memory(mmc_context *context, int64_t n, int64_t side) {
  int64_t dims[301];
  for (int64_t i = 0; i <= n; i++) dims[i] = side;
  mmc_chain *chain;
  mmc_plan *plan;
  mmc_gradients *gradients;
  assert_int_equal(mmc_chain_create(context, MMC_F64, n, dims, NULL, &chain), MMC_OK);
  assert_int_equal(mmc_plan_create(context, chain, NULL, &plan), MMC_OK);
  assert_int_equal(mmc_gradients_create(plan, NULL, &gradients), MMC_OK);
  const uint64_t one = (uint64_t)(side * side) * sizeof(double);
  const uint64_t places = mmc_gradients_bytes(gradients) / one;
  if (places > (uint64_t)(n + 8 + n / (side > 100 ? 8 : 2)))
    fail_msg("%" PRId64 " factors of side %" PRId64 " take %" PRIu64 " places", n, side, places);
  /* No two gradients overlap. */
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < i; j++) {
      const uint64_t a = mmc_gradients_offset(gradients, i);
      const uint64_t b = mmc_gradients_offset(gradients, j);
      assert_true(a + one <= b || b + one <= a);
    }
  mmc_gradients_destroy(gradients);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
}

static void little_memory(void **state) {
  (void)state;
  mmc_context *context = open_context();
  for (int64_t n = 2; n <= 300; n += n < 10 ? 1 : 29) {
    check_memory(context, n, 16);
    check_memory(context, n, 256);
  }
  mmc_context_destroy(context);
}

/* An order that was given stays: by it, the bits are those of its own products. */
static void given_order(void **state) {
  (void)state;
  mmc_context *context = open_context();
  mmc_chain *chain;
  mmc_plan *plan;
  mmc_gradients *gradients;
  mmc_run *run;
  enum { N = 7 };
  double data[N][64], direct[64], out[64];
  uint64_t random = 7;
  mmc_matrix factors[N], to = {.data = out, .rows = 8, .cols = 8};
  for (int i = 0; i < N; i++) {
    for (int e = 0; e < 64; e++) data[i][e] = random_unit(&random);
    factors[i] = (mmc_matrix){.data = data[i], .rows = 8, .cols = 8};
  }
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.order = "(A1 (A2 (A3 (A4 (A5 (A6 A7))))))";
  options.device = "ref";
  assert_int_equal(mmc_chain_parse(context, "8x8x8x8x8x8x8x8", &chain), MMC_OK);
  assert_int_equal(mmc_plan_create(context, chain, &options, &plan), MMC_OK);
  assert_int_equal(mmc_run_create(plan, &run), MMC_OK);
  assert_int_equal(mmc_execute(run, factors, &to), MMC_OK);
  memcpy(direct, out, sizeof out);
  assert_int_equal(mmc_gradients_create(plan, NULL, &gradients), MMC_OK);
  void *memory = aligned_alloc(64, (size_t)mmc_gradients_bytes(gradients));
  assert_int_equal(mmc_gradients_forward(gradients, factors, memory, &to), MMC_OK);
  assert_memory_equal(direct, out, sizeof out);
  free(memory);
  mmc_gradients_destroy(gradients);
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  mmc_context_destroy(context);
}

static void errors(void **state) {
  (void)state;
  mmc_context *context = open_context();
  mmc_chain *chain, *power;
  mmc_plan *plan, *powers;
  mmc_gradients *gradients;
  double data[2][6] = {{0}}, out[4];
  mmc_matrix factors[] = {{.data = data[0], .rows = 2, .cols = 3},
                          {.data = data[1], .rows = 3, .cols = 2}};
  mmc_matrix to = {.data = out, .rows = 2, .cols = 2}, bad = to;
  char argument[32];
  assert_int_equal(mmc_chain_parse(context, "2x3x2", &chain), MMC_OK);
  assert_int_equal(mmc_plan_create(context, chain, NULL, &plan), MMC_OK);
  assert_int_equal(mmc_gradients_create(plan, NULL, &gradients), MMC_OK);
  void *memory = aligned_alloc(64, (size_t)mmc_gradients_bytes(gradients) + 64);
#define FAILS(call, status, name)                             \
  do {                                                        \
    assert_int_equal(call, status);                           \
    mmc_context_argument(context, argument, sizeof argument); \
    assert_string_equal(argument, name);                      \
  } while (0)
  FAILS(mmc_gradients_forward(gradients, NULL, memory, &to), MMC_E_ARG, "factors");
  FAILS(mmc_gradients_forward(gradients, factors, NULL, &to), MMC_E_ARG, "memory");
  FAILS(mmc_gradients_backward(gradients, factors, memory, NULL, NULL), MMC_E_ARG, "cotangent");
  bad.cols = 3;
  FAILS(mmc_gradients_backward(gradients, factors, memory, &bad, NULL), MMC_E_ARG, "cotangent");
  const mmc_matrix copies[] = {factors[0], factors[0]};
  FAILS(mmc_gradients_backward(gradients, factors, memory, &to, copies), MMC_E_ARG, "gradients");
  factors[1].data = NULL;
  FAILS(mmc_gradients_forward(gradients, factors, memory, &to), MMC_E_ARG, "factors");
  assert_int_equal(mmc_chain_parse(context, "4x4^30", &power), MMC_OK);
  assert_int_equal(mmc_plan_create(context, power, NULL, &powers), MMC_OK);
  mmc_gradients *none;
  FAILS(mmc_gradients_create(powers, NULL, &none), MMC_E_UNSUPPORTED, "plan");
  assert_true(mmc_gradients_offset(gradients, -1) == UINT64_MAX);
  assert_true(mmc_gradients_offset(gradients, 2) == UINT64_MAX);
  free(memory);
  mmc_gradients_destroy(gradients);
  mmc_plan_destroy(plan);
  mmc_plan_destroy(powers);
  mmc_chain_destroy(chain);
  mmc_chain_destroy(power);
  mmc_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_chains),
      cmocka_unit_test(little_memory),
      cmocka_unit_test(given_order),
      cmocka_unit_test(errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

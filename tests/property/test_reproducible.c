/* test_reproducible.c: products of precision "reproducible" have the bits of a definition in plain
 * loops, however they are computed: on both devices of the host, by any number of threads, alone
 * or in a batch, in groups or one by one, for any objective, however matrices lie, by a plan that
 * was saved; long products, whose sums are in pieces, too. Factors have zeros of both signs,
 * denormal and huge numbers, infinities and NaN. */
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
#include "base/half.h"
#include "mmchain.h"

static const uint64_t seed = 20261124;
enum { MOST_FACTORS = 6, ROUNDS = 40, LONG_ROUNDS = 3000, CONFIGURATIONS = 5, GUARD = 0x5a };

/* The library's OpenMP, where it has one. */
extern void omp_set_num_threads(int count) __attribute__((weak));

/* One chain with its values: those of factor i are op(A_i), row by row. */
typedef struct problem {
  mmc_dtype dtype;
  int n;
  int64_t dims[MOST_FACTORS + 1];
  unsigned char *values[MOST_FACTORS];
  unsigned char *result;
  char order[256];
} problem;

static bool is_complex(mmc_dtype dtype) {
  return dtype == MMC_C64 || dtype == MMC_C128;
}

static size_t bytes_of(const problem *p, int64_t rows, int64_t cols) {
  return (size_t)(rows * cols) * mmc_dtype_size(p->dtype);
}

/* ---- values ---------------------------------------------------------------------------------- */

static double draw(uint64_t *random, int kind) {
  static const double odd[] = {0.0, -0.0, 1e-310, -1e-41, 3e38, -1e300, 6e-8, 1};
  const double x = random_unit(random);
  if (kind == 0) return x;
  if (kind == 1) return x * pow(10, (double)random_below(random, 20) - 10);
  if (random_below(random, 4) > 0) return x;
  if (kind == 2) return odd[random_below(random, 8)];
  return random_below(random, 40) > 0 ? odd[random_below(random, 8)]
         : random_below(random, 2)    ? (double)NAN
                                      : (double)-INFINITY;
}

static void write_real(mmc_dtype dtype, double x, unsigned char *at) {
  const float single = (float)x;
  const uint16_t half = dtype == MMC_F16 ? mmci_f16_round(x) : mmci_bf16_round(x);
  if (dtype == MMC_F16 || dtype == MMC_BF16)
    memcpy(at, &half, sizeof half);
  else if (dtype == MMC_F32 || dtype == MMC_C64)
    memcpy(at, &single, sizeof single);
  else
    memcpy(at, &x, sizeof x);
}

static void fill(mmc_dtype dtype, int64_t elements, int kind, uint64_t *random,
                 unsigned char *values) {
  const size_t size = mmc_dtype_size(dtype), parts = is_complex(dtype) ? 2 : 1;
  for (size_t i = 0; i < (size_t)elements * parts; i++)
    write_real(dtype, draw(random, kind), values + i * (size / parts));
}

/* Writes a random order of factors first to last. */
static void write_order(uint64_t *random, int first, int last, char *order) {
  char text[16];
  if (first == last) {
    snprintf(text, sizeof text, "A%d", first + 1);
    strcat(order, text);
    return;
  }
  const int split = first + (int)random_below(random, last - first);
  strcat(order, "(");
  write_order(random, first, split, order);
  strcat(order, " ");
  write_order(random, split + 1, last, order);
  strcat(order, ")");
}

/* Lets sums of a product be in pieces, or nearly so. Its neighbours are short, so that plain loops
 * are done soon. */
static void make_long(uint64_t *random, problem *p) {
  static const int64_t terms[] = {4095, 4096, 4097, 5121, 6500, 20000};
  if (p->n > 4) p->n = 4;
  for (int i = 0; i <= p->n; i++) p->dims[i] = 1 + random_below(random, i % 2 == 0 ? 9 : 4);
  p->dims[1 + random_below(random, p->n - 1)] = terms[random_below(random, 6)];
}

static void make_problem(uint64_t *random, problem *p) {
  static const mmc_dtype dtypes[] = {MMC_F32, MMC_F64, MMC_C64, MMC_C128, MMC_F16, MMC_BF16};
  static const int64_t limits[] = {2, 9, 20, 40, 70, 160};
  const int kind = (int)random_below(random, 4);
  *p = (problem){.dtype = dtypes[random_below(random, 6)],
                 .n = 2 + (int)random_below(random, MOST_FACTORS - 1)};
  const int64_t limit = limits[random_below(random, 6)];
  for (int i = 0; i <= p->n; i++)
    p->dims[i] = random_below(random, 6) == 0 ? 1 : 1 + random_below(random, limit);
  if (random_below(random, 30) == 0) p->dims[random_below(random, p->n + 1)] = 0;
  if (random_below(random, 6) == 0) make_long(random, p);
  for (int i = 0; i < p->n; i++) {
    p->values[i] = malloc(bytes_of(p, p->dims[i], p->dims[i + 1]) + 1);
    assert_non_null(p->values[i]);
    fill(p->dtype, p->dims[i] * p->dims[i + 1], kind, random, p->values[i]);
  }
  p->result = malloc(bytes_of(p, p->dims[0], p->dims[p->n]) + 1);
  assert_non_null(p->result);
  write_order(random, 0, p->n - 1, p->order);
}

static void free_problem(problem *p) {
  for (int i = 0; i < p->n; i++) free(p->values[i]);
  free(p->result);
}

/* ---- matrices -------------------------------------------------------------------------------- */

/* A matrix of a batch as it lies, with gaps, and how its op(A) is made of it. */
typedef struct stored {
  mmc_matrix matrix;
  mmc_op op;
  size_t bytes; /* of one matrix */
} stored;

static stored make_matrix(mmc_dtype dtype, int64_t rows, int64_t cols, mmc_op op, int64_t batch,
                          uint64_t *random) {
  stored x = {.op = op,
              .matrix = {.rows = op == MMC_OP_N ? rows : cols,
                         .cols = op == MMC_OP_N ? cols : rows,
                         .layout = random_below(random, 2) ? MMC_ROW_MAJOR : MMC_COL_MAJOR}};
  const bool by_rows = x.matrix.layout == MMC_ROW_MAJOR;
  const int64_t line = by_rows ? x.matrix.cols : x.matrix.rows,
                lines = by_rows ? x.matrix.rows : x.matrix.cols;
  x.matrix.ld = line + random_below(random, 4);
  if (x.matrix.ld == 0) x.matrix.ld = 1;
  x.matrix.stride = lines * x.matrix.ld + random_below(random, 3);
  x.bytes = (size_t)x.matrix.stride * mmc_dtype_size(dtype);
  x.matrix.data = malloc(x.bytes * (size_t)batch + 1);
  assert_non_null(x.matrix.data);
  memset(x.matrix.data, GUARD, x.bytes * (size_t)batch + 1);
  return x;
}

/* Returns where element (r, c) of op(A) number i lies. */
static unsigned char *element(const stored *x, mmc_dtype dtype, int64_t i, int64_t r, int64_t c) {
  const bool plain = (x->op == MMC_OP_N) == (x->matrix.layout == MMC_ROW_MAJOR);
  const int64_t index =
      i * x->matrix.stride + (plain ? r * x->matrix.ld + c : c * x->matrix.ld + r);
  return (unsigned char *)x->matrix.data + (size_t)index * mmc_dtype_size(dtype);
}

static void put(const stored *x, mmc_dtype dtype, int64_t i, int64_t rows, int64_t cols,
                const unsigned char *values) {
  const size_t size = mmc_dtype_size(dtype);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++) {
      unsigned char *to = element(x, dtype, i, r, c);
      memcpy(to, values + (size_t)(r * cols + c) * size, size);
      if (x->op == MMC_OP_H && is_complex(dtype)) to[size - 1] ^= 0x80; /* the sign of Im */
    }
}

/* ---- executions ------------------------------------------------------------------------------ */

/* How a chain is computed. */
typedef struct configuration {
  const char *device, *objective, *kernel;
  int64_t batch, place; /* the chain that counts is number `place` of a batch */
  bool is_varied;       /* matrices lie anyhow */
  bool is_saved;        /* the plan is written and read again */
  bool is_faithful;     /* too, which is nothing to products as small as these */
  int threads;
} configuration;

typedef struct text {
  char *bytes;
  size_t size;
} text;

static int add_text(void *user, const char *bytes, size_t size) {
  text *x = user;
  char *grown = realloc(x->bytes, x->size + size + 1);
  if (grown == NULL) return 1;
  memcpy(grown + x->size, bytes, size);
  x->bytes = grown;
  x->size += size;
  return 0;
}

static void check(mmc_context *context, mmc_status status) {
  char message[512];
  if (status == MMC_OK) return;
  fail_msg("%s", mmc_context_message(context, message, sizeof message));
}

static mmc_plan *make_plan(mmc_context *context, const mmc_chain *chain, const problem *p,
                           const configuration *how) {
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.device = how->device;
  options.objective = how->objective;
  options.kernel = how->kernel;
  options.order = p->order;
  options.precision = how->is_faithful ? "reproducible+faithful" : "reproducible";
  mmc_plan *plan, *again;
  check(context, mmc_plan_create(context, chain, &options, &plan));
  if (!how->is_saved) return plan;
  text json = {0};
  check(context, mmc_plan_explain(plan, MMC_JSON, add_text, &json));
  check(context, mmc_plan_read(context, json.bytes, json.size, chain, NULL, &again));
  free(json.bytes);
  mmc_plan_destroy(plan);
  return again;
}

/* Computes the chain and writes its result, row by row. */
static void compute(mmc_context *context, const problem *p, const configuration *how,
                    uint64_t *random, unsigned char *result) {
  stored factors[MOST_FACTORS];
  mmc_matrix matrices[MOST_FACTORS];
  mmc_op ops[MOST_FACTORS];
  const size_t size = mmc_dtype_size(p->dtype);
  for (int i = 0; i < p->n; i++) {
    const int64_t rows = p->dims[i], cols = p->dims[i + 1];
    ops[i] = how->is_varied ? (mmc_op)random_below(random, 3) : MMC_OP_N;
    factors[i] = make_matrix(p->dtype, rows, cols, ops[i], how->batch, random);
    for (int64_t b = 0; b < how->batch; b++) {
      unsigned char *other = malloc(bytes_of(p, rows, cols) + 1);
      assert_non_null(other);
      fill(p->dtype, rows * cols, 0, random, other);
      put(&factors[i], p->dtype, b, rows, cols, b == how->place ? p->values[i] : other);
      free(other);
    }
    matrices[i] = factors[i].matrix;
  }
  const int64_t rows = p->dims[0], cols = p->dims[p->n];
  stored out = make_matrix(p->dtype, rows, cols, MMC_OP_N, how->batch, random);
  mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
  options.batch = how->batch;
  mmc_chain *chain;
  check(context, mmc_chain_create_batch(context, p->dtype, p->n, p->dims, ops, &options, &chain));
  mmc_plan *plan = make_plan(context, chain, p, how);
  mmc_run *run;
  if (omp_set_num_threads != NULL) omp_set_num_threads(how->threads);
  check(context, mmc_run_create(plan, &run));
  for (int again = 0; again < 2; again++) check(context, mmc_execute(run, matrices, &out.matrix));
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++)
      memcpy(result + (size_t)(r * cols + c) * size, element(&out, p->dtype, how->place, r, c),
             size);
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  free(out.matrix.data);
  for (int i = 0; i < p->n; i++) free(factors[i].matrix.data);
}

static configuration draw_configuration(const problem *p, uint64_t *random) {
  bool is_small = true;
  static const int64_t batches[] = {1, 1, 2, 7, 40};
  static const char *const objectives[] = {"flops", "time", "energy"};
  configuration x = {.device = random_below(random, 6) > 0 ? "blas" : "ref",
                     .objective = objectives[random_below(random, 3)],
                     .batch = batches[random_below(random, 5)],
                     .is_varied = true,
                     .is_saved = random_below(random, 5) == 0,
                     .is_faithful = random_below(random, 3) == 0,
                     .threads = 1 + (int)random_below(random, 5)};
  for (int i = 0; i <= p->n; i++) is_small = is_small && p->dims[i] <= 20;
  if (!is_small && x.batch > 2) x.batch = 2;
  x.place = random_below(random, x.batch);
  if (strcmp(x.objective, "flops") == 0 && random_below(random, 2) && !x.is_saved) x.kernel = "";
  return x;
}

static mmc_context *open_context(void) {
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  options.wisdom_path = "";
  mmc_context *context;
  assert_int_equal(mmc_context_create(&options, &context), MMC_OK);
  return context;
}

static bool has_blas(mmc_context *context) {
  mmc_device_info info;
  for (int d = 0; mmc_device_describe(context, d, &info) == MMC_OK; d++)
    if (strcmp(info.name, "blas") == 0) return info.available;
  return false;
}

static void same_bits_in_all_configurations(void **state) {
  (void)state;
  uint64_t random = seed;
  mmc_context *context = open_context();
  const bool blas = has_blas(context), is_long = is_in_full();
  const configuration plain = {
      .device = "ref", .objective = "flops", .kernel = "", .batch = 1, .threads = 1};
  for (int round = 0; round < (is_long ? LONG_ROUNDS : ROUNDS); round++) {
    problem p;
    make_problem(&random, &p);
    const size_t bytes = bytes_of(&p, p.dims[0], p.dims[p.n]);
    unsigned char *result = malloc(bytes + 1);
    assert_non_null(result);
    compute(context, &p, &plain, &random, p.result);
    for (int c = 0; c < CONFIGURATIONS; c++) {
      configuration how = draw_configuration(&p, &random);
      if (!blas) how.device = "ref";
      compute(context, &p, &how, &random, result);
      if (memcmp(result, p.result, bytes) != 0)
        fail_msg("seed %" PRIu64
                 ", round %d: %s of %d factors, order %s, on %s for %s, batch %" PRId64
                 ", %d threads: other bits",
                 seed, round, mmc_dtype_name(p.dtype), p.n, p.order, how.device, how.objective,
                 how.batch, how.threads);
    }
    free(result);
    free_problem(&p);
  }
  mmc_context_destroy(context);
}

/* ---- the definition ----------------------------------------------------------------------------
 */

/* One chain of fused multiply-adds an element, from the first k to the last. */
static void sums_are_chains(void **state) {
  (void)state;
  enum { M = 37, K = 401, N = 53 };
  uint64_t random = seed + 1;
  mmc_context *context = open_context();
  problem p = {.dtype = MMC_F64, .n = 2, .dims = {M, K, N}, .order = "(A1 A2)"};
  for (int i = 0; i < 2; i++) {
    p.values[i] = malloc(bytes_of(&p, p.dims[i], p.dims[i + 1]));
    assert_non_null(p.values[i]);
    fill(p.dtype, p.dims[i] * p.dims[i + 1], 1, &random, p.values[i]);
  }
  static double result[M * N];
  const configuration how = {
      .device = has_blas(context) ? "blas" : "ref", .objective = "flops", .batch = 1, .threads = 2};
  compute(context, &p, &how, &random, (unsigned char *)result);
  for (int r = 0; r < M; r++)
    for (int c = 0; c < N; c++) {
      double sum = 0;
      for (int k = 0; k < K; k++) {
        double a, b;
        memcpy(&a, p.values[0] + sizeof a * (size_t)(r * K + k), sizeof a);
        memcpy(&b, p.values[1] + sizeof b * (size_t)(k * N + c), sizeof b);
        sum = fma(a, b, sum);
      }
      assert_true(result[r * N + c] == sum);
    }
  for (int i = 0; i < 2; i++) free(p.values[i]);
  mmc_context_destroy(context);
}

/* A product with few elements and many terms adds up chains of 1024 terms. */
static void long_sums_are_in_pieces(void **state) {
  (void)state;
  enum { M = 3, K = 4096 + 1024 + 1, N = 2, PIECE = 1024 };
  uint64_t random = seed + 2;
  mmc_context *context = open_context();
  problem p = {.dtype = MMC_F64, .n = 2, .dims = {M, K, N}, .order = "(A1 A2)"};
  for (int i = 0; i < 2; i++) {
    p.values[i] = malloc(bytes_of(&p, p.dims[i], p.dims[i + 1]));
    assert_non_null(p.values[i]);
    fill(p.dtype, p.dims[i] * p.dims[i + 1], 1, &random, p.values[i]);
  }
  double result[M * N];
  const configuration how = {
      .device = has_blas(context) ? "blas" : "ref", .objective = "flops", .batch = 1, .threads = 2};
  compute(context, &p, &how, &random, (unsigned char *)result);
  for (int r = 0; r < M; r++)
    for (int c = 0; c < N; c++) {
      double sum = 0;
      for (int first = 0; first < K; first += PIECE) {
        double piece = 0;
        for (int k = first; k < first + PIECE && k < K; k++) {
          double a, b;
          memcpy(&a, p.values[0] + sizeof a * (size_t)(r * K + k), sizeof a);
          memcpy(&b, p.values[1] + sizeof b * (size_t)(k * N + c), sizeof b);
          piece = fma(a, b, piece);
        }
        sum += piece;
      }
      assert_true(result[r * N + c] == sum);
    }
  for (int i = 0; i < 2; i++) free(p.values[i]);
  mmc_context_destroy(context);
}

/* ---- what cannot be -------------------------------------------------------------------------- */

static void refuses_inverses_and_tuning(void **state) {
  (void)state;
  mmc_context *context = open_context();
  mmc_chain *chain;
  mmc_plan *plan;
  check(context, mmc_chain_parse(context, "f64:9x9x4:inv,N", &chain));
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.precision = "reproducible";
  char name[64];
  assert_int_equal(mmc_plan_create(context, chain, &options, &plan), MMC_E_UNSUPPORTED);
  assert_string_equal(mmc_context_argument(context, name, sizeof name), "precision");
  mmc_chain_destroy(chain);
  check(context, mmc_chain_parse(context, "f64:9x9x4", &chain));
  mmc_tune_options tune = MMC_TUNE_OPTIONS_INIT;
  const mmc_chain *const chains[] = {chain};
  tune.precision = "reproducible";
  tune.chains = chains;
  tune.chain_count = 1;
  assert_int_equal(mmc_tune(context, &tune, NULL), MMC_E_ARG);
  assert_string_equal(mmc_context_argument(context, name, sizeof name), "precision");
  mmc_chain_destroy(chain);
  mmc_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(same_bits_in_all_configurations),
      cmocka_unit_test(sums_are_chains),
      cmocka_unit_test(long_sums_are_in_pieces),
      cmocka_unit_test(refuses_inverses_and_tuning),
  };
  return cmocka_run_group_tests_name("reproducible", tests, NULL, NULL);
}

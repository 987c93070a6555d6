/* test_interrupt.c: executions that are stopped by the callback of mmc_run_progress(), and what
 * they leave: a run that executes again, and products in pieces that are right. */
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

#include "../how_many.h"
#include "base/interrupt.h"
#include "base/monotonic.h"

/* What the callback was told, and after how many calls it stops. */
typedef struct told {
  int calls, stop_at;
  double last;
} told;

static int ask(void *user, double done) {
  told *x = user;
  assert_true(done >= x->last && done <= 1);
  x->last = done;
  return ++x->calls >= x->stop_at;
}

typedef struct problem {
  mmc_context *context;
  mmc_chain *chain;
  mmc_plan *plan;
  mmc_run *run;
  mmc_matrix matrices[3], out;
} problem;

static void fill(mmc_matrix *matrix, int64_t rows, int64_t cols) {
  double *data = malloc((size_t)(rows * cols) * sizeof *data);
  assert_non_null(data);
  for (int64_t i = 0; i < rows * cols; i++) data[i] = (double)(i * 7919 % 13) - 6;
  *matrix = (mmc_matrix){.data = data, .rows = rows, .cols = cols};
}

/* Leaves nothing of use in the memory that the next objects get. */
static void spoil_heap(void) {
  enum { SIZES = 16 };
  void *blocks[SIZES];
  for (int i = 0; i < SIZES; i++) {
    size_t size = 16 * ((size_t)i + 1);
    blocks[i] = malloc(size);
    if (blocks[i] != NULL) memset(blocks[i], 0xA5, size);
  }
  for (int i = 0; i < SIZES; i++) free(blocks[i]);
}

static problem make(const char *text) {
  problem x = {0};
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  mmc_plan_options plan_options = MMC_PLAN_OPTIONS_INIT;
  options.wisdom_path = "";
  assert_int_equal(mmc_context_create(&options, &x.context), MMC_OK);
  assert_int_equal(mmc_chain_parse(x.context, text, &x.chain), MMC_OK);
  assert_int_equal(mmc_plan_create(x.context, x.chain, &plan_options, &x.plan), MMC_OK);
  spoil_heap();
  assert_int_equal(mmc_run_create(x.plan, &x.run), MMC_OK);
  const int64_t *dims = mmc_chain_dims(x.chain), n = mmc_chain_length(x.chain);
  for (int64_t i = 0; i < n; i++) fill(&x.matrices[i], dims[i], dims[i + 1]);
  fill(&x.out, dims[0], dims[n]);
  return x;
}

static void destroy(problem *x) {
  for (int i = 0; i < 3; i++) free(x->matrices[i].data);
  free(x->out.data);
  mmc_run_destroy(x->run);
  mmc_plan_destroy(x->plan);
  mmc_chain_destroy(x->chain);
  mmc_context_destroy(x->context);
}

/* Sums of whole numbers are exact, in pieces too: these are the elements of the first and last rows
 * and columns, of each piece's corners, and some between. */
static void assert_right(const problem *x) {
  const mmc_matrix *a = &x->matrices[0], *b = &x->matrices[1];
  const double *p = a->data, *q = b->data, *r = x->out.data;
  for (int64_t i = 0; i < a->rows; i = i + 1 < a->rows && i + 97 >= a->rows ? a->rows - 1 : i + 97)
    for (int64_t j = 0; j < b->cols;
         j = j + 1 < b->cols && j + 89 >= b->cols ? b->cols - 1 : j + 89) {
      double sum = 0;
      for (int64_t l = 0; l < a->cols; l++) sum += p[i * a->cols + l] * q[l * b->cols + j];
      if (r[i * b->cols + j] != sum)
        fail_msg("(%d, %d): expected %g, got %g", (int)i, (int)j, sum, r[i * b->cols + j]);
    }
}

/* 1.3e10 operations: with one thread, which this test is given, two pieces of rows, of columns or
 * of the terms of sums; and 5e10, two of each. */
static const char large[] = "f64:1600x1300x3200", wide[] = "f64:700x1500x6400",
                  deep[] = "f64:300x36000x600", cube[] = "f64:768x10500x3072";

static void executes_right(const char *text, mmc_progress_fn progress) {
  problem x = make(text);
  told never = {.stop_at = 1 << 30};
  mmc_run_progress(x.run, progress, &never);
  assert_int_equal(mmc_execute(x.run, x.matrices, &x.out), MMC_OK);
  assert_right(&x);
  if (progress == NULL) assert_int_equal(never.calls, 0);
  if (progress != NULL) assert_true(never.last >= 0.25); /* pieces tell how far they are */
  destroy(&x);
}

static void rows_are_right(void **state) {
  (void)state;
  executes_right(large, ask);
}

static void columns_are_right(void **state) {
  (void)state;
  executes_right(wide, ask);
}

static void terms_are_right(void **state) {
  (void)state;
  executes_right(deep, ask);
}

static void all_three_are_right(void **state) {
  (void)state;
  if (!is_in_full()) skip();
  executes_right(cube, ask);
}

static void nothing_is_asked_of_a_new_run(void **state) {
  (void)state;
  executes_right(large, NULL);
}

/* Fills with numbers between -1 and 1 whose sums are rounded. */
static void fill_rounded(mmc_matrix *matrix, uint64_t seed) {
  double *data = matrix->data;
  for (int64_t i = 0; i < matrix->rows * matrix->cols; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    data[i] = (double)(int64_t)seed * 0x1p-63;
  }
}

/* Whether somebody may stop the work changes no bit of the result. */
static void asking_changes_no_bit(void **state) {
  (void)state;
  problem x = make(large);
  const size_t bytes = (size_t)(x.out.rows * x.out.cols) * sizeof(double);
  for (int i = 0; i < 2; i++) fill_rounded(&x.matrices[i], (uint64_t)i + 41);
  assert_int_equal(mmc_execute(x.run, x.matrices, &x.out), MMC_OK);
  void *unasked = malloc(bytes);
  assert_non_null(unasked);
  memcpy(unasked, x.out.data, bytes);
  told never = {.stop_at = 1 << 30};
  mmc_run_progress(x.run, ask, &never);
  assert_int_equal(mmc_execute(x.run, x.matrices, &x.out), MMC_OK);
  assert_memory_equal(unasked, x.out.data, bytes);
  free(unasked);
  destroy(&x);
}

static void stopped_within_a_product(void **state) {
  (void)state;
  problem x = make(large);
  told once = {.stop_at = 1};
  mmc_run_progress(x.run, ask, &once);
  mmc_status status = mmc_execute(x.run, x.matrices, &x.out);
  /* A machine that takes less than a twentieth of a second for all is not asked. */
  if (once.calls > 0) assert_int_equal(status, MMC_E_INTERRUPTED);
  assert_true(once.calls <= 1);
  mmc_run_progress(x.run, NULL, NULL);
  assert_int_equal(mmc_execute(x.run, x.matrices, &x.out), MMC_OK);
  assert_right(&x);
  destroy(&x);
}

static int ask_again_from_the_start(void *user, double done) {
  told *x = user;
  assert_true(done >= 0 && done <= 1);
  return ++x->calls >= x->stop_at;
}

/* The table of the cheapest products with structure is cubic; it is given up when its caller says
 * so, and complete when asking says nothing. */
static void stopped_within_a_plan_with_structure(void **state) {
  (void)state;
  enum { N = 256 };
  char text[16 * N] = "f64:9";
  for (int i = 0; i < N; i++) strcat(text, "x9");
  for (int i = 0; i < N; i++) strcat(text, i == 0 ? ":lower" : i % 2 == 0 ? ",lower" : ",upper");
  mmc_context *context;
  mmc_chain *chain;
  assert_int_equal(mmc_context_create(NULL, &context), MMC_OK);
  assert_int_equal(mmc_chain_parse(context, text, &chain), MMC_OK);
  for (int stops = 0; stops < 2; stops++) {
    told x = {.stop_at = stops != 0 ? 1 : 1 << 30};
    mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
    options.progress = ask_again_from_the_start;
    options.progress_user = &x;
    mmc_plan *plan = NULL;
    const double start = mmci_now_s();
    const mmc_status status = mmc_plan_create(context, chain, &options, &plan);
    /* A machine that takes less than a twentieth of a second for all does not ask. */
    assert_true(x.calls > 0 || mmci_now_s() - start < 0.2);
    assert_int_equal(status, stops != 0 && x.calls > 0 ? MMC_E_INTERRUPTED : MMC_OK);
    assert_true((plan != NULL) == (status == MMC_OK));
    assert_true(stops == 0 || x.calls <= 1);
    mmc_plan_destroy(plan);
  }
  mmc_chain_destroy(chain);
  mmc_context_destroy(context);
}

typedef struct scan_case {
  const char *name;
  int64_t n, length, batch, columns;
  bool scaled;
} scan_case;

/* Executes a scan of factors that keep the sum of a state's column, which asks progress; returns
 * the status, and in *seconds how long it took. */
static mmc_status scan_once(mmc_context *context, const scan_case *c, mmc_progress_fn progress,
                            told *x, double *out, double *seconds) {
  mmc_scan_options options = MMC_SCAN_OPTIONS_INIT;
  options.batch = c->batch;
  options.columns = c->columns;
  options.initial = c->columns > 0;
  options.scaled = c->scaled;
  mmc_scan *scan;
  assert_int_equal(mmc_scan_create(context, MMC_F64, c->n, c->length, &options, &scan), MMC_OK);
  mmc_scan_progress(scan, progress, x);
  const int64_t width = c->columns > 0 ? c->columns : c->n;
  double *factor = malloc((size_t)(c->n * c->n) * sizeof *factor);
  double *state = malloc((size_t)(c->n * width) * sizeof *state);
  int64_t *exponents = malloc((size_t)(c->batch * c->length) * sizeof *exponents);
  assert_true(factor != NULL && state != NULL && exponents != NULL);
  for (int64_t i = 0; i < c->n * c->n; i++)
    factor[i] = (i / c->n == i % c->n) * 0.5 + 0.5 / (double)c->n;
  for (int64_t i = 0; i < c->n * width; i++) state[i] = 1 + (double)(i % 7);
  mmc_scan_operands operands = MMC_SCAN_OPERANDS_INIT;
  operands.factors = (mmc_matrix){.data = factor, .rows = c->n, .cols = c->n};
  if (c->columns > 0) operands.initial = (mmc_matrix){.data = state, .rows = c->n, .cols = width};
  operands.out =
      (mmc_matrix){.data = out, .rows = c->n, .cols = width, .stride = c->length * c->n * width};
  operands.out_step = c->n * width;
  operands.exponents = c->scaled ? exponents : NULL;
  const double start = mmci_now_s();
  const mmc_status status = mmc_scan_execute(scan, &operands);
  *seconds = mmci_now_s() - start;
  if (status == MMC_E_INTERRUPTED) { /* and the scan executes again */
    mmc_scan_progress(scan, NULL, NULL);
    assert_int_equal(mmc_scan_execute(scan, &operands), MMC_OK);
  }
  free(factor);
  free(state);
  free(exponents);
  mmc_scan_destroy(scan);
  return status;
}

/* A scan ends when its caller says so, and asking changes no bit; each of these takes some tenths
 * of a second. */
static void stopped_within_a_scan(void **state) {
  (void)state;
  static const scan_case cases[] = {
      {"one thread or blocks", 48, 6000, 1, 0, false}, {"a batch", 48, 2000, 3, 0, false},
      {"narrow states", 400, 3000, 1, 2, false},       {"exponents", 48, 6000, 1, 0, true},
      {"large products", 1850, 2, 1, 0, false},
  };
  mmc_context *context;
  assert_int_equal(mmc_context_create(NULL, &context), MMC_OK);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const scan_case *c = &cases[i];
    const int64_t width = c->columns > 0 ? c->columns : c->n;
    const size_t bytes = (size_t)(c->batch * c->length * c->n * width) * sizeof(double);
    double *plain = malloc(bytes), *asked = malloc(bytes), seconds;
    assert_true(plain != NULL && asked != NULL);
    memset(asked, 0xA5, bytes);
    told never = {.stop_at = 1 << 30}, once = {.stop_at = 1};
    assert_int_equal(scan_once(context, c, NULL, &once, plain, &seconds), MMC_OK);
    assert_int_equal(once.calls, 0);
    assert_int_equal(scan_once(context, c, ask, &never, asked, &seconds), MMC_OK);
    assert_memory_equal(plain, asked, bytes);
    if (never.calls == 0 && seconds > 0.2) fail_msg("%s: nobody asked in %g s", c->name, seconds);
    memset(asked, 0xA5, bytes);
    const mmc_status status = scan_once(context, c, ask, &once, asked, &seconds);
    assert_int_equal(status, once.calls > 0 ? MMC_E_INTERRUPTED : MMC_OK);
    assert_true(once.calls <= 1);
    assert_memory_equal(plain, asked, bytes);
    free(plain);
    free(asked);
  }
  mmc_context_destroy(context);
}

/* Work that asks belongs to the thread and to the innermost execution. */
static void asking(void **state) {
  (void)state;
  told outer_told = {.stop_at = 1}, inner_told = {.stop_at = 1 << 30};
  mmci_interrupt outer = {.ask = ask, .user = &outer_told};
  mmci_interrupt inner = {.ask = ask, .user = &inner_told}, none = {0};
  assert_false(mmci_interrupted());
  mmci_interrupt *before = mmci_interrupt_begin(&outer);
  assert_null(before);
  assert_false(mmci_interrupted()); /* it was not long ago */
  mmci_interrupt *first = mmci_interrupt_begin(&inner);
  inner.asked_s -= 1;
  mmci_interrupt_done(0.5);
  assert_false(mmci_interrupted());
  assert_int_equal(inner_told.calls, 1);
  assert_true(inner_told.last == 0.5);
  /* Half of a product, of the second half of a batch, that is from a quarter to the end of it. */
  mmci_interrupt_chunk(0.5, 1);
  mmci_interrupt_span(0.25, 1);
  mmci_interrupt_done(0.5);
  inner.asked_s -= 1;
  assert_false(mmci_interrupted());
  assert_true(inner_told.last == 0.8125);
  mmci_interrupt_end(first);
  first = mmci_interrupt_begin(&none);
  assert_false(mmci_interrupted());
  mmci_interrupt_end(first);
  outer.asked_s -= 1;
  assert_true(mmci_interrupted());
  assert_true(mmci_interrupted()); /* once stopped it is not asked again */
  assert_int_equal(outer_told.calls, 1);
  mmci_interrupt_end(before);
  assert_false(mmci_interrupted());
}

static void stopped_within_gradients(void **state) {
  (void)state;
  problem x = make(large);
  mmc_gradients *gradients;
  assert_int_equal(mmc_gradients_create(x.plan, NULL, &gradients), MMC_OK);
  const size_t bytes = (size_t)mmc_gradients_bytes(gradients);
  void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
  assert_non_null(memory);
  told at_once = {.stop_at = 1}, never = {.stop_at = 1 << 30};
  mmc_gradients_progress(gradients, ask, &at_once);
  assert_int_equal(mmc_gradients_forward(gradients, x.matrices, memory, &x.out), MMC_E_INTERRUPTED);
  assert_int_equal(at_once.calls, 1);
  mmc_gradients_progress(gradients, ask, &never);
  assert_int_equal(mmc_gradients_forward(gradients, x.matrices, memory, &x.out), MMC_OK);
  assert_true(never.calls > 0);
  assert_right(&x);
  mmc_gradients_progress(gradients, ask, &(told){.stop_at = 1});
  assert_int_equal(mmc_gradients_backward(gradients, x.matrices, memory, &x.out, NULL),
                   MMC_E_INTERRUPTED);
  mmc_gradients_destroy(gradients);
  free(memory);
  destroy(&x);
}

/* The reference multiplies some rows at a time where somebody asks, to the same bits. */
static void stopped_within_plain_loops(void **state) {
  (void)state;
  static const char *const texts[] = {"f64:310x400x290", "f64:310x400x290:TT", "i64:310x400x290:TN",
                                      "f64:90x400x290x90@4"};
  for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
    mmc_context *context;
    mmc_chain *chain;
    mmc_plan *plan;
    mmc_run *run;
    mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
    options.device = "ref";
    assert_int_equal(mmc_context_create(NULL, &context), MMC_OK);
    assert_int_equal(mmc_chain_parse(context, texts[t], &chain), MMC_OK);
    assert_int_equal(mmc_plan_create(context, chain, &options, &plan), MMC_OK);
    assert_int_equal(mmc_run_create(plan, &run), MMC_OK);
    const int64_t *dims = mmc_chain_dims(chain), n = mmc_chain_length(chain);
    const int64_t batch = mmc_chain_batch(chain);
    mmc_matrix matrices[3] = {{0}}, out;
    for (int64_t i = 0; i < n; i++) {
      const bool turned = mmc_chain_ops(chain)[i] != MMC_OP_N;
      fill(&matrices[i], dims[i + turned], dims[i + !turned]);
      fill_rounded(&matrices[i], (uint64_t)i + 43);
    }
    fill(&out, batch * dims[0], dims[n]);
    out.rows = dims[0];
    out.stride = dims[0] * dims[n];
    const size_t bytes = (size_t)(batch * out.stride) * sizeof(double);
    void *unasked = malloc(bytes);
    assert_non_null(unasked);
    assert_int_equal(mmc_execute(run, matrices, &out), MMC_OK);
    memcpy(unasked, out.data, bytes);
    told never = {.stop_at = 1 << 30}, once = {.stop_at = 1};
    mmc_run_progress(run, ask, &never);
    memset(out.data, 0xA5, bytes);
    const double start = mmci_now_s();
    assert_int_equal(mmc_execute(run, matrices, &out), MMC_OK);
    if (never.calls == 0 && mmci_now_s() - start > 0.2) fail_msg("%s: nobody asked", texts[t]);
    assert_memory_equal(unasked, out.data, bytes);
    mmc_run_progress(run, ask, &once);
    const mmc_status status = mmc_execute(run, matrices, &out);
    assert_int_equal(status, once.calls > 0 ? MMC_E_INTERRUPTED : MMC_OK);
    for (int64_t i = 0; i < n; i++) free(matrices[i].data);
    free(out.data);
    free(unasked);
    mmc_run_destroy(run);
    mmc_plan_destroy(plan);
    mmc_chain_destroy(chain);
    mmc_context_destroy(context);
  }
}

/* A row of which a product was stopped has the products that another has. */
static void stopped_within_ranges(void **state) {
  (void)state;
  enum { N = 600, LENGTH = 12 };
  mmc_context *context;
  assert_int_equal(mmc_context_create(NULL, &context), MMC_OK);
  mmc_matrix factor, stopped, whole;
  fill(&factor, N, N);
  fill_rounded(&factor, 47);
  for (int64_t i = 0; i < N * N; i++) ((double *)factor.data)[i] /= 16;
  fill(&stopped, N, N);
  fill(&whole, N, N);
  for (int scaled = 0; scaled < 2; scaled++) {
    told once = {.stop_at = 1};
    double seconds = 0; /* of the last product */
    mmc_ranges_options options = MMC_RANGES_OPTIONS_INIT;
    options.scaled = scaled != 0;
    for (int stops = 0; stops < 2; stops++) {
      mmc_ranges *ranges;
      int64_t exponent;
      mmc_matrix *out = stops != 0 ? &stopped : &whole;
      assert_int_equal(mmc_ranges_create(context, MMC_F64, N, &options, &ranges), MMC_OK);
      for (int i = 0; i < LENGTH; i++)
        assert_int_equal(mmc_ranges_append(ranges, 1, &factor), MMC_OK);
      if (stops != 0) mmc_ranges_progress(ranges, ask, &once);
      for (int again = 0; again <= stops; again++) {
        const double start = mmci_now_s();
        const mmc_status status = scaled != 0
                                      ? mmc_ranges_product_scaled(ranges, 1, LENGTH, out, &exponent)
                                      : mmc_ranges_product(ranges, 1, LENGTH, out);
        seconds = mmci_now_s() - start;
        const bool is_stopped = stops != 0 && again == 0 && once.calls > 0;
        assert_int_equal(status, is_stopped ? MMC_E_INTERRUPTED : MMC_OK);
        mmc_ranges_progress(ranges, NULL, NULL);
      }
      mmc_ranges_destroy(ranges);
    }
    /* A machine that takes less than a twentieth of a second for all is not asked. */
    assert_true(once.calls == 1 || (once.calls == 0 && seconds < 0.2));
    assert_memory_equal(stopped.data, whole.data, N * N * sizeof(double));
  }
  free(factor.data);
  free(stopped.data);
  free(whole.data);
  mmc_context_destroy(context);
}

/* A sparse product of 1.7e8 multiplications. */
static void stopped_within_a_sparse_chain(void **state) {
  (void)state;
  enum { N = 12000, EACH = 120, APART = N / EACH };
  int32_t *indptr = malloc((N + 1) * sizeof *indptr), *indices = malloc(N * EACH * sizeof *indices);
  double *values = malloc(N * EACH * sizeof *values);
  assert_true(indptr != NULL && indices != NULL && values != NULL);
  for (int32_t r = 0; r <= N; r++) indptr[r] = r * EACH;
  for (int32_t e = 0; e < N * EACH; e++) {
    indices[e] = e % EACH * APART + e / EACH % APART;
    values[e] = e % 7 - 3;
  }
  const mmc_csr csr = {N, N, 4, indptr, indices, values};
  const mmc_sparse_factor factors[] = {{.csr = &csr}, {.csr = &csr}};
  mmc_context *context;
  mmc_sparse_chain *chain;
  mmc_sparse *unasked, *asked = NULL;
  assert_int_equal(mmc_context_create(NULL, &context), MMC_OK);
  assert_int_equal(mmc_sparse_chain_create(context, MMC_F64, 2, factors, NULL, &chain), MMC_OK);
  assert_int_equal(mmc_sparse_chain_execute(chain, factors, NULL, &unasked), MMC_OK);
  told once = {.stop_at = 1}, never = {.stop_at = 1 << 30};
  mmc_sparse_chain_progress(chain, ask, &once);
  const double start = mmci_now_s();
  const mmc_status status = mmc_sparse_chain_execute(chain, factors, NULL, &asked);
  assert_true(once.calls == 1 || mmci_now_s() - start < 0.2);
  assert_int_equal(status, once.calls > 0 ? MMC_E_INTERRUPTED : MMC_OK);
  mmc_sparse_destroy(asked);
  mmc_sparse_chain_progress(chain, ask, &never);
  assert_int_equal(mmc_sparse_chain_execute(chain, factors, NULL, &asked), MMC_OK);
  const mmc_csr x = mmc_sparse_csr(unasked), y = mmc_sparse_csr(asked);
  const size_t count = (size_t)((const int32_t *)x.indptr)[N];
  assert_memory_equal(x.indptr, y.indptr, (N + 1) * sizeof(int32_t));
  assert_memory_equal(x.indices, y.indices, count * sizeof(int32_t));
  assert_memory_equal(x.values, y.values, count * sizeof(double));
  mmc_sparse_destroy(unasked);
  mmc_sparse_destroy(asked);
  mmc_sparse_chain_destroy(chain);
  mmc_context_destroy(context);
  free(indptr);
  free(indices);
  free(values);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(asking),
      cmocka_unit_test(nothing_is_asked_of_a_new_run),
      cmocka_unit_test(rows_are_right),
      cmocka_unit_test(columns_are_right),
      cmocka_unit_test(terms_are_right),
      cmocka_unit_test(all_three_are_right),
      cmocka_unit_test(asking_changes_no_bit),
      cmocka_unit_test(stopped_within_a_product),
      cmocka_unit_test(stopped_within_gradients),
      cmocka_unit_test(stopped_within_a_plan_with_structure),
      cmocka_unit_test(stopped_within_a_scan),
      cmocka_unit_test(stopped_within_plain_loops),
      cmocka_unit_test(stopped_within_ranges),
      cmocka_unit_test(stopped_within_a_sparse_chain),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

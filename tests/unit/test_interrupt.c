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

/* Says whether somebody may stop the work changes no bit of the result. */
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
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

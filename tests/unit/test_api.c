/* test_api.c: what the public functions do with arguments that are wrong, and their messages. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "mmchain.h"

typedef struct fixture {
  mmc_context *context;
  mmc_chain *chain; /* f64:2x3x4 */
  mmc_plan *plan;
  mmc_run *run;
  double a[6], b[12], c[8];
  mmc_matrix factors[2], out;
} fixture;

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  *state = f;
  if (f == NULL || mmc_context_create(NULL, &f->context) != MMC_OK ||
      mmc_chain_parse(f->context, "f64:2x3x4", &f->chain) != MMC_OK ||
      mmc_plan_create(f->context, f->chain, NULL, &f->plan) != MMC_OK ||
      mmc_run_create(f->plan, &f->run) != MMC_OK)
    return 1;
  for (int i = 0; i < 6; i++) f->a[i] = i;
  for (int i = 0; i < 12; i++) f->b[i] = i;
  f->factors[0] = (mmc_matrix){f->a, 2, 3, 0, MMC_ROW_MAJOR, MMC_HOST, 0, NULL};
  f->factors[1] = (mmc_matrix){f->b, 3, 4, 0, MMC_ROW_MAJOR, MMC_HOST, 0, NULL};
  f->out = (mmc_matrix){f->c, 2, 4, 0, MMC_ROW_MAJOR, MMC_HOST, 0, NULL};
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  mmc_run_destroy(f->run);
  mmc_plan_destroy(f->plan);
  mmc_chain_destroy(f->chain);
  mmc_context_destroy(f->context);
  free(f);
  return 0;
}

static void expect(fixture *f, mmc_status got, mmc_status status, const char *message) {
  char text[512];
  assert_int_equal(got, status);
  assert_string_equal(mmc_context_message(f->context, text, sizeof text), message);
  /* A message that is about an argument begins with its name. */
  char argument[64];
  mmc_context_argument(f->context, argument, sizeof argument);
  const size_t length = strlen(argument);
  if (length == 0) return;
  assert_memory_equal(text, argument, length);
  assert_memory_equal(text + length, ": ", 2);
}

/* A message says what it is about, and the next message what that is about. */
static void messages_name_their_argument(void **state) {
  fixture *f = *state;
  static const struct {
    mmc_plan_options options;
    const char *argument;
  } cases[] = {
      {{.size = sizeof(mmc_plan_options), .solver = "foo"}, "solver"},
      {{.size = sizeof(mmc_plan_options), .device = "abacus"}, "device"},
      {{.size = sizeof(mmc_plan_options), .device = "cuda:999"}, "device"},
      {{.size = sizeof(mmc_plan_options), .objective = "joules"}, "objective"},
      {{.size = sizeof(mmc_plan_options), .precision = "rough"}, "precision"},
      {{.size = sizeof(mmc_plan_options), .fuse = "none"}, "fuse"},
      {{.size = sizeof(mmc_plan_options), .objective = "traffic", .fuse = "both"}, "fuse"},
      {{.size = sizeof(mmc_plan_options), .on_chip_words = 5}, "on_chip_words"},
      {{.size = sizeof(mmc_plan_options), .max_slowdown = 2}, "max_slowdown"},
      {{.size = sizeof(mmc_plan_options), .kernel = "none such"}, "kernel"},
      {{.size = 3}, ""},
  };
  mmc_chain *chain;
  mmc_plan *plan;
  char argument[64];
  assert_int_equal(mmc_chain_parse(f->context, "f64:2x3x4x5", &chain), MMC_OK);
  for (int pass = 0; pass < 2; pass++)
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
      char text[512], start[80];
      mmc_plan_options options = cases[c].options;
      if (options.memory_limit_bytes == 0) options.memory_limit_bytes = MMC_NO_LIMIT;
      assert_int_not_equal(mmc_plan_create(f->context, chain, &options, &plan), MMC_OK);
      mmc_context_argument(f->context, argument, sizeof argument);
      assert_string_equal(argument, cases[c].argument);
      snprintf(start, sizeof start, "%s: ", argument);
      mmc_context_message(f->context, text, sizeof text);
      if (argument[0] != '\0') assert_memory_equal(text, start, strlen(start));
    }
  mmc_plan_options small = MMC_PLAN_OPTIONS_INIT;
  small.memory_limit_bytes = 1;
  assert_int_equal(mmc_plan_create(f->context, chain, &small, &plan), MMC_OK); /* one call */
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  assert_int_equal(mmc_chain_parse(f->context, "f64:400x300x400x300", &chain), MMC_OK);
  assert_int_equal(mmc_plan_create(f->context, chain, &small, &plan), MMC_E_MEMORY_LIMIT);
  assert_string_equal(mmc_context_argument(f->context, argument, sizeof argument), "memory limit");
  assert_string_equal(mmc_context_argument(f->context, argument, 4), "mem");
  mmc_chain_destroy(chain);
}

static void version_is_the_headers(void **state) {
  (void)state;
  char version[32];
  snprintf(version, sizeof version, "%d.%d.%d", MMC_VERSION_MAJOR, MMC_VERSION_MINOR,
           MMC_VERSION_PATCH);
  assert_string_equal(mmc_version(), version);
}

static void destroying_nothing_does_nothing(void **state) {
  (void)state;
  mmc_run_destroy(NULL);
  mmc_memory_destroy(NULL);
  mmc_plan_destroy(NULL);
  mmc_chain_destroy(NULL);
  mmc_order_destroy(NULL);
  mmc_file_destroy(NULL);
  mmc_context_destroy(NULL);
}

static ptrdiff_t read_nothing(void *user, char *bytes, size_t size) {
  (void)user, (void)bytes, (void)size;
  return 0;
}

static void wisdom_without_a_store_says_so(void **state) {
  fixture *f = *state;
  mmc_context *usual = f->context;
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  options.wisdom_path = "";
  assert_int_equal(mmc_context_create(&options, &f->context), MMC_OK);
  mmc_wisdom_info info;
  assert_int_equal(mmc_wisdom_describe(f->context, &info), MMC_OK);
  assert_string_equal(info.path, "");
  assert_false(info.available);
  assert_true(strncmp(info.description, "no wisdom store: ", 17) == 0);
  assert_int_not_equal(mmc_wisdom_import(f->context, read_nothing, NULL), MMC_OK);
  assert_int_equal(mmc_wisdom_forget(f->context, NULL, NULL), MMC_E_UNSUPPORTED);
  expect(f, mmc_wisdom_import(f->context, NULL, NULL), MMC_E_ARG,
         "read: expected a function, got NULL");
  expect(f, mmc_wisdom_export(f->context, NULL, NULL), MMC_E_ARG,
         "write: expected a function, got NULL");
  expect(f, mmc_wisdom_write(f->context, MMC_TEXT, NULL, NULL), MMC_E_ARG,
         "write: expected a function, got NULL");
  mmc_wisdom_filter filter = {.size = 1};
  assert_int_equal(mmc_wisdom_forget(f->context, &filter, NULL), MMC_E_ARG);
  assert_int_equal(mmc_wisdom_describe(f->context, NULL), MMC_E_ARG);
  assert_int_equal(mmc_wisdom_describe(NULL, &info), MMC_E_ARG);
  assert_int_equal(mmc_wisdom_import(NULL, read_nothing, NULL), MMC_E_ARG);
  assert_int_equal(mmc_wisdom_export(NULL, NULL, NULL), MMC_E_ARG);
  assert_int_equal(mmc_wisdom_write(NULL, MMC_TEXT, NULL, NULL), MMC_E_ARG);
  assert_int_equal(mmc_wisdom_forget(NULL, NULL, NULL), MMC_E_ARG);
  mmc_context_destroy(f->context);
  f->context = usual;
}

static void wrong_matrices_are_named(void **state) {
  fixture *f = *state;
  assert_int_equal(mmc_execute(f->run, f->factors, &f->out), MMC_OK);
  mmc_matrix good = f->factors[1];

  f->factors[1].rows = 4;
  expect(f, mmc_execute(f->run, f->factors, &f->out), MMC_E_ARG,
         "factors[1]: expected 3 x 4 as stored, got 4 x 4");
  f->factors[1] = good;
  f->factors[1].ld = 3;
  expect(f, mmc_execute(f->run, f->factors, &f->out), MMC_E_ARG,
         "factors[1]: expected an ld of at least 4, or 0, got 3");
  f->factors[1] = good;
  f->factors[1].ld = INT64_MAX / 2;
  expect(f, mmc_execute(f->run, f->factors, &f->out), MMC_E_ARG,
         "factors[1]: ld exceeds the address space");
  f->factors[1] = good;
  f->factors[1].data = NULL;
  expect(f, mmc_execute(f->run, f->factors, &f->out), MMC_E_ARG, "factors[1]: data is NULL");
  f->factors[1].data = (char *)f->b + 1;
  expect(f, mmc_execute(f->run, f->factors, &f->out), MMC_E_ARG,
         "factors[1]: data is not aligned to its real type");
  f->factors[1].data = f->c;
  expect(f, mmc_execute(f->run, f->factors, &f->out), MMC_E_ARG, "factors[1]: overlaps the result");
  f->factors[1] = good;
  f->factors[1].layout = (mmc_layout)5;
  expect(f, mmc_execute(f->run, f->factors, &f->out), MMC_E_ARG,
         "factors[1]: expected layout MMC_ROW_MAJOR or MMC_COL_MAJOR");
  f->factors[1] = good;

  mmc_matrix out = f->out;
  out.cols = 3;
  expect(f, mmc_execute(f->run, f->factors, &out), MMC_E_ARG,
         "out: expected 2 x 4 as stored, got 2 x 3");
  expect(f, mmc_execute(f->run, f->factors, NULL), MMC_E_ARG, "out: expected a matrix, got NULL");
  expect(f, mmc_execute(f->run, NULL, &f->out), MMC_E_ARG, "factors: expected an array, got NULL");
  assert_int_equal(mmc_execute(NULL, f->factors, &f->out), MMC_E_ARG);
  /* And after all that it still works. */
  assert_int_equal(mmc_execute(f->run, f->factors, &f->out), MMC_OK);
  assert_true(f->c[0] == 20 && f->c[7] == 92);
}

/* The same run with other data, other places, other layouts: nothing of the last call remains. */
static void matrices_may_change_between_calls(void **state) {
  fixture *f = *state;
  assert_int_equal(mmc_execute(f->run, f->factors, &f->out), MMC_OK);
  f->a[0] = 100; /* the same matrix, other numbers */
  assert_int_equal(mmc_execute(f->run, f->factors, &f->out), MMC_OK);
  assert_true(f->c[0] == 20 && f->c[1] == 100 + 5 + 18);
  double transposed[12], columns[8];
  for (int r = 0; r < 3; r++)
    for (int c = 0; c < 4; c++) transposed[c * 3 + r] = f->b[r * 4 + c];
  mmc_matrix factors[2] = {f->factors[0], {transposed, 3, 4, 0, MMC_COL_MAJOR, MMC_HOST, 0, NULL}};
  mmc_matrix out = {columns, 2, 4, 0, MMC_COL_MAJOR, MMC_HOST, 0, NULL};
  assert_int_equal(mmc_execute(f->run, factors, &out), MMC_OK);
  for (int r = 0; r < 2; r++)
    for (int c = 0; c < 4; c++) assert_true(columns[c * 2 + r] == f->c[r * 4 + c]);
  assert_int_equal(mmc_execute(f->run, factors, &out), MMC_OK);
  assert_true(columns[0] == f->c[0]);
  memset(f->c, 0, sizeof f->c);
  assert_int_equal(mmc_execute(f->run, f->factors, &f->out), MMC_OK);
  assert_true(f->c[7] == columns[7]);
}

/* Results without elements are none however many: 2^62 of them take no time. */
static void empty_results_take_no_time(void **state) {
  fixture *f = *state;
  static const char *const texts[] = {"f64:0x3x4@4611686018427387904",
                                      "f64:2x3x0@4611686018427387904",
                                      "f64:0x3@4611686018427387904", "f64:0x3x4x0@1000000000000"};
  for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
    mmc_chain *chain;
    mmc_plan *plan;
    mmc_run *run;
    assert_int_equal(mmc_chain_parse(f->context, texts[t], &chain), MMC_OK);
    assert_int_equal(mmc_plan_create(f->context, chain, NULL, &plan), MMC_OK);
    assert_int_equal(mmc_run_create(plan, &run), MMC_OK);
    int64_t n = mmc_chain_length(chain);
    const int64_t *dims = mmc_chain_dims(chain);
    mmc_matrix factors[3], out = {.data = f->c, .rows = dims[0], .cols = dims[n]};
    for (int64_t i = 0; i < n; i++)
      factors[i] = (mmc_matrix){.data = f->b, .rows = dims[i], .cols = dims[i + 1]};
    f->c[0] = 42;
    assert_int_equal(mmc_execute(run, factors, &out), MMC_OK);
    assert_int_equal(mmc_enqueue(run, NULL, factors, &out), MMC_OK);
    assert_true(f->c[0] == 42);
    factors[0].cols++;
    assert_int_equal(mmc_execute(run, factors, &out), MMC_E_ARG);
    mmc_run_destroy(run);
    mmc_plan_destroy(plan);
    mmc_chain_destroy(chain);
  }
}

static void wrong_options_are_named(void **state) {
  fixture *f = *state;
  mmc_plan *plan;
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.size = 3;
  char expected[160];
  snprintf(expected, sizeof expected,
           "options: expected a size of %zu, as its _INIT sets it, or that of another version of "
           "mmchain.h, got 3",
           sizeof options);
  expect(f, mmc_plan_create(f->context, f->chain, &options, &plan), MMC_E_ARG, expected);
  options = (mmc_plan_options)MMC_PLAN_OPTIONS_INIT;
  options.precision = "exact";
  expect(f, mmc_plan_create(f->context, f->chain, &options, &plan), MMC_E_ARG,
         "precision: expected native, faithful, fast, reproducible or reproducible+faithful, got "
         "'exact'");
  options = (mmc_plan_options)MMC_PLAN_OPTIONS_INIT;
  options.location = (mmc_location)7;
  expect(f, mmc_plan_create(f->context, f->chain, &options, &plan), MMC_E_ARG,
         "location: expected MMC_HOST or MMC_DEVICE, got number 7");
  options = (mmc_plan_options)MMC_PLAN_OPTIONS_INIT;
  options.device = "abacus";
  expect(f, mmc_plan_create(f->context, f->chain, &options, &plan), MMC_E_ARG,
         "device: expected cpu, blas, ref, cuda or cuda:N, got 'abacus'");
  options.device = "cuda:x";
  expect(f, mmc_plan_create(f->context, f->chain, &options, &plan), MMC_E_ARG,
         "device: expected cpu, blas, ref, cuda or cuda:N, got 'cuda:x'");
  options = (mmc_plan_options)MMC_PLAN_OPTIONS_INIT;
  options.solver = "";
  expect(f, mmc_plan_create(f->context, f->chain, &options, &plan), MMC_E_ARG,
         "solver: expected auto, hu-shing, table, brute or left-to-right, got ''");
  expect(f, mmc_plan_create(f->context, NULL, NULL, &plan), MMC_E_ARG,
         "chain: expected a chain, got NULL");
  expect(f, mmc_plan_create(f->context, f->chain, NULL, NULL), MMC_E_ARG,
         "out: expected an address, got NULL");
  expect(f, mmc_plan_explain(f->plan, MMC_TEXT, NULL, NULL), MMC_E_ARG,
         "write: expected a function, got NULL");
  mmc_step step;
  expect(f, mmc_plan_step(f->plan, 1, &step), MMC_E_ARG, "index: the plan has no step 1");
  expect(f, mmc_plan_step(f->plan, -1, &step), MMC_E_ARG, "index: the plan has no step -1");
}

/* A device that works on the host's memory has it all the same. */
static void memory_is_copied(void **state) {
  fixture *f = *state;
  mmc_memory *memory;
  double sent[6] = {1, 2, 3, 4, 5, 6}, got[6] = {0};
  assert_int_equal(mmc_memory_create(f->context, NULL, sizeof sent, &memory), MMC_OK);
  assert_int_equal((uintptr_t)mmc_memory_address(memory) % 64, 0);
  assert_int_equal(mmc_memory_write(memory, 0, sent, sizeof sent), MMC_OK);
  assert_int_equal(mmc_memory_read(memory, 8, got, sizeof sent - 8), MMC_OK);
  assert_memory_equal(got, sent + 1, sizeof sent - 8);
  expect(f, mmc_memory_read(memory, 8, got, sizeof sent), MMC_E_ARG,
         "size: expected at most 40 bytes from offset 8, got 48");
  expect(f, mmc_memory_write(memory, 49, sent, 0), MMC_E_ARG,
         "offset: expected at most 48, got 49");
  expect(f, mmc_memory_write(memory, 0, NULL, 1), MMC_E_ARG,
         "from: expected host memory, got NULL");
  expect(f, mmc_memory_read(memory, 0, NULL, 1), MMC_E_ARG, "to: expected host memory, got NULL");
  f->factors[0].data = mmc_memory_address(memory);
  f->factors[0].location = MMC_DEVICE;
  assert_int_equal(mmc_enqueue(f->run, NULL, f->factors, &f->out), MMC_OK);
  assert_int_equal(mmc_wait(f->run), MMC_OK);
  assert_true(f->c[7] == 4 * 3 + 5 * 7 + 6 * 11);
  f->factors[0] = (mmc_matrix){.data = f->a, .rows = 2, .cols = 3};
  mmc_memory_destroy(memory);
  assert_int_equal(mmc_memory_create(f->context, "abacus", 8, &memory), MMC_E_ARG);
}

static void orders_are_checked(void **state) {
  fixture *f = *state;
  const int64_t dims[] = {30, 35, 15, 5, 10, 20, 25};
  mmc_order *order;
  mmc_order_options options = MMC_ORDER_OPTIONS_INIT;
  options.keep_table = true;
  assert_int_equal(mmc_order_create(f->context, 6, dims, &options, &order), MMC_OK);
  assert_string_equal(mmc_order_solver(order), "table");
  assert_string_equal(mmc_order_device(order), "cpu");
  assert_int_equal(mmc_order_length(order), 6);
  assert_int_equal(mmc_order_multiplications(order).lo, 15125);
  mmc_count m;
  int64_t s, first, split, last;
  assert_int_equal(mmc_order_entry(order, 2, 5, &m, &s), MMC_OK);
  assert_int_equal(m.lo, 7125); /* CLRS figure 15.5 */
  assert_int_equal(s, 4);
  assert_int_equal(mmc_order_entry(order, 3, 3, &m, &s), MMC_OK);
  assert_int_equal(m.lo, 0);
  assert_int_equal(s, 0);
  expect(f, mmc_order_entry(order, 4, 3, &m, &s), MMC_E_ARG,
         "i, j: expected 1 <= i <= j <= 6, got 4, 3");
  assert_int_equal(mmc_order_product(order, 4, &first, &split, &last), MMC_OK);
  assert_true(first == 0 && split == 3 && last == 5);
  expect(f, mmc_order_product(order, 5, &first, &split, &last), MMC_E_ARG,
         "t: the order has no product 5");
  mmc_order_destroy(order);

  assert_int_equal(mmc_order_create(f->context, 6, dims, NULL, &order), MMC_OK);
  assert_string_equal(mmc_order_solver(order), "hu-shing");
  expect(f, mmc_order_entry(order, 1, 2, &m, &s), MMC_E_UNSUPPORTED,
         "solved without a table: use solver table and keep_table");
  mmc_order_destroy(order);
  /* A kernel is the table's. */
  options = (mmc_order_options)MMC_ORDER_OPTIONS_INIT;
  options.kernel = "portable";
  assert_int_equal(mmc_order_create(f->context, 6, dims, &options, &order), MMC_OK);
  assert_string_equal(mmc_order_solver(order), "table");
  mmc_order_destroy(order);
  options.kernel = "abacus";
  char argument[16];
  assert_int_equal(mmc_order_create(f->context, 6, dims, &options, &order), MMC_E_ARG);
  assert_string_equal(mmc_context_argument(f->context, argument, sizeof argument), "kernel");
  options = (mmc_order_options){.size = sizeof options, .solver = "hu-shing", .kernel = "portable"};
  expect(f, mmc_order_create(f->context, 6, dims, &options, &order), MMC_E_ARG,
         "kernel: expected solver table with it, got 'hu-shing'");
  options.kernel = "auto";
  assert_int_equal(mmc_order_create(f->context, 6, dims, &options, &order), MMC_OK);
  mmc_order_destroy(order);
  options.threads_per_block = 32;
  expect(f, mmc_order_create(f->context, 6, dims, &options, &order), MMC_E_ARG,
         "threads_per_block: expected device cuda with it");
  expect(f, mmc_order_create(f->context, 0, dims, NULL, &order), MMC_E_ARG,
         "n: expected 1 to 1073741823 factors, got 0");
  options = (mmc_order_options)MMC_ORDER_OPTIONS_INIT;
  options.device = "blas";
  bool blas = strcmp(mmc_plan_device(f->plan), "blas") == 0;
  expect(f, mmc_order_create(f->context, 6, dims, &options, &order), MMC_E_UNSUPPORTED,
         blas ? "device: expected one that solves the ordering problem, as cpu does, got 'blas'"
              : "device: 'blas' is not here: built without it, by MMC_WITH_BLAS=OFF");
}

static void devices_are_described(void **state) {
  fixture *f = *state;
  mmc_device_info info;
  bool ref = false;
  int count = 0;
  while (mmc_device_describe(f->context, count, &info) == MMC_OK) {
    assert_true(strlen(info.description) > 10);
    ref = ref || (strcmp(info.name, "ref") == 0 && info.available);
    count++;
  }
  assert_true(ref && count >= 3);
  assert_int_equal(mmc_device_describe(f->context, -1, &info), MMC_E_ARG);
}

/* A module of another ABI, or none, is a device that is not here, with the reason. */
static void missing_modules_are_explained(void **state) {
  (void)state;
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  options.module_dir = "/nowhere";
  mmc_context *context;
  assert_int_equal(mmc_context_create(&options, &context), MMC_OK);
  mmc_chain *chain;
  mmc_plan *plan;
  mmc_plan_options plan_options = MMC_PLAN_OPTIONS_INIT;
  plan_options.device = "cuda";
  assert_int_equal(mmc_chain_parse(context, "2x3x4", &chain), MMC_OK);
  assert_int_equal(mmc_plan_create(context, chain, &plan_options, &plan), MMC_E_UNSUPPORTED);
  char text[512];
  mmc_context_message(context, text, sizeof text);
  assert_non_null(strstr(text, "device: 'cuda' is not here: needs the module mmchain-cuda.so"));
  mmc_chain_destroy(chain);
  mmc_context_destroy(context);
}

/* One plan, many threads, each with its own run. */
static void *execute_often(void *user) {
  fixture *f = user;
  mmc_run *run;
  if (mmc_run_create(f->plan, &run) != MMC_OK) return user;
  void *failed = NULL;
  for (int i = 0; i < 2000; i++) {
    double c[8];
    mmc_matrix out = {c, 2, 4, 0, MMC_ROW_MAJOR, MMC_HOST, 0, NULL};
    if (mmc_execute(run, f->factors, &out) != MMC_OK || c[7] != 92) failed = user;
    mmc_plan *plan;
    if (mmc_plan_create(f->context, f->chain, NULL, &plan) != MMC_OK) return user;
    mmc_plan_destroy(plan);
  }
  mmc_run_destroy(run);
  return failed;
}

static void threads_share_a_plan(void **state) {
  fixture *f = *state;
  pthread_t threads[4];
  for (int t = 0; t < 4; t++)
    assert_int_equal(pthread_create(&threads[t], NULL, execute_often, f), 0);
  int failures = 0;
  for (int t = 0; t < 4; t++) {
    void *failed = NULL;
    failures += pthread_join(threads[t], &failed) != 0 || failed != NULL;
  }
  assert_int_equal(failures, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(version_is_the_headers),
      TEST(destroying_nothing_does_nothing),
      TEST(wrong_matrices_are_named),
      TEST(matrices_may_change_between_calls),
      TEST(empty_results_take_no_time),
      TEST(wrong_options_are_named),
      TEST(memory_is_copied),
      TEST(orders_are_checked),
      TEST(messages_name_their_argument),
      TEST(devices_are_described),
      TEST(missing_modules_are_explained),
      TEST(threads_share_a_plan),
      TEST(wisdom_without_a_store_says_so),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

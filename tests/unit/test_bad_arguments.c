/* test_bad_arguments.c: every function of mmchain.h is called with NULL for each of its pointers
 * and with numbers that are out of range. It answers E_ARG, or the neutral value that the header
 * names, and lives. A function of the header without a row here fails the test. */
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

#include "mmchain.h"

typedef struct fixture {
  mmc_context *context;
  mmc_chain *chain; /* f64:2x3x4 */
  mmc_plan *plan;
  mmc_run *run;
  mmc_order *order;
  mmc_meter *meter;
  mmc_memory *memory; /* 8 bytes */
  double data[12];
  mmc_matrix matrix; /* 2 x 3 */
} fixture;

enum { BAD = 12345 }; /* in no enumeration */

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  *state = f;
  const int64_t dims[] = {2, 3, 4};
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  options.wisdom_path = "";
  if (f == NULL || mmc_context_create(&options, &f->context) != MMC_OK ||
      mmc_chain_parse(f->context, "f64:2x3x4", &f->chain) != MMC_OK ||
      mmc_plan_create(f->context, f->chain, NULL, &f->plan) != MMC_OK ||
      mmc_run_create(f->plan, &f->run) != MMC_OK ||
      mmc_order_create(f->context, 2, dims, NULL, &f->order) != MMC_OK ||
      mmc_meter_open(f->context, "none", &f->meter) != MMC_OK ||
      mmc_memory_create(f->context, "ref", 8, &f->memory) != MMC_OK)
    return 1;
  f->matrix = (mmc_matrix){.data = f->data, .rows = 2, .cols = 3};
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  mmc_memory_destroy(f->memory);
  mmc_meter_destroy(f->meter);
  mmc_order_destroy(f->order);
  mmc_run_destroy(f->run);
  mmc_plan_destroy(f->plan);
  mmc_chain_destroy(f->chain);
  mmc_context_destroy(f->context);
  free(f);
  return 0;
}

static int write_nowhere(void *user, const char *bytes, size_t size) {
  (void)user, (void)bytes, (void)size;
  return 0;
}

static ptrdiff_t read_nothing(void *user, char *bytes, size_t size) {
  (void)user, (void)bytes, (void)size;
  return 0;
}

/* ---- what each function is called with ------------------------------------------------------- */

/* Has a call fail, whose message is not to be mistaken for that of a later failure. */
static void fail_before(const fixture *f) {
  mmc_chain *chain;
  assert_int_equal(mmc_chain_parse(f->context, "an older failure", &chain), MMC_E_ARG);
}

/* Checks that the context tells of the call. It does not where the call has none, nor an object
 * that has one, as its first argument. */
static void is_told(const fixture *f, const char *call) {
  char message[256];
  const char *first = strchr(call, '(') + 1;
  const bool has_context = strncmp(first, "NULL", 4) != 0 && strncmp(first, "f->chain", 8) != 0 &&
                           strncmp(call, "mmc_context_create", 18) != 0;
  if (!has_context) return;
  mmc_context_message(f->context, message, sizeof message);
  if (message[0] == '\0' || strstr(message, "older") != NULL)
    fail_msg("%s: the message is '%s'", call, message);
}

#define IS_ARG(call) (fail_before(f), assert_int_equal(call, MMC_E_ARG), is_told(f, #call))
#define IS_ZERO(call) assert_true((call) == 0)
#define IS_EMPTY(call) assert_string_equal(call, "")
#define IS_NAN(call) assert_true(isnan(call))

static void version(fixture *f) {
  (void)f;
  assert_non_null(mmc_version());
}

static void status_string(fixture *f) {
  (void)f;
  assert_string_equal(mmc_status_string((mmc_status)BAD), "unknown status");
  assert_string_equal(mmc_status_string((mmc_status)-1), "unknown status");
}

static void counts(fixture *f) {
  (void)f;
  assert_null(mmc_count_format((mmc_count){1, 2}, NULL));
  assert_true(mmc_count_to_double((mmc_count){UINT64_MAX, UINT64_MAX}) > 3e38);
}

static void contexts(fixture *f) {
  (void)f;
  mmc_context *context;
  mmc_context_options options = {.size = BAD};
  char text[4];
  IS_ARG(mmc_context_create(NULL, NULL));
  IS_ARG(mmc_context_create(&options, &context));
  mmc_context_destroy(NULL);
  assert_null(mmc_context_message(f->context, NULL, 4));
  assert_ptr_equal(mmc_context_message(f->context, text, 0), text);
  IS_EMPTY(mmc_context_message(NULL, text, sizeof text));
  assert_null(mmc_context_argument(f->context, NULL, 4));
  assert_ptr_equal(mmc_context_argument(f->context, text, 0), text);
  IS_EMPTY(mmc_context_argument(NULL, text, sizeof text));
}

static void devices(fixture *f) {
  mmc_device_info info;
  IS_ARG(mmc_device_describe(NULL, 0, &info));
  IS_ARG(mmc_device_describe(f->context, 0, NULL));
  IS_ARG(mmc_device_describe(f->context, -1, &info));
  IS_ARG(mmc_device_describe(f->context, BAD, &info));
  char message[64];
  assert_string_equal(mmc_context_message(f->context, message, sizeof message),
                      "index: there is no device number 12345");
}

static void dtypes(fixture *f) {
  (void)f;
  assert_null(mmc_dtype_name((mmc_dtype)BAD));
  assert_null(mmc_dtype_name((mmc_dtype)-1));
  assert_null(mmc_semiring_name((mmc_semiring)BAD));
  assert_null(mmc_semiring_name((mmc_semiring)-1));
  IS_ZERO(mmc_dtype_size((mmc_dtype)BAD));
  IS_ZERO(mmc_dtype_size((mmc_dtype)-1));
}

static void stacks(fixture *f) {
  mmc_matrix matrix = f->matrix;
  const int64_t shape[] = {2, 2}, strides[] = {100, 7}, negative[] = {2, -2};
  void *addresses[4];
  assert_false(mmc_matrix_stack(NULL, MMC_F64, 2, shape, strides, addresses));
  assert_false(mmc_matrix_stack(&matrix, (mmc_dtype)BAD, 2, shape, strides, addresses));
  assert_false(mmc_matrix_stack(&matrix, MMC_F64, -1, shape, strides, addresses));
  assert_false(mmc_matrix_stack(&matrix, MMC_F64, BAD, NULL, strides, addresses));
  assert_false(mmc_matrix_stack(&matrix, MMC_F64, 2, NULL, strides, addresses));
  assert_false(mmc_matrix_stack(&matrix, MMC_F64, 2, shape, NULL, addresses));
  assert_false(mmc_matrix_stack(&matrix, MMC_F64, 2, shape, strides, NULL));
  assert_false(mmc_matrix_stack(&matrix, MMC_F64, 2, negative, strides, addresses));
  const int64_t far[] = {INT64_MAX, 1}, half[] = {INT64_MAX / 2, 1};
  assert_false(mmc_matrix_stack(&matrix, MMC_F64, 2, shape, far, addresses));
  assert_false(mmc_matrix_stack(&matrix, MMC_F64, 2, shape, half, addresses));
  assert_true(mmc_matrix_stack(&matrix, MMC_F64, 0, NULL, NULL, NULL));
  mmc_matrix factors[2];
  assert_false(mmc_matrix_chain(NULL, MMC_F64, 2, 4, factors));
  assert_false(mmc_matrix_chain(&matrix, MMC_F64, 2, 4, NULL));
  assert_false(mmc_matrix_chain(&matrix, MMC_F64, 0, 4, factors));
  assert_false(mmc_matrix_chain(&matrix, MMC_F64, -1, 4, factors));
  assert_false(mmc_matrix_chain(&matrix, (mmc_dtype)BAD, 2, 4, factors));
  assert_false(mmc_matrix_chain(&matrix, MMC_F64, 2, INT64_MAX / 2, factors));
  assert_false(mmc_matrix_chain(&matrix, MMC_F64, 2, -(INT64_MAX / 32), factors));
  matrix.layout = (mmc_layout)BAD;
  assert_false(mmc_matrix_chain(&matrix, MMC_F64, 2, 4, factors));
  matrix.layout = MMC_ROW_MAJOR;
  matrix.addresses = addresses;
  assert_false(mmc_matrix_chain(&matrix, MMC_F64, 2, 4, factors));
}

static void chains(fixture *f) {
  const int64_t dims[] = {2, 3, 4}, wrong[] = {2, -3, 4};
  const mmc_op ops[] = {MMC_OP_N, (mmc_op)BAD};
  mmc_chain *chain;
  mmc_context *c = f->context;
  IS_ARG(mmc_chain_create(c, MMC_F64, 2, NULL, NULL, &chain));
  IS_ARG(mmc_chain_create(c, MMC_F64, 2, dims, NULL, NULL));
  IS_ARG(mmc_chain_create(NULL, MMC_F64, 0, dims, NULL, &chain));
  IS_ARG(mmc_chain_create(c, MMC_F64, -1, dims, NULL, &chain));
  IS_ARG(mmc_chain_create(c, MMC_F64, INT64_MAX, dims, NULL, &chain));
  IS_ARG(mmc_chain_create(c, (mmc_dtype)BAD, 2, dims, NULL, &chain));
  IS_ARG(mmc_chain_create(c, MMC_F64, 2, wrong, NULL, &chain));
  IS_ARG(mmc_chain_create(c, MMC_F64, 2, dims, ops, &chain));
  mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
  IS_ARG(mmc_chain_create_batch(c, MMC_F64, 2, NULL, NULL, &options, &chain));
  IS_ARG(mmc_chain_create_batch(c, MMC_F64, 2, dims, NULL, &options, NULL));
  options.batch = -1;
  IS_ARG(mmc_chain_create_batch(c, MMC_F64, 2, dims, NULL, &options, &chain));
  options.batch = 1;
  const int64_t beyond[] = {0, BAD}, negative[] = {-1, 0};
  options.same = beyond;
  IS_ARG(mmc_chain_create_batch(c, MMC_F64, 2, dims, NULL, &options, &chain));
  options.same = negative;
  IS_ARG(mmc_chain_create_batch(c, MMC_F64, 2, dims, NULL, &options, &chain));
  options.size = 1;
  IS_ARG(mmc_chain_create_batch(c, MMC_F64, 2, dims, NULL, &options, &chain));
  IS_ARG(mmc_chain_parse(c, NULL, &chain));
  IS_ARG(mmc_chain_parse(c, "2x3", NULL));
  IS_ARG(mmc_chain_parse(NULL, "", &chain));
}

static void chain_values(fixture *f) {
  mmc_chain_destroy(NULL);
  IS_ZERO(mmc_chain_dtype(NULL));
  IS_ZERO(mmc_chain_length(NULL));
  assert_null(mmc_chain_dims(NULL));
  assert_null(mmc_chain_ops(NULL));
  IS_ZERO(mmc_chain_batch(NULL));
  assert_int_equal(mmc_chain_same(NULL, 0), -1);
  assert_int_equal(mmc_chain_same(f->chain, -1), -1);
  assert_int_equal(mmc_chain_same(f->chain, 2), -1);
  assert_int_equal(mmc_chain_same(f->chain, 99999), -1);
  assert_false(mmc_chain_shared(NULL, 0));
  assert_false(mmc_chain_shared(f->chain, -1));
  assert_false(mmc_chain_shared(f->chain, 99999));
  assert_int_equal(mmc_chain_stored(NULL, 0), -1);
  assert_int_equal(mmc_chain_stored(f->chain, -1), -1);
  assert_int_equal(mmc_chain_stored(f->chain, 99999), -1);
  int64_t inverses = -1;
  assert_int_equal(mmc_chain_traits(NULL, 0), 0);
  assert_int_equal(mmc_chain_traits(f->chain, -1), 0);
  assert_int_equal(mmc_chain_traits(f->chain, 99999), 0);
  IS_ZERO(mmc_chain_band(NULL, 0).below);
  IS_ZERO(mmc_chain_band(f->chain, -1).above);
  IS_ZERO(mmc_chain_band(f->chain, 99999).below);
  assert_null(mmc_chain_inverses(NULL, &inverses));
  assert_int_equal(inverses, 0);
  assert_null(mmc_chain_inverses(f->chain, NULL));
  IS_ZERO(mmc_chain_modulus(NULL));
  assert_false(mmc_chain_checked(NULL));
  assert_int_equal(mmc_chain_semiring(NULL), MMC_PLUS_TIMES);
  IS_ARG(mmc_chain_write(NULL, write_nowhere, NULL));
  IS_ARG(mmc_chain_write(f->chain, NULL, NULL));
}

static void plans(fixture *f) {
  mmc_plan *plan;
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  IS_ARG(mmc_plan_create(NULL, f->chain, NULL, &plan));
  IS_ARG(mmc_plan_create(f->context, NULL, NULL, &plan));
  IS_ARG(mmc_plan_create(f->context, f->chain, NULL, NULL));
  options.location = (mmc_location)BAD;
  IS_ARG(mmc_plan_create(f->context, f->chain, &options, &plan));
  options = (mmc_plan_options)MMC_PLAN_OPTIONS_INIT;
  options.on_chip_words = -1;
  options.objective = "traffic";
  IS_ARG(mmc_plan_create(f->context, f->chain, &options, &plan));
  options = (mmc_plan_options)MMC_PLAN_OPTIONS_INIT;
  options.max_slowdown = NAN;
  options.objective = "energy";
  IS_ARG(mmc_plan_create(f->context, f->chain, &options, &plan));
  options.size = 0;
  IS_ARG(mmc_plan_create(f->context, f->chain, &options, &plan));
  mmc_plan_destroy(NULL);
  IS_ARG(mmc_plan_read(NULL, "{}", 2, NULL, NULL, &plan));
  IS_ARG(mmc_plan_read(f->context, NULL, 2, NULL, NULL, &plan));
  IS_ARG(mmc_plan_read(f->context, "{}", 2, NULL, NULL, NULL));
  IS_ARG(mmc_plan_read(f->context, "{}", 2, NULL, &options, &plan));
  assert_int_equal(mmc_plan_read(f->context, "{}", 2, NULL, NULL, &plan), MMC_E_FORMAT);
  assert_int_equal(mmc_plan_read(f->context, "", 0, f->chain, NULL, &plan), MMC_E_FORMAT);
  IS_ARG(mmc_plan_explain(NULL, MMC_TEXT, write_nowhere, NULL));
  IS_ARG(mmc_plan_explain(f->plan, MMC_TEXT, NULL, NULL));
  IS_ARG(mmc_plan_explain(f->plan, (mmc_format)BAD, write_nowhere, NULL));
}

static void plan_values(fixture *f) {
  IS_ZERO(mmc_plan_chain(NULL));
  IS_ZERO(mmc_plan_multiplications(NULL).lo);
  IS_ZERO(mmc_plan_workspace_bytes(NULL));
  IS_EMPTY(mmc_plan_device(NULL));
  IS_ZERO(mmc_plan_device_count(NULL));
  IS_ZERO(mmc_plan_takes_line(NULL, 0));
  IS_ZERO(mmc_plan_takes_line(f->plan, -1));
  IS_ZERO(mmc_plan_takes_line(f->plan, 1 << 20));
  IS_EMPTY(mmc_plan_device_name(NULL, 0));
  IS_EMPTY(mmc_plan_device_name(f->plan, 1));
  IS_EMPTY(mmc_plan_device_name(f->plan, -1));
  IS_ZERO(mmc_plan_cut(NULL, 0));
  IS_ZERO(mmc_plan_cut(f->plan, INT64_MAX));
  IS_ZERO(mmc_plan_step_count(NULL));
  IS_ZERO(mmc_plan_traffic_words(NULL).lo);
  IS_NAN(mmc_plan_predicted_seconds(NULL));
  IS_NAN(mmc_plan_error_bound(NULL));
  IS_NAN(mmc_plan_predicted_joules(NULL));
  const int64_t wrong[] = {-1, 1, INT64_MAX, INT64_MIN};
  mmc_step step;
  mmc_step_traffic traffic;
  mmc_step_time time;
  mmc_step_energy energy;
  for (int w = 0; w < 4; w++) {
    IS_ARG(mmc_plan_step(f->plan, wrong[w], &step));
    IS_EMPTY(mmc_plan_step_kernel(f->plan, wrong[w]));
    IS_ZERO(mmc_count_to_double(mmc_plan_step_multiplications(f->plan, wrong[w])));
    IS_ARG(mmc_plan_step_traffic(f->plan, wrong[w], &traffic));
    IS_ARG(mmc_plan_step_time(f->plan, wrong[w], &time));
    IS_ARG(mmc_plan_step_energy(f->plan, wrong[w], &energy));
  }
  IS_ARG(mmc_plan_step(NULL, 0, &step));
  IS_ARG(mmc_plan_step(f->plan, 0, NULL));
  IS_EMPTY(mmc_plan_step_kernel(NULL, 0));
  IS_ZERO(mmc_count_to_double(mmc_plan_step_multiplications(NULL, 0)));
  IS_ARG(mmc_plan_step_traffic(NULL, 0, &traffic));
  IS_ARG(mmc_plan_step_traffic(f->plan, 0, NULL));
  mmc_roofline roofline;
  IS_ARG(mmc_plan_roofline(NULL, &roofline));
  IS_ARG(mmc_plan_roofline(f->plan, NULL));
  IS_ARG(mmc_plan_roofline(f->plan, &roofline)); /* of another objective */
  IS_ARG(mmc_plan_step_time(NULL, 0, &time));
  IS_ARG(mmc_plan_step_time(f->plan, 0, NULL));
  IS_ARG(mmc_plan_step_energy(NULL, 0, &energy));
  IS_ARG(mmc_plan_step_energy(f->plan, 0, NULL));
}

static void runs(fixture *f) {
  mmc_run *run;
  double b[12] = {0}, c[8];
  mmc_matrix factors[] = {f->matrix, {.data = b, .rows = 3, .cols = 4}};
  mmc_matrix out = {.data = c, .rows = 2, .cols = 4}, bad = out;
  IS_ARG(mmc_run_create(NULL, &run));
  IS_ARG(mmc_run_create(f->plan, NULL));
  mmc_run_destroy(NULL);
  IS_ARG(mmc_execute(NULL, factors, &out));
  IS_ARG(mmc_execute(f->run, NULL, &out));
  IS_ARG(mmc_execute(f->run, factors, NULL));
  IS_ARG(mmc_multiply(NULL, f->chain, NULL, factors, &out));
  IS_ARG(mmc_multiply(f->context, NULL, NULL, factors, &out));
  IS_ARG(mmc_multiply(f->context, f->chain, NULL, NULL, &out));
  IS_ARG(mmc_multiply(f->context, f->chain, NULL, factors, NULL));
  int64_t exponents[4];
  IS_ARG(mmc_execute_scaled(NULL, factors, &out, exponents));
  IS_ARG(mmc_execute_scaled(f->run, factors, &out, exponents)); /* its plan is not scaled */
  IS_ARG(mmc_enqueue(NULL, NULL, factors, &out));
  IS_ARG(mmc_enqueue(f->run, NULL, NULL, &out));
  IS_ARG(mmc_enqueue(f->run, NULL, factors, NULL));
  bad.ld = -1;
  IS_ARG(mmc_execute(f->run, factors, &bad));
  bad = out;
  bad.rows = INT64_MIN;
  IS_ARG(mmc_execute(f->run, factors, &bad));
  bad = out;
  bad.location = (mmc_location)BAD;
  IS_ARG(mmc_execute(f->run, factors, &bad));
  bad = out;
  bad.layout = (mmc_layout)-1;
  IS_ARG(mmc_execute(f->run, factors, &bad));
  const mmc_pieces pieces[] = {{MMC_CUT_NONE, factors}, {MMC_CUT_NONE, &factors[1]}};
  IS_ARG(mmc_execute_pieces(NULL, pieces, pieces));
  IS_ARG(mmc_execute_pieces(f->run, NULL, pieces));
  IS_ARG(mmc_execute_pieces(f->run, pieces, NULL));
  IS_ARG(mmc_wait(NULL));
  mmc_run_progress(NULL, NULL, NULL);
}

static void memories(fixture *f) {
  mmc_memory *memory;
  char bytes[16] = {0};
  IS_ARG(mmc_memory_create(NULL, "ref", 8, &memory));
  IS_ARG(mmc_memory_create(f->context, "ref", 8, NULL));
  IS_ARG(mmc_memory_create(f->context, "abacus", 8, &memory));
  assert_int_equal(mmc_memory_create(f->context, "ref", SIZE_MAX, &memory), MMC_E_NOMEM);
  mmc_memory_destroy(NULL);
  assert_null(mmc_memory_address(NULL));
  IS_ARG(mmc_memory_write(NULL, 0, bytes, 8));
  IS_ARG(mmc_memory_write(f->memory, 0, NULL, 8));
  IS_ARG(mmc_memory_write(f->memory, SIZE_MAX, bytes, 8));
  IS_ARG(mmc_memory_write(f->memory, 1, bytes, SIZE_MAX));
  IS_ARG(mmc_memory_read(NULL, 0, bytes, 8));
  IS_ARG(mmc_memory_read(f->memory, 0, NULL, 8));
  IS_ARG(mmc_memory_read(f->memory, 8, bytes, 1));
}

static void gradients(fixture *f) {
  mmc_gradients *g;
  double b[12] = {0}, c[8];
  mmc_matrix factors[] = {f->matrix, {.data = b, .rows = 3, .cols = 4}};
  mmc_matrix out = {.data = c, .rows = 2, .cols = 4}, bad = out;
  static _Alignas(64) char memory[1024];
  IS_ARG(mmc_gradients_create(NULL, NULL, &g));
  IS_ARG(mmc_gradients_create(f->plan, NULL, NULL));
  IS_ARG(mmc_gradients_create_within(NULL, NULL, MMC_NO_LIMIT, &g));
  IS_ARG(mmc_gradients_create_within(f->plan, NULL, MMC_NO_LIMIT, NULL));
  mmc_gradients_destroy(NULL);
  mmc_gradients_on_stream(NULL, NULL);
  mmc_gradients_progress(NULL, NULL, NULL);
  IS_ZERO(mmc_gradients_bytes(NULL));
  assert_true(mmc_gradients_offset(NULL, 0) == UINT64_MAX);
  assert_int_equal(mmc_gradients_create(f->plan, NULL, &g), MMC_OK);
  assert_true(mmc_gradients_bytes(g) <= sizeof memory);
  assert_true(mmc_gradients_offset(g, INT64_MIN) == UINT64_MAX);
  IS_ARG(mmc_gradients_forward(NULL, factors, memory, &out));
  IS_ARG(mmc_gradients_forward(g, NULL, memory, &out));
  IS_ARG(mmc_gradients_forward(g, factors, NULL, &out));
  IS_ARG(mmc_gradients_forward(g, factors, memory, NULL));
  bad.layout = (mmc_layout)BAD;
  IS_ARG(mmc_gradients_forward(g, factors, memory, &bad));
  IS_ARG(mmc_gradients_backward(g, factors, memory, &bad, NULL));
  IS_ARG(mmc_gradients_backward(NULL, factors, memory, &out, NULL));
  IS_ARG(mmc_gradients_backward(g, NULL, memory, &out, NULL));
  IS_ARG(mmc_gradients_backward(g, factors, NULL, &out, NULL));
  IS_ARG(mmc_gradients_backward(g, factors, memory, NULL, NULL));
  factors[1].ld = -1;
  IS_ARG(mmc_gradients_backward(g, factors, memory, &out, NULL));
  mmc_gradients_destroy(g);
}

static mmc_status refuse(void *user, const mmc_matrix *result) {
  (void)user;
  (void)result;
  return MMC_E_ARG;
}

static void teams(fixture *f) {
  mmc_context *c = f->context;
  mmc_team *team;
  char text[8];
  IS_ARG(mmc_team_open(NULL, "scalapack", NULL, &team));
  IS_ARG(mmc_team_open(c, "scalapack", NULL, NULL));
  IS_ARG(mmc_team_open(c, NULL, NULL, &team));
  IS_ARG(mmc_team_open(c, "abacus", NULL, &team));
  IS_ARG(mmc_team_gather(NULL, text, sizeof text, text));
  IS_ARG(mmc_team_agree(NULL, MMC_OK, NULL));
  IS_ARG(mmc_team_calibrate(NULL, MMC_F64));
  mmc_engine_info info;
  IS_ARG(mmc_engine_describe(NULL, 0, &info));
  IS_ARG(mmc_engine_describe(f->context, 0, NULL));
  IS_ARG(mmc_engine_describe(f->context, -1, &info));
  IS_ARG(mmc_engine_describe(f->context, BAD, &info));
  assert_int_equal(mmc_team_rank(NULL), 0);
  assert_int_equal(mmc_team_count(NULL), 0);
  assert_string_equal(mmc_team_describe(NULL, text, sizeof text), "");
  assert_null(mmc_team_describe(NULL, NULL, 0));
  mmc_team_close(NULL);
}

static void team_plans(fixture *f) {
  mmc_context *c = f->context;
  const int64_t dims[] = {2, 3, 4};
  mmc_team_options options = MMC_TEAM_OPTIONS_INIT;
  mmc_team_plan *plan;
  mmc_chain *chain, *integers, *batch;
  mmc_piece piece;
  mmc_matrix a = {0};
  assert_int_equal(mmc_chain_create(c, MMC_F64, 2, dims, NULL, &chain), MMC_OK);
  assert_int_equal(mmc_chain_parse(c, "i64:2x3x4", &integers), MMC_OK);
  assert_int_equal(mmc_chain_parse(c, "f64:2x3x4@5", &batch), MMC_OK);
  options.ranks = 4;
  IS_ARG(mmc_team_plan_create(NULL, NULL, chain, &options, &plan));
  IS_ARG(mmc_team_plan_create(c, NULL, NULL, &options, &plan));
  IS_ARG(mmc_team_plan_create(c, NULL, chain, &options, NULL));
  IS_ARG(mmc_team_plan_create(c, NULL, chain, NULL, &plan));
  assert_int_equal(mmc_team_plan_create(c, NULL, integers, &options, &plan), MMC_E_UNSUPPORTED);
  assert_int_equal(mmc_team_plan_create(c, NULL, batch, &options, &plan), MMC_E_UNSUPPORTED);
  options.ranks = INT32_MAX;
  IS_ARG(mmc_team_plan_create(c, NULL, chain, &options, &plan));
  options.ranks = 4;
  options.engine = "abacus";
  IS_ARG(mmc_team_plan_create(c, NULL, chain, &options, &plan));
  options.engine = NULL;
  options.objective = "beauty";
  IS_ARG(mmc_team_plan_create(c, NULL, chain, &options, &plan));
  options.objective = NULL;
  options.solver = "abacus";
  IS_ARG(mmc_team_plan_create(c, NULL, chain, &options, &plan));
  options.solver = NULL;
  options.byte_s = 1e-9; /* one rate without the others */
  IS_ARG(mmc_team_plan_create(c, NULL, chain, &options, &plan));
  options.flops_per_s = 1e10;
  options.message_s = NAN;
  IS_ARG(mmc_team_plan_create(c, NULL, chain, &options, &plan));
  options.message_s = -1e-6;
  IS_ARG(mmc_team_plan_create(c, NULL, chain, &options, &plan));
  options.flops_per_s = options.byte_s = options.message_s = 0;
  mmc_spread spreads[2] = {{MMC_SPREAD_ROWS, 0, 0}, {(mmc_spread_kind)BAD, 0, 0}};
  options.factors = spreads;
  IS_ARG(mmc_team_plan_create(c, NULL, chain, &options, &plan));
  spreads[1] = (mmc_spread){MMC_SPREAD_GRID, 3, 2};
  IS_ARG(mmc_team_plan_create(c, NULL, chain, &options, &plan));
  spreads[1] = (mmc_spread){MMC_SPREAD_GRID, INT32_MAX, INT32_MAX};
  IS_ARG(mmc_team_plan_create(c, NULL, chain, &options, &plan));
  options.factors = NULL;
  options.rank_bytes = 8;
  assert_int_equal(mmc_team_plan_create(c, NULL, chain, &options, &plan), MMC_E_MEMORY_LIMIT);
  options.rank_bytes = MMC_NO_LIMIT;
  assert_int_equal(mmc_team_plan_create(c, NULL, chain, &options, &plan), MMC_OK);
  IS_ARG(mmc_team_plan_explain(NULL, MMC_TEXT, write_nowhere, NULL));
  IS_ARG(mmc_team_plan_explain(plan, MMC_TEXT, NULL, NULL));
  IS_ARG(mmc_team_plan_explain(plan, MMC_SVG, write_nowhere, NULL));
  IS_ARG(mmc_team_plan_piece(NULL, -1, 0, &piece));
  IS_ARG(mmc_team_plan_piece(plan, -1, 0, NULL));
  IS_ARG(mmc_team_plan_piece(plan, -2, 0, &piece));
  IS_ARG(mmc_team_plan_piece(plan, 0, 0, &piece));
  IS_ARG(mmc_team_plan_piece(plan, 2, 0, &piece));
  IS_ARG(mmc_team_plan_piece(plan, -1, 4, &piece));
  IS_ARG(mmc_team_plan_piece(plan, -1, -1, &piece));
  IS_ARG(mmc_team_execute(NULL, &a, &a));
  IS_ARG(mmc_team_execute(plan, &a, &a)); /* it has no team */
  IS_ARG(mmc_team_write(NULL, "R.npy", &a, 2, refuse, NULL));
  IS_ARG(mmc_team_write(plan, "R.npy", &a, 2, refuse, NULL));
  assert_true(mmc_count_to_double(mmc_team_plan_words(NULL)) == 0);
  assert_true(isnan(mmc_team_plan_predicted_seconds(NULL)));
  assert_true(mmc_team_plan_rank_bytes(NULL) == 0);
  mmc_team_plan_destroy(NULL);
  mmc_team_plan_destroy(plan);
  mmc_chain_destroy(chain);
  mmc_chain_destroy(integers);
  mmc_chain_destroy(batch);
}

static void ranges(fixture *f) {
  mmc_context *c = f->context;
  mmc_ranges *r;
  mmc_ranges_info info;
  mmc_ranges_options options = MMC_RANGES_OPTIONS_INIT;
  double one = 1, out;
  const int64_t index = 0;
  const mmc_matrix a = {.data = &one, .rows = 1, .cols = 1};
  mmc_matrix bad = a, to = a;
  to.data = &out;
  IS_ARG(mmc_ranges_create(NULL, MMC_F64, 1, NULL, &r));
  IS_ARG(mmc_ranges_create(c, MMC_F64, 1, NULL, NULL));
  IS_ARG(mmc_ranges_create(c, (mmc_dtype)BAD, 1, NULL, &r));
  IS_ARG(mmc_ranges_create(c, MMC_F64, INT64_MIN, NULL, &r));
  IS_ARG(mmc_ranges_create(c, MMC_F64, INT64_MAX, NULL, &r));
  options.device = "abacus";
  IS_ARG(mmc_ranges_create(c, MMC_F64, 1, &options, &r));
  options.size = BAD;
  IS_ARG(mmc_ranges_create(c, MMC_F64, 1, &options, &r));
  assert_int_equal(mmc_ranges_create(c, MMC_F64, 1, NULL, &r), MMC_OK);
  IS_ARG(mmc_ranges_append(NULL, 1, &a));
  IS_ARG(mmc_ranges_append(r, 1, NULL));
  IS_ARG(mmc_ranges_append(r, INT64_MIN, &a));
  assert_int_equal(mmc_ranges_append(r, 1, &a), MMC_OK);
  IS_ARG(mmc_ranges_update(NULL, 1, &index, &a));
  IS_ARG(mmc_ranges_update(r, 1, NULL, &a));
  IS_ARG(mmc_ranges_update(r, 1, &index, NULL));
  IS_ARG(mmc_ranges_update(r, -1, &index, &a));
  bad.layout = (mmc_layout)BAD;
  IS_ARG(mmc_ranges_update(r, 1, &index, &bad));
  bad = a;
  bad.location = (mmc_location)BAD;
  IS_ARG(mmc_ranges_update(r, 1, &index, &bad));
  bad = a;
  bad.ld = -1;
  IS_ARG(mmc_ranges_update(r, 1, &index, &bad));
  bad.ld = INT64_MAX;
  IS_ARG(mmc_ranges_update(r, 1, &index, &bad));
  IS_ARG(mmc_ranges_pop_front(NULL, 0));
  IS_ARG(mmc_ranges_pop_front(r, INT64_MAX));
  IS_ARG(mmc_ranges_product(NULL, 0, 1, &to));
  IS_ARG(mmc_ranges_product(r, 0, 1, NULL));
  int64_t exponent;
  IS_ARG(mmc_ranges_product_scaled(NULL, 0, 1, &to, &exponent));
  IS_ARG(mmc_ranges_product_scaled(r, 0, 1, &to, NULL));
  IS_ARG(mmc_ranges_product_scaled(r, 0, 1, &to, &exponent)); /* it is not scaled */
  IS_ARG(mmc_ranges_product(r, INT64_MIN, 1, &to));
  IS_ARG(mmc_ranges_product(r, 0, INT64_MAX, &to));
  IS_ARG(mmc_ranges_describe(NULL, &info));
  IS_ARG(mmc_ranges_describe(r, NULL));
  mmc_ranges_destroy(NULL);
  mmc_ranges_on_stream(NULL, NULL);
  mmc_ranges_progress(NULL, NULL, NULL);
  mmc_ranges_destroy(r);
}

static void orders(fixture *f) {
  const int64_t dims[] = {2, 3, 4}, wrong[] = {2, INT64_MIN, 4};
  mmc_order *order;
  mmc_order_options options = MMC_ORDER_OPTIONS_INIT;
  IS_ARG(mmc_order_create(NULL, 2, dims, NULL, &order));
  IS_ARG(mmc_order_create(f->context, 2, NULL, NULL, &order));
  IS_ARG(mmc_order_create(f->context, 2, dims, NULL, NULL));
  IS_ARG(mmc_order_create(f->context, 2, wrong, NULL, &order));
  IS_ARG(mmc_order_create(f->context, INT64_MIN, dims, NULL, &order));
  IS_ARG(mmc_order_create(f->context, (int64_t)1 << 40, dims, NULL, &order));
  options.threads = -1;
  IS_ARG(mmc_order_create(f->context, 2, dims, &options, &order));
  options.size = BAD;
  IS_ARG(mmc_order_create(f->context, 2, dims, &options, &order));
  mmc_order_destroy(NULL);
}

static void order_values(fixture *f) {
  int64_t a, b, c;
  mmc_count m;
  IS_ZERO(mmc_order_length(NULL));
  IS_ZERO(mmc_order_multiplications(NULL).lo);
  IS_NAN(mmc_order_price(NULL));
  IS_NAN(mmc_order_seconds(NULL));
  IS_EMPTY(mmc_order_solver(NULL));
  IS_EMPTY(mmc_order_device(NULL));
  IS_EMPTY(mmc_order_kernel(NULL));
  IS_ARG(mmc_order_product(NULL, 0, &a, &b, &c));
  IS_ARG(mmc_order_product(f->order, 0, NULL, &b, &c));
  IS_ARG(mmc_order_product(f->order, 0, &a, NULL, &c));
  IS_ARG(mmc_order_product(f->order, 0, &a, &b, NULL));
  IS_ARG(mmc_order_product(f->order, -1, &a, &b, &c));
  IS_ARG(mmc_order_product(f->order, 1, &a, &b, &c));
  IS_ARG(mmc_order_entry(NULL, 1, 2, &m, &a));
  IS_ARG(mmc_order_entry(f->order, 1, 2, NULL, &a));
  IS_ARG(mmc_order_entry(f->order, 1, 2, &m, NULL));
  assert_int_equal(mmc_order_entry(f->order, -1, INT64_MAX, &m, &a), MMC_E_UNSUPPORTED);
  IS_ARG(mmc_order_write(NULL, MMC_ORDER_TEXT, write_nowhere, NULL));
  IS_ARG(mmc_order_write(f->order, MMC_ORDER_TEXT, NULL, NULL));
  IS_ARG(mmc_order_write(f->order, (mmc_order_format)BAD, write_nowhere, NULL));
}

static void meters(fixture *f) {
  mmc_meter_info info;
  mmc_meter *meter;
  mmc_energy energy;
  mmc_energy_options options = MMC_ENERGY_OPTIONS_INIT;
  IS_ARG(mmc_meter_describe(NULL, 0, &info));
  IS_ARG(mmc_meter_describe(f->context, 0, NULL));
  IS_ARG(mmc_meter_describe(f->context, -1, &info));
  IS_ARG(mmc_meter_describe(f->context, BAD, &info));
  IS_ARG(mmc_meter_open(NULL, "none", &meter));
  IS_ARG(mmc_meter_open(f->context, NULL, &meter));
  IS_ARG(mmc_meter_open(f->context, "none", NULL));
  IS_ARG(mmc_meter_open(f->context, "abacus", &meter));
  mmc_meter_destroy(NULL);
  IS_ARG(mmc_meter_measure(NULL, &options, &energy));
  IS_ARG(mmc_meter_measure(f->meter, NULL, &energy));
  IS_ARG(mmc_meter_measure(f->meter, &options, NULL));
  options.min_s = NAN;
  IS_ARG(mmc_meter_measure(f->meter, &options, &energy));
  options.size = BAD;
  IS_ARG(mmc_meter_measure(f->meter, &options, &energy));
}

static void wisdom(fixture *f) {
  mmc_wisdom_info info;
  mmc_wisdom_filter filter = {.size = BAD};
  char text[4];
  IS_ARG(mmc_wisdom_describe(NULL, &info));
  IS_ARG(mmc_wisdom_describe(f->context, NULL));
  assert_null(mmc_wisdom_notice(f->context, NULL, 4));
  assert_ptr_equal(mmc_wisdom_notice(f->context, text, 0), text);
  IS_EMPTY(mmc_wisdom_notice(NULL, text, sizeof text));
  IS_ARG(mmc_wisdom_write(NULL, MMC_TEXT, write_nowhere, NULL));
  IS_ARG(mmc_wisdom_write(f->context, MMC_TEXT, NULL, NULL));
  IS_ARG(mmc_wisdom_write(f->context, (mmc_format)BAD, write_nowhere, NULL));
  IS_ARG(mmc_wisdom_export(NULL, write_nowhere, NULL));
  IS_ARG(mmc_wisdom_export(f->context, NULL, NULL));
  IS_ARG(mmc_wisdom_import(NULL, read_nothing, NULL));
  IS_ARG(mmc_wisdom_import(f->context, NULL, NULL));
  IS_ARG(mmc_wisdom_forget(NULL, NULL, NULL));
  IS_ARG(mmc_wisdom_forget(f->context, &filter, NULL));
}

static void tuning(fixture *f) {
  mmc_tune_options options = MMC_TUNE_OPTIONS_INIT;
  mmc_tune_report report;
  IS_ARG(mmc_tune(NULL, &options, &report));
  IS_ARG(mmc_tune(f->context, NULL, &report));
  options.chain_count = 1;
  IS_ARG(mmc_tune(f->context, &options, &report));
  options = (mmc_tune_options)MMC_TUNE_OPTIONS_INIT;
  options.chain_count = -1;
  IS_ARG(mmc_tune(f->context, &options, &report));
  options = (mmc_tune_options)MMC_TUNE_OPTIONS_INIT;
  options.product_count = 1;
  IS_ARG(mmc_tune(f->context, &options, &report));
  options = (mmc_tune_options)MMC_TUNE_OPTIONS_INIT;
  options.range = -1;
  IS_ARG(mmc_tune(f->context, &options, &report));
  options.size = BAD;
  IS_ARG(mmc_tune(f->context, &options, &report));
}

static void kernels(fixture *f) {
  mmc_tune_product product = {.dtype = MMC_F64, .m = 2, .k = 3, .n = 4}, bad = product;
  mmc_kernel_info info;
  IS_ARG(mmc_kernel_describe(NULL, "ref", NULL, &product, 0, &info));
  IS_ARG(mmc_kernel_describe(f->context, "ref", NULL, NULL, 0, &info));
  IS_ARG(mmc_kernel_describe(f->context, "ref", NULL, &product, 0, NULL));
  IS_ARG(mmc_kernel_describe(f->context, "ref", NULL, &product, -1, &info));
  IS_ARG(mmc_kernel_describe(f->context, "ref", NULL, &product, BAD, &info));
  IS_ARG(mmc_kernel_describe(f->context, "abacus", NULL, &product, 0, &info));
  IS_ARG(mmc_kernel_describe(f->context, "ref", "exact", &product, 0, &info));
  bad.k = INT64_MIN;
  IS_ARG(mmc_kernel_describe(f->context, "ref", NULL, &bad, 0, &info));
  bad = product;
  bad.op_a = (mmc_op)BAD;
  IS_ARG(mmc_kernel_describe(f->context, "ref", NULL, &bad, 0, &info));
}

static void scans(fixture *f) {
  mmc_scan *scan = NULL;
  mmc_scan_options options = MMC_SCAN_OPTIONS_INIT;
  mmc_scan_operands operands = MMC_SCAN_OPERANDS_INIT;
  IS_ARG(mmc_scan_create(NULL, MMC_F64, 1, 4, NULL, &scan));
  IS_ARG(mmc_scan_create(f->context, MMC_F64, 1, 4, NULL, NULL));
  IS_ARG(mmc_scan_create(f->context, (mmc_dtype)BAD, 1, 4, NULL, &scan));
  IS_ARG(mmc_scan_create(f->context, MMC_F64, -1, 4, NULL, &scan));
  IS_ARG(mmc_scan_create(f->context, MMC_F64, 1, INT64_MAX, NULL, &scan));
  options.columns = 1; /* without an initial state */
  IS_ARG(mmc_scan_create(f->context, MMC_F64, 1, 4, &options, &scan));
  options = (mmc_scan_options)MMC_SCAN_OPTIONS_INIT;
  options.addend = true; /* without columns */
  IS_ARG(mmc_scan_create(f->context, MMC_F64, 1, 4, &options, &scan));
  options = (mmc_scan_options)MMC_SCAN_OPTIONS_INIT;
  options.device = "abacus";
  IS_ARG(mmc_scan_create(f->context, MMC_F64, 1, 4, &options, &scan));
  options.size = BAD;
  IS_ARG(mmc_scan_create(f->context, MMC_F64, 1, 4, &options, &scan));
  assert_int_equal(
      mmc_scan_create(f->context, MMC_F64, INT64_C(1) << 40, INT64_C(1) << 40, NULL, &scan),
      MMC_E_OVERFLOW);
  assert_int_equal(mmc_scan_create(f->context, MMC_F64, 1, 4, NULL, &scan), MMC_OK);
  IS_ARG(mmc_scan_explain(NULL, MMC_TEXT, write_nowhere, NULL));
  IS_ARG(mmc_scan_explain(scan, MMC_TEXT, NULL, NULL));
  IS_ARG(mmc_scan_explain(scan, MMC_SVG, write_nowhere, NULL));
  IS_ARG(mmc_scan_execute(NULL, &operands));
  IS_ARG(mmc_scan_execute(scan, NULL));
  IS_ARG(mmc_scan_execute(scan, &operands)); /* 0 x 0 matrices */
  operands.factors = operands.out = (mmc_matrix){.rows = 1, .cols = 1};
  operands.factors_step = operands.out_step = 1;
  IS_ARG(mmc_scan_execute(scan, &operands)); /* data NULL */
  operands.factors.data = f->data;
  operands.out.data = f->data + 3;
  IS_ARG(mmc_scan_execute(scan, &operands)); /* overlap */
  operands.out.data = f->data + 4;
  assert_int_equal(mmc_scan_execute(scan, &operands), MMC_OK);
  operands.out_step = 0;
  IS_ARG(mmc_scan_execute(scan, &operands));
  operands.out_step = INT64_MIN;
  IS_ARG(mmc_scan_execute(scan, &operands));
  operands.out_step = 1;
  operands.out.ld = -1;
  IS_ARG(mmc_scan_execute(scan, &operands));
  operands.out.ld = 0;
  operands.out.layout = (mmc_layout)BAD;
  IS_ARG(mmc_scan_execute(scan, &operands));
  operands.size = BAD;
  IS_ARG(mmc_scan_execute(scan, &operands));
  IS_ARG(mmc_scan_enqueue(NULL, NULL, &operands));
  IS_ARG(mmc_scan_enqueue(scan, NULL, NULL));
  IS_ARG(mmc_scan_wait(NULL));
  mmc_scan_progress(NULL, NULL, NULL);
  assert_int_equal(mmc_scan_wait(scan), MMC_OK);
  mmc_scan_destroy(scan);
  mmc_scan_destroy(NULL);
  /* Of one matrix the steps and strides lead nowhere, and may be anything. */
  options = (mmc_scan_options)MMC_SCAN_OPTIONS_INIT;
  options.reverse = true;
  assert_int_equal(mmc_scan_create(f->context, MMC_F64, 1, 1, &options, &scan), MMC_OK);
  operands = (mmc_scan_operands)MMC_SCAN_OPERANDS_INIT;
  operands.factors = (mmc_matrix){.data = f->data, .rows = 1, .cols = 1, .stride = INT64_MAX};
  operands.out = (mmc_matrix){.data = f->data + 4, .rows = 1, .cols = 1, .stride = INT64_MIN};
  operands.factors_step = INT64_MIN;
  operands.out_step = INT64_MAX;
  assert_int_equal(mmc_scan_execute(scan, &operands), MMC_OK);
  assert_true(f->data[4] == f->data[0]);
  mmc_scan_destroy(scan);
}

static void sparse(fixture *f) {
  mmc_context *c = f->context;
  const int32_t indptr[] = {0, 1}, indices[] = {0};
  const double values[] = {2};
  mmc_csr csr = {.rows = 1, .cols = 1, .index_bytes = 4};
  mmc_sparse_factor factor = {.csr = &csr};
  mmc_sparse_chain *chain = NULL;
  mmc_sparse *made = NULL;
  IS_ARG(mmc_sparse_chain_create(NULL, MMC_F64, 1, &factor, NULL, &chain));
  IS_ARG(mmc_sparse_chain_create(c, MMC_F64, 1, &factor, NULL, NULL));
  IS_ARG(mmc_sparse_chain_create(c, MMC_F64, 1, NULL, NULL, &chain));
  IS_ARG(mmc_sparse_chain_create(c, MMC_F64, -1, &factor, NULL, &chain));
  IS_ARG(mmc_sparse_chain_create(c, MMC_F64, 1, &factor, NULL, &chain)); /* indptr NULL */
  csr.indptr = indptr;
  IS_ARG(mmc_sparse_chain_create(c, MMC_F64, 1, &factor, NULL, &chain)); /* indices NULL */
  csr.indices = indices;
  csr.values = values;
  csr.rows = INT64_MIN;
  IS_ARG(mmc_sparse_chain_create(c, MMC_F64, 1, &factor, NULL, &chain));
  csr.rows = 1;
  void *addresses[] = {&f->matrix};
  const mmc_matrix table = {.rows = 1, .cols = 1, .addresses = addresses};
  const mmc_sparse_factor at_addresses = {.dense = &table};
  IS_ARG(mmc_sparse_chain_create(c, MMC_F64, 1, &at_addresses, NULL, &chain));
  assert_int_equal(mmc_sparse_chain_create(c, MMC_F64, 1, &factor, NULL, &chain), MMC_OK);
  IS_ARG(mmc_sparse_chain_explain(NULL, MMC_TEXT, write_nowhere, NULL));
  IS_ARG(mmc_sparse_chain_explain(chain, MMC_TEXT, NULL, NULL));
  IS_ARG(mmc_sparse_chain_execute(NULL, &factor, NULL, &made));
  IS_ARG(mmc_sparse_chain_execute(chain, NULL, NULL, &made));
  IS_ARG(mmc_sparse_chain_execute(chain, &factor, NULL, NULL));
  assert_true(mmc_sparse_chain_multiplications(NULL) == 0);
  mmc_sparse_chain_progress(NULL, NULL, NULL);
  mmc_sparse_chain_destroy(chain);
  mmc_sparse_chain_destroy(NULL);
  assert_false(mmc_sparse_is_file(c, NULL));
  IS_ARG(mmc_sparse_open(c, NULL, &made));
  IS_ARG(mmc_sparse_open(c, "/dev/null", NULL));
  IS_ARG(mmc_sparse_write(c, NULL, MMC_F64, &csr));
  IS_ARG(mmc_sparse_write(c, "/dev/null", MMC_F64, NULL));
  IS_ARG(mmc_sparse_write(c, "/dev/null", (mmc_dtype)BAD, &csr));
  IS_ZERO(mmc_sparse_dtype(NULL));
  assert_null(mmc_sparse_csr(NULL).indptr);
  mmc_sparse_destroy(NULL);
}

static void files(fixture *f) {
  mmc_file *file;
  IS_ARG(mmc_file_open(f->context, NULL, &file));
  IS_ARG(mmc_file_open(f->context, "/dev/null", NULL));
  mmc_file_format_info info;
  IS_ARG(mmc_file_format_describe(NULL, 0, &info));
  IS_ARG(mmc_file_format_describe(f->context, 0, NULL));
  IS_ARG(mmc_file_format_describe(f->context, -1, &info));
  IS_ARG(mmc_file_format_describe(f->context, BAD, &info));
  size_t length = BAD;
  assert_null(mmc_file_format(NULL, &length));
  IS_ZERO(length);
  assert_string_equal(mmc_file_format("a.npy", NULL), "npy");
  assert_string_equal(mmc_file_format("A.NPZ:w.npy", &length), "npz");
  assert_int_equal(length, 5);
  mmc_file_destroy(NULL);
  IS_ZERO(mmc_file_dtype(NULL));
  IS_ZERO(mmc_file_ndim(NULL));
  assert_null(mmc_file_shape(NULL));
  mmc_matrix none = mmc_file_matrix(NULL);
  assert_true(none.data == NULL && none.rows == 0 && none.cols == 0);
}

static void file_output(fixture *f) {
  mmc_context *c = f->context;
  const mmc_matrix *m = &f->matrix;
  const int64_t shape[] = {1, 2, 3}, wrong[] = {-1, 2, -3};
  IS_ARG(mmc_file_write(c, NULL, MMC_F64, m, 2));
  IS_ARG(mmc_file_write(c, "/dev/null", MMC_F64, NULL, 2));
  IS_ARG(mmc_file_write(c, "/dev/null", (mmc_dtype)BAD, m, 2));
  IS_ARG(mmc_file_write(c, "/dev/null", MMC_F64, m, -1));
  IS_ARG(mmc_file_write(NULL, "/dev/null", MMC_F64, m, 3));
  IS_ARG(mmc_file_stream(c, MMC_F64, NULL, 2, write_nowhere, NULL));
  IS_ARG(mmc_file_stream(c, MMC_F64, m, 2, NULL, NULL));
  IS_ARG(mmc_file_stream(c, MMC_F64, m, 1, write_nowhere, NULL));
  IS_ARG(mmc_file_write_stack(c, NULL, MMC_F64, m, 1, 3, shape));
  IS_ARG(mmc_file_write_stack(c, "/dev/null", MMC_F64, NULL, 1, 3, shape));
  IS_ARG(mmc_file_write_stack(c, "/dev/null", MMC_F64, m, 1, 3, NULL));
  IS_ARG(mmc_file_write_stack(c, "/dev/null", MMC_F64, m, -1, 3, shape));
  IS_ARG(mmc_file_write_stack(c, "/dev/null", MMC_F64, m, 1, 65, shape));
  IS_ARG(mmc_file_write_stack(c, "/dev/null", MMC_F64, m, 1, 3, wrong));
  IS_ARG(mmc_file_stream_as(c, NULL, MMC_F64, m, 1, 3, shape, write_nowhere, NULL));
  IS_ARG(mmc_file_stream_as(c, "a.npy", MMC_F64, NULL, 1, 3, shape, write_nowhere, NULL));
  IS_ARG(mmc_file_stream_as(c, "a.npy", MMC_F64, m, 1, 3, shape, NULL, NULL));
  IS_ARG(mmc_file_check_output(c, NULL));
  IS_ARG(mmc_file_stream_stack(c, MMC_F64, NULL, 1, 3, shape, write_nowhere, NULL));
  IS_ARG(mmc_file_stream_stack(c, MMC_F64, m, 1, 3, NULL, write_nowhere, NULL));
  IS_ARG(mmc_file_stream_stack(c, MMC_F64, m, 1, 3, shape, NULL, NULL));
  IS_ARG(mmc_file_stream_stack(c, MMC_F64, m, INT64_MAX, 3, shape, write_nowhere, NULL));
}

/* ---- all of them ----------------------------------------------------------------------------- */

static const struct {
  void (*test)(fixture *f);
  const char *functions; /* what it calls, each between spaces */
} rows[] = {
    {version, " mmc_version "},
    {status_string, " mmc_status_string "},
    {counts, " mmc_count_format mmc_count_to_double "},
    {contexts, " mmc_context_create mmc_context_destroy mmc_context_message mmc_context_argument "},
    {devices, " mmc_device_describe "},
    {dtypes, " mmc_dtype_name mmc_dtype_size mmc_semiring_name "},
    {stacks, " mmc_matrix_stack mmc_matrix_chain "},
    {chains, " mmc_chain_create mmc_chain_create_batch mmc_chain_parse "},
    {chain_values,
     " mmc_chain_destroy mmc_chain_dtype mmc_chain_length mmc_chain_dims "
     "mmc_chain_ops mmc_chain_batch mmc_chain_same mmc_chain_shared mmc_chain_stored "
     "mmc_chain_traits "
     "mmc_chain_band "
     "mmc_chain_inverses "
     "mmc_chain_modulus mmc_chain_checked mmc_chain_semiring "
     "mmc_chain_write "},
    {plans, " mmc_plan_read mmc_plan_create mmc_plan_destroy mmc_plan_explain "},
    {plan_values,
     " mmc_plan_chain mmc_plan_multiplications mmc_plan_workspace_bytes mmc_plan_device "
     "mmc_plan_device_count mmc_plan_device_name mmc_plan_cut mmc_plan_takes_line "
     "mmc_plan_step_count mmc_plan_step mmc_plan_step_multiplications "
     "mmc_plan_step_kernel mmc_plan_traffic_words "
     "mmc_plan_step_traffic mmc_plan_predicted_seconds mmc_plan_error_bound "
     "mmc_plan_step_time "
     "mmc_plan_roofline "
     "mmc_plan_predicted_joules mmc_plan_step_energy "},
    {runs,
     " mmc_run_create mmc_run_destroy mmc_run_progress mmc_execute mmc_execute_scaled "
     "mmc_multiply "
     "mmc_execute_pieces mmc_enqueue mmc_wait "},
    {memories,
     " mmc_memory_create mmc_memory_destroy mmc_memory_address mmc_memory_write "
     "mmc_memory_read "},
    {gradients,
     " mmc_gradients_create mmc_gradients_create_within mmc_gradients_destroy "
     "mmc_gradients_bytes mmc_gradients_offset "
     "mmc_gradients_on_stream mmc_gradients_progress "
     "mmc_gradients_forward mmc_gradients_backward "},
    {teams,
     " mmc_engine_describe mmc_team_open mmc_team_close mmc_team_rank mmc_team_count "
     "mmc_team_describe "
     "mmc_team_gather mmc_team_agree mmc_team_calibrate "},
    {team_plans,
     " mmc_team_plan_create mmc_team_plan_destroy mmc_team_plan_explain mmc_team_plan_words "
     "mmc_team_plan_predicted_seconds mmc_team_plan_rank_bytes mmc_team_plan_piece "
     "mmc_team_execute mmc_team_write "},
    {ranges,
     " mmc_ranges_create mmc_ranges_destroy mmc_ranges_on_stream mmc_ranges_progress "
     "mmc_ranges_append "
     "mmc_ranges_update "
     "mmc_ranges_pop_front "
     "mmc_ranges_product mmc_ranges_product_scaled mmc_ranges_describe "},
    {orders, " mmc_order_create mmc_order_destroy "},
    {order_values,
     " mmc_order_length mmc_order_multiplications mmc_order_price mmc_order_seconds "
     "mmc_order_solver mmc_order_device mmc_order_kernel mmc_order_product "
     "mmc_order_entry mmc_order_write "},
    {meters, " mmc_meter_describe mmc_meter_open mmc_meter_destroy mmc_meter_measure "},
    {wisdom,
     " mmc_wisdom_describe mmc_wisdom_notice mmc_wisdom_write mmc_wisdom_export "
     "mmc_wisdom_import mmc_wisdom_forget "},
    {tuning, " mmc_tune "},
    {kernels, " mmc_kernel_describe "},
    {scans,
     " mmc_scan_create mmc_scan_destroy mmc_scan_explain mmc_scan_execute mmc_scan_enqueue "
     "mmc_scan_wait mmc_scan_progress "},
    {sparse,
     " mmc_sparse_destroy mmc_sparse_dtype mmc_sparse_csr mmc_sparse_is_file mmc_sparse_open "
     "mmc_sparse_write mmc_sparse_chain_create mmc_sparse_chain_destroy mmc_sparse_chain_progress "
     "mmc_sparse_chain_explain "
     "mmc_sparse_chain_multiplications mmc_sparse_chain_execute "},
    {files,
     " mmc_file_open mmc_file_destroy mmc_file_dtype mmc_file_ndim mmc_file_shape "
     "mmc_file_matrix mmc_file_format_describe mmc_file_format "},
    {file_output,
     " mmc_file_write mmc_file_stream mmc_file_write_stack mmc_file_stream_stack "
     "mmc_file_stream_as mmc_file_check_output "},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

static void bad_arguments_are_answered(void **state) {
  for (int r = 0; r < ROWS; r++) rows[r].test(*state);
}

static bool has_row(const char *function) {
  char between[300];
  snprintf(between, sizeof between, " %s ", function);
  bool found = false;
  for (int r = 0; r < ROWS; r++) found = found || strstr(rows[r].functions, between) != NULL;
  return found;
}

/* A declaration of the header begins with MMC_API and has its name before the first parenthesis. */
static void every_function_has_a_row(void **state) {
  (void)state;
  FILE *header = fopen(MMC_HEADER, "r");
  assert_non_null(header);
  char line[256];
  int functions = 0;
  while (fgets(line, sizeof line, header) != NULL) {
    char *end = strchr(line, '(');
    if (strncmp(line, "MMC_API ", 8) != 0 || end == NULL) continue;
    *end = '\0';
    while (end > line && end[-1] != ' ' && end[-1] != '*') end--;
    if (!has_row(end)) fail_msg("%s has no row here", end);
    functions++;
  }
  fclose(header);
  assert_true(functions > 70);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(bad_arguments_are_answered, set_up, tear_down),
      cmocka_unit_test(every_function_has_a_row),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

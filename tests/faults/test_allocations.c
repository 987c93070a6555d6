/* test_allocations.c: what the library does, once with each of its allocations failing (failing.h).
 * Teams of ranks and the wisdom store have tests of their own, test_team_allocations.c and
 * test_store_allocations.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "device/device.h"
#include "failing.h"
#include "meter/measure.h"
#include "mmchain.h"

/* ---- scenarios ----------------------------------------------------------------------------- */

static mmc_status multiply(const char *text, const char *solver, const char *device, int limited) {
  mmc_status status;
  mmc_context *context = NULL;
  mmc_chain *chain = NULL;
  mmc_plan *plan = NULL;
  mmc_run *run = NULL;
  TRY(mmc_context_create(NULL, &context), context, mmc_context);
  TRY(mmc_chain_parse(context, text, &chain), chain, mmc_chain);
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.solver = solver;
  options.device = device;
  if (limited) options.memory_limit_bytes = 1407;
  TRY(mmc_plan_create(context, chain, &options, &plan), plan, mmc_plan);
  for (int format = MMC_TEXT; format <= MMC_SVG; format++) {
    status = mmc_plan_explain(plan, (mmc_format)format, ignore, NULL);
    if (status != MMC_OK) goto end;
  }
  TRY(mmc_run_create(plan, &run), run, mmc_run);
  int64_t n = mmc_chain_length(chain);
  const int64_t *dims = mmc_chain_dims(chain);
  static double numbers[10000], result[10000];
  static mmc_matrix factors[100];
  for (int64_t i = 0; i < n; i++)
    factors[i] = (mmc_matrix){.data = numbers, .rows = dims[i], .cols = dims[i + 1]};
  mmc_matrix out = {.data = result, .rows = dims[0], .cols = dims[n]};
  long before = allocations_left;
  status = mmc_execute(run, factors, &out);
  /* Executing allocates nothing, but for the digits of integers, which what they are asks for, and
   * the room of a semiring's first product. */
  const bool first_takes = mmc_chain_semiring(chain) != MMC_PLUS_TIMES;
  const bool takes = mmc_chain_dtype(chain) >= MMC_I8 && !first_takes;
  assert_true(allocations_left == before || takes || first_takes);
  before = allocations_left;
  if (status == MMC_OK) status = mmc_execute(run, factors, &out);
  assert_true(allocations_left == before || takes);
end:
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  mmc_context_destroy(context);
  return status;
}

/* A long chain as one call of a device. */
static mmc_status one_call(const char *device) {
  enum { SIDE = 60, FACTORS = 24 };
  static double numbers[SIDE * SIDE], result[SIDE * SIDE];
  mmc_status status;
  mmci_error error;
  mmci_registry *registry = NULL;
  mmci_opened on = {0};
  mmci_queue *queue = NULL;
  mmci_group_kernel *kernel = NULL;
  mmci_form forms[FACTORS];
  mmci_group_product products[FACTORS - 1];
  const void *operands[FACTORS];
  for (int32_t f = 0; f < FACTORS; f++) {
    forms[f] = (mmci_form){.ld = SIDE, .trans = f % 2 != 0};
    operands[f] = numbers;
  }
  for (int32_t s = 0; s < FACTORS - 1; s++) /* neighbours in pairs */
    products[s] = (mmci_group_product){SIDE, SIDE, SIDE, 2 * s, 2 * s + 1};
  mmci_group chain = {.dtype = MMC_F64,
                      .batch = 1,
                      .n = FACTORS,
                      .count = FACTORS - 1,
                      .forms = forms,
                      .products = products,
                      .ldc = SIDE};
  TRY(mmci_registry_create("", &registry, &error), registry, mmci_registry);
  status = mmci_registry_open(registry, device, &on, &error);
  if (status != MMC_OK) goto end;
  TRY(on.ops->queue_open(on.device, &queue, &error), queue, mmci_queue);
  TRY(on.ops->group_prepare(on.device, &chain, &kernel, &error), kernel, mmci_group_kernel);
  long before = allocations_left;
  status = on.ops->group_enqueue(queue, kernel, operands, result, &error);
  assert_true(allocations_left == before);
end:
  if (kernel != NULL) on.ops->group_release(kernel);
  if (queue != NULL) on.ops->queue_close(queue);
  mmci_registry_destroy(registry);
  return status;
}

/* A product of whole numbers, some of which are left to FP64. */
static mmc_status whole_numbers(const char *device, mmc_dtype dtype) {
  enum { SIDE = 40 };
  static double numbers[2 * SIDE * SIDE], result[2 * SIDE * SIDE];
  mmc_status status;
  mmci_error error;
  mmci_registry *registry = NULL;
  mmci_opened on = {0};
  mmci_queue *queue = NULL;
  mmci_kernel *kernel = NULL;
  mmci_gemm gemm =
      mmci_gemm_tight(dtype, MMCI_REPRODUCIBLE_FAITHFUL, SIDE, SIDE, SIDE, MMC_OP_N, MMC_OP_N);
  gemm.sums = MMCI_SUMS_WHOLE;
  for (int i = 0; i < 2 * SIDE * SIDE; i++) numbers[i] = i == 5 ? (double)NAN : i % 7 - 2.5;
  TRY(mmci_registry_create("", &registry, &error), registry, mmci_registry);
  status = mmci_registry_open(registry, device, &on, &error);
  if (status != MMC_OK) goto end;
  TRY(on.ops->queue_open(on.device, &queue, &error), queue, mmci_queue);
  TRY(on.ops->prepare(on.device, &gemm, &kernel, &error), kernel, mmci_kernel);
  status = on.ops->enqueue(queue, kernel, numbers, numbers, result, &error);
end:
  if (kernel != NULL) on.ops->release(kernel);
  if (queue != NULL) on.ops->queue_close(queue);
  mmci_registry_destroy(registry);
  return status;
}

static mmc_status whole_numbers_on_cpu(void) {
  return whole_numbers("cpu", MMC_F64);
}
static mmc_status whole_numbers_on_ref(void) {
  return whole_numbers("ref", MMC_C128);
}

static mmc_status one_call_on_cpu(void) {
  return one_call("cpu");
}
static mmc_status one_call_on_ref(void) {
  return one_call("ref");
}
/* Of a batch at a stride, and of another at addresses, whose results are sorted. */
static mmc_status batch(void) {
  enum { BATCH = 5 };
  mmc_status status;
  mmc_context *context = NULL;
  mmc_chain *chain = NULL;
  mmc_plan *plan = NULL;
  mmc_run *run = NULL;
  static double numbers[20], result[BATCH * 6];
  static void *places[BATCH];
  const int64_t dims[] = {3, 3, 3, 2}, same[] = {0, 0, 2};
  mmc_chain_options chain_options = MMC_CHAIN_OPTIONS_INIT;
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  chain_options.batch = BATCH;
  chain_options.same = same;
  options.device = "ref";
  options.memory_limit_bytes = 300; /* two at a time, and one */
  TRY(mmc_context_create(NULL, &context), context, mmc_context);
  TRY(mmc_chain_create_batch(context, MMC_F64, 3, dims, NULL, &chain_options, &chain), chain,
      mmc_chain);
  TRY(mmc_plan_create(context, chain, &options, &plan), plan, mmc_plan);
  TRY(mmc_run_create(plan, &run), run, mmc_run);
  mmc_matrix factors[] = {{.data = numbers, .rows = 3, .cols = 3, .stride = 1},
                          {.data = numbers, .rows = 3, .cols = 3, .stride = 1},
                          {.data = numbers, .rows = 3, .cols = 2}};
  mmc_matrix out = {.data = result, .rows = 3, .cols = 2, .stride = 6};
  status = mmc_execute(run, factors, &out);
  long before = allocations_left;
  if (status == MMC_OK) status = mmc_execute(run, factors, &out);
  assert_true(allocations_left == before);
  for (int i = 0; i < BATCH; i++) places[i] = result + 6 * (i * 2 % BATCH);
  out.addresses = places;
  if (status == MMC_OK) status = mmc_execute(run, factors, &out);
end:
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  mmc_context_destroy(context);
  return status;
}

static mmc_status short_chain(void) {
  return multiply("f64:3x4x5x2:NNN", NULL, "cpu", 0);
}
static mmc_status reference_device(void) {
  return multiply("c64:3x4x5x2:NNN", NULL, "ref", 0);
}
static mmc_status one_factor(void) {
  return multiply("f64:3x4", NULL, NULL, 0);
}
static mmc_status integers(void) {
  return multiply("i64:70x70x70x3", NULL, "cpu", 0);
}
static mmc_status residues(void) {
  return multiply("i32%97:5x7x3", NULL, "cpu", 0);
}
static mmc_status semirings(void) {
  mmc_status status = multiply("f32~max-plus:30x40x50x3x20", NULL, "cpu", 0);
  if (status == MMC_OK) status = multiply("bool~or-and:9x9x9x9x9:TNTN", NULL, "cpu", 0);
  return status == MMC_OK ? multiply("f64~log:3x4x5x2", NULL, "ref", 0) : status;
}
static mmc_status brute_force(void) {
  return multiply("f64:3x4x5x2x6", "brute", NULL, 0);
}

static mmc_status long_chain(void) {
  static char text[1024] = "f64:1";
  if (strlen(text) < 100)
    for (int i = 0; i < 80; i++) snprintf(text + strlen(text), 16, "x%d", 1 + i * i % 17);
  return multiply(text, NULL, NULL, 0);
}

static mmc_status table_chain(void) {
  return multiply("f64:3x4x5x2x6x7x3", "table", NULL, 0);
}

/* The cheapest order needs 1408 bytes, another one 1024. */
static mmc_status limited_chain(void) {
  return multiply("f64:28x6x13x5x15", NULL, NULL, 1);
}

/* Four products, three results of which are there at once; within the limit a tree of six. */
static mmc_status power(void) {
  mmc_status status = multiply("f64:8x8^7", NULL, "ref", 0);
  return status == MMC_OK ? multiply("f64:8x8^7", NULL, "ref", 1) : status;
}

static mmc_status plan_traffic(const char *fuse) {
  mmc_status status;
  mmc_context *context = NULL;
  mmc_chain *chain = NULL;
  mmc_plan *plan = NULL;
  TRY(mmc_context_create(NULL, &context), context, mmc_context);
  TRY(mmc_chain_parse(context, "f32:30x35x15x5x10x20x25", &chain), chain, mmc_chain);
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.objective = "traffic";
  options.fuse = fuse;
  options.on_chip_words = 100;
  TRY(mmc_plan_create(context, chain, &options, &plan), plan, mmc_plan);
  for (int format = MMC_TEXT; format <= MMC_SVG; format++) {
    status = mmc_plan_explain(plan, (mmc_format)format, ignore, NULL);
    if (status != MMC_OK) goto end;
  }
end:
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  mmc_context_destroy(context);
  return status;
}

/* Within a limit that the order of least time may not keep to, and without. */
static mmc_status plan_for(const char *text, const char *objective, const char *precision) {
  mmc_status status;
  mmc_context *context = NULL;
  mmc_chain *chain = NULL;
  mmc_plan *plan = NULL;
  TRY(mmc_context_create(NULL, &context), context, mmc_context);
  TRY(mmc_chain_parse(context, text, &chain), chain, mmc_chain);
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.objective = objective;
  options.precision = precision;
  for (int limited = 0; limited < 2; limited++) {
    if (limited) options.memory_limit_bytes = mmc_plan_workspace_bytes(plan);
    mmc_plan_destroy(plan);
    plan = NULL;
    TRY(mmc_plan_create(context, chain, &options, &plan), plan, mmc_plan);
    status = mmc_plan_explain(plan, MMC_JSON, ignore, NULL);
    if (status != MMC_OK) goto end;
  }
end:
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  mmc_context_destroy(context);
  return status;
}

static mmc_status plan_time(void) {
  mmc_status status = plan_for("f64:900x6x13x800x15x4", "time", NULL);
  return status == MMC_OK ? plan_for("f64:20x20^9", "time", NULL) : status;
}
static mmc_status plan_energy(void) {
  mmc_status status = plan_for("f64:900x6x13x800x15x4", "energy", "fast");
  return status == MMC_OK ? plan_for("f64:20x20^9", "energy", "fast") : status;
}
static mmc_status traffic_exact(void) {
  return plan_traffic("exact");
}
static mmc_status traffic_joint(void) {
  return plan_traffic("joint");
}

static mmc_status devices(void) {
  mmc_status status;
  mmc_context *context = NULL;
  TRY(mmc_context_create(NULL, &context), context, mmc_context);
  mmc_device_info info;
  for (int i = 0; (status = mmc_device_describe(context, i, &info)) == MMC_OK; i++) {
  }
  if (status == MMC_E_ARG) status = MMC_OK; /* past the last */
end:
  mmc_context_destroy(context);
  return status;
}

static double price(void *user, int64_t i, int64_t k, int64_t j) {
  (void)user;
  return (double)(i * 7 + k * 5 % 11 + j);
}

static mmc_status solve_order(const char *solver, int64_t n, int keep_table, mmc_price_fn fn) {
  mmc_status status;
  mmc_context *context = NULL;
  mmc_order *order = NULL;
  int64_t dims[301];
  for (int64_t i = 0; i <= n; i++) dims[i] = 1 + i * i % 37;
  TRY(mmc_context_create(NULL, &context), context, mmc_context);
  mmc_order_options options = MMC_ORDER_OPTIONS_INIT;
  options.solver = solver;
  options.threads = 1;
  options.keep_table = keep_table;
  options.price = fn;
  TRY(mmc_order_create(context, n, dims, &options, &order), order, mmc_order);
  for (int format = MMC_ORDER_TEXT; format <= MMC_ORDER_BINARY; format++) {
    status = mmc_order_write(order, (mmc_order_format)format, ignore, NULL);
    if (status != MMC_OK) goto end;
  }
end:
  mmc_order_destroy(order);
  mmc_context_destroy(context);
  return status;
}

static mmc_status order_hu_shing(void) {
  return solve_order("hu-shing", 300, 0, NULL);
}
static mmc_status order_table(void) {
  return solve_order("table", 150, 1, NULL);
}
static mmc_status order_price(void) {
  return solve_order("table", 100, 0, price);
}
static mmc_status order_brute(void) {
  return solve_order("brute", 8, 0, NULL);
}
static mmc_status order_left(void) {
  return solve_order("left-to-right", 100, 0, NULL);
}

static mmc_status files_of(char *path) {
  mmc_status status;
  mmc_context *context = NULL;
  mmc_file *file = NULL;
  double numbers[6] = {1, 2, 3, 4, 5, 6};
  mmc_matrix matrix = {.data = numbers, .rows = 2, .cols = 3, .layout = MMC_COL_MAJOR};
  TRY(mmc_context_create(NULL, &context), context, mmc_context);
  status = mmc_file_write(context, path, MMC_F64, &matrix, 2);
  if (status != MMC_OK) goto end;
  status = mmc_file_stream(context, MMC_F64, &matrix, 2, ignore, NULL);
  if (status != MMC_OK) goto end;
  TRY(mmc_file_open(context, path, &file), file, mmc_file);
end:
  mmc_file_destroy(file);
  mmc_context_destroy(context);
  unlink(path);
  return status;
}
static mmc_status files(void) {
  char path[] = "test_allocations.npy";
  return files_of(path);
}
static mmc_status files_mtx(void) {
  char path[] = "test_allocations.mtx";
  return files_of(path);
}
static mmc_status files_npz(void) {
  char path[] = "test_allocations.npz";
#ifdef MMCI_ZLIB
  return files_of(path);
#else
  (void)path;
  return MMC_OK;
#endif
}

/* ---- energy -------------------------------------------------------------------------------- */

static mmc_status meters(void) {
  mmc_status status;
  mmc_context *context = NULL;
  mmc_meter *meter = NULL;
  static const char *const names[] = {"cpu", "cuda", "none"};
  TRY(mmc_context_create(NULL, &context), context, mmc_context);
  for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
    TRY(mmc_meter_open(context, names[n], &meter), meter, mmc_meter);
    mmc_meter_destroy(meter);
    meter = NULL;
  }
  mmc_meter_info info;
  for (int i = 0; (status = mmc_meter_describe(context, i, &info)) == MMC_OK; i++) continue;
  if (status == MMC_E_ARG) status = MMC_OK;
end:
  mmc_meter_destroy(meter);
  mmc_context_destroy(context);
  return status;
}

/* Time passes as it is asked for, so that everything happens in one thread. */
static double fake_now(void *user) {
  return *(double *)user;
}
static void fake_rest(void *user, double seconds) {
  *(double *)user += seconds;
}
static int fake_work(void *user) {
  *(double *)user += 0.03;
  return 0;
}

static mmc_status measuring(void) {
  mmci_error error = {0};
  mmci_meter *meter = NULL;
  mmc_energy energy = {.joules = 7};
  double time_s = 0;
  mmci_clock clock = {.now = fake_now, .rest = fake_rest, .user = &time_s};
  mmc_energy_options options = MMC_ENERGY_OPTIONS_INIT;
  options.min_s = 10; /* arrays grow more than once */
  options.work = fake_work;
  options.user = &time_s;
  char path[] = "test_allocations.recording";
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  for (int i = 0; i < 1000; i++)
    assert_true(fprintf(file, "%g %d 100 1500 2600 50 4\n", 0.05 * i, 5 * i) > 0);
  assert_int_equal(fclose(file), 0);
  mmc_status status =
      mmci_meter_replay.open(&(mmci_meter_source){.recording = path}, &meter, &error);
  assert_true(status == MMC_OK || meter == NULL);
  if (status == MMC_OK) {
    status = mmci_measure(&mmci_meter_replay, meter, &options, &clock, &energy, &error);
    mmci_meter_replay.close(meter);
    assert_true(status == MMC_OK ? energy.measured : energy.joules == 7);
  }
  unlink(path);
  return status;
}

/* A plan that is saved, and planned again. */
static int keep(void *user, const char *bytes, size_t size) {
  static size_t used;
  char *text = user;
  if (size == 0) used = 0;
  assert_true(used + size < 8192);
  memcpy(text + used, bytes, size);
  text[used += size] = '\0';
  return 0;
}

static mmc_status saved_plan(void) {
  static char text[8192];
  mmc_status status;
  mmc_context *context = NULL;
  mmc_chain *chain = NULL;
  mmc_plan *plan = NULL, *again = NULL;
  TRY(mmc_context_create(NULL, &context), context, mmc_context);
  TRY(mmc_chain_parse(context, "10x30x5x60", &chain), chain, mmc_chain);
  TRY(mmc_plan_create(context, chain, NULL, &plan), plan, mmc_plan);
  keep(text, "", 0);
  status = mmc_plan_explain(plan, MMC_JSON, keep, text);
  if (status == MMC_OK)
    TRY(mmc_plan_read(context, text, strlen(text), chain, NULL, &again), again, mmc_plan);
end:
  mmc_plan_destroy(plan);
  mmc_plan_destroy(again);
  mmc_chain_destroy(chain);
  mmc_context_destroy(context);
  return status;
}

/* Triangular, definite and inverse factors, a group, and a matrix that is there again transposed.
 */
static mmc_status structure_of(const char *text) {
  enum { SIDE = 4, FACTORS = 6 };
  static double identity[SIDE * SIDE], result[SIDE * SIDE];
  mmc_status status;
  mmc_context *context = NULL;
  mmc_chain *chain = NULL;
  mmc_plan *plan = NULL;
  mmc_run *run = NULL;
  mmc_matrix factors[FACTORS], out = {.data = result, .rows = SIDE, .cols = SIDE};
  for (int i = 0; i < SIDE; i++) identity[i * (SIDE + 1)] = 1;
  for (int f = 0; f < FACTORS; f++)
    factors[f] = (mmc_matrix){.data = identity, .rows = SIDE, .cols = SIDE};
  TRY(mmc_context_create(NULL, &context), context, mmc_context);
  TRY(mmc_chain_parse(context, text, &chain), chain, mmc_chain);
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.objective = "time";
  TRY(mmc_plan_create(context, chain, &options, &plan), plan, mmc_plan);
  for (int format = MMC_TEXT; format <= MMC_SVG; format++) {
    status = mmc_plan_explain(plan, (mmc_format)format, ignore, NULL);
    if (status != MMC_OK) goto end;
  }
  TRY(mmc_run_create(plan, &run), run, mmc_run);
  status = mmc_execute(run, factors, &out);
  if (status == MMC_OK) assert_memory_equal(result, identity, sizeof result);
end:
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  mmc_context_destroy(context);
  return status;
}

static mmc_status structure(void) {
  return structure_of("f64:4x4x4x4x4x4x4:lower.inv,(spd,N).inv,N,T,inv=1,2,3,4,4,6");
}

static mmc_status bands(void) {
  return structure_of(
      "f64:4x4x4x4x4x4x4:banded(1,2).inv,orthogonal.inv,tridiagonal,permutation,banded(2,0).inv,N");
}

/* Running products of a length that is worked through in levels, or a recurrence. */
static mmc_status scan_of(int64_t columns, mmc_semiring semiring, bool scaled) {
  enum { LENGTH = 500, SIDE = 3 };
  static double factors[LENGTH * SIDE * SIDE], result[LENGTH * SIDE * SIDE];
  static int64_t exponents[LENGTH];
  mmc_status status;
  mmc_context *context = NULL;
  mmc_scan *scan = NULL;
  mmc_scan_options options = MMC_SCAN_OPTIONS_INIT;
  mmc_scan_operands operands = MMC_SCAN_OPERANDS_INIT;
  options.columns = columns;
  options.initial = columns > 0;
  options.addend = columns > 0 && !scaled;
  options.semiring = semiring;
  options.scaled = scaled;
  const int64_t cols = columns > 0 ? columns : SIDE;
  operands.factors = (mmc_matrix){.data = factors, .rows = SIDE, .cols = SIDE};
  operands.factors_step = SIDE * SIDE;
  operands.initial = operands.addend = (mmc_matrix){.data = factors, .rows = SIDE, .cols = cols};
  operands.out = (mmc_matrix){.data = result, .rows = SIDE, .cols = cols};
  operands.out_step = SIDE * cols;
  operands.exponents = exponents;
  TRY(mmc_context_create(NULL, &context), context, mmc_context);
  TRY(mmc_scan_create(context, MMC_F64, SIDE, LENGTH, &options, &scan), scan, mmc_scan);
  status = mmc_scan_explain(scan, MMC_JSON, ignore, NULL);
  if (status == MMC_OK) status = mmc_scan_execute(scan, &operands);
  long before = allocations_left;
  if (status == MMC_OK) status = mmc_scan_execute(scan, &operands);
  assert_true(status != MMC_OK || allocations_left == before);
end:
  mmc_scan_destroy(scan);
  mmc_context_destroy(context);
  return status;
}
static mmc_status running_products(void) {
  mmc_status status = scan_of(0, MMC_PLUS_TIMES, false);
  if (status == MMC_OK) status = scan_of(0, MMC_MIN_PLUS, false);
  return status == MMC_OK ? scan_of(0, MMC_PLUS_TIMES, true) : status;
}
static mmc_status recurrence(void) {
  mmc_status status = scan_of(2, MMC_PLUS_TIMES, false);
  if (status == MMC_OK) status = scan_of(2, MMC_MAX_PLUS, false);
  return status == MMC_OK ? scan_of(2, MMC_PLUS_TIMES, true) : status;
}

/* A scaled chain, one of whose factors is so large that it is copied. */
static mmc_status scaled(void) {
  enum { N = 6, SIDE = 5, BATCH = 3 };
  static double numbers[SIDE * SIDE], large[SIDE * SIDE], result[BATCH * SIDE * SIDE];
  int64_t exponents[BATCH];
  mmc_status status;
  mmc_context *context = NULL;
  mmc_chain *chain = NULL;
  mmc_plan *plan = NULL;
  mmc_run *run = NULL;
  mmc_matrix factors[N];
  const mmc_matrix out = {.data = result, .rows = SIDE, .cols = SIDE, .stride = SIDE * SIDE};
  for (int e = 0; e < SIDE * SIDE; e++) {
    numbers[e] = e % 3;
    large[e] = 1e300 * (1 + e % 3);
  }
  for (int f = 0; f < N; f++)
    factors[f] = (mmc_matrix){.data = f % 2 ? large : numbers, .rows = SIDE, .cols = SIDE};
  TRY(mmc_context_create(NULL, &context), context, mmc_context);
  TRY(mmc_chain_parse(context, "f64:5x5x5x5x5x5x5@3", &chain), chain, mmc_chain);
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.scaled = true;
  TRY(mmc_plan_create(context, chain, &options, &plan), plan, mmc_plan);
  TRY(mmc_run_create(plan, &run), run, mmc_run);
  status = mmc_execute_scaled(run, factors, &out, exponents);
  for (int b = 0; status == MMC_OK && b < BATCH; b++) {
    assert_true(exponents[b] > 2000 && exponents[b] == exponents[0]);
    assert_true(result[b * SIDE * SIDE] > 0 && result[b * SIDE * SIDE] < 1e300);
  }
end:
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  mmc_context_destroy(context);
  return status;
}

static mmc_status product_of_range(mmc_ranges *ranges, int64_t first, int64_t end,
                                   const mmc_matrix *out, bool is_scaled) {
  int64_t exponent;
  return is_scaled ? mmc_ranges_product_scaled(ranges, first, end, out, &exponent)
                   : mmc_ranges_product(ranges, first, end, out);
}

/* A row that grows twice and is multiplied as one batch, or in blocks. */
static mmc_status ranges_within(uint64_t limit, bool is_scaled) {
  enum { COUNT = 40 };
  static double numbers[COUNT * 4], result[4];
  mmc_status status;
  mmc_context *context = NULL;
  mmc_ranges *ranges = NULL;
  mmc_matrix factors[COUNT], out = {.data = result, .rows = 2, .cols = 2};
  int64_t indices[COUNT];
  for (int i = 0; i < COUNT; i++) {
    indices[i] = i;
    factors[i] = (mmc_matrix){.data = numbers + 4 * i, .rows = 2, .cols = 2};
    for (int e = 0; e < 4; e++) numbers[4 * i + e] = e % 3 == 0;
  }
  TRY(mmc_context_create(NULL, &context), context, mmc_context);
  mmc_ranges_options options = MMC_RANGES_OPTIONS_INIT;
  options.memory_limit_bytes = limit;
  options.scaled = is_scaled;
  TRY(mmc_ranges_create(context, MMC_F64, 2, &options, &ranges), ranges, mmc_ranges);
  status = mmc_ranges_append(ranges, 3, factors);
  if (status == MMC_OK) status = product_of_range(ranges, 0, 3, &out, is_scaled);
  if (status == MMC_OK) status = mmc_ranges_append(ranges, COUNT - 3, factors);
  if (status == MMC_OK) status = mmc_ranges_update(ranges, COUNT, indices, factors);
  if (status == MMC_OK) status = product_of_range(ranges, 1, COUNT, &out, is_scaled);
  long before = allocations_left;
  if (status == MMC_OK) status = mmc_ranges_update(ranges, COUNT, indices, factors);
  if (status == MMC_OK) status = product_of_range(ranges, 1, COUNT, &out, is_scaled);
  assert_true(status != MMC_OK || allocations_left == before);
end:
  mmc_ranges_destroy(ranges);
  mmc_context_destroy(context);
  return status;
}
/* The gradients of a batch, whose matrices lie otherwise the second time. */
static mmc_status gradients(void) {
  enum { N = 9, BATCH = 2 };
  static double numbers[16], result[BATCH * 16];
  mmc_status status;
  mmc_context *context = NULL;
  mmc_chain *chain = NULL;
  mmc_plan *plan = NULL;
  mmc_gradients *made = NULL;
  void *memory = NULL;
  mmc_matrix factors[N], out = {.data = result, .rows = 4, .cols = 4, .stride = 16};
  for (int i = 0; i < N; i++) factors[i] = (mmc_matrix){.data = numbers, .rows = 4, .cols = 4};
  TRY(mmc_context_create(NULL, &context), context, mmc_context);
  TRY(mmc_chain_parse(context, "4x4x4x4x4x4x4x4x4x4@2", &chain), chain, mmc_chain);
  TRY(mmc_plan_create(context, chain, NULL, &plan), plan, mmc_plan);
  TRY(mmc_gradients_create(plan, NULL, &made), made, mmc_gradients);
  const uint64_t bytes = mmc_gradients_bytes(made);
  mmc_gradients_destroy(made);
  made = NULL;
  const bool last[N] = {[N - 1] = true};
  TRY(mmc_gradients_create_within(plan, last, bytes / 2, &made), made, mmc_gradients);
  mmc_gradients_destroy(made);
  made = NULL;
  TRY(mmc_gradients_create(plan, NULL, &made), made, mmc_gradients);
  memory = malloc((size_t)mmc_gradients_bytes(made));
  assert_non_null(memory);
  for (int t = 0; t < 3 && status == MMC_OK; t++) {
    const long before = allocations_left;
    factors[3].layout = t > 0 ? MMC_COL_MAJOR : MMC_ROW_MAJOR;
    status = mmc_gradients_forward(made, factors, memory, &out);
    if (status == MMC_OK) status = mmc_gradients_backward(made, factors, memory, &out, NULL);
    assert_true(t < 2 || status != MMC_OK || allocations_left == before);
  }
end:
  free(memory);
  mmc_gradients_destroy(made);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  mmc_context_destroy(context);
  return status;
}
static mmc_status ranges(void) {
  mmc_status status = ranges_within(MMC_NO_LIMIT, false);
  return status == MMC_OK ? ranges_within(MMC_NO_LIMIT, true) : status;
}
static mmc_status ranges_in_blocks(void) {
  mmc_status status = ranges_within(8000, false);
  return status == MMC_OK ? ranges_within(9000, true) : status;
}

/* Products that stay sparse, and products that become dense; files of both formats. */
static mmc_status sparse_chain(int dense_result) {
  enum { SIDE = 12, MOST = 3 * SIDE };
  static int64_t starts[SIDE + 1], columns[MOST];
  static double values[MOST], numbers[SIDE * SIDE], result[SIDE * SIDE];
  mmc_status status;
  mmc_context *context = NULL;
  mmc_sparse_chain *chain = NULL;
  mmc_sparse *made = NULL;
  int64_t count = 0;
  for (int r = 0; r < SIDE; r++) {
    starts[r] = count;
    for (int e = 0; e < r % 4; e++) columns[count] = (r * 5 + 3 * e) % SIDE, values[count++] = r;
  }
  starts[SIDE] = count;
  const mmc_csr csr = {SIDE, SIDE, 8, starts, columns, values};
  const mmc_matrix dense = {.data = numbers, .rows = SIDE, .cols = SIDE};
  const mmc_matrix out = {.data = result, .rows = SIDE, .cols = SIDE};
  const mmc_sparse_factor factors[] = {
      {.csr = &csr},
      {.csr = &csr, .op = MMC_OP_T},
      {.csr = dense_result ? NULL : &csr, .dense = dense_result ? &dense : NULL, .op = MMC_OP_T},
      {.csr = &csr}};
  mmc_sparse_options options = MMC_SPARSE_OPTIONS_INIT;
  options.objective = dense_result ? "time" : "flops";
  options.dense_result = dense_result;
  TRY(mmc_context_create(NULL, &context), context, mmc_context);
  TRY(mmc_sparse_chain_create(context, MMC_F64, 4, factors, &options, &chain), chain,
      mmc_sparse_chain);
  status = mmc_sparse_chain_explain(chain, MMC_TEXT, ignore, NULL);
  if (status == MMC_OK) status = mmc_sparse_chain_explain(chain, MMC_JSON, ignore, NULL);
  if (status != MMC_OK) goto end;
  if (dense_result)
    status = mmc_sparse_chain_execute(chain, factors, &out, NULL);
  else
    TRY(mmc_sparse_chain_execute(chain, factors, NULL, &made), made, mmc_sparse);
end:
  mmc_sparse_destroy(made);
  mmc_sparse_chain_destroy(chain);
  mmc_context_destroy(context);
  return status;
}
static mmc_status sparse_to_sparse(void) {
  return sparse_chain(0);
}
static mmc_status sparse_to_dense(void) {
  return sparse_chain(1);
}

static mmc_status sparse_file_of(const char *path) {
  static const int32_t starts[] = {0, 2, 2, 3}, columns[] = {0, 3, 1};
  static const double values[] = {1, -2, 0.5};
  const mmc_csr csr = {3, 4, 4, starts, columns, values};
  mmc_status status;
  mmc_context *context = NULL;
  mmc_sparse *read = NULL;
  TRY(mmc_context_create(NULL, &context), context, mmc_context);
  status = mmc_sparse_write(context, path, MMC_F64, &csr);
  assert_int_equal(access(path, F_OK) == 0, status == MMC_OK);
  if (status != MMC_OK) goto end;
  TRY(mmc_sparse_open(context, path, &read), read, mmc_sparse);
  const mmc_csr got = mmc_sparse_csr(read);
  assert_memory_equal(got.values, values, sizeof values);
end:
  mmc_sparse_destroy(read);
  mmc_context_destroy(context);
  unlink(path);
  return status;
}
static mmc_status sparse_mtx(void) {
  return sparse_file_of("test_allocations_sparse.mtx");
}
#ifdef MMCI_ZLIB
static mmc_status sparse_npz(void) {
  return sparse_file_of("test_allocations_sparse.npz");
}
#endif

/* ---- what a run takes ------------------------------------------------------------------------ */

/* Multiplies a chain of two factors, and returns how many allocations its run took. */
static long allocations_of_run(mmc_context *context, const char *text) {
  static double numbers[40000], result[40000];
  mmc_chain *chain;
  mmc_plan *plan;
  mmc_run *run;
  assert_int_equal(mmc_chain_parse(context, text, &chain), MMC_OK);
  assert_int_equal(mmc_plan_create(context, chain, NULL, &plan), MMC_OK);
  allocations_left = 1000000;
  assert_int_equal(mmc_run_create(plan, &run), MMC_OK);
  const long taken = 1000000 - allocations_left;
  allocations_left = -1;
  const int64_t *dims = mmc_chain_dims(chain);
  const mmc_matrix factors[] = {{.data = numbers, .rows = dims[0], .cols = dims[1]},
                                {.data = numbers, .rows = dims[1], .cols = dims[2]}};
  const mmc_matrix out = {.data = result, .rows = dims[0], .cols = dims[2]};
  assert_int_equal(mmc_execute(run, factors, &out), MMC_OK);
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  return taken;
}

/* The room of products of 16-bit floats, 3 MiB, is no other run's. */
static void a_run_takes_no_room_of_others(void **state) {
  (void)state;
  mmc_context *context;
  assert_int_equal(mmc_context_create(NULL, &context), MMC_OK);
  allocations_of_run(context, "f64:30x40x50"); /* the first one makes the library's kernels */
  const long before = allocations_of_run(context, "f64:30x40x50");
  allocations_of_run(context, "bf16:200x300x250");
  assert_int_equal(allocations_of_run(context, "f64:30x40x50"), before);
  mmc_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_takes_no_room_of_others),
      FAILING(batch),
      FAILING(short_chain),
      FAILING(reference_device),
      FAILING(one_factor),
      FAILING(brute_force),
      FAILING(integers),
      FAILING(whole_numbers_on_cpu),
      FAILING(whole_numbers_on_ref),
      FAILING(residues),
      FAILING(semirings),
      FAILING(long_chain),
      FAILING(table_chain),
      FAILING(limited_chain),
      FAILING(power),
      FAILING(saved_plan),
      FAILING(structure),
      FAILING(bands),
      FAILING(running_products),
      FAILING(recurrence),
      FAILING(scaled),
      FAILING(gradients),
      FAILING(ranges),
      FAILING(ranges_in_blocks),
      FAILING(sparse_to_sparse),
      FAILING(sparse_to_dense),
      FAILING(sparse_mtx),
#ifdef MMCI_ZLIB
      FAILING(sparse_npz),
#endif
      FAILING(devices),
      FAILING(order_hu_shing),
      FAILING(order_table),
      FAILING(order_price),
      FAILING(order_brute),
      FAILING(order_left),
      FAILING(files),
      FAILING(files_mtx),
      FAILING(files_npz),
      FAILING(traffic_exact),
      FAILING(traffic_joint),
      FAILING(meters),
      FAILING(measuring),
      FAILING(plan_time),
      FAILING(plan_energy),
      FAILING(one_call_on_cpu),
      FAILING(one_call_on_ref),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_batches.c: batches of chains, at strides and at addresses, on the fake device and on ref. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../how_many.h"
#include "../random.h"
#include "../recipes.h"
#include "order/workspace.h"
#include "plan/layout.h"
#include "plan/plan_groups.h"
#include "planner/fewest.h"
#include "planner/fit.h"
#include "problem.h"
#include "run/run.h"

static const uint64_t first_seed = 70700;

/* A plan of a batch, a run of it, and the device. */
typedef struct bench {
  uint64_t seed, random;
  mmci_device *device;
  mmci_plan plan;
  mmci_run *run;
  mmci_recipe recipes[FACTORS_MAX];
} bench;

static void open_plan(bench *b, uint64_t seed, int64_t most_batch, int64_t most_dim) {
  *b = (bench){.seed = seed, .random = seed};
  int32_t n = 1 + (int32_t)random_below(&b->random, 6);
  int64_t dims[FACTORS_MAX + 1];
  random_shape(&b->random, n, most_dim, dims);
  mmc_dtype dtype = random_dtype(&b->random);
  b->plan = random_batch_plan(&b->random, dtype, n, dims, random_below(&b->random, most_batch + 1));
}

static void start_run(bench *b, const mmci_device_ops *ops) {
  mmci_error error;
  mmc_status status = mmci_run_create(&b->plan, ops, b->device, MMCI_NATIVE, &b->run, &error);
  if (status != MMC_OK) fail_msg("seed %llu: %s", (unsigned long long)b->seed, error.text);
}

static void execute(const bench *b, matrices *m) {
  mmci_error error = {0};
  matrices_poison(m);
  mmc_status status = mmci_run_execute(b->run, m->factors, &m->out, &error);
  if (status != MMC_OK) fail_msg("seed %llu: %s", (unsigned long long)b->seed, error.text);
  if (b->device != NULL) fake_expect_done(b->device);
  if (b->device != NULL) expect_no_fault(fake_fault(b->device), b->seed);
  matrices_check(m);
}

static void execute_some(bench *b, where where) {
  for (int i = 0; i < 2; i++) {
    matrices *m = matrices_create(&b->plan, b->device, where, &b->random, b->seed);
    for (int64_t times = 1 + random_below(&b->random, 3); times > 0; times--) execute(b, m);
    matrices_destroy(m);
  }
}

static void close_bench(bench *b) {
  mmci_run_destroy(b->run);
  mmci_plan_destroy(&b->plan);
  if (b->device != NULL) expect_no_fault(fake_close(b->device), b->seed);
}

/* Some steps are computed in pieces; sums of halves are not cut. */
static void cut_steps(bench *b) {
  const mmc_chain *chain = b->plan.chain;
  bool half = chain->dtype == MMC_F16 || chain->dtype == MMC_BF16;
  for (int32_t s = 0; s < chain->n - 1; s++) {
    mmci_plan_step *step = &b->plan.steps[s];
    mmci_gemm gemm = {.m = step->m, .k = half ? 1 : step->k, .n = step->n};
    if (random_below(&b->random, 3) != 0 || gemm.k == 0) continue;
    b->recipes[s] = random_recipe(&b->random, &gemm, 0);
    step->recipe = &b->recipes[s];
  }
}

/* ---- the tests ------------------------------------------------------------------------------- */

/* Whatever the device supports: what it does not is multiplied chain by chain. */
static void any_batch_any_matrices(void **state) {
  (void)state;
  for (uint64_t round = 0; round < (uint64_t)how_many(300, 600); round++) {
    bench b;
    open_plan(&b, first_seed + round, 7, 10);
    int queues = 1 + (int)random_below(&b.random, 4);
    b.device = fake_open(&(fake_options){
        .seed = b.seed, .queues = queues, .batches = (int)random_below(&b.random, 3)});
    mmci_plan_machine machine = {.queues = queues, .memory_bytes = UINT64_MAX - 1, .staged = true};
    mmci_error error;
    assert_int_equal(mmci_plan_fit(&b.plan, &machine, UINT64_MAX, &error), MMC_OK);
    assert_int_equal(b.plan.chunk, b.plan.chain->batch);
    if (round % 3 == 0) cut_steps(&b);
    start_run(&b, fake_ops(b.device));
    execute_some(&b, (where)random_below(&b.random, 3));
    close_bench(&b);
  }
}

/* On host memory, by ref. */
static void on_the_host(void **state) {
  (void)state;
  for (uint64_t round = 0; round < (uint64_t)how_many(150, 300); round++) {
    bench b;
    mmci_error error;
    open_plan(&b, first_seed + 2000 + round, 9, round % 20 == 0 ? 129 : 12);
    uint64_t one = b.plan.workspace_bytes / (b.plan.chunk > 0 ? (uint64_t)b.plan.chunk : 1);
    if (round % 2 == 0) /* fewer at a time */
      assert_int_equal(mmci_plan_shrink(&b.plan, 3 * one + 256, &error), MMC_OK);
    if (round % 3 == 0) cut_steps(&b);
    start_run(&b, &mmci_device_ref);
    execute_some(&b, ON_HOST);
    close_bench(&b);
  }
}

static uint64_t staged_bytes(const mmci_plan *plan, int64_t count) {
  const mmc_chain *chain = plan->chain;
  size_t size = (size_t)count * mmc_dtype_size(chain->dtype);
  uint64_t bytes = mmci_result_bytes(chain->dims[0], chain->dims[chain->n], size);
  for (int32_t i = 0; i < chain->n; i++)
    bytes += mmci_result_bytes(chain->dims[i], chain->dims[i + 1], size);
  return bytes;
}

/* Batches that do not fit pass through the memory, some chains at a time, and take no byte more
 * than they may. */
static void batches_larger_than_the_memory(void **state) {
  (void)state;
  int chunked = 0;
  for (uint64_t round = 0; round < 400; round++) {
    bench b;
    mmci_error error;
    open_plan(&b, first_seed + 4000 + round, 40, 9);
    int64_t batch = b.plan.chain->batch;
    uint64_t all = b.plan.workspace_bytes + staged_bytes(&b.plan, batch);
    uint64_t bytes = all / (2 + (uint64_t)random_below(&b.random, 5));
    mmci_plan_machine machine = {.queues = 2, .memory_bytes = bytes, .staged = true};
    mmc_status status = mmci_plan_fit(&b.plan, &machine, UINT64_MAX, &error);
    if (status == MMC_E_MEMORY_LIMIT || b.plan.chain->n == 1 || batch < 2) {
      close_bench(&b);
      continue;
    }
    assert_int_equal(status, MMC_OK);
    if (b.plan.resident_bytes <= bytes) { /* no elements */
      close_bench(&b);
      continue;
    }
    assert_true(b.plan.chunk < batch);
    chunked += b.plan.chunk > 1;
    b.device = fake_open(&(fake_options){.seed = b.seed, .queues = 2, .memory_bytes = bytes});
    start_run(&b, fake_ops(b.device));
    execute_some(&b, ON_HOST);
    assert_true(fake_most_bytes(b.device) <= bytes);
    close_bench(&b);
  }
  assert_true(chunked > 50);
}

/* In chunks, with matrices anywhere. */
static void chunks_of_any_matrices(void **state) {
  (void)state;
  for (uint64_t round = 0; round < (uint64_t)how_many(200, 400); round++) {
    bench b;
    mmci_error error;
    open_plan(&b, first_seed + 6000 + round, 12, 9);
    mmci_plan_machine machine = {.queues = 1, .memory_bytes = UINT64_MAX - 1};
    assert_int_equal(mmci_plan_fit(&b.plan, &machine, UINT64_MAX, &error), MMC_OK);
    if (b.plan.chain->n > 1 && b.plan.chunk > 0)
      assert_int_equal(
          mmci_plan_set_chunk(&b.plan, 1 + random_below(&b.random, b.plan.chunk), &error), MMC_OK);
    b.device =
        fake_open(&(fake_options){.seed = b.seed, .batches = (int)random_below(&b.random, 3)});
    start_run(&b, fake_ops(b.device));
    execute_some(&b, (where)random_below(&b.random, 3));
    close_bench(&b);
  }
}

/* Times that a device was asked about a batch with strides. */
static int64_t asked_of_strides;

/* Of matrices at addresses long, and of others any time, by their sizes. */
static double seconds_of_product(const void *user, const mmci_gemm *gemm) {
  (void)user;
  if (gemm->a.gathered || gemm->b.gathered) return 1e-4;
  asked_of_strides++;
  return 1e-6 * (double)(1 + (gemm->batch * 31 + gemm->m * 7 + gemm->k + gemm->n) % 5);
}

static void tell_seconds(const mmci_device *device, mmc_dtype dtype, mmci_precision precision,
                         mmci_facts *out) {
  mmci_device_fake.facts(device, dtype, precision, out);
  out->model.seconds = seconds_of_product;
}

/* A device that says that matrices at addresses take long: those of two axes are multiplied along
 * the one or the other, or their rows together. */
static void addresses_of_two_axes(void **state) {
  (void)state;
  asked_of_strides = 0;
  for (uint64_t round = 0; round < 600; round++) {
    bench b;
    mmci_error error;
    open_plan(&b, first_seed + 8000 + round, 24, 7);
    mmci_plan_machine machine = {.queues = 1, .memory_bytes = UINT64_MAX - 1, .staged = true};
    assert_int_equal(mmci_plan_fit(&b.plan, &machine, UINT64_MAX, &error), MMC_OK);
    b.device = fake_open(&(fake_options){.seed = b.seed, .batches = FAKE_ALL_BATCHES});
    mmci_device_ops ops = *fake_ops(b.device);
    ops.facts = tell_seconds;
    start_run(&b, &ops);
    execute_some(&b, (where)random_below(&b.random, 3));
    close_bench(&b);
  }
  assert_true(asked_of_strides > 500);
}

/* ---- one chain and its neighbours ------------------------------------------------------------ */

enum { BATCH = 5, DIM = 3 };

static mmci_plan plan_of(int64_t batch, const int64_t *same) {
  static const int64_t dims[] = {DIM, DIM, DIM, DIM};
  mmc_chain *chain;
  mmci_plan plan;
  mmci_error error;
  assert_int_equal(mmci_chain_create_batch(MMC_F64, 3, dims, NULL, batch, same, &chain, &error),
                   MMC_OK);
  assert_int_equal(mmci_plan_create(chain, "auto", mmci_within(UINT64_MAX), &plan, &error), MMC_OK);
  mmc_chain_destroy(chain);
  return plan;
}

/* NaN in a chain is in the results of that chain and of no other. */
static void nan_stays_in_its_chain(void **state) {
  (void)state;
  double data[3][BATCH * DIM * DIM], result[BATCH * DIM * DIM];
  mmc_matrix factors[3], out = {result, DIM, DIM, 0, MMC_ROW_MAJOR, MMC_HOST, DIM * DIM, NULL};
  mmci_error error;
  mmci_plan plan = plan_of(BATCH, NULL);
  mmci_run *run;
  assert_int_equal(mmci_run_create(&plan, &mmci_device_ref, NULL, MMCI_NATIVE, &run, &error),
                   MMC_OK);
  for (int bad = 0; bad < BATCH; bad++) {
    for (int f = 0; f < 3; f++) {
      for (int i = 0; i < BATCH * DIM * DIM; i++) data[f][i] = i % 7;
      factors[f] = (mmc_matrix){data[f], DIM, DIM, 0, MMC_ROW_MAJOR, MMC_HOST, DIM * DIM, NULL};
    }
    for (int i = 0; i < DIM * DIM; i++) data[bad % 3][bad * DIM * DIM + i] = (double)NAN;
    assert_int_equal(mmci_run_execute(run, factors, &out, &error), MMC_OK);
    for (int i = 0; i < BATCH * DIM * DIM; i++)
      assert_true(isnan(result[i]) == (i / (DIM * DIM) == bad));
  }
  mmci_run_destroy(run);
  mmci_plan_destroy(&plan);
}

static void multiply_threes(const double *a, const double *b, double *c) {
  for (int r = 0; r < DIM; r++)
    for (int q = 0; q < DIM; q++) {
      c[r * DIM + q] = 0;
      for (int d = 0; d < DIM; d++) c[r * DIM + q] += a[r * DIM + d] * b[d * DIM + q];
    }
}

static int groups_called;

static mmc_status count_group(mmci_queue *queue, const mmci_group_kernel *kernel,
                              const void *const *operands, void *c, mmci_error *error) {
  groups_called++;
  return mmci_device_ref.group_enqueue(queue, kernel, operands, c, error);
}

static double seconds_of_group(const mmci_device *device, const mmci_group *group, double *error) {
  (void)device, (void)group;
  *error = 0;
  return 1.5e-6;
}

static double seconds_by_sharing(const void *user, const mmci_gemm *gemm) {
  (void)user;
  return gemm->a.stride == 0 || gemm->b.stride == 0 ? 1e-7 : 1e-6;
}

static void tell_of_sharing(const mmci_device *device, mmc_dtype dtype, mmci_precision precision,
                            mmci_facts *out) {
  mmci_device_ref.facts(device, dtype, precision, out);
  out->model.seconds = seconds_by_sharing;
}

/* A group of two products that take longer one by one, but where chains share a factor. */
static void shared_factors_leave_a_group(void **state) {
  (void)state;
  static double data[3][BATCH * DIM * DIM], result[BATCH * DIM * DIM], want[BATCH * DIM * DIM];
  uint64_t random = first_seed;
  for (int f = 0; f < 3; f++)
    for (int i = 0; i < BATCH * DIM * DIM; i++) data[f][i] = random_unit(&random);
  mmci_device_ops ops = mmci_device_ref;
  ops.group_enqueue = count_group;
  ops.group_seconds = seconds_of_group;
  ops.facts = tell_of_sharing;
  mmci_error error = {0};
  mmci_run *run;
  mmci_plan plan = plan_of(BATCH, NULL);
  const int32_t group_of[] = {0, 0};
  assert_int_equal(mmci_plan_group_steps(&plan, group_of, &error), MMC_OK);
  assert_int_equal(mmci_run_create(&plan, &ops, NULL, MMCI_NATIVE, &run, &error), MMC_OK);
  for (int shared = 0; shared < 2; shared++) {
    mmc_matrix factors[3], out = {result, DIM, DIM, 0, MMC_ROW_MAJOR, MMC_HOST, DIM * DIM, NULL};
    for (int f = 0; f < 3; f++)
      factors[f] = (mmc_matrix){
          data[f], DIM, DIM, 0, MMC_ROW_MAJOR, MMC_HOST, shared && f == 2 ? 0 : DIM * DIM, NULL};
    groups_called = 0;
    assert_int_equal(mmci_run_execute(run, factors, &out, &error), MMC_OK);
    assert_int_equal(groups_called, 1 - shared);
    for (int b = 0; b < BATCH; b++) {
      double left[DIM * DIM];
      const size_t at = (size_t)b * DIM * DIM;
      multiply_threes(data[0] + at, data[1] + at, left);
      multiply_threes(left, data[2] + (shared ? 0 : at), want + at);
    }
    for (int i = 0; i < BATCH * DIM * DIM; i++) assert_true(fabs(result[i] - want[i]) <= 1e-13);
  }
  mmci_run_destroy(run);
  mmci_plan_destroy(&plan);
}

/* ---- what is refused ------------------------------------------------------------------------- */

typedef struct refusal {
  mmci_plan plan;
  mmci_run *run;
  double data[3][BATCH * DIM * DIM + 8], result[BATCH * DIM * DIM + 8];
  mmc_matrix factors[3], out;
  void *addresses[BATCH];
} refusal;

static void open_refusal(refusal *r, int64_t batch, const int64_t *same) {
  mmci_error error;
  *r = (refusal){.plan = plan_of(batch, same)};
  assert_int_equal(mmci_run_create(&r->plan, &mmci_device_ref, NULL, MMCI_NATIVE, &r->run, &error),
                   MMC_OK);
  for (int f = 0; f < 3; f++)
    r->factors[f] = (mmc_matrix){r->data[f], DIM, DIM, 0, MMC_ROW_MAJOR, MMC_HOST, DIM * DIM, NULL};
  r->out = (mmc_matrix){r->result, DIM, DIM, 0, MMC_ROW_MAJOR, MMC_HOST, DIM * DIM, NULL};
  for (int b = 0; b < BATCH; b++) r->addresses[b] = r->result + b * DIM * DIM;
  assert_int_equal(mmci_run_execute(r->run, r->factors, &r->out, &error), MMC_OK);
}

static void close_refusal(refusal *r) {
  mmci_run_destroy(r->run);
  mmci_plan_destroy(&r->plan);
}

static void expect_refusal(refusal *r, const char *text) {
  mmci_error error = {0};
  assert_int_equal(mmci_run_execute(r->run, r->factors, &r->out, &error), MMC_E_ARG);
  assert_string_equal(error.text, text);
  close_refusal(r);
}

static void results_that_overlap(void **state) {
  (void)state;
  refusal r;
  open_refusal(&r, BATCH, NULL);
  r.out.stride = DIM * DIM - 1;
  expect_refusal(&r,
                 "out: stride: expected at least 9 elements, which a result extends over, got 8");
  open_refusal(&r, BATCH, NULL);
  r.out.stride = 0;
  expect_refusal(&r,
                 "out: stride: expected at least 9 elements, which a result extends over, got 0");
  open_refusal(&r, BATCH, NULL);
  r.out.addresses = r.addresses;
  r.addresses[0] = r.result + 4 * DIM * DIM - 1;
  expect_refusal(&r, "out: addresses: two results overlap");
  open_refusal(&r, BATCH, NULL);
  r.out.addresses = r.addresses;
  r.addresses[2] = NULL;
  expect_refusal(&r, "out: data is NULL");
  open_refusal(&r, BATCH, NULL);
  r.factors[1].data = r.result + BATCH * DIM * DIM - 1;
  r.factors[1].stride = 0;
  expect_refusal(&r, "factors[1]: overlaps the result");
  open_refusal(&r, BATCH, NULL);
  r.factors[2].stride = INT64_MAX / 2;
  expect_refusal(&r, "factors[2]: stride exceeds the address space");
  open_refusal(&r, BATCH, NULL);
  r.factors[2].stride = INT64_MIN / 16;
  expect_refusal(&r, "factors[2]: stride exceeds the address space");
}

/* Factors may lie between results. */
static void factors_between_results(void **state) {
  (void)state;
  static double data[BATCH * 4 * DIM * DIM];
  for (int apart = 0; apart < 2; apart++) {
    refusal r;
    mmci_error error;
    open_refusal(&r, BATCH, NULL);
    for (int i = 0; i < BATCH * 4 * DIM * DIM; i++) data[i] = i % 5;
    for (int f = 0; f < 3; f++) {
      r.factors[f].data = data + f * DIM * DIM;
      r.factors[f].stride = 4 * DIM * DIM;
    }
    r.out.data = data + 3 * DIM * DIM;
    r.out.stride = 4 * DIM * DIM;
    for (int b = 0; b < BATCH; b++) /* the first two have changed places: no stride */
      r.addresses[b] = data + ((b < 2 ? 1 - b : b) * 4 + 3) * DIM * DIM;
    if (apart == 1) r.out.addresses = r.addresses;
    assert_int_equal(mmci_run_execute(r.run, r.factors, &r.out, &error), MMC_OK);
    r.factors[1].data = data + DIM * DIM + 1 + DIM * DIM;
    expect_refusal(&r, "factors[1]: overlaps the result");
  }
}

/* Factors that the chain calls the same must be. */
static void same_factors_are_the_same(void **state) {
  (void)state;
  static const int64_t same[] = {0, 0, 2};
  mmci_error error = {0};
  refusal r = {.plan = plan_of(BATCH, same)};
  assert_int_equal(mmci_run_create(&r.plan, &mmci_device_ref, NULL, MMCI_NATIVE, &r.run, &error),
                   MMC_OK);
  for (int f = 0; f < 3; f++)
    r.factors[f] =
        (mmc_matrix){r.data[f / 2], DIM, DIM, 0, MMC_ROW_MAJOR, MMC_HOST, DIM * DIM, NULL};
  r.out = (mmc_matrix){r.result, DIM, DIM, 0, MMC_ROW_MAJOR, MMC_HOST, DIM * DIM, NULL};
  assert_int_equal(mmci_run_execute(r.run, r.factors, &r.out, &error), MMC_OK);
  r.factors[1].data = r.data[2];
  expect_refusal(&r, "factors[1]: expected the same matrix as the chain says (same)");
}

/* Factors that the chain calls shared must be one matrix for all chains. */
static void shared_factors_are_shared(void **state) {
  (void)state;
  mmc_chain *chain;
  mmci_error error = {0};
  refusal r = {.plan = {0}};
  assert_int_equal(mmci_chain_parse("3x3x3x3@5:nnN", &chain, &error), MMC_OK);
  assert_int_equal(
      mmci_plan_create(chain, "left-to-right", mmci_within(UINT64_MAX), &r.plan, &error), MMC_OK);
  mmc_chain_destroy(chain);
  assert_true(r.plan.steps[0].is_common && !r.plan.steps[1].is_common);
  assert_int_equal(r.plan.workspace_bytes, mmci_result_bytes(DIM, DIM, sizeof(double)));
  assert_int_equal(mmci_run_create(&r.plan, &mmci_device_ref, NULL, MMCI_NATIVE, &r.run, &error),
                   MMC_OK);
  for (int f = 0; f < 3; f++)
    r.factors[f] =
        (mmc_matrix){r.data[f], DIM, DIM, 0, MMC_ROW_MAJOR, MMC_HOST, f < 2 ? 0 : DIM * DIM, NULL};
  r.out = (mmc_matrix){r.result, DIM, DIM, 0, MMC_ROW_MAJOR, MMC_HOST, DIM * DIM, NULL};
  assert_int_equal(mmci_run_execute(r.run, r.factors, &r.out, &error), MMC_OK);
  for (int b = 0; b < BATCH; b++) r.addresses[b] = r.data[0]; /* they are one matrix */
  r.factors[0].addresses = r.addresses;
  assert_int_equal(mmci_run_execute(r.run, r.factors, &r.out, &error), MMC_OK);
  r.factors[1].stride = DIM * DIM;
  expect_refusal(
      &r,
      "factors[1]: expected one matrix for all chains, of stride 0, as the chain says (shared)");
}

/* Elements 2^31 and more apart: memory that is promised, of which few pages are touched. */
static void far_apart(void **state) {
  (void)state;
  enum { FAR = 3 };
  /* clang 14 with ThreadSanitizer cuts a constant offset of 16 GiB to 32 bits. */
  volatile int64_t far = ((int64_t)1 << 31) + 5;
  const int64_t stride = far;
  size_t bytes = (size_t)((FAR - 1) * stride + DIM * DIM) * sizeof(double);
  double *data =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) skip();
  mmci_error error;
  mmci_plan plan = plan_of(FAR, NULL);
  mmci_run *run;
  double one[DIM * DIM] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, result[FAR * DIM * DIM];
  for (int b = 0; b < FAR; b++)
    for (int i = 0; i < DIM * DIM; i++) data[b * stride + i] = b * 100 + i;
  assert_int_equal(mmci_run_create(&plan, &mmci_device_ref, NULL, MMCI_NATIVE, &run, &error),
                   MMC_OK);
  mmc_matrix unit = {one, DIM, DIM, 0, MMC_ROW_MAJOR, MMC_HOST, 0, NULL};
  mmc_matrix factors[] = {unit, {data, DIM, DIM, 0, MMC_ROW_MAJOR, MMC_HOST, stride, NULL}, unit};
  mmc_matrix out = {result, DIM, DIM, 0, MMC_COL_MAJOR, MMC_HOST, DIM * DIM, NULL};
  assert_int_equal(mmci_run_execute(run, factors, &out, &error), MMC_OK);
  for (int b = 0; b < FAR; b++)
    for (int i = 0; i < DIM * DIM; i++)
      assert_true(result[b * DIM * DIM + i % DIM * DIM + i / DIM] == b * 100 + i);
  mmci_run_destroy(run);
  mmci_plan_destroy(&plan);
  munmap(data, bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_batch_any_matrices),         cmocka_unit_test(on_the_host),
      cmocka_unit_test(batches_larger_than_the_memory), cmocka_unit_test(addresses_of_two_axes),
      cmocka_unit_test(chunks_of_any_matrices),         cmocka_unit_test(nan_stays_in_its_chain),
      cmocka_unit_test(shared_factors_leave_a_group),   cmocka_unit_test(results_that_overlap),
      cmocka_unit_test(factors_between_results),        cmocka_unit_test(same_factors_are_the_same),
      cmocka_unit_test(shared_factors_are_shared),      cmocka_unit_test(far_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

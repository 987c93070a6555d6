/* test_chains.c: random chains on the fake device, executed and waited for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../how_many.h"
#include "../random.h"
#include "../recipes.h"
#include "order/workspace.h"
#include "plan/layout.h"
#include "plan/panels.h"
#include "planner/fit.h"
#include "problem.h"
#include "run/run.h"
#include "run/scratch.h"

static const uint64_t first_seed = 20240;

/* ---- rounds ---------------------------------------------------------------------------------- */

enum { SETS = 3 };

/* A plan on a device of its own, and some matrices for it. */
typedef struct bench {
  uint64_t seed, random;
  mmci_device *device;
  mmci_plan plan;
  mmci_run *run;
  matrices *sets[SETS];
  mmci_recipe recipes[FACTORS_MAX];
  bool cuts;    /* large matrices cross the bus in pieces */
  bool scratch; /* products hold memory of their own */
  mmci_precision precision;
  mmci_scratch_user user;
  mmci_plan_machine machine;
} bench;

static void open_bench(bench *b, mmc_dtype dtype, int32_t n, const int64_t *dims, int queues,
                       uint64_t fake_bytes) {
  b->device = fake_open(&(fake_options){
      .seed = b->seed, .queues = queues, .memory_bytes = fake_bytes, .scratch = b->scratch});
  b->plan = random_plan(&b->random, dtype, n, dims);
  b->run = NULL;
  for (int s = 0; s < SETS; s++) b->sets[s] = NULL;
}

/* Half of the steps are computed in pieces, some of them padded where there is room. Sums of halves
 * are not cut: each piece is rounded. */
static void cut_steps(bench *b) {
  const mmc_chain *chain = b->plan.chain;
  bool half = chain->dtype == MMC_F16 || chain->dtype == MMC_BF16;
  for (int32_t s = 0; s < chain->n - 1; s++) {
    mmci_plan_step *step = &b->plan.steps[s];
    mmci_gemm gemm = {.m = step->m, .k = half ? 1 : step->k, .n = step->n};
    if (random_below(&b->random, 2) == 0 || gemm.k == 0) continue;
    b->recipes[s] = random_recipe(&b->random, &gemm, 0);
    step->recipe = &b->recipes[s];
    mmci_plan_place_padding(&b->plan, step);
  }
}

static void start_run(bench *b) {
  mmci_error error;
  mmc_status status =
      mmci_run_create(&b->plan, fake_ops(b->device), b->device, b->precision, &b->run, &error);
  if (status != MMC_OK) fail_msg("seed %llu: %s", (unsigned long long)b->seed, error.text);
}

static void close_bench(bench *b) {
  mmci_run_destroy(b->run);
  for (int s = 0; s < SETS; s++) matrices_destroy(b->sets[s]);
  mmci_plan_destroy(&b->plan);
  if (!b->plan.streamed) assert_int_equal(fake_count(b->device).without_scratch, 0);
  expect_no_fault(fake_close(b->device), b->seed);
}

/* A matrix that is given several times crosses the bus once, and none does for a result without
 * elements. */
static int64_t expected_uploads(const matrices *m) {
  const mmc_chain *chain = m->plan->chain;
  int64_t uploads = 0;
  if (!has_elements(m->plan)) return 0;
  if (chain->n == 1 && m->out.location == MMC_HOST && m->factors[0].location == MMC_HOST) return 0;
  for (int32_t i = 0; i < chain->n; i++) {
    const mmc_matrix *x = &m->factors[i];
    if (m->held[i].same == i && x->location == MMC_HOST && x->rows > 0 && x->cols > 0) uploads++;
  }
  return uploads;
}

static void execute(bench *b, matrices *m) {
  mmci_error error = {0};
  matrices_poison(m);
  fake_counts before = fake_count(b->device);
  mmc_status status = mmci_run_execute(b->run, m->factors, &m->out, &error);
  if (status != MMC_OK) fail_msg("seed %llu: %s", (unsigned long long)b->seed, error.text);
  fake_expect_done(b->device);
  expect_no_fault(fake_fault(b->device), b->seed);
  if (!b->plan.streamed && !b->cuts && b->plan.chain->batch == 1)
    assert_int_equal(fake_count(b->device).uploads - before.uploads, expected_uploads(m));
  matrices_check(m);
}

/* Executed again and again with the same matrices, a run takes nothing more. */
static void execute_repeatedly(bench *b, matrices *m) {
  execute(b, m);
  execute(b, m);
  fake_counts before = fake_count(b->device);
  execute(b, m);
  fake_counts after = fake_count(b->device);
  assert_int_equal(after.allocs, before.allocs);
  assert_int_equal(after.prepares, before.prepares);
  assert_int_equal(after.queues, before.queues);
  assert_int_equal(after.events, before.events);
  assert_int_equal(after.captures, before.captures);
  if (b->plan.chain->n == 1 || !has_elements(&b->plan) || b->plan.streamed ||
      !matrices_are_on_device(m))
    return;
  if (matrices_are_uneven(m) || b->plan.chunk < b->plan.chain->batch) return;
  assert_int_equal(after.launches, before.launches + 1);
  assert_int_equal(after.products, before.products);
}

/* Sets of matrices in any order, some of them several times in a row. */
static void execute_some(bench *b, where where) {
  int64_t rounds = 1 + random_below(&b->random, 4);
  for (int64_t i = 0; i < rounds; i++) {
    matrices **m = &b->sets[random_below(&b->random, SETS)];
    if (*m == NULL) *m = matrices_create(&b->plan, b->device, where, &b->random, b->seed);
    if (random_below(&b->random, 3) == 0)
      execute_repeatedly(b, *m);
    else
      execute(b, *m);
  }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static uint64_t staged_bytes(const mmc_chain *chain) {
  size_t size = mmc_dtype_size(chain->dtype);
  uint64_t bytes = mmci_result_bytes(chain->dims[0], chain->dims[chain->n], size);
  for (int32_t i = 0; i < chain->n; i++)
    bytes += mmci_result_bytes(chain->dims[i], chain->dims[i + 1], size);
  return bytes;
}

/* What the largest of the products takes in the smallest panels. */
static uint64_t least_panels_bytes(const mmci_plan *plan) {
  uint64_t most = 0;
  size_t size = mmc_dtype_size(plan->chain->dtype);
  for (int32_t s = 0; s < plan->chain->n - 1; s++) {
    mmci_panels panels;
    const mmci_plan_step *x = &plan->steps[s];
    (void)mmci_panels_choose(x->m, x->k, x->n, size, false, 0, &panels);
    uint64_t bytes = mmci_panels_bytes(&panels, size);
    if (bytes > most) most = bytes;
  }
  return most;
}

/* What the fake device holds for the steps as plain calls. */
static uint64_t plain_scratch(const mmci_plan *plan) {
  uint64_t bytes = 0;
  for (int32_t s = 0; s < plan->step_count; s++) {
    const mmci_plan_step *x = &plan->steps[s];
    if (x->m == 0 || x->k == 0 || x->n == 0) continue;
    bytes += 4 * (uint64_t)(x->m * x->k + x->k * x->n) + 24 * (uint64_t)(x->m + x->n);
  }
  return bytes;
}

static void fit_within(bench *b, int queues, uint64_t memory_bytes, uint64_t limit_bytes,
                       bool staged) {
  b->user = (mmci_scratch_user){.ops = fake_ops(b->device), .device = b->device, .staged = staged};
  b->machine = (mmci_plan_machine){.queues = queues,
                                   .memory_bytes = memory_bytes,
                                   .staged = staged,
                                   .scratch_bytes = mmci_step_scratch_bytes,
                                   .user = &b->user};
  mmci_error error;
  mmc_status status = mmci_plan_fit(&b->plan, &b->machine, limit_bytes, &error);
  if (status != MMC_OK) fail_msg("seed %llu: %s", (unsigned long long)b->seed, error.text);
}

static void fit(bench *b, int queues, uint64_t memory_bytes, bool staged) {
  fit_within(b, queues, memory_bytes, UINT64_MAX, staged);
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void any_chain_any_matrices(void **state) {
  (void)state;
  int64_t padded = 0, copied = 0;
  const uint64_t rounds = (uint64_t)how_many(120, 1200);
  for (uint64_t round = 0; round < rounds; round++) {
    bench b = {.seed = first_seed + round, .random = first_seed + round};
    int32_t n = 1 + (int32_t)random_below(&b.random, FACTORS_MAX);
    int64_t dims[FACTORS_MAX + 1];
    random_shape(&b.random, n, random_below(&b.random, 6) == 0 ? 40 : 14, dims);
    int queues = 1 + (int)random_below(&b.random, 5);
    b.scratch = round % 3 == 0;
    open_bench(&b, random_dtype(&b.random), n, dims, queues, 0);
    fit(&b, queues, UINT64_MAX - 1, true);
    assert_true(b.plan.parallel == (queues > 1) && !b.plan.streamed);
    if (round % 2 == 0) cut_steps(&b);
    start_run(&b);
    execute_some(&b, (where)random_below(&b.random, 3));
    padded += b.plan.padding_bytes > 0;
    if (b.plan.padding_bytes > 0) copied += fake_count(b.device).copies > 0;
    close_bench(&b);
  }
  printf("%lld chains with padding, copies in %lld\n", (long long)padded, (long long)copied);
  assert_true(padded > (int64_t)rounds / 12 && copied > padded / 2);
}

static int32_t count_recipes(const mmci_plan *plan) {
  int32_t count = 0;
  for (int32_t s = 0; s < plan->step_count; s++) count += plan->steps[s].recipe != NULL;
  return count;
}

/* With no byte more than the plan says. */
static void within_the_plans_memory(void **state) {
  (void)state;
  int32_t given_up = 0, kept = 0;
  const uint64_t rounds = (uint64_t)how_many(45, 300);
  for (uint64_t round = 0; round < rounds; round++) {
    bench b = {.seed = first_seed + 10000 + round, .random = first_seed + 10000 + round};
    int32_t n = 2 + (int32_t)random_below(&b.random, FACTORS_MAX - 1);
    int64_t dims[FACTORS_MAX + 1];
    random_shape(&b.random, n, 14, dims);
    bool staged = random_below(&b.random, 2) == 0, serial = random_below(&b.random, 2) == 0;
    mmc_dtype dtype = random_dtype(&b.random);
    uint64_t random = b.random;
    mmci_plan plan = random_plan(&b.random, dtype, n, dims);
    mmci_error error;
    if (!serial) assert_int_equal(mmci_plan_lay_out(&plan, true, &error), MMC_OK);
    uint64_t bytes = plan.workspace_bytes + (staged ? staged_bytes(plan.chain) : 0);
    b.scratch = round % 3 == 0;
    if (b.scratch) bytes += plain_scratch(&plan);
    if (round % 4 == 3) bytes += (uint64_t)random_below(&b.random, 1 << 14); /* to pad with */
    mmci_plan_destroy(&plan);
    b.random = random;
    open_bench(&b, dtype, n, dims, 4, bytes);
    fit(&b, 4, bytes, staged);
    assert_false(b.plan.streamed || b.plan.crowded);
    assert_true(b.plan.scratch_bytes == (b.scratch ? plain_scratch(&b.plan) : 0));
    if (round % 4 >= 2) cut_steps(&b);
    int32_t recipes = count_recipes(&b.plan);
    mmci_plan_fit_recipes(&b.plan, &b.machine, UINT64_MAX);
    given_up += recipes - count_recipes(&b.plan);
    kept += b.scratch ? count_recipes(&b.plan) : 0;
    assert_true(b.plan.resident_bytes <= bytes);
    start_run(&b);
    execute_some(&b, staged ? ON_HOST : ON_DEVICE);
    assert_true(fake_most_bytes(b.device) <= bytes);
    close_bench(&b);
  }
  assert_true(given_up > (int32_t)rounds / 15 && kept > (int32_t)rounds / 15);
}

/* One byte less than products hold besides all else, of the device's memory or of the limit. */
static void without_room_for_what_products_hold(void **state) {
  (void)state;
  for (uint64_t round = 0; round < 100; round++) {
    bench b = {
        .seed = first_seed + 70000 + round, .random = first_seed + 70000 + round, .scratch = true};
    int32_t n = 2 + (int32_t)random_below(&b.random, FACTORS_MAX - 1);
    int64_t dims[FACTORS_MAX + 1];
    random_shape(&b.random, n, 14, dims);
    bool staged = random_below(&b.random, 2) == 0;
    open_bench(&b, random_dtype(&b.random), n, dims, 1, 0);
    uint64_t scratch = plain_scratch(&b.plan), workspace = b.plan.workspace_bytes + scratch;
    uint64_t bytes = workspace + (staged ? staged_bytes(b.plan.chain) : 0);
    fit_within(&b, 1, bytes, workspace, staged);
    assert_true(!b.plan.crowded && !b.plan.streamed);
    assert_true(b.plan.resident_bytes == bytes && b.plan.scratch_bytes == scratch);
    for (int less = 0; less < 2 && scratch > 0; less++) {
      fit_within(&b, 1, bytes - (uint64_t)less, workspace - (uint64_t)!less, staged);
      assert_true(b.plan.crowded && !b.plan.streamed);
      assert_true(b.plan.resident_bytes == bytes - scratch && b.plan.scratch_bytes == 0);
    }
    close_bench(&b);
  }
}

static void streamed(bench *b, int32_t n, int64_t most) {
  int64_t dims[FACTORS_MAX + 1];
  random_shape(&b->random, n, most, dims);
  bool staged = random_below(&b->random, 4) != 0;
  mmc_dtype dtype = random_dtype(&b->random);
  int queues = 1 + (int)random_below(&b->random, 3);
  open_bench(b, dtype, n, dims, queues, 0);
  uint64_t least = least_panels_bytes(&b->plan);
  uint64_t most_bytes = b->plan.workspace_bytes + (staged ? staged_bytes(b->plan.chain) : 0);
  if (most_bytes > least) {
    uint64_t bytes = least + (uint64_t)random_below(&b->random, (int64_t)(most_bytes - least));
    fit(b, queues, bytes, staged);
    assert_true(b->plan.streamed);
    start_run(b);
    execute_some(b, (where)random_below(&b->random, 3));
    assert_true(fake_most_bytes(b->device) <= bytes);
  }
  close_bench(b);
}

static void in_whole_panels(void **state) {
  (void)state;
  for (uint64_t round = 0; round < (uint64_t)how_many(30, 300); round++) {
    bench b = {.seed = first_seed + 20000 + round, .random = first_seed + 20000 + round};
    streamed(&b, 3 + (int32_t)random_below(&b.random, FACTORS_MAX - 2), 20);
  }
}

/* Panels of reproducible products with many terms are never cut along k, which the fake device
 * watches. */
static void long_products_in_panels(void **state) {
  (void)state;
  int streams = 0;
  for (uint64_t round = 0; round < (uint64_t)how_many(6, 12); round++) {
    bench b = {.seed = first_seed + 90000 + round,
               .random = first_seed + 90000 + round,
               .precision = MMCI_REPRODUCIBLE};
    const int64_t dims[] = {65 + random_below(&b.random, 80), 4096 + random_below(&b.random, 300),
                            65 + random_below(&b.random, 80)};
    const mmc_dtype dtype = round % 2 == 0 ? MMC_F64 : MMC_C64;
    open_bench(&b, dtype, 2, dims, 1, 0);
    b.plan.precision = mmci_precision_name(b.precision);
    mmci_panels panels;
    (void)mmci_panels_choose(dims[0], dims[1], dims[2], mmc_dtype_size(dtype), true, 0, &panels);
    const uint64_t least = mmci_panels_bytes(&panels, mmc_dtype_size(dtype)),
                   most = staged_bytes(b.plan.chain);
    if (least < most) {
      const uint64_t bytes = least + (uint64_t)random_below(&b.random, (int64_t)(most - least));
      fit(&b, 1, bytes, true);
      assert_true(b.plan.streamed);
      start_run(&b);
      execute_some(&b, ON_HOST);
      assert_true(fake_most_bytes(b.device) <= bytes);
      streams++;
    }
    close_bench(&b);
  }
  assert_true(streams > how_many(1, 2));
}

static void in_many_panels(void **state) {
  (void)state;
  for (uint64_t round = 0; round < (uint64_t)how_many(20, 80); round++) {
    bench b = {.seed = first_seed + 30000 + round, .random = first_seed + 30000 + round};
    streamed(&b, 2 + (int32_t)random_below(&b.random, 3),
             random_below(&b.random, 3) == 0 ? 200 : 130);
  }
}

/* Products of many forms of panels are all prepared once. */
static void of_many_forms_of_panels(void **state) {
  (void)state;
  static const int64_t dims[] = {130, 131, 132, 133};
  for (uint64_t round = 0; round < 3; round++) {
    bench b = {.seed = first_seed + 50000 + round, .random = first_seed + 50000 + round};
    open_bench(&b, MMC_F32, 3, dims, 1, 0);
    fit(&b, 1, least_panels_bytes(&b.plan), true);
    start_run(&b);
    b.sets[0] = matrices_create(&b.plan, b.device, (where)round, &b.random, b.seed);
    execute_repeatedly(&b, b.sets[0]);
    close_bench(&b);
  }
}

/* Factors and results of more than 32 MiB that cross the bus are cut; thin products keep it short.
 */
static void large_matrices_are_cut(void **state) {
  (void)state;
  static const struct {
    int32_t n;
    int64_t dims[5];
  } cases[] = {
      {2, {1100, 2000, 1}},       /* a large left factor */
      {2, {1, 2000, 1100}},       /* a right one, for a result by columns */
      {2, {1300, 1, 1700}},       /* a large result */
      {3, {1100, 1950, 2, 3}},    /* in the middle of a chain */
      {3, {1449, 1449, 1449, 1}}, /* the same twice */
      {2, {1024, 2049, 1}},       {3, {1, 2100000, 1, 2}}, /* both factors of a product, along k */
      {4, {3, 2, 1200000, 2, 1}},
  };
  for (uint64_t round = 0; round < 16; round++) {
    bench b = {.seed = first_seed + 40000 + round,
               .random = first_seed + 40000 + round,
               .cuts = true,
               .scratch = true};
    int32_t n = cases[round % 8].n;
    const int64_t *dims = cases[round % 8].dims;
    open_bench(&b, MMC_C128, n, dims, 2, 0);
    if (b.plan.multiplications > 20000000) { /* a tree that multiplies the large ones first */
      close_bench(&b);
      continue;
    }
    fit(&b, 2, UINT64_MAX - 1, true);
    start_run(&b);
    b.sets[0] =
        matrices_create(&b.plan, b.device, round < 8 ? ON_HOST : ANYWHERE, &b.random, b.seed);
    execute(&b, b.sets[0]);
    execute(&b, b.sets[0]);
    assert_true(fake_most_bytes(b.device) <= b.plan.resident_bytes);
    close_bench(&b);
  }
}

/* Matrices that begin at one place and differ in their ld alone are told apart, when they are given
 * together and when one set follows another. */
static void views_of_one_place_are_told_apart(void **state) {
  (void)state;
  static const double numbers[] = {1, 2, 3, 4, 5};
  static const int64_t dims[] = {2, 2, 2};
  for (int location = MMC_HOST; location <= MMC_DEVICE; location++) {
    bench b = {.seed = first_seed + 60000, .random = first_seed + 60000};
    mmc_chain *chain;
    mmci_tree tree;
    mmci_error error;
    b.device = fake_open(&(fake_options){.seed = b.seed, .scratch = true});
    assert_int_equal(mmci_chain_create(MMC_F64, 2, dims, NULL, &chain, &error), MMC_OK);
    assert_int_equal(mmci_tree_create(2, &tree, &error), MMC_OK);
    tree.products[0] = (mmci_product){0, 1};
    assert_int_equal(mmci_plan_from_tree(chain, &tree, &b.plan, &error), MMC_OK);
    mmc_chain_destroy(chain);
    start_run(&b);
    double on_host[5], result[4];
    void *place = location == MMC_HOST ? on_host : fake_alloc(b.device, sizeof numbers);
    memcpy(location == MMC_HOST ? place : fake_bytes(b.device, place, sizeof numbers), numbers,
           sizeof numbers);
    void *target = location == MMC_HOST ? result : fake_alloc(b.device, sizeof result);
    mmc_matrix out = {target, 2, 2, 0, MMC_ROW_MAJOR, (mmc_location)location, 0, NULL};
    for (int i = 0; i < 12; i++) {
      /* Each pair of ld three times, so that graphs are in play. */
      int64_t lds[] = {2 + i / 3 % 2, 2 + i / 6};
      mmc_matrix factors[2];
      for (int f = 0; f < 2; f++)
        factors[f] =
            (mmc_matrix){place, 2, 2, lds[f], MMC_ROW_MAJOR, (mmc_location)location, 0, NULL};
      assert_int_equal(mmci_run_execute(b.run, factors, &out, &error), MMC_OK);
      if (location == MMC_DEVICE)
        memcpy(result, fake_bytes(b.device, target, sizeof result), sizeof result);
      for (int r = 0; r < 2; r++)
        for (int c = 0; c < 2; c++)
          assert_true(result[2 * r + c] == numbers[r * lds[0]] * numbers[c] +
                                               numbers[r * lds[0] + 1] * numbers[lds[1] + c]);
    }
    if (location == MMC_DEVICE) fake_free(b.device, place);
    if (location == MMC_DEVICE) fake_free(b.device, target);
    close_bench(&b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_chain_any_matrices),
      cmocka_unit_test(within_the_plans_memory),
      cmocka_unit_test(without_room_for_what_products_hold),
      cmocka_unit_test(in_whole_panels),
      cmocka_unit_test(in_many_panels),
      cmocka_unit_test(long_products_in_panels),
      cmocka_unit_test(of_many_forms_of_panels),
      cmocka_unit_test(large_matrices_are_cut),
      cmocka_unit_test(views_of_one_place_are_told_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

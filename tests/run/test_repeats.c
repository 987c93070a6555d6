/* test_repeats.c: chains in which matrices repeat, planned so that what comes again is computed
 * once, on the fake device and on the host: against the factors, multiplied one after the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../how_many.h"
#include "../random.h"
#include "../random_groups.h"
#include "plain_chain.h"
#include "planner/fewest.h"
#include "planner/fit.h"
#include "problem.h"
#include "run/run.h"

static const uint64_t first_seed = 88100;

typedef struct bench {
  uint64_t seed, random;
  mmci_device *device; /* NULL: the host's */
  plain_host host;
  mmci_plan plan;
  mmci_run *run;
} bench;

/* Few shapes and few matrices of each; what came a period before comes again, mostly. */
static mmc_chain *random_chain(uint64_t *random, int64_t most_batch) {
  int32_t n = 2 + (int32_t)random_below(random, FACTORS_MAX - 1);
  int32_t period = 1 + (int32_t)random_below(random, 3);
  int64_t sizes[2] = {random_below(random, 12), 1 + random_below(random, 12)};
  int64_t dims[FACTORS_MAX + 1], same[FACTORS_MAX];
  mmc_op ops[FACTORS_MAX];
  for (int32_t i = 0; i <= n; i++)
    dims[i] = i < period ? sizes[random_below(random, 4) != 0] : dims[i - period];
  for (int32_t i = 0; i < n; i++) {
    ops[i] = (mmc_op)random_below(random, 3);
    same[i] = i;
    bool again = i >= period && random_below(random, 6) != 0;
    if (again) same[i] = same[i - period];
    if (again) ops[i] = ops[i - period];
  }
  mmc_chain *chain;
  mmci_error error;
  assert_int_equal(
      mmci_chain_create_batch(random_dtype(random), n, dims, ops,
                              most_batch > 1 ? random_below(random, most_batch + 1) : 1, same,
                              &chain, &error),
      MMC_OK);
  return chain;
}

/* One of every two random chains or so has a plan that is no tree; the others are passed over. */
static bench open_bench(uint64_t seed, bool on_host, int64_t most_batch) {
  bench b = {.seed = seed, .random = seed};
  mmci_error error;
  for (bool tree = true; tree;) {
    mmc_chain *chain = random_chain(&b.random, most_batch);
    assert_int_equal(mmci_plan_create(chain, "auto", mmci_within(UINT64_MAX), &b.plan, &error),
                     MMC_OK);
    mmc_chain_destroy(chain);
    tree = mmci_plan_is_tree(&b.plan);
    if (tree) mmci_plan_destroy(&b.plan);
  }
  if (on_host) b.host = plain_host_open();
  return b;
}

static void fail_seed(const bench *b, const char *text) {
  fail_msg("seed %llu: %s", (unsigned long long)b->seed, text);
}

static void start_run(bench *b) {
  mmci_error error;
  bool on_host = b->device == NULL;
  if (mmci_run_create(&b->plan, on_host ? &b->host.ops : fake_ops(b->device),
                      on_host ? b->host.device : b->device, MMCI_NATIVE, &b->run, &error) != MMC_OK)
    fail_seed(b, error.text);
}

static void execute_some(bench *b, where where) {
  mmci_error error;
  for (int i = 0; i < 2; i++) {
    matrices *m = matrices_create(&b->plan, b->device, where, &b->random, b->seed);
    for (int64_t times = 1 + random_below(&b->random, 3); times > 0; times--) {
      matrices_poison(m);
      if (mmci_run_execute(b->run, m->factors, &m->out, &error) != MMC_OK) fail_seed(b, error.text);
      if (b->device != NULL) fake_expect_done(b->device);
      if (b->device != NULL) expect_no_fault(fake_fault(b->device), b->seed);
      matrices_check(m);
    }
    matrices_destroy(m);
  }
}

static void close_bench(bench *b) {
  mmci_run_destroy(b->run);
  mmci_plan_destroy(&b->plan);
  if (b->device != NULL)
    expect_no_fault(fake_close(b->device), b->seed);
  else
    plain_host_close(&b->host);
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void on_the_host(void **state) {
  (void)state;
  for (uint64_t round = 0; round < (uint64_t)how_many(200, 400); round++) {
    bench b = open_bench(first_seed + round, true, round % 2 == 0 ? 1 : 7);
    mmci_error error;
    if (round % 3 == 0)
      assert_int_equal(mmci_plan_shrink(&b.plan, b.plan.workspace_bytes / 3, &error), MMC_OK);
    if (round % 4 != 0 && b.plan.chain->batch == 1) group_at_random(&b.random, &b.plan);
    start_run(&b);
    execute_some(&b, ON_HOST);
    close_bench(&b);
  }
}

static void on_a_device(void **state) {
  (void)state;
  for (uint64_t round = 0; round < (uint64_t)how_many(400, 800); round++) {
    bench b = open_bench(first_seed + 1000 + round, false, round % 2 == 0 ? 1 : 7);
    mmci_error error;
    int queues = 1 + (int)random_below(&b.random, 4);
    b.device = fake_open(&(fake_options){
        .seed = b.seed, .queues = queues, .batches = (int)random_below(&b.random, 3)});
    mmci_plan_machine machine = {.queues = queues, .memory_bytes = UINT64_MAX - 1, .staged = true};
    assert_int_equal(mmci_plan_fit(&b.plan, &machine, UINT64_MAX, &error), MMC_OK);
    assert_false(mmci_plan_is_tree(&b.plan));
    if (round % 3 != 0 && b.plan.chain->batch == 1) group_at_random(&b.random, &b.plan);
    start_run(&b);
    execute_some(&b, (where)random_below(&b.random, 3));
    close_bench(&b);
  }
}

/* Each matrix needs room once. What does not fit is streamed, or passes through some chains at a
 * time, and takes no byte more than it may. */
static void within_its_memory(void **state) {
  (void)state;
  int resident = 0, chunked = 0, streamed = 0;
  for (uint64_t round = 0; round < 1200; round++) {
    bench b = open_bench(first_seed + 3000 + round, false, round % 2 == 0 ? 1 : 30);
    mmci_error error;
    mmci_plan_machine machine = {.queues = 2, .memory_bytes = UINT64_MAX - 1, .staged = true};
    assert_int_equal(mmci_plan_fit(&b.plan, &machine, UINT64_MAX, &error), MMC_OK);
    machine.memory_bytes = b.plan.resident_bytes / (1 + (uint64_t)random_below(&b.random, 4));
    mmc_status status = mmci_plan_fit(&b.plan, &machine, UINT64_MAX, &error);
    if (status == MMC_E_MEMORY_LIMIT || b.plan.resident_bytes == 0) {
      b.device = fake_open(&(fake_options){.seed = b.seed});
      close_bench(&b);
      continue;
    }
    assert_int_equal(status, MMC_OK);
    bool in_chunks = b.plan.chunk < b.plan.chain->batch;
    streamed += b.plan.streamed;
    chunked += in_chunks;
    resident += !b.plan.streamed && !in_chunks;
    b.device = fake_open(
        &(fake_options){.seed = b.seed, .queues = 2, .memory_bytes = machine.memory_bytes});
    start_run(&b);
    execute_some(&b, ON_HOST);
    if (fake_most_bytes(b.device) > machine.memory_bytes)
      fail_seed(&b, "more memory than it may take");
    close_bench(&b);
  }
  assert_true(resident > 100 && chunked > 50 && streamed > 20);
}

int main(void) {
  print_message("seeds from %llu\n", (unsigned long long)first_seed);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(on_the_host),
      cmocka_unit_test(on_a_device),
      cmocka_unit_test(within_its_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

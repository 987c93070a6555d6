/* test_groups.c: plans of which parts run as one call, and whose results are read several times, on
 * the fake device and on the host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../random.h"
#include "../random_groups.h"
#include "plain_chain.h"
#include "plan/layout.h"
#include "plan/plan_groups.h"
#include "planner/cover.h"
#include "problem.h"
#include "run/run.h"

static const uint64_t first_seed = 77000;

enum { SETS = 3 };

typedef struct bench {
  uint64_t seed, random;
  mmci_device *device; /* NULL: the host's */
  bool tells;          /* whether the device tells seconds */
  mmci_device_ops telling;
  plain_host host;
  mmci_plan plan;
  mmci_run *run;
  matrices *sets[SETS];
} bench;

static bench open_bench(uint64_t seed, bool on_host) {
  bench b = {.seed = seed, .random = seed};
  if (on_host)
    b.host = plain_host_open();
  else
    b.device =
        fake_open(&(fake_options){.seed = seed, .queues = 1 + (int)random_below(&b.random, 5)});
  return b;
}

/* What a device says that takes long for groups of transposed matrices. */
static double seconds_of_group(const mmci_device *device, const mmci_group *group, double *error) {
  (void)device;
  *error = 0;
  bool turned = false;
  for (int32_t o = 0; o < group->n; o++) turned = turned || group->forms[o].trans;
  return turned ? 1 : 1e-9;
}

static double seconds_of_product(const void *user, const mmci_gemm *gemm) {
  (void)user, (void)gemm;
  return 1e-6;
}

static void tell_seconds(const mmci_device *device, mmc_dtype dtype, mmci_precision precision,
                         mmci_facts *out) {
  mmci_device_fake.facts(device, dtype, precision, out);
  out->model.seconds = seconds_of_product;
}

static const mmci_device_ops *ops_of(bench *b) {
  if (b->tells) return &b->telling;
  return b->device != NULL ? fake_ops(b->device) : &b->host.ops;
}

static void let_tell(bench *b) {
  b->telling = *ops_of(b);
  b->telling.group_seconds = seconds_of_group;
  b->telling.facts = tell_seconds;
  b->tells = true;
}

/* A plan of any kind, with groups. */
static void make_plan(bench *b, bool shares) {
  int32_t least = shares ? 3 : 2,
          n = least + (int32_t)random_below(&b->random, FACTORS_MAX + 1 - least);
  int64_t dims[FACTORS_MAX + 1];
  random_shape(&b->random, n, 12, dims);
  if (shares)
    for (int32_t i = 0; i <= n; i++) dims[i] = 1 + n % 8;
  b->plan = random_plan(&b->random, random_dtype(&b->random), n, dims);
  mmci_error error;
  if (b->device != NULL)
    assert_int_equal(mmci_plan_lay_out(&b->plan, random_below(&b->random, 3) > 0, &error), MMC_OK);
  if (shares) share_results(&b->random, &b->plan);
  if (!shares || random_below(&b->random, 3) > 0) group_at_random(&b->random, &b->plan);
}

static mmc_status start_run(bench *b, mmci_error *error) {
  return mmci_run_create(&b->plan, ops_of(b), b->device != NULL ? b->device : b->host.device,
                         MMCI_NATIVE, &b->run, error);
}

static void close_bench(bench *b) {
  mmci_run_destroy(b->run);
  for (int s = 0; s < SETS; s++) matrices_destroy(b->sets[s]);
  mmci_plan_destroy(&b->plan);
  if (b->device != NULL)
    expect_no_fault(fake_close(b->device), b->seed);
  else
    plain_host_close(&b->host);
}

static matrices *some_matrices(bench *b) {
  matrices **m = &b->sets[random_below(&b->random, SETS)];
  where where = b->device != NULL ? (enum where)random_below(&b->random, 3) : ON_HOST;
  if (*m == NULL) *m = matrices_create(&b->plan, b->device, where, &b->random, b->seed);
  return *m;
}

static void execute(bench *b, matrices *m) {
  mmci_error error = {0};
  matrices_poison(m);
  mmc_status status = mmci_run_execute(b->run, m->factors, &m->out, &error);
  if (status != MMC_OK) fail_msg("seed %llu: %s", (unsigned long long)b->seed, error.text);
  if (b->device != NULL) {
    fake_expect_done(b->device);
    expect_no_fault(fake_fault(b->device), b->seed);
  }
  matrices_check(m);
}

static int64_t chains_of(const bench *b) {
  return b->device != NULL ? fake_count(b->device).chains : plain_host_enqueued;
}

/* Each group is one call, unless the device has refused one or the result has no elements. */
static void execute_some(bench *b, bool refused) {
  for (int64_t left = 1 + random_below(&b->random, 5); left > 0; left--) {
    matrices *m = some_matrices(b);
    int64_t before = chains_of(b);
    int64_t launches = b->device != NULL ? fake_count(b->device).launches : 0;
    execute(b, m);
    bool replayed = b->device != NULL && fake_count(b->device).launches > launches;
    if (!refused && !replayed)
      assert_int_equal(chains_of(b) - before, has_elements(&b->plan) ? b->plan.group_count : 0);
    else if (refused)
      assert_int_equal(chains_of(b) - before, 0);
  }
}

static void start_and_execute(uint64_t seed, bool on_host, bool shares) {
  bench b = open_bench(seed, on_host);
  mmci_error error;
  make_plan(&b, shares);
  if (start_run(&b, &error) != MMC_OK)
    fail_msg("seed %llu: %s", (unsigned long long)seed, error.text);
  execute_some(&b, false);
  close_bench(&b);
}

static void groups_on_a_device(void **state) {
  (void)state;
  for (uint64_t round = 0; round < 800; round++)
    start_and_execute(first_seed + round, false, false);
}

static void groups_on_the_host(void **state) {
  (void)state;
  for (uint64_t round = 0; round < 400; round++)
    start_and_execute(first_seed + 1000 + round, true, false);
}

static void results_that_are_read_again(void **state) {
  (void)state;
  for (uint64_t round = 0; round < 800; round++)
    start_and_execute(first_seed + 2000 + round, round % 4 == 0, true);
}

/* A device that takes groups when they are planned, and at some later point does not. */
static void refused_groups_run_step_by_step(void **state) {
  (void)state;
  for (uint64_t round = 0; round < 300; round++) {
    bench b = open_bench(first_seed + 3000 + round, round % 3 == 0);
    bool at_once = round % 2 == 0;
    mmci_error error;
    make_plan(&b, round % 5 == 0);
    if (b.plan.group_count == 0) group_at_random(&b.random, &b.plan);
    if (at_once) plain_host_refusals = 1;
    if (at_once && b.device != NULL) fake_refuse_chains(b.device, 1);
    if (start_run(&b, &error) != MMC_OK)
      fail_msg("seed %llu: %s", (unsigned long long)b.seed, error.text);
    if (at_once) {
      execute_some(&b, true);
    } else {
      execute_some(&b, false);
      plain_host_refusals = 1;
      if (b.device != NULL) fake_refuse_chains(b.device, 1);
      /* Until matrices lie otherwise nothing is prepared, and nothing refused. */
      for (int s = 0; s < SETS; s++) execute(&b, some_matrices(&b));
    }
    plain_host_refusals = 0;
    close_bench(&b);
  }
}

/* Whatever call fails, early or late, nothing is left behind and the next execution is right. */
static void failures(void **state) {
  (void)state;
  for (uint64_t round = 0; round < 400; round++) {
    bench b = open_bench(first_seed + 4000 + round, false);
    mmci_error error;
    make_plan(&b, round % 4 == 0);
    if (round % 2 == 0) fake_refuse_chains(b.device, 1);
    if (round % 3 == 0) let_tell(&b);
    fake_fail_at(b.device, 1 + random_below(&b.random, 60), false, random_below(&b.random, 2) == 0);
    if (start_run(&b, &error) == MMC_OK) {
      matrices *m = some_matrices(&b);
      for (int i = 0; i < 3; i++) {
        matrices_poison(m);
        if (mmci_run_execute(b.run, m->factors, &m->out, &error) == MMC_OK) matrices_check(m);
      }
      fake_fail_at(b.device, 0, false, false);
      execute(&b, m);
    } else {
      assert_true(fake_has_failed(b.device));
    }
    close_bench(&b);
  }
}

/* A group that is refused while the caller captures: the call fails, as memory cannot be taken
 * then, but one that is only slow is taken. Afterwards all goes well, in captures too. */
static void refused_in_a_capture(void **state) {
  (void)state;
  for (uint64_t round = 0; round < 100; round++) {
    bench b = open_bench(first_seed + 5000 + round, false);
    mmci_error error = {0};
    do {
      if (b.plan.chain != NULL) mmci_plan_destroy(&b.plan);
      make_plan(&b, false);
    } while (b.plan.group_count == 0);
    if (round % 2 == 0) let_tell(&b);
    if (start_run(&b, &error) != MMC_OK) fail_msg("%s", error.text);
    matrices *m = b.sets[0] = matrices_create(&b.plan, b.device, ON_DEVICE, &b.random, b.seed);
    void *stream = fake_stream_create(b.device);
    if (!b.tells) fake_refuse_chains(b.device, 1);
    fake_stream_capture_begin(b.device, stream);
    mmc_status status = mmci_run_enqueue(b.run, stream, m->factors, &m->out, &error);
    mmci_graph *graph = fake_stream_capture_end(b.device, stream);
    /* Matrices that lie as most do have been prepared for when the run was made. */
    assert_true(status == MMC_OK || (status == MMC_E_UNSUPPORTED && !b.tells));
    if (graph != NULL) fake_graph_destroy(graph);
    execute(&b, m);
    fake_stream_capture_begin(b.device, stream);
    matrices_poison(m);
    assert_int_equal(mmci_run_enqueue(b.run, stream, m->factors, &m->out, &error), MMC_OK);
    graph = fake_stream_capture_end(b.device, stream);
    if (graph == NULL) fail_msg("seed %llu: no graph", (unsigned long long)b.seed);
    fake_stream_launch(b.device, stream, graph);
    fake_stream_sync(b.device, stream);
    matrices_check(m);
    fake_graph_destroy(graph);
    close_bench(&b);
  }
}

/* Limits a plan to its own workspace. Returns whether none is left for that without groups. */
static bool leave_no_room(mmci_plan *plan) {
  mmci_plan apart;
  mmci_error error;
  assert_int_equal(mmci_plan_separate(plan, &apart, &error), MMC_OK);
  const bool needs = apart.workspace_bytes > 0;
  mmci_plan_separate_destroy(&apart);
  plan->most_bytes = plan->workspace_bytes > 0 ? plan->workspace_bytes : 1;
  return needs && plan->most_bytes == plan->workspace_bytes;
}

/* Executions whose groups are slow as their matrices lie go step by step, those between and after
 * them by groups, as all do where memory is limited. */
static void slow_groups_run_step_by_step(void **state) {
  (void)state;
  int64_t together = 0, apart = 0, both = 0, limited = 0;
  for (uint64_t round = 0; round < 300; round++) {
    bench b = open_bench(first_seed + 7000 + round, false);
    mmci_error error;
    let_tell(&b);
    make_plan(&b, round % 5 == 0);
    if (b.plan.group_count == 0) group_at_random(&b.random, &b.plan);
    const bool is_limited = round % 7 == 0 && leave_no_room(&b.plan);
    if (start_run(&b, &error) != MMC_OK)
      fail_msg("seed %llu: %s", (unsigned long long)b.seed, error.text);
    int64_t calls[SETS] = {-1, -1, -1}, least = INT64_MAX, most = 0;
    for (int i = 0; i < 12; i++) {
      const matrices *m = some_matrices(&b);
      int s = 0;
      while (b.sets[s] != m) s++;
      const int64_t before = chains_of(&b), launches = fake_count(b.device).launches;
      execute(&b, b.sets[s]);
      if (fake_count(b.device).launches > launches) continue; /* replayed */
      const int64_t called = chains_of(&b) - before;
      if (calls[s] < 0) calls[s] = called;
      assert_int_equal(called, calls[s]);
      assert_true(called == 0 || called == b.plan.group_count);
      if (is_limited && has_elements(&b.plan)) assert_int_equal(called, b.plan.group_count);
      least = called < least ? called : least;
      most = called > most ? called : most;
    }
    together += most > 0;
    limited += is_limited && most > 0;
    apart += least == 0 && has_elements(&b.plan);
    both += most > 0 && least == 0;
    close_bench(&b);
  }
  assert_true(together > 0 && apart > 0 && both > 0 && limited > 0);
}

/* Left to right, in segments, balanced: all within the bound of any order of summation. */
static void wide_trees_compute_the_same(void **state) {
  (void)state;
  for (uint64_t round = 0; round < 200; round++) {
    bench b = open_bench(first_seed + 6000 + round, round % 2 == 0);
    int32_t n = 4 + (int32_t)random_below(&b.random, FACTORS_MAX - 3);
    int64_t dims[FACTORS_MAX + 1];
    for (int32_t i = 0; i <= n; i++) dims[i] = 12 + random_below(&b.random, 2);
    static const int32_t segments[] = {1, 2, 3, INT32_MAX};
    mmci_order_problem problem = {.n = n, .dims = dims};
    mmci_tree tree;
    mmc_chain *chain;
    mmci_error error;
    bool found;
    mmc_dtype dtype = random_dtype(&b.random);
    assert_int_equal(mmci_order_wide(&problem, segments[round % 4], &tree, &found, &error), MMC_OK);
    assert_true(found);
    assert_int_equal(mmci_chain_create(dtype, n, dims, NULL, &chain, &error), MMC_OK);
    assert_int_equal(mmci_plan_from_tree(chain, &tree, &b.plan, &error), MMC_OK);
    mmc_chain_destroy(chain);
    group_at_random(&b.random, &b.plan);
    if (start_run(&b, &error) != MMC_OK) fail_msg("%s", error.text);
    execute_some(&b, false);
    close_bench(&b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(groups_on_a_device),
      cmocka_unit_test(groups_on_the_host),
      cmocka_unit_test(results_that_are_read_again),
      cmocka_unit_test(refused_groups_run_step_by_step),
      cmocka_unit_test(failures),
      cmocka_unit_test(refused_in_a_capture),
      cmocka_unit_test(slow_groups_run_step_by_step),
      cmocka_unit_test(wide_trees_compute_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

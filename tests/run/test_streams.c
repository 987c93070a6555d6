/* test_streams.c: chains that are left to the caller's streams, which wait for what was there
 * before and are waited for by what comes after, replayed as graphs, and captured by the caller.
 *
 * Factors are NaN until the stream has filled them, and NaN again when it has passed the chain: a
 * product that is not in line computes with NaN. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../random.h"
#include "plan/panels.h"
#include "planner/fit.h"
#include "problem.h"
#include "run/graphs.h"
#include "run/run.h"

static const uint64_t first_seed = 55500;

enum { SETS = 6, STREAMS = 3 };

/* A plan on a device of its own, matrices for it, and streams of the caller. */
typedef struct bench {
  uint64_t seed, random;
  mmci_device *device;
  mmci_plan plan;
  mmci_run *run;
  int sets;
  matrices *set[SETS];
  void *used_on[SETS]; /* the stream that a set was last used on */
  char *results[SETS]; /* copies of their rooms */
  char *nan;           /* as many bytes of it as the largest room has */
  void *streams[STREAMS];
} bench;

static size_t room_bytes(const matrices *m) {
  return m->held[m->plan->chain->n].room_bytes;
}

static void open_sets(bench *b, where where) {
  size_t most = 0;
  for (int s = 0; s < b->sets; s++) {
    matrices *m = b->set[s] = matrices_create(&b->plan, b->device, where, &b->random, b->seed);
    b->used_on[s] = NULL;
    b->results[s] = malloc(room_bytes(m));
    assert_non_null(b->results[s]);
    for (int32_t i = 0; i <= b->plan.chain->n; i++)
      if (m->held[i].room_bytes > most) most = m->held[i].room_bytes;
  }
  b->nan = malloc(most + 1);
  assert_non_null(b->nan);
  memset(b->nan, 0xff, most);
}

/* A plan of n factors of at most dim rows and columns, for a batch. */
static void open_batch(bench *b, uint64_t seed, int32_t n, int64_t dim, int64_t batch, int sets,
                       where where, bool streamed) {
  *b = (bench){.seed = seed, .random = seed, .sets = sets};
  int queues = 1 + (int)random_below(&b->random, 4);
  int64_t dims[FACTORS_MAX + 1];
  mmci_error error;
  for (int32_t i = 0; i <= n; i++) dims[i] = 1 + random_below(&b->random, dim);
  b->device = fake_open(&(fake_options){.seed = seed, .queues = queues});
  b->plan = random_batch_plan(&b->random, random_dtype(&b->random), n, dims, batch);
  mmci_plan_machine machine = {.queues = queues, .memory_bytes = UINT64_MAX - 1};
  assert_int_equal(mmci_plan_fit(&b->plan, &machine, UINT64_MAX, &error), MMC_OK);
  b->plan.streamed = streamed; /* with all the memory that there is */
  if (streamed) b->plan.chunk = 1;
  mmc_status status =
      mmci_run_create(&b->plan, fake_ops(b->device), b->device, MMCI_NATIVE, &b->run, &error);
  if (status != MMC_OK) fail_msg("seed %llu: %s", (unsigned long long)seed, error.text);
  b->streams[0] = NULL;
  for (int s = 1; s < STREAMS; s++) b->streams[s] = fake_stream_create(b->device);
  open_sets(b, where);
}

static void open_bench(bench *b, uint64_t seed, int32_t n, int64_t dim, int sets, where where,
                       bool streamed) {
  open_batch(b, seed, n, dim, 1, sets, where, streamed);
}

static void *any_stream(bench *b) {
  return b->streams[random_below(&b->random, STREAMS)];
}

static void sync_all(bench *b) {
  for (int s = 0; s < STREAMS; s++) fake_stream_sync(b->device, b->streams[s]);
}

static void close_bench(bench *b) {
  sync_all(b);
  mmci_run_destroy(b->run);
  for (int s = 0; s < b->sets; s++) {
    matrices_destroy(b->set[s]);
    free(b->results[s]);
  }
  free(b->nan);
  mmci_plan_destroy(&b->plan);
  expect_no_fault(fake_close(b->device), b->seed);
}

/* ---- what a stream does ---------------------------------------------------------------------- */

/* Fills the factors, with NaN instead of values when they are to be useless. */
static void put_factors(bench *b, int s, void *stream, bool values) {
  matrices *m = b->set[s];
  for (int32_t i = 0; i < b->plan.chain->n; i++) {
    const held *h = &m->held[i];
    if (h->same == i)
      fake_stream_write(b->device, stream, h->room, values ? h->content : b->nan, h->room_bytes);
  }
}

static void put_nan_result(bench *b, int s, void *stream) {
  const held *out = &b->set[s]->held[b->plan.chain->n];
  fake_stream_write(b->device, stream, out->room, b->nan, out->room_bytes);
}

/* Takes a copy of the result, for later. */
static void take_result(bench *b, int s, void *stream) {
  const held *out = &b->set[s]->held[b->plan.chain->n];
  if (out->matrix.location == MMC_DEVICE)
    fake_stream_read(b->device, stream, out->room, b->results[s], out->room_bytes);
  else
    memcpy(b->results[s], out->room, out->room_bytes);
}

static void expect_ok(const bench *b, mmc_status status, const mmci_error *error) {
  if (status != MMC_OK) fail_msg("seed %llu: %s", (unsigned long long)b->seed, error->text);
  expect_no_fault(fake_fault(b->device), b->seed);
}

/* The chain of set s on a stream, behind what fills its factors and before what spoils them. */
static void enqueue(bench *b, int s, void *stream) {
  mmci_error error = {0};
  matrices *m = b->set[s];
  put_factors(b, s, stream, true);
  put_nan_result(b, s, stream);
  expect_ok(b, mmci_run_enqueue(b->run, stream, m->factors, &m->out, &error), &error);
  take_result(b, s, stream);
  put_factors(b, s, stream, false);
  put_nan_result(b, s, stream);
  b->used_on[s] = stream;
}

static void check(bench *b, int s) {
  fake_stream_sync(b->device, b->used_on[s]);
  expect_no_fault(fake_fault(b->device), b->seed);
  matrices_check_result(b->set[s], b->results[s]);
}

/* ---- streams --------------------------------------------------------------------------------- */

static void execute(bench *b, int s) {
  mmci_error error = {0};
  matrices *m = b->set[s];
  void *stream = any_stream(b);
  put_factors(b, s, stream, true);
  put_nan_result(b, s, stream);
  fake_stream_sync(b->device, stream);
  expect_ok(b, mmci_run_execute(b->run, m->factors, &m->out, &error), &error);
  matrices_check(m);
}

/* Any set on any stream, most often not waited for until it is used again, executed in between. */
static void roam(bench *b, int rounds) {
  bool waiting[SETS] = {false};
  for (int round = 0; round < rounds; round++) {
    int s = (int)random_below(&b->random, b->sets);
    void *stream = any_stream(b);
    if (waiting[s]) check(b, s);
    waiting[s] = false;
    if (random_below(&b->random, 4) == 0) {
      execute(b, s);
      continue;
    }
    enqueue(b, s, stream);
    waiting[s] = true;
  }
  for (int s = 0; s < b->sets; s++)
    if (waiting[s]) check(b, s);
}

static void chains_are_in_line_with_streams(void **state) {
  (void)state;
  for (uint64_t round = 0; round < 250; round++) {
    uint64_t random = first_seed + round;
    int32_t n = 1 + (int32_t)random_below(&random, FACTORS_MAX);
    int sets = 1 + (int)random_below(&random, SETS);
    bench b;
    int64_t batch = round % 3 == 0 ? random_below(&random, 6) : 1;
    open_batch(&b, random, n, 12, batch, sets, ON_DEVICE, false);
    roam(&b, 14);
    close_bench(&b);
  }
}

/* Matrices on the host are ready, or free again, when the stream comes to them, no sooner. */
static void so_are_matrices_on_the_host(void **state) {
  (void)state;
  for (uint64_t round = 0; round < 200; round++) {
    uint64_t random = first_seed + 1000 + round;
    int32_t n = 1 + (int32_t)random_below(&random, 6);
    where where = random_below(&random, 2) == 0 ? ON_HOST : ANYWHERE;
    bench b;
    open_batch(&b, random, n, 12, round % 3 == 0 ? 4 : 1, 3, where, false);
    roam(&b, 10);
    close_bench(&b);
  }
}

static void so_are_streamed_chains(void **state) {
  (void)state;
  for (uint64_t round = 0; round < 100; round++) {
    uint64_t random = first_seed + 2000 + round;
    int32_t n = 2 + (int32_t)random_below(&random, 5);
    bench b;
    open_batch(&b, random, n, 12, round % 3 == 0 ? 3 : 1, 3, (where)random_below(&random, 3), true);
    roam(&b, 6);
    close_bench(&b);
  }
}

/* What the run was given is done when the run has been waited for, whatever the streams. */
static void a_run_can_be_waited_for(void **state) {
  (void)state;
  for (uint64_t round = 0; round < 100; round++) {
    uint64_t random = first_seed + 8000 + round;
    bench b;
    int32_t n = 1 + (int32_t)random_below(&random, 8);
    open_batch(&b, random, n, 12, round % 3 == 0 ? 5 : 1, 3, ON_DEVICE, false);
    for (int i = 0; i < 4; i++) {
      mmci_error error = {0};
      for (int s = 0; s < 3; s++) {
        matrices *m = b.set[s];
        void *stream = any_stream(&b);
        expect_ok(&b, mmci_run_enqueue(b.run, stream, m->factors, &m->out, &error), &error);
      }
      expect_ok(&b, mmci_run_wait(b.run, &error), &error);
      fake_expect_done(b.device);
      for (int s = 0; s < 3; s++) {
        matrices_check(b.set[s]);
        matrices_poison(b.set[s]);
      }
    }
    close_bench(&b);
  }
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* Up to MMCI_GRAPHS sets in turn are launched from the third time on; nothing is enqueued then. */
static void sets_in_turn_are_graphs(void **state) {
  (void)state;
  for (int sets = 1; sets <= SETS; sets++) {
    bench b;
    open_bench(&b, first_seed + 3000 + (uint64_t)sets, 5, 12, sets, ON_DEVICE, false);
    for (int round = 0; round < 5; round++) {
      fake_counts before = fake_count(b.device);
      for (int s = 0; s < sets; s++) enqueue(&b, s, b.streams[1]);
      fake_counts after = fake_count(b.device);
      for (int s = 0; s < sets; s++) check(&b, s);
      bool graphs = sets <= MMCI_GRAPHS && round >= 1;
      assert_int_equal(after.launches - before.launches, graphs ? sets : 0);
      if (!graphs || round == 1) continue;
      assert_int_equal(after.products, before.products);
      assert_int_equal(after.prepares, before.prepares);
      assert_int_equal(after.allocs, before.allocs);
      assert_int_equal(after.captures, before.captures);
    }
    close_bench(&b);
  }
}

/* One graph, on streams that change, never runs beside itself. */
static void a_graph_follows_itself(void **state) {
  (void)state;
  for (uint64_t round = 0; round < 60; round++) {
    bench b;
    open_bench(&b, first_seed + 4000 + round, 6, 12, 1, ON_DEVICE, false);
    void *before = NULL;
    for (int i = 0; i < 8; i++) {
      void *stream = any_stream(&b);
      if (i > 0) fake_stream_order(b.device, before, stream);
      enqueue(&b, 0, stream);
      before = stream;
    }
    check(&b, 0);
    close_bench(&b);
  }
}

/* ---- captures of the caller's ---------------------------------------------------------------- */

static mmci_graph *capture(bench *b, int s, void *stream) {
  fake_stream_capture_begin(b->device, stream);
  enqueue(b, s, stream);
  mmci_graph *graph = fake_stream_capture_end(b->device, stream);
  expect_no_fault(fake_fault(b->device), b->seed);
  assert_non_null(graph);
  return graph;
}

static void a_chain_can_be_captured(void **state) {
  (void)state;
  for (uint64_t round = 0; round < 150; round++) {
    uint64_t random = first_seed + 5000 + round;
    int32_t n = 1 + (int32_t)random_below(&random, FACTORS_MAX);
    bench b;
    open_bench(&b, random, n, 12, 2, ON_DEVICE, false);
    roam(&b, (int)random_below(&b.random, 4));
    sync_all(&b);
    fake_counts before = fake_count(b.device);
    mmci_graph *graph = capture(&b, 0, b.streams[1]);
    fake_counts after = fake_count(b.device);
    assert_int_equal(after.launches, before.launches);
    for (int i = 0; i < 3; i++) {
      memset(b.results[0], 0xff, room_bytes(b.set[0]));
      void *stream = any_stream(&b);
      fake_stream_launch(b.device, stream, graph);
      b.used_on[0] = stream;
      check(&b, 0);
      roam(&b, (int)random_below(&b.random, 3)); /* the run is of use besides */
      sync_all(&b);
    }
    fake_graph_destroy(graph);
    close_bench(&b);
  }
}

/* What a capture cannot take is refused, and the capture is none the worse. */
static void expect_refusal(bench *b, const char *text) {
  mmci_error error = {0};
  void *stream = b->streams[1];
  matrices *m = b->set[0];
  fake_stream_capture_begin(b->device, stream);
  mmc_status status = mmci_run_enqueue(b->run, stream, m->factors, &m->out, &error);
  mmci_graph *graph = fake_stream_capture_end(b->device, stream);
  expect_no_fault(fake_fault(b->device), b->seed);
  assert_int_equal(status, MMC_E_ARG);
  assert_string_equal(error.text, text);
  assert_non_null(graph);
  fake_graph_destroy(graph);
  execute(b, 0);
  close_bench(b);
}

static const char *const host_text =
    "stream: a stream that is being captured cannot take matrices on the host";

static void captures_take_no_host_matrices(void **state) {
  (void)state;
  for (uint64_t round = 0; round < 40; round++) {
    uint64_t random = first_seed + 6000 + round;
    bench b;
    open_bench(&b, random, 1 + (int32_t)(round % 4), 12, 1, ON_HOST, false);
    expect_refusal(&b, host_text);
  }
}

/* A batch is captured unless its matrices lie at addresses, for whose table a capture has no place.
 */
static void batches_can_be_captured(void **state) {
  (void)state;
  int captured = 0;
  for (uint64_t round = 0; round < 60; round++) {
    bench b;
    open_batch(&b, first_seed + 9000 + round, 2 + (int32_t)(round % 3), 9, 4, 1, ON_DEVICE, false);
    if (matrices_are_uneven(b.set[0])) {
      expect_refusal(&b,
                     "stream: a stream that is being captured cannot take matrices at addresses");
      continue;
    }
    captured++;
    mmci_graph *graph = capture(&b, 0, b.streams[1]);
    for (int i = 0; i < 2; i++) {
      memset(b.results[0], 0xff, room_bytes(b.set[0]));
      fake_stream_launch(b.device, b.streams[1], graph);
      check(&b, 0);
    }
    fake_graph_destroy(graph);
    close_bench(&b);
  }
  assert_true(captured > 0 && captured < 60);
}

static void captures_take_no_streamed_chains(void **state) {
  (void)state;
  for (uint64_t round = 0; round < 10; round++) {
    bench b;
    open_bench(&b, first_seed + 7000 + round, 3, 12, 1, ON_DEVICE, true);
    expect_refusal(&b,
                   "stream: a stream that is being captured cannot take a chain that is "
                   "streamed through the device");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chains_are_in_line_with_streams),
      cmocka_unit_test(so_are_matrices_on_the_host),
      cmocka_unit_test(so_are_streamed_chains),
      cmocka_unit_test(a_run_can_be_waited_for),
      cmocka_unit_test(sets_in_turn_are_graphs),
      cmocka_unit_test(a_graph_follows_itself),
      cmocka_unit_test(a_chain_can_be_captured),
      cmocka_unit_test(captures_take_no_host_matrices),
      cmocka_unit_test(batches_can_be_captured),
      cmocka_unit_test(captures_take_no_streamed_chains),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

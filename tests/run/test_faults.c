/* test_faults.c: everything a run does, once with each call of the device failing: for once or for
 * good, at once or after the work was done. A failure must be told, with a message; nothing may be
 * left under way or behind; and when the device works again, so must the run. The same with each
 * allocation of the library's failing once.
 *
 * Linked with a copy of the library that calls failing_malloc() and so on: tests/CMakeLists.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../failing_allocations.h"
#include "../random.h"
#include "plan/layout.h"
#include "planner/fit.h"
#include "problem.h"
#include "run/run.h"

static const uint64_t seed = 808;

typedef struct scenario {
  int32_t n;
  where where; /* of the first set; the second is on the device */
  bool streamed;
  int64_t batch, chunk; /* 0: 1; 0: all */
} scenario;

typedef struct failure {
  int64_t call;
  bool for_good, late;
} failure;

typedef struct bench {
  mmci_device *device;
  mmci_plan plan;
  mmci_run *run;
  matrices *sets[2];
  void *streams[2];
  bool for_good;
} bench;

static void open_bench(bench *b, const scenario *s, const failure *f) {
  static const int64_t dims[] = {5, 3, 7, 2, 6, 4, 8, 3, 5};
  uint64_t random = seed;
  mmci_error error;
  *b = (bench){.device = fake_open(&(fake_options){.seed = seed + (uint64_t)f->call, .queues = 3}),
               .for_good = f->for_good};
  b->plan = random_batch_plan(&random, MMC_C64, s->n, dims, s->batch > 0 ? s->batch : 1);
  mmci_plan_machine machine = {.queues = 3, .memory_bytes = UINT64_MAX - 1};
  assert_int_equal(mmci_plan_fit(&b->plan, &machine, UINT64_MAX, &error), MMC_OK);
  b->plan.streamed = s->streamed;
  if (s->chunk > 0) assert_int_equal(mmci_plan_set_chunk(&b->plan, s->chunk, &error), MMC_OK);
  b->sets[0] = matrices_create(&b->plan, b->device, s->where, &random, seed);
  b->sets[1] = matrices_create(&b->plan, b->device, ON_DEVICE, &random, seed);
  for (int t = 0; t < 2; t++) b->streams[t] = fake_stream_create(b->device);
}

static void sync_streams(bench *b) {
  for (int t = 0; t < 2; t++) fake_stream_sync(b->device, b->streams[t]);
}

static void close_bench(bench *b) {
  sync_streams(b);
  mmci_run_destroy(b->run);
  for (int s = 0; s < 2; s++) matrices_destroy(b->sets[s]);
  mmci_plan_destroy(&b->plan);
  expect_no_fault(fake_close(b->device), seed);
}

/* ---- what is done ---------------------------------------------------------------------------- */

typedef enum deed {
  CREATE,
  EXECUTE_FIRST,
  EXECUTE_SECOND,
  ENQUEUE_FIRST,
  ENQUEUE_SECOND,       /* on one stream */
  ENQUEUE_SECOND_AGAIN, /* on the other */
  CAPTURE_SECOND,
  WAIT,
  LOOK, /* wait, and look at the results */
} deed;

static const deed deeds[] = {
    CREATE,         LOOK,           EXECUTE_FIRST,  EXECUTE_SECOND,
    LOOK,           EXECUTE_FIRST,  EXECUTE_SECOND, EXECUTE_SECOND,
    LOOK,           ENQUEUE_SECOND, WAIT,           ENQUEUE_SECOND_AGAIN,
    WAIT,           LOOK,           ENQUEUE_SECOND, ENQUEUE_SECOND_AGAIN,
    ENQUEUE_FIRST,  EXECUTE_FIRST,  ENQUEUE_SECOND, LOOK,
    CAPTURE_SECOND, EXECUTE_SECOND, LOOK,           ENQUEUE_SECOND,
    EXECUTE_SECOND, LOOK,
};
enum { DEEDS = sizeof deeds / sizeof deeds[0] };

static mmc_status enqueue(bench *b, int set, int stream, mmci_error *error) {
  matrices *m = b->sets[set];
  return mmci_run_enqueue(b->run, b->streams[stream], m->factors, &m->out, error);
}

static mmc_status execute(bench *b, int set, mmci_error *error) {
  return mmci_run_execute(b->run, b->sets[set]->factors, &b->sets[set]->out, error);
}

/* Others are refused. */
static bool can_be_captured(const bench *b) {
  return !b->plan.streamed && b->plan.chunk == b->plan.chain->batch &&
         !matrices_are_uneven(b->sets[1]);
}

static mmc_status capture(bench *b, mmci_error *error) {
  if (!can_be_captured(b)) return MMC_OK;
  sync_streams(b);
  fake_stream_capture_begin(b->device, b->streams[1]);
  mmc_status status = enqueue(b, 1, 1, error);
  mmci_graph *graph = fake_stream_capture_end(b->device, b->streams[1]);
  assert_true(status != MMC_OK || graph != NULL);
  if (graph == NULL) return status;
  if (status == MMC_OK) fake_stream_launch(b->device, b->streams[0], graph);
  fake_stream_sync(b->device, b->streams[0]);
  fake_graph_destroy(graph);
  return status;
}

static mmc_status do_deed(bench *b, deed deed, mmci_error *error) {
  switch (deed) {
    case CREATE:
      return mmci_run_create(&b->plan, fake_ops(b->device), b->device, MMCI_NATIVE, &b->run, error);
    case EXECUTE_FIRST:
      return execute(b, 0, error);
    case EXECUTE_SECOND:
      return execute(b, 1, error);
    case ENQUEUE_FIRST:
      return enqueue(b, 0, 0, error);
    case ENQUEUE_SECOND:
      return enqueue(b, 1, 0, error);
    case ENQUEUE_SECOND_AGAIN:
      return enqueue(b, 1, 1, error);
    case CAPTURE_SECOND:
      return capture(b, error);
    case WAIT:
      return mmci_run_wait(b->run, error);
    default:
      return MMC_OK;
  }
}

/* Every set that was computed is right. */
static void look(bench *b, bool *computed) {
  sync_streams(b);
  fake_expect_done(b->device);
  for (int s = 0; s < 2; s++) {
    if (computed[s]) matrices_check(b->sets[s]);
    matrices_poison(b->sets[s]);
    computed[s] = false;
  }
}

/* A deed, and when it fails the same again; false when the device has failed for good. */
static bool try_deed(bench *b, deed deed, bool *computed) {
  bool failed_before = fake_has_failed(b->device);
  mmci_error error = {0};
  mmc_status status = do_deed(b, deed, &error);
  bool fails_now = !failed_before && fake_has_failed(b->device);
  expect_no_fault(fake_fault(b->device), seed);
  if (fails_now) {
    assert_true(status == MMC_E_DEVICE || status == MMC_E_NOMEM);
    assert_true(error.text[0] != '\0');
    if (deed == CREATE) assert_null(b->run);
    if (b->for_good) return false;
    /* What the run was about is over, but for what was left to streams before. */
    if (deed != WAIT) {
      sync_streams(b);
      fake_expect_done(b->device);
    }
    expect_no_fault(fake_fault(b->device), seed);
    status = do_deed(b, deed, &error);
  }
  if (status != MMC_OK) fail_msg("deed %d: %s", (int)deed, error.text);
  if (deed == EXECUTE_FIRST || deed == ENQUEUE_FIRST) computed[0] = true;
  if (deed == EXECUTE_SECOND || deed == ENQUEUE_SECOND || deed == ENQUEUE_SECOND_AGAIN ||
      (deed == CAPTURE_SECOND && can_be_captured(b)))
    computed[1] = true;
  if (deed == WAIT) fake_expect_done(b->device);
  if (deed == LOOK) look(b, computed);
  return true;
}

/* Says whether the call was reached. */
static bool fail_once(const scenario *s, const failure *f) {
  bench b;
  bool computed[2] = {false, false}, works = true;
  open_bench(&b, s, f);
  fake_fail_at(b.device, f->call, f->for_good, f->late);
  int d = 0;
  for (; d < DEEDS && works; d++) works = try_deed(&b, deeds[d], computed);
  bool reached = fake_has_failed(b.device);
  /* On a broken device whatever follows fails, or not, but comes to an end. */
  for (; d < DEEDS && b.run != NULL; d++) {
    mmci_error error;
    if (deeds[d] != LOOK) (void)do_deed(&b, deeds[d], &error);
    sync_streams(&b);
  }
  close_bench(&b);
  return reached;
}

static void fail_each(const scenario *s) {
  for (int which = 0; which < 4; which++) {
    failure f = {.call = 1, .for_good = which & 1, .late = which & 2};
    while (fail_once(s, &f)) f.call++;
    assert_true(f.call > 10);
  }
}

/* ---- no memory ------------------------------------------------------------------------------- */

/* All deeds, with the library's allocation number `number`, from 0, failing; returns whether it was
 * reached. What it was for fails, and succeeds when it is asked for again. */
static bool fail_allocation(const scenario *s, long number) {
  bench b;
  bool computed[2] = {false, false};
  open_bench(&b, s, &(failure){0});
  allocation_failures = 0;
  long left = number;
  for (int d = 0; d < DEEDS; d++) {
    mmci_error error = {0};
    allocations_left = allocation_failures > 0 || deeds[d] == LOOK ? -1 : left;
    mmc_status status = deeds[d] == LOOK ? MMC_OK : do_deed(&b, deeds[d], &error);
    if (allocation_failures == 0 && deeds[d] != LOOK) left = allocations_left;
    allocations_left = -1;
    if (status != MMC_OK) {
      if (status != MMC_E_NOMEM)
        fail_msg("allocation %ld, deed %d: %s", number, (int)deeds[d], error.text);
      assert_true(allocation_failures > 0 && error.text[0] != '\0');
      if (deeds[d] == CREATE) assert_null(b.run);
      if (deeds[d] != WAIT) sync_streams(&b);
      expect_no_fault(fake_fault(b.device), seed);
    }
    if (status != MMC_OK || deeds[d] == LOOK)
      assert_true(try_deed(&b, deeds[d], computed));
    else if (deeds[d] == EXECUTE_FIRST || deeds[d] == ENQUEUE_FIRST)
      computed[0] = true;
    else if (deeds[d] == EXECUTE_SECOND || deeds[d] == ENQUEUE_SECOND ||
             deeds[d] == ENQUEUE_SECOND_AGAIN ||
             (deeds[d] == CAPTURE_SECOND && can_be_captured(&b)))
      computed[1] = true;
  }
  close_bench(&b);
  return allocation_failures > 0;
}

static void of_memory(void **state) {
  (void)state;
  static const scenario scenarios[] = {
      {.n = 6, .where = ON_DEVICE},
      {.n = 8, .where = ANYWHERE},
      {.n = 4, .where = ANYWHERE, .streamed = true},
      {.n = 4, .where = ANYWHERE, .batch = 5, .chunk = 2},
  };
  for (size_t s = 0; s < sizeof scenarios / sizeof scenarios[0]; s++) {
    long number = 0;
    while (fail_allocation(&scenarios[s], number)) number++;
    assert_true(number > 3);
  }
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void on_the_device(void **state) {
  (void)state;
  fail_each(&(scenario){.n = 6, .where = ON_DEVICE});
}
static void on_the_host(void **state) {
  (void)state;
  fail_each(&(scenario){.n = 6, .where = ON_HOST});
}
static void anywhere(void **state) {
  (void)state;
  fail_each(&(scenario){.n = 8, .where = ANYWHERE});
}
static void of_one_factor(void **state) {
  (void)state;
  fail_each(&(scenario){.n = 1, .where = ON_HOST});
}
static void streamed(void **state) {
  (void)state;
  fail_each(&(scenario){.n = 4, .where = ANYWHERE, .streamed = true});
}

static void of_a_batch(void **state) {
  (void)state;
  fail_each(&(scenario){.n = 4, .where = ANYWHERE, .batch = 3});
}
static void of_a_batch_in_chunks(void **state) {
  (void)state;
  fail_each(&(scenario){.n = 4, .where = ANYWHERE, .batch = 5, .chunk = 2});
  fail_each(&(scenario){.n = 3, .where = ON_HOST, .batch = 4, .chunk = 2});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(on_the_device),
      cmocka_unit_test(on_the_host),
      cmocka_unit_test(anywhere),
      cmocka_unit_test(of_one_factor),
      cmocka_unit_test(streamed),
      cmocka_unit_test(of_a_batch),
      cmocka_unit_test(of_a_batch_in_chunks),
      cmocka_unit_test(of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

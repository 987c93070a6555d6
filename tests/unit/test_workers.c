/* test_workers.c: every piece is done once, whoever shares and however many do at the same time, in
 * a forked child too; pieces may wait for those before them. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "device/blas/workers.h"

enum { PIECES = 300, WORKERS = 5, CALLERS = 6, CALLS = 200 };

typedef struct work {
  atomic_int done[PIECES];
  atomic_int busy[WORKERS]; /* a worker's number is one thread's at a time */
  atomic_int failures;
} work;

static void do_piece(void *user, int worker, int64_t piece) {
  work *w = user;
  if (worker < 0 || worker >= WORKERS || piece < 0 || piece >= PIECES) {
    atomic_fetch_add(&w->failures, 1);
    return;
  }
  if (atomic_fetch_add(&w->busy[worker], 1) != 0) atomic_fetch_add(&w->failures, 1);
  atomic_fetch_add(&w->done[piece], 1);
  atomic_fetch_sub(&w->busy[worker], 1);
}

/* Says whether `workers` do `pieces` pieces once each, and no others. */
static bool shares(int workers, int64_t pieces) {
  work *w = calloc(1, sizeof *w);
  if (w == NULL) return false;
  mmci_share(workers, pieces, do_piece, w);
  bool right = atomic_load(&w->failures) == 0;
  for (int64_t p = 0; p < PIECES; p++) right = right && atomic_load(&w->done[p]) == (p < pieces);
  free(w);
  return right;
}

static void every_piece_once(void **state) {
  (void)state;
  for (int workers = 1; workers <= WORKERS; workers++)
    for (int64_t pieces = 0; pieces <= PIECES; pieces = 3 * pieces + 1)
      assert_true(shares(workers, pieces));
}

static void *call(void *argument) {
  bool right = true;
  for (int i = 0; i < CALLS; i++) right = shares(1 + i % WORKERS, PIECES) && right;
  return right ? argument : NULL;
}

static void many_callers(void **state) {
  (void)state;
  pthread_t callers[CALLERS];
  for (int i = 0; i < CALLERS; i++)
    assert_int_equal(pthread_create(&callers[i], NULL, call, state), 0);
  for (int i = 0; i < CALLERS; i++) {
    void *right = NULL;
    assert_int_equal(pthread_join(callers[i], &right), 0);
    assert_non_null(right);
  }
}

typedef struct turns {
  mmci_tally done;
  int64_t slow;         /* every so many-th piece takes a millisecond */
  int64_t sum;          /* what pieces add up to, one after another */
  atomic_int too_early; /* pieces that began before those before them were done */
} turns;

/* Whoever does a piece waits until all before it are done, as the phases of a chain do: awake where
 * that is soon, and else asleep. */
static void in_turn(void *user, int worker, int64_t piece) {
  turns *t = user;
  (void)worker;
  mmci_tally_await(&t->done, piece);
  if (atomic_load(&t->done.count) != piece) atomic_fetch_add(&t->too_early, 1);
  if (piece % t->slow == 0) usleep(1000);
  t->sum += piece;
  mmci_tally_raise(&t->done);
}

static void pieces_wait_for_earlier_ones(void **state) {
  (void)state;
  for (int i = 0; i < CALLS; i++) {
    turns t = {.done = MMCI_TALLY, .slow = i % 20 == 0 ? 20 : PIECES};
    mmci_share(WORKERS, PIECES, in_turn, &t);
    assert_int_equal(atomic_load(&t.done.count), PIECES);
    assert_int_equal(t.sum, PIECES * (PIECES - 1) / 2);
    assert_int_equal(atomic_load(&t.too_early), 0);
  }
}

static void take_long(void *user, int worker, int64_t piece) {
  atomic_int *done = user;
  (void)worker, (void)piece;
  usleep(3000);
  atomic_fetch_add(done, 1);
}

/* The caller sleeps until helpers that take long are done. */
static void long_pieces_are_waited_for(void **state) {
  (void)state;
  for (int i = 0; i < CALLS / 10; i++) {
    atomic_int done = 0;
    mmci_share(WORKERS, WORKERS, take_long, &done);
    assert_int_equal(atomic_load(&done), WORKERS);
  }
}

static void a_child_shares_too(void **state) {
  (void)state;
#ifdef __SANITIZE_THREAD__
  skip(); /* its children cannot start threads */
#endif
  assert_true(shares(WORKERS, PIECES));
  for (int i = 0; i < 20; i++) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      bool once = shares(WORKERS, PIECES), again = shares(WORKERS, PIECES);
      _exit(once && again ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
  }
  assert_true(shares(WORKERS, PIECES));
}

static void as_many_as_are_worth_waking(void **state) {
  (void)state;
  assert_int_equal(mmci_workers(0, 1000), 1);
  assert_int_equal(mmci_workers(1, 1), 1);
  assert_int_equal(mmci_workers(1, 0), 1);
  assert_true(mmci_workers(1, 2) <= 2);
  assert_true(mmci_workers(1e9, 1 << 30) >= 1);
}

/* As preparing work does. Until then the caller works alone. */
static int provide(void **state) {
  (void)state;
  if (!shares(WORKERS, PIECES)) return -1;
  return mmci_workers_provide(WORKERS, NULL) == MMC_OK ? 0 : -1;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_piece_once),
      cmocka_unit_test(many_callers),
      cmocka_unit_test(pieces_wait_for_earlier_ones),
      cmocka_unit_test(long_pieces_are_waited_for),
      cmocka_unit_test(a_child_shares_too),
      cmocka_unit_test(as_many_as_are_worth_waking),
  };
  return cmocka_run_group_tests_name("workers", tests, provide, NULL);
}

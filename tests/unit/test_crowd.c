/* test_crowd.c: threads that run are counted, those that sleep, were left out or have ended are
 * not. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "base/monotonic.h"
#include "device/blas/crowd.h"

typedef struct spinner {
  pthread_t thread;
  bool is_left_out;
  atomic_bool runs, ends;
} spinner;

static void *spin(void *argument) {
  spinner *x = argument;
  if (x->is_left_out) mmci_crowd_leave_out();
  atomic_store(&x->runs, true);
  while (!atomic_load(&x->ends)) continue;
  if (x->is_left_out) mmci_crowd_count_again();
  return NULL;
}

static void start(spinner *x, bool is_left_out) {
  *x = (spinner){.is_left_out = is_left_out};
  assert_int_equal(pthread_create(&x->thread, NULL, spin, x), 0);
  while (!atomic_load(&x->runs)) continue;
}

static void end(spinner *x) {
  atomic_store(&x->ends, true);
  pthread_join(x->thread, NULL);
}

/* Says whether within some seconds so many threads are counted: others may keep the processors, and
 * which threads there are is looked up now and then. It sleeps between looks in every other tenth
 * of a second only: where others keep all processors but one, a thread that wakes may always take
 * the place of the one that it looks for, until the system shares out those that never sleep. */
static bool comes_to(int expected) {
  const double end_s = mmci_now_s() + 20;
  for (double left_s; (left_s = end_s - mmci_now_s()) > 0;) {
    if (mmci_crowd_running() == expected) return true;
    const struct timespec pause = {.tv_nsec = 1000000};
    if ((int)(10 * left_s) % 2 == 1) nanosleep(&pause, NULL);
  }
  return false;
}

/* With one processor a thread that runs stops the one that looks. */
static bool has_processors(void) {
  return sysconf(_SC_NPROCESSORS_ONLN) > 1;
}

static void runs_and_ends(void **state) {
  (void)state;
  spinner x;
  if (!has_processors()) skip();
  assert_true(comes_to(0));
  start(&x, false);
  assert_true(comes_to(1));
  end(&x);
  assert_true(comes_to(0));
}

/* Nobody counts a helper: of many looks at one that runs, none finds a crowd. */
static void is_left_out(void **state) {
  (void)state;
  spinner x;
  if (!has_processors()) skip();
  start(&x, true);
  for (int i = 0; i < 300; i++) assert_int_equal(mmci_crowd_running(), 0);
  end(&x);
  start(&x, false);
  assert_true(comes_to(1));
  end(&x);
}

static void crowd_of_too_many(void **state) {
  (void)state;
  assert_true(mmci_crowd_is_there(1 << 20));
  assert_true(comes_to(0));
  assert_false(mmci_crowd_is_there(1));
}

/* A forked child has none of the other threads, and counts its own. */
static void child_counts_anew(void **state) {
  (void)state;
  spinner x;
  if (!has_processors()) skip();
  start(&x, false);
  assert_true(comes_to(1));
  const pid_t child = fork();
  if (child == 0) {
    mmci_crowd_forget();
    _exit(comes_to(0) ? 0 : 1);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  end(&x);
  assert_int_equal(status, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs_and_ends),
      cmocka_unit_test(is_left_out),
      cmocka_unit_test(crowd_of_too_many),
      cmocka_unit_test(child_counts_anew),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* workers.c: helpers are threads that sleep until they are asked to work. They are made when work
 * is prepared. The asker takes them from a list, and gives them back when they are idle again. A
 * helper that is asked begins when the system lets it run; until then the asker may withdraw. */
#include "device/blas/workers.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "device/blas/crowd.h"
#ifdef _OPENMP
#include <omp.h>
#endif

/* Waking a thread takes some microseconds, more when it sleeps, so a share of work has at least so
 * many seconds. */
static const double least_s = 30e-6;

/* A helper looks so often for the next job before it sleeps, some 50 microseconds. A thread that
 * waits for a helper lets others run after as many looks, and sleeps after some more, some 0.3
 * milliseconds in all: to be woken takes long, and on Linux a thread that only yields may be run
 * again for milliseconds while the helper, which has used more of the same processor, waits. */
enum { LOOKS = 1000, YIELDS = 500 };

typedef struct job {
  mmci_work_fn work;
  void *user;
  int64_t pieces;
  atomic_llong next; /* the first piece that nobody has taken */
} job;

/* The state of a helper. The asker writes ASKED, and IDLE to withdraw while the helper has not read
 * that; the helper writes BUSY, and IDLE when it is done. */
enum { IDLE, ASKED, BUSY, ENDED };

typedef struct helper {
  pthread_t thread;
  bool has_thread; /* false in a forked child, until the helper is taken */
  atomic_int state;
  job *job; /* valid while BUSY */
  int worker;
  atomic_bool asleep, awaited; /* awaited: somebody sleeps until it is idle */
  pthread_mutex_t lock;
  pthread_cond_t asked, done;
  struct helper *next; /* in a list of idle or of taken helpers */
  struct helper *next_of_all;
} helper;

/* The helpers that nobody has taken, and all of them. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static helper *idle, *all;
static int helper_count;

static void look_again(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/* Waits a moment; returns false when it has waited so often that the caller had better sleep. */
static bool wait_awake(int *waits) {
  if (*waits < LOOKS)
    look_again();
  else
    sched_yield();
  return ++*waits < LOOKS + YIELDS;
}

static void take_pieces(job *job, int worker) {
  for (;;) {
    int64_t piece = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed);
    if (piece >= job->pieces) return;
    job->work(job->user, worker, piece);
  }
}

/* ---- helpers --------------------------------------------------------------------------------- */

static bool is_called(helper *x) {
  return atomic_load(&x->state) != IDLE;
}

static void wait_for_job(helper *x) {
  for (int look = 0; look < LOOKS; look++) {
    if (is_called(x)) return;
    look_again();
  }
  pthread_mutex_lock(&x->lock);
  atomic_store(&x->asleep, true);
  while (!is_called(x)) pthread_cond_wait(&x->asked, &x->lock);
  atomic_store(&x->asleep, false);
  pthread_mutex_unlock(&x->lock);
}

static void become_idle(helper *x) {
  atomic_store(&x->state, IDLE);
  if (!atomic_load(&x->awaited)) return;
  pthread_mutex_lock(&x->lock);
  pthread_cond_signal(&x->done);
  pthread_mutex_unlock(&x->lock);
}

static void *help(void *argument) {
  helper *x = argument;
  mmci_crowd_leave_out();
  for (;;) {
    wait_for_job(x);
    int state = ASKED;
    if (atomic_compare_exchange_strong(&x->state, &state, BUSY)) {
      take_pieces(x->job, x->worker);
      become_idle(x);
    }
    if (state == ENDED) break;
  }
  mmci_crowd_count_again();
  return NULL;
}

static void call(helper *x, int state) {
  atomic_store(&x->state, state);
  if (!atomic_load(&x->asleep)) return;
  pthread_mutex_lock(&x->lock);
  pthread_cond_signal(&x->asked);
  pthread_mutex_unlock(&x->lock);
}

static void initialise(helper *x) {
  pthread_mutex_init(&x->lock, NULL);
  pthread_cond_init(&x->asked, NULL);
  pthread_cond_init(&x->done, NULL);
  atomic_store(&x->state, IDLE);
  atomic_store(&x->asleep, false);
  atomic_store(&x->awaited, false);
  x->has_thread = false;
}

static void destroy(helper *x) {
  pthread_cond_destroy(&x->asked);
  pthread_cond_destroy(&x->done);
  pthread_mutex_destroy(&x->lock);
  free(x);
}

/* Starts the helper's thread unless it runs; returns false when the system gives no more threads.
 * Signals are left to the program's own threads. */
static bool start_helper(helper *x) {
  if (x->has_thread) return true;
  sigset_t signals, before;
  sigfillset(&signals);
  pthread_sigmask(SIG_BLOCK, &signals, &before);
  x->has_thread = pthread_create(&x->thread, NULL, help, x) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return x->has_thread;
}

/* ---- forks, and the end ---------------------------------------------------------------------- */

static void before_fork(void) {
  pthread_mutex_lock(&lock);
}

static void after_fork(void) {
  pthread_mutex_unlock(&lock);
}

/* A child process has the helpers without their threads. */
static void after_fork_in_child(void) {
  for (helper *x = all; x != NULL; x = x->next_of_all) {
    initialise(x);
    x->next = x->next_of_all;
  }
  idle = all;
  mmci_crowd_forget();
  pthread_mutex_unlock(&lock);
}

static void prepare_for_forks(void) {
  (void)pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

/* Runs when the library is unloaded, or the program ends. */
__attribute__((destructor)) static void end_helpers(void) {
  while (idle != NULL) {
    helper *x = idle;
    idle = x->next;
    if (x->has_thread) {
      call(x, ENDED);
      pthread_join(x->thread, NULL);
    }
    destroy(x);
  }
}

/* ---- sharing --------------------------------------------------------------------------------- */

/* Adds a helper to the list; *there says whether the system gave a thread for it. */
static mmc_status add_helper(bool *there, mmci_error *error) {
  helper *x = mmci_alloc_zeroed(1, sizeof *x);
  *there = false;
  if (x == NULL) return mmci_fail_nomem(error, sizeof *x);
  initialise(x);
  if (!start_helper(x)) {
    destroy(x);
    return MMC_OK;
  }
  x->next = idle;
  x->next_of_all = all;
  idle = all = x;
  helper_count++;
  *there = true;
  return MMC_OK;
}

mmc_status mmci_workers_provide(int workers, mmci_error *error) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  mmc_status status = MMC_OK;
  bool there = true;
  if (workers < 2) return MMC_OK;
  pthread_once(&once, prepare_for_forks);
  pthread_mutex_lock(&lock);
  while (helper_count < workers - 1 && there && status == MMC_OK)
    status = add_helper(&there, error);
  pthread_mutex_unlock(&lock);
  return status;
}

/* Takes at most so many helpers, as a list. */
static helper *take_helpers(int most) {
  helper *team = NULL;
  pthread_mutex_lock(&lock);
  for (int h = 0; h < most && idle != NULL && start_helper(idle); h++) {
    helper *x = idle;
    idle = x->next;
    x->next = team;
    team = x;
  }
  pthread_mutex_unlock(&lock);
  return team;
}

/* Waits for a helper that has begun. */
static void dismiss(helper *x) {
  int state = ASKED;
  if (atomic_compare_exchange_strong(&x->state, &state, IDLE)) return;
  int waits = 0;
  do {
    if (atomic_load(&x->state) == IDLE) return;
  } while (wait_awake(&waits));
  pthread_mutex_lock(&x->lock);
  atomic_store(&x->awaited, true);
  while (atomic_load(&x->state) != IDLE) pthread_cond_wait(&x->done, &x->lock);
  atomic_store(&x->awaited, false);
  pthread_mutex_unlock(&x->lock);
}

static void give_back(helper *team) {
  helper *last = NULL;
  for (helper *x = team; x != NULL; x = x->next) {
    dismiss(x);
    last = x;
  }
  if (last == NULL) return;
  pthread_mutex_lock(&lock);
  last->next = idle;
  idle = team;
  pthread_mutex_unlock(&lock);
}

void mmci_share(int workers, int64_t pieces, mmci_work_fn work, void *user) {
  job job = {.work = work, .user = user, .pieces = pieces};
  helper *team = workers > 1 ? take_helpers(workers - 1) : NULL;
  int worker = 1;
  for (helper *x = team; x != NULL; x = x->next) {
    x->job = &job;
    x->worker = worker++;
    call(x, ASKED);
  }
  take_pieces(&job, 0);
  give_back(team);
}

int mmci_workers_most(void) {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  long there = sysconf(_SC_NPROCESSORS_ONLN);
  return there > 1 ? (int)there : 1;
#endif
}

int mmci_workers(double serial_s, int64_t pieces) {
  double most = mmci_workers_most();
  if (!(serial_s >= most * least_s)) most = serial_s / least_s;
  if (!((double)pieces >= most)) most = (double)pieces;
  return most >= 2 ? (int)most : 1;
}

/* ---- tallies --------------------------------------------------------------------------------- */

void mmci_tally_raise(mmci_tally *tally) {
  atomic_fetch_add(&tally->count, 1);
  if (atomic_load(&tally->waiting) == 0) return;
  pthread_mutex_lock(&tally->lock);
  pthread_cond_broadcast(&tally->raised);
  pthread_mutex_unlock(&tally->lock);
}

void mmci_tally_await(mmci_tally *tally, int64_t least) {
  int waits = 0;
  do {
    if (atomic_load(&tally->count) >= least) return;
  } while (wait_awake(&waits));
  pthread_mutex_lock(&tally->lock);
  atomic_fetch_add(&tally->waiting, 1);
  while (atomic_load(&tally->count) < least) pthread_cond_wait(&tally->raised, &tally->lock);
  atomic_fetch_sub(&tally->waiting, 1);
  pthread_mutex_unlock(&tally->lock);
}

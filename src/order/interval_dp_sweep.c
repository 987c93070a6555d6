/* interval_dp_sweep.c: fills the tiles, on several threads.
 *
 * Tile (I, J) needs the tiles left of it in row I and those below it in column J. The columns are
 * taken in strips of a few, from left to right; a thread claims the next strip and works its way up
 * it, row by row. In row I it needs of the strips on its left only that they are past row I, and
 * they are as soon as the strip next to it is, which needed the same of its own neighbour. So the
 * threads follow one another at a distance of a row, and a strip claimed earlier never waits for a
 * later one: any number of threads, one included, comes to the end.
 *
 * Wide strips read the tiles of row I once for several columns; narrow ones keep more threads busy.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "base/alloc.h"
#include "base/monotonic.h"
#include "order/interval_dp.h"

enum { MAX_STRIP = 8, MAX_THREADS = 256 };

typedef struct strips {
  int32_t width, count;
  atomic_int next;
  atomic_int *finished; /* in strip s the rows from finished[s] on are finished */
} strips;

bool mmci_dp_should_stop(mmci_dp_work *work) {
  mmci_dp_run *run = work->run;
  if (work->is_caller && run->problem->progress != NULL) {
    double time_s = mmci_now_s();
    if (time_s >= work->next_report) {
      work->next_report = time_s + 0.1;
      double done = run->steps > 0 ? (double)atomic_load(&run->steps_done) / run->steps : 0;
      if (run->problem->progress(run->problem->progress_user, done) != 0) {
        atomic_store(&run->interrupted, true);
        atomic_store(&run->stop, true);
      }
    }
  }
  return atomic_load_explicit(&run->stop, memory_order_relaxed);
}

/* Waits until strip s has finished row I. Returns false to stop. */
static bool wait_for(mmci_dp_work *work, const strips *all, int32_t s, int32_t I) {
  for (int turn = 1; atomic_load_explicit(&all->finished[s], memory_order_acquire) > I; turn++) {
    if (turn % 64 != 0) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
      continue;
    }
    if (mmci_dp_should_stop(work)) return false;
    sched_yield();
  }
  return true;
}

/* Works its way up a strip. Returns false to stop. */
static bool sweep_strip(mmci_dp_work *work, strips *all, int32_t s) {
  mmci_dp_run *run = work->run;
  const mmci_dp_kernel *kernel = run->kernel;
  int32_t first = s * all->width, end = first + all->width;
  if (end > run->table->tiles) end = run->table->tiles;
  work->first_column = first;
  for (int32_t I = end - 1; I >= 0; I--) {
    if (I < first && !wait_for(work, all, s - 1, I)) return false;
    int32_t left = I < first ? first - 1 : I, begin = left + 1;
    if (I >= first) kernel->diagonal(work, I);
    for (int32_t J = begin; J < end; J++) kernel->start(work, I, J, left);
    for (int32_t K = I + 1; K < begin; K++) {
      if (mmci_dp_should_stop(work)) return false;
      kernel->products(work, I, K, begin, end - begin);
    }
    unsigned long long steps = 0;
    for (int32_t J = begin; J < end; J++) {
      for (int32_t K = begin; K < J; K++) {
        if (mmci_dp_should_stop(work)) return false;
        kernel->products(work, I, K, J, 1);
      }
      kernel->finish(work, I, J);
      steps += (unsigned long long)(J - I);
    }
    atomic_fetch_add_explicit(&run->steps_done, steps, memory_order_relaxed);
    atomic_store_explicit(&all->finished[s], I, memory_order_release);
    if (mmci_dp_should_stop(work)) return false;
  }
  return true;
}

static void work_through(mmci_dp_work *work, strips *all) {
  for (;;) {
    int32_t s = atomic_fetch_add(&all->next, 1);
    if (s >= all->count || !sweep_strip(work, all, s)) return;
  }
}

typedef struct helper {
  mmci_dp_work work;
  strips *all;
  pthread_t thread;
} helper;

static void *help(void *user) {
  const helper *x = user;
  mmci_dp_work work = x->work; /* threads write to theirs all the time */
  work_through(&work, x->all);
  return NULL;
}

/* Works with as many threads as there are helpers, or as the system gives; the first one is the
 * caller. OpenMP's threads would do, but that a child process would wait for them for ever, and
 * that without memory OpenMP ends the program. */
static void work_together(helper *helpers, int count) {
  int begun = 1;
  sigset_t signals, before;
  sigfillset(&signals);
  pthread_sigmask(SIG_BLOCK, &signals, &before);
  while (begun < count && pthread_create(&helpers[begun].thread, NULL, help, &helpers[begun]) == 0)
    begun++;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  help(&helpers[0]);
  for (int t = 1; t < begun; t++) pthread_join(helpers[t].thread, NULL);
}

static int threads_for(const mmci_dp_run *run) {
#ifdef _OPENMP
  int threads = run->problem->threads;
  if (threads == 0) threads = omp_get_max_threads();
  if (threads > run->table->tiles) threads = run->table->tiles;
  return threads < 1 ? 1 : threads < MAX_THREADS ? threads : MAX_THREADS;
#else
  (void)run;
  return 1;
#endif
}

mmc_status mmci_dp_sweep(mmci_dp_run *run, mmci_error *error) {
  int32_t tiles = run->table->tiles;
  int threads = threads_for(run);
  strips all = {.width = tiles / (8 * threads)};
  if (all.width < 1) all.width = 1;
  if (all.width > MAX_STRIP) all.width = MAX_STRIP;
  all.count = (tiles + all.width - 1) / all.width;
  if (threads > all.count) threads = all.count;

  size_t column_bytes = 0;
  if (run->kernel->column_bytes != NULL)
    column_bytes = (size_t)all.width * run->kernel->column_bytes(tiles);
  unsigned char *columns = mmci_alloc_aligned((size_t)threads, column_bytes);
  helper *helpers = mmci_alloc_array((size_t)threads, sizeof *helpers);
  all.finished = mmci_alloc_array((size_t)all.count, sizeof *all.finished);
  if (columns == NULL || helpers == NULL || all.finished == NULL) {
    free(columns);
    free(helpers);
    free(all.finished);
    return mmci_fail_nomem(error, (size_t)threads * column_bytes);
  }
  for (int32_t s = 0; s < all.count; s++) atomic_init(&all.finished[s], tiles);
  atomic_init(&all.next, 0);
  run->steps = (double)tiles * (double)(tiles + 1) * (double)(tiles - 1) / 6;

  for (int t = 0; t < threads; t++)
    helpers[t] = (helper){
        .work = {.run = run, .columns = columns + (size_t)t * column_bytes, .is_caller = t == 0},
        .all = &all};
  work_together(helpers, threads);

  free(helpers);
  free(columns);
  free(all.finished);
  if (!atomic_load(&run->stop)) return MMC_OK;
  if (atomic_load(&run->interrupted))
    return mmci_fail(error, MMC_E_INTERRUPTED, "stopped by the progress callback");
  return mmci_fail(error, MMC_E_ARG, "price: expected >= 0, got %g for i = %d, k = %d, j = %d",
                   run->bad_value, run->bad_i, run->bad_k, run->bad_j);
}

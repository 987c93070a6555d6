/* workers.h: threads that help the thread that has work. */
#ifndef MMCI_WORKERS_H
#define MMCI_WORKERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/status.h"

/* Returns how many threads to use for work that takes one of them serial_s seconds and has so many
 * pieces: as many as OpenMP allows, but each with work worth waking it for; at least 1. */
int mmci_workers(double serial_s, int64_t pieces);

/* Returns as many as OpenMP allows; without it, as many as there are processors. */
int mmci_workers_most(void);

/* Makes the threads for so many workers, the caller of mmci_share() being one, unless they are
 * there; MMC_E_NOMEM without memory for them. Where the system gives no more threads, fewer share
 * the work. It is called when work is prepared, so that sharing it allocates nothing. */
mmc_status mmci_workers_provide(int workers, mmci_error *error);

/* Does one piece; worker is the number of the thread that does it. */
typedef void (*mmci_work_fn)(void *user, int worker, int64_t piece);

/* Calls work once for every piece from 0 to pieces - 1, by at most so many of the threads provided,
 * the caller among them as worker 0. Pieces are begun in ascending order. A thread that has not
 * begun when all pieces are taken is not waited for: where others keep the processor, the caller
 * does the work. Any threads may call this at the same time, and so may a forked child, whose
 * threads start then. */
void mmci_share(int workers, int64_t pieces, mmci_work_fn work, void *user);

/* A count that pieces of one job wait for. One that is MMCI_TALLY has counted nothing. */
typedef struct mmci_tally {
  atomic_llong count;
  atomic_int waiting;
  pthread_mutex_t lock;
  pthread_cond_t raised;
} mmci_tally;

#define MMCI_TALLY \
  { .lock = PTHREAD_MUTEX_INITIALIZER, .raised = PTHREAD_COND_INITIALIZER }

/* Counts one more. What was written before is seen by those who waited for it. */
void mmci_tally_raise(mmci_tally *tally);
/* Waits until so many are counted: at first by looking, then asleep, so that a thread that has to
 * count runs on the same processor, too. */
void mmci_tally_await(mmci_tally *tally, int64_t least);

#endif

/* workers.h: threads that help the thread that has work. */
#ifndef MMCI_WORKERS_H
#define MMCI_WORKERS_H

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

#endif

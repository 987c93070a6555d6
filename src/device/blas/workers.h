/* workers.h: threads that help the thread that has work. */
#ifndef MMCI_WORKERS_H
#define MMCI_WORKERS_H

#include <stdint.h>

/* Returns how many threads to use for work that takes one of them serial_s seconds and has so many
 * pieces: as many as OpenMP allows, but each with work worth waking it for; at least 1. */
int mmci_workers(double serial_s, int64_t pieces);

/* Returns as many as OpenMP allows; without it, as many as there are processors. */
int mmci_workers_most(void);

/* Does one piece; worker is the number of the thread that does it. */
typedef void (*mmci_work_fn)(void *user, int worker, int64_t piece);

/* Calls work once for every piece from 0 to pieces - 1, by at most so many threads, the caller
 * among them as worker 0. Pieces are begun in ascending order. A thread that has not begun when all
 * pieces are taken is not waited for: where others keep the processor, the caller does the work.
 * Any threads may call this at the same time, and so may a forked child. */
void mmci_share(int workers, int64_t pieces, mmci_work_fn work, void *user);

#endif

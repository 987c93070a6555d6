/* share.h: work on sparse matrices, shared among threads that live as long as the work. */
#ifndef MMCI_SHARE_SPARSE_H
#define MMCI_SHARE_SPARSE_H

#include <stdint.h>

/* Returns how many threads to use for work with so many multiplications: at most as many as
 * processors that this thread may run on, and as OMP_NUM_THREADS says. */
int mmci_sparse_threads(double multiplications);

/* Does one piece; worker is the number of the thread that does it. */
typedef void (*mmci_sparse_work_fn)(void *user, int worker, int64_t piece);

/* Calls work once for every piece from 0 to pieces - 1, by at most so many threads, the caller
 * among them as worker 0. Where the system gives no threads, the caller does all. When the caller's
 * work is to stop, as mmci_interrupted() then says, pieces are left out. */
void mmci_sparse_share(int threads, int64_t pieces, mmci_sparse_work_fn work, void *user);

enum { MMCI_SPARSE_THREADS = 64 };

#endif

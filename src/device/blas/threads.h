/* threads.h: the number of threads with which OpenBLAS computes one call.
 *
 * OpenBLAS uses all of its threads for every product above a size that it takes for small, also
 * where that costs more than it saves. The number belongs to the process: calls of other threads
 * that fall into one with fewer run with fewer as well, which changes no result. */
#ifndef MMCI_BLAS_THREADS_H
#define MMCI_BLAS_THREADS_H

/* Returns how many threads there are outside of any call with fewer; 1 where that is not known. */
int mmci_blas_threads(void);

/* Between the two, calls compute with at most so many threads. Any thread may call them. */
void mmci_blas_threads_limit(int threads);
void mmci_blas_threads_restore(void);

#endif

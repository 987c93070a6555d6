/* threads.h: how many threads OpenBLAS computes one call with.
 *
 * It takes as many as it has for every product above a size that it holds small, also where that
 * costs more than it saves. The number belongs to the process: calls of other threads that fall
 * into one with fewer run with fewer as well, which changes no result. */
#ifndef MMCI_BLAS_THREADS_H
#define MMCI_BLAS_THREADS_H

/* How many there are outside of any call with fewer; 1 where that is not known. */
int mmci_blas_threads(void);

/* Between the two, calls compute with at most so many threads. From any thread. */
void mmci_blas_threads_limit(int threads);
void mmci_blas_threads_restore(void);

#endif

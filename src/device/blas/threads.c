#include "device/blas/threads.h"

#ifdef MMCI_OPENBLAS

#include <cblas.h>
#include <pthread.h>

/* OpenBLAS has one number of threads for the process, so it is noted once: the number before the
 * first of the calls with fewer that are under way. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int limited, threads_before;

int mmci_blas_threads(void) {
  pthread_mutex_lock(&lock);
  int threads = limited > 0 ? threads_before : openblas_get_num_threads();
  pthread_mutex_unlock(&lock);
  return threads;
}

void mmci_blas_threads_limit(int threads) {
  pthread_mutex_lock(&lock);
  if (limited++ == 0) threads_before = openblas_get_num_threads();
  openblas_set_num_threads(threads);
  pthread_mutex_unlock(&lock);
}

void mmci_blas_threads_restore(void) {
  pthread_mutex_lock(&lock);
  if (--limited == 0) openblas_set_num_threads(threads_before);
  pthread_mutex_unlock(&lock);
}

#else

int mmci_blas_threads(void) {
  return 1;
}

void mmci_blas_threads_limit(int threads) {
  (void)threads;
}

void mmci_blas_threads_restore(void) {}

#endif

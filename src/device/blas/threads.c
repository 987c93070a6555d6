#include "device/blas/threads.h"

#include <pthread.h>

#include "device/blas/cblas_table.h"

/* OpenBLAS has one number of threads for the process, so it is noted once: the number before the
 * first of the calls with fewer that are under way. Of another CBLAS it is not known. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int limited, threads_before;

int mmci_blas_threads(void) {
  if (!mmci_blas.is_openblas) return 1;
  pthread_mutex_lock(&lock);
  int threads = limited > 0 ? threads_before : mmci_blas.get_num_threads();
  pthread_mutex_unlock(&lock);
  return threads;
}

void mmci_blas_threads_limit(int threads) {
  if (!mmci_blas.is_openblas) return;
  pthread_mutex_lock(&lock);
  if (limited++ == 0) threads_before = mmci_blas.get_num_threads();
  mmci_blas.set_num_threads(threads);
  pthread_mutex_unlock(&lock);
}

void mmci_blas_threads_restore(void) {
  if (!mmci_blas.is_openblas) return;
  pthread_mutex_lock(&lock);
  if (--limited == 0) mmci_blas.set_num_threads(threads_before);
  pthread_mutex_unlock(&lock);
}

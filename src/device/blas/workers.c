/* workers.c: threads are OpenMP's. GNU's keeps those of a parallel region for the next one, and a
 * forked child would wait for threads that it does not have: before a fork they are let go. */
#include "device/blas/workers.h"

#include <stddef.h>
#ifdef _OPENMP
#include <omp.h>
#include <pthread.h>

/* Waking a thread takes some microseconds, more when it sleeps. */
static const double least_s = 30e-6;

static void let_go(void) {
  omp_pause_resource_all(omp_pause_hard);
}

static void prepare_for_forks(void) {
  (void)pthread_atfork(let_go, NULL, NULL);
}

int mmci_workers_most(void) {
  return omp_get_max_threads();
}

int mmci_workers(double serial_s, int64_t pieces) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  double most = mmci_workers_most();
  if (!(serial_s >= most * least_s)) most = serial_s / least_s;
  if (!((double)pieces >= most)) most = (double)pieces;
  if (!(most >= 2)) return 1;
  pthread_once(&once, prepare_for_forks);
  return (int)most;
}
#else
int mmci_workers_most(void) {
  return 1;
}

int mmci_workers(double serial_s, int64_t pieces) {
  (void)serial_s, (void)pieces;
  return 1;
}
#endif

/* monotonic.h: the clock that never goes back. */
#ifndef MMCI_MONOTONIC_H
#define MMCI_MONOTONIC_H

#include <time.h>

/* Returns seconds since some moment of the past, the same for all threads of the process. */
static inline double mmci_now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif

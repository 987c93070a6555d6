/* timing.h: what benches of the C API share: the time, statuses, which end the program where they
 * are bad, and the order of measured times. */
#ifndef MMC_BENCH_TIMING_H
#define MMC_BENCH_TIMING_H

#include <errno.h>
#include <mmchain.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Returns seconds since some time. */
static inline double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void check(mmc_status status, const char *what) {
  if (status == MMC_OK) return;
  fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, mmc_status_string(status));
  exit(1);
}

/* Compares doubles for qsort(). */
static inline int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

#endif

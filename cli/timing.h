/* timing.h: the clock that measurements use. */
#ifndef MMC_CLI_TIMING_H
#define MMC_CLI_TIMING_H

#include <time.h>

/* Returns the seconds since some moment, which never run backwards. */
static inline double cli_now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif

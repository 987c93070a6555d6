/* random.h: seeded numbers for tests. Every test prints its seed when it fails. */
#ifndef MMC_TEST_RANDOM_H
#define MMC_TEST_RANDOM_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/random.h"

static inline uint64_t random_bits(uint64_t *state) {
  return mmci_random_bits(state);
}

/* Returns a number from 0 to limit-1. */
static inline int64_t random_below(uint64_t *state, int64_t limit) {
  return (int64_t)(random_bits(state) % (uint64_t)limit);
}

/* Returns a number that is uniform in (-1, 1) and never 0. */
static inline double random_unit(uint64_t *state) {
  return ((double)(random_bits(state) >> 11) + 0.5) / (double)(UINT64_C(1) << 52) - 1;
}

/* The families of dims on which solvers differ when they are wrong. */
enum { DIMS_FAMILIES = 13 };

static inline void random_dims(uint64_t *state, int family, int64_t n, int64_t *dims) {
  for (int64_t i = 0; i <= n; i++) {
    int64_t middle = n / 2, away = i < middle ? middle - i : i - middle;
    switch (family) {
      case 0:
        dims[i] = 1 + random_below(state, 1000);
        break;
      case 1:
        dims[i] = 1 + random_below(state, 2);
        break; /* ties */
      case 2:
        dims[i] = 7;
        break; /* all equal */
      case 3:
        dims[i] = 1 + i;
        break; /* rising */
      case 4:
        dims[i] = n + 1 - i;
        break; /* falling */
      case 5:
        dims[i] = 1 + away;
        break; /* valley */
      case 6:
        dims[i] = n + 1 - away;
        break; /* mountain */
      case 7:
        dims[i] = i % 2 != 0 ? 4095 : 1 + random_below(state, 3);
        break;
      case 8:
        dims[i] = 1;
        break;
      case 9:
        dims[i] = INT64_C(1) << random_below(state, 12);
        break;
      case 10:
        dims[i] = random_below(state, 4);
        break; /* with zeros */
      case 11:
        dims[i] = 1 + random_below(state, 12);
        break;
      default:
        dims[i] = 1 + random_below(state, INT64_C(1) << 37);
        break; /* over 64 bits */
    }
  }
}

#endif

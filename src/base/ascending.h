/* ascending.h: comparisons for qsort(). */
#ifndef MMCI_ASCENDING_H
#define MMCI_ASCENDING_H

#include <stdint.h>

static inline int mmci_ascending_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static inline int mmci_ascending_int64s(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

#endif

/* ascending.h: comparisons for qsort(), and numbers in ascending order. */
#ifndef MMCI_ASCENDING_H
#define MMCI_ASCENDING_H

#include <stdint.h>
#include <stdlib.h>

static inline int mmci_ascending_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static inline int mmci_ascending_int64s(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Sorts numbers; few of them by insertion, without the memory and the calls of qsort(). */
static inline void mmci_sort_int64s(int64_t *values, size_t count) {
  enum { FEW = 32 };
  if (count > FEW) {
    qsort(values, count, sizeof *values, mmci_ascending_int64s);
    return;
  }
  for (size_t i = 1; i < count; i++) {
    const int64_t value = values[i];
    size_t at = i;
    for (; at > 0 && values[at - 1] > value; at--) values[at] = values[at - 1];
    values[at] = value;
  }
}

#endif

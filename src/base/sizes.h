/* sizes.h: the smaller and the larger of two sizes; quotients and multiples of them, rounded up. */
#ifndef MMCI_SIZES_H
#define MMCI_SIZES_H

#include <stdint.h>

static inline int64_t mmci_smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static inline int64_t mmci_larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static inline int64_t mmci_quotient_up(int64_t size, int64_t by) {
  return (size + by - 1) / by;
}

/* Returns the least multiple of `of` that is not below size. */
static inline int64_t mmci_multiple_up(int64_t size, int64_t of) {
  return mmci_quotient_up(size, of) * of;
}

#endif

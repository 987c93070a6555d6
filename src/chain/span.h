/* span.h: the bytes that arrays and matrices take, and whether two of them meet. */
#ifndef MMCI_SPAN_H
#define MMCI_SPAN_H

#include <stdbool.h>
#include <stdint.h>

#include "mmchain.h"

/* Bytes from start up to end. */
typedef struct mmci_span {
  uintptr_t start, end;
} mmci_span;

static inline mmci_span mmci_span_of(const void *start, uint64_t bytes) {
  return (mmci_span){(uintptr_t)start, (uintptr_t)start + (uintptr_t)bytes};
}

/* Returns the bytes from the first element of a matrix to its last, all of which are known to be
 * within the address space. */
static inline mmci_span mmci_span_of_matrix(mmc_dtype dtype, const mmc_matrix *x) {
  const bool by_rows = x->layout == MMC_ROW_MAJOR;
  const uint64_t lines = (uint64_t)(by_rows ? x->rows : x->cols),
                 length = (uint64_t)(by_rows ? x->cols : x->rows),
                 ld = x->ld != 0 ? (uint64_t)x->ld : length;
  if (lines == 0 || length == 0) return mmci_span_of(x->data, 0);
  return mmci_span_of(x->data, ((lines - 1) * ld + length) * mmc_dtype_size(dtype));
}

/* Says whether two have a byte in common, of which those without bytes have none. */
static inline bool mmci_spans_meet(mmci_span x, mmci_span y) {
  return x.start < y.end && y.start < x.end && x.start < x.end && y.start < y.end;
}

#endif

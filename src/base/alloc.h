/* alloc.h: allocation with checked sizes. */
#ifndef MMCI_ALLOC_H
#define MMCI_ALLOC_H

#include <stdlib.h>

#include "base/status.h"

/* Arrays that kernels touch are aligned to so many bytes: a cache line and an AVX-512 vector. */
enum { MMCI_ALIGNMENT = 64 };

/* Returns the least multiple of MMCI_ALIGNMENT that is not below bytes. */
static inline size_t mmci_aligned_size(size_t bytes) {
  return (bytes + MMCI_ALIGNMENT - 1) & ~(size_t)(MMCI_ALIGNMENT - 1);
}

/* Returns count * size bytes, uninitialised; NULL when they overflow or there is no memory. It is
 * never NULL for a count of 0. Release with free(). */
void *mmci_alloc_array(size_t count, size_t size);
/* Returns count * size bytes of zeros, as mmci_alloc_array() does. */
void *mmci_alloc_zeroed(size_t count, size_t size);
/* Returns count * size bytes, uninitialised and aligned to MMCI_ALIGNMENT, as mmci_alloc_array()
 * does. */
void *mmci_alloc_aligned(size_t count, size_t size);

/* Returns the bytes of a rows x cols result, rounded up so that the next one is aligned; UINT64_MAX
 * when they exceed 2^63. */
uint64_t mmci_result_bytes(int64_t rows, int64_t cols, size_t element_size);

/* Returns a + b, or UINT64_MAX when that is too large. */
uint64_t mmci_bytes_add(uint64_t a, uint64_t b);

#endif

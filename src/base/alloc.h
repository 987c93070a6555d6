/* alloc.h: allocation with checked sizes. */
#ifndef MMCI_ALLOC_H
#define MMCI_ALLOC_H

#include <stdlib.h>

#include "base/status.h"

/* Bytes to which arrays that kernels touch are aligned: a cache line and an AVX-512 vector. */
enum { MMCI_ALIGNMENT = 64 };

/* count * size bytes, uninitialised; NULL when they overflow or are not to be had. Never NULL for
 * count 0. Release with free(). */
void *mmci_alloc_array(size_t count, size_t size);
/* The same, zeroed. */
void *mmci_alloc_zeroed(size_t count, size_t size);
/* The same, aligned to MMCI_ALIGNMENT. */
void *mmci_alloc_aligned(size_t count, size_t size);

#endif

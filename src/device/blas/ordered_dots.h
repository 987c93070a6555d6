/* ordered_dots.h: long products of few elements, whose pieces lie side by side in registers.
 *
 * A product such as 1 x 100000 x 1 has one element and many pieces. A lane has one piece each, from
 * its first term to its last, so a processor has several chains under way at once, which are added
 * up afterwards, in order. */
#ifndef MMCI_ORDERED_DOTS_H
#define MMCI_ORDERED_DOTS_H

#include <stddef.h>

#include "chain/gemm.h"

/* Says whether a product is long and has so few elements. */
bool mmci_ordered_dots_pay(const mmci_gemm *gemm);

/* Multiplies in this thread, in room on its stack. */
void mmci_ordered_dots_small(const mmci_gemm *gemm, const void *a, const void *b, void *c);

/* Returns what threads may share. */
int64_t mmci_ordered_dots_units(const mmci_gemm *gemm);
/* Returns the bytes of room for so many threads, aligned to 64 bytes. */
size_t mmci_ordered_dots_bytes(const mmci_gemm *gemm, int threads);
/* Multiplies by so many threads, which mmci_workers_provide() has made. Returns false when it was
 * stopped. */
bool mmci_ordered_dots(const mmci_gemm *gemm, int threads, const void *a, const void *b, void *c,
                       void *room);

#endif

/* panels.h: a product that is too large for the device's memory, cut to fit. */
#ifndef MMCI_PANELS_H
#define MMCI_PANELS_H

#include "base/status.h"

/* C is computed in panels of at most m x n, each the sum of products of m x k by k x n panels. Two
 * of each kind are on the device, so that copies run beside products. */
typedef struct mmci_panels {
  int64_t m, k, n;
} mmci_panels;

/* Bytes that two panels of each kind take, each aligned; UINT64_MAX when more than that. */
uint64_t mmci_panels_bytes(const mmci_panels *panels, size_t element_size);

/* The panels of an m x k by k x n product for budget_bytes: whole where they fit; else the longest
 * edge is halved until they do, k before the others, as C stays while k is passed. False when the
 * smallest do not fit; then out is those. */
bool mmci_panels_choose(int64_t m, int64_t k, int64_t n, size_t element_size, uint64_t budget_bytes,
                        mmci_panels *out);

#endif

/* panels.h: cuts a product that is too large for the device's memory. */
#ifndef MMCI_PANELS_H
#define MMCI_PANELS_H

#include "base/status.h"

/* C is computed in panels of at most m x n, each the sum of products of m x k by k x n panels. Two
 * panels of each matrix are on the device, so that copies run beside products. */
typedef struct mmci_panels {
  int64_t m, k, n;
} mmci_panels;

/* Returns the bytes that two panels of each matrix take, each aligned; UINT64_MAX when that is too
 * much. */
uint64_t mmci_panels_bytes(const mmci_panels *panels, size_t element_size);

/* Chooses the panels of an m x k by k x n product for budget_bytes: the whole matrices where they
 * fit; else the longest edge is halved until they do, k before the others, because C stays while k
 * is passed, but with whole_k never k. Returns false when the smallest do not fit; then out holds
 * those. */
bool mmci_panels_choose(int64_t m, int64_t k, int64_t n, size_t element_size, bool whole_k,
                        uint64_t budget_bytes, mmci_panels *out);

#endif

/* graphs.h: the chains of a run that were captured, by the matrices that they were captured with.
 */
#ifndef MMCI_GRAPHS_H
#define MMCI_GRAPHS_H

#include "device/device.h"

/* Callers take turns between a few sets of matrices, a result and the next one, say. */
enum { MMCI_GRAPHS = 4 };

typedef struct mmci_captured {
  mmc_matrix *matrices; /* n factors and the result; NULL: free */
  mmci_graph *graph;    /* NULL: executed once, not captured yet */
  uint64_t last_used;
} mmci_captured;

typedef struct mmci_graphs {
  const mmci_device_async *async;
  int32_t n;
  uint64_t clock;
  mmci_captured entries[MMCI_GRAPHS];
} mmci_graphs;

/* The entry of these matrices, or NULL. */
mmci_captured *mmci_graphs_find(mmci_graphs *graphs, const mmc_matrix *factors,
                                const mmc_matrix *out);
/* An entry for these matrices in place of the one unused for longest. Returns E_NOMEM. */
mmc_status mmci_graphs_add(mmci_graphs *graphs, const mmc_matrix *factors, const mmc_matrix *out,
                           mmci_error *error);
/* Forgets what was captured, and not of which matrices. */
void mmci_graphs_drop(mmci_graphs *graphs);
/* Forgets all. */
void mmci_graphs_clear(mmci_graphs *graphs);

#endif

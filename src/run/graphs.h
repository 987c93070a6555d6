/* graphs.h: the graphs that a run has captured, found by the matrices that they were captured
 * with. */
#ifndef MMCI_GRAPHS_H
#define MMCI_GRAPHS_H

#include "device/device.h"

/* A run keeps so many graphs, since callers take turns between a few sets of matrices: two results,
 * say. */
enum { MMCI_GRAPHS = 4 };

typedef struct mmci_captured {
  /* The n factors and the result that the graph is for; NULL when the entry is free. */
  mmc_matrix *matrices;
  mmci_graph *graph; /* the graph; NULL when they were executed once and not captured yet */
  uint64_t last_used;
} mmci_captured;

typedef struct mmci_graphs {
  const mmci_device_async *async;
  int32_t n;
  uint64_t clock;
  mmci_captured entries[MMCI_GRAPHS];
} mmci_graphs;

/* Returns the entry of these matrices, or NULL. */
mmci_captured *mmci_graphs_find(mmci_graphs *graphs, const mmc_matrix *factors,
                                const mmc_matrix *out);
/* Adds an entry for these matrices in place of the one that was unused for longest. Returns
 * E_NOMEM. */
mmc_status mmci_graphs_add(mmci_graphs *graphs, const mmc_matrix *factors, const mmc_matrix *out,
                           mmci_error *error);
/* Forgets what was captured, but not for which matrices. */
void mmci_graphs_drop(mmci_graphs *graphs);
/* Forgets all entries. */
void mmci_graphs_clear(mmci_graphs *graphs);

#endif

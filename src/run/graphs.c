#include "run/graphs.h"

#include "base/alloc.h"
#include "run/matrices.h"

static bool is_of(const mmci_captured *x, int32_t n, const mmc_matrix *factors,
                  const mmc_matrix *out) {
  if (x->matrices == NULL || !mmci_matrix_same(&x->matrices[n], out)) return false;
  for (int32_t i = 0; i < n; i++)
    if (!mmci_matrix_same(&x->matrices[i], &factors[i])) return false;
  return true;
}

mmci_captured *mmci_graphs_find(mmci_graphs *graphs, const mmc_matrix *factors,
                                const mmc_matrix *out) {
  for (int e = 0; e < MMCI_GRAPHS; e++)
    if (is_of(&graphs->entries[e], graphs->n, factors, out)) {
      graphs->entries[e].last_used = ++graphs->clock;
      return &graphs->entries[e];
    }
  return NULL;
}

mmc_status mmci_graphs_add(mmci_graphs *graphs, const mmc_matrix *factors, const mmc_matrix *out,
                           mmci_error *error) {
  mmci_captured *oldest = &graphs->entries[0];
  for (int e = 1; e < MMCI_GRAPHS; e++)
    if (graphs->entries[e].last_used < oldest->last_used) oldest = &graphs->entries[e];
  size_t count = (size_t)graphs->n + 1;
  if (oldest->matrices == NULL) {
    oldest->matrices = mmci_alloc_array(count, sizeof *oldest->matrices);
    if (oldest->matrices == NULL) return mmci_fail_nomem(error, count * sizeof *oldest->matrices);
  }
  if (oldest->graph != NULL) graphs->async->graph_destroy(oldest->graph);
  oldest->graph = NULL;
  for (int32_t i = 0; i < graphs->n; i++) oldest->matrices[i] = factors[i];
  oldest->matrices[graphs->n] = *out;
  oldest->last_used = ++graphs->clock;
  return MMC_OK;
}

void mmci_graphs_drop(mmci_graphs *graphs) {
  for (int e = 0; e < MMCI_GRAPHS; e++) {
    mmci_captured *x = &graphs->entries[e];
    if (x->graph != NULL) graphs->async->graph_destroy(x->graph);
    x->graph = NULL;
  }
}

void mmci_graphs_clear(mmci_graphs *graphs) {
  mmci_graphs_drop(graphs);
  for (int e = 0; e < MMCI_GRAPHS; e++) {
    free(graphs->entries[e].matrices);
    graphs->entries[e] = (mmci_captured){0};
  }
}

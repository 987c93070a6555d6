/* walk.h: executes a plan over ranks on a team. */
#ifndef MMCI_RANKS_WALK_H
#define MMCI_RANKS_WALK_H

#include "ranks/choose.h"
#include "ranks/products.h"

/* One factor as this rank has it. */
typedef struct mmci_source {
  const void *data;           /* element (r, c) of the factor, after its op, is at */
  int64_t row_step, col_step; /* data[r * row_step + c * col_step], in elements */
  bool conjugated;
  /* true: data is the whole matrix, of which only this rank's pieces are read; false: data is the
   * piece of the layout that the problem gave. */
  bool whole;
} mmci_source;

/* Memory of earlier runs of a plan, which later ones use again: fresh pages cost as much as a
 * product of tall matrices. */
typedef struct mmci_pool mmci_pool;
/* Returns an empty pool; NULL when memory is short. keeps says whether it keeps anything: under a
 * limit it does not, as blocks of several sizes would add up. */
mmci_pool *mmci_pool_create(bool keeps);
void mmci_pool_destroy(mmci_pool *pool);

/* What carries a plan out. */
typedef struct mmci_walk {
  const mmci_team_ops *ops;
  mmci_team *team;
  const mmci_products *products;
  const mmci_ranks_problem *problem;
  const mmci_ranks_plan *plan;
  const mmci_source *sources; /* a factor each */
  mmci_pool *pool;
} mmci_walk;

/* Prepares the engine for the grids of a plan, which mmci_walk_run() expects. Collective: no rank
 * may have failed. Sources and pool may be NULL. */
void mmci_walk_prepare(const mmci_walk *walk);
/* Multiplies. The piece of the result that plan->result gives this rank goes to out, row-major
 * with leading dimension out_ld, or column-major when out_transposed. Collective. Nothing is done
 * where so_far, or what memory comes to, is not MMC_OK on every rank. Returns, the same on every
 * rank: so_far of the first rank that has failed, E_NOMEM, E_DEVICE, E_UNSUPPORTED. */
mmc_status mmci_walk_run(const mmci_walk *walk, mmc_status so_far, void *out, int64_t out_ld,
                         bool out_transposed, mmci_error *error);

#endif

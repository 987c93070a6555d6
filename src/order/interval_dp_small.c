/* interval_dp_small.c: the dynamic program for a price of the caller's and few factors, in one
 * thread and without tiles. Candidates are added up as in interval_dp_price.c, so that ties are the
 * same; each price is asked for once, and splits are kept. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "order/interval_dp.h"

enum { VERTICES = MMCI_DP_SMALL + 1, ASK_EVERY = 256 };

typedef struct small {
  const mmci_order_problem *problem;
  mmci_dp_run *run;
  mmci_dp_work work;
  double cost[VERTICES][VERTICES];
  int16_t split[VERTICES][VERTICES];
  int asked; /* prices since the caller was asked whether to go on */
} small;

static mmc_status bad_price(double price, int32_t i, int32_t k, int32_t j, mmci_error *error) {
  return mmci_fail(error, MMC_E_ARG, "price: expected >= 0, got %g for i = %d, k = %d, j = %d",
                   price, i, k, j);
}

/* The best split of a sub-chain so far; 0 where there is none. */
typedef struct best {
  double cost;
  int32_t split;
} best;

static mmc_status try_split(const small *s, int32_t i, int32_t k, int32_t j, best *out,
                            mmci_error *error) {
  const mmci_order_problem *problem = s->problem;
  const double parts = s->cost[i][k] + s->cost[k][j];
  if (problem->is_price_trusted && parts > out->cost) return MMC_OK;
  const double price = problem->price(problem->price_user, i, k, j);
  if (!(price >= 0)) return bad_price(price, i, k, j, error);
  const double cost = parts + price;
  if (out->split == 0 || cost < out->cost ||
      (cost == out->cost && mmci_tie_goes_before(problem->dims, i, j, k, out->split)))
    *out = (best){cost, k};
  return MMC_OK;
}

/* Returns the split whose parts cost least. */
static int32_t find_first(const small *s, int32_t i, int32_t j) {
  int32_t first = i + 1;
  double least = (double)INFINITY;
  for (int32_t k = i + 1; k < j; k++) {
    const double parts = s->cost[i][k] + s->cost[k][j];
    first = parts < least ? k : first;
    least = parts < least ? parts : least;
  }
  return first;
}

/* Where not all prices are asked for, fewer are when the likely split is tried before the others.
 */
static mmc_status find_cell(small *s, int32_t i, int32_t j, mmci_error *error) {
  const int32_t first = s->problem->is_price_trusted ? find_first(s, i, j) : i + 1;
  best best = {(double)INFINITY, 0};
  mmc_status status = try_split(s, i, first, j, &best, error);
  for (int32_t k = i + 1; k < j && status == MMC_OK; k++)
    if (k != first) status = try_split(s, i, k, j, &best, error);
  s->cost[i][j] = best.cost;
  s->split[i][j] = (int16_t)best.split;
  return status;
}

static mmc_status fill(small *s, mmci_error *error) {
  const int32_t n = s->problem->n;
  for (int32_t i = n - 1; i >= 0; i--) {
    s->cost[i][i + 1] = 0;
    for (int32_t j = i + 2; j <= n; j++) {
      s->asked += j - i;
      if (s->asked >= ASK_EVERY) {
        s->asked = 0;
        if (mmci_dp_should_stop(&s->work))
          return mmci_fail(error, MMC_E_INTERRUPTED, "stopped by the progress callback");
      }
      mmc_status status = find_cell(s, i, j, error);
      if (status != MMC_OK) return status;
    }
  }
  return MMC_OK;
}

static int32_t split_of(void *user, int32_t i, int32_t j) {
  const small *s = user;
  return s->split[i][j];
}

mmc_status mmci_dp_solve_small(const mmci_order_problem *problem, mmci_order_answer *out,
                               mmci_error *error) {
  mmci_dp_run run = {.problem = problem};
  small s;
  s.problem = problem;
  s.run = &run;
  s.work = (mmci_dp_work){.run = &run, .is_caller = true};
  s.asked = 0;
  mmc_status status = fill(&s, error);
  mmci_tree tree;
  if (status == MMC_OK) status = mmci_tree_create(problem->n, &tree, error);
  if (status != MMC_OK) return status;
  status = mmci_tree_from_splits(&tree, split_of, &s, error);
  if (status != MMC_OK) {
    mmci_tree_destroy(&tree);
    return status;
  }
  *out = (mmci_order_answer){
      .tree = tree, .kernel = mmci_dp_price.name, .price = s.cost[0][problem->n]};
  return MMC_OK;
}

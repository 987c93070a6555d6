/* interval_dp_price.c: the kernel for a price that the caller brings, which is called once for
 * every triple.
 *
 * A candidate is (c[a][v] + c[v][b]) + price(a, v, b), in doubles, in this order of additions.
 * Prices may be infinite, so unlike in the other kernels no cell serves as a sentinel and the loops
 * keep to 0 <= a < v < b <= n. */
#include <math.h>

#include "order/interval_dp.h"

static double *tile_at(const mmci_dp_run *run, int32_t I, int32_t J) {
  return mmci_dp_tile(run->table, I, J, sizeof(double));
}

static void report_bad(mmci_dp_run *run, double price, int32_t i, int32_t k, int32_t j) {
  if (!atomic_flag_test_and_set(&run->bad_price)) {
    run->bad_i = i;
    run->bad_k = k;
    run->bad_j = j;
    run->bad_value = price;
  }
  atomic_store(&run->stop, true);
}

/* Computes row[b] = min(row[b], before + after[b] + price(a, v, b)) for the columns first .. end-1
 * of block J. Returns false to stop. */
static bool improve(mmci_dp_work *work, double *row, double before, const double *after, int32_t a,
                    int32_t v, int32_t J, int first, int end) {
  mmci_dp_run *run = work->run;
  const mmci_order_problem *problem = run->problem;
  if (mmci_dp_should_stop(work)) return false;
  for (int b = first; b < end; b++) {
    int32_t j = J * MMCI_DP_TILE + b;
    double price = problem->price(problem->price_user, a, v, j);
    if (!(price >= 0)) {
      report_bad(run, price, a, v, j);
      return false;
    }
    double cost = before + after[b] + price;
    if (cost < row[b]) row[b] = cost;
  }
  return true;
}

static void diagonal(mmci_dp_work *work, int32_t I) {
  const mmci_dp_run *run = work->run;
  double *tile = tile_at(run, I, I);
  int end = mmci_dp_vertices(run, I);
  int32_t origin = I * MMCI_DP_TILE;
  for (int a = end - 1; a >= 0; a--) {
    double *row = tile + a * MMCI_DP_TILE;
    for (int b = a + 1; b < end; b++) row[b] = b == a + 1 ? 0 : INFINITY;
    for (int v = a + 1; v < end - 1; v++)
      if (!improve(work, row, row[v], tile + v * MMCI_DP_TILE, origin + a, origin + v, I, v + 1,
                   end))
        return;
  }
}

static void start(mmci_dp_work *work, int32_t I, int32_t J, int32_t left) {
  (void)left;
  double *tile = tile_at(work->run, I, J);
  for (int e = 0; e < MMCI_DP_CELLS; e++) tile[e] = INFINITY;
  if (J == I + 1) tile[(MMCI_DP_TILE - 1) * MMCI_DP_TILE] = 0;
}

static void products(mmci_dp_work *work, int32_t I, int32_t K, int32_t J, int32_t count) {
  const mmci_dp_run *run = work->run;
  const double *left = tile_at(run, I, K);
  for (int32_t j = J; j < J + count; j++) {
    double *tile = tile_at(run, I, j);
    const double *right = tile_at(run, K, j);
    int end = mmci_dp_vertices(run, j);
    for (int a = 0; a < MMCI_DP_TILE; a++)
      for (int v = 0; v < MMCI_DP_TILE; v++)
        if (!improve(work, tile + a * MMCI_DP_TILE, left[a * MMCI_DP_TILE + v],
                     right + v * MMCI_DP_TILE, I * MMCI_DP_TILE + a, K * MMCI_DP_TILE + v, j, 0,
                     end))
          return;
  }
}

static void finish(mmci_dp_work *work, int32_t I, int32_t J) {
  const mmci_dp_run *run = work->run;
  double *tile = tile_at(run, I, J);
  const double *left = tile_at(run, I, I), *right = tile_at(run, J, J);
  int end = mmci_dp_vertices(run, J);
  int32_t row_origin = I * MMCI_DP_TILE, column_origin = J * MMCI_DP_TILE;
  for (int a = MMCI_DP_TILE - 1; a >= 0; a--) {
    double *row = tile + a * MMCI_DP_TILE;
    for (int v = a + 1; v < MMCI_DP_TILE; v++)
      if (!improve(work, row, left[a * MMCI_DP_TILE + v], tile + v * MMCI_DP_TILE, row_origin + a,
                   row_origin + v, J, 0, end))
        return;
    for (int v = 0; v < end - 1; v++)
      if (!improve(work, row, row[v], right + v * MMCI_DP_TILE, row_origin + a, column_origin + v,
                   J, v + 1, end))
        return;
  }
}

static double cost_at(const mmci_dp_run *run, int32_t a, int32_t b) {
  return tile_at(run, a / MMCI_DP_TILE,
                 b / MMCI_DP_TILE)[a % MMCI_DP_TILE * MMCI_DP_TILE + b % MMCI_DP_TILE];
}

static uint64_t matches(const mmci_dp_run *run, int32_t a, int32_t b, int32_t first,
                        int32_t count) {
  const mmci_order_problem *problem = run->problem;
  double cost = cost_at(run, a, b);
  uint64_t bits = 0;
  for (int32_t t = 0; t < count; t++) {
    int32_t v = first + t;
    double candidate =
        cost_at(run, a, v) + cost_at(run, v, b) + problem->price(problem->price_user, a, v, b);
    bits |= (uint64_t)(candidate == cost) << t;
  }
  return bits;
}

double mmci_dp_price_of(const mmci_dp_run *run) {
  return cost_at(run, 0, run->table->n);
}

/* There is no entry(), because costs are not counts. */
const mmci_dp_kernel mmci_dp_price = {
    .name = "price",
    .cell_bytes = sizeof(double),
    .diagonal = diagonal,
    .start = start,
    .products = products,
    .finish = finish,
    .matches = matches,
};

/* interval_dp_saturating_u128.c: the kernel for costs near 2^128, in counts that saturate. It is
 * plain loops over 0 <= a < v < b <= n and prunes nothing, because differences of saturated counts
 * say nothing. */
#include "order/interval_dp.h"

static mmci_u128 *tile_at(const mmci_dp_run *run, int32_t I, int32_t J) {
  return mmci_dp_tile(run->table, I, J, sizeof(mmci_u128));
}

static mmci_u128 candidate(mmci_u128 before, mmci_u128 after, mmci_u128 area, int64_t width) {
  mmci_u128 product = mmci_u128_mul(area, (mmci_u128)(uint64_t)width);
  return mmci_u128_add(mmci_u128_add(before, after), product);
}

/* Computes row[b] = min(row[b], before + after[b] + p[a] p[v] p[b]) for the columns first .. end-1
 * of block J, whose dims begin at pb. */
static void improve(mmci_u128 *row, mmci_u128 before, const mmci_u128 *after, int64_t pa,
                    int64_t pv, const int64_t *pb, int first, int end) {
  mmci_u128 area = mmci_multiplications(pa, pv, 1);
  for (int b = first; b < end; b++) {
    mmci_u128 cost = candidate(before, after[b], area, pb[b]);
    if (cost < row[b]) row[b] = cost;
  }
}

static void diagonal(mmci_dp_work *work, int32_t I) {
  const mmci_dp_run *run = work->run;
  const int64_t *p = run->problem->dims + I * MMCI_DP_TILE;
  mmci_u128 *tile = tile_at(run, I, I);
  int end = mmci_dp_vertices(run, I);
  for (int a = end - 1; a >= 0; a--) {
    mmci_u128 *row = tile + a * MMCI_DP_TILE;
    for (int b = a + 1; b < end; b++) row[b] = b == a + 1 ? 0 : MMCI_U128_MAX;
    for (int v = a + 1; v < end - 1; v++)
      improve(row, row[v], tile + v * MMCI_DP_TILE, p[a], p[v], p, v + 1, end);
  }
}

static void start(mmci_dp_work *work, int32_t I, int32_t J, int32_t left) {
  (void)left;
  mmci_u128 *tile = tile_at(work->run, I, J);
  for (int e = 0; e < MMCI_DP_CELLS; e++) tile[e] = MMCI_U128_MAX;
  if (J == I + 1) tile[(MMCI_DP_TILE - 1) * MMCI_DP_TILE] = 0;
}

static void products(mmci_dp_work *work, int32_t I, int32_t K, int32_t J, int32_t count) {
  const mmci_dp_run *run = work->run;
  const int64_t *pa = run->problem->dims + I * MMCI_DP_TILE;
  const int64_t *pv = run->problem->dims + K * MMCI_DP_TILE;
  const mmci_u128 *left = tile_at(run, I, K);
  for (int32_t j = J; j < J + count; j++) {
    mmci_u128 *tile = tile_at(run, I, j);
    const mmci_u128 *right = tile_at(run, K, j);
    const int64_t *pb = run->problem->dims + j * MMCI_DP_TILE;
    for (int a = 0; a < MMCI_DP_TILE; a++)
      for (int v = 0; v < MMCI_DP_TILE; v++)
        improve(tile + a * MMCI_DP_TILE, left[a * MMCI_DP_TILE + v], right + v * MMCI_DP_TILE,
                pa[a], pv[v], pb, 0, mmci_dp_vertices(run, j));
  }
}

static void finish(mmci_dp_work *work, int32_t I, int32_t J) {
  const mmci_dp_run *run = work->run;
  const int64_t *pa = run->problem->dims + I * MMCI_DP_TILE;
  const int64_t *pb = run->problem->dims + J * MMCI_DP_TILE;
  mmci_u128 *tile = tile_at(run, I, J);
  const mmci_u128 *left = tile_at(run, I, I), *right = tile_at(run, J, J);
  int end = mmci_dp_vertices(run, J);
  for (int a = MMCI_DP_TILE - 1; a >= 0; a--) {
    mmci_u128 *row = tile + a * MMCI_DP_TILE;
    for (int v = a + 1; v < MMCI_DP_TILE; v++)
      improve(row, left[a * MMCI_DP_TILE + v], tile + v * MMCI_DP_TILE, pa[a], pa[v], pb, 0, end);
    for (int v = 0; v < end - 1; v++)
      improve(row, row[v], right + v * MMCI_DP_TILE, pa[a], pb[v], pb, v + 1, end);
  }
}

static mmci_u128 entry(const mmci_dp_table *table, int32_t a, int32_t b) {
  const mmci_u128 *tile =
      mmci_dp_tile(table, a / MMCI_DP_TILE, b / MMCI_DP_TILE, sizeof(mmci_u128));
  return tile[a % MMCI_DP_TILE * MMCI_DP_TILE + b % MMCI_DP_TILE];
}

static uint64_t matches(const mmci_dp_run *run, int32_t a, int32_t b, int32_t first,
                        int32_t count) {
  const mmci_dp_table *table = run->table;
  const int64_t *dims = run->problem->dims;
  mmci_u128 cost = entry(table, a, b);
  uint64_t bits = 0;
  for (int32_t t = 0; t < count; t++) {
    int32_t v = first + t;
    mmci_u128 area = mmci_multiplications(dims[a], dims[v], 1);
    mmci_u128 other = candidate(entry(table, a, v), entry(table, v, b), area, dims[b]);
    bits |= (uint64_t)(other == cost) << t;
  }
  return bits;
}

const mmci_dp_kernel mmci_dp_saturating_u128 = {
    .name = "portable saturating u128",
    .cell_bytes = sizeof(mmci_u128),
    .diagonal = diagonal,
    .start = start,
    .products = products,
    .finish = finish,
    .matches = matches,
    .entry = entry,
};

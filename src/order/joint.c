/* joint.c: finds order and fusion in one table.
 *
 *     s(i, i+1) = 0,    s(i, j) = c(i, j) + dims[i] dims[j]        the sub-chain, and in memory
 *     c(i, j) = min over i < k < j      s(i, k) + s(k, j) + product(i, k, j),
 *                    over i < h < k < j s(i, h) + s(h, k) + s(k, j) + the less of left fuse and
 *                                       right fuse of (i, h, k, j)
 *
 * Both fuses of four vertices take the same three operands. That makes C(n+1, 4) sums, 66 million
 * for n = 200; a kernel is priced only where the sum leaves room below the best so far. */
#include <math.h>

#include "base/alloc.h"
#include "order/fusion.h"

/* The best computation of the sub-chain (i, j). */
typedef struct entry {
  mmci_u128 stored; /* s(i, j), in words */
  int16_t split;    /* where its last product splits it */
  int16_t inner;    /* where the product that is fused with that one splits; 0 when none is */
} entry;

typedef struct table {
  int32_t n;
  const int64_t *dims;
  int64_t on_chip_words;
  entry *entries;
} table;

static entry *entry_at(const table *t, int32_t i, int32_t j) {
  return &t->entries[(size_t)i * (size_t)(t->n + 1) + (size_t)j];
}

static mmci_u128 area(int64_t rows, int64_t cols) {
  return (mmci_u128)rows * (mmci_u128)cols;
}

/* Finds the best without fusion of the last product; returns c. */
static mmci_u128 try_products(const table *t, int32_t i, int32_t j, entry *best) {
  mmci_u128 least = MMCI_U128_MAX;
  best->split = (int16_t)(i + 1);
  for (int32_t k = i + 1; k < j; k++) {
    mmci_u128 operands = mmci_u128_add(entry_at(t, i, k)->stored, entry_at(t, k, j)->stored);
    if (operands >= least) continue;
    mmci_traffic product =
        mmci_traffic_product(t->dims[i], t->dims[k], t->dims[j], t->on_chip_words);
    mmci_u128 words = mmci_u128_add(operands, product.words);
    if (words >= least) continue;
    least = words;
    best->split = (int16_t)k;
  }
  return least;
}

/* Returns fewer words than any left fuse of p moves, rounding included: those of the best tile of
 * real sides, however large the matrix is. */
static double left_fuse_above(const int64_t p[4], int64_t on_chip_words) {
  const double slack = 1e-9;
  double p0 = (double)p[0], p1 = (double)p[1], p2 = (double)p[2], p3 = (double)p[3];
  double rounds = 2 * p0 * p2 * sqrt((p1 + p3) * (p1 + 2 * p3) / (double)on_chip_words);
  return rounds * (1 - slack) - 2 * p0 * p3 * (1 + slack) - 1;
}

/* Says that neither fuse of p can come below least. */
static bool hopeless(const int64_t p[4], int64_t on_chip_words, mmci_u128 operands,
                     mmci_u128 least) {
  const int64_t mirrored[4] = {p[3], p[2], p[1], p[0]};
  double room = mmci_u128_to_double(least - operands) * (1 + 1e-9);
  return left_fuse_above(p, on_chip_words) > room &&
         left_fuse_above(mirrored, on_chip_words) > room;
}

/* Tries both fuses of the vertices v, whose operands cost so many words. */
static void try_fuses(const table *t, const int32_t v[4], mmci_u128 operands, mmci_u128 *least,
                      entry *best) {
  const int64_t p[4] = {t->dims[v[0]], t->dims[v[1]], t->dims[v[2]], t->dims[v[3]]};
  if (hopeless(p, t->on_chip_words, operands, *least)) return;
  mmci_u128 left = mmci_u128_add(operands, mmci_traffic_left(p, t->on_chip_words).words);
  if (left < *least) {
    *least = left;
    best->split = (int16_t)v[2];
    best->inner = (int16_t)v[1];
  }
  mmci_u128 right = mmci_u128_add(operands, mmci_traffic_right(p, t->on_chip_words).words);
  if (right < *least) {
    *least = right;
    best->split = (int16_t)v[1];
    best->inner = (int16_t)v[2];
  }
}

static void solve_sub_chain(const table *t, int32_t i, int32_t j) {
  const int64_t *dims = t->dims;
  entry best = {0};
  mmci_u128 least = try_products(t, i, j, &best);
  for (int32_t h = i + 1; h < j - 1; h++) {
    mmci_u128 first = entry_at(t, i, h)->stored;
    if (first >= least) continue;
    mmci_u128 read_first = area(dims[i], dims[h]);
    for (int32_t k = h + 1; k < j; k++) {
      mmci_u128 operands =
          mmci_u128_add(first, mmci_u128_add(entry_at(t, h, k)->stored, entry_at(t, k, j)->stored));
      /* Each operand is read at least once. Where there is nothing to compute, that does not hold,
       * but there splits without fusion cost no more. */
      mmci_u128 read = read_first + area(dims[h], dims[k]) + area(dims[k], dims[j]);
      if (mmci_u128_add(operands, read) >= least) continue;
      try_fuses(t, (const int32_t[]){i, h, k, j}, operands, &least, &best);
    }
  }
  best.stored = mmci_u128_add(least, area(dims[i], dims[j]));
  *entry_at(t, i, j) = best;
}

/* Reads a split; the child of a fused product has the split that the fusion chose. */
static int32_t read_split(void *user, int32_t i, int32_t j) {
  const table *t = user;
  entry x = *entry_at(t, i, j);
  if (x.inner != 0) {
    entry *child = x.inner < x.split ? entry_at(t, i, x.split) : entry_at(t, x.split, j);
    child->split = x.inner;
    child->inner = 0;
  }
  return x.split;
}

/* Fills the table, shortest sub-chains first. One of length l is priced in some l^2 / 2 steps; the
 * callback is asked after 2^18 of them. */
static mmc_status fill_joint(const table *t, const mmci_bounds *bounds, mmci_error *error) {
  const double ask_every = 0x1p18, n = t->n;
  double steps = 0, asked = 0;
  mmc_status status = MMC_OK;
  for (int32_t length = 2; length <= t->n && status == MMC_OK; length++)
    for (int32_t i = 0; i + length <= t->n && status == MMC_OK; i++) {
      solve_sub_chain(t, i, i + length);
      steps += 0.5 * length * length;
      if (steps - asked < ask_every) continue;
      asked = steps;
      double done = steps / (n * (n + 1) * (n + 1) * (n + 2) / 24);
      status = mmci_ask_progress(bounds->progress, bounds->progress_user, fmin(done, 1), error);
    }
  return status;
}

mmc_status mmci_order_joint(int32_t n, const int64_t *dims, int64_t on_chip_words,
                            const mmci_bounds *bounds, mmci_tree *out, mmci_u128 *words,
                            mmci_error *error) {
  table t = {.n = n, .dims = dims, .on_chip_words = on_chip_words};
  size_t count = ((size_t)n + 1) * ((size_t)n + 1);
  t.entries = mmci_alloc_zeroed(count, sizeof *t.entries);
  if (t.entries == NULL) return mmci_fail_nomem(error, count * sizeof *t.entries);
  mmc_status status = fill_joint(&t, bounds, error);
  if (status != MMC_OK) {
    free(t.entries);
    return status;
  }
  mmci_u128 least = n > 1 ? entry_at(&t, 0, n)->stored : 0;
  if (n > 1 && least != MMCI_U128_MAX) least -= area(dims[0], dims[n]);

  mmci_tree tree;
  status = mmci_tree_create(n, &tree, error);
  if (status == MMC_OK) {
    status = mmci_tree_from_splits(&tree, read_split, &t, error);
    if (status != MMC_OK) mmci_tree_destroy(&tree);
  }
  free(t.entries);
  if (status != MMC_OK) return status;
  *out = tree;
  *words = least;
  return MMC_OK;
}

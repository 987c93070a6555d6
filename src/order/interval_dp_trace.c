/* interval_dp_trace.c: reads the order off the table. No splits are kept: a split of a sub-chain is
 * found again by comparing its candidates with its cost, as far as possible in the order in which
 * ties rank them, so that the first that equals it is the answer. */
#include "base/alloc.h"
#include "order/interval_dp.h"

enum { LEVELS = 31 };

typedef struct tracer {
  mmci_dp_run *run;
  /* lightest[l][t] is the leftmost vertex of least dim in t .. t + 2^l - 1. */
  int32_t *lightest[LEVELS];
  mmci_dp_work work;
} tracer;

static int32_t lighter(const int64_t *dims, int32_t left, int32_t right) {
  return dims[right] < dims[left] ? right : left;
}

/* Returns the lightest vertex of i..j. */
static int32_t lightest_of(const tracer *tr, int32_t i, int32_t j) {
  int level = 31 - __builtin_clz((unsigned)(j - i + 1));
  const int32_t *row = tr->lightest[level];
  return lighter(tr->run->problem->dims, row[i], row[j + 1 - ((int32_t)1 << level)]);
}

static int32_t block_start(int32_t t) {
  return t / MMCI_DP_TILE * MMCI_DP_TILE;
}

/* Returns the greatest split that ties. */
static int32_t last_split(const mmci_dp_run *run, int32_t i, int32_t j) {
  for (int32_t end = j; end > i + 1;) {
    int32_t first = block_start(end - 1) > i ? block_start(end - 1) : i + 1;
    uint64_t bits = run->kernel->matches(run, i, j, first, end - first);
    if (bits != 0) return first + 63 - __builtin_clzll(bits);
    end = first;
  }
  return i + 1;
}

/* Returns the one of the tied splits that goes before the others; with least set, the least of
 * them. */
static int32_t best_split(const mmci_dp_run *run, int32_t i, int32_t j, bool least) {
  int32_t best = 0;
  for (int32_t first = i + 1; first < j;) {
    int32_t end = block_start(first) + MMCI_DP_TILE;
    if (end > j) end = j;
    uint64_t bits = run->kernel->matches(run, i, j, first, end - first);
    if (least && bits != 0) return first + __builtin_ctzll(bits);
    for (; bits != 0; bits &= bits - 1) {
      int32_t k = first + __builtin_ctzll(bits);
      if (best == 0 || mmci_tie_goes_before(run->problem->dims, i, j, k, best)) best = k;
    }
    first = end;
  }
  return best != 0 ? best : i + 1;
}

/* By mmci_tie_goes_before() the split is the lightest vertex of all, v, if it ties; and if v is an
 * end, the first that ties on the way from the other end. Only where v is neither must all splits
 * be seen. */
static int32_t find_split(void *user, int32_t i, int32_t j) {
  tracer *tr = user;
  const mmci_dp_run *run = tr->run;
  if (mmci_dp_should_stop(&tr->work)) return i + 1;
  int32_t v = lightest_of(tr, i, j);
  if (v == i) return last_split(run, i, j);
  if (v == j) return best_split(run, i, j, true);
  if (run->kernel->matches(run, i, j, v, 1) != 0) return v;
  return best_split(run, i, j, false);
}

static mmc_status index_lightest(tracer *tr, mmci_error *error) {
  int32_t vertices = tr->run->table->n + 1;
  const int64_t *dims = tr->run->problem->dims;
  for (int level = 0; level < LEVELS && (int64_t)1 << level <= vertices; level++) {
    int32_t half = level > 0 ? (int32_t)1 << (level - 1) : 0;
    int32_t count = vertices - (int32_t)(((int64_t)1 << level) - 1);
    int32_t *row = mmci_alloc_array((size_t)count, sizeof *row);
    if (row == NULL) return mmci_fail_nomem(error, (uint64_t)count * sizeof *row);
    tr->lightest[level] = row;
    const int32_t *below = level > 0 ? tr->lightest[level - 1] : NULL;
    for (int32_t t = 0; t < count; t++)
      row[t] = level > 0 ? lighter(dims, below[t], below[t + half]) : t;
  }
  return MMC_OK;
}

mmc_status mmci_dp_trace(mmci_dp_run *run, mmci_tree *out, mmci_error *error) {
  mmci_tree tree;
  mmc_status status = mmci_tree_create(run->table->n, &tree, error);
  if (status != MMC_OK) return status;
  tracer tr = {.run = run, .work = {.run = run, .is_caller = true}};
  status = index_lightest(&tr, error);
  if (status == MMC_OK) status = mmci_tree_from_splits(&tree, find_split, &tr, error);
  for (int level = 0; level < LEVELS; level++) free(tr.lightest[level]);
  if (status == MMC_OK && atomic_load(&run->stop))
    status = mmci_fail(error, MMC_E_INTERRUPTED, "stopped by the progress callback");
  if (status != MMC_OK) {
    mmci_tree_destroy(&tree);
    return status;
  }
  *out = tree;
  return MMC_OK;
}

/* runs.c: makes wide trees over runs of nearly equal dims, where the order hardly changes how many
 * multiplications there are, but how many products wait for one another. */
#include "base/alloc.h"
#include "order/order.h"

enum {
  LEAST_FACTORS = 4, /* factors of a run at least; its dims are within a quarter of each other */
  TOGETHER = 4       /* results that are multiplied from left to right */
};

typedef struct wide {
  int32_t n, segments;
  int32_t *run_begin, *run_end; /* the vertices of the run that factor i is in */
  mmci_range *ranges;           /* products among runs, in vertices of the whole chain */
  int32_t next;                 /* the next range, counted down */
} wide;

/* Returns the last vertex that a run from vertex i may have. */
static int32_t run_from(const int64_t *dims, int32_t n, int32_t i) {
  int64_t least = dims[i], most = dims[i];
  int32_t j = i;
  while (j < n) {
    int64_t next = dims[j + 1];
    if (next < least) least = next;
    if (next > most) most = next;
    if (most - least > least / 4) break;
    j++;
  }
  return j;
}

/* Marks the runs, and every other factor as a run of its own; returns how many there are in all. */
static int32_t find_runs(const int64_t *dims, wide *w) {
  int32_t count = 0;
  for (int32_t i = 0; i < w->n; count++) {
    int32_t end = run_from(dims, w->n, i);
    if (end - i < LEAST_FACTORS) end = i + 1;
    for (int32_t f = i; f < end; f++) {
      w->run_begin[f] = i;
      w->run_end[f] = end;
    }
    i = end;
  }
  return count;
}

int32_t mmci_order_in_runs(const mmci_order_problem *problem) {
  int32_t count = 0;
  for (int32_t i = 0, end; i < problem->n; i = end) {
    end = run_from(problem->dims, problem->n, i);
    if (end - i >= LEAST_FACTORS)
      count += end - i;
    else
      end = i + 1;
  }
  return count;
}

bool mmci_order_has_equal_run(const mmci_order_problem *problem) {
  int32_t begin = 0;
  for (int32_t i = 1; i <= problem->n; i++) {
    if (problem->dims[i] != problem->dims[begin]) begin = i;
    if (i - begin >= LEAST_FACTORS) return true;
  }
  return false;
}

/* Splits a run into segments that are multiplied from left to right, and their results four and
 * four in the same way, because handing a result over takes as long as a product or two. Without
 * segments it splits two and two, for the least depth. */
static int32_t split_run(const wide *w, int32_t i, int32_t j) {
  int32_t factors = w->run_end[i] - w->run_begin[i];
  int32_t length = (factors - 1) / w->segments + 1;
  int32_t segments = (j - i + length - 1) / length;
  if (segments == 1) return j - 1;
  if (length == 1) return i + (segments + 1) / 2;
  int32_t together = 1; /* the largest power that is less than all */
  while (together <= (segments - 1) / TOGETHER) together *= TOGETHER;
  return i + (segments - 1) / together * together * length;
}

static int32_t split(void *user, int32_t i, int32_t j) {
  wide *w = user;
  if (w->run_end[i] >= j) return split_run(w, i, j);
  return w->ranges[--w->next].split;
}

/* Finds the order among runs, that of fewest multiplications, in vertices of the whole chain. */
static mmc_status order_runs(const mmci_order_problem *problem, wide *w, int32_t runs,
                             mmci_error *error) {
  int64_t *dims = mmci_alloc_array((size_t)runs + 1, sizeof *dims + sizeof(int32_t));
  if (dims == NULL) return mmci_fail_nomem(error, ((size_t)runs + 1) * sizeof *dims);
  int32_t *vertex = (int32_t *)(dims + runs + 1), v = 0;
  for (int32_t i = 0; i < w->n; i = w->run_end[i]) {
    vertex[v] = i;
    dims[v++] = problem->dims[i];
  }
  vertex[v] = w->n;
  dims[v] = problem->dims[w->n];
  mmci_order_problem small = {.n = runs, .dims = dims};
  mmci_order_answer answer;
  const mmci_solver *used;
  mmc_status status = mmci_order_solve("auto", &small, false, &used, &answer, error);
  if (status == MMC_OK) {
    mmci_tree_ranges(&answer.tree, w->ranges);
    mmci_tree_destroy(&answer.tree);
    for (int32_t t = 0; t < runs - 1; t++) w->ranges[t].split = vertex[w->ranges[t].split];
    w->next = runs - 1;
  }
  free(dims);
  return status;
}

/* Makes the tree of so many segments in each run; w->next is that of order_runs(). */
static mmc_status wide_tree(wide *w, int32_t segments, mmci_tree *out, mmci_error *error) {
  mmci_tree tree;
  mmc_status status = mmci_tree_create(w->n, &tree, error);
  if (status != MMC_OK) return status;
  const int32_t next = w->next;
  w->segments = segments;
  status = mmci_tree_from_splits(&tree, split, w, error);
  w->next = next;
  if (status == MMC_OK)
    *out = tree;
  else
    mmci_tree_destroy(&tree);
  return status;
}

mmc_status mmci_order_wide_trees(const mmci_order_problem *problem, const int32_t *segments,
                                 int count, mmci_tree *out, bool *found, mmci_error *error) {
  int32_t n = problem->n;
  size_t size = 2 * sizeof(int32_t) + sizeof(mmci_range);
  wide w = {.n = n, .run_begin = mmci_alloc_array((size_t)n, size)};
  if (w.run_begin == NULL) return mmci_fail_nomem(error, (size_t)n * size);
  w.run_end = w.run_begin + n;
  w.ranges = (mmci_range *)(w.run_end + n);
  int32_t runs = find_runs(problem->dims, &w);
  *found = runs < n;
  mmc_status status = *found ? order_runs(problem, &w, runs, error) : MMC_OK;
  int made = 0;
  while (*found && status == MMC_OK && made < count) {
    status = wide_tree(&w, segments[made], &out[made], error);
    if (status == MMC_OK) made++;
  }
  while (status != MMC_OK && made > 0) mmci_tree_destroy(&out[--made]);
  *found = *found && status == MMC_OK;
  free(w.run_begin);
  return status;
}

mmc_status mmci_order_wide(const mmci_order_problem *problem, int32_t segments, mmci_tree *out,
                           bool *found, mmci_error *error) {
  return mmci_order_wide_trees(problem, &segments, 1, out, found, error);
}

/* ranges_tree.c: the memory of the tree, and products of its nodes. */
#include "ranges/ranges_tree.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/interrupt.h"
#include "chain/scale.h"
#include "ranges/ranges_device.h"

/* So many blocks at most are computed at a time, and so many matrices are multiplied as one batch.
 */
enum { MOST_LANES = 64, MOST_ENTRIES = 1 << (MMCI_RANGES_BATCHES - 1) };

/* ---- where nodes lie ----------------------------------------------------------------------- */

mmci_span mmci_ranges_clip(const mmci_ranges *ranges, int level, int64_t q) {
  const int64_t first = q << level, end = (q + 1) << level;
  mmci_span span = {first > ranges->row.first ? first : ranges->row.first,
                    end < ranges->row.end ? end : ranges->row.end};
  if (span.end < span.first) span.end = span.first;
  return span;
}

char *mmci_ranges_value(const mmci_ranges *ranges, int level, int64_t q) {
  const mmci_ranges_level *x = &ranges->tree.levels[level];
  return x->values + (size_t)(q % x->slots) * ranges->value_bytes;
}

/* ---- memory -------------------------------------------------------------------------------- */

static bool is_stored(const mmci_ranges_tree *tree, int level) {
  return level == 0 || (level >= tree->block && level <= tree->top);
}

/* Decides how many nodes a tree for so many factors has, and how many bytes they take. */
static void size_tree(const mmci_ranges *ranges, int64_t capacity, int block,
                      mmci_ranges_tree *tree) {
  *tree = (mmci_ranges_tree){.capacity = capacity, .block = block, .top = block};
  while (INT64_C(1) << tree->top < capacity) tree->top++;
  for (int l = 0; l <= tree->top; l++) {
    if (!is_stored(tree, l)) continue;
    mmci_ranges_level *x = &tree->levels[l];
    x->slots = l == 0 ? capacity : ((capacity - 1) >> l) + 2;
    uint64_t bytes, node = ranges->value_bytes;
    if (l > 0) node = mmci_bytes_add(node, sizeof *x->spans + sizeof *x->stale);
    if (__builtin_mul_overflow((uint64_t)x->slots, node, &bytes)) bytes = UINT64_MAX;
    tree->bytes = mmci_bytes_add(tree->bytes, bytes);
  }
  const int64_t blocks = tree->levels[block].slots, batch = ranges->problem.batch;
  tree->lanes = block == 1 ? 0 : blocks < MOST_LANES ? blocks : MOST_LANES;
  tree->entries = 1;
  while (tree->entries < MOST_ENTRIES && tree->entries / batch < blocks) tree->entries *= 2;
  uint64_t scratch;
  if (__builtin_mul_overflow((uint64_t)(MMCI_RANGES_TEMPORARIES + tree->lanes),
                             (uint64_t)ranges->value_bytes, &scratch))
    scratch = UINT64_MAX;
  tree->bytes = mmci_bytes_add(tree->bytes, scratch);
  tree->bytes = mmci_bytes_add(tree->bytes, 3 * (uint64_t)tree->entries * sizeof(void *));
  /* All nodes of a tree at once, where a level is not more than one call. */
  tree->nodes_room = ranges->on_device ? 2 * tree->entries : 0;
  tree->bytes = mmci_bytes_add(tree->bytes, 2 * (uint64_t)tree->nodes_room * sizeof *tree->nodes);
}

/* Sizes the tree that computes the fewest products after a change and fits the limit: the one with
 * the smallest blocks. Where none fits, tree is the one that takes the fewest bytes. */
static bool choose_tree(const mmci_ranges *ranges, int64_t capacity, mmci_ranges_tree *tree) {
  mmci_ranges_tree next;
  size_tree(ranges, capacity, 1, tree);
  for (int block = 2; tree->bytes > ranges->problem.memory_limit_bytes; block++) {
    if (INT64_C(1) << (block - 1) >= capacity) return false;
    size_tree(ranges, capacity, block, &next);
    if (next.bytes < tree->bytes || next.bytes <= ranges->problem.memory_limit_bytes) *tree = next;
  }
  return true;
}

/* Values are in the device's memory where it has its own. */
static mmc_status allocate_values(const mmci_ranges *ranges, int64_t count, char **out,
                                  mmci_error *error) {
  void *made = NULL;
  if (ranges->on_device) {
    uint64_t bytes;
    if (__builtin_mul_overflow((uint64_t)count, (uint64_t)ranges->value_bytes, &bytes))
      return mmci_fail_nomem(error, UINT64_MAX);
    const mmc_status status = ranges->ops->alloc(ranges->device, bytes, &made, error);
    *out = made;
    return status;
  }
  *out = mmci_alloc_aligned((size_t)count, ranges->value_bytes);
  return *out != NULL ? MMC_OK : mmci_fail_nomem(error, (uint64_t)count * ranges->value_bytes);
}

static void free_values(const mmci_ranges *ranges, void *values) {
  if (!ranges->on_device)
    free(values);
  else if (values != NULL)
    ranges->ops->dealloc(ranges->device, values);
}

void mmci_ranges_tree_free(const mmci_ranges *ranges, mmci_ranges_tree *tree) {
  for (int l = 0; l < MMCI_RANGES_LEVELS; l++) {
    free_values(ranges, tree->levels[l].values);
    free(tree->levels[l].spans);
    free(tree->levels[l].stale);
  }
  free_values(ranges, tree->scratch);
  free_values(ranges, tree->device_nodes);
  free(tree->nodes);
  free((void *)tree->tables);
  *tree = (mmci_ranges_tree){0};
}

static mmc_status allocate_level(const mmci_ranges *ranges, mmci_ranges_level *x, bool is_factors,
                                 mmci_error *error) {
  const size_t slots = (size_t)x->slots;
  mmc_status status = allocate_values(ranges, x->slots, &x->values, error);
  if (status != MMC_OK || is_factors) return status;
  x->spans = mmci_alloc_zeroed(slots, sizeof *x->spans);
  x->stale = mmci_alloc_array(slots, sizeof *x->stale);
  if (x->spans != NULL && x->stale != NULL) return MMC_OK;
  return mmci_fail_nomem(error, slots * (sizeof *x->spans + sizeof *x->stale));
}

static mmc_status allocate_nodes(const mmci_ranges *ranges, mmci_ranges_tree *tree,
                                 mmci_error *error) {
  const size_t room = (size_t)tree->nodes_room;
  if (room == 0) return MMC_OK;
  tree->nodes = mmci_alloc_array(room, sizeof *tree->nodes);
  if (tree->nodes == NULL) return mmci_fail_nomem(error, room * sizeof *tree->nodes);
  return ranges->ops->alloc(ranges->device, room * sizeof *tree->nodes, &tree->device_nodes, error);
}

static mmc_status allocate_tree(const mmci_ranges *ranges, mmci_ranges_tree *tree,
                                mmci_error *error) {
  mmc_status status = MMC_OK;
  for (int l = 0; status == MMC_OK && l <= tree->top; l++)
    if (is_stored(tree, l)) status = allocate_level(ranges, &tree->levels[l], l == 0, error);
  if (status == MMC_OK)
    status = allocate_values(ranges, MMCI_RANGES_TEMPORARIES + tree->lanes, &tree->scratch, error);
  if (status == MMC_OK) status = allocate_nodes(ranges, tree, error);
  if (status == MMC_OK) {
    tree->tables = mmci_alloc_array(3 * (size_t)tree->entries, sizeof *tree->tables);
    if (tree->tables == NULL) status = mmci_fail_nomem(error, tree->bytes);
  }
  if (status != MMC_OK) mmci_ranges_tree_free(ranges, tree);
  return status;
}

/* Copies what is in the row, and the nodes that the new tree stores as the old one did. */
static mmc_status move_nodes(mmci_ranges *ranges, mmci_ranges_tree *to, mmci_error *error) {
  const mmci_ranges_tree *from = &ranges->tree;
  const size_t bytes = ranges->value_bytes;
  const int top = from->block != to->block ? 0 : from->top < to->top ? from->top : to->top;
  mmc_status status = MMC_OK;
  if (ranges->row.first == ranges->row.end) return MMC_OK;
  for (int l = 0; l <= top; l++) {
    if (!is_stored(from, l)) continue;
    const mmci_ranges_level *old = &from->levels[l];
    mmci_ranges_level *new = &to->levels[l];
    const int64_t last = (ranges->row.end - 1) >> l;
    for (int64_t q = ranges->row.first >> l, run; q <= last && status == MMC_OK; q += run) {
      /* So many nodes go around the end of neither ring. */
      const int64_t at = q % old->slots, put = q % new->slots;
      run = last - q + 1;
      if (run > old->slots - at) run = old->slots - at;
      if (run > new->slots - put) run = new->slots - put;
      const char *source = old->values + (size_t)at * bytes;
      char *target = new->values + (size_t)put *bytes;
      if (ranges->on_device)
        status = mmci_ranges_device_move(ranges, source, target, run, error);
      else
        memcpy(target, source, (size_t)run * bytes);
      if (l > 0) memcpy(new->spans + put, old->spans + at, (size_t)run * sizeof *new->spans);
    }
  }
  /* The old memory is about to be freed. */
  return status == MMC_OK && ranges->on_device ? ranges->ops->sync(ranges->queue, error) : status;
}

mmc_status mmci_ranges_reserve(mmci_ranges *ranges, int64_t count, mmci_error *error) {
  if (count <= ranges->tree.capacity) return MMC_OK;
  const int64_t most = INT64_C(1) << (MMCI_RANGES_LEVELS - 2);
  if (count > most)
    return mmci_fail_argument(error, MMC_E_OVERFLOW, "count",
                              "expected a row of at most %" PRId64 " factors, got %" PRId64, most,
                              count);
  /* Half as many again, so that appending one by one moves each factor a few times only. */
  const int64_t ahead = ranges->tree.capacity + ranges->tree.capacity / 2;
  mmci_ranges_tree tree;
  bool fits = choose_tree(ranges, count > ahead ? count : ahead, &tree);
  if (!fits && ahead > count) fits = choose_tree(ranges, count, &tree);
  if (!fits)
    return mmci_fail_argument(error, MMC_E_MEMORY_LIMIT, "memory limit",
                              "%" PRIu64 " bytes are too few: %" PRId64
                              " factors and the least that is kept of their products take %" PRIu64,
                              ranges->problem.memory_limit_bytes, count, tree.bytes);
  mmc_status status = allocate_tree(ranges, &tree, error);
  if (status != MMC_OK) return status;
  status = move_nodes(ranges, &tree, error);
  mmci_ranges_tree_free(ranges, status == MMC_OK ? &ranges->tree : &tree);
  if (status != MMC_OK) return status;
  ranges->tree = tree;
  return MMC_OK;
}

/* ---- products ------------------------------------------------------------------------------ */

/* Makes the call for 2^i matrices at addresses, where the device has one. */
static mmc_status prepare_many(mmci_ranges *ranges, int i, mmci_error *error) {
  const int64_t side = ranges->problem.side;
  const mmci_form gathered = {.ld = side > 0 ? side : 1, .gathered = true};
  const mmci_form forms[] = {gathered, gathered};
  const mmci_group_product product = {side, side, side, 0, 1};
  const mmci_group group = {.dtype = ranges->problem.dtype,
                            .rule = {.semiring = ranges->problem.semiring},
                            .precision = MMCI_NATIVE,
                            .batch = INT64_C(1) << i,
                            .n = 2,
                            .count = 1,
                            .forms = forms,
                            .products = &product,
                            .ldc = gathered.ld,
                            .c_gathered = true};
  if (ranges->many[i] != NULL) return MMC_OK;
  if (ranges->ops->group_supports == NULL || !ranges->ops->group_supports(ranges->device, &group))
    return MMC_OK;
  return ranges->ops->group_prepare(ranges->device, &group, &ranges->many[i], error);
}

/* Multiplies the nodes one by one, each the whole batch. */
static mmc_status multiply_each(mmci_ranges *ranges, int64_t count, const char *const *a,
                                const char *const *b, char *const *c, mmci_error *error) {
  mmc_status status = MMC_OK;
  for (int64_t i = 0; i < count && status == MMC_OK; i++)
    status = mmci_interrupted()
                 ? mmci_fail(error, MMC_E_INTERRUPTED, "stopped between products")
                 : ranges->ops->enqueue(ranges->queue, ranges->one, a[i], b[i], c[i], error);
  return status;
}

/* Lists the addresses of every matrix of the batches in place of those of the nodes; from the last,
 * so that a table may be spread where it lies. */
static void spread(const mmci_ranges *ranges, int64_t count, void **table) {
  const size_t one = (size_t)ranges->problem.side * (size_t)ranges->problem.side * ranges->element;
  const int64_t batch = ranges->problem.batch;
  for (int64_t i = count - 1; i >= 0; i--)
    for (int64_t t = batch - 1; t >= 0; t--)
      table[i * batch + t] = (char *)table[i] + (size_t)t * one;
}

static mmc_status multiply_many(mmci_ranges *ranges, int64_t count, mmci_error *error) {
  const mmci_ranges_tree *tree = &ranges->tree;
  void **a = tree->tables, **b = a + tree->entries, **c = b + tree->entries;
  const int64_t all = count * ranges->problem.batch;
  for (int64_t t = 0; t < 3; t++) spread(ranges, count, a + t * tree->entries);
  mmc_status status = MMC_OK;
  for (int64_t done = 0; done < all && status == MMC_OK;) {
    int i = 0;
    while (INT64_C(2) << i <= all - done) i++;
    const void *operands[] = {a + done, b + done};
    if (mmci_interrupted()) return mmci_fail(error, MMC_E_INTERRUPTED, "stopped between products");
    status = ranges->ops->group_enqueue(ranges->queue, ranges->many[i], operands, c + done, error);
    done += INT64_C(1) << i;
  }
  return status;
}

void mmci_ranges_scale(const mmci_ranges *ranges, char *value) {
  const int64_t side = ranges->problem.side;
  const size_t one = (size_t)side * (size_t)side * ranges->element;
  for (int64_t t = 0; t < ranges->problem.batch; t++)
    mmci_ranges_exponents(ranges, value)[t] +=
        mmci_scale(ranges->problem.dtype, side, side, value + (size_t)t * one, side);
}

static void add_exponents(const mmci_ranges *ranges, const char *a, const char *b, char *c) {
  for (int64_t t = 0; t < ranges->problem.batch; t++)
    mmci_ranges_exponents(ranges, c)[t] =
        mmci_ranges_exponents(ranges, a)[t] + mmci_ranges_exponents(ranges, b)[t];
}

mmc_status mmci_ranges_multiply(mmci_ranges *ranges, int64_t count, const char *const *a,
                                const char *const *b, char *const *c, mmci_error *error) {
  const int64_t all = count * ranges->problem.batch;
  if (ranges->on_device) return mmci_ranges_device_multiply(ranges, count, a, b, c, error);
  bool together = count > 1;
  mmc_status status = MMC_OK;
  for (int i = 0; together && status == MMC_OK && i < MMCI_RANGES_BATCHES; i++) {
    if ((all >> i & 1) == 0) continue;
    status = prepare_many(ranges, i, error);
    together = ranges->many[i] != NULL;
  }
  for (int64_t i = 0; i < count && ranges->problem.scaled; i++)
    add_exponents(ranges, a[i], b[i], c[i]);
  if (status == MMC_OK)
    status = together ? multiply_many(ranges, count, error)
                      : multiply_each(ranges, count, a, b, c, error);
  if (status == MMC_OK) status = ranges->ops->sync(ranges->queue, error);
  /* Tables that were spread have the address of a node where its batch begins. */
  const int64_t apart = together ? ranges->problem.batch : 1;
  for (int64_t i = 0; i < count && ranges->problem.scaled && status == MMC_OK; i++)
    mmci_ranges_scale(ranges, c[i * apart]);
  if (status == MMC_OK) ranges->products += count;
  return status;
}

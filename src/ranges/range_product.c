/* range_product.c: the product of a range: stale nodes are computed, then the nodes that the range
 * is made of are multiplied.
 *
 * Each range is multiplied in the order of the tree's nodes, whichever of them were kept, so that
 * what is kept decides about time alone. */
#include <inttypes.h>
#include <string.h>

#include "chain/copy.h"
#include "chain/identity.h"
#include "ranges/ranges_device.h"
#include "run/matrices.h"

static bool is_empty(mmci_span span) {
  return span.first == span.end;
}

static bool is_within(mmci_span span, mmci_span range) {
  return range.first <= span.first && span.end <= range.end;
}

static bool meets(mmci_span span, mmci_span range) {
  return span.first < range.end && range.first < span.end;
}

/* ---- stale nodes --------------------------------------------------------------------------- */

/* Notes a node that a product needs and that is stale. */
static void need(mmci_ranges *ranges, int level, int64_t q) {
  if (level == 0) return;
  mmci_ranges_level *x = &ranges->tree.levels[level];
  const mmci_span span = mmci_ranges_clip(ranges, level, q), *kept = &x->spans[q % x->slots];
  if (is_empty(span) || (kept->first == span.first && kept->end == span.end)) return;
  x->stale[x->stale_count++] = q;
}

/* Notes the stale ones of the nodes that a range is made of. */
static void need_range(mmci_ranges *ranges, int level, int64_t q, mmci_span range) {
  const mmci_span span = mmci_ranges_clip(ranges, level, q);
  if (!meets(span, range)) return;
  if (is_within(span, range)) {
    need(ranges, level, q);
  } else if (level > ranges->tree.block) {
    need_range(ranges, level - 1, 2 * q, range);
    need_range(ranges, level - 1, 2 * q + 1, range);
  }
}

/* Where the product of a node that is not stale lies: of one that has nothing on one side, that is
 * the product of the other. */
static const char *find(const mmci_ranges *ranges, int level, int64_t q) {
  const mmci_span span = mmci_ranges_clip(ranges, level, q);
  if (span.end - span.first == 1) return mmci_ranges_value(ranges, 0, span.first);
  for (; level > ranges->tree.block; level--) {
    const int64_t middle = (2 * q + 1) << (level - 1);
    if (span.first < middle && middle < span.end) break;
    q = 2 * q + (span.first >= middle);
  }
  return mmci_ranges_value(ranges, level, q);
}

/* Says whether a node is a product of its own, not that of a node below it. */
static bool has_product(const mmci_ranges *ranges, int level, int64_t q) {
  const mmci_span span = mmci_ranges_clip(ranges, level, q);
  const int64_t middle = (2 * q + 1) << (level - 1);
  if (level == ranges->tree.block) return span.end - span.first > 1;
  return span.first < middle && middle < span.end;
}

/* The tables of addresses are also where pairs are gathered. */
typedef struct pairs {
  const char **a, **b;
  char **c;
  int64_t count, most;
} pairs;

static pairs pairs_of(const mmci_ranges *ranges) {
  const mmci_ranges_tree *tree = &ranges->tree;
  void **tables = tree->tables;
  const int64_t most = tree->entries / ranges->problem.batch;
  return (pairs){.a = (const char **)tables,
                 .b = (const char **)(tables + tree->entries),
                 .c = (char **)(tables + 2 * tree->entries),
                 .most = most > 0 ? most : 1};
}

static mmc_status multiply_pairs(mmci_ranges *ranges, pairs *x, mmci_error *error) {
  const int64_t count = x->count;
  x->count = 0;
  return count > 0 ? mmci_ranges_multiply(ranges, count, x->a, x->b, x->c, error) : MMC_OK;
}

/* Multiplies the children of a level's stale nodes. */
static mmc_status compute_nodes(mmci_ranges *ranges, int level, mmci_error *error) {
  const mmci_ranges_level *x = &ranges->tree.levels[level];
  pairs gathered = pairs_of(ranges);
  mmc_status status = MMC_OK;
  for (int64_t s = 0; s < x->stale_count && status == MMC_OK; s++) {
    const int64_t q = x->stale[s];
    if (!has_product(ranges, level, q)) continue;
    gathered.a[gathered.count] = find(ranges, level - 1, 2 * q);
    gathered.b[gathered.count] = find(ranges, level - 1, 2 * q + 1);
    gathered.c[gathered.count++] = mmci_ranges_value(ranges, level, q);
    if (gathered.count == gathered.most) status = multiply_pairs(ranges, &gathered, error);
  }
  return status == MMC_OK ? multiply_pairs(ranges, &gathered, error) : status;
}

/* Multiplies the factors of up to `lanes` blocks from left to right, a factor of each at a time.
 * Products go to a block's node and to its lane in turns, and the last one to the node. */
static mmc_status compute_lanes(mmci_ranges *ranges, const int64_t *blocks, int64_t count,
                                mmci_error *error) {
  const mmci_ranges_tree *tree = &ranges->tree;
  char *lanes = tree->scratch + MMCI_RANGES_TEMPORARIES * ranges->value_bytes;
  mmc_status status = MMC_OK;
  for (int64_t step = 1; step < INT64_C(1) << tree->block && status == MMC_OK; step++) {
    pairs gathered = pairs_of(ranges);
    for (int64_t s = 0; s < count && status == MMC_OK; s++) {
      const mmci_span span = mmci_ranges_clip(ranges, tree->block, blocks[s]);
      const int64_t left = span.end - span.first - step; /* products, this one included */
      char *node = mmci_ranges_value(ranges, tree->block, blocks[s]);
      char *lane = lanes + (size_t)s * ranges->value_bytes;
      if (left <= 0) continue;
      gathered.a[gathered.count] = step == 1       ? mmci_ranges_value(ranges, 0, span.first)
                                   : left % 2 != 0 ? lane
                                                   : node;
      gathered.b[gathered.count] = mmci_ranges_value(ranges, 0, span.first + step);
      gathered.c[gathered.count++] = left % 2 != 0 ? node : lane;
      if (gathered.count == gathered.most) status = multiply_pairs(ranges, &gathered, error);
    }
    if (status == MMC_OK) status = multiply_pairs(ranges, &gathered, error);
  }
  return status;
}

static mmc_status compute_blocks(mmci_ranges *ranges, mmci_error *error) {
  const mmci_ranges_tree *tree = &ranges->tree;
  const mmci_ranges_level *x = &tree->levels[tree->block];
  mmc_status status = MMC_OK;
  if (tree->block == 1) return compute_nodes(ranges, 1, error);
  for (int64_t s = 0; s < x->stale_count && status == MMC_OK; s += tree->lanes) {
    const int64_t left = x->stale_count - s;
    status = compute_lanes(ranges, x->stale + s, left < tree->lanes ? left : tree->lanes, error);
  }
  return status;
}

/* Finds the products of the stale nodes where each has the one below it as an operand; false where
 * there are several of a level, or they are apart. */
static bool find_climb(const mmci_ranges *ranges, mmci_climb *out) {
  const mmci_ranges_tree *tree = &ranges->tree;
  *out = (mmci_climb){0};
  if (!ranges->climbs || tree->block != 1) return false;
  for (int l = 1; l <= tree->top; l++) {
    const mmci_ranges_level *x = &tree->levels[l];
    if (x->stale_count > 1) return false;
    if (x->stale_count == 0 || !has_product(ranges, l, x->stale[0])) continue;
    const int64_t q = x->stale[0];
    const char *a = find(ranges, l - 1, 2 * q), *b = find(ranges, l - 1, 2 * q + 1);
    const void *below = out->count > 0 ? out->steps[out->count - 1].out : a;
    if (out->count == 0) out->first = a;
    if (below != a && below != b) return false;
    out->steps[out->count++] = (mmci_climb_step){
        .sibling = below == a ? b : a,
        .out = mmci_ranges_value(ranges, l, q),
        .sibling_is_left = below != a,
    };
  }
  return out->count > 0;
}

/* Computes the stale nodes that were noted, and all that they need, from the blocks upwards. */
static mmc_status refresh(mmci_ranges *ranges, mmci_error *error) {
  mmci_ranges_tree *tree = &ranges->tree;
  for (int l = tree->top; l > tree->block; l--)
    for (int64_t s = 0; s < tree->levels[l].stale_count; s++) {
      need(ranges, l - 1, 2 * tree->levels[l].stale[s]);
      need(ranges, l - 1, 2 * tree->levels[l].stale[s] + 1);
    }
  mmc_status status = MMC_OK;
  mmci_climb climb;
  const bool climbs = find_climb(ranges, &climb);
  if (climbs) status = mmci_ranges_device_climb(ranges, &climb, error);
  for (int l = tree->block; l <= tree->top; l++) {
    mmci_ranges_level *x = &tree->levels[l];
    if (status == MMC_OK && !climbs)
      status = l == tree->block ? compute_blocks(ranges, error) : compute_nodes(ranges, l, error);
    for (int64_t s = 0; s < x->stale_count && status == MMC_OK; s++)
      x->spans[x->stale[s] % x->slots] = mmci_ranges_clip(ranges, l, x->stale[s]);
    x->stale_count = 0;
  }
  return status;
}

/* ---- the range ----------------------------------------------------------------------------- */

/* A product in the making: at is NULL before its first operand, and a matrix of the tree or one of
 * the two temporaries later. */
typedef struct partial {
  const char *at;
  char *temporaries[2];
} partial;

static char *other(const partial *x) {
  return x->temporaries[x->at == x->temporaries[0]];
}

/* Multiplies by a matrix from the right, or from the left. */
static mmc_status extend(mmci_ranges *ranges, partial *x, const char *matrix, bool from_left,
                         mmci_error *error) {
  char *to = other(x);
  if (x->at == NULL) {
    x->at = matrix;
    return MMC_OK;
  }
  const char *a = from_left ? matrix : x->at, *b = from_left ? x->at : matrix;
  mmc_status status = mmci_ranges_multiply(ranges, 1, &a, &b, &to, error);
  x->at = to;
  return status;
}

/* Multiplies what a node has of a range, which reaches to the end of the node, or of the row; or
 * else begins where the node or the row does. */
static mmc_status multiply_part(mmci_ranges *ranges, int level, int64_t q, mmci_span range,
                                partial *x, mmci_error *error) {
  const mmci_span span = mmci_ranges_clip(ranges, level, q);
  if (is_empty(span) || !meets(span, range)) return MMC_OK;
  if (is_within(span, range)) return extend(ranges, x, find(ranges, level, q), false, error);
  mmc_status status = MMC_OK;
  if (level == ranges->tree.block) {
    const int64_t first = span.first > range.first ? span.first : range.first;
    const int64_t end = span.end < range.end ? span.end : range.end;
    for (int64_t i = first; i < end && status == MMC_OK; i++)
      status = extend(ranges, x, mmci_ranges_value(ranges, 0, i), false, error);
    return status;
  }
  /* The part that is cut comes first, so that one product is in the making at a time. */
  const mmci_span left = mmci_ranges_clip(ranges, level - 1, 2 * q);
  const mmci_span right = mmci_ranges_clip(ranges, level - 1, 2 * q + 1);
  if (!meets(right, range)) return multiply_part(ranges, level - 1, 2 * q, range, x, error);
  if (!meets(left, range)) return multiply_part(ranges, level - 1, 2 * q + 1, range, x, error);
  const bool cut_right = is_within(left, range);
  status = multiply_part(ranges, level - 1, 2 * q + cut_right, range, x, error);
  if (status != MMC_OK) return status;
  return extend(ranges, x, find(ranges, level - 1, 2 * q + !cut_right), cut_right, error);
}

/* A node of the tree. */
typedef struct node {
  int level;
  int64_t q;
} node;

/* Finds the one node, or the two that follow each other, that have the range. Of two, the left one
 * has it from somewhere to its end, the right one from its beginning. Returns how many they are. */
static int find_nodes(const mmci_ranges *ranges, mmci_span range, node nodes[2]) {
  const int block = ranges->tree.block, top = ranges->tree.top;
  const int64_t last = range.end - 1;
  int level = block;
  while (level < top && range.first >> level != last >> level) level++;
  nodes[0] = (node){level, range.first >> level};
  nodes[1] = (node){level, last >> level};
  if (nodes[0].q != nodes[1].q) return 2;
  if (level == block || is_within(mmci_ranges_clip(ranges, level, nodes[0].q), range)) return 1;
  nodes[1] = (node){level - 1, 2 * nodes[0].q + 1};
  nodes[0] = (node){level - 1, 2 * nodes[0].q};
  return 2;
}

/* Multiplies the factors at the positions of a range, which is not empty. *out is a matrix of the
 * tree, until something else is computed. */
static mmc_status multiply_range(mmci_ranges *ranges, mmci_span range, const char **out,
                                 mmci_error *error) {
  node nodes[2];
  const int count = find_nodes(ranges, range, nodes);
  for (int i = 0; i < count; i++) need_range(ranges, nodes[i].level, nodes[i].q, range);
  mmc_status status = refresh(ranges, error);
  partial parts[2] = {{0}};
  for (int i = 0; i < count && status == MMC_OK; i++) {
    char *room = ranges->tree.scratch + (size_t)(2 * i) * ranges->value_bytes;
    parts[i].temporaries[0] = room;
    parts[i].temporaries[1] = room + ranges->value_bytes;
    status = multiply_part(ranges, nodes[i].level, nodes[i].q, range, &parts[i], error);
  }
  if (status == MMC_OK && count == 2) status = extend(ranges, &parts[0], parts[1].at, false, error);
  if (status == MMC_OK) *out = parts[0].at;
  return status;
}

/* ---- the result ---------------------------------------------------------------------------- */

/* Fills a temporary with identities, the product of no factors. */
static mmc_status make_identity(mmci_ranges *ranges, const char **out, mmci_error *error) {
  const mmci_ranges_problem *x = &ranges->problem;
  char *at = ranges->tree.scratch;
  *out = at;
  if (ranges->on_device) return mmci_ranges_device_identity(ranges, at, error);
  memset(at, 0, ranges->value_bytes);
  for (int64_t t = 0; t < x->batch; t++)
    mmci_write_identity(x->dtype, x->semiring, x->side,
                        at + (size_t)(t * x->side * x->side) * ranges->element);
  return MMC_OK;
}

static void write_product(const mmci_ranges *ranges, const char *from, const mmc_matrix *out) {
  const mmci_ranges_problem *x = &ranges->problem;
  const mmci_form form = {.ld = x->side > 0 ? x->side : 1};
  const size_t one = (size_t)x->side * (size_t)x->side * ranges->element;
  for (int64_t t = 0; t < x->batch; t++) {
    const mmc_matrix to = mmci_matrix_of_batch(out, x->dtype, t);
    mmci_copy(x->dtype, x->side, x->side, from + (size_t)t * one, &form, to.data,
              mmci_matrix_ld(&to), to.layout == MMC_COL_MAJOR);
  }
}

/* Computes the product of a range, and writes it. */
static mmc_status find_product(mmci_ranges *ranges, mmci_span range, const mmc_matrix *out,
                               int64_t *exponents, mmci_error *error) {
  const mmci_ranges_problem *x = &ranges->problem;
  const bool has_no_gaps = out->layout == MMC_ROW_MAJOR && mmci_matrix_ld(out) == x->side &&
                           (x->batch == 1 || out->stride == x->side * x->side);
  const char *product = NULL;
  ranges->out = ranges->on_device && has_no_gaps ? out->data : NULL;
  ranges->out_is = NULL;
  mmc_status status = is_empty(range) ? make_identity(ranges, &product, error)
                                      : multiply_range(ranges, range, &product, error);
  if (status != MMC_OK || (product == ranges->out_is && product != NULL)) return status;
  if (ranges->on_device) return mmci_ranges_device_read(ranges, product, out, error);
  write_product(ranges, product, out);
  for (int64_t t = 0; t < x->batch && exponents != NULL; t++)
    exponents[t] = mmci_ranges_exponents(ranges, product)[t];
  return MMC_OK;
}

mmc_status mmci_ranges_product(mmci_ranges *ranges, int64_t first, int64_t end,
                               const mmc_matrix *out, int64_t *exponents, mmci_error *error) {
  const int64_t length = ranges->row.end - ranges->row.first;
  if (first < 0 || first > length)
    return mmci_fail_argument(error, MMC_E_ARG, "first", "expected 0 to %" PRId64 ", got %" PRId64,
                              length, first);
  if (end < first || end > length)
    return mmci_fail_argument(error, MMC_E_ARG, "end",
                              "expected %" PRId64 " to %" PRId64 ", got %" PRId64, first, length,
                              end);
  mmc_status status = mmci_ranges_check(ranges, "out", -1, out, error);
  if (status == MMC_OK && ranges->on_device) status = mmci_ranges_device_begin(ranges, error);
  if (status != MMC_OK) return status;
  status = mmci_ranges_reserve(ranges, 1, error);
  if (status == MMC_OK) {
    const mmci_span range = {ranges->row.first + first, ranges->row.first + end};
    status = find_product(ranges, range, out, exponents, error);
  }
  return ranges->on_device ? mmci_ranges_device_end(ranges, status, error) : status;
}

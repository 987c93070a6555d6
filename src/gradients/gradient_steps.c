/* gradient_steps.c: see gradient_steps.h. */
#include "gradients/gradient_steps.h"

#include <string.h>

#include "base/alloc.h"
#include "gradients/gradient_tree.h"

/* So many products on the way back are computed at a time, at least; their results need places
 * while what they are computed from still has its own. An eighth of the factors are enough for the
 * cores to share, unless all of them take fewer multiplications than a second core is woken for. */
enum { LEAST_TOGETHER = 8, SHARE_TOGETHER = 8 };
static const double enough_multiplications = 1 << 24;

typedef struct builder {
  const mmc_chain *chain;
  int32_t n;
  mmci_gradient_node *nodes; /* the factors, then the products, children first */
  int32_t *sorted;
  mmci_places memory;
  mmci_gradient_steps *out;
  int32_t room; /* for so many steps */
  bool is_full; /* a step found no room */
  int32_t batch;
  /* Under a limit, of each node: whether its matrix is there, whether it is kept for the way back,
   * and the multiplications that it takes from what is kept. */
  bool *held, *kept;
  double *price;
  int32_t *path, *waiting; /* n each */
} builder;

/* ---- steps --------------------------------------------------------------------------------- */

static mmci_gradient_operand operand_of(const builder *x, int32_t i, mmci_gradient_place root) {
  const mmci_gradient_node *v = &x->nodes[i];
  mmci_gradient_operand o = {.rows = v->rows, .cols = v->cols, .factor = i, .offset = v->offset};
  o.place = i < x->n ? MMCI_AT_FACTOR : i == 2 * x->n - 2 ? root : MMCI_AT_MEMORY;
  return o;
}

static void add(builder *x, mmci_gradient_kind kind, mmci_gradient_operand a,
                mmci_gradient_operand b, mmci_gradient_operand c, int32_t of_factor) {
  x->is_full = x->is_full || x->out->count == x->room;
  if (!x->is_full)
    x->out->steps[x->out->count++] = (mmci_gradient_step){kind, a, b, c, of_factor, x->batch};
}

/* Compares products by a level first, then by all that decides whether they can be one call. */
static int compare(const builder *x, int32_t i, int32_t j, bool by_height) {
  const mmci_gradient_node *a = &x->nodes[i], *b = &x->nodes[j];
  const int64_t keys[][2] = {
      {by_height ? a->height : a->depth, by_height ? b->height : b->depth},
      {a->rows, b->rows},
      {x->nodes[a->left].cols, x->nodes[b->left].cols},
      {a->cols, b->cols},
      {a->left < x->n, b->left < x->n},
      {a->right < x->n, b->right < x->n},
  };
  for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
    if (keys[k][0] != keys[k][1]) return keys[k][0] < keys[k][1] ? -1 : 1;
  return 0;
}

/* Sorts the products, stably: by merging, from the bottom up. */
static void sort(builder *x, bool by_height) {
  const int32_t count = x->n - 1;
  int32_t *from = x->sorted, *to = x->sorted + count;
  for (int32_t s = 0; s < count; s++) from[s] = x->n + s;
  for (int64_t width = 1; width < count; width *= 2) {
    for (int64_t begin = 0; begin < count; begin += 2 * width) {
      const int64_t middle = begin + width < count ? begin + width : count;
      const int64_t end = begin + 2 * width < count ? begin + 2 * width : count;
      int64_t l = begin, r = middle;
      for (int64_t t = begin; t < end; t++) {
        const bool right = l == middle || (r < end && compare(x, from[r], from[l], by_height) < 0);
        to[t] = from[right ? r++ : l++];
      }
    }
    int32_t *swapped = from;
    from = to;
    to = swapped;
  }
  if (from != x->sorted) memcpy(x->sorted, from, (size_t)count * sizeof *from);
}

static bool is_inner(const builder *x, int32_t i) {
  return i >= x->n && i != 2 * x->n - 2;
}

static void go_forward(builder *x) {
  sort(x, true);
  for (int32_t s = 0; s < x->n - 1; s++) {
    const int32_t i = x->sorted[s];
    mmci_gradient_node *v = &x->nodes[i];
    if (s > 0 && v->height != x->nodes[x->sorted[s - 1]].height) x->batch++;
    if (is_inner(x, i)) v->offset = mmci_places_take(&x->memory, v->bytes);
    add(x, MMCI_GRADIENT_FORWARD, operand_of(x, v->left, MMCI_AT_PRODUCT),
        operand_of(x, v->right, MMCI_AT_PRODUCT), operand_of(x, i, MMCI_AT_PRODUCT), -1);
  }
  x->batch++;
  x->out->forward = x->out->count;
}

/* Gives the place of a product's matrix back, where it has one. */
static void let_go(builder *x, int32_t i) {
  if (is_inner(x, i)) mmci_places_give(&x->memory, x->nodes[i].offset, x->nodes[i].bytes);
}

/* Where a child's cotangent goes: a factor's is its gradient. */
static mmci_gradient_operand cotangent_of(builder *x, int32_t i, uint64_t offset) {
  mmci_gradient_operand o = operand_of(x, i, MMCI_AT_COTANGENT);
  o.place = MMCI_AT_MEMORY;
  o.offset = offset;
  if (i < x->n) x->out->offsets[i] = offset;
  return o;
}

/* The cotangents of both children of some products that are alike. */
static void go_back(builder *x, const int32_t *products, int32_t count) {
  uint64_t *lefts = (uint64_t *)(void *)(x->sorted + 2 * (x->n - 1));
  for (int32_t s = 0; s < count; s++) {
    const mmci_gradient_node *v = &x->nodes[products[s]];
    if (!x->nodes[v->left].wanted) continue;
    lefts[s] = mmci_places_take(&x->memory, x->nodes[v->left].bytes);
    add(x, MMCI_GRADIENT_OF_LEFT, operand_of(x, products[s], MMCI_AT_COTANGENT),
        operand_of(x, v->right, MMCI_AT_PRODUCT), cotangent_of(x, v->left, lefts[s]),
        v->left < x->n ? v->left : -1);
  }
  x->batch++;
  for (int32_t s = 0; s < count; s++) {
    const mmci_gradient_node *v = &x->nodes[products[s]];
    mmci_gradient_node *r = &x->nodes[v->right];
    if (!r->wanted) {
      let_go(x, v->right);
      continue;
    }
    /* Nobody reads the right operand any more, so that its cotangent takes its place. */
    const uint64_t at = v->right < x->n ? mmci_places_take(&x->memory, r->bytes) : r->offset;
    add(x, MMCI_GRADIENT_OF_RIGHT, operand_of(x, v->left, MMCI_AT_PRODUCT),
        operand_of(x, products[s], MMCI_AT_COTANGENT), cotangent_of(x, v->right, at),
        v->right < x->n ? v->right : -1);
  }
  x->batch++;
  for (int32_t s = 0; s < count; s++) {
    const mmci_gradient_node *v = &x->nodes[products[s]];
    let_go(x, v->left);
    let_go(x, products[s]); /* its cotangent */
    if (x->nodes[v->left].wanted) x->nodes[v->left].offset = lefts[s];
  }
}

static double multiplications_of(const builder *x, int32_t i) {
  const mmci_gradient_node *v = &x->nodes[i];
  return (double)v->rows * (double)v->cols * (double)x->nodes[v->left].cols *
         (double)x->chain->batch;
}

/* How many products like this one are computed at a time. */
static int32_t most_together(const builder *x, int32_t i) {
  const double multiplications = multiplications_of(x, i);
  const int32_t share = x->n / SHARE_TOGETHER;
  const int32_t least = share > LEAST_TOGETHER ? share : LEAST_TOGETHER;
  if (least * multiplications >= enough_multiplications) return least;
  return multiplications * x->n > enough_multiplications
             ? (int32_t)(enough_multiplications / multiplications)
             : x->n;
}

static void go_all_back(builder *x) {
  const int32_t count = x->n - 1;
  sort(x, false);
  /* What is below a product without gradients is not read on the way back. */
  for (int32_t s = 0; s < count; s++) {
    const mmci_gradient_node *v = &x->nodes[x->n + s];
    if (v->wanted) continue;
    let_go(x, v->left);
    let_go(x, v->right);
  }
  for (int32_t s = 0; s < count;) {
    int32_t end = s + 1;
    if (!x->nodes[x->sorted[s]].wanted) {
      s++;
      continue;
    }
    const int32_t most = most_together(x, x->sorted[s]);
    while (end < count && end - s < most && x->nodes[x->sorted[end]].wanted &&
           compare(x, x->sorted[s], x->sorted[end], false) == 0)
      end++;
    go_back(x, x->sorted + s, end - s);
    s = end;
  }
}

/* ---- under a limit ------------------------------------------------------------------------- */

/* One product follows the other, a subtree at a time. What is not kept is let go as soon as its
 * product is computed, and computed again, from what is kept, when the way back reads it. */

/* So many steps there are at most, for each factor. */
enum { MOST_STEPS = 32 };

/* Computes a product's matrix from those that are held. */
static void compute(builder *x, int32_t i) {
  int32_t depth = 0;
  x->path[depth++] = i;
  while (depth > 0 && !x->is_full) {
    const int32_t at = x->path[depth - 1];
    mmci_gradient_node *v = &x->nodes[at];
    const bool left_first = x->nodes[v->left].height >= x->nodes[v->right].height;
    const int32_t children[] = {left_first ? v->left : v->right, left_first ? v->right : v->left};
    if (!x->held[children[0]] || !x->held[children[1]]) {
      x->path[depth++] = children[x->held[children[0]]];
      continue;
    }
    if (is_inner(x, at)) v->offset = mmci_places_take(&x->memory, v->bytes);
    add(x, MMCI_GRADIENT_FORWARD, operand_of(x, v->left, MMCI_AT_PRODUCT),
        operand_of(x, v->right, MMCI_AT_PRODUCT), operand_of(x, at, MMCI_AT_PRODUCT), -1);
    x->batch++;
    x->held[at] = true;
    for (int c = 0; c < 2; c++) {
      if (children[c] < x->n || x->kept[children[c]]) continue;
      let_go(x, children[c]);
      x->held[children[c]] = false;
    }
    depth--;
  }
}

/* The cotangents of a product's children, the right one's in its own place where it has one. */
static void go_back_from(builder *x, int32_t i) {
  const mmci_gradient_node *v = &x->nodes[i];
  mmci_gradient_node *l = &x->nodes[v->left], *r = &x->nodes[v->right];
  uint64_t left = 0;
  if (l->wanted) {
    if (!x->held[v->right]) compute(x, v->right);
    left = mmci_places_take(&x->memory, l->bytes);
    add(x, MMCI_GRADIENT_OF_LEFT, operand_of(x, i, MMCI_AT_COTANGENT),
        operand_of(x, v->right, MMCI_AT_PRODUCT), cotangent_of(x, v->left, left),
        v->left < x->n ? v->left : -1);
    x->batch++;
  }
  if (r->wanted) {
    if (!x->held[v->left]) compute(x, v->left);
    const bool has_place = v->right >= x->n && x->held[v->right];
    const uint64_t at = has_place ? r->offset : mmci_places_take(&x->memory, r->bytes);
    add(x, MMCI_GRADIENT_OF_RIGHT, operand_of(x, v->left, MMCI_AT_PRODUCT),
        operand_of(x, i, MMCI_AT_COTANGENT), cotangent_of(x, v->right, at),
        v->right < x->n ? v->right : -1);
    x->batch++;
    r->offset = at;
  } else if (x->held[v->right]) {
    let_go(x, v->right);
  }
  if (x->held[v->left]) let_go(x, v->left);
  let_go(x, i); /* its cotangent */
  if (l->wanted) l->offset = left;
}

/* Says what is kept: what the way back reads, and whose price is so much a byte or more. */
static void choose_kept(builder *x, double least) {
  for (int32_t i = x->n; i < 2 * x->n - 1; i++) {
    const mmci_gradient_node *v = &x->nodes[i];
    x->kept[v->left] = v->wanted && x->nodes[v->right].wanted;
    x->kept[v->right] = v->wanted && x->nodes[v->left].wanted;
  }
  for (int32_t i = x->n; i < 2 * x->n - 1; i++) {
    const mmci_gradient_node *v = &x->nodes[i];
    x->price[i] = multiplications_of(x, i);
    if (v->left >= x->n && !x->kept[v->left]) x->price[i] += x->price[v->left];
    if (v->right >= x->n && !x->kept[v->right]) x->price[i] += x->price[v->right];
    x->kept[i] = x->kept[i] && x->price[i] >= least * (double)v->bytes;
  }
}

/* Goes both ways; returns the bytes that this takes, UINT64_MAX when there are too many steps. */
static uint64_t go_with(builder *x, double least) {
  const int32_t root = 2 * x->n - 2;
  choose_kept(x, least);
  x->memory.count = 0;
  x->memory.end = 0;
  x->out->count = 0;
  x->batch = 0;
  x->is_full = false;
  for (int32_t i = 0; i <= root; i++) x->held[i] = i < x->n;
  compute(x, root);
  x->out->forward = x->out->count;
  int32_t count = 0;
  if (x->nodes[root].wanted) x->waiting[count++] = root;
  while (count > 0 && !x->is_full) {
    const int32_t i = x->waiting[--count];
    const int32_t children[] = {x->nodes[i].left, x->nodes[i].right};
    go_back_from(x, i);
    for (int c = 0; c < 2; c++)
      if (children[c] >= x->n && x->nodes[children[c]].wanted) x->waiting[count++] = children[c];
  }
  return x->is_full ? UINT64_MAX : x->memory.end;
}

/* Finds how little can be computed again so that all of it takes no more than the limit. */
static mmc_status find_kept(builder *x, uint64_t limit, mmci_error *error) {
  uint64_t fewest = x->out->bytes, bytes = go_with(x, 0);
  double too_low = 0, least = 0, dearest = 0;
  for (int32_t i = x->n; i < 2 * x->n - 2; i++) {
    if (x->nodes[i].bytes == 0 || x->price[i] <= 0) continue;
    const double price = multiplications_of(x, i) / (double)x->nodes[i].bytes;
    dearest += price;
    if (least == 0 || price < least) least = price;
  }
  for (double next = least; bytes > limit; next *= 2) {
    if (bytes < fewest) fewest = bytes;
    if (bytes == UINT64_MAX || dearest == 0 || too_low > 2 * dearest)
      return mmci_fail_argument(error, MMC_E_MEMORY_LIMIT, "memory limit",
                                "expected at least %llu bytes for these gradients, got %llu",
                                (unsigned long long)fewest, (unsigned long long)limit);
    too_low = least = next;
    bytes = go_with(x, next);
  }
  if (too_low == 0) return MMC_OK;
  double enough = least;
  for (too_low /= 2; enough > 1.05 * too_low;) {
    const double middle = (too_low + enough) / 2;
    if (go_with(x, middle) <= limit)
      enough = middle;
    else
      too_low = middle;
  }
  go_with(x, enough);
  return MMC_OK;
}

static mmc_status build_within(builder *x, uint64_t limit, mmci_error *error) {
  const size_t n = (size_t)x->n, nodes = 2 * n;
  const int32_t room = x->n < INT32_MAX / MOST_STEPS ? x->n * MOST_STEPS : INT32_MAX;
  mmci_gradient_step *steps = mmci_alloc_array((size_t)room, sizeof *steps);
  x->held = mmci_alloc_zeroed(nodes, sizeof *x->held);
  x->kept = mmci_alloc_zeroed(nodes, sizeof *x->kept);
  x->price = mmci_alloc_zeroed(nodes, sizeof *x->price);
  x->path = mmci_alloc_array(n, sizeof *x->path);
  x->waiting = mmci_alloc_array(n, sizeof *x->waiting);
  mmc_status status = MMC_OK;
  if (steps == NULL || x->held == NULL || x->kept == NULL || x->price == NULL || x->path == NULL ||
      x->waiting == NULL) {
    free(steps);
    status = mmci_fail_nomem(error, (size_t)room * sizeof *steps);
  } else {
    free(x->out->steps);
    x->out->steps = steps;
    x->room = room;
    status = find_kept(x, limit, error);
    x->out->bytes = x->memory.end;
  }
  free(x->held);
  free(x->kept);
  free(x->price);
  free(x->path);
  free(x->waiting);
  return status;
}

/* ---- all of it ----------------------------------------------------------------------------- */

static mmc_status build(builder *x, const mmci_plan *plan, const bool *wanted, uint64_t limit,
                        mmci_error *error) {
  mmc_status status = mmci_gradient_tree_read(plan, wanted, x->nodes, error);
  if (status != MMC_OK) return status;
  for (int32_t i = 0; i < x->n; i++) x->out->offsets[i] = UINT64_MAX;
  if (x->n == 1) {
    /* The gradient is the cotangent itself, as the factor is stored. */
    if (x->nodes[0].wanted) x->out->offsets[0] = mmci_places_take(&x->memory, x->nodes[0].bytes);
  } else {
    go_forward(x);
    if (x->nodes[2 * x->n - 2].wanted) go_all_back(x);
  }
  x->out->bytes = x->memory.end;
  if (x->out->bytes <= limit) return MMC_OK;
  if (x->n == 1)
    return mmci_fail_argument(error, MMC_E_MEMORY_LIMIT, "memory limit",
                              "expected at least %llu bytes for these gradients, got %llu",
                              (unsigned long long)x->out->bytes, (unsigned long long)limit);
  return build_within(x, limit, error);
}

mmc_status mmci_gradient_steps_make(const mmci_plan *plan, const bool *wanted, uint64_t limit,
                                    mmci_gradient_steps *out, mmci_error *error) {
  const size_t n = (size_t)plan->chain->n;
  *out = (mmci_gradient_steps){.n = (int32_t)n};
  builder x = {.chain = plan->chain, .n = (int32_t)n, .out = out, .room = 3 * (int32_t)n};
  x.nodes = mmci_alloc_zeroed(2 * n, sizeof *x.nodes);
  /* The products sorted, room to sort them, and offsets of left operands. */
  x.sorted = mmci_alloc_array(2 * n + 2, sizeof *x.sorted + sizeof(uint64_t));
  x.memory.holes = mmci_alloc_array(3 * n, sizeof *x.memory.holes);
  out->steps = mmci_alloc_array(3 * n, sizeof *out->steps);
  out->offsets = mmci_alloc_array(n, sizeof *out->offsets);
  mmc_status status = x.nodes != NULL && x.sorted != NULL && x.memory.holes != NULL &&
                              out->steps != NULL && out->offsets != NULL
                          ? build(&x, plan, wanted, limit, error)
                          : mmci_fail_nomem(error, n * 3 * sizeof *out->steps);
  free(x.nodes);
  free(x.sorted);
  free(x.memory.holes);
  if (status != MMC_OK) mmci_gradient_steps_free(out);
  return status;
}

void mmci_gradient_steps_free(mmci_gradient_steps *steps) {
  free(steps->steps);
  free(steps->offsets);
  *steps = (mmci_gradient_steps){0};
}

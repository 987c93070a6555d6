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
  int32_t batch;
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

/* How many products like this one are computed at a time. */
static int32_t most_together(const builder *x, int32_t i) {
  const mmci_gradient_node *v = &x->nodes[i];
  const double multiplications =
      (double)v->rows * (double)v->cols * (double)x->nodes[v->left].cols * (double)x->chain->batch;
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

/* ---- all of it ----------------------------------------------------------------------------- */

static mmc_status build(builder *x, const mmci_plan *plan, const bool *wanted, mmci_error *error) {
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
  return MMC_OK;
}

mmc_status mmci_gradient_steps_make(const mmci_plan *plan, const bool *wanted,
                                    mmci_gradient_steps *out, mmci_error *error) {
  const size_t n = (size_t)plan->chain->n;
  *out = (mmci_gradient_steps){.n = (int32_t)n};
  builder x = {.chain = plan->chain, .n = (int32_t)n, .out = out};
  x.nodes = mmci_alloc_zeroed(2 * n, sizeof *x.nodes);
  /* The products sorted, room to sort them, and offsets of left operands. */
  x.sorted = mmci_alloc_array(2 * n + 2, sizeof *x.sorted + sizeof(uint64_t));
  x.memory.holes = mmci_alloc_array(3 * n, sizeof *x.memory.holes);
  out->steps = mmci_alloc_array(3 * n, sizeof *out->steps);
  out->offsets = mmci_alloc_array(n, sizeof *out->offsets);
  mmc_status status = x.nodes != NULL && x.sorted != NULL && x.memory.holes != NULL &&
                              out->steps != NULL && out->offsets != NULL
                          ? build(&x, plan, wanted, error)
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

/* gradient_tree.c: see gradient_tree.h. */
#include "gradients/gradient_tree.h"

#include <string.h>

#include "base/alloc.h"

/* ---- places in the memory ------------------------------------------------------------------ */

/* Takes the smallest hole that is large enough. */
uint64_t mmci_places_take(mmci_places *x, uint64_t size) {
  int32_t best = -1;
  if (size == 0) return 0;
  for (int32_t h = 0; h < x->count && (best < 0 || x->holes[best].size != size); h++)
    if (x->holes[h].size >= size && (best < 0 || x->holes[h].size < x->holes[best].size)) best = h;
  if (best < 0) {
    /* The last hole grows when it is at the end. */
    const int32_t last = x->count - 1;
    uint64_t offset = x->end;
    if (last >= 0 && x->holes[last].offset + x->holes[last].size == x->end)
      offset = x->holes[x->count = last].offset;
    x->end = mmci_bytes_add(offset, size);
    return offset;
  }
  const uint64_t offset = x->holes[best].offset;
  x->holes[best].offset += size;
  x->holes[best].size -= size;
  if (x->holes[best].size == 0) {
    x->count--;
    memmove(x->holes + best, x->holes + best + 1, (size_t)(x->count - best) * sizeof *x->holes);
  }
  return offset;
}

void mmci_places_give(mmci_places *x, uint64_t offset, uint64_t size) {
  int32_t low = 0, high = x->count;
  if (size == 0) return;
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    if (x->holes[middle].offset < offset)
      low = middle + 1;
    else
      high = middle;
  }
  const bool before = low > 0 && x->holes[low - 1].offset + x->holes[low - 1].size == offset;
  const bool after = low < x->count && offset + size == x->holes[low].offset;
  if (before && after) {
    x->holes[low - 1].size += size + x->holes[low].size;
    x->count--;
    memmove(x->holes + low, x->holes + low + 1, (size_t)(x->count - low) * sizeof *x->holes);
  } else if (before) {
    x->holes[low - 1].size += size;
  } else if (after) {
    x->holes[low] = (mmci_hole){offset, x->holes[low].size + size};
  } else {
    memmove(x->holes + low + 1, x->holes + low, (size_t)(x->count - low) * sizeof *x->holes);
    x->holes[low] = (mmci_hole){offset, size};
    x->count++;
  }
}

/* ---- the tree ------------------------------------------------------------------------------ */

/* Takes the plan's tree, or a wide one of as many multiplications. */
static mmc_status read_tree(const mmci_plan *plan, mmci_gradient_node *nodes, mmci_error *error) {
  const mmc_chain *chain = plan->chain;
  const int32_t n = (int32_t)chain->n;
  const mmci_order_problem problem = {.n = n, .dims = chain->dims};
  mmci_tree wide;
  mmci_u128 all = 0, ours = 0;
  bool found = false;
  mmc_status status = MMC_OK;
  if (strcmp(plan->solver, "given") != 0)
    status = mmci_order_wide(&problem, INT32_MAX, &wide, &found, error);
  if (status == MMC_OK && found) {
    status = mmci_tree_multiplications(&wide, chain->dims, &all, error);
    if (status == MMC_OK)
      status = mmci_tree_multiplications(&plan->tree, chain->dims, &ours, error);
  }
  const bool takes_wide = status == MMC_OK && found && all == ours;
  const mmci_tree *tree = takes_wide ? &wide : &plan->tree;
  for (int32_t s = 0; status == MMC_OK && s < n - 1; s++) {
    nodes[n + s].left = tree->products[s].left;
    nodes[n + s].right = tree->products[s].right;
  }
  if (found) mmci_tree_destroy(&wide);
  return status;
}

static mmc_status size_nodes(const mmc_chain *chain, const bool *wanted, mmci_gradient_node *nodes,
                             mmci_error *error) {
  const int32_t n = (int32_t)chain->n;
  const size_t element = mmc_dtype_size(chain->dtype);
  for (int32_t i = 0; i < 2 * n - 1; i++) {
    mmci_gradient_node *v = &nodes[i];
    if (i < n) {
      *v = (mmci_gradient_node){.rows = chain->dims[i],
                                .cols = chain->dims[i + 1],
                                .left = -1,
                                .wanted = wanted == NULL || wanted[i]};
    } else {
      const mmci_gradient_node *l = &nodes[v->left], *r = &nodes[v->right];
      v->rows = l->rows;
      v->cols = r->cols;
      v->height = 1 + (l->height > r->height ? l->height : r->height);
      v->wanted = l->wanted || r->wanted;
    }
    int64_t lines;
    if (__builtin_mul_overflow(v->rows, chain->batch, &lines)) lines = INT64_MAX;
    v->bytes = mmci_result_bytes(lines, v->cols, element);
    if (v->bytes > INT64_MAX / (2 * (uint64_t)n))
      return mmci_fail(error, MMC_E_OVERFLOW, "the gradients exceed the address space");
  }
  for (int32_t i = 2 * n - 2; i >= n; i--)
    nodes[nodes[i].left].depth = nodes[nodes[i].right].depth = nodes[i].depth + 1;
  return MMC_OK;
}

mmc_status mmci_gradient_tree_read(const mmci_plan *plan, const bool *wanted,
                                   mmci_gradient_node *nodes, mmci_error *error) {
  if (!mmci_plan_is_tree(plan))
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "plan",
                              "expected each factor once, got one that computes once what repeats");
  mmc_status status = read_tree(plan, nodes, error);
  return status == MMC_OK ? size_nodes(plan->chain, wanted, nodes, error) : status;
}

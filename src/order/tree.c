/* tree.c: builds and prints parenthesizations, without recursion, because a tree may be n deep. */
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "chain/chain.h"
#include "order/order.h"

mmc_status mmci_tree_create(int32_t n, mmci_tree *out, mmci_error *error) {
  mmci_product *products = mmci_alloc_array((size_t)(n - 1), sizeof *products);
  if (products == NULL) return mmci_fail_nomem(error, (uint64_t)(n - 1) * sizeof *products);
  *out = (mmci_tree){.n = n, .products = products};
  return MMC_OK;
}

void mmci_tree_destroy(mmci_tree *tree) {
  free(tree->products);
  *tree = (mmci_tree){0};
}

bool mmci_tree_equal(const mmci_tree *a, const mmci_tree *b) {
  return a->n == b->n && a->n > 1 &&
         memcmp(a->products, b->products, (size_t)(a->n - 1) * sizeof *a->products) == 0;
}

/* Stacks of this depth need no allocation, so that planning a short chain stays short. */
enum { SHALLOW = 64 };

mmc_status mmci_tree_from_splits(mmci_tree *tree, mmci_split_fn split, void *user,
                                 mmci_error *error) {
  typedef struct interval {
    int32_t i, j, index;
  } interval;
  int32_t n = tree->n;
  if (n < 2) return MMC_OK;

  interval shallow[SHALLOW], *stack = shallow;
  if (n > SHALLOW) {
    stack = mmci_alloc_array((size_t)n, sizeof *stack);
    if (stack == NULL) return mmci_fail_nomem(error, (uint64_t)n * sizeof *stack);
  }

  /* Root, right, left is postorder backwards, so the products are filled from the last to the
   * first. A sub-chain of length c takes c - 1 of them, which gives the index of the left child. */
  size_t top = 0;
  stack[top++] = (interval){0, n, n - 2};
  while (top != 0) {
    interval x = stack[--top];
    int32_t k = split(user, x.i, x.j);
    int32_t left_index = x.index - (x.j - k), right_index = x.index - 1;
    tree->products[x.index] = (mmci_product){
        .left = k - x.i == 1 ? x.i : n + left_index,
        .right = x.j - k == 1 ? k : n + right_index,
    };
    if (k - x.i > 1) stack[top++] = (interval){x.i, k, left_index};
    if (x.j - k > 1) stack[top++] = (interval){k, x.j, right_index};
  }
  if (stack != shallow) free(stack);
  return MMC_OK;
}

void mmci_tree_ranges(const mmci_tree *tree, mmci_range *ranges) {
  int32_t n = tree->n;
  for (int32_t t = 0; t < n - 1; t++) {
    mmci_product p = tree->products[t];
    ranges[t].first = p.left < n ? p.left : ranges[p.left - n].first;
    ranges[t].split = p.left < n ? p.left + 1 : ranges[p.left - n].last;
    ranges[t].last = p.right < n ? p.right + 1 : ranges[p.right - n].last;
  }
}

/* Adds up what the products of a tree take, each once where chain is NULL. */
static mmc_status add_up(const mmci_tree *tree, const int64_t *dims, const mmc_chain *chain,
                         mmci_u128 *out, mmci_error *error) {
  int32_t n = tree->n;
  mmci_range shallow[SHALLOW], *ranges = shallow;
  if (n > SHALLOW) {
    ranges = mmci_alloc_array((size_t)(n - 1), sizeof *ranges);
    if (ranges == NULL) return mmci_fail_nomem(error, (uint64_t)(n - 1) * sizeof *ranges);
  }
  mmci_tree_ranges(tree, ranges);
  mmci_u128 total = 0;
  for (int32_t t = 0; t < n - 1; t++) {
    const mmci_range r = ranges[t];
    const mmci_u128 one = mmci_multiplications(dims[r.first], dims[r.split], dims[r.last]);
    const int64_t times = chain != NULL ? mmci_chain_product_batch(chain, r.first, r.last) : 1;
    total = mmci_u128_add(total, mmci_u128_mul(one, (uint64_t)times));
  }
  if (ranges != shallow) free(ranges);
  *out = total;
  return MMC_OK;
}

mmc_status mmci_tree_multiplications(const mmci_tree *tree, const int64_t *dims, mmci_u128 *out,
                                     mmci_error *error) {
  return add_up(tree, dims, NULL, out, error);
}

mmc_status mmci_tree_multiplications_of_batch(const mmci_tree *tree, const mmc_chain *chain,
                                              mmci_u128 *out, mmci_error *error) {
  return add_up(tree, chain->dims, chain, out, error);
}

/* ---- printing ------------------------------------------------------------------------------ */

static void put_little_endian(mmci_text *text, uint64_t value, int size) {
  unsigned char bytes[8];
  for (int i = 0; i < size; i++) bytes[i] = (unsigned char)(value >> (8 * i));
  mmci_text_bytes(text, bytes, (size_t)size);
}

static void write_binary(const mmci_tree *tree, mmci_text *text) {
  mmci_text_bytes(text, "MMCORDER", 8);
  put_little_endian(text, 1, 4);
  put_little_endian(text, 0, 4);
  put_little_endian(text, (uint64_t)tree->n, 8);
  for (int32_t t = 0; t < tree->n - 1; t++) {
    put_little_endian(text, (uint64_t)tree->products[t].left, 4);
    put_little_endian(text, (uint64_t)tree->products[t].right, 4);
  }
}

/* Writes either nested form; they differ only in their punctuation. */
static mmc_status write_nested(const mmci_tree *tree, bool json, const int32_t *factors,
                               mmci_text *text, mmci_error *error) {
  const int32_t between = -1, close = -2;
  int32_t n = tree->n;
  size_t depth = 4 * (size_t)n;
  int32_t *stack = mmci_alloc_array(depth, sizeof *stack);
  if (stack == NULL) return mmci_fail_nomem(error, depth * sizeof *stack);
  size_t top = 0;
  stack[top++] = n > 1 ? n + n - 2 : 0;
  while (top != 0) {
    int32_t x = stack[--top];
    if (x == between) {
      mmci_text_printf(text, json ? ", " : " ");
    } else if (x == close) {
      mmci_text_printf(text, json ? "]" : ")");
    } else if (x < n) {
      mmci_text_printf(text, json ? "%d" : "A%d", (factors != NULL ? factors[x] : x) + 1);
    } else {
      mmci_text_printf(text, json ? "[" : "(");
      stack[top++] = close;
      stack[top++] = tree->products[x - n].right;
      stack[top++] = between;
      stack[top++] = tree->products[x - n].left;
    }
  }
  free(stack);
  return MMC_OK;
}

mmc_status mmci_tree_write_named(const mmci_tree *tree, const int32_t *factors, mmci_text *text,
                                 mmci_error *error) {
  return write_nested(tree, false, factors, text, error);
}

mmc_status mmci_tree_write(const mmci_tree *tree, mmc_order_format format, mmc_write_fn write,
                           void *user, mmci_error *error) {
  mmci_text text;
  mmci_text_start(&text, write, user);
  mmc_status status = MMC_OK;
  if (format == MMC_ORDER_BINARY)
    write_binary(tree, &text);
  else
    status = write_nested(tree, format == MMC_ORDER_JSON, NULL, &text, error);
  return status != MMC_OK ? status : mmci_text_finish(&text, error);
}

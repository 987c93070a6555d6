#include "order/workspace.h"

#include "base/alloc.h"

static uint64_t max(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

mmci_need mmci_product_need(uint64_t left, uint64_t left_result, uint64_t right,
                            uint64_t right_result, uint64_t result) {
  uint64_t all = mmci_bytes_add(mmci_bytes_add(left_result, right_result), result);
  uint64_t left_first = max(left, mmci_bytes_add(left_result, right));
  uint64_t right_first = max(right, mmci_bytes_add(right_result, left));
  if (right_first < left_first)
    return (mmci_need){.bytes = max(right_first, all), .right_first = true};
  return (mmci_need){.bytes = max(left_first, all)};
}

void mmci_tree_needs(const mmci_tree *tree, const mmci_range *ranges, const int64_t *dims,
                     size_t element_size, mmci_need *needs) {
  int32_t n = tree->n;
  for (int32_t t = 0; t < n - 1; t++) {
    mmci_product p = tree->products[t];
    mmci_range r = ranges[t];
    bool root = t == n - 2;
    needs[t] = mmci_product_need(
        p.left < n ? 0 : needs[p.left - n].bytes,
        p.left < n ? 0 : mmci_result_bytes(dims[r.first], dims[r.split], element_size),
        p.right < n ? 0 : needs[p.right - n].bytes,
        p.right < n ? 0 : mmci_result_bytes(dims[r.split], dims[r.last], element_size),
        root ? 0 : mmci_result_bytes(dims[r.first], dims[r.last], element_size));
  }
}

/* ---- orders within a limit ----------------------------------------------------------------- */

/* One option to multiply a sub-chain: no other takes both fewer multiplications and less memory. */
typedef struct option {
  mmci_u128 multiplications;
  uint64_t need_bytes;
  int32_t split;
  int32_t left, right; /* which options of the left and the right part */
} option;

/* The options of a sub-chain, multiplications rising and needs falling. */
typedef struct frontier {
  option *options;
  int32_t count;
} frontier;

typedef struct search {
  const mmci_order_problem *problem;
  size_t element_size;
  uint64_t limit_bytes;
  frontier *frontiers; /* sub-chain (i, j) at index(i, j) */
  option *scratch;
  int32_t scratch_count, scratch_size;
} search;

static size_t index_of(const search *s, int32_t i, int32_t j) {
  size_t n = (size_t)s->problem->n;
  return (size_t)i * (2 * n - (size_t)i + 1) / 2 + (size_t)(j - i - 1);
}

static uint64_t result_bytes(const search *s, int32_t i, int32_t j) {
  if (j - i == 1) return 0; /* a factor */
  return mmci_result_bytes(s->problem->dims[i], s->problem->dims[j], s->element_size);
}

/* Puts x among the scratch options unless one there is as good in both; drops those it beats. */
static mmc_status offer(search *s, const option *x, int32_t i, int32_t j, mmci_error *error) {
  int32_t at = 0, count = s->scratch_count;
  while (at < count && s->scratch[at].multiplications < x->multiplications) at++;
  if (at > 0 && s->scratch[at - 1].need_bytes <= x->need_bytes) return MMC_OK;
  if (at < count && s->scratch[at].multiplications == x->multiplications) {
    const option *same = &s->scratch[at];
    if (same->need_bytes < x->need_bytes) return MMC_OK;
    if (same->need_bytes == x->need_bytes &&
        (same->split == x->split ||
         !mmci_tie_goes_before(s->problem->dims, i, j, x->split, same->split)))
      return MMC_OK;
  }
  int32_t end = at;
  while (end < count && s->scratch[end].need_bytes >= x->need_bytes) end++;
  if (end == at) { /* it beats none: make room */
    if (count == s->scratch_size) {
      size_t size = 2 * (size_t)s->scratch_size;
      option *larger = realloc(s->scratch, size * sizeof *larger);
      if (larger == NULL) return mmci_fail_nomem(error, size * sizeof *larger);
      s->scratch = larger;
      s->scratch_size = (int32_t)size;
    }
    for (int32_t t = count; t > at; t--) s->scratch[t] = s->scratch[t - 1];
    s->scratch_count++;
  } else {
    for (int32_t t = end; t < count; t++) s->scratch[t - (end - at - 1)] = s->scratch[t];
    s->scratch_count -= end - at - 1;
  }
  s->scratch[at] = *x;
  return MMC_OK;
}

/* Returns multiplications, or the price in units so small that rounding it to whole ones does not
 * matter. */
static mmci_u128 cost_of(const mmci_order_problem *problem, int32_t i, int32_t k, int32_t j) {
  static const double units = 0x1p60;
  const int64_t *dims = problem->dims;
  if (problem->price == NULL) return mmci_multiplications(dims[i], dims[k], dims[j]);
  double price = problem->price(problem->price_user, i, k, j) * units;
  return price < 0x1p120 ? (mmci_u128)price : (mmci_u128)1 << 120;
}

static mmc_status solve_sub_chain(search *s, int32_t i, int32_t j, mmci_error *error) {
  bool root = j - i == s->problem->n;
  uint64_t result = root ? 0 : result_bytes(s, i, j);
  s->scratch_count = 0;
  for (int32_t k = i + 1; k < j; k++) {
    const frontier *left = &s->frontiers[index_of(s, i, k)];
    const frontier *right = &s->frontiers[index_of(s, k, j)];
    uint64_t left_result = result_bytes(s, i, k), right_result = result_bytes(s, k, j);
    mmci_u128 product = cost_of(s->problem, i, k, j);
    for (int32_t a = 0; a < left->count; a++)
      for (int32_t b = 0; b < right->count; b++) {
        mmci_need need = mmci_product_need(left->options[a].need_bytes, left_result,
                                           right->options[b].need_bytes, right_result, result);
        if (need.bytes > s->limit_bytes) continue;
        option x = {
            .multiplications = mmci_u128_add(
                mmci_u128_add(left->options[a].multiplications, right->options[b].multiplications),
                product),
            .need_bytes = need.bytes,
            .split = k,
            .left = a,
            .right = b,
        };
        mmc_status status = offer(s, &x, i, j, error);
        if (status != MMC_OK) return status;
      }
  }
  frontier *f = &s->frontiers[index_of(s, i, j)];
  size_t count = (size_t)s->scratch_count;
  f->options = mmci_alloc_array(count, sizeof *f->options);
  if (f->options == NULL) return mmci_fail_nomem(error, count * sizeof *f->options);
  for (size_t t = 0; t < count; t++) f->options[t] = s->scratch[t];
  f->count = s->scratch_count;
  return MMC_OK;
}

/* Finds the least bytes that any order of the chain needs, by max and min only, so one number for
 * each sub-chain is enough. */
static mmc_status find_leanest(const search *s, uint64_t *leanest_bytes, mmci_error *error) {
  int32_t n = s->problem->n;
  size_t count = (size_t)n * ((size_t)n + 1) / 2;
  uint64_t *least = mmci_alloc_zeroed(count, sizeof *least);
  if (least == NULL) return mmci_fail_nomem(error, count * sizeof *least);
  for (int32_t length = 2; length <= n; length++)
    for (int32_t i = 0; i + length <= n; i++) {
      int32_t j = i + length;
      uint64_t result = length == n ? 0 : result_bytes(s, i, j), best = UINT64_MAX;
      for (int32_t k = i + 1; k < j; k++) {
        mmci_need need = mmci_product_need(least[index_of(s, i, k)], result_bytes(s, i, k),
                                           least[index_of(s, k, j)], result_bytes(s, k, j), result);
        if (need.bytes < best) best = need.bytes;
      }
      least[index_of(s, i, j)] = best;
    }
  *leanest_bytes = least[index_of(s, 0, n)];
  free(least);
  return MMC_OK;
}

/* While the tree is read off: which option is chosen for every sub-chain of the answer. */
typedef struct reading {
  const search *search;
  int32_t *chosen; /* at index_of(); set before the sub-chain is visited */
} reading;

static int32_t read_split(void *user, int32_t i, int32_t j) {
  reading *r = user;
  const search *s = r->search;
  const option *x = &s->frontiers[index_of(s, i, j)].options[r->chosen[index_of(s, i, j)]];
  r->chosen[index_of(s, i, x->split)] = x->left;
  r->chosen[index_of(s, x->split, j)] = x->right;
  return x->split;
}

static mmc_status read_tree(const search *s, mmci_order_answer *out, mmci_error *error) {
  int32_t n = s->problem->n;
  size_t count = (size_t)n * ((size_t)n + 1) / 2;
  reading r = {.search = s, .chosen = mmci_alloc_zeroed(count, sizeof(int32_t))};
  if (r.chosen == NULL) return mmci_fail_nomem(error, count * sizeof(int32_t));
  mmci_tree tree;
  mmc_status status = mmci_tree_create(n, &tree, error);
  if (status == MMC_OK) {
    status = mmci_tree_from_splits(&tree, read_split, &r, error);
    if (status != MMC_OK) mmci_tree_destroy(&tree);
  }
  free(r.chosen);
  if (status != MMC_OK) return status;
  *out = (mmci_order_answer){
      .tree = tree,
      .multiplications = s->frontiers[index_of(s, 0, n)].options[0].multiplications,
      .kernel = "",
  };
  return MMC_OK;
}

mmc_status mmci_order_within(const mmci_order_problem *problem, size_t element_size,
                             uint64_t limit_bytes, uint64_t *leanest_bytes, mmci_order_answer *out,
                             mmci_error *error) {
  int32_t n = problem->n;
  size_t count = (size_t)n * ((size_t)n + 1) / 2;
  search s = {
      .problem = problem,
      .element_size = element_size,
      .limit_bytes = limit_bytes,
      .frontiers = mmci_alloc_zeroed(count, sizeof(frontier)),
      .scratch_size = 64,
  };
  option factor = {.multiplications = 0};
  mmc_status status = MMC_OK;
  s.scratch = mmci_alloc_array((size_t)s.scratch_size, sizeof *s.scratch);
  if (s.frontiers == NULL || s.scratch == NULL)
    status = mmci_fail_nomem(error, count * sizeof(frontier));
  for (int32_t i = 0; i < n && status == MMC_OK; i++)
    s.frontiers[index_of(&s, i, i + 1)] = (frontier){.options = &factor, .count = 1};
  /* The search takes many times as long, and would be for nothing. */
  uint64_t leanest = 0;
  if (status == MMC_OK && n > 1) status = find_leanest(&s, &leanest, error);
  if (status == MMC_OK && leanest > limit_bytes) {
    *leanest_bytes = leanest;
    status = MMC_E_MEMORY_LIMIT;
  }
  for (int32_t length = 2; length <= n && status == MMC_OK; length++)
    for (int32_t i = 0; i + length <= n && status == MMC_OK; i++)
      status = solve_sub_chain(&s, i, i + length, error);
  if (status == MMC_OK) status = read_tree(&s, out, error);
  for (int32_t length = 2; s.frontiers != NULL && length <= n; length++)
    for (int32_t i = 0; i + length <= n; i++)
      free(s.frontiers[index_of(&s, i, i + length)].options);
  free(s.frontiers);
  free(s.scratch);
  return status;
}

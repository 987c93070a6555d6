#include "order/workspace.h"

#include <math.h>

#include "base/alloc.h"

static uint64_t max(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

/* Returns the need of a product whose children need left and right bytes and leave results of
 * left_result and right_result bytes (0 for factors), and whose own result takes result bytes. It
 * saturates. */
static mmci_need product_need(uint64_t left, uint64_t left_result, uint64_t right,
                              uint64_t right_result, uint64_t result) {
  uint64_t all = mmci_bytes_add(mmci_bytes_add(left_result, right_result), result);
  uint64_t left_first = max(left, mmci_bytes_add(left_result, right));
  uint64_t right_first = max(right, mmci_bytes_add(right_result, left));
  if (right_first < left_first)
    return (mmci_need){.bytes = max(right_first, all), .right_first = true};
  return (mmci_need){.bytes = max(left_first, all)};
}

void mmci_tree_needs(const mmci_tree *tree, const uint64_t *result_bytes, mmci_need *needs) {
  int32_t n = tree->n;
  for (int32_t t = 0; t < n - 1; t++) {
    mmci_product p = tree->products[t];
    bool root = t == n - 2;
    needs[t] = product_need(
        p.left < n ? 0 : needs[p.left - n].bytes, p.left < n ? 0 : result_bytes[p.left - n],
        p.right < n ? 0 : needs[p.right - n].bytes, p.right < n ? 0 : result_bytes[p.right - n],
        root ? 0 : result_bytes[t]);
  }
}

/* ---- orders within a limit ----------------------------------------------------------------- */

enum { FEWEST_OPTIONS = 2 }; /* The cheapest and the leanest. */

/* One option to multiply a sub-chain: no other takes both fewer multiplications and less memory. */
typedef struct option {
  mmci_u128 multiplications;
  uint64_t need_bytes;
  int32_t split;
  int32_t left, right; /* the options taken for the left and the right part */
} option;

/* The options of a sub-chain, multiplications rising and needs falling. */
typedef struct frontier {
  option *options;
  int32_t count;
} frontier;

/* What no option of a sub-chain is below. */
typedef struct bound {
  mmci_u128 multiplications;
  uint64_t need_bytes, result_bytes; /* a factor's result takes no memory */
} bound;

typedef struct search {
  const mmci_order_problem *problem;
  size_t element_size;
  uint64_t limit_bytes;
  int32_t most_options; /* options that are kept for a sub-chain at most */
  frontier *frontiers;  /* sub-chain (i, j) at index_of(i, j) */
  bound *bounds;        /* sub-chain (i, j) at (i, j) and at (j, i) of a square of n+1 */
  option *scratch;
  int32_t scratch_count, scratch_size;
  int64_t splits; /* seen by both passes */
  int64_t work;   /* splits and pairs of options since the progress callback was called */
} search;

static size_t index_of(const search *s, int32_t i, int32_t j) {
  size_t n = (size_t)s->problem->n;
  return (size_t)i * (2 * n - (size_t)i + 1) / 2 + (size_t)(j - i - 1);
}

static bound *row_of_bounds(const search *s, int32_t i) {
  return &s->bounds[(size_t)i * ((size_t)s->problem->n + 1)];
}

static void set_bound(search *s, int32_t i, int32_t j, bound x) {
  row_of_bounds(s, i)[j] = row_of_bounds(s, j)[i] = x;
}

static bool is_whole(const search *s, int32_t i, int32_t j) {
  return j - i == s->problem->n;
}

/* Asks the caller whether to go on, every few milliseconds. Both passes see every split once. */
static mmc_status go_on(search *s, int32_t splits, mmci_error *error) {
  const int64_t ask_every = 1 << 20;
  s->splits += splits;
  s->work += splits;
  if (s->work < ask_every) return MMC_OK;
  s->work = 0;
  double n = s->problem->n, all = n * (n * n - 1) / 3;
  return mmci_ask_progress(s->problem->progress, s->problem->progress_user, (double)s->splits / all,
                           error);
}

/* Says whether nothing that takes at least so many multiplications and so much memory would be kept
 * of a sub-chain whose leanest order needs leanest_bytes. Where only two options are kept, what is
 * neither the cheapest so far nor one of the leanest need not be looked at. */
static bool is_useless(const search *s, mmci_u128 multiplications, uint64_t need_bytes,
                       uint64_t leanest_bytes) {
  const option *options = s->scratch;
  const int32_t count = s->scratch_count;
  if (count == 0) return false;
  if (s->most_options == FEWEST_OPTIONS && need_bytes > leanest_bytes)
    return options[0].multiplications <= multiplications;
  int32_t at = 0;
  while (at < count && options[at].multiplications < multiplications) at++;
  return at > 0 && options[at - 1].need_bytes <= need_bytes;
}

/* Puts x among the scratch options unless one there is as good in both; drops those it beats. */
static mmc_status offer_option(search *s, const option *x, int32_t i, int32_t j,
                               mmci_error *error) {
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
  /* No option is beaten, so the table needs room for one more. */
  if (end == at) {
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

/* Offers the product of option a of (i, k) and option b of (k, j), unless it is beyond the limit.
 */
static mmc_status offer_product(search *s, int32_t i, int32_t k, int32_t j, int32_t a, int32_t b,
                                mmci_u128 product, mmci_error *error) {
  const option *left = &s->frontiers[index_of(s, i, k)].options[a];
  const option *right = &s->frontiers[index_of(s, k, j)].options[b];
  const bound *row = row_of_bounds(s, i);
  uint64_t result = is_whole(s, i, j) ? 0 : row[j].result_bytes;
  mmci_need need = product_need(left->need_bytes, row[k].result_bytes, right->need_bytes,
                                row_of_bounds(s, j)[k].result_bytes, result);
  s->work++;
  if (need.bytes > s->limit_bytes) return MMC_OK;
  option x = {
      .multiplications =
          mmci_u128_add(mmci_u128_add(left->multiplications, right->multiplications), product),
      .need_bytes = need.bytes,
      .split = k,
      .left = a,
      .right = b,
  };
  return offer_option(s, &x, i, j, error);
}

/* Offers the products of every option of (i, k) and every option of (k, j); in long chains, begins
 * with the two cheapest and goes on from the one that needs more to its next leaner one. */
static mmc_status offer_products(search *s, int32_t i, int32_t k, int32_t j, mmci_u128 product,
                                 mmci_error *error) {
  const frontier *left = &s->frontiers[index_of(s, i, k)];
  const frontier *right = &s->frontiers[index_of(s, k, j)];
  mmc_status status = MMC_OK;
  if (s->problem->n <= MMCI_WITHIN_ALL_PAIRS) {
    for (int32_t a = 0; a < left->count; a++)
      for (int32_t b = 0; b < right->count && status == MMC_OK; b++)
        status = offer_product(s, i, k, j, a, b, product, error);
    return status;
  }
  for (int32_t a = 0, b = 0; a < left->count && b < right->count && status == MMC_OK;) {
    status = offer_product(s, i, k, j, a, b, product, error);
    bool left_needs_more = left->options[a].need_bytes >= right->options[b].need_bytes;
    *(left_needs_more ? &a : &b) += 1;
  }
  return status;
}

/* Keeps the cheapest of the scratch options, the leanest, and so many evenly between them. */
static void thin_out(search *s) {
  const int64_t most = s->most_options, last = s->scratch_count - 1;
  if (last < most) return;
  for (int64_t t = 1; t < most; t++) s->scratch[t] = s->scratch[t * last / (most - 1)];
  s->scratch_count = (int32_t)most;
}

static mmc_status keep_options(search *s, int32_t i, int32_t j, mmci_error *error) {
  thin_out(s);
  frontier *f = &s->frontiers[index_of(s, i, j)];
  size_t count = (size_t)s->scratch_count;
  f->options = mmci_alloc_array(count, sizeof *f->options);
  if (f->options == NULL) return mmci_fail_nomem(error, count * sizeof *f->options);
  for (size_t t = 0; t < count; t++) f->options[t] = s->scratch[t];
  f->count = s->scratch_count;
  bound x = row_of_bounds(s, i)[j];
  if (count > 0) x.multiplications = s->scratch[0].multiplications;
  set_bound(s, i, j, x);
  return MMC_OK;
}

static mmc_status solve_sub_chain(search *s, int32_t i, int32_t j, mmci_error *error) {
  const bound *left = row_of_bounds(s, i), *right = row_of_bounds(s, j);
  uint64_t result = is_whole(s, i, j) ? 0 : left[j].result_bytes;
  s->scratch_count = 0;
  mmc_status status = go_on(s, j - i - 1, error);
  bool possible = left[j].need_bytes <= s->limit_bytes;
  for (int32_t k = i + 1; possible && k < j && status == MMC_OK; k++) {
    if (left[k].need_bytes > s->limit_bytes || right[k].need_bytes > s->limit_bytes) continue;
    mmci_need need = product_need(left[k].need_bytes, left[k].result_bytes, right[k].need_bytes,
                                  right[k].result_bytes, result);
    if (need.bytes > s->limit_bytes) continue;
    mmci_u128 product = cost_of(s->problem, i, k, j);
    mmci_u128 least =
        mmci_u128_add(mmci_u128_add(left[k].multiplications, right[k].multiplications), product);
    if (!is_useless(s, least, need.bytes, left[j].need_bytes))
      status = offer_products(s, i, k, j, product, error);
    if (s->scratch_count / 4 >= s->most_options) thin_out(s);
  }
  return status == MMC_OK ? keep_options(s, i, j, error) : status;
}

/* Finds the least bytes that any order of every sub-chain needs, by max and min only, so one number
 * for each is enough. */
static mmc_status find_leanest(search *s, mmci_error *error) {
  const int64_t *dims = s->problem->dims;
  int32_t n = s->problem->n;
  for (int32_t i = 0; i < n; i++) set_bound(s, i, i + 1, (bound){0});
  for (int32_t length = 2; length <= n; length++)
    for (int32_t i = 0; i + length <= n; i++) {
      int32_t j = i + length;
      const bound *left = row_of_bounds(s, i), *right = row_of_bounds(s, j);
      bound x = {.need_bytes = UINT64_MAX,
                 .result_bytes = mmci_result_bytes(dims[i], dims[j], s->element_size)};
      uint64_t result = is_whole(s, i, j) ? 0 : x.result_bytes;
      for (int32_t k = i + 1; k < j; k++) {
        if (left[k].need_bytes >= x.need_bytes || right[k].need_bytes >= x.need_bytes) continue;
        mmci_need need = product_need(left[k].need_bytes, left[k].result_bytes, right[k].need_bytes,
                                      right[k].result_bytes, result);
        if (need.bytes < x.need_bytes) x.need_bytes = need.bytes;
      }
      set_bound(s, i, j, x);
      mmc_status status = go_on(s, length - 1, error);
      if (status != MMC_OK) return status;
    }
  return MMC_OK;
}

/* While the tree is read off: which option is chosen for every sub-chain of the answer. */
typedef struct reading {
  const search *search;
  int32_t *chosen; /* the option of a sub-chain, at index_of(), set before it is visited */
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

/* Returns how many options of a sub-chain are kept, so that n^3/6 splits have about 2^24 of them.
 */
static int32_t most_options(int32_t n) {
  const double options = 0x1p24;
  double splits = (double)n * n * n / 6;
  return n <= MMCI_WITHIN_ALL_PAIRS ? INT32_MAX : (int32_t)fmax(FEWEST_OPTIONS, options / splits);
}

/* Fills the table of frontiers, after the leanest have been found: the search takes many times as
 * long, and would be for nothing. */
static mmc_status fill_frontiers(search *s, uint64_t *leanest_bytes, mmci_error *error) {
  int32_t n = s->problem->n;
  mmc_status status = find_leanest(s, error);
  if (status != MMC_OK) return status;
  *leanest_bytes = row_of_bounds(s, 0)[n].need_bytes;
  if (*leanest_bytes > s->limit_bytes) return MMC_E_MEMORY_LIMIT;
  for (int32_t length = 2; length <= n; length++)
    for (int32_t i = 0; i + length <= n; i++) {
      status = solve_sub_chain(s, i, i + length, error);
      if (status != MMC_OK) return status;
    }
  return MMC_OK;
}

mmc_status mmci_order_within(const mmci_order_problem *problem, size_t element_size,
                             uint64_t limit_bytes, uint64_t *leanest_bytes, mmci_order_answer *out,
                             mmci_error *error) {
  int32_t n = problem->n;
  size_t count = (size_t)n * ((size_t)n + 1) / 2, square = ((size_t)n + 1) * ((size_t)n + 1);
  search s = {
      .problem = problem,
      .element_size = element_size,
      .limit_bytes = limit_bytes,
      .most_options = most_options(n),
      .frontiers = mmci_alloc_zeroed(count, sizeof(frontier)),
      .bounds = mmci_alloc_zeroed(square, sizeof(bound)),
      .scratch_size = 64,
  };
  option factor = {.multiplications = 0};
  mmc_status status = MMC_OK;
  s.scratch = mmci_alloc_array((size_t)s.scratch_size, sizeof *s.scratch);
  if (s.frontiers == NULL || s.bounds == NULL || s.scratch == NULL)
    status = mmci_fail_nomem(error, count * sizeof(frontier) + square * sizeof(bound));
  for (int32_t i = 0; i < n && status == MMC_OK; i++)
    s.frontiers[index_of(&s, i, i + 1)] = (frontier){.options = &factor, .count = 1};
  if (status == MMC_OK) status = fill_frontiers(&s, leanest_bytes, error);
  if (status == MMC_OK) status = read_tree(&s, out, error);
  for (int32_t length = 2; s.frontiers != NULL && length <= n; length++)
    for (int32_t i = 0; i + length <= n; i++)
      free(s.frontiers[index_of(&s, i, i + length)].options);
  free(s.frontiers);
  free(s.bounds);
  free(s.scratch);
  return status;
}

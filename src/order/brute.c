/* brute.c: prices every order of a short chain, one by one; it is the oracle of the other solvers.
 *
 * An order is a sequence of n shifts (the next factor) and n-1 reduces (multiply the two youngest
 * results), as a bracket sequence is; there are Catalan(n-1) of them, 58,786 for n = 12. No
 * principle of optimality is used: each is priced whole. */
#include <string.h>

#include "order/order.h"

enum { MAX_N = 12 };

static bool applicable(const mmci_order_problem *problem, const char **reason) {
  *reason = "it tries every order, of at most 12 factors";
  return problem->n <= MAX_N;
}

/* splits[i][j] is the split of sub-chain (i, j) where (i, j) is a product of the order; other
 * entries are old and never read. */
typedef int8_t splits[MAX_N + 1][MAX_N + 1];

typedef struct search {
  const mmci_order_problem *problem;
  int32_t start[MAX_N + 2]; /* pending result d spans vertices start[d]..start[d+1] */
  splits current, best;
  bool found;
  mmci_u128 best_multiplications;
  double best_price;
} search;

/* Compares two orders of the same cost: negative when a goes before b, at the first split in which
 * they differ, counted from the root. */
static int compare_ties(const int64_t *dims, splits a, splits b, int32_t i, int32_t j) {
  if (j - i < 2) return 0;
  int32_t k = a[i][j];
  if (k != b[i][j]) return mmci_tie_goes_before(dims, i, j, k, b[i][j]) ? -1 : 1;
  int left = compare_ties(dims, a, b, i, k);
  return left != 0 ? left : compare_ties(dims, a, b, k, j);
}

static bool improves(search *s, mmci_u128 multiplications, double price) {
  if (!s->found) return true;
  if (s->problem->price != NULL && price != s->best_price) return price < s->best_price;
  if (s->problem->price == NULL && multiplications != s->best_multiplications)
    return multiplications < s->best_multiplications;
  return compare_ties(s->problem->dims, s->current, s->best, 0, s->problem->n) < 0;
}

/* Extends the orders in which depth results are pending that cover the first start[depth]
 * factors. */
static void extend(search *s, int32_t depth, mmci_u128 multiplications, double price) {
  const mmci_order_problem *problem = s->problem;
  int32_t shifted = s->start[depth];
  if (shifted == problem->n && depth == 1) {
    if (improves(s, multiplications, price)) {
      s->found = true;
      s->best_multiplications = multiplications;
      s->best_price = price;
      memcpy(s->best, s->current, sizeof s->best);
    }
    return;
  }
  if (shifted < problem->n) {
    s->start[depth + 1] = shifted + 1;
    extend(s, depth + 1, multiplications, price);
    s->start[depth] = shifted; /* a later reduce has overwritten it */
  }
  if (depth >= 2) {
    int32_t i = s->start[depth - 2], k = s->start[depth - 1], j = shifted;
    mmci_u128 more = mmci_multiplications(problem->dims[i], problem->dims[k], problem->dims[j]);
    double price_more = problem->price != NULL ? problem->price(problem->price_user, i, k, j) : 0;
    int8_t before = s->current[i][j];
    s->current[i][j] = (int8_t)k;
    s->start[depth - 1] = j;
    extend(s, depth - 1, mmci_u128_add(multiplications, more), price + price_more);
    s->start[depth - 1] = k;
    s->start[depth] = j;
    s->current[i][j] = before;
  }
}

static int32_t best_split(void *user, int32_t i, int32_t j) {
  search *s = user;
  return s->best[i][j];
}

static mmc_status solve(const mmci_order_problem *problem, bool keep_table, mmci_order_answer *out,
                        mmci_error *error) {
  (void)keep_table;
  mmci_tree tree;
  mmc_status status = mmci_tree_create(problem->n, &tree, error);
  if (status != MMC_OK) return status;

  search s = {.problem = problem};
  extend(&s, 0, 0, 0);
  status = mmci_tree_from_splits(&tree, best_split, &s, error);
  if (status != MMC_OK) {
    mmci_tree_destroy(&tree);
    return status;
  }
  *out = (mmci_order_answer){
      .tree = tree,
      .multiplications = s.best_multiplications,
      .price = s.best_price,
      .kernel = "",
  };
  return MMC_OK;
}

const mmci_solver mmci_solver_brute = {
    .name = "brute",
    .applicable = applicable,
    .solve = solve,
};

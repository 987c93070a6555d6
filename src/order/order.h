/* order.h: a parenthesization as a tree, and the solvers that find one.
 *
 * Solvers see the chain as the polygon of Hu and Shing: vertices 0..n carry the dims, the sub-chain
 * of factors i..j-1 (counted from 0) is the side or diagonal (i, j), and a product of
 * (i, k) by (k, j) is the triangle (i, k, j). */
#ifndef MMCI_ORDER_H
#define MMCI_ORDER_H

#include "base/status.h"
#include "base/wide.h"

/* One product: its left and its right operand. A number below n is a factor, n + t is the result of
 * product t. */
typedef struct mmci_product {
  int32_t left, right;
} mmci_product;

/* A full binary tree whose n leaves are the factors, in order. products holds n-1 entries, in
 * postorder: children before parents, left before right, the root last. */
typedef struct mmci_tree {
  int32_t n;
  mmci_product *products;
} mmci_tree;

mmc_status mmci_tree_create(int32_t n, mmci_tree *out, mmci_error *error);
void mmci_tree_destroy(mmci_tree *tree);
/* Says whether both are the same tree; one of no products is none. */
bool mmci_tree_equal(const mmci_tree *a, const mmci_tree *b);

/* Returns the split k of the sub-chain (i, j), i < k < j, when j - i >= 2. It is called once for
 * every product of the tree, parents before children, right before left. */
typedef int32_t (*mmci_split_fn)(void *user, int32_t i, int32_t j);

/* Fills tree->products from the splits. It takes O(n) time and memory. */
mmc_status mmci_tree_from_splits(mmci_tree *tree, mmci_split_fn split, void *user,
                                 mmci_error *error);

/* ranges[t] = {first, split, last}: product t multiplies (first, split) by (split, last) in vertex
 * numbers. ranges holds n-1 entries. */
typedef struct mmci_range {
  int32_t first, split, last;
} mmci_range;
void mmci_tree_ranges(const mmci_tree *tree, mmci_range *ranges);

/* Counts the multiplications of the tree over these dims; MMCI_U128_MAX when they do not fit. */
mmc_status mmci_tree_multiplications(const mmci_tree *tree, const int64_t *dims, mmci_u128 *out,
                                     mmci_error *error);

/* Counts those of all chains of a batch, what its chains share once. */
mmc_status mmci_tree_multiplications_of_batch(const mmci_tree *tree, const mmc_chain *chain,
                                              mmci_u128 *out, mmci_error *error);

/* Writes the tree as ((A1 (A2 A3)) A4), with numbers from 1. Returns E_NOMEM, E_IO. */
mmc_status mmci_tree_write(const mmci_tree *tree, mmc_order_format format, mmc_write_fn write,
                           void *user, mmci_error *error);

struct mmci_text;
/* Writes it so with factors[i] + 1, where factors is not NULL, in the place of each number i + 1.
 * Returns E_NOMEM. */
mmc_status mmci_tree_write_named(const mmci_tree *tree, const int32_t *factors,
                                 struct mmci_text *text, mmci_error *error);

/* Reads a tree of n factors, n >= 1, as mmci_tree_write() writes it: ((A1 (A2 A3)) A4) or [[1, [2,
 * 3]], 4]. Factors stand in their order, a bracket holds two operands, or one; between them there
 * may be spaces, commas and asterisks, and the outermost bracket may be left out. Returns E_ARG,
 * with what was expected and where; E_NOMEM. */
mmc_status mmci_tree_read(const char *text, int32_t n, mmci_tree *out, mmci_error *error);

/* ---- ties ---------------------------------------------------------------------------------- */

/* Says whether split k goes before split o when the sub-chain (i, j) costs the same with both. All
 * solvers take the split that goes before all others of least cost. Of two vertices the lighter is
 * the one of smaller dim, of equal dims the one further left. Let L be the lightest of i, j and the
 * splits that tie: the split is L itself; the greatest when L is i; the least when L is j. That
 * makes fans from the lightest vertex, and is the order that Hu and Shing's algorithm finds when it
 * drops every diagonal that does not pay. Comparing two at a time gives the same winner. */
static inline bool mmci_tie_goes_before(const int64_t *dims, int32_t i, int32_t j, int32_t k,
                                        int32_t o) {
  int32_t end = dims[j] < dims[i] ? j : i;
  int32_t best = dims[k] < dims[o] || (dims[k] == dims[o] && k < o) ? k : o;
  if (dims[best] < dims[end] || (dims[best] == dims[end] && best < end)) return best == k;
  return end == i ? k > o : k < o;
}

/* ---- solvers ------------------------------------------------------------------------------- */

/* What a solver is asked. dims are checked already: n >= 1, 0 <= dim <= 2^62. */
typedef struct mmci_order_problem {
  int32_t n;
  const int64_t *dims; /* n+1 numbers */
  mmc_price_fn price;  /* NULL means multiplications */
  void *price_user;
  bool is_price_trusted;  /* no price is negative or NAN; those that decide nothing are not asked */
  int threads;            /* how many threads may work; 0 means as many as cores */
  const char *kernel;     /* the kernel of interval_dp; NULL means the best that the machine has */
  const mmci_tree *given; /* the order to be taken, whatever solver is named; NULL means any */
  mmc_progress_fn progress; /* told how far solving is; may be NULL */
  void *progress_user;
} mmci_order_problem;

/* What a search for an order may take: the workspace of the order, the order itself where the
 * caller gives one, and whom to ask whether to go on. */
typedef struct mmci_bounds {
  uint64_t limit_bytes;
  const mmci_tree *given;   /* the order to be taken; NULL means any */
  mmc_progress_fn progress; /* told how far solving is; may be NULL */
  void *progress_user;
} mmci_bounds;

static inline mmci_bounds mmci_within(uint64_t limit_bytes) {
  return (mmci_bounds){
      .limit_bytes = limit_bytes, .given = NULL, .progress = NULL, .progress_user = NULL};
}

/* Asks a progress callback, which may be NULL, whether to go on; done is the share of the search
 * that is over. Returns E_INTERRUPTED. */
static inline mmc_status mmci_ask_progress(mmc_progress_fn progress, void *user, double done,
                                           mmci_error *error) {
  if (progress == NULL || progress(user, done) == 0) return MMC_OK;
  return mmci_fail(error, MMC_E_INTERRUPTED, "stopped by the progress callback");
}

/* The triangular table of least costs, kept when asked for. entry() gives the least multiplications
 * of the sub-chain (i, j), i < j, exactly. */
typedef struct mmci_order_table mmci_order_table;
struct mmci_order_table {
  mmci_u128 (*entry)(const mmci_order_table *table, int32_t i, int32_t j);
  void (*destroy)(mmci_order_table *table);
};

/* What a solver answers. tree is owned by the caller afterwards. */
typedef struct mmci_order_answer {
  mmci_tree tree;
  mmci_u128 multiplications; /* multiplications of the tree, when the problem has no price */
  double price;              /* price of the tree, when the problem has one */
  const char *kernel;        /* static text; "" when there is only one */
  mmci_order_table *table;   /* the table; NULL unless keep_table */
} mmci_order_answer;

/* A solver file defines one of these; solvers.c tables them. */
typedef struct mmci_solver {
  const char *name;
  /* Says whether this solver can answer the problem; when not, reason gets static text. */
  bool (*applicable)(const mmci_order_problem *problem, const char **reason);
  mmc_status (*solve)(const mmci_order_problem *problem, bool keep_table, mmci_order_answer *out,
                      mmci_error *error);
} mmci_solver;

extern const mmci_solver mmci_solver_hu_shing;
extern const mmci_solver mmci_solver_interval_dp;
extern const mmci_solver mmci_solver_brute;
extern const mmci_solver mmci_solver_left_to_right;
extern const mmci_solver mmci_solver_given;

/* Solves with the solver of that name, or for "auto" with the first that is applicable, and says
 * which it was. Returns E_ARG (no such solver, or not applicable, with the reason), and what the
 * solver returns; E_OVERFLOW when the answer's multiplications do not fit 128 bits. */
mmc_status mmci_order_solve(const char *solver, const mmci_order_problem *problem, bool keep_table,
                            const mmci_solver **used, mmci_order_answer *out, mmci_error *error);

/* Makes a tree in which few products wait for one another. Every run of four or more factors whose
 * dims are within a quarter of each other is cut into so many segments, those are multiplied from
 * left to right, and their results four and four (with more segments than factors: a balanced
 * tree); the results of runs and the other factors are multiplied in the order of fewest
 * multiplications. *found says whether there is a run; without one there is no tree. The tree is
 * made for multiplications, and the problem's price is not used. O(n log n) time. Returns E_NOMEM,
 * E_OVERFLOW. */
mmc_status mmci_order_wide(const mmci_order_problem *problem, int32_t segments, mmci_tree *out,
                           bool *found, mmci_error *error);
/* Makes the trees of count numbers of segments, for little more than what one takes. */
mmc_status mmci_order_wide_trees(const mmci_order_problem *problem, const int32_t *segments,
                                 int count, mmci_tree *out, bool *found, mmci_error *error);
/* Returns how many factors are in such runs. */
int32_t mmci_order_in_runs(const mmci_order_problem *problem);
/* Says whether a run, or a part of one that could be one, has dims that are all equal. */
bool mmci_order_has_equal_run(const mmci_order_problem *problem);

/* Makes tree number `number`, counted from 0, of all trees of a chain of at most MMCI_EVERY_MOST
 * factors, n >= 1; of a longer chain there are two, from left to right and from right to left.
 * *found says whether there are so many. Returns E_NOMEM. */
enum { MMCI_EVERY_MOST = 5 };
mmc_status mmci_order_every(int32_t n, int32_t number, mmci_tree *out, bool *found,
                            mmci_error *error);

#endif

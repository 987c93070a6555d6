/* repeats.h: chains in which matrices occur more than once: what comes again is computed once.
 *
 * Powers (A^1000) and repeated sub-chains (A B A B) need not be a tree: a product may be read by
 * several others. Finding the least program is hard (it holds the shortest addition chain), so this
 * is a search: two neighbours that stand side by side most dearly are multiplied first, once, and
 * stand as one factor from then on, as in Re-Pair (Larsson and Moffat 2000); what is left is put in
 * the order of fewest multiplications, and what comes again in that tree is computed once as well.
 * Of all the programs on the way the one of fewest multiplications is taken, so none is dearer than
 * the best tree. A^p takes as many products as squaring does, at most 2 log2 p. */
#ifndef MMCI_REPEATS_H
#define MMCI_REPEATS_H

#include "order/order.h"

/* One product of a program: m x k by k x n. Operands below n are factors, the others are
 * products. */
typedef struct mmci_program_product {
  int32_t left, right;
  int64_t m, k, n;
  int32_t first, last; /* the factors that it covers where it is computed, counted from 0 */
} mmci_program_product;

/* Children come before parents and the last product is the result; every other is read at least
 * once. */
typedef struct mmci_program {
  int32_t n, count;
  mmci_program_product *products;
  mmci_u128 multiplications;
} mmci_program;

/* Finds a program for n >= 2 factors. labels has n entries; two factors are the same matrix, with
 * the same op, when their labels are equal. A label is the number of the first such factor. It
 * takes O(n log n) time a round, of which there are some log2 n where a power is found, and none
 * without repeats. The callback of bounds is asked before every program that is tried, of which
 * each takes some milliseconds for 10^5 factors; their limit does not count. Returns: E_NOMEM,
 * E_INTERRUPTED, and what mmci_order_solve() does with "auto". */
mmc_status mmci_repeats_solve(int32_t n, const int64_t *dims, const int32_t *labels,
                              const mmci_bounds *bounds, mmci_program *out, mmci_error *error);
/* Writes the order in which a program multiplies, with what is computed once written out. Returns
 * E_NOMEM. */
mmc_status mmci_program_tree(const mmci_program *program, mmci_tree *out, mmci_error *error);
void mmci_program_destroy(mmci_program *program);

#endif

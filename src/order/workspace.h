/* workspace.h: the memory that intermediates take, and orders that take less.
 *
 * Every result but the last lies in the workspace from the step that writes it to the step that
 * reads it. Each sub-tree is finished before another begins (a postorder), so a product needs
 *     max(need of the first child, result of the first + need of the second, both results + its
 * own) bytes, and the child that goes first is the one for which that is less. */
#ifndef MMCI_WORKSPACE_H
#define MMCI_WORKSPACE_H

#include "base/alloc.h"
#include "order/order.h"

/* What computing one product needs. */
typedef struct mmci_need {
  uint64_t bytes;   /* bytes at the worst moment, with its own result unless it is the root */
  bool right_first; /* the right child is computed before the left */
} mmci_need;

/* Fills needs[t] for every product of the tree, n-1 of them, whose result takes result_bytes[t];
 * the root's is the caller's and counts 0 bytes. */
void mmci_tree_needs(const mmci_tree *tree, const uint64_t *result_bytes, mmci_need *needs);

/* Up to so many factors, every order is weighed. */
enum { MMCI_WITHIN_ALL_PAIRS = 128 };

/* Finds the order of fewest multiplications, or of least price when the problem has one, among
 * those that need at most limit_bytes. For every sub-chain it keeps the pairs (cost, need) that no
 * other beats in both, which makes it exact among postorders up to MMCI_WITHIN_ALL_PAIRS factors.
 * Of longer chains it keeps at most 2^24 / (n^3/6) pairs a sub-chain and never fewer than two, 48
 * for 128 factors and 2 from 323 on, and pairs them in one walk; the leanest is always among them,
 * so that an order is found whenever there is one. An answer by price has no valid multiplications.
 * The problem's progress callback is asked every few milliseconds. O(n^3) time beyond 128 factors,
 * O(n^2 f) memory for f pairs. Returns E_MEMORY_LIMIT, with *leanest_bytes the least that any order
 * needs; E_NOMEM, E_INTERRUPTED. */
mmc_status mmci_order_within(const mmci_order_problem *problem, size_t element_size,
                             uint64_t limit_bytes, uint64_t *leanest_bytes, mmci_order_answer *out,
                             mmci_error *error);

#endif

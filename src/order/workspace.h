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
  uint64_t bytes;   /* at the worst moment, with its own result unless it is the root */
  bool right_first; /* the right child is computed before the left */
} mmci_need;

/* Returns the need of a product whose children need left and right bytes and leave results of
 * left_result and right_result bytes (0 for factors), and whose own result takes result bytes. It
 * saturates. */
mmci_need mmci_product_need(uint64_t left, uint64_t left_result, uint64_t right,
                            uint64_t right_result, uint64_t result);

/* Fills needs[t] for every product of the tree, n-1 of them; the root's result is the caller's and
 * counts 0 bytes. ranges are those of mmci_tree_ranges(). */
void mmci_tree_needs(const mmci_tree *tree, const mmci_range *ranges, const int64_t *dims,
                     size_t element_size, mmci_need *needs);

/* Finds the order of fewest multiplications, or of least price when the problem has one, among
 * those that need at most limit_bytes. It is exact among postorders: it keeps for every sub-chain
 * all pairs (cost, need) that no other beats in both. An answer by price has no valid
 * multiplications.
 * O(n^3 f^2) time, O(n^2 f) memory for f such pairs, a handful in practice.
 * Returns E_MEMORY_LIMIT, with *leanest_bytes the least that any order needs; E_NOMEM. */
mmc_status mmci_order_within(const mmci_order_problem *problem, size_t element_size,
                             uint64_t limit_bytes, uint64_t *leanest_bytes, mmci_order_answer *out,
                             mmci_error *error);

#endif

/* gradient_tree.h: the tree that gradients go back through, and places in their memory. */
#ifndef MMCI_GRADIENT_TREE_H
#define MMCI_GRADIENT_TREE_H

#include "order/order.h"
#include "plan/plan.h"

/* ---- places in the memory ------------------------------------------------------------------ */

typedef struct mmci_hole {
  uint64_t offset, size;
} mmci_hole;

/* The memory, which grows as it needs to. Holes are sorted, and do not touch. */
typedef struct mmci_places {
  mmci_hole *holes; /* room for as many as there can be results */
  int32_t count;
  uint64_t end;
} mmci_places;

uint64_t mmci_places_take(mmci_places *places, uint64_t size);
void mmci_places_give(mmci_places *places, uint64_t offset, uint64_t size);

/* ---- the tree ------------------------------------------------------------------------------ */

/* A factor, or the product of its children. */
typedef struct mmci_gradient_node {
  int64_t rows, cols;
  int32_t left, right; /* of a product */
  int32_t height, depth;
  bool wanted;     /* it has a factor whose gradient is */
  uint64_t offset; /* of its matrix, or later of its cotangent, in the memory */
  uint64_t bytes;
} mmci_gradient_node;

/* Fills 2 n - 1 nodes that are zero: the factors, then the products, children first, of the plan's
 * tree, or of a wide one of as many multiplications. wanted may be NULL, for all. Returns E_NOMEM,
 * E_OVERFLOW, E_UNSUPPORTED (the plan is no tree). */
mmc_status mmci_gradient_tree_read(const mmci_plan *plan, const bool *wanted,
                                   mmci_gradient_node *nodes, mmci_error *error);

#endif

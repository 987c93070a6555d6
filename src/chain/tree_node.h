/* tree_node.h: one product of a tree of products, of many that a device computes at once. */
#ifndef MMCI_TREE_NODE_H
#define MMCI_TREE_NODE_H

#include "mmchain.h"

/* A matrix, or one for each chain of a batch, stride elements apart. Element (r, c) is at
 * r * ld + c, or at c * ld + r with trans; with conj it is the conjugate of what lies there. */
typedef struct mmci_node_matrix {
  void *data; /* NULL where there is none */
  int64_t ld, stride;
  int32_t trans, conj; /* 0 or 1 */
} mmci_node_matrix;

/* Forwards, c = a b, where a is m x k and b is k x n. Back, da = c b^H and db = a^H c, of which
 * either may have no place. All that a node reads of a chain is read before anything is written, so
 * that da and db may lie where a, b or c do; no node writes what another reads. */
typedef struct mmci_tree_node {
  int64_t m, k, n;
  mmci_node_matrix a, b, c, da, db;
} mmci_tree_node;

/* No side of a node is larger. */
enum { MMCI_NODE_SIDE = 64 };

/* A way up such a tree, of square matrices in rows without gaps: the product so far, which is
 * `first` before the first step, times the step's sibling from the right, or from the left, is
 * written to out. Of a batch, the chains' matrices follow one another. The last product is written
 * to result as well, unless that is NULL. Nothing that is written overlaps anything else. */
typedef struct mmci_climb_step {
  const void *sibling;
  void *out;
  int64_t sibling_is_left; /* 0 or 1 */
} mmci_climb_step;

enum { MMCI_CLIMB_STEPS = 44 };

typedef struct mmci_climb {
  const void *first;
  void *result;
  int64_t side, count; /* at least 1 each */
  mmci_climb_step steps[MMCI_CLIMB_STEPS];
} mmci_climb;

#endif

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

#endif

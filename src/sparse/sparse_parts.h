/* sparse_parts.h: what a sparse chain is made of, for the files of this room. */
#ifndef MMCI_SPARSE_PARTS_H
#define MMCI_SPARSE_PARTS_H

#include "sparse/sparse.h"

/* What must be the same of a factor in every execution. */
typedef struct mmci_sparse_kind {
  int64_t rows, cols; /* after the op */
  mmc_op op;
  bool is_dense;
  mmci_sparse_inverse inverse;
} mmci_sparse_kind;

struct mmci_sparse_chain {
  mmci_opened on;
  mmc_dtype dtype;
  mmci_sparse_request request;
  mmci_sparse_order order;
  int32_t n;
  mmci_sparse_kind kinds[]; /* n */
};

#endif

/* product.h: products of which an operand is sparse, by rows of the left operand (F. Gustavson,
 * "Two fast algorithms for sparse matrices", ACM TOMS 4(3), 1978), on several threads. */
#ifndef MMCI_SPARSE_PRODUCT_H
#define MMCI_SPARSE_PRODUCT_H

#include "sparse/csr.h"

/* Makes the sparse product of two sparse matrices, with the columns of every row in order. Returns
 * E_NOMEM. */
mmc_status mmci_csr_multiply(const mmci_csr *a, const mmci_csr *b, mmci_csr *out,
                             mmci_error *error);

/* These write all elements of a row-major product c, whose rows are b's columns long and ldc apart;
 * dense operands are row-major. */
void mmci_csr_multiply_to_dense(const mmci_csr *a, const mmci_csr *b, void *c, int64_t ldc);
void mmci_csr_multiply_dense(const mmci_csr *a, const void *b, int64_t n, int64_t ldb, void *c,
                             int64_t ldc);
void mmci_dense_multiply_csr(int64_t m, const void *a, int64_t lda, const mmci_csr *b, void *c,
                             int64_t ldc);

#endif

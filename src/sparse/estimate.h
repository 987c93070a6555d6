/* estimate.h: how many elements of a product of sparse factors are not zero, row by row.
 *
 * The paths from row r through the factors are counted exactly, in one passage over the nonzeros of
 * the first factor of every sub-chain, and so are those that end in column c. Paths are taken to
 * end in columns as likely as all paths do, so that row r of p paths has
 *     sum over columns c of 1 - exp(-p q_c / T)
 * nonzeros, where q_c of all T paths end in c. That knows of columns where many paths meet, which
 * estimates of rows alone lack (of the density of each row: C. Lin, W. Luo, Y. Fang, C. Ma, X. Liu,
 * Y. Ma, "On Efficient Large Sparse Matrix Chain Multiplication", SIGMOD 2024). The multiplications
 * of a product are the sum over its inner index of nonzeros of the left operand's column times
 * those of the right operand's row; for two factors that is exact. */
#ifndef MMCI_ESTIMATE_SPARSE_H
#define MMCI_ESTIMATE_SPARSE_H

#include "sparse/csr.h"

/* A factor after its op: a sparse matrix, or a dense one of which only the sides count. */
typedef struct mmci_sparse_shape {
  int64_t rows, cols;
  const mmci_csr *csr; /* NULL where the factor is dense */
} mmci_sparse_shape;

typedef struct mmci_sparse_estimate {
  int32_t n;
  double *memory;
  double **rows; /* n * n: at i * n + j, nonzeros of each row of factors i to j */
  double **cols; /* the same of each column */
} mmci_sparse_estimate;

/* Estimates all sub-chains of n factors. Returns E_NOMEM. */
mmc_status mmci_sparse_estimate_create(int32_t n, const mmci_sparse_shape *factors,
                                       mmci_sparse_estimate *out, mmci_error *error);
void mmci_sparse_estimate_destroy(mmci_sparse_estimate *estimate);

/* Returns the nonzeros of the product of factors i to j. */
double mmci_sparse_nonzeros(const mmci_sparse_estimate *x, const mmci_sparse_shape *factors,
                            int32_t i, int32_t j);
/* Returns the multiplications of (factors i to k) times (factors k + 1 to j), both held sparse. */
double mmci_sparse_count(const mmci_sparse_estimate *x, const mmci_sparse_shape *factors, int32_t i,
                         int32_t k, int32_t j);

#endif

/* estimate.h: how many elements of a product of sparse factors are not zero, row by row.
 *
 * Rows of a factor are sampled, and which of them reach the columns of every factor behind it is
 * found out exactly: a bit for each, a word of them for 64, in one passage over the nonzeros of
 * each factor. So are columns, backward. Columns have as many nonzeros as sampled rows reach them,
 * each of which stands for others: rows are sorted by the paths that begin in them, which are
 * counted, and cut into pieces of as many paths, of each of which 64 are drawn, so that those of
 * many paths stand for themselves alone. (Estimates by rows: C. Lin, W. Luo, Y. Fang, C. Ma, X.
 * Liu, Y. Ma, "On Efficient Large Sparse Matrix Chain Multiplication", SIGMOD 2024; by sampled
 * lines: E. Cohen, "Structure Prediction and Computation of Sparse Matrix Products", J. Comb.
 * Optim. 2, 1998.) The multiplications of a product are the sum over its inner index of nonzeros of
 * the left operand's column times those of the right operand's row; for two factors that is exact,
 * and so it is where no side is longer than the sample. What is drawn is the same every time. A
 * sample has from 256 to 2048 lines, more where there are more paths. Where all factors but one are
 * diagonal, none is drawn: every product has the nonzeros of that one. */
#ifndef MMCI_ESTIMATE_SPARSE_H
#define MMCI_ESTIMATE_SPARSE_H

#include "sparse/csr.h"
#include "sparse/inverse.h"

/* A factor after its op: a sparse matrix, or a dense one of which only the sides count. */
typedef struct mmci_sparse_shape {
  int64_t rows, cols;
  const mmci_csr *csr; /* NULL where the factor is dense */
  mmci_sparse_inverse inverse;
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

/* Returns the seconds that this takes at least where the chain is known to take no more than so
 * many multiplications: bits of a factor are met in 2 ns, on two cores of an AMD EPYC, one for each
 * end.
 */
double mmci_sparse_estimate_s(int32_t n, const mmci_sparse_shape *factors, double multiplications);

/* Returns the nonzeros of the product of factors i to j. */
double mmci_sparse_nonzeros(const mmci_sparse_estimate *x, const mmci_sparse_shape *factors,
                            int32_t i, int32_t j);
/* Returns the multiplications of (factors i to k) times (factors k + 1 to j), both held sparse. */
double mmci_sparse_count(const mmci_sparse_estimate *x, const mmci_sparse_shape *factors, int32_t i,
                         int32_t k, int32_t j);

#endif

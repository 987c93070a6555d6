/* csr.h: sparse matrices by rows, as the library works with them. */
#ifndef MMCI_CSR_H
#define MMCI_CSR_H

#include "base/status.h"

/* A matrix whose row r holds elements indptr[r] to indptr[r + 1] - 1, in columns that may be in any
 * order and repeat. What memory holds is released with it; the rest is borrowed. */
typedef struct mmci_csr {
  mmc_dtype dtype;
  int64_t rows, cols;
  int64_t *indptr;  /* rows + 1 */
  int32_t *indices; /* indptr[rows] */
  void *values;     /* indptr[rows] */
  void *memory[3];  /* of the three arrays, NULL where borrowed */
} mmci_csr;

/* No side of a matrix of a sparse chain is longer. */
#define MMCI_CSR_SIDE ((int64_t)INT32_MAX)

static inline int64_t mmci_csr_nonzeros(const mmci_csr *a) {
  return a->indptr[a->rows];
}

/* Makes a matrix with room for so many elements, of which none is set. Returns E_NOMEM. */
mmc_status mmci_csr_create(mmc_dtype dtype, int64_t rows, int64_t cols, int64_t nonzeros,
                           mmci_csr *out, mmci_error *error);
/* Reads and checks a caller's matrix, and borrows what needs no conversion; name begins the
 * messages. Returns E_ARG, E_UNSUPPORTED (a side is too long), E_NOMEM. */
mmc_status mmci_csr_read(mmc_dtype dtype, const mmc_csr *given, const char *name, mmci_csr *out,
                         mmci_error *error);
/* Makes the transposed matrix, conjugated or not, with its columns in order. Returns E_NOMEM. */
mmc_status mmci_csr_transpose(const mmci_csr *a, bool conjugate, mmci_csr *out, mmci_error *error);
/* Makes a matrix of the elements of a row-major one that are not zero. Returns E_NOMEM. */
mmc_status mmci_csr_from_dense(mmc_dtype dtype, int64_t rows, int64_t cols, const void *data,
                               int64_t ld, mmci_csr *out, mmci_error *error);
/* Writes all elements to a row-major matrix; of one place they are added. */
void mmci_csr_to_dense(const mmci_csr *a, void *data, int64_t ld);
/* Adds all elements to those of a row-major matrix. */
void mmci_csr_add_to_dense(const mmci_csr *a, void *data, int64_t ld);
/* Puts every row's columns in order and adds up what stands in one place, in memory of the matrix's
 * own. Returns E_NOMEM. */
mmc_status mmci_csr_settle(mmci_csr *a, mmci_error *error);
void mmci_csr_release(mmci_csr *a);

#endif

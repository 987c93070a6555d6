/* matrices.h: checks that the caller's matrices fit the chain, and tells how they lie. */
#ifndef MMCI_MATRICES_H
#define MMCI_MATRICES_H

#include "chain/chain.h"
#include "device/device.h"

/* Checks factors and result against the chain; E_ARG names the first that is wrong. Also returns
 * E_NOMEM, when results are at addresses. */
mmc_status mmci_matrices_check(const mmc_chain *chain, const mmc_matrix *factors,
                               const mmc_matrix *out, mmci_error *error);

/* Does the same where a diagonal matrix, or a permutation, may be given as a line. */
mmc_status mmci_matrices_check_lines(const mmc_chain *chain, const mmc_matrix *factors,
                                     const mmc_matrix *out, mmci_error *error);
/* Says whether a matrix stands for factor i as one row, of its diagonal or of its index. */
bool mmci_matrix_is_line(const mmc_chain *chain, int32_t i, const mmc_matrix *matrix);

/* Checks one matrix of the chain's batch and dtype, that is read, against its size as stored; the
 * message begins with its name, a static text. */
mmc_status mmci_matrix_check(const mmc_chain *chain, const char *name, const mmc_matrix *matrix,
                             int64_t rows, int64_t cols, mmci_error *error);
/* Does the same for one that is written, whose matrices must lie apart; also E_NOMEM. */
mmc_status mmci_matrix_check_result(const mmc_chain *chain, const char *name,
                                    const mmc_matrix *matrix, int64_t rows, int64_t cols,
                                    mmci_error *error);

/* Fills n + 1 matrices, the result last, with factors and out; addresses that are evenly spaced
 * become strides. */
void mmci_matrices_even_out(const mmc_chain *chain, const mmc_matrix *factors,
                            const mmc_matrix *out, mmc_matrix *even);

/* Say whether any of n factors or the result is on the host; or has addresses. */
bool mmci_matrices_on_host(int32_t n, const mmc_matrix *factors, const mmc_matrix *out);
bool mmci_matrices_have_addresses(int32_t n, const mmc_matrix *factors, const mmc_matrix *out);

/* Says whether two matrices have every element at the same place. Matrices with addresses never
 * have, because the table may change. */
bool mmci_matrix_same(const mmc_matrix *x, const mmc_matrix *y);

/* Returns the first factor that is the same matrix as factor i, which may be i itself. */
int32_t mmci_factor_first_same(const mmc_chain *chain, const mmc_matrix *factors, int32_t i);

/* Returns matrix i of a batch. */
mmc_matrix mmci_matrix_of_batch(const mmc_matrix *matrix, mmc_dtype dtype, int64_t i);

/* Count lines, which are the rows, or the columns of a column-major matrix. An ld of 0 stands for
 * no gaps. */
int64_t mmci_matrix_lines(const mmc_matrix *matrix);
int64_t mmci_matrix_line_length(const mmc_matrix *matrix);
int64_t mmci_matrix_ld(const mmc_matrix *matrix);

/* Returns how op(A) of factor i lies when A lies as matrix does, in lines ld elements apart, and
 * the matrices of a batch stride elements apart. */
mmci_form mmci_factor_form(const mmc_chain *chain, int32_t i, const mmc_matrix *matrix, int64_t ld,
                           int64_t stride);

#endif

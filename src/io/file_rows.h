/* file_rows.h: a matrix or a stack of them, of whatever layout, as a file of any format takes it:
 * its elements in C order, row after row. Rows that lie in one piece are sent as they are, others
 * through a buffer, a block of rows at a time. */
#ifndef MMCI_FILE_ROWS_H
#define MMCI_FILE_ROWS_H

#include "io/file_array.h"

/* What is written, after it was checked: the matrix has its leading dimension. */
typedef struct mmci_file_rows {
  mmc_dtype dtype;
  size_t element_size; /* bytes of an element */
  mmc_matrix matrix;
  int64_t batch; /* how many matrices there are, at the matrix's stride or addresses */
  int ndim;
  int64_t shape[MMCI_NDIM_MAX]; /* shape of the array in the file */
} mmci_file_rows;

/* Checks a matrix. An ndim of 2 is a matrix, 1 drops the dimension that is 1, and 0 is a 1 x 1
 * matrix as a scalar. Returns: E_ARG. */
mmc_status mmci_file_rows_of_matrix(mmc_dtype dtype, const mmc_matrix *matrix, int ndim,
                                    mmci_file_rows *out, mmci_error *error);
/* Checks batch matrices that lie at the matrix's stride or addresses, as an array of that shape.
 * Returns: E_ARG. */
mmc_status mmci_file_rows_of_stack(mmc_dtype dtype, const mmc_matrix *matrix, int64_t batch,
                                   int ndim, const int64_t *shape, mmci_file_rows *out,
                                   mmci_error *error);

/* Sends all elements. Returns: E_IO when write fails, without a message; E_NOMEM. */
mmc_status mmci_file_rows_send(const mmci_file_rows *rows, mmc_write_fn write, void *user,
                               mmci_error *error);
/* Returns how many bytes that are. */
uint64_t mmci_file_rows_bytes(const mmci_file_rows *rows);
/* Describes an array of at most two dimensions as one matrix. One of a dimension is a row or a
 * column as its matrix is, and a column where it is of several matrices. What does not lie so is
 * gathered in *memory, which the caller frees; else that is NULL. Returns: E_NOMEM. */
mmc_status mmci_file_rows_as_matrix(const mmci_file_rows *rows, mmci_file_rows *out, void **memory,
                                    mmci_error *error);
/* Returns the transposed matrix: its rows are the columns. */
mmci_file_rows mmci_file_rows_turned(const mmci_file_rows *rows);

#endif

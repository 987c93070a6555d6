/* npy.h: matrices in .npy files; mmc_file_open() and the functions like it in mmchain.h call these.
 *
 * Reading maps the file and copies nothing when its byte order is the machine's and its data are
 * aligned, so that a matrix may be larger than memory; otherwise it copies. What cannot be mapped
 * (a pipe, /dev/stdin) is read into memory, no further than the array goes. Bytes after the array
 * are ignored. A stack in Fortran order, whose matrices have no lines, is copied into C order.
 *
 * A mapped file must not shrink while it is open: its size is checked when it is opened, but
 * reading a part that was cut off since raises SIGBUS, for which a program may have a handler
 * (cli/signals.c); the library has none. Replacing the file, as mmci_npy_write() does, leaves the
 * open one as it is. */
#ifndef MMCI_NPY_H
#define MMCI_NPY_H

#include "base/status.h"

typedef struct mmci_npy mmci_npy; /* one mapped or loaded file */

/* Opens a file. Returns: E_IO, E_FORMAT, E_NOMEM. */
mmc_status mmci_npy_open(const char *path, mmci_npy **out, mmci_error *error);
/* Closes a file; NULL is a no-op. */
void mmci_npy_close(mmci_npy *npy);

mmc_dtype mmci_npy_dtype(const mmci_npy *npy);
int mmci_npy_ndim(const mmci_npy *npy); /* 1 to MMCI_NPY_NDIM_MAX */
const int64_t *mmci_npy_shape(const mmci_npy *npy);
/* Returns the matrix as it is stored: row-major, or column-major from Fortran order. An array of
 * one dimension of length k is 1 x k, row-major; one of more than two dimensions is a stack in C
 * order, row-major, with a stride in elements. The matrix is read-only; its data are NULL when
 * there are no elements. */
mmc_matrix mmci_npy_matrix(const mmci_npy *npy);

/* Writes version 1.0 in C order and the machine's byte order, the bytes that NumPy writes, through
 * output_file.h. An ndim of 2 is a matrix, 1 drops the dimension that is 1, and 0 writes a 1 x 1
 * matrix as a scalar.
 * Returns: E_ARG, E_IO, E_NOMEM. */
mmc_status mmci_npy_write(const char *path, mmc_dtype dtype, const mmc_matrix *matrix, int ndim,
                          mmci_error *error);
/* Writes the same bytes to a callback. */
mmc_status mmci_npy_stream(mmc_dtype dtype, const mmc_matrix *matrix, int ndim, mmc_write_fn write,
                           void *user, mmci_error *error);
/* Writes batch matrices, which lie at the matrix's stride or addresses, one after the other as an
 * array of that shape. */
mmc_status mmci_npy_write_stack(const char *path, mmc_dtype dtype, const mmc_matrix *matrix,
                                int64_t batch, int ndim, const int64_t *shape, mmci_error *error);
mmc_status mmci_npy_stream_stack(mmc_dtype dtype, const mmc_matrix *matrix, int64_t batch, int ndim,
                                 const int64_t *shape, mmc_write_fn write, void *user,
                                 mmci_error *error);

#endif

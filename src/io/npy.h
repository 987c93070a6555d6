/* npy.h: arrays in .npy files, and as the members of .npz files are: a header (npy_header.h) and
 * the elements.
 *
 * Reading maps the file and copies nothing when its byte order is the machine's and its data are
 * aligned, so that a matrix may be larger than memory; otherwise it copies. Bytes after the array
 * are ignored. A stack in Fortran order, whose matrices have no lines, is copied into C order. */
#ifndef MMCI_NPY_H
#define MMCI_NPY_H

#include "io/format.h"

/* Opens a file. Returns: E_IO, E_FORMAT, E_NOMEM. */
mmc_status mmci_npy_open(const char *path, mmci_file_array **out, mmci_error *error);
/* Reads an array whose source is there already. Returns: E_IO, E_FORMAT, E_NOMEM. */
mmc_status mmci_npy_read(mmci_file_array *array, mmci_error *error);

/* Returns the size in bytes of the header that stands before these elements, after writing it. It
 * is of version 1.0, in C order and the machine's byte order, the bytes that NumPy writes. */
size_t mmci_npy_header_of(const mmci_file_rows *rows, char *header);
/* Writes header and elements. Returns: E_ARG (npy has no such dtype), E_IO, E_NOMEM. */
mmc_status mmci_npy_write(const mmci_file_rows *rows, const char *member, mmc_write_fn write,
                          void *user, mmci_error *error);

#endif

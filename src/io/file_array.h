/* file_array.h: an array that was read from a file, of whatever format, as a matrix or a stack of
 * them.
 *
 * A format describes the array; where its elements lie in the file as they are, it says where, and
 * nothing is copied when byte order and alignment are the machine's. Otherwise it allocates the
 * elements itself.
 *
 * A mapped file must not shrink while it is open: its size is checked when it is opened, but
 * reading a part that was cut off since raises SIGBUS, for which a program may have a handler
 * (cli/signals.c); the library has none. Replacing the file, as output_file.h does, leaves the open
 * one as it is. */
#ifndef MMCI_FILE_ARRAY_H
#define MMCI_FILE_ARRAY_H

#include "io/source.h"

enum { MMCI_NDIM_MAX = 64 }; /* dimensions of an array at most, as in NumPy */

typedef struct mmci_file_array {
  mmc_dtype dtype;
  bool foreign; /* its byte order in the file is not this machine's */
  bool fortran_order;
  int ndim;                     /* 1 to MMCI_NDIM_MAX */
  int64_t shape[MMCI_NDIM_MAX]; /* ndim numbers, each 0..2^62 */
  mmci_source source;
  void *copy; /* a copy of the elements, when one was needed; released with free() */
  /* The matrix as it is stored: row-major, or column-major from Fortran order. An array of one
   * dimension of length k is 1 x k, row-major; one of more than two dimensions is a stack in C
   * order, row-major, with a stride in elements. The matrix is read-only; its data are NULL when
   * there are no elements. */
  mmc_matrix matrix;
} mmci_file_array;

/* Allocates one without elements. Returns: E_NOMEM. */
mmc_status mmci_file_array_create(mmci_file_array **out, mmci_error *error);
/* Closes the file and releases the elements. NULL is a no-op. */
void mmci_file_array_destroy(mmci_file_array *array);

/* Counts the bytes of all elements, and makes array->matrix, without data.
 * Returns: E_FORMAT (they are more than a file can hold). */
mmc_status mmci_file_array_measure(mmci_file_array *array, size_t *size_bytes, mmci_error *error);
/* Points array->matrix to the elements, which begin offset bytes behind the start of array->source,
 * or to a copy of them. Returns: E_FORMAT (the source ends before), E_IO, E_NOMEM. */
mmc_status mmci_file_array_place(mmci_file_array *array, size_t offset, mmci_error *error);
/* Allocates the elements, for a format that reads them itself, of a file in which stored_bytes say
 * what they are: array->copy, in the order and layout of array->matrix.
 * Returns: E_FORMAT (no compression makes so much of so little), E_NOMEM. */
mmc_status mmci_file_array_allocate(mmci_file_array *array, uint64_t stored_bytes,
                                    mmci_error *error);
/* Reverses the bytes of the numbers in such memory, where they are as in a file whose byte order is
 * not this machine's. */
void mmci_file_array_turn(mmci_file_array *array);

#endif

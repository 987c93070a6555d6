/* npy_header.h: the header of an .npy file.
 *
 * A file is the magic string, two bytes of version, the length of what follows (little-endian, two
 * bytes in version 1, four in 2 and 3), and a Python dictionary padded with spaces:
 *     {'descr': '<f8', 'fortran_order': False, 'shape': (10, 30), }
 * The data follow. (NumPy Enhancement Proposal 1, and numpy.lib.format.) */
#ifndef MMCI_NPY_HEADER_H
#define MMCI_NPY_HEADER_H

#include "base/status.h"

#define MMCI_NPY_MAGIC "\x93NUMPY"

enum {
  MMCI_NPY_MAGIC_SIZE = 6,
  MMCI_NPY_PRELUDE_MAX = 12,         /* the most bytes of magic, version and length */
  MMCI_NPY_DICTIONARY_MAX = 1 << 20, /* the most bytes of a dictionary; NumPy stops at 10000 */
  MMCI_NPY_NDIM_MAX = 64,            /* dimensions of an array at most, as in NumPy */
  MMCI_NPY_HEADER_SIZE = 2048        /* bytes that hold every header that we write */
};

/* An element type as files name it. */
typedef struct mmci_npy_type {
  mmc_dtype dtype;
  char code[4];     /* "f8" */
  char name[12];    /* "float64" */
  size_t size;      /* bytes of an element */
  size_t real_size; /* bytes of its real type, which byte order and alignment are about */
} mmci_npy_type;

/* Returns the type of a dtype; NULL for values that are no dtype. */
const mmci_npy_type *mmci_npy_type_of(mmc_dtype dtype);

typedef struct mmci_npy_header {
  const mmci_npy_type *type;
  bool foreign; /* its byte order is not this machine's */
  bool fortran_order;
  int ndim;                         /* 1 to MMCI_NPY_NDIM_MAX */
  int64_t shape[MMCI_NPY_NDIM_MAX]; /* ndim numbers, each 0..2^62 */
} mmci_npy_header;

/* Reads what precedes the dictionary, from the first size bytes of a file: how many bytes that
 * takes, and how many the dictionary takes. Fewer than MMCI_NPY_PRELUDE_MAX bytes mean that the
 * file has no more. Returns: E_FORMAT. */
mmc_status mmci_npy_prelude_parse(const unsigned char *bytes, size_t size, size_t *prelude_size,
                                  size_t *dictionary_size, mmci_error *error);

/* Reads the dictionary. It takes any bytes, does not recurse, and does not name the file in
 * messages.
 * Returns: E_FORMAT. */
mmc_status mmci_npy_dictionary_parse(const char *text, size_t size, mmci_npy_header *out,
                                     mmci_error *error);

/* Writes the whole header that NumPy writes for a C-ordered array of this machine's byte order, and
 * returns its size in bytes, a multiple of 64. shape holds ndim numbers, 0 <= ndim <=
 * MMCI_NPY_NDIM_MAX. */
size_t mmci_npy_header_format(const mmci_npy_type *type, int ndim, const int64_t *shape,
                              char out[MMCI_NPY_HEADER_SIZE]);

#endif

/* format.h: the contract of a file format, and the table of those there are (formats.c).
 *
 * A name is a path whose ending says the format; of formats whose files have members, several
 * arrays with names, a colon and a member may follow: weights.npz:w1, data.h5:/layer/w. A name
 * without a known ending is that of an .npy file.
 *
 * A format whose library takes milliseconds to load is in a module, mmchain-NAME.so
 * (base/module_dir.h), that exports one function:
 *     const mmci_format *mmci_module_entry(void); */
#ifndef MMCI_FORMAT_H
#define MMCI_FORMAT_H

#include "io/file_rows.h"
#include "sparse/csr.h"

/* Raised whenever a struct that modules see changes. */
enum { MMCI_FORMAT_ABI = 3 };

/* The parts of a name. */
typedef struct mmci_file_name {
  const char *path;   /* the file's path, without the member */
  const char *member; /* the member; NULL when none is said */
} mmci_file_name;

/* Is told of a member; returns whether to go on. */
typedef bool (*mmci_member_fn)(void *user, const char *member);

typedef struct mmci_format {
  uint32_t abi, size; /* MMCI_FORMAT_ABI and sizeof(mmci_format), set in modules */
  /* Opens an array; *out is written on success only. member is not NULL where the format has
   * members. What the file says is checked against its size before anything is allocated for it.
   * Returns: E_ARG (no such member, without a message), E_IO, E_FORMAT, E_NOMEM. */
  mmc_status (*open)(const mmci_file_name *name, mmci_file_array **out, mmci_error *error);
  /* Tells the members of a file that may be arrays; NULL where the format has none.
   * Returns: E_IO, E_FORMAT, E_NOMEM. */
  mmc_status (*list)(const char *path, mmci_member_fn tell, void *user, mmci_error *error);
  /* Writes a whole file with one array; member is not NULL where the format has members.
   * Returns: E_ARG (the format has no such dtype, shape or name), E_IO (write has failed, without a
   * message), E_NOMEM. */
  mmc_status (*write)(const mmci_file_rows *rows, const char *member, mmc_write_fn write,
                      void *user, mmci_error *error);
  /* (optional, all or none) Sparse matrices. sparse_is is MMC_OK where a file holds one,
   * without reading its elements, and else why it does not seem to; sparse_open reads it, and
   * returns what open does; sparse_write writes a
   * whole file of one, and returns E_IO without a message, or E_NOMEM. */
  mmc_status (*sparse_is)(const char *path, mmci_error *error);
  mmc_status (*sparse_open)(const char *path, mmci_csr *out, mmci_error *error);
  mmc_status (*sparse_write)(const mmci_csr *matrix, mmc_write_fn write, void *user,
                             mmci_error *error);
} mmci_format;

typedef const mmci_format *(*mmci_format_entry_fn)(void);

extern const mmci_format mmci_format_npy;
extern const mmci_format mmci_format_npz;
extern const mmci_format mmci_format_safetensors;
extern const mmci_format mmci_format_matrix_market;

/* ---- files of any format ------------------------------------------------------------------- */

/* Returns the name of the format that the ending of name says, "hdf5", and writes how long the path
 * of the file is without a member; NULL when it says none. */
const char *mmci_file_format(const char *name, size_t *path_length);

/* Describes format index of the table; module_dir is as for mmci_module_path().
 * Returns: E_ARG past the last one. */
mmc_status mmci_file_format_describe(const char *module_dir, int index, mmc_file_format_info *out,
                                     mmci_error *error);

/* Opens an array of a file; without a member, the only one there is.
 * Returns: E_ARG (no such member, or several and none is said: the message lists them),
 * E_UNSUPPORTED (the format's library is not here: the message says what to do), E_IO, E_FORMAT,
 * E_NOMEM. */
mmc_status mmci_file_open(const char *module_dir, const char *name, mmci_file_array **out,
                          mmci_error *error);

/* Writes a whole file of the name's format to a callback. Returns: E_ARG, E_UNSUPPORTED, E_IO,
 * E_NOMEM. */
mmc_status mmci_file_stream(const char *module_dir, const char *name, const mmci_file_rows *rows,
                            mmc_write_fn write, void *user, mmci_error *error);
/* Writes it in the place of what the path holds, through output_file.h. */
mmc_status mmci_file_write(const char *module_dir, const char *name, const mmci_file_rows *rows,
                           mmci_error *error);
/* Says whether that would lose something: a file with other members is not replaced.
 * Returns: E_ARG, E_UNSUPPORTED. */
mmc_status mmci_file_check_output(const char *module_dir, const char *name, mmci_error *error);

/* ---- sparse matrices in files ---------------------------------------------------------------- */

/* Says whether a file, by its whole name, holds a sparse matrix; false for what is no regular file.
 */
bool mmci_file_is_sparse(const char *module_dir, const char *name);
/* Reads it. Returns: E_ARG (it holds none), E_IO, E_FORMAT, E_UNSUPPORTED, E_NOMEM. */
mmc_status mmci_file_open_sparse(const char *module_dir, const char *name, mmci_csr *out,
                                 mmci_error *error);
/* Writes a file with one sparse matrix in the place of what the path holds. Returns: E_ARG (the
 * format has none, or a member is named), E_IO, E_UNSUPPORTED, E_NOMEM. */
mmc_status mmci_file_write_sparse(const char *module_dir, const char *name, const mmci_csr *matrix,
                                  mmci_error *error);

#endif

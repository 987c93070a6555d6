/* shared_file.h: a matrix that all ranks write into one .npy file, which appears whole or not at
 * all. */
#ifndef MMCI_RANKS_SHARED_FILE_H
#define MMCI_RANKS_SHARED_FILE_H

#include "ranks/team.h"

/* What is written, and how this rank has its piece of it. */
typedef struct mmci_shared_file {
  const char *path;
  mmc_dtype dtype;
  int64_t rows, cols;
  int ndim; /* 2; 1 drops the dimension that is 1, and 0 writes a 1 x 1 matrix as a scalar */
  mmci_piece piece;
  const void *data; /* row-major, without gaps */
  /* Is called on rank 0 with the elements of the whole file before it takes its name; anything but
   * MMC_OK drops the file. NULL means no check. */
  mmc_status (*check)(void *user, const void *data);
  void *user;
} mmci_shared_file;

/* Writes. Collective. Returns, the same on every rank: E_ARG (no regular file), E_IO, E_NOMEM, or
 * what check returned. */
mmc_status mmci_shared_file_write(const mmci_team_ops *ops, mmci_team *team,
                                  const mmci_shared_file *file, mmci_error *error);

#endif

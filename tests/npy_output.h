/* npy_output.h: matrices written as .npy, as the api room has it done. */
#ifndef NPY_OUTPUT_H
#define NPY_OUTPUT_H

#include "io/format.h"

static inline mmc_status npy_write(const char *path, mmc_dtype dtype, const mmc_matrix *matrix,
                                   int ndim, mmci_error *error) {
  mmci_file_rows rows;
  mmc_status status = mmci_file_rows_of_matrix(dtype, matrix, ndim, &rows, error);
  return status == MMC_OK ? mmci_file_write(NULL, path, &rows, error) : status;
}

static inline mmc_status npy_write_stack(const char *path, mmc_dtype dtype,
                                         const mmc_matrix *matrix, int64_t batch, int ndim,
                                         const int64_t *shape, mmci_error *error) {
  mmci_file_rows rows;
  mmc_status status = mmci_file_rows_of_stack(dtype, matrix, batch, ndim, shape, &rows, error);
  return status == MMC_OK ? mmci_file_write(NULL, path, &rows, error) : status;
}

static inline mmc_status npy_stream(mmc_dtype dtype, const mmc_matrix *matrix, int ndim,
                                    mmc_write_fn write, void *user, mmci_error *error) {
  mmci_file_rows rows;
  mmc_status status = mmci_file_rows_of_matrix(dtype, matrix, ndim, &rows, error);
  return status == MMC_OK ? mmci_file_stream(NULL, "", &rows, write, user, error) : status;
}

#endif

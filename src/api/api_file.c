/* api_file.c: the public calls about matrices in files. */
#include "api/api.h"
#include "base/alloc.h"
#include "io/npy.h"

struct mmc_file {
  mmci_npy *npy;
};

mmc_status mmc_file_open(mmc_context *context, const char *path, mmc_file **out) {
  mmci_error error = {0};
  if (path == NULL || out == NULL)
    return mmci_report(context, mmci_fail(&error, MMC_E_ARG, "path and out: expected no NULL"),
                       &error);
  mmc_file *file = malloc(sizeof *file);
  if (file == NULL) return mmci_report(context, mmci_fail_nomem(&error, sizeof *file), &error);
  mmc_status status = mmci_npy_open(path, &file->npy, &error);
  if (status != MMC_OK) {
    free(file);
    return mmci_report(context, status, &error);
  }
  *out = file;
  return MMC_OK;
}

void mmc_file_destroy(mmc_file *file) {
  if (file == NULL) return;
  mmci_npy_close(file->npy);
  free(file);
}

mmc_dtype mmc_file_dtype(const mmc_file *file) {
  return file != NULL ? mmci_npy_dtype(file->npy) : (mmc_dtype)0;
}
int mmc_file_ndim(const mmc_file *file) {
  return file != NULL ? mmci_npy_ndim(file->npy) : 0;
}
const int64_t *mmc_file_shape(const mmc_file *file) {
  return file != NULL ? mmci_npy_shape(file->npy) : NULL;
}
mmc_matrix mmc_file_matrix(const mmc_file *file) {
  return file != NULL ? mmci_npy_matrix(file->npy) : (mmc_matrix){0};
}

mmc_status mmc_file_write(mmc_context *context, const char *path, mmc_dtype dtype,
                          const mmc_matrix *matrix, int ndim) {
  mmci_error error = {0};
  mmc_status status = path == NULL || matrix == NULL
                          ? mmci_fail(&error, MMC_E_ARG, "path and matrix: expected no NULL")
                          : mmci_npy_write(path, dtype, matrix, ndim, &error);
  return mmci_report(context, status, &error);
}

mmc_status mmc_file_stream(mmc_context *context, mmc_dtype dtype, const mmc_matrix *matrix,
                           int ndim, mmc_write_fn write, void *user) {
  mmci_error error = {0};
  mmc_status status = matrix == NULL || write == NULL
                          ? mmci_fail(&error, MMC_E_ARG, "matrix and write: expected no NULL")
                          : mmci_npy_stream(dtype, matrix, ndim, write, user, &error);
  return mmci_report(context, status, &error);
}

mmc_status mmc_file_write_stack(mmc_context *context, const char *path, mmc_dtype dtype,
                                const mmc_matrix *matrix, int64_t batch, int ndim,
                                const int64_t *shape) {
  mmci_error error = {0};
  mmc_status status = path == NULL || matrix == NULL || (shape == NULL && ndim > 0)
                          ? mmci_fail(&error, MMC_E_ARG, "path, matrix and shape: expected no NULL")
                          : mmci_npy_write_stack(path, dtype, matrix, batch, ndim, shape, &error);
  return mmci_report(context, status, &error);
}

mmc_status mmc_file_stream_stack(mmc_context *context, mmc_dtype dtype, const mmc_matrix *matrix,
                                 int64_t batch, int ndim, const int64_t *shape, mmc_write_fn write,
                                 void *user) {
  mmci_error error = {0};
  mmc_status status =
      matrix == NULL || write == NULL || (shape == NULL && ndim > 0)
          ? mmci_fail(&error, MMC_E_ARG, "matrix, shape and write: expected no NULL")
          : mmci_npy_stream_stack(dtype, matrix, batch, ndim, shape, write, user, &error);
  return mmci_report(context, status, &error);
}

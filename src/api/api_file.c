/* api_file.c: the public calls about matrices in files. */
#include "api/api.h"
#include "base/alloc.h"
#include "io/format.h"

struct mmc_file {
  mmci_file_array *array;
};

/* ---- formats ------------------------------------------------------------------------------- */

mmc_status mmc_file_format_describe(mmc_context *context, int index, mmc_file_format_info *out) {
  mmci_error error = {0};
  if (context == NULL) return MMC_E_ARG;
  if (out == NULL) return mmci_report_null(context, "out");
  return mmci_report(
      context, mmci_file_format_describe(mmci_context_module_dir(context), index, out, &error),
      &error);
}

const char *mmc_file_format(const char *name, size_t *path_length) {
  size_t length = 0;
  const char *format = name != NULL ? mmci_file_format(name, &length) : NULL;
  if (path_length != NULL) *path_length = length;
  return format;
}

/* ---- reading ------------------------------------------------------------------------------- */

mmc_status mmc_file_open(mmc_context *context, const char *name, mmc_file **out) {
  mmci_error error = {0};
  if (name == NULL || out == NULL)
    return mmci_report(context, mmci_fail(&error, MMC_E_ARG, "name and out: expected no NULL"),
                       &error);
  mmc_file *file = malloc(sizeof *file);
  if (file == NULL) return mmci_report(context, mmci_fail_nomem(&error, sizeof *file), &error);
  mmc_status status = mmci_file_open(mmci_context_module_dir(context), name, &file->array, &error);
  if (status != MMC_OK) {
    free(file);
    return mmci_report(context, status, &error);
  }
  *out = file;
  return MMC_OK;
}

void mmc_file_destroy(mmc_file *file) {
  if (file == NULL) return;
  mmci_file_array_destroy(file->array);
  free(file);
}

mmc_dtype mmc_file_dtype(const mmc_file *file) {
  return file != NULL ? file->array->dtype : (mmc_dtype)0;
}
int mmc_file_ndim(const mmc_file *file) {
  return file != NULL ? file->array->ndim : 0;
}
const int64_t *mmc_file_shape(const mmc_file *file) {
  return file != NULL ? file->array->shape : NULL;
}
mmc_matrix mmc_file_matrix(const mmc_file *file) {
  return file != NULL ? file->array->matrix : (mmc_matrix){0};
}

/* ---- writing ------------------------------------------------------------------------------- */

/* Checks what is to be written: a matrix when shape is NULL, else a stack. */
static mmc_status check_written(mmc_dtype dtype, const mmc_matrix *matrix, int64_t batch, int ndim,
                                const int64_t *shape, bool is_stack, mmci_file_rows *out,
                                mmci_error *error) {
  if (matrix == NULL || (is_stack && shape == NULL && ndim > 0))
    return mmci_fail(error, MMC_E_ARG, "matrix and shape: expected no NULL");
  return is_stack ? mmci_file_rows_of_stack(dtype, matrix, batch, ndim, shape, out, error)
                  : mmci_file_rows_of_matrix(dtype, matrix, ndim, out, error);
}

static mmc_status write_rows(mmc_context *context, const char *name, const mmci_file_rows *rows,
                             mmci_error *error) {
  if (name == NULL) return mmci_fail(error, MMC_E_ARG, "name: expected no NULL");
  return mmci_file_write(mmci_context_module_dir(context), name, rows, error);
}

static mmc_status stream_rows(mmc_context *context, const char *name, const mmci_file_rows *rows,
                              mmc_write_fn write, void *user, mmci_error *error) {
  if (name == NULL || write == NULL)
    return mmci_fail(error, MMC_E_ARG, "name and write: expected no NULL");
  return mmci_file_stream(mmci_context_module_dir(context), name, rows, write, user, error);
}

/* .npy, whatever the name of the output is. */
static const char no_name[] = "";

mmc_status mmc_file_write(mmc_context *context, const char *name, mmc_dtype dtype,
                          const mmc_matrix *matrix, int ndim) {
  mmci_error error = {0};
  mmci_file_rows rows;
  mmc_status status = check_written(dtype, matrix, 1, ndim, NULL, false, &rows, &error);
  if (status == MMC_OK) status = write_rows(context, name, &rows, &error);
  return mmci_report(context, status, &error);
}

mmc_status mmc_file_stream(mmc_context *context, mmc_dtype dtype, const mmc_matrix *matrix,
                           int ndim, mmc_write_fn write, void *user) {
  mmci_error error = {0};
  mmci_file_rows rows;
  mmc_status status = check_written(dtype, matrix, 1, ndim, NULL, false, &rows, &error);
  if (status == MMC_OK) status = stream_rows(context, no_name, &rows, write, user, &error);
  return mmci_report(context, status, &error);
}

mmc_status mmc_file_write_stack(mmc_context *context, const char *name, mmc_dtype dtype,
                                const mmc_matrix *matrix, int64_t batch, int ndim,
                                const int64_t *shape) {
  mmci_error error = {0};
  mmci_file_rows rows;
  mmc_status status = check_written(dtype, matrix, batch, ndim, shape, true, &rows, &error);
  if (status == MMC_OK) status = write_rows(context, name, &rows, &error);
  return mmci_report(context, status, &error);
}

mmc_status mmc_file_stream_stack(mmc_context *context, mmc_dtype dtype, const mmc_matrix *matrix,
                                 int64_t batch, int ndim, const int64_t *shape, mmc_write_fn write,
                                 void *user) {
  return mmc_file_stream_as(context, no_name, dtype, matrix, batch, ndim, shape, write, user);
}

mmc_status mmc_file_stream_as(mmc_context *context, const char *name, mmc_dtype dtype,
                              const mmc_matrix *matrix, int64_t batch, int ndim,
                              const int64_t *shape, mmc_write_fn write, void *user) {
  mmci_error error = {0};
  mmci_file_rows rows;
  mmc_status status = check_written(dtype, matrix, batch, ndim, shape, true, &rows, &error);
  if (status == MMC_OK) status = stream_rows(context, name, &rows, write, user, &error);
  return mmci_report(context, status, &error);
}

mmc_status mmc_file_check_output(mmc_context *context, const char *name) {
  mmci_error error = {0};
  mmc_status status = name == NULL
                          ? mmci_fail(&error, MMC_E_ARG, "name: expected no NULL")
                          : mmci_file_check_output(mmci_context_module_dir(context), name, &error);
  return mmci_report(context, status, &error);
}

#include "run/matrices.h"

#include <inttypes.h>
#include <stdio.h>

int64_t mmci_matrix_lines(const mmc_matrix *matrix) {
  return matrix->layout == MMC_ROW_MAJOR ? matrix->rows : matrix->cols;
}

int64_t mmci_matrix_line_length(const mmc_matrix *matrix) {
  return matrix->layout == MMC_ROW_MAJOR ? matrix->cols : matrix->rows;
}

/* At least 1, as BLAS wants it. */
int64_t mmci_matrix_ld(const mmc_matrix *matrix) {
  int64_t length = mmci_matrix_line_length(matrix);
  if (matrix->ld != 0) return matrix->ld;
  return length > 0 ? length : 1;
}

bool mmci_matrices_on_host(int32_t n, const mmc_matrix *factors, const mmc_matrix *out) {
  bool on_host = out->location == MMC_HOST;
  for (int32_t i = 0; i < n; i++) on_host = on_host || factors[i].location == MMC_HOST;
  return on_host;
}

bool mmci_matrix_same(const mmc_matrix *x, const mmc_matrix *y) {
  return x->data == y->data && x->rows == y->rows && x->cols == y->cols && x->ld == y->ld &&
         x->layout == y->layout && x->location == y->location;
}

mmci_form mmci_factor_form(const mmc_chain *chain, int32_t i, const mmc_matrix *matrix,
                           int64_t ld) {
  return (mmci_form){
      .ld = ld,
      .trans = (chain->ops[i] != MMC_OP_N) != (matrix->layout == MMC_COL_MAJOR),
      .conj = chain->ops[i] == MMC_OP_H && (chain->dtype == MMC_C64 || chain->dtype == MMC_C128),
  };
}

/* ---- checks -------------------------------------------------------------------------------- */

/* index -1 names the result. */
static mmc_status fail_matrix(int32_t index, const char *what, mmci_error *error) {
  if (index < 0) return mmci_fail(error, MMC_E_ARG, "out: %s", what);
  return mmci_fail(error, MMC_E_ARG, "factors[%" PRId32 "]: %s", index, what);
}

/* The bytes from a matrix's first element to past its last. */
typedef struct extent {
  uintptr_t start, end;
} extent;

/* What data must be aligned to: the real type. */
static size_t alignment_of(mmc_dtype dtype) {
  size_t size = mmc_dtype_size(dtype);
  return dtype == MMC_C64 || dtype == MMC_C128 ? size / 2 : size;
}

static mmc_status check_matrix(const mmc_matrix *matrix, int32_t index, int64_t rows, int64_t cols,
                               mmc_dtype dtype, extent *bytes, mmci_error *error) {
  if (matrix->rows != rows || matrix->cols != cols) {
    char what[160];
    snprintf(what, sizeof what,
             "expected %" PRId64 " x %" PRId64 " as stored, got %" PRId64 " x %" PRId64, rows, cols,
             matrix->rows, matrix->cols);
    return fail_matrix(index, what, error);
  }
  if (matrix->layout != MMC_ROW_MAJOR && matrix->layout != MMC_COL_MAJOR)
    return fail_matrix(index, "expected layout MMC_ROW_MAJOR or MMC_COL_MAJOR", error);
  if (matrix->location != MMC_HOST && matrix->location != MMC_DEVICE)
    return fail_matrix(index, "expected location MMC_HOST or MMC_DEVICE", error);
  int64_t length = mmci_matrix_line_length(matrix), lines = mmci_matrix_lines(matrix);
  if (matrix->ld != 0 && matrix->ld < length)
    return fail_matrix(index, "ld is less than the length of a row (column)", error);
  *bytes = (extent){0};
  if (rows == 0 || cols == 0) return MMC_OK;

  uintptr_t start = (uintptr_t)matrix->data;
  if (start == 0) return fail_matrix(index, "data is NULL", error);
  if ((start & (alignment_of(dtype) - 1)) != 0)
    return fail_matrix(index, "data is not aligned to its real type", error);
  int64_t elements, size;
  if (__builtin_mul_overflow(lines - 1, mmci_matrix_ld(matrix), &elements) ||
      __builtin_add_overflow(elements, length, &elements) ||
      __builtin_mul_overflow(elements, (int64_t)mmc_dtype_size(dtype), &size) ||
      (uint64_t)size > UINTPTR_MAX - start)
    return fail_matrix(index, "ld exceeds the address space", error);
  *bytes = (extent){.start = start, .end = start + (uintptr_t)size};
  return MMC_OK;
}

mmc_status mmci_matrices_check(const mmc_chain *chain, const mmc_matrix *factors,
                               const mmc_matrix *out, mmci_error *error) {
  if (factors == NULL) return mmci_fail(error, MMC_E_ARG, "factors: expected an array, got NULL");
  if (out == NULL) return mmci_fail(error, MMC_E_ARG, "out: expected a matrix, got NULL");
  int32_t n = chain->n;
  extent result, factor;
  mmc_status status =
      check_matrix(out, -1, chain->dims[0], chain->dims[n], chain->dtype, &result, error);
  for (int32_t i = 0; i < n && status == MMC_OK; i++) {
    bool as_is = chain->ops[i] == MMC_OP_N;
    status = check_matrix(&factors[i], i, chain->dims[as_is ? i : i + 1],
                          chain->dims[as_is ? i + 1 : i], chain->dtype, &factor, error);
    if (status == MMC_OK && factor.start < result.end && result.start < factor.end)
      status = fail_matrix(i, "overlaps the result", error);
  }
  return status;
}

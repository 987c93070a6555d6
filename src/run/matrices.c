#include "run/matrices.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"

int64_t mmci_matrix_lines(const mmc_matrix *matrix) {
  return matrix->layout == MMC_ROW_MAJOR ? matrix->rows : matrix->cols;
}

int64_t mmci_matrix_line_length(const mmc_matrix *matrix) {
  return matrix->layout == MMC_ROW_MAJOR ? matrix->cols : matrix->rows;
}

/* Returns the leading dimension in elements, at least 1, as BLAS wants it. */
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

bool mmci_matrices_have_addresses(int32_t n, const mmc_matrix *factors, const mmc_matrix *out) {
  bool have = out->addresses != NULL;
  for (int32_t i = 0; i < n; i++) have = have || factors[i].addresses != NULL;
  return have;
}

static bool same_shape(const mmc_matrix *x, const mmc_matrix *y) {
  return x->rows == y->rows && x->cols == y->cols && x->ld == y->ld && x->layout == y->layout &&
         x->location == y->location;
}

bool mmci_matrix_same(const mmc_matrix *x, const mmc_matrix *y) {
  return x->data == y->data && same_shape(x, y) && x->stride == y->stride && x->addresses == NULL &&
         y->addresses == NULL;
}

int32_t mmci_factor_first_same(const mmc_chain *chain, const mmc_matrix *factors, int32_t i) {
  if (chain->same != NULL) i = chain->same[i]; /* tables of addresses cannot be compared */
  for (int32_t j = 0; j < i; j++)
    if (mmci_matrix_same(&factors[j], &factors[i])) return j;
  return i;
}

mmci_form mmci_factor_form(const mmc_chain *chain, int32_t i, const mmc_matrix *matrix, int64_t ld,
                           int64_t stride) {
  return (mmci_form){
      .ld = ld,
      .trans = (chain->ops[i] != MMC_OP_N) != (matrix->layout == MMC_COL_MAJOR),
      .conj = chain->ops[i] == MMC_OP_H && (chain->dtype == MMC_C64 || chain->dtype == MMC_C128),
      .stride = stride,
  };
}

/* ---- batches ------------------------------------------------------------------------------- */

static void *address_of(const mmc_matrix *matrix, int64_t size, int64_t i) {
  if (matrix->addresses != NULL) return matrix->addresses[i];
  /* The strides of empty matrices may be anything. */
  if (matrix->data == NULL || matrix->rows == 0 || matrix->cols == 0) return matrix->data;
  return (char *)matrix->data + i * matrix->stride * size;
}

mmc_matrix mmci_matrix_of_batch(const mmc_matrix *matrix, mmc_dtype dtype, int64_t i) {
  mmc_matrix one = *matrix;
  one.data = address_of(matrix, (int64_t)mmc_dtype_size(dtype), i);
  one.stride = 0;
  one.addresses = NULL;
  return one;
}

/* Puts a stride in place of addresses that are evenly spaced. */
static void even_out(mmc_matrix *matrix, int64_t batch, int64_t size) {
  if (matrix->addresses == NULL || batch == 0) return;
  const char *const *at = (const char *const *)matrix->addresses;
  intptr_t apart = batch > 1 ? (intptr_t)at[1] - (intptr_t)at[0] : 0;
  if (apart % size != 0) return;
  for (int64_t i = 2; i < batch; i++)
    if ((intptr_t)at[i] - (intptr_t)at[i - 1] != apart) return;
  matrix->data = matrix->addresses[0];
  matrix->stride = apart / size;
  matrix->addresses = NULL;
}

void mmci_matrices_even_out(const mmc_chain *chain, const mmc_matrix *factors,
                            const mmc_matrix *out, mmc_matrix *even) {
  int64_t size = (int64_t)mmc_dtype_size(chain->dtype);
  for (int32_t i = 0; i <= chain->n; i++) {
    even[i] = i < chain->n ? factors[i] : *out;
    even_out(&even[i], chain->batch, size);
  }
}

/* ---- checks -------------------------------------------------------------------------------- */

/* Sets the error; an index of -1 names the result. */
static mmc_status fail_matrix(int32_t index, const char *what, mmci_error *error) {
  if (index < 0) return mmci_fail(error, MMC_E_ARG, "out: %s", what);
  return mmci_fail(error, MMC_E_ARG, "factors[%" PRId32 "]: %s", index, what);
}

/* The bytes from the first element of a matrix, or of all matrices of a batch, to past the last
 * one; and how many one matrix has. */
typedef struct extent {
  uintptr_t start, end, one;
} extent;

/* Returns how many bytes data must be aligned to: those of the real type. */
static size_t alignment_of(mmc_dtype dtype) {
  size_t size = mmc_dtype_size(dtype);
  return dtype == MMC_C64 || dtype == MMC_C128 ? size / 2 : size;
}

/* Checks shape, layout and gaps; *one is the number of bytes that a matrix extends over, 0 when it
 * is empty. */
static mmc_status check_shape(const mmc_matrix *matrix, int32_t index, int64_t rows, int64_t cols,
                              mmc_dtype dtype, uintptr_t *one, mmci_error *error) {
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
  if (matrix->ld != 0 && matrix->ld < length) {
    char what[80];
    snprintf(what, sizeof what, "expected an ld of at least %" PRId64 ", or 0, got %" PRId64,
             length, matrix->ld);
    return fail_matrix(index, what, error);
  }
  *one = 0;
  if (rows == 0 || cols == 0) return MMC_OK;
  int64_t elements, size;
  if (__builtin_mul_overflow(lines - 1, mmci_matrix_ld(matrix), &elements) ||
      __builtin_add_overflow(elements, length, &elements) ||
      __builtin_mul_overflow(elements, (int64_t)mmc_dtype_size(dtype), &size))
    return fail_matrix(index, "ld exceeds the address space", error);
  *one = (uintptr_t)size;
  return MMC_OK;
}

/* Checks where a matrix of so many bytes begins, and widens the extent to it. */
static mmc_status check_address(uintptr_t start, int32_t index, mmc_dtype dtype, extent *bytes,
                                mmci_error *error) {
  if (start == 0) return fail_matrix(index, "data is NULL", error);
  if ((start & (alignment_of(dtype) - 1)) != 0)
    return fail_matrix(index, "data is not aligned to its real type", error);
  if (bytes->one > UINTPTR_MAX - start)
    return fail_matrix(index, "ld exceeds the address space", error);
  if (start < bytes->start) bytes->start = start;
  if (start + bytes->one > bytes->end) bytes->end = start + bytes->one;
  return MMC_OK;
}

/* Checks a matrix; of a batch also the last one, or all when they have addresses. */
static mmc_status check_matrix(const mmc_chain *chain, const mmc_matrix *matrix, int32_t index,
                               int64_t rows, int64_t cols, extent *bytes, mmci_error *error) {
  *bytes = (extent){.start = UINTPTR_MAX};
  mmc_status status = check_shape(matrix, index, rows, cols, chain->dtype, &bytes->one, error);
  if (status != MMC_OK || bytes->one == 0 || chain->batch == 0) return status;
  if (matrix->addresses != NULL) {
    for (int64_t i = 0; i < chain->batch && status == MMC_OK; i++)
      status = check_address((uintptr_t)matrix->addresses[i], index, chain->dtype, bytes, error);
    return status;
  }
  status = check_address((uintptr_t)matrix->data, index, chain->dtype, bytes, error);
  if (status != MMC_OK || chain->batch == 1) return status;
  int64_t last, offset;
  const uintptr_t start = (uintptr_t)matrix->data;
  if (__builtin_mul_overflow(chain->batch - 1, matrix->stride, &last) ||
      __builtin_mul_overflow(last, (int64_t)mmc_dtype_size(chain->dtype), &offset))
    return fail_matrix(index, "stride exceeds the address space", error);
  const uintptr_t span = offset < 0 ? -(uintptr_t)offset : (uintptr_t)offset;
  if (span > PTRDIFF_MAX - bytes->one || (offset < 0 ? span >= start : span > UINTPTR_MAX - start))
    return fail_matrix(index, "stride exceeds the address space", error);
  return check_address(start + (uintptr_t)offset, index, chain->dtype, bytes, error);
}

/* ---- results apart from each other and from factors ------------------------------------------ */

/* Where the matrices of the result lie: a table of addresses in rising order, or a start and a
 * step. */
typedef struct places {
  uintptr_t *sorted; /* NULL when there is no table */
  uintptr_t start, step, one;
  int64_t count;
} places;

static int compare_addresses(const void *a, const void *b) {
  uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
  return (x > y) - (x < y);
}

static mmc_status sort_places(const mmc_matrix *out, places *x, mmci_error *error) {
  x->sorted = mmci_alloc_array((size_t)x->count, sizeof *x->sorted);
  if (x->sorted == NULL) return mmci_fail_nomem(error, (size_t)x->count * sizeof *x->sorted);
  for (int64_t i = 0; i < x->count; i++) x->sorted[i] = (uintptr_t)out->addresses[i];
  qsort(x->sorted, (size_t)x->count, sizeof *x->sorted, compare_addresses);
  for (int64_t i = 1; i < x->count; i++)
    if (x->sorted[i] - x->sorted[i - 1] < x->one)
      return fail_matrix(-1, "addresses: two results overlap", error);
  return MMC_OK;
}

static mmc_status find_places(const mmc_chain *chain, const mmc_matrix *out, const extent *bytes,
                              places *x, mmci_error *error) {
  *x = (places){.start = bytes->start, .one = bytes->one, .count = chain->batch};
  if (x->count == 0 || bytes->one == 0) {
    x->count = 0;
    return MMC_OK;
  }
  if (out->addresses != NULL) return sort_places(out, x, error);
  size_t size = mmc_dtype_size(chain->dtype);
  uint64_t stride = out->stride < 0 ? -(uint64_t)out->stride : (uint64_t)out->stride;
  if (x->count > 1 && stride < bytes->one / size) {
    char what[128];
    snprintf(what, sizeof what,
             "stride: expected at least %zu elements, which a result extends over, got %" PRId64,
             bytes->one / size, out->stride);
    return fail_matrix(-1, what, error);
  }
  x->step = x->count > 1 ? stride * size : bytes->one;
  return MMC_OK;
}

/* Says whether bytes start to end overlap any of the result's. */
static bool meets(const places *x, uintptr_t start, uintptr_t end) {
  int64_t low = 0, high = x->count; /* ends at the first matrix that ends behind start */
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    uintptr_t at = x->sorted != NULL ? x->sorted[middle] : x->start + (uintptr_t)middle * x->step;
    if (at + x->one <= start)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == x->count) return false;
  return (x->sorted != NULL ? x->sorted[low] : x->start + (uintptr_t)low * x->step) < end;
}

static bool factor_meets(const mmc_chain *chain, const mmc_matrix *factor, const extent *bytes,
                         const extent *result, const places *x) {
  if (bytes->start >= result->end || result->start >= bytes->end) return false;
  bool shared = factor->addresses == NULL && factor->stride == 0;
  int64_t count = shared ? 1 : chain->batch;
  for (int64_t i = 0; i < count; i++) {
    uintptr_t at = (uintptr_t)address_of(factor, (int64_t)mmc_dtype_size(chain->dtype), i);
    if (meets(x, at, at + bytes->one)) return true;
  }
  return false;
}

/* Says whether two matrices of one shape have their elements in the same places; those of vectors
 * may be told by other layouts and gaps. */
static bool same_elements(const mmc_matrix *x, const mmc_matrix *y) {
  if (x->rows != y->rows || x->cols != y->cols || x->location != y->location) return false;
  if (same_shape(x, y) || x->rows == 0 || x->cols == 0 || (x->rows == 1 && x->cols == 1))
    return true;
  if (x->rows != 1 && x->cols != 1) return false;
  const mmc_layout in_a_row = x->rows == 1 ? MMC_ROW_MAJOR : MMC_COL_MAJOR;
  return (x->layout == in_a_row ? 1 : x->ld) == (y->layout == in_a_row ? 1 : y->ld);
}

/* Says whether factor i lies where the first that is stored in its matrix does. */
static bool is_stored_as_said(const mmc_chain *chain, const mmc_matrix *factors, int32_t i) {
  if (chain->stored == NULL || chain->stored[i] == i || chain->batch == 0) return true;
  const mmc_matrix *x = &factors[i], *y = &factors[chain->stored[i]];
  if (!same_elements(x, y)) return false;
  if (x->addresses != NULL || y->addresses != NULL) return x->addresses == y->addresses;
  return x->data == y->data && (chain->batch == 1 || x->stride == y->stride);
}

/* Says whether factor i is the same matrix as the chain says. */
static bool is_as_said(const mmc_chain *chain, const mmc_matrix *factors, int32_t i) {
  if (!is_stored_as_said(chain, factors, i)) return false;
  if (chain->same == NULL || chain->same[i] == i || chain->batch == 0) return true;
  const mmc_matrix *x = &factors[i], *y = &factors[chain->same[i]];
  if (!same_elements(x, y)) return false;
  if (x->addresses != NULL || y->addresses != NULL) return x->addresses == y->addresses;
  return x->data == y->data && (chain->batch == 1 || x->stride == y->stride);
}

/* Says whether factor i is one matrix for all chains where the chain says that. */
static bool is_shared_as_said(const mmc_chain *chain, const mmc_matrix *factors, int32_t i) {
  const mmc_matrix *x = &factors[i];
  if (!mmc_chain_shared(chain, i)) return true;
  bool is_one = x->addresses != NULL || x->stride == 0;
  for (int64_t b = 1; b < chain->batch && x->addresses != NULL && is_one; b++)
    is_one = x->addresses[b] == x->addresses[0];
  return is_one;
}

bool mmci_matrix_is_line(const mmc_chain *chain, int32_t i, const mmc_matrix *matrix) {
  return chain->traits != NULL && mmci_traits_take_line(chain->traits[i]) && matrix->rows == 1 &&
         chain->dims[i] > 1 && chain->dims[i] == chain->dims[i + 1];
}

static mmc_status check_factors(const mmc_chain *chain, const mmc_matrix *factors, bool lines,
                                const extent *result, const places *x, mmci_error *error) {
  mmc_status status = MMC_OK;
  for (int32_t i = 0; i < chain->n && status == MMC_OK; i++) {
    bool as_is = chain->ops[i] == MMC_OP_N;
    extent bytes;
    const bool is_line = lines && mmci_matrix_is_line(chain, i, &factors[i]);
    status = check_matrix(chain, &factors[i], i, is_line ? 1 : chain->dims[as_is ? i : i + 1],
                          chain->dims[as_is ? i + 1 : i], &bytes, error);
    if (status == MMC_OK && factor_meets(chain, &factors[i], &bytes, result, x))
      status = fail_matrix(i, "overlaps the result", error);
    if (status == MMC_OK && !is_as_said(chain, factors, i))
      status = fail_matrix(i, "expected the same matrix as the chain says (same)", error);
    if (status == MMC_OK && !is_shared_as_said(chain, factors, i))
      status = fail_matrix(
          i, "expected one matrix for all chains, of stride 0, as the chain says (shared)", error);
  }
  return status;
}

static mmc_status check_all(const mmc_chain *chain, const mmc_matrix *factors, bool lines,
                            const mmc_matrix *out, mmci_error *error) {
  if (factors == NULL) return mmci_fail(error, MMC_E_ARG, "factors: expected an array, got NULL");
  if (out == NULL) return mmci_fail(error, MMC_E_ARG, "out: expected a matrix, got NULL");
  extent result;
  places places = {0};
  mmc_status status =
      check_matrix(chain, out, -1, chain->dims[0], chain->dims[chain->n], &result, error);
  if (status == MMC_OK) status = find_places(chain, out, &result, &places, error);
  if (status == MMC_OK) status = check_factors(chain, factors, lines, &result, &places, error);
  free(places.sorted);
  return status;
}

mmc_status mmci_matrices_check(const mmc_chain *chain, const mmc_matrix *factors,
                               const mmc_matrix *out, mmci_error *error) {
  return check_all(chain, factors, false, out, error);
}

mmc_status mmci_matrices_check_lines(const mmc_chain *chain, const mmc_matrix *factors,
                                     const mmc_matrix *out, mmci_error *error) {
  return check_all(chain, factors, true, out, error);
}

/* Says of one matrix what is wrong with it by its name, in place of the result's. */
static mmc_status fail_by_name(const char *name, const mmci_error *found, mmci_error *error) {
  if (found->status == MMC_E_NOMEM) return mmci_fail(error, found->status, "%s", found->text);
  const size_t skipped = sizeof "out: " - 1;
  return mmci_fail_argument(error, found->status, name, "%s", found->text + skipped);
}

mmc_status mmci_matrix_check(const mmc_chain *chain, const char *name, const mmc_matrix *matrix,
                             int64_t rows, int64_t cols, mmci_error *error) {
  if (matrix == NULL)
    return mmci_fail_argument(error, MMC_E_ARG, name, "expected a matrix, got NULL");
  mmci_error found = {0};
  extent bytes;
  mmc_status status = check_matrix(chain, matrix, -1, rows, cols, &bytes, &found);
  return status == MMC_OK ? MMC_OK : fail_by_name(name, &found, error);
}

mmc_status mmci_matrix_check_result(const mmc_chain *chain, const char *name,
                                    const mmc_matrix *matrix, int64_t rows, int64_t cols,
                                    mmci_error *error) {
  if (matrix == NULL)
    return mmci_fail_argument(error, MMC_E_ARG, name, "expected a matrix, got NULL");
  mmci_error found = {0};
  extent bytes;
  places places = {0};
  mmc_status status = check_matrix(chain, matrix, -1, rows, cols, &bytes, &found);
  if (status == MMC_OK) status = find_places(chain, matrix, &bytes, &places, &found);
  free(places.sorted);
  return status == MMC_OK ? MMC_OK : fail_by_name(name, &found, error);
}

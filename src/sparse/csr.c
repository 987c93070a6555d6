#include "sparse/csr.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"

void mmci_csr_release(mmci_csr *a) {
  for (int i = 0; i < 3; i++) free(a->memory[i]);
  *a = (mmci_csr){0};
}

mmc_status mmci_csr_create(mmc_dtype dtype, int64_t rows, int64_t cols, int64_t nonzeros,
                           mmci_csr *out, mmci_error *error) {
  const size_t size = mmc_dtype_size(dtype), count = (size_t)nonzeros, lines = (size_t)rows + 1;
  mmci_csr a = {.dtype = dtype, .rows = rows, .cols = cols};
  a.memory[0] = mmci_alloc_zeroed(lines, sizeof *a.indptr);
  a.memory[1] = mmci_alloc_array(count, sizeof *a.indices);
  a.memory[2] = mmci_alloc_array(count, size);
  a.indptr = a.memory[0];
  a.indices = a.memory[1];
  a.values = a.memory[2];
  if (a.indptr == NULL || a.indices == NULL || a.values == NULL) {
    mmci_csr_release(&a);
    mmci_fail_nomem(error, (uint64_t)count * (size + sizeof *a.indices));
    return MMC_E_NOMEM;
  }
  *out = a;
  return MMC_OK;
}

/* ---- a caller's matrix ----------------------------------------------------------------------- */

static int64_t number_at(const void *numbers, int bytes, int64_t i) {
  return bytes == 4 ? ((const int32_t *)numbers)[i] : ((const int64_t *)numbers)[i];
}

/* Defines what says in one passage without branches whether all columns are at least 0 and below
 * cols, and whether indptr begins with 0 and never falls: the highest bit of something is set where
 * that is not so. */
#define CHECKS(bits)                                                                \
  static bool are_columns_##bits(const mmc_csr *x, int64_t count) {                 \
    const uint##bits##_t *at = x->indices, most = (uint##bits##_t)(x->cols - 1);    \
    uint##bits##_t signs = 0;                                                       \
    for (int64_t e = 0; e < count; e++) signs |= at[e] | (most - at[e]);            \
    return signs >> (bits - 1) == 0;                                                \
  }                                                                                 \
  static bool is_rising_##bits(const mmc_csr *x) {                                  \
    const uint##bits##_t *at = x->indptr;                                           \
    uint##bits##_t signs = at[0];                                                   \
    for (int64_t r = 0; r < x->rows; r++) signs |= at[r + 1] | (at[r + 1] - at[r]); \
    return at[0] == 0 && signs >> (bits - 1) == 0;                                  \
  }
CHECKS(32)
CHECKS(64)

static mmc_status check_numbers(const mmc_csr *x, const char *name, mmci_error *error) {
  if (x->rows < 0 || x->cols < 0)
    return mmci_fail(error, MMC_E_ARG, "%s: expected rows and cols of 0 or more", name);
  if (x->rows > MMCI_CSR_SIDE || x->cols > MMCI_CSR_SIDE)
    return mmci_fail(error, MMC_E_UNSUPPORTED,
                     "%s: expected sides of at most %" PRId64 " in a sparse chain", name,
                     MMCI_CSR_SIDE);
  if (x->index_bytes != 4 && x->index_bytes != 8)
    return mmci_fail(error, MMC_E_ARG, "%s: expected index_bytes 4 or 8, got %d", name,
                     x->index_bytes);
  if (x->indptr == NULL)
    return mmci_fail(error, MMC_E_ARG, "%s: expected an address of indptr, got NULL", name);
  const bool is_short = x->index_bytes == 4;
  const bool rises = is_short ? is_rising_32(x) : is_rising_64(x);
  for (int64_t r = 0; !rises && r <= x->rows; r++) {
    const int64_t at = number_at(x->indptr, x->index_bytes, r),
                  before = r > 0 ? number_at(x->indptr, x->index_bytes, r - 1) : 0;
    if (at < before || (r == 0 && at != 0))
      return mmci_fail(error, MMC_E_ARG,
                       "%s: expected indptr that begins with 0 and never falls, got %" PRId64
                       " at %" PRId64,
                       name, at, r);
  }
  const int64_t count = number_at(x->indptr, x->index_bytes, x->rows);
  if (count > 0 && (x->indices == NULL || x->values == NULL))
    return mmci_fail(error, MMC_E_ARG, "%s: expected addresses of indices and values, got NULL",
                     name);
  const bool sound = is_short ? are_columns_32(x, count) : are_columns_64(x, count);
  for (int64_t e = 0; !sound && e < count; e++) {
    const int64_t col = number_at(x->indices, x->index_bytes, e);
    if (col < 0 || col >= x->cols)
      return mmci_fail(error, MMC_E_ARG,
                       "%s: expected indices from 0 to %" PRId64 ", got %" PRId64 " at %" PRId64,
                       name, x->cols - 1, col, e);
  }
  return MMC_OK;
}

mmc_status mmci_csr_read(mmc_dtype dtype, const mmc_csr *given, const char *name, mmci_csr *out,
                         mmci_error *error) {
  mmc_status status = check_numbers(given, name, error);
  if (status != MMC_OK) return status;
  mmci_csr a = {.dtype = dtype, .rows = given->rows, .cols = given->cols};
  const size_t lines = (size_t)given->rows + 1;
  const int64_t count = number_at(given->indptr, given->index_bytes, given->rows);
  a.values = (void *)given->values;
  if (given->index_bytes == 8) {
    a.indptr = (void *)given->indptr;
    a.memory[1] = mmci_alloc_array((size_t)count, sizeof *a.indices);
    a.indices = a.memory[1];
    for (int64_t e = 0; a.indices != NULL && e < count; e++)
      a.indices[e] = (int32_t)((const int64_t *)given->indices)[e];
  } else {
    a.indices = (void *)given->indices;
    a.memory[0] = mmci_alloc_array(lines, sizeof *a.indptr);
    a.indptr = a.memory[0];
    for (size_t r = 0; a.indptr != NULL && r < lines; r++)
      a.indptr[r] = ((const int32_t *)given->indptr)[r];
  }
  if (a.memory[0] == NULL && a.memory[1] == NULL)
    return mmci_fail_nomem(error, (uint64_t)count * sizeof *a.indices);
  *out = a;
  return MMC_OK;
}

/* ---- elements -------------------------------------------------------------------------------- */

static void add_element(mmc_dtype dtype, void *to, const void *element) {
  const bool single = dtype == MMC_F32 || dtype == MMC_C64;
  for (int p = 0; p <= mmci_dtype_is_complex(dtype); p++) {
    if (single)
      ((float *)to)[p] += ((const float *)element)[p];
    else
      ((double *)to)[p] += ((const double *)element)[p];
  }
}

/* Puts the elements of A, of a size that the compiler knows, where they lie in its transposed
 * matrix, of which indptr says where rows begin, and then where they end. */
#define PLACE static inline __attribute__((always_inline))
PLACE void place_elements(const mmci_csr *a, size_t size, mmci_csr *t) {
  const char *values = a->values;
  char *placed = t->values;
  for (int64_t r = 0; r < a->rows; r++)
    for (int64_t e = a->indptr[r]; e < a->indptr[r + 1]; e++) {
      const int64_t at = t->indptr[a->indices[e]]++;
      t->indices[at] = (int32_t)r;
      memcpy(placed + (size_t)at * size, values + (size_t)e * size, size);
    }
}

mmc_status mmci_csr_transpose(const mmci_csr *a, bool conjugate, mmci_csr *out, mmci_error *error) {
  const size_t size = mmc_dtype_size(a->dtype);
  mmci_csr t = {0};
  mmc_status status = mmci_csr_create(a->dtype, a->cols, a->rows, mmci_csr_nonzeros(a), &t, error);
  if (status != MMC_OK) return status;
  const int64_t count = mmci_csr_nonzeros(a);
  for (int64_t e = 0; e < count; e++) t.indptr[a->indices[e] + 1]++;
  for (int64_t c = 0; c < a->cols; c++) t.indptr[c + 1] += t.indptr[c];
  if (size == 4) place_elements(a, 4, &t);
  if (size == 8) place_elements(a, 8, &t);
  if (size == 16) place_elements(a, 16, &t);
  for (int64_t e = 0; conjugate && e < count; e++)
    mmci_element_conjugate(a->dtype, (char *)t.values + (size_t)e * size);
  for (int64_t c = a->cols; c > 0; c--) t.indptr[c] = t.indptr[c - 1];
  t.indptr[0] = 0;
  *out = t;
  return MMC_OK;
}

mmc_status mmci_csr_from_dense(mmc_dtype dtype, int64_t rows, int64_t cols, const void *data,
                               int64_t ld, mmci_csr *out, mmci_error *error) {
  const size_t size = mmc_dtype_size(dtype);
  const char *bytes = data;
  int64_t count = 0;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++)
      count += !mmci_element_is_zero(dtype, bytes + (size_t)(r * ld + c) * size);
  mmci_csr a = {0};
  mmc_status status = mmci_csr_create(dtype, rows, cols, count, &a, error);
  if (status != MMC_OK) return status;
  int64_t at = 0;
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t c = 0; c < cols; c++) {
      const char *element = bytes + (size_t)(r * ld + c) * size;
      if (mmci_element_is_zero(dtype, element)) continue;
      a.indices[at] = (int32_t)c;
      memcpy((char *)a.values + (size_t)at++ * size, element, size);
    }
    a.indptr[r + 1] = at;
  }
  *out = a;
  return MMC_OK;
}

void mmci_csr_add_to_dense(const mmci_csr *a, void *data, int64_t ld) {
  const size_t size = mmc_dtype_size(a->dtype);
  for (int64_t r = 0; r < a->rows; r++)
    for (int64_t e = a->indptr[r]; e < a->indptr[r + 1]; e++)
      add_element(a->dtype, (char *)data + (size_t)(r * ld + a->indices[e]) * size,
                  (const char *)a->values + (size_t)e * size);
}

void mmci_csr_to_dense(const mmci_csr *a, void *data, int64_t ld) {
  const size_t size = mmc_dtype_size(a->dtype);
  for (int64_t r = 0; r < a->rows && a->cols > 0; r++)
    memset((char *)data + (size_t)(r * ld) * size, 0, (size_t)a->cols * size);
  mmci_csr_add_to_dense(a, data, ld);
}

/* Two transpositions put columns in order; then equal neighbours are added up. */
mmc_status mmci_csr_settle(mmci_csr *a, mmci_error *error) {
  const size_t size = mmc_dtype_size(a->dtype);
  mmci_csr turned = {0}, sorted = {0};
  mmc_status status = mmci_csr_transpose(a, false, &turned, error);
  if (status != MMC_OK) return status;
  status = mmci_csr_transpose(&turned, false, &sorted, error);
  mmci_csr_release(&turned);
  if (status != MMC_OK) return status;
  mmci_csr_release(a);
  *a = sorted;
  int64_t kept = 0, begin = 0;
  for (int64_t r = 0; r < a->rows; r++) {
    const int64_t first = kept, end = a->indptr[r + 1];
    for (int64_t e = begin; e < end; e++) {
      const char *value = (const char *)a->values + (size_t)e * size;
      if (kept > first && a->indices[kept - 1] == a->indices[e]) {
        add_element(a->dtype, (char *)a->values + (size_t)(kept - 1) * size, value);
        continue;
      }
      a->indices[kept] = a->indices[e];
      if (kept != e) memcpy((char *)a->values + (size_t)kept * size, value, size);
      kept++;
    }
    begin = end;
    a->indptr[r + 1] = kept;
  }
  return MMC_OK;
}

#include "io/file_array.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"

mmc_status mmci_file_array_create(mmci_file_array **out, mmci_error *error) {
  mmci_file_array *array = mmci_alloc_zeroed(1, sizeof *array);
  if (array == NULL) return mmci_fail_nomem(error, sizeof *array);
  *out = array;
  return MMC_OK;
}

void mmci_file_array_destroy(mmci_file_array *array) {
  if (array == NULL) return;
  mmci_source_release(&array->source);
  free(array->copy);
  free(array);
}

/* ---- how large ----------------------------------------------------------------------------- */

static mmc_matrix matrix_of(const mmci_file_array *array) {
  const int64_t *core = array->shape + array->ndim - 2; /* rows and columns, if ndim is 2 or more */
  if (array->ndim == 1)
    return (mmc_matrix){
        .rows = 1, .cols = array->shape[0], .ld = array->shape[0], .layout = MMC_ROW_MAJOR};
  bool by_columns = array->fortran_order && array->ndim == 2;
  mmc_matrix matrix = {.rows = core[0],
                       .cols = core[1],
                       .ld = by_columns ? core[0] : core[1],
                       .layout = by_columns ? MMC_COL_MAJOR : MMC_ROW_MAJOR};
  return matrix;
}

/* Counts all elements; returns false when they are more than the machine counts. */
static bool count_elements(const mmci_file_array *array, size_t *out) {
  size_t count = 1;
  bool none = false, fits = true;
  for (int d = 0; d < array->ndim; d++) {
    none = none || array->shape[d] == 0;
    fits = fits && !__builtin_mul_overflow(count, (uint64_t)array->shape[d], &count);
  }
  *out = none ? 0 : count;
  return none || fits;
}

static mmc_status fail_size(const mmci_file_array *array, mmci_error *error) {
  return mmci_fail(error, MMC_E_FORMAT,
                   "%s: %s%" PRId64 "x%" PRId64 " elements of %s are more than a file can hold",
                   array->source.shown, array->ndim > 2 ? "a stack of " : "", array->matrix.rows,
                   array->shape[array->ndim - 1], mmc_dtype_name(array->dtype));
}

mmc_status mmci_file_array_measure(mmci_file_array *array, size_t *size_bytes, mmci_error *error) {
  size_t count;
  array->matrix = matrix_of(array);
  if (!count_elements(array, &count) ||
      __builtin_mul_overflow(count, mmc_dtype_size(array->dtype), size_bytes) ||
      *size_bytes > PTRDIFF_MAX)
    return fail_size(array, error);
  if (array->ndim > 2 && *size_bytes > 0)
    array->matrix.stride = array->matrix.rows * array->matrix.cols;
  return MMC_OK;
}

mmc_status mmci_file_array_allocate(mmci_file_array *array, uint64_t stored_bytes,
                                    mmci_error *error) {
  /* Deflate writes at least a bit for 258 bytes, and no filter that is in use does better. */
  const uint64_t most_for_a_byte = 1032;
  size_t size;
  mmc_status status = mmci_file_array_measure(array, &size, error);
  if (status != MMC_OK || size == 0) return status;
  if (size / most_for_a_byte > stored_bytes)
    return mmci_fail(error, MMC_E_FORMAT,
                     "%s: %" PRIu64 " stored bytes cannot be the %zu bytes of its elements",
                     array->source.shown, stored_bytes, size);
  array->copy = mmci_alloc_aligned(size, 1);
  if (array->copy == NULL) return mmci_fail_nomem(error, size);
  array->matrix.data = array->copy;
  return MMC_OK;
}

/* ---- as the machine reads them ------------------------------------------------------------- */

/* Copies count real numbers of real_size bytes, and reverses their bytes when they are foreign. */
static void copy_reals(void *to, const unsigned char *from, size_t count, size_t real_size,
                       bool foreign) {
  if (!foreign) {
    memcpy(to, from, count * real_size);
  } else if (real_size == sizeof(uint16_t)) {
    uint16_t *out = to;
    for (size_t i = 0; i < count; i++) {
      uint16_t x;
      memcpy(&x, from + i * sizeof x, sizeof x);
      out[i] = __builtin_bswap16(x);
    }
  } else if (real_size == sizeof(uint32_t)) {
    uint32_t *out = to;
    for (size_t i = 0; i < count; i++) {
      uint32_t x;
      memcpy(&x, from + i * sizeof x, sizeof x);
      out[i] = __builtin_bswap32(x);
    }
  } else {
    uint64_t *out = to;
    for (size_t i = 0; i < count; i++) {
      uint64_t x;
      memcpy(&x, from + i * sizeof x, sizeof x);
      out[i] = __builtin_bswap64(x);
    }
  }
}

/* A byte has no order, whatever the file says. */
static bool is_foreign(const mmci_file_array *array, size_t real_size) {
  return array->foreign && real_size > 1;
}

static size_t real_size_of(const mmci_file_array *array) {
  const size_t size = mmc_dtype_size(array->dtype);
  return mmci_dtype_is_complex(array->dtype) ? size / 2 : size;
}

void mmci_file_array_turn(mmci_file_array *array) {
  size_t count;
  const size_t real_size = real_size_of(array), parts = mmc_dtype_size(array->dtype) / real_size;
  if (array->copy != NULL && is_foreign(array, real_size) && count_elements(array, &count))
    copy_reals(array->copy, array->copy, count * parts, real_size, true);
}

/* Reverses the order of the dimensions: the first runs fastest in from, the last in to. */
static void to_c_order(const mmci_file_array *array, const unsigned char *from, size_t count,
                       unsigned char *to) {
  size_t size = mmc_dtype_size(array->dtype), steps[MMCI_NDIM_MAX] = {0}, step = 1, place = 0;
  int64_t index[MMCI_NDIM_MAX] = {0};
  for (int d = 0; d < array->ndim; d++) {
    steps[d] = step;
    step *= (size_t)array->shape[d];
  }
  for (size_t i = 0; i < count; i++) {
    memcpy(to + i * size, from + place * size, size);
    for (int d = array->ndim - 1; d >= 0; d--) {
      place += steps[d];
      if (++index[d] < array->shape[d]) break;
      place -= steps[d] * (size_t)array->shape[d];
      index[d] = 0;
    }
  }
}

mmc_status mmci_file_array_place(mmci_file_array *array, size_t offset, mmci_error *error) {
  mmci_source *s = &array->source;
  size_t size, end;
  mmc_status status = mmci_file_array_measure(array, &size, error);
  if (status != MMC_OK) return status;
  if (size == 0) {
    mmci_source_release(s);
    return MMC_OK;
  }
  if (__builtin_add_overflow(size, offset, &end) || end > PTRDIFF_MAX)
    return fail_size(array, error);
  status = mmci_source_fetch(s, end, error);
  if (status != MMC_OK) return status;
  if (s->have < end)
    return mmci_fail(error, MMC_E_FORMAT, "%s: truncated: %zu bytes are there, %zu are needed",
                     s->shown, s->have, end);

  size_t element_size = mmc_dtype_size(array->dtype);
  size_t real_size = real_size_of(array);
  unsigned char *data = s->bytes + offset;
  bool turned = array->fortran_order && array->ndim > 2;
  bool foreign = is_foreign(array, real_size);
  mmci_source_finish(s);
  if (!turned && !foreign && (uintptr_t)data % real_size == 0) {
    array->matrix.data = data;
    return MMC_OK;
  }
  array->copy = mmci_alloc_aligned(size, 1);
  if (array->copy == NULL) return mmci_fail_nomem(error, size);
  if (turned) {
    to_c_order(array, data, size / element_size, array->copy);
    if (foreign) copy_reals(array->copy, array->copy, size / real_size, real_size, true);
  } else {
    copy_reals(array->copy, data, size / real_size, real_size, foreign);
  }
  array->matrix.data = array->copy;
  mmci_source_release(s);
  return MMC_OK;
}

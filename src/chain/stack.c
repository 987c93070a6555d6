/* stack.c: turns stacks of matrices with several axes into one stride or a table of addresses, and
 * those that are chains into factors. */
#include "mmchain.h"

/* Says whether all steps along the axes, the last fastest, have one length. */
static bool one_stride(int ndim, const int64_t *shape, const int64_t *strides, int64_t *out) {
  int64_t stride = 0, next = 0; /* the step that the axis before must have */
  bool found = false;
  for (int d = ndim - 1; d >= 0; d--) {
    if (shape[d] == 1) continue;
    if (found && strides[d] != next) return false;
    if (!found) stride = strides[d];
    found = true;
    if (__builtin_mul_overflow(strides[d], shape[d], &next)) return false;
  }
  *out = stride;
  return true;
}

/* Counts the index on by one, the last axis fastest; returns false past the end. */
static bool advance_index(int ndim, const int64_t *shape, int64_t *index) {
  for (int d = ndim - 1; d >= 0; d--) {
    if (++index[d] < shape[d]) return true;
    index[d] = 0;
  }
  return false;
}

/* Writes the address so many bytes from data, NULL from none; returns false beyond the address
 * space. */
static bool address_at(void *data, int64_t offset, void **out) {
  const uintptr_t start = (uintptr_t)data;
  const uintptr_t length = offset < 0 ? -(uintptr_t)offset : (uintptr_t)offset;
  *out = NULL;
  if (data == NULL) return true;
  if (offset < 0 ? length >= start : length > UINTPTR_MAX - start) return false;
  *out = (char *)data + offset;
  return true;
}

bool mmc_matrix_stack(mmc_matrix *matrix, mmc_dtype dtype, int ndim, const int64_t *shape,
                      const int64_t *strides, void **addresses) {
  enum { AXES = 64 };
  if (matrix == NULL || mmc_dtype_size(dtype) == 0 || ndim < 0) return false;
  if (ndim > 0 && (shape == NULL || strides == NULL)) return false;
  for (int d = 0; d < ndim; d++)
    if (shape[d] < 0) return false;
  matrix->stride = 0;
  matrix->addresses = NULL;
  for (int d = 0; d < ndim; d++)
    if (shape[d] == 0) return true;
  if (one_stride(ndim, shape, strides, &matrix->stride)) return true;
  if (addresses == NULL || ndim > AXES) return false;
  int64_t index[AXES] = {0}, i = 0, size = (int64_t)mmc_dtype_size(dtype);
  do {
    int64_t offset = 0, step;
    for (int d = 0; d < ndim; d++)
      if (__builtin_mul_overflow(index[d], strides[d], &step) ||
          __builtin_add_overflow(offset, step, &offset))
        return false;
    if (__builtin_mul_overflow(offset, size, &offset) ||
        !address_at(matrix->data, offset, &addresses[i++]))
      return false;
  } while (advance_index(ndim, shape, index));
  matrix->addresses = addresses;
  return true;
}

bool mmc_matrix_chain(const mmc_matrix *stack, mmc_dtype dtype, int64_t n, int64_t step,
                      mmc_matrix *factors) {
  const int64_t size = (int64_t)mmc_dtype_size(dtype);
  int64_t bytes, all;
  void *end;
  if (stack == NULL || factors == NULL || n < 1 || size == 0 || stack->addresses != NULL ||
      (stack->layout != MMC_ROW_MAJOR && stack->layout != MMC_COL_MAJOR) ||
      __builtin_mul_overflow(step, size, &bytes) || __builtin_mul_overflow(bytes, n, &all) ||
      !address_at(stack->data, all - bytes, &end))
    return false;
  for (int64_t i = 0; i < n; i++) {
    factors[i] = *stack;
    address_at(stack->data, i * bytes, &factors[i].data);
  }
  return true;
}

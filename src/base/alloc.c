#include "base/alloc.h"

void *mmci_alloc_array(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
  return malloc(bytes != 0 ? bytes : 1);
}

void *mmci_alloc_zeroed(size_t count, size_t size) {
  return count != 0 ? calloc(count, size) : calloc(1, 1);
}

void *mmci_alloc_aligned(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - MMCI_ALIGNMENT) return NULL;
  bytes = (bytes + MMCI_ALIGNMENT - 1) & ~(size_t)(MMCI_ALIGNMENT - 1);
  return aligned_alloc(MMCI_ALIGNMENT, bytes != 0 ? bytes : MMCI_ALIGNMENT);
}

uint64_t mmci_result_bytes(int64_t rows, int64_t cols, size_t element_size) {
  int64_t elements, bytes;
  if (__builtin_mul_overflow(rows, cols, &elements) ||
      __builtin_mul_overflow(elements, (int64_t)element_size, &bytes))
    return UINT64_MAX;
  return ((uint64_t)bytes + MMCI_ALIGNMENT - 1) & ~(uint64_t)(MMCI_ALIGNMENT - 1);
}

uint64_t mmci_bytes_add(uint64_t a, uint64_t b) {
  uint64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

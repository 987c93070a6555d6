#include "base/alloc.h"

#include <string.h>

#if defined __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

/* Arrays from 24 MiB on are put on large pages where the system has them: the faults of small ones
 * take longer than what a chain of 10^6 factors does with the memory. Of smaller arrays, pages that
 * are never written would count for more than the faults. */
static void *on_large_pages(void *memory, size_t count, size_t size) {
#if defined MADV_HUGEPAGE
  const size_t large = (size_t)24 << 20, bytes = count * size;
  if (memory == NULL || bytes < large) return memory;
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (uintptr_t)memory & (page - 1);
  const size_t skipped = before > 0 ? page - before : 0;
  (void)madvise((char *)memory + skipped, (bytes - skipped) & ~(page - 1), MADV_HUGEPAGE);
#else
  (void)count;
  (void)size;
#endif
  return memory;
}

/* It is not inlined: the compiler makes calloc() of malloc() and zeros where it sees both. */
__attribute__((noinline)) void *mmci_alloc_array(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
  return on_large_pages(malloc(bytes != 0 ? bytes : 1), count, size);
}

/* glibc's calloc() takes nothing from the thread's cache, which a plan's little arrays come from.
 */
void *mmci_alloc_zeroed(size_t count, size_t size) {
  enum { LITTLE = 1024 };
  size_t bytes;
  if (!__builtin_mul_overflow(count, size, &bytes) && bytes - 1 < LITTLE) {
    void *memory = mmci_alloc_array(1, bytes);
    return memory != NULL ? memset(memory, 0, bytes) : NULL;
  }
  return on_large_pages(count != 0 ? calloc(count, size) : calloc(1, 1), count, size);
}

void *mmci_alloc_aligned(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - MMCI_ALIGNMENT) return NULL;
  bytes = mmci_aligned_size(bytes);
  return aligned_alloc(MMCI_ALIGNMENT, bytes != 0 ? bytes : MMCI_ALIGNMENT);
}

uint64_t mmci_result_bytes(int64_t rows, int64_t cols, size_t element_size) {
  int64_t elements, bytes;
  if (__builtin_mul_overflow(rows, cols, &elements) ||
      __builtin_mul_overflow(elements, (int64_t)element_size, &bytes))
    return UINT64_MAX;
  return mmci_aligned_size((size_t)bytes);
}

uint64_t mmci_bytes_add(uint64_t a, uint64_t b) {
  uint64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

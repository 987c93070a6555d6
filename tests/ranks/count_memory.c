/* count_memory.c: preloaded, counts the bytes that a process has from malloc() and its kin, and how
 * many they were at most. */
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *bytes, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *bytes);

static _Atomic long held, most;

static void *add(void *bytes) {
  if (bytes == NULL) return NULL;
  const long size = (long)malloc_usable_size(bytes), now = atomic_fetch_add(&held, size) + size;
  for (long seen = most; now > seen && !atomic_compare_exchange_weak(&most, &seen, now);) continue;
  return bytes;
}

static void subtract(void *bytes) {
  if (bytes != NULL) atomic_fetch_sub(&held, (long)malloc_usable_size(bytes));
}

EXPORT void *malloc(size_t size) {
  return add(__libc_malloc(size));
}
EXPORT void *calloc(size_t count, size_t size) {
  return add(__libc_calloc(count, size));
}
EXPORT void *realloc(void *bytes, size_t size) {
  const long before = bytes != NULL ? (long)malloc_usable_size(bytes) : 0;
  void *other = __libc_realloc(bytes, size);
  if (other != NULL || size == 0) atomic_fetch_sub(&held, before);
  return add(other);
}
EXPORT void *aligned_alloc(size_t alignment, size_t size) {
  return add(__libc_memalign(alignment, size));
}
EXPORT int posix_memalign(void **out, size_t alignment, size_t size) {
  void *bytes = add(__libc_memalign(alignment, size));
  if (bytes == NULL) return ENOMEM;
  *out = bytes;
  return 0;
}
EXPORT void free(void *bytes) {
  subtract(bytes);
  __libc_free(bytes);
}

/* Returns the most bytes that were held since the call before, beyond those held then. */
EXPORT long test_bytes_held(void);
long test_bytes_held(void) {
  static long before;
  const long more = most - before, now = held;
  most = now;
  before = now;
  return more;
}

/* failing_malloc.c: the names of the allocator in the program itself come before those of the C
 * library, for every library that is loaded. What they return is the C library's, which frees it.
 */
#include "failing_malloc.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

static atomic_long left = LONG_MAX, count, failed;
static atomic_bool on, always;

static bool fails(void) {
  if (!on) return false;
  count++;
  if (left-- > 0 || (failed > 0 && !always)) return false;
  failed++;
  errno = ENOMEM;
  return true;
}

void malloc_fails_after(long allocations, bool for_good) {
  left = allocations;
  count = failed = 0;
  always = for_good;
  on = true;
}

long malloc_fails_no_more(long *seen) {
  on = false;
  if (seen != NULL) *seen = count;
  return failed;
}

/* Returns the C library's function of a name, whose address is kept at *kept. */
static void *next(void *_Atomic *kept, const char *name) {
  if (*kept == NULL) *kept = dlsym(RTLD_NEXT, name);
  return *kept;
}

/* Defines a function that returns memory, with its parameters and how they are passed on. */
#define ALLOCATOR(name, parameters, arguments)                   \
  __attribute__((visibility("default"))) void *name parameters { \
    static void *_Atomic kept;                                   \
    void *(*function)parameters;                                 \
    void *found = next(&kept, #name);                            \
    memcpy(&function, &found, sizeof function);                  \
    return fails() ? NULL : function arguments;                  \
  }

void *malloc(size_t size);
void *calloc(size_t elements, size_t size);
void *realloc(void *old, size_t size);
void *aligned_alloc(size_t alignment, size_t size);
void *memalign(size_t alignment, size_t size);
int posix_memalign(void **out, size_t alignment, size_t size);

ALLOCATOR(malloc, (size_t size), (size))
ALLOCATOR(calloc, (size_t elements, size_t size), (elements, size))
ALLOCATOR(realloc, (void *old, size_t size), (old, size))
ALLOCATOR(aligned_alloc, (size_t alignment, size_t size), (alignment, size))
ALLOCATOR(memalign, (size_t alignment, size_t size), (alignment, size))

__attribute__((visibility("default"))) int posix_memalign(void **out, size_t alignment,
                                                          size_t size) {
  void *memory = memalign(alignment, size);
  if (memory == NULL) return ENOMEM;
  *out = memory;
  return 0;
}

#include "failing_allocations.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
// clang-format off
#include <cmocka.h>
// clang-format on

long allocations_left = -1;
long allocation_failures;

static bool fails(void) {
  if (allocations_left < 0 || allocations_left-- > 0) return false;
  allocation_failures++;
  errno = ENOMEM;
  return true;
}

void *failing_calloc(size_t count, size_t size);
void *failing_realloc(void *old, size_t size);
void *failing_aligned_alloc(size_t alignment, size_t size);
char *failing_strdup(const char *string);
void *failing_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);

void *failing_malloc(size_t size) {
  return fails() ? NULL : malloc(size);
}
void *failing_calloc(size_t count, size_t size) {
  return fails() ? NULL : calloc(count, size);
}
void *failing_realloc(void *old, size_t size) {
  return fails() ? NULL : realloc(old, size);
}
void *failing_aligned_alloc(size_t alignment, size_t size) {
  return fails() ? NULL : aligned_alloc(alignment, size);
}
char *failing_strdup(const char *string) {
  return fails() ? NULL : strdup(string);
}
void *failing_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
  return fails() ? MAP_FAILED : mmap(address, size, protection, flags, file, offset);
}

long fail_each_allocation(mmc_status (*scenario)(void)) {
  for (long k = 0;; k++) {
    allocation_failures = 0;
    allocations_left = k;
    mmc_status status = scenario();
    allocations_left = -1;
    if (allocation_failures == 0) {
      assert_int_equal(status, MMC_OK);
      return k;
    }
    if (status != MMC_E_NOMEM)
      fail_msg("allocation %ld failed and the status was: %s", k, mmc_status_string(status));
  }
}

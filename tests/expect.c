#include "expect.h"

#include <dlfcn.h>
#include <stdio.h>

int failures, checks;

bool expect(bool held, const char *what) {
  checks++;
  if (held) return true;
  failures++;
  printf("FAILED: %s\n", what);
  return false;
}

bool expect_ok(mmc_status status, const mmci_error *error, const char *what) {
  if (!expect(status == MMC_OK, what)) printf("  status %d: %s\n", (int)status, error->text);
  return status == MMC_OK;
}

void expect_context_ends(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  int (*reset)(int device) = NULL;
  if (driver != NULL) *(void **)&reset = dlsym(driver, "cuDevicePrimaryCtxReset_v2");
  if (reset != NULL) expect(reset(0) == 0, "the context ends");
}

int expect_summary(void) {
  printf("%d checks, %d failed\n", checks, failures);
  return failures == 0 ? 0 : 1;
}

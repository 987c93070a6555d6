/* gpu_test.h: the frame of a test on a GPU.
 *
 *     TEST MODULE [MODE]
 *
 * MODULE is mmchain-cuda.so. MODE is "small" for tools that check every access, "race" for one that
 * does not outlive thousands of launches, or the test's own. Exit status 77: there is no device. */
#ifndef GPU_TEST_H
#define GPU_TEST_H

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "../expect.h"
#include "device/device.h"

typedef struct target {
  const mmci_device_ops *ops;
  mmci_device *device; /* number 0 */
  int count;           /* of devices */
  void *module;
  const char *mode;
  bool small, race; /* race is small, too */
} target;

static inline int gpu_test_run(target *on, void (*tests)(const target *on)) {
  mmci_error error = {0};
  if (on->ops->abi != MMCI_DEVICE_ABI || on->ops->size != sizeof *on->ops ||
      on->ops->probe(&on->count, &error) != MMC_OK) {
    printf("FAILED: the module is of another build, or its probe fails: %s\n", error.text);
    return 1;
  }
  if (on->count == 0) {
    printf("skipped: no CUDA device (%s)\n", error.text);
    return TEST_SKIPPED;
  }
  if (on->ops->open(0, &on->device, &error) != MMC_OK) {
    printf("FAILED: %s\n", error.text);
    return 1;
  }
  char facts[256];
  on->ops->describe(on->device, facts, sizeof facts);
  printf("%s\n", facts);
  tests(on);
  on->ops->close(on->device);
  if (on->small) expect_context_ends();
  return expect_summary();
}

/* What main returns. */
static inline int gpu_test_main(int argc, char **argv, void (*tests)(const target *on)) {
  if (argc < 2) {
    printf("usage: %s MODULE [small | race]\n", argv[0]);
    return 2;
  }
  target on = {.module = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL), .mode = argc > 2 ? argv[2] : ""};
  if (on.module == NULL) {
    printf("FAILED: %s\n", dlerror());
    return 1;
  }
  mmci_module_entry_fn entry;
  *(void **)&entry = dlsym(on.module, "mmci_module_entry");
  if (entry == NULL) {
    printf("FAILED: the module exports no mmci_module_entry\n");
    return 1;
  }
  on.ops = entry();
  on.race = strcmp(on.mode, "race") == 0;
  on.small = on.race || strcmp(on.mode, "small") == 0;
  return gpu_test_run(&on, tests);
}

#endif

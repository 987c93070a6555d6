#include "devices.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../howto/toy_device.h"
#include "../run/fake_device.h"
#include "base/monotonic.h"

/* This list takes the place of the library's. */
const mmci_device_kind mmci_device_kinds[] = {
#ifdef MMCI_WITH_BLAS
    {.name = "blas", .ops = &mmci_device_blas, .meter = "rapl"},
#endif
    {.name = "ref", .ops = &mmci_device_ref, .meter = "rapl"},
    {.name = "toy", .ops = &toy_device, .meter = "rapl"},
    {.name = "fake", .ops = &mmci_device_fake, .meter = "rapl"},
    {.name = "cuda", .is_module = true, .meter = "nvml", .absent = "needs mmchain-cuda.so"},
    {.name = NULL},
};

bool has_own_memory(const subject *on) {
  return on->ops->async != NULL;
}

bool supports_dtype(const subject *on, mmc_dtype dtype) {
  const mmci_gemm gemm = mmci_gemm_tight(dtype, MMCI_NATIVE, 2, 2, 2, MMC_OP_N, MMC_OP_N);
  return on->ops->supports(on->device, &gemm);
}

static void run_tests(const subject *on, const conformance_test *tests) {
  for (const conformance_test *t = tests; t->name != NULL; t++) {
    const double start = mmci_now_s();
    if (on->race && !t->races) continue;
    t->run(on);
    if (on->is_fake) expect(fake_fault(on->device)[0] == '\0', fake_fault(on->device));
    printf("%-8s %-28s %6.2f s, %d checks so far, %d failed\n", on->name, t->name,
           mmci_now_s() - start, checks, failures);
    fflush(stdout);
  }
}

/* Runs the tests on an opened device, with a queue of its own. */
static bool run_on(const mmci_opened *opened, subject *on, const conformance_test *tests) {
  char text[256];
  mmci_error error = {0};
  on->ops = opened->ops;
  on->device = opened->device;
  on->name = opened->name;
  on->is_cuda = strncmp(on->name, "cuda", 4) == 0;
  on->is_blas = strcmp(on->name, "blas") == 0;
  on->is_fake = strcmp(on->name, "fake") == 0;
  on->ops->describe(on->device, text, sizeof text);
  printf("%s: %s\n", on->name, text);
  if (!expect_ok(on->ops->queue_open(on->device, &on->queue, &error), &error, "queue_open"))
    return false;
  run_tests(on, tests);
  on->ops->queue_close(on->queue);
  return true;
}

/* Opens the device, and runs the tests on it. Returns 77 where the device is not here. */
static int test_device(const char *name, const char *module_dir, subject *on,
                       const conformance_test *tests) {
  mmci_registry *registry;
  mmci_opened opened;
  mmci_error error = {0};
  if (!expect_ok(mmci_registry_create(module_dir, &registry, &error), &error, "a registry"))
    return 1;
  mmc_status status = mmci_registry_open(registry, name, &opened, &error);
  on->module_dir = module_dir;
  if (status == MMC_OK)
    run_on(&opened, on, tests);
  else
    printf("%s: %s: %s\n", status == MMC_E_UNSUPPORTED ? "skipped" : "FAILED", name, error.text);
  const bool is_cuda = status == MMC_OK && on->is_cuda;
  mmci_registry_destroy(registry);
  if (is_cuda && on->small) expect_context_ends();
  return status == MMC_OK ? 0 : status == MMC_E_UNSUPPORTED ? TEST_SKIPPED : 1;
}

/* A module that does not load, or is of another build, is no reason to skip. */
static bool module_is_sound(const char *path) {
  void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  mmci_module_entry_fn entry = NULL;
  if (module != NULL) *(void **)&entry = dlsym(module, "mmci_module_entry");
  const mmci_device_ops *ops = entry != NULL ? entry() : NULL;
  const bool sound = ops != NULL && ops->abi == MMCI_DEVICE_ABI && ops->size == sizeof *ops;
  if (!sound) printf("FAILED: %s: %s\n", path, module == NULL ? dlerror() : "of another build");
  if (module != NULL) dlclose(module);
  return sound;
}

/* The device of the module .../mmchain-NAME.so. */
static int test_module(const char *path, subject *on, const conformance_test *tests) {
  static const char prefix[] = "mmchain-";
  char dir[4096], name[64];
  const char *slash = strrchr(path, '/'), *file = slash != NULL ? slash + 1 : path;
  if (strncmp(file, prefix, strlen(prefix)) != 0) {
    printf("FAILED: expected a module mmchain-NAME.so, got '%s'\n", path);
    return 2;
  }
  if (!module_is_sound(path)) return 1;
  snprintf(dir, sizeof dir, "%.*s", slash != NULL ? (int)(slash - path) : 1,
           slash != NULL ? path : ".");
  file += strlen(prefix);
  snprintf(name, sizeof name, "%.*s", (int)strcspn(file, "."), file);
  return test_device(name, dir, on, tests);
}

static bool is_module(const char *text) {
  const size_t length = strlen(text);
  return length > 3 && strcmp(text + length - 3, ".so") == 0;
}

/* Takes the size of the tests; false when the text is none. */
static bool take_size(const char *text, subject *on) {
  const bool race = strcmp(text, "race") == 0, small = race || strcmp(text, "small") == 0;
  if (!small && strcmp(text, "full") != 0) return false;
  on->race = race;
  on->small = small;
  return true;
}

int conformance_main(int argc, char **argv, const conformance_test *tests) {
  static char *compiled_in[] = {"ref", "cpu", "toy", "fake", NULL};
  const char *modules = getenv("MMCHAIN_MODULE_DIR");
  subject on = {.small = false};
  char *named[64], **names = compiled_in;
  int count = 0, ran = 0;
  for (int a = 1; a < argc && count < 63; a++)
    if (!take_size(argv[a], &on)) named[count++] = argv[a];
  named[count] = NULL;
  if (count > 0) names = named;
  for (char **name = names; *name != NULL; name++) {
    const int status = is_module(*name)
                           ? test_module(*name, &on, tests)
                           : test_device(*name, modules != NULL ? modules : "", &on, tests);
    if (status != 0 && status != TEST_SKIPPED) return status;
    ran += status == 0;
  }
  if (ran == 0) return TEST_SKIPPED;
  return expect_summary();
}

/* registry.c: finds devices, compiled in or in modules, and opens each once. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "device/device.h"

/* Kinds of device in the order of `mmchain info`; "cpu" is the first that is compiled in. */
static const struct {
  const char *name;
  const mmci_device_ops *ops; /* NULL: in a module */
  const char *absent;         /* what to do when it is not there */
} kinds[] = {
#ifdef MMCI_WITH_BLAS
    {"blas", &mmci_device_blas, ""},
#else
    {"blas", NULL, "built without a CBLAS: install libopenblas-dev and build again"},
#endif
    {"ref", &mmci_device_ref, ""},
    {"cuda", NULL, "needs the module mmchain-cuda.so: build with the CUDA toolkit installed"},
};

enum { KIND_COUNT = sizeof kinds / sizeof kinds[0], NAME_SIZE = 32, TEXT_SIZE = 256 };

/* Devices of one kind, once looked for. */
typedef struct kind {
  bool probed;
  const mmci_device_ops *ops; /* NULL: not here, for the reason in absent */
  void *module;
  int count;
  mmci_device **devices; /* count, each NULL until opened */
  char (*names)[NAME_SIZE];
  char (*texts)[TEXT_SIZE];
  char absent[TEXT_SIZE];
} kind;

struct mmci_registry {
  char *module_dir;
  kind kinds[KIND_COUNT];
};

mmc_status mmci_registry_create(const char *module_dir, mmci_registry **out, mmci_error *error) {
  mmci_registry *registry = mmci_alloc_zeroed(1, sizeof *registry);
  if (registry == NULL) return mmci_fail_nomem(error, sizeof *registry);
  registry->module_dir = strdup(module_dir);
  if (registry->module_dir == NULL) {
    free(registry);
    return mmci_fail_nomem(error, strlen(module_dir) + 1);
  }
  *out = registry;
  return MMC_OK;
}

void mmci_registry_destroy(mmci_registry *registry) {
  if (registry == NULL) return;
  for (int k = 0; k < KIND_COUNT; k++) {
    kind *x = &registry->kinds[k];
    for (int i = 0; x->devices != NULL && i < x->count; i++)
      if (x->devices[i] != NULL) x->ops->close(x->devices[i]);
    free(x->devices);
    free(x->names);
    free(x->texts);
    if (x->module != NULL) dlclose(x->module);
  }
  free(registry->module_dir);
  free(registry);
}

/* ---- looking for a kind -------------------------------------------------------------------- */

static const mmci_device_ops *load_module(const mmci_registry *registry, int k, kind *x) {
  char path[4096];
  int length = snprintf(path, sizeof path, "%s/mmchain-%s.so", registry->module_dir, kinds[k].name);
  if (length < 0 || (size_t)length >= sizeof path) {
    snprintf(x->absent, sizeof x->absent, "the module directory's name is too long");
    return NULL;
  }
  x->module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (x->module == NULL) {
    snprintf(x->absent, sizeof x->absent, "%s (%.150s)", kinds[k].absent, dlerror());
    return NULL;
  }
  /* POSIX: a pointer from dlsym() may be a function's; ISO C has no cast for it. */
  mmci_module_entry_fn entry;
  void *symbol = dlsym(x->module, "mmci_module_entry");
  memcpy(&entry, &symbol, sizeof entry);
  const mmci_device_ops *ops = symbol != NULL ? entry() : NULL;
  if (ops == NULL || ops->abi != MMCI_DEVICE_ABI || ops->size != sizeof *ops) {
    snprintf(x->absent, sizeof x->absent, "%.180s is of another version of mmchain", path);
    return NULL;
  }
  return ops;
}

/* Finds out how many devices of kind k there are. Only lack of memory is a failure. */
static mmc_status probe(mmci_registry *registry, int k, mmci_error *error) {
  kind *x = &registry->kinds[k];
  if (x->probed) return MMC_OK;

  bool in_module = kinds[k].ops == NULL && strcmp(kinds[k].name, "blas") != 0;
  x->ops = kinds[k].ops;
  if (in_module)
    x->ops = load_module(registry, k, x);
  else if (x->ops == NULL)
    snprintf(x->absent, sizeof x->absent, "%s", kinds[k].absent);

  if (x->ops != NULL) {
    mmci_error reason = {.text = "none is there"};
    mmc_status status = x->ops->probe(&x->count, &reason);
    if (status != MMC_OK) x->count = 0;
    if (x->count == 0) snprintf(x->absent, sizeof x->absent, "%.255s", reason.text);
  }
  size_t count = (size_t)x->count;
  x->devices = mmci_alloc_zeroed(count, sizeof *x->devices);
  x->names = mmci_alloc_zeroed(count, sizeof *x->names);
  x->texts = mmci_alloc_zeroed(count, sizeof *x->texts);
  if (x->devices == NULL || x->names == NULL || x->texts == NULL) {
    free(x->devices);
    free(x->names);
    free(x->texts);
    if (x->module != NULL) dlclose(x->module);
    *x = (kind){0};
    return mmci_fail_nomem(error, count * (NAME_SIZE + TEXT_SIZE));
  }
  for (int i = 0; i < x->count; i++) {
    if (in_module)
      snprintf(x->names[i], NAME_SIZE, "%.16s:%d", kinds[k].name, i);
    else
      snprintf(x->names[i], NAME_SIZE, "%.16s", kinds[k].name);
  }
  x->probed = true;
  return MMC_OK;
}

static mmc_status open_one(mmci_registry *registry, int k, int index, mmci_error *error) {
  kind *x = &registry->kinds[k];
  if (x->devices[index] != NULL) return MMC_OK;
  return x->ops->open(index, &x->devices[index], error);
}

/* ---- names --------------------------------------------------------------------------------- */

/* Splits "cuda:1" into a kind and a number. Returns -1 when there is no such kind. */
static int parse_name(const char *name, int *index) {
  *index = 0;
  if (strcmp(name, "cpu") == 0) {
    for (int k = 0; k < KIND_COUNT; k++)
      if (kinds[k].ops != NULL) return k;
  }
  size_t length = strcspn(name, ":");
  for (int k = 0; k < KIND_COUNT; k++) {
    if (strlen(kinds[k].name) != length || strncmp(name, kinds[k].name, length) != 0) continue;
    if (name[length] == '\0') return k;
    char *end;
    const char *digits = name + length + 1;
    if (*digits < '0' || *digits > '9' || kinds[k].ops != NULL) return -1;
    long number = strtol(digits, &end, 10);
    if (*end != '\0' || number > 9999) return -1;
    *index = (int)number;
    return k;
  }
  return -1;
}

mmc_status mmci_registry_open(mmci_registry *registry, const char *name, mmci_opened *out,
                              mmci_error *error) {
  int index, k = parse_name(name, &index);
  if (k < 0)
    return mmci_fail(error, MMC_E_ARG, "device: expected cpu, blas, ref, cuda or cuda:N, got '%s'",
                     name);
  mmc_status status = probe(registry, k, error);
  if (status != MMC_OK) return status;
  kind *x = &registry->kinds[k];
  if (x->count == 0)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "device '%s' is not here: %s", name, x->absent);
  if (index >= x->count)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "device '%s' is not here: the last is %s", name,
                     x->names[x->count - 1]);
  status = open_one(registry, k, index, error);
  if (status != MMC_OK) return status;
  *out = (mmci_opened){.ops = x->ops, .device = x->devices[index], .name = x->names[index]};
  return MMC_OK;
}

mmc_status mmci_opened_facts(const mmci_opened *on, mmc_dtype dtype, mmci_precision precision,
                             mmci_facts *out, mmci_error *error) {
  *out = (mmci_facts){0};
  if (on->ops->facts != NULL) on->ops->facts(on->device, dtype, precision, out);
  if (out->flops_per_s > 0) return MMC_OK;
  return mmci_fail(error, MMC_E_UNSUPPORTED, "device '%s' does not multiply matrices of %s",
                   on->name, mmc_dtype_name(dtype));
}

mmc_status mmci_registry_describe(mmci_registry *registry, int index, mmc_device_info *out,
                                  mmci_error *error) {
  for (int k = 0; index >= 0 && k < KIND_COUNT; k++) {
    mmc_status status = probe(registry, k, error);
    if (status != MMC_OK) return status;
    kind *x = &registry->kinds[k];
    if (x->count == 0) {
      if (index-- > 0) continue;
      *out = (mmc_device_info){.name = kinds[k].name, .description = x->absent};
      return MMC_OK;
    }
    if (index >= x->count) {
      index -= x->count;
      continue;
    }
    mmci_error reason;
    status = open_one(registry, k, index, &reason);
    if (status == MMC_E_NOMEM) return mmci_fail(error, status, "%s", reason.text);
    if (status == MMC_OK)
      x->ops->describe(x->devices[index], x->texts[index], TEXT_SIZE);
    else
      snprintf(x->texts[index], TEXT_SIZE, "%.255s", reason.text);
    *out = (mmc_device_info){
        .name = x->names[index],
        .description = x->texts[index],
        .available = status == MMC_OK,
    };
    return MMC_OK;
  }
  return mmci_fail(error, MMC_E_ARG, "index: there is no device number %d", index);
}

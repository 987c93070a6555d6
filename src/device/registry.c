/* registry.c: finds devices, compiled in or in modules, and opens each one once. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/module_dir.h"
#include "device/device.h"
#include "device/free_memory.h"

enum { NAME_SIZE = 32, TEXT_SIZE = 256 };

/* The devices of one kind, after the first look for them. */
typedef struct kind {
  bool probed;
  const mmci_device_ops *ops; /* NULL when not here, for the reason in absent */
  void *module;
  int count;
  mmci_device **devices; /* count devices, each NULL until it is opened */
  char (*names)[NAME_SIZE];
  char (*texts)[TEXT_SIZE];
  struct mmci_free_memory *free_memory; /* count */
  char absent[TEXT_SIZE];
} kind;

struct mmci_registry {
  char *module_dir; /* the folder of modules; NULL when none was given */
  int kind_count;
  kind kinds[]; /* in the order of mmci_device_kinds */
};

mmc_status mmci_registry_create(const char *module_dir, mmci_registry **out, mmci_error *error) {
  int count = 0;
  while (mmci_device_kinds[count].name != NULL) count++;
  size_t size = sizeof(mmci_registry) + (size_t)count * sizeof(kind);
  mmci_registry *registry = mmci_alloc_zeroed(1, size);
  if (registry == NULL) return mmci_fail_nomem(error, size);
  registry->kind_count = count;
  if (module_dir != NULL) registry->module_dir = strdup(module_dir);
  if (module_dir != NULL && registry->module_dir == NULL) {
    free(registry);
    return mmci_fail_nomem(error, strlen(module_dir) + 1);
  }
  *out = registry;
  return MMC_OK;
}

void mmci_registry_destroy(mmci_registry *registry) {
  if (registry == NULL) return;
  for (int k = 0; k < registry->kind_count; k++) {
    kind *x = &registry->kinds[k];
    for (int i = 0; x->devices != NULL && i < x->count; i++)
      if (x->devices[i] != NULL) x->ops->close(x->devices[i]);
    free(x->devices);
    free(x->names);
    free(x->texts);
    free(x->free_memory);
    if (x->module != NULL) dlclose(x->module);
  }
  free(registry->module_dir);
  free(registry);
}

mmc_status mmci_devices_choose_blas(const char *path, mmci_error *error) {
  mmc_status status = MMC_OK;
  for (const mmci_device_kind *x = mmci_device_kinds; x->name != NULL && status == MMC_OK; x++)
    if (x->choose_library != NULL) status = x->choose_library(path, error);
  return status;
}

const char *mmci_registry_module_dir(const mmci_registry *registry) {
  return registry->module_dir;
}

/* ---- looking for a kind -------------------------------------------------------------------- */

static const mmci_device_ops *load_module(const mmci_registry *registry, int k, kind *x) {
  char path[MMCI_MODULE_PATH_SIZE];
  mmci_error reason;
  if (mmci_module_path(registry->module_dir, mmci_device_kinds[k].name, path, &reason) != MMC_OK) {
    snprintf(x->absent, sizeof x->absent, "%.255s", reason.text);
    return NULL;
  }
  x->module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (x->module == NULL) {
    snprintf(x->absent, sizeof x->absent, "%s (%.150s)", mmci_device_kinds[k].absent, dlerror());
    return NULL;
  }
  /* By POSIX a pointer from dlsym() may be a function's; ISO C has no cast for that. */
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

/* Counts the devices of kind k. Only lack of memory is a failure. */
static mmc_status probe(mmci_registry *registry, int k, mmci_error *error) {
  kind *x = &registry->kinds[k];
  if (x->probed) return MMC_OK;

  x->ops = mmci_device_kinds[k].ops;
  if (mmci_device_kinds[k].is_module)
    x->ops = load_module(registry, k, x);
  else if (x->ops == NULL)
    snprintf(x->absent, sizeof x->absent, "%s", mmci_device_kinds[k].absent);

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
  x->free_memory = mmci_alloc_zeroed(count, sizeof *x->free_memory);
  if (x->devices == NULL || x->names == NULL || x->texts == NULL || x->free_memory == NULL) {
    free(x->devices);
    free(x->names);
    free(x->texts);
    free(x->free_memory);
    if (x->module != NULL) dlclose(x->module);
    *x = (kind){0};
    return mmci_fail_nomem(error, count * (NAME_SIZE + TEXT_SIZE));
  }
  for (int i = 0; i < x->count; i++) {
    if (mmci_device_kinds[k].is_module)
      snprintf(x->names[i], NAME_SIZE, "%.16s:%d", mmci_device_kinds[k].name, i);
    else
      snprintf(x->names[i], NAME_SIZE, "%.16s", mmci_device_kinds[k].name);
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

/* Reads ":1", which numbers a device of the kind. Returns false when the text is nothing like
 * that. */
static bool read_index(const mmci_device_kind *x, const char *text, int *index) {
  char *end;
  if (text[0] == '\0') return true;
  if (!x->is_module || text[0] != ':' || text[1] < '0' || text[1] > '9') return false;
  long number = strtol(text + 1, &end, 10);
  if (*end != '\0' || number > 9999) return false;
  *index = (int)number;
  return true;
}

/* Says whether "cpu" is a kind: one that is compiled in and can work here, or that was asked for in
 * a way that is wrong, which it then says. */
static bool is_cpu(const mmci_device_kind *x) {
  int count = 0;
  mmci_error reason;
  if (x->ops == NULL) return false;
  const mmc_status status = x->ops->probe(&count, &reason);
  return status == MMC_E_ARG || (status == MMC_OK && count > 0);
}

const mmci_device_kind *mmci_device_kind_of(const char *name, int *index) {
  *index = 0;
  for (const mmci_device_kind *x = mmci_device_kinds; x->name != NULL; x++) {
    size_t length = strlen(x->name);
    if (strcmp(name, "cpu") == 0 && is_cpu(x)) return x;
    if (strncmp(name, x->name, length) == 0 && (name[length] == '\0' || name[length] == ':'))
      return read_index(x, name + length, index) ? x : NULL;
  }
  return NULL;
}

void mmci_device_names(char *text, size_t size) {
  int length = snprintf(text, size, "cpu");
  for (const mmci_device_kind *x = mmci_device_kinds; x->name != NULL; x++) {
    if (length < 0 || (size_t)length >= size) return;
    if (x->is_module)
      length += snprintf(text + length, size - (size_t)length, ", %s, %s:N", x->name, x->name);
    else
      length += snprintf(text + length, size - (size_t)length, ", %s", x->name);
  }
}

/* ---- several of a kind ----------------------------------------------------------------------- */

/* Returns the kind that a name of several devices begins with, and what follows its colon. */
static const mmci_device_kind *kind_of_several(const char *name, const char **list) {
  for (const mmci_device_kind *x = mmci_device_kinds; x->name != NULL; x++) {
    const size_t length = strlen(x->name);
    if (!x->is_module || strncmp(name, x->name, length) != 0 || name[length] != ':') continue;
    *list = name + length + 1;
    if (strcmp(*list, "all") == 0 || strchr(*list, ',') != NULL) return x;
  }
  return NULL;
}

bool mmci_device_names_several(const char *name) {
  const char *list;
  return kind_of_several(name, &list) != NULL;
}

/* Reads a number, and moves *list past it and past a comma. Returns less than 0 when none is there.
 */
static int read_member(const char **list) {
  char *end;
  if (**list < '0' || **list > '9') return -1;
  const long number = strtol(*list, &end, 10);
  if (number > 9999 || (*end != ',' && *end != '\0') || (*end == ',' && end[1] == '\0')) return -1;
  *list = *end == ',' ? end + 1 : end;
  return (int)number;
}

/* Counts the numbers of a list, or returns -1 where it is none. */
static int count_members(const char *list) {
  int count = 0;
  while (*list != '\0' && count >= 0) count = read_member(&list) < 0 ? -1 : count + 1;
  return count;
}

mmc_status mmci_registry_open_several(mmci_registry *registry, const char *name, mmci_opened *out,
                                      int32_t most, int32_t *count, mmci_error *error) {
  const char *list;
  const mmci_device_kind *found = kind_of_several(name, &list);
  if (found == NULL)
    return mmci_fail_argument(error, MMC_E_ARG, "device", "expected several devices, got '%s'",
                              name);
  const bool all = strcmp(list, "all") == 0;
  const int members = all ? 1 : count_members(list);
  if (members < 1 || members > most)
    return mmci_fail_argument(
        error, MMC_E_ARG, "device",
        "expected %s:all or numbers of at most %d devices, as in %s:0,1, got '%s'", found->name,
        (int)most, found->name, name);
  char one[NAME_SIZE];
  mmc_status status = probe(registry, (int)(found - mmci_device_kinds), error);
  const int there = registry->kinds[found - mmci_device_kinds].count;
  *count = 0;
  while (status == MMC_OK && *count < most &&
         (all ? *count < there || *count == 0 : *list != '\0')) {
    snprintf(one, sizeof one, "%.16s:%d", found->name, all ? (int)*count : read_member(&list));
    status = mmci_registry_open(registry, one, &out[*count], error);
    for (int32_t i = 0; i < *count && status == MMC_OK; i++)
      if (out[i].device == out[*count].device)
        return mmci_fail_argument(error, MMC_E_ARG, "device", "'%s' names %s twice", name,
                                  out[i].name);
    if (status == MMC_OK) (*count)++;
  }
  return status;
}

/* Returns E_ARG, and lists the names there are, with "or" before the last. */
static mmc_status fail_name(const char *name, mmci_error *error) {
  char names[TEXT_SIZE];
  mmci_device_names(names, sizeof names);
  char *last = strrchr(names, ',');
  return mmci_fail_argument(error, MMC_E_ARG, "device", "expected %.*s or%s, got '%s'",
                            (int)(last - names), names, last + 1, name);
}

mmc_status mmci_registry_open(mmci_registry *registry, const char *name, mmci_opened *out,
                              mmci_error *error) {
  int index;
  const mmci_device_kind *found = mmci_device_kind_of(name, &index);
  if (found == NULL) return fail_name(name, error);
  const int k = (int)(found - mmci_device_kinds);
  mmc_status status = probe(registry, k, error);
  if (status != MMC_OK) return status;
  kind *x = &registry->kinds[k];
  if (x->count == 0)
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "device", "'%s' is not here: %s", name,
                              x->absent);
  if (index >= x->count)
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "device",
                              "'%s' is not here: the last is %s", name, x->names[x->count - 1]);
  status = open_one(registry, k, index, error);
  if (status != MMC_OK) return status;
  *out = (mmci_opened){.ops = x->ops,
                       .device = x->devices[index],
                       .name = x->names[index],
                       .free_memory = &x->free_memory[index]};
  return MMC_OK;
}

mmc_status mmci_opened_check_rule(const mmci_opened *on, mmc_dtype dtype, const mmci_rule *rule,
                                  mmci_error *error) {
  if (rule->semiring == MMC_PLUS_TIMES && rule->modulus == 0 && !rule->checked) return MMC_OK;
  mmci_gemm gemm = mmci_gemm_tight(dtype, MMCI_NATIVE, 1, 1, 1, MMC_OP_N, MMC_OP_N);
  gemm.rule = *rule;
  if (on->ops->supports(on->device, &gemm)) return MMC_OK;
  if (rule->semiring == MMC_PLUS_TIMES)
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "device",
                              "'%s' does not multiply integers %s: expected cpu, blas or ref",
                              on->name,
                              rule->checked ? "with overflow checked" : "modulo a number");
  return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "device",
                            "'%s' does not multiply %s over semiring %s", on->name,
                            mmc_dtype_name(dtype), mmc_semiring_name(rule->semiring));
}

mmc_status mmci_opened_facts(const mmci_opened *on, mmc_dtype dtype, mmci_precision precision,
                             mmci_facts *out, mmci_error *error) {
  *out = (mmci_facts){0};
  if (on->ops->facts != NULL) on->ops->facts(on->device, dtype, precision, out);
  if (out->flops_per_s > 0) return MMC_OK;
  return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "device",
                            "'%s' does not multiply matrices of %s", on->name,
                            mmc_dtype_name(dtype));
}

mmc_status mmci_registry_describe(mmci_registry *registry, int index, mmc_device_info *out,
                                  mmci_error *error) {
  const int asked = index;
  for (int k = 0; index >= 0 && k < registry->kind_count; k++) {
    mmc_status status = probe(registry, k, error);
    if (status != MMC_OK) return status;
    kind *x = &registry->kinds[k];
    if (x->count == 0) {
      if (index-- > 0) continue;
      *out = (mmc_device_info){.name = mmci_device_kinds[k].name, .description = x->absent};
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
  return mmci_fail(error, MMC_E_ARG, "index: there is no device number %d", asked);
}

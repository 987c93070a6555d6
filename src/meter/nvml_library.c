/* nvml_library.c: loads NVML, and finds the GPU that CUDA calls by a number. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "meter/nvml.h"

/* ---- loading ------------------------------------------------------------------------------- */

/* The names to load; each ends in the version of the function that nvml.h declares. */
static const struct {
  const char *name;
  size_t at;
  bool optional;
} functions[] = {
    {"nvmlInit_v2", offsetof(mmci_nvml, init), false},
    {"nvmlShutdown", offsetof(mmci_nvml, shutdown), false},
    {"nvmlErrorString", offsetof(mmci_nvml, error_string), false},
    {"nvmlDeviceGetCount_v2", offsetof(mmci_nvml, count), false},
    {"nvmlDeviceGetHandleByIndex_v2", offsetof(mmci_nvml, by_index), false},
    {"nvmlDeviceGetHandleByPciBusId_v2", offsetof(mmci_nvml, by_bus_id), false},
    {"nvmlDeviceGetPciInfo_v3", offsetof(mmci_nvml, pci), false},
    {"nvmlDeviceGetUUID", offsetof(mmci_nvml, uuid), false},
    {"nvmlDeviceGetName", offsetof(mmci_nvml, name), false},
    {"nvmlDeviceGetTotalEnergyConsumption", offsetof(mmci_nvml, energy), false},
    {"nvmlDeviceGetPowerUsage", offsetof(mmci_nvml, power), true},
    {"nvmlDeviceGetFieldValues", offsetof(mmci_nvml, fields), true},
    {"nvmlDeviceGetClockInfo", offsetof(mmci_nvml, clock), true},
    {"nvmlDeviceGetTemperature", offsetof(mmci_nvml, temperature), true},
    /* The function is called ...EventReasons since driver 535; the old name stays. */
    {"nvmlDeviceGetCurrentClocksThrottleReasons", offsetof(mmci_nvml, throttle), true},
    {"nvmlDeviceGetCurrentClocksEventReasons", offsetof(mmci_nvml, throttle), true},
};

mmc_status mmci_nvml_load(const char *library, mmci_nvml *out, mmci_error *error) {
  const char *path = library != NULL ? library : "libnvidia-ml.so.1";
  mmci_nvml nvml = {.library = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
  if (nvml.library == NULL) {
    const char *why = dlerror();
    return mmci_fail(
        error, MMC_E_UNSUPPORTED,
        "no NVIDIA driver is here: install it; a container needs NVIDIA's runtime with "
        "the capability utility (%.200s)",
        why != NULL ? why : path);
  }
  for (size_t f = 0; f < sizeof functions / sizeof functions[0]; f++) {
    void *symbol = dlsym(nvml.library, functions[f].name);
    if (symbol == NULL && !functions[f].optional) {
      dlclose(nvml.library);
      return mmci_fail(error, MMC_E_UNSUPPORTED, "%.200s has no %s: the NVIDIA driver is too old",
                       path, functions[f].name);
    }
    if (symbol != NULL) memcpy((char *)&nvml + functions[f].at, &symbol, sizeof symbol);
  }
  int result = nvml.init();
  if (result != MMCI_NVML_SUCCESS) {
    mmc_status status = mmci_fail(error, MMC_E_UNSUPPORTED, "NVML does not start: %.200s",
                                  nvml.error_string(result));
    dlclose(nvml.library);
    return status;
  }
  *out = nvml;
  return MMC_OK;
}

void mmci_nvml_unload(mmci_nvml *nvml) {
  nvml->shutdown();
  dlclose(nvml->library);
}

/* ---- CUDA's numbers ------------------------------------------------------------------------ */

/* Returns the GPU that an entry of CUDA_VISIBLE_DEVICES names: a number below count, or the
 * beginning of one GPU's UUID. Returns -1 for anything else. */
static int find_entry(const mmci_nvml *nvml, int count, const char *entry, size_t length) {
  int found = -1;
  if (length > 0 && strspn(entry, "0123456789") >= length) {
    if (length > 9) return -1;
    long number = strtol(entry, NULL, 10);
    return number < count ? (int)number : -1;
  }
  if (strncmp(entry, "GPU-", strlen("GPU-")) != 0) return -1;
  for (int i = 0; i < count; i++) {
    mmci_nvml_device *device;
    char uuid[MMCI_NVML_UUID_SIZE] = "";
    if (nvml->by_index((unsigned)i, &device) != MMCI_NVML_SUCCESS ||
        nvml->uuid(device, uuid, sizeof uuid) != MMCI_NVML_SUCCESS)
      continue;
    uuid[sizeof uuid - 1] = '\0';
    if (strncmp(uuid, entry, length) != 0) continue;
    if (found >= 0) return -1;
    found = i;
  }
  return found;
}

/* Finds NVML's number of the GPU that CUDA calls index. The list ends at an entry that names
 * nothing. */
static mmc_status find_visible(const mmci_nvml *nvml, int count, const char *visible, int index,
                               int *out, mmci_error *error) {
  const char *entry = visible;
  int found = -1, seen = 0;
  for (;; seen++) {
    entry += strspn(entry, " \t");
    size_t length = strcspn(entry, ",");
    const char *next = entry[length] == ',' ? entry + length + 1 : NULL;
    while (length > 0 && (entry[length - 1] == ' ' || entry[length - 1] == '\t')) length--;
    if (seen == index && strncmp(entry, "MIG-", strlen("MIG-")) == 0)
      return mmci_fail(error, MMC_E_UNSUPPORTED,
                       "GPU %d is a slice (MIG) of one, which has no energy counter of its own",
                       index);
    found = find_entry(nvml, count, entry, length);
    if (found < 0 || seen == index || next == NULL) break;
    entry = next;
  }
  if (found < 0 || seen != index)
    return mmci_fail(error, MMC_E_ARG, "there is no GPU %d: CUDA_VISIBLE_DEVICES is '%.200s'",
                     index, visible);
  *out = found;
  return MMC_OK;
}

mmc_status mmci_nvml_bus_id(const char *library, const char *visible, int index,
                            char bus_id[MMCI_NVML_BUS_ID_SIZE], mmci_error *error) {
  mmci_nvml nvml;
  mmc_status status = mmci_nvml_load(library, &nvml, error);
  if (status != MMC_OK) return status;
  unsigned found = 0;
  int number = index, result = nvml.count(&found);
  int count = result == MMCI_NVML_SUCCESS ? (int)found : 0;
  if (result != MMCI_NVML_SUCCESS)
    status = mmci_fail(error, MMC_E_UNSUPPORTED, "NVML: counting GPUs: %.200s",
                       nvml.error_string(result));
  else if (count == 0)
    status = mmci_fail(error, MMC_E_UNSUPPORTED, "the NVIDIA driver sees no GPU");
  else if (visible != NULL)
    status = find_visible(&nvml, count, visible, index, &number, error);
  else if (index >= count)
    status = mmci_fail(error, MMC_E_ARG, "there is no GPU %d: the last is %d", index, count - 1);
  if (status == MMC_OK) {
    mmci_nvml_device *device;
    mmci_nvml_pci pci = {0};
    result = nvml.by_index((unsigned)number, &device);
    if (result == MMCI_NVML_SUCCESS) result = nvml.pci(device, &pci);
    if (result == MMCI_NVML_SUCCESS)
      memcpy(bus_id, pci.bus_id, MMCI_NVML_BUS_ID_SIZE);
    else
      status = mmci_fail(error, MMC_E_UNSUPPORTED, "NVML: finding GPU %d: %.200s", index,
                         nvml.error_string(result));
  }
  mmci_nvml_unload(&nvml);
  return status;
}

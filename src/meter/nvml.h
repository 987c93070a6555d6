/* nvml.h: NVIDIA's management library, which is loaded when it is asked for.
 *
 * The prototypes are written after NVML's public reference manual: nothing of NVIDIA's is needed to
 * build, and a machine without its driver is told what is missing. */
#ifndef MMCI_NVML_H
#define MMCI_NVML_H

#include "base/status.h"

typedef struct mmci_nvml_device mmci_nvml_device; /* nvmlDevice_t points to it */

enum { MMCI_NVML_SUCCESS = 0, MMCI_NVML_NOT_SUPPORTED = 3 };
enum { MMCI_NVML_CLOCK_SM = 1, MMCI_NVML_CLOCK_MEMORY = 2 };
enum { MMCI_NVML_TEMPERATURE_GPU = 0 };
enum { MMCI_NVML_FIELD_POWER_INSTANT = 186 };
enum { MMCI_NVML_VALUE_UNSIGNED_INT = 1, MMCI_NVML_VALUE_UNSIGNED_LONG_LONG = 3 };
enum { MMCI_NVML_BUS_ID_SIZE = 32, MMCI_NVML_UUID_SIZE = 96, MMCI_NVML_NAME_SIZE = 96 };

/* nvmlPciInfo_t */
typedef struct mmci_nvml_pci {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_sub_system_id;
  char bus_id[MMCI_NVML_BUS_ID_SIZE];
} mmci_nvml_pci;

/* nvmlFieldValue_t */
typedef struct mmci_nvml_field {
  unsigned field_id, scope_id;
  long long timestamp_us, latency_us;
  int value_type, result;
  union {
    double real;
    unsigned ui;
    unsigned long long ull;
  } value;
} mmci_nvml_field;

/* NVML's functions, by the names that it exports after "nvml". Those marked (optional) may be
 * NULL. */
typedef struct mmci_nvml {
  void *library;
  int (*init)(void);
  int (*shutdown)(void);
  const char *(*error_string)(int result);
  int (*count)(unsigned *count);
  int (*by_index)(unsigned index, mmci_nvml_device **device);
  int (*by_bus_id)(const char *bus_id, mmci_nvml_device **device);
  int (*pci)(mmci_nvml_device *device, mmci_nvml_pci *pci);
  int (*uuid)(mmci_nvml_device *device, char *text, unsigned size);
  int (*name)(mmci_nvml_device *device, char *text, unsigned size);
  int (*energy)(mmci_nvml_device *device, unsigned long long *millijoules);
  int (*power)(mmci_nvml_device *device, unsigned *milliwatts);                /* (optional) */
  int (*fields)(mmci_nvml_device *device, int count, mmci_nvml_field *fields); /* (optional) */
  int (*clock)(mmci_nvml_device *device, int type, unsigned *mhz);             /* (optional) */
  int (*temperature)(mmci_nvml_device *device, int sensor, unsigned *celsius); /* (optional) */
  int (*throttle)(mmci_nvml_device *device, unsigned long long *reasons);      /* (optional) */
} mmci_nvml;

/* Loads and starts NVML. A library of NULL means libnvidia-ml.so.1.
 * Returns E_UNSUPPORTED; the error says what is missing and how to get it. */
mmc_status mmci_nvml_load(const char *library, mmci_nvml *out, mmci_error *error);
void mmci_nvml_unload(mmci_nvml *nvml);

/* Finds the PCI bus of the GPU that CUDA calls by the number index. visible is the value of
 * CUDA_VISIBLE_DEVICES, numbers or UUIDs; NULL when it is not set. Numbers count in the order of
 * the buses, which is CUDA's with CUDA_DEVICE_ORDER=PCI_BUS_ID or where all GPUs are alike.
 * Returns E_ARG past the last GPU, E_UNSUPPORTED. */
mmc_status mmci_nvml_bus_id(const char *library, const char *visible, int index,
                            char bus_id[MMCI_NVML_BUS_ID_SIZE], mmci_error *error);

#endif

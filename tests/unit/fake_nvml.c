/* fake_nvml.c: a libnvidia-ml.so.1 without a GPU. Built with FAKE_NVML_OLD it lacks what NVML has
 * not always had, and calls clock event reasons by their old name. */
#include "fake_nvml.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "meter/nvml.h"

/* The prototypes are NVIDIA's; mmchain knows them as pointers. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC visibility push(default)

fake_nvml fake_nvml_control = {
    .gpus = 2,
    .ticking = 1,
    .field_type = MMCI_NVML_VALUE_UNSIGNED_INT,
    .instant_mw = 150000,
    .power_mw = 149000,
    .sm_mhz = 1980,
    .memory_mhz = 2619,
    .celsius = 61,
    .reasons = 0x4,
};

static fake_nvml *const control = &fake_nvml_control;
static char handles[FAKE_GPUS_MOST]; /* a GPU's handle is the address of its byte */

static unsigned number_of(const mmci_nvml_device *device) {
  return (unsigned)((const char *)device - handles);
}

int nvmlInit_v2(void) {
  control->started += control->init == 0;
  return control->init;
}

int nvmlShutdown(void) {
  control->started--;
  return 0;
}

const char *nvmlErrorString(int result) {
  return result == MMCI_NVML_NOT_SUPPORTED ? "Not Supported" : "Fake Error";
}

/* ---- which GPU ------------------------------------------------------------------------------- */

int nvmlDeviceGetCount_v2(unsigned *count) {
  *count = control->gpus;
  return control->count;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, mmci_nvml_device **device) {
  if (index >= control->gpus) return 2;
  *device = (mmci_nvml_device *)&handles[index];
  return control->handle;
}

int nvmlDeviceGetPciInfo_v3(mmci_nvml_device *device, mmci_nvml_pci *pci) {
  *pci = (mmci_nvml_pci){.bus = 0x1B + number_of(device)};
  snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
  return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, mmci_nvml_device **device) {
  for (unsigned g = 0; g < control->gpus; g++) {
    mmci_nvml_pci pci;
    *device = (mmci_nvml_device *)&handles[g];
    nvmlDeviceGetPciInfo_v3(*device, &pci);
    if (strcmp(pci.bus_id, bus_id) == 0) return control->handle;
  }
  return 6;
}

int nvmlDeviceGetUUID(mmci_nvml_device *device, char *text, unsigned size) {
  static const char *const uuids[FAKE_GPUS_MOST] = {"GPU-aaaa-0", "GPU-aabb-1", "GPU-cccc-2",
                                                    "GPU-dddd-3"};
  snprintf(text, size, "%s", uuids[number_of(device)]);
  return 0;
}

int nvmlDeviceGetName(mmci_nvml_device *device, char *text, unsigned size) {
  snprintf(text, size, "Fake GPU %u", number_of(device));
  return 0;
}

/* ---- what it takes --------------------------------------------------------------------------- */

int nvmlDeviceGetTotalEnergyConsumption(mmci_nvml_device *device, unsigned long long *millijoules) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  unsigned long long tenths = (unsigned long long)t.tv_sec * 10 + t.tv_nsec / 100000000;
  *millijoules = control->ticking ? tenths * 15000 : control->millijoules[number_of(device)];
  return control->energy;
}

#ifndef FAKE_NVML_OLD
int nvmlDeviceGetPowerUsage(mmci_nvml_device *device, unsigned *milliwatts) {
  (void)device;
  *milliwatts = control->power_mw;
  return control->power;
}

int nvmlDeviceGetFieldValues(mmci_nvml_device *device, int count, mmci_nvml_field *fields) {
  (void)device;
  for (int f = 0; f < count; f++) {
    bool known = fields[f].field_id == MMCI_NVML_FIELD_POWER_INSTANT;
    fields[f].result = known ? control->field : MMCI_NVML_NOT_SUPPORTED;
    fields[f].value_type = control->field_type;
    fields[f].value.ull = 0;
    if (control->field_type == MMCI_NVML_VALUE_UNSIGNED_LONG_LONG)
      fields[f].value.ull = control->instant_mw;
    else
      fields[f].value.ui = control->instant_mw;
  }
  return control->fields;
}

int nvmlDeviceGetClockInfo(mmci_nvml_device *device, int type, unsigned *mhz) {
  (void)device;
  *mhz = type == MMCI_NVML_CLOCK_SM ? control->sm_mhz : control->memory_mhz;
  return type == MMCI_NVML_CLOCK_SM || type == MMCI_NVML_CLOCK_MEMORY ? control->clock : 2;
}

int nvmlDeviceGetTemperature(mmci_nvml_device *device, int sensor, unsigned *celsius) {
  (void)device;
  *celsius = control->celsius;
  return sensor == MMCI_NVML_TEMPERATURE_GPU ? control->temperature : 2;
}

int nvmlDeviceGetCurrentClocksEventReasons(mmci_nvml_device *device, unsigned long long *reasons) {
  (void)device;
  *reasons = control->reasons;
  return control->throttle;
}
#else
int nvmlDeviceGetCurrentClocksThrottleReasons(mmci_nvml_device *device,
                                              unsigned long long *reasons) {
  (void)device;
  *reasons = control->reasons;
  return control->throttle;
}
#endif

/* nvml.c: the energy counter of an NVIDIA GPU.
 *
 * The counter covers the whole board, in millijoules since the driver was loaded, and moves about
 * every 100 ms. It and the instant power are two readings of one sensor, so that each checks the
 * other. */
#include "meter/nvml.h"

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "meter/meter.h"

struct mmci_meter {
  mmci_nvml nvml;
  mmci_nvml_device *device;
  bool instant; /* the power of the moment can be read; else that of the last second */
  char name[MMCI_NVML_NAME_SIZE];
  char bus_id[MMCI_NVML_BUS_ID_SIZE];
};

/* ---- power --------------------------------------------------------------------------------- */

/* Returns watts; NaN when they cannot be read. */
static double instant_watts(const mmci_meter *meter) {
  mmci_nvml_field field = {.field_id = MMCI_NVML_FIELD_POWER_INSTANT};
  if (meter->nvml.fields == NULL ||
      meter->nvml.fields(meter->device, 1, &field) != MMCI_NVML_SUCCESS ||
      field.result != MMCI_NVML_SUCCESS)
    return NAN;
  switch (field.value_type) {
    case MMCI_NVML_VALUE_UNSIGNED_INT:
      return field.value.ui * 1e-3;
    case MMCI_NVML_VALUE_UNSIGNED_LONG_LONG:
      return (double)field.value.ull * 1e-3;
    default:
      return NAN;
  }
}

static double averaged_watts(const mmci_meter *meter) {
  unsigned milliwatts;
  if (meter->nvml.power == NULL ||
      meter->nvml.power(meter->device, &milliwatts) != MMCI_NVML_SUCCESS)
    return NAN;
  return milliwatts * 1e-3;
}

/* ---- opening ------------------------------------------------------------------------------- */

/* Finds the GPU and tries its counter. */
static mmc_status find_device(mmci_meter *meter, mmci_error *error) {
  const mmci_nvml *nvml = &meter->nvml;
  int result = nvml->by_bus_id(meter->bus_id, &meter->device);
  if (result != MMCI_NVML_SUCCESS)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "NVML: the GPU at %s: %.200s", meter->bus_id,
                     nvml->error_string(result));
  if (nvml->name(meter->device, meter->name, sizeof meter->name) != MMCI_NVML_SUCCESS)
    snprintf(meter->name, sizeof meter->name, "a GPU");
  unsigned long long millijoules;
  result = nvml->energy(meter->device, &millijoules);
  if (result == MMCI_NVML_NOT_SUPPORTED)
    return mmci_fail(error, MMC_E_UNSUPPORTED,
                     "%s has no energy counter: those of Volta and after have one", meter->name);
  if (result != MMCI_NVML_SUCCESS)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "NVML: the energy counter of %s: %.200s",
                     meter->name, nvml->error_string(result));
  meter->instant = isfinite(instant_watts(meter));
  return MMC_OK;
}

static mmc_status nvml_locate(int index, char address[MMCI_METER_ADDRESS_SIZE], mmci_error *error) {
  return mmci_nvml_bus_id(NULL, getenv("CUDA_VISIBLE_DEVICES"), index, address, error);
}

static mmc_status nvml_open(const mmci_meter_source *source, mmci_meter **out, mmci_error *error) {
  if (source->address == NULL)
    return mmci_fail(error, MMC_E_ARG, "address: expected one, as in 0000:1b:00.0, got NULL");
  mmci_meter *meter = mmci_alloc_zeroed(1, sizeof *meter);
  if (meter == NULL) return mmci_fail_nomem(error, sizeof *meter);
  snprintf(meter->bus_id, sizeof meter->bus_id, "%s", source->address);
  mmc_status status = mmci_nvml_load(source->library, &meter->nvml, error);
  if (status != MMC_OK) {
    free(meter);
    return status;
  }
  status = find_device(meter, error);
  if (status != MMC_OK) {
    mmci_nvml_unload(&meter->nvml);
    free(meter);
    return status;
  }
  *out = meter;
  return MMC_OK;
}

static void nvml_close(mmci_meter *meter) {
  mmci_nvml_unload(&meter->nvml);
  free(meter);
}

static void nvml_describe(const mmci_meter *meter, char *text, size_t size) {
  const char *power = meter->instant                    ? "and instant power"
                      : isfinite(averaged_watts(meter)) ? "and averaged power"
                                                        : "alone";
  snprintf(text, size, "%s at %s: energy counter %s", meter->name, meter->bus_id, power);
}

/* ---- reading ------------------------------------------------------------------------------- */

static mmc_status nvml_joules(mmci_meter *meter, double time_s, double *joules, mmci_error *error) {
  (void)time_s;
  unsigned long long millijoules;
  int result = meter->nvml.energy(meter->device, &millijoules);
  if (result != MMCI_NVML_SUCCESS)
    return mmci_fail(error, MMC_E_DEVICE, "NVML: the energy counter of %s: %.200s", meter->name,
                     meter->nvml.error_string(result));
  *joules = (double)millijoules * 1e-3;
  return MMC_OK;
}

static double clock_mhz(const mmci_meter *meter, int type) {
  unsigned mhz;
  if (meter->nvml.clock == NULL ||
      meter->nvml.clock(meter->device, type, &mhz) != MMCI_NVML_SUCCESS)
    return NAN;
  return mhz;
}

static void nvml_state(mmci_meter *meter, double time_s, mmci_meter_state *out) {
  (void)time_s;
  const mmci_nvml *nvml = &meter->nvml;
  unsigned celsius;
  unsigned long long reasons;
  *out = mmci_meter_state_unknown;
  out->watts = meter->instant ? instant_watts(meter) : averaged_watts(meter);
  out->sm_mhz = clock_mhz(meter, MMCI_NVML_CLOCK_SM);
  out->memory_mhz = clock_mhz(meter, MMCI_NVML_CLOCK_MEMORY);
  if (nvml->temperature != NULL &&
      nvml->temperature(meter->device, MMCI_NVML_TEMPERATURE_GPU, &celsius) == MMCI_NVML_SUCCESS)
    out->celsius = celsius;
  if (nvml->throttle != NULL && nvml->throttle(meter->device, &reasons) == MMCI_NVML_SUCCESS)
    out->throttle = (int64_t)(reasons & INT64_MAX);
}

const mmci_meter_ops mmci_meter_nvml = {
    .name = "nvml",
    .locate = nvml_locate,
    .open = nvml_open,
    .close = nvml_close,
    .describe = nvml_describe,
    .joules = nvml_joules,
    .state = nvml_state,
};

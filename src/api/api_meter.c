/* api_meter.c: energy meters by name. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/alloc.h"
#include "meter/measure.h"
#include "meter/nvml.h"

/* ---- names --------------------------------------------------------------------------------- */

/* What may be asked for: the devices and the meters themselves. Those that are numbered take ":i".
 */
static const struct {
  const char *name;
  const mmci_meter_ops *ops;
  bool numbered;
} names[] = {
    {"cpu", &mmci_meter_rapl, false},  {"blas", &mmci_meter_rapl, false},
    {"ref", &mmci_meter_rapl, false},  {"rapl", &mmci_meter_rapl, false},
    {"cuda", &mmci_meter_nvml, true},  {"nvml", &mmci_meter_nvml, true},
    {"none", &mmci_meter_none, false},
};

static const char replay_prefix[] = "replay:";

/* The meter of a name, and the number after it; NULL when there is no such name. */
static const mmci_meter_ops *find_meter(const char *name, int *index) {
  *index = 0;
  if (strncmp(name, replay_prefix, strlen(replay_prefix)) == 0) return &mmci_meter_replay;
  size_t length = strcspn(name, ":");
  for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
    if (strlen(names[n].name) != length || strncmp(names[n].name, name, length) != 0) continue;
    if (name[length] == '\0') return names[n].ops;
    const char *digits = name + length + 1;
    size_t count = strspn(digits, "0123456789");
    if (!names[n].numbered || count < 1 || count > 4 || digits[count] != '\0') return NULL;
    *index = (int)strtol(digits, NULL, 10);
    return names[n].ops;
  }
  return NULL;
}

/* The PCI bus of device number index of CUDA: CUDA knows, and where its module is missing NVML's
 * order has to do. */
static mmc_status bus_id_of(mmc_context *context, int index, char bus_id[MMCI_NVML_BUS_ID_SIZE],
                            mmci_error *error) {
  char name[16];
  snprintf(name, sizeof name, "cuda:%d", index);
  mmci_opened on;
  mmci_identity identity = {0};
  mmc_status status = mmci_context_open_device(context, name, &on, error);
  if (status == MMC_E_NOMEM) return status;
  if (status == MMC_OK && on.ops->identify != NULL) on.ops->identify(on.device, &identity);
  if (identity.bus_id[0] != '\0') {
    snprintf(bus_id, MMCI_NVML_BUS_ID_SIZE, "%.31s", identity.bus_id);
    return MMC_OK;
  }
  return mmci_nvml_bus_id(NULL, getenv("CUDA_VISIBLE_DEVICES"), index, bus_id, error);
}

/* ---- opening ------------------------------------------------------------------------------- */

static mmc_status open_gpu(mmc_context *context, int index, mmci_meter **out, mmci_error *error) {
  char bus_id[MMCI_NVML_BUS_ID_SIZE];
  mmc_status status = bus_id_of(context, index, bus_id, error);
  if (status != MMC_OK) return status;
  return mmci_meter_nvml.open(&(mmci_meter_source){.pci_bus_id = bus_id}, out, error);
}

/* Opens the meter of a name, or none for the reason that it is not here. */
static mmc_status open_named(mmc_meter *meter, const char *name, mmci_error *error) {
  int index;
  meter->ops = find_meter(name, &index);
  if (meter->ops == NULL)
    return mmci_fail(error, MMC_E_ARG,
                     "meter: expected cpu, blas, ref, cuda, cuda:N, rapl, nvml:N, replay:FILE or "
                     "none, got '%.200s'",
                     name);
  mmci_meter_source source = {0};
  if (meter->ops == &mmci_meter_replay) {
    source.recording = name + strlen(replay_prefix);
    return mmci_meter_replay.open(&source, &meter->meter, error);
  }
  mmc_status status = meter->ops == &mmci_meter_nvml
                          ? open_gpu(meter->context, index, &meter->meter, error)
                          : meter->ops->open(&source, &meter->meter, error);
  if (status == MMC_OK || status == MMC_E_NOMEM) return status;
  char reason[sizeof error->text];
  memcpy(reason, error->text, sizeof reason);
  source.reason = reason;
  meter->ops = &mmci_meter_none;
  return mmci_meter_none.open(&source, &meter->meter, error);
}

mmc_status mmc_meter_open(mmc_context *context, const char *device, mmc_meter **out) {
  if (context == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  if (device == NULL || out == NULL)
    return mmci_report(context, mmci_fail(&error, MMC_E_ARG, "device and out: expected no NULL"),
                       &error);
  mmc_meter *meter = malloc(sizeof *meter);
  if (meter == NULL) return mmci_report(context, mmci_fail_nomem(&error, sizeof *meter), &error);
  meter->context = context;
  mmc_status status = open_named(meter, device, &error);
  if (status != MMC_OK) {
    free(meter);
    return mmci_report(context, status, &error);
  }
  *out = meter;
  return MMC_OK;
}

void mmc_meter_destroy(mmc_meter *meter) {
  if (meter == NULL) return;
  meter->ops->close(meter->meter);
  free(meter);
}

/* ---- the list ------------------------------------------------------------------------------ */

/* rapl comes first, then an nvml for every GPU, or one that says why there is none. */
static mmc_status describe_meter(mmc_context *context, int index, mmc_meter_info *out,
                                 mmci_error *error) {
  mmci_meter_source source = {0};
  char bus_id[MMCI_NVML_BUS_ID_SIZE];
  const mmci_meter_ops *ops = index == 0 ? &mmci_meter_rapl : &mmci_meter_nvml;
  mmc_meter_info info = {0};
  snprintf(info.name, sizeof info.name, "%s", ops->name);
  mmc_status status = index < 0 ? MMC_E_ARG : MMC_OK;
  if (index > 0) {
    status = bus_id_of(context, index - 1, bus_id, error);
    source.pci_bus_id = bus_id;
    if (status == MMC_OK) snprintf(info.name, sizeof info.name, "%s:%d", ops->name, index - 1);
  }
  if (status != MMC_OK && index != 1)
    return mmci_fail(error, MMC_E_ARG, "index: there is no meter number %d", index);
  mmci_meter *meter;
  if (status == MMC_OK) status = ops->open(&source, &meter, error);
  if (status == MMC_E_NOMEM) return status;
  info.available = status == MMC_OK;
  if (info.available) {
    ops->describe(meter, info.description, sizeof info.description);
    ops->close(meter);
  } else {
    snprintf(info.description, sizeof info.description, "%s", error->text);
  }
  *out = info;
  return MMC_OK;
}

mmc_status mmc_meter_describe(mmc_context *context, int index, mmc_meter_info *out) {
  if (context == NULL || out == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  return mmci_report(context, describe_meter(context, index, out, &error), &error);
}

/* ---- measuring ----------------------------------------------------------------------------- */

static bool is_duration(double seconds) {
  return isfinite(seconds) && seconds >= 0;
}

static mmc_status check_options(const mmc_energy_options *options, mmci_error *error) {
  if (options->size != sizeof *options)
    return mmci_fail(error, MMC_E_ARG, "options: expected size %zu, got %zu", sizeof *options,
                     options->size);
  if (!is_duration(options->min_s) || options->min_s == 0)
    return mmci_fail(error, MMC_E_ARG, "min_s: expected seconds, more than 0, got %g",
                     options->min_s);
  if (!is_duration(options->warm_s) || !is_duration(options->idle_s))
    return mmci_fail(error, MMC_E_ARG, "warm_s and idle_s: expected seconds, got %g and %g",
                     options->warm_s, options->idle_s);
  if (options->work == NULL && options->idle_s == 0)
    return mmci_fail(error, MMC_E_ARG, "work: expected a function, got NULL, or idle_s above 0");
  return MMC_OK;
}

mmc_status mmc_meter_measure(mmc_meter *meter, const mmc_energy_options *options, mmc_energy *out) {
  if (meter == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  if (options == NULL || out == NULL)
    return mmci_report(meter->context,
                       mmci_fail(&error, MMC_E_ARG, "options and out: expected no NULL"), &error);
  mmc_status status = check_options(options, &error);
  if (status == MMC_OK) status = mmci_measure(meter->ops, meter->meter, options, NULL, out, &error);
  if (status == MMC_E_INTERRUPTED) return status;
  return mmci_report(meter->context, status, &error);
}

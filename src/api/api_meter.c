/* api_meter.c: the public calls about energy meters, which are found by name. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/options.h"
#include "meter/measure.h"

/* ---- names --------------------------------------------------------------------------------- */

/* What a name stands for: a meter and its number, or the meter of a device. */
typedef struct wanted {
  const mmci_meter_ops *ops;
  int index;
  const char *file; /* the file that a replaying meter reads; NULL for any other */
} wanted;

static const mmci_meter_ops *meter_called(const char *name, size_t length) {
  const mmci_meter_ops *const *m = mmci_meters;
  while (*m != NULL && (strlen((*m)->name) != length || strncmp((*m)->name, name, length) != 0))
    m++;
  return *m;
}

/* Reads what follows a meter's name. Returns false when the meter does not take it. */
static bool read_rest(const char *rest, wanted *out) {
  size_t count = rest[0] == ':' ? strspn(rest + 1, "0123456789") : 0;
  if (out->ops->plays_file) {
    out->file = rest + 1;
    return rest[0] == ':';
  }
  if (rest[0] == '\0') return true;
  if (out->ops->locate == NULL || count < 1 || count > 4 || rest[1 + count] != '\0') return false;
  out->index = (int)strtol(rest + 1, NULL, 10);
  return true;
}

/* Reads a name; returns false when there is no such name. */
static bool read_name(const char *name, wanted *out) {
  *out = (wanted){0};
  const mmci_device_kind *kind = mmci_device_kind_of(name, &out->index);
  if (kind != NULL) {
    out->ops = meter_called(kind->meter, strlen(kind->meter));
    return out->ops != NULL;
  }
  size_t length = strcspn(name, ":");
  out->ops = meter_called(name, length);
  return out->ops != NULL && read_rest(name + length, out);
}

/* Says which names there are. */
static mmc_status fail_name(const char *name, mmci_error *error) {
  char names[256];
  mmci_device_names(names, sizeof names);
  size_t length = strlen(names);
  for (const mmci_meter_ops *const *m = mmci_meters; *m != NULL && length < sizeof names; m++) {
    const char *rest = (*m)->plays_file ? ":FILE" : (*m)->locate != NULL ? ":N" : "";
    length += (size_t)snprintf(names + length, sizeof names - length, "%s%s%s",
                               m[1] == NULL ? " or " : ", ", (*m)->name, rest);
  }
  return mmci_fail_argument(error, MMC_E_ARG, "meter", "expected %s, got '%.200s'", names, name);
}

/* Finds the address of meter number index: from the device that it reads, or where that is not
 * here, by the meter's own order. */
static mmc_status locate(mmc_context *context, const mmci_meter_ops *ops, int index,
                         char address[MMCI_METER_ADDRESS_SIZE], mmci_error *error) {
  const mmci_device_kind *kind = mmci_device_kinds;
  while (kind->name != NULL && strcmp(kind->meter, ops->name) != 0) kind++;
  if (kind->name != NULL) {
    char name[32];
    snprintf(name, sizeof name, kind->is_module ? "%.16s:%d" : "%.16s", kind->name, index);
    mmci_opened on;
    mmci_identity identity = {0};
    mmc_status status = mmci_context_open_device(context, name, &on, error);
    if (status == MMC_E_NOMEM) return status;
    if (status == MMC_OK && on.ops->identify != NULL) on.ops->identify(on.device, &identity);
    snprintf(address, MMCI_METER_ADDRESS_SIZE, "%.31s", identity.bus_id);
    if (address[0] != '\0') return MMC_OK;
  }
  return ops->locate(index, address, error);
}

/* ---- opening ------------------------------------------------------------------------------- */

static mmc_status open_wanted(mmc_context *context, const wanted *x, mmci_meter **out,
                              mmci_error *error) {
  char address[MMCI_METER_ADDRESS_SIZE];
  mmci_meter_source source = {.recording = x->file, .address = address};
  mmc_status status = MMC_OK;
  if (x->ops->locate != NULL) status = locate(context, x->ops, x->index, address, error);
  return status == MMC_OK ? x->ops->open(&source, out, error) : status;
}

/* Opens the meter of a name, or the meter none with the reason why it is not here. A file that
 * cannot be played is a failure. */
static mmc_status open_named(mmc_meter *meter, const char *name, mmci_error *error) {
  wanted x;
  if (!read_name(name, &x)) return fail_name(name, error);
  meter->ops = x.ops;
  mmc_status status = open_wanted(meter->context, &x, &meter->meter, error);
  if (status == MMC_OK || status == MMC_E_NOMEM || x.ops->plays_file) return status;
  char reason[sizeof error->text];
  memcpy(reason, error->text, sizeof reason);
  meter->ops = &mmci_meter_none;
  return mmci_meter_none.open(&(mmci_meter_source){.reason = reason}, &meter->meter, error);
}

mmc_status mmci_meter_open(mmc_context *context, const char *device, mmc_meter **out,
                           mmci_error *error) {
  if (device == NULL || out == NULL)
    return mmci_fail(error, MMC_E_ARG, "device and out: expected no NULL");
  mmc_meter *meter = malloc(sizeof *meter);
  if (meter == NULL) return mmci_fail_nomem(error, sizeof *meter);
  meter->context = context;
  mmc_status status = open_named(meter, device, error);
  if (status == MMC_OK)
    *out = meter;
  else
    free(meter);
  return status;
}

mmc_status mmc_meter_open(mmc_context *context, const char *device, mmc_meter **out) {
  if (context == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  return mmci_report(context, mmci_meter_open(context, device, out, &error), &error);
}

void mmc_meter_destroy(mmc_meter *meter) {
  if (meter == NULL) return;
  meter->ops->close(meter->meter);
  free(meter);
}

/* ---- the list ------------------------------------------------------------------------------ */

/* Says what a meter reads, or why it is not here. */
static mmc_status describe_found(const mmci_meter_ops *ops, const mmci_meter_source *source,
                                 mmc_meter_info *out, mmci_error *error) {
  mmci_meter *meter;
  mmc_status status = ops->open(source, &meter, error);
  if (status == MMC_E_NOMEM) return status;
  out->available = status == MMC_OK;
  if (!out->available) {
    snprintf(out->description, sizeof out->description, "%s", error->text);
    return MMC_OK;
  }
  ops->describe(meter, out->description, sizeof out->description);
  ops->close(meter);
  return MMC_OK;
}

/* Describes a numbered meter. *found says whether there is that number; when there are none, number
 * 0 says why. */
static mmc_status describe_number(mmc_context *context, const mmci_meter_ops *ops, int index,
                                  mmc_meter_info *out, bool *found, mmci_error *error) {
  char address[MMCI_METER_ADDRESS_SIZE];
  mmc_status status = locate(context, ops, index, address, error);
  *found = status == MMC_OK || index == 0;
  if (status == MMC_E_NOMEM || !*found) return status == MMC_E_NOMEM ? status : MMC_OK;
  if (status != MMC_OK) {
    snprintf(out->description, sizeof out->description, "%s", error->text);
    return MMC_OK;
  }
  snprintf(out->name, sizeof out->name, "%s:%d", ops->name, index);
  return describe_found(ops, &(mmci_meter_source){.address = address}, out, error);
}

/* Describes the meters that read this machine, each number of a numbered one. */
static mmc_status describe_meter(mmc_context *context, int index, mmc_meter_info *out,
                                 mmci_error *error) {
  int left = index;
  for (const mmci_meter_ops *const *m = mmci_meters; left >= 0 && *m != NULL; m++) {
    if ((*m)->plays_file || *m == &mmci_meter_none) continue;
    bool found = true;
    for (int number = 0; found && left >= 0; number++, left -= found) {
      mmc_meter_info info = {0};
      snprintf(info.name, sizeof info.name, "%s", (*m)->name);
      mmc_status status = MMC_OK;
      if ((*m)->locate != NULL)
        status = describe_number(context, *m, number, &info, &found, error);
      else if (number > 0)
        found = false;
      else if (left == 0)
        status = describe_found(*m, &(mmci_meter_source){0}, &info, error);
      if (status != MMC_OK) return status;
      if (!found || left > 0) continue;
      *out = info;
      return MMC_OK;
    }
  }
  return mmci_fail(error, MMC_E_ARG, "index: there is no meter number %d", index);
}

mmc_status mmc_meter_describe(mmc_context *context, int index, mmc_meter_info *out) {
  if (context == NULL) return MMC_E_ARG;
  if (out == NULL) return mmci_report_null(context, "out");
  mmci_error error = {0};
  return mmci_report(context, describe_meter(context, index, out, &error), &error);
}

/* ---- measuring ----------------------------------------------------------------------------- */

static bool is_duration(double seconds) {
  return isfinite(seconds) && seconds >= 0;
}

static mmc_status check_energy_options(const mmc_energy_options *options, mmci_error *error) {
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
  mmc_energy_options read = MMC_ENERGY_OPTIONS_INIT;
  mmc_status status = mmci_options_read("options", options, &read, sizeof read, &error);
  if (status == MMC_OK) status = check_energy_options(&read, &error);
  if (status == MMC_OK) status = mmci_measure(meter->ops, meter->meter, &read, NULL, out, &error);
  if (status == MMC_E_INTERRUPTED) return status;
  return mmci_report(meter->context, status, &error);
}

/* none.c: the meter of a machine on which nothing can be measured. It says why. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "meter/meter.h"

const mmci_meter_state mmci_meter_state_unknown = {
    .watts = NAN, .sm_mhz = NAN, .memory_mhz = NAN, .celsius = NAN, .throttle = -1};

struct mmci_meter {
  char *reason;
};

static mmc_status none_open(const mmci_meter_source *source, mmci_meter **out, mmci_error *error) {
  const char *reason = source->reason != NULL ? source->reason : "no meter is asked for";
  mmci_meter *meter = malloc(sizeof *meter);
  if (meter == NULL) return mmci_fail_nomem(error, sizeof *meter);
  meter->reason = strdup(reason);
  if (meter->reason == NULL) {
    free(meter);
    return mmci_fail_nomem(error, strlen(reason) + 1);
  }
  *out = meter;
  return MMC_OK;
}

static void none_close(mmci_meter *meter) {
  free(meter->reason);
  free(meter);
}

static void none_describe(const mmci_meter *meter, char *text, size_t size) {
  snprintf(text, size, "%s", meter->reason);
}

static mmc_status none_joules(mmci_meter *meter, double time_s, double *joules, mmci_error *error) {
  (void)time_s, (void)joules;
  return mmci_fail(error, MMC_E_UNSUPPORTED, "%s", meter->reason);
}

const mmci_meter_ops mmci_meter_none = {
    .name = "none",
    .open = none_open,
    .close = none_close,
    .describe = none_describe,
    .joules = none_joules,
};

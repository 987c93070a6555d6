/* toy_meter.c: the meter "lamp" of docs/howto-meter.md: it takes the machine for a lamp. */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "howto/toy_device.h"

struct mmci_meter {
  double watts;
};

static mmc_status lamp_open(const mmci_meter_source *source, mmci_meter **out, mmci_error *error) {
  (void)source; /* a lamp is found without an address or a file */
  mmci_meter *meter = malloc(sizeof *meter);
  if (meter == NULL) return mmci_fail_nomem(error, sizeof *meter);
  meter->watts = TOY_WATTS;
  *out = meter;
  return MMC_OK;
}

static void lamp_close(mmci_meter *meter) {
  free(meter);
}

static void lamp_describe(const mmci_meter *meter, char *text, size_t size) {
  snprintf(text, size, "a lamp of %g W", meter->watts);
}

/* The counter rises with the clock, in steps of a hundredth of a second. */
static mmc_status lamp_joules(mmci_meter *meter, double time_s, double *joules, mmci_error *error) {
  (void)error;
  *joules = meter->watts * floor(time_s * 100) / 100;
  return MMC_OK;
}

const mmci_meter_ops toy_meter = {
    .name = "lamp",
    .open = lamp_open,
    .close = lamp_close,
    .describe = lamp_describe,
    .joules = lamp_joules,
};

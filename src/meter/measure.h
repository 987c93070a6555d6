/* measure.h: measures the energy of a run of some work, by any meter. */
#ifndef MMCI_METER_MEASURE_H
#define MMCI_METER_MEASURE_H

#include "meter/meter.h"

/* A clock that a test brings: time passes as it says, in rest() and while work runs. */
typedef struct mmci_clock {
  double (*now)(void *user); /* seconds, never backwards */
  void (*rest)(void *user, double seconds);
  void *user;
} mmci_clock;

/* Does mmc_meter_measure(), with options that are checked. When clock is NULL, the machine's clock
 * is used and a thread samples the meter all the while; else the meter is sampled between batches
 * of runs.
 * Returns E_INTERRUPTED when work or wait did, E_NOMEM. A meter that fails is no failure: then out
 * says why nothing is measured. */
mmc_status mmci_measure(const mmci_meter_ops *ops, mmci_meter *meter,
                        const mmc_energy_options *options, const mmci_clock *clock, mmc_energy *out,
                        mmci_error *error);

#endif

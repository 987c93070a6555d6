/* session.h: one call of mmc_tune(): measures all that is asked for, one dtype after the other. */
#ifndef MMCI_SESSION_H
#define MMCI_SESSION_H

#include "device/device.h"
#include "meter/meter.h"
#include "wisdom/wisdom.h"

typedef struct mmci_tune_request {
  const mmc_tune_options *options; /* their values have been checked */
  const mmci_opened *on;
  mmci_precision precision;
  bool for_energy;
  const mmci_meter_ops *meter_ops; /* the meter of joules; this and meter are NULL without one */
  mmci_meter *meter;
  mmci_wisdom *wisdom;
} mmci_tune_request;

/* Measures and keeps what it learns in the store. *report is filled on failure as well. A budget
 * that is spent is no failure. Returns: E_INTERRUPTED when a callback said so, E_NOMEM, and what
 * device, meter and store return. */
mmc_status mmci_tune_session(const mmci_tune_request *request, mmc_tune_report *report,
                             mmci_error *error);

#endif

/* api.h: the objects behind the public handles. */
#ifndef MMCI_API_H
#define MMCI_API_H

#include <pthread.h>

#include "base/interrupt.h"
#include "device/device.h"
#include "meter/meter.h"
#include "plan/plan.h"
#include "run/run.h"
#include "wisdom/wisdom.h"

struct mmc_context {
  pthread_mutex_t lock; /* guards registry, message and argument */
  mmci_registry *registry;
  mmci_wisdom *wisdom; /* locks itself */
  char message[480];
  char argument[32]; /* what the message is about */
};

/* Keeps the message on the context, which may be NULL, and returns the status. */
mmc_status mmci_report(mmc_context *context, mmc_status status, const mmci_error *error);

/* Opens a device by name under the context's lock. */
mmc_status mmci_context_open_device(mmc_context *context, const char *name, mmci_opened *out,
                                    mmci_error *error);

struct mmc_meter {
  mmc_context *context;
  const mmci_meter_ops *ops;
  mmci_meter *meter;
};

/* Opens a meter as mmc_meter_open() does. */
mmc_status mmci_meter_open(mmc_context *context, const char *device, mmc_meter **out,
                           mmci_error *error);

struct mmc_plan {
  mmc_context *context;
  mmci_opened on;
  mmci_precision precision;
  mmci_plan plan;
};

struct mmc_run {
  const mmc_plan *plan;
  mmci_run *run;
  mmci_interrupt interrupt; /* stops executions on the host */
};

#endif

/* scratch.h: what the products of a plan hold of the device's memory for themselves, as the run
 * prepares them. */
#ifndef MMCI_SCRATCH_H
#define MMCI_SCRATCH_H

#include "device/device.h"
#include "plan/plan.h"

/* Who will run the plan, and whether factors and result come from and go to the host. */
typedef struct mmci_scratch_user {
  const mmci_device_ops *ops;
  mmci_device *device;
  mmci_precision precision;
  bool staged;
} mmci_scratch_user;

/* For mmci_plan_machine; user: mmci_scratch_user. Of matrices that are row-major without gaps. */
uint64_t mmci_step_scratch_bytes(const void *user, const mmci_plan *plan, int32_t step);

#endif

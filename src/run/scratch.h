/* scratch.h: the bytes of the device's memory that the products of a plan hold for themselves, as
 * the run prepares them. */
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

/* Returns the bytes of a step, whose matrices are row-major without gaps. It is a function for
 * mmci_plan_machine; user is a mmci_scratch_user. */
uint64_t mmci_step_scratch_bytes(const void *user, const mmci_plan *plan, int32_t step);

#endif

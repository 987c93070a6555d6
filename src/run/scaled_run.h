/* scaled_run.h: executes a plan whose results have exponents (chain/scale.h), on host memory, chain
 * by chain and step by step. */
#ifndef MMCI_SCALED_RUN_H
#define MMCI_SCALED_RUN_H

#include "device/device.h"
#include "plan/plan.h"

typedef struct mmci_scaled_run mmci_scaled_run;

/* Makes a run; plan and device must outlive it. Returns E_NOMEM, E_DEVICE. */
mmc_status mmci_scaled_run_create(const mmci_plan *plan, const mmci_device_ops *ops,
                                  mmci_device *device, mmci_precision precision,
                                  mmci_scaled_run **out, mmci_error *error);
void mmci_scaled_run_destroy(mmci_scaled_run *run);

/* Executes with matrices that have been checked; exponents gets one for every chain of the batch.
 * Returns E_NOMEM, E_DEVICE, E_INTERRUPTED. */
mmc_status mmci_scaled_run_execute(mmci_scaled_run *run, const mmc_matrix *factors,
                                   const mmc_matrix *out, int64_t *exponents, mmci_error *error);

#endif

/* structured_run.h: executes a plan whose factors have structure, chain by chain, in the host's
 * memory or in that of a device. */
#ifndef MMCI_STRUCTURED_RUN_H
#define MMCI_STRUCTURED_RUN_H

#include "device/device.h"
#include "plan/plan.h"

typedef struct mmci_structured_run mmci_structured_run;

/* Makes a run; plan and device must outlive it. Returns E_NOMEM, E_DEVICE. */
mmc_status mmci_structured_run_create(const mmci_plan *plan, const mmci_device_ops *ops,
                                      mmci_device *device, mmci_structured_run **out,
                                      mmci_error *error);
void mmci_structured_run_destroy(mmci_structured_run *run);

/* Executes. Returns E_ARG where a matrix to be inverted is singular or not definite, and names it;
 * E_NOMEM, E_DEVICE, E_INTERRUPTED. */
mmc_status mmci_structured_run_execute(mmci_structured_run *run, const mmc_matrix *factors,
                                       const mmc_matrix *out, mmci_error *error);
/* Does the same on the caller's stream, and leaves the work to it, once the pivots are seen, where
 * no matrix is on the host. */
mmc_status mmci_structured_run_enqueue(mmci_structured_run *run, void *stream,
                                       const mmc_matrix *factors, const mmc_matrix *out,
                                       mmci_error *error);
mmc_status mmci_structured_run_wait(mmci_structured_run *run, mmci_error *error);

#endif

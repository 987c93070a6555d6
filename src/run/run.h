/* run.h: walks a plan on a device. */
#ifndef MMCI_RUN_H
#define MMCI_RUN_H

#include "device/device.h"
#include "plan/plan.h"

/* A run holds the prepared products and the memory for intermediates; it does one execution at a
 * time. */
typedef struct mmci_run mmci_run;

/* Makes a run; plan and device must outlive it. Returns E_NOMEM, E_DEVICE, E_UNSUPPORTED. */
mmc_status mmci_run_create(const mmci_plan *plan, const mmci_device_ops *ops, mmci_device *device,
                           mmci_precision precision, mmci_run **out, mmci_error *error);
void mmci_run_destroy(mmci_run *run);

/* Does what mmc_execute() says: checks the matrices, then runs every step. */
mmc_status mmci_run_execute(mmci_run *run, const mmc_matrix *factors, const mmc_matrix *out,
                            mmci_error *error);
/* Does what mmc_execute_scaled() says, for a plan with exponents. */
mmc_status mmci_run_execute_scaled(mmci_run *run, const mmc_matrix *factors, const mmc_matrix *out,
                                   int64_t *exponents, mmci_error *error);
/* Does what mmc_enqueue() says. */
mmc_status mmci_run_enqueue(mmci_run *run, void *stream, const mmc_matrix *factors,
                            const mmc_matrix *out, mmci_error *error);
/* Does what mmc_wait() says. */
mmc_status mmci_run_wait(mmci_run *run, mmci_error *error);

#endif

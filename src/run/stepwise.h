/* stepwise.h: what runs have in common that compute a plan one product after the other: a queue,
 * the workspace, and the device's product of each step, prepared for operands as they lie. */
#ifndef MMCI_STEPWISE_H
#define MMCI_STEPWISE_H

#include "device/device.h"
#include "plan/plan.h"

/* A product that is prepared for operands that lie so. */
typedef struct mmci_stepwise_product {
  mmci_gemm gemm;
  mmci_kernel *kernel; /* NULL before the step's first execution, or where it is no GEMM */
} mmci_stepwise_product;

typedef struct mmci_stepwise {
  const mmci_plan *plan;
  const mmci_device_ops *ops;
  mmci_device *device;
  mmci_queue *queue;
  char *workspace;
  mmci_stepwise_product *products; /* step_count */
} mmci_stepwise;

/* Opens the queue and takes the workspace; out is zeros before. What was opened is to be closed, on
 * failure too. */
mmc_status mmci_stepwise_open(const mmci_plan *plan, const mmci_device_ops *ops,
                              mmci_device *device, mmci_stepwise *out, mmci_error *error);
void mmci_stepwise_close(mmci_stepwise *x);

/* Computes c = a b as step s; multiply waits for it. */
mmc_status mmci_stepwise_enqueue(mmci_stepwise *x, int32_t s, const mmci_gemm *gemm, const void *a,
                                 const void *b, void *c, mmci_error *error);
mmc_status mmci_stepwise_multiply(mmci_stepwise *x, int32_t s, const mmci_gemm *gemm, const void *a,
                                  const void *b, void *c, mmci_error *error);

#endif

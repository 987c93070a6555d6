/* api.h: the objects behind the public handles. */
#ifndef MMCI_API_H
#define MMCI_API_H

#include <pthread.h>

#include "device/device.h"
#include "meter/meter.h"
#include "plan/plan_groups.h"
#include "run/run.h"
#include "tune/groups.h"
#include "wisdom/wisdom_energy.h"

struct mmc_context {
  pthread_mutex_t lock; /* guards registry and message */
  mmci_registry *registry;
  mmci_wisdom *wisdom; /* locks itself */
  char message[480];
};

/* Keeps the message on the context, which may be NULL, and returns the status. */
mmc_status mmci_report(mmc_context *context, mmc_status status, const mmci_error *error);

/* Opens a device by name under the context's lock. */
mmc_status mmci_context_open_device(mmc_context *context, const char *name, mmci_opened *out,
                                    mmci_error *error);

/* What wisdom measured by this device, dtype and precision ("native") is kept under. */
mmc_status mmci_context_fingerprint(mmc_context *context, const char *device, mmc_dtype dtype,
                                    const char *precision, mmci_fingerprint *out,
                                    mmci_error *error);

/* Prices by what is known of a device here. */
mmc_status mmci_context_pricing(mmc_context *context, const char *device, mmc_dtype dtype,
                                mmci_precision precision, mmci_wisdom_pricing **out,
                                mmci_error *error);

/* The same of energy. */
mmc_status mmci_context_energy(mmc_context *context, const char *device, mmc_dtype dtype,
                               mmci_precision precision, mmci_wisdom_energy **out,
                               mmci_error *error);

struct mmc_meter {
  mmc_context *context;
  const mmci_meter_ops *ops;
  mmci_meter *meter;
};

struct mmc_plan {
  mmc_context *context;
  mmci_opened on;
  mmci_precision precision;
  const char *kernel; /* while it is made, the name that was asked for; NULL: none */
  mmci_plan plan;
};

/* ---- kernels: api_kernel.c ------------------------------------------------------------------- */

/* Whether a kernel's name begins with what was asked for. */
bool mmci_kernel_is_called(const char *name, const char *asked);
/* The product of a step, with its matrices row-major, without gaps, and the variant of its recipe
 * when that is one call; of a batch, as the device is given it. */
mmci_gemm mmci_step_gemm(const mmci_plan *plan, const mmci_opened *on, mmci_precision precision,
                         int32_t step);
/* Has every step computed by the device's first way of this name. *found: whether each has one;
 * else the plan is as it was. Returns E_NOMEM, E_DEVICE. */
mmc_status mmci_plan_by_kernel(mmci_plan *plan, const mmci_opened *on, mmci_precision precision,
                               const char *kernel, bool *found, mmci_error *error);

/* ---- calls of several products: api_groups.c ------------------------------------------------- */

/* A device that is asked to take several products as one call. */
typedef struct mmci_taker {
  const mmci_opened *on;
  mmc_dtype dtype;
  mmci_precision precision;
  const char *kernel;                /* only by the kernel of this name, and then preferred; NULL */
  const mmci_wisdom_pricing *wisdom; /* NULL: calls by the model alone */
} mmci_taker;

/* What the planner has to know of the device, whose products keep to the roofline; false when it
 * takes one product at a time. All that is pointed at must stay. */
bool mmci_group_machine_of(const mmci_taker *taker, const mmci_pricing *pricing,
                           const mmci_roofline *roofline, mmci_group_machine *out);

/* Calls, each once; starts as {0}. */
typedef struct mmci_group_entry {
  mmci_group *chain; /* in one allocation with what it points at */
  char name[MMCI_GROUP_NAME_SIZE];
} mmci_group_entry;
typedef struct mmci_group_list {
  mmci_group_entry *heard;
  int count, capacity;
} mmci_group_list;
void mmci_group_list_destroy(mmci_group_list *calls);
/* Adds what the planner would ask of the device to plan the chain for time: calls of several
 * products and, of a batch, of one, in the order in which it asks. Prices say what products take.
 * Returns E_NOMEM, E_OVERFLOW. */
mmc_status mmci_groups_of_chain(const mmci_opened *on, mmci_precision precision,
                                const mmc_chain *chain, const mmci_pricing *pricing,
                                const mmci_roofline *roofline, mmci_group_list *calls,
                                mmci_error *error);

struct mmc_run {
  const mmc_plan *plan;
  mmci_run *run;
};

#endif

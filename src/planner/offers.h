/* offers.h: what a device offers the planner. offers.c is the only file of the planner that asks
 * devices. */
#ifndef MMCI_OFFERS_H
#define MMCI_OFFERS_H

#include "chain/group.h"
#include "planner/cover.h"
#include "planner/fit.h"
#include "wisdom/wisdom_energy.h"

struct mmci_opened;

/* ---- who the device is --------------------------------------------------------------------- */

/* What wisdom measured by this device, dtype and precision ("native") is kept under. */
void mmci_offers_fingerprint(const struct mmci_opened *on, mmc_dtype dtype, const char *precision,
                             mmci_fingerprint *out);
/* What the device tells of itself. Returns what mmci_opened_facts() does. */
mmc_status mmci_offers_facts(const struct mmci_opened *on, mmc_dtype dtype,
                             mmci_precision precision, mmci_facts *out, mmci_error *error);
/* Prices by what wisdom knows of the device, and else by what it tells. Returns what
 * mmci_wisdom_pricing_create() does. */
mmc_status mmci_offers_pricing(const struct mmci_opened *on, mmci_wisdom *wisdom, mmc_dtype dtype,
                               mmci_precision precision, mmci_wisdom_pricing **out,
                               mmci_error *error);
/* The same of energy. */
mmc_status mmci_offers_energy(const struct mmci_opened *on, mmci_wisdom *wisdom, mmc_dtype dtype,
                              mmci_precision precision, mmci_wisdom_energy **out,
                              mmci_error *error);
/* Whether every call waits, on host memory. */
bool mmci_offers_host_memory(const struct mmci_opened *on);
/* Whether the device computes products of several queues side by side. */
bool mmci_offers_queues(const struct mmci_opened *on);

/* ---- memory -------------------------------------------------------------------------------- */

/* What a device can hold of a plan. */
typedef struct mmci_offers_memory {
  const struct mmci_opened *on;
  mmci_precision precision;
  bool staged;               /* factors and result are on the host */
  mmci_plan_machine machine; /* all 0 on host memory; its user is this struct */
} mmci_offers_memory;

/* Fits a plan to the device's memory, of which no more than most_bytes may be used. memory: on,
 * precision and staged are given; it must stay where it is while its machine is used. Returns what
 * mmci_plan_fit() does, and E_DEVICE. */
mmc_status mmci_offers_fit(mmci_offers_memory *memory, uint64_t most_bytes, uint64_t limit_bytes,
                           mmci_plan *plan, mmci_error *error);

/* ---- groups -------------------------------------------------------------------------------- */

/* Which groups a device is asked to take. */
typedef struct mmci_group_query {
  const struct mmci_opened *on;
  mmc_dtype dtype;
  mmci_precision precision;
  const char *kernel;                /* only by the kernel of this name, and then preferred; NULL */
  const mmci_wisdom_pricing *wisdom; /* NULL: the model alone says what they take */
} mmci_group_query;

/* What the planner has to know of the device, whose products keep to the roofline; false when it
 * takes one product at a time. All that is pointed at must stay. */
bool mmci_group_machine_of(const mmci_group_query *query, const mmci_pricing *pricing,
                           const mmci_roofline *roofline, mmci_group_machine *out);

/* Groups, each once; starts as {0}. */
typedef struct mmci_group_entry {
  mmci_group *group; /* in one allocation with what it points at */
  char name[MMCI_GROUP_NAME_SIZE];
} mmci_group_entry;
typedef struct mmci_group_list {
  mmci_group_entry *entries;
  int count, capacity;
} mmci_group_list;
void mmci_group_list_destroy(mmci_group_list *list);
/* Adds what the planner would ask of the device to plan the chain for time: groups of several
 * products and, of a batch, of one, in the order in which it asks. Prices say what products take.
 * Returns E_NOMEM, E_OVERFLOW. */
mmc_status mmci_groups_of_chain(const struct mmci_opened *on, mmci_precision precision,
                                const mmc_chain *chain, const mmci_pricing *pricing,
                                const mmci_roofline *roofline, mmci_group_list *list,
                                mmci_error *error);

/* ---- kernels ------------------------------------------------------------------------------- */

/* Whether a kernel's name begins with what was asked for. */
bool mmci_kernel_is_called(const char *name, const char *asked);
/* The product of a step, with its matrices row-major, without gaps, and the variant of its recipe
 * when that is one call; of a batch, as the device is given it. */
mmci_gemm mmci_step_gemm(const mmci_plan *plan, const struct mmci_opened *on,
                         mmci_precision precision, int32_t step);
/* Has every step computed by the device's first way whose kernel's name begins so. *found: whether
 * each has one; else the plan is as it was. Returns E_NOMEM, E_DEVICE. */
mmc_status mmci_plan_by_kernel(mmci_plan *plan, const struct mmci_opened *on,
                               mmci_precision precision, const char *kernel, bool *found,
                               mmci_error *error);
/* Says which kernel the device will run for every step and group, for whom the plan is explained
 * to; of a step in pieces, that of the plain call. Returns E_NOMEM. */
mmc_status mmci_plan_name_kernels(mmci_plan *plan, const struct mmci_opened *on,
                                  mmci_precision precision, mmci_error *error);
/* Whether the device can prepare this product. Fails as prepare does, but for E_UNSUPPORTED. */
mmc_status mmci_offers_product(const struct mmci_opened *on, const mmci_gemm *gemm, bool *out,
                               mmci_error *error);

#endif

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

/* Writes the fingerprint under which wisdom keeps what this device measured with a dtype and a
 * precision ("native"). */
void mmci_offers_fingerprint(const struct mmci_opened *on, mmc_dtype dtype, const char *precision,
                             mmci_fingerprint *out);
/* Tells the device's facts. Returns what mmci_opened_facts() does. */
mmc_status mmci_offers_facts(const struct mmci_opened *on, mmc_dtype dtype,
                             mmci_precision precision, mmci_facts *out, mmci_error *error);
/* Makes prices from what wisdom knows of the device, and else from its facts. Returns what
 * mmci_wisdom_pricing_acquire() does. */
mmc_status mmci_offers_pricing(const struct mmci_opened *on, mmci_wisdom *wisdom, mmc_dtype dtype,
                               mmci_precision precision, mmci_wisdom_pricing **out,
                               mmci_error *error);
/* Makes the prices of time and energy in the same way. */
mmc_status mmci_offers_energy(const struct mmci_opened *on, mmci_wisdom *wisdom, mmc_dtype dtype,
                              mmci_precision precision, mmci_wisdom_energy **out,
                              mmci_error *error);
/* Says whether the device works on host memory, where every call waits. */
bool mmci_offers_host_memory(const struct mmci_opened *on);
/* Says whether the device may take several products as one call. */
bool mmci_offers_groups(const struct mmci_opened *on);
/* Says whether the device computes products of several queues side by side. */
bool mmci_offers_queues(const struct mmci_opened *on);

/* ---- memory -------------------------------------------------------------------------------- */

/* How much of a plan fits into a device's memory. */
typedef struct mmci_offers_memory {
  const struct mmci_opened *on;
  mmci_precision precision;
  bool staged;               /* factors and result are on the host */
  bool asks;                 /* the device is asked even where so little is surely free */
  mmci_plan_machine machine; /* zeros on host memory; its user is this struct */
  /* Bytes that were free for sure; UINT64_MAX where the device was asked, or has none. */
  uint64_t sure_bytes;
} mmci_offers_memory;

/* Fits a plan to the device's memory, of which no more than most_bytes may be used. The caller sets
 * on, precision, staged and asks of memory, which must stay where it is while its machine is used.
 * The device is not asked where the plan fits into what is free for sure. Returns what
 * mmci_plan_fit() does, and E_DEVICE. */
mmc_status mmci_offers_fit(mmci_offers_memory *memory, uint64_t most_bytes, uint64_t limit_bytes,
                           mmci_plan *plan, mmci_error *error);
/* Says whether what was added to a plan since is free for sure, too. Where it is not, the plan is
 * to be made again, and the device to be asked. */
bool mmci_offers_fits(const mmci_offers_memory *memory, const mmci_plan *plan);

/* ---- groups -------------------------------------------------------------------------------- */

/* What to ask a device about groups. */
typedef struct mmci_group_query {
  const struct mmci_opened *on;
  mmc_dtype dtype;
  mmci_precision precision;
  const char *kernel; /* groups by a kernel of this name only, and preferred; may be NULL */
  const mmci_wisdom_pricing *wisdom; /* NULL when the model alone says what they take */
  const mmc_chain *chain;            /* the chain of the groups; not NULL when wisdom is not */
} mmci_group_query;

/* Describes the device for mmci_plan_cover(); its products keep to the roofline. Returns false when
 * it takes one product at a time. All that is pointed at must stay. */
bool mmci_group_machine_of(const mmci_group_query *query, const mmci_pricing *pricing,
                           const mmci_roofline *roofline, mmci_group_machine *out);

/* A list of groups, each once; it starts as {0}. */
typedef struct mmci_group_entry {
  mmci_group *group; /* the group, in one allocation with what it points at */
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

/* Returns the longest side of products that the device takes several of as one call: 0 where it
 * takes none, INT64_MAX where any. */
int64_t mmci_offers_group_side(const struct mmci_opened *on);

/* Says whether the device computes products of this dtype whose factors have structure. */
bool mmci_offers_structure(const struct mmci_opened *on, mmc_dtype dtype);
/* Returns 1 << mmci_structure_kernel for each one that others take the place of. */
uint32_t mmci_offers_structure_lacks(const struct mmci_opened *on, mmc_dtype dtype);
/* Says whether products are computed in memory of the device's own. */
bool mmci_offers_device_memory(const struct mmci_opened *on);
/* Checks that the device has every kernel of a plan whose factors have structure. Returns
 * E_UNSUPPORTED, and names what is missing. */
mmc_status mmci_offers_structured(const struct mmci_opened *on, const mmci_plan *plan,
                                  mmci_error *error);

/* Says whether a kernel's name begins with what was asked for. */
bool mmci_kernel_is_called(const char *name, const char *asked);
/* Returns the product of a step, with its matrices row-major, without gaps, and with the variant of
 * its recipe when that is one call; of a batch, the product that the device is given. */
mmci_gemm mmci_step_gemm(const mmci_plan *plan, const struct mmci_opened *on,
                         mmci_precision precision, int32_t step);
/* Counts the pairs that a plan for traffic fuses, by whether one call executes them and whether the
 * device would take them as one. Returns E_NOMEM. */
mmc_status mmci_plan_count_pairs(mmci_plan *plan, const struct mmci_opened *on,
                                 mmci_precision precision, mmci_error *error);

/* Lets every step be computed by the device's first variant whose kernel's name begins so. *found
 * says whether each has one; else the plan is as it was. Returns E_NOMEM, E_DEVICE. */
mmc_status mmci_plan_by_kernel(mmci_plan *plan, const struct mmci_opened *on,
                               mmci_precision precision, const char *kernel, bool *found,
                               mmci_error *error);
/* Writes which kernel the device will run for every step and group, to explain the plan; for a step
 * in pieces, that of the plain call. Returns E_NOMEM. */
mmc_status mmci_plan_name_kernels(mmci_plan *plan, const struct mmci_opened *on,
                                  mmci_precision precision, mmci_error *error);
/* Fails with E_UNSUPPORTED where the device does not have the sums of a product. */
mmc_status mmci_offers_check_sums(const mmci_plan *plan, const struct mmci_opened *on,
                                  mmci_precision precision, mmci_error *error);
/* Returns what an element of the product is off by at most, as a tolerance of its rule. */
double mmci_offers_error_bound(const struct mmci_opened *on, const mmci_gemm *gemm);

/* Says whether the device can prepare this product. Fails as prepare does, but for
 * E_UNSUPPORTED. */
mmc_status mmci_offers_product(const struct mmci_opened *on, const mmci_gemm *gemm, bool *out,
                               mmci_error *error);

#endif

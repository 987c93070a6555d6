/* phases.h: shares the products of one chain out to threads, in phases.
 *
 * A group here is a sub-tree that one thread computes. Groups of one phase do not need each other,
 * only those of earlier phases; only the last product of a group is read by others. */
#ifndef MMCI_PHASES_H
#define MMCI_PHASES_H

#include "device/device.h"

typedef struct mmci_phases {
  int32_t group_count, phase_count;
  int32_t *order;  /* count products, group by group, children before parents */
  int32_t *groups; /* group_count + 1 entries: where in order each one begins, and the end */
  int32_t *phases; /* phase_count + 1 entries: the same among the groups */
} mmci_phases;

/* Makes the phases; seconds holds what each product takes. There is one group of everything unless
 * several threads gain a fifth by sharing: in an order from left to right every product waits for
 * the one before. Returns E_NOMEM. */
mmc_status mmci_phases_create(const mmci_group *group, const double *seconds, int threads,
                              mmci_phases *out, mmci_error *error);
void mmci_phases_destroy(mmci_phases *groups);

#endif

/* fit.h: fits a plan to the memory of the device that will execute it. */
#ifndef MMCI_FIT_H
#define MMCI_FIT_H

#include "plan/plan.h"

/* A device with memory of its own, as the planner has to know it. */
typedef struct mmci_plan_machine {
  int queues;            /* how many products may run side by side */
  uint64_t memory_bytes; /* bytes of its memory that a plan may take */
  bool staged;           /* factors and result are on the host and need room there as well */
  /* Returns the bytes there that a step of the plan holds for itself while it is prepared; NULL
   * means that none does. */
  uint64_t (*scratch_bytes)(const void *user, const mmci_plan *plan, int32_t step);
  const void *user;
} mmci_plan_machine;

/* Fits a plan to a device with memory of its own. Sub-trees are side by side when there is room for
 * that within limit_bytes of workspace, else one after the other; when even that does not fit,
 * fewer chains of a batch are multiplied at a time, and when one does not fit, products are
 * streamed in panels. What steps hold for themselves counts as workspace; where that is too much,
 * the plan is crowded, and better made again for products that hold less.
 * Returns E_MEMORY_LIMIT when the smallest panels do not fit; the error says how much is
 * missing. */
mmc_status mmci_plan_fit(mmci_plan *plan, const mmci_plan_machine *machine, uint64_t limit_bytes,
                         mmci_error *error);
/* Does only the first of that: *fits says whether there is room for the sub-trees side by side,
 * with what all steps hold. Where there is none, the plan is to be fitted yet. */
mmc_status mmci_plan_fit_beside(mmci_plan *plan, const mmci_plan_machine *machine,
                                uint64_t limit_bytes, bool *fits, mmci_error *error);
/* Counts again what steps hold, once their recipes are chosen. Steps whose recipes hold more than
 * there is room for become plain calls and are priced as such. */
void mmci_plan_fit_recipes(mmci_plan *plan, const mmci_plan_machine *machine, uint64_t limit_bytes);

/* Places the copies of a step whose recipe pads, when the plan's share of the device's memory has
 * room for them after mmci_plan_fit(). Elsewhere, and on the host, the step becomes one plain call
 * and is priced as one. */
void mmci_plan_place_padding(mmci_plan *plan, mmci_plan_step *step);

#endif

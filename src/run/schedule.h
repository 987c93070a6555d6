/* schedule.h: which queue computes which product, and what it waits for. */
#ifndef MMCI_SCHEDULE_H
#define MMCI_SCHEDULE_H

#include "plan/plan.h"

typedef struct mmci_schedule {
  int queues;          /* queues that are used, at least 1; the last step is on queue 0 */
  uint8_t *queue;      /* the queue of each step but those inside a group */
  bool *is_waited_for; /* whether a step on another queue waits for this one */
} mmci_schedule;

/* Gives steps their queues. Of sub-trees that meet in a call, the one of most multiplications goes
 * to its parent's queue and the others to different ones. All go to the same queue where one of
 * them has a step that is not a plain call: kernels that use a multiprocessor otherwise take longer
 * beside each other than one after the other. A result that is read several times goes to the queue
 * of its last reader; when the plan is not parallel, all goes to queue 0. most_queues is 1 to
 * 255. */
mmc_status mmci_schedule_create(const mmci_plan *plan, int most_queues, mmci_schedule *out,
                                mmci_error *error);
void mmci_schedule_destroy(mmci_schedule *schedule);

#endif

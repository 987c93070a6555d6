/* schedule.h: which queue computes which product, and what it waits for. */
#ifndef MMCI_SCHEDULE_H
#define MMCI_SCHEDULE_H

#include "plan/plan.h"

typedef struct mmci_schedule {
  int queues;          /* that are used, at least 1; the last step is on queue 0 */
  uint8_t *queue;      /* of every step but those inside a group */
  bool *is_waited_for; /* of every step: by one on another queue */
} mmci_schedule;

/* Sub-trees that meet in a call go to different queues, the one of most multiplications to its
 * parent's, but to the same where one of them has a step that is not a plain call: kernels that use
 * a multiprocessor otherwise, beside each other, take longer than one after the other. What is read
 * several times goes to the queue of its last reader; all of it to queue 0 when the plan is not
 * parallel. most_queues: 1 to 255. */
mmc_status mmci_schedule_create(const mmci_plan *plan, int most_queues, mmci_schedule *out,
                                mmci_error *error);
void mmci_schedule_destroy(mmci_schedule *schedule);

#endif

#include "run/schedule.h"

#include <string.h>

#include "base/alloc.h"

/* The multiplications of each step's sub-tree. */
static void sum_subtrees(const mmci_plan *plan, mmci_u128 *sums) {
  int32_t n = plan->chain->n;
  for (int32_t s = 0; s < plan->step_count; s++) {
    const mmci_plan_step *x = &plan->steps[s];
    sums[s] = mmci_multiplications(x->m, x->k, x->n);
    if (x->left >= n) sums[s] = mmci_u128_add(sums[s], sums[x->left - n]);
    if (x->right >= n) sums[s] = mmci_u128_add(sums[s], sums[x->right - n]);
  }
}

enum { NOWHERE = UINT8_MAX };

/* The step of most multiplications that a call reads and that has no queue yet, or -1. */
static int32_t heaviest(const mmci_plan *plan, const int32_t *reads, int32_t count,
                        const mmci_u128 *sums, const uint8_t *queue) {
  int32_t heavy = -1;
  for (int32_t o = 0; o < count; o++) {
    int32_t step = reads[o] - plan->chain->n;
    if (step >= 0 && queue[step] == NOWHERE && (heavy < 0 || sums[step] > sums[heavy]))
      heavy = step;
  }
  return heavy;
}

/* Readers come after what they read, so the steps are gone through from the last. */
static void assign(const mmci_plan *plan, int most_queues, const mmci_u128 *sums,
                   mmci_schedule *out) {
  int32_t n = plan->chain->n, last = plan->step_count - 1, count;
  int next = 0;
  out->queue[last] = 0;
  for (int32_t s = last; s >= 0; s--) {
    if (mmci_plan_is_inside(plan, s)) continue;
    uint8_t own = out->queue[s];
    const int32_t *reads = mmci_plan_reads(plan, &plan->steps[s], &count);
    int32_t heavy = heaviest(plan, reads, count, sums, out->queue);
    if (heavy >= 0) out->queue[heavy] = own;
    for (int32_t o = 0; o < count; o++) {
      int32_t step = reads[o] - n;
      if (step < 0) continue;
      if (out->queue[step] == NOWHERE && plan->parallel && most_queues > 1) {
        /* The others take turns. */
        next = next % (most_queues - 1) + 1;
        if (next == own) next = next % (most_queues - 1) + 1;
        out->queue[step] = (uint8_t)next;
        if (next >= out->queues) out->queues = next + 1;
      } else if (out->queue[step] == NOWHERE) {
        out->queue[step] = own;
      }
      if (out->queue[step] != own) out->is_waited_for[step] = true;
    }
  }
}

mmc_status mmci_schedule_create(const mmci_plan *plan, int most_queues, mmci_schedule *out,
                                mmci_error *error) {
  size_t count = (size_t)plan->step_count;
  mmci_schedule schedule = {
      .queues = 1,
      .queue = mmci_alloc_zeroed(count, sizeof *schedule.queue),
      .is_waited_for = mmci_alloc_zeroed(count, sizeof *schedule.is_waited_for)};
  mmci_u128 *sums = mmci_alloc_array(count, sizeof *sums);
  bool done = schedule.queue != NULL && schedule.is_waited_for != NULL && sums != NULL;
  if (done && count > 0) {
    sum_subtrees(plan, sums);
    memset(schedule.queue, NOWHERE, count);
    assign(plan, most_queues, sums, &schedule);
  }
  free(sums);
  if (!done) {
    mmci_schedule_destroy(&schedule);
    return mmci_fail_nomem(error, count * (sizeof *sums + 2));
  }
  *out = schedule;
  return MMC_OK;
}

void mmci_schedule_destroy(mmci_schedule *schedule) {
  free(schedule->queue);
  free(schedule->is_waited_for);
}

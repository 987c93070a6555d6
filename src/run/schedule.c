#include "run/schedule.h"

#include "base/alloc.h"

/* The multiplications of each step's sub-tree. */
static void sum_subtrees(const mmci_plan *plan, mmci_u128 *sums) {
  int32_t n = plan->chain->n;
  for (int32_t s = 0; s < n - 1; s++) {
    const mmci_plan_step *x = &plan->steps[s];
    sums[s] = mmci_multiplications(x->m, x->k, x->n);
    if (x->left >= n) sums[s] = mmci_u128_add(sums[s], sums[x->left - n]);
    if (x->right >= n) sums[s] = mmci_u128_add(sums[s], sums[x->right - n]);
  }
}

/* Parents come after their children, so the steps are gone through from the last. */
static void assign(const mmci_plan *plan, int most_queues, const mmci_u128 *sums,
                   mmci_schedule *out) {
  int32_t n = plan->chain->n;
  int next = 0;
  out->queue[n - 2] = 0;
  for (int32_t s = n - 2; s >= 0; s--) {
    const mmci_plan_step *x = &plan->steps[s];
    int32_t heavy = x->left - n, light = x->right - n;
    if (heavy < 0 || (light >= 0 && sums[light] > sums[heavy])) {
      heavy = x->right - n;
      light = x->left - n;
    }
    if (heavy >= 0) out->queue[heavy] = out->queue[s];
    if (light < 0) continue;
    out->queue[light] = out->queue[s];
    if (!plan->parallel || most_queues == 1) continue;
    /* The others take turns. */
    next = next % (most_queues - 1) + 1;
    if (next == out->queue[s]) next = next % (most_queues - 1) + 1;
    out->queue[light] = (uint8_t)next;
    out->is_waited_for[light] = next != out->queue[s];
    if (next >= out->queues) out->queues = next + 1;
  }
}

mmc_status mmci_schedule_create(const mmci_plan *plan, int most_queues, mmci_schedule *out,
                                mmci_error *error) {
  size_t count = (size_t)plan->chain->n - 1;
  mmci_schedule schedule = {
      .queues = 1,
      .queue = mmci_alloc_zeroed(count, sizeof *schedule.queue),
      .is_waited_for = mmci_alloc_zeroed(count, sizeof *schedule.is_waited_for)};
  mmci_u128 *sums = mmci_alloc_array(count, sizeof *sums);
  bool done = schedule.queue != NULL && schedule.is_waited_for != NULL && sums != NULL;
  if (done && count > 0) {
    sum_subtrees(plan, sums);
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

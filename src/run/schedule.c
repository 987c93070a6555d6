#include "run/schedule.h"

#include <string.h>

#include "base/alloc.h"

/* A step with all the steps that it needs. */
typedef struct subtree {
  mmci_u128 multiplications;
  bool has_recipe;
} subtree;

static void sum_subtrees(const mmci_plan *plan, subtree *trees) {
  int32_t n = plan->chain->n;
  for (int32_t s = 0; s < plan->step_count; s++) {
    const mmci_plan_step *x = &plan->steps[s];
    const int32_t reads[] = {x->left, x->right};
    subtree sum = {mmci_multiplications(x->m, x->k, x->n), mmci_plan_recipe(x) != NULL};
    for (int o = 0; o < 2; o++) {
      if (reads[o] < n) continue;
      const subtree *read = &trees[reads[o] - n];
      sum.multiplications = mmci_u128_add(sum.multiplications, read->multiplications);
      sum.has_recipe = sum.has_recipe || read->has_recipe;
    }
    trees[s] = sum;
  }
}

enum { NOWHERE = UINT8_MAX };

/* Returns the step of most multiplications among those that a call reads and that have no queue
 * yet, or -1. */
static int32_t heaviest(const mmci_plan *plan, const int32_t *reads, int32_t count,
                        const subtree *trees, const uint8_t *queue) {
  int32_t heavy = -1;
  for (int32_t o = 0; o < count; o++) {
    int32_t step = reads[o] - plan->chain->n;
    if (step >= 0 && queue[step] == NOWHERE &&
        (heavy < 0 || trees[step].multiplications > trees[heavy].multiplications))
      heavy = step;
  }
  return heavy;
}

static bool all_are_plain(const mmci_plan *plan, const int32_t *reads, int32_t count,
                          const subtree *trees) {
  for (int32_t o = 0; o < count; o++)
    if (reads[o] >= plan->chain->n && trees[reads[o] - plan->chain->n].has_recipe) return false;
  return true;
}

/* Goes through the steps from the last, because readers come after what they read. */
static void assign_queues(const mmci_plan *plan, int most_queues, const subtree *trees,
                          mmci_schedule *out) {
  int32_t n = plan->chain->n, last = plan->step_count - 1, count;
  int next = 0;
  out->queue[last] = 0;
  for (int32_t s = last; s >= 0; s--) {
    if (mmci_plan_is_inside(plan, s)) continue;
    uint8_t own = out->queue[s];
    const int32_t *reads = mmci_plan_reads(plan, &plan->steps[s], &count);
    int32_t heavy = heaviest(plan, reads, count, trees, out->queue);
    bool apart = plan->parallel && most_queues > 1 && all_are_plain(plan, reads, count, trees);
    if (heavy >= 0) out->queue[heavy] = own;
    for (int32_t o = 0; o < count; o++) {
      int32_t step = reads[o] - n;
      if (step < 0) continue;
      if (out->queue[step] == NOWHERE && apart) {
        /* The other sub-trees take turns on the other queues. */
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
  subtree *trees = mmci_alloc_array(count, sizeof *trees);
  bool done = schedule.queue != NULL && schedule.is_waited_for != NULL && trees != NULL;
  if (done && count > 0) {
    sum_subtrees(plan, trees);
    memset(schedule.queue, NOWHERE, count);
    assign_queues(plan, most_queues, trees, &schedule);
  }
  free(trees);
  if (!done) {
    mmci_schedule_destroy(&schedule);
    return mmci_fail_nomem(error, count * (sizeof *trees + 2));
  }
  *out = schedule;
  return MMC_OK;
}

void mmci_schedule_destroy(mmci_schedule *schedule) {
  free(schedule->queue);
  free(schedule->is_waited_for);
}

/* random_groups.h: plans whose results are read several times, and any groups that are allowed. */
#ifndef MMC_TEST_RANDOM_GROUPS_H
#define MMC_TEST_RANDOM_GROUPS_H

#include <stdlib.h>

#include "plan/layout.h"
#include "planner/cover.h"
#include "random.h"

/* Turns a plan of square factors, n >= 3, into one of fewer steps of any operands, of which every
 * result is read; the ranges of factors that steps are said to cover mean nothing. */
static inline void share_results(uint64_t *random, mmci_plan *plan) {
  int32_t n = plan->chain->n, unread = -1;
  plan->step_count = 1 + (int32_t)random_below(random, n - 2);
  for (int32_t s = 0; s < plan->step_count; s++) {
    mmci_plan_step *x = &plan->steps[s];
    x->left = (int32_t)random_below(random, n + s);
    x->right = (int32_t)random_below(random, n + s);
    /* What nobody has read yet is read now, or once more. */
    if (unread >= 0 && random_below(random, 2) == 0)
      x->left = n + unread;
    else if (unread >= 0)
      x->right = n + unread;
    unread = s;
  }
  mmci_error error;
  if (mmci_plan_place(plan, &error) != MMC_OK) abort();
}

/* A step may join the group that all its readers are in. */
static inline void group_at_random(uint64_t *random, mmci_plan *plan) {
  int32_t n = plan->chain->n, count = plan->step_count, groups = 0;
  int32_t *group_of = malloc((size_t)count * sizeof *group_of);
  if (group_of == NULL) abort();
  int64_t joins = random_below(random, 5);
  for (int32_t s = count - 1; s >= 0; s--) {
    int32_t common = -1;
    bool several = false;
    for (int32_t t = s + 1; t < count; t++) {
      if (plan->steps[t].left != n + s && plan->steps[t].right != n + s) continue;
      several = several || group_of[t] < 0 || (common >= 0 && common != group_of[t]);
      common = group_of[t];
    }
    group_of[s] = -1;
    if (common >= 0 && !several && random_below(random, 4) < joins)
      group_of[s] = common;
    else if (random_below(random, 4) != 0)
      group_of[s] = groups++;
  }
  for (int32_t s = 0; s < count; s++)
    if (group_of[s] >= 0) group_of[s] = groups - 1 - group_of[s];
  mmci_error error;
  if (mmci_plan_group_steps(plan, group_of, &error) != MMC_OK) abort();
  free(group_of);
}

#endif

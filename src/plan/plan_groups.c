#include "plan/plan_groups.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ascending.h"
#include "plan/layout.h"

/* ---- groups -------------------------------------------------------------------------------- */

/* Returns where an operand stands in the chain, as the upper bits above its number. */
static int64_t place_in_chain(const mmci_plan *plan, int32_t number) {
  int32_t n = plan->chain->n, first = number < n ? number : plan->steps[number - n].first;
  return (int64_t)first << 32 | number;
}

void mmci_plan_find_operands(const mmci_plan *plan, mmci_plan_group *group,
                             bool (*is_member)(const void *user, int32_t step), const void *user,
                             int64_t *places) {
  int32_t n = plan->chain->n;
  size_t count = 0;
  for (int32_t i = 0; i < group->step_count; i++) {
    const mmci_plan_step *step = &plan->steps[group->steps[i]];
    int32_t numbers[] = {step->left, step->right};
    for (int o = 0; o < 2; o++)
      if (numbers[o] < n || !is_member(user, numbers[o] - n))
        places[count++] = place_in_chain(plan, numbers[o]);
  }
  mmci_sort_int64s(places, count);
  group->operand_count = 0;
  for (size_t i = 0; i < count; i++)
    if (i == 0 || places[i] != places[i - 1])
      group->operands[group->operand_count++] = (int32_t)(places[i] & INT32_MAX);
}

typedef struct membership {
  const int32_t *group_of;
  int32_t group;
} membership;

static bool is_labelled(const void *user, int32_t step) {
  const membership *m = user;
  return m->group_of[step] == m->group;
}

/* Allocates groups and, behind them, their steps and operands. */
static mmci_plan_group *allocate_groups(int32_t groups, size_t steps, mmci_error *error) {
  size_t size = (size_t)groups * sizeof(mmci_plan_group) + 3 * steps * sizeof(int32_t);
  mmci_plan_group *out = mmci_alloc_zeroed(1, size);
  if (out == NULL) (void)mmci_fail_nomem(error, size);
  return out;
}

mmc_status mmci_plan_group_steps(mmci_plan *plan, const int32_t *group_of, mmci_error *error) {
  int32_t count = plan->step_count, groups = 0;
  for (int32_t s = 0; s < count; s++)
    if (group_of[s] >= groups) groups = group_of[s] + 1;
  mmci_plan_group *made = allocate_groups(groups, (size_t)count, error);
  int64_t *places = mmci_alloc_array(2 * (size_t)count, sizeof *places);
  if (made == NULL || places == NULL) {
    free(made);
    free(places);
    return mmci_fail_nomem(error, 2 * (size_t)count * sizeof *places);
  }
  int32_t *room = (int32_t *)(made + groups);
  for (int32_t s = 0; s < count; s++)
    if (group_of[s] >= 0) made[group_of[s]].step_count++;
  for (int32_t g = 0; g < groups; g++) {
    made[g].kernel = "";
    made[g].source = MMCI_MODELLED;
    made[g].predicted_s = made[g].separate_s = made[g].predicted_j = NAN;
    made[g].steps = room;
    made[g].operands = room + made[g].step_count;
    room += 3 * (size_t)made[g].step_count;
    made[g].step_count = 0;
  }
  for (int32_t s = 0; s < count; s++) {
    plan->steps[s].group = group_of[s];
    if (group_of[s] >= 0) made[group_of[s]].steps[made[group_of[s]].step_count++] = s;
  }
  for (int32_t g = 0; g < groups; g++)
    mmci_plan_find_operands(plan, &made[g], is_labelled, &(membership){group_of, g}, places);
  free(places);
  free(plan->groups);
  plan->groups = made;
  plan->group_count = groups;
  return mmci_plan_place(plan, error);
}

void mmci_plan_disband(mmci_plan *plan) {
  for (int32_t s = 0; plan->steps != NULL && s < plan->step_count; s++) plan->steps[s].group = -1;
  free(plan->groups);
  plan->groups = NULL;
  plan->group_count = 0;
}

mmc_status mmci_plan_separate(const mmci_plan *plan, mmci_plan *out, mmci_error *error) {
  size_t count = (size_t)plan->step_count;
  mmci_plan separate = *plan;
  separate.groups = NULL;
  separate.group_count = 0;
  separate.steps = mmci_alloc_array(count, sizeof *separate.steps);
  if (separate.steps == NULL) return mmci_fail_nomem(error, count * sizeof *separate.steps);
  for (size_t s = 0; s < count; s++) {
    separate.steps[s] = plan->steps[s];
    separate.steps[s].group = -1;
  }
  mmc_status status = mmci_plan_place(&separate, error);
  if (status == MMC_OK)
    *out = separate;
  else
    free(separate.steps);
  return status;
}

void mmci_plan_separate_destroy(mmci_plan *separate) {
  free(separate->steps);
  *separate = (mmci_plan){0};
}

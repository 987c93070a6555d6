/* plan_groups.h: forms groups, steps of a plan that run as one call of the device. */
#ifndef MMCI_PLAN_GROUPS_H
#define MMCI_PLAN_GROUPS_H

#include "plan/plan.h"

/* Makes groups of a plan's steps, and places what is left in the workspace: group_of[s] is the
 * group of step s, counted from 0 without gaps, or -1. A group's steps must be connected, all but
 * the last read within the group alone. It replaces the groups that were there. Returns E_NOMEM. */
mmc_status mmci_plan_group_steps(mmci_plan *plan, const int32_t *group_of, mmci_error *error);
/* Frees the groups; offsets and workspace are left as they are. */
void mmci_plan_disband(mmci_plan *plan);
/* Copies the plan with every step a call of its own. The copy has steps of its own, to be freed
 * with mmci_plan_separate_destroy(); all else belongs to plan, which must outlive it. Returns
 * E_NOMEM. */
mmc_status mmci_plan_separate(const mmci_plan *plan, mmci_plan *out, mmci_error *error);
void mmci_plan_separate_destroy(mmci_plan *separate);

/* Fills the operands of a group whose steps are known; is_member says which steps those are. places
 * has room for two numbers for each step. */
void mmci_plan_find_operands(const mmci_plan *plan, mmci_plan_group *group,
                             bool (*is_member)(const void *user, int32_t step), const void *user,
                             int64_t *places);

#endif

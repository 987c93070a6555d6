/* cover.h: decides which steps of a plan run as one call of the device. */
#ifndef MMCI_COVER_H
#define MMCI_COVER_H

#include "chain/group.h"
#include "cost/group_time.h"
#include "cost/roofline.h"
#include "plan/plan_groups.h"

/* Plans of more steps have no groups. */
enum { MMCI_GROUPS_MOST_STEPS = 1 << 20 };

/* The time of a call, as it was measured. */
typedef struct mmci_group_time {
  bool known;
  double seconds, error; /* seconds and their relative error */
} mmci_group_time;

/* What the planner has to know of a device that takes several products as one call. */
typedef struct mmci_group_machine {
  const void *user;
  /* Says whether the device takes these products of a plan as one call, and how many seconds the
   * device itself says that this takes; NAN where it does not know, and the facts tell. *doubt,
   * which is the one below, may become another, where more is known of such a call. When the device
   * does not take a sub-tree, it takes none that holds that one. Returns E_NOMEM. */
  mmc_status (*supports)(const void *user, const mmci_group *group, bool *out, double *seconds,
                         double *doubt, mmci_error *error);
  /* (optional) Tells what that call, which the device takes, was measured to take. The facts tell
   * it of other calls, and where this slot is NULL. Returns E_NOMEM. */
  mmc_status (*measured)(const void *user, const mmci_group *group, mmci_group_time *out,
                         mmci_error *error);
  /* (optional) Tells what that call takes by its steps as plain calls, where this was measured and
   * is surely less: no doubt is added to it. Returns false for other calls. */
  bool (*share)(const void *user, const mmci_group *group, mmci_group_share *out);
  /* The share by which any other call whose time the device itself tells must be faster than what
   * it replaces: the error that both are thought to have. 0 where it tells none. */
  double doubt;
  int64_t side; /* no call has steps with a larger dimension; 0 means no limit */
  mmci_group_facts facts;
  const mmci_pricing *pricing; /* prices steps on their own */
  /* The model of steps on their own, of the same launch, bandwidth and peak as the facts. Where the
   * steps of a group were measured to take longer than it says, the machine is slower than
   * modelled, for the one call as well: what the facts say of the call goes up by as much, so that
   * the same groups are formed as without measurements. Where they take less, it does not go down,
   * because what makes a product fast need not be in the call of a group. */
  const mmci_roofline *roofline;
  /* Where the device does not tell what calls take: what its facts say of products and of groups.
   * Without measurements of the products, a group saves the share that these say. */
  mmci_roofline assumed;
  mmci_group_facts assumed_facts;
  bool is_assumed;
  mmci_precision precision;
  double handicap_s; /* added to the price of a step on its own, to prefer groups */
  /* The share of all products' seconds at the peak that groups must save in all; 0 means that they
   * are formed whatever they save. With it, roofline must be there and handicap_s be 0. Groups move
   * results to other places, and finding these takes longer than planning hundreds of steps. */
  double least_gain;
  /* (optional) Says whether the joules of these steps allow one call of so many seconds, and which
   * joules it takes. share is of the steps' joules, as share() told; NAN where it did not. */
  bool (*joules_allow)(const void *user, const mmci_plan *plan, const mmci_plan_group *group,
                       double seconds, double share, double *joules);
  const void *joules_user;
} mmci_group_machine;

/* A cover of a plan's steps by calls: groups, and single steps. */
typedef struct mmci_cover {
  int32_t groups;
  int32_t *group_of; /* one for each step, as in mmci_plan_group_steps() */
  /* For each step: seconds of a call of its own, and seconds of the call that it ends. */
  double *alone_s, *call_s;
  double *call_j;          /* joules of that call, when it is a group and the machine told them */
  mmci_provenance *source; /* source of call_s: MMCI_MEASURED, MMCI_SHIPPED or MMCI_MODELLED */
  double seconds, separate_s; /* seconds of all calls, and of a call for each step */
  /* The errors of seconds. Those of measurements are independent, so their squares add up; those of
   * the model are not, so they add up themselves. */
  double squares, modelled;
} mmci_cover;

/* Finds the cheapest cover. A call is one step; a step and the one that computes its left or its
 * right operand; or the whole sub-tree of a step, in a long chain some of these. In a plan for
 * traffic it is one step, or a pair that the plan fuses; in a plan with results that are read
 * several times, one step or all of them. With too many steps there are no groups, and prices are
 * 0. Returns E_NOMEM. */
mmc_status mmci_plan_cover(const mmci_plan *plan, const mmci_group_machine *machine,
                           mmci_cover *out, mmci_error *error);
void mmci_cover_destroy(mmci_cover *cover);

/* Covers a plan whose steps are final, unless it is streamed, or the groups would need more
 * workspace than limit_bytes or than there is room for on the device. Returns E_NOMEM. */
mmc_status mmci_plan_choose_groups(mmci_plan *plan, const mmci_group_machine *machine,
                                   uint64_t limit_bytes, mmci_error *error);

/* Returns by how much a price is doubted where two orders are compared. Formulas that were fitted
 * to a kind of device say by which share nine of ten are off; between two sums of them a quarter of
 * that decides. */
static inline double mmci_doubt_of(mmci_provenance source, double error) {
  return source == MMCI_SHIPPED ? error / 4 : error;
}

#endif

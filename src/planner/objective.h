/* objective.h: what a plan is made for. An objective is a file of this folder and a line in the
 * table of planner.c.
 *
 * planner.c makes every plan in one sequence: order, fit to the device's memory, groups, prices,
 * recipes that fit, kernels. An objective says how the order is found and what is done to form
 * groups and to price; all else is the same for all. */
#ifndef MMCI_OBJECTIVE_H
#define MMCI_OBJECTIVE_H

#include "plan/predictions.h"
#include "planner/offers.h"

/* A plan while it is made. */
typedef struct mmci_planning {
  const mmc_chain *chain;
  const mmc_plan_options *options; /* their values have been checked */
  const char *solver;
  mmci_tree given; /* the order that the options give; without products: none */
  const struct mmci_opened *on;
  mmci_wisdom *wisdom;
  mmci_traffic_request traffic; /* what the options say about fusion */
  uint64_t order_limit_bytes;   /* the most workspace of the order, before groups are formed */
  /* That of the order that was found, and that of one chain; 0 where memory has no limit. */
  uint64_t order_bytes, order_chain_bytes;
  mmci_precision precision; /* the precision asked for; after order(), the precision used */
  bool asks_memory;         /* whether the device is asked what is free in any case */
  void *known;              /* what the objective keeps from begin() to end() */
  mmci_plan plan;           /* the plan, which is there after order() */
} mmci_planning;

typedef struct mmci_objective {
  const char *name; /* the objective's name, as the option spells it */
  /* These say which options go with this objective; the others are an error. */
  bool takes_fusion, takes_kernel, takes_slowdown;
  /* (optional, both or none) Looks up what is known of the machine. end() follows when begin() has
   * failed, too. Returns E_NOMEM. */
  mmc_status (*begin)(mmci_planning *p, mmci_error *error);
  void (*end)(mmci_planning *p);
  /* Makes p->plan: the order, and its steps. */
  mmc_status (*order)(mmci_planning *p, mmci_error *error);
  /* Forms groups of steps, whose places are final. */
  mmc_status (*group)(mmci_planning *p, mmci_error *error);
  /* (optional) Says how every step is to be computed, and what that takes. */
  mmc_status (*price)(mmci_planning *p, mmci_error *error);
} mmci_objective;

/* Returns what the options say about the search for an order. */
static inline mmci_bounds mmci_planning_bounds(const mmci_planning *p) {
  return (mmci_bounds){.limit_bytes = p->order_limit_bytes,
                       .given = p->given.n > 0 ? &p->given : NULL,
                       .progress = p->options->progress,
                       .progress_user = p->options->progress_user};
}

extern const mmci_objective mmci_objective_flops;
extern const mmci_objective mmci_objective_traffic;
extern const mmci_objective mmci_objective_time;
extern const mmci_objective mmci_objective_energy;

/* Forms groups by the model alone, for objectives that do not depend on what was measured, or runs
 * every step by the kernel that was asked for. least_gain is that of mmci_group_machine, and counts
 * where no kernel was asked for. */
mmc_status mmci_planning_group(mmci_planning *p, double least_gain, mmci_error *error);

#endif

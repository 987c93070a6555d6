/* predictions.h: what the objective of a plan has predicted, besides the order and the steps. */
#ifndef MMCI_PREDICTIONS_H
#define MMCI_PREDICTIONS_H

#include "cost/energy.h"
#include "order/fusion.h"
#include "plan/plan.h"

/* ---- traffic ------------------------------------------------------------------------------- */

/* A request for a plan for traffic. */
typedef struct mmci_traffic_request {
  const char *fuse; /* static text: as the option spells it */
  mmci_fuse_rule rule;
  bool joint; /* the order too is chosen for least traffic */
  mmci_chip chip;
} mmci_traffic_request;

typedef struct mmci_step_traffic {
  mmci_fusion choice; /* partner is a step, not a product of the tree */
  mmc_fusion fusion;  /* fusion of the kernel that the step is in */
  /* The traffic of that kernel, with the write of its result; the earlier of two partners moves 0
   * words. */
  mmci_traffic kernel;
} mmci_step_traffic;

typedef struct mmci_plan_traffic {
  mmci_traffic_request request;
  /* Words moved by the plan, and by its order with a kernel for each step. */
  mmci_u128 words, unfused_words;
  int32_t pairs;             /* pairs of steps that share a kernel in the cost */
  int32_t executed;          /* pairs among them that one call of the device executes */
  int32_t offered;           /* pairs besides that the device would take as one call */
  mmci_step_traffic steps[]; /* one for each product of the tree, n-1 */
} mmci_plan_traffic;

/* ---- time ---------------------------------------------------------------------------------- */

typedef struct mmci_plan_time {
  double predicted_s; /* seconds of all calls, one after the other */
  bool by_time;       /* the order is another than the one that the solver found */
  double gain_s;      /* seconds that the solver's order is predicted to take longer */
  int32_t segments;   /* > 0 for a wide tree, see mmci_order_wide(); INT32_MAX when balanced */
  const char *kept;   /* static text: why the order of fewest multiplications is kept, or "" */
  char notice[480];   /* why prices are of the model alone; "" when they are not */
  const char *facts;  /* what the device's own formulas were fitted to, for people; NULL without */
  mmci_recipe *recipes; /* recipes of the steps that are not one plain call */
  mmc_roofline roofline;
} mmci_plan_time;

/* ---- energy -------------------------------------------------------------------------------- */

enum {
  MMCI_ENERGY_CHOICES = 12,               /* choices of a front at most */
  MMCI_ENERGY_PRECISIONS = MMCI_FAST + 1, /* a reproducible plan has one */
  MMCI_ENERGY_CANDIDATES = 2 * MMCI_ENERGY_PRECISIONS * (MMCI_ENERGY_CHOICES + 1) + 2
};

/* The weighted sum of products that is made least. */
typedef struct mmci_weights {
  double seconds, joules;
  double max_slowdown; /* the most times the seconds of a product's first way; 0 means no bound */
} mmci_weights;

/* One choice of how to multiply the chain. */
typedef struct mmci_energy_choice {
  mmci_tree tree;
  int offer;             /* number of the offer, which is a precision that may be taken */
  const char *precision; /* name of that precision */
  mmci_weights weights;  /* weights that decide every product's way */
  double seconds, joules;
  int32_t recipes;        /* products that are not computed by one plain call */
  mmci_provenance source; /* the least sure provenance of its joules */
} mmci_energy_choice;

typedef struct mmci_plan_energy {
  double joules;                    /* joules of all steps */
  double time_seconds, time_joules; /* seconds and joules of the plan for time */
  double max_slowdown;     /* the most times the seconds of the plan for time; 0 means no bound */
  mmci_energy_model model; /* model of the precision that was chosen */
  mmci_energy_choice choices[MMCI_ENERGY_CANDIDATES];
  int count, chosen; /* choices that no other beats, by seconds; and the chosen one's number */
  const char *kept;  /* static text: why the plan for time is kept, or "" */
} mmci_plan_energy;

void mmci_plan_energy_destroy(mmci_plan_energy *energy);

#endif

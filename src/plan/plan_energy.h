/* plan_energy.h: plans for least energy: order, precision and how every product is computed, by
 * predicted joules, within a bound on the time.
 *
 * Two things are made little at once, seconds and joules. For weights of the two the dynamic
 * program finds the order, and of every product the way, of least weighted sum; weights are taken
 * from the line through two neighbours until no choice lies below any such line (Aneja and Nair
 * 1979). That gives the corners of the convex hull of the front, all of them up to
 * MMCI_ENERGY_CHOICES; choices that no other beats but that lie above a line between two corners
 * are not found. With a bound on the time the same is done once more with those ways of each
 * product that keep to it by themselves, which finds some that lie above. Where what repeats may be
 * computed once, that is one more choice, by the ways of fewest joules.
 *
 * On a device that takes several products as one call, steps of a choice are such calls where that
 * is predicted to be faster, as in plans for time; a call takes the joules that the model gives for
 * its time, its flops and what it moves, times what its measured products took more than the model
 * gives for them. Where some were measured, it must take surely fewer than they do; but the plan
 * for time, of which bounds on the time speak, has its groups whatever they take. */
#ifndef MMCI_PLAN_ENERGY_H
#define MMCI_PLAN_ENERGY_H

#include "cost/energy.h"
#include "plan/plan_time.h"

enum {
  MMCI_ENERGY_CHOICES = 12, /* of a front */
  MMCI_ENERGY_PRECISIONS = MMCI_FAST + 1,
  MMCI_ENERGY_CANDIDATES = 2 * MMCI_ENERGY_PRECISIONS * (MMCI_ENERGY_CHOICES + 1) + 2
};

/* A precision that may be taken, and what is known of it. */
typedef struct mmci_energy_offer {
  mmci_precision precision;
  const char *name; /* static text, of the precision */
  mmci_energy_pricing pricing;
  const mmci_group_machine *machine; /* NULL: every step is a call of its own */
} mmci_energy_offer;

/* What is asked of a plan for energy. */
typedef struct mmci_energy_request {
  mmci_energy_offer offers[MMCI_ENERGY_PRECISIONS]; /* the first is the one that was asked for */
  int count;
  mmci_time_request time; /* of the first */
  double max_slowdown;    /* at most so many times the seconds of the plan for time; 0: no bound */
} mmci_energy_request;

/* What a sum of products is made as little as possible by. */
typedef struct mmci_weights {
  double seconds, joules;
  double max_slowdown; /* of each product against its first way; 0: no bound */
} mmci_weights;

/* One way to multiply the chain. */
typedef struct mmci_energy_choice {
  mmci_tree tree;
  int offer;             /* of the request, */
  const char *precision; /* whose name it is */
  mmci_weights weights;  /* that the way of every product follows from */
  double seconds, joules;
  int32_t recipes;        /* products that are computed otherwise than by one plain call */
  mmci_provenance source; /* the least sure of those of its joules */
} mmci_energy_choice;

typedef struct mmci_plan_energy {
  double joules;                    /* of all steps */
  double time_seconds, time_joules; /* of the plan for time */
  double max_slowdown;              /* see mmci_energy_request */
  mmci_energy_model model;          /* of the precision that was chosen */
  mmci_energy_choice choices[MMCI_ENERGY_CANDIDATES];
  int count, chosen; /* those that no other beats, by seconds; and which of them */
  const char *kept;  /* static text: why the plan for time is kept; "" */
} mmci_plan_energy;

void mmci_plan_energy_destroy(mmci_plan_energy *energy);

/* Plans the chain: of the choices within max_slowdown the one of fewest joules, but that of the
 * plan for time unless the gain is more than the predictions may be off by. Solver "auto" looks for
 * orders; any other solver's order stays. *precision: the one to be used.
 * mmci_plan_group_for_energy() and mmci_plan_energize() are still to come. Returns what
 * mmci_plan_create() does. */
mmc_status mmci_plan_create_energetic(const mmc_chain *chain, const char *solver,
                                      uint64_t limit_bytes, const mmci_energy_request *request,
                                      mmci_plan *out, mmci_precision *precision, mmci_error *error);

/* Groups of the plan's steps, as mmci_plan_choose_groups(). */
mmc_status mmci_plan_group_for_energy(mmci_plan *plan, const mmci_energy_request *request,
                                      uint64_t limit_bytes, mmci_error *error);

/* Says how every step is to be computed and what that takes, for a plan of
 * mmci_plan_create_energetic() whose steps and groups are final. Returns E_NOMEM. */
mmc_status mmci_plan_energize(mmci_plan *plan, const mmci_energy_request *request,
                              mmci_error *error);

#endif

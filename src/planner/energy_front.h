/* energy_front.h: plans for least energy: order, precision and recipes, by predicted joules, within
 * a bound on the time.
 *
 * Two things are made little at once, seconds and joules. For weights of the two the dynamic
 * program finds the order, and for every product the way, of least weighted sum; weights are taken
 * from the line through two neighbours until no choice lies below any such line (Aneja and Nair
 * 1979). That gives the corners of the convex hull of the front, all of them up to
 * MMCI_ENERGY_CHOICES; choices that no other beats but that lie above a line between two corners
 * are not found. With a bound on the time the search is repeated with those ways of each product
 * that keep to the bound by themselves, which finds some of these. Where what repeats may be
 * computed once, that is one more choice, by the ways of fewest joules.
 *
 * On a device that takes several products as one call, steps of a choice are such calls where that
 * is predicted to be faster, as in plans for time. A call takes the joules that the model gives for
 * its time, its flops and the bytes it moves; where its products were measured to take more than
 * the model gives for them, the joules of the call grow in the same ratio. Where some products were
 * measured, the call must surely take fewer joules than they do. The plan for time, which bounds on
 * the time refer to, has its groups whatever they take. */
#ifndef MMCI_ENERGY_FRONT_H
#define MMCI_ENERGY_FRONT_H

#include "planner/time_order.h"

/* A precision that may be taken, and what is known of it. */
typedef struct mmci_energy_offer {
  mmci_precision precision;
  const char *name; /* static text: the precision's name */
  mmci_energy_pricing pricing;
  const mmci_group_machine *machine; /* NULL when every step is a call of its own */
} mmci_energy_offer;

/* A request for a plan for energy. */
typedef struct mmci_energy_request {
  /* Offers; the first is of the precision asked for. */
  mmci_energy_offer offers[MMCI_ENERGY_PRECISIONS];
  int count;
  mmci_time_request time; /* the request for a plan for time of the first offer */
  double max_slowdown;    /* the most times the seconds of the plan for time; 0 means no bound */
} mmci_energy_request;

/* Plans the chain: takes the choice of fewest joules within max_slowdown, but that of the plan for
 * time unless the gain is more than the predictions may be off by. Solver "auto" looks for orders;
 * any other solver's order stays. *precision is the one to be used. mmci_plan_group_for_energy()
 * and mmci_plan_price_energy() must follow. Returns what mmci_plan_create() does. */
mmc_status mmci_plan_create_energetic(const mmc_chain *chain, const char *solver,
                                      mmci_bounds bounds, const mmci_energy_request *request,
                                      mmci_plan *out, mmci_precision *precision, mmci_error *error);

/* Forms groups of the plan's steps, as mmci_plan_choose_groups() does. */
mmc_status mmci_plan_group_for_energy(mmci_plan *plan, const mmci_energy_request *request,
                                      uint64_t limit_bytes, mmci_error *error);

/* Says how every step is to be computed and what that takes, for a plan of
 * mmci_plan_create_energetic() whose steps and groups are final. Returns E_NOMEM. */
mmc_status mmci_plan_price_energy(mmci_plan *plan, const mmci_energy_request *request,
                                  mmci_error *error);

#endif

/* time_order.h: plans for least time: the order and the recipes, by predicted time. */
#ifndef MMCI_TIME_ORDER_H
#define MMCI_TIME_ORDER_H

#include "plan/predictions.h"
#include "planner/cover.h"

/* Chains of more factors have the order of fewest multiplications: pricing all n^3/6 products of so
 * many factors takes a few hundredths of a second. */
enum { MMCI_TIME_MOST_FACTORS = 64 };

/* Wide trees are tried of chains whose products take so long one by one, on average: of shorter
 * ones they save less than looking for them takes. */
static const double mmci_least_wide_s = 1e-6;

/* A request for a plan for time. */
typedef struct mmci_time_request {
  const mmci_pricing *pricing;
  mmci_precision precision;
  const char *notice; /* why prices are of the model alone; "" when they are not; copied */
  const char *facts;  /* the device's mmci_model.source, static text, or NULL */
  const mmci_group_machine *machine; /* NULL when every step is a call of its own */
  /* Flops per second of a device that runs sub-trees side by side; 0 for any other. */
  double shared_flops_per_s;
} mmci_time_request;

/* Plans the chain in the order of least price within the limit. Returns what mmci_plan_create()
 * does. */
mmc_status mmci_plan_by_price(const mmc_chain *chain, mmc_price_fn price, void *user,
                              mmci_bounds bounds, mmci_plan *out, mmci_error *error);

/* Plans the chain. Solver "auto" looks for the order of least predicted time, but keeps that of
 * fewest multiplications unless the gain is more than the predictions may be off by, and than what
 * its sub-trees are thought to save side by side; any other solver's order stays. Where groups of
 * steps can run as one call, wide trees are tried as well, and of orders of as many multiplications
 * the one of least predicted time is taken. mmci_plan_choose_groups() and mmci_plan_price() must
 * follow. Returns what mmci_plan_create() does. */
mmc_status mmci_plan_create_timed(const mmc_chain *chain, const char *solver, mmci_bounds bounds,
                                  const mmci_time_request *request, mmci_plan *out,
                                  mmci_error *error);

/* Decides how every step is computed and how long that takes, for a plan of
 * mmci_plan_create_timed() whose steps are final. Where plain calls of two sub-trees side by side
 * are thought to take less, steps are plain, though faster calls are known. Returns E_NOMEM. */
mmc_status mmci_plan_price(mmci_plan *plan, const mmci_time_request *request, mmci_error *error);

#endif

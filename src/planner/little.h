/* little.h: the order of a short chain of small matrices, found without making a plan. */
#ifndef MMCI_LITTLE_H
#define MMCI_LITTLE_H

#include "order/order.h"
#include "planner/planner.h"

/* Chains of 2 to so many factors with at most so many multiplications from left to right, or so
 * many in all chains of a batch, are little: that is where planning takes a share of multiplying,
 * and one thread multiplies a batch. Whether their steps form groups changes no bit of a result,
 * since they are products of the same calls either way. */
enum {
  MMCI_LITTLE_FACTORS = 16,
  /* A product of three sides, and what the cheapest orders of its parts take, fit into 63 bits. */
  MMCI_LITTLE_SIDE = 1 << 20,
  MMCI_LITTLE_MULTIPLICATIONS = 1 << 27,
  MMCI_LITTLE_IN_BATCH = 1 << 20
};

/* Finds the order that mmci_planner_plan() would find for these arguments, which are those of that
 * function, and writes its n - 1 products as in mmci_tree, and the recipe of each, without a pad.
 * *found is false, and the others are undefined, for chains that are not little, for devices with
 * memory of their own, for options that only a plan can follow, and where wisdom makes a plan look
 * at more than the prices of single products. Returns E_NOMEM. */
mmc_status mmci_little_order(const mmci_objective *objective, const mmc_chain *chain,
                             const mmc_plan_options *options, const struct mmci_opened *on,
                             mmci_wisdom *wisdom, mmci_product *products, mmci_recipe *recipes,
                             bool *found, mmci_error *error);

#endif

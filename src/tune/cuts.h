/* cuts.h: proves the two-way cuts that an efficiency array predicts for its own sizes.
 *
 * A cut is chosen from an array only where its predicted gain exceeds the array's known error,
 * which leaves most cuts out. With time left, the cuts of sizes that are in the array are compared
 * with the plain call, those of the largest predicted gain first, and plans then know these sizes
 * as measured. */
#ifndef MMCI_CUTS_H
#define MMCI_CUTS_H

#include "cost/efficiency.h"
#include "tune/tuner.h"

/* Decides as many of the array's sizes as the budget is thought to allow, at most 4096; without a
 * budget 64. Sizes for which a choice is kept are left out. *cut counts those for which a cut was
 * chosen. A budget that ends meanwhile is no failure. Returns: E_INTERRUPTED (progress), E_NOMEM,
 * and what mmci_tuner_ask() does. */
mmc_status mmci_tune_cuts(mmci_tuner *tuner, const mmci_array *array, int64_t *cut,
                          mmci_error *error);

#endif

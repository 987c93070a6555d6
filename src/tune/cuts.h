/* cuts.h: the two-way cuts that an efficiency array predicts for its own sizes, proven.
 *
 * What an array predicts is chosen only where it is predicted to gain more than the array is known
 * to be wrong, which leaves most of it out. With time left, the cuts of sizes that are in the array
 * are compared with the plain call, those that promise most first, and plans then know these sizes
 * as measured. */
#ifndef MMCI_CUTS_H
#define MMCI_CUTS_H

#include "cost/efficiency.h"
#include "tune/tuner.h"

/* Tells the tuner what mmci_tune_cuts() will ask for; of no array yet, a guess for products as
 * large as the mean one of sizes up to most. */
void mmci_cuts_expect(mmci_tuner *tuner, const mmci_array *array, int64_t most);

/* Decides as many of the array's sizes as the budget is thought to allow, at most 4096; without one
 * 64. Sizes for which a choice is kept are left out. *cut: of how many a cut was chosen. A budget
 * that ends meanwhile is no failure. Returns: E_INTERRUPTED (progress), E_NOMEM, and what
 * mmci_tuner_ask() does. */
mmc_status mmci_tune_cuts(mmci_tuner *tuner, const mmci_array *array, int64_t *cut,
                          mmci_error *error);

#endif

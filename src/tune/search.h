/* search.h: finds the best recipe of products whose sizes are known, by measuring: methods 300 and
 * 400 of US 9836434 B2 and what goes beyond them. docs/tuning.md describes how. */
#ifndef MMCI_SEARCH_H
#define MMCI_SEARCH_H

#include "tune/tuner.h"

/* Decides count products, one after the other; sizes that they share are measured once. Each has an
 * equal share of what is left of the budget, which it may exceed a little: fewer sizes are tried
 * where it is short. When all are decided, what was chosen is measured again, as far as the budget
 * goes, and is plain where it does not hold. Each choice is told to the journal when no more will
 * be asked about it, also where the search is stopped, and before that as far as it is decided.
 * gemms have variant 0; a recipe's pieces name theirs. *decided is how many of choices, from the
 * first, are written, whatever is returned. Returns: E_INTERRUPTED (mmci_tuner_spent() tells
 * whether the budget was the reason; a budget that ends while choices are measured again is none),
 * E_ARG, and what mmci_tuner_ask() does. */
mmc_status mmci_tune_set(mmci_tuner *tuner, const mmci_gemm *gemms, int64_t count,
                         mmci_choice *choices, int64_t *decided, mmci_error *error);

/* Decides a set with one candidate for each product, beside the plain call, instead of what a
 * search finds; given may be NULL, which means a search. */
mmc_status mmci_tune_given(mmci_tuner *tuner, const mmci_gemm *gemms, const mmci_recipe *given,
                           int64_t count, mmci_choice *choices, int64_t *decided,
                           mmci_error *error);

#endif

/* calibrate_ranks.h: measures what ranks take. */
#ifndef MMCI_RANKS_CALIBRATE_H
#define MMCI_RANKS_CALIBRATE_H

#include "ranks/choose.h"
#include "ranks/products.h"

/* The rates that are measured, in the order of mmci_ranks_rates_get(). */
enum { MMCI_RANKS_FACTS = 4 };
extern const char *const mmci_ranks_fact_names[MMCI_RANKS_FACTS];
double mmci_ranks_fact(const mmci_ranks_rates *rates, int fact);
void mmci_ranks_set_fact(mmci_ranks_rates *rates, int fact, double number);

/* Measures rates with all ranks at work, and leaves joules as they are: products of a rank, as
 * rates->replaces says, its memory, short and long messages round a ring. Every rank gets the
 * median of the slowest rank's runs. Collective; about a second. Returns: E_NOMEM, E_DEVICE. */
mmc_status mmci_ranks_calibrate(const mmci_products *products, mmc_dtype dtype,
                                mmci_ranks_rates *rates, mmci_error *error);

#endif

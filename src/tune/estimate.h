/* estimate.h: medians of measurements, with bounds. */
#ifndef MMCI_ESTIMATE_H
#define MMCI_ESTIMATE_H

#include "cost/choice.h"

/* Returns the median of count >= 1 samples, which it sorts, and the narrowest order statistics
 * between which the true median lies except with a chance of at most risk: it is below the j-th
 * smallest of n with the chance that fewer than j of n fair coins fall heads, whatever the
 * distribution (David and Nagaraja 2003, section 7.1). With too few samples for the risk, the
 * bounds are the least and the greatest. */
mmci_estimate mmci_estimate_median(double *samples, int count, double risk);

/* Returns the largest distance of an estimate's bounds, as a share of it. */
double mmci_estimate_spread(const mmci_estimate *x);

#endif

/* calibrate.h: measures the facts of a roofline. */
#ifndef MMCI_CALIBRATE_H
#define MMCI_CALIBRATE_H

#include "cost/roofline.h"
#include "tune/tuner.h"

/* Times some twenty products, small, large and skinny, but none that would take long, and fits the
 * roofline to them. Returns: what mmci_tuner_ask() does. */
mmc_status mmci_calibrate(mmci_tuner *tuner, mmc_dtype dtype, mmci_precision precision,
                          mmci_roofline *out, mmci_error *error);

#endif

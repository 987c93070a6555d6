/* groups.h: measures the seconds of groups as one call of a device, and of the products of a batch.
 *
 * A group is timed like a product that is computed by one plain call. Its seconds are kept as a
 * fact of the machine under mmci_group_name(). */
#ifndef MMCI_GROUPS_H
#define MMCI_GROUPS_H

#include "tune/tuner.h"

/* Measures the groups and tells the journal of each; those that the device does not take are passed
 * over. With a budget, it takes no more than half of what is left of it. Returns: what
 * mmci_tuner_ask() does. */
mmc_status mmci_tune_groups(mmci_tuner *tuner, const mmci_group *const *groups, int count,
                            mmci_error *error);

#endif

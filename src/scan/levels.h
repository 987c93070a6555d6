/* levels.h: a scan made of a device's products, all of a level of a tree together (Brent and Kung
 * 1982).
 *
 * Going up, level l + 1 holds the products of pairs of level l, whose factors are level 0. Going
 * down, the states after every 2^l factors are known from level l + 1 for even numbers of these,
 * and one product each gives the odd ones. That is fewer than two products a factor, in twice as
 * many calls as there are levels. */
#ifndef MMCI_LEVELS_H
#define MMCI_LEVELS_H

#include "device/device.h"

typedef struct mmci_levels mmci_levels;

/* States are square, and there is no addend. */
mmc_status mmci_levels_create(const mmci_opened *on, const mmci_scan *scan, mmci_levels **out,
                              mmci_error *error);
void mmci_levels_destroy(mmci_levels *levels);
void mmci_levels_facts(const mmci_levels *levels, mmci_scan_facts *out);
/* Returns how many calls of the device a scan takes. */
int64_t mmci_levels_calls(const mmci_scan *scan);
mmc_status mmci_levels_enqueue(const mmci_levels *levels, mmci_queue *queue,
                               const mmci_scan_places *places, mmci_error *error);

#endif

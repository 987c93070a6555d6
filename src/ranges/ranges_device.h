/* ranges_device.h: rows of factors in the memory of a device that has its own.
 *
 * Work is enqueued, on a queue of the row's or on the caller's stream, where it is ordered after
 * all that the row has enqueued before, on whichever. */
#ifndef MMCI_RANGES_DEVICE_H
#define MMCI_RANGES_DEVICE_H

#include "ranges/ranges_tree.h"

/* Checks that such a device takes the row; opens what is needed besides the queue. Returns
 * E_UNSUPPORTED, E_DEVICE. */
mmc_status mmci_ranges_device_check(const mmci_ranges *ranges, mmci_error *error);
mmc_status mmci_ranges_device_open(mmci_ranges *ranges, mmci_error *error);
/* Waits for all that was enqueued, and closes that. */
void mmci_ranges_device_close(mmci_ranges *ranges);

/* Come before and after all work of a call; the second returns status, or what went wrong. */
mmc_status mmci_ranges_device_begin(mmci_ranges *ranges, mmci_error *error);
mmc_status mmci_ranges_device_end(mmci_ranges *ranges, mmc_status status, mmci_error *error);

/* Writes factors to positions that follow each other. */
mmc_status mmci_ranges_device_write(mmci_ranges *ranges, int64_t position, int64_t count,
                                    const mmc_matrix *factors, mmci_error *error);
/* Copies a node's matrices to the caller's. */
mmc_status mmci_ranges_device_read(mmci_ranges *ranges, const char *from, const mmc_matrix *out,
                                   mmci_error *error);
/* Copies nodes that follow each other. */
mmc_status mmci_ranges_device_move(mmci_ranges *ranges, const char *from, char *to, int64_t count,
                                   mmci_error *error);
/* Fills a temporary with identities. */
mmc_status mmci_ranges_device_identity(mmci_ranges *ranges, char *to, mmci_error *error);

/* Does what mmci_ranges_multiply() does. */
mmc_status mmci_ranges_device_multiply(mmci_ranges *ranges, int64_t count, const char *const *a,
                                       const char *const *b, char *const *c, mmci_error *error);
/* Does all products of a way up the tree, of which each has the one before as an operand. */
mmc_status mmci_ranges_device_climb(mmci_ranges *ranges, mmci_climb *climb, mmci_error *error);

#endif

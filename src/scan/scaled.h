/* scaled.h: a scan whose states have exponents, state after state, on host memory (chain/scale.h).
 */
#ifndef MMCI_SCAN_SCALED_H
#define MMCI_SCAN_SCALED_H

#include "device/device.h"

typedef struct mmci_scaled mmci_scaled;

/* Makes it for a device without memory of its own and a scan without an addend. */
mmc_status mmci_scaled_create(const mmci_opened *on, const mmci_scan *scan, mmci_scaled **out,
                              mmci_error *error);
void mmci_scaled_destroy(mmci_scaled *scaled);
void mmci_scaled_facts(const mmci_scaled *scaled, mmci_scan_facts *out);
/* The exponent of state t of scan b becomes exponents[b * stride + t * step]; that before the first
 * is 0. */
mmc_status mmci_scaled_execute(const mmci_scaled *scaled, mmci_queue *queue,
                               const mmci_scan_places *places, int64_t *exponents, int64_t stride,
                               int64_t step, mmci_error *error);

#endif

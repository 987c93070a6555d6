/* wisdom_energy.h: ways to compute products by what is known of a machine's time and energy.
 *
 * Times are those of wisdom_pricing.h. Joules are measured where the very product was tuned for
 * energy here, with these ops; else a model gives them, of facts that were calibrated here or else
 * of assumptions. */
#ifndef MMCI_WISDOM_ENERGY_H
#define MMCI_WISDOM_ENERGY_H

#include "cost/energy.h"
#include "wisdom/wisdom_pricing.h"

typedef struct mmci_wisdom_energy mmci_wisdom_energy;

/* Makes them as mmci_wisdom_pricing_acquire() does. */
mmc_status mmci_wisdom_energy_create(mmci_wisdom *wisdom, const mmci_fingerprint *fingerprint,
                                     const mmci_facts *facts, mmc_dtype dtype,
                                     mmci_precision precision, mmci_wisdom_energy **out,
                                     mmci_error *error);
void mmci_wisdom_energy_destroy(mmci_wisdom_energy *energy);

/* Says whether the model of energy was calibrated here. */
bool mmci_wisdom_energy_calibrated(const mmci_wisdom_energy *energy);
/* Both are valid while the object is there: the interface for energy, and the one for time
 * alone. */
mmci_energy_pricing mmci_wisdom_energy_of(const mmci_wisdom_energy *energy);
const mmci_wisdom_pricing *mmci_wisdom_energy_time(const mmci_wisdom_energy *energy);

#endif

/* wisdom_pricing.h: prices of products by what is known of a machine. A price comes from the first
 * of these that knows the product:
 *
 *     measured   the very product was tuned here, with these ops: its recipe and its time
 *     array      an efficiency array of these ops holds the sizes: interpolated, with the cut that
 *                it predicts to gain (the online part of method 600)
 *     model      the roofline, of facts that were calibrated here or else of assumptions
 *
 * A batch that was measured as one call has that price; any other takes one product's price for
 * each chain.
 *
 * A look-up takes less than a microsecond from memory and allocates nothing. */
#ifndef MMCI_WISDOM_PRICING_H
#define MMCI_WISDOM_PRICING_H

#include "cost/roofline.h"
#include "wisdom/wisdom.h"

typedef struct mmci_wisdom_pricing mmci_wisdom_pricing;

/* Makes the prices of this fingerprint, whose dtype and precision are given; the facts, which the
 * device tells of them, stand in for what was not calibrated. A store that cannot be read is no
 * failure: prices then come from the model, and mmci_wisdom_pricing_notice() says why.
 * Returns: E_NOMEM. The store may be destroyed before the pricing. */
mmc_status mmci_wisdom_pricing_create(mmci_wisdom *wisdom, const mmci_fingerprint *fingerprint,
                                      const mmci_facts *facts, mmc_dtype dtype,
                                      mmci_precision precision, mmci_wisdom_pricing **out,
                                      mmci_error *error);
void mmci_wisdom_pricing_destroy(mmci_wisdom_pricing *pricing);

/* The result is valid while the pricing is there. */
mmci_pricing mmci_wisdom_pricing_of(const mmci_wisdom_pricing *pricing);
/* Says why the store was not used; "" when it was. */
const char *mmci_wisdom_pricing_notice(const mmci_wisdom_pricing *pricing);
/* Returns the model, which the pricing owns. */
const mmci_roofline *mmci_wisdom_pricing_roofline(const mmci_wisdom_pricing *pricing);
/* Tells what a group takes as one call, found by its mmci_group_name(); returns false when it was
 * not measured. */
bool mmci_wisdom_pricing_group(const mmci_wisdom_pricing *pricing, const char *name,
                               double *seconds, double *error);
/* Says whether any group was measured. */
bool mmci_wisdom_pricing_knows_groups(const mmci_wisdom_pricing *pricing);
/* Says whether the roofline was calibrated here. */
bool mmci_wisdom_pricing_calibrated(const mmci_wisdom_pricing *pricing);

/* The names of two facts: "array NT margin" is the share that a cut from the array of these ops
 * must gain, and "array NT between" the same between grid values; its spread is the error of
 * times. */
enum { MMCI_MARGIN_NAME_SIZE = 20 };
void mmci_array_margin_name(mmc_op op_a, mmc_op op_b, bool between,
                            char name[MMCI_MARGIN_NAME_SIZE]);

#endif

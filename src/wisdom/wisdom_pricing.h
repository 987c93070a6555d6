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
 * A look-up takes less than a microsecond from memory and allocates nothing. A pricing never
 * changes, and the store keeps it for the next plan. */
#ifndef MMCI_WISDOM_PRICING_H
#define MMCI_WISDOM_PRICING_H

#include <pthread.h>

#include "chain/chain.h"
#include "chain/group.h"
#include "chain/structured.h"
#include "cost/efficiency.h"
#include "cost/roofline.h"
#include "wisdom/wisdom.h"

typedef struct mmci_wisdom_pricing mmci_wisdom_pricing;

/* Returns the prices of this fingerprint, whose dtype and precision are given; the facts, which the
 * device tells of them, stand in for what was not calibrated. What was put through this store
 * before the call is in the prices; what other processes wrote is in them MMCI_PRICING_FRESH_S
 * later at most. A store that cannot be read is no failure: prices then come from the model, and
 * mmci_wisdom_pricing_notice() says why.
 * Returns: E_NOMEM. The caller releases the pricing, before or after the store is destroyed. */
mmc_status mmci_wisdom_pricing_acquire(mmci_wisdom *wisdom, const mmci_fingerprint *fingerprint,
                                       const mmci_facts *facts, mmc_dtype dtype,
                                       mmci_precision precision, mmci_wisdom_pricing **out,
                                       mmci_error *error);
void mmci_wisdom_pricing_release(mmci_wisdom_pricing *pricing);

/* Whose prices they are: an opened device, as long as its facts are the same. To compare addresses
 * takes less time than to write a fingerprint. */
typedef struct mmci_pricing_owner {
  const void *ops, *device;
  mmc_dtype dtype;
  mmci_precision precision;
} mmci_pricing_owner;
/* Returns, in *out, what mmci_wisdom_pricing_acquire() would, where the store keeps it as this
 * owner's; the caller releases it. Returns false, with *out as it was, where it does not. */
bool mmci_wisdom_pricing_kept(mmci_wisdom *wisdom, const mmci_pricing_owner *owner,
                              const mmci_facts *facts, mmci_wisdom_pricing **out);
/* Says that what was acquired is this owner's. */
void mmci_wisdom_pricing_keep(mmci_wisdom *wisdom, mmci_wisdom_pricing *pricing,
                              const mmci_pricing_owner *owner);

/* The file is looked at for the writes of others when so many seconds have gone by. */
#define MMCI_PRICING_FRESH_S 0.05

/* The result is valid while the pricing is there. */
mmci_pricing mmci_wisdom_pricing_of(const mmci_wisdom_pricing *pricing);
/* Returns the table that the prices are from; NULL when the store could not be read. */
const mmci_wisdom_table *mmci_wisdom_pricing_table(const mmci_wisdom_pricing *pricing);
/* Says why the store was not used; "" when it was. */
const char *mmci_wisdom_pricing_notice(const mmci_wisdom_pricing *pricing);
/* Returns the facts of the device by which it was acquired; the pricing owns them. */
const mmci_facts *mmci_wisdom_pricing_facts(const mmci_wisdom_pricing *pricing);
/* Returns what variants are called in recipes of these products; the pricing owns it. */
const mmci_variants *mmci_wisdom_pricing_variants(const mmci_wisdom_pricing *pricing);
/* Returns the model, which the pricing owns. */
const mmci_roofline *mmci_wisdom_pricing_roofline(const mmci_wisdom_pricing *pricing);
/* Tells what a group of several products takes as one call; returns false when it was not
 * measured. */
bool mmci_wisdom_pricing_group(const mmci_wisdom_pricing *pricing, const mmci_group *group,
                               double *seconds, double *error);
/* Says whether some products or batches of them were measured, or the device knows recipes of some;
 * where not, each is one plain call. */
bool mmci_wisdom_pricing_knows_products(const mmci_wisdom_pricing *pricing);
/* Says whether any group of the chain's products may have been measured, so that a plan is the same
 * whatever was measured of others. */
bool mmci_wisdom_pricing_knows_groups(const mmci_wisdom_pricing *pricing, const mmc_chain *chain);
/* Writes the shares of kernels with structure that were measured over those that are there; returns
 * whether there were any. */
bool mmci_wisdom_pricing_shares(const mmci_wisdom_pricing *pricing,
                                mmci_structure_share shares[MMCI_STRUCTURE_PIECES]);
/* Says whether the roofline was calibrated here. */
bool mmci_wisdom_pricing_calibrated(const mmci_wisdom_pricing *pricing);

/* The names of two facts: "array NT margin" is the share that a cut from the array of these ops
 * must gain, and "array NT between" the same between grid values; its spread is the error of
 * times. */
enum { MMCI_MARGIN_NAME_SIZE = 20 };
void mmci_array_margin_name(mmc_op op_a, mmc_op op_b, bool between,
                            char name[MMCI_MARGIN_NAME_SIZE]);

/* Restores the array of these ops, and of like's dtype, that a table holds; *out is NULL where it
 * holds none, or one that makes no sense. Returns E_NOMEM. */
mmc_status mmci_wisdom_array_restore(const mmci_wisdom_table *table, const mmci_gemm *like,
                                     mmc_op op_a, mmc_op op_b, mmci_array **out, mmci_error *error);

/* The pricings that a store keeps, one for each fingerprint. It locks itself, and locks the store
 * under its own lock. */
typedef struct mmci_pricing_cache {
  pthread_mutex_t lock;
  struct mmci_wisdom_pricing *first;
} mmci_pricing_cache;

bool mmci_pricing_cache_init(mmci_pricing_cache *cache);
void mmci_pricing_cache_end(mmci_pricing_cache *cache);
/* Returns the cache of a store, which the store's files define. */
mmci_pricing_cache *mmci_wisdom_pricings(mmci_wisdom *wisdom);

#endif

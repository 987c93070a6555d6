/* table.h: building the tables of look-ups, and keeping them until the file changes. */
#ifndef MMCI_TABLE_H
#define MMCI_TABLE_H

#include "wisdom/wisdom.h"

/* A state of the store: own changes, and others'. */
typedef struct mmci_table_stamp {
  uint64_t generation;
  int64_t data_version;
} mmci_table_stamp;

/* One table a fingerprint; starts as {0}. Guarded by the store's lock. */
typedef struct mmci_table_cache {
  mmci_wisdom_table *first;
} mmci_table_cache;

/* The table of that fingerprint and stamp with a reference for the caller; NULL when it is not
 * there. */
mmci_wisdom_table *mmci_table_cached(mmci_table_cache *cache, const mmci_fingerprint *fingerprint,
                                     mmci_table_stamp stamp);
/* Keeps a table, with a reference of its own, in place of the fingerprint's last. */
void mmci_table_keep(mmci_table_cache *cache, mmci_wisdom_table *table);
void mmci_table_drop_all(mmci_table_cache *cache);

/* Empty, with one reference. Returns: E_NOMEM. */
mmc_status mmci_table_create(const mmci_fingerprint *fingerprint, mmci_table_stamp stamp,
                             mmci_wisdom_table **out, mmci_error *error);
/* Adds a copy of a record; progress is left out. user is the table, which nobody shares yet. */
mmc_status mmci_table_add(void *user, const mmci_wisdom_record *record, mmci_error *error);

#endif

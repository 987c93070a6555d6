/* table.h: builds the tables for look-ups and keeps them until the file changes. */
#ifndef MMCI_TABLE_H
#define MMCI_TABLE_H

#include "wisdom/wisdom.h"

/* A state of the store: it changes with our own writes and with those of other processes. */
typedef struct mmci_table_stamp {
  uint64_t generation;
  int64_t data_version;
} mmci_table_stamp;

/* One table for each fingerprint. It starts as {0}; the store's lock guards it. */
typedef struct mmci_table_cache {
  mmci_wisdom_table *first;
} mmci_table_cache;

/* Returns the table of that fingerprint and stamp with a reference for the caller; NULL when it is
 * not there. */
mmci_wisdom_table *mmci_table_cached(mmci_table_cache *cache, const mmci_fingerprint *fingerprint,
                                     mmci_table_stamp stamp);
/* Keeps a table, with a reference of its own, in place of the last one of that fingerprint. */
void mmci_table_keep(mmci_table_cache *cache, mmci_wisdom_table *table);
void mmci_table_drop_all(mmci_table_cache *cache);

/* Makes an empty table with one reference. Returns: E_NOMEM. */
mmc_status mmci_table_create(const mmci_fingerprint *fingerprint, mmci_table_stamp stamp,
                             mmci_wisdom_table **out, mmci_error *error);
/* Adds a copy of a record; records of progress are left out. user is the table, which nobody shares
 * yet. */
mmc_status mmci_table_add(void *user, const mmci_wisdom_record *record, mmci_error *error);

#endif

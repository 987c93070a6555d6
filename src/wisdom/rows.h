/* rows.h: turns records into rows of the database and back, by the lists of record.h. */
#ifndef MMCI_ROWS_H
#define MMCI_ROWS_H

#include "wisdom/database.h"

/* A record that was read. What it points to lives until the statement moves on, and memory until
 * mmci_row_release(). */
typedef struct mmci_row {
  mmci_wisdom_record record;
  bool sound; /* its checksum is right and its fields are in range */
  void *memory;
} mmci_row;

/* Reads the row that a MMCI_QUERY_SELECT or _FIND has reached. Returns: E_NOMEM. */
mmc_status mmci_row_read(sqlite3_stmt *statement, mmci_wisdom_kind kind,
                         const mmci_fingerprint *fingerprint, mmci_row *out, mmci_error *error);
void mmci_row_release(mmci_row *row);

/* These bind the parameters of MMCI_QUERY_INSERT and _FIND. They return what SQLite answers. */
int mmci_row_bind_all(sqlite3_stmt *statement, int64_t fingerprint_id,
                      const mmci_wisdom_record *record);
int mmci_row_bind_key(sqlite3_stmt *statement, int64_t fingerprint_id,
                      const mmci_wisdom_record *record);

/* Reads columns first to first + MMCI_FINGERPRINT_FIELDS - 1; returns false when they are no
 * fingerprint. */
bool mmci_fingerprint_read(sqlite3_stmt *statement, int first, mmci_fingerprint *out);
int mmci_fingerprint_bind(sqlite3_stmt *statement, const mmci_fingerprint *fingerprint);

#endif

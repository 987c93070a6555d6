/* database.h: the SQLite file under a store, which is opened when it is needed and never
 * trusted. */
#ifndef MMCI_DATABASE_H
#define MMCI_DATABASE_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>

#include "wisdom/place.h"
#include "wisdom/record.h"
#include "wisdom/table.h"
#include "wisdom/wisdom_pricing.h"

/* Statements are listed with what they are given and, behind the arrow, what they answer. Those
 * above the line exist for each kind of record. */
typedef enum mmci_query {
  MMCI_QUERY_INSERT,      /* given fingerprint, fields, checksum; replaces an old record */
  MMCI_QUERY_SELECT,      /* fingerprint -> fields, checksum; sorted by key */
  MMCI_QUERY_SELECT_DOWN, /* fingerprint -> fields, checksum; sorted by key, downwards */
  MMCI_QUERY_FIND,        /* fingerprint, keys -> fields, checksum */
  MMCI_QUERY_DELETE,      /* given a fingerprint, and for progress the job or NULL */
  MMCI_QUERIES
} mmci_query;

enum {
  MMCI_STATEMENT_FINGERPRINT_INSERT = MMCI_WISDOM_KINDS * MMCI_QUERIES,
  MMCI_STATEMENT_FINGERPRINT_FIND,   /* fields -> id */
  MMCI_STATEMENT_FINGERPRINT_SELECT, /* -> id, fields; sorted */
  MMCI_STATEMENT_FINGERPRINT_SCAN,   /* -> id, fields; sorted, and read without the index */
  MMCI_STATEMENT_FINGERPRINT_PRUNE,  /* deletes those without records */
  MMCI_STATEMENT_DATA_VERSION,       /* -> a number that changes when another connection commits */
  MMCI_STATEMENTS
};

struct mmci_wisdom {
  pthread_mutex_t lock; /* guards everything below, and the connection */
  mmci_place place;
  bool in_memory; /* there is no file: an import gathers records here */
  char *aside;    /* the path of a file that was set aside and has yet to be salvaged; else NULL */
  sqlite3 *db;    /* NULL when it is not open, or no file is there */
  bool writable;
  bool corrupt;  /* the file was found corrupt and is still open */
  bool vanished; /* another process has moved a file away while it was being used */
  sqlite3_stmt *statements[MMCI_STATEMENTS];
  _Atomic uint64_t generation; /* counts our own changes and openings; read without the lock */
  mmci_table_cache tables;
  char notice[480];
  mmci_pricing_cache pricings; /* a cache that locks itself */
};

void mmci_database_close(mmci_wisdom *wisdom);

/* Opens a file that was set aside, for reading only, as it lies. */
mmc_status mmci_database_open_aside(mmci_wisdom *wisdom, mmci_error *error);

/* Does work(user) in a transaction that writes, committed when it returns MMC_OK. A file that is
 * found corrupt is set aside, and the work is done on a new one with the records of the old one
 * that can be read. */
typedef mmc_status (*mmci_database_work)(mmci_wisdom *wisdom, void *user, mmci_error *error);
mmc_status mmci_database_write(mmci_wisdom *wisdom, mmci_database_work work, void *user,
                               mmci_error *error);
/* Does work(user), which reads one state of the file, and is not called when there is no file. A
 * file that is found corrupt when it is opened is set aside before the work; one that the work
 * finds corrupt is set aside after it, and the work has failed. */
mmc_status mmci_database_read(mmci_wisdom *wisdom, mmci_database_work work, void *user,
                              mmci_error *error);

/* Returns a prepared statement that is reset; NULL with the error set. */
sqlite3_stmt *mmci_database_statement(mmci_wisdom *wisdom, int statement, mmci_error *error);
#define MMCI_STATEMENT_OF(kind, query) ((int)(kind)*MMCI_QUERIES + (int)(query))

/* Turns what SQLite answered into a status and a message. */
mmc_status mmci_database_fail(mmci_wisdom *wisdom, int code, mmci_error *error);

#endif

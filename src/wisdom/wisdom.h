/* wisdom.h: what was measured on a machine, kept for the next run.
 *
 * The store is one SQLite file of records. Each record lies under a fingerprint: the device, its
 * driver, the BLAS, the library's version, the dtype and the precision it was measured with. Only
 * records of the very same fingerprint are ever used; others are kept, shown and passed on.
 *
 *     product   how one product runs best: key (m, k, n, ops, objective), a recipe, its figures
 *     array     the efficiency array E(m, n, k) on a grid
 *     fact      a calibrated number of the machine, or what a call takes, by name
 *     progress  a unit of a tuning job that is done, with what it gave
 *
 * Every put is committed when it returns: a killed process loses the one in flight at most. Every
 * record carries a checksum and is checked when it is read; one that is damaged or out of range is
 * passed over and counted, never used.
 *
 * Planning looks up in a table in memory, which mmci_wisdom_acquire() loads, and loads again only
 * after the file has changed. Threads may share all of this; a store locks itself. Built without
 * SQLite, every function of the store says so with MMC_E_UNSUPPORTED. */
#ifndef MMCI_WISDOM_H
#define MMCI_WISDOM_H

#include "base/status.h"

/* ---- fingerprints -------------------------------------------------------------------------- */

typedef enum mmci_fingerprint_field {
  MMCI_FINGERPRINT_DEVICE,    /* "blas", "cuda" */
  MMCI_FINGERPRINT_MODEL,     /* the model of the processor or the card */
  MMCI_FINGERPRINT_DRIVER,    /* "" when there is no driver */
  MMCI_FINGERPRINT_BLAS,      /* the BLAS's build and number of threads; "" when there is no BLAS */
  MMCI_FINGERPRINT_LIBRARY,   /* mmc_version() */
  MMCI_FINGERPRINT_DTYPE,     /* "f32" */
  MMCI_FINGERPRINT_PRECISION, /* "native" */
  MMCI_FINGERPRINT_FIELDS
} mmci_fingerprint_field;

enum { MMCI_FINGERPRINT_SIZE = 160 };

typedef struct mmci_fingerprint {
  char fields[MMCI_FINGERPRINT_FIELDS][MMCI_FINGERPRINT_SIZE];
} mmci_fingerprint;

extern const char *const mmci_fingerprint_names[MMCI_FINGERPRINT_FIELDS]; /* "device" ... */

/* Copies text, cut to the size of the field; each byte that is not printable UTF-8 becomes '?'. */
void mmci_fingerprint_set(mmci_fingerprint *fingerprint, mmci_fingerprint_field field,
                          const char *text);
bool mmci_fingerprint_equal(const mmci_fingerprint *a, const mmci_fingerprint *b);

/* ---- records ------------------------------------------------------------------------------- */

/* Texts are printable UTF-8 of 1 to MMCI_WISDOM_TEXT_MAX bytes, on one line. Figures that were not
 * measured are NaN; those marked (may be NaN) alone may be. Spreads are relative: a share of the
 * figure beside them. */
enum { MMCI_WISDOM_TEXT_MAX = 255 };

typedef enum mmci_wisdom_objective { MMCI_WISDOM_TIME, MMCI_WISDOM_ENERGY } mmci_wisdom_objective;

/* A product C = op(A) op(B); m, k and n are from 1 to 2^62. */
typedef struct mmci_wisdom_key {
  int64_t m, k, n;
  mmc_op op_a, op_b;
  mmci_wisdom_objective objective;
} mmci_wisdom_key;

typedef struct mmci_wisdom_product {
  mmci_wisdom_key key;
  const char *recipe;          /* text that tune wrote; the store does not read it */
  double seconds;              /* seconds of the recipe */
  double spread;               /* the spread of what the objective makes least, seconds or joules */
  double plain_seconds;        /* seconds of one plain call */
  double joules, plain_joules; /* (may be NaN) */
  double watts;                /* (may be NaN) */
  const char *source;          /* "measured" */
  int64_t measured_at;         /* seconds since 1970 */
} mmci_wisdom_product;

/* E(m, n, k) in flop/s at axis m's point a, axis k's b, axis n's c:
 *     values[(a * count[1] + b) * count[2] + c]
 * 0 where it was not measured. Axes are m, k, n, rising, points from 1 to 2^62. */
typedef struct mmci_wisdom_grid {
  int32_t count[3];
  const int64_t *axis[3];
  const double *values;
} mmci_wisdom_grid;

enum { MMCI_WISDOM_AXIS_MAX = 1024, MMCI_WISDOM_GRID_MAX = 1 << 22 };

typedef struct mmci_wisdom_array {
  mmc_op op_a, op_b;
  mmci_wisdom_objective objective;
  mmci_wisdom_grid grid;
  int64_t measured_at;
} mmci_wisdom_array;

typedef struct mmci_wisdom_fact {
  const char *name; /* "launch_s" */
  double number, spread;
  int64_t measured_at;
} mmci_wisdom_fact;

typedef struct mmci_wisdom_progress {
  const char *job, *unit;
  const char *result; /* what the unit gave, as text that the store does not read */
  int64_t measured_at;
} mmci_wisdom_progress;

typedef enum mmci_wisdom_kind {
  MMCI_WISDOM_PRODUCT,
  MMCI_WISDOM_ARRAY,
  MMCI_WISDOM_FACT,
  MMCI_WISDOM_PROGRESS,
  MMCI_WISDOM_KINDS
} mmci_wisdom_kind;

typedef struct mmci_wisdom_record {
  mmci_wisdom_kind kind;
  const mmci_fingerprint *fingerprint;
  union {
    mmci_wisdom_product product;
    mmci_wisdom_array array;
    mmci_wisdom_fact fact;
    mmci_wisdom_progress progress;
  };
} mmci_wisdom_record;

/* ---- the store ----------------------------------------------------------------------------- */

typedef struct mmci_wisdom mmci_wisdom;

/* Makes a store without touching a file: the first call that needs the file opens it, and the first
 * that writes makes it. When path is NULL, it is MMCHAIN_WISDOM, else mmchain/wisdom.db under
 * XDG_CACHE_HOME, else under ~/.cache. A path or variable that is "" means that there is no store;
 * what needs one then fails with E_UNSUPPORTED.
 * Returns: E_NOMEM. */
mmc_status mmci_wisdom_create(const char *path, mmci_wisdom **out, mmci_error *error);
void mmci_wisdom_destroy(mmci_wisdom *wisdom);
/* Returns an absolute path; "" when there is no store. */
const char *mmci_wisdom_path(const mmci_wisdom *wisdom);
/* Writes what people should be told, at most size bytes: that a file was corrupt and what it is
 * called now; "" when there is nothing to tell. Returns text. */
char *mmci_wisdom_notice(mmci_wisdom *wisdom, char *text, size_t size);

/* All calls below return: E_UNSUPPORTED (no store, no SQLite), E_NOMEM, E_FORMAT (not a store, of a
 * newer mmchain, corrupt), E_IO (cannot be read or written, disk full, held too long by another).
 *
 * A corrupt file is renamed by the next call that reads or writes, which starts afresh with the
 * records that can still be read; where it cannot be renamed, reading calls fail and change
 * nothing. Only a file that is known to be ours is renamed: one in the usual place, or with our
 * mark in its header. A call that finds the file corrupt in the middle of reading it fails. */

/* Writes one record in place of the one with the same key. Returns also: E_ARG when a field is out
 * of range. */
mmc_status mmci_wisdom_put(mmci_wisdom *wisdom, const mmci_wisdom_record *record,
                           mmci_error *error);

/* Returns MMC_OK and says whether a fingerprint is meant; any other status ends the call. */
typedef mmc_status (*mmci_wisdom_match_fn)(void *user, const mmci_fingerprint *fingerprint,
                                           bool *meant, mmci_error *error);

/* Chooses records; a zeroed filter chooses all. */
typedef struct mmci_wisdom_filter {
  mmci_wisdom_match_fn matches; /* NULL means every fingerprint */
  void *user;
  unsigned kinds;  /* bits 1 << kind; 0 means every kind */
  const char *job; /* progress of this job only; NULL means of every job */
} mmci_wisdom_filter;

/* Is called with each record, sorted by fingerprint, kind and key; what the record points to lives
 * until the function returns. It runs under the store's lock and must not use the store. Anything
 * but MMC_OK ends the walk, which returns it. */
typedef mmc_status (*mmci_wisdom_visit_fn)(void *user, const mmci_wisdom_record *record,
                                           mmci_error *error);
/* Visits one state of the file, whatever others write meanwhile. A filter of NULL chooses all.
 * *damaged, unless damaged is NULL, counts the records that were passed over. A file that is not
 * there is an empty store. */
mmc_status mmci_wisdom_walk(mmci_wisdom *wisdom, const mmci_wisdom_filter *filter,
                            mmci_wisdom_visit_fn visit, void *user, int64_t *damaged,
                            mmci_error *error);
/* Deletes what the filter chooses, damaged records too. *count, unless count is NULL, says how many
 * they were. */
mmc_status mmci_wisdom_forget(mmci_wisdom *wisdom, const mmci_wisdom_filter *filter, int64_t *count,
                              mmci_error *error);
/* Says whether a unit of a job is done, and if so what it gave. */
mmc_status mmci_wisdom_find_progress(mmci_wisdom *wisdom, const mmci_fingerprint *fingerprint,
                                     const char *job, const char *unit, bool *found,
                                     char result[MMCI_WISDOM_TEXT_MAX + 1], mmci_error *error);

/* Returns a number that has changed since the last call when this store has written, or opened
 * another file. It takes no lock and does not look at the file. */
uint64_t mmci_wisdom_generation(const mmci_wisdom *wisdom);

/* ---- look-ups ------------------------------------------------------------------------------ */

/* The products, arrays and facts of one fingerprint, in memory, which never change. */
typedef struct mmci_wisdom_table mmci_wisdom_table;

/* Returns the table of the file as it is now; a store that is not there gives an empty one. The
 * call costs a few microseconds unless the file has changed; plans take their prices from
 * mmci_wisdom_pricing_acquire(), which makes it now and then. The caller releases the table. */
mmc_status mmci_wisdom_acquire(mmci_wisdom *wisdom, const mmci_fingerprint *fingerprint,
                               mmci_wisdom_table **out, mmci_error *error);
void mmci_wisdom_release(mmci_wisdom_table *table);

/* Says whether any product was measured. */
bool mmci_wisdom_has_products(const mmci_wisdom_table *table);
/* Returns NULL when there is none; what it returns lives as long as the table. */
const mmci_wisdom_product *mmci_wisdom_find(const mmci_wisdom_table *table,
                                            const mmci_wisdom_key *key);
const mmci_wisdom_array *mmci_wisdom_find_array(const mmci_wisdom_table *table, mmc_op op_a,
                                                mmc_op op_b, mmci_wisdom_objective objective);
const mmci_wisdom_fact *mmci_wisdom_find_fact(const mmci_wisdom_table *table, const char *name);
/* Calls visit for every fact whose name begins so, in any order. */
void mmci_wisdom_each_fact(const mmci_wisdom_table *table, const char *beginning,
                           void (*visit)(void *user, const mmci_wisdom_fact *fact), void *user);
/* Says whether any fact has a name that begins so. */
bool mmci_wisdom_has_facts(const mmci_wisdom_table *table, const char *beginning);

/* ---- text ---------------------------------------------------------------------------------- */

/* Writes the text form of docs/wisdom.md; the same records give the same bytes. */
mmc_status mmci_wisdom_export(mmci_wisdom *wisdom, mmc_write_fn write, void *user,
                              mmci_error *error);
/* Adds the text's records, all or none; of two with one key the later measured stays, and of two as
 * old the imported. E_FORMAT gives the number of the line. read is called before the store is
 * locked. */
mmc_status mmci_wisdom_import(mmci_wisdom *wisdom, mmc_read_fn read, void *user, mmci_error *error);

/* Writes the records for people (MMC_TEXT) or programs (MMC_JSON). here tells which fingerprints
 * are this machine's. */
mmc_status mmci_wisdom_write(mmci_wisdom *wisdom, mmc_format format, mmci_wisdom_match_fn here,
                             void *here_user, mmc_write_fn write, void *user, mmci_error *error);

#endif

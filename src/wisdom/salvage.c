/* salvage.c: reads a corrupt store from both ends. A bad page stops a walk, so every fingerprint
 * and kind of record is walked by itself, upwards and downwards: what lies between two bad pages of
 * one kind is all that is lost. Checksums say which records are as they were put. */
#include "wisdom/salvage.h"

#include "wisdom/rows.h"
#include "wisdom/store.h"

typedef struct salvage_work {
  mmci_wisdom from; /* the store in the file that was set aside */
  mmci_wisdom *into;
  int64_t kept;
} salvage_work;

/* Says what ended a walk, by SQLite's last answer: nothing did, or a bad page, unless memory was
 * short, which is no fault of the file. */
static mmc_status after_walk(salvage_work *work, int code, bool *whole, mmci_error *error) {
  *whole = code == SQLITE_DONE;
  return (code & 0xFF) == SQLITE_NOMEM ? mmci_database_fail(&work->from, code, error) : MMC_OK;
}

/* Returns a statement on the damaged file; NULL, after it has said in *status whether memory was
 * short, when there is none. */
static sqlite3_stmt *ask(salvage_work *work, int statement, mmc_status *status, mmci_error *error) {
  mmci_error why = {0};
  sqlite3_stmt *select = mmci_database_statement(&work->from, statement, &why);
  *status = MMC_OK;
  if (select == NULL && why.status == MMC_E_NOMEM)
    *status = mmci_fail(error, MMC_E_NOMEM, "%s", why.text);
  return select;
}

/* Keeps the records that one statement finds, as far as it comes; *whole says whether it came to
 * the end. */
static mmc_status keep_records(salvage_work *work, mmci_wisdom_kind kind, mmci_query query,
                               int64_t id, const mmci_fingerprint *fingerprint, bool *whole,
                               mmci_error *error) {
  mmc_status status;
  *whole = false;
  sqlite3_stmt *select = ask(work, MMCI_STATEMENT_OF(kind, query), &status, error);
  if (select == NULL) return status;
  int code = sqlite3_bind_int64(select, 1, id);
  if (code != SQLITE_OK) return after_walk(work, code, whole, error);
  while ((code = sqlite3_step(select)) == SQLITE_ROW) {
    mmci_row row;
    status = mmci_row_read(select, kind, fingerprint, &row, error);
    bool sound = status == MMC_OK && row.sound;
    if (sound) status = mmci_store_put_later(work->into, &row.record, error);
    mmci_row_release(&row);
    if (status != MMC_OK) return status;
    work->kept += sound;
  }
  return after_walk(work, code, whole, error);
}

/* Keeps the records of one fingerprint, each kind upwards, and downwards too where a bad page
 * stopped the walk. */
static mmc_status keep_fingerprint(salvage_work *work, int64_t id,
                                   const mmci_fingerprint *fingerprint, mmci_error *error) {
  mmc_status status = MMC_OK;
  for (int k = 0; k < MMCI_WISDOM_KINDS && status == MMC_OK; k++) {
    const mmci_wisdom_kind kind = (mmci_wisdom_kind)k;
    bool whole;
    status = keep_records(work, kind, MMCI_QUERY_SELECT, id, fingerprint, &whole, error);
    if (status == MMC_OK && !whole)
      status = keep_records(work, kind, MMCI_QUERY_SELECT_DOWN, id, fingerprint, &whole, error);
  }
  return status;
}

/* Keeps the records of all fingerprints that one statement finds. */
static mmc_status keep_all(salvage_work *work, int statement, bool *whole, mmci_error *error) {
  mmc_status status;
  *whole = false;
  sqlite3_stmt *select = ask(work, statement, &status, error);
  if (select == NULL) return status;
  int code;
  while ((code = sqlite3_step(select)) == SQLITE_ROW) {
    mmci_fingerprint fingerprint;
    if (!mmci_fingerprint_read(select, 1, &fingerprint)) continue;
    status = keep_fingerprint(work, sqlite3_column_int64(select, 0), &fingerprint, error);
    if (status != MMC_OK) return status;
  }
  return after_walk(work, code, whole, error);
}

mmc_status mmci_salvage(mmci_wisdom *wisdom, void *user, mmci_error *error) {
  salvage_work work = {.from = {.place = {.path = wisdom->aside}}, .into = wisdom};
  mmc_status status = MMC_OK;
  bool whole = false;
  mmci_error unreadable = {0};
  const mmc_status opened = mmci_database_open_aside(&work.from, &unreadable);
  if (opened == MMC_E_NOMEM) { /* the file may be readable when there is memory again */
    if (error != NULL) *error = unreadable;
    status = opened;
  } else if (opened == MMC_OK) {
    status = keep_all(&work, MMCI_STATEMENT_FINGERPRINT_SELECT, &whole, error);
    if (status == MMC_OK && !whole) {
      work.kept = 0; /* the table is read from its beginning, without the index */
      status = keep_all(&work, MMCI_STATEMENT_FINGERPRINT_SCAN, &whole, error);
    }
  }
  mmci_database_close(&work.from);
  *(int64_t *)user = work.kept;
  return status;
}

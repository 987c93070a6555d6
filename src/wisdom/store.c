/* store.c: putting, visiting and forgetting records. */
#include "wisdom/store.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "wisdom/rows.h"

/* ---- life ---------------------------------------------------------------------------------- */

static mmc_status create_store(mmci_place place, bool in_memory, mmci_wisdom **out,
                               mmci_error *error) {
  mmci_wisdom *wisdom = mmci_alloc_zeroed(1, sizeof *wisdom);
  const bool locks = wisdom != NULL && pthread_mutex_init(&wisdom->lock, NULL) == 0;
  if (!locks || !mmci_pricing_cache_init(&wisdom->pricings)) {
    if (locks) pthread_mutex_destroy(&wisdom->lock);
    free(wisdom);
    free(place.path);
    return mmci_fail_nomem(error, sizeof *wisdom);
  }
  wisdom->place = place;
  wisdom->in_memory = in_memory;
  *out = wisdom;
  return MMC_OK;
}

mmc_status mmci_wisdom_create(const char *path, mmci_wisdom **out, mmci_error *error) {
  mmci_place place;
  mmc_status status = mmci_place_find(path, &place, error);
  return status == MMC_OK ? create_store(place, false, out, error) : status;
}

mmc_status mmci_store_create_in_memory(mmci_wisdom **out, mmci_error *error) {
  mmci_place place;
  mmc_status status = mmci_place_find("", &place, error);
  return status == MMC_OK ? create_store(place, true, out, error) : status;
}

void mmci_wisdom_destroy(mmci_wisdom *wisdom) {
  if (wisdom == NULL) return;
  mmci_pricing_cache_end(&wisdom->pricings);
  mmci_database_close(wisdom);
  mmci_table_drop_all(&wisdom->tables);
  pthread_mutex_destroy(&wisdom->lock);
  free(wisdom->aside);
  free(wisdom->place.path);
  free(wisdom);
}

const char *mmci_wisdom_path(const mmci_wisdom *wisdom) {
  return wisdom->place.path;
}

char *mmci_wisdom_notice(mmci_wisdom *wisdom, char *text, size_t size) {
  pthread_mutex_lock(&wisdom->lock);
  snprintf(text, size, "%s", wisdom->notice);
  pthread_mutex_unlock(&wisdom->lock);
  return text;
}

uint64_t mmci_wisdom_generation(const mmci_wisdom *wisdom) {
  return wisdom->generation;
}

mmci_pricing_cache *mmci_wisdom_pricings(mmci_wisdom *wisdom) {
  return &wisdom->pricings;
}

/* ---- putting ------------------------------------------------------------------------------- */

typedef enum put_policy { REPLACE, ONLY_NEW, LATER_STAYS } put_policy;

typedef struct put_work {
  const mmci_wisdom_record *record;
  put_policy policy;
} put_work;

/* *id is 0 when the fingerprint is not there. */
static mmc_status find_fingerprint(mmci_wisdom *wisdom, const mmci_fingerprint *fingerprint,
                                   int64_t *id, mmci_error *error) {
  *id = 0;
  sqlite3_stmt *find = mmci_database_statement(wisdom, MMCI_STATEMENT_FINGERPRINT_FIND, error);
  if (find == NULL) return error->status;
  int code = mmci_fingerprint_bind(find, fingerprint);
  if (code == SQLITE_OK) code = sqlite3_step(find);
  if (code == SQLITE_ROW) *id = sqlite3_column_int64(find, 0);
  return code == SQLITE_ROW || code == SQLITE_DONE ? MMC_OK
                                                   : mmci_database_fail(wisdom, code, error);
}

static mmc_status need_fingerprint(mmci_wisdom *wisdom, const mmci_fingerprint *fingerprint,
                                   int64_t *id, mmci_error *error) {
  mmc_status status = find_fingerprint(wisdom, fingerprint, id, error);
  if (status != MMC_OK || *id != 0) return status;
  sqlite3_stmt *insert = mmci_database_statement(wisdom, MMCI_STATEMENT_FINGERPRINT_INSERT, error);
  if (insert == NULL) return error->status;
  int code = mmci_fingerprint_bind(insert, fingerprint);
  if (code == SQLITE_OK) code = sqlite3_step(insert);
  if (code != SQLITE_DONE) return mmci_database_fail(wisdom, code, error);
  *id = sqlite3_last_insert_rowid(wisdom->db);
  return MMC_OK;
}

/* Reads the record with the key of wanted, if a sound one is there. The caller releases the row. */
static mmc_status find_record(mmci_wisdom *wisdom, int64_t fingerprint_id,
                              const mmci_wisdom_record *wanted, mmci_row *row, mmci_error *error) {
  *row = (mmci_row){0};
  int query = MMCI_STATEMENT_OF(wanted->kind, MMCI_QUERY_FIND);
  sqlite3_stmt *find = mmci_database_statement(wisdom, query, error);
  if (find == NULL) return error->status;
  int code = mmci_row_bind_key(find, fingerprint_id, wanted);
  if (code == SQLITE_OK) code = sqlite3_step(find);
  if (code == SQLITE_DONE) return MMC_OK;
  if (code != SQLITE_ROW) return mmci_database_fail(wisdom, code, error);
  return mmci_row_read(find, wanted->kind, wanted->fingerprint, row, error);
}

static mmc_status put_record(mmci_wisdom *wisdom, const mmci_wisdom_record *record,
                             put_policy policy, mmci_error *error) {
  int64_t id;
  mmc_status status = need_fingerprint(wisdom, record->fingerprint, &id, error);
  if (status == MMC_OK && policy != REPLACE) {
    mmci_row old;
    status = find_record(wisdom, id, record, &old, error);
    bool later = old.sound && mmci_record_date(&old.record) > mmci_record_date(record);
    mmci_row_release(&old);
    if (status == MMC_OK && policy == ONLY_NEW && old.sound)
      return mmci_fail(error, MMC_E_ARG, "%s: the same key as before",
                       mmci_record_shapes[record->kind].name);
    if (later) return status;
  }
  if (status != MMC_OK) return status;
  int query = MMCI_STATEMENT_OF(record->kind, MMCI_QUERY_INSERT);
  sqlite3_stmt *insert = mmci_database_statement(wisdom, query, error);
  if (insert == NULL) return error->status;
  int code = mmci_row_bind_all(insert, id, record);
  if (code == SQLITE_OK) code = sqlite3_step(insert);
  return code == SQLITE_DONE ? MMC_OK : mmci_database_fail(wisdom, code, error);
}

static mmc_status do_put(mmci_wisdom *wisdom, void *user, mmci_error *error) {
  const put_work *work = user;
  return put_record(wisdom, work->record, work->policy, error);
}

static mmc_status put(mmci_wisdom *wisdom, const mmci_wisdom_record *record, put_policy policy,
                      mmci_error *error) {
  mmci_error mine = {0};
  if (error == NULL) error = &mine;
  mmc_status status = mmci_record_check(record, error);
  if (status != MMC_OK) return status;
  put_work work = {.record = record, .policy = policy};
  pthread_mutex_lock(&wisdom->lock);
  status = mmci_database_write(wisdom, do_put, &work, error);
  pthread_mutex_unlock(&wisdom->lock);
  return status;
}

mmc_status mmci_wisdom_put(mmci_wisdom *wisdom, const mmci_wisdom_record *record,
                           mmci_error *error) {
  return put(wisdom, record, REPLACE, error);
}

mmc_status mmci_store_put_new(mmci_wisdom *wisdom, const mmci_wisdom_record *record,
                              mmci_error *error) {
  return put(wisdom, record, ONLY_NEW, error);
}

/* ---- visiting ------------------------------------------------------------------------------ */

typedef struct walk_work {
  const mmci_wisdom_filter *filter;
  mmci_wisdom_visit_fn visit;
  void *user;
  int64_t damaged;
} walk_work;

static bool wants_kind(const mmci_wisdom_filter *filter, int kind) {
  if (filter->job != NULL && kind != MMCI_WISDOM_PROGRESS) return false;
  return filter->kinds == 0 || (filter->kinds >> kind & 1) != 0;
}

static mmc_status wants_fingerprint(const mmci_wisdom_filter *filter,
                                    const mmci_fingerprint *fingerprint, bool *wanted,
                                    mmci_error *error) {
  *wanted = true;
  if (filter->matches == NULL) return MMC_OK;
  return filter->matches(filter->user, fingerprint, wanted, error);
}

static bool wants_record(const mmci_wisdom_filter *filter, const mmci_wisdom_record *record) {
  return filter->job == NULL || strcmp(record->progress.job, filter->job) == 0;
}

static mmc_status walk_kind(mmci_wisdom *wisdom, walk_work *work, mmci_wisdom_kind kind, int64_t id,
                            const mmci_fingerprint *fingerprint, mmci_error *error) {
  int query = MMCI_STATEMENT_OF(kind, MMCI_QUERY_SELECT);
  sqlite3_stmt *select = mmci_database_statement(wisdom, query, error);
  if (select == NULL) return error->status;
  mmc_status status = MMC_OK;
  int code = sqlite3_bind_int64(select, 1, id);
  if (code == SQLITE_OK) code = sqlite3_step(select);
  for (; code == SQLITE_ROW && status == MMC_OK; code = sqlite3_step(select)) {
    mmci_row row;
    status = mmci_row_read(select, kind, fingerprint, &row, error);
    if (status == MMC_OK && !row.sound)
      work->damaged++;
    else if (status == MMC_OK && wants_record(work->filter, &row.record))
      status = work->visit(work->user, &row.record, error);
    mmci_row_release(&row);
    if (status != MMC_OK) return status;
  }
  return code == SQLITE_DONE ? MMC_OK : mmci_database_fail(wisdom, code, error);
}

static mmc_status do_walk(mmci_wisdom *wisdom, void *user, mmci_error *error) {
  walk_work *work = user;
  int query = MMCI_STATEMENT_FINGERPRINT_SELECT;
  sqlite3_stmt *select = mmci_database_statement(wisdom, query, error);
  if (select == NULL) return error->status;
  int code;
  while ((code = sqlite3_step(select)) == SQLITE_ROW) {
    mmci_fingerprint fingerprint;
    if (!mmci_fingerprint_read(select, 1, &fingerprint)) {
      work->damaged++;
      continue;
    }
    bool wanted;
    mmc_status status = wants_fingerprint(work->filter, &fingerprint, &wanted, error);
    if (status != MMC_OK) return status;
    int64_t id = sqlite3_column_int64(select, 0);
    for (int k = 0; k < MMCI_WISDOM_KINDS && wanted; k++) {
      if (!wants_kind(work->filter, k)) continue;
      status = walk_kind(wisdom, work, (mmci_wisdom_kind)k, id, &fingerprint, error);
      if (status != MMC_OK) return status;
    }
  }
  return code == SQLITE_DONE ? MMC_OK : mmci_database_fail(wisdom, code, error);
}

/* Walks while the caller holds the lock. */
static mmc_status walk(mmci_wisdom *wisdom, walk_work *work, mmci_error *error) {
  static const mmci_wisdom_filter everything = {0};
  if (work->filter == NULL) work->filter = &everything;
  return mmci_database_read(wisdom, do_walk, work, error);
}

mmc_status mmci_wisdom_walk(mmci_wisdom *wisdom, const mmci_wisdom_filter *filter,
                            mmci_wisdom_visit_fn visit, void *user, int64_t *damaged,
                            mmci_error *error) {
  mmci_error mine = {0};
  walk_work work = {.filter = filter, .visit = visit, .user = user};
  pthread_mutex_lock(&wisdom->lock);
  mmc_status status = walk(wisdom, &work, error != NULL ? error : &mine);
  pthread_mutex_unlock(&wisdom->lock);
  if (damaged != NULL) *damaged = work.damaged;
  return status;
}

/* ---- merging ------------------------------------------------------------------------------- */

mmc_status mmci_store_put_later(void *user, const mmci_wisdom_record *record, mmci_error *error) {
  return put_record(user, record, LATER_STAYS, error);
}

static mmc_status do_merge(mmci_wisdom *wisdom, void *user, mmci_error *error) {
  return mmci_wisdom_walk(user, NULL, mmci_store_put_later, wisdom, NULL, error);
}

mmc_status mmci_store_merge(mmci_wisdom *wisdom, mmci_wisdom *from, mmci_error *error) {
  pthread_mutex_lock(&wisdom->lock);
  mmc_status status = mmci_database_write(wisdom, do_merge, from, error);
  pthread_mutex_unlock(&wisdom->lock);
  return status;
}

/* ---- forgetting ---------------------------------------------------------------------------- */

typedef struct forget_work {
  const mmci_wisdom_filter *filter;
  int64_t *ids; /* fingerprints that the filter wants */
  size_t count, capacity;
  int64_t deleted;
} forget_work;

static mmc_status add_id(forget_work *work, int64_t id, mmci_error *error) {
  if (work->count == work->capacity) {
    size_t capacity = 2 * work->capacity + 16;
    int64_t *grown = realloc(work->ids, capacity * sizeof *grown);
    if (grown == NULL) return mmci_fail_nomem(error, capacity * sizeof *grown);
    work->ids = grown;
    work->capacity = capacity;
  }
  work->ids[work->count++] = id;
  return MMC_OK;
}

/* Asks the filter before the file is locked, because it may open a device. A fingerprint that is
 * damaged is deleted with all its records, unless the filter asks for certain fingerprints or
 * kinds. */
static mmc_status choose(mmci_wisdom *wisdom, void *user, mmci_error *error) {
  forget_work *work = user;
  int query = MMCI_STATEMENT_FINGERPRINT_SELECT;
  sqlite3_stmt *select = mmci_database_statement(wisdom, query, error);
  if (select == NULL) return error->status;
  int code;
  while ((code = sqlite3_step(select)) == SQLITE_ROW) {
    mmci_fingerprint fingerprint;
    bool wanted = work->filter->matches == NULL;
    mmc_status status = MMC_OK;
    if (mmci_fingerprint_read(select, 1, &fingerprint))
      status = wants_fingerprint(work->filter, &fingerprint, &wanted, error);
    if (status == MMC_OK && wanted) status = add_id(work, sqlite3_column_int64(select, 0), error);
    if (status != MMC_OK) return status;
  }
  return code == SQLITE_DONE ? MMC_OK : mmci_database_fail(wisdom, code, error);
}

static mmc_status delete_records(mmci_wisdom *wisdom, forget_work *work, int kind, int64_t id,
                                 mmci_error *error) {
  int query = MMCI_STATEMENT_OF(kind, MMCI_QUERY_DELETE);
  sqlite3_stmt *delete = mmci_database_statement(wisdom, query, error);
  if (delete == NULL) return error->status;
  int code = sqlite3_bind_int64(delete, 1, id);
  if (code == SQLITE_OK && kind == MMCI_WISDOM_PROGRESS)
    code = sqlite3_bind_text(delete, 2, work->filter->job, -1, SQLITE_TRANSIENT);
  if (code == SQLITE_OK) code = sqlite3_step(delete);
  if (code != SQLITE_DONE) return mmci_database_fail(wisdom, code, error);
  work->deleted += sqlite3_changes(wisdom->db);
  return MMC_OK;
}

static mmc_status do_forget(mmci_wisdom *wisdom, void *user, mmci_error *error) {
  forget_work *work = user;
  work->deleted = 0; /* the work may be done again */
  mmc_status status = MMC_OK;
  for (size_t i = 0; i < work->count; i++)
    for (int k = 0; k < MMCI_WISDOM_KINDS && status == MMC_OK; k++)
      if (wants_kind(work->filter, k))
        status = delete_records(wisdom, work, k, work->ids[i], error);
  if (status != MMC_OK) return status;
  int query = MMCI_STATEMENT_FINGERPRINT_PRUNE;
  sqlite3_stmt *prune = mmci_database_statement(wisdom, query, error);
  if (prune == NULL) return error->status;
  int code = sqlite3_step(prune);
  return code == SQLITE_DONE ? MMC_OK : mmci_database_fail(wisdom, code, error);
}

mmc_status mmci_wisdom_forget(mmci_wisdom *wisdom, const mmci_wisdom_filter *filter, int64_t *count,
                              mmci_error *error) {
  static const mmci_wisdom_filter everything = {0};
  mmci_error mine = {0};
  if (error == NULL) error = &mine;
  forget_work work = {.filter = filter != NULL ? filter : &everything};
  pthread_mutex_lock(&wisdom->lock);
  mmc_status status = mmci_database_read(wisdom, choose, &work, error);
  /* There is nothing to forget in a store that is not there. */
  if (status == MMC_OK && wisdom->db != NULL)
    status = mmci_database_write(wisdom, do_forget, &work, error);
  pthread_mutex_unlock(&wisdom->lock);
  free(work.ids);
  if (status == MMC_OK && count != NULL) *count = work.deleted;
  return status;
}

/* ---- looking up ---------------------------------------------------------------------------- */

typedef struct find_work {
  const mmci_wisdom_record *wanted;
  bool found;
  char result[MMCI_WISDOM_TEXT_MAX + 1];
} find_work;

static mmc_status do_find(mmci_wisdom *wisdom, void *user, mmci_error *error) {
  find_work *work = user;
  int64_t id;
  mmc_status status = find_fingerprint(wisdom, work->wanted->fingerprint, &id, error);
  if (status != MMC_OK || id == 0) return status;
  mmci_row row;
  status = find_record(wisdom, id, work->wanted, &row, error);
  work->found = status == MMC_OK && row.sound;
  if (work->found) snprintf(work->result, sizeof work->result, "%s", row.record.progress.result);
  mmci_row_release(&row);
  return status;
}

mmc_status mmci_wisdom_find_progress(mmci_wisdom *wisdom, const mmci_fingerprint *fingerprint,
                                     const char *job, const char *unit, bool *found,
                                     char result[MMCI_WISDOM_TEXT_MAX + 1], mmci_error *error) {
  mmci_error mine = {0};
  mmci_wisdom_record wanted = {
      .kind = MMCI_WISDOM_PROGRESS,
      .fingerprint = fingerprint,
      .progress = {.job = job, .unit = unit},
  };
  find_work work = {.wanted = &wanted};
  pthread_mutex_lock(&wisdom->lock);
  mmc_status status = mmci_database_read(wisdom, do_find, &work, error != NULL ? error : &mine);
  pthread_mutex_unlock(&wisdom->lock);
  if (status != MMC_OK) return status;
  *found = work.found;
  if (work.found) memcpy(result, work.result, sizeof work.result);
  return MMC_OK;
}

static mmc_status do_stamp(mmci_wisdom *wisdom, void *user, mmci_error *error) {
  mmci_table_stamp *stamp = user;
  sqlite3_stmt *ask = mmci_database_statement(wisdom, MMCI_STATEMENT_DATA_VERSION, error);
  if (ask == NULL) return error->status;
  int code = sqlite3_step(ask);
  if (code != SQLITE_ROW) return mmci_database_fail(wisdom, code, error);
  stamp->data_version = sqlite3_column_int64(ask, 0);
  return MMC_OK;
}

static mmc_status is_wanted(void *user, const mmci_fingerprint *fingerprint, bool *wanted,
                            mmci_error *error) {
  (void)error;
  *wanted = mmci_fingerprint_equal(user, fingerprint);
  return MMC_OK;
}

/* Loads a table while the caller holds the lock. */
static mmc_status load_table(mmci_wisdom *wisdom, mmci_fingerprint *fingerprint,
                             mmci_table_stamp stamp, mmci_wisdom_table **out, mmci_error *error) {
  mmci_wisdom_table *table;
  mmc_status status = mmci_table_create(fingerprint, stamp, &table, error);
  if (status != MMC_OK) return status;
  mmci_wisdom_filter filter = {
      .matches = is_wanted,
      .user = fingerprint,
      .kinds = ~(1u << MMCI_WISDOM_PROGRESS),
  };
  walk_work work = {.filter = &filter, .visit = mmci_table_add, .user = table};
  status = walk(wisdom, &work, error);
  if (status != MMC_OK) {
    mmci_wisdom_release(table);
    return status;
  }
  mmci_table_keep(&wisdom->tables, table);
  *out = table;
  return MMC_OK;
}

mmc_status mmci_wisdom_acquire(mmci_wisdom *wisdom, const mmci_fingerprint *fingerprint,
                               mmci_wisdom_table **out, mmci_error *error) {
  mmci_error mine = {0};
  if (error == NULL) error = &mine;
  mmci_fingerprint wanted = *fingerprint;
  mmci_table_stamp stamp = {0};
  pthread_mutex_lock(&wisdom->lock);
  mmc_status status = mmci_database_read(wisdom, do_stamp, &stamp, error);
  stamp.generation = wisdom->generation;
  mmci_wisdom_table *table = NULL;
  if (status == MMC_OK) table = mmci_table_cached(&wisdom->tables, fingerprint, stamp);
  if (status == MMC_OK && table == NULL) status = load_table(wisdom, &wanted, stamp, &table, error);
  pthread_mutex_unlock(&wisdom->lock);
  if (status == MMC_OK) *out = table;
  return status;
}

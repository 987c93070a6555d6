#include "wisdom/database.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/path_text.h"
#include "wisdom/salvage.h"

enum {
  APPLICATION_ID = 0x6D6D6377, /* the bytes "mmcw", by which cli/guard.c knows a store too */
  SCHEMA_VERSION = 1,
  BUSY_MS = 5000,
  MOST_BYTES = 64 << 20, /* the most bytes that one text or blob may have */
  SQL_SIZE = 1024,
  TRIES = 3
};

/* ---- what is asked ------------------------------------------------------------------------- */

static const char *column_type(mmci_field_type type) {
  switch (type) {
    case MMCI_FIELD_SIZE:
    case MMCI_FIELD_DATE:
      return "INTEGER";
    case MMCI_FIELD_REAL:
    case MMCI_FIELD_MAYBE:
      return "REAL";
    case MMCI_FIELD_GRID:
      return "BLOB";
    default:
      return "TEXT";
  }
}

static void append_sql(char *sql, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends to sql, which holds SQL_SIZE bytes. All of it fits, since the shapes are known. */
static void append_sql(char *sql, const char *format, ...) {
  size_t used = strlen(sql);
  va_list args;
  va_start(args, format);
  vsnprintf(sql + used, SQL_SIZE - used, format, args);
  va_end(args);
}

/* Appends the names of the first fields with commas between them, each followed by an ending. */
static void append_names(char *sql, const mmci_record_shape *shape, int count, const char *ending) {
  for (int f = 0; f < count; f++)
    append_sql(sql, "%s%s%s", f > 0 ? ", " : "", shape->fields[f].name, ending);
}

static void create_sql(int kind, char sql[SQL_SIZE]) {
  const mmci_record_shape *shape = &mmci_record_shapes[kind];
  snprintf(sql, SQL_SIZE, "CREATE TABLE %s(fingerprint INTEGER", shape->name);
  for (int f = 0; f < shape->count; f++) {
    append_sql(sql, ", %s %s", shape->fields[f].name, column_type(shape->fields[f].type));
  }
  append_sql(sql, ", checksum INTEGER, PRIMARY KEY(fingerprint, ");
  append_names(sql, shape, shape->keys, "");
  append_sql(sql, ")) WITHOUT ROWID");
}

static void record_sql(int kind, mmci_query query, char sql[SQL_SIZE]) {
  const mmci_record_shape *shape = &mmci_record_shapes[kind];
  sql[0] = '\0';
  switch (query) {
    case MMCI_QUERY_INSERT:
      append_sql(sql, "INSERT OR REPLACE INTO %s VALUES(?, ?", shape->name);
      for (int f = 0; f < shape->count; f++) append_sql(sql, ", ?");
      append_sql(sql, ")");
      return;
    case MMCI_QUERY_SELECT:
    case MMCI_QUERY_SELECT_DOWN:
    case MMCI_QUERY_FIND:
      append_sql(sql, "SELECT ");
      append_names(sql, shape, shape->count, "");
      append_sql(sql, ", checksum FROM %s WHERE fingerprint = ?", shape->name);
      for (int f = 0; f < shape->keys && query == MMCI_QUERY_FIND; f++)
        append_sql(sql, " AND %s = ?", shape->fields[f].name);
      if (query == MMCI_QUERY_FIND) return;
      append_sql(sql, " ORDER BY ");
      append_names(sql, shape, shape->keys, query == MMCI_QUERY_SELECT ? "" : " DESC");
      return;
    default:
      append_sql(sql, "DELETE FROM %s WHERE fingerprint = ?1%s", shape->name,
                 kind == MMCI_WISDOM_PROGRESS ? " AND (?2 IS NULL OR job = ?2)" : "");
  }
}

#define FINGERPRINT_COLUMNS "device, model, driver, blas, library, dtype, precision"

static void other_sql(int statement, char sql[SQL_SIZE]) {
  static const char *const texts[] = {
      "INSERT INTO fingerprint(" FINGERPRINT_COLUMNS ") VALUES(?, ?, ?, ?, ?, ?, ?)",
      "SELECT id FROM fingerprint WHERE (" FINGERPRINT_COLUMNS ") = (?, ?, ?, ?, ?, ?, ?)",
      "SELECT id, " FINGERPRINT_COLUMNS " FROM fingerprint ORDER BY " FINGERPRINT_COLUMNS,
      "SELECT id, " FINGERPRINT_COLUMNS " FROM fingerprint NOT INDEXED",
      "DELETE FROM fingerprint WHERE true",
      "PRAGMA data_version",
  };
  snprintf(sql, SQL_SIZE, "%s", texts[statement - MMCI_STATEMENT_FINGERPRINT_INSERT]);
  for (int k = 0; k < MMCI_WISDOM_KINDS && statement == MMCI_STATEMENT_FINGERPRINT_PRUNE; k++)
    append_sql(sql, " AND NOT EXISTS (SELECT 1 FROM %s WHERE fingerprint = id)",
               mmci_record_shapes[k].name);
}

static const char fingerprint_table[] =
    "CREATE TABLE fingerprint(id INTEGER PRIMARY KEY, device TEXT, model TEXT, driver TEXT, "
    "blas TEXT, library TEXT, dtype TEXT, precision TEXT, UNIQUE(" FINGERPRINT_COLUMNS "))";

sqlite3_stmt *mmci_database_statement(mmci_wisdom *wisdom, int statement, mmci_error *error) {
  sqlite3_stmt **prepared = &wisdom->statements[statement];
  if (*prepared != NULL) {
    sqlite3_reset(*prepared);
    return *prepared;
  }
  char sql[SQL_SIZE];
  if (statement < MMCI_STATEMENT_FINGERPRINT_INSERT)
    record_sql(statement / MMCI_QUERIES, (mmci_query)(statement % MMCI_QUERIES), sql);
  else
    other_sql(statement, sql);
  int code = sqlite3_prepare_v3(wisdom->db, sql, -1, SQLITE_PREPARE_PERSISTENT, prepared, NULL);
  if (code != SQLITE_OK) mmci_database_fail(wisdom, code, error);
  return *prepared;
}

/* ---- what SQLite answers ------------------------------------------------------------------- */

mmc_status mmci_database_fail(mmci_wisdom *wisdom, int code, mmci_error *error) {
  char shown[MMCI_PATH_TEXT_SIZE];
  const char *path = mmci_path_text(wisdom->place.path, shown);
  const char *why = sqlite3_errmsg(wisdom->db);
  int system = sqlite3_system_errno(wisdom->db);
  switch (code & 0xFF) {
    case SQLITE_NOMEM: /* which is all that becomes of one that has no file */
      return mmci_fail(error, MMC_E_NOMEM, "%s%sout of memory", path,
                       wisdom->in_memory ? "" : ": ");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      wisdom->corrupt = true;
      return mmci_fail(error, MMC_E_FORMAT, "%s: corrupt: %s", path, why);
    case SQLITE_BUSY:
      return mmci_fail(error, MMC_E_IO, "%s: held by another process for more than %d s", path,
                       BUSY_MS / 1000);
    case SQLITE_FULL:
      return mmci_fail(error, MMC_E_IO, "%s: cannot write: the disk is full", path);
    case SQLITE_READONLY:
      return mmci_fail(error, MMC_E_IO, "%s: cannot write: it, or its directory, is read-only",
                       path);
    default:
      wisdom->vanished = system == ENOENT;
      return mmci_fail(error, MMC_E_IO, "%s: %s%s%s", path, why, system != 0 ? ": " : "",
                       system != 0 ? strerror(system) : "");
  }
}

static mmc_status execute_sql(mmci_wisdom *wisdom, const char *sql, mmci_error *error) {
  int code = sqlite3_exec(wisdom->db, sql, NULL, NULL, NULL);
  return code == SQLITE_OK ? MMC_OK : mmci_database_fail(wisdom, code, error);
}

/* Ends the transaction, unless SQLite has done so by itself. Memory may be too short even for that:
 * then SQLite's answer is the error, and only closing the file helps. */
static mmc_status roll_back(mmci_wisdom *wisdom, mmci_error *error) {
  int code = sqlite3_exec(wisdom->db, "ROLLBACK", NULL, NULL, NULL);
  if (sqlite3_get_autocommit(wisdom->db) != 0) return MMC_OK;
  return mmci_database_fail(wisdom, code, error);
}

/* Writes the first column of the first row to out, an integer. */
static mmc_status ask_integer(mmci_wisdom *wisdom, const char *sql, int64_t *out,
                              mmci_error *error) {
  sqlite3_stmt *statement;
  int code = sqlite3_prepare_v2(wisdom->db, sql, -1, &statement, NULL);
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  mmc_status status = MMC_OK;
  if (code == SQLITE_ROW)
    *out = sqlite3_column_int64(statement, 0);
  else
    status = mmci_database_fail(wisdom, code, error);
  sqlite3_finalize(statement);
  return status;
}

/* ---- the schema ---------------------------------------------------------------------------- */

/* Writes one of the statements that make a store, counted from 0; returns false past the last
 * one. */
static bool schema_sql(int index, char sql[SQL_SIZE]) {
  if (index > MMCI_WISDOM_KINDS) return false;
  if (index == 0)
    snprintf(sql, SQL_SIZE, "%s", fingerprint_table);
  else
    create_sql(index - 1, sql);
  return true;
}

/* Checks that the tables are exactly ours: no view, no trigger, nothing that would run unasked. */
static mmc_status check_schema(mmci_wisdom *wisdom, bool *empty, mmci_error *error) {
  sqlite3_stmt *statement;
  char sql[SQL_SIZE], shown[MMCI_PATH_TEXT_SIZE];
  int index = 0, code;
  bool same = true;
  code = sqlite3_prepare_v2(wisdom->db,
                            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid",
                            -1, &statement, NULL);
  while (code == SQLITE_OK || code == SQLITE_ROW) {
    code = sqlite3_step(statement);
    if (code != SQLITE_ROW) break;
    const char *text = (const char *)sqlite3_column_text(statement, 0);
    same = same && text != NULL && schema_sql(index, sql) && strcmp(text, sql) == 0;
    index++;
  }
  mmc_status status = code == SQLITE_DONE ? MMC_OK : mmci_database_fail(wisdom, code, error);
  sqlite3_finalize(statement);
  *empty = index == 0;
  if (status != MMC_OK || *empty || (same && !schema_sql(index, sql))) return status;
  wisdom->corrupt = true;
  return mmci_fail(error, MMC_E_FORMAT, "%s: corrupt: its tables are not those of a wisdom store",
                   mmci_path_text(wisdom->place.path, shown));
}

/* Checks that the file is a store, or is empty and may become one. */
static mmc_status check_file(mmci_wisdom *wisdom, bool *empty, mmci_error *error) {
  int64_t id, version;
  char shown[MMCI_PATH_TEXT_SIZE];
  mmc_status status = ask_integer(wisdom, "PRAGMA application_id", &id, error);
  if (status == MMC_OK) status = ask_integer(wisdom, "PRAGMA user_version", &version, error);
  if (status != MMC_OK) return status;
  if (id == APPLICATION_ID && version > SCHEMA_VERSION)
    return mmci_fail(error, MMC_E_FORMAT,
                     "%s: written by a newer mmchain (schema %" PRId64 ", this one knows %d)",
                     mmci_path_text(wisdom->place.path, shown), version, SCHEMA_VERSION);
  if (id == APPLICATION_ID) {
    status = check_schema(wisdom, empty, error);
    if (status != MMC_OK || (version == SCHEMA_VERSION && !*empty)) return status;
    wisdom->corrupt = true;
    return mmci_fail(error, MMC_E_FORMAT, "%s: corrupt: no tables of schema %d",
                     mmci_path_text(wisdom->place.path, shown), SCHEMA_VERSION);
  }
  int64_t objects = 1;
  status = ask_integer(wisdom, "SELECT count(*) FROM sqlite_master", &objects, error);
  *empty = objects == 0 && id == 0 && version == 0;
  if (status != MMC_OK || *empty) return status;
  return mmci_fail(error, MMC_E_FORMAT,
                   "%s: the database of another program, left as it is; MMCHAIN_WISDOM names "
                   "another file",
                   mmci_path_text(wisdom->place.path, shown));
}

/* Does check_file() in a transaction, so that all of it looks at one state of the file, which
 * another process may be making. */
static mmc_status check_state(mmci_wisdom *wisdom, bool *empty, int *code, mmci_error *error) {
  mmc_status status = execute_sql(wisdom, "BEGIN", error);
  if (status == MMC_OK) status = check_file(wisdom, empty, error);
  *code = sqlite3_errcode(wisdom->db) & 0xFF;
  mmc_status ended = roll_back(wisdom, status == MMC_OK ? error : NULL);
  return status == MMC_OK ? ended : status;
}

/* Says whether SQLite finds every page of the file sound; where it does not, error says what is
 * wrong. */
static mmc_status look_at_pages(mmci_wisdom *wisdom, bool *sound, mmci_error *error) {
  sqlite3_stmt *statement;
  char shown[MMCI_PATH_TEXT_SIZE];
  mmc_status status = MMC_OK;
  int code = sqlite3_prepare_v2(wisdom->db, "PRAGMA integrity_check(1)", -1, &statement, NULL);
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  const char *verdict = code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
  *sound = verdict != NULL && strcmp(verdict, "ok") == 0;
  if (code != SQLITE_ROW)
    status = mmci_database_fail(wisdom, code, error);
  else if (verdict == NULL)
    status = mmci_fail_nomem(error, 1);
  else if (!*sound)
    mmci_fail(error, MMC_E_FORMAT, "%s: corrupt: %s", mmci_path_text(wisdom->place.path, shown),
              verdict);
  sqlite3_finalize(statement);
  return status;
}

/* Checks that every page of the file is sound, which costs less than a microsecond a record. A
 * search for a key sees only the pages that lead to it, so that writing to a store may succeed for
 * ever while reading all of it fails. A page that could not be read just now, for want of memory or
 * by a fault of the wire, has the verdict of one that is damaged: so a bad one is asked for
 * twice. */
static mmc_status check_pages(mmci_wisdom *wisdom, mmci_error *error) {
  bool sound = false;
  mmc_status status = look_at_pages(wisdom, &sound, error);
  if (status == MMC_OK && !sound) status = look_at_pages(wisdom, &sound, error);
  if (status != MMC_OK || sound) return status;
  wisdom->corrupt = true;
  return MMC_E_FORMAT;
}

/* Makes the tables, unless another process has made them first. */
static mmc_status make_tables(mmci_wisdom *wisdom, mmci_error *error) {
  mmc_status status = execute_sql(wisdom, "BEGIN IMMEDIATE", error);
  if (status != MMC_OK) return status;
  bool empty = false;
  status = check_file(wisdom, &empty, error);
  char sql[SQL_SIZE];
  for (int s = 0; empty && status == MMC_OK && schema_sql(s, sql); s++)
    status = execute_sql(wisdom, sql, error);
  snprintf(sql, sizeof sql, "PRAGMA application_id = %d; PRAGMA user_version = %d", APPLICATION_ID,
           SCHEMA_VERSION);
  if (empty && status == MMC_OK) status = execute_sql(wisdom, sql, error);
  if (status == MMC_OK) status = execute_sql(wisdom, "COMMIT", error);
  if (status != MMC_OK)
    roll_back(wisdom, NULL); /* open_file() explains when the file is closed already */
  return status;
}

/* ---- opening ------------------------------------------------------------------------------- */

void mmci_database_close(mmci_wisdom *wisdom) {
  for (int s = 0; s < MMCI_STATEMENTS; s++) {
    sqlite3_finalize(wisdom->statements[s]);
    wisdom->statements[s] = NULL;
  }
  sqlite3_close(wisdom->db);
  wisdom->db = NULL;
  wisdom->corrupt = false;
  wisdom->generation++;
}

/* Says whether another file, or none, is now where the open one was. */
static bool has_moved(mmci_wisdom *wisdom) {
  int moved = 0;
  if (wisdom->in_memory) return false;
  sqlite3_file_control(wisdom->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  return moved != 0;
}

/* Sets limits on the file: nothing in it may run, and nothing in it may be huge. */
static void distrust(sqlite3 *db) {
  sqlite3_extended_result_codes(db, 1);
  sqlite3_busy_timeout(db, BUSY_MS);
  sqlite3_limit(db, SQLITE_LIMIT_LENGTH, MOST_BYTES);
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
}

/* Opens name, which is a path or, with SQLITE_OPEN_URI, a URI. */
static mmc_status open_name(mmci_wisdom *wisdom, const char *name, int flags, mmci_error *error) {
  int code = sqlite3_open_v2(name, &wisdom->db, flags | SQLITE_OPEN_NOMUTEX, NULL);
  if (code != SQLITE_OK) {
    mmc_status status = mmci_database_fail(wisdom, code, error);
    mmci_database_close(wisdom);
    return status;
  }
  distrust(wisdom->db);
  wisdom->generation++;
  return MMC_OK;
}

/* Returns where the open file lies when all links are followed, and SQLite's logs beside it; NULL
 * when memory is short. */
static char *real_path(mmci_wisdom *wisdom) {
  const char *name = sqlite3_db_filename(wisdom->db, "main");
  return strdup(name != NULL ? name : wisdom->place.path);
}

/* Says whether a writer has left a log beside path that has yet to go into the file. */
static bool has_log(const char *path) {
  static const char *const endings[] = {"-wal", "-journal"};
  bool found = false;
  for (size_t e = 0; e < sizeof endings / sizeof endings[0]; e++) {
    char name[PATH_MAX];
    struct stat log;
    int length = snprintf(name, sizeof name, "%s%s", path, endings[e]);
    found = found || length < 0 || (size_t)length >= sizeof name ||
            (stat(name, &log) == 0 && log.st_size > 0);
  }
  return found;
}

/* Opens a file that cannot be written and whose directory cannot either. SQLite cannot share it
 * with a writer; when no log lies beside it, there is no writer and it may be read as it is. */
static mmc_status open_immutable(mmci_wisdom *wisdom, mmci_error *error) {
  char shown[MMCI_PATH_TEXT_SIZE];
  char *path = real_path(wisdom);
  char *uri = path != NULL ? mmci_alloc_array(3 * strlen(path) + 64, 1) : NULL;
  mmc_status status = MMC_OK;
  if (uri == NULL)
    status = mmci_fail_nomem(error, PATH_MAX);
  else if (has_log(path))
    status = mmci_fail(error, MMC_E_IO,
                       "%s: cannot read: a log beside it must be written into it first, and it, or "
                       "its directory, is read-only",
                       mmci_path_text(path, shown));
  if (status == MMC_OK) {
    size_t used = (size_t)sprintf(uri, "file://");
    for (const char *c = path; *c != '\0'; c++)
      used += (size_t)sprintf(uri + used, strchr("?#%", *c) != NULL ? "%%%02X" : "%c",
                              (unsigned char)*c);
    memcpy(uri + used, "?immutable=1", sizeof "?immutable=1");
    mmci_database_close(wisdom);
    status = open_name(wisdom, uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, error);
  }
  free(path);
  free(uri);
  return status;
}

mmc_status mmci_database_open_aside(mmci_wisdom *wisdom, mmci_error *error) {
  bool empty;
  int code;
  mmc_status status = open_name(wisdom, wisdom->place.path, SQLITE_OPEN_READONLY, error);
  if (status == MMC_OK && !has_log(wisdom->place.path)) status = open_immutable(wisdom, error);
  if (status != MMC_OK) return status;
  /* SQLite reads nothing of a file that is shorter than its header says, but for those who may
   * write to its schema, as nobody can here. */
  sqlite3_db_config(wisdom->db, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL);
  status = execute_sql(wisdom, "PRAGMA writable_schema = ON", error);
  return status == MMC_OK ? check_state(wisdom, &empty, &code, error) : status;
}

/* Opens the file and finds out what it is. */
static mmc_status open_file(mmci_wisdom *wisdom, bool writing, mmci_error *error) {
  const char *name = wisdom->in_memory ? ":memory:" : wisdom->place.path;
  int flags = SQLITE_OPEN_READWRITE | (writing ? SQLITE_OPEN_CREATE : 0);
  mmc_status status = open_name(wisdom, name, flags, error);
  if (status != MMC_OK) return status;
  wisdom->writable = sqlite3_db_readonly(wisdom->db, "main") == 0;

  bool empty = false;
  int code;
  status = check_state(wisdom, &empty, &code, error);
  if (!writing && status == MMC_E_IO && (code == SQLITE_CANTOPEN || code == SQLITE_READONLY)) {
    status = open_immutable(wisdom, error);
    if (status == MMC_OK) status = check_state(wisdom, &empty, &code, error);
    wisdom->writable = false;
  }
  if (status == MMC_OK && !empty && wisdom->writable && !wisdom->in_memory)
    status = check_pages(wisdom, error);
  if (status == MMC_OK && empty && writing) status = make_tables(wisdom, error);
  if (status == MMC_OK && !(empty && !writing)) {
    /* With a write-ahead log, readers and a writer do not wait for each other. A file system that
     * cannot do that, or another process at this very moment, keeps the other journal, which is
     * slower and no less safe. */
    if (writing) sqlite3_exec(wisdom->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
    return execute_sql(wisdom, "PRAGMA synchronous = NORMAL", error);
  }
  if (!wisdom->corrupt) mmci_database_close(wisdom);
  return status;
}

/* Does the work between begin and COMMIT; when it fails, nothing of it stays. */
static mmc_status transact(mmci_wisdom *wisdom, const char *begin, mmci_database_work work,
                           void *user, mmci_error *error) {
  mmc_status status = execute_sql(wisdom, begin, error);
  if (status != MMC_OK) return status;
  status = work(wisdom, user, error);
  for (int s = 0; s < MMCI_STATEMENTS; s++) {
    if (wisdom->statements[s] == NULL) continue;
    sqlite3_reset(wisdom->statements[s]);
    sqlite3_clear_bindings(wisdom->statements[s]);
  }
  if (status == MMC_OK) status = execute_sql(wisdom, "COMMIT", error);
  if (status != MMC_OK && roll_back(wisdom, NULL) != MMC_OK) mmci_database_close(wisdom);
  return status;
}

/* ---- what is corrupt ----------------------------------------------------------------------- */

/* Says whether at least the header is that of a store, or of nothing at all: a page that was never
 * written is all zeros. It is read through SQLite, because closing a descriptor of our own would
 * drop the locks of this process. */
static bool header_is_ours(mmci_wisdom *wisdom) {
  sqlite3_file *file = NULL;
  unsigned char header[100];
  sqlite3_file_control(wisdom->db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
  if (file == NULL || file->pMethods == NULL ||
      file->pMethods->xRead(file, header, sizeof header, 0) != SQLITE_OK)
    return false;
  size_t zeros = 0;
  while (zeros < sizeof header && header[zeros] == 0) zeros++;
  if (zeros == sizeof header) return true;
  const unsigned char *id =
      header + 68; /* the number is big-endian: "Database File Format" at sqlite.org */
  return ((uint32_t)id[0] << 24 | (uint32_t)id[1] << 16 | (uint32_t)id[2] << 8 | id[3]) ==
         APPLICATION_ID;
}

/* Renames the file to make room for a new one. */
static mmc_status set_aside(mmci_wisdom *wisdom, mmci_error *error) {
  char shown[MMCI_PATH_TEXT_SIZE];
  if (!wisdom->place.usual && !header_is_ours(wisdom)) {
    mmci_database_close(wisdom);
    return mmci_fail(error, MMC_E_FORMAT,
                     "%s: not a wisdom store, left as it is; MMCHAIN_WISDOM names another file",
                     mmci_path_text(wisdom->place.path, shown));
  }
  char *file = real_path(wisdom);
  if (file == NULL) {
    mmci_database_close(wisdom);
    return mmci_fail_nomem(error, PATH_MAX);
  }
  int number = 0, lock = mmci_place_lock(file);
  bool gone = has_moved(wisdom); /* another process was faster */
  sqlite3_db_config(wisdom->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
  mmci_database_close(wisdom);
  mmc_status status = gone ? MMC_OK : mmci_place_set_aside(file, &number, error);
  mmci_place_unlock(lock);
  if (status == MMC_OK && !gone) {
    snprintf(wisdom->notice, sizeof wisdom->notice,
             "%s: was corrupt and is now called so with .corrupt-%d after it; a new one is begun",
             mmci_path_text(file, shown), number);
    free(wisdom->aside);
    if (asprintf(&wisdom->aside, "%s.corrupt-%d", file, number) < 0) wisdom->aside = NULL;
  }
  free(file);
  return status;
}

/* Puts what can be read of the file that was set aside into the new one. When that fails, the next
 * call tries again. */
static mmc_status salvage(mmci_wisdom *wisdom, mmci_error *error) {
  int64_t kept = 0;
  mmc_status status = transact(wisdom, "BEGIN IMMEDIATE", mmci_salvage, &kept, error);
  wisdom->generation++;
  if (status != MMC_OK) return status;
  free(wisdom->aside);
  wisdom->aside = NULL;
  size_t used = strlen(wisdom->notice);
  snprintf(wisdom->notice + used, sizeof wisdom->notice - used,
           " with the %" PRId64 " of its records that could be read", kept);
  return MMC_OK;
}

static mmc_status ready_once(mmci_wisdom *wisdom, bool writing, mmci_error *error) {
  bool there = true;
  mmc_status status = MMC_OK;
  if (wisdom->vanished && wisdom->db != NULL) mmci_database_close(wisdom);
  wisdom->vanished = false;
  if (wisdom->corrupt && writing) {
    status = set_aside(wisdom, error);
  } else if (wisdom->corrupt ||
             (wisdom->db != NULL && (has_moved(wisdom) || (writing && !wisdom->writable)))) {
    mmci_database_close(wisdom);
  }
  if (status == MMC_OK && !wisdom->in_memory)
    status = mmci_place_look(wisdom->place.path, &there, error);
  if (status == MMC_OK && !there && writing) status = mmci_place_prepare(wisdom->place.path, error);
  if (status != MMC_OK || wisdom->db != NULL || (!there && !writing)) return status;
  return open_file(wisdom, writing, error);
}

/* Opens the file and checks all of it, unless it is open already; the error says what is wrong with
 * it. After MMC_OK db is NULL when !writing and there is nothing to read. */
static mmc_status make_ready(mmci_wisdom *wisdom, bool writing, mmci_error *error) {
  if (wisdom->place.path[0] == '\0' && !wisdom->in_memory)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "no wisdom store: %s", wisdom->place.no);
  mmc_status status = ready_once(wisdom, writing, error);
  for (int t = 1; t < TRIES && writing && (wisdom->corrupt || wisdom->vanished); t++)
    status = ready_once(wisdom, writing, error);
  /* A caller that cannot set a corrupt file aside is told what is wrong with the file. */
  mmci_error mending;
  if (!writing && wisdom->corrupt && make_ready(wisdom, true, &mending) == MMC_OK) return MMC_OK;
  /* What was set aside needs a new file, which an earlier call may not have come to make. */
  if (status == MMC_OK && wisdom->aside != NULL && wisdom->db == NULL)
    status = ready_once(wisdom, true, error);
  if (status == MMC_OK && wisdom->aside != NULL && wisdom->writable)
    status = salvage(wisdom, error);
  return status;
}

/* ---- transactions -------------------------------------------------------------------------- */

mmc_status mmci_database_write(mmci_wisdom *wisdom, mmci_database_work work, void *user,
                               mmci_error *error) {
  mmc_status status = MMC_OK;
  for (int t = 0; t < TRIES; t++) {
    status = make_ready(wisdom, true, error);
    if (status != MMC_OK) return status;
    status = transact(wisdom, "BEGIN IMMEDIATE", work, user, error);
    wisdom->generation++;
    /* Work that went to a file that has since been renamed or deleted is done again in the new
     * one. */
    if (wisdom->corrupt || wisdom->vanished) continue;
    if (status != MMC_OK || !has_moved(wisdom)) return status;
  }
  if (status != MMC_OK) return status;
  char shown[MMCI_PATH_TEXT_SIZE];
  return mmci_fail(error, MMC_E_IO, "%s: another process keeps moving it away",
                   mmci_path_text(wisdom->place.path, shown));
}

mmc_status mmci_database_read(mmci_wisdom *wisdom, mmci_database_work work, void *user,
                              mmci_error *error) {
  mmc_status status = make_ready(wisdom, false, error);
  if (status != MMC_OK || wisdom->db == NULL) return status;
  status = transact(wisdom, "BEGIN", work, user, error);
  mmci_error mending;
  if (wisdom->corrupt) make_ready(wisdom, true, &mending);
  return status;
}

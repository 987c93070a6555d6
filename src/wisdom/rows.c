#include "wisdom/rows.h"

#include <endian.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"

/* ---- grids --------------------------------------------------------------------------------- */

/* A grid is stored as a blob of little-endian words of eight bytes: three counts, three axes, the
 * values. */
enum { WORD = 8, HEAD = 3 };

static void put_word(unsigned char *bytes, size_t index, uint64_t value) {
  value = htole64(value);
  memcpy(bytes + WORD * index, &value, WORD);
}

static uint64_t get_word(const unsigned char *bytes, size_t index) {
  uint64_t value;
  memcpy(&value, bytes + WORD * index, WORD);
  return le64toh(value);
}

static int bind_grid(sqlite3_stmt *statement, int index, const mmci_wisdom_grid *grid) {
  size_t size = mmci_grid_size(grid), words = HEAD + size;
  for (int d = 0; d < 3; d++) words += (size_t)grid->count[d];
  unsigned char *bytes = mmci_alloc_array(words, WORD);
  if (bytes == NULL) return SQLITE_NOMEM;
  size_t at = 0;
  for (int d = 0; d < 3; d++) put_word(bytes, at++, (uint64_t)grid->count[d]);
  for (int d = 0; d < 3; d++)
    for (int32_t p = 0; p < grid->count[d]; p++) put_word(bytes, at++, (uint64_t)grid->axis[d][p]);
  for (size_t v = 0; v < size; v++) {
    uint64_t bits;
    memcpy(&bits, &grid->values[v], WORD);
    put_word(bytes, at++, bits);
  }
  return sqlite3_bind_blob64(statement, index, bytes, words * WORD, free);
}

/* Points grid into memory of its own; fails when the blob is no grid. */
static mmc_status read_grid(sqlite3_stmt *statement, int column, mmci_row *row,
                            mmci_wisdom_grid *grid, bool *sound, mmci_error *error) {
  const unsigned char *bytes = sqlite3_column_blob(statement, column);
  size_t size = (size_t)sqlite3_column_bytes(statement, column);
  *sound = false;
  if (bytes == NULL || size % WORD != 0 || size < HEAD * WORD) return MMC_OK;
  size_t words = HEAD;
  for (size_t d = 0; d < 3; d++) {
    uint64_t count = get_word(bytes, d);
    if (count < 1 || count > MMCI_WISDOM_AXIS_MAX) return MMC_OK;
    grid->count[d] = (int32_t)count;
    words += (size_t)count;
  }
  if (words + mmci_grid_size(grid) != size / WORD) return MMC_OK;

  int64_t *memory = mmci_alloc_array(size, 1);
  if (memory == NULL) return mmci_fail_nomem(error, size);
  for (size_t w = 0; w < size / WORD; w++) memory[w] = (int64_t)get_word(bytes, w);
  row->memory = memory;
  int64_t *at = memory + HEAD;
  for (int d = 0; d < 3; d++) {
    grid->axis[d] = at;
    at += grid->count[d];
  }
  grid->values =
      (const double *)(const void *)at; /* the bytes were written as words of the same size */
  *sound = true;
  return MMC_OK;
}

/* ---- fields -------------------------------------------------------------------------------- */

static int bind_field(sqlite3_stmt *statement, int index, const mmci_wisdom_record *record,
                      const mmci_field *field) {
  const char *text = NULL;
  switch (field->type) {
    case MMCI_FIELD_SIZE:
    case MMCI_FIELD_DATE:
      return sqlite3_bind_int64(statement, index, MMCI_FIELD_READ(record, field, int64_t));
    case MMCI_FIELD_REAL:
    case MMCI_FIELD_MAYBE: /* NaN becomes NULL */
      return sqlite3_bind_double(statement, index, MMCI_FIELD_READ(record, field, double));
    case MMCI_FIELD_GRID:
      return bind_grid(statement, index, &MMCI_FIELD_READ(record, field, mmci_wisdom_grid));
    case MMCI_FIELD_OP:
      text = mmci_op_word(MMCI_FIELD_READ(record, field, mmc_op));
      break;
    case MMCI_FIELD_OBJECTIVE:
      text = mmci_objective_word(MMCI_FIELD_READ(record, field, mmci_wisdom_objective));
      break;
    case MMCI_FIELD_TEXT:
      text = MMCI_FIELD_READ(record, field, char *const);
      break;
  }
  return sqlite3_bind_text(statement, index, text, -1, SQLITE_TRANSIENT);
}

/* Returns a text without a NUL inside; NULL when the column holds anything else. */
static const char *read_text(sqlite3_stmt *statement, int column) {
  if (sqlite3_column_type(statement, column) != SQLITE_TEXT) return NULL;
  const char *text = (const char *)sqlite3_column_text(statement, column);
  if (text == NULL || strlen(text) != (size_t)sqlite3_column_bytes(statement, column)) return NULL;
  return text;
}

static mmc_status read_field(sqlite3_stmt *statement, int column, const mmci_field *field,
                             mmci_row *row, bool *sound, mmci_error *error) {
  int type = sqlite3_column_type(statement, column);
  const char *text = read_text(statement, column);
  mmci_wisdom_record *record = &row->record;
  switch (field->type) {
    case MMCI_FIELD_SIZE:
    case MMCI_FIELD_DATE:
      *MMCI_FIELD(record, field, int64_t) = sqlite3_column_int64(statement, column);
      *sound = type == SQLITE_INTEGER;
      break;
    case MMCI_FIELD_REAL:
    case MMCI_FIELD_MAYBE:
      *MMCI_FIELD(record, field, double) =
          type == SQLITE_FLOAT ? sqlite3_column_double(statement, column) : NAN;
      *sound = type == SQLITE_FLOAT || type == SQLITE_NULL;
      break;
    case MMCI_FIELD_OP:
      *sound = text != NULL && mmci_op_parse(text, MMCI_FIELD(record, field, mmc_op));
      break;
    case MMCI_FIELD_OBJECTIVE:
      *sound = text != NULL &&
               mmci_objective_parse(text, MMCI_FIELD(record, field, mmci_wisdom_objective));
      break;
    case MMCI_FIELD_TEXT:
      *MMCI_FIELD(record, field, const char *) = text;
      *sound = text != NULL;
      break;
    case MMCI_FIELD_GRID:
      return read_grid(statement, column, row, MMCI_FIELD(record, field, mmci_wisdom_grid), sound,
                       error);
  }
  return MMC_OK;
}

/* ---- records ------------------------------------------------------------------------------- */

mmc_status mmci_row_read(sqlite3_stmt *statement, mmci_wisdom_kind kind,
                         const mmci_fingerprint *fingerprint, mmci_row *out, mmci_error *error) {
  const mmci_record_shape *shape = &mmci_record_shapes[kind];
  *out = (mmci_row){.record = {.kind = kind, .fingerprint = fingerprint}};
  bool sound = true;
  for (int f = 0; f < shape->count && sound; f++) {
    mmc_status status = read_field(statement, f, &shape->fields[f], out, &sound, error);
    if (status != MMC_OK) return status;
  }
  out->sound =
      sound && mmci_record_check(&out->record, NULL) == MMC_OK &&
      sqlite3_column_type(statement, shape->count) == SQLITE_INTEGER &&
      (uint64_t)sqlite3_column_int64(statement, shape->count) == mmci_record_checksum(&out->record);
  return MMC_OK;
}

void mmci_row_release(mmci_row *row) {
  free(row->memory);
}

static int bind_record(sqlite3_stmt *statement, int64_t fingerprint_id,
                       const mmci_wisdom_record *record, int fields) {
  const mmci_record_shape *shape = &mmci_record_shapes[record->kind];
  int code = sqlite3_bind_int64(statement, 1, fingerprint_id);
  for (int f = 0; f < fields && code == SQLITE_OK; f++)
    code = bind_field(statement, f + 2, record, &shape->fields[f]);
  return code;
}

int mmci_row_bind_all(sqlite3_stmt *statement, int64_t fingerprint_id,
                      const mmci_wisdom_record *record) {
  int fields = mmci_record_shapes[record->kind].count;
  int code = bind_record(statement, fingerprint_id, record, fields);
  if (code != SQLITE_OK) return code;
  return sqlite3_bind_int64(statement, fields + 2, (int64_t)mmci_record_checksum(record));
}

int mmci_row_bind_key(sqlite3_stmt *statement, int64_t fingerprint_id,
                      const mmci_wisdom_record *record) {
  return bind_record(statement, fingerprint_id, record, mmci_record_shapes[record->kind].keys);
}

/* ---- fingerprints -------------------------------------------------------------------------- */

bool mmci_fingerprint_read(sqlite3_stmt *statement, int first, mmci_fingerprint *out) {
  *out = (mmci_fingerprint){0};
  for (int f = 0; f < MMCI_FINGERPRINT_FIELDS; f++) {
    const char *text = read_text(statement, first + f);
    if (text == NULL || strlen(text) >= MMCI_FINGERPRINT_SIZE) return false;
    memcpy(out->fields[f], text, strlen(text));
  }
  return mmci_fingerprint_check(out, NULL) == MMC_OK;
}

int mmci_fingerprint_bind(sqlite3_stmt *statement, const mmci_fingerprint *fingerprint) {
  int code = SQLITE_OK;
  for (int f = 0; f < MMCI_FINGERPRINT_FIELDS && code == SQLITE_OK; f++)
    code = sqlite3_bind_text(statement, f + 1, fingerprint->fields[f], -1, SQLITE_TRANSIENT);
  return code;
}

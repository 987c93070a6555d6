/* wisdom_import.c: reads the text form, strictly: one space between words, nothing left out. The
 * records gather in a store in memory, which finds keys that come twice, and are merged when all of
 * the text was good. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "wisdom/record.h"
#include "wisdom/store.h"

enum { LINE_MOST = 1 << 16, INPUT_SIZE = 1 << 14, SHOWN = 40 };

typedef struct reader {
  mmc_read_fn read;
  void *user;
  mmci_error *error;
  int64_t number; /* number of the line, from 1 */
  char *at;       /* the rest of the line */
  size_t used, filled;
  char input[INPUT_SIZE];
  char line[LINE_MOST + 1];
} reader;

static mmc_status bad(reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static mmc_status bad(reader *r, const char *format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  for (char *c = text; *c != '\0'; c++)
    if ((unsigned char)*c < 0x20 || *c == 0x7F) *c = '?';
  return mmci_fail(r->error, MMC_E_FORMAT, "line %" PRId64 ": %s", r->number, text);
}

/* ---- lines --------------------------------------------------------------------------------- */

static mmc_status fill_buffer(reader *r) {
  ptrdiff_t got = r->read(r->user, r->input, sizeof r->input);
  if (got < 0 || (size_t)got > sizeof r->input)
    return mmci_fail(r->error, MMC_E_IO, "the read callback failed");
  r->used = 0;
  r->filled = (size_t)got;
  return MMC_OK;
}

/* Reads the next line; *end is set at the end of the input. */
static mmc_status next_line(reader *r, bool *end) {
  size_t length = 0;
  r->number++;
  r->at = r->line;
  *end = false;
  for (;;) {
    if (r->used == r->filled) {
      mmc_status status = fill_buffer(r);
      if (status != MMC_OK) return status;
      *end = r->filled == 0;
      if (*end && length > 0) return bad(r, "cut off: expected the line to end");
      if (*end) return MMC_OK;
    }
    char *start = r->input + r->used;
    char *newline = memchr(start, '\n', r->filled - r->used);
    size_t size = newline != NULL ? (size_t)(newline - start) : r->filled - r->used;
    if (length + size > LINE_MOST) return bad(r, "expected at most %d bytes", LINE_MOST);
    memcpy(r->line + length, start, size);
    length += size;
    r->used += size + (newline != NULL);
    if (newline == NULL) continue;
    r->line[length] = '\0';
    if (strlen(r->line) != length) return bad(r, "expected text, got a NUL");
    if (length > 0 && r->line[length - 1] == ' ')
      return bad(r, "expected no space at the end of the line");
    return MMC_OK;
  }
}

/* Reads the next line; it is an error when there is none. */
static mmc_status need_line(reader *r, const char *what) {
  bool end;
  mmc_status status = next_line(r, &end);
  return status == MMC_OK && end ? bad(r, "cut off: expected %s", what) : status;
}

/* ---- words --------------------------------------------------------------------------------- */

/* Cuts off the next word, up to a space or the end of the line. */
static char *next_word(reader *r) {
  char *word = r->at;
  r->at += strcspn(r->at, " ");
  if (*r->at == ' ') *r->at++ = '\0';
  return word;
}

/* Cuts off a text in quotes and undoes its escapes. Returns NULL when there is none. */
static char *next_text(reader *r) {
  if (*r->at != '"') return NULL;
  char *text = ++r->at, *to = text;
  for (; *r->at != '"'; r->at++) {
    if (*r->at == '\\') r->at++;
    if (*r->at == '\0') return NULL;
    *to++ = *r->at;
  }
  char *after = r->at + 1;
  if (*after != ' ' && *after != '\0') return NULL;
  r->at = after + (*after == ' ');
  *to = '\0';
  return text;
}

static bool parse_integer(const char *word, int64_t *out) {
  size_t digits = strspn(word, "0123456789");
  if (digits == 0 || digits > 19 || word[digits] != '\0') return false;
  uint64_t value = strtoull(word, NULL, 10);
  *out = (int64_t)value;
  return value <= INT64_MAX;
}

static mmc_status need_integer(reader *r, const char *name, int64_t *out) {
  const char *word = next_word(r);
  if (parse_integer(word, out)) return MMC_OK;
  return bad(r, "%s: expected a whole number, got '%.*s'", name, SHOWN, word);
}

static mmc_status need_number(reader *r, const char *name, bool maybe, double *out) {
  const char *word = next_word(r);
  if (maybe && strcmp(word, "-") == 0) {
    *out = NAN;
    return MMC_OK;
  }
  if (mmci_number_parse(word, out)) return MMC_OK;
  return bad(r, "%s: expected a number%s, got '%.*s'", name, maybe ? " or -" : "", SHOWN, word);
}

static mmc_status need_end(reader *r) {
  return *r->at == '\0' ? MMC_OK : bad(r, "expected the line to end, got '%.*s'", SHOWN, r->at);
}

/* ---- grids --------------------------------------------------------------------------------- */

static mmc_status read_counts(reader *r, mmci_wisdom_grid *grid) {
  for (int d = 0; d < 3; d++) {
    int64_t count = 0;
    mmc_status status = need_integer(r, "grid", &count);
    if (status != MMC_OK) return status;
    if (count < 1 || count > MMCI_WISDOM_AXIS_MAX)
      return bad(r, "grid: expected 1 to %d points, got %" PRId64, MMCI_WISDOM_AXIS_MAX, count);
    grid->count[d] = (int32_t)count;
  }
  if (mmci_grid_size(grid) > MMCI_WISDOM_GRID_MAX)
    return bad(r, "grid: expected at most %d points", MMCI_WISDOM_GRID_MAX);
  return MMC_OK;
}

/* Reads the next line, which must begin with a space and name. */
static mmc_status need_row(reader *r, const char *name) {
  mmc_status status = need_line(r, "the rest of the grid");
  if (status != MMC_OK) return status;
  if (r->at[0] != ' ' || r->at[1] != name[0] || r->at[2] != ' ')
    return bad(r, "expected ' %s' and numbers", name);
  r->at += 3;
  return MMC_OK;
}

/* Reads the lines of a grid into memory, which the caller frees. */
static mmc_status read_grid(reader *r, mmci_wisdom_grid *grid, void **memory) {
  size_t points = 0, size = mmci_grid_size(grid);
  for (int d = 0; d < 3; d++) points += (size_t)grid->count[d];
  int64_t *axis = mmci_alloc_array(points + size, sizeof *axis);
  if (axis == NULL) return mmci_fail_nomem(r->error, (points + size) * sizeof *axis);
  *memory = axis;
  for (int d = 0; d < 3; d++) {
    const char name[] = {"mkn"[d], '\0'};
    mmc_status status = need_row(r, name);
    for (int32_t p = 0; p < grid->count[d] && status == MMC_OK; p++)
      status = need_integer(r, name, &axis[p]);
    if (status == MMC_OK) status = need_end(r);
    if (status != MMC_OK) return status;
    grid->axis[d] = axis;
    axis += grid->count[d];
  }
  double *values = (double *)(void *)axis;
  grid->values = values;
  for (int64_t row = 0; row < (int64_t)grid->count[0] * grid->count[1]; row++) {
    mmc_status status = need_row(r, "E");
    for (int32_t p = 0; p < grid->count[2] && status == MMC_OK; p++)
      status = need_number(r, "E", false, values++);
    if (status == MMC_OK) status = need_end(r);
    if (status != MMC_OK) return status;
  }
  return MMC_OK;
}

/* ---- records ------------------------------------------------------------------------------- */

static mmc_status read_field(reader *r, mmci_wisdom_record *record, const mmci_field *field) {
  const char *text;
  switch (field->type) {
    case MMCI_FIELD_SIZE:
    case MMCI_FIELD_DATE:
      return need_integer(r, field->name, MMCI_FIELD(record, field, int64_t));
    case MMCI_FIELD_REAL:
    case MMCI_FIELD_MAYBE:
      return need_number(r, field->name, field->type == MMCI_FIELD_MAYBE,
                         MMCI_FIELD(record, field, double));
    case MMCI_FIELD_OP:
      text = next_word(r);
      if (mmci_op_parse(text, MMCI_FIELD(record, field, mmc_op))) return MMC_OK;
      return bad(r, "%s: expected N, T or H, got '%.*s'", field->name, SHOWN, text);
    case MMCI_FIELD_OBJECTIVE:
      text = next_word(r);
      if (mmci_objective_parse(text, MMCI_FIELD(record, field, mmci_wisdom_objective)))
        return MMC_OK;
      return bad(r, "%s: expected time or energy, got '%.*s'", field->name, SHOWN, text);
    case MMCI_FIELD_TEXT:
      text = next_text(r);
      *MMCI_FIELD(record, field, const char *) = text;
      return text != NULL ? MMC_OK : bad(r, "%s: expected a text in quotes", field->name);
    case MMCI_FIELD_GRID:
      return read_counts(r, MMCI_FIELD(record, field, mmci_wisdom_grid));
  }
  return bad(r, "%s: of no known type", field->name);
}

static mmc_status read_fingerprint(reader *r, mmci_fingerprint *out) {
  for (int f = 0; f < MMCI_FINGERPRINT_FIELDS; f++) {
    const char *text = next_text(r);
    if (text == NULL) return bad(r, "%s: expected a text in quotes", mmci_fingerprint_names[f]);
    if (strlen(text) >= MMCI_FINGERPRINT_SIZE)
      return bad(r, "%s: expected at most %d bytes", mmci_fingerprint_names[f],
                 MMCI_FINGERPRINT_SIZE - 1);
    memset(out->fields[f], 0, MMCI_FINGERPRINT_SIZE);
    memcpy(out->fields[f], text, strlen(text));
  }
  mmci_error error = {0};
  if (mmci_fingerprint_check(out, &error) != MMC_OK) return bad(r, "%s", error.text);
  return need_end(r);
}

/* Reads the rest of a record into the store. */
static mmc_status read_record(reader *r, mmci_wisdom_record *record, mmci_wisdom *into) {
  const mmci_record_shape *shape = &mmci_record_shapes[record->kind];
  mmc_status status = MMC_OK;
  for (int f = 0; f < shape->count && status == MMC_OK; f++)
    status = read_field(r, record, &shape->fields[f]);
  if (status == MMC_OK) status = need_end(r);
  void *memory = NULL;
  if (status == MMC_OK && record->kind == MMCI_WISDOM_ARRAY)
    status = read_grid(r, &record->array.grid, &memory);
  if (status == MMC_OK) {
    mmci_error error = {0};
    status = mmci_store_put_new(into, record, &error);
    if (status == MMC_E_ARG)
      status = bad(r, "%s", error.text);
    else if (status != MMC_OK)
      mmci_fail(r->error, status, "%s", error.text);
  }
  free(memory);
  return status;
}

static int kind_named(const char *word) {
  for (int k = 0; k < MMCI_WISDOM_KINDS; k++)
    if (strcmp(mmci_record_shapes[k].name, word) == 0) return k;
  return -1;
}

static mmc_status read_end(reader *r, int64_t count) {
  int64_t expected = 0;
  mmc_status status = need_integer(r, "end", &expected);
  if (status == MMC_OK) status = need_end(r);
  if (status != MMC_OK) return status;
  if (expected != count)
    return bad(r, "expected %" PRId64 " records before it, got %" PRId64, expected, count);
  bool end;
  status = next_line(r, &end);
  return status != MMC_OK || end ? status : bad(r, "expected nothing after the end");
}

static mmc_status read_all(reader *r, mmci_wisdom *into) {
  mmc_status status = need_line(r, "'mmchain wisdom 1'");
  if (status != MMC_OK) return status;
  if (strcmp(r->line, "mmchain wisdom 1") != 0)
    return bad(r, "expected 'mmchain wisdom 1', got '%.*s'", SHOWN, r->line);
  mmci_fingerprint fingerprint;
  bool begun = false;
  for (int64_t count = 0;;) {
    status = need_line(r, "a record, or the end");
    if (status != MMC_OK) return status;
    const char *word = next_word(r);
    int kind = kind_named(word);
    if (strcmp(word, "end") == 0) return read_end(r, count);
    if (strcmp(word, "fingerprint") == 0) {
      status = read_fingerprint(r, &fingerprint);
      begun = true;
    } else if (kind < 0) {
      status = bad(r, "expected fingerprint, product, array, fact, progress or end, got '%.*s'",
                   SHOWN, word);
    } else if (!begun) {
      status = bad(r, "expected a fingerprint before the first record");
    } else {
      mmci_wisdom_record record = {.kind = (mmci_wisdom_kind)kind, .fingerprint = &fingerprint};
      status = read_record(r, &record, into);
      count++;
    }
    if (status != MMC_OK) return status;
  }
}

mmc_status mmci_wisdom_import(mmci_wisdom *wisdom, mmc_read_fn read, void *user,
                              mmci_error *error) {
  mmci_error mine = {0};
  if (error == NULL) error = &mine;
  reader *r = malloc(sizeof *r);
  if (r == NULL) return mmci_fail_nomem(error, sizeof *r);
  r->read = read;
  r->user = user;
  r->error = error;
  r->number = 0;
  r->used = r->filled = 0;
  mmci_wisdom *gathered = NULL;
  mmc_status status = mmci_store_create_in_memory(&gathered, error);
  if (status == MMC_OK) status = read_all(r, gathered);
  if (status == MMC_OK) status = mmci_store_merge(wisdom, gathered, error);
  mmci_wisdom_destroy(gathered);
  free(r);
  return status;
}

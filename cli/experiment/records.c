/* records.c: reads lines of JSON. */
#include "records.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MOST = 120, DEPTH_MOST = 8, SAMPLES_MOST = 256 };

/* A line that is being read. */
typedef struct reader {
  const char *at;
  const char *wanted; /* what was expected where reading failed; NULL while it goes well */
  bool short_of_memory;
  cli_record *record;
} reader;

static bool fail(reader *r, const char *wanted) {
  if (r->wanted == NULL) r->wanted = wanted;
  return false;
}

static void skip_blanks(reader *r) {
  while (*r->at == ' ' || *r->at == '\t' || *r->at == '\r') r->at++;
}

static bool keep(reader *r, const char *name, char *text, double number) {
  cli_record *record = r->record;
  if (record->count == record->capacity) {
    size_t capacity = 2 * record->capacity + 32;
    cli_field *grown = realloc(record->fields, capacity * sizeof *grown);
    if (grown == NULL) goto no_memory;
    record->fields = grown;
    record->capacity = capacity;
  }
  char *copy = strdup(name);
  if (copy == NULL) goto no_memory;
  record->fields[record->count++] = (cli_field){.name = copy, .text = text, .number = number};
  return true;
no_memory:
  free(text);
  r->short_of_memory = true;
  return fail(r, "more memory");
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/* Writes a character of the basic plane as UTF-8; returns how many bytes. */
static size_t put_utf8(unsigned code, char *out) {
  if (code < 0x80) {
    out[0] = (char)code;
    return 1;
  }
  if (code < 0x800) {
    out[0] = (char)(0xc0 | code >> 6);
    out[1] = (char)(0x80 | (code & 0x3f));
    return 2;
  }
  out[0] = (char)(0xe0 | code >> 12);
  out[1] = (char)(0x80 | (code >> 6 & 0x3f));
  out[2] = (char)(0x80 | (code & 0x3f));
  return 3;
}

/* Reads what follows a backslash into out; returns how many bytes, 0 when it is wrong. */
static size_t read_escape(reader *r, char *out) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  if (*r->at == 'u') {
    unsigned code = 0;
    for (int d = 1; d <= 4; d++) {
      int digit = hex_digit(r->at[d]);
      if (digit < 0) return 0;
      code = 16 * code + (unsigned)digit;
    }
    r->at += 5;
    return code == 0 ? 0 : put_utf8(code, out);
  }
  const char *found = *r->at == '\0' ? NULL : strchr(from, *r->at);
  if (found == NULL) return 0;
  r->at++;
  *out = to[found - from];
  return 1;
}

/* Reads a string, which begins at its quote. Returns memory to free, or NULL. */
static char *read_string(reader *r) {
  size_t length = 0;
  char *out = malloc(strlen(r->at) + 1); /* no escape is longer than it is written */
  if (out == NULL) {
    r->short_of_memory = true;
    fail(r, "more memory");
    return NULL;
  }
  for (r->at++; *r->at != '"';) {
    size_t more = 1;
    if ((unsigned char)*r->at < 0x20) {
      fail(r, "the end of a string");
      more = 0;
    } else if (*r->at == '\\') {
      r->at++;
      more = read_escape(r, out + length);
      if (more == 0) fail(r, "an escape that JSON has");
    } else {
      out[length] = *r->at++;
    }
    if (more == 0) {
      free(out);
      return NULL;
    }
    length += more;
  }
  r->at++;
  out[length] = '\0';
  return out;
}

static bool read_word(reader *r, const char *word) {
  size_t length = strlen(word);
  if (strncmp(r->at, word, length) != 0) return false;
  r->at += length;
  return true;
}

static bool read_value(reader *r, const char *name, int depth);

static bool join(reader *r, const char *name, const char *member, char out[NAME_MOST]) {
  int length = snprintf(out, NAME_MOST, "%s%s%s", name, name[0] != '\0' ? "." : "", member);
  return (length > 0 && length < NAME_MOST) || fail(r, "a shorter name");
}

static bool read_member(reader *r, const char *name, int depth) {
  char whole[NAME_MOST];
  skip_blanks(r);
  if (*r->at != '"') return fail(r, "a name in quotes");
  char *member = read_string(r);
  if (member == NULL) return false;
  bool fine = join(r, name, member, whole);
  free(member);
  skip_blanks(r);
  if (fine && *r->at != ':') fine = fail(r, "a colon");
  if (!fine) return false;
  r->at++;
  return read_value(r, whole, depth);
}

/* Reads the rest of an object or array whose first character is at hand. */
static bool read_all(reader *r, const char *name, char end, int depth) {
  char whole[NAME_MOST], number[24];
  if (depth == DEPTH_MOST) return fail(r, "fewer brackets inside each other");
  r->at++;
  skip_blanks(r);
  if (*r->at == end) {
    r->at++;
    return true;
  }
  for (int i = 0;; i++) {
    snprintf(number, sizeof number, "%d", i);
    bool fine = end == '}' ? read_member(r, name, depth + 1)
                           : join(r, name, number, whole) && read_value(r, whole, depth + 1);
    if (!fine) return false;
    skip_blanks(r);
    if (*r->at == end) {
      r->at++;
      return true;
    }
    if (*r->at != ',') return fail(r, end == '}' ? "a comma or }" : "a comma or ]");
    r->at++;
  }
}

static bool read_value(reader *r, const char *name, int depth) {
  skip_blanks(r);
  if (*r->at == '{') return read_all(r, name, '}', depth);
  if (*r->at == '[') return read_all(r, name, ']', depth);
  if (*r->at == '"') {
    char *text = read_string(r);
    return text != NULL && keep(r, name, text, NAN);
  }
  if (read_word(r, "null")) return keep(r, name, NULL, NAN);
  bool is_true = read_word(r, "true");
  if (is_true || read_word(r, "false")) {
    char *text = strdup(is_true ? "true" : "false");
    r->short_of_memory = text == NULL;
    return text != NULL && keep(r, name, text, NAN);
  }
  char *end;
  if (*r->at != '-' && (*r->at < '0' || *r->at > '9')) return fail(r, "a value");
  double number = strtod(r->at, &end);
  if (end == r->at || !isfinite(number)) return fail(r, "a number that a double can be");
  r->at = end;
  return keep(r, name, NULL, number);
}

static bool grow(cli_records *all) {
  if (all->count < all->capacity) return true;
  size_t capacity = 2 * all->capacity + 64;
  cli_record *grown = realloc(all->records, capacity * sizeof *grown);
  if (grown == NULL) return false;
  all->records = grown;
  all->capacity = capacity;
  return true;
}

static void free_record(cli_record *record) {
  for (size_t f = 0; f < record->count; f++) {
    free(record->fields[f].name);
    free(record->fields[f].text);
  }
  free(record->fields);
}

/* Appends a line. One that lacks its end and is no object is left out: it is that of a program that
 * was killed while it wrote. */
static int parse_line(const cli_call *call, const char *name, long number, const char *line,
                      bool has_end, cli_records *out) {
  if (!grow(out)) return cli_fail_memory(call, "the records take", 1 << 16);
  cli_record *record = &out->records[out->count];
  *record = (cli_record){0};
  reader r = {.at = line, .record = record};
  out->count++;
  skip_blanks(&r);
  bool fine = *r.at == '{' ? read_all(&r, "", '}', 0) : fail(&r, "an object");
  skip_blanks(&r);
  if (fine && *r.at != '\0') fine = fail(&r, "the end of the line");
  if (fine) return CLI_DONE;
  if (r.short_of_memory) return cli_fail_memory(call, "the records take", 1 << 16);
  if (!has_end) {
    free_record(record);
    out->count--;
    return CLI_DONE;
  }
  return cli_fail(call, CLI_BAD, "%s:%ld:%td: expected %s, got '%.12s'", name, number,
                  r.at - line + 1, r.wanted, r.at);
}

int cli_records_parse(const cli_call *call, const char *name, const char *text, cli_records *out) {
  long number = 1;
  int result = CLI_DONE;
  for (const char *line = text; *line != '\0' && result == CLI_DONE; number++) {
    size_t length = strcspn(line, "\n");
    char *copy = strndup(line, length);
    if (copy == NULL) return cli_fail_memory(call, "the records take", (double)length);
    if (copy[strspn(copy, " \t\r")] != '\0')
      result = parse_line(call, name, number, copy, line[length] == '\n', out);
    free(copy);
    line += length;
    if (*line == '\n') line++;
  }
  return result;
}

int cli_records_read(const cli_call *call, const char *path, bool required, cli_records *out) {
  FILE *file = fopen(path, "re");
  if (file == NULL) {
    if (errno == ENOENT && !required) return CLI_DONE;
    return cli_fail(call, CLI_BAD, "%s: cannot read: %s", path, strerror(errno));
  }
  cli_buffer text = {0};
  char bytes[1 << 14];
  size_t got = 0;
  int result = CLI_DONE;
  while (result == CLI_DONE && (got = fread(bytes, 1, sizeof bytes, file)) > 0)
    if (memchr(bytes, '\0', got) != NULL)
      result = cli_fail(call, CLI_BAD, "%s: expected text, got a zero byte", path);
    else if (cli_buffer_write(&text, bytes, got) != 0)
      result = cli_fail_memory(call, "the records take", (double)text.size);
  if (result == CLI_DONE && ferror(file))
    result = cli_fail(call, CLI_BAD, "%s: cannot read: %s", path, strerror(errno));
  fclose(file);
  if (result == CLI_DONE && text.bytes != NULL)
    result = cli_records_parse(call, path, text.bytes, out);
  cli_buffer_free(&text);
  return result;
}

void cli_records_free(cli_records *all) {
  for (size_t i = 0; i < all->count; i++) free_record(&all->records[i]);
  free(all->records);
  *all = (cli_records){0};
}

/* ---- what a record says ---------------------------------------------------------------------- */

static const cli_field *find(const cli_record *record, const char *name) {
  for (size_t f = 0; record != NULL && f < record->count; f++)
    if (strcmp(record->fields[f].name, name) == 0) return &record->fields[f];
  return NULL;
}

const char *cli_record_text(const cli_record *record, const char *name) {
  const cli_field *field = find(record, name);
  return field != NULL && field->text != NULL ? field->text : "";
}

double cli_record_number(const cli_record *record, const char *name) {
  const cli_field *field = find(record, name);
  return field != NULL ? field->number : (double)NAN;
}

bool cli_record_is(const cli_record *record, const char *name) {
  return cli_record_has(record, name, "true");
}

bool cli_record_has(const cli_record *record, const char *name, const char *text) {
  return strcmp(cli_record_text(record, name), text) == 0;
}

const cli_record *cli_records_next(const cli_records *all, const char *part, size_t *at) {
  while (*at < all->count) {
    const cli_record *record = &all->records[(*at)++];
    if (cli_record_has(record, "part", part)) return record;
  }
  return NULL;
}

const cli_record *cli_records_find(const cli_records *all, const char *part, const char *field,
                                   const char *text) {
  const cli_record *record;
  for (size_t at = 0; (record = cli_records_next(all, part, &at)) != NULL;)
    if (cli_record_has(record, field, text)) return record;
  return NULL;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

cli_spread cli_spread_of(double *values, int count) {
  if (count == 0) return (cli_spread){.median = NAN, .low = NAN, .high = NAN};
  qsort(values, (size_t)count, sizeof *values, ascending);
  return (cli_spread){.median = (values[(count - 1) / 2] + values[count / 2]) / 2,
                      .low = values[0],
                      .high = values[count - 1],
                      .count = count};
}

cli_spread cli_record_spread(const cli_record *record, const char *name) {
  double values[SAMPLES_MOST];
  int count = 0;
  char element[NAME_MOST];
  for (int i = 0; i < SAMPLES_MOST; i++) {
    snprintf(element, sizeof element, "%s.%d", name, i);
    const cli_field *field = find(record, element);
    if (field == NULL) break;
    if (isfinite(field->number)) values[count++] = field->number;
  }
  return cli_spread_of(values, count);
}

/* records.h: lines of JSON, read back: what an experiment measured, for its page.
 *
 * A line is one object. Members of objects and elements of arrays in it have names with dots:
 * "energy.runs", "seconds_samples.0". */
#ifndef MMC_CLI_RECORDS_H
#define MMC_CLI_RECORDS_H

#include "../command.h"

/* One value of a line. */
typedef struct cli_field {
  char *name;
  char *text;    /* the characters of a string, "true" or "false"; NULL for numbers and null */
  double number; /* NaN for what is no number */
} cli_field;

typedef struct cli_record {
  cli_field *fields;
  size_t count, capacity;
} cli_record;

/* The lines of a file; it starts as {0}. */
typedef struct cli_records {
  cli_record *records;
  size_t count, capacity;
} cli_records;

/* Appends the lines of a text, which name calls "results.jsonl" in messages, but a last one that is
 * torn. Returns CLI_DONE, or the exit status after saying which line is wrong and why. */
int cli_records_parse(const cli_call *call, const char *name, const char *text, cli_records *out);
/* Appends the lines of a file. One that is not there is an error only when it is required. */
int cli_records_read(const cli_call *call, const char *path, bool required, cli_records *out);
void cli_records_free(cli_records *records);

/* Returns the text of a field; "" when there is none. */
const char *cli_record_text(const cli_record *record, const char *name);
/* Returns the number of a field; NaN when there is none. */
double cli_record_number(const cli_record *record, const char *name);
/* Says whether a field is true. */
bool cli_record_is(const cli_record *record, const char *name);
/* Says whether a field is this text. */
bool cli_record_has(const cli_record *record, const char *name, const char *text);

/* Returns the first record from *at on whose part is this, and moves *at past it; NULL when there
 * is no more. */
const cli_record *cli_records_next(const cli_records *all, const char *part, size_t *at);
/* Returns the first record of a part in which the field has this text; NULL when there is none. */
const cli_record *cli_records_find(const cli_records *all, const char *part, const char *field,
                                   const char *text);

/* The median, least and most of the numbers of an array; NaN and a count of 0 when it has none. */
typedef struct cli_spread {
  double median, low, high;
  int count;
} cli_spread;
cli_spread cli_record_spread(const cli_record *record, const char *name);
/* Sorts the values, and returns their spread. */
cli_spread cli_spread_of(double *values, int count);

#endif

/* record.h: what each kind of record is made of, written once: the database's columns, the words of
 * the text form, the names in JSON, the checks and the checksum are read off the same lists. */
#ifndef MMCI_RECORD_H
#define MMCI_RECORD_H

#include "wisdom/wisdom.h"

typedef enum mmci_field_type {
  MMCI_FIELD_SIZE,      /* int64_t, 1 to 2^62 */
  MMCI_FIELD_OP,        /* mmc_op */
  MMCI_FIELD_OBJECTIVE, /* mmci_wisdom_objective */
  MMCI_FIELD_TEXT,      /* const char * */
  MMCI_FIELD_REAL,      /* double, from least to most */
  MMCI_FIELD_MAYBE,     /* double, from least to most, or NaN */
  MMCI_FIELD_DATE,      /* int64_t, seconds since 1970, 0 to 2^53 */
  MMCI_FIELD_GRID       /* mmci_wisdom_grid */
} mmci_field_type;

typedef struct mmci_field {
  const char *name;
  mmci_field_type type;
  size_t offset; /* bytes from the beginning of mmci_wisdom_record */
  double least, most;
} mmci_field;

/* The last field of every kind is measured_at. */
typedef struct mmci_record_shape {
  const char *name, *plural;
  int keys, count; /* a record has count fields, whose first ones, keys of them, are the key */
  const mmci_field *fields;
} mmci_record_shape;

extern const mmci_record_shape mmci_record_shapes[MMCI_WISDOM_KINDS];

/* Returns the address of a field in a record; its type says what lies there. */
void *mmci_record_field(mmci_wisdom_record *record, const mmci_field *field);
const void *mmci_record_field_read(const mmci_wisdom_record *record, const mmci_field *field);
#define MMCI_FIELD(record, field, type) ((type *)mmci_record_field(record, field))
#define MMCI_FIELD_READ(record, field, type) (*(const type *)mmci_record_field_read(record, field))

/* NULL when there is no such op; "N", "T", "H" */
const char *mmci_op_word(mmc_op op); /* "N", "T", "H" */
bool mmci_op_parse(const char *word, mmc_op *out);
const char *mmci_objective_word(
    mmci_wisdom_objective objective); /* NULL when there is none; "time", "energy" */
bool mmci_objective_parse(const char *word, mmci_wisdom_objective *out);

int64_t mmci_record_date(const mmci_wisdom_record *record); /* measured_at */

/* Checks the ranges of a record. Returns: E_ARG, which names what is out of range. */
mmc_status mmci_record_check(const mmci_wisdom_record *record, mmci_error *error);
mmc_status mmci_fingerprint_check(const mmci_fingerprint *fingerprint, mmci_error *error);

/* Returns the checksum of everything in the record and in its fingerprint. */
uint64_t mmci_record_checksum(const mmci_wisdom_record *record);

size_t mmci_grid_size(const mmci_wisdom_grid *grid); /* how many values a checked grid has */

#endif

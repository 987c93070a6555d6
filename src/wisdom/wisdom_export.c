/* wisdom_export.c: writes the text form of docs/wisdom.md. Each record is a line, and lines are
 * sorted, so that two exports can be compared; the values of a grid follow on lines of their
 * own. */
#include <inttypes.h>
#include <math.h>

#include "base/number.h"
#include "base/text.h"
#include "wisdom/record.h"

typedef struct export_work {
  mmci_text text;
  bool begun; /* fingerprint is that of the records so far */
  mmci_fingerprint fingerprint;
  int64_t count;
} export_work;

static void write_quoted(mmci_text *text, const char *string) {
  mmci_text_bytes(text, "\"", 1);
  for (const char *c = string; *c != '\0'; c++) {
    if (*c == '"' || *c == '\\') mmci_text_bytes(text, "\\", 1);
    mmci_text_bytes(text, c, 1);
  }
  mmci_text_bytes(text, "\"", 1);
}

static void write_number(mmci_text *text, double value) {
  char digits[MMCI_NUMBER_SIZE];
  mmci_text_printf(text, "%s", isnan(value) ? "-" : mmci_number_format(value, digits));
}

static void write_field(mmci_text *text, const mmci_wisdom_record *record,
                        const mmci_field *field) {
  const mmci_wisdom_grid *grid;
  mmci_text_bytes(text, " ", 1);
  switch (field->type) {
    case MMCI_FIELD_SIZE:
    case MMCI_FIELD_DATE:
      mmci_text_printf(text, "%" PRId64, MMCI_FIELD_READ(record, field, int64_t));
      return;
    case MMCI_FIELD_OP:
      mmci_text_printf(text, "%s", mmci_op_word(MMCI_FIELD_READ(record, field, mmc_op)));
      return;
    case MMCI_FIELD_OBJECTIVE:
      mmci_text_printf(text, "%s",
                       mmci_objective_word(MMCI_FIELD_READ(record, field, mmci_wisdom_objective)));
      return;
    case MMCI_FIELD_TEXT:
      write_quoted(text, MMCI_FIELD_READ(record, field, char *const));
      return;
    case MMCI_FIELD_REAL:
    case MMCI_FIELD_MAYBE:
      write_number(text, MMCI_FIELD_READ(record, field, double));
      return;
    case MMCI_FIELD_GRID:
      grid = &MMCI_FIELD_READ(record, field, mmci_wisdom_grid);
      mmci_text_printf(text, "%" PRId32 " %" PRId32 " %" PRId32, grid->count[0], grid->count[1],
                       grid->count[2]);
      return;
  }
}

/* Writes three axes, then a line of values for every (m, k). */
static void write_grid(mmci_text *text, const mmci_wisdom_grid *grid) {
  for (int d = 0; d < 3; d++) {
    mmci_text_printf(text, " %c", "mkn"[d]);
    for (int32_t p = 0; p < grid->count[d]; p++)
      mmci_text_printf(text, " %" PRId64, grid->axis[d][p]);
    mmci_text_bytes(text, "\n", 1);
  }
  const double *value = grid->values;
  for (int64_t row = 0; row < (int64_t)grid->count[0] * grid->count[1]; row++) {
    mmci_text_bytes(text, " E", 2);
    for (int32_t p = 0; p < grid->count[2]; p++) {
      mmci_text_bytes(text, " ", 1);
      write_number(text, *value++);
    }
    mmci_text_bytes(text, "\n", 1);
  }
}

static mmc_status write_record(void *user, const mmci_wisdom_record *record, mmci_error *error) {
  export_work *work = user;
  mmci_text *text = &work->text;
  if (!work->begun || !mmci_fingerprint_equal(&work->fingerprint, record->fingerprint)) {
    work->begun = true;
    work->fingerprint = *record->fingerprint;
    mmci_text_printf(text, "fingerprint");
    for (int f = 0; f < MMCI_FINGERPRINT_FIELDS; f++) {
      mmci_text_bytes(text, " ", 1);
      write_quoted(text, work->fingerprint.fields[f]);
    }
    mmci_text_bytes(text, "\n", 1);
  }
  const mmci_record_shape *shape = &mmci_record_shapes[record->kind];
  mmci_text_printf(text, "%s", shape->name);
  for (int f = 0; f < shape->count; f++) write_field(text, record, &shape->fields[f]);
  mmci_text_bytes(text, "\n", 1);
  if (record->kind == MMCI_WISDOM_ARRAY) write_grid(text, &record->array.grid);
  work->count++;
  return text->failed ? mmci_text_finish(text, error) : MMC_OK;
}

mmc_status mmci_wisdom_export(mmci_wisdom *wisdom, mmc_write_fn write, void *user,
                              mmci_error *error) {
  export_work work = {.begun = false};
  mmci_text_start(&work.text, write, user);
  mmci_text_printf(&work.text, "mmchain wisdom 1\n");
  mmc_status status = mmci_wisdom_walk(wisdom, NULL, write_record, &work, NULL, error);
  if (status != MMC_OK) return status;
  mmci_text_printf(&work.text, "end %" PRId64 "\n", work.count);
  return mmci_text_finish(&work.text, error);
}

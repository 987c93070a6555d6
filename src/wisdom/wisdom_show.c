/* wisdom_show.c: prints the store for people, and all of it as JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/number.h"
#include "base/text.h"
#include "wisdom/record.h"

typedef struct show_work {
  mmci_text text;
  mmci_wisdom_match_fn here; /* says which records are this machine's; NULL means that all are */
  void *here_user;
  bool begun; /* fingerprint is that of the records so far, and kind that of the last one */
  mmci_fingerprint fingerprint;
  mmci_wisdom_kind kind;
  char job[MMCI_WISDOM_TEXT_MAX + 1]; /* the job whose units are being counted; "" for none */
  int64_t units;
} show_work;

static mmc_status is_record_here(const show_work *work, const mmci_fingerprint *fingerprint,
                                 bool *here, mmci_error *error) {
  *here = true;
  if (work->here == NULL) return MMC_OK;
  return work->here(work->here_user, fingerprint, here, error);
}

/* ---- text ---------------------------------------------------------------------------------- */

static void print_fingerprint(mmci_text *text, const mmci_fingerprint *fingerprint, bool here) {
  const char(*fields)[MMCI_FINGERPRINT_SIZE] = fingerprint->fields;
  mmci_text_printf(text, "\n%s %s %s%s\n  ", fields[MMCI_FINGERPRINT_DEVICE],
                   fields[MMCI_FINGERPRINT_DTYPE], fields[MMCI_FINGERPRINT_PRECISION],
                   here ? "" : ", foreign: measured elsewhere, not used here");
  mmci_text_printf(text, "%s", fields[MMCI_FINGERPRINT_MODEL]);
  if (fields[MMCI_FINGERPRINT_DRIVER][0] != '\0')
    mmci_text_printf(text, "; %s", fields[MMCI_FINGERPRINT_DRIVER]);
  if (fields[MMCI_FINGERPRINT_BLAS][0] != '\0')
    mmci_text_printf(text, "; %s", fields[MMCI_FINGERPRINT_BLAS]);
  mmci_text_printf(text, "; mmchain %s\n", fields[MMCI_FINGERPRINT_LIBRARY]);
}

/* Prints a number with a unit whose prefix leaves 1 to 999 before it. */
static void print_quantity(mmci_text *text, double value, const char *unit) {
  static const struct {
    double scale;
    const char *prefix;
  } prefixes[] = {{1, ""}, {1e3, "m"}, {1e6, "u"}, {1e9, "n"}};
  size_t p = 0;
  while (p < 3 && value * prefixes[p].scale < 1) p++;
  mmci_text_printf(text, "%.3g %s%s", value * prefixes[p].scale, prefixes[p].prefix, unit);
}

static void print_date(mmci_text *text, int64_t seconds) {
  time_t moment = (time_t)seconds;
  struct tm date;
  char day[32];
  if (gmtime_r(&moment, &date) != NULL && strftime(day, sizeof day, "%Y-%m-%d", &date) > 0)
    mmci_text_printf(text, ", %s\n", day);
  else
    mmci_text_printf(text, "\n");
}

static void print_product(mmci_text *text, const mmci_wisdom_product *p) {
  mmci_text_printf(text, "  product %" PRId64 "x%" PRId64 "x%" PRId64 " %s%s for %s: ", p->key.m,
                   p->key.k, p->key.n, mmci_op_word(p->key.op_a), mmci_op_word(p->key.op_b),
                   mmci_objective_word(p->key.objective));
  mmci_text_printf(text, "%s, ", p->recipe);
  print_quantity(text, p->seconds, "s");
  mmci_text_printf(text, " +- %.2g %%, plain ", 100 * p->spread);
  print_quantity(text, p->plain_seconds, "s");
  if (!isnan(p->joules)) {
    mmci_text_printf(text, ", ");
    print_quantity(text, p->joules, "J");
  }
  if (!isnan(p->plain_joules)) {
    mmci_text_printf(text, ", plain ");
    print_quantity(text, p->plain_joules, "J");
  }
  if (!isnan(p->watts)) {
    mmci_text_printf(text, ", ");
    print_quantity(text, p->watts, "W");
  }
  mmci_text_printf(text, ", %s", p->source);
  print_date(text, p->measured_at);
}

static void print_array(mmci_text *text, const mmci_wisdom_array *a) {
  mmci_text_printf(text, "  array %s%s for %s:", mmci_op_word(a->op_a), mmci_op_word(a->op_b),
                   mmci_objective_word(a->objective));
  for (int d = 0; d < 3; d++)
    mmci_text_printf(text, " %c %" PRId32 " points to %" PRId64 "%s", "mkn"[d], a -> grid.count[d],
                     a->grid.axis[d][a->grid.count[d] - 1], d < 2 ? "," : "");
  print_date(text, a->measured_at);
}

static void print_fact(mmci_text *text, const mmci_wisdom_fact *f) {
  mmci_text_printf(text, "  fact %s: %.6g +- %.2g %%", f->name, f->number, 100 * f->spread);
  print_date(text, f->measured_at);
}

/* Prints how many units the jobs of one kind (their first word) have, once the last of them was
 * seen; tuning has a job for every size that it times. */
static void print_job(show_work *work) {
  if (work->units > 0)
    mmci_text_printf(&work->text, "  progress %s: %" PRId64 " unit%s done\n", work->job,
                     work->units, work->units == 1 ? "" : "s");
  work->units = 0;
}

static bool same_kind(const char *kind, const char *job) {
  size_t length = strcspn(job, " ");
  return strncmp(kind, job, length) == 0 && kind[length] == '\0';
}

static mmc_status print_record(void *user, const mmci_wisdom_record *record, mmci_error *error) {
  show_work *work = user;
  bool same_job = record->kind == MMCI_WISDOM_PROGRESS && work->units > 0 &&
                  mmci_fingerprint_equal(&work->fingerprint, record->fingerprint) &&
                  same_kind(work->job, record->progress.job);
  if (!same_job) print_job(work);
  if (!work->begun || !mmci_fingerprint_equal(&work->fingerprint, record->fingerprint)) {
    bool here;
    mmc_status status = is_record_here(work, record->fingerprint, &here, error);
    if (status != MMC_OK) return status;
    work->begun = true;
    work->fingerprint = *record->fingerprint;
    print_fingerprint(&work->text, record->fingerprint, here);
  }
  switch (record->kind) {
    case MMCI_WISDOM_PRODUCT:
      print_product(&work->text, &record->product);
      break;
    case MMCI_WISDOM_ARRAY:
      print_array(&work->text, &record->array);
      break;
    case MMCI_WISDOM_FACT:
      print_fact(&work->text, &record->fact);
      break;
    default:
      snprintf(work->job, sizeof work->job, "%.*s", (int)strcspn(record->progress.job, " "),
               record->progress.job);
      work->units++;
  }
  return work->text.failed ? mmci_text_finish(&work->text, error) : MMC_OK;
}

static mmc_status write_text(mmci_wisdom *wisdom, show_work *work, mmci_error *error) {
  int64_t damaged = 0;
  mmci_text_printf(&work->text, "%s\n", mmci_wisdom_path(wisdom));
  mmc_status status = mmci_wisdom_walk(wisdom, NULL, print_record, work, &damaged, error);
  if (status != MMC_OK) return status;
  print_job(work);
  if (!work->begun) mmci_text_printf(&work->text, "  nothing yet\n");
  if (damaged > 0)
    mmci_text_printf(&work->text, "\n%" PRId64 " damaged record%s passed over\n", damaged,
                     damaged == 1 ? "" : "s");
  return mmci_text_finish(&work->text, error);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void json_integer(mmci_text *text, int64_t value) {
  mmci_text_printf(text, "%" PRId64, value);
}

static void json_number(mmci_text *text, double value) {
  char digits[MMCI_NUMBER_SIZE];
  mmci_text_printf(text, "%s", isnan(value) ? "null" : mmci_number_format(value, digits));
}

static void json_grid(mmci_text *text, const mmci_wisdom_grid *grid) {
  mmci_text_printf(text, "{");
  for (int d = 0; d < 3; d++) {
    mmci_text_printf(text, "\"%c\": [", "mkn"[d]);
    for (int32_t p = 0; p < grid->count[d]; p++) {
      if (p > 0) mmci_text_printf(text, ", ");
      json_integer(text, grid->axis[d][p]);
    }
    mmci_text_printf(text, "], ");
  }
  mmci_text_printf(text, "\"values\": [");
  size_t size = mmci_grid_size(grid);
  for (size_t v = 0; v < size; v++) {
    if (v > 0) mmci_text_printf(text, ", ");
    json_number(text, grid->values[v]);
  }
  mmci_text_printf(text, "]}");
}

static void json_field(mmci_text *text, const mmci_wisdom_record *record, const mmci_field *field) {
  mmci_text_printf(text, "\"%s\": ", field->name);
  switch (field->type) {
    case MMCI_FIELD_SIZE:
    case MMCI_FIELD_DATE:
      json_integer(text, MMCI_FIELD_READ(record, field, int64_t));
      return;
    case MMCI_FIELD_OP:
      mmci_text_json_string(text, mmci_op_word(MMCI_FIELD_READ(record, field, mmc_op)));
      return;
    case MMCI_FIELD_OBJECTIVE:
      mmci_text_json_string(
          text, mmci_objective_word(MMCI_FIELD_READ(record, field, mmci_wisdom_objective)));
      return;
    case MMCI_FIELD_TEXT:
      mmci_text_json_string(text, MMCI_FIELD_READ(record, field, char *const));
      return;
    case MMCI_FIELD_REAL:
    case MMCI_FIELD_MAYBE:
      json_number(text, MMCI_FIELD_READ(record, field, double));
      return;
    case MMCI_FIELD_GRID:
      json_grid(text, &MMCI_FIELD_READ(record, field, mmci_wisdom_grid));
      return;
  }
}

/* Prints an object for each fingerprint, with a list for each kind of record that it has. */
static mmc_status json_record(void *user, const mmci_wisdom_record *record, mmci_error *error) {
  show_work *work = user;
  mmci_text *text = &work->text;
  const mmci_record_shape *shape = &mmci_record_shapes[record->kind];
  bool same = work->begun && mmci_fingerprint_equal(&work->fingerprint, record->fingerprint);
  if (!same) {
    bool here;
    mmc_status status = is_record_here(work, record->fingerprint, &here, error);
    if (status != MMC_OK) return status;
    mmci_text_printf(text, "%s\n  {", work->begun ? "\n   ]}," : "");
    for (int f = 0; f < MMCI_FINGERPRINT_FIELDS; f++) {
      mmci_text_printf(text, "\"%s\": ", mmci_fingerprint_names[f]);
      mmci_text_json_string(text, record->fingerprint->fields[f]);
      mmci_text_printf(text, ", ");
    }
    mmci_text_printf(text, "\"here\": %s", here ? "true" : "false");
    work->fingerprint = *record->fingerprint;
  }
  if (same && work->kind == record->kind)
    mmci_text_printf(text, ",");
  else
    mmci_text_printf(text, "%s,\n   \"%s\": [", same ? "\n   ]" : "", shape->plural);
  work->begun = true;
  work->kind = record->kind;
  for (int f = 0; f < shape->count; f++) {
    mmci_text_printf(text, "%s", f == 0 ? "\n    {" : ", ");
    json_field(text, record, &shape->fields[f]);
  }
  mmci_text_printf(text, "}");
  return text->failed ? mmci_text_finish(text, error) : MMC_OK;
}

static mmc_status write_json(mmci_wisdom *wisdom, show_work *work, mmci_error *error) {
  int64_t damaged = 0;
  mmci_text_printf(&work->text, "{\"path\": ");
  mmci_text_json_string(&work->text, mmci_wisdom_path(wisdom));
  mmci_text_printf(&work->text, ", \"fingerprints\": [");
  mmc_status status = mmci_wisdom_walk(wisdom, NULL, json_record, work, &damaged, error);
  if (status != MMC_OK) return status;
  mmci_text_printf(&work->text, "%s], \"damaged\": %" PRId64 "}\n", work->begun ? "\n   ]}\n" : "",
                   damaged);
  return mmci_text_finish(&work->text, error);
}

mmc_status mmci_wisdom_write(mmci_wisdom *wisdom, mmc_format format, mmci_wisdom_match_fn here,
                             void *here_user, mmc_write_fn write, void *user, mmci_error *error) {
  show_work work = {.here = here, .here_user = here_user};
  mmci_text_start(&work.text, write, user);
  if (format == MMC_TEXT) return write_text(wisdom, &work, error);
  if (format == MMC_JSON) return write_json(wisdom, &work, error);
  return mmci_fail(error, MMC_E_ARG, "format: expected MMC_TEXT or MMC_JSON");
}

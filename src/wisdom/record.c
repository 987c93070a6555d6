#include "wisdom/record.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"

/* ---- the shapes ---------------------------------------------------------------------------- */

#define SPREAD 0, 1e6
#define FIGURE 1e-12, 1e12 /* seconds, joules or watts; beyond these is no measurement */
#define AT(member) offsetof(mmci_wisdom_record, member)

static const mmci_field product_fields[] = {
    {"m", MMCI_FIELD_SIZE, AT(product.key.m), 0, 0},
    {"k", MMCI_FIELD_SIZE, AT(product.key.k), 0, 0},
    {"n", MMCI_FIELD_SIZE, AT(product.key.n), 0, 0},
    {"op_a", MMCI_FIELD_OP, AT(product.key.op_a), 0, 0},
    {"op_b", MMCI_FIELD_OP, AT(product.key.op_b), 0, 0},
    {"objective", MMCI_FIELD_OBJECTIVE, AT(product.key.objective), 0, 0},
    {"recipe", MMCI_FIELD_TEXT, AT(product.recipe), 0, 0},
    {"seconds", MMCI_FIELD_REAL, AT(product.seconds), FIGURE},
    {"spread", MMCI_FIELD_REAL, AT(product.spread), SPREAD},
    {"plain_seconds", MMCI_FIELD_REAL, AT(product.plain_seconds), FIGURE},
    {"joules", MMCI_FIELD_MAYBE, AT(product.joules), FIGURE},
    {"plain_joules", MMCI_FIELD_MAYBE, AT(product.plain_joules), FIGURE},
    {"watts", MMCI_FIELD_MAYBE, AT(product.watts), FIGURE},
    {"source", MMCI_FIELD_TEXT, AT(product.source), 0, 0},
    {"measured_at", MMCI_FIELD_DATE, AT(product.measured_at), 0, 0},
};

static const mmci_field array_fields[] = {
    {"op_a", MMCI_FIELD_OP, AT(array.op_a), 0, 0},
    {"op_b", MMCI_FIELD_OP, AT(array.op_b), 0, 0},
    {"objective", MMCI_FIELD_OBJECTIVE, AT(array.objective), 0, 0},
    {"grid", MMCI_FIELD_GRID, AT(array.grid), 0, 1e30},
    {"measured_at", MMCI_FIELD_DATE, AT(array.measured_at), 0, 0},
};

static const mmci_field fact_fields[] = {
    {"name", MMCI_FIELD_TEXT, AT(fact.name), 0, 0},
    {"number", MMCI_FIELD_REAL, AT(fact.number), -1e30, 1e30},
    {"spread", MMCI_FIELD_REAL, AT(fact.spread), SPREAD},
    {"measured_at", MMCI_FIELD_DATE, AT(fact.measured_at), 0, 0},
};

static const mmci_field progress_fields[] = {
    {"job", MMCI_FIELD_TEXT, AT(progress.job), 0, 0},
    {"unit", MMCI_FIELD_TEXT, AT(progress.unit), 0, 0},
    {"result", MMCI_FIELD_TEXT, AT(progress.result), 0, 0},
    {"measured_at", MMCI_FIELD_DATE, AT(progress.measured_at), 0, 0},
};

#define SHAPE(name, plural, keys) \
  { #name, #plural, keys, sizeof name##_fields / sizeof name##_fields[0], name##_fields }

const mmci_record_shape mmci_record_shapes[MMCI_WISDOM_KINDS] = {
    [MMCI_WISDOM_PRODUCT] = SHAPE(product, products, 6),
    [MMCI_WISDOM_ARRAY] = SHAPE(array, arrays, 3),
    [MMCI_WISDOM_FACT] = SHAPE(fact, facts, 1),
    [MMCI_WISDOM_PROGRESS] = SHAPE(progress, progress, 2),
};

void *mmci_record_field(mmci_wisdom_record *record, const mmci_field *field) {
  return (char *)record + field->offset;
}

const void *mmci_record_field_read(const mmci_wisdom_record *record, const mmci_field *field) {
  return (const char *)record + field->offset;
}

int64_t mmci_record_date(const mmci_wisdom_record *record) {
  const mmci_record_shape *shape = &mmci_record_shapes[record->kind];
  return MMCI_FIELD_READ(record, &shape->fields[shape->count - 1], int64_t);
}

/* ---- words --------------------------------------------------------------------------------- */

static const char *const op_words[] = {[MMC_OP_N] = "N", [MMC_OP_T] = "T", [MMC_OP_H] = "H"};
static const char *const objective_words[] = {
    [MMCI_WISDOM_TIME] = "time", [MMCI_WISDOM_ENERGY] = "energy"};

enum {
  OP_WORDS = sizeof op_words / sizeof op_words[0],
  OBJECTIVE_WORDS = sizeof objective_words / sizeof objective_words[0]
};

static int find_word(const char *const *words, int count, const char *word) {
  for (int w = 0; w < count; w++)
    if (strcmp(words[w], word) == 0) return w;
  return -1;
}

const char *mmci_op_word(mmc_op op) {
  return (unsigned)op < OP_WORDS ? op_words[op] : NULL;
}

bool mmci_op_parse(const char *word, mmc_op *out) {
  int w = find_word(op_words, OP_WORDS, word);
  if (w >= 0) *out = (mmc_op)w;
  return w >= 0;
}

const char *mmci_objective_word(mmci_wisdom_objective objective) {
  return (unsigned)objective < OBJECTIVE_WORDS ? objective_words[objective] : NULL;
}

bool mmci_objective_parse(const char *word, mmci_wisdom_objective *out) {
  int w = find_word(objective_words, OBJECTIVE_WORDS, word);
  if (w >= 0) *out = (mmci_wisdom_objective)w;
  return w >= 0;
}

/* ---- text ---------------------------------------------------------------------------------- */

/* Returns how many bytes the first character of text has; 0 unless it is printable, well-formed
 * UTF-8. */
static size_t printable(const char *text) {
  const unsigned char *c = (const unsigned char *)text;
  if (c[0] < 0x80) return c[0] >= 0x20 && c[0] != 0x7F;
  size_t size = c[0] >= 0xF0 ? 4 : c[0] >= 0xE0 ? 3 : 2;
  if (c[0] < 0xC2 || c[0] > 0xF4) return 0;
  uint32_t code = c[0] & (0x7Fu >> size);
  for (size_t i = 1; i < size; i++) {
    if ((c[i] & 0xC0) != 0x80) return 0;
    code = code << 6 | (c[i] & 0x3Fu);
  }
  static const uint32_t least[] = {0, 0, 0xA0, 0x800,
                                   0x10000}; /* 0x80 to 0x9F are control characters */
  bool line_end = code == 0x2028 || code == 0x2029;
  bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code >= least[size] && code <= 0x10FFFF && !surrogate && !line_end ? size : 0;
}

static bool text_is_fine(const char *text, size_t least, size_t most) {
  size_t length = 0;
  for (size_t size; text[length] != '\0'; length += size) {
    size = printable(text + length);
    if (size == 0 || length + size > most) return false;
  }
  return length >= least;
}

/* ---- fingerprints -------------------------------------------------------------------------- */

const char *const mmci_fingerprint_names[MMCI_FINGERPRINT_FIELDS] = {
    "device", "model", "driver", "blas", "library", "dtype", "precision",
};

void mmci_fingerprint_set(mmci_fingerprint *fingerprint, mmci_fingerprint_field field,
                          const char *text) {
  char *to = fingerprint->fields[field];
  size_t used = 0;
  while (*text != '\0') {
    size_t size = printable(text), step = size > 0 ? size : 1;
    if (used + step > MMCI_FINGERPRINT_SIZE - 1) break;
    memcpy(to + used, size > 0 ? text : "?", step);
    used += step;
    text += step;
  }
  memset(to + used, 0, MMCI_FINGERPRINT_SIZE - used);
}

bool mmci_fingerprint_equal(const mmci_fingerprint *a, const mmci_fingerprint *b) {
  for (int f = 0; f < MMCI_FINGERPRINT_FIELDS; f++)
    if (strcmp(a->fields[f], b->fields[f]) != 0) return false;
  return true;
}

mmc_status mmci_fingerprint_check(const mmci_fingerprint *fingerprint, mmci_error *error) {
  for (int f = 0; f < MMCI_FINGERPRINT_FIELDS; f++) {
    const char *text = fingerprint->fields[f];
    size_t least = f == MMCI_FINGERPRINT_DRIVER || f == MMCI_FINGERPRINT_BLAS ? 0 : 1;
    if (memchr(text, '\0', MMCI_FINGERPRINT_SIZE) == NULL ||
        !text_is_fine(text, least, MMCI_FINGERPRINT_SIZE - 1))
      return mmci_fail(error, MMC_E_ARG, "%s: expected printable text of %zu to %d bytes",
                       mmci_fingerprint_names[f], least, MMCI_FINGERPRINT_SIZE - 1);
  }
  return MMC_OK;
}

/* ---- checks -------------------------------------------------------------------------------- */

static const int64_t MOST_SIZE = (int64_t)1 << 62, MOST_DATE = (int64_t)1 << 53;

size_t mmci_grid_size(const mmci_wisdom_grid *grid) {
  return (size_t)grid->count[0] * (size_t)grid->count[1] * (size_t)grid->count[2];
}

static mmc_status check_grid(const mmci_wisdom_grid *grid, double most, mmci_error *error) {
  static const char names[] = "mkn";
  for (int d = 0; d < 3; d++) {
    if (grid->count[d] < 1 || grid->count[d] > MMCI_WISDOM_AXIS_MAX)
      return mmci_fail(error, MMC_E_ARG, "axis %c: expected 1 to %d points, got %" PRId32, names[d],
                       MMCI_WISDOM_AXIS_MAX, grid->count[d]);
    for (int32_t p = 0; p < grid->count[d]; p++) {
      int64_t point = grid->axis[d][p], before = p > 0 ? grid->axis[d][p - 1] : 0;
      if (point <= before || point > MOST_SIZE)
        return mmci_fail(error, MMC_E_ARG,
                         "axis %c: expected rising points from 1 to 2^62, got %" PRId64
                         " after %" PRId64,
                         names[d], point, before);
    }
  }
  size_t size = mmci_grid_size(grid);
  if (size > MMCI_WISDOM_GRID_MAX)
    return mmci_fail(error, MMC_E_ARG, "grid: expected at most %d points, got %zu",
                     MMCI_WISDOM_GRID_MAX, size);
  for (size_t v = 0; v < size; v++)
    if (!(grid->values[v] >= 0 && grid->values[v] <= most))
      return mmci_fail(error, MMC_E_ARG, "grid: expected values from 0 to %g, got %g", most,
                       grid->values[v]);
  return MMC_OK;
}

static mmc_status check_integer(const char *name, int64_t value, int64_t least, int64_t most,
                                mmci_error *error) {
  if (value >= least && value <= most) return MMC_OK;
  return mmci_fail(error, MMC_E_ARG, "%s: expected %" PRId64 " to %" PRId64 ", got %" PRId64, name,
                   least, most, value);
}

static mmc_status check_field(const mmci_wisdom_record *record, const mmci_field *field,
                              mmci_error *error) {
  const char *text;
  double real;
  switch (field->type) {
    case MMCI_FIELD_SIZE:
      return check_integer(field->name, MMCI_FIELD_READ(record, field, int64_t), 1, MOST_SIZE,
                           error);
    case MMCI_FIELD_DATE:
      return check_integer(field->name, MMCI_FIELD_READ(record, field, int64_t), 0, MOST_DATE,
                           error);
    case MMCI_FIELD_OP:
      if (mmci_op_word(MMCI_FIELD_READ(record, field, mmc_op)) != NULL) return MMC_OK;
      return mmci_fail(error, MMC_E_ARG, "%s: expected N, T or H", field->name);
    case MMCI_FIELD_OBJECTIVE:
      if (mmci_objective_word(MMCI_FIELD_READ(record, field, mmci_wisdom_objective)) != NULL)
        return MMC_OK;
      return mmci_fail(error, MMC_E_ARG, "%s: expected time or energy", field->name);
    case MMCI_FIELD_TEXT:
      text = MMCI_FIELD_READ(record, field, char *const);
      if (text != NULL && text_is_fine(text, 1, MMCI_WISDOM_TEXT_MAX)) return MMC_OK;
      return mmci_fail(error, MMC_E_ARG, "%s: expected printable text of 1 to %d bytes",
                       field->name, MMCI_WISDOM_TEXT_MAX);
    case MMCI_FIELD_REAL:
    case MMCI_FIELD_MAYBE:
      real = MMCI_FIELD_READ(record, field, double);
      if (real >= field->least && real <= field->most) return MMC_OK;
      if (field->type == MMCI_FIELD_MAYBE && isnan(real)) return MMC_OK;
      return mmci_fail(error, MMC_E_ARG, "%s: expected %g to %g, got %g", field->name, field->least,
                       field->most, real);
    case MMCI_FIELD_GRID:
      return check_grid(&MMCI_FIELD_READ(record, field, mmci_wisdom_grid), field->most, error);
  }
  return mmci_fail(error, MMC_E_ARG, "%s: of no known type", field->name);
}

mmc_status mmci_record_check(const mmci_wisdom_record *record, mmci_error *error) {
  if ((unsigned)record->kind >= MMCI_WISDOM_KINDS)
    return mmci_fail(error, MMC_E_ARG, "record: of no known kind");
  const mmci_record_shape *shape = &mmci_record_shapes[record->kind];
  mmc_status status = mmci_fingerprint_check(record->fingerprint, error);
  for (int f = 0; f < shape->count && status == MMC_OK; f++)
    status = check_field(record, &shape->fields[f], error);
  return status;
}

/* ---- the checksum -------------------------------------------------------------------------- */

/* Mixes the bytes of value in an order that does not depend on the machine. */
static uint64_t mix_integer(uint64_t hash, uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8)
    hash = mmci_hash_byte(hash, (unsigned char)(value >> shift & 0xFF));
  return hash;
}

/* Takes every NaN for the same, and both zeros: a database does not tell them apart. */
static uint64_t mix_real(uint64_t hash, double value) {
  uint64_t bits = UINT64_MAX;
  value += 0.0;
  if (!isnan(value)) memcpy(&bits, &value, sizeof bits);
  return mix_integer(hash, bits);
}

static uint64_t mix_text(uint64_t hash, const char *text) {
  return mmci_hash_bytes(hash, text, strlen(text) + 1);
}

static uint64_t mix_grid(uint64_t hash, const mmci_wisdom_grid *grid) {
  for (int d = 0; d < 3; d++) {
    hash = mix_integer(hash, (uint64_t)grid->count[d]);
    for (int32_t p = 0; p < grid->count[d]; p++)
      hash = mix_integer(hash, (uint64_t)grid->axis[d][p]);
  }
  size_t size = mmci_grid_size(grid);
  for (size_t v = 0; v < size; v++) hash = mix_real(hash, grid->values[v]);
  return hash;
}

static uint64_t mix_field(uint64_t hash, const mmci_wisdom_record *record,
                          const mmci_field *field) {
  switch (field->type) {
    case MMCI_FIELD_SIZE:
    case MMCI_FIELD_DATE:
      return mix_integer(hash, (uint64_t)MMCI_FIELD_READ(record, field, int64_t));
    case MMCI_FIELD_OP:
      return mix_text(hash, mmci_op_word(MMCI_FIELD_READ(record, field, mmc_op)));
    case MMCI_FIELD_OBJECTIVE:
      return mix_text(hash,
                      mmci_objective_word(MMCI_FIELD_READ(record, field, mmci_wisdom_objective)));
    case MMCI_FIELD_TEXT:
      return mix_text(hash, MMCI_FIELD_READ(record, field, char *const));
    case MMCI_FIELD_REAL:
    case MMCI_FIELD_MAYBE:
      return mix_real(hash, MMCI_FIELD_READ(record, field, double));
    case MMCI_FIELD_GRID:
      return mix_grid(hash, &MMCI_FIELD_READ(record, field, mmci_wisdom_grid));
  }
  return hash;
}

uint64_t mmci_record_checksum(const mmci_wisdom_record *record) {
  const mmci_record_shape *shape = &mmci_record_shapes[record->kind];
  uint64_t hash = mix_text(MMCI_HASH_START, shape->name);
  for (int f = 0; f < MMCI_FINGERPRINT_FIELDS; f++)
    hash = mix_text(hash, record->fingerprint->fields[f]);
  for (int f = 0; f < shape->count; f++) hash = mix_field(hash, record, &shape->fields[f]);
  return hash;
}

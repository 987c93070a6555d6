/* test_wisdom_text.c: random stores, exported and imported, come out the same to the last bit;
 * texts that are damaged anywhere change nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../wisdom_store.h"

/* ---- random records ------------------------------------------------------------------------ */

/* Printable text with everything that has to be escaped or is longer than a byte. */
static const char *random_text(uint64_t *seed, char text[256]) {
  static const char *const pieces[] = {"a", " ", "\"", "\\", "\\\\\"", "é",
                                       "√", "😀", "m=", "0",  "-"};
  size_t used = 0, wanted = 1 + (size_t)random_below(seed, random_below(seed, 8) == 0 ? 240 : 12);
  while (used < wanted) {
    const char *piece = pieces[random_below(seed, sizeof pieces / sizeof pieces[0])];
    if (used + strlen(piece) > 255) break;
    memcpy(text + used, piece, strlen(piece));
    used += strlen(piece);
  }
  text[used] = '\0';
  return text;
}

/* Anywhere in the range, by exponent. */
static double random_real(uint64_t *seed, int least_exponent, int most_exponent) {
  int exponent = least_exponent + (int)random_below(seed, most_exponent - least_exponent);
  return ldexp(1 + fabs(random_unit(seed)), exponent);
}

static double random_figure(uint64_t *seed) {
  return random_below(seed, 4) == 0 ? (double)(1 + random_below(seed, 100)) / 1000
                                    : random_real(seed, -39, 38);
}

static double random_maybe(uint64_t *seed) {
  return random_below(seed, 2) == 0 ? NAN : random_figure(seed);
}

static int64_t random_size(uint64_t *seed) {
  return 1 + (int64_t)(random_bits(seed) >> (2 + random_below(seed, 62)));
}

static mmci_wisdom_grid random_grid(uint64_t *seed) {
  static int64_t axes[3][6];
  static double values[216];
  mmci_wisdom_grid grid = {.values = values};
  for (int d = 0; d < 3; d++) {
    grid.count[d] = 1 + (int32_t)random_below(seed, 6);
    grid.axis[d] = axes[d];
    for (int p = 0; p < 6; p++)
      axes[d][p] = (p > 0 ? axes[d][p - 1] : 0) + 1 + random_below(seed, (int64_t)1 << 50);
  }
  for (int v = 0; v < 216; v++)
    values[v] = random_below(seed, 5) == 0 ? 0 : random_real(seed, -1000, 99);
  return grid;
}

static mmci_wisdom_record random_record(uint64_t *seed, const mmci_fingerprint *fingerprint) {
  static char first[256], second[256], third[256];
  mmci_wisdom_record r = {.kind = (mmci_wisdom_kind)random_below(seed, MMCI_WISDOM_KINDS),
                          .fingerprint = fingerprint};
  int64_t date = random_below(seed, (int64_t)1 << 53);
  mmci_wisdom_objective objective = (mmci_wisdom_objective)random_below(seed, 2);
  switch (r.kind) {
    case MMCI_WISDOM_PRODUCT:
      r.product = (mmci_wisdom_product){
          .key = {random_size(seed), random_size(seed), random_size(seed),
                  (mmc_op)random_below(seed, 3), (mmc_op)random_below(seed, 3), objective},
          .recipe = random_text(seed, first),
          .seconds = random_figure(seed),
          .spread = fabs(random_unit(seed)),
          .plain_seconds = random_figure(seed),
          .joules = random_maybe(seed),
          .plain_joules = random_maybe(seed),
          .watts = random_maybe(seed),
          .source = random_text(seed, second),
          .measured_at = date};
      break;
    case MMCI_WISDOM_ARRAY:
      r.array = (mmci_wisdom_array){(mmc_op)random_below(seed, 3), (mmc_op)random_below(seed, 3),
                                    objective, random_grid(seed), date};
      break;
    case MMCI_WISDOM_FACT:
      r.fact = (mmci_wisdom_fact){random_text(seed, first),
                                  random_unit(seed) * random_real(seed, -1060, 99), 0, date};
      break;
    default:
      r.progress = (mmci_wisdom_progress){random_text(seed, first), random_text(seed, second),
                                          random_text(seed, third), date};
  }
  return r;
}

/* ---- the fixture --------------------------------------------------------------------------- */

typedef struct fixture {
  char directory[64];
  mmci_wisdom *from, *to;
  mmci_error error;
} fixture;

static mmci_wisdom *new_store(fixture *f, const char *name) {
  char path[128];
  mmci_wisdom *wisdom = NULL;
  snprintf(path, sizeof path, "%s/%s", f->directory, name);
  assert_int_equal(mmci_wisdom_create(path, &wisdom, NULL), MMC_OK);
  return wisdom;
}

static void begin(fixture *f) {
  *f = (fixture){0};
  assert_int_equal(make_directory(f->directory), 0);
  f->from = new_store(f, "from.db");
  f->to = new_store(f, "to.db");
}

static void end(fixture *f) {
  mmci_wisdom_destroy(f->from);
  mmci_wisdom_destroy(f->to);
  remove_directory(f->directory);
}

static void fill(fixture *f, uint64_t *seed, int count) {
  mmci_fingerprint fingerprint;
  for (int i = 0; i < count; i++) {
    if (i == 0 || random_below(seed, 5) == 0)
      for (int field = 0; field < MMCI_FINGERPRINT_FIELDS; field++) {
        char text[256];
        mmci_fingerprint_set(&fingerprint, (mmci_fingerprint_field)field, random_text(seed, text));
      }
    mmci_wisdom_record record = random_record(seed, &fingerprint);
    if (mmci_wisdom_put(f->from, &record, &f->error) != MMC_OK) fail_msg("%s", f->error.text);
  }
}

static mmc_status import(fixture *f, mmci_wisdom *into, const char *bytes, size_t size) {
  text_input text = {.bytes = bytes, .size = size};
  f->error.text[0] = '\0';
  return mmci_wisdom_import(into, text_read, &text, &f->error);
}

/* ---- properties ---------------------------------------------------------------------------- */

typedef struct comparison {
  mmci_wisdom *other;
  int64_t count;
} comparison;

/* The same bits, or any two NaNs. */
static bool same_real(double a, double b) {
  return isnan(a) ? isnan(b) != 0 : a == b && signbit(a) == signbit(b);
}

/* Each record's doubles, bit by bit, against those that the other store finds for the same key. */
static mmc_status compare(void *user, const mmci_wisdom_record *record, mmci_error *error) {
  comparison *c = user;
  c->count++;
  mmci_wisdom_table *table;
  mmc_status status = mmci_wisdom_acquire(c->other, record->fingerprint, &table, error);
  if (status != MMC_OK) return status;
  if (record->kind == MMCI_WISDOM_PRODUCT) {
    const mmci_wisdom_product *a = &record->product, *b = mmci_wisdom_find(table, &a->key);
    assert_non_null(b);
    assert_string_equal(a->recipe, b->recipe);
    assert_string_equal(a->source, b->source);
    assert_true(same_real(a->seconds, b->seconds) && same_real(a->spread, b->spread) &&
                same_real(a->plain_seconds, b->plain_seconds) && same_real(a->joules, b->joules) &&
                same_real(a->plain_joules, b->plain_joules) && same_real(a->watts, b->watts));
    assert_int_equal(a->measured_at, b->measured_at);
  }
  if (record->kind == MMCI_WISDOM_ARRAY) {
    const mmci_wisdom_array *a = &record->array,
                            *b = mmci_wisdom_find_array(table, a->op_a, a->op_b, a->objective);
    assert_non_null(b);
    size_t size = 1;
    for (int d = 0; d < 3; d++) {
      assert_int_equal(a->grid.count[d], b->grid.count[d]);
      assert_memory_equal(a->grid.axis[d], b->grid.axis[d],
                          (size_t)a->grid.count[d] * sizeof(int64_t));
      size *= (size_t)a->grid.count[d];
    }
    assert_memory_equal(a->grid.values, b->grid.values, size * sizeof(double));
  }
  if (record->kind == MMCI_WISDOM_FACT) {
    const mmci_wisdom_fact *b = mmci_wisdom_find_fact(table, record->fact.name);
    assert_non_null(b);
    assert_true(same_real(record->fact.number, b->number));
  }
  mmci_wisdom_release(table);
  return MMC_OK;
}

static void export_and_import_is_identity(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 40; seed++) {
    uint64_t random = seed;
    fixture f;
    begin(&f);
    fill(&f, &random, (int)random_below(&random, 60));
    char *before = export_text(f.from);
    assert_non_null(before);
    if (import(&f, f.to, before, strlen(before)) != MMC_OK)
      fail_msg("seed %d: %s", (int)seed, f.error.text);
    char *after = export_text(f.to);
    if (strcmp(before, after) != 0) fail_msg("seed %d: the texts differ", (int)seed);
    comparison c = {.other = f.to};
    assert_int_equal(mmci_wisdom_walk(f.from, NULL, compare, &c, NULL, &f.error), MMC_OK);
    assert_int_equal(c.count, count_records(f.to));
    /* Again into the same store: nothing changes. */
    assert_int_equal(import(&f, f.to, before, strlen(before)), MMC_OK);
    free(after);
    after = export_text(f.to);
    assert_string_equal(before, after);
    free(before);
    free(after);
    end(&f);
  }
}

/* A text cut anywhere, or with a byte changed, is refused with its line or, where the change has
 * made another good text, taken whole. */
static void damaged_texts_change_nothing(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 3; seed++) {
    uint64_t random = seed;
    fixture f;
    begin(&f);
    fill(&f, &random, 12);
    char *good = export_text(f.from);
    size_t size = strlen(good);
    for (int t = 0; t < 300; t++) {
      size_t cut = (size_t)random_below(&random, (int64_t)size);
      assert_int_equal(import(&f, f.to, good, cut), MMC_E_FORMAT);
      if (strncmp(f.error.text, "line ", 5) != 0) fail_msg("no line: %s", f.error.text);
    }
    assert_int_equal(count_records(f.to), 0);
    int refused = 0;
    for (int t = 0; t < 400; t++) {
      size_t at = (size_t)random_below(&random, (int64_t)size);
      char old = good[at];
      good[at] = (char)random_below(&random, 256);
      mmc_status status = import(&f, f.to, good, size);
      if (status != MMC_OK) {
        assert_int_equal(status, MMC_E_FORMAT);
        assert_int_equal(count_records(f.to), 0);
        refused++;
      } else {
        assert_int_equal(mmci_wisdom_forget(f.to, NULL, NULL, NULL), MMC_OK);
      }
      good[at] = old;
    }
    if (refused < 120) fail_msg("seed %d: only %d of 400 were refused", (int)seed, refused);
    free(good);
    end(&f);
  }
}

/* ---- hostile texts ------------------------------------------------------------------------- */

#define HEAD "mmchain wisdom 1\n"
#define MACHINE "fingerprint \"blas\" \"m\" \"\" \"\" \"0.1.0\" \"f32\" \"native\"\n"
#define PRODUCT "product 1 2 3 N N time \"r\" 1 0 1 - - - \"measured\" 1\n"
#define GRID "array N N time 1 1 2 5\n m 1\n k 1\n n 1 2\n E 1 2\n"

static void hostile_texts_are_refused_by_line(void **state) {
  (void)state;
  static const char *const texts[][2] = {
      {"", "line 1: cut off: expected 'mmchain wisdom 1'"},
      {"mmchain wisdom 2\nend 0\n", "line 1: expected 'mmchain wisdom 1', got 'mmchain wisdom 2'"},
      {"mmchain wisdom 1", "line 1: cut off: expected the line to end"},
      {"mmchain wisdom 1\r\nend 0\r\n", "line 1: expected 'mmchain wisdom 1'"},
      {HEAD, "line 2: cut off: expected a record, or the end"},
      {HEAD "end 1\n", "line 2: expected 1 records before it, got 0"},
      {HEAD "end 0\n\n", "line 3: expected nothing after the end"},
      {HEAD "end 0 \n", "line 2: expected no space at the end of the line"},
      {HEAD PRODUCT "end 1\n", "line 2: expected a fingerprint before the first record"},
      {HEAD "\nend 0\n", "line 2: expected fingerprint, product, array, fact, progress or end"},
      {HEAD "fingerprint \"blas\"\nend 0\n", "line 2: model: expected a text in quotes"},
      {HEAD "fingerprint \"\" \"m\" \"\" \"\" \"1\" \"f32\" \"n\"\nend 0\n", "line 2: device: "},
      {HEAD MACHINE PRODUCT PRODUCT "end 2\n", "line 4: product: the same key as before"},
      {HEAD MACHINE PRODUCT MACHINE PRODUCT "end 2\n", "line 5: product: the same key as before"},
      {HEAD MACHINE "product 1 2 0 N N time \"r\" 1 0 1 - - - \"m\" 1\nend 1\n", "line 3: n: "},
      {HEAD MACHINE "product 1 2 3 X N time \"r\" 1 0 1 - - - \"m\" 1\nend 1\n", "line 3: op_a: "},
      {HEAD MACHINE "product 1 2 3 N N time \"r\" nan 0 1 - - - \"m\" 1\nend 1\n",
       "line 3: seconds: expected a number, got 'nan'"},
      {HEAD MACHINE "product 1 2 3 N N time \"r\" 1e999 0 1 - - - \"m\" 1\nend 1\n",
       "line 3: seconds: expected a number, got '1e999'"},
      {HEAD MACHINE "product 1 2 3 N N time \"r\" -1 0 1 - - - \"m\" 1\nend 1\n",
       "line 3: seconds: expected 1e-12 to 1e+12, got -1"},
      {HEAD MACHINE "product 1 2 3 N N time \"r\" 0x1p3 0 1 - - - \"m\" 1\nend 1\n",
       "line 3: seconds: expected a number, got '0x1p3'"},
      {HEAD MACHINE "product 1 2 3 N N time \"r\" - 0 1 - - - \"m\" 1\nend 1\n",
       "line 3: seconds: expected a number, got '-'"},
      {HEAD MACHINE "product 99999999999999999999 2 3 N N time \"r\" 1 0 1 - - - \"m\" 1\nend 1\n",
       "line 3: m: expected a whole number, got '99999999999999999999'"},
      {HEAD MACHINE "product 9223372036854775808 2 3 N N time \"r\" 1 0 1 - - - \"m\" 1\nend 1\n",
       "line 3: m: expected a whole number"},
      {HEAD MACHINE "product 1 2 3 N N time \"\" 1 0 1 - - - \"m\" 1\nend 1\n", "line 3: recipe: "},
      {HEAD MACHINE "product 1 2 3 N N time \"r 1 0 1 - - - m 1\nend 1\n", "line 3: recipe: "},
      {HEAD MACHINE "product 1 2 3 N N time \"r\\\nend 1\n", "line 3: recipe: "},
      {HEAD MACHINE "product 1 2 3 N N time \"\xFF\" 1 0 1 - - - \"m\" 1\nend 1\n",
       "line 3: recipe: expected printable text"},
      {HEAD MACHINE "product 1 2 3 N N time \"r\" 1 0 1 - - - \"m\" 1 2\nend 1\n",
       "line 3: expected the line to end, got '2'"},
      {HEAD MACHINE "product  1 2 3 N N time \"r\" 1 0 1 - - - \"m\" 1\nend 1\n",
       "line 3: m: expected a whole number, got ''"},
      {HEAD MACHINE GRID GRID "end 2\n", "line 12: array: the same key as before"},
      {HEAD MACHINE "array N N time 1 1025 1 5\nend 1\n", "line 3: grid: expected 1 to 1024"},
      {HEAD MACHINE "array N N time 1024 1024 1024 5\nend 1\n", "line 3: grid: expected at most"},
      {HEAD MACHINE "array N N time 1 1 2 5\n m 1\n k 1\n n 2 1\n E 1 2\nend 1\n",
       "line 7: axis n: expected rising points"},
      {HEAD MACHINE "array N N time 1 1 2 5\n m 1\n k 1\n n 1 2\n E 1\nend 1\n", "line 7: E: "},
      {HEAD MACHINE "array N N time 1 1 2 5\n m 1\n k 1\n n 1 2\nend 1\n", "line 7: expected ' E'"},
      {HEAD MACHINE "array N N time 1 1 2 5\n m 1 2\nend 1\n", "line 4: expected the line to end"},
      {HEAD MACHINE "array N N time 1 1 2 5\n m 1\n", "line 5: cut off: expected the rest of the"},
  };
  fixture f;
  begin(&f);
  assert_int_equal(import(&f, f.to, HEAD MACHINE PRODUCT GRID "end 2\n",
                          strlen(HEAD MACHINE PRODUCT GRID "end 2\n")),
                   MMC_OK);
  char *before = export_text(f.to);
  for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
    assert_int_equal(import(&f, f.to, texts[t][0], strlen(texts[t][0])), MMC_E_FORMAT);
    if (strncmp(f.error.text, texts[t][1], strlen(texts[t][1])) != 0)
      fail_msg("text %d: expected '%s...', got '%s'", (int)t, texts[t][1], f.error.text);
  }
  static const char nul[] = HEAD "end\0 0\n";
  assert_int_equal(import(&f, f.to, nul, sizeof nul - 1), MMC_E_FORMAT);
  assert_string_equal(f.error.text, "line 2: expected text, got a NUL");
  char *after = export_text(f.to);
  assert_string_equal(before, after);
  free(before);
  free(after);
  end(&f);
}

typedef struct endless {
  size_t given, most;
} endless;

static ptrdiff_t read_endless(void *user, char *bytes, size_t size) {
  endless *e = user;
  static const char head[] = HEAD;
  if (e->given == 0) {
    memcpy(bytes, head, sizeof head - 1);
    return (ptrdiff_t)(e->given = sizeof head - 1);
  }
  if (e->given >= e->most) return 0;
  memset(bytes, 'x', size);
  e->given += size;
  return (ptrdiff_t)size;
}

/* A line of 100 MB is refused after the first of them. */
static void an_endless_line_is_refused_early(void **state) {
  (void)state;
  fixture f;
  begin(&f);
  endless e = {.most = 100000000};
  assert_int_equal(mmci_wisdom_import(f.to, read_endless, &e, &f.error), MMC_E_FORMAT);
  assert_string_equal(f.error.text, "line 2: expected at most 65536 bytes");
  assert_true(e.given < 200000);
  end(&f);
}

static ptrdiff_t read_nothing_good(void *user, char *bytes, size_t size) {
  (void)bytes;
  return *(bool *)user ? -1 : (ptrdiff_t)size + 1;
}

static int write_nothing(void *user, const char *bytes, size_t size) {
  (void)user, (void)bytes, (void)size;
  return 1;
}

static void callbacks_that_fail_are_told(void **state) {
  (void)state;
  fixture f;
  begin(&f);
  for (int negative = 0; negative < 2; negative++) {
    bool user = negative != 0;
    assert_int_equal(mmci_wisdom_import(f.to, read_nothing_good, &user, &f.error), MMC_E_IO);
    assert_string_equal(f.error.text, "the read callback failed");
  }
  uint64_t random = 5;
  fill(&f, &random, 50);
  assert_int_equal(mmci_wisdom_export(f.from, write_nothing, NULL, &f.error), MMC_E_IO);
  assert_int_equal(mmci_wisdom_write(f.from, MMC_JSON, NULL, NULL, write_nothing, NULL, &f.error),
                   MMC_E_IO);
  end(&f);
}

/* The later measured stays, whichever way round they come. */
static void the_later_measured_stays(void **state) {
  (void)state;
  static const char *const dates[][3] = {{"5", "7", "7"}, {"7", "5", "7"}, {"5", "5", "5"}};
  for (int d = 0; d < 3; d++) {
    fixture f;
    begin(&f);
    for (int i = 0; i < 2; i++) {
      char text[512];
      snprintf(text, sizeof text,
               HEAD MACHINE "product 1 2 3 N N time \"%d\" 1 0 1 - - - \"m\" %s\nend 1\n", i,
               dates[d][i]);
      assert_int_equal(import(&f, f.to, text, strlen(text)), MMC_OK);
    }
    char expected[512];
    snprintf(expected, sizeof expected,
             HEAD MACHINE "product 1 2 3 N N time \"%d\" 1 0 1 - - - \"m\" %s\nend 1\n", d != 1,
             dates[d][2]);
    char *text = export_text(f.to);
    assert_string_equal(text, expected);
    free(text);
    end(&f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(export_and_import_is_identity),
      cmocka_unit_test(damaged_texts_change_nothing),
      cmocka_unit_test(hostile_texts_are_refused_by_line),
      cmocka_unit_test(an_endless_line_is_refused_early),
      cmocka_unit_test(callbacks_that_fail_are_told),
      cmocka_unit_test(the_later_measured_stays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

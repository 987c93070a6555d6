/* test_wisdom.c: records put, found, visited and forgotten; what is out of range; fingerprints;
 * look-ups that follow the file. Hostile files are in test_wisdom_files.c. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../wisdom_fixture.h"

/* A store whose folder is not there yet. */
static int set_up_store(void **state) {
  if (set_up(state) != 0) return 1;
  fixture *f = *state;
  snprintf(f->path, sizeof f->path, "%s/cache/wisdom.db", f->directory);
  f->wisdom = store(f);
  return 0;
}

static void put(fixture *f, mmci_wisdom_record record) {
  if (mmci_wisdom_put(f->wisdom, &record, &f->error) != MMC_OK) fail_msg("%s", f->error.text);
}

static mmci_wisdom_table *acquire(fixture *f, mmci_wisdom *wisdom,
                                  const mmci_fingerprint *fingerprint) {
  mmci_wisdom_table *table = NULL;
  if (mmci_wisdom_acquire(wisdom, fingerprint, &table, &f->error) != MMC_OK)
    fail_msg("%s", f->error.text);
  return table;
}

/* ---- records ------------------------------------------------------------------------------- */

static void an_absent_store_is_empty_and_stays_absent(void **state) {
  fixture *f = *state;
  assert_int_equal(count_records(f->wisdom), 0);
  char *text = export_text(f->wisdom);
  assert_string_equal(text, "mmchain wisdom 1\nend 0\n");
  free(text);
  text_buffer shown = {0};
  assert_int_equal(mmci_wisdom_write(f->wisdom, MMC_JSON, NULL, NULL, text_write, &shown, NULL),
                   MMC_OK);
  assert_non_null(strstr(shown.bytes, "\"fingerprints\": [], \"damaged\": 0}"));
  free(shown.bytes);
  int64_t count = -1;
  assert_int_equal(mmci_wisdom_forget(f->wisdom, NULL, &count, &f->error), MMC_OK);
  assert_int_equal(count, 0);
  mmci_wisdom_table *table = acquire(f, f->wisdom, &f->here);
  mmci_wisdom_key key = {.m = 1, .k = 2, .n = 3};
  assert_null(mmci_wisdom_find(table, &key));
  assert_null(mmci_wisdom_find_fact(table, "launch_s"));
  mmci_wisdom_release(table);
  assert_int_equal(access(f->path, F_OK), -1);
}

static void what_is_put_is_found(void **state) {
  fixture *f = *state;
  mmci_wisdom_record product = test_product(&f->here, 5);
  product.product.joules = 0.125;
  product.product.key.op_b = MMC_OP_H;
  put(f, product);
  put(f, test_array(&f->here));
  put(f, test_fact(&f->here, "launch_s", -0.0));
  mmci_wisdom_table *table = acquire(f, f->wisdom, &f->here);

  const mmci_wisdom_product *found = mmci_wisdom_find(table, &product.product.key);
  assert_non_null(found);
  assert_string_equal(found->recipe, "split m 2");
  assert_string_equal(found->source, "measured");
  assert_true(found->seconds == product.product.seconds && found->joules == 0.125);
  assert_true(isnan(found->watts) && isnan(found->plain_joules));
  assert_int_equal(found->measured_at, 1000);

  const mmci_wisdom_array *array =
      mmci_wisdom_find_array(table, MMC_OP_N, MMC_OP_T, MMCI_WISDOM_ENERGY);
  assert_non_null(array);
  assert_memory_equal(array->grid.values, test_values, sizeof test_values);
  assert_memory_equal(array->grid.axis[2], test_axes[2], sizeof test_axes[2]);
  assert_null(mmci_wisdom_find_array(table, MMC_OP_N, MMC_OP_T, MMCI_WISDOM_TIME));

  const mmci_wisdom_fact *fact = mmci_wisdom_find_fact(table, "launch_s");
  assert_non_null(fact);
  assert_true(fact->number == 0 && fact->spread == 0.5);
  assert_null(mmci_wisdom_find_fact(table, "launch"));
  mmci_wisdom_release(table);
}

/* Each part of the key tells products apart. */
static void keys_differ_in_every_part(void **state) {
  fixture *f = *state;
  mmci_wisdom_record base = test_product(&f->here, 5);
  mmci_wisdom_key keys[7];
  for (int p = 0; p < 7; p++) {
    mmci_wisdom_key *k = &base.product.key;
    *k = (mmci_wisdom_key){.m = 5, .k = 6, .n = 7};
    if (p == 1) k->m = 6;
    if (p == 2) k->k = 5;
    if (p == 3) k->n = 5;
    if (p == 4) k->op_a = MMC_OP_T;
    if (p == 5) k->op_b = MMC_OP_T;
    if (p == 6) k->objective = MMCI_WISDOM_ENERGY;
    keys[p] = *k;
    base.product.seconds = 1 + p;
    put(f, base);
  }
  mmci_wisdom_table *table = acquire(f, f->wisdom, &f->here);
  for (int p = 0; p < 7; p++) assert_true(mmci_wisdom_find(table, &keys[p])->seconds == 1 + p);
  mmci_wisdom_release(table);
}

static void putting_again_replaces(void **state) {
  fixture *f = *state;
  mmci_wisdom_record product = test_product(&f->here, 5);
  put(f, product);
  product.product.recipe = "plain";
  product.product.measured_at = 1; /* earlier: what tune puts stands all the same */
  put(f, product);
  assert_int_equal(count_records(f->wisdom), 1);
  mmci_wisdom_table *table = acquire(f, f->wisdom, &f->here);
  assert_string_equal(mmci_wisdom_find(table, &product.product.key)->recipe, "plain");
  mmci_wisdom_release(table);
}

static void expect_refused(fixture *f, mmci_wisdom_record record, const char *message) {
  f->error.text[0] = '\0';
  assert_int_equal(mmci_wisdom_put(f->wisdom, &record, &f->error), MMC_E_ARG);
  if (strncmp(f->error.text, message, strlen(message)) != 0)
    fail_msg("expected '%s...', got '%s'", message, f->error.text);
}

static void what_is_out_of_range_is_refused(void **state) {
  fixture *f = *state;
  const mmci_wisdom_record good = test_product(&f->here, 5);
  mmci_wisdom_record r;
#define REFUSED(member, value, message) \
  r = good, r.product.member = (value), expect_refused(f, r, message)
  REFUSED(key.m, 0, "m: expected 1 to ");
  REFUSED(key.k, -1, "k: expected 1 to ");
  REFUSED(key.n, ((int64_t)1 << 62) + 1, "n: expected 1 to ");
  REFUSED(key.op_a, (mmc_op)3, "op_a: expected N, T or H");
  REFUSED(key.objective, (mmci_wisdom_objective)2, "objective: expected time or energy");
  REFUSED(seconds, NAN, "seconds: expected ");
  REFUSED(seconds, 0, "seconds: expected ");
  REFUSED(seconds, -1, "seconds: expected ");
  REFUSED(seconds, INFINITY, "seconds: expected ");
  REFUSED(seconds, 1e-300, "seconds: expected ");
  REFUSED(spread, NAN, "spread: expected ");
  REFUSED(spread, -0.1, "spread: expected ");
  REFUSED(plain_seconds, NAN, "plain_seconds: expected ");
  REFUSED(joules, 0, "joules: expected ");
  REFUSED(watts, -INFINITY, "watts: expected ");
  REFUSED(measured_at, -1, "measured_at: expected ");
  char text[300];
  memset(text, 'x', sizeof text);
  text[256] = '\0';
  REFUSED(recipe, text, "recipe: expected printable text of 1 to 255 bytes");
  text[255] = '\0';
  r = good, r.product.recipe = text, put(f, r);
  REFUSED(recipe, NULL, "recipe: ");
  static const char *const bad[] = {
      "",      "a\nb",     "a\tb",         "\x7F",         "\xC3",
      "\xC3(", "\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80",
      "\xFF",  "\xC2\x85", "\xE2\x80\xA8", "\x80",         "\xF0\x80\x80\x80"};
  for (size_t t = 0; t < sizeof bad / sizeof bad[0]; t++) REFUSED(recipe, bad[t], "recipe: ");
  static const char *const fine[] = {" ", "é", "\xC2\xA0", "\xE2\x88\x9A", "\xF0\x9F\x98\x80"};
  for (size_t t = 0; t < sizeof fine / sizeof fine[0]; t++)
    r = good, r.product.recipe = fine[t], put(f, r);
#undef REFUSED

  mmci_wisdom_record array = test_array(&f->here);
  int64_t falling[3] = {5, 4, 6};
  r = array, r.array.grid.axis[0] = falling, expect_refused(f, r, "axis m: expected rising");
  r = array, r.array.grid.count[1] = 0, expect_refused(f, r, "axis k: expected 1 to 1024 points");
  r = array, r.array.grid.count[2] = 1025, expect_refused(f, r, "axis n: expected 1 to 1024 poi");
  double values[18] = {0};
  r = array, r.array.grid.values = values;
  values[17] = NAN, expect_refused(f, r, "grid: expected values from 0 to 1e+30, got nan");
  values[17] = -1, expect_refused(f, r, "grid: expected values ");
  values[17] = 2e30, expect_refused(f, r, "grid: expected values ");
  static int64_t many[1024];
  for (int p = 0; p < 1024; p++) many[p] = p + 1;
  r.array.grid = (mmci_wisdom_grid){{1024, 1024, 5}, {many, many, many}, values};
  expect_refused(f, r, "grid: expected at most 4194304 points, got 5242880");
  r = test_fact(&f->here, "x", INFINITY), expect_refused(f, r, "number: expected ");
  r = good, r.kind = (mmci_wisdom_kind)9, expect_refused(f, r, "record: of no known kind");
  mmci_fingerprint odd = f->here;
  odd.fields[MMCI_FINGERPRINT_MODEL][0] = '\n';
  r = good, r.fingerprint = &odd, expect_refused(f, r, "model: expected printable text");
}

/* ---- fingerprints -------------------------------------------------------------------------- */

static void only_the_very_same_fingerprint_is_used(void **state) {
  fixture *f = *state;
  mmci_wisdom_record product = test_product(&f->here, 5);
  put(f, product);
  for (int field = 0; field < MMCI_FINGERPRINT_FIELDS; field++) {
    mmci_fingerprint other = f->here;
    mmci_fingerprint_set(&other, (mmci_fingerprint_field)field, "another");
    mmci_wisdom_table *table = acquire(f, f->wisdom, &other);
    assert_null(mmci_wisdom_find(table, &product.product.key));
    mmci_wisdom_release(table);
  }
  mmci_wisdom_record foreign = test_product(&f->there, 5);
  foreign.product.recipe = "foreign";
  put(f, foreign);
  mmci_wisdom_table *table = acquire(f, f->wisdom, &f->here);
  assert_string_equal(mmci_wisdom_find(table, &product.product.key)->recipe, "split m 2");
  mmci_wisdom_release(table);
}

static void fingerprints_hold_printable_text_only(void **state) {
  (void)state;
  mmci_fingerprint fingerprint;
  mmci_fingerprint_set(&fingerprint, MMCI_FINGERPRINT_MODEL, "a\nb\xFF\xC3\xA9\xC3");
  assert_string_equal(fingerprint.fields[MMCI_FINGERPRINT_MODEL], "a?b?\xC3\xA9?");
  char text[400] = "";
  for (int i = 0; i < 130; i++) strcat(text, "\xC3\xA9");
  mmci_fingerprint_set(&fingerprint, MMCI_FINGERPRINT_MODEL, text);
  assert_int_equal(strlen(fingerprint.fields[MMCI_FINGERPRINT_MODEL]), 158);
}

/* ---- forgetting and progress --------------------------------------------------------------- */

static mmc_status is_there(void *user, const mmci_fingerprint *fingerprint, bool *meant,
                           mmci_error *error) {
  (void)error;
  *meant = mmci_fingerprint_equal(user, fingerprint);
  return MMC_OK;
}

static void forgetting_follows_the_filter(void **state) {
  fixture *f = *state;
  for (int64_t m = 1; m <= 4; m++) {
    put(f, test_product(&f->here, m));
    put(f, test_product(&f->there, m));
  }
  put(f, test_progress(&f->here, "one", "a"));
  put(f, test_progress(&f->here, "one", "b"));
  put(f, test_progress(&f->here, "two", "a"));
  put(f, test_fact(&f->here, "x", 1));
  int64_t count = 0;
  mmci_wisdom_filter filter = {.job = "one"};
  assert_int_equal(mmci_wisdom_forget(f->wisdom, &filter, &count, &f->error), MMC_OK);
  assert_int_equal(count, 2);
  filter = (mmci_wisdom_filter){.matches = is_there, .user = &f->there};
  assert_int_equal(mmci_wisdom_forget(f->wisdom, &filter, &count, &f->error), MMC_OK);
  assert_int_equal(count, 4);
  filter = (mmci_wisdom_filter){.kinds = 1u << MMCI_WISDOM_PRODUCT};
  assert_int_equal(mmci_wisdom_forget(f->wisdom, &filter, &count, &f->error), MMC_OK);
  assert_int_equal(count, 4);
  assert_int_equal(count_records(f->wisdom), 2);
  assert_int_equal(mmci_wisdom_forget(f->wisdom, NULL, &count, &f->error), MMC_OK);
  assert_int_equal(count, 2);
  char *text = export_text(f->wisdom);
  assert_string_equal(text, "mmchain wisdom 1\nend 0\n");
  free(text);
}

static void progress_is_found_by_job_and_unit(void **state) {
  fixture *f = *state;
  bool found = true;
  char result[MMCI_WISDOM_TEXT_MAX + 1];
#define FIND(fingerprint, job, unit)                                                           \
  assert_int_equal(                                                                            \
      mmci_wisdom_find_progress(f->wisdom, fingerprint, job, unit, &found, result, &f->error), \
      MMC_OK)
  FIND(&f->here, "one", "a");
  assert_false(found);
  put(f, test_progress(&f->here, "one", "a"));
  FIND(&f->here, "one", "a");
  assert_true(found);
  assert_string_equal(result, "0.25 s");
  FIND(&f->here, "one", "b");
  assert_false(found);
  FIND(&f->here, "two", "a");
  assert_false(found);
  FIND(&f->there, "one", "a");
  assert_false(found);
#undef FIND
}

/* ---- walks that end, and what is shown ------------------------------------------------------ */

static mmc_status never(void *user, const mmci_fingerprint *fingerprint, bool *meant,
                        mmci_error *error) {
  (void)user, (void)fingerprint, (void)meant;
  return mmci_fail(error, MMC_E_DEVICE, "the device is gone");
}

static mmc_status stop(void *user, const mmci_wisdom_record *record, mmci_error *error) {
  (void)record;
  return --*(int *)user > 0 ? MMC_OK : mmci_fail(error, MMC_E_INTERRUPTED, "enough");
}

static void walking_follows_the_filter(void **state) {
  fixture *f = *state;
  put(f, test_product(&f->here, 1));
  put(f, test_fact(&f->here, "x", 1));
  put(f, test_progress(&f->here, "one", "a"));
  put(f, test_progress(&f->here, "one", "b"));
  put(f, test_progress(&f->there, "two", "a"));
  const struct {
    mmci_wisdom_filter filter;
    int64_t expected;
  } cases[] = {
      {{.job = "one"}, 2},
      {{.job = "two"}, 1},
      {{.job = "three"}, 0},
      {{.kinds = 1u << MMCI_WISDOM_FACT}, 1},
      {{.matches = is_there, .user = &f->there}, 1},
      {{.matches = is_there, .user = &f->there, .job = "one"}, 0},
  };
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    int64_t count = 0;
    assert_int_equal(
        mmci_wisdom_walk(f->wisdom, &cases[c].filter, count_one, &count, NULL, &f->error), MMC_OK);
    assert_int_equal(count, cases[c].expected);
  }
}

static void what_a_callback_says_ends_the_call(void **state) {
  fixture *f = *state;
  const mmci_wisdom_filter filter = {.matches = never};
  int64_t count = -1;
  for (int64_t m = 1; m <= 4; m++) put(f, test_product(&f->here, m));
  put(f, test_fact(&f->here, "x", 1));
  for (int left = 1; left <= 5; left++) {
    int visits = left;
    assert_int_equal(mmci_wisdom_walk(f->wisdom, NULL, stop, &visits, NULL, &f->error),
                     MMC_E_INTERRUPTED);
    assert_int_equal(visits, 0);
    assert_string_equal(f->error.text, "enough");
  }
  assert_int_equal(mmci_wisdom_walk(f->wisdom, &filter, count_one, &count, NULL, &f->error),
                   MMC_E_DEVICE);
  assert_int_equal(mmci_wisdom_forget(f->wisdom, &filter, &count, &f->error), MMC_E_DEVICE);
  assert_int_equal(count, -1);
  for (int format = MMC_TEXT; format <= MMC_JSON; format++) {
    text_buffer text = {0};
    assert_int_equal(
        mmci_wisdom_write(f->wisdom, (mmc_format)format, never, NULL, text_write, &text, &f->error),
        MMC_E_DEVICE);
    free(text.bytes);
  }
  assert_int_equal(mmci_wisdom_write(f->wisdom, MMC_SVG, NULL, NULL, text_write, NULL, &f->error),
                   MMC_E_ARG);
  assert_int_equal(count_records(f->wisdom), 5); /* and the store is as it was */
}

static int refuse(void *user, const char *bytes, size_t size) {
  (void)bytes, (void)size;
  return (*(int *)user)-- <= 0;
}

/* Enough records for the text to be written in more than one piece. */
static void output_that_fails_is_told(void **state) {
  fixture *f = *state;
  for (int64_t m = 1; m <= 400; m++) put(f, test_product(&f->here, m));
  put(f, test_array(&f->here));
  for (int format = -1; format <= MMC_JSON; format++) {
    int pieces = 0;
    for (mmc_status status = MMC_E_IO; status != MMC_OK; pieces++) {
      int left = pieces;
      status = format < 0 ? mmci_wisdom_export(f->wisdom, refuse, &left, &f->error)
                          : mmci_wisdom_write(f->wisdom, (mmc_format)format, NULL, NULL, refuse,
                                              &left, &f->error);
      if (status != MMC_OK && status != MMC_E_IO) fail_msg("%s", f->error.text);
    }
    assert_true(pieces > 2);
  }
}

/* Reads a text to its end, and fails then. */
static ptrdiff_t read_and_fail(void *user, char *bytes, size_t size) {
  text_input *text = user;
  return text->at < text->size ? text_read(user, bytes, size) : -1;
}

static void what_is_wrong_in_an_import_is_told(void **state) {
  fixture *f = *state;
#define HEAD "mmchain wisdom 1\n"
#define FINGERPRINT "fingerprint \"blas\" \"m\" \"\" \"\" \"1\" \"f32\" \"native\"\n"
  char long_text[400] = HEAD "fingerprint \"blas\" \"";
  memset(long_text + strlen(long_text), 'x', 200);
  strcat(long_text, "\" \"\" \"\" \"1\" \"f32\" \"native\"\nend 0\n");
  const struct {
    const char *text, *message;
  } cases[] = {
      {long_text, "line 2: model: expected at most 159 bytes"},
      {HEAD FINGERPRINT "array N N time 1 2 1 5\n m 1\n k 1 2\n n 1\n E 1\nend 1\n",
       "line 8: expected ' E' and numbers"},
      {HEAD FINGERPRINT "array N N time 1 1 1 5\n m 1\n k 1\n x 1\n E 1\nend 1\n",
       "line 6: expected ' n' and numbers"},
      {HEAD FINGERPRINT "array N N time 1 1 1 5\n m 1\n", "line 5: cut off"},
      {HEAD FINGERPRINT "array N N time 9000 1 1 5\n", "grid: expected 1 to"},
      {HEAD FINGERPRINT "fact \"x", "cut off"},
      {HEAD "end 0\nmore\n", "line 3: expected nothing after the end"},
      {HEAD "end 0 \n", "line 2: expected no space at the end"},
  };
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    text_input input = text_of(cases[c].text);
    assert_int_equal(mmci_wisdom_import(f->wisdom, text_read, &input, &f->error), MMC_E_FORMAT);
    if (strstr(f->error.text, cases[c].message) == NULL)
      fail_msg("no '%s' in: %s", cases[c].message, f->error.text);
    input = text_of(cases[c].text);
    assert_int_equal(mmci_wisdom_import(f->wisdom, text_read, &input, NULL), MMC_E_FORMAT);
  }
  text_input input = text_of(HEAD "end 0\n");
  assert_int_equal(mmci_wisdom_import(f->wisdom, read_and_fail, &input, &f->error), MMC_E_IO);
  assert_string_equal(f->error.text, "the read callback failed");
  assert_int_equal(count_records(f->wisdom), 0);
#undef HEAD
#undef FINGERPRINT
}

/* Shows the store as text, to be freed. */
static char *shown(fixture *f, const mmci_fingerprint *here) {
  text_buffer text = {0};
  mmci_fingerprint mine = here != NULL ? *here : f->here;
  if (mmci_wisdom_write(f->wisdom, MMC_TEXT, here != NULL ? is_there : NULL, &mine, text_write,
                        &text, &f->error) != MMC_OK)
    fail_msg("%s", f->error.text);
  return text.bytes;
}

/* Jobs count by their first word, for each fingerprint; seconds have the prefix that fits. */
static void what_is_shown_is_summed_up(void **state) {
  fixture *f = *state;
  const char *const jobs[][2] = {
      {"batch 1", "a"}, {"batch 2", "a"}, {"batch 2", "b"}, {"batches 1", "a"}, {"size", "x"}};
  for (int j = 0; j < 5; j++) put(f, test_progress(&f->here, jobs[j][0], jobs[j][1]));
  put(f, test_progress(&f->there, "size", "x"));
  mmci_wisdom_record product = test_product(&f->here, 1);
  product.product.seconds = 2.5e-10;
  product.product.plain_seconds = 1e-12;
  product.product.joules = 3;
  product.product.plain_joules = 0.004;
  product.product.watts = 150;
  product.product.measured_at = INT64_C(1)
                                << 53; /* no year that a date has room for, or a far one */
  put(f, product);
  char *text = shown(f, &f->here);
  const char *const expected[] = {
      "  progress batch: 3 units done\n",    "  progress batches: 1 unit done\n",
      "  progress size: 1 unit done\n",      ", foreign: measured elsewhere, not used here\n",
      ": split m 2, 0.25 ns +- 1 %, plain ", "plain 0.001 ns, 3 J, plain 4 mJ, 150 W, measured"};
  for (size_t e = 0; e < sizeof expected / sizeof expected[0]; e++)
    if (strstr(text, expected[e]) == NULL) fail_msg("no '%s' in:\n%s", expected[e], text);
  free(text);
  text = shown(f, NULL); /* nobody says what is foreign */
  assert_null(strstr(text, "foreign"));
  free(text);
}

/* ---- look-ups ------------------------------------------------------------------------------ */

static void look_ups_find_what_is_there_among_many(void **state) {
  fixture *f = *state;
  uint64_t seed = 20240917;
  enum { COUNT = 3000 };
  text_buffer text = {0};
  char line[256];
  snprintf(line, sizeof line,
           "mmchain wisdom 1\nfingerprint \"blas\" \"this one\" \"\" \"OpenBLAS, 2 threads\" "
           "\"0.1.0\" \"f32\" \"native\"\n");
  text_write(&text, line, strlen(line));
  static mmci_wisdom_key keys[COUNT];
  for (int i = 0; i < COUNT; i++) { /* i is in n, so that they differ */
    keys[i] = (mmci_wisdom_key){
        .m = 1 + random_below(&seed, 40), .k = 1 + random_below(&seed, 4), .n = 1 + i};
    snprintf(line, sizeof line, "product %d %d %d N N time \"%d\" 1 0 1 - - - \"measured\" 1\n",
             (int)keys[i].m, (int)keys[i].k, (int)keys[i].n, i);
    text_write(&text, line, strlen(line));
  }
  snprintf(line, sizeof line, "end %d\n", COUNT);
  text_write(&text, line, strlen(line));
  text_input input = text_of(text.bytes);
  if (mmci_wisdom_import(f->wisdom, text_read, &input, &f->error) != MMC_OK)
    fail_msg("%s", f->error.text);
  free(text.bytes);
  mmci_wisdom_table *table = acquire(f, f->wisdom, &f->here);
  for (int i = 0; i < COUNT; i++) {
    const mmci_wisdom_product *found = mmci_wisdom_find(table, &keys[i]);
    assert_non_null(found);
    assert_int_equal(atoi(found->recipe), i);
    mmci_wisdom_key other = keys[i];
    other.m += 40;
    assert_null(mmci_wisdom_find(table, &other));
  }
  mmci_wisdom_release(table);
}

/* The same table until the file changes, by this store or another; then a new one, while those who
 * hold the old one keep it. */
static void tables_follow_the_file(void **state) {
  fixture *f = *state;
  mmci_wisdom_record first = test_product(&f->here, 1), second = test_product(&f->here, 2),
                     third = test_product(&f->here, 3);
  put(f, first);
  mmci_wisdom_table *a = acquire(f, f->wisdom, &f->here), *b = acquire(f, f->wisdom, &f->here);
  assert_ptr_equal(a, b);
  mmci_wisdom_release(b);

  mmci_wisdom *other;
  assert_int_equal(mmci_wisdom_create(f->path, &other, NULL), MMC_OK);
  assert_int_equal(mmci_wisdom_put(other, &second, &f->error), MMC_OK);
  b = acquire(f, f->wisdom, &f->here);
  assert_ptr_not_equal(a, b);
  assert_non_null(mmci_wisdom_find(b, &second.product.key));
  assert_null(mmci_wisdom_find(a, &second.product.key));
  mmci_wisdom_release(a);

  put(f, third);
  a = acquire(f, f->wisdom, &f->here);
  assert_non_null(mmci_wisdom_find(a, &third.product.key));
  mmci_wisdom_release(a);
  mmci_wisdom_release(b);

  /* The file is deleted, and begun anew by another. */
  char extra[128];
  snprintf(extra, sizeof extra, "%s-wal", f->path);
  unlink(extra);
  snprintf(extra, sizeof extra, "%s-shm", f->path);
  unlink(extra);
  unlink(f->path);
  a = acquire(f, f->wisdom, &f->here);
  assert_null(mmci_wisdom_find(a, &third.product.key));
  mmci_wisdom_release(a);
  assert_int_equal(mmci_wisdom_put(other, &second, &f->error), MMC_OK);
  a = acquire(f, f->wisdom, &f->here);
  assert_non_null(mmci_wisdom_find(a, &second.product.key));
  assert_null(mmci_wisdom_find(a, &first.product.key));
  mmci_wisdom_release(a);
  mmci_wisdom_destroy(other);
}

typedef struct thread_work {
  fixture *f;
  int number;
  bool failed;
} thread_work;

enum { THREADS = 4, ROUNDS = 30 };

/* Puts its own products and looks up everybody's. */
static void *put_and_look_up(void *user) {
  thread_work *work = user;
  fixture *f = work->f;
  for (int64_t r = 1; r <= ROUNDS; r++) {
    mmci_wisdom_record record = test_product(&f->here, work->number * ROUNDS + r);
    mmci_wisdom_table *table;
    if (mmci_wisdom_put(f->wisdom, &record, NULL) != MMC_OK ||
        mmci_wisdom_acquire(f->wisdom, &f->here, &table, NULL) != MMC_OK) {
      work->failed = true;
      return NULL;
    }
    const mmci_wisdom_product *found = mmci_wisdom_find(table, &record.product.key);
    work->failed = work->failed || found == NULL || found->seconds != record.product.seconds;
    mmci_wisdom_release(table);
  }
  return NULL;
}

static void threads_share_a_store(void **state) {
  fixture *f = *state;
  pthread_t threads[THREADS];
  thread_work work[THREADS];
  for (int t = 0; t < THREADS; t++) {
    work[t] = (thread_work){.f = f, .number = t};
    assert_int_equal(pthread_create(&threads[t], NULL, put_and_look_up, &work[t]), 0);
  }
  for (int t = 0; t < THREADS; t++) {
    pthread_join(threads[t], NULL);
    assert_false(work[t].failed);
  }
  assert_int_equal(count_records(f->wisdom), THREADS * ROUNDS);
}

/* ---- where it lies ------------------------------------------------------------------------- */

static void expect_path(const char *path, const char *expected) {
  mmci_wisdom *wisdom;
  assert_int_equal(mmci_wisdom_create(path, &wisdom, NULL), MMC_OK);
  assert_string_equal(mmci_wisdom_path(wisdom), expected);
  mmci_wisdom_destroy(wisdom);
}

static void expect_no_store(const char *message) {
  mmci_wisdom *wisdom;
  mmci_error error = {0};
  assert_int_equal(mmci_wisdom_create(NULL, &wisdom, NULL), MMC_OK);
  assert_string_equal(mmci_wisdom_path(wisdom), "");
  int64_t count = 0;
  assert_int_equal(mmci_wisdom_walk(wisdom, NULL, count_one, &count, NULL, &error),
                   MMC_E_UNSUPPORTED);
  assert_string_equal(error.text, message);
  mmci_fingerprint fingerprint = test_fingerprint("this one");
  mmci_wisdom_record record = test_product(&fingerprint, 1);
  assert_int_equal(mmci_wisdom_put(wisdom, &record, &error), MMC_E_UNSUPPORTED);
  mmci_wisdom_destroy(wisdom);
}

static void the_environment_says_where(void **state) {
  (void)state;
  setenv("MMCHAIN_WISDOM", "/x/y.db", 1);
  setenv("XDG_CACHE_HOME", "/cache", 1);
  setenv("HOME", "/home/u", 1);
  expect_path(NULL, "/x/y.db");
  expect_path("/given", "/given");
  setenv("MMCHAIN_WISDOM", "", 1);
  expect_no_store("no wisdom store: the path given is empty");
  unsetenv("MMCHAIN_WISDOM");
  expect_path(NULL, "/cache/mmchain/wisdom.db");
  setenv("XDG_CACHE_HOME", "relative", 1); /* counts as not set */
  expect_path(NULL, "/home/u/.cache/mmchain/wisdom.db");
  unsetenv("XDG_CACHE_HOME");
  expect_path(NULL, "/home/u/.cache/mmchain/wisdom.db");
  setenv("HOME", "", 1);
  expect_no_store(
      "no wisdom store: expected MMCHAIN_WISDOM to be set, or XDG_CACHE_HOME or HOME to an "
      "absolute path");
  unsetenv("HOME");
  expect_no_store(
      "no wisdom store: expected MMCHAIN_WISDOM to be set, or XDG_CACHE_HOME or HOME to an "
      "absolute path");
  char here[512], expected[600];
  assert_non_null(getcwd(here, sizeof here));
  snprintf(expected, sizeof expected, "%s/:memory:", here);
  expect_path(":memory:", expected);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_store, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(an_absent_store_is_empty_and_stays_absent),
      TEST(what_is_put_is_found),
      TEST(keys_differ_in_every_part),
      TEST(putting_again_replaces),
      TEST(what_is_out_of_range_is_refused),
      TEST(only_the_very_same_fingerprint_is_used),
      TEST(fingerprints_hold_printable_text_only),
      TEST(forgetting_follows_the_filter),
      TEST(progress_is_found_by_job_and_unit),
      TEST(walking_follows_the_filter),
      TEST(what_a_callback_says_ends_the_call),
      TEST(output_that_fails_is_told),
      TEST(what_is_wrong_in_an_import_is_told),
      TEST(what_is_shown_is_summed_up),
      TEST(look_ups_find_what_is_there_among_many),
      TEST(tables_follow_the_file),
      TEST(threads_share_a_store),
      TEST(the_environment_says_where),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

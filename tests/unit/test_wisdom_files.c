/* test_wisdom_files.c: files that are no sound store: corrupt, truncated, foreign, of the future,
 * not to be read or written. What they hold is never used, what is not ours never touched. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../wisdom_fixture.h"
#include "wisdom/place.h"

enum { PRODUCTS = 200 };

/* A sound store of PRODUCTS products, an array and a fact. */
static void make_store(fixture *f) {
  mmci_wisdom *wisdom = store(f);
  for (int64_t m = 1; m <= PRODUCTS; m++) assert_int_equal(put_product(f, wisdom, m), MMC_OK);
  mmci_wisdom_record array = test_array(&f->here), fact = test_fact(&f->here, "launch_s", 1e-6);
  assert_int_equal(mmci_wisdom_put(wisdom, &array, NULL), MMC_OK);
  assert_int_equal(mmci_wisdom_put(wisdom, &fact, NULL), MMC_OK);
  mmci_wisdom_destroy(wisdom);
}

static void write_file(const char *path, const void *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  fclose(file);
}

/* The bytes of a file, to be freed. */
static unsigned char *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  unsigned char *bytes = malloc(*size + 1);
  assert_non_null(bytes);
  assert_int_equal(fread(bytes, 1, *size, file), *size);
  fclose(file);
  return bytes;
}

static void sql(fixture *f, const char *text) {
  sqlite3 *db;
  char *message = NULL;
  assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
  if (sqlite3_exec(db, text, NULL, NULL, &message) != SQLITE_OK) fail_msg("%s", message);
  sqlite3_close(db);
}

/* Reading says what is wrong, so does writing, and the file stays as it is. */
static void expect_left_alone(fixture *f, mmc_status status, const char *reading,
                              const char *writing) {
  size_t before_size = 0, after_size = 0;
  unsigned char *before = read_file(f->path, &before_size);
  mmci_wisdom *wisdom = store(f);
  int64_t count = 0;
  assert_int_equal(mmci_wisdom_walk(wisdom, NULL, count_one, &count, NULL, &f->error), status);
  if (strstr(f->error.text, reading) == NULL)
    fail_msg("expected '%s', got '%s'", reading, f->error.text);
  assert_int_equal(put_product(f, wisdom, 1), status);
  if (strstr(f->error.text, writing) == NULL)
    fail_msg("expected '%s', got '%s'", writing, f->error.text);
  mmci_wisdom_table *table;
  assert_int_equal(mmci_wisdom_acquire(wisdom, &f->here, &table, NULL), status);
  mmci_wisdom_destroy(wisdom);
  unsigned char *after = read_file(f->path, &after_size);
  assert_int_equal(before_size, after_size);
  assert_memory_equal(before, after, after_size);
  free(before);
  free(after);
}

/* The first call, which reads or writes, renames the file and begins a new one. */
static void expect_set_aside_by(fixture *f, bool reading) {
  size_t before_size = 0, after_size = 0;
  unsigned char *before = read_file(f->path, &before_size);
  mmci_wisdom *wisdom = store(f);
  mmci_wisdom_table *table;
  if (reading) {
    if (mmci_wisdom_acquire(wisdom, &f->here, &table, &f->error) != MMC_OK)
      fail_msg("%s", f->error.text);
    mmci_wisdom_release(table);
  }
  if (put_product(f, wisdom, 7) != MMC_OK) fail_msg("%s", f->error.text);
  assert_int_equal(count_records(wisdom), 1);
  char notice[512], aside[128];
  mmci_wisdom_notice(wisdom, notice, sizeof notice);
  assert_non_null(strstr(notice, "was corrupt and is now called so with .corrupt-1 after it"));
  snprintf(aside, sizeof aside, "%s.corrupt-1", f->path);
  unsigned char *after = read_file(aside, &after_size);
  assert_int_equal(before_size, after_size);
  assert_memory_equal(before, after, after_size);
  free(before);
  free(after);
  mmci_wisdom_destroy(wisdom);
  assert_int_equal(rename(aside, f->path), 0);
}

static void expect_set_aside(fixture *f) {
  expect_set_aside_by(f, true);
  expect_set_aside_by(f, false);
}

/* ---- files that are ours, broken ----------------------------------------------------------- */

static void an_empty_file_becomes_a_store(void **state) {
  fixture *f = *state;
  write_file(f->path, "", 0);
  mmci_wisdom *wisdom = store(f);
  assert_int_equal(count_records(wisdom), 0);
  assert_int_equal(put_product(f, wisdom, 1), MMC_OK);
  assert_int_equal(count_records(wisdom), 1);
  mmci_wisdom_destroy(wisdom);
}

static void a_truncated_store_is_set_aside(void **state) {
  fixture *f = *state;
  make_store(f);
  assert_int_equal(truncate(f->path, 8192), 0);
  expect_set_aside(f);
}

static void a_store_cut_inside_a_page_is_set_aside(void **state) {
  fixture *f = *state;
  make_store(f);
  assert_int_equal(truncate(f->path, 10000), 0);
  expect_set_aside(f);
}

static void a_store_with_other_tables_is_set_aside(void **state) {
  fixture *f = *state;
  make_store(f);
  sql(f, "CREATE TRIGGER t AFTER INSERT ON product BEGIN DELETE FROM fact; END");
  expect_set_aside(f);
}

static void a_store_without_tables_is_set_aside(void **state) {
  fixture *f = *state;
  make_store(f);
  sql(f,
      "DROP TABLE product; DROP TABLE fact; DROP TABLE progress; DROP TABLE array;"
      "DROP TABLE fingerprint");
  expect_set_aside(f);
}

/* The tables of a store whose version is not what it says, one table too few. */
static void a_store_of_no_version_is_set_aside(void **state) {
  fixture *f = *state;
  make_store(f);
  sql(f, "PRAGMA user_version = 0");
  expect_set_aside(f);
  sql(f, "PRAGMA user_version = 1; DROP TABLE array");
  expect_set_aside(f);
}

static void a_view_for_a_table_is_set_aside(void **state) {
  fixture *f = *state;
  make_store(f);
  sql(f,
      "DROP TABLE fact; CREATE VIEW fact AS WITH RECURSIVE c(x) AS "
      "(SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS fingerprint, x AS name FROM c");
  expect_set_aside(f);
}

/* In the usual place everything is ours, even what no longer says so. */
static void garbage_in_the_usual_place_is_set_aside(void **state) {
  fixture *f = *state;
  setenv("XDG_CACHE_HOME", f->directory, 1);
  unsetenv("MMCHAIN_WISDOM");
  char directory[96];
  snprintf(directory, sizeof directory, "%s/mmchain", f->directory);
  assert_int_equal(mkdir(directory, 0777), 0);
  snprintf(f->path, sizeof f->path, "%s/mmchain/wisdom.db", f->directory);
  for (int t = 1; t <= 3; t++) {
    char garbage[5000];
    uint64_t seed = (uint64_t)t;
    for (size_t i = 0; i < sizeof garbage; i++) garbage[i] = (char)random_below(&seed, 256);
    write_file(f->path, garbage, t == 2 ? 3 : sizeof garbage);
    mmci_wisdom *wisdom = NULL;
    assert_int_equal(mmci_wisdom_create(NULL, &wisdom, NULL), MMC_OK);
    assert_string_equal(mmci_wisdom_path(wisdom), f->path);
    assert_int_equal(count_records(wisdom), 0);
    if (put_product(f, wisdom, 1) != MMC_OK) fail_msg("%s", f->error.text);
    assert_int_equal(count_records(wisdom), 1);
    mmci_wisdom_destroy(wisdom);
    char aside[128];
    snprintf(aside, sizeof aside, "%s.corrupt-%d", f->path, t);
    assert_int_equal(access(aside, F_OK), 0);
  }
  unsetenv("XDG_CACHE_HOME");
}

static void forgetting_sets_a_corrupt_store_aside(void **state) {
  fixture *f = *state;
  make_store(f);
  assert_int_equal(truncate(f->path, 8192), 0);
  mmci_wisdom *wisdom = store(f);
  int64_t count = -1;
  assert_int_equal(mmci_wisdom_forget(wisdom, NULL, &count, &f->error), MMC_OK);
  assert_int_equal(count, 0);
  assert_int_equal(count_records(wisdom), 0);
  mmci_wisdom_destroy(wisdom);
}

/* Two stores of one process, and the log of a killed one: all find the new file. */
static void a_log_beside_a_corrupt_store_goes_with_it(void **state) {
  fixture *f = *state;
  make_store(f);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    mmci_wisdom *wisdom = store(f);
    if (put_product(f, wisdom, 5) != MMC_OK) _exit(1);
    _exit(0); /* without closing: the log stays */
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  char log[128];
  struct stat found;
  snprintf(log, sizeof log, "%s-wal", f->path);
  assert_int_equal(stat(log, &found), 0);
  assert_true(found.st_size > 0);
  FILE *file = fopen(f->path, "r+b");
  assert_non_null(file);
  fwrite("nothing at all of any kind", 1, 20, file); /* the header, but for its mark */
  fclose(file);
  mmci_wisdom *first = store(f), *second = store(f);
  assert_int_equal(put_product(f, first, 1), MMC_OK);
  assert_int_equal(put_product(f, second, 2), MMC_OK);
  assert_int_equal(count_records(first), 2);
  char aside[128];
  snprintf(aside, sizeof aside, "%s.corrupt-1-wal", f->path);
  assert_int_equal(access(aside, F_OK), 0);
  snprintf(aside, sizeof aside, "%s.corrupt-2", f->path);
  assert_int_equal(access(aside, F_OK), -1);
  mmci_wisdom_destroy(first);
  mmci_wisdom_destroy(second);
}

/* One that has the file open, and comes to writing after another has set it aside, leaves the new
 * file alone. */
static void what_is_set_aside_already_is_not_again(void **state) {
  fixture *f = *state;
  make_store(f);
  mmci_wisdom *first = store(f), *second = store(f);
  assert_int_equal(count_records(second), PRODUCTS + 2);
  assert_int_equal(truncate(f->path, 8192), 0);
  assert_int_equal(put_product(f, first, 1), MMC_OK);
  assert_int_equal(put_product(f, second, 2), MMC_OK);
  assert_int_equal(count_records(first), 2);
  char aside[128], notice[512];
  snprintf(aside, sizeof aside, "%s.corrupt-2", f->path);
  assert_int_equal(access(aside, F_OK), -1);
  assert_string_equal(mmci_wisdom_notice(second, notice, sizeof notice), "");
  mmci_wisdom_destroy(first);
  mmci_wisdom_destroy(second);
}

/* Bytes changed anywhere: whatever a look-up still finds is what was put. */
static void changed_bytes_never_give_wrong_records(void **state) {
  fixture *f = *state;
  make_store(f);
  size_t size = 0;
  unsigned char *good = read_file(f->path, &size);
  unsigned char *bad = malloc(size);
  assert_non_null(bad);
  int found_all = 0, found_fewer = 0, failed = 0;
  for (uint64_t seed = 1; seed <= 400; seed++) {
    uint64_t random = seed;
    memcpy(bad, good, size);
    for (int64_t b = 1 + random_below(&random, 20); b > 0; b--)
      bad[random_below(&random, (int64_t)size)] = (unsigned char)random_below(&random, 256);
    write_file(f->path, bad, size);
    mmci_wisdom *wisdom = store(f);
    mmci_wisdom_table *table;
    if (mmci_wisdom_acquire(wisdom, &f->here, &table, NULL) != MMC_OK) {
      failed++;
    } else {
      int found = 0;
      for (int64_t m = 1; m <= PRODUCTS; m++) {
        mmci_wisdom_record wanted = test_product(&f->here, m);
        const mmci_wisdom_product *product = mmci_wisdom_find(table, &wanted.product.key);
        if (product == NULL) continue;
        found++;
        if (strcmp(product->recipe, wanted.product.recipe) != 0 ||
            product->seconds != wanted.product.seconds ||
            product->plain_seconds != wanted.product.plain_seconds || !isnan(product->joules))
          fail_msg("seed %d: product %d is wrong", (int)seed, (int)m);
      }
      const mmci_wisdom_array *array =
          mmci_wisdom_find_array(table, MMC_OP_N, MMC_OP_T, MMCI_WISDOM_ENERGY);
      if (array != NULL) assert_memory_equal(array->grid.values, test_values, sizeof test_values);
      if (found == PRODUCTS)
        found_all++;
      else
        found_fewer++;
      mmci_wisdom_release(table);
    }
    /* Writing works, or says why not. */
    if (put_product(f, wisdom, 1) != MMC_OK) assert_true(f->error.text[0] != '\0');
    mmci_wisdom_destroy(wisdom);
    char path[128];
    static const char *const endings[] = {"-wal", "-shm", ".corrupt-1", ".corrupt-1-wal"};
    for (size_t e = 0; e < 4; e++) {
      snprintf(path, sizeof path, "%s%s", f->path, endings[e]);
      unlink(path);
    }
  }
  free(good);
  free(bad);
  print_message("all %d, fewer %d, failed %d\n", found_all, found_fewer, failed);
  assert_true(found_fewer > 0 && failed > 0);
}

/* Rows that only a hand could have written. */
static void rows_out_of_range_are_passed_over(void **state) {
  fixture *f = *state;
  make_store(f);
  sql(f,
      "UPDATE product SET seconds = -1 WHERE m = 1;"
      "UPDATE product SET recipe = 'split m 3' WHERE m = 2;" /* not as its checksum says */
      "UPDATE product SET recipe = x'00' WHERE m = 3;"
      "UPDATE product SET seconds = 'soon' WHERE m = 4;"
      "UPDATE product SET seconds = 9e999 WHERE m = 5;"
      "UPDATE product SET seconds = NULL WHERE m = 6;"
      "UPDATE product SET checksum = NULL WHERE m = 7;"
      "UPDATE product SET recipe = 'split' || char(0) || 'm 2' WHERE m = 8;"
      "UPDATE product SET k = 0 WHERE m = 9;"
      "UPDATE product SET op_a = 'Q' WHERE m = 10;"
      "UPDATE product SET recipe = replace(hex(zeroblob(500000)), '0', 'r') WHERE m = 11;"
      "UPDATE array SET grid = substr(grid, 1, 50);"
      "UPDATE fact SET number = 5;"
      "INSERT INTO fingerprint VALUES(77, 'blas', char(10), '', '', '1', 'f32', 'native');"
      "INSERT INTO product SELECT 99, m, k, n, op_a, op_b, objective, recipe, seconds, spread,"
      " plain_seconds, joules, plain_joules, watts, source, measured_at, checksum"
      " FROM product WHERE m = 12");
  mmci_wisdom *wisdom = store(f);
  int64_t count = 0, damaged = 0;
  assert_int_equal(mmci_wisdom_walk(wisdom, NULL, count_one, &count, &damaged, &f->error), MMC_OK);
  assert_int_equal(count, PRODUCTS - 11);
  assert_int_equal(damaged, 11 + 1 + 1 + 1);
  mmci_wisdom_table *table;
  assert_int_equal(mmci_wisdom_acquire(wisdom, &f->here, &table, &f->error), MMC_OK);
  for (int64_t m = 1; m <= 12; m++) {
    mmci_wisdom_key key = {.m = m, .k = 2, .n = 3};
    if ((mmci_wisdom_find(table, &key) != NULL) != (m == 12)) fail_msg("product %d", (int)m);
  }
  assert_null(mmci_wisdom_find_array(table, MMC_OP_N, MMC_OP_T, MMCI_WISDOM_ENERGY));
  assert_null(mmci_wisdom_find_fact(table, "launch_s"));
  mmci_wisdom_release(table);
  /* Putting mends. */
  assert_int_equal(put_product(f, wisdom, 2), MMC_OK);
  count = 0;
  assert_int_equal(mmci_wisdom_walk(wisdom, NULL, count_one, &count, &damaged, &f->error), MMC_OK);
  assert_int_equal(count, PRODUCTS - 10);
  assert_int_equal(mmci_wisdom_forget(wisdom, NULL, NULL, &f->error), MMC_OK);
  assert_int_equal(mmci_wisdom_walk(wisdom, NULL, count_one, &count, &damaged, &f->error), MMC_OK);
  assert_int_equal(damaged, 0);
  mmci_wisdom_destroy(wisdom);
}

/* ---- files that are not ours --------------------------------------------------------------- */

/* Columns of other types than theirs, and grids whose words do not add up. */
static void rows_of_other_types_are_passed_over(void **state) {
  fixture *f = *state;
  static const char *const grids[] = {"NULL",
                                      "x''",
                                      "zeroblob(25)",
                                      "zeroblob(24)",
                                      "x'0100000000000000' || x'0000000000000080' || zeroblob(40)",
                                      "grid || zeroblob(8)"};
  enum { GRIDS = sizeof grids / sizeof grids[0] };
  for (int g = 0; g < GRIDS; g++) {
    char change[200];
    make_store(f);
    snprintf(change, sizeof change, "UPDATE array SET grid = CAST(%s AS BLOB)", grids[g]);
    sql(f, change);
    sql(f,
        "UPDATE product SET op_a = x'4E' WHERE m = 1; UPDATE product SET op_b = 5 WHERE m = 2;"
        "UPDATE product SET objective = 1.5 WHERE m = 3;"
        "UPDATE product SET objective = 'beauty' WHERE m = 4;"
        "UPDATE product SET source = NULL WHERE m = 5;"
        "UPDATE product SET measured_at = 'then' WHERE m = 6;"
        "UPDATE product SET measured_at = -1 WHERE m = 7;"
        "INSERT INTO fingerprint VALUES(77, 'blas', NULL, '', '', '1', 'f32', 'native');"
        "INSERT INTO fingerprint VALUES(78, 'blas', hex(zeroblob(80)), '', '', '1', 'f32', '');"
        "INSERT INTO fingerprint VALUES(79, 'blas', x'00', '', '', '1', 'f32', 'native');");
    mmci_wisdom *wisdom = store(f);
    int64_t count = 0, damaged = 0;
    assert_int_equal(mmci_wisdom_walk(wisdom, NULL, count_one, &count, &damaged, &f->error),
                     MMC_OK);
    assert_int_equal(count, PRODUCTS - 7 + 1);
    assert_int_equal(damaged, 7 + 1 + 3);
    text_buffer text = {0};
    assert_int_equal(mmci_wisdom_write(wisdom, MMC_TEXT, NULL, NULL, text_write, &text, NULL),
                     MMC_OK);
    assert_non_null(strstr(text.bytes, "\n11 damaged records passed over\n"));
    free(text.bytes);
    mmci_wisdom_destroy(wisdom);
    assert_int_equal(unlink(f->path), 0);
  }
  make_store(f);
  sql(f, "UPDATE fact SET number = 5");
  mmci_wisdom *wisdom = store(f);
  text_buffer text = {0};
  assert_int_equal(mmci_wisdom_write(wisdom, MMC_TEXT, NULL, NULL, text_write, &text, NULL),
                   MMC_OK);
  assert_non_null(strstr(text.bytes, "\n1 damaged record passed over\n"));
  free(text.bytes);
  mmci_wisdom_destroy(wisdom);
}

/* A thousand names are tried; one that is too long for a name beside it is none. */
static void a_corrupt_store_that_cannot_be_set_aside_stays(void **state) {
  fixture *f = *state;
  enum { NAMES = 1000 };
  char name[128];
  make_store(f);
  assert_int_equal(truncate(f->path, 8192), 0);
  for (int n = 1; n <= NAMES; n++) {
    snprintf(name, sizeof name, "%s.corrupt-%d", f->path, n);
    write_file(name, "", 0);
  }
  mmci_wisdom *wisdom = store(f);
  assert_int_equal(put_product(f, wisdom, 1), MMC_E_IO);
  assert_non_null(strstr(f->error.text, "no name is left for setting it aside"));
  mmci_wisdom_destroy(wisdom);
  size_t size;
  free(read_file(f->path, &size));
  assert_int_equal(size, 8192);
  snprintf(name, sizeof name, "%s.corrupt-%d", f->path, NAMES / 2);
  assert_int_equal(unlink(name), 0);
  wisdom = store(f);
  assert_int_equal(put_product(f, wisdom, 1), MMC_OK);
  assert_int_equal(access(name, F_OK), 0);
  mmci_wisdom_destroy(wisdom);
  static char longest[PATH_MAX];
  memset(longest, 'x', sizeof longest - 10);
  longest[0] = '/';
  int number = 0;
  assert_int_equal(mmci_place_set_aside(longest, &number, &f->error), MMC_E_IO);
  assert_int_equal(number, 0);
}

static void text_in_a_given_place_is_left_alone(void **state) {
  fixture *f = *state;
  static const char thesis[] = "Chapter 1. It was a dark and stormy night, and all chains hung.\n";
  write_file(f->path, thesis, sizeof thesis);
  expect_left_alone(f, MMC_E_FORMAT, "corrupt: file is not a database",
                    "not a wisdom store, left as it is");
}

static void the_database_of_another_is_left_alone(void **state) {
  fixture *f = *state;
  sql(f, "CREATE TABLE precious(x); INSERT INTO precious VALUES(1)");
  expect_left_alone(f, MMC_E_FORMAT, "the database of another program",
                    "the database of another program");
  sql(f, "DROP TABLE precious; PRAGMA user_version = 7");
  expect_left_alone(f, MMC_E_FORMAT, "the database of another program",
                    "the database of another program");
  sql(f, "PRAGMA application_id = 5; PRAGMA user_version = 0");
  expect_left_alone(f, MMC_E_FORMAT, "the database of another program",
                    "the database of another program");
}

static void a_store_of_the_future_is_left_alone(void **state) {
  fixture *f = *state;
  make_store(f);
  sql(f,
      "PRAGMA user_version = 2; CREATE TABLE news(x); PRAGMA wal_checkpoint(TRUNCATE);"
      "PRAGMA journal_mode = DELETE");
  expect_left_alone(f, MMC_E_FORMAT, "written by a newer mmchain (schema 2, this one knows 1)",
                    "written by a newer mmchain");
}

static void expect_no_file(fixture *f, const char *path, const char *message) {
  mmci_wisdom *wisdom = NULL;
  int64_t count = 0;
  assert_int_equal(mmci_wisdom_create(path, &wisdom, NULL), MMC_OK);
  assert_int_equal(mmci_wisdom_walk(wisdom, NULL, count_one, &count, NULL, &f->error), MMC_E_IO);
  if (strstr(f->error.text, message) == NULL)
    fail_msg("expected '%s', got '%s'", message, f->error.text);
  assert_int_equal(put_product(f, wisdom, 1), MMC_E_IO);
  assert_int_equal(mmci_wisdom_forget(wisdom, NULL, NULL, &f->error), MMC_E_IO);
  mmci_wisdom_destroy(wisdom);
}

static void what_is_no_file_is_refused(void **state) {
  fixture *f = *state;
  char path[128];
  expect_no_file(f, f->directory, "expected a file, got a directory");
  snprintf(path, sizeof path, "%s/pipe", f->directory);
  assert_int_equal(mkfifo(path, 0600), 0);
  expect_no_file(f, path, "expected a file, got something else");
  write_file(f->path, "", 0);
  snprintf(path, sizeof path, "%s/wisdom.db", f->path); /* under a file */
  expect_no_file(f, path, "Not a directory");
  snprintf(path, sizeof path, "%s/loop", f->directory);
  assert_int_equal(symlink(path, path), 0);
  expect_no_file(f, path, "symbolic links");
}

static void a_link_leads_to_the_store(void **state) {
  fixture *f = *state;
  make_store(f);
  char link[128];
  snprintf(link, sizeof link, "%s/link", f->directory);
  assert_int_equal(symlink(f->path, link), 0);
  mmci_wisdom *wisdom = NULL;
  assert_int_equal(mmci_wisdom_create(link, &wisdom, NULL), MMC_OK);
  assert_int_equal(count_records(wisdom), PRODUCTS + 2);
  mmci_wisdom_destroy(wisdom);

  /* What is set aside is the file, with its log, and the link leads to the new one. */
  assert_int_equal(truncate(f->path, 8192), 0);
  assert_int_equal(mmci_wisdom_create(link, &wisdom, NULL), MMC_OK);
  if (put_product(f, wisdom, 1) != MMC_OK) fail_msg("%s", f->error.text);
  assert_int_equal(count_records(wisdom), 1);
  mmci_wisdom_destroy(wisdom);
  struct stat status;
  assert_int_equal(lstat(link, &status), 0);
  assert_true(S_ISLNK(status.st_mode));
  char aside[128];
  snprintf(aside, sizeof aside, "%s.corrupt-1", f->path);
  assert_int_equal(access(aside, F_OK), 0);
  assert_int_equal(access(f->path, F_OK), 0);
}

/* ---- files not to be written --------------------------------------------------------------- */

/* Runs check in a child who is not root, for root may do everything. */
static void without_rights(fixture *f, int (*check)(fixture *f)) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    const uid_t nobody = 65534;
    if (getuid() == 0 && (setgroups(0, NULL) != 0 || setgid(nobody) != 0 || setuid(nobody) != 0))
      _exit(100);
    _exit(check(f));
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail_msg("the child ended with status %x", (unsigned)status);
}

/* All is read, nothing is written. 0, or the number of what went wrong. */
static int check_read_only(fixture *f) {
  mmci_wisdom *wisdom = NULL;
  mmci_wisdom_table *table;
  if (mmci_wisdom_create(f->path, &wisdom, NULL) != MMC_OK) return 1;
  if (count_records(wisdom) != PRODUCTS + 2) return 2;
  if (mmci_wisdom_acquire(wisdom, &f->here, &table, NULL) != MMC_OK) return 3;
  mmci_wisdom_key key = {.m = 5, .k = 2, .n = 3};
  if (mmci_wisdom_find(table, &key) == NULL) return 4;
  mmci_wisdom_release(table);
  if (put_product(f, wisdom, 1) != MMC_E_IO || strstr(f->error.text, "read-only") == NULL) {
    fprintf(stderr, "got '%s'\n", f->error.text);
    return 5;
  }
  if (mmci_wisdom_forget(wisdom, NULL, NULL, NULL) != MMC_E_IO) return 6;
  if (count_records(wisdom) != PRODUCTS + 2) return 7;
  mmci_wisdom_destroy(wisdom);
  return 0;
}

static void read_only_stores_are_read(void **state) {
  fixture *f = *state;
  make_store(f);
  assert_int_equal(chmod(f->directory, 0777), 0);
  assert_int_equal(chmod(f->path, 0444), 0);
  without_rights(f, check_read_only); /* the file */
  assert_int_equal(chmod(f->directory, 0555), 0);
  without_rights(f, check_read_only); /* and its directory */
  assert_int_equal(chmod(f->path, 0666), 0);
  without_rights(f, check_read_only); /* the directory alone */
  assert_int_equal(chmod(f->directory, 0777), 0);
}

/* 0, or the number of what went wrong, where no store can be made. */
static int check_not_made(fixture *f) {
  mmci_wisdom *wisdom = NULL;
  if (mmci_wisdom_create(f->path, &wisdom, NULL) != MMC_OK) return 1;
  if (count_records(wisdom) != 0) return 2;
  if (put_product(f, wisdom, 1) != MMC_E_IO) return 3;
  if (strstr(f->error.text, ": cannot make the file: Permission denied") == NULL) {
    fprintf(stderr, "got '%s'\n", f->error.text);
    return 4;
  }
  mmci_wisdom_destroy(wisdom);
  return 0;
}

static void a_store_that_cannot_be_made(void **state) {
  fixture *f = *state;
  assert_int_equal(chmod(f->directory, 0555), 0);
  without_rights(f, check_not_made);
  assert_int_equal(chmod(f->directory, 0777), 0);
}

static int check_log_in_the_way(fixture *f) {
  mmci_wisdom *wisdom = NULL;
  int64_t count = 0;
  if (mmci_wisdom_create(f->path, &wisdom, NULL) != MMC_OK) return 1;
  if (mmci_wisdom_walk(wisdom, NULL, count_one, &count, NULL, &f->error) != MMC_E_IO) return 2;
  if (strstr(f->error.text, "a log beside it must be written into it first") == NULL) return 3;
  mmci_wisdom_destroy(wisdom);
  return 0;
}

/* What a killed writer has committed is in its log: a file without it is not the store. */
static void a_log_that_cannot_be_read_is_no_loss(void **state) {
  fixture *f = *state;
  make_store(f);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    mmci_wisdom *wisdom = store(f);
    _exit(put_product(f, wisdom, PRODUCTS + 1) != MMC_OK);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  char index[128];
  snprintf(index, sizeof index, "%s-shm", f->path);
  assert_int_equal(unlink(index), 0);
  assert_int_equal(chmod(f->path, 0444), 0);
  assert_int_equal(chmod(f->directory, 0555), 0);
  without_rights(f, check_log_in_the_way);
  assert_int_equal(chmod(f->directory, 0777), 0);
  mmci_wisdom *wisdom = store(f);
  assert_int_equal(chmod(f->path, 0666), 0);
  assert_int_equal(count_records(wisdom), PRODUCTS + 3);
  mmci_wisdom_destroy(wisdom);
}

static int check_unreadable(fixture *f) {
  mmci_wisdom *wisdom = NULL;
  if (mmci_wisdom_create(f->path, &wisdom, NULL) != MMC_OK) return 1;
  mmc_status status = put_product(f, wisdom, 1);
  int64_t count = 0;
  if (status != MMC_E_IO || f->error.text[0] == '\0') return 2;
  if (mmci_wisdom_walk(wisdom, NULL, count_one, &count, NULL, &f->error) != MMC_E_IO) return 3;
  mmci_wisdom_destroy(wisdom);
  return 0;
}

static int check_no_directory(fixture *f) {
  mmci_wisdom *wisdom = NULL;
  snprintf(f->path, sizeof f->path, "%s/a/b/wisdom.db", f->directory);
  if (mmci_wisdom_create(f->path, &wisdom, NULL) != MMC_OK) return 1;
  if (count_records(wisdom) != 0) return 2;
  if (put_product(f, wisdom, 1) != MMC_E_IO) return 3;
  if (strstr(f->error.text, "cannot make the directory: Permission denied") == NULL) return 4;
  mmci_wisdom_destroy(wisdom);
  return 0;
}

static void what_may_not_be_touched_is_told(void **state) {
  fixture *f = *state;
  make_store(f);
  assert_int_equal(chmod(f->directory, 0777), 0);
  assert_int_equal(chmod(f->path, 0), 0);
  without_rights(f, check_unreadable);
  assert_int_equal(chmod(f->directory, 0555), 0);
  without_rights(f, check_no_directory);
  assert_int_equal(chmod(f->directory, 0), 0);
  without_rights(f, check_unreadable);
  assert_int_equal(chmod(f->directory, 0777), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(an_empty_file_becomes_a_store),
      TEST(a_truncated_store_is_set_aside),
      TEST(a_store_cut_inside_a_page_is_set_aside),
      TEST(a_store_with_other_tables_is_set_aside),
      TEST(a_store_without_tables_is_set_aside),
      TEST(a_store_of_no_version_is_set_aside),
      TEST(a_view_for_a_table_is_set_aside),
      TEST(garbage_in_the_usual_place_is_set_aside),
      TEST(forgetting_sets_a_corrupt_store_aside),
      TEST(a_log_beside_a_corrupt_store_goes_with_it),
      TEST(what_is_set_aside_already_is_not_again),
      TEST(changed_bytes_never_give_wrong_records),
      TEST(rows_out_of_range_are_passed_over),
      TEST(rows_of_other_types_are_passed_over),
      TEST(a_corrupt_store_that_cannot_be_set_aside_stays),
      TEST(text_in_a_given_place_is_left_alone),
      TEST(the_database_of_another_is_left_alone),
      TEST(a_store_of_the_future_is_left_alone),
      TEST(what_is_no_file_is_refused),
      TEST(a_link_leads_to_the_store),
      TEST(read_only_stores_are_read),
      TEST(a_store_that_cannot_be_made),
      TEST(a_log_that_cannot_be_read_is_no_loss),
      TEST(what_may_not_be_touched_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

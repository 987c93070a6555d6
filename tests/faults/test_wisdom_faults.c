/* test_wisdom_faults.c: a store whose writers are killed, compete, run out of disk or of memory.
 * What was committed is there afterwards, and the file is sound.
 *     MMCHAIN_TEST_LONG=1    each allocation of SQLite fails; each of the first, then fewer,
 * without */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../how_many.h"
#include "../wisdom_fixture.h"
#include "base/monotonic.h"
#include "wisdom/wisdom_pricing.h"

/* SQLite's own verdict on the file. */
static void expect_sound(fixture *f) {
  sqlite3 *db;
  sqlite3_stmt *statement;
  assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &statement, NULL),
                   SQLITE_OK);
  assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
  assert_string_equal((const char *)sqlite3_column_text(statement, 0), "ok");
  sqlite3_finalize(statement);
  sqlite3_close(db);
}

/* Products 1 to count are there, each as it was put, and nothing is damaged. */
static void expect_products(fixture *f, int64_t count) {
  mmci_wisdom *wisdom = store(f);
  mmci_wisdom_table *table;
  int64_t damaged = -1, all = 0;
  assert_int_equal(mmci_wisdom_walk(wisdom, NULL, count_one, &all, &damaged, NULL), MMC_OK);
  assert_int_equal(damaged, 0);
  assert_int_equal(mmci_wisdom_acquire(wisdom, &f->here, &table, NULL), MMC_OK);
  for (int64_t m = 1; m <= count; m++) {
    mmci_wisdom_record wanted = test_product(&f->here, m);
    const mmci_wisdom_product *found = mmci_wisdom_find(table, &wanted.product.key);
    if (found == NULL || found->seconds != wanted.product.seconds)
      fail_msg("product %d of %d is lost", (int)m, (int)count);
  }
  mmci_wisdom_release(table);
  mmci_wisdom_destroy(wisdom);
}

/* ---- killed -------------------------------------------------------------------------------- */

/* Puts first, first+1, ... for ever, and says so on the pipe after each. */
static void put_for_ever(fixture *f, int64_t first, int pipe_end) {
  mmci_wisdom *wisdom = NULL;
  if (mmci_wisdom_create(f->path, &wisdom, NULL) != MMC_OK) _exit(1);
  for (int64_t m = first;; m++) {
    if (put_product(f, wisdom, m) != MMC_OK) _exit(2);
    if (write(pipe_end, &m, sizeof m) != sizeof m) _exit(3);
  }
}

/* The last number on the pipe, after its writer is gone; last when there is none. */
static int64_t last_said(int pipe_end, int64_t last) {
  int64_t m;
  while (read(pipe_end, &m, sizeof m) == sizeof m) last = m;
  return last;
}

static void killed_writers_lose_nothing_committed(void **state) {
  fixture *f = *state;
  uint64_t seed = 99;
  int64_t committed = 0;
  for (int kill_number = 0; kill_number < 20; kill_number++) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      close(ends[0]);
      put_for_ever(f, committed + 1, ends[1]);
    }
    close(ends[1]);
    /* From before the file is made to many commits later. */
    usleep((useconds_t)random_below(&seed, kill_number % 3 == 0 ? 3000 : 60000));
    kill(child, SIGKILL);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    committed = last_said(ends[0], committed);
    close(ends[0]);
    if (access(f->path, F_OK) == 0) expect_sound(f);
    expect_products(f, committed);
  }
  print_message("%d committed in 20 lives\n", (int)committed);
  assert_true(committed > 20);
}

/* ---- competing ----------------------------------------------------------------------------- */

enum { WRITERS = 4, EACH = 60 };

static void writers_at_once_wait_for_each_other(void **state) {
  fixture *f = *state;
  pid_t children[WRITERS];
  double start = mmci_now_s();
  for (int w = 0; w < WRITERS; w++) {
    children[w] = fork();
    assert_true(children[w] >= 0);
    if (children[w] != 0) continue;
    mmci_wisdom *wisdom = NULL; /* all begin with no file there */
    double longest = 0;
    if (mmci_wisdom_create(f->path, &wisdom, NULL) != MMC_OK) _exit(1);
    for (int64_t i = 0; i < EACH; i++) {
      double before = mmci_now_s();
      if (put_product(f, wisdom, 1 + i * WRITERS + w) != MMC_OK) {
        fprintf(stderr, "writer %d: %s\n", w, f->error.text);
        _exit(2);
      }
      if (mmci_now_s() - before > longest) longest = mmci_now_s() - before;
    }
    mmci_wisdom_destroy(wisdom);
    _exit(longest < 5 ? 0 : 3);
  }
  for (int w = 0; w < WRITERS; w++) {
    int status;
    assert_int_equal(waitpid(children[w], &status, 0), children[w]);
    assert_int_equal(status, 0);
  }
  print_message("%d puts by %d in %.2f s\n", WRITERS * EACH, WRITERS, mmci_now_s() - start);
  expect_sound(f);
  expect_products(f, WRITERS * EACH);
}

/* Several find the same file corrupt: one sets it aside, all write to the new one. */
static void writers_set_a_corrupt_file_aside_once(void **state) {
  fixture *f = *state;
  for (int round = 0; round < 5; round++) {
    mmci_wisdom *wisdom = store(f);
    for (int64_t m = 1; m <= 100; m++) assert_int_equal(put_product(f, wisdom, m), MMC_OK);
    mmci_wisdom_destroy(wisdom);
    assert_int_equal(truncate(f->path, 8192), 0);
    pid_t children[WRITERS];
    for (int w = 0; w < WRITERS; w++) {
      children[w] = fork();
      assert_true(children[w] >= 0);
      if (children[w] != 0) continue;
      if (mmci_wisdom_create(f->path, &wisdom, NULL) != MMC_OK) _exit(1);
      for (int64_t i = 0; i < 5; i++)
        if (put_product(f, wisdom, 1 + i * WRITERS + w) != MMC_OK) {
          fprintf(stderr, "writer %d: %s\n", w, f->error.text);
          _exit(2);
        }
      mmci_wisdom_destroy(wisdom);
      _exit(0);
    }
    for (int w = 0; w < WRITERS; w++) {
      int status;
      assert_int_equal(waitpid(children[w], &status, 0), children[w]);
      assert_int_equal(status, 0);
    }
    char aside[128];
    snprintf(aside, sizeof aside, "%s.corrupt-%d", f->path, round + 1);
    assert_int_equal(access(aside, F_OK), 0);
    snprintf(aside, sizeof aside, "%s.corrupt-%d", f->path, round + 2);
    assert_int_equal(access(aside, F_OK), -1);
    expect_sound(f);
    expect_products(f, 5 * WRITERS);
    unlink(f->path);
  }
}

/* Who holds the file for long is named in the message; readers do not wait at all. */
static void a_held_store_can_be_read(void **state) {
  fixture *f = *state;
  mmci_wisdom *wisdom = store(f);
  assert_int_equal(put_product(f, wisdom, 1), MMC_OK);
  sqlite3 *db;
  assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
  double start = mmci_now_s();
  assert_int_equal(count_records(wisdom), 1);
  mmci_wisdom_table *table;
  assert_int_equal(mmci_wisdom_acquire(wisdom, &f->here, &table, NULL), MMC_OK);
  mmci_wisdom_release(table);
  assert_true(mmci_now_s() - start < 3);
  assert_int_equal(put_product(f, wisdom, 2), MMC_E_IO);
  assert_non_null(strstr(f->error.text, "held by another process for more than 5 s"));
  sqlite3_close(db);
  assert_int_equal(put_product(f, wisdom, 2), MMC_OK);
  mmci_wisdom_destroy(wisdom);
}

/* ---- no room ------------------------------------------------------------------------------- */

enum { FEWEST = 50 }; /* that fit */

/* Puts until the disk is full; how many went in, or less than 0 with the number of what is wrong.
 */
static int64_t put_until_full(fixture *f, mmci_wisdom *wisdom, int64_t first) {
  for (int64_t m = first; m < 100000; m++) {
    mmc_status status = put_product(f, wisdom, m);
    if (status == MMC_OK) continue;
    return status == MMC_E_IO && f->error.text[0] != '\0' ? m - 1 : -1;
  }
  return -2;
}

/* In a child: limits the size of files, fills, reads, lifts the limit, writes. */
static int fill_to_the_limit(fixture *f) {
  signal(SIGXFSZ, SIG_IGN);
  struct rlimit old;
  getrlimit(RLIMIT_FSIZE, &old);
  mmci_wisdom *wisdom = NULL;
  if (mmci_wisdom_create(f->path, &wisdom, NULL) != MMC_OK) return 1;
  int64_t count = 0;
  static const rlim_t limits[] = {0, 2000, 30000, 60000, 100000, 1000000};
  for (size_t l = 0; l < sizeof limits / sizeof limits[0]; l++) {
    struct rlimit limit = {.rlim_cur = limits[l], .rlim_max = old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    int64_t full = put_until_full(f, wisdom, count + 1);
    if (full < 0) {
      fprintf(stderr, "limit %d: %d, '%s'\n", (int)limits[l], (int)full, f->error.text);
      return 2;
    }
    setrlimit(RLIMIT_FSIZE, &old);
    count = full;
    if (count > 0 && count_records(wisdom) != count) return 3;
    if (put_product(f, wisdom, ++count) != MMC_OK) return 4;
  }
  mmci_wisdom_destroy(wisdom);
  return count < FEWEST ? 5 : 0;
}

static bool write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  if (file == NULL) return false;
  bool written = fputs(text, file) >= 0;
  return fclose(file) == 0 && written;
}

/* Leaves the file systems of the others, as root of a name space when not as root; false where that
 * is not allowed. */
static bool leave_mounts(void) {
  char users[64], groups[64];
  snprintf(users, sizeof users, "0 %d 1", (int)getuid());
  snprintf(groups, sizeof groups, "0 %d 1", (int)getgid());
  if (unshare(CLONE_NEWNS) != 0 &&
      (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 || !write_text("/proc/self/setgroups", "deny") ||
       !write_text("/proc/self/uid_map", users) || !write_text("/proc/self/gid_map", groups)))
    return false;
  return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

/* In a child: the same on a file system of its own. */
static int fill_the_disk(fixture *f) {
  if (!leave_mounts() || mount("none", f->directory, "tmpfs", 0, "size=500k") != 0) return 77;
  mmci_wisdom *wisdom = NULL;
  if (mmci_wisdom_create(f->path, &wisdom, NULL) != MMC_OK) return 1;
  int64_t count = put_until_full(f, wisdom, 1);
  if (count < 50 || strstr(f->error.text, "the disk is full") == NULL) {
    fprintf(stderr, "%d, '%s'\n", (int)count, f->error.text);
    return 2;
  }
  if (count_records(wisdom) != count) return 3;
  mmci_wisdom_destroy(wisdom);
  /* Opened anew on the full disk, where reading must do. */
  if (mmci_wisdom_create(f->path, &wisdom, NULL) != MMC_OK) return 1;
  if (count_records(wisdom) != count) return 4;
  if (put_until_full(f, wisdom, count + 1) < 0) return 5;
  if (mount("none", f->directory, "tmpfs", MS_REMOUNT, "size=2m") != 0) return 6;
  for (int64_t m = 1; m <= 10; m++)
    if (put_product(f, wisdom, 100000 + m) != MMC_OK) return 7;
  if (count_records(wisdom) < count + 10) return 8;
  mmci_wisdom_destroy(wisdom);
  expect_sound(f);
  return 0;
}

static int in_a_child(fixture *f, int (*work)(fixture *f)) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) _exit(work(f));
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static void files_that_may_not_grow_keep_what_they_have(void **state) {
  fixture *f = *state;
  assert_int_equal(in_a_child(f, fill_to_the_limit), 0);
  expect_sound(f);
  expect_products(f, FEWEST);
}

static void a_full_disk_is_told(void **state) {
  fixture *f = *state;
  int result = in_a_child(f, fill_the_disk);
  if (result == 77) {
    print_message("no mount of its own is allowed here\n");
    skip();
  }
  assert_int_equal(result, 0);
}

/* ---- no memory ----------------------------------------------------------------------------- */

static sqlite3_mem_methods usual;
static long allocations_left = -1; /* of SQLite, until one fails; negative: none does */
static long failures;

static bool fails(void) {
  if (allocations_left < 0 || allocations_left-- > 0) return false;
  failures++;
  return true;
}

static void *failing_malloc(int size) {
  return fails() ? NULL : usual.xMalloc(size);
}

static void *failing_realloc(void *old, int size) {
  return fails() ? NULL : usual.xRealloc(old, size);
}

/* Everything that a store is asked, with a record of each kind; a step that fails ends it. */
static mmc_status everything(fixture *f) {
  mmci_wisdom *wisdom = NULL;
  mmc_status status = mmci_wisdom_create(f->path, &wisdom, NULL);
  const mmci_wisdom_record records[] = {test_product(&f->here, 1), test_array(&f->here),
                                        test_fact(&f->here, "launch_s", 1e-6),
                                        test_progress(&f->here, "job", "unit")};
  mmci_wisdom_table *table = NULL;
  mmci_wisdom_pricing *pricing = NULL;
  text_buffer texts[3] = {{0}};
  int64_t count = 0;
  bool found = false;
  char result[MMCI_WISDOM_TEXT_MAX + 1];
  const mmci_facts facts = {0};
  static const char text[] =
      "mmchain wisdom 1\n"
      "fingerprint \"blas\" \"m\" \"\" \"\" \"0.1.0\" \"f32\" \"native\"\n"
      "product 1 2 3 N N time \"r\" 1 0 1 - - - \"measured\" 1\nend 1\n";
  text_input input = text_of(text);
  for (int r = 0; r < 4 && status == MMC_OK; r++)
    status = mmci_wisdom_put(wisdom, &records[r], &f->error);
  if (status == MMC_OK) status = mmci_wisdom_import(wisdom, text_read, &input, &f->error);
  if (status == MMC_OK)
    status = mmci_wisdom_find_progress(wisdom, &f->here, "job", "unit", &found, result, &f->error);
  if (status == MMC_OK) assert_true(found && strcmp(result, "0.25 s") == 0);
  if (status == MMC_OK) status = mmci_wisdom_acquire(wisdom, &f->here, &table, &f->error);
  if (status == MMC_OK) {
    assert_non_null(mmci_wisdom_find(table, &records[0].product.key));
    assert_non_null(mmci_wisdom_find_array(table, MMC_OP_N, MMC_OP_T, MMCI_WISDOM_ENERGY));
    status = mmci_wisdom_pricing_acquire(wisdom, &f->here, &facts, MMC_F32, MMCI_NATIVE, &pricing,
                                         &f->error);
  }
  if (status == MMC_OK)
    status = mmci_wisdom_write(wisdom, MMC_TEXT, NULL, NULL, text_write, &texts[0], &f->error);
  if (status == MMC_OK)
    status = mmci_wisdom_write(wisdom, MMC_JSON, NULL, NULL, text_write, &texts[1], &f->error);
  if (status == MMC_OK) status = mmci_wisdom_export(wisdom, text_write, &texts[2], &f->error);
  if (status == MMC_OK) status = mmci_wisdom_walk(wisdom, NULL, count_one, &count, NULL, &f->error);
  if (status == MMC_OK) assert_int_equal(count, 5);
  const mmci_wisdom_filter job = {.job = "job"};
  if (status == MMC_OK) status = mmci_wisdom_forget(wisdom, &job, &count, &f->error);
  if (status == MMC_OK) assert_int_equal(count, 1);
  if (status == MMC_OK) status = mmci_wisdom_forget(wisdom, NULL, &count, &f->error);
  if (status == MMC_OK) assert_int_equal(count, 4);
  for (int t = 0; t < 3; t++) free(texts[t].bytes);
  mmci_wisdom_pricing_release(pricing);
  mmci_wisdom_release(table);
  mmci_wisdom_destroy(wisdom);
  return status;
}

/* Which of SQLite's allocations fail: each for the first of them, then ever fewer, or all when
 * there is time for it. */
static long next_allocation(long k) {
  return is_in_full() ? k + 1 : k + 1 + k / 100;
}

/* Each of SQLite's allocations fails once; what was asked for fails with E_NOMEM or is done. */
static void allocations_of_sqlite_may_fail(void **state) {
  fixture *f = *state;
  int refused = 0;
  for (long k = 0;; k = next_allocation(k)) {
    failures = 0;
    allocations_left = k;
    f->error.text[0] = '\0';
    mmc_status status = everything(f);
    allocations_left = -1;
    if (status != MMC_OK && status != MMC_E_NOMEM)
      fail_msg("allocation %ld: %s (%s)", k, f->error.text, mmc_status_string(status));
    if (status != MMC_OK) refused++;
    if (access(f->path, F_OK) == 0) expect_sound(f);
    unlink(f->path);
    if (failures == 0) {
      assert_int_equal(status, MMC_OK);
      print_message("%ld allocations, %d refused\n", k, refused);
      assert_true(refused > 100);
      return;
    }
  }
}

/* The same while a store with a bad page is set aside and read from both ends: what is not done for
 * want of memory is done by the next call, and as much is kept. */
static void allocations_of_sqlite_may_fail_while_a_store_is_mended(void **state) {
  fixture *f = *state;
  enum { PRODUCTS = 150, PAGE = 4096 };
  /* Where memory fails, the check of pages of SQLite 3.46 reads what it never set, and crashes. */
  if (sqlite3_libversion_number() / 1000 == 3046) skip();
  int64_t expected = 0;
  size_t size = 0;
  mmci_wisdom *wisdom = store(f);
  for (int64_t m = 1; m <= PRODUCTS; m++) assert_int_equal(put_product(f, wisdom, m), MMC_OK);
  mmci_wisdom_record array = test_array(&f->here), fact = test_fact(&f->here, "launch_s", 1e-6);
  assert_int_equal(mmci_wisdom_put(wisdom, &array, NULL), MMC_OK);
  assert_int_equal(mmci_wisdom_put(wisdom, &fact, NULL), MMC_OK);
  mmci_wisdom_destroy(wisdom);
  FILE *file = fopen(f->path, "rb");
  static char bytes[1 << 18];
  assert_non_null(file);
  size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  assert_true(size > 5 * PAGE && size < sizeof bytes);
  bytes[size - 2 * PAGE] = 0; /* the kind of a page */
  for (long k = -1, told = 0;; k = next_allocation(k)) {
    file = fopen(f->path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    wisdom = store(f);
    int64_t count = 0;
    failures = 0;
    allocations_left = k; /* at first none fails */
    mmc_status status = mmci_wisdom_walk(wisdom, NULL, count_one, &count, NULL, &f->error);
    allocations_left = -1;
    if (status != MMC_OK && status != MMC_E_NOMEM && status != MMC_E_FORMAT)
      fail_msg("allocation %ld: %s (%s)", k, f->error.text, mmc_status_string(status));
    told += status != MMC_OK;
    count = count_records(wisdom);
    if (k < 0) expected = count;
    if (count != expected)
      fail_msg("allocation %ld: %d of %d records", k, (int)count, (int)expected);
    mmci_wisdom_destroy(wisdom);
    expect_sound(f);
    remove_directory(f->directory);
    assert_int_equal(mkdir(f->directory, 0700), 0);
    if (k >= 0 && failures == 0) {
      print_message("%ld allocations, %ld told; %d records kept\n", k, told, (int)expected);
      assert_true(told > 20 && expected > PRODUCTS / 4);
      return;
    }
  }
}

/* The same while a sound store is read: what SQLite says of a page that it had no memory for is not
 * that the file is corrupt, and the file keeps its name. */
static void a_sound_store_is_not_set_aside_for_want_of_memory(void **state) {
  fixture *f = *state;
  enum { PRODUCTS = 1000 }; /* more pages than SQLite takes memory for at once */
  char aside[128];
  snprintf(aside, sizeof aside, "%s.corrupt-1", f->path);
  mmci_wisdom *wisdom = store(f);
  for (int64_t m = 1; m <= PRODUCTS; m++) assert_int_equal(put_product(f, wisdom, m), MMC_OK);
  mmci_wisdom_destroy(wisdom);
  failures = 1;
  for (long k = 0; failures > 0; k++) {
    int64_t count = 0;
    failures = 0;
    wisdom = store(f);
    allocations_left = k;
    mmc_status status = mmci_wisdom_walk(wisdom, NULL, count_one, &count, NULL, &f->error);
    allocations_left = -1;
    mmci_wisdom_destroy(wisdom);
    if (access(aside, F_OK) == 0) fail_msg("allocation %ld: set aside", k);
    if (status != MMC_OK && status != MMC_E_NOMEM)
      fail_msg("allocation %ld: %s (%s)", k, f->error.text, mmc_status_string(status));
    if (status == MMC_OK) assert_int_equal(count, PRODUCTS);
  }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  sqlite3_config(SQLITE_CONFIG_GETMALLOC, &usual);
  sqlite3_mem_methods failing = usual;
  failing.xMalloc = failing_malloc;
  failing.xRealloc = failing_realloc;
  sqlite3_config(SQLITE_CONFIG_MALLOC, &failing);
  sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0);
  const struct CMUnitTest tests[] = {
      TEST(killed_writers_lose_nothing_committed),
      TEST(writers_at_once_wait_for_each_other),
      TEST(writers_set_a_corrupt_file_aside_once),
      TEST(a_held_store_can_be_read),
      TEST(files_that_may_not_grow_keep_what_they_have),
      TEST(a_full_disk_is_told),
      TEST(allocations_of_sqlite_may_fail),
      TEST(allocations_of_sqlite_may_fail_while_a_store_is_mended),
      TEST(a_sound_store_is_not_set_aside_for_want_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

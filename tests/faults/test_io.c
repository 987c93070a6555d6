/* test_io.c: calls of the system that fail, or do less than they were asked for, under files that
 * are read and written and under the place of the wisdom store: what no disk here can be made to
 * do.
 *
 * Linked with a copy of the library that calls faulty_write() and so on: tests/CMakeLists.txt. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../unit/npy_scratch.h"
#include "io/output_file.h"
#include "wisdom/place.h"

/* ---- what fails ------------------------------------------------------------------------------ */

/* The call that fails, how many of it go well before, how many fail then, and with what; where code
 * is 0, the call returns 0 and has done nothing. */
static struct {
  const char *name;
  int after, times, code, failed;
} fault;
static bool no_unnamed; /* files without a name are not to be had */

static void fail_calls(const char *name, int after, int times, int code) {
  fault.name = name;
  fault.after = after;
  fault.times = times;
  fault.code = code;
  fault.failed = 0;
}

/* Says whether this call of that name fails; errno is set then. */
static bool fails(const char *name) {
  if (fault.name == NULL || strcmp(fault.name, name) != 0 || fault.after-- > 0) return false;
  if (fault.failed == fault.times) return false;
  fault.failed++;
  errno = fault.code;
  return true;
}

#define RESULT(error) (fault.code != 0 ? (error) : 0)

ssize_t faulty_read(int file, void *bytes, size_t size);
ssize_t faulty_write(int file, const void *bytes, size_t size);
int faulty_fsync(int file);
int faulty_close(int file);
int faulty_fstat(int file, struct stat *out);
int faulty_fchmod(int file, mode_t mode);
int faulty_linkat(int from_at, const char *from, int to_at, const char *to, int flags);
int faulty_rename(const char *from, const char *to);
int faulty_open(const char *path, int flags, ...);
int faulty_access(const char *path, int mode);
int faulty_mkdir(const char *path, mode_t mode);
int faulty_flock(int file, int operation);
ssize_t faulty_getrandom(void *bytes, size_t size, unsigned flags);
void *faulty_realloc(void *old, size_t size);
void *faulty_malloc(size_t size);
void *faulty_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);

ssize_t faulty_read(int file, void *bytes, size_t size) {
  return fails("read") ? RESULT(-1) : read(file, bytes, size);
}
ssize_t faulty_write(int file, const void *bytes, size_t size) {
  return fails("write") ? RESULT(-1) : write(file, bytes, size);
}
int faulty_fsync(int file) {
  return fails("fsync") ? -1 : fsync(file);
}
int faulty_close(int file) { /* the file is closed whatever is said */
  int result = close(file);
  return fails("close") ? -1 : result;
}
int faulty_fstat(int file, struct stat *out) {
  return fails("fstat") ? -1 : fstat(file, out);
}
int faulty_fchmod(int file, mode_t mode) {
  return fails("fchmod") ? -1 : fchmod(file, mode);
}
int faulty_linkat(int from_at, const char *from, int to_at, const char *to, int flags) {
  return fails("linkat") ? -1 : linkat(from_at, from, to_at, to, flags);
}
int faulty_rename(const char *from, const char *to) {
  return fails("rename") ? -1 : rename(from, to);
}
int faulty_open(const char *path, int flags, ...) {
  const char *kind = (flags & O_TMPFILE) == O_TMPFILE ? "open unnamed"
                     : (flags & O_EXCL) != 0          ? "open new"
                     : (flags & O_DIRECTORY) != 0     ? "open directory"
                                                      : "open";
  if (no_unnamed && (flags & O_TMPFILE) == O_TMPFILE) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return fails(kind) ? -1 : open(path, flags, 0666);
}
int faulty_access(const char *path, int mode) {
  return fails("access") ? -1 : access(path, mode);
}
int faulty_mkdir(const char *path, mode_t mode) {
  return fails("mkdir") ? -1 : mkdir(path, mode);
}
int faulty_flock(int file, int operation) {
  return fails("flock") ? -1 : flock(file, operation);
}
ssize_t faulty_getrandom(void *bytes, size_t size, unsigned flags) {
  return fails("getrandom") ? -1 : getrandom(bytes, size, flags);
}
void *faulty_realloc(void *old, size_t size) {
  return fails("realloc") ? NULL : realloc(old, size);
}
void *faulty_malloc(size_t size) {
  return fails("malloc") ? NULL : malloc(size);
}
void *faulty_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
  return fails("mmap") ? MAP_FAILED : mmap(address, size, protection, flags, file, offset);
}

/* ---- writing --------------------------------------------------------------------------------- */

static mmc_status put(const char *content, mmci_error *error) {
  mmci_output_file *file = NULL;
  mmc_status status = mmci_output_file_create(scratch("file"), &file, error);
  if (status != MMC_OK) return status;
  status = mmci_output_file_write(file, content, strlen(content), error);
  if (status == MMC_OK) return mmci_output_file_commit(file, error);
  mmci_output_file_discard(file);
  return status;
}

static void assert_holds_file(const char *content) {
  char found[64] = "";
  int file = open(scratch("file"), O_RDONLY);
  assert_true(file >= 0);
  ssize_t size = read(file, found, sizeof found - 1);
  close(file);
  assert_true(size >= 0);
  assert_string_equal(found, content);
  assert_int_equal(entries_in(scratch_directory), 1);
}

typedef struct write_case {
  const char *name;
  int after, times, code;
  bool unnamed_fails;
  mmc_status expected;
  bool renamed; /* the new content is there although the call failed */
} write_case;

/* First one case with everything well, then one that fails: what is found is old or new. */
static void each_write(void **state) {
  (void)state;
  static const write_case cases[] = {
      {"write", 0, 1, EIO, false, MMC_E_IO, false},
      {"write", 0, 1, EINTR, false, MMC_OK, false},
      {"write", 0, 1, 0, false, MMC_E_IO, false},
      {"fsync", 0, 1, EIO, false, MMC_E_IO, false},
      {"fsync", 0, 1, EINVAL, false, MMC_OK, false},
      {"fsync", 0, 1, ENOTSUP, false, MMC_OK, false},
      {"fsync", 0, 2, EROFS, false, MMC_OK, false},
      {"fsync", 1, 1, EIO, false, MMC_E_IO, true},
      {"open directory", 0, 1, EACCES, false, MMC_OK, false},
      {"open directory", 0, 1, EIO, false, MMC_E_IO, true},
      {"close", 0, 1, EIO, false, MMC_E_IO, false},
      {"linkat", 0, 1, EIO, false, MMC_E_IO, false},
      {"linkat", 0, 3, EEXIST, false, MMC_OK, false},
      {"linkat", 0, 1000, EEXIST, false, MMC_E_IO, false},
      {"rename", 0, 1, EIO, false, MMC_E_IO, false},
      {"fstat", 0, 1, EIO, false, MMC_OK, false},
      {"fchmod", 0, 1, EPERM, false, MMC_E_IO, false},
      {"getrandom", 0, 1, EAGAIN, false, MMC_OK, false},
      {"access", 0, 1, ENOENT, false, MMC_OK, false}, /* no /proc: the file has a name at once */
      {"open unnamed", 0, 1, EOPNOTSUPP, false, MMC_OK, false},
      {"open new", 0, 1, EACCES, true, MMC_E_IO, false},
      {"open new", 0, 3, EEXIST, true, MMC_OK, false},
      {"open new", 0, 1000, EEXIST, true, MMC_E_IO, false},
      {"malloc", 0, 1, ENOMEM, false, MMC_E_NOMEM, false},
  };
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    const write_case *x = &cases[c];
    mmci_error error = {.text = ""};
    scratch_clear();
    fail_calls("", 0, 0, 0);
    assert_int_equal(put("old", NULL), MMC_OK);
    assert_int_equal(chmod(scratch("file"), 0604), 0);
    fail_calls(x->name, x->after, x->times, x->code);
    no_unnamed = x->unnamed_fails;
    mmc_status status = put("new", &error);
    assert_true(fault.failed > 0);
    fault.name = NULL;
    no_unnamed = false;
    if (status != x->expected)
      fail_msg("%s, error %d: %s", x->name, x->code, mmc_status_string(status));
    if (status == MMC_E_IO) assert_non_null(strstr(error.text, "cannot"));
    assert_holds_file(status == MMC_OK || x->renamed ? "new" : "old");
  }
}

static mmc_context *context;

/* ---- reading --------------------------------------------------------------------------------- */

static void write_npy(mmc_dtype dtype) {
  double numbers[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  mmc_matrix matrix = {.data = numbers, .rows = 2, .cols = 3};
  assert_int_equal(mmc_file_write(NULL, scratch("a.npy"), dtype, &matrix, 2), MMC_OK);
}

static void each_read(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int after, code;
    mmc_status expected;
  } cases[] = {
      {"open", 0, EIO, MMC_E_IO},
      {"fstat", 0, EIO, MMC_E_IO},
      {"mmap", 0, ENODEV, MMC_OK},
      {"mmap", 0, ENOMEM, MMC_E_NOMEM},
  };
  scratch_clear();
  fail_calls("", 0, 0, 0);
  write_npy(MMC_F64);
  assert_int_equal(mmc_context_create(NULL, &context), MMC_OK);
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    mmc_file *npy = NULL;
    fail_calls(cases[c].name, cases[c].after, 1, cases[c].code);
    mmc_status status = mmc_file_open(context, scratch("a.npy"), &npy);
    fault.name = NULL;
    if (status != cases[c].expected)
      fail_msg("%s, error %d: %s", cases[c].name, cases[c].code, mmc_status_string(status));
    if (status == MMC_OK) {
      mmc_matrix matrix = mmc_file_matrix(npy);
      assert_true(((const double *)matrix.data)[5] == 6);
    }
    mmc_file_destroy(npy);
  }
  mmc_context_destroy(context);
}

/* What cannot be mapped is read: interrupted, failing, and without memory. */
static void each_read_of_a_pipe(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int code;
    mmc_status expected;
  } cases[] = {{"read", EINTR, MMC_OK}, {"read", EIO, MMC_E_IO}, {"realloc", ENOMEM, MMC_E_NOMEM}};
  scratch_clear();
  write_npy(MMC_F64);
  assert_int_equal(mmc_context_create(NULL, &context), MMC_OK);
  char bytes[1000];
  int file = open(scratch("a.npy"), O_RDONLY);
  ssize_t size = read(file, bytes, sizeof bytes);
  close(file);
  assert_true(size > 128);
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    int ends[2];
    char path[64];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], bytes, (size_t)size), size);
    close(ends[1]);
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
    mmc_file *npy = NULL;
    fail_calls(cases[c].name, 0, 1, cases[c].code);
    mmc_status status = mmc_file_open(context, path, &npy);
    assert_int_equal(fault.failed, 1);
    fault.name = NULL;
    assert_int_equal(status, cases[c].expected);
    mmc_file_destroy(npy);
    close(ends[0]);
  }
  mmc_context_destroy(context);
}

/* ---- the place of the store ------------------------------------------------------------------ */

static void places(void **state) {
  (void)state;
  char path[SCRATCH_PATH_SIZE + 32];
  mmci_error error = {.text = ""};
  scratch_clear();
  snprintf(path, sizeof path, "%s", scratch("made/wisdom.db"));
  fail_calls("mkdir", 0, 1, EROFS); /* "/tmp" is there nevertheless */
  assert_int_equal(mmci_place_prepare(path, &error), MMC_OK);
  assert_int_equal(rmdir(scratch("made")), 0);
  fail_calls("mkdir", 0, 1000, EROFS);
  assert_int_equal(mmci_place_prepare(path, &error), MMC_E_IO);
  assert_non_null(strstr(error.text, "cannot make the directory"));
  fail_calls("flock", 0, 2, EINTR);
  int lock = mmci_place_lock(path);
  assert_int_equal(lock, -1); /* its directory is not there */
  snprintf(path, sizeof path, "%s", scratch("wisdom.db"));
  lock = mmci_place_lock(path);
  assert_true(lock >= 0);
  assert_int_equal(fault.failed, 2);
  mmci_place_unlock(lock);
  fail_calls("rename", 0, 1, EIO);
  int number = 0;
  assert_int_equal(mmci_place_set_aside(path, &number, &error), MMC_E_IO);
  assert_non_null(strstr(error.text, "cannot be renamed"));
  fault.name = NULL;
  assert_int_equal(mmci_place_set_aside(path, &number, &error), MMC_E_IO); /* there is none */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_write),
      cmocka_unit_test(each_read),
      cmocka_unit_test(each_read_of_a_pipe),
      cmocka_unit_test(places),
  };
  return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}

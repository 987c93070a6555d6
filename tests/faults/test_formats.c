/* test_formats.c: files of every format, written and read while each allocation fails once, and
 * written to callbacks that fail at their first, second, ... piece. What fails says E_NOMEM or
 * E_IO, leaves *out alone, and is right the next time.
 *
 * Linked with a copy of the library that calls failing_malloc() and so on: tests/CMakeLists.txt.
 * The modules are inside; what their own libraries allocate does not fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../failing_allocations.h"
#include "io/format.h"
#ifdef MMCI_JANSSON
#include <jansson.h>
#endif

extern const mmci_format mmci_format_hdf5, mmci_format_matlab;

static const struct {
  const char *path, *member;
  const mmci_format *format;
} formats[] = {
    {"test_formats.npy", NULL, &mmci_format_npy},
    {"test_formats.mtx", NULL, &mmci_format_matrix_market},
#ifdef MMCI_ZLIB
    {"test_formats.npz", "w", &mmci_format_npz},
#endif
#ifdef MMCI_JANSSON
    {"test_formats.safetensors", "w", &mmci_format_safetensors},
#endif
#ifdef MMCI_HDF5
    {"test_formats.h5", "a/w", &mmci_format_hdf5},
#endif
#ifdef MMCI_MATIO
    {"test_formats.mat", "w", &mmci_format_matlab},
#endif
};
enum { FORMATS = sizeof formats / sizeof formats[0], SIDE = 7 };

static double numbers[2 * SIDE * SIDE];

/* A matrix of numbers, column-major so that rows are collected; of complex numbers on request. */
static mmci_file_rows rows_of(mmc_dtype dtype) {
  mmc_matrix matrix = {.data = numbers, .rows = SIDE, .cols = SIDE, .layout = MMC_COL_MAJOR};
  mmci_file_rows rows;
  mmci_error error;
  for (int i = 0; i < 2 * SIDE * SIDE; i++) numbers[i] = 1.5 * i;
  assert_int_equal(mmci_file_rows_of_matrix(dtype, &matrix, 2, &rows, &error), MMC_OK);
  return rows;
}

/* Collects a file, unless it is the turn of a piece that fails; -1 means that none does. */
typedef struct collector {
  char bytes[1 << 16];
  size_t size;
  int pieces_left;
} collector;

static int collect(void *user, const char *bytes, size_t size) {
  collector *c = user;
  if (c->pieces_left == 0) return 1;
  c->pieces_left--;
  assert_true(c->size + size <= sizeof c->bytes);
  memcpy(c->bytes + c->size, bytes, size);
  c->size += size;
  return 0;
}

static void save(const char *path, const collector *c) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(c->bytes, 1, c->size, file), c->size);
  assert_int_equal(fclose(file), 0);
}

/* ---- writing ------------------------------------------------------------------------------- */

static void each_piece_fails_once(void **state) {
  (void)state;
  static collector whole, c;
  for (int f = 0; f < FORMATS; f++)
    for (int dtype = MMC_F64; dtype <= MMC_C128; dtype++) {
      mmci_error error = {0};
      mmci_file_rows rows = rows_of((mmc_dtype)dtype);
      whole = (collector){.pieces_left = -1};
      mmc_status status =
          formats[f].format->write(&rows, formats[f].member, collect, &whole, &error);
      if (status == MMC_E_ARG) continue; /* the format has no such dtype */
      assert_int_equal(status, MMC_OK);
      int pieces = 0;
      for (status = MMC_E_IO; status != MMC_OK; pieces++) {
        c = (collector){.pieces_left = pieces};
        status = formats[f].format->write(&rows, formats[f].member, collect, &c, &error);
        if (status != MMC_OK && status != MMC_E_IO)
          fail_msg("%s, piece %d: %s", formats[f].path, pieces, mmc_status_string(status));
        assert_true(c.size <= whole.size);
      }
      assert_true(pieces >= 2 && c.size == whole.size);
    }
}

static int writing, writing_dtype;

static mmc_status write_one(void) {
  static collector c;
  mmci_error error = {0};
  mmci_file_rows rows = rows_of((mmc_dtype)writing_dtype);
  c = (collector){.pieces_left = -1};
  return formats[writing].format->write(&rows, formats[writing].member, collect, &c, &error);
}

static mmc_status write_by_name(void) {
  mmci_error error = {0};
  mmci_file_rows rows = rows_of(MMC_F64);
  mmc_status status = mmci_file_check_output(NULL, formats[writing].path, &error);
  return status == MMC_OK ? mmci_file_write(NULL, formats[writing].path, &rows, &error) : status;
}

/* To a callback, and by name over a file that is there, of formats that are no modules. */
static void each_allocation_fails_once_while_writing(void **state) {
  (void)state;
  for (writing = 0; writing < FORMATS; writing++) {
    writing_dtype = MMC_F64;
    fail_each_allocation(write_one);
    writing_dtype = MMC_C128;
    if (write_one() == MMC_OK) fail_each_allocation(write_one);
    /* Whether the file may be replaced is not known where Jansson blames the file (below). */
    if (formats[writing].format->abi != 0 || strstr(formats[writing].path, "safetensors") != NULL)
      continue;
    unlink(formats[writing].path);
    assert_int_equal(write_by_name(), MMC_OK);
    fail_each_allocation(write_by_name);
    unlink(formats[writing].path);
  }
}

/* ---- reading ------------------------------------------------------------------------------- */

static const char *reading_path, *reading_member;
static const mmci_format *reading;
static bool blames_file; /* its library takes memory that is short for a fault of the file */

static mmc_status without_blame(mmc_status status) {
  bool blamed = blames_file && status == MMC_E_FORMAT && allocation_failures > 0;
  return blamed ? MMC_E_NOMEM : status;
}

static bool count(void *user, const char *member) {
  (void)member;
  ++*(int *)user;
  return true;
}

static mmc_status read_one(void) {
  mmci_error error = {0};
  mmci_file_array *array = (mmci_file_array *)&error;
  const mmci_file_name name = {.path = reading_path, .member = reading_member};
  mmc_status status = reading->open(&name, &array, &error);
  if (status != MMC_OK) {
    assert_ptr_equal(array, &error);
    return without_blame(status);
  }
  assert_int_equal(array->matrix.rows, SIDE);
  assert_non_null(array->matrix.data);
  mmci_file_array_destroy(array);
  int members = 0;
  if (reading->list == NULL) return MMC_OK;
  status = reading->list(reading_path, count, &members, &error);
  if (status == MMC_OK) assert_int_equal(members, 1);
  return without_blame(status);
}

static mmc_status read_by_name(void) {
  mmci_error error = {0};
  mmci_file_array *array;
  mmc_status status = mmci_file_open(NULL, reading_path, &array, &error);
  if (status == MMC_OK) mmci_file_array_destroy(array);
  return without_blame(status);
}

/* The elements of a file as they are, and of one whose bytes have to be turned or collected. */
static void each_allocation_fails_once_while_reading(void **state) {
  (void)state;
  static collector c;
  for (int f = 0; f < FORMATS; f++)
    for (int dtype = MMC_F64; dtype <= MMC_C128; dtype += MMC_C128 - MMC_F64) {
      mmci_error error = {0};
      mmci_file_rows rows = rows_of((mmc_dtype)dtype);
      c = (collector){.pieces_left = -1};
      reading = formats[f].format;
      reading_path = formats[f].path;
      reading_member = formats[f].member;
      if (reading->write(&rows, reading_member, collect, &c, &error) != MMC_OK) continue;
      save(reading_path, &c);
      /* Jansson calls some words invalid that it had no memory for. */
      blames_file = strstr(reading_path, "safetensors") != NULL;
      assert_true(fail_each_allocation(read_one) > 0);
      if (reading->abi == 0) fail_each_allocation(read_by_name);
      blames_file = false;
      /* Cut off anywhere it is refused, or is what it was. */
      for (size_t size = 0; size < c.size; size += 1 + size / 40) {
        assert_int_equal(truncate(reading_path, (off_t)size), 0);
        mmc_status status = read_one();
        save(reading_path, &c);
        if (status != MMC_OK && status != MMC_E_FORMAT && status != MMC_E_ARG)
          fail_msg("%s of %d bytes: %s", reading_path, (int)size, mmc_status_string(status));
      }
      unlink(reading_path);
    }
}

#ifdef MMCI_ZLIB
/* A deflated member, by the corpus of the fuzz target. */
static void each_allocation_fails_once_while_inflating(void **state) {
  (void)state;
  static collector c;
  FILE *file = fopen(MMC_DEFLATED, "rb");
  assert_non_null(file);
  c.size = fread(c.bytes, 1, sizeof c.bytes, file);
  fclose(file);
  save("test_formats.npz", &c);
  reading_path = "test_formats.npz:x";
  assert_true(fail_each_allocation(read_by_name) > 3);
  reading_path = "test_formats.npz"; /* it holds two, and which is meant is not said */
  for (long k = 0; k < 20; k++) {
    allocations_left = k;
    mmc_status status = read_by_name();
    assert_true(status == MMC_E_ARG || status == MMC_E_NOMEM);
  }
  allocations_left = -1;
  unlink(reading_path);
}
#endif

/* ---- modules ------------------------------------------------------------------------------- */

static void expect_unsupported(const char *folder, const char *why) {
  mmci_error error = {0};
  mmci_file_array *array;
  mmc_file_format_info info;
  assert_int_equal(mmci_file_open(folder, "a.h5:w", &array, &error), MMC_E_UNSUPPORTED);
  if (strstr(error.text, why) == NULL) fail_msg("no '%s' in: %s", why, error.text);
  assert_int_equal(mmci_file_check_output(folder, "a.h5:w", &error), MMC_E_UNSUPPORTED);
  mmci_file_rows rows = rows_of(MMC_F64);
  assert_int_equal(mmci_file_write(folder, "a.h5:w", &rows, &error), MMC_E_UNSUPPORTED);
  assert_int_equal(mmci_file_stream(folder, "a.h5:w", &rows, NULL, NULL, &error),
                   MMC_E_UNSUPPORTED);
  for (int i = 0; mmci_file_format_describe(folder, i, &info, &error) == MMC_OK; i++)
    if (strcmp(info.name, "hdf5") == 0) {
      assert_false(info.available);
      assert_non_null(strstr(info.description, why));
    }
}

/* A module that is not there, is none, has no entry, or is of another version. */
static void modules_that_do_not_fit_are_told(void **state) {
  (void)state;
  char folder[] = "/tmp/mmchain-formats-XXXXXX", module[64], elsewhere[1 << 13];
  assert_non_null(mkdtemp(folder));
  expect_unsupported(folder, "needs the module");
  snprintf(module, sizeof module, "%s/mmchain-hdf5.so", folder);
  FILE *file = fopen(module, "w");
  assert_non_null(file);
  assert_true(fputs("no module", file) > 0);
  assert_int_equal(fclose(file), 0);
  expect_unsupported(folder, "needs the module");
  unlink(module);
  rmdir(folder);
  expect_unsupported(MMC_ODD_MODULES "/none", "is of another version of mmchain");
  expect_unsupported(MMC_ODD_MODULES "/old", "is of another version of mmchain");
  expect_unsupported(MMC_ODD_MODULES "/small", "is of another version of mmchain");
  memset(elsewhere, 'x', sizeof elsewhere);
  elsewhere[0] = '/';
  elsewhere[sizeof elsewhere - 1] = '\0';
  expect_unsupported(elsewhere, "");
}

int main(void) {
#ifdef MMCI_JANSSON
  json_set_alloc_funcs(failing_malloc, free);
#endif
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_piece_fails_once),
      cmocka_unit_test(each_allocation_fails_once_while_writing),
      cmocka_unit_test(each_allocation_fails_once_while_reading),
#ifdef MMCI_ZLIB
      cmocka_unit_test(each_allocation_fails_once_while_inflating),
#endif
      cmocka_unit_test(modules_that_do_not_fit_are_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

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
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../failing_allocations.h"
#include "../how_many.h"
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

/* ---- sparse matrices ----------------------------------------------------------------------- */

static const struct {
  const char *path;
  const mmci_format *format;
} sparse_formats[] = {
    {"test_formats_sparse.mtx", &mmci_format_matrix_market},
#ifdef MMCI_ZLIB
    {"test_formats_sparse.npz", &mmci_format_npz},
#endif
};
enum { SPARSE_FORMATS = sizeof sparse_formats / sizeof sparse_formats[0] };

/* Three rows of real or complex numbers, the second of which is empty. */
static mmci_csr small_sparse(mmc_dtype dtype) {
  static int64_t starts[] = {0, 2, 2, 5};
  static int32_t columns[] = {0, 3, 1, 2, 3};
  mmci_csr matrix = {.dtype = dtype,
                     .rows = 3,
                     .cols = 4,
                     .indptr = starts,
                     .indices = columns,
                     .values = numbers};
  (void)rows_of(MMC_F64); /* fills numbers */
  return matrix;
}

static void each_piece_of_a_sparse_matrix_fails_once(void **state) {
  (void)state;
  static collector whole, c;
  for (int f = 0; f < SPARSE_FORMATS; f++)
    for (int dtype = MMC_F64; dtype <= MMC_C128; dtype += MMC_C128 - MMC_F64) {
      mmci_error error = {0};
      const mmci_csr matrix = small_sparse((mmc_dtype)dtype);
      whole = (collector){.pieces_left = -1};
      assert_int_equal(sparse_formats[f].format->sparse_write(&matrix, collect, &whole, &error),
                       MMC_OK);
      int pieces = 0;
      for (mmc_status status = MMC_E_IO; status != MMC_OK; pieces++) {
        c = (collector){.pieces_left = pieces};
        status = sparse_formats[f].format->sparse_write(&matrix, collect, &c, &error);
        assert_true(status == MMC_OK || status == MMC_E_IO);
        assert_true(c.size <= whole.size && memcmp(c.bytes, whole.bytes, c.size) == 0);
      }
      assert_true(pieces >= 6 && c.size == whole.size);
    }
}

/* Cut off anywhere a file is refused, or holds what it held: a text without its last line break. */
static void sparse_files_that_are_cut_off_are_refused(void **state) {
  (void)state;
  static collector whole;
  for (int f = 0; f < SPARSE_FORMATS; f++) {
    const char *path = sparse_formats[f].path;
    const mmci_csr matrix = small_sparse(MMC_F64);
    mmci_error error = {0};
    mmci_csr read;
    whole = (collector){.pieces_left = -1};
    assert_int_equal(sparse_formats[f].format->sparse_write(&matrix, collect, &whole, &error),
                     MMC_OK);
    save(path, &whole);
    for (size_t size = whole.size; size-- > 0;) {
      assert_int_equal(truncate(path, (off_t)size), 0);
      mmc_status status = sparse_formats[f].format->sparse_open(path, &read, &error);
      if (status == MMC_OK) {
        assert_true(size >= whole.size - 3 && mmci_csr_nonzeros(&read) == 5);
        mmci_csr_release(&read);
      } else if (status != MMC_E_FORMAT && status != MMC_E_ARG) {
        fail_msg("%s of %d bytes: %s", path, (int)size, mmc_status_string(status));
      }
      mmci_file_array *array;
      status = mmci_file_open(NULL, path, &array, &error);
      if (status == MMC_OK) mmci_file_array_destroy(array);
      assert_true(status == MMC_OK || status == MMC_E_FORMAT || status == MMC_E_ARG);
    }
    unlink(path);
    assert_int_equal(sparse_formats[f].format->sparse_open(path, &read, &error), MMC_E_IO);
    assert_int_equal(mmci_file_open_sparse(NULL, path, &read, &error), MMC_E_ARG);
    assert_false(mmci_file_is_sparse(NULL, path));
  }
}

/* What is no sparse matrix by what it says of itself is refused before it is stored anywhere, in
 * the words of the message, as a sparse matrix and as a dense one. */
static void sparse_texts_that_are_wrong_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"", "Matrix Market"},
      {"%%MatrixMarket matrix coordinate real general\n", ""},
      {"%%MatrixMarket matrix coordinate real general\n3 x 1\n", ""},
      {"%%MatrixMarket matrix coordinate real general\n3 4 2\n1 1 1\n0 2 1\n", "count from 1"},
      {"%%MatrixMarket matrix coordinate real general\n3 4 2\n1 1 1\n2 0 1\n", "count from 1"},
      {"%%MatrixMarket matrix coordinate real general\n3 4 1\n4 1 1\n", ""},
      {"%%MatrixMarket matrix coordinate real general\n3 4 1\n1 5 1\n", ""},
      {"%%MatrixMarket matrix coordinate real general\n3 4 1\n1 1 one\n", ""},
      {"%%MatrixMarket matrix coordinate real general\n3 4 9\n1 1 1\n", ""},
      {"%%MatrixMarket matrix coordinate real general\n3000000000 4 0\n", "2147483647"},
      {"%%MatrixMarket matrix coordinate real general\n4 3000000000 0\n", "2147483647"},
      {"%%MatrixMarket matrix coordinate real general\n2000000000 4 1\n1 1 1\n", "proportion"},
      {"%%MatrixMarket matrix coordinate real general\n4 2000000000 1\n1 1 1\n", "proportion"},
      {"%%MatrixMarket matrix coordinate real general\n0 4 1\n1 1 1\n", "no entries"},
      {"%%MatrixMarket matrix coordinate real general\n4 0 1\n1 1 1\n", "no entries"},
  };
  static collector c;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    mmci_error error = {0};
    mmci_csr read;
    mmci_file_array *array;
    c = (collector){.size = strlen(cases[i].text)};
    memcpy(c.bytes, cases[i].text, c.size);
    save("test_formats_sparse.mtx", &c);
    assert_int_equal(
        mmci_format_matrix_market.sparse_open("test_formats_sparse.mtx", &read, &error),
        MMC_E_FORMAT);
    if (strstr(error.text, cases[i].message) == NULL)
      fail_msg("no '%s' in: %s", cases[i].message, error.text);
    assert_int_not_equal(mmci_file_open(NULL, "test_formats_sparse.mtx", &array, &error), MMC_OK);
  }
  unlink("test_formats_sparse.mtx");
}

/* Sparse matrices go to and come from two formats, without a member. */
static void other_files_hold_no_sparse_matrix(void **state) {
  (void)state;
  static const char *const names[] = {"test_formats_no.npy", "test_formats_no.npz:w",
                                      "test_formats_no.h5"};
  const mmci_csr matrix = small_sparse(MMC_F64);
  mmci_error error = {0};
  mmci_csr read;
  for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
    mmc_status status = mmci_file_write_sparse(MMC_ODD_MODULES "/none", names[n], &matrix, &error);
    assert_true(status == MMC_E_ARG || status == MMC_E_UNSUPPORTED);
    status = mmci_file_open_sparse(MMC_ODD_MODULES "/none", names[n], &read, &error);
    assert_true(status == MMC_E_ARG || status == MMC_E_UNSUPPORTED);
    assert_false(mmci_file_is_sparse(MMC_ODD_MODULES "/none", names[n]));
  }
  assert_false(mmci_file_is_sparse(NULL, "."));
}

#ifdef MMCI_ZLIB
/* ---- archives above 4 GiB ------------------------------------------------------------------ */

/* What is sent, without most of it: the first bytes, the last ones, and how many there were. */
typedef struct ends {
  unsigned char first[64], last[1024];
  uint64_t size;
} ends;

static int keep_ends(void *user, const char *bytes, size_t size) {
  ends *e = user;
  for (size_t b = 0; b < size && e->size + b < sizeof e->first; b++)
    e->first[e->size + b] = (unsigned char)bytes[b];
  const size_t kept = size < sizeof e->last ? size : sizeof e->last;
  memmove(e->last, e->last + kept, sizeof e->last - kept);
  memcpy(e->last + sizeof e->last - kept, bytes + size - kept, kept);
  e->size += size;
  return 0;
}

static uint64_t number_at(const unsigned char *bytes, int size) {
  uint64_t number = 0;
  for (int b = size - 1; b >= 0; b--) number = number << 8 | bytes[b];
  return number;
}

/* Checks the records at the end of an archive that needs 64 bits (APPNOTE.TXT 4.3.14 to 4.3.16),
 * and returns its directory. */
static const unsigned char *check_large_end(const ends *e, uint64_t members, size_t *length) {
  const unsigned char *stop = e->last + sizeof e->last, *record = stop - 22, *locator = record - 20,
                      *large = locator - 56;
  assert_true(number_at(record, 4) == 0x06054b50 && number_at(record + 16, 4) == UINT32_MAX);
  assert_true(number_at(record + 8, 2) == members);
  assert_true(number_at(locator, 4) == 0x07064b50);
  assert_true(number_at(locator + 8, 8) == e->size - 22 - 20 - 56);
  assert_true(number_at(large, 4) == 0x06064b50 && number_at(large + 32, 8) == members);
  *length = (size_t)number_at(large + 40, 8);
  assert_true(number_at(large + 48, 8) == e->size - 22 - 20 - 56 - *length);
  return large - *length;
}

/* A stack of one matrix again and again, whose member has more than 4 GiB. */
static void a_large_member_has_sizes_of_64_bits(void **state) {
  (void)state;
  enum { LARGE = 512 };
  const int64_t batch = (((int64_t)1 << 32) / (LARGE * LARGE * 8)) + 1;
  const int64_t shape[3] = {batch, LARGE, LARGE};
  if (!is_in_full()) skip();
  double *matrix = calloc(LARGE * LARGE, sizeof *matrix);
  assert_non_null(matrix);
  const mmc_matrix stack = {.data = matrix, .rows = LARGE, .cols = LARGE};
  mmci_file_rows rows;
  mmci_error error = {0};
  static ends e;
  size_t length;
  assert_int_equal(mmci_file_rows_of_stack(MMC_F64, &stack, batch, 3, shape, &rows, &error),
                   MMC_OK);
  assert_int_equal(mmci_format_npz.write(&rows, "w", keep_ends, &e, &error), MMC_OK);
  const uint64_t bytes = (uint64_t)batch * LARGE * LARGE * 8;
  assert_true(e.size > bytes && e.size < bytes + 1024);
  /* The local header: version 4.5, and sizes that the extra field has. */
  assert_true(number_at(e.first, 4) == 0x04034b50 && number_at(e.first + 4, 2) == 45);
  assert_true(number_at(e.first + 18, 4) == UINT32_MAX && number_at(e.first + 22, 4) == UINT32_MAX);
  const unsigned char *extra = e.first + 30 + strlen("w.npy");
  assert_true(number_at(extra, 2) == 1 && number_at(extra + 2, 2) == 16);
  const uint64_t member = number_at(extra + 4, 8);
  assert_true(member == number_at(extra + 12, 8) && member > bytes && member < bytes + 256);
  const unsigned char *entry = check_large_end(&e, 1, &length);
  assert_true(number_at(entry, 4) == 0x02014b50 && number_at(entry + 24, 4) == UINT32_MAX);
  assert_true(number_at(entry + 46 + strlen("w.npy") + 4, 8) == member);
  free(matrix);
}

/* A sparse matrix whose last member begins beyond 4 GiB, of zeros that take no memory. */
static void a_far_member_has_an_offset_of_64_bits(void **state) {
  (void)state;
  const int64_t count = ((int64_t)1 << 30) + 64;
  if (!is_in_full()) skip();
  void *zeros =
      mmap(NULL, (size_t)count * 4, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_true(zeros != MAP_FAILED);
  int64_t starts[2] = {0, count};
  const mmci_csr matrix = {
      .dtype = MMC_F32, .rows = 1, .cols = 4, .indptr = starts, .indices = zeros, .values = zeros};
  mmci_error error = {0};
  static ends e;
  size_t length;
  assert_int_equal(mmci_format_npz.sparse_write(&matrix, keep_ends, &e, &error), MMC_OK);
  assert_true(e.size > 2 * (uint64_t)count * 4);
  const unsigned char *entry = check_large_end(&e, 5, &length), *end = entry + length;
  uint64_t offset = 0;
  for (int m = 0; m < 5; m++) {
    assert_true(number_at(entry, 4) == 0x02014b50);
    const size_t name = (size_t)number_at(entry + 28, 2), more = (size_t)number_at(entry + 30, 2);
    const unsigned char *field = entry + 46 + name;
    uint64_t size = number_at(entry + 24, 4), at = number_at(entry + 42, 4);
    if (more > 0) {
      assert_int_equal(number_at(field, 2), 1);
      assert_int_equal(number_at(field + 2, 2) + 4, more);
      field += 4;
    }
    if (size == UINT32_MAX) {
      size = number_at(field, 8);
      assert_true(size > (uint64_t)count * 4);
      field += 16;
    }
    if (at == UINT32_MAX) at = number_at(field, 8);
    assert_true(at >= offset && (m == 0) == (at == 0));
    offset = at + size;
    entry += 46 + name + more;
  }
  assert_ptr_equal(entry, end);
  assert_true(offset < e.size);
  munmap(zeros, (size_t)count * 4);
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
      cmocka_unit_test(a_large_member_has_sizes_of_64_bits),
      cmocka_unit_test(a_far_member_has_an_offset_of_64_bits),
#endif
      cmocka_unit_test(each_piece_of_a_sparse_matrix_fails_once),
      cmocka_unit_test(sparse_files_that_are_cut_off_are_refused),
      cmocka_unit_test(sparse_texts_that_are_wrong_are_refused),
      cmocka_unit_test(other_files_hold_no_sparse_matrix),
      cmocka_unit_test(modules_that_do_not_fit_are_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

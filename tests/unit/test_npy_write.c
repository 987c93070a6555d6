/* test_npy_write.c: writing .npy files: the bytes, and the file that is there whole or not at all.
 */
#include <signal.h>

#include "../npy_output.h"
#include "io/npy.h"
#include "npy_scratch.h"

static const mmc_dtype dtypes[] = {MMC_F32, MMC_F64, MMC_C64, MMC_C128, MMC_F16};
enum { DTYPE_COUNT = sizeof dtypes / sizeof dtypes[0] };

/* ---- matrices ------------------------------------------------------------------------------ */

/* Byte b of element (r, c) of every test matrix. */
static unsigned char byte_of(int64_t r, int64_t c, size_t b) {
  return (unsigned char)(r * 31 + c * 7 + (int64_t)b * 101 + r * c % 13);
}

/* A matrix of that shape with a gap of that many elements between its lines; free its data. */
static mmc_matrix make_matrix(mmc_dtype dtype, int64_t rows, int64_t cols, mmc_layout layout,
                              int64_t gap) {
  size_t size = element_size_of(dtype);
  int64_t line = layout == MMC_ROW_MAJOR ? cols : rows;
  int64_t lines = layout == MMC_ROW_MAJOR ? rows : cols;
  mmc_matrix m = {.rows = rows, .cols = cols, .ld = line + gap, .layout = layout};
  /* No gap after the last line: reading it would be an error. */
  size_t elements = line == 0 || lines == 0 ? 0 : (size_t)(m.ld * (lines - 1) + line);
  unsigned char *data = malloc(elements * size + 1);
  assert_non_null(data);
  memset(data, 0xEE, elements * size);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++) {
      int64_t at = layout == MMC_ROW_MAJOR ? r * m.ld + c : c * m.ld + r;
      for (size_t b = 0; b < size; b++) data[(size_t)at * size + b] = byte_of(r, c, b);
    }
  m.data = data;
  return m;
}

/* Says whether these are the elements of a test matrix in C order. */
static bool is_c_order(const unsigned char *data, mmc_dtype dtype, int64_t rows, int64_t cols) {
  size_t size = element_size_of(dtype);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++)
      for (size_t b = 0; b < size; b++)
        if (*data++ != byte_of(r, c, b)) return false;
  return true;
}

static void write_ok(const char *path, mmc_dtype dtype, const mmc_matrix *matrix, int ndim) {
  mmci_error error = {.text = ""};
  if (npy_write(path, dtype, matrix, ndim, &error) != MMC_OK) fail_msg("%s", error.text);
}

/* ---- bytes --------------------------------------------------------------------------------- */

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ORDER "<"
#else
#define ORDER ">"
#endif

/* What NumPy writes, letter for letter. */
static void test_header_bytes(void **state) {
  (void)state;
  static const struct {
    mmc_dtype dtype;
    int64_t rows, cols;
    int ndim;
    const char *dictionary;
  } cases[] = {
      {MMC_F64, 2, 3, 2, "{'descr': '" ORDER "f8', 'fortran_order': False, 'shape': (2, 3), }"},
      {MMC_F32, 1, 7, 1, "{'descr': '" ORDER "f4', 'fortran_order': False, 'shape': (7,), }"},
      {MMC_F32, 7, 1, 1, "{'descr': '" ORDER "f4', 'fortran_order': False, 'shape': (7,), }"},
      {MMC_C64, 7, 1, 2, "{'descr': '" ORDER "c8', 'fortran_order': False, 'shape': (7, 1), }"},
      {MMC_C128, 1, 1, 0, "{'descr': '" ORDER "c16', 'fortran_order': False, 'shape': (), }"},
      {MMC_C128, 1, 1, 1, "{'descr': '" ORDER "c16', 'fortran_order': False, 'shape': (1,), }"},
      {MMC_F16, 2, 3, 2, "{'descr': '" ORDER "f2', 'fortran_order': False, 'shape': (2, 3), }"},
      {MMC_F64, 0, 1, 1, "{'descr': '" ORDER "f8', 'fortran_order': False, 'shape': (0,), }"},
      {MMC_F64, 1, 0, 1, "{'descr': '" ORDER "f8', 'fortran_order': False, 'shape': (0,), }"},
      {MMC_F64, 0, 5, 2, "{'descr': '" ORDER "f8', 'fortran_order': False, 'shape': (0, 5), }"},
      {MMC_F64, 0, INT64_C(1) << 62, 2,
       "{'descr': '" ORDER "f8', 'fortran_order': False, 'shape': (0, 4611686018427387904), }"},
      {MMC_C128, INT64_MAX, 0, 2,
       "{'descr': '" ORDER "c16', 'fortran_order': False, 'shape': (9223372036854775807, 0), }"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    mmc_dtype dtype = cases[i].dtype;
    mmc_matrix m = {.rows = cases[i].rows, .cols = cases[i].cols};
    bool empty = m.rows == 0 || m.cols == 0;
    if (!empty) m = make_matrix(dtype, m.rows, m.cols, MMC_ROW_MAJOR, 0);
    write_ok(scratch("bytes.npy"), dtype, &m, cases[i].ndim);
    free(m.data);

    size_t size;
    unsigned char *bytes = get_file(scratch("bytes.npy"), &size);
    char expected[128];
    size_t length = strlen(cases[i].dictionary);
    memset(expected, ' ', sizeof expected);
    memcpy(expected, "\x93NUMPY\x01\x00\x76\x00", 10);
    memcpy(expected + 10, cases[i].dictionary, length);
    expected[127] = '\n';
    assert_memory_equal(bytes, expected, sizeof expected);
    int64_t elements = empty ? 0 : cases[i].rows * cases[i].cols;
    assert_int_equal(size, sizeof expected + (size_t)elements * element_size_of(dtype));
    assert_true(empty || is_c_order(bytes + 128, dtype, cases[i].rows, cases[i].cols));
    free(bytes);
  }
}

typedef struct collector {
  unsigned char *bytes;
  size_t size, room;
  int calls, fails_at; /* the call that fails, from 1; 0: none */
} collector;

static int collect(void *user, const char *bytes, size_t size) {
  collector *c = user;
  if (++c->calls == c->fails_at) return 1;
  assert_true(c->fails_at == 0 || c->calls < c->fails_at); /* not called again after a failure */
  assert_true(size <= c->room - c->size);
  memcpy(c->bytes + c->size, bytes, size);
  c->size += size;
  return 0;
}

/* Every dtype, layout and gap, in sizes below and above what a buffer takes, comes back; and the
 * stream is the same as the file. */
static void test_round_trips(void **state) {
  (void)state;
  static const struct {
    int64_t rows, cols;
    int ndim;
  } shapes[] = {{1, 1, 0},     {1, 1, 1},     {1, 1, 2},    {3, 5, 2},     {5, 3, 2},
                {1, 17, 1},    {17, 1, 1},    {1, 17, 2},   {17, 1, 2},    {0, 4, 2},
                {4, 0, 2},     {0, 1, 1},     {301, 97, 2}, {97, 1001, 2}, {1, 70001, 2},
                {2, 70001, 2}, {70001, 2, 2}, {70001, 1, 1}};
  static const int64_t gaps[] = {0, 1, 13};
  for (size_t d = 0; d < DTYPE_COUNT; d++)
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
      for (int by_cols = 0; by_cols <= 1; by_cols++)
        for (size_t g = 0; g < 3; g++) {
          int64_t rows = shapes[s].rows, cols = shapes[s].cols;
          int ndim = shapes[s].ndim;
          mmc_layout layout = by_cols ? MMC_COL_MAJOR : MMC_ROW_MAJOR;
          mmc_matrix m = make_matrix(dtypes[d], rows, cols, layout, gaps[g]);
          if (gaps[g] == 0 && s % 2 == 0) m.ld = 0; /* which means just that */
          const char *path = scratch("round.npy");
          write_ok(path, dtypes[d], &m, ndim);

          size_t size;
          unsigned char *bytes = get_file(path, &size);
          collector c = {.bytes = malloc(size), .room = size};
          assert_non_null(c.bytes);
          assert_int_equal(npy_stream(dtypes[d], &m, ndim, collect, &c, NULL), MMC_OK);
          assert_int_equal(c.size, size);
          assert_memory_equal(c.bytes, bytes, size);
          free(c.bytes);
          size_t data_size = (size_t)(rows * cols) * element_size_of(dtypes[d]);
          assert_int_equal(size, 128 + data_size);
          assert_true(is_c_order(bytes + 128, dtypes[d], rows, cols));
          free(bytes);
          free(m.data);

          if (ndim == 0) continue;
          mmci_file_array *npy = NULL;
          assert_int_equal(mmci_npy_open(path, &npy, NULL), MMC_OK);
          mmc_matrix back = npy->matrix;
          assert_int_equal(npy->dtype, dtypes[d]);
          assert_int_equal(npy->ndim, ndim);
          assert_int_equal(back.rows, ndim == 1 ? 1 : rows);
          assert_int_equal(back.cols, ndim == 1 ? rows * cols : cols);
          assert_int_equal(back.layout, MMC_ROW_MAJOR);
          assert_true(data_size == 0 || is_c_order(back.data, dtypes[d], rows, cols));
          mmci_file_array_destroy(npy);
        }
  scratch_clear();
}

/* A callback that fails, at whichever call, ends the stream. */
static void test_stream_stops(void **state) {
  (void)state;
  mmc_matrix m = make_matrix(MMC_C128, 500, 400, MMC_COL_MAJOR, 0);
  collector whole = {.bytes = malloc(1 << 22), .room = 1 << 22};
  assert_non_null(whole.bytes);
  assert_int_equal(npy_stream(MMC_C128, &m, 2, collect, &whole, NULL), MMC_OK);
  assert_true(whole.calls > 3);
  for (int k = 1; k <= whole.calls; k++) {
    collector c = {.bytes = whole.bytes, .room = whole.room, .fails_at = k};
    mmci_error error = {.text = ""};
    assert_int_equal(npy_stream(MMC_C128, &m, 2, collect, &c, &error), MMC_E_IO);
    assert_int_equal(c.calls, k);
    assert_int_equal(error.status, MMC_E_IO);
    assert_holds(error.text, "callback");
  }
  free(whole.bytes);
  free(m.data);
}

/* Arguments that make no array leave no file. */
static void test_bad_arguments(void **state) {
  (void)state;
  scratch_clear();
  double data[6] = {0};
  static const struct {
    int dtype, layout, ndim;
    int64_t rows, cols, ld;
    bool data;
    const char *message;
  } cases[] = {
      {99, MMC_ROW_MAJOR, 2, 2, 3, 3, true, "99 is no dtype"},
      {-1, MMC_ROW_MAJOR, 2, 2, 3, 3, true, "-1 is no dtype"},
      {MMC_BF16, MMC_ROW_MAJOR, 2, 2, 3, 3, true,
       "npy has no bf16: every other dtype can be written"},
      {MMC_F64, 2, 2, 2, 3, 3, true, "2 is no layout"},
      {MMC_F64, MMC_ROW_MAJOR, 2, -2, 3, 3, true, "-2x3"},
      {MMC_F64, MMC_ROW_MAJOR, 2, 2, -3, 3, true, "2x-3"},
      {MMC_F64, MMC_ROW_MAJOR, 2, 2, 3, 2, true, "leading dimension 2 below 3"},
      {MMC_F64, MMC_COL_MAJOR, 2, 2, 3, 1, true, "leading dimension 1 below 2"},
      {MMC_F64, MMC_ROW_MAJOR, 2, 2, 3, -3, true, "leading dimension -3 below 3"},
      {MMC_F64, MMC_ROW_MAJOR, 2, 2, 3, 3, false, "without data"},
      {MMC_F64, MMC_ROW_MAJOR, 2, INT64_C(1) << 32, INT64_C(1) << 32, 0, true, "address space"},
      {MMC_F64, MMC_ROW_MAJOR, 2, 2, 3, INT64_MAX, true, "address space"},
      {MMC_F64, MMC_COL_MAJOR, 2, INT64_MAX, 1, 0, true, "address space"},
      {MMC_F64, MMC_ROW_MAJOR, 3, 2, 3, 3, true, "ndim: expected 0, 1 or 2, got 3"},
      {MMC_F64, MMC_ROW_MAJOR, -1, 1, 1, 1, true, "ndim: expected 0, 1 or 2, got -1"},
      {MMC_F64, MMC_ROW_MAJOR, 1, 2, 3, 3, true, "ndim: a matrix of 2x3 is no vector"},
      {MMC_F64, MMC_ROW_MAJOR, 1, 0, 3, 3, true, "0x3 is no vector"},
      {MMC_F64, MMC_ROW_MAJOR, 0, 1, 3, 3, true, "1x3 is no scalar"},
      {MMC_F64, MMC_ROW_MAJOR, 0, 0, 1, 1, true, "0x1 is no scalar"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    mmc_matrix m = {.data = cases[i].data ? data : NULL,
                    .rows = cases[i].rows,
                    .cols = cases[i].cols,
                    .ld = cases[i].ld,
                    .layout = (mmc_layout)cases[i].layout};
    mmc_dtype dtype = (mmc_dtype)cases[i].dtype;
    mmci_error error = {.text = ""};
    assert_int_equal(npy_write(scratch("bad.npy"), dtype, &m, cases[i].ndim, &error), MMC_E_ARG);
    assert_holds(error.text, cases[i].message);
    collector c = {0};
    assert_int_equal(npy_stream(dtype, &m, cases[i].ndim, collect, &c, &error), MMC_E_ARG);
    assert_holds(error.text, cases[i].message);
    assert_int_equal(c.calls, 0);
  }
  assert_int_equal(npy_write(scratch("bad.npy"), MMC_F64, NULL, 2, NULL), MMC_E_ARG);
  assert_int_equal(entries_in(scratch_directory), 0);
  /* A single line may claim any leading dimension: nothing lies behind it. */
  mmc_matrix line = {.data = data, .rows = 1, .cols = 6, .ld = INT64_MAX};
  write_ok(scratch("line.npy"), MMC_F64, &line, 2);
}

/* Matrices at addresses are read there, the only one of a file too, and have no data beside them;
 * those that are not on the host are refused. */
static void test_addresses(void **state) {
  (void)state;
  scratch_clear();
  mmc_matrix x = make_matrix(MMC_F64, 5, 3, MMC_COL_MAJOR, 2), m = x;
  void *at[] = {x.data, x.data};
  m.data = NULL;
  m.addresses = at;
  write_ok(scratch("one.npy"), MMC_F64, &m, 2);
  size_t size;
  unsigned char *bytes = get_file(scratch("one.npy"), &size);
  assert_int_equal(size, 128 + 15 * 8);
  assert_true(is_c_order(bytes + 128, MMC_F64, 5, 3));
  free(bytes);

  const int64_t shape[] = {2, 5, 3};
  at[1] = NULL;
  mmci_error error = {.text = ""};
  assert_int_equal(npy_write_stack(scratch("two.npy"), MMC_F64, &m, 2, 3, shape, &error),
                   MMC_E_ARG);
  assert_holds(error.text, "a matrix without data");
  x.location = MMC_DEVICE;
  assert_int_equal(npy_write(scratch("two.npy"), MMC_F64, &x, 2, &error), MMC_E_ARG);
  assert_holds(error.text, "location: expected MMC_HOST, got number 1");
  assert_int_equal(entries_in(scratch_directory), 1);
  free(x.data);
}

/* ---- files --------------------------------------------------------------------------------- */

/* What is open stays as it was when its path is written anew: a result may replace its factor. */
static void test_replaced_while_mapped(void **state) {
  (void)state;
  const char *path = scratch("factor.npy");
  mmc_matrix m = make_matrix(MMC_F64, 40, 30, MMC_ROW_MAJOR, 0);
  write_ok(path, MMC_F64, &m, 2);
  free(m.data);
  mmci_file_array *npy = NULL;
  assert_int_equal(mmci_npy_open(path, &npy, NULL), MMC_OK);
  double one = 1;
  write_ok(path, MMC_F64, &(mmc_matrix){.data = &one, .rows = 1, .cols = 1}, 2);
  assert_true(is_c_order(npy->matrix.data, MMC_F64, 40, 30));
  mmci_file_array_destroy(npy);
}

/* A full disk fails at every size short of the whole, in the header and in the data; leaves the old
 * file. */
static void test_full_disk(void **state) {
  (void)state;
  scratch_clear();
  signal(SIGXFSZ, SIG_IGN);
  static const rlim_t limits[] = {0, 1, 127, 128, 129, 4096, 65536, 65663};
  const char *path = scratch("full.npy");
  for (int old = 0; old <= 1; old++) {
    if (old) put_file(path, "old", 3);
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
      limit_files(limits[i]);
      mmc_matrix m = make_matrix(MMC_F64, 64, 128, MMC_COL_MAJOR, 0);
      mmci_error error = {.text = ""};
      mmc_status status = npy_write(path, MMC_F64, &m, 2, &error);
      limit_files(RLIM_INFINITY);
      free(m.data);
      assert_int_equal(status, MMC_E_IO);
      assert_holds(error.text, path);
      assert_holds(error.text, "File too large");
      assert_int_equal(entries_in(scratch_directory), old);
      if (old) assert_content(path, "old");
    }
  }
  limit_files(65664); /* just enough */
  mmc_matrix m = make_matrix(MMC_F64, 64, 128, MMC_COL_MAJOR, 0);
  mmc_status status = npy_write(path, MMC_F64, &m, 2, NULL);
  limit_files(RLIM_INFINITY);
  free(m.data);
  assert_int_equal(status, MMC_OK);
}

/* Through output_file.h to a device: no space there is the same failure. */
static void test_full_device(void **state) {
  (void)state;
  mmc_matrix m = make_matrix(MMC_F64, 64, 128, MMC_COL_MAJOR, 0);
  bool dropped = drop_privileges();
  mmci_error error = {.text = ""};
  mmc_status full = dropped ? npy_write("/dev/full", MMC_F64, &m, 2, &error) : MMC_OK;
  mmc_status null = dropped ? npy_write("/dev/null", MMC_F64, &m, 2, NULL) : MMC_OK;
  restore_privileges();
  free(m.data);
  if (!dropped) skip();
  assert_int_equal(full, MMC_E_IO);
  assert_holds(error.text, "/dev/full: cannot write: No space left on device");
  assert_int_equal(null, MMC_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_header_bytes), cmocka_unit_test(test_round_trips),
      cmocka_unit_test(test_stream_stops), cmocka_unit_test(test_bad_arguments),
      cmocka_unit_test(test_addresses),    cmocka_unit_test(test_replaced_while_mapped),
      cmocka_unit_test(test_full_disk),    cmocka_unit_test(test_full_device),
      cmocka_unit_test(test_nothing_left),
  };
  return cmocka_run_group_tests_name("npy write", tests, scratch_setup, scratch_teardown);
}

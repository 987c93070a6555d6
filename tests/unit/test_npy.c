/* test_npy.c: reading .npy files of every kind: mapped, copied, and from pipes. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "npy_by_hand.h"
#include "npy_feed.h"

static const mmc_dtype dtypes[] = {MMC_F32, MMC_F64, MMC_C64, MMC_C128, MMC_F16};
static const char *const codes[] = {"f4", "f8", "c8", "c16", "f2"};
enum { DTYPE_COUNT = sizeof dtypes / sizeof dtypes[0] };

/* One file of every type, byte order, version, order, dimension and alignment. */
static void test_every_kind(void **state) {
  (void)state;
  static const char orders[] = "<>=|n"; /* n: none */
  static const size_t alignments[] = {16, 64};
  enum { ROWS = 3, COLS = 5 };
  unsigned char bytes[1024];
  int files = 0;
  for (size_t type = 0; type < DTYPE_COUNT; type++)
    for (const char *order = orders; *order != '\0'; order++)
      for (int version = 1; version <= 3; version++)
        for (int fortran = 0; fortran <= 1; fortran++)
          for (int ndim = 1; ndim <= 2; ndim++)
            for (size_t a = 0; a < 2; a++)
              for (size_t shift = 0; shift < 9; shift++) {
                char dictionary[128];
                snprintf(dictionary, sizeof dictionary,
                         "{'descr': '%.*s%s', 'fortran_order': %s, 'shape': %s, }", *order != 'n',
                         order, codes[type], fortran ? "True" : "False",
                         ndim == 1 ? "(15,)" : "(3, 5)");
                size_t offset = put_header(bytes, version, dictionary,
                                           padding_for(version, dictionary, alignments[a], shift));
                size_t real_size = real_size_of(dtypes[type]);
                size_t size = ROWS * COLS * element_size_of(dtypes[type]);
                bool big = *order == '>' || (*order != '<' && host_is_big_endian());
                put_reals(bytes + offset, size / real_size, real_size, big);
                const char *path = scratch("kind.npy");
                put_file(path, bytes, offset + size);

                mmci_file_array *npy = open_ok(path);
                mmc_matrix m = npy->matrix;
                assert_int_equal(npy->dtype, dtypes[type]);
                assert_int_equal(npy->ndim, ndim);
                assert_int_equal(m.rows, ndim == 1 ? 1 : ROWS);
                assert_int_equal(m.cols, ndim == 1 ? ROWS * COLS : COLS);
                bool by_cols = fortran && ndim == 2;
                assert_int_equal(m.layout, by_cols ? MMC_COL_MAJOR : MMC_ROW_MAJOR);
                assert_int_equal(m.ld, by_cols ? m.rows : m.cols);
                assert_reals(m.data, size / real_size, real_size);
                if (big == host_is_big_endian() && offset % real_size == 0)
                  assert_true(is_mapped(m.data, offset));
                mmci_file_array_destroy(npy);
                files++;
              }
  assert_int_equal(files, DTYPE_COUNT * 5 * 3 * 2 * 2 * 2 * 9);
}

static void test_headers_that_work(void **state) {
  (void)state;
  const char *path = scratch("header.npy");
  for (size_t i = 0; i < sizeof headers_that_work / sizeof headers_that_work[0]; i++) {
    unsigned char bytes[512] = {0};
    const char *dictionary = headers_that_work[i].dictionary;
    size_t offset = put_header(bytes, 1, dictionary, padding_for(1, dictionary, 64, 0));
    bool empty = headers_that_work[i].rows == 0 || headers_that_work[i].cols == 0;
    if (!empty) put_reals(bytes + offset, 6, 8, host_is_big_endian());
    put_file(path, bytes, offset + (empty ? 0 : 48));

    mmci_file_array *npy = open_ok(path);
    mmc_matrix m = npy->matrix;
    assert_int_equal(npy->dtype, MMC_F64);
    assert_int_equal(npy->ndim, headers_that_work[i].ndim);
    assert_int_equal(m.rows, headers_that_work[i].rows);
    assert_int_equal(m.cols, headers_that_work[i].cols);
    assert_int_equal(m.layout, headers_that_work[i].fortran_order ? MMC_COL_MAJOR : MMC_ROW_MAJOR);
    if (empty)
      assert_null(m.data);
    else
      assert_true(is_mapped(m.data, offset) || host_is_big_endian());
    mmci_file_array_destroy(npy);
  }
}

/* NumPy reads what it needs and ignores the rest; so a file may be appended to. */
static void test_trailing_bytes(void **state) {
  (void)state;
  const char *dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }";
  unsigned char bytes[512] = {0};
  size_t offset = put_header(bytes, 1, dictionary, padding_for(1, dictionary, 64, 0));
  put_reals(bytes + offset, 4, 4, false);
  const char *path = scratch("trailing.npy");
  for (size_t extra = 0; extra < 40; extra++) {
    put_file(path, bytes, offset + 16 + extra);
    mmci_file_array *npy = open_ok(path);
    assert_reals(npy->matrix.data, 4, 4);
    mmci_file_array_destroy(npy);
  }
}

/* NaN and Inf are data, whatever their byte order. */
static void test_specials_pass_through(void **state) {
  (void)state;
  static const unsigned char specials[] = {0x7f, 0xf0, 0, 0, 0, 0, 0, 0,  /* Inf */
                                           0x7f, 0xf8, 0, 0, 0, 0, 0, 7}; /* NaN with a payload */
  const char *dictionary = "{'descr': '>f8', 'fortran_order': False, 'shape': (2,), }";
  unsigned char bytes[512];
  size_t offset = put_header(bytes, 1, dictionary, padding_for(1, dictionary, 64, 0));
  memcpy(bytes + offset, specials, sizeof specials);
  put_file(scratch("special.npy"), bytes, offset + sizeof specials);
  mmci_file_array *npy = open_ok(scratch("special.npy"));
  uint64_t bits[2];
  memcpy(bits, npy->matrix.data, sizeof bits);
  assert_true(bits[0] == UINT64_C(0x7ff0000000000000));
  assert_true(bits[1] == UINT64_C(0x7ff8000000000007));
  mmci_file_array_destroy(npy);
}

/* A terabyte, most of it a hole: more than memory, open at once. */
static void test_larger_than_memory(void **state) {
  (void)state;
  const char *dictionary = "{'descr': '=f8', 'fortran_order': False, 'shape': (131072, 1048576), }";
  const off_t data_size = (off_t)1 << 40;
  unsigned char bytes[512];
  size_t offset = put_header(bytes, 1, dictionary, padding_for(1, dictionary, 64, 0));
  const char *path = scratch("large.npy");
  put_file(path, bytes, offset);
  bool made = truncate(path, (off_t)offset + data_size) == 0;
  void *probe = MAP_FAILED;
  if (made) {
    int descriptor = open(path, O_RDONLY);
    probe = mmap(NULL, (size_t)data_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    close(descriptor);
  }
  if (probe == MAP_FAILED) {
    unlink(path);
    print_message("no file of a terabyte can be made or mapped here\n");
    skip();
  }
  munmap(probe, (size_t)data_size);

  mmci_file_array *npy = open_ok(path);
  mmc_matrix m = npy->matrix;
  assert_true(is_mapped(m.data, offset));
  const double *last = (const double *)m.data + (m.rows * m.ld - 1);
  assert_true(*last == 0.0);
  mmci_file_array_destroy(npy);

  assert_int_equal(truncate(path, (off_t)offset + data_size - 1), 0);
  assert_fails(path, MMC_E_FORMAT, "truncated: 1099511627903 bytes are there, 1099511627904");
  unlink(path);
}

/* ---- pipes --------------------------------------------------------------------------------- */

static void test_stdin(void **state) {
  (void)state;
  static const struct {
    const char *dictionary;
    size_t reals;
  } cases[] = {
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 5), }", 15},
      {"{'descr': '>f8', 'fortran_order': True, 'shape': (300, 511), }", 300 * 511},
      {"{'descr': '<f8', 'fortran_order': True, 'shape': (300, 511), }", 300 * 511},
      {"{'descr': '<f8', 'fortran_order': True, 'shape': (7, 0), }", 0},
  };
  static const size_t pieces[] = {1, 7, 4096, SIZE_MAX};
  unsigned char *bytes = malloc(300 * 511 * 8 + 512);
  assert_non_null(bytes);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (size_t shift = 0; shift < 2; shift++)
      for (size_t p = cases[i].reals > 100; p < 4; p++)
        for (int socket = 0; socket <= 1; socket++) {
          const char *dictionary = cases[i].dictionary;
          size_t offset = put_header(bytes, 2, dictionary, padding_for(2, dictionary, 64, shift));
          put_reals(bytes + offset, cases[i].reals, 8, dictionary[11] == '>');
          mmci_file_array *npy = NULL;
          mmci_error error;
          assert_int_equal(
              open_stdin(bytes, offset + cases[i].reals * 8, pieces[p], socket, &npy, &error),
              MMC_OK);
          assert_reals(npy->matrix.data, cases[i].reals, 8);
          mmci_file_array_destroy(npy);
        }
  free(bytes);
}

static void test_fifo(void **state) {
  (void)state;
  const char *path = scratch("fifo.npy");
  assert_int_equal(mkfifo(path, 0600), 0);
  const char *dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (100, 100), }";
  unsigned char *bytes = malloc(1 << 16);
  assert_non_null(bytes);
  size_t offset = put_header(bytes, 1, dictionary, padding_for(1, dictionary, 16, 0));
  put_reals(bytes + offset, 10000, 4, false);
  /* Open for both, so that neither end waits for the other; and kept, so that what was written
   * early is not lost. */
  int kept = open(path, O_RDWR), descriptor = dup(kept);
  assert_true(kept >= 0 && descriptor >= 0);
  feeder f = {descriptor, bytes, offset + 40000, 1000};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, feed, &f), 0);
  mmci_file_array *npy = open_ok(path);
  assert_int_equal(pthread_join(thread, NULL), 0);
  close(kept);
  assert_reals(npy->matrix.data, 10000, 4);
  mmci_file_array_destroy(npy);
  free(bytes);
}

static void test_close_null(void **state) {
  (void)state;
  mmci_file_array_destroy(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_kind),
      cmocka_unit_test(test_headers_that_work),
      cmocka_unit_test(test_trailing_bytes),
      cmocka_unit_test(test_specials_pass_through),
      cmocka_unit_test(test_larger_than_memory),
      cmocka_unit_test(test_stdin),
      cmocka_unit_test(test_fifo),
      cmocka_unit_test(test_close_null),
      cmocka_unit_test(test_nothing_left),
  };
  return cmocka_run_group_tests_name("npy", tests, scratch_setup, scratch_teardown);
}

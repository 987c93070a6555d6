/* test_npy_bad.c: every way in which an .npy file can be wrong or out of reach, and what is said
 * about it. */
#include <sys/stat.h>

#include "npy_by_hand.h"
#include "npy_feed.h"

/* ---- what does not ------------------------------------------------------------------------- */

#define WORKING \
  "float16, float32, float64, complex64, complex128, int8 to int64, uint8 to uint64, bool work"

static const struct {
  const char *dictionary, *message;
} headers_that_fail[] = {
    /* Types. */
    {"{'descr': '<i16', 'fortran_order': False, 'shape': (2, 3), }", "'<i16': " WORKING},
    {"{'descr': '|b2', 'fortran_order': False, 'shape': (2, 3), }", "'|b2': " WORKING},
    {"{'descr': '<f16', 'fortran_order': False, 'shape': (2, 3), }", "longdouble '<f16': " WORKING},
    {"{'descr': '<c32', 'fortran_order': False, 'shape': (2, 3), }",
     "clongdouble '<c32': " WORKING},
    {"{'descr': '|O', 'fortran_order': False, 'shape': (2, 3), }", "object '|O': " WORKING},
    {"{'descr': '|S7', 'fortran_order': False, 'shape': (2, 3), }", "bytes '|S7': " WORKING},
    {"{'descr': '<U7', 'fortran_order': False, 'shape': (2, 3), }", "str '<U7': " WORKING},
    {"{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (2, 3), }",
     "datetime64 '<M8[ns]': " WORKING},
    {"{'descr': '<V2', 'fortran_order': False, 'shape': (2, 3), }",
     "void '<V2', npy has no bf16: " WORKING},
    {"{'descr': '|V2', 'fortran_order': False, 'shape': (2, 3), }",
     "void '|V2', npy has no bf16: " WORKING},
    {"{'descr': '|V16', 'fortran_order': False, 'shape': (2, 3), }", "void '|V16': " WORKING},
    {"{'descr': '<f8x', 'fortran_order': False, 'shape': (2, 3), }", "dtype '<f8x': " WORKING},
    {"{'descr': '<<f8', 'fortran_order': False, 'shape': (2, 3), }", "dtype '<<f8': " WORKING},
    {"{'descr': '', 'fortran_order': False, 'shape': (2, 3), }", "dtype '': " WORKING},
    {"{'descr': '<', 'fortran_order': False, 'shape': (2, 3), }", "dtype '<': " WORKING},
    {"{'descr': [('x', '<f4'), ('y', '<i4')], 'fortran_order': False, 'shape': (2, 3), }",
     "structured dtype [('x', '<f4'), ('y', '<i4')]"},
    {"{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': (2, 3), }", "structured dtype ("},
    {"{'descr': [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", WORKING},
    {"{'descr': [\n", WORKING},
    {"{'descr': 8, 'fortran_order': False, 'shape': (2, 3), }", "'descr': a dtype such as"},
    {"{'descr': None, 'fortran_order': False, 'shape': (2, 3), }", "'descr': a dtype such as"},
    {"{'descr': {}, 'fortran_order': False, 'shape': (2, 3), }", "'descr': a dtype such as"},
    {"{'descr': 'u", "plain letters"},
    {"{'descr': u", "'descr': a dtype such as"},
    {"{'descr': '\\x3cf8', 'fortran_order': False, 'shape': (2, 3), }", "plain letters"},
    {"{'descr': '<f\xc3\xa9', 'fortran_order': False, 'shape': (2, 3), }", "byte 0xc3"},
    /* Dimensions. */
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (), }",
     "0 dimensions: 1 to 64 dimensions work"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': ("
     "1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, "
     "1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, "
     "1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, "
     "1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, "
     "1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, "
     "), }",
     "65 dimensions: 1 to 64 dimensions work"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (-2, 3), }", "negative dimension"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (2, -99999999999999999999), }",
     "negative dimension"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 4611686018427387905), }", "above 2^62"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 9223372036854775808), }", "above 2^62"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (18446744073709551617, 1), }",
     "above 2^62"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999999999999999999999999, 0), }",
     "above 2^62"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
     "4294967296x4294967296 elements of f64 are more than a file can hold"},
    {"{'descr': '<c16', 'fortran_order': False, 'shape': (4611686018427387904,), }",
     "more than a file can hold"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4), }",
     "more than a file can hold"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846975,), }",
     "more than a file can hold"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846000,), }",
     "truncated: 128 bytes are there, 9223372036854768128 are needed"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }",
     "truncated: 128 bytes are there, 176 are needed"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': [2, 3], }", "a tuple such as (3, 4)"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': 6, }", "a tuple such as (3, 4)"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (6), }", "a tuple such as (3, 4)"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (,), }", "a dimension in 'shape'"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (2,,3), }", "a dimension in 'shape'"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (2 3), }", "a comma or \")\" in 'shape'"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (2.0, 3), }", "a comma or \")\""},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (2LL, 3), }", "a comma or \")\""},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (1e3, 3), }", "a comma or \")\""},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (010, 3), }", "a decimal number"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (0x10, 3), }", "a comma or \")\""},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (None, 3), }", "a dimension"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': ((2, 3), 4), }", "a dimension"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3", "where it ends"},
    /* Order. */
    {"{'descr': '<f8', 'fortran_order': 0, 'shape': (2, 3), }", "True or False"},
    {"{'descr': '<f8', 'fortran_order': false, 'shape': (2, 3), }", "True or False"},
    {"{'descr': '<f8', 'fortran_order': 'False', 'shape': (2, 3), }", "True or False"},
    {"{'descr': '<f8', 'fortran_order': Falsehood, 'shape': (2, 3), }", "a comma or \"}\""},
    {"{'descr': '<f8', 'fortran_order': Fals", "True or False"},
    /* The dictionary. */
    {"", "a dictionary, \"{\", expected"},
    {"[]", "a dictionary, \"{\", expected"},
    {"None", "a dictionary, \"{\", expected"},
    {"{", "a key in quotes or \"}\" expected"},
    {"{}", "key 'descr' is missing"},
    {"{,}", "a key in quotes"},
    {"{'fortran_order': False, 'shape': (2, 3), }", "key 'descr' is missing"},
    {"{'descr': '<f8', 'shape': (2, 3), }", "key 'fortran_order' is missing"},
    {"{'descr': '<f8', 'fortran_order': False, }", "key 'shape' is missing"},
    {"{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }",
     "key 'descr' twice"},
    {"{'descr': '<f8', 'shape': (2, 3), 'fortran_order': False, 'shape': (2, 3), }",
     "key 'shape' twice"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), 'extra': 1}",
     "unknown key 'extra'"},
    {"{'descr': '<f8', 'fortran_order': False, 'shap': (2, 3), }", "unknown key 'shap'"},
    {"{'descr': '<f8', 'fortran_order': False, 'shapes': (2, 3), }", "unknown key 'shapes'"},
    {"{'descr' '<f8', 'fortran_order': False, 'shape': (2, 3), }", "a colon after a key"},
    {"{'descr': '<f8' 'fortran_order': False, 'shape': (2, 3), }", "a comma or \"}\""},
    {"{'descr': '<f8',, 'fortran_order': False, 'shape': (2, 3), }", "a key in quotes"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), } x", "nothing but spaces"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }}", "nothing but spaces"},
    {"\xef\xbb\xbf{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", "byte 0xef"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (\xd9\xa3, 3), }", "byte 0xd9"},
    {"{\x01", "byte 0x01"},
};

static void test_headers_that_fail(void **state) {
  (void)state;
  const char *path = scratch("header.npy");
  for (size_t i = 0; i < sizeof headers_that_fail / sizeof headers_that_fail[0]; i++) {
    unsigned char bytes[512];
    const char *dictionary = headers_that_fail[i].dictionary;
    size_t used = 10 + strlen(dictionary);
    put_file(path, bytes,
             put_header(bytes, 1, dictionary, used < 128 ? 128 - used : 64 - used % 64));
    assert_fails(path, MMC_E_FORMAT, headers_that_fail[i].message);
  }
}

static const struct {
  const char *bytes;
  size_t size;
  const char *message;
} preludes_that_fail[] = {
    {"", 0, "empty"},
    {"1 2 3\n", 6, "not an .npy file"},
    {"x", 1, "not an .npy file"},
    {"PK\x03\x04 and so on", 14, "a zip archive"},
    {"\x93NUMPX\x01\0v\0", 10, "not an .npy file"},
    {"\x93", 1, "truncated: 1 bytes are there"},
    {"\x93NUMPY", 6, "truncated: 6 bytes are there"},
    {"\x93NUMPY\x01\0\x10", 9, "truncated: 9 bytes are there"},
    {"\x93NUMPY\x02\0\x10\0\0", 11, "truncated: 11 bytes are there"},
    {"\x93NUMPY\x01\0\x10\0", 10, "truncated: 10 bytes are there, the .npy header alone needs 26"},
    {"\x93NUMPY\x01\0\xff\xff", 10, "needs 65545"},
    {"\x93NUMPY\x02\0\x10\0\0\0", 12, "needs 28"},
    {"\x93NUMPY\x02\0\xff\xff\xff\xff", 12, "header of 4294967295 bytes"},
    {"\x93NUMPY\x03\0\x01\x00\x10\x00", 12, "header of 1048577 bytes"},
    {"\x93NUMPY\x00\0v\0", 10, "format version 0.0: 1.0, 2.0 and 3.0 work"},
    {"\x93NUMPY\x04\0v\0\0\0", 12, "format version 4.0: 1.0, 2.0 and 3.0 work"},
    {"\x93NUMPY\x01\x01v\0", 10, "format version 1.1: 1.0, 2.0 and 3.0 work"},
    {"\x93NUMPY\xff\xff", 8, "format version 255.255"},
};

static void test_preludes_that_fail(void **state) {
  (void)state;
  const char *path = scratch("prelude.npy");
  for (size_t i = 0; i < sizeof preludes_that_fail / sizeof preludes_that_fail[0]; i++) {
    put_file(path, preludes_that_fail[i].bytes, preludes_that_fail[i].size);
    assert_fails(path, MMC_E_FORMAT, preludes_that_fail[i].message);
  }
}

/* Cut anywhere, a file is not a file. */
static void test_every_truncation(void **state) {
  (void)state;
  const char *dictionary = "{'descr': '<c8', 'fortran_order': True, 'shape': (3, 4), }";
  unsigned char bytes[512];
  const char *path = scratch("cut.npy");
  for (int version = 1; version <= 3; version++) {
    size_t offset = put_header(bytes, version, dictionary, padding_for(version, dictionary, 64, 0));
    put_reals(bytes + offset, 24, 4, false);
    for (size_t size = 0; size < offset + 96; size++) {
      put_file(path, bytes, size);
      assert_fails(path, MMC_E_FORMAT, size == 0 ? "empty" : "truncated");
    }
  }
}

/* ---- what cannot be read ------------------------------------------------------------------- */

static void test_unreadable(void **state) {
  (void)state;
  assert_fails(scratch("missing.npy"), MMC_E_IO, "No such file or directory");
  assert_fails("", MMC_E_IO, "No such file or directory");
  assert_fails(scratch_directory, MMC_E_IO, "Is a directory");
  put_file(scratch("file"), "x", 1);
  assert_fails(scratch("file/in.npy"), MMC_E_IO, "Not a directory");
  assert_int_equal(symlink("loop", scratch("loop")), 0);
  assert_fails(scratch("loop"), MMC_E_IO, "Too many levels of symbolic links");
  unlink(scratch("loop"));
  assert_fails("/dev/null", MMC_E_FORMAT, "empty");
  /* The kernel makes these up: one claims no size, the other one that cannot be mapped. */
  static const char *const made_up[] = {"/proc/self/status", "/sys/kernel/mm/ksm/run"};
  for (size_t i = 0; i < 2; i++)
    if (access(made_up[i], R_OK) == 0) assert_fails(made_up[i], MMC_E_FORMAT, "not an .npy file");
}

static void test_permission(void **state) {
  (void)state;
  const char *path = scratch("secret.npy");
  put_file(path, "x", 1);
  assert_int_equal(chmod(path, 0), 0);
  assert_int_equal(chmod(scratch_directory, 0755), 0);
  if (!drop_privileges()) skip();
  mmci_error error = {.text = ""};
  mmci_file_array *npy = NULL;
  mmc_status status = mmci_npy_open(path, &npy, &error);
  restore_privileges();
  assert_int_equal(status, MMC_E_IO);
  assert_holds(error.text, "/secret.npy: cannot read: Permission denied");
}

/* A message is one line that keeps its reason, whatever the path. */
static void test_odd_paths(void **state) {
  (void)state;
  char path[4000];
  mmci_error error;
  mmci_file_array *npy = NULL;
  memset(path, 'p', sizeof path);
  for (size_t i = 0; i < sizeof path; i += 100) path[i] = '/';
  strcpy(path + sizeof path - 12, "/matrix.npy");
  assert_int_equal(mmci_npy_open(path, &npy, &error), MMC_E_IO);
  assert_holds(error.text, "...");
  assert_holds(error.text, "/matrix.npy: cannot read: No such file or directory");

  assert_int_equal(mmci_npy_open(scratch("a\nb\x1b.npy"), &npy, &error), MMC_E_IO);
  assert_holds(error.text, "/a?b?.npy: cannot read");
  assert_int_equal(mmci_npy_open(scratch("\xc3\xa9%s%n.npy"), &npy, &error), MMC_E_IO);
  assert_holds(error.text, "/\xc3\xa9%s%n.npy: cannot read");
}

/* Short and hostile streams: what comes decides, not what the header promises. */
static void test_bad_streams(void **state) {
  (void)state;
  unsigned char bytes[4096] = {0};
  mmci_file_array *npy = NULL;
  mmci_error error;
  assert_int_equal(open_stdin(bytes, 0, 1, false, &npy, &error), MMC_E_FORMAT);
  assert_holds(error.text, "standard input: empty");
  const char *dictionary =
      "{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846000,), }";
  size_t offset = put_header(bytes, 1, dictionary, padding_for(1, dictionary, 64, 0));
  assert_int_equal(open_stdin(bytes, offset + 8, 100, false, &npy, &error), MMC_E_FORMAT);
  assert_holds(error.text, "truncated: 136 bytes are there, 9223372036854768128 are needed");
  assert_int_equal(open_stdin(bytes, offset - 8, 100, false, &npy, &error), MMC_E_FORMAT);
  assert_holds(error.text, "truncated: 120 bytes are there, the .npy header alone needs 128");
  put_header(bytes, 3, dictionary, 1);
  bytes[8] = bytes[9] = bytes[10] = bytes[11] = 0xff;
  assert_int_equal(open_stdin(bytes, sizeof bytes, 100, false, &npy, &error), MMC_E_FORMAT);
  assert_holds(error.text, "header of 4294967295 bytes");
  /* No end at all. */
  assert_fails("/dev/zero", MMC_E_FORMAT, "not an .npy file");
  assert_null(npy);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_headers_that_fail), cmocka_unit_test(test_preludes_that_fail),
      cmocka_unit_test(test_every_truncation),  cmocka_unit_test(test_unreadable),
      cmocka_unit_test(test_permission),        cmocka_unit_test(test_odd_paths),
      cmocka_unit_test(test_bad_streams),       cmocka_unit_test(test_nothing_left),
  };
  return cmocka_run_group_tests_name("npy bad", tests, scratch_setup, scratch_teardown);
}

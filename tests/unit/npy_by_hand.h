/* npy_by_hand.h: .npy files made byte by byte, and how they must and must not open. */
#ifndef NPY_BY_HAND_H
#define NPY_BY_HAND_H

#include "base/half.h"
#include "io/npy.h"
#include "npy_scratch.h"

/* Puts a header in front of what follows: the dictionary, padding bytes of spaces (the last a
 * newline), and says how long it came. */
static inline size_t put_header(unsigned char *to, int version, const char *dictionary,
                                size_t padding) {
  size_t length = strlen(dictionary) + padding;
  size_t length_size = version == 1 ? 2 : 4;
  memcpy(to, "\x93NUMPY", 6);
  to[6] = (unsigned char)version;
  to[7] = 0;
  for (size_t i = 0; i < length_size; i++) to[8 + i] = (unsigned char)(length >> (8 * i));
  unsigned char *at = to + 8 + length_size;
  memcpy(at, dictionary, strlen(dictionary));
  memset(at + strlen(dictionary), ' ', padding);
  if (padding != 0) at[length - 1] = '\n';
  return 8 + length_size + length;
}

/* The padding that makes the header end on a multiple of alignment, then shift bytes more. */
static inline size_t padding_for(int version, const char *dictionary, size_t alignment,
                                 size_t shift) {
  size_t used = (version == 1 ? 10u : 12u) + strlen(dictionary);
  return alignment - used % alignment + shift;
}

/* The value of real number i of a file: exact in float32, and a small i in float16. */
static inline double value_of(size_t i) {
  return (double)i * 0.5 - 3.25;
}

/* Writes the real numbers 0..count-1 in the byte order asked for. */
static inline void put_reals(unsigned char *to, size_t count, size_t real_size, bool big_endian) {
  for (size_t i = 0; i < count; i++) {
    uint64_t bits = 0;
    double as_double = value_of(i);
    float as_float = (float)as_double;
    if (real_size == 2) {
      bits = mmci_f16_round(as_double);
    } else if (real_size == 4) {
      uint32_t narrow;
      memcpy(&narrow, &as_float, sizeof narrow);
      bits = narrow;
    } else {
      memcpy(&bits, &as_double, sizeof bits);
    }
    for (size_t b = 0; b < real_size; b++)
      to[i * real_size + (big_endian ? real_size - 1 - b : b)] = (unsigned char)(bits >> (8 * b));
  }
}

static inline void assert_reals(const void *data, size_t count, size_t real_size) {
  assert_int_equal((uintptr_t)data % real_size, 0);
  for (size_t i = 0; i < count; i++) {
    double got = real_size == 2   ? (double)mmci_f16_to_f32(((const uint16_t *)data)[i])
                 : real_size == 4 ? (double)((const float *)data)[i]
                                  : ((const double *)data)[i];
    assert_true(got == value_of(i));
  }
}

static inline bool host_is_big_endian(void) {
  return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
}

/* Says whether data lie in a mapping of the file: then they keep their distance from a page's
 * start. */
static inline bool is_mapped(const void *data, size_t offset) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  return (uintptr_t)data % page == offset % page;
}

static inline mmci_file_array *open_ok(const char *path) {
  mmci_error error = {.text = ""};
  mmci_file_array *npy = NULL;
  if (mmci_npy_open(path, &npy, &error) != MMC_OK) fail_msg("%s", error.text);
  assert_non_null(npy);
  return npy;
}

/* Opening must fail with that status, and a one-line message that names the path and holds text. */
static inline void assert_fails(const char *path, mmc_status expected, const char *text) {
  mmci_error error = {.text = ""};
  mmci_file_array *npy = (mmci_file_array *)&error;
  mmc_status status = mmci_npy_open(path, &npy, &error);
  if (status != expected) fail_msg("%s: status %d, %s", path, (int)status, error.text);
  assert_int_equal(error.status, expected);
  assert_ptr_equal(npy, &error); /* *out is written on success only */
  assert_holds(error.text, path);
  assert_holds(error.text, text);
  assert_null(strpbrk(error.text, "\n\r"));
  npy = NULL;
  assert_int_equal(mmci_npy_open(path, &npy, NULL), expected);
}

/* Dictionaries in every spelling; none has more than six elements. */
static const struct {
  const char *dictionary;
  int ndim;
  int64_t rows, cols;
  bool fortran_order;
} headers_that_work[] = {
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", 2, 2, 3, false},
    {"{'shape': (2, 3), 'fortran_order': True, 'descr': '<f8'}", 2, 2, 3, true},
    {"{\"fortran_order\":False,\"descr\":\"<f8\",\"shape\":(2,3)}", 2, 2, 3, false},
    {"  { 'descr' : '<f8' , 'fortran_order' : False , 'shape' : ( 2 , 3 , ) , } ", 2, 2, 3, false},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (2L, 3L), }", 2, 2, 3, false},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (6L,), }", 1, 1, 6, false},
    {"{'descr': '<f8',\n 'fortran_order': False,\n\t'shape': (6 ,)}\n", 1, 1, 6, false},
    {"{u'descr': u'<f8', 'fortran_order': True, 'shape': (6,), }", 1, 1, 6, false},
    {"{'descr': 'float64', 'fortran_order': False, 'shape': (2, 3), }", 2, 2, 3, false},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (0, 5), }", 2, 0, 5, false},
    {"{'descr': '<f8', 'fortran_order': True, 'shape': (5, 0), }", 2, 5, 0, true},
    {"{'descr': '>f8', 'fortran_order': False, 'shape': (0, 0), }", 2, 0, 0, false},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (0,), }", 1, 1, 0, false},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (0, 4611686018427387904)}", 2, 0,
     INT64_C(1) << 62, false},
};

#endif

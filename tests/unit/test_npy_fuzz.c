/* test_npy_fuzz.c: valid files, changed at random, must open or fail, and nothing else. */
#include "io/npy_header.h"
#include "npy_by_hand.h"

/* xorshift64*: the same on every machine. */
static uint64_t next_random(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * UINT64_C(0x2545F4914F6CDD1D);
}

static size_t below(uint64_t *state, size_t n) {
  return (size_t)(next_random(state) % n);
}

/* MMCHAIN_TEST_SEED when set, so that a failure can be repeated. */
static uint64_t seed_of_test(const char *test) {
  const char *text = getenv("MMCHAIN_TEST_SEED");
  uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : 0;
  if (seed == 0) seed = UINT64_C(0x9E3779B97F4A7C15);
  print_message("%s: MMCHAIN_TEST_SEED=0x%llx\n", test, (unsigned long long)seed);
  return seed;
}

/* Changes a valid file in one to four places: bits, bytes, pieces cut, doubled or exchanged for
 * words that mean something. Returns the new size, at most room. */
static size_t mutate(uint64_t *random, unsigned char *bytes, size_t size, size_t room) {
  static const char *const words[] = {
      "(",    ")",       "{",       "}",       "[",
      "'",    "\"",      ",",       ":",       "-",
      "L",    "True",    "0",       "1",       "4611686018427387904",
      "9999", "'descr'", "'shape'", "'>c16'",  "9223372036854775807",
      "u'",   "\\",      "\x00",    "\xff",    "18446744073709551616",
      "'V2'", "'>f2'",   "'<f2'",   "float16", "(1000000, 1000000)"};
  for (size_t changes = 1 + below(random, 4); changes-- != 0 && size != 0;) {
    size_t at = below(random, size), length = 1 + below(random, 8);
    if (length > size - at) length = size - at;
    const char *word = words[below(random, sizeof words / sizeof words[0])];
    size_t word_length = *word == '\0' ? 1 : strlen(word);
    switch (below(random, 7)) {
      case 0:
        bytes[at] ^= (unsigned char)(1u << below(random, 8));
        break;
      case 1:
        bytes[at] = (unsigned char)below(random, 256);
        break;
      case 2:
        memmove(bytes + at, bytes + at + length, size - at - length);
        size -= length;
        break;
      case 3:
        if (size + length > room) break;
        memmove(bytes + at + length, bytes + at, size - at);
        size += length;
        break;
      case 4:
        size = at;
        break;
      case 5:
        if (word_length <= size - at) memcpy(bytes + at, word, word_length);
        break;
      default:
        if (size + word_length > room) break;
        memmove(bytes + at + word_length, bytes + at, size - at);
        memcpy(bytes + at, word, word_length);
        size += word_length;
    }
  }
  return size;
}

/* A valid file to start from; small, so that most changes hit the header. */
static size_t valid_file(uint64_t *random, unsigned char *bytes) {
  size_t which = below(random, sizeof headers_that_work / sizeof headers_that_work[0]);
  const char *dictionary = headers_that_work[which].dictionary;
  int version = 1 + (int)below(random, 3);
  size_t offset = put_header(bytes, version, dictionary,
                             padding_for(version, dictionary, 16, below(random, 3)));
  put_reals(bytes + offset, 6, 8, false);
  return offset + 48;
}

/* The parser alone, on memory that ends where its input ends, so that a sanitizer sees a step too
 * far; and what it accepts must be sane. */
static void test_fuzz_header(void **state) {
  (void)state;
  uint64_t random = seed_of_test("test_fuzz_header");
  int accepted = 0;
  for (int round = 0; round < 100000; round++) {
    unsigned char bytes[1024];
    size_t size = valid_file(&random, bytes);
    size = mutate(&random, bytes, size, sizeof bytes);
    unsigned char *exact = malloc(size != 0 ? size : 1);
    assert_non_null(exact);
    memcpy(exact, bytes, size);
    size_t prelude_size = 0, dictionary_size = 0;
    mmci_error error = {.text = ""};
    mmc_status status =
        mmci_npy_prelude_parse(exact, size, &prelude_size, &dictionary_size, &error);
    free(exact);
    if (status == MMC_OK) {
      assert_true(prelude_size <= size);
      size -= prelude_size;
      if (dictionary_size > size) dictionary_size = size;
      char *text = malloc(dictionary_size != 0 ? dictionary_size : 1);
      assert_non_null(text);
      memcpy(text, bytes + prelude_size, dictionary_size);
      mmci_npy_header header;
      status = mmci_npy_dictionary_parse(text, dictionary_size, &header, &error);
      free(text);
      if (status == MMC_OK) {
        accepted++;
        assert_non_null(header.type);
        assert_in_range(header.ndim, 1, MMCI_NPY_NDIM_MAX);
        for (int d = 0; d < header.ndim; d++)
          assert_true(header.shape[d] >= 0 && header.shape[d] <= INT64_C(1) << 62);
        continue;
      }
    }
    assert_int_equal(status, MMC_E_FORMAT);
    assert_int_equal(error.status, MMC_E_FORMAT);
    assert_true(strlen(error.text) > 10 && strlen(error.text) < 200);
    for (const char *c = error.text; *c != '\0'; c++) assert_in_range(*c, 0x20, 0x7e);
  }
  print_message("%d of 100000 accepted\n", accepted);
  assert_in_range(accepted, 1000, 99000);
}

/* A dictionary cut anywhere is an error, found without a look past its end. */
static void test_every_prefix(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof headers_that_work / sizeof headers_that_work[0]; i++) {
    const char *dictionary = headers_that_work[i].dictionary;
    size_t end = (size_t)(strchr(dictionary, '}') - dictionary);
    for (size_t size = 0; size <= end; size++) {
      char *text = malloc(size != 0 ? size : 1);
      assert_non_null(text);
      memcpy(text, dictionary, size);
      mmci_npy_header header;
      mmci_error error;
      assert_int_equal(mmci_npy_dictionary_parse(text, size, &header, &error), MMC_E_FORMAT);
      assert_holds(error.text, "expected");
      free(text);
    }
  }
}

/* Whole files: whatever opens can be read to the end. */
static void test_fuzz_file(void **state) {
  (void)state;
  uint64_t random = seed_of_test("test_fuzz_file");
  const char *path = scratch("fuzz.npy");
  int accepted = 0;
  for (int round = 0; round < 20000; round++) {
    unsigned char bytes[1024];
    size_t size = valid_file(&random, bytes);
    size = mutate(&random, bytes, size, sizeof bytes);
    put_file(path, bytes, size);
    mmci_error error = {.text = ""};
    mmci_file_array *npy = NULL;
    mmc_status status = mmci_npy_open(path, &npy, &error);
    if (status != MMC_OK) {
      assert_int_equal(status, MMC_E_FORMAT);
      assert_null(npy);
      assert_holds(error.text, path);
      continue;
    }
    accepted++;
    mmc_matrix m = npy->matrix;
    size_t data_size = element_size_of(npy->dtype);
    for (int d = 0; d < npy->ndim; d++) data_size *= (size_t)npy->shape[d];
    assert_true(data_size <= size);
    if (data_size == 0) {
      assert_null(m.data);
    } else {
      assert_non_null(m.data);
      const volatile unsigned char *data = m.data; /* volatile, so that the reads happen */
      for (size_t i = 0; i < data_size; i++) (void)data[i];
    }
    mmci_file_array_destroy(npy);
  }
  print_message("%d of 20000 accepted\n", accepted);
  assert_in_range(accepted, 200, 19800);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_prefix),
      cmocka_unit_test(test_fuzz_header),
      cmocka_unit_test(test_fuzz_file),
      cmocka_unit_test(test_nothing_left),
  };
  return cmocka_run_group_tests_name("npy fuzz", tests, scratch_setup, scratch_teardown);
}

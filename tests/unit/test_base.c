/* test_base.c: counts, text, allocation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../random.h"
#include "base/alloc.h"
#include "base/text.h"
#include "base/wide.h"

static const uint64_t seed = 7;

static void counts_saturate(void **state) {
  (void)state;
  mmci_u128 max = MMCI_U128_MAX;
  assert_true(mmci_u128_add(max, 0) == max);
  assert_true(mmci_u128_add(max - 1, 1) == max);
  assert_true(mmci_u128_add(max, max) == max);
  assert_true(mmci_u128_mul(max / 2, 2) == max - 1);
  assert_true(mmci_u128_mul(max / 2 + 1, 2) == max);
  int64_t top = INT64_C(1) << 62;
  assert_true(mmci_multiplications(top, top, 1) == (mmci_u128)1 << 124);
  assert_true(mmci_multiplications(top, top, 8) == (mmci_u128)1 << 127);
  assert_true(mmci_multiplications(top, top, 16) == max);
  assert_true(mmci_multiplications(top, 0, top) == 0);
  assert_true(mmci_multiplications(3000000000, 3000000000, 3000000000) ==
              (mmci_u128)9000000000000000000u * 3000000000u);
}

static void counts_print(void **state) {
  (void)state;
  char text[MMC_COUNT_TEXT_SIZE];
  assert_string_equal(mmc_count_format(mmci_count(0), text), "0");
  assert_string_equal(mmc_count_format(mmci_count(15125), text), "15125");
  assert_string_equal(mmc_count_format(mmci_count(MMCI_U128_MAX), text),
                      "340282366920938463463374607431768211455");
  assert_string_equal(mmc_count_format((mmc_count){.lo = 0, .hi = 1}, text),
                      "18446744073709551616");
  assert_true(mmc_count_to_double((mmc_count){.lo = 0, .hi = 1}) == 18446744073709551616.0);
}

/* Against long division of what fits 128 bits, and at the edges of what does not. */
static void ratios_compare_exactly(void **state) {
  (void)state;
  uint64_t random = seed;
  for (int round = 0; round < 100000; round++) {
    mmci_u128 x[4];
    for (int i = 0; i < 4; i++) x[i] = 1 + (random_bits(&random) >> random_below(&random, 63));
    mmci_u128 left = x[0] * x[3], right = x[2] * x[1]; /* below 2^128: each is below 2^64 */
    int expected = left < right ? -1 : left > right;
    assert_int_equal(mmci_ratio_compare(x[0], x[1], x[2], x[3]), expected);
    mmci_u128 scale = (mmci_u128)1 << 62;
    assert_int_equal(mmci_ratio_compare(x[0] * scale, x[1] * scale, x[2], x[3]), expected);
  }
  mmci_u128 max = MMCI_U128_MAX;
  assert_int_equal(mmci_ratio_compare(max, max - 1, max - 1, max - 2), -1);
  assert_int_equal(mmci_ratio_compare(max, max, max - 1, max - 1), 0);
  assert_int_equal(mmci_ratio_compare(max, 1, max - 1, 1), 1);
}

typedef struct sink {
  char bytes[8192];
  size_t size;
  int calls_until_failure;
} sink;

static int collect(void *user, const char *bytes, size_t size) {
  sink *s = user;
  if (s->calls_until_failure-- == 0) return 1;
  memcpy(s->bytes + s->size, bytes, size);
  s->size += size;
  return 0;
}

static void text_arrives_whole(void **state) {
  (void)state;
  sink s = {.calls_until_failure = 100};
  mmci_text text;
  mmci_text_start(&text, collect, &s);
  char expected[8192] = "";
  for (int i = 0; i < 700; i++) {
    mmci_text_printf(&text, "%d,", i);
    snprintf(expected + strlen(expected), 16, "%d,", i);
  }
  char large[3000];
  memset(large, 'x', sizeof large);
  mmci_text_bytes(&text, large, sizeof large);
  assert_int_equal(mmci_text_finish(&text, NULL), MMC_OK);
  assert_int_equal(s.size, strlen(expected) + sizeof large);
  assert_memory_equal(s.bytes, expected, strlen(expected));
  assert_memory_equal(s.bytes + strlen(expected), large, sizeof large);
}

static void text_reports_failure(void **state) {
  (void)state;
  for (int calls = 0; calls < 3; calls++) {
    sink s = {.calls_until_failure = calls};
    mmci_text text;
    mmci_error error;
    mmci_text_start(&text, collect, &s);
    for (int i = 0; i < 1000; i++) mmci_text_printf(&text, "number %d\n", i);
    assert_int_equal(mmci_text_finish(&text, &error), MMC_E_IO);
    assert_int_equal(error.status, MMC_E_IO);
  }
}

static void json_strings_are_escaped(void **state) {
  (void)state;
  sink s = {.calls_until_failure = 100};
  mmci_text text;
  mmci_text_start(&text, collect, &s);
  mmci_text_json_string(&text, "a\"b\\c\n\x01 \xc3\xa9");
  assert_int_equal(mmci_text_finish(&text, NULL), MMC_OK);
  s.bytes[s.size] = '\0';
  assert_string_equal(s.bytes, "\"a\\\"b\\\\c\\u000a\\u0001 \xc3\xa9\"");
}

static void allocation_sizes_are_checked(void **state) {
  (void)state;
  assert_null(mmci_alloc_array(SIZE_MAX / 2, 3));
  assert_null(mmci_alloc_aligned(SIZE_MAX - 8, 1));
  assert_null(mmci_alloc_aligned(SIZE_MAX / 2, 3));
  void *nothing = mmci_alloc_array(0, 8), *zeroed = mmci_alloc_zeroed(0, 8);
  assert_non_null(nothing);
  assert_non_null(zeroed);
  void *aligned = mmci_alloc_aligned(3, 5);
  assert_int_equal((uintptr_t)aligned % MMCI_ALIGNMENT, 0);
  free(nothing);
  free(zeroed);
  free(aligned);
}

static void every_status_has_a_text(void **state) {
  (void)state;
#define CHECK(name, value, text)       \
  assert_int_equal(MMC_##name, value); \
  assert_string_equal(mmc_status_string(MMC_##name), text);
  MMC_STATUS_MAP(CHECK)
  assert_string_equal(mmc_status_string((mmc_status)9999), "unknown status");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_saturate),
      cmocka_unit_test(counts_print),
      cmocka_unit_test(ratios_compare_exactly),
      cmocka_unit_test(text_arrives_whole),
      cmocka_unit_test(text_reports_failure),
      cmocka_unit_test(json_strings_are_escaped),
      cmocka_unit_test(allocation_sizes_are_checked),
      cmocka_unit_test(every_status_has_a_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_outer.c: which products of a GPU go to the kernel for few terms of 16 bits, how it cuts them
 * and what it is predicted to take. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "device/cuda/product/outer.h"

static mmci_gemm product(mmc_dtype dtype, int64_t m, int64_t k, int64_t n, int64_t batch) {
  mmci_gemm gemm = mmci_gemm_tight(dtype, MMCI_NATIVE, m, k, n, MMC_OP_N, MMC_OP_N);
  if (batch > 1) mmci_gemm_spread(&gemm, batch);
  return gemm;
}

static void few_terms_of_16_bits_are_supported(void **state) {
  (void)state;
  mmci_gemm gemm = product(MMC_BF16, 300, 8, 500, 100);
  assert_true(mmci_outer_supports(&gemm));
  gemm.accumulate = true;
  assert_false(mmci_outer_supports(&gemm));
  gemm.accumulate = false;
  gemm.a.gathered = true;
  assert_false(mmci_outer_supports(&gemm));
  gemm = product(MMC_F16, 300, 33, 500, 100);
  assert_false(mmci_outer_supports(&gemm));
  assert_true(isnan(mmci_outer_us(&gemm)));
  gemm = product(MMC_F32, 300, 8, 500, 100);
  assert_false(mmci_outer_supports(&gemm));
  gemm = product(MMC_F16, 1 << 20, 8, 1 << 20, 100000); /* more tiles than a launch has blocks */
  assert_false(mmci_outer_supports(&gemm));
}

/* Tiles cover C, and what a block needs is there without asking for more. */
static void cuts_fit(void **state) {
  enum { SHARED_BYTES = 48 << 10, STRIP = 16, MOST_WORDS = 16, WORD = 8, MOST_THREADS = 128 };
  static const int64_t TERMS[] = {1, 16, 17, 32}, ROWS[] = {1, 15, 16, 17, 64, 300, 5000},
                       BATCHES[] = {1, 3, 20000};
  (void)state;
  for (int64_t n = 1; n < 700; n++)
    for (int t = 0; t < 4; t++)
      for (int r = 0; r < 7; r++)
        for (int b = 0; b < 3; b++)
          for (int gap = 0; gap < 2; gap++) {
            mmci_gemm gemm = product(MMC_F16, ROWS[r], TERMS[t], n, BATCHES[b]);
            gemm.ldc += gap;
            assert_true(mmci_outer_supports(&gemm));
            const mmci_outer_cut x = mmci_outer_cut_of(&gemm);
            assert_in_range(x.shared_bytes, 1, SHARED_BYTES);
            assert_in_range(x.threads, 32, MOST_THREADS);
            assert_int_equal(x.threads % 32, 0);
            assert_true(x.rows >= STRIP && x.rows % STRIP == 0 && x.bands >= 1);
            const int64_t down = (int64_t)x.bands * x.rows;
            assert_int_equal(x.tiles, (gemm.m + down - 1) / down * ((n + x.cols - 1) / x.cols));
            if (x.packed) {
              assert_true(gap == 0 && x.cols == n && x.pitch == n);
            } else {
              assert_true(x.cols % WORD == 0 && x.cols <= MOST_WORDS * WORD);
              assert_true(x.pitch % WORD == 0 &&
                          x.pitch >= x.cols + (gemm.ldc % WORD == 0 ? 0 : WORD));
            }
          }
}

static void more_work_takes_longer(void **state) {
  (void)state;
  const mmci_gemm little = product(MMC_BF16, 300, 8, 500, 100),
                  wide = product(MMC_BF16, 300, 8, 5000, 100),
                  many = product(MMC_BF16, 300, 8, 500, 1000);
  assert_true(mmci_outer_us(&little) > 2);
  assert_true(mmci_outer_us(&wide) > 5 * mmci_outer_us(&little));
  assert_true(mmci_outer_us(&many) > 5 * mmci_outer_us(&little));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(few_terms_of_16_bits_are_supported),
      cmocka_unit_test(cuts_fit),
      cmocka_unit_test(more_work_takes_longer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

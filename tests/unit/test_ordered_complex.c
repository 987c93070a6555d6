/* test_ordered_complex.c: into which tiles reproducible complex products are cut on a GPU, and what
 * they are predicted to take, beside what either size of tiles took on an H200. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "device/cuda/product/ordered_complex.h"

enum { MULTIPROCESSORS = 132 };

static mmci_gemm product(mmc_dtype dtype, int64_t m, int64_t k, int64_t n, int64_t batch) {
  mmci_gemm gemm = mmci_gemm_tight(dtype, MMCI_REPRODUCIBLE, m, k, n, MMC_OP_N, MMC_OP_N);
  gemm.batch = batch;
  return gemm;
}

static void tiles_are_those_that_were_measured_to_be_fast(void **state) {
  (void)state;
  static const struct {
    mmc_dtype dtype;
    int64_t m, k, n, batch;
    double large_us, small_us;
  } measured[] = {
      {MMC_C64, 24, 24, 24, 5000, 67.7, 40.5},    {MMC_C64, 32, 32, 32, 3000, 54.6, 36.1},
      {MMC_C64, 64, 64, 64, 1000, 73.0, 77.9},    {MMC_C64, 96, 96, 96, 400, 158.3, 100.7},
      {MMC_C64, 200, 200, 200, 60, 199.9, 146.4}, {MMC_C64, 40, 9, 70, 3000, 114.6, 91.8},
      {MMC_C64, 256, 256, 256, 1, 50.6, 42.0},    {MMC_C128, 16, 16, 16, 5000, 30.1, 22.3},
      {MMC_C128, 48, 48, 48, 1000, 69.0, 56.2},   {MMC_C128, 64, 64, 64, 500, 47.6, 62.6},
      {MMC_C128, 64, 64, 64, 50, 14.4, 12.5},     {MMC_C128, 100, 100, 100, 200, 100.2, 109.9},
      {MMC_C128, 20, 150, 30, 1000, 45.7, 78.9},  {MMC_C128, 40, 9, 70, 2000, 84.1, 71.9},
      {MMC_C128, 256, 256, 256, 1, 39.3, 31.0}};
  for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
    const mmci_gemm gemm =
        product(measured[i].dtype, measured[i].m, measured[i].k, measured[i].n, measured[i].batch);
    const bool large = mmci_ordered_complex_is_large(&gemm, MULTIPROCESSORS);
    const double us = 1e6 * mmci_ordered_complex_seconds(&gemm, MULTIPROCESSORS),
                 taken = large ? measured[i].large_us : measured[i].small_us;
    assert_true(large == (measured[i].large_us < measured[i].small_us));
    if (!(us < 1.15 * taken && us > taken / 1.15))
      fail_msg("%d: %g us, expected about %g", (int)i, us, taken);
  }
}

/* A tile that has a multiprocessor to itself takes as long as one among few, and a term more takes
 * longer. */
static void times_grow_with_the_work(void **state) {
  (void)state;
  static const mmc_dtype dtypes[] = {MMC_C64, MMC_C128};
  for (int d = 0; d < 2; d++) {
    const mmci_gemm one = product(dtypes[d], 16, 4000, 16, 1),
                    few = product(dtypes[d], 16, 4000, 16, 200),
                    many = product(dtypes[d], 16, 4000, 16, 20000),
                    longer = product(dtypes[d], 16, 8000, 16, 1);
    const double one_s = mmci_ordered_complex_seconds(&one, MULTIPROCESSORS);
    assert_true(mmci_ordered_complex_seconds(&few, MULTIPROCESSORS) == one_s);
    assert_true(mmci_ordered_complex_seconds(&many, MULTIPROCESSORS) > 10 * one_s);
    assert_true(mmci_ordered_complex_seconds(&longer, MULTIPROCESSORS) > 1.9 * one_s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tiles_are_those_that_were_measured_to_be_fast),
      cmocka_unit_test(times_grow_with_the_work),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

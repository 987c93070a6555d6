/* test_ordered_complex.c: into which tiles reproducible complex products are cut on a GPU, and what
 * they are predicted to take, beside what some took on an H200. */
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

/* Predictions by tiles that were measured are near what they took. */
static void predictions_are_near_what_was_measured(void **state) {
  (void)state;
  enum { C64_32 = 2, C128_16 = 1, C128_32 = 3 };
  static const struct {
    mmc_dtype dtype;
    int tile;
    int64_t m, k, n, batch;
    double us;
  } measured[] = {
      {MMC_C64, C64_32, 24, 24, 24, 5000, 40.5},    {MMC_C64, C64_32, 32, 32, 32, 3000, 36.1},
      {MMC_C64, C64_32, 64, 64, 64, 1000, 77.9},    {MMC_C64, C64_32, 96, 96, 96, 400, 100.7},
      {MMC_C64, C64_32, 200, 200, 200, 60, 146.4},  {MMC_C64, C64_32, 40, 9, 70, 3000, 91.8},
      {MMC_C64, C64_32, 256, 256, 256, 1, 42.0},    {MMC_C128, C128_16, 16, 16, 16, 5000, 22.3},
      {MMC_C128, C128_16, 48, 48, 48, 1000, 56.2},  {MMC_C128, C128_32, 64, 64, 64, 500, 47.6},
      {MMC_C128, C128_16, 64, 64, 64, 50, 12.5},    {MMC_C128, C128_32, 100, 100, 100, 200, 100.2},
      {MMC_C128, C128_32, 20, 150, 30, 1000, 45.7}, {MMC_C128, C128_16, 40, 9, 70, 2000, 71.9},
      {MMC_C128, C128_16, 256, 256, 256, 1, 31.0}};
  for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
    const mmci_gemm gemm =
        product(measured[i].dtype, measured[i].m, measured[i].k, measured[i].n, measured[i].batch);
    const double us =
        1e6 * mmci_ordered_complex_seconds_by(&gemm, measured[i].tile, MULTIPROCESSORS);
    if (!(us < 1.15 * measured[i].us && us > measured[i].us / 1.15))
      fail_msg("%d: %g us, expected about %g", (int)i, us, measured[i].us);
  }
}

/* One product is cut into tiles for every multiprocessor, the smaller the fewer elements it has; of
 * those of many elements large ones are taken. */
static void tiles_grow_with_the_result(void **state) {
  (void)state;
  static const mmc_dtype dtypes[] = {MMC_C64, MMC_C128};
  static const int64_t sides[] = {64, 256, 512, 1024};
  for (int d = 0; d < 2; d++) {
    int before = -1;
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
      const mmci_gemm one = product(dtypes[d], sides[i], 2000, sides[i], 1);
      const int tile = mmci_ordered_complex_choose(&one, MULTIPROCESSORS);
      assert_true(tile > before);
      before = tile;
      for (int t = 0; t < MMCI_ORDERED_COMPLEX_TILES; t++)
        assert_true(mmci_ordered_complex_seconds_by(&one, t, MULTIPROCESSORS) >=
                    mmci_ordered_complex_seconds(&one, MULTIPROCESSORS));
    }
  }
}

/* A turned product is cut as the upright one whose result is its transpose. */
static void turned_products_are_cut_as_upright_ones(void **state) {
  (void)state;
  const mmci_gemm upright = product(MMC_C64, 16, 500, 4224, 1);
  mmci_gemm turned = product(MMC_C64, 4224, 500, 16, 1);
  turned.turned = true;
  assert_int_equal(mmci_ordered_complex_choose(&upright, MULTIPROCESSORS),
                   mmci_ordered_complex_choose(&turned, MULTIPROCESSORS));
  assert_true(mmci_ordered_complex_seconds(&upright, MULTIPROCESSORS) ==
              mmci_ordered_complex_seconds(&turned, MULTIPROCESSORS));
}

/* A tile that has a multiprocessor to itself takes as long as one among few, and a term more takes
 * longer. */
static void times_grow_with_the_work(void **state) {
  (void)state;
  static const mmc_dtype dtypes[] = {MMC_C64, MMC_C128};
  for (int d = 0; d < 2; d++) {
    const mmci_gemm one = product(dtypes[d], 16, 16000, 16, 1),
                    few = product(dtypes[d], 16, 16000, 16, 30),
                    many = product(dtypes[d], 16, 16000, 16, 20000),
                    longer = product(dtypes[d], 16, 32000, 16, 1);
    const double one_s = mmci_ordered_complex_seconds(&one, MULTIPROCESSORS);
    assert_true(mmci_ordered_complex_seconds(&few, MULTIPROCESSORS) == one_s);
    assert_true(mmci_ordered_complex_seconds(&many, MULTIPROCESSORS) > 10 * one_s);
    assert_true(mmci_ordered_complex_seconds(&longer, MULTIPROCESSORS) > 1.9 * one_s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(predictions_are_near_what_was_measured),
      cmocka_unit_test(tiles_grow_with_the_result),
      cmocka_unit_test(turned_products_are_cut_as_upright_ones),
      cmocka_unit_test(times_grow_with_the_work),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

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
  static const struct {
    mmc_dtype dtype;
    int tile;
    int64_t m, k, n, batch;
    double us;
  } measured[] = {
      {MMC_C64, 0, 64, 20000, 64, 1, 139.3},   {MMC_C64, 1, 256, 256, 256, 1, 13.9},
      {MMC_C64, 1, 10, 500, 10, 500, 39.1},    {MMC_C64, 2, 512, 512, 512, 1, 38.6},
      {MMC_C64, 2, 300, 300, 300, 1, 17.1},    {MMC_C64, 3, 32, 32, 32, 3000, 33.7},
      {MMC_C64, 3, 96, 96, 96, 400, 87.5},     {MMC_C64, 3, 1400, 1400, 1400, 1, 570.1},
      {MMC_C64, 4, 48, 48, 48, 2000, 99.5},    {MMC_C64, 4, 40, 40, 40, 100, 9.9},
      {MMC_C64, 5, 64, 64, 64, 1000, 66.6},    {MMC_C64, 5, 1024, 1024, 1024, 1, 224.9},
      {MMC_C128, 0, 64, 20000, 64, 1, 183.7},  {MMC_C128, 1, 16, 16, 16, 5000, 26.8},
      {MMC_C128, 1, 48, 48, 48, 1000, 52.8},   {MMC_C128, 2, 256, 256, 256, 1, 11.6},
      {MMC_C128, 3, 128, 128, 128, 100, 55.8}, {MMC_C128, 3, 200, 200, 200, 40, 88.7},
      {MMC_C128, 4, 700, 700, 700, 1, 78.2},   {MMC_C128, 5, 1024, 1024, 1024, 1, 205.7}};
  for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
    const mmci_gemm gemm =
        product(measured[i].dtype, measured[i].m, measured[i].k, measured[i].n, measured[i].batch);
    const double us =
        1e6 * mmci_ordered_complex_seconds_by(&gemm, measured[i].tile, MULTIPROCESSORS);
    if (!(us < 1.2 * measured[i].us && us > measured[i].us / 1.2))
      fail_msg("%d: %g us, expected about %g", (int)i, us, measured[i].us);
  }
}

/* One product is cut into small tiles where it has few elements, and into large ones where it has
 * many; the tile that is chosen is the one that is predicted to take least. */
static void tiles_grow_with_the_result(void **state) {
  (void)state;
  enum { SMALL = 2, LARGE = 3 };
  static const mmc_dtype dtypes[] = {MMC_C64, MMC_C128};
  static const int64_t sides[] = {64, 256, 512, 1024};
  for (int d = 0; d < 2; d++) {
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
      const mmci_gemm one = product(dtypes[d], sides[i], 2000, sides[i], 1);
      const int tile = mmci_ordered_complex_choose(&one, MULTIPROCESSORS);
      if (sides[i] == 64) assert_int_equal(tile, 0);
      if (sides[i] == 256) assert_in_range(tile, 0, SMALL);
      if (sides[i] == 1024) assert_in_range(tile, LARGE, MMCI_ORDERED_COMPLEX_TILES - 1);
      for (int t = 0; t < MMCI_ORDERED_COMPLEX_TILES; t++)
        assert_true(mmci_ordered_complex_seconds_by(&one, t, MULTIPROCESSORS) >=
                    mmci_ordered_complex_seconds(&one, MULTIPROCESSORS));
    }
  }
}

/* A turned product of transposed operands is cut as the upright one whose result is its transpose,
 * and one of operands that lie otherwise takes longer. */
static void turned_products_are_cut_as_upright_ones(void **state) {
  (void)state;
  const mmci_gemm upright = product(MMC_C64, 16, 500, 4224, 1);
  mmci_gemm turned = mmci_gemm_tight(MMC_C64, MMCI_REPRODUCIBLE, 4224, 500, 16, MMC_OP_T, MMC_OP_T);
  mmci_gemm across = product(MMC_C64, 4224, 500, 16, 1);
  turned.turned = across.turned = true;
  assert_int_equal(mmci_ordered_complex_choose(&upright, MULTIPROCESSORS),
                   mmci_ordered_complex_choose(&turned, MULTIPROCESSORS));
  assert_true(mmci_ordered_complex_seconds(&upright, MULTIPROCESSORS) ==
              mmci_ordered_complex_seconds(&turned, MULTIPROCESSORS));
  assert_true(mmci_ordered_complex_seconds(&across, MULTIPROCESSORS) >
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

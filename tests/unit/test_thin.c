/* test_thin.c: which products of a GPU go to the kernel for few elements and long sums, and what
 * they are predicted to take. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../random.h"
#include "device/cuda/product/thin.h"

static mmci_gemm product(mmc_dtype dtype, int64_t m, int64_t k, int64_t n) {
  return mmci_gemm_tight(dtype, MMCI_NATIVE, m, k, n, MMC_OP_N, MMC_OP_N);
}

static bool pays(mmc_dtype dtype, int64_t m, int64_t k, int64_t n) {
  const mmci_gemm gemm = product(dtype, m, k, n);
  return mmci_thin_pays(&gemm);
}

static void few_elements_are_thin_and_many_are_not(void **state) {
  (void)state;
  static const mmc_dtype dtypes[] = {MMC_F32, MMC_F64, MMC_C64, MMC_C128, MMC_F16, MMC_BF16};
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
    assert_true(pays(dtypes[d], 1, 1000, 1));
    assert_true(pays(dtypes[d], 15, 201, 17));
    assert_false(pays(dtypes[d], 512, 512, 512));
    assert_false(pays(dtypes[d], 2000, 8, 2000));
    assert_false(pays(dtypes[d], 1, 4000, 4000));
    assert_false(pays(dtypes[d], 64, 1 << 20, 64));
    assert_false(pays(dtypes[d], 1, 1 << 20, 1)); /* longer than what was measured */
  }
  assert_true(pays(MMC_F64, 1, 227, 33));
  /* cuBLAS is fast there. */
  assert_false(pays(MMC_C128, 8, 8, 8));
  assert_false(pays(MMC_F16, 16, 200, 16));
  assert_false(pays(MMC_BF16, 64, 64, 64));
  assert_true(pays(MMC_BF16, 63, 64, 63));
  assert_false(pays(MMC_F64, 96, 96, 96));
  assert_false(pays(MMC_C64, 100, 1, 100));
  assert_false(pays(MMC_C128, 16, 16, 16));
  assert_true(pays(MMC_C128, 88, 16, 16));
  /* Lines along k are read by neighbouring threads. */
  assert_true(pays(MMC_F64, 1847, 868, 1));
  assert_false(pays(MMC_F64, 1, 868, 1847));
  assert_true(pays(MMC_F16, 1, 39, 17));
  assert_false(pays(MMC_F16, 1, 40, 16));
  assert_false(pays(MMC_F16, 17, 39, 1));
  static const mmc_dtype others[] = {MMC_I8, MMC_I64, MMC_BOOL};
  for (size_t d = 0; d < sizeof others / sizeof *others; d++) {
    const mmci_gemm gemm = product(others[d], 1, 1000, 1);
    assert_false(mmci_thin_pays(&gemm));
    assert_true(isnan(mmci_thin_us(&gemm)));
  }
}

static void times_are_as_measured(void **state) {
  (void)state;
  /* On an H200, in microseconds. */
  static const struct {
    mmc_dtype dtype;
    int64_t m, k, n;
    double us;
  } measured[] = {
      {MMC_F32, 12, 7765, 11, 7.6}, {MMC_F32, 36, 80, 658, 4.0},   {MMC_F64, 1, 88, 736, 2.35},
      {MMC_C64, 15, 65, 1400, 5.0}, {MMC_C128, 31, 1200, 24, 9.3}, {MMC_F16, 1, 1648, 1, 2.7},
      {MMC_BF16, 59, 4, 896, 4.2},  {MMC_F64, 1, 4, 1, 1.5},       {MMC_F64, 1847, 868, 1, 4.1},
      {MMC_C128, 43, 2586, 1, 5.3}, {MMC_C128, 48, 20, 24, 2.5},   {MMC_BF16, 1, 239, 430, 2.9}};
  for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
    const mmci_gemm gemm = product(measured[i].dtype, measured[i].m, measured[i].k, measured[i].n);
    const double us = mmci_thin_us(&gemm);
    if (!(us < 1.8 * measured[i].us && us > measured[i].us / 1.8))
      fail_msg("%d: %g us, expected about %g", (int)i, us, measured[i].us);
  }
}

/* Blocks have threads for two terms each, at least one warp, and no more together than work at
 * once, unless that leaves less than two warps. */
static void blocks_share_the_card(void **state) {
  (void)state;
  uint64_t seed = 3;
  assert_int_equal(mmci_thin_warps(1, 1), 1);
  assert_int_equal(mmci_thin_warps(64, 1), 1);
  assert_int_equal(mmci_thin_warps(65, 1), 2);
  assert_int_equal(mmci_thin_warps(1 << 20, 1), MMCI_THIN_WARPS);
  for (int i = 0; i < 10000; i++) {
    const int64_t k = 1 + random_below(&seed, 1 << random_below(&seed, 20)),
                  blocks = 1 + random_below(&seed, 1 << random_below(&seed, 20));
    const int warps = mmci_thin_warps(k, blocks);
    assert_in_range(warps, 1, MMCI_THIN_WARPS);
    assert_true(warps <= 2 || blocks * warps <= MMCI_THIN_WARPS_AT_ONCE);
    assert_true(warps == 1 || (int64_t)(warps - 1) * 2 * MMCI_THIN_WARP < k);
  }
  assert_int_equal(mmci_thin_tiles(1), 1);
  assert_int_equal(mmci_thin_tiles(4), 1);
  assert_int_equal(mmci_thin_tiles(5), 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(few_elements_are_thin_and_many_are_not),
      cmocka_unit_test(times_are_as_measured),
      cmocka_unit_test(blocks_share_the_card),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_cuda_better.c: which products of a GPU have a recipe that is surely faster than the plain
 * call. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../random.h"
#include "device/cuda/better.h"
#include "device/cuda/element_bytes.h"

enum { MULTIPROCESSORS = 132, FIRST = 25, SHAPES = 6, LINE_BYTES = 16 };

static const char kind[] = "NVIDIA H200";

static mmci_gemm product(mmc_dtype dtype, mmci_precision precision, int64_t m, int64_t k, int64_t n,
                         mmc_op op_a, mmc_op op_b) {
  return mmci_gemm_tight(dtype, precision, m, k, n, op_a, op_b);
}

static mmci_gemm square(mmc_dtype dtype, mmci_precision precision, int64_t side) {
  return product(dtype, precision, side, side, side, MMC_OP_N, MMC_OP_N);
}

static bool better(const mmci_gemm *gemm, double least_s, mmci_better *out) {
  return mmci_cuda_better(kind, MULTIPROCESSORS, FIRST, gemm, least_s, out);
}

static void odd_lines_of_tensor_cores_are_padded(void **state) {
  (void)state;
  static const struct {
    mmc_dtype dtype;
    mmci_precision precision;
    int pad;
  } cases[] = {{MMC_BF16, MMCI_NATIVE, 8}, {MMC_F16, MMCI_FAST, 8}, {MMC_F32, MMCI_FAST, 4}};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    mmci_gemm gemm = square(cases[c].dtype, cases[c].precision, 4095);
    mmci_better found = {0};
    assert_true(better(&gemm, 0, &found));
    assert_int_equal(found.pad, cases[c].pad);
    assert_int_equal(found.variant, 0);
    assert_true(found.seconds > 0 && found.seconds < found.plain_s);
    /* Only odd lines are slow, and a copy costs more than a small product gains. */
    gemm = square(cases[c].dtype, cases[c].precision, 4096);
    assert_false(better(&gemm, 0, &found));
    gemm = square(cases[c].dtype, cases[c].precision, 255);
    assert_false(better(&gemm, 0, &found));
  }
}

static void large_tiles_are_taken_where_waves_fit(void **state) {
  (void)state;
  mmci_gemm gemm = square(MMC_F32, MMCI_NATIVE, 8192);
  mmci_better found = {0};
  assert_true(better(&gemm, 0, &found));
  assert_int_equal(found.pad, 0);
  assert_in_range(found.variant, FIRST, FIRST + SHAPES - 1);
  assert_true(found.seconds < found.plain_s);
  gemm = square(MMC_F32, MMCI_NATIVE, 600);
  assert_false(better(&gemm, 0, &found));
}

/* One tile more than all clusters have at once takes as long as a round of them, unless it is
 * shared; the plain call's bound says nothing about such edges, what was measured does. */
static void what_is_known_of_the_plain_call_counts(void **state) {
  (void)state;
  mmci_gemm gemm = square(MMC_F32, MMCI_NATIVE, 2100);
  mmci_better found = {0};
  assert_false(better(&gemm, 0, &found));
  assert_true(better(&gemm, 1, &found));
  assert_true(found.plain_s == 1 && found.seconds < 1e-3);
  gemm = square(MMC_BF16, MMCI_NATIVE, 601);
  assert_false(better(&gemm, 0, &found));
  assert_true(better(&gemm, 1, &found));
  assert_int_equal(found.pad, 8);
}

static void others_are_left_to_the_plain_call(void **state) {
  (void)state;
  mmci_better found = {0};
  static const mmci_precision precisions[] = {MMCI_FAITHFUL, MMCI_REPRODUCIBLE};
  for (int p = 0; p < 2; p++) {
    mmci_gemm gemm = square(MMC_F32, precisions[p], 8191);
    assert_false(better(&gemm, 1, &found));
    gemm.dtype = MMC_BF16;
    assert_false(better(&gemm, 1, &found));
  }
  static const mmc_dtype dtypes[] = {MMC_F64, MMC_C64, MMC_C128, MMC_I8, MMC_I32};
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
    mmci_gemm gemm = square(dtypes[d], MMCI_NATIVE, 8191);
    assert_false(better(&gemm, 1, &found));
  }
  mmci_gemm gemm = square(MMC_BF16, MMCI_NATIVE, 4095);
  mmci_gemm_spread(&gemm, 2);
  assert_false(better(&gemm, 1, &found));
  gemm.batch = 1;
  assert_true(better(&gemm, 0, &found));
  assert_false(mmci_cuda_better("NVIDIA A100-SXM4-80GB", 108, FIRST, &gemm, 1, &found));
}

static void products_of_tf32_are_predicted(void **state) {
  (void)state;
  /* Measured on an H200 by cuBLAS 13.1, in microseconds. */
  static const struct {
    int64_t m, k, n;
    double us;
  } measured[] = {{4214, 3108, 577, 175}, {2858, 2367, 4620, 434}, {8212, 2314, 5291, 1989},
                  {425, 2607, 2276, 79},  {1208, 800, 1384, 19},   {3176, 3864, 1504, 148},
                  {1448, 2584, 7968, 201}};
  for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
    const mmci_gemm gemm = product(MMC_F32, MMCI_FAST, measured[i].m, measured[i].k, measured[i].n,
                                   MMC_OP_N, MMC_OP_N);
    const double us = mmci_cuda_tf32_us(kind, MULTIPROCESSORS, &gemm);
    if (!(us < 2 * measured[i].us && us > measured[i].us / 2))
      fail_msg("%d: %g us, expected about %g", (int)i, us, measured[i].us);
  }
  mmci_gemm gemm = square(MMC_F32, MMCI_FAST, 0);
  const double none_us = mmci_cuda_tf32_us(kind, MULTIPROCESSORS, &gemm);
  assert_true(none_us > 0 && none_us < 10);
  mmci_gemm_spread(&gemm, 2);
  assert_true(isnan(mmci_cuda_tf32_us(kind, MULTIPROCESSORS, &gemm)));
  gemm.batch = 1;
  assert_true(isnan(mmci_cuda_tf32_us("NVIDIA A100-SXM4-80GB", 108, &gemm)));
  assert_true(mmci_cuda_tf32_error(kind) > 0.2 && mmci_cuda_tf32_error("another") == 0);
}

/* Of any product: what is offered takes less time than the plain call can, and lies as promised. */
static void offers_keep_what_they_say(void **state) {
  (void)state;
  uint64_t seed = 20261127, drawn = seed;
  int offered[2] = {0};
  for (int i = 0; i < 20000; i++) {
    static const struct {
      mmc_dtype dtype;
      mmci_precision precision;
    } of[] = {{MMC_F32, MMCI_NATIVE}, {MMC_F32, MMCI_FAST}, {MMC_BF16, MMCI_NATIVE}};
    const int which = (int)random_below(&drawn, 3);
    int64_t size[3];
    for (int d = 0; d < 3; d++)
      size[d] = (int64_t)exp2(6 + 8 * fabs(random_unit(&drawn))) + random_below(&drawn, 3);
    const mmci_gemm gemm =
        product(of[which].dtype, of[which].precision, size[0], size[1], size[2],
                (mmc_op)random_below(&drawn, 2), (mmc_op)random_below(&drawn, 2));
    mmci_better found = {0};
    if (!better(&gemm, 0, &found)) continue;
    offered[found.pad > 0]++;
    if (!(found.seconds > 0 && found.seconds * 1.02 <= found.plain_s))
      fail_msg("seed %llu, product %d: %g s for %g s", (unsigned long long)seed, i, found.seconds,
               found.plain_s);
    if (found.pad == 0) {
      assert_in_range(found.variant, FIRST, FIRST + SHAPES - 1);
      continue;
    }
    const mmci_gemm padded = mmci_gemm_padded(found.pad, &gemm);
    const int64_t size_bytes = (int64_t)mmci_cuda_element_bytes(gemm.dtype);
    assert_int_equal((padded.a.ld | padded.b.ld | padded.ldc) * size_bytes % LINE_BYTES, 0);
    assert_false(mmci_gemm_lies_as(&gemm, &padded));
  }
  if (offered[0] < 20 || offered[1] < 100)
    fail_msg("seed %llu: only %d large tiles and %d padded products", (unsigned long long)seed,
             offered[0], offered[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(odd_lines_of_tensor_cores_are_padded),
      cmocka_unit_test(large_tiles_are_taken_where_waves_fit),
      cmocka_unit_test(what_is_known_of_the_plain_call_counts),
      cmocka_unit_test(others_are_left_to_the_plain_call),
      cmocka_unit_test(products_of_tf32_are_predicted),
      cmocka_unit_test(offers_keep_what_they_say),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

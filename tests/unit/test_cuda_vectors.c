/* test_cuda_vectors.c: which batches of vectors a GPU's kernel for them takes, how it shares them
 * out and what it is predicted to take. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "device/cuda/product/vectors.h"

static mmci_gemm product(mmc_dtype dtype, int64_t m, int64_t k, int64_t n, int64_t batch) {
  mmci_gemm gemm = mmci_gemm_tight(dtype, MMCI_NATIVE, m, k, n, MMC_OP_N, MMC_OP_N);
  if (batch > 1) mmci_gemm_spread(&gemm, batch);
  return gemm;
}

static void batches_of_vectors_are_supported(void **state) {
  (void)state;
  mmci_gemm gemm = product(MMC_F32, 300, 8, 1, 100);
  assert_true(mmci_vectors_supports(&gemm));
  gemm.accumulate = true;
  assert_false(mmci_vectors_supports(&gemm));
  gemm.accumulate = false;
  gemm.b.gathered = true;
  assert_false(mmci_vectors_supports(&gemm));
  gemm = product(MMC_C128, 1, 300, 8, 100);
  assert_true(mmci_vectors_supports(&gemm));
  gemm = product(MMC_F32, 300, 8, 2, 100);
  assert_false(mmci_vectors_supports(&gemm));
  assert_true(isnan(mmci_vectors_us(&gemm)));
  gemm = product(MMC_I32, 300, 8, 1, 100);
  assert_false(mmci_vectors_supports(&gemm));
  gemm = product(MMC_F32, 300, 0, 1, 100);
  assert_false(mmci_vectors_supports(&gemm));
  gemm = product(MMC_F32, 1 << 20, 8, 1, 1 << 20); /* more sums than have a number */
  assert_false(mmci_vectors_supports(&gemm));
  gemm = product(MMC_F32, 1, 1 << 20, 1 << 20, 2); /* terms that are too far apart */
  assert_false(mmci_vectors_supports(&gemm));
}

/* Checks that all sums are some thread's, and that no block has more threads than there are. */
static void check_cut(const mmci_vectors_cut *x) {
  enum { THREADS = MMCI_VECTORS_THREADS };
  if (x->along) {
    const int64_t sums = THREADS / x->lanes, all = x->outs * x->products;
    assert_in_range(x->lanes, 1, THREADS);
    assert_int_equal(x->lanes & (x->lanes - 1), 0);
    assert_int_equal(x->terms % x->word, 0);
    assert_true(x->blocks * sums >= all && (x->blocks - 1) * sums < all);
  } else {
    const int64_t cols = (int64_t)x->across * x->word, threads = x->across * x->shares,
                  tiles = (x->outs + cols - 1) / cols, together = THREADS / threads;
    assert_in_range(threads, 1, THREADS);
    assert_in_range(x->shares, 1, x->terms);
    assert_int_equal(x->outs % x->word, 0);
    assert_int_equal(x->blocks, (x->products + together - 1) / together * tiles);
  }
}

static void cuts_cover(void **state) {
  static const int64_t SIDES[] = {1, 2, 3, 7, 32, 33, 64, 127, 128, 129, 500, 513, 3000},
                       BATCHES[] = {1, 2, 17, 1000, 100000};
  enum { SIDE_COUNT = sizeof SIDES / sizeof *SIDES };
  (void)state;
  for (mmc_dtype d = MMC_F32; d <= MMC_BF16; d++)
    for (int o = 0; o < SIDE_COUNT; o++)
      for (int k = 0; k < SIDE_COUNT; k++)
        for (int b = 0; b < 5; b++)
          for (int is_row = 0; is_row < 2; is_row++)
            for (int trans = 0; trans < 2; trans++) {
              mmci_gemm gemm =
                  product(d, is_row ? 1 : SIDES[o], SIDES[k], is_row ? SIDES[o] : 1, BATCHES[b]);
              mmci_form *matrix = is_row ? &gemm.b : &gemm.a;
              matrix->trans = trans;
              matrix->ld = is_row == trans ? SIDES[k] : SIDES[o];
              assert_true(mmci_vectors_supports(&gemm));
              const mmci_vectors_cut x = mmci_vectors_cut_of(&gemm, NULL, NULL);
              assert_int_equal(x.outs, SIDES[o]);
              assert_int_equal(x.terms, SIDES[k]);
              assert_int_equal(x.along, SIDES[o] == 1 || is_row == trans);
              check_cut(&x);
            }
}

/* Words are no larger than lines, what is between them, and addresses allow. */
static void words_are_aligned(void **state) {
  static _Alignas(16) const char at[16];
  (void)state;
  mmci_gemm gemm = product(MMC_F32, 300, 8, 1, 100);
  assert_int_equal(mmci_vectors_cut_of(&gemm, at, at).word, 4);
  assert_int_equal(mmci_vectors_cut_of(&gemm, at + 8, at).word, 2);
  assert_int_equal(mmci_vectors_cut_of(&gemm, at, at + 4).word, 1);
  gemm.a.ld = 10; /* gaps between lines */
  assert_int_equal(mmci_vectors_cut_of(&gemm, at, at).word, 2);
  gemm.b.ld = 3; /* and a column of a wider matrix */
  assert_int_equal(mmci_vectors_cut_of(&gemm, at, at).word, 1);
  gemm = product(MMC_BF16, 1, 7, 24, 100); /* across, where the vector is read one by one */
  assert_int_equal(mmci_vectors_cut_of(&gemm, at + 2, at).word, 8);
  gemm.b.stride = 7 * 24 + 2;
  assert_int_equal(mmci_vectors_cut_of(&gemm, at, at).word, 2);
  gemm = product(MMC_C128, 300, 8, 1, 100);
  assert_int_equal(mmci_vectors_cut_of(&gemm, at, at).word, 1);
}

static void more_work_takes_longer(void **state) {
  (void)state;
  const mmci_gemm little = product(MMC_F32, 300, 80, 1, 1000),
                  wide = product(MMC_F32, 3000, 80, 1, 1000),
                  many = product(MMC_F32, 300, 80, 1, 10000),
                  deep = product(MMC_F32, 1, 30000, 60, 2), flat = product(MMC_F32, 1, 300, 60, 2);
  assert_true(mmci_vectors_us(&little) > 2);
  assert_true(mmci_vectors_us(&wide) > 5 * mmci_vectors_us(&little));
  assert_true(mmci_vectors_us(&many) > 5 * mmci_vectors_us(&little));
  assert_true(mmci_vectors_us(&deep) > 2 * mmci_vectors_us(&flat));
}

/* One matrix that all products read comes from memory once, and from the first cache where it is
 * small. */
static void one_matrix_takes_less(void **state) {
  (void)state;
  for (mmc_dtype d = MMC_F32; d <= MMC_BF16; d++) {
    mmci_gemm small = product(d, 1, 32, 40, 20000), large = product(d, 1, 900, 1000, 300);
    const double small_us = mmci_vectors_us(&small), large_us = mmci_vectors_us(&large);
    small.b.stride = large.b.stride = 0;
    assert_true(mmci_vectors_us(&small) < 0.96 * small_us);
    assert_true(mmci_vectors_us(&large) < large_us);
    large.batch *= 10;
    assert_true(mmci_vectors_us(&large) > 4 * large_us);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batches_of_vectors_are_supported),
      cmocka_unit_test(cuts_cover),
      cmocka_unit_test(words_are_aligned),
      cmocka_unit_test(more_work_takes_longer),
      cmocka_unit_test(one_matrix_takes_less),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

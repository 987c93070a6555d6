/* test_vector_loops.c: batches of products by the loops of every instruction set, in all forms,
 * beside sums by the definition, of reproducible ones to the bit. What lies around C, and between
 * its lines, stays. */
#include <complex.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../how_many.h"
#include "base/dtype.h"
#include "device/blas/vector_loops.h"
#include "device/ref/ref.h"

enum { SIDE = 40, GAP = 3, MOST = 3, ROOM = MOST * (SIDE + GAP) * (SIDE + GAP), CASES = 20000 };

static uint64_t seed, state_of_random;

static int64_t random_below(int64_t limit) {
  state_of_random = state_of_random * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (int64_t)((state_of_random >> 33) % (uint64_t)limit);
}

static int64_t random_size(void) {
  return random_below(3) == 0 ? 1 : 1 + random_below(random_below(2) ? SIDE : 9);
}

/* An operand of rows x cols, in a batch whose members share it or have gaps. */
static mmci_form random_form(int64_t rows, int64_t cols) {
  mmci_form x = {.trans = random_below(3) == 0, .conj = random_below(2)};
  x.ld = (x.trans ? rows : cols) + (random_below(2) ? 0 : random_below(GAP + 1));
  x.stride = random_below(3) == 0 ? 0 : (x.trans ? cols : rows) * x.ld + random_below(3);
  return x;
}

static mmci_gemm random_gemm(void) {
  static const mmc_dtype dtypes[] = {MMC_F32, MMC_F64, MMC_C64, MMC_C128};
  mmci_gemm x = {.dtype = dtypes[random_below(4)],
                 .m = random_size(),
                 .k = random_size(),
                 .n = random_size(),
                 .batch = 1 + random_below(MOST)};
  x.a = random_form(x.m, x.k);
  x.b = random_form(x.k, x.n);
  x.ldc = x.n + (random_below(2) ? 0 : random_below(GAP + 1));
  x.c_stride = x.m * x.ldc;
  return x;
}

static double complex number_at(const mmci_gemm *x, const void *data, int64_t i) {
  switch (x->dtype) {
    case MMC_F32:
      return ((const float *)data)[i];
    case MMC_F64:
      return ((const double *)data)[i];
    case MMC_C64:
      return ((const float complex *)data)[i];
    default:
      return ((const double complex *)data)[i];
  }
}

static double complex element(const mmci_gemm *x, const mmci_form *form, const void *data,
                              int64_t member, int64_t row, int64_t col) {
  const int64_t in = form->trans ? col * form->ld + row : row * form->ld + col;
  const double complex z = number_at(x, data, member * form->stride + in);
  return form->conj ? conj(z) : z;
}

static void fill(const mmci_gemm *x, void *data) {
  const bool is_single = x->dtype == MMC_F32 || x->dtype == MMC_C64;
  for (int64_t i = 0; i < 2 * (int64_t)ROOM; i++) {
    const double value = (double)random_below(1 << 20) / (1 << 19) - 1;
    if (is_single)
      ((float *)data)[i] = (float)value;
    else
      ((double *)data)[i] = value;
  }
}

/* Says whether every element of C is what it should be, and every other one what it was. */
static bool is_right(const mmci_gemm *x, const void *a, const void *b, const void *c,
                     const void *before) {
  const bool is_single = x->dtype == MMC_F32 || x->dtype == MMC_C64;
  const double unit = is_single ? 0x1p-23 : 0x1p-52;
  for (int64_t i = 0; i < ROOM; i++) {
    const int64_t member = i / x->c_stride, row = i % x->c_stride / x->ldc, col = i % x->ldc;
    double complex want = 0;
    double scale = 0;
    if (member >= x->batch || col >= x->n) {
      want = number_at(x, before, i);
    } else {
      for (int64_t p = 0; p < x->k; p++) {
        const double complex left = element(x, &x->a, a, member, row, p),
                             right = element(x, &x->b, b, member, p, col);
        want += left * right;
        scale += cabs(left) * cabs(right);
      }
    }
    if (!(cabs(number_at(x, c, i) - want) <= 4 * (double)x->k * unit * scale)) return false;
  }
  return true;
}

static bool multiplies(const mmci_gemm *x, const mmci_vectors *made, const void *a, const void *b,
                       const void *before, void *c) {
  memcpy(c, before, 2 * ROOM * sizeof(double));
  mmci_vectors_multiply(made, x->batch, a, b, c);
  if (is_right(x, a, b, c, before)) return true;
  printf("seed %llu: dtype %s, %lldx%lldx%lld\n", (unsigned long long)seed,
         mmc_dtype_name(x->dtype), (long long)x->m, (long long)x->k, (long long)x->n);
  return false;
}

/* Returns the loops of another set that do what these do, which may be of the set or, of sums, by
 * AVX-512. */
static mmci_vectors_fn same_of(const mmci_vectors_set *other, mmci_vectors_fn loops) {
  const mmci_vectors_set *here = &mmci_vectors_portable;
#if defined(__x86_64__)
  here = &mmci_vectors_avx2;
  for (int t = 0; t < 4; t++) {
    if (mmci_vectors_sums_avx512[t] == loops) return other->sums[t];
    if (t < 2 && mmci_vectors_lines_avx512[t] == loops) return other->lines[t];
  }
#endif
  for (int t = 0; t < 4; t++) {
    if (here->lines[t] == loops) return other->lines[t];
    if (here->sums[t] == loops) return other->sums[t];
  }
  return NULL;
}

/* Says whether products one by one have the bits that they have in the batch, which is cut as
 * threads take it. */
static bool are_alone_as_in_batch(const mmci_gemm *x, const mmci_vectors *made, const char *a,
                                  const char *b, const void *before, const void *c, char *alone) {
  const int64_t size = (int64_t)mmc_dtype_size(x->dtype);
  memcpy(alone, before, 2 * ROOM * sizeof(double));
  for (int64_t t = 0; t < x->batch; t++)
    mmci_vectors_multiply(made, 1, a + t * x->a.stride * size, b + t * x->b.stride * size,
                          alone + t * x->c_stride * size);
  return memcmp(alone, c, 2 * ROOM * sizeof(double)) == 0;
}

static void every_form(void **state) {
  (void)state;
  double *room = malloc((size_t)5 * 2 * ROOM * sizeof(double));
  assert_non_null(room);
  double *a = room, *b = a + 2 * ROOM, *before = b + 2 * ROOM, *c = before + 2 * ROOM,
         *alone = c + 2 * ROOM;
  int by_sums = 0, by_lines = 0;
  for (int t = 0; t < how_many(CASES / 2, CASES); t++) {
    mmci_gemm x = random_gemm();
    if (!mmci_vectors_pay(&x)) continue;
    if (t < 100 || t % 100 == 0 || x.dtype != MMC_F64) {
      fill(&x, a);
      fill(&x, b);
      fill(&x, before);
    }
    const int64_t size = (int64_t)mmc_dtype_size(x.dtype);
    const mmci_vectors made =
        mmci_vectors_make(&x, x.a.stride * size, x.b.stride * size, x.c_stride * size);
    assert_true(multiplies(&x, &made, a, b, before, c));
    assert_true(are_alone_as_in_batch(&x, &made, (const char *)a, (const char *)b, before, c,
                                      (char *)alone));
    mmci_vectors_fn portable = made.multiply;
#if defined(__x86_64__)
    static const mmci_vectors_set *const sets[] = {&mmci_vectors_avx2, &mmci_vectors_portable};
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    for (int other = has_avx2 ? 0 : 1; other < 2; other++) {
      mmci_vectors same = made;
      same.multiply = same_of(sets[other], made.multiply);
      if (same.multiply == NULL) continue;
      assert_true(multiplies(&x, &same, a, b, before, c));
      portable = same.multiply;
    }
#endif
    for (int d = 0; d < 4; d++) {
      by_sums += portable == mmci_vectors_portable.sums[d];
      by_lines += portable == mmci_vectors_portable.lines[d];
    }
  }
  assert_true(by_sums > 100 && by_lines > 1000);
  free(room);
}

/* Numbers of any size, zeros of both signs, denormal and infinite ones and NaN. */
static void fill_with_any(const mmci_gemm *x, void *data) {
  static const double SPECIAL[] = {0, -0.0, INFINITY, -INFINITY, NAN, 1e-310, -1e-42, 1e38, -1e300};
  const bool is_single = x->dtype == MMC_F32 || x->dtype == MMC_C64;
  const int64_t odds = random_below(2) ? 60 : 100000;
  for (int64_t i = 0; i < 2 * (int64_t)ROOM; i++) {
    const double value = random_below(odds) == 0
                             ? SPECIAL[random_below(sizeof SPECIAL / sizeof *SPECIAL)]
                             : ((double)random_below(1 << 30) / (1 << 29) - 1) *
                                   ldexp(1, (int)random_below(24) - 12);
    if (is_single)
      ((float *)data)[i] = (float)value;
    else
      ((double *)data)[i] = value;
  }
}

static bool have_same_bits(const void *x, const void *y) {
  return memcmp(x, y, 2 * ROOM * sizeof(double)) == 0;
}

/* Reproducible products have the bits of the reference by every set, turned ones too. */
static void in_order(void **state) {
  (void)state;
#if defined(__x86_64__)
  static const mmci_ordered_set *const sets[] = {&mmci_ordered_lines_avx2,
                                                 &mmci_ordered_lines_avx512};
  const int count = __builtin_cpu_supports("avx512f") ? 2 : 1;
  double *room = malloc((size_t)5 * 2 * ROOM * sizeof(double));
  assert_non_null(room);
  double *a = room, *b = a + 2 * ROOM, *before = b + 2 * ROOM, *c = before + 2 * ROOM,
         *want = c + 2 * ROOM;
  int taken = 0, taken_across = 0;
  for (int t = 0; t < how_many(CASES / 8, CASES); t++) {
    mmci_gemm x = random_gemm();
    x.precision = random_below(2) ? MMCI_REPRODUCIBLE : MMCI_REPRODUCIBLE_FAITHFUL;
    x.turned = random_below(2);
    if (!mmci_vectors_pay(&x)) continue;
    taken++;
    if (taken % 20 == 1) {
      fill_with_any(&x, a);
      fill_with_any(&x, b);
      fill_with_any(&x, before);
    }
    const bool is_double = x.dtype == MMC_F64 || x.dtype == MMC_C128;
    const int64_t size = (int64_t)mmc_dtype_size(x.dtype);
    mmci_vectors made =
        mmci_vectors_make(&x, x.a.stride * size, x.b.stride * size, x.c_stride * size);
    memcpy(want, before, 2 * ROOM * sizeof(double));
    for (int64_t i = 0; i < x.batch; i++)
      mmci_ref_gemm(&x, (char *)a + i * x.a.stride * size, (char *)b + i * x.b.stride * size,
                    (char *)want + i * x.c_stride * size);
    const int type = 2 * mmci_dtype_is_complex(x.dtype) + is_double;
    const bool across = made.multiply == sets[count - 1]->across[type];
    taken_across += across;
    for (int set = 0; set < count; set++) {
      made.multiply = across ? sets[set]->across[type] : sets[set]->lines[type];
      memcpy(c, before, 2 * ROOM * sizeof(double));
      mmci_vectors_multiply(&made, x.batch, a, b, c);
      if (have_same_bits(c, want)) continue;
      fail_msg("seed %llu, case %d, set %d: dtype %s, %lldx%lldx%lld", (unsigned long long)seed, t,
               set, mmc_dtype_name(x.dtype), (long long)x.m, (long long)x.k, (long long)x.n);
    }
  }
  assert_true((taken > 500 && taken_across > 200) || !__builtin_cpu_supports("avx2"));
  free(room);
#endif
}

int main(void) {
  seed = (uint64_t)time(NULL);
  state_of_random = seed;
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_form), cmocka_unit_test(in_order)};
  return cmocka_run_group_tests_name("vector_loops", tests, NULL, NULL);
}

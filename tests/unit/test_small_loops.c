/* test_small_loops.c: the loops that stand in for LIBXSMM's code give its bits: every element is
 * summed term by term, each added by one FMA. What lies around C stays. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "device/blas/small.h"

enum { SIDE = 40, GAP = 3, ROOM = (SIDE + GAP) * (SIDE + GAP), CASES = 3000 };

static uint64_t seed, state_of_random;

static int64_t random_below(int64_t limit) {
  state_of_random = state_of_random * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (int64_t)((state_of_random >> 33) % (uint64_t)limit);
}

static double random_value(void) {
  int64_t kind = random_below(200);
  if (kind == 0) return INFINITY;
  if (kind == 1) return -0.0;
  return (double)random_below(1 << 30) / (1 << 28) - 2 + (double)random_below(1 << 20) * 0x1p-52;
}

static mmci_gemm random_gemm(void) {
  mmci_gemm gemm = {.dtype = random_below(2) ? MMC_F64 : MMC_F32,
                    .m = 1 + random_below(SIDE),
                    .k = 1 + random_below(SIDE),
                    .n = 1 + random_below(random_below(2) ? SIDE : 9),
                    .accumulate = random_below(2)};
  gemm.a.trans = random_below(2);
  gemm.a.ld = (gemm.a.trans ? gemm.m : gemm.k) + random_below(GAP + 1);
  gemm.b.ld = gemm.n + random_below(GAP + 1);
  gemm.ldc = gemm.n + random_below(GAP + 1);
  return gemm;
}

/* Defines a function that multiplies by the definition of a product, to compare with. */
#define EXPECTED(name, type, fma)                                                                \
  static void name(const mmci_gemm *x, const type *a, const type *b, type *c) {                  \
    for (int64_t i = 0; i < x->m; i++)                                                           \
      for (int64_t j = 0; j < x->n; j++) {                                                       \
        type sum = x->accumulate ? c[i * x->ldc + j] : 0;                                        \
        for (int64_t p = 0; p < x->k; p++)                                                       \
          sum = fma(a[x->a.trans ? p * x->a.ld + i : i * x->a.ld + p], b[p * x->b.ld + j], sum); \
        c[i * x->ldc + j] = sum;                                                                 \
      }                                                                                          \
  }
EXPECTED(expected_f32, float, fmaf)
EXPECTED(expected_f64, double, fma)

static double a[ROOM], b[ROOM], c[ROOM], d[ROOM], e[ROOM], f[ROOM];

static void fill(double *values, mmc_dtype dtype) {
  for (int i = 0; i < ROOM; i++) {
    double value = random_value();
    if (dtype == MMC_F64)
      values[i] = value;
    else
      ((float *)values)[i] = (float)value;
  }
}

/* NaN is NaN, whatever its payload. */
static bool same_bits(const mmci_gemm *x, const double *y, const double *z) {
  for (int i = 0; i < ROOM; i++) {
    if (x->dtype == MMC_F64 ? isnan(y[i]) && isnan(z[i])
                            : isnan(((const float *)y)[i]) && isnan(((const float *)z)[i]))
      continue;
    size_t size = mmc_dtype_size(x->dtype), at = (size_t)i * size;
    if (memcmp((const char *)y + at, (const char *)z + at, size) != 0) return false;
  }
  return true;
}

static void bits_of_code(void **state) {
  (void)state;
  if (!mmci_small_loops_can()) skip();
  seed = (uint64_t)time(NULL);
  state_of_random = seed;
  printf("seed %llu\n", (unsigned long long)seed);
  for (int t = 0; t < CASES; t++) {
    mmci_gemm x = random_gemm();
    fill(a, x.dtype);
    fill(b, x.dtype);
    fill(c, x.dtype);
    memcpy(d, c, sizeof c);
    memcpy(e, c, sizeof c);
    memcpy(f, c, sizeof c);
    mmci_small_loops(&x, a, b, c);
    mmci_small_loops_avx2(&x, a, b, f);
    if (x.dtype == MMC_F32)
      expected_f32(&x, (const float *)a, (const float *)b, (float *)d);
    else
      expected_f64(&x, a, b, d);
    assert_true(same_bits(&x, c, d));
    assert_true(same_bits(&x, c, f));
    bool asks = t < 400 && mmci_xsmm_can(&x) && mmci_xsmm_in_order(&x);
    mmci_xsmm_fn code = asks ? mmci_xsmm_code(&x) : NULL;
    if (code == NULL) continue;
    code(b, a, e);
    mmci_xsmm_leave();
    assert_true(same_bits(&x, c, e));
  }
}

/* Code is written when a product is executed often, at once for a batch, and taken where it is. */
static void code_comes_when_it_pays(void **state) {
  (void)state;
  mmci_gemm gemm = {.dtype = MMC_F64, .m = 5, .k = 37, .n = 11, .ldc = 11};
  gemm.a.ld = 37;
  gemm.b.ld = 11;
  if (!mmci_small_loops_can() || !mmci_small_can(&gemm)) skip();
  mmci_small x = mmci_small_make(&gemm), again = x, many;
  mmci_small_prepare(&x, 1);
  mmci_small_execute(&x, 1);
  assert_null(x.code);
  mmci_small_prepare(&again, 1);
  assert_null(again.code);
  for (int i = 0; i < 1001; i++) mmci_small_execute(&x, 1);
  assert_non_null(x.code);
  mmci_small_prepare(&again, 1);
  assert_non_null(again.code);
  gemm.m = 6;
  many = mmci_small_make(&gemm);
  mmci_small_prepare(&many, 1000);
  assert_non_null(many.code);
}

/* Leaves the process, a child, no more memory than it has. */
static void take_memory(void) {
  long pages = 0;
  FILE *facts = fopen("/proc/self/statm", "r");
  if (facts == NULL || fscanf(facts, "%ld", &pages) != 1) _exit(0);
  fclose(facts);
  const rlim_t size = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
  if (setrlimit(RLIMIT_AS, &(struct rlimit){size, size}) != 0) _exit(0);
}

/* Where memory is short before the first code, or after it, there is none, or one that runs. */
static void code_needs_memory(void **state) {
  (void)state;
#ifdef TEST_SANITIZED
  skip(); /* sanitizers want memory of their own */
#endif
  static double a[SIDE], b[SIDE], c[SIDE * SIDE];
  for (int before = 0; before < 2; before++) {
    const pid_t child = fork();
    if (child == 0) {
      for (int64_t n = 1; n <= SIDE; n++) {
        if (n == 1 + before) take_memory();
        mmci_gemm gemm = {.dtype = MMC_F64, .m = n, .k = 1, .n = n, .ldc = n};
        gemm.a.ld = 1;
        gemm.b.ld = n;
        mmci_xsmm_fn code = mmci_xsmm_can(&gemm) ? mmci_xsmm_code(&gemm) : NULL;
        if (code != NULL) code(b, a, c);
      }
      _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(code_needs_memory), /* before LIBXSMM was asked for any */
      cmocka_unit_test(bits_of_code),
      cmocka_unit_test(code_comes_when_it_pays),
  };
  return cmocka_run_group_tests_name("small_loops", tests, NULL, NULL);
}

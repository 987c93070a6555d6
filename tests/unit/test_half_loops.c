/* test_half_loops.c: f16 and bf16 by the loops of every instruction set: every pattern widened,
 * every float near which rounding turns, and small products, of which the bytes around the result
 * stay. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka.h wants the three above. */
#include <cmocka.h>

#include "../random.h"
#include "base/half.h"
#include "device/blas/half_gemm.h"
#include "device/blas/half_loops.h"

static const uint64_t seed = 8642;

enum { SETS = 3, PATTERNS = 1 << 16, ODD = 7 };

/* The loops that this processor has; the others are NULL. */
static void find_loops(const mmci_half_loops *all[SETS]) {
  all[0] = &mmci_half_loops_portable;
  all[1] = all[2] = NULL;
#if defined(__x86_64__)
  if (mmci_half_loops_here() != &mmci_half_loops_portable) all[1] = &mmci_half_loops_avx2;
  if (mmci_half_loops_here() == &mmci_half_loops_avx512) all[2] = &mmci_half_loops_avx512;
#endif
}

static bool is_nan(uint16_t half, bool is_f16) {
  return (half & 0x7fff) > (is_f16 ? 0x7c00 : 0x7f80);
}

/* Of lines of any length, as the ends of lines go by other loops. */
static void every_pattern(void **state) {
  (void)state;
  static uint16_t halves[PATTERNS], back[PATTERNS];
  static float floats[PATTERNS];
  const mmci_half_loops *all[SETS];
  find_loops(all);
  for (int i = 0; i < PATTERNS; i++) halves[i] = (uint16_t)i;
  for (int set = 0; set < SETS; set++)
    for (int is_f16 = 0; all[set] != NULL && is_f16 < 2; is_f16++) {
      for (int i = 0; i < PATTERNS; i += ODD) {
        const int count = PATTERNS - i < ODD ? PATTERNS - i : ODD;
        (is_f16 ? all[set]->widen_f16 : all[set]->widen_bf16)(halves + i, count, floats + i);
      }
      (is_f16 ? all[set]->round_f16 : all[set]->round_bf16)(floats, PATTERNS, back);
      for (int i = 0; i < PATTERNS; i++) {
        const float value = is_f16 ? mmci_f16_to_f32(halves[i]) : mmci_bf16_to_f32(halves[i]);
        if (is_nan(halves[i], is_f16)) {
          assert_true(isnan(floats[i]) && is_nan(back[i], is_f16));
          continue;
        }
        assert_memory_equal(&floats[i], &value, sizeof value);
        assert_int_equal(back[i], halves[i]);
      }
    }
}

/* Lines of every length are converted as their elements are, and nothing is behind them. */
static void ends_of_lines(void **state) {
  (void)state;
  enum { MOST = 50 };
  const mmci_half_loops *all[SETS];
  uint64_t random = seed + 1;
  find_loops(all);
  for (int count = 0; count < MOST; count++)
    for (int is_f16 = 0; is_f16 < 2; is_f16++)
      for (int set = 0; set < SETS && all[set] != NULL; set++) {
        uint16_t halves[MOST], back[MOST];
        float floats[MOST];
        for (int i = 0; i < MOST; i++) halves[i] = (uint16_t)(random_below(&random, 0x7c00) + 1);
        memset(floats, 0xff, sizeof floats);
        memset(back, 0xff, sizeof back);
        (is_f16 ? all[set]->widen_f16 : all[set]->widen_bf16)(halves, count, floats);
        for (int i = 0; i < MOST; i++) {
          const float value = is_f16 ? mmci_f16_to_f32(halves[i]) : mmci_bf16_to_f32(halves[i]);
          if (i < count) assert_memory_equal(&floats[i], &value, sizeof value);
          if (i >= count) assert_true(isnan(floats[i]));
        }
        (is_f16 ? all[set]->round_f16 : all[set]->round_bf16)(floats, count, back);
        for (int i = 0; i < MOST; i++) assert_int_equal(back[i], i < count ? halves[i] : 0xffff);
      }
}

/* Returns floats around the places where rounding turns: halfway between two patterns. */
static float turning_point(int i, bool is_f16) {
  const uint16_t half = (uint16_t)(i & 0x7fff);
  const double here = is_f16 ? mmci_f16_to_f32(half) : mmci_bf16_to_f32(half),
               next = is_f16 ? mmci_f16_to_f32((uint16_t)(half + 1))
                             : mmci_bf16_to_f32((uint16_t)(half + 1));
  return (float)((here + next) / 2);
}

static void rounding_turns(void **state) {
  (void)state;
  static float floats[3 * PATTERNS];
  static uint16_t halves[3 * PATTERNS];
  const mmci_half_loops *all[SETS];
  find_loops(all);
  for (int is_f16 = 0; is_f16 < 2; is_f16++) {
    for (int i = 0; i < PATTERNS; i++) {
      const float middle = turning_point(i, is_f16) * (i < PATTERNS / 2 ? 1 : -1);
      floats[3 * i] = middle;
      floats[3 * i + 1] = nextafterf(middle, INFINITY);
      floats[3 * i + 2] = nextafterf(middle, -INFINITY);
    }
    for (int set = 0; set < SETS && all[set] != NULL; set++) {
      (is_f16 ? all[set]->round_f16 : all[set]->round_bf16)(floats, 3 * PATTERNS, halves);
      for (int i = 0; i < 3 * PATTERNS; i++) {
        const double x = (double)floats[i];
        const uint16_t expected = is_f16 ? mmci_f16_round(x) : mmci_bf16_round(x);
        if (isnan(x))
          assert_true(is_nan(halves[i], is_f16));
        else
          assert_int_equal(halves[i], expected);
      }
    }
  }
}

/* Products whose lines have more than one tile, and rows that no tile has. */
static void products(void **state) {
  (void)state;
  enum { MOST = 40, LINES = 4 };
  static float a[MOST * MOST], b[MOST * LINES * MMCI_HALF_LINE],
      c[(MOST + 1) * LINES * MMCI_HALF_LINE], before[sizeof c / sizeof *c];
  const mmci_half_loops *all[SETS];
  uint64_t random = seed;
  find_loops(all);
  for (int round = 0; round < 400; round++) {
    const int64_t m = 1 + random_below(&random, MOST), k = 1 + random_below(&random, MOST),
                  line = MMCI_HALF_LINE * (1 + random_below(&random, LINES));
    const bool turned = random_below(&random, 2);
    mmci_half_tiles x = {.m = m,
                         .k = k,
                         .line = line,
                         .a = a,
                         .b = b,
                         .c = c,
                         .a_down = turned ? 1 : k,
                         .a_along = turned ? m : 1,
                         .accumulate = random_below(&random, 2)};
    for (size_t i = 0; i < sizeof a / sizeof *a; i++) a[i] = (float)random_unit(&random);
    for (size_t i = 0; i < sizeof b / sizeof *b; i++) b[i] = (float)random_unit(&random);
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) before[i] = (float)random_unit(&random);
    for (int set = 0; set < SETS && all[set] != NULL; set++) {
      memcpy(c, before, sizeof c);
      all[set]->multiply(&x);
      for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < line; j++) {
          double sum = x.accumulate ? (double)before[i * line + j] : 0, size = fabs(sum);
          for (int64_t l = 0; l < k; l++) {
            const double term = (double)a[i * x.a_down + l * x.a_along] * (double)b[l * line + j];
            sum += term;
            size += fabs(term);
          }
          assert_true(fabs((double)c[i * line + j] - sum) <= (double)(k + 1) * 0x1p-24 * size);
        }
      assert_memory_equal(c + m * line, before + m * line,
                          sizeof c - (size_t)(m * line) * sizeof *c);
    }
  }
}

/* A batch gives what each of its products gives alone, whatever it shares. */
static void batches(void **state) {
  (void)state;
  enum { MOST = 130, COUNT = 3, ROOM = COUNT * MOST * MOST };
  static uint16_t a[ROOM], b[ROOM], c[ROOM], alone[ROOM];
  uint64_t random = seed;
  for (int round = 0; round < 60; round++) {
    const int64_t most = round % 3 == 0 ? MMCI_HALF_SMALL : 20;
    mmci_halves x = {.gemm = {.dtype = random_below(&random, 2) ? MMC_F16 : MMC_BF16,
                              .m = 1 + random_below(&random, most),
                              .k = 1 + random_below(&random, most),
                              .n = 1 + random_below(&random, most),
                              .accumulate = random_below(&random, 2)}};
    mmci_gemm *g = &x.gemm;
    g->a.trans = random_below(&random, 2);
    g->b.trans = random_below(&random, 2);
    g->a.ld = (g->a.trans ? g->m : g->k) + random_below(&random, 3);
    g->b.ld = (g->b.trans ? g->k : g->n) + random_below(&random, 3);
    g->ldc = g->n + random_below(&random, 3);
    x.a_step = random_below(&random, 2) * MOST * MOST * 2;
    x.b_step = random_below(&random, 2) * MOST * MOST * 2;
    x.c_step = MOST * MOST * 2;
    for (int i = 0; i < ROOM; i++) {
      const bool is_f16 = g->dtype == MMC_F16;
      const double values[] = {random_unit(&random), random_unit(&random), random_unit(&random)};
      a[i] = is_f16 ? mmci_f16_round(values[0]) : mmci_bf16_round(values[0]);
      b[i] = is_f16 ? mmci_f16_round(values[1]) : mmci_bf16_round(values[1]);
      c[i] = alone[i] = is_f16 ? mmci_f16_round(values[2]) : mmci_bf16_round(values[2]);
    }
    mmci_halves_multiply(&x, COUNT, a, b, c);
    for (int i = 0; i < COUNT; i++)
      mmci_half_small(g, a + i * x.a_step / 2, b + i * x.b_step / 2, alone + i * x.c_step / 2);
    assert_memory_equal(c, alone, sizeof c);
  }
}

/* Many very small products that follow each other, some with one factor for all of them, are their
 * sums rounded once, and nothing behind the last is written. */
static void many_small_ones(void **state) {
  (void)state;
  enum { MOST = 9, COUNT = 700, GUARD = 16, ROOM = COUNT * MOST * MOST };
  static uint16_t a[ROOM], b[ROOM], c[ROOM + GUARD];
  uint64_t random = seed + 2;
  for (int round = 0; round < 60; round++) {
    const int64_t m = 1 + random_below(&random, MOST), k = 1 + random_below(&random, MOST),
                  n = round % 3 == 0 ? 1 : 1 + random_below(&random, MOST), count = COUNT - round;
    const bool is_f16 = round % 2 == 0;
    const mmci_halves x = {.gemm = {.dtype = is_f16 ? MMC_F16 : MMC_BF16,
                                    .m = m,
                                    .k = k,
                                    .n = n,
                                    .a.ld = k,
                                    .b.ld = n,
                                    .ldc = n},
                           .a_step = round % 5 == 1 ? 0 : m * k * 2,
                           .b_step = round % 5 == 2 ? 0 : k * n * 2,
                           .c_step = m * n * 2};
    for (int i = 0; i < ROOM; i++) {
      const double values[] = {random_unit(&random), random_unit(&random)};
      a[i] = is_f16 ? mmci_f16_round(values[0]) : mmci_bf16_round(values[0]);
      b[i] = is_f16 ? mmci_f16_round(values[1]) : mmci_bf16_round(values[1]);
    }
    memset(c, 0xff, sizeof c);
    mmci_halves_multiply(&x, count, a, b, c);
    for (int64_t at = 0; at < count * m * n; at++) {
      const int64_t p = at / (m * n), i = at / n % m, j = at % n;
      double sum = 0, size = 0;
      for (int64_t l = 0; l < k; l++) {
        const uint16_t left = a[p * x.a_step / 2 + i * k + l],
                       right = b[p * x.b_step / 2 + l * n + j];
        const double term = is_f16 ? (double)mmci_f16_to_f32(left) * mmci_f16_to_f32(right)
                                   : (double)mmci_bf16_to_f32(left) * mmci_bf16_to_f32(right);
        sum += term;
        size += fabs(term);
      }
      const double got = is_f16 ? mmci_f16_to_f32(c[at]) : mmci_bf16_to_f32(c[at]);
      const double tolerance =
          (double)k * size * 0x1p-23 + fabs(sum) * (is_f16 ? 0x1p-11 : 0x1p-8) + 0x1p-25;
      assert_true(fabs(got - sum) <= tolerance);
    }
    for (int i = 0; i < GUARD; i++) assert_int_equal(c[count * m * n + i], 0xffff);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_pattern),  cmocka_unit_test(ends_of_lines),
      cmocka_unit_test(rounding_turns), cmocka_unit_test(products),
      cmocka_unit_test(batches),        cmocka_unit_test(many_small_ones)};
  print_message("seed %llu\n", (unsigned long long)seed);
  return cmocka_run_group_tests(tests, NULL, NULL);
}

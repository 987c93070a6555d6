/* test_half.c: f16 and bf16 by every pattern there is, and every place where rounding turns. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka.h wants the three above. */
#include <cmocka.h>

#include "../random.h"
#include "base/half.h"

static const uint64_t seed = 1357;

typedef struct format {
  const char *name;
  int fraction_bits;
  float (*widen)(uint16_t half);
  uint16_t (*round)(double value);
} format;

static const format formats[] = {
    {"f16", 10, mmci_f16_to_f32, mmci_f16_round},
    {"bf16", 7, mmci_bf16_to_f32, mmci_bf16_round},
};

enum { FORMAT_COUNT = sizeof formats / sizeof formats[0], SIGN = 0x8000 };

static uint16_t infinity(const format *f) {
  return (uint16_t)((0x7fff >> f->fraction_bits) << f->fraction_bits);
}

/* The number that a finite pattern stands for, by the definition; the first that is too large too.
 */
static double value_of(const format *f, uint32_t half) {
  int bias = (1 << (14 - f->fraction_bits)) - 1;
  int exponent = (int)(half & 0x7fff) >> f->fraction_bits;
  int fraction = (int)half & ((1 << f->fraction_bits) - 1);
  int leading = exponent > 0 ? 1 << f->fraction_bits : 0;
  double value = ldexp(fraction + leading, (exponent > 0 ? exponent : 1) - bias - f->fraction_bits);
  return half & SIGN ? -value : value;
}

static void expect(const format *f, double value, uint32_t want) {
  uint16_t got = f->round(value);
  if (got != want) fail_msg("%s: %a is 0x%04x, not 0x%04x", f->name, value, got, want);
}

static void every_pattern_is_its_number(void **state) {
  (void)state;
  for (int t = 0; t < FORMAT_COUNT; t++) {
    const format *f = &formats[t];
    for (uint32_t half = 0; half < 0x10000; half++) {
      float wide = f->widen((uint16_t)half);
      uint32_t magnitude = half & 0x7fff;
      if (magnitude > infinity(f)) {
        uint16_t back = f->round(wide);
        assert_true(isnan(wide));
        assert_true((back & 0x7fff) > infinity(f));
        continue;
      }
      double want = magnitude < infinity(f) ? value_of(f, half) : (double)INFINITY;
      assert_true((double)fabsf(wide) == fabs(want));
      assert_int_equal(signbit(wide) != 0, half >= SIGN);
      expect(f, wide, half);
    }
    assert_int_equal(f->round((double)NAN) & 0x7fff, infinity(f) | 1 << (f->fraction_bits - 1));
  }
}

/* Between two neighbours, the middle goes to the even one and all else to the nearer; what would be
 * the number after the largest is infinity. */
static void rounding_turns_in_the_middle(void **state) {
  (void)state;
  for (int t = 0; t < FORMAT_COUNT; t++) {
    const format *f = &formats[t];
    for (uint32_t low = 0; low < infinity(f); low++) {
      double middle = (value_of(f, low) + value_of(f, low + 1)) / 2;
      for (uint32_t sign = 0; sign <= SIGN; sign += SIGN) {
        double signed_middle = sign != 0 ? -middle : middle;
        expect(f, signed_middle, sign | (low + (low & 1)));
        expect(f, nextafter(signed_middle, 0), sign | low);
        expect(f, nextafter(signed_middle, 2 * signed_middle), sign | (low + 1));
      }
    }
    const double large[] = {value_of(f, infinity(f)), 1e300, (double)INFINITY};
    for (int i = 0; i < 3; i++) {
      expect(f, large[i], infinity(f));
      expect(f, -large[i], SIGN | infinity(f));
    }
    const double small[] = {0, 0x1p-1074, 1e-300};
    for (int i = 0; i < 3; i++) {
      expect(f, small[i], 0);
      expect(f, -small[i], SIGN);
    }
  }
}

/* A step to the number above or below never comes nearer. */
static void random_numbers_go_to_the_nearest(void **state) {
  (void)state;
  uint64_t random = seed;
  for (int round = 0; round < 1000000; round++) {
    const format *f = &formats[round % FORMAT_COUNT];
    int range = f->fraction_bits == 10 ? 28 : 140;
    double value = ldexp(random_unit(&random), (int)random_below(&random, 2 * range) - range);
    uint16_t half = f->round(value);
    uint32_t magnitude = half & 0x7fffU;
    if (magnitude >= infinity(f)) continue;
    double off = fabs(value_of(f, half) - value);
    assert_int_equal(half >= SIGN, value < 0);
    if (!(off <= fabs(value_of(f, magnitude + 1) - fabs(value))) ||
        !(magnitude == 0 || off <= fabs(value_of(f, magnitude - 1) - fabs(value))))
      fail_msg("%s: %a is 0x%04x, seed %llu", f->name, value, half, (unsigned long long)seed);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_pattern_is_its_number),
      cmocka_unit_test(rounding_turns_in_the_middle),
      cmocka_unit_test(random_numbers_go_to_the_nearest),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_faithful.cpp: the arithmetic of parts.cuh and bytes.cuh, run by the CPU:
 * what two FP16 parts or three bytes hold of a number, scales from denormals to the largest float,
 * which rows are left to FP64, and which are too rough for bytes.
 *
 *     test_faithful [SEED] */
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/emulated/bytes.cuh"
#include "device/cuda/emulated/parts.cuh"

#include "../random.h"

enum { CASES = 200000 };

static int failures = 0, checks = 0;

static bool expect(bool held, const char *what, double got) {
  checks++;
  if (!held && failures++ < 20) printf("FAILED: %s: %.17g\n", what, got);
  return held;
}

static float float_of(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

static double value_of(mmci_parts parts) {
  return (double)mmci_f16_element::read(parts.hi, false) +
         std::ldexp((double)mmci_f16_element::read(parts.lo, false), -MMCI_PARTS_LO_BITS);
}

/* 24 random bits, the first of them 1, and a random exponent: in [2^low, 2^high). */
static float random_float(uint64_t *random, int low, int high) {
  int exponent = low + (int)random_below(random, high - low);
  int64_t digits = (int64_t{1} << 23) + random_below(random, int64_t{1} << 23);
  double x = std::ldexp((double)digits, exponent - 23);
  return (float)(random_below(random, 2) != 0 ? -x : x);
}

/* All 24 bits but perhaps the last are held down to 2^-13, and 2^-36 everywhere. */
static void test_parts(uint64_t *random) {
  int inexact = 0;
  for (int t = 0; t < CASES; t++) {
    float x = random_float(random, MMCI_PARTS_POOR, MMCI_PARTS_TOP + 1);
    double off = std::fabs(value_of(mmci_parts_of(x)) - (double)x);
    expect(off <= std::ldexp(std::fabs((double)x), -23), "parts hold 23 bits of", (double)x);
    inexact += off > 0;
    float even = float_of(mmci_magnitude(x) & ~1u);
    expect(value_of(mmci_parts_of(even)) == (double)even, "parts hold all 23 bits of",
           (double)even);
    float small = random_float(random, -60, MMCI_PARTS_POOR);
    off = std::fabs(value_of(mmci_parts_of(small)) - (double)small);
    expect(off <= std::ldexp(1.0, -36), "parts hold to 2^-36", (double)small);
  }
  expect(inexact > CASES / 5 && inexact < CASES * 3 / 10, "of four floats one loses a bit",
         (double)inexact);
}

static void test_scales(uint64_t *random) {
  for (int t = 0; t < CASES; t++) {
    uint32_t bits = (uint32_t)random_below(random, 0x7f800000 - 1) + 1;
    if (t % 4 == 0) bits = (uint32_t)random_below(random, 0x007fffff) + 1; /* denormal */
    if (t < 24) bits = 1u << t;
    if (t == 24) bits = 0x7f7fffff;
    float x = float_of(bits);
    int exponent = mmci_parts_exponent(bits);
    mmci_scale scale = mmci_parts_scale(exponent);
    float scaled = x * scale.first * scale.second;
    expect(scaled >= 16384 && scaled < 32768 && (double)scaled == std::ldexp((double)x, exponent),
           "the largest element is scaled exactly to [2^14, 2^15)", (double)x);
    /* Back, from a sum of products of two such rows; as one rounding would. */
    int other = mmci_parts_exponent((uint32_t)random_below(random, 0x7f800000));
    float sum = random_float(random, -10, 43);
    float back = mmci_parts_unscale(sum, exponent + other);
    expect(back == (float)std::ldexp((double)sum, -(exponent + other)), "sums are unscaled",
           (double)back);
  }
}

static int judge(const float *x, int64_t k) {
  uint32_t most = 0;
  for (int64_t t = 0; t < k; t++) most = mmci_magnitude(x[t]) > most ? mmci_magnitude(x[t]) : most;
  mmci_scale scale = mmci_parts_scale(most < 0x7f800000u ? mmci_parts_exponent(most) : 0);
  mmci_row_facts facts = {};
  for (int64_t t = 0; t < k; t++) mmci_row_facts_add(facts, x[t] * scale.first * scale.second);
  return mmci_parts_judge(most, facts, k);
}

static void test_judge(uint64_t *random) {
  enum { K = 1000 };
  const float infinity = std::numeric_limits<float>::infinity(),
              nan = std::numeric_limits<float>::quiet_NaN();
  float row[K];
  for (int t = 0; t < 2000; t++) {
    const float unit = (float)std::ldexp(1.0, (int)random_below(random, 250) - 145);
    const int64_t at = random_below(random, K), there = (at + 1 + random_below(random, K - 1)) % K;
    for (float &x : row) x = (float)random_unit(random) * unit;
    expect(judge(row, K) != MMCI_PARTS_LEFT, "uniform rows are split", (double)unit);
    row[at] = t % 3 == 0 ? nan : t % 3 == 1 ? infinity : -infinity;
    expect(judge(row, K) == MMCI_PARTS_LEFT, "what is not finite is left", (double)row[at]);
    for (float &x : row) x = 0;
    expect(judge(row, K) == 0, "zeros are split", 0);
    row[at] = unit;
    expect(judge(row, K) == MMCI_PARTS_LEFT, "a row of one element is left", (double)unit);
    for (int s = 0; s < MMCI_PARTS_SPREAD; s++) row[s] = unit;
    for (int s = MMCI_PARTS_SPREAD; s < K; s++) row[s] = 0;
    expect(judge(row, K) != MMCI_PARTS_LEFT, "a row of as many elements as are asked is split",
           (double)unit);
    row[0] = 0;
    expect(judge(row, K) == MMCI_PARTS_LEFT, "and of one less is left", (double)unit);
    for (float &x : row) x = (float)std::ldexp(1.0, 40);
    row[at] = 1;
    expect(judge(row, K) != MMCI_PARTS_LEFT, "one element may be poor", (double)at);
    row[there] = -1;
    expect(judge(row, K) == MMCI_PARTS_LEFT, "of a thousand two may not", (double)there);
  }
}

/* Returns the value that the digits of element e of four stand for. */
static int64_t value_of_digits(const uint32_t (&words)[MMCI_BYTES], int e, int digits) {
  int64_t value = 0;
  for (int w = 0; w < digits; w++) value = value * 256 + (int8_t)(words[w] >> 8 * e & 0xff);
  return value;
}

/* Digits are the nearest integer of the scaled element, whatever the largest one is. */
static void test_digits(uint64_t *random) {
  for (int t = 0; t < CASES; t++) {
    uint32_t most = (uint32_t)random_below(random, 0x7f800000 - 1) + 1;
    if (t % 4 == 0) most = (uint32_t)random_below(random, 0x007fffff) + 1; /* denormal */
    if (t == 1) most = 0x7f7fffff;
    const float largest = float_of(most);
    const mmci_scale scale = mmci_bytes_scale(most);
    const double unit = mmci_bytes_unit(most);
    /* A tiny largest element leaves its fractions few bits: those are not asked for. */
    const float x[4] = {largest, -largest, (float)(random_unit(random) * (double)largest),
                        t % 2 == 0 ? 0 : largest / 300};
    uint32_t words[MMCI_BYTES];
    mmci_row_facts facts = {};
    mmci_bytes_cut(x, scale, words, facts);
    for (int e = 0; e < 4; e++) {
      const double exact = (double)x[e] / unit, value = (double)value_of_digits(words, e, 3);
      expect(std::fabs(value - exact) <= 0.75 && std::fabs(exact) <= MMCI_BYTES_TOP + 1,
             "digits are the nearest integer of", (double)x[e]);
      expect((int8_t)(words[0] >> 8 * e & 0xff) > -128, "the first digit is no -128", (double)x[e]);
    }
    expect((double)largest / unit >= 0.88 * MMCI_BYTES_TOP, "the scale uses the digits up",
           (double)largest);
    const int small = std::fabs((double)x[2]) / unit < MMCI_BYTES_SMALL;
    expect(facts.poor == 1 + small, "small elements are counted", (double)x[2]);
  }
}

/* Eleven bits of a row, whatever the largest element, are two digits. */
static void test_short_digits(uint64_t *random) {
  for (int t = 0; t < CASES; t++) {
    const float unit = (float)std::ldexp(1.0, (int)random_below(random, 200) - 100);
    float x[4];
    uint32_t most = 0, words[MMCI_BYTES];
    for (float &one : x) {
      one = (float)(random_below(random, 4095) - 2047) * unit;
      most = mmci_magnitude(one) > most ? mmci_magnitude(one) : most;
    }
    mmci_row_facts facts = {};
    mmci_bytes_cut(x, mmci_bytes_scale(most), words, facts);
    for (int e = 0; e < 4; e++)
      expect((float)((double)(value_of_digits(words, e, 2) * 256) * mmci_bytes_unit(most)) == x[e],
             "11 bits are two digits", (double)x[e]);
  }
}

/* Of a row of K that are 1 but for `small` of 1 / 64 and one peak. */
static uint64_t roughness(int64_t k, float peak, int small, float unit) {
  mmci_row_facts facts = {};
  const uint32_t most = mmci_magnitude(peak * unit);
  for (int64_t t = 0; t < k; t += 4) {
    float x[4];
    uint32_t words[MMCI_BYTES];
    for (int e = 0; e < 4; e++) x[e] = unit * (t + e == 0 ? peak : t + e <= small ? 1.0f / 64 : 1);
    mmci_bytes_cut(x, mmci_bytes_scale(most), words, facts);
  }
  return mmci_bytes_roughness(most, facts, k);
}

static void test_roughness(uint64_t *random) {
  for (int t = 0; t < 200; t++) {
    const int64_t k = 400 + 4 * random_below(random, 2000);
    const float unit = (float)std::ldexp(1.0, (int)random_below(random, 200) - 100);
    /* Peaks whose scale is the greatest there is: the squares are the rest's and the peak's. */
    const double need = 2.1 * std::sqrt((double)k),
                 scaled = std::pow(240 * 32639.0 / MMCI_BYTES_TOP, 2);
    const float most_peak = (float)std::sqrt((double)k / (need * MMCI_ROUGH / MMCI_ROUGH_MOST));
    expect(roughness(k, most_peak * 0.8f, 0, unit) <= MMCI_ROUGH_MOST + 1, "a row may be so rough",
           (double)k);
    expect(roughness(k, most_peak * 1.1f, 0, unit) > MMCI_ROUGH * (uint64_t)k, "and no row more",
           (double)k);
    expect(roughness(k, 1, 0, unit) <= (uint64_t)(MMCI_ROUGH * need / (double)k / scaled) + 2,
           "even rows are not rough", (double)k);
    expect(roughness(k, 1, (int)k / 4, unit) <= MMCI_ROUGH, "a quarter may be small", (double)k);
    expect(roughness(k, 1, (int)k / 4 + 1, unit) > MMCI_ROUGH * (uint64_t)k,
           "and not one element more", (double)k);
  }
  mmci_row_facts facts = {};
  expect(mmci_bytes_roughness(0, facts, 1000) == MMCI_ROUGH, "zeros are not rough", 0);
  facts.squares = 1e20f;
  expect(mmci_bytes_roughness(0x7f800000, facts, 1000) > MMCI_ROUGH * uint64_t{1000},
         "what is not finite is", 0);
}

int main(int argc, char **argv) {
  uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20261121, random = seed;
  test_parts(&random);
  test_scales(&random);
  test_judge(&random);
  test_digits(&random);
  test_short_digits(&random);
  test_roughness(&random);
  printf("%d checks, %d failed, seed %" PRIu64 "\n", checks, failures, seed);
  return failures == 0 ? 0 : 1;
}

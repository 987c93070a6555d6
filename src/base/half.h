/* half.h: f16 and bf16 as bit patterns, to and from wider numbers, rounded once to nearest even.
 *
 * Both have a sign, exponent bits and fraction bits, as IEEE 754 lays them out: 1+5+10 and 1+8+7.
 * Nothing here needs a compiler or a processor that knows either, or denormal arithmetic in f32. */
#ifndef MMCI_HALF_H
#define MMCI_HALF_H

#include <stdint.h>
#include <string.h>

static inline float mmci_bf16_to_f32(uint16_t half) {
  uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* This has no branches, so that compilers make vectors of it. */
static inline float mmci_f16_to_f32(uint16_t half) {
  uint32_t magnitude = half & 0x7fffU, exponent = magnitude >> 10;
  /* Exponents are biased by 15 here and by 127 there; all ones stay all ones. */
  uint32_t normal = (magnitude << 13) + (112U << 23) + (exponent == 31) * (112U << 23);
  float value = (float)(int32_t)magnitude * 0x1p-24F;
  uint32_t denormal, is_normal = -(uint32_t)(exponent != 0);
  memcpy(&denormal, &value, sizeof denormal);
  uint32_t bits = (normal & is_normal) | (denormal & ~is_normal) | (half & 0x8000U) << 16;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Returns the pattern with fraction_bits that is nearest to value. */
static inline uint16_t mmci_half_round(double value, int fraction_bits) {
  const int exponent_bits = 15 - fraction_bits, dropped_bits = 52 - fraction_bits;
  const uint64_t bias = (UINT64_C(1) << (exponent_bits - 1)) - 1;
  const uint64_t infinity = (0x7fffU >> fraction_bits) << fraction_bits;

  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  uint64_t sign = bits >> 48 & 0x8000U, magnitude = bits & INT64_MAX;

  /* For a normal number, adding half a last place, less a bit when the last place is even, carries
   * where it must, into the exponent as well. */
  uint64_t even = magnitude >> dropped_bits & 1;
  uint64_t rounded = (magnitude + ((UINT64_C(1) << (dropped_bits - 1)) - 1) + even) >> dropped_bits;
  uint64_t lowest = (1023 - bias + 1) << fraction_bits; /* the least normal number's exponent */
  uint64_t normal = rounded - lowest + (UINT64_C(1) << fraction_bits);
  if (normal > infinity) normal = infinity;
  if (magnitude > UINT64_C(0x7ff) << 52) normal = infinity | UINT64_C(1) << (fraction_bits - 1);

  /* A denormal number is rounded by adding it to a power of two whose last place is its own. */
  uint64_t place = (1023 - bias + 1 + (uint64_t)dropped_bits) << 52, sum;
  double anchor, moved;
  memcpy(&anchor, &place, sizeof anchor);
  memcpy(&moved, &magnitude, sizeof moved);
  moved += anchor;
  memcpy(&sum, &moved, sizeof sum);

  return (uint16_t)(sign | (magnitude >> 52 < 1023 - bias + 1 ? sum - place : normal));
}

static inline uint16_t mmci_f16_round(double value) {
  return mmci_half_round(value, 10);
}

static inline uint16_t mmci_bf16_round(double value) {
  return mmci_half_round(value, 7);
}

#endif

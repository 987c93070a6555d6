/* parts.cuh: splits an FP32 number into two FP16 parts, and puts them together again.
 *
 * A row of op(A), or a column of op(B), is scaled by a power of two that takes its largest element
 * to [2^14, 2^15). Then x = hi + lo / 2^11 with hi = f16(x), lo = f16((x - hi) 2^11). Both parts
 * together hold 23 bits of x, down to 2^-27 of the largest element; of smaller elements everything
 * down to 2^-51 of it. docs/faithful.md has the bounds. The same source serves the emulation. */
#ifndef MMCI_CUDA_EMULATED_PARTS_CUH
#define MMCI_CUDA_EMULATED_PARTS_CUH

#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "device/cuda/elements.cuh"

enum {
  MMCI_PARTS_TOP = 14,     /* the largest element's exponent, scaled */
  MMCI_PARTS_LO_BITS = 11, /* lo is scaled by two to the power of this */
  MMCI_PARTS_POOR = -13,   /* elements below two to the power of this keep fewer than 22 bits */
  MMCI_PARTS_RUN = 32,     /* k's after which sums leave the tensor cores, which truncate */
  MMCI_PARTS_SPREAD = 16,  /* squares of a row must add up to so many times the largest one */
  MMCI_PARTS_FEW_POOR =
      12, /* a row may have one poor element, and one in two to the power of this */
  MMCI_PARTS_LEFT = INT_MIN /* instead of an exponent: the row is left to FP64 */
};

static __device__ __forceinline__ float mmci_bits_float(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static __device__ __forceinline__ uint32_t mmci_float_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

/* Returns the bits of |x|: their order is that of the numbers, infinity above all of them, NaN
 * above infinity. */
static __device__ __forceinline__ uint32_t mmci_magnitude(float x) {
  return mmci_float_bits(x) & 0x7fffffffu;
}

/* Returns 2^e, for e from -126 to 127. */
static __device__ __forceinline__ float mmci_power(int e) {
  return mmci_bits_float((uint32_t)(e + 127) << 23);
}

/* Returns the exponent of a row's scale, from -113 to 163, by the magnitude of its largest
 * element. */
static __device__ __forceinline__ int mmci_parts_exponent(uint32_t most) {
  if (most == 0) return 0;
  int exponent = most >= 0x00800000u ? (int)(most >> 23) - 127 : -126;
  for (; most < 0x00800000u; most <<= 1) exponent--;
  return MMCI_PARTS_TOP - exponent;
}

struct mmci_scale {
  float first, second; /* 2^163 is no float; second is 1 but for denormals */
};

static __device__ __forceinline__ mmci_scale mmci_parts_scale(int exponent) {
  int first = exponent < 126 ? exponent : 126;
  return {mmci_power(first), mmci_power(exponent - first)};
}

/* Returns a sum of products of parts without both scales; a result that is too small for a float
 * underflows once. */
static __device__ __forceinline__ float mmci_parts_unscale(float sum, int exponents) {
  int e = exponents < 252 ? -exponents : -252, half = e / 2;
  return sum * mmci_power(half) * mmci_power(e - half);
}

struct mmci_parts {
  uint16_t hi, lo;
};

static __device__ __forceinline__ mmci_parts mmci_parts_of(float scaled) {
  mmci_parts parts;
  parts.hi = mmci_f16_element::write(scaled);
  float rest = scaled - mmci_f16_element::read(parts.hi, false);
  parts.lo = mmci_f16_element::write(rest * (1 << MMCI_PARTS_LO_BITS));
  return parts;
}

/* Facts that decide whether a row's parts are as good as FP32, gathered while it is split. */
struct mmci_row_facts {
  float squares; /* squares of the scaled elements, added up */
  int poor;      /* how many elements, not 0, keep too few bits */
};

static __device__ __forceinline__ void mmci_row_facts_add(mmci_row_facts &facts, float scaled) {
  const uint32_t least = (uint32_t)(MMCI_PARTS_POOR + 127) << 23;
  facts.squares += scaled * scaled;
  facts.poor += mmci_magnitude(scaled) - 1 < least - 1; /* 0 wraps around */
}

/* Returns the exponent of the row's scale, or MMCI_PARTS_LEFT when the row is not finite, when a
 * few elements outweigh all others (FP32 then rounds its sums rarely), or when many are far below
 * the largest. */
static __device__ __forceinline__ int mmci_parts_judge(uint32_t most, mmci_row_facts facts,
                                                       int64_t k) {
  if (most == 0) return 0;
  if (most >= 0x7f800000u) return MMCI_PARTS_LEFT;
  int exponent = mmci_parts_exponent(most);
  mmci_scale scale = mmci_parts_scale(exponent);
  float largest = mmci_bits_float(most) * scale.first * scale.second;
  bool spread = facts.squares >= MMCI_PARTS_SPREAD * largest * largest;
  bool kept = facts.poor <= 1 + (k >> MMCI_PARTS_FEW_POOR);
  return spread && kept ? exponent : MMCI_PARTS_LEFT;
}

#endif

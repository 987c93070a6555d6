/* rows.h: how the elements of a row become whole numbers, and what a sum of their products stands
 * for. The same source serves CPUs and GPUs, and has the same bits on each: sums are added in one
 * order, and whatever a compiler might join to a fused multiply-add is one, or is kept apart. */
#ifndef MMCI_WHOLE_ROWS_H
#define MMCI_WHOLE_ROWS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "device/whole/moduli.h"

#ifdef __cplusplus
#define MMCI_ANYWHERE static __device__ __forceinline__
#else
#define MMCI_ANYWHERE static inline
#endif

enum {
  /* Sums over a row are added up in so many lanes, lane l that of every k of which the remainder is
   * l, from the first k on; then lanes 0 and 1, lanes 2 and 3 and so on, then those from the first
   * pair to the last. */
  MMCI_ROW_LANES = 16,
  MMCI_WHOLE_HIGHEST = 1024,
  MMCI_WHOLE_FEW = 2,        /* one of so many elements of a row must not be zero */
  MMCI_WHOLE_PLANES_F32 = 7, /* moduli of a product of MMCI_REPRODUCIBLE_FAITHFUL */
  MMCI_WHOLE_PLANES_F64 = 15
};

/* Rows with greater or lesser numbers, which might overflow on the way, are left to FP64. */
static const double MMCI_MOST_SCALABLE = 0x1p400, MMCI_LEAST_SCALABLE = 0x1p-400;
/* k times the squares of a row of such a product may be so many times the square of its sum, else
 * so many moduli are less accurate than the dtype. */
static const double MMCI_WHOLE_PEAK_F32 = 9.9, MMCI_WHOLE_PEAK_F64 = 41;

/* ---- what is known of a row ------------------------------------------------------------------ */

typedef struct mmci_row_look {
  double squares, sum, most; /* of magnitudes; most is NaN where an element is */
  int32_t zeros, signs;      /* signs: 1 for a number above zero, 2 for one below */
  int32_t down_to;           /* how far the lowest bit of any is below 2^MMCI_WHOLE_HIGHEST */
} mmci_row_look;

/* Returns the exponent of the lowest bit that is set in a number, which is not 0. */
MMCI_ANYWHERE int mmci_lowest_bit(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  const int exponent = (int)(bits >> 52 & 0x7ff);
  const uint64_t mantissa = (bits & 0x000fffffffffffffull) | (uint64_t)(exponent > 0) << 52;
#if defined(__cplusplus) && !defined(MMCI_EMULATE_CUDA)
  const int zeros = __ffsll((long long)mantissa) - 1;
#else
  const int zeros = __builtin_ctzll(mantissa);
#endif
  return (exponent > 0 ? exponent : 1) - 1075 + zeros;
}

/* Adds an element of a lane. */
MMCI_ANYWHERE void mmci_row_add(mmci_row_look *row, double x) {
  const double magnitude = fabs(x);
  row->squares = fma(x, x, row->squares);
  row->sum += magnitude;
  row->most = magnitude > row->most || x != x ? magnitude : row->most;
  row->zeros += x == 0;
  row->signs |= (x > 0) | (x < 0) << 1;
  const int down = x != 0 ? MMCI_WHOLE_HIGHEST - mmci_lowest_bit(x) : 0;
  row->down_to = down > row->down_to ? down : row->down_to;
}

/* Adds what is known of other lanes, which is the same as adding these to those. */
MMCI_ANYWHERE void mmci_row_join(mmci_row_look *row, const mmci_row_look *other) {
  row->squares += other->squares;
  row->sum += other->sum;
  row->most = other->most > row->most || other->most != other->most ? other->most : row->most;
  row->zeros += other->zeros;
  row->signs |= other->signs;
  row->down_to = other->down_to > row->down_to ? other->down_to : row->down_to;
}

/* Returns how many times its mean square is the square of a row's mean magnitude. */
MMCI_ANYWHERE double mmci_row_peak(const mmci_row_look *row, int64_t k) {
  return row->sum > 0 ? (double)k * row->squares / (row->sum * row->sum) : 1;
}

/* Says whether a row can be scaled, and is spread so that its peak is no greater than this, which
 * may be infinite. */
MMCI_ANYWHERE bool mmci_row_is_whole(const mmci_row_look *row, int64_t k, double peak) {
  if (row->most == 0) return true;
  const bool is_spread = mmci_row_peak(row, k) <= peak && MMCI_WHOLE_FEW * (int64_t)row->zeros <= k;
  return row->most <= MMCI_MOST_SCALABLE && row->most >= MMCI_LEAST_SCALABLE &&
         (is_spread || peak > 0x1p1000);
}

/* Returns the row's length in units of the lowest bit that any element has. */
MMCI_ANYWHERE double mmci_row_grain(const mmci_row_look *row) {
  return sqrt(row->squares) * ldexp(1.0, row->down_to - MMCI_WHOLE_HIGHEST);
}

/* ---- scales ---------------------------------------------------------------------------------- */

MMCI_ANYWHERE double mmci_with_bits(double x, uint64_t mask) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits &= mask;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Returns the factor of a row's elements, of four bits, that gives it at most the length `reach`
 * after rounding to integers. */
MMCI_ANYWHERE double mmci_residue_scale(double squares, double reach, int64_t k) {
  if (!(squares > 0)) return 0;
  const double length = fma(reach, 1 - 0x1p-20, -0.5 * sqrt((double)k));
  return mmci_with_bits(length / sqrt(squares), 0xfffe000000000000ull);
}

/* Returns the greatest power of two that, as a row's factor, gives it at most the length `reach`.
 */
MMCI_ANYWHERE double mmci_whole_scale(double squares, double reach) {
  if (!(squares > 0)) return 0;
  return mmci_with_bits(reach * (1 - 0x1p-20) / sqrt(squares), 0x7ff0000000000000ull);
}

/* Returns the factor of a row that is scaled by what is in it alone: a power of two where its
 * elements become whole numbers without rounding. */
MMCI_ANYWHERE double mmci_row_scale(double squares, double grain, double reach, int64_t k) {
  return grain * (1 + 0x1p-18) <= reach ? mmci_whole_scale(squares, reach)
                                        : mmci_residue_scale(squares, reach, k);
}

/* Returns 1 / x as the sum of two doubles. */
MMCI_ANYWHERE void mmci_inverse(double x, double *out) {
  out[0] = x == 0 ? 0 : 1 / x;
  out[1] = x == 0 ? 0 : fma(-out[0], x, 1.0) / x;
}

/* ---- results --------------------------------------------------------------------------------- */

/* Sums of residues times fractions: 64 bits behind the point, and 16 more. */
typedef struct mmci_fraction {
  uint64_t high;
  uint32_t low;
} mmci_fraction;

/* Residues are added with 128 more than they are, and what that makes is subtracted first. */
MMCI_ANYWHERE void mmci_fraction_add(mmci_fraction *sum, uint32_t biased,
                                     const mmci_modulus_share *share) {
  sum->high += (uint64_t)biased * share->fraction;
  sum->low += biased * share->beyond;
}

/* Returns a product that the compiler does not join with an addition. */
MMCI_ANYWHERE double mmci_rounded_product(double x, double y) {
#if defined(__cplusplus) && !defined(MMCI_EMULATE_CUDA)
  return __dmul_rn(x, y);
#else
  return x * y;
#endif
}

/* Multiplies a row's unit by M / 2^64, where M is the product of moduli. */
MMCI_ANYWHERE void mmci_unit_times(double *unit, const double *by) {
  const double x = unit[0], first = mmci_rounded_product(x, by[0]);
  unit[1] = fma(unit[1], by[0], fma(x, by[1], fma(x, by[0], -first))) * 0x1p-64;
  unit[0] = first * 0x1p-64;
}

/* Returns the fraction, from -1/2 to 1/2, times the product of two sums of two doubles. What is
 * exactly a double comes out exactly. */
MMCI_ANYWHERE double mmci_fraction_times(mmci_fraction x, const double *a, const double *b) {
  const int64_t whole = (int64_t)(x.high + (uint64_t)((int32_t)x.low >> 16));
  const double high = (double)whole;
  const double low = fma((double)(x.low & 0xffff), 0x1p-16, (double)(whole - (int64_t)high));
  const double first = mmci_rounded_product(high, a[0]),
               on = fma(low, a[0], fma(high, a[1], fma(high, a[0], -first)));
  const double product = mmci_rounded_product(first, b[0]);
  return product + fma(on, b[0], fma(first, b[1], fma(first, b[0], -product)));
}

/* Returns a number as a double, rounded once. A GPU converts 64 bits slowly, and has both halves of
 * them beside large powers of two at once. */
MMCI_ANYWHERE double mmci_double_of(int64_t x) {
#if defined(__cplusplus) && !defined(MMCI_EMULATE_CUDA)
  const double high = __hiloint2double(0x45300000, (int)((uint32_t)(x >> 32) ^ 0x80000000u)),
               low = __hiloint2double(0x43300000, (int)(uint32_t)x);
  return __dadd_rn(__dsub_rn(high, 0x1p84 + 0x1p63 + 0x1p52), low);
#else
  return (double)x;
#endif
}

/* Returns what a sum of whole numbers below 2^63 stands for, by the units of both rows. */
MMCI_ANYWHERE double mmci_sum_times(int64_t sum, double a, double b) {
  return mmci_rounded_product(mmci_double_of(sum), mmci_rounded_product(a, b));
}

/* Return what is written of a result, which is added to what was there: a zero is +0, and a NaN the
 * positive quiet one without a payload. */
MMCI_ANYWHERE float mmci_result_f32(float before, bool accumulate, double x) {
  const uint32_t quiet = 0x7fc00000u;
  const float result = (float)(accumulate ? (double)before + x : x);
  float nan;
  memcpy(&nan, &quiet, sizeof nan);
  return result == result ? result + 0.0f : nan;
}
MMCI_ANYWHERE double mmci_result_f64(double before, bool accumulate, double x) {
  const uint64_t quiet = 0x7ff8000000000000ull;
  const double result = accumulate ? before + x : x;
  double nan;
  memcpy(&nan, &quiet, sizeof nan);
  return result == result ? result + 0.0 : nan;
}

#endif

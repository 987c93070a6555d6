/* wide.h: 128-bit counts that saturate instead of wrapping.
 *
 * MMCI_U128_MAX stands for "too large". Saturating sums and products keep the order of everything
 * below it, so a minimum that is below it is exact even when candidates were not. */
#ifndef MMCI_WIDE_H
#define MMCI_WIDE_H

#include "mmchain.h"

__extension__ typedef unsigned __int128 mmci_u128;
__extension__ typedef __int128 mmci_i128;

#define MMCI_U128_MAX (~(mmci_u128)0)

static inline mmci_u128 mmci_u128_add(mmci_u128 a, mmci_u128 b) {
  mmci_u128 sum;
  return __builtin_add_overflow(a, b, &sum) ? MMCI_U128_MAX : sum;
}

static inline mmci_u128 mmci_u128_mul(mmci_u128 a, mmci_u128 b) {
  mmci_u128 product;
  return __builtin_mul_overflow(a, b, &product) ? MMCI_U128_MAX : product;
}

/* Rounds as a cast does; faster than the compiler's where 64 bits hold the value. */
static inline double mmci_u128_to_double(mmci_u128 value) {
  return (uint64_t)(value >> 64) == 0 ? (double)(uint64_t)value : (double)value;
}

/* Returns the mkn multiplications of one product. Operands are dims, so at most 2^62. */
static inline mmci_u128 mmci_multiplications(int64_t m, int64_t k, int64_t n) {
  mmci_u128 mk = (mmci_u128)(uint64_t)m * (uint64_t)k;
  if ((uint64_t)(mk >> 64) == 0) return (mmci_u128)(uint64_t)mk * (uint64_t)n;
  return mmci_u128_mul(mk, (uint64_t)n);
}

/* Returns the multiplications of one product, rounded. */
static inline double mmci_mkn(int64_t m, int64_t k, int64_t n) {
  return (double)m * (double)k * (double)n;
}

static inline mmc_count mmci_count(mmci_u128 value) {
  return (mmc_count){.lo = (uint64_t)value, .hi = (uint64_t)(value >> 64)};
}

static inline mmci_u128 mmci_count_value(mmc_count count) {
  return ((mmci_u128)count.hi << 64) | count.lo;
}

/* Returns -1, 0 or 1 as a/b is less than, equal to or greater than c/d, exactly; b, d > 0. */
int mmci_ratio_compare(mmci_u128 a, mmci_u128 b, mmci_u128 c, mmci_u128 d);

#endif

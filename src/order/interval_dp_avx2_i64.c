/* interval_dp_avx2_i64.c: tiles of 64-bit integers, four to a vector. */
#if defined(__x86_64__)

#include <immintrin.h>

#include "base/alloc.h"
#include "order/interval_dp.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

typedef int64_t cell;
typedef __m256i vec;
enum { LANES = 4, GROUP = 4, PANEL = 1, ROW_PANEL = 4 };
#define INFINITE ((int64_t)1 << 62)

static inline vec load(const cell *x) {
  return _mm256_load_si256((const __m256i *)x);
}
static inline void store(cell *to, vec x) {
  _mm256_store_si256((__m256i *)to, x);
}
static inline vec splat(cell x) {
  return _mm256_set1_epi64x(x);
}
static inline vec add(vec x, vec y) {
  return _mm256_add_epi64(x, y);
}
static inline vec subtract(vec x, vec y) {
  return _mm256_sub_epi64(x, y);
}

/* Multiplies, keeping the low 64 bits, by products of the 32-bit halves. */
static inline vec multiply(vec x, vec y) {
  vec cross = add(_mm256_mul_epu32(_mm256_srli_epi64(x, 32), y),
                  _mm256_mul_epu32(x, _mm256_srli_epi64(y, 32)));
  return add(_mm256_mul_epu32(x, y), _mm256_slli_epi64(cross, 32));
}

static inline vec multiply_add(vec x, vec y, vec z) {
  return add(multiply(x, y), z);
}
static inline vec least(vec x, vec y) {
  return _mm256_blendv_epi8(x, y, _mm256_cmpgt_epi64(x, y));
}
static inline vec greatest(vec x, vec y) {
  return _mm256_blendv_epi8(y, x, _mm256_cmpgt_epi64(x, y));
}
static inline unsigned less(vec x, vec y) {
  return (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(y, x)));
}

static inline cell lanes_least(vec x) {
  x = least(x, _mm256_permute4x64_epi64(x, 0x4e));
  return _mm256_extract_epi64(least(x, _mm256_permute4x64_epi64(x, 0xb1)), 0);
}

static inline cell lanes_greatest(vec x) {
  x = greatest(x, _mm256_permute4x64_epi64(x, 0x4e));
  return _mm256_extract_epi64(greatest(x, _mm256_permute4x64_epi64(x, 0xb1)), 0);
}

static inline cell cell_from(mmci_u128 x) {
  return (cell)x;
}

#define KERNEL mmci_dp_avx2_i64
#define KERNEL_NAME "avx2 i64"
#include "order/interval_dp_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif

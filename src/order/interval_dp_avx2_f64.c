/* interval_dp_avx2_f64.c: tiles of doubles, four to a vector. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>

#include "base/alloc.h"
#include "order/interval_dp.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif

typedef double cell;
typedef __m256d vec;
enum { LANES = 4, GROUP = 4, PANEL = 2, ROW_PANEL = 8 };
#define INFINITE ((double)INFINITY)

static inline vec load(const cell *x) {
  return _mm256_load_pd(x);
}
static inline void store(cell *to, vec x) {
  _mm256_store_pd(to, x);
}
static inline vec splat(cell x) {
  return _mm256_set1_pd(x);
}
static inline vec add(vec x, vec y) {
  return _mm256_add_pd(x, y);
}
static inline vec subtract(vec x, vec y) {
  return _mm256_sub_pd(x, y);
}
static inline vec multiply(vec x, vec y) {
  return _mm256_mul_pd(x, y);
}
static inline vec multiply_add(vec x, vec y, vec z) {
  return _mm256_fmadd_pd(x, y, z);
}
static inline vec least(vec x, vec y) {
  return _mm256_min_pd(x, y);
}
static inline vec greatest(vec x, vec y) {
  return _mm256_max_pd(x, y);
}
static inline unsigned less(vec x, vec y) {
  return (unsigned)_mm256_movemask_pd(_mm256_cmp_pd(x, y, _CMP_LT_OQ));
}

static inline cell lanes_least(vec x) {
  __m128d y = _mm_min_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
  return _mm_cvtsd_f64(_mm_min_sd(y, _mm_unpackhi_pd(y, y)));
}

static inline cell lanes_greatest(vec x) {
  __m128d y = _mm_max_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
  return _mm_cvtsd_f64(_mm_max_sd(y, _mm_unpackhi_pd(y, y)));
}

static inline cell cell_from(mmci_u128 x) {
  return mmci_u128_to_double(x);
}

#define KERNEL mmci_dp_avx2_f64
#define KERNEL_NAME "avx2 f64"
#include "order/interval_dp_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif

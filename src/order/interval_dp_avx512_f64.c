/* interval_dp_avx512_f64.c: tiles of doubles, eight to a vector. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>

#include "base/alloc.h"
#include "order/interval_dp.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512dq")
#endif

typedef double cell;
typedef __m512d vec;
enum { LANES = 8, GROUP = 8, PANEL = 2, ROW_PANEL = 8 };
#define INFINITE ((double)INFINITY)

static inline vec load(const cell *x) {
  return _mm512_load_pd(x);
}
static inline void store(cell *to, vec x) {
  _mm512_store_pd(to, x);
}
static inline vec splat(cell x) {
  return _mm512_set1_pd(x);
}
static inline vec add(vec x, vec y) {
  return _mm512_add_pd(x, y);
}
static inline vec subtract(vec x, vec y) {
  return _mm512_sub_pd(x, y);
}
static inline vec multiply(vec x, vec y) {
  return _mm512_mul_pd(x, y);
}
static inline vec multiply_add(vec x, vec y, vec z) {
  return _mm512_fmadd_pd(x, y, z);
}
static inline vec least(vec x, vec y) {
  return _mm512_min_pd(x, y);
}
static inline vec greatest(vec x, vec y) {
  return _mm512_max_pd(x, y);
}
static inline unsigned less(vec x, vec y) {
  return _mm512_cmp_pd_mask(x, y, _CMP_LT_OQ);
}
static inline cell lanes_least(vec x) {
  return _mm512_reduce_min_pd(x);
}
static inline cell lanes_greatest(vec x) {
  return _mm512_reduce_max_pd(x);
}

static inline cell cell_from(mmci_u128 x) {
  return mmci_u128_to_double(x);
}

#define KERNEL mmci_dp_avx512_f64
#define KERNEL_NAME "avx512 f64"
#include "order/interval_dp_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif

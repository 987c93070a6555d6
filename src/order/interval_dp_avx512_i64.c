/* interval_dp_avx512_i64.c: tiles of 64-bit integers, eight to a vector. */
#if defined(__x86_64__)

#include <immintrin.h>

#include "base/alloc.h"
#include "order/interval_dp.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512dq")
#endif

typedef int64_t cell;
typedef __m512i vec;
enum { LANES = 8, GROUP = 8, PANEL = 2, ROW_PANEL = 8 };
#define INFINITE ((int64_t)1 << 62)

static inline vec load(const cell *x) {
  return _mm512_load_si512(x);
}
static inline void store(cell *to, vec x) {
  _mm512_store_si512(to, x);
}
static inline vec splat(cell x) {
  return _mm512_set1_epi64(x);
}
static inline vec add(vec x, vec y) {
  return _mm512_add_epi64(x, y);
}
static inline vec subtract(vec x, vec y) {
  return _mm512_sub_epi64(x, y);
}
static inline vec multiply(vec x, vec y) {
  return _mm512_mullo_epi64(x, y);
}
static inline vec multiply_add(vec x, vec y, vec z) {
  return add(multiply(x, y), z);
}
static inline vec least(vec x, vec y) {
  return _mm512_min_epi64(x, y);
}
static inline vec greatest(vec x, vec y) {
  return _mm512_max_epi64(x, y);
}
static inline unsigned less(vec x, vec y) {
  return _mm512_cmplt_epi64_mask(x, y);
}
static inline cell lanes_least(vec x) {
  return _mm512_reduce_min_epi64(x);
}
static inline cell lanes_greatest(vec x) {
  return _mm512_reduce_max_epi64(x);
}

static inline cell cell_from(mmci_u128 x) {
  return (cell)x;
}

#define KERNEL mmci_dp_avx512_i64
#define KERNEL_NAME "avx512 i64"
#include "order/interval_dp_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif

/* ordered_tiles_avx2.c: the innermost loops of ordered.h by AVX2 and FMA. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#include "device/blas/ordered_tiles.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif

#define TILES mmci_ordered_tiles_avx2
enum { REAL_ROWS = 4, REAL_VECTORS = 3, COMPLEX_ROWS = 2, COMPLEX_VECTORS = 2 };
typedef __m256 vector_f32;
typedef __m256d vector_f64;
typedef __m256i vector_u32, vector_u64;
#define load_f32 _mm256_load_ps
#define load_f64 _mm256_load_pd
#define store_f32 _mm256_store_ps
#define store_f64 _mm256_store_pd
#define spread_f32 _mm256_broadcast_ss
#define spread_f64 _mm256_broadcast_sd
#define fma_f32 _mm256_fmadd_ps
#define fma_f64 _mm256_fmadd_pd
#define less_f32 _mm256_fnmadd_ps
#define less_f64 _mm256_fnmadd_pd
#define load_u32(from) _mm256_load_si256((const __m256i *)(const void *)(from))
#define load_u64(from) load_u32(from)
#define store_u32(to, x) _mm256_store_si256((__m256i *)(void *)(to), x)
#define store_u64(to, x) store_u32(to, x)
#define spread_u32(x) _mm256_set1_epi32((int)*(x))
#define spread_u64(x) _mm256_set1_epi64x((long long)*(x))
#define fma_u32(x, y, sum) _mm256_add_epi32(sum, _mm256_mullo_epi32(x, y))

/* AVX2 multiplies halves of words: both lower ones, and either lower one by the other upper one. */
static inline __m256i fma_u64(__m256i x, __m256i y, __m256i sum) {
  const __m256i crossed = _mm256_mullo_epi32(x, _mm256_shuffle_epi32(y, 0xb1));
  const __m256i upper = _mm256_add_epi32(crossed, _mm256_slli_epi64(crossed, 32));
  const __m256i lower = _mm256_add_epi64(_mm256_mul_epu32(x, y), sum);
  return _mm256_add_epi64(lower, _mm256_and_si256(upper, _mm256_set1_epi64x(~0xffffffffLL)));
}

/* Turn terms t to t + 3 of 8 lanes, and t to t + 1 of 4 lanes. */
static inline void turned_f32(const void *const *lanes, int64_t t, __m256 out[4]) {
  __m256 r[4];
  for (int l = 0; l < 4; l++) {
    r[l] = _mm256_castps128_ps256(_mm_loadu_ps((const float *)lanes[l] + t));
    r[l] = _mm256_insertf128_ps(r[l], _mm_loadu_ps((const float *)lanes[4 + l] + t), 1);
  }
  const __m256 low = _mm256_unpacklo_ps(r[0], r[1]), high = _mm256_unpackhi_ps(r[0], r[1]),
               low_2 = _mm256_unpacklo_ps(r[2], r[3]), high_2 = _mm256_unpackhi_ps(r[2], r[3]);
  out[0] = _mm256_shuffle_ps(low, low_2, 0x44);
  out[1] = _mm256_shuffle_ps(low, low_2, 0xee);
  out[2] = _mm256_shuffle_ps(high, high_2, 0x44);
  out[3] = _mm256_shuffle_ps(high, high_2, 0xee);
}
static inline void turned_f64(const void *const *lanes, int64_t t, __m256d out[2]) {
  __m256d r[2];
  for (int l = 0; l < 2; l++) {
    r[l] = _mm256_castpd128_pd256(_mm_loadu_pd((const double *)lanes[l] + t));
    r[l] = _mm256_insertf128_pd(r[l], _mm_loadu_pd((const double *)lanes[2 + l] + t), 1);
  }
  out[0] = _mm256_unpacklo_pd(r[0], r[1]);
  out[1] = _mm256_unpackhi_pd(r[0], r[1]);
}

/* Store terms of lanes, 16 of 8 and 8 of 4, step numbers apart. */
static inline void turn_terms_f32(const void *const *lanes, int64_t t, float *to, int64_t step) {
  for (int q = 0; q < 16; q += 4) {
    __m256 out[4];
    turned_f32(lanes, t + q, out);
    for (int i = 0; i < 4; i++) _mm256_store_ps(to + (q + i) * step, out[i]);
  }
}
static inline void turn_terms_f64(const void *const *lanes, int64_t t, double *to, int64_t step) {
  for (int q = 0; q < 8; q += 2) {
    __m256d out[2];
    turned_f64(lanes, t + q, out);
    for (int i = 0; i < 2; i++) _mm256_store_pd(to + (q + i) * step, out[i]);
  }
}

/* Two vectors of lanes hide how long a fused multiply-add takes. */
#define REAL_DOT(name, suffix, type, vector, FEW)                                          \
  void name(const mmci_ordered_dot *dot) {                                                 \
    enum { WIDTH = sizeof(vector) / sizeof(type), VECTORS = 2, LINE = 64 / sizeof(type) }; \
    for (int first = 0; first < dot->count; first += VECTORS * WIDTH) {                    \
      const void *const *a = dot->a + first, *const *b = dot->b + first;                   \
      type *sums = (type *)dot->sums + first;                                              \
      vector sum[VECTORS];                                                                 \
      for (int v = 0; v < VECTORS; v++) sum[v] = load_##suffix(sums + v * WIDTH);          \
      for (int64_t t = 0; t < dot->terms; t += LINE)                                       \
        for (int v = 0; v < VECTORS; v++)                                                  \
          for (int q = 0; q < LINE; q += FEW) {                                            \
            vector x[FEW], y[FEW];                                                         \
            turned_##suffix(a + v * WIDTH, t + q, x);                                      \
            turned_##suffix(b + v * WIDTH, t + q, y);                                      \
            for (int i = 0; i < FEW; i++) sum[v] = fma_##suffix(x[i], y[i], sum[v]);       \
          }                                                                                \
      for (int v = 0; v < VECTORS; v++) store_##suffix(sums + v * WIDTH, sum[v]);          \
    }                                                                                      \
  }

/* A number times a sign is exact. */
#define COMPLEX_DOT(name, suffix, type, vector, FEW)                                          \
  static inline __attribute__((always_inline)) void any_##name(const mmci_ordered_dot *dot,   \
                                                               bool turned, bool signs) {     \
    enum { WIDTH = sizeof(vector) / sizeof(type), VECTORS = 2, LINE = 64 / sizeof(type) };    \
    const type a_one = (type)dot->a_sign, b_one = (type)dot->b_sign, zero = (type)-0.0;       \
    const vector a_sign = spread_##suffix(&a_one), b_sign = spread_##suffix(&b_one),          \
                 none = spread_##suffix(&zero);                                               \
    for (int first = 0; first < dot->count; first += VECTORS * WIDTH) {                       \
      const void *const *a = dot->a + first, *const *b = dot->b + first;                      \
      type *sums = (type *)dot->sums + first;                                                 \
      vector re[VECTORS], im[VECTORS];                                                        \
      for (int v = 0; v < VECTORS; v++) {                                                     \
        re[v] = load_##suffix(sums + v * WIDTH);                                              \
        im[v] = load_##suffix(sums + dot->lanes + v * WIDTH);                                 \
      }                                                                                       \
      for (int64_t t = 0; t < 2 * dot->terms; t += LINE)                                      \
        for (int v = 0; v < VECTORS; v++)                                                     \
          for (int q = 0; q < LINE; q += FEW) {                                               \
            vector x[FEW], y[FEW];                                                            \
            turned_##suffix(a + v * WIDTH, t + q, x);                                         \
            turned_##suffix(b + v * WIDTH, t + q, y);                                         \
            for (int i = 0; i < FEW; i += 2) {                                                \
              const vector xi = signs ? fma_##suffix(x[i + 1], a_sign, none) : x[i + 1],      \
                           yi = signs ? fma_##suffix(y[i + 1], b_sign, none) : y[i + 1];      \
              re[v] = fma_##suffix(x[i], y[i], re[v]);                                        \
              im[v] = turned ? fma_##suffix(xi, y[i], im[v]) : fma_##suffix(x[i], yi, im[v]); \
              re[v] = less_##suffix(xi, yi, re[v]);                                           \
              im[v] = turned ? fma_##suffix(x[i], yi, im[v]) : fma_##suffix(xi, y[i], im[v]); \
            }                                                                                 \
          }                                                                                   \
      for (int v = 0; v < VECTORS; v++) {                                                     \
        store_##suffix(sums + v * WIDTH, re[v]);                                              \
        store_##suffix(sums + dot->lanes + v * WIDTH, im[v]);                                 \
      }                                                                                       \
    }                                                                                         \
  }                                                                                           \
  void name(const mmci_ordered_dot *dot) {                                                    \
    if (dot->a_sign < 0 || dot->b_sign < 0)                                                   \
      any_##name(dot, dot->turned, true);                                                     \
    else if (dot->turned)                                                                     \
      any_##name(dot, true, false);                                                           \
    else                                                                                      \
      any_##name(dot, false, false);                                                          \
  }

#define real_dot_f32 mmci_ordered_dot_f32_avx2
#define real_dot_f64 mmci_ordered_dot_f64_avx2
#define complex_dot_f32 mmci_ordered_dot_c64_avx2
#define complex_dot_f64 mmci_ordered_dot_c128_avx2
REAL_DOT(mmci_ordered_dot_f32_avx2, f32, float, vector_f32, 4)
REAL_DOT(mmci_ordered_dot_f64_avx2, f64, double, vector_f64, 2)
COMPLEX_DOT(mmci_ordered_dot_c64_avx2, f32, float, vector_f32, 4)
COMPLEX_DOT(mmci_ordered_dot_c128_avx2, f64, double, vector_f64, 2)
#include "device/blas/ordered_tiles_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif

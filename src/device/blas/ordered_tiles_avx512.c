/* ordered_tiles_avx512.c: the innermost loops of ordered.h by AVX-512. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512dq")
#endif

#define TILES mmci_ordered_tiles_avx512
#define real_dot_f32 mmci_ordered_dot_f32_avx2
#define real_dot_f64 mmci_ordered_dot_f64_avx2
#define complex_dot_f32 mmci_ordered_dot_c64_avx2
#define complex_dot_f64 mmci_ordered_dot_c128_avx2
enum { REAL_ROWS = 8, REAL_VECTORS = 3, COMPLEX_ROWS = 4, COMPLEX_VECTORS = 3 };
typedef __m512 vector_f32;
typedef __m512d vector_f64;
typedef __m512i vector_u32, vector_u64;
#define load_f32 _mm512_load_ps
#define load_f64 _mm512_load_pd
#define store_f32 _mm512_store_ps
#define store_f64 _mm512_store_pd
#define spread_f32(x) _mm512_set1_ps(*(x))
#define spread_f64(x) _mm512_set1_pd(*(x))
#define fma_f32 _mm512_fmadd_ps
#define fma_f64 _mm512_fmadd_pd
#define less_f32 _mm512_fnmadd_ps
#define less_f64 _mm512_fnmadd_pd
#define load_u32 _mm512_load_si512
#define load_u64 _mm512_load_si512
#define store_u32 _mm512_store_si512
#define store_u64 _mm512_store_si512
#define spread_u32(x) _mm512_set1_epi32((int)*(x))
#define spread_u64(x) _mm512_set1_epi64((long long)*(x))
#define fma_u32(x, y, sum) _mm512_add_epi32(sum, _mm512_mullo_epi32(x, y))
#define fma_u64(x, y, sum) _mm512_add_epi64(sum, _mm512_mullo_epi64(x, y))

/* Turns 4 x 4 numbers within each 16 bytes of four vectors. */
static inline void turn_quads(const __m512 r[4], float *to, int64_t step) {
  const __m512 low = _mm512_unpacklo_ps(r[0], r[1]), high = _mm512_unpackhi_ps(r[0], r[1]),
               low_2 = _mm512_unpacklo_ps(r[2], r[3]), high_2 = _mm512_unpackhi_ps(r[2], r[3]);
#define HALVES(take, x, y) _mm512_castpd_ps(take(_mm512_castps_pd(x), _mm512_castps_pd(y)))
  _mm512_store_ps(to, HALVES(_mm512_unpacklo_pd, low, low_2));
  _mm512_store_ps(to + step, HALVES(_mm512_unpackhi_pd, low, low_2));
  _mm512_store_ps(to + 2 * step, HALVES(_mm512_unpacklo_pd, high, high_2));
  _mm512_store_ps(to + 3 * step, HALVES(_mm512_unpackhi_pd, high, high_2));
#undef HALVES
}

/* Stores terms t to t + 15 of 16 lanes, step numbers apart. What a lane has of them is a line of
 * the cache or two, which is read at once: pieces lie so that their lines displace each other. */
static inline void turn_terms_f32(const void *const *lanes, int64_t t, float *to, int64_t step) {
  __m512 r[4][4];
  for (int l = 0; l < 4; l++)
    for (int q = 0; q < 4; q++) {
      const int64_t at = t + 4 * q;
      __m512 x = _mm512_castps128_ps512(_mm_loadu_ps((const float *)lanes[l] + at));
      x = _mm512_insertf32x4(x, _mm_loadu_ps((const float *)lanes[4 + l] + at), 1);
      x = _mm512_insertf32x4(x, _mm_loadu_ps((const float *)lanes[8 + l] + at), 2);
      r[q][l] = _mm512_insertf32x4(x, _mm_loadu_ps((const float *)lanes[12 + l] + at), 3);
    }
  for (int q = 0; q < 4; q++) turn_quads(r[q], to + 4 * q * step, step);
}

/* Stores 4 terms of 8 lanes, whose first four lie in lower halves. */
static inline void turn_halves(const __m512d r[4], double *to, int64_t step) {
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13),
                second = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
  const __m512d even = _mm512_unpacklo_pd(r[0], r[1]), odd = _mm512_unpackhi_pd(r[0], r[1]),
                even_2 = _mm512_unpacklo_pd(r[2], r[3]), odd_2 = _mm512_unpackhi_pd(r[2], r[3]);
  _mm512_store_pd(to, _mm512_permutex2var_pd(even, first, even_2));
  _mm512_store_pd(to + step, _mm512_permutex2var_pd(odd, first, odd_2));
  _mm512_store_pd(to + 2 * step, _mm512_permutex2var_pd(even, second, even_2));
  _mm512_store_pd(to + 3 * step, _mm512_permutex2var_pd(odd, second, odd_2));
}

/* Stores terms t to t + 7 of 8 lanes, step numbers apart. */
static inline void turn_terms_f64(const void *const *lanes, int64_t t, double *to, int64_t step) {
  __m512d r[2][4];
  for (int l = 0; l < 4; l++)
    for (int h = 0; h < 2; h++) {
      const int64_t at = t + 4 * h;
      const __m256d high = _mm256_loadu_pd((const double *)lanes[4 + l] + at);
      r[h][l] = _mm512_insertf64x4(
          _mm512_castpd256_pd512(_mm256_loadu_pd((const double *)lanes[l] + at)), high, 1);
    }
  for (int h = 0; h < 2; h++) turn_halves(r[h], to + 4 * h * step, step);
}
#include "device/blas/ordered_tiles_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif

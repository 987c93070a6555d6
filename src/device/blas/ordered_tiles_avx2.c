/* ordered_tiles_avx2.c: the innermost loops of ordered.h by AVX2 and FMA. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

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
#include "device/blas/ordered_tiles_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif

/* semiring_tiles_avx2.c: the innermost loops of semiring.h by AVX2. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <stdint.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

#define TILES mmci_semiring_tiles_avx2
enum { ROWS = 4, VECTORS = 2 };
typedef __m256 vector_f32;
typedef __m256d vector_f64;
typedef __m256i vector_i64;
#define load_f32 _mm256_load_ps
#define load_f64 _mm256_load_pd
#define load_i64(x) _mm256_load_si256((const __m256i *)(const void *)(x))
#define read_f32 _mm256_loadu_ps
#define read_f64 _mm256_loadu_pd
#define store_f32 _mm256_store_ps
#define store_f64 _mm256_store_pd
#define store_i64(x, y) _mm256_store_si256((__m256i *)(void *)(x), y)
#define spread_f32(x) _mm256_set1_ps(*(x))
#define spread_f64(x) _mm256_set1_pd(*(x))
#define spread_i64(x) _mm256_set1_epi64x(*(x))
#define add_f32 _mm256_add_ps
#define add_f64 _mm256_add_pd
#define subtract_f32 _mm256_sub_ps
#define subtract_f64 _mm256_sub_pd
#define add_i64 _mm256_add_epi64
#define greater_f32 _mm256_max_ps
#define greater_f64 _mm256_max_pd
#define greater_i64(x, y) _mm256_blendv_epi8(y, x, _mm256_cmpgt_epi64(x, y))
#include "device/blas/semiring_tiles_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif

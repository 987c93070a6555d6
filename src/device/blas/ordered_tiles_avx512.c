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
#include "device/blas/ordered_tiles_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif

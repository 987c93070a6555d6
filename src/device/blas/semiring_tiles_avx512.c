/* semiring_tiles_avx512.c: the innermost loops of semiring.h by AVX-512. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <stdint.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#else
#pragma GCC target("avx512f")
#endif

#define TILES mmci_semiring_tiles_avx512
enum { ROWS = 6, VECTORS = 4 };
typedef __m512 vector_f32;
typedef __m512d vector_f64;
typedef __m512i vector_i64;
#define load_f32 _mm512_load_ps
#define load_f64 _mm512_load_pd
#define load_i64 _mm512_load_si512
#define read_f32 _mm512_loadu_ps
#define read_f64 _mm512_loadu_pd
#define store_f32 _mm512_store_ps
#define store_f64 _mm512_store_pd
#define store_i64 _mm512_store_si512
#define spread_f32(x) _mm512_set1_ps(*(x))
#define spread_f64(x) _mm512_set1_pd(*(x))
#define spread_i64(x) _mm512_set1_epi64(*(x))
#define add_f32 _mm512_add_ps
#define add_f64 _mm512_add_pd
#define subtract_f32 _mm512_sub_ps
#define subtract_f64 _mm512_sub_pd
#define add_i64 _mm512_add_epi64
#define greater_f32 _mm512_max_ps
#define greater_f64 _mm512_max_pd
#define greater_i64 _mm512_max_epi64
#include "device/blas/semiring_tiles_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif

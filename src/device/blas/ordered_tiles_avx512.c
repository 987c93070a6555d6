/* ordered_tiles_avx512.c: the innermost loops of ordered.h by AVX-512. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#else
#pragma GCC target("avx512f")
#endif

#define TILES mmci_ordered_tiles_avx512
enum { REAL_ROWS = 8, REAL_VECTORS = 3, COMPLEX_ROWS = 4, COMPLEX_VECTORS = 3 };
typedef __m512 vector_f32;
typedef __m512d vector_f64;
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
#include "device/blas/ordered_tiles_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif

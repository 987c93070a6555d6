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
#include "device/blas/ordered_tiles_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif

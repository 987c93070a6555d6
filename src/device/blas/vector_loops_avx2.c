/* vector_loops_avx2.c: the loops of vector_loops.h by AVX2 and its fused operations. */
#if defined(__x86_64__)

#include <immintrin.h>

#include "device/blas/vector_loops.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif

#define SPREAD_F32(x, y, sum) _mm256_fmadd_ps(_mm256_broadcast_ss(x), y, sum)
#define SPREAD_F64(x, y, sum) _mm256_fmadd_pd(_mm256_broadcast_sd(x), y, sum)
#define SPREAD_HALF_F32(x, y, sum) _mm_fmadd_ps(_mm_broadcast_ss(x), y, sum)
#define SPREAD_HALF_F64(x, y, sum) _mm_fmadd_pd(_mm_loaddup_pd(x), y, sum)
#define MADD_F32 _mm256_fmadd_ps
#define MADD_F64 _mm256_fmadd_pd
#define MADD_HALF_F32 _mm_fmadd_ps
#define MADD_HALF_F64 _mm_fmadd_pd
#define SET mmci_vectors_avx2
#include "device/blas/vector_loops_set.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif

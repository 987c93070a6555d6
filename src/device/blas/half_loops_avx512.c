/* half_loops_avx512.c: what is done with f16 and bf16 element by element, by AVX-512. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <stdbool.h>

#include "base/half.h"
#include "device/blas/half_loops.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl"))), \
                             apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512vl")
#endif

#define LOOPS mmci_half_loops_avx512
#define VECTOR 16
#define ROWS 8
#define WIDEN(from, to) \
  _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(from))))
#define ROUND(from, to)        \
  _mm256_storeu_si256(         \
      (__m256i *)(void *)(to), \
      _mm512_cvtps_ph(_mm512_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
#define FIRST(count) ((__mmask16)((1U << (count)) - 1))
#define GET_FLOATS(from, count, to) _mm512_storeu_ps(to, _mm512_maskz_loadu_ps(FIRST(count), from))
#define PUT_FLOATS(from, count, to) _mm512_mask_storeu_ps(to, FIRST(count), _mm512_loadu_ps(from))
#define GET_HALVES(from, count, to) \
  _mm256_storeu_si256((__m256i *)(void *)(to), _mm256_maskz_loadu_epi16(FIRST(count), from))
#define PUT_HALVES(from, count, to)          \
  _mm256_mask_storeu_epi16(to, FIRST(count), \
                           _mm256_loadu_si256((const __m256i *)(const void *)(from)))
#define MADD(x, y, sum) _mm512_fmadd_ps(_mm512_set1_ps(x), y, sum)
#define MADD_NUMBER __builtin_fmaf
#include "device/blas/half_loops_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif

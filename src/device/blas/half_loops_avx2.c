/* half_loops_avx2.c: what is done with f16 and bf16 element by element, by AVX2. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <stdbool.h>

#include "base/half.h"
#include "device/blas/half_loops.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif

#define LOOPS mmci_half_loops_avx2
#define VECTOR 8
#define ROWS 4
#define WIDEN(from, to) \
  _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from))))
#define ROUND(from, to)        \
  _mm_storeu_si128(            \
      (__m128i *)(void *)(to), \
      _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
#define MADD(x, y, sum) _mm256_fmadd_ps(_mm256_set1_ps(x), y, sum)
#define MADD_NUMBER __builtin_fmaf
#include "device/blas/half_loops_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif

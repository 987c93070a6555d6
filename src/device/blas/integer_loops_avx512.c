/* integer_loops_avx512.c: what is done with integers element by element, by AVX512. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/wide.h"
#include "device/blas/integer_loops.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl"))), \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl")
#endif

/* Long vectors mostly lie across two lines of the cache. */
static uint64_t pack_bytes(const uint8_t *from, int64_t count) {
  const uint64_t lanes = ~UINT64_C(0) >> (64 - count);
  if (count <= 16) {
    const __m128i truths = _mm_maskz_loadu_epi8((__mmask16)lanes, from);
    return _mm_test_epi8_mask(truths, truths);
  }
  const __m512i truths = _mm512_maskz_loadu_epi8(lanes, from);
  return _mm512_test_epi8_mask(truths, truths);
}

static void unpack_bytes(uint64_t bits, int64_t count, uint8_t *to) {
  const uint64_t lanes = ~UINT64_C(0) >> (64 - count);
  if (count <= 16)
    _mm_mask_storeu_epi8(to, (__mmask16)lanes, _mm_maskz_set1_epi8((__mmask16)bits, 1));
  else
    _mm512_mask_storeu_epi8(to, lanes, _mm512_maskz_set1_epi8(bits, 1));
}

#define PACKS_BYTES
#define LOOPS mmci_integer_loops_avx512
#include "device/blas/integer_loops_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif

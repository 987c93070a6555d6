/* ordered_lines_avx512.c: the loops of vector_loops.h in order, by AVX-512. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "device/blas/vector_loops.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,avx512f"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,avx512f")
#endif

#define INLINE static inline __attribute__((always_inline))

/* Returns the two numbers of a pair, again and again. */
INLINE __m512 pairs_f32(const float *from) {
  double pair;
  memcpy(&pair, from, sizeof pair);
  return _mm512_castpd_ps(_mm512_set1_pd(pair));
}
INLINE __m512d pairs_f64(const double *from) {
  return _mm512_castps_pd(_mm512_broadcast_f32x4(_mm_castpd_ps(_mm_loadu_pd(from))));
}

/* Turns 4 x 4 times 16 bytes. */
INLINE void turn_quads(const __m512 from[4], __m512 to[4]) {
  const __m512 x = _mm512_shuffle_f32x4(from[0], from[1], 0x44),
               x_2 = _mm512_shuffle_f32x4(from[0], from[1], 0xee),
               y = _mm512_shuffle_f32x4(from[2], from[3], 0x44),
               y_2 = _mm512_shuffle_f32x4(from[2], from[3], 0xee);
  to[0] = _mm512_shuffle_f32x4(x, y, 0x88);
  to[1] = _mm512_shuffle_f32x4(x, y, 0xdd);
  to[2] = _mm512_shuffle_f32x4(x_2, y_2, 0x88);
  to[3] = _mm512_shuffle_f32x4(x_2, y_2, 0xdd);
}

#define VECTOR_F32 __m512
#define VECTOR_F64 __m512d
#define MASK_F32 __mmask16
#define MASK_F64 __mmask8
#define FIRST_F32(count) ((__mmask16)((1U << (count)) - 1))
#define FIRST_F64(count) ((__mmask8)((1U << (count)) - 1))
#define LOAD_F32 _mm512_loadu_ps
#define LOAD_F64 _mm512_loadu_pd
#define LOAD_FIRST_F32(from, mask) _mm512_maskz_loadu_ps(mask, from)
#define LOAD_FIRST_F64(from, mask) _mm512_maskz_loadu_pd(mask, from)
#define STORE_F32 _mm512_storeu_ps
#define STORE_F64 _mm512_storeu_pd
#define STORE_FIRST_F32 _mm512_mask_storeu_ps
#define STORE_FIRST_F64 _mm512_mask_storeu_pd
#define SPREAD_F32(from) _mm512_set1_ps(*(from))
#define SPREAD_F64(from) _mm512_set1_pd(*(from))
#define PAIR_F32 pairs_f32
#define PAIR_F64 pairs_f64
#define FMA_F32 _mm512_fmadd_ps
#define FMA_F64 _mm512_fmadd_pd
#define TIMES_F32 _mm512_mul_ps
#define TIMES_F64 _mm512_mul_pd
#define SIGNS_F32(x, y) _mm512_setr_ps(x, y, x, y, x, y, x, y, x, y, x, y, x, y, x, y)
#define SIGNS_F64(x, y) _mm512_setr_pd(x, y, x, y, x, y, x, y)
#define SWAP_F32(x) _mm512_permute_ps(x, 0xb1)
#define SWAP_F64(x) _mm512_permute_pd(x, 0x55)
#define EVEN_F32 _mm512_moveldup_ps
#define EVEN_F64 _mm512_movedup_pd
#define ODD_F32 _mm512_movehdup_ps
#define ODD_F64(x) _mm512_permute_pd(x, 0xff)
#define SETTLE_F32(x)                                       \
  _mm512_mask_mov_ps(_mm512_add_ps(x, _mm512_setzero_ps()), \
                     _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), _mm512_set1_ps(NAN))
#define SETTLE_F64(x)                                       \
  _mm512_mask_mov_pd(_mm512_add_pd(x, _mm512_setzero_pd()), \
                     _mm512_cmp_pd_mask(x, x, _CMP_UNORD_Q), _mm512_set1_pd((double)NAN))
#define LOW_WORDS _mm512_unpacklo_ps
#define HIGH_WORDS _mm512_unpackhi_ps
#define LOW_PAIRS(x, y) \
  _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(x), _mm512_castps_pd(y)))
#define HIGH_PAIRS(x, y) \
  _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(x), _mm512_castps_pd(y)))
#define F32_FROM_F64 _mm512_castpd_ps
#define F64_FROM_F32 _mm512_castps_pd
#define ROWS 8 /* that are computed at once, by up to two vectors */
#define SET mmci_ordered_lines_avx512
#include "device/blas/ordered_lines_set.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif

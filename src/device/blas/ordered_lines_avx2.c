/* ordered_lines_avx2.c: the loops of vector_loops.h in order, by AVX2. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "device/blas/vector_loops.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif

#define INLINE static inline __attribute__((always_inline))

/* Returns the two numbers of a pair, again and again. */
INLINE __m256 pairs_f32(const float *from) {
  double pair;
  memcpy(&pair, from, sizeof pair);
  return _mm256_castpd_ps(_mm256_set1_pd(pair));
}
INLINE __m256d pairs_f64(const double *from) {
  return _mm256_broadcast_pd((const __m128d *)(const void *)from);
}

/* Turns 2 x 2 times 16 bytes. */
INLINE void turn_quads(const __m256 from[2], __m256 to[2]) {
  to[0] = _mm256_permute2f128_ps(from[0], from[1], 0x20);
  to[1] = _mm256_permute2f128_ps(from[0], from[1], 0x31);
}

#define VECTOR_F32 __m256
#define VECTOR_F64 __m256d
#define MASK_F32 __m256i
#define MASK_F64 __m256i
#define FIRST_F32(count) \
  _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
#define FIRST_F64(count) \
  _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3))
#define LOAD_F32 _mm256_loadu_ps
#define LOAD_F64 _mm256_loadu_pd
#define LOAD_FIRST_F32 _mm256_maskload_ps
#define LOAD_FIRST_F64 _mm256_maskload_pd
#define STORE_F32 _mm256_storeu_ps
#define STORE_F64 _mm256_storeu_pd
#define STORE_FIRST_F32 _mm256_maskstore_ps
#define STORE_FIRST_F64 _mm256_maskstore_pd
#define SPREAD_F32 _mm256_broadcast_ss
#define SPREAD_F64 _mm256_broadcast_sd
#define PAIR_F32 pairs_f32
#define PAIR_F64 pairs_f64
#define FMA_F32 _mm256_fmadd_ps
#define FMA_F64 _mm256_fmadd_pd
#define TIMES_F32 _mm256_mul_ps
#define TIMES_F64 _mm256_mul_pd
#define SIGNS_F32(x, y) _mm256_setr_ps(x, y, x, y, x, y, x, y)
#define SIGNS_F64(x, y) _mm256_setr_pd(x, y, x, y)
#define SWAP_F32(x) _mm256_permute_ps(x, 0xb1)
#define SWAP_F64(x) _mm256_permute_pd(x, 5)
#define EVEN_F32 _mm256_moveldup_ps
#define EVEN_F64 _mm256_movedup_pd
#define ODD_F32 _mm256_movehdup_ps
#define ODD_F64(x) _mm256_permute_pd(x, 15)
#define SETTLE_F32(x)                                                          \
  _mm256_blendv_ps(_mm256_add_ps(x, _mm256_setzero_ps()), _mm256_set1_ps(NAN), \
                   _mm256_cmp_ps(x, x, _CMP_UNORD_Q))
#define SETTLE_F64(x)                                                                  \
  _mm256_blendv_pd(_mm256_add_pd(x, _mm256_setzero_pd()), _mm256_set1_pd((double)NAN), \
                   _mm256_cmp_pd(x, x, _CMP_UNORD_Q))
#define LOW_WORDS _mm256_unpacklo_ps
#define HIGH_WORDS _mm256_unpackhi_ps
#define LOW_PAIRS(x, y) \
  _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(x), _mm256_castps_pd(y)))
#define HIGH_PAIRS(x, y) \
  _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(x), _mm256_castps_pd(y)))
#define F32_FROM_F64 _mm256_castpd_ps
#define F64_FROM_F32 _mm256_castps_pd
#define ROWS 6 /* that are computed at once, by up to two vectors */
#define SET mmci_ordered_lines_avx2
#include "device/blas/ordered_lines_set.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif

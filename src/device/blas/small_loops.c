#include "device/blas/small_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 "avx2,fma"
#define AVX512 "avx2,fma,avx512f,avx512vl"
#define IN(isa) __attribute__((target(isa)))
#define TILE(isa) IN(isa) static inline __attribute__((always_inline))

/* A tile has so many rows and vectors, whose sums stay in registers. One of one vector is twice as
 * high, since its sums wait for each other. */
enum { ROWS = 4, VECTORS = 2, HIGH = 2 * ROWS };

bool mmci_small_loops_can(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

/* Return a mask of the first numbers of a vector, each of so many bytes. AVX2 has it in a vector,
 * and its stores by a mask take some processors ten times as long as those of AVX-512. */
TILE(AVX2) __m256i first_in_vector(int64_t numbers, size_t bytes) {
  static const int64_t mask[8] = {-1, -1, -1, -1};
  const size_t all = (size_t)numbers * bytes;
  return _mm256_loadu_si256((const void *)((const char *)mask + sizeof(__m256i) - all));
}

TILE(AVX512) __mmask8 first_in_bits(int64_t numbers, size_t bytes) {
  (void)bytes;
  return (__mmask8)((1U << numbers) - 1);
}

TILE(AVX512) __m256 load_bits_f32(const float *from, __mmask8 there) {
  return _mm256_maskz_loadu_ps(there, from);
}

TILE(AVX512) __m256d load_bits_f64(const double *from, __mmask8 there) {
  return _mm256_maskz_loadu_pd(there, from);
}

/* Defines the loops for a type and a set of instructions. tile_*() computes `rows` x `vectors`
 * vectors of C at a corner, whose last vector may be cut. It is called with constants, which makes
 * the loops over them straight code. What is left at the right and below is computed in tiles as
 * wide and as high as it is, because short products are mostly edges. Every element is one sum in
 * the order of its terms, so all sets give the same bits. */
#define LOOPS(name, isa, type, vector, width, mask, first, zero, load, store, load_some,          \
              store_some, spread, fma)                                                            \
  TILE(isa) vector load_##name(const type *from, bool cut, mask there) {                          \
    return cut ? load_some(from, there) : load(from);                                             \
  }                                                                                               \
  TILE(isa)                                                                                       \
  void tile_##name(int rows, int vectors, bool cut, const mmci_gemm *x, int64_t row, int64_t col, \
                   mask there, const type *a, const type *b, type *c) {                           \
    int64_t down = x->a.trans ? 1 : x->a.ld, along = x->a.trans ? x->a.ld : 1;                    \
    const int last = cut ? vectors - 1 : vectors;                                                 \
    vector sums[HIGH][VECTORS];                                                                   \
    a += row * down;                                                                              \
    b += col;                                                                                     \
    c += row * x->ldc + col;                                                                      \
    for (int r = 0; r < rows; r++)                                                                \
      for (int v = 0; v < vectors; v++)                                                           \
        sums[r][v] =                                                                              \
            x->accumulate ? load_##name(c + r * x->ldc + v * (width), v == last, there) : zero(); \
    for (int64_t p = 0; p < x->k; p++, a += along, b += x->b.ld)                                  \
      for (int v = 0; v < vectors; v++) {                                                         \
        vector of_b = load_##name(b + v * (width), v == last, there);                             \
        for (int r = 0; r < rows; r++) sums[r][v] = fma(spread(a + r * down), of_b, sums[r][v]);  \
      }                                                                                           \
    for (int r = 0; r < rows; r++)                                                                \
      for (int v = 0; v < vectors; v++) {                                                         \
        if (v == last)                                                                            \
          store_some(c + r * x->ldc + v * (width), there, sums[r][v]);                            \
        else                                                                                      \
          store(c + r * x->ldc + v * (width), sums[r][v]);                                        \
      }                                                                                           \
  }                                                                                               \
  TILE(isa)                                                                                       \
  void columns_##name(int rows, const mmci_gemm *x, int64_t row, const type *a, const type *b,    \
                      type *c) {                                                                  \
    int64_t col = 0;                                                                              \
    mask there = first(0, sizeof(type));                                                          \
    for (; rows <= ROWS && col + VECTORS * (width) <= x->n; col += VECTORS * (width))             \
      tile_##name(rows, VECTORS, false, x, row, col, there, a, b, c);                             \
    const int64_t rest = x->n - col, some = rest % (width);                                       \
    there = first(some, sizeof(type));                                                            \
    if (rows <= ROWS && rest > (width))                                                           \
      tile_##name(rows, 2, true, x, row, col, there, a, b, c);                                    \
    else if (some > 0)                                                                            \
      tile_##name(rows, 1, true, x, row, col, there, a, b, c);                                    \
    else if (rest > 0)                                                                            \
      tile_##name(rows, 1, false, x, row, col, there, a, b, c);                                   \
  }                                                                                               \
  IN(isa) static void loops_##name(const mmci_gemm *x, const void *a, const void *b, void *c) {   \
    int64_t row = 0;                                                                              \
    if (x->n <= (width)) {                                                                        \
      for (; row + HIGH <= x->m; row += HIGH) columns_##name(HIGH, x, row, a, b, c);              \
      if (x->m - row >= 6) {                                                                      \
        columns_##name(6, x, row, a, b, c);                                                       \
        row += 6;                                                                                 \
      }                                                                                           \
    }                                                                                             \
    for (; row + ROWS <= x->m; row += ROWS) columns_##name(ROWS, x, row, a, b, c);                \
    if (x->m - row == 3)                                                                          \
      columns_##name(3, x, row, a, b, c);                                                         \
    else if (x->m - row == 2)                                                                     \
      columns_##name(2, x, row, a, b, c);                                                         \
    else if (x->m - row == 1)                                                                     \
      columns_##name(1, x, row, a, b, c);                                                         \
  }

LOOPS(f32, AVX2, float, __m256, 8, __m256i, first_in_vector, _mm256_setzero_ps, _mm256_loadu_ps,
      _mm256_storeu_ps, _mm256_maskload_ps, _mm256_maskstore_ps, _mm256_broadcast_ss,
      _mm256_fmadd_ps)
LOOPS(f64, AVX2, double, __m256d, 4, __m256i, first_in_vector, _mm256_setzero_pd, _mm256_loadu_pd,
      _mm256_storeu_pd, _mm256_maskload_pd, _mm256_maskstore_pd, _mm256_broadcast_sd,
      _mm256_fmadd_pd)
LOOPS(f32_bits, AVX512, float, __m256, 8, __mmask8, first_in_bits, _mm256_setzero_ps,
      _mm256_loadu_ps, _mm256_storeu_ps, load_bits_f32, _mm256_mask_storeu_ps, _mm256_broadcast_ss,
      _mm256_fmadd_ps)
LOOPS(f64_bits, AVX512, double, __m256d, 4, __mmask8, first_in_bits, _mm256_setzero_pd,
      _mm256_loadu_pd, _mm256_storeu_pd, load_bits_f64, _mm256_mask_storeu_pd, _mm256_broadcast_sd,
      _mm256_fmadd_pd)

void mmci_small_loops_avx2(const mmci_gemm *gemm, const void *a, const void *b, void *c) {
  (gemm->dtype == MMC_F32 ? loops_f32 : loops_f64)(gemm, a, b, c);
}

void mmci_small_loops(const mmci_gemm *gemm, const void *a, const void *b, void *c) {
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl"))
    mmci_small_loops_avx2(gemm, a, b, c);
  else
    (gemm->dtype == MMC_F32 ? loops_f32_bits : loops_f64_bits)(gemm, a, b, c);
}
#else
bool mmci_small_loops_can(void) {
  return false;
}

void mmci_small_loops_avx2(const mmci_gemm *gemm, const void *a, const void *b, void *c) {
  (void)gemm, (void)a, (void)b, (void)c;
}

void mmci_small_loops(const mmci_gemm *gemm, const void *a, const void *b, void *c) {
  (void)gemm, (void)a, (void)b, (void)c;
}
#endif

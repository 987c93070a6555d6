#include "device/blas/small_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define HERE __attribute__((target("avx2,fma")))
#define TILE HERE static inline __attribute__((always_inline))

/* A tile has so many rows and vectors, whose sums stay in registers. */
enum { ROWS = 4, VECTORS = 2 };

bool mmci_small_loops_can(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

/* Where tile_*() begins, and which columns of its last vector there are when that is cut. */
typedef struct corner {
  int64_t row, col;
  __m256i there;
} corner;

/* Returns a mask of the first bytes of a vector. */
TILE __m256i first_of(size_t bytes) {
  static const int64_t mask[8] = {-1, -1, -1, -1};
  return _mm256_loadu_si256((const void *)((const char *)mask + sizeof(__m256i) - bytes));
}

/* Defines the tile of C of `rows` x `vectors` vectors at a corner. It is called with constants,
 * which makes the loops over them straight code. What is left at the right and below is computed in
 * tiles as wide and as high as it is, because short products are mostly edges. */
#define LOOPS(suffix, type, vector, width, zero, load, store, load_some, store_some, spread, fma) \
  TILE vector load_##suffix(const type *from, bool cut, __m256i there) {                          \
    return cut ? load_some(from, there) : load(from);                                             \
  }                                                                                               \
  TILE void tile_##suffix(int rows, int vectors, bool cut, const mmci_gemm *x, const corner *at,  \
                          const type *a, const type *b, type *c) {                                \
    int64_t down = x->a.trans ? 1 : x->a.ld, along = x->a.trans ? x->a.ld : 1;                    \
    const int last = cut ? vectors - 1 : vectors;                                                 \
    vector sums[ROWS][VECTORS];                                                                   \
    a += at->row * down;                                                                          \
    b += at->col;                                                                                 \
    c += at->row * x->ldc + at->col;                                                              \
    for (int r = 0; r < rows; r++)                                                                \
      for (int v = 0; v < vectors; v++)                                                           \
        sums[r][v] = x->accumulate                                                                \
                         ? load_##suffix(c + r * x->ldc + v * (width), v == last, at->there)      \
                         : zero();                                                                \
    for (int64_t p = 0; p < x->k; p++, a += along, b += x->b.ld)                                  \
      for (int v = 0; v < vectors; v++) {                                                         \
        vector of_b = load_##suffix(b + v * (width), v == last, at->there);                       \
        for (int r = 0; r < rows; r++) sums[r][v] = fma(spread(a + r * down), of_b, sums[r][v]);  \
      }                                                                                           \
    for (int r = 0; r < rows; r++)                                                                \
      for (int v = 0; v < vectors; v++) {                                                         \
        if (v == last)                                                                            \
          store_some(c + r * x->ldc + v * (width), at->there, sums[r][v]);                        \
        else                                                                                      \
          store(c + r * x->ldc + v * (width), sums[r][v]);                                        \
      }                                                                                           \
  }                                                                                               \
  TILE void columns_##suffix(int rows, const mmci_gemm *x, int64_t row, const type *a,            \
                             const type *b, type *c) {                                            \
    corner at = {.row = row};                                                                     \
    for (; at.col + VECTORS * (width) <= x->n; at.col += VECTORS * (width))                       \
      tile_##suffix(rows, VECTORS, false, x, &at, a, b, c);                                       \
    const int64_t rest = x->n - at.col, some = rest % (width);                                    \
    at.there = first_of((size_t)some * sizeof(type));                                             \
    if (rest > (width))                                                                           \
      tile_##suffix(rows, 2, true, x, &at, a, b, c);                                              \
    else if (some > 0)                                                                            \
      tile_##suffix(rows, 1, true, x, &at, a, b, c);                                              \
    else if (rest > 0)                                                                            \
      tile_##suffix(rows, 1, false, x, &at, a, b, c);                                             \
  }                                                                                               \
  HERE static void loops_##suffix(const mmci_gemm *x, const void *a, const void *b, void *c) {    \
    int64_t row = 0;                                                                              \
    for (; row + ROWS <= x->m; row += ROWS) columns_##suffix(ROWS, x, row, a, b, c);              \
    if (x->m - row == 3)                                                                          \
      columns_##suffix(3, x, row, a, b, c);                                                       \
    else if (x->m - row == 2)                                                                     \
      columns_##suffix(2, x, row, a, b, c);                                                       \
    else if (x->m - row == 1)                                                                     \
      columns_##suffix(1, x, row, a, b, c);                                                       \
  }

LOOPS(f32, float, __m256, 8, _mm256_setzero_ps, _mm256_loadu_ps, _mm256_storeu_ps,
      _mm256_maskload_ps, _mm256_maskstore_ps, _mm256_broadcast_ss, _mm256_fmadd_ps)
LOOPS(f64, double, __m256d, 4, _mm256_setzero_pd, _mm256_loadu_pd, _mm256_storeu_pd,
      _mm256_maskload_pd, _mm256_maskstore_pd, _mm256_broadcast_sd, _mm256_fmadd_pd)

void mmci_small_loops(const mmci_gemm *gemm, const void *a, const void *b, void *c) {
  (gemm->dtype == MMC_F32 ? loops_f32 : loops_f64)(gemm, a, b, c);
}
#else
bool mmci_small_loops_can(void) {
  return false;
}

void mmci_small_loops(const mmci_gemm *gemm, const void *a, const void *b, void *c) {
  (void)gemm, (void)a, (void)b, (void)c;
}
#endif

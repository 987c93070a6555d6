/* vector_loops_avx512.c: loops of vector_loops.h by AVX-512: sums, real and complex, all columns of
 * B at once, so that each row of A is read once; and real lines of up to one vector, many rows at
 * once, so that none waits for its own sum. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <stdbool.h>

#include "device/blas/vector_loops.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,avx512f"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,avx512f")
#endif

#define INLINE static inline __attribute__((always_inline))

enum {
  ROWS = 4,
  MOST_COLS = 3,
  MOST_LINES = 12,
  MOST_FEW = 5, /* terms of rows that are multiplied a lane each */
  FEW_ROWS = 16 /* rows for which finding out how terms are picked is worth it */
};

INLINE __m256d halves_f64(__m512d x) {
  return _mm256_add_pd(_mm512_castpd512_pd256(x), _mm512_extractf64x4_pd(x, 1));
}

INLINE __m256 halves_f32(__m512 x) {
  const __m512d bits = _mm512_castps_pd(x);
  return _mm256_add_ps(_mm256_castpd_ps(_mm512_castpd512_pd256(bits)),
                       _mm256_castpd_ps(_mm512_extractf64x4_pd(bits, 1)));
}

/* Adds up each of four vectors. */
INLINE void add_up_f64(const __m512d (*x)[MOST_COLS], int col, double *out) {
  const __m256d low = _mm256_hadd_pd(halves_f64(x[0][col]), halves_f64(x[1][col])),
                high = _mm256_hadd_pd(halves_f64(x[2][col]), halves_f64(x[3][col]));
  _mm256_storeu_pd(out, _mm256_add_pd(_mm256_permute2f128_pd(low, high, 0x20),
                                      _mm256_permute2f128_pd(low, high, 0x31)));
}

INLINE void add_up_f32(const __m512 (*x)[MOST_COLS], int col, float *out) {
  const __m256 low = _mm256_hadd_ps(halves_f32(x[0][col]), halves_f32(x[1][col])),
               high = _mm256_hadd_ps(halves_f32(x[2][col]), halves_f32(x[3][col])),
               both = _mm256_hadd_ps(low, high);
  _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1)));
}

/* Defines the sums of one type: of ROWS rows or fewer by up to MOST_COLS columns, which lie one
 * after the other, and of products. Constants make the loops over rows and columns straight code.
 */
#define SUMS(number, type, vector, suffix, mask_type, integer)                                 \
  INLINE void some_sums_##type(const bool ahead, const int rows, const int cols,               \
                               const mmci_vectors *x, const number *a, const number *b,        \
                               number *c) {                                                    \
    enum { WIDTH = sizeof(vector) / sizeof(number) };                                          \
    vector sums[ROWS][MOST_COLS], right[MOST_COLS];                                            \
    int64_t p = 0;                                                                             \
    for (int r = 0; r < ROWS; r++)                                                             \
      for (int q = 0; q < cols; q++) sums[r][q] = _mm512_setzero_##suffix();                   \
    for (; p + WIDTH <= x->k; p += WIDTH) {                                                    \
      for (int q = 0; q < cols; q++) right[q] = _mm512_loadu_##suffix(b + q * x->k + p);       \
      for (int r = 0; r < rows; r++) {                                                         \
        const vector left = _mm512_loadu_##suffix(a + r * x->a_down + p);                      \
        if (ahead) _mm_prefetch((const char *)(a + (r + ROWS) * x->a_down + p), _MM_HINT_T0);  \
        for (int q = 0; q < cols; q++)                                                         \
          sums[r][q] = _mm512_fmadd_##suffix(left, right[q], sums[r][q]);                      \
      }                                                                                        \
    }                                                                                          \
    if (p < x->k) {                                                                            \
      const mask_type rest = (mask_type)((1U << (x->k - p)) - 1);                              \
      for (int q = 0; q < cols; q++)                                                           \
        right[q] = _mm512_maskz_loadu_##suffix(rest, b + q * x->k + p);                        \
      for (int r = 0; r < rows; r++) {                                                         \
        const vector left = _mm512_maskz_loadu_##suffix(rest, a + r * x->a_down + p);          \
        for (int q = 0; q < cols; q++)                                                         \
          sums[r][q] = _mm512_fmadd_##suffix(left, right[q], sums[r][q]);                      \
      }                                                                                        \
    }                                                                                          \
    for (int q = 0; q < cols; q++) {                                                           \
      number all[ROWS];                                                                        \
      if (rows == ROWS && cols == 1 && x->c_down == 1) {                                       \
        add_up_##type((const vector(*)[MOST_COLS])sums, q, c);                                 \
        continue;                                                                              \
      }                                                                                        \
      add_up_##type((const vector(*)[MOST_COLS])sums, q, all);                                 \
      for (int r = 0; r < rows; r++) c[r * x->c_down + q] = all[r];                            \
    }                                                                                          \
  }                                                                                            \
                                                                                               \
  /* Multiplies rows of so few terms, which follow one another, by a vector: a lane has a row. \
   * Term p of it is picked from as many vectors as there are terms, by picks[p]. */           \
  INLINE void rows_of_##type(const int terms, const mmci_vectors *x,                           \
                             const __m512i(*picks)[MOST_FEW - 1], const number *a,             \
                             const number *b, number *c) {                                     \
    enum { WIDTH = sizeof(vector) / sizeof(number) };                                          \
    for (int64_t row = 0; row < x->m; row += WIDTH, a += terms * WIDTH) {                      \
      const int64_t rows = x->m - row < WIDTH ? x->m - row : WIDTH;                            \
      vector read[MOST_FEW], sum = _mm512_setzero_##suffix();                                  \
      for (int t = 0; t < terms; t++) {                                                        \
        const int64_t left = rows * terms - t * WIDTH;                                         \
        const mask_type there = (mask_type)(left >= WIDTH ? ~0U                                \
                                            : left > 0    ? (1U << left) - 1                   \
                                                          : 0);                                   \
        read[t] = _mm512_maskz_loadu_##suffix(there, a + t * WIDTH);                           \
      }                                                                                        \
      for (int p = 0; p < terms; p++) {                                                        \
        vector left = read[0];                                                                 \
        for (int t = 1; t < terms; t++)                                                        \
          left = _mm512_permutex2var_##suffix(left, picks[p][t - 1], read[t]);                 \
        sum = _mm512_fmadd_##suffix(left, _mm512_set1_##suffix(b[p]), sum);                    \
      }                                                                                        \
      _mm512_mask_storeu_##suffix(c + row, (mask_type)((1U << rows) - 1), sum);                \
    }                                                                                          \
  }                                                                                            \
                                                                                               \
  INLINE void few_terms_##type(const int terms, const mmci_vectors *x, int64_t count,          \
                               const char *a, const char *b, char *c) {                        \
    enum { WIDTH = sizeof(vector) / sizeof(number) };                                          \
    __m512i picks[MOST_FEW][MOST_FEW - 1];                                                     \
    for (int p = 0; p < terms; p++)                                                            \
      for (int t = 1; t < terms; t++) {                                                        \
        integer pick[WIDTH];                                                                   \
        for (int lane = 0; lane < WIDTH; lane++) {                                             \
          const int at = lane * terms + p;                                                     \
          /* What was picked before stays in its lane. */                                      \
          pick[lane] = at / WIDTH == t ? WIDTH + at % WIDTH : t == 1 ? at % WIDTH : lane;      \
        }                                                                                      \
        picks[p][t - 1] = _mm512_loadu_si512(pick);                                            \
      }                                                                                        \
    for (; count > 0; count--, a += x->a_step, b += x->b_step, c += x->c_step)                 \
      rows_of_##type(terms, x, (const __m512i(*)[MOST_FEW - 1]) picks,                         \
                     (const number *)(const void *)a, (const number *)(const void *)b,         \
                     (number *)(void *)c);                                                     \
  }

SUMS(float, f32, __m512, ps, __mmask16, int32_t)
SUMS(double, f64, __m512d, pd, __mmask8, int64_t)

/* Write a complex sum: of left by right numbers, and of left by right ones whose real and imaginary
 * parts have changed places, each even and odd lanes together. Signs are of what lies in the lanes.
 */
INLINE void put_complex_f64(__m512d straight, __m512d crossed, __m128d straight_signs,
                            __m128d crossed_signs, double *out) {
  const __m256d x = halves_f64(straight), y = halves_f64(crossed);
  const __m128d both =
      _mm_hadd_pd(_mm_mul_pd(_mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1)),
                             straight_signs),
                  _mm_mul_pd(_mm_add_pd(_mm256_castpd256_pd128(y), _mm256_extractf128_pd(y, 1)),
                             crossed_signs));
  _mm_storeu_pd(out, both);
}

INLINE void put_complex_f32(__m512 straight, __m512 crossed, __m128 straight_signs,
                            __m128 crossed_signs, float *out) {
  const __m256 x = halves_f32(straight), y = halves_f32(crossed);
  const __m128 both =
      _mm_hadd_ps(_mm_mul_ps(_mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1)),
                             straight_signs),
                  _mm_mul_ps(_mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1)),
                             crossed_signs));
  _mm_storel_pi((__m64 *)out, _mm_hadd_ps(both, both));
}

INLINE __m512d crossed_f64(__m512d x) {
  return _mm512_permute_pd(x, 0x55);
}
INLINE __m512 crossed_f32(__m512 x) {
  return _mm512_permute_ps(x, 0xB1);
}
INLINE __m128d signs_f64(double even, double odd) {
  return _mm_set_pd(odd, even);
}
INLINE __m128 signs_f32(double even, double odd) {
  return _mm_set_ps((float)odd, (float)even, (float)odd, (float)even);
}

/* Defines the complex sums of one type, as SUMS does real ones; a complex number is two numbers. */
#define COMPLEX_SUMS(number, type, vector, small, suffix, mask_type)                             \
  INLINE void some_complex_##type(const bool ahead, const int rows, const int cols,              \
                                  const mmci_vectors *x, const number *a, const number *b,       \
                                  number *c) {                                                   \
    enum { WIDTH = sizeof(vector) / sizeof(number) };                                            \
    const int64_t numbers = 2 * x->k;                                                            \
    vector straight[ROWS][MOST_COLS], crossed[ROWS][MOST_COLS], right[MOST_COLS];                \
    for (int r = 0; r < rows; r++)                                                               \
      for (int q = 0; q < cols; q++) straight[r][q] = crossed[r][q] = _mm512_setzero_##suffix(); \
    for (int64_t p = 0; p < numbers; p += WIDTH) {                                               \
      const int64_t left_over = numbers - p;                                                     \
      const mask_type there = (mask_type)(left_over >= WIDTH ? ~0U : (1U << left_over) - 1);     \
      for (int q = 0; q < cols; q++)                                                             \
        right[q] = _mm512_maskz_loadu_##suffix(there, b + q * numbers + p);                      \
      for (int r = 0; r < rows; r++) {                                                           \
        const vector left = _mm512_maskz_loadu_##suffix(there, a + r * x->a_down + p);           \
        if (ahead) _mm_prefetch((const char *)(a + (r + ROWS) * x->a_down + p), _MM_HINT_T0);    \
        for (int q = 0; q < cols; q++) {                                                         \
          straight[r][q] = _mm512_fmadd_##suffix(left, right[q], straight[r][q]);                \
          crossed[r][q] = _mm512_fmadd_##suffix(left, crossed_##type(right[q]), crossed[r][q]);  \
        }                                                                                        \
      }                                                                                          \
    }                                                                                            \
    const small straight_signs = signs_##type(1, -x->sign_a * x->sign_b),                        \
                crossed_signs = signs_##type(x->sign_b, x->sign_a);                              \
    for (int r = 0; r < rows; r++)                                                               \
      for (int q = 0; q < cols; q++)                                                             \
        put_complex_##type(straight[r][q], crossed[r][q], straight_signs, crossed_signs,         \
                           c + r * x->c_down + 2 * q);                                           \
  }

COMPLEX_SUMS(float, f32, __m512, __m128, ps, __mmask16)
COMPLEX_SUMS(double, f64, __m512d, __m128d, pd, __mmask8)

/* Defines what real sums and complex ones do with their rows and columns, of numbers that have one
 * part or two. */
#define COLUMNS(name, number, parts)                                                               \
  INLINE void name##_rows(const int cols, const mmci_vectors *x, const number *a, const number *b, \
                          number *c) {                                                             \
    int64_t row = 0;                                                                               \
    for (; row + ROWS <= x->m; row += ROWS, a += ROWS * x->a_down, c += ROWS * x->c_down)          \
      some_##name(row + 2 * ROWS <= x->m, ROWS, cols, x, a, b, c);                                 \
    if (x->m - row == 3)                                                                           \
      some_##name(false, 3, cols, x, a, b, c);                                                     \
    else if (x->m - row == 2)                                                                      \
      some_##name(false, 2, cols, x, a, b, c);                                                     \
    else if (x->m - row == 1)                                                                      \
      some_##name(false, 1, cols, x, a, b, c);                                                     \
  }                                                                                                \
                                                                                                   \
  /* Copies the columns of B, each of which becomes a line. */                                     \
  INLINE const number *name##_pack(const int cols, const mmci_vectors *x, const number *b,         \
                                   number *restrict to) {                                          \
    const int64_t k = x->k;                                                                        \
    if (x->b_down == cols * (parts)) { /* a constant step makes it vectors */                      \
      for (int64_t p = 0; p < k; p++)                                                              \
        for (int q = 0; q < cols; q++)                                                             \
          for (int part = 0; part < (parts); part++)                                               \
            to[(q * k + p) * (parts) + part] = b[(p * cols + q) * (parts) + part];                 \
    } else {                                                                                       \
      for (int64_t p = 0; p < k; p++)                                                              \
        for (int q = 0; q < cols; q++)                                                             \
          for (int part = 0; part < (parts); part++)                                               \
            to[(q * k + p) * (parts) + part] = b[p * x->b_down + q * (parts) + part];              \
    }                                                                                              \
    return to;                                                                                     \
  }                                                                                                \
                                                                                                   \
  static void name##_columns(const mmci_vectors *x, int64_t count, const char *a, const char *b,   \
                             char *c) {                                                            \
    number room[MMCI_VECTORS_PACKED / sizeof(number)];                                             \
    for (; count > 0; count--, a += x->a_step, b += x->b_step, c += x->c_step) {                   \
      const number *left = (const number *)(const void *)a,                                        \
                   *right = (const number *)(const void *)b;                                       \
      number *to = (number *)(void *)c;                                                            \
      if (x->n == 1)                                                                               \
        name##_rows(1, x, left, right, to);                                                        \
      else if (x->n == 2)                                                                          \
        name##_rows(2, x, left, name##_pack(2, x, right, room), to);                               \
      else                                                                                         \
        name##_rows(3, x, left, name##_pack(3, x, right, room), to);                               \
    }                                                                                              \
  }

COLUMNS(sums_f32, float, 1)
COLUMNS(sums_f64, double, 1)
COLUMNS(complex_f32, float, 2)
COLUMNS(complex_f64, double, 2)

/* Which loops compute rows of few terms depends on the shape alone, since their bits do. */
#define REAL_SUMS(type)                                                                       \
  static void real_##type(const mmci_vectors *x, int64_t count, const char *a, const char *b, \
                          char *c) {                                                          \
    const bool follow = x->n == 1 && x->a_down == x->k && x->c_down == 1 && x->m >= FEW_ROWS; \
    switch (follow ? x->k : 0) {                                                              \
      case 2:                                                                                 \
        few_terms_##type(2, x, count, a, b, c);                                               \
        break;                                                                                \
      case 3:                                                                                 \
        few_terms_##type(3, x, count, a, b, c);                                               \
        break;                                                                                \
      case 4:                                                                                 \
        few_terms_##type(4, x, count, a, b, c);                                               \
        break;                                                                                \
      case MOST_FEW:                                                                          \
        few_terms_##type(MOST_FEW, x, count, a, b, c);                                        \
        break;                                                                                \
      default:                                                                                \
        sums_##type##_columns(x, count, a, b, c);                                             \
    }                                                                                         \
  }

REAL_SUMS(f32)
REAL_SUMS(f64)

#define ROWS_CASE(type, rows)                            \
  case rows:                                             \
    some_lines_##type(rows, x, line, of_a, right, of_c); \
    break;

/* Defines the lines of one type: up to MOST_LINES rows at a time, about as many each time. */
#define LINES(number, type, vector, suffix, mask_type)                                             \
  INLINE void some_lines_##type(const int rows, const mmci_vectors *x, mask_type line,             \
                                const number *a, const number *b, number *c) {                     \
    const int parts =                                                                              \
        rows <= MOST_LINES / 3 ? 2 : 1; /* sums of an element, which do not wait for each other */ \
    vector sums[2][MOST_LINES];                                                                    \
    for (int part = 0; part < parts; part++)                                                       \
      for (int r = 0; r < rows; r++) sums[part][r] = _mm512_setzero_##suffix();                    \
    int64_t p = 0;                                                                                 \
    for (; p + parts <= x->k; p += parts)                                                          \
      for (int part = 0; part < parts; part++, a += x->a_along, b += x->b_down) {                  \
        const vector right = _mm512_maskz_loadu_##suffix(line, b);                                 \
        for (int r = 0; r < rows; r++)                                                             \
          sums[part][r] =                                                                          \
              _mm512_fmadd_##suffix(_mm512_set1_##suffix(a[r * x->a_down]), right, sums[part][r]); \
      }                                                                                            \
    if (p < x->k) {                                                                                \
      const vector right = _mm512_maskz_loadu_##suffix(line, b);                                   \
      for (int r = 0; r < rows; r++)                                                               \
        sums[0][r] =                                                                               \
            _mm512_fmadd_##suffix(_mm512_set1_##suffix(a[r * x->a_down]), right, sums[0][r]);      \
    }                                                                                              \
    for (int r = 0; r < rows; r++) {                                                               \
      const vector sum = parts == 2 ? _mm512_add_##suffix(sums[0][r], sums[1][r]) : sums[0][r];    \
      _mm512_mask_storeu_##suffix(c + r * x->c_down, line, sum);                                   \
    }                                                                                              \
  }                                                                                                \
                                                                                                   \
  static void lines_##type(const mmci_vectors *x, int64_t count, const char *a, const char *b,     \
                           char *c) {                                                              \
    const mask_type line = (mask_type)((1U << x->n) - 1);                                          \
    for (; count > 0; count--, a += x->a_step, b += x->b_step, c += x->c_step) {                   \
      const number *left = (const number *)(const void *)a,                                        \
                   *right = (const number *)(const void *)b;                                       \
      number *to = (number *)(void *)c;                                                            \
      for (int64_t row = 0, blocks = (x->m + MOST_LINES - 1) / MOST_LINES; blocks > 0; blocks--) { \
        const int64_t rows = (x->m - row + blocks - 1) / blocks;                                   \
        const number *of_a = left + row * x->a_down;                                               \
        number *of_c = to + row * x->c_down;                                                       \
        switch (rows) {                                                                            \
          ROWS_CASE(type, 1)                                                                       \
          ROWS_CASE(type, 2)                                                                       \
          ROWS_CASE(type, 3)                                                                       \
          ROWS_CASE(type, 4)                                                                       \
          ROWS_CASE(type, 5)                                                                       \
          ROWS_CASE(type, 6)                                                                       \
          ROWS_CASE(type, 7)                                                                       \
          ROWS_CASE(type, 8)                                                                       \
          ROWS_CASE(type, 9)                                                                       \
          ROWS_CASE(type, 10)                                                                      \
          ROWS_CASE(type, 11)                                                                      \
          ROWS_CASE(type, 12)                                                                      \
        }                                                                                          \
        row += rows;                                                                               \
      }                                                                                            \
    }                                                                                              \
  }

LINES(float, f32, __m512, ps, __mmask16)
LINES(double, f64, __m512d, pd, __mmask8)

const mmci_vectors_fn mmci_vectors_sums_avx512[4] = {real_f32, real_f64, complex_f32_columns,
                                                     complex_f64_columns};
const mmci_vectors_fn mmci_vectors_lines_avx512[2] = {lines_f32, lines_f64};

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif

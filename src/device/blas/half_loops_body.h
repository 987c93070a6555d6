/* half_loops_body.h: defines LOOPS, for an instruction set that the file that includes this one has
 * chosen: VECTOR floats are a vector, WIDEN and ROUND turn as many f16 into it and back, MADD adds
 * a vector times a number to another one, and MADD_NUMBER does so with numbers. */

#define INLINE static inline __attribute__((always_inline))

typedef float vector __attribute__((vector_size(4 * VECTOR), aligned(4), may_alias));
typedef uint32_t words __attribute__((vector_size(4 * VECTOR), aligned(4), may_alias));
typedef uint16_t halves __attribute__((vector_size(2 * VECTOR), aligned(2), may_alias));

/* Copy fewer numbers than a vector has into one, and back. */
#ifndef GET_FLOATS
#define GET_FLOATS(from, count, to) \
  for (int64_t lane = 0; lane < VECTOR; lane++) (to)[lane] = lane < (count) ? (from)[lane] : 0
#define PUT_FLOATS(from, count, to) \
  for (int64_t lane = 0; lane < (count); lane++) (to)[lane] = (from)[lane]
#define GET_HALVES GET_FLOATS
#define PUT_HALVES PUT_FLOATS
#endif

INLINE void widen_bf16_vector(const uint16_t *from, float *to) {
  *(words *)(void *)to = __builtin_convertvector(*(const halves *)(const void *)from, words) << 16;
}

/* Half of a last place, less a bit where that is even, carries where it must. A NaN keeps its upper
 * half, and is made a quiet one. */
INLINE void round_bf16_vector(const float *from, uint16_t *to) {
  const words bits = *(const words *)(const void *)from,
              is_nan = (words)((bits & 0x7fffffffU) > 0x7f800000U),
              rounded = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16, nan = bits >> 16 | 0x40U;
  *(halves *)(void *)to = __builtin_convertvector((rounded & ~is_nan) | (nan & is_nan), halves);
}

/* Define loops over count elements, of which the last may fill no vector. */
#define WIDEN_ALL(name, vector_of)                                        \
  static void name(const uint16_t *from, int64_t count, float *to) {      \
    int64_t i = 0;                                                        \
    for (; i + VECTOR <= count; i += VECTOR) vector_of(from + i, to + i); \
    if (i == count) return;                                               \
    uint16_t some[VECTOR];                                                \
    float wide[VECTOR];                                                   \
    GET_HALVES(from + i, count - i, some);                                \
    vector_of(some, wide);                                                \
    PUT_FLOATS(wide, count - i, to + i);                                  \
  }
#define ROUND_ALL(name, vector_of)                                        \
  static void name(const float *from, int64_t count, uint16_t *to) {      \
    int64_t i = 0;                                                        \
    for (; i + VECTOR <= count; i += VECTOR) vector_of(from + i, to + i); \
    if (i == count) return;                                               \
    float some[VECTOR];                                                   \
    uint16_t rounded[VECTOR];                                             \
    GET_FLOATS(from + i, count - i, some);                                \
    vector_of(some, rounded);                                             \
    PUT_HALVES(rounded, count - i, to + i);                               \
  }

WIDEN_ALL(widen_f16, WIDEN)
WIDEN_ALL(widen_bf16, widen_bf16_vector)
ROUND_ALL(round_f16, ROUND)
ROUND_ALL(round_bf16, round_bf16_vector)

/* Multiplies so many rows by so many vectors of columns. */
INLINE void multiply_tile(const int rows, const int vectors, const mmci_half_tiles *x, int64_t row,
                          int64_t column) {
  vector sums[ROWS][2];
  float *c = x->c + row * x->line + column;
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++)
      sums[r][v] =
          x->accumulate ? *(const vector *)(void *)(c + r * x->line + v * VECTOR) : (vector){0};
  const float *a = x->a + row * x->a_down, *b = x->b + column;
  for (int64_t l = 0; l < x->k; l++, a += x->a_along, b += x->line)
    for (int v = 0; v < vectors; v++) {
      const vector right = *(const vector *)(const void *)(b + v * VECTOR);
      for (int r = 0; r < rows; r++) sums[r][v] = MADD(a[r * x->a_down], right, sums[r][v]);
    }
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++)
      *(vector *)(void *)(c + r * x->line + v * VECTOR) = sums[r][v];
}

INLINE void multiply_columns(const int vectors, const mmci_half_tiles *x, int64_t column) {
  int64_t row = 0;
  for (; row + ROWS <= x->m; row += ROWS) multiply_tile(ROWS, vectors, x, row, column);
  for (; row < x->m; row++) multiply_tile(1, vectors, x, row, column);
}

static void multiply(const mmci_half_tiles *x) {
  int64_t column = 0;
  for (; column + 2 * VECTOR <= x->line; column += 2 * VECTOR) multiply_columns(2, x, column);
  for (; column < x->line; column += VECTOR) multiply_columns(1, x, column);
}

/* Computes products with so many columns. */
INLINE void multiply_columns_of_few(const int64_t n, int64_t m, int64_t k, int64_t count,
                                    const float *a, int64_t a_step, const float *b, int64_t b_step,
                                    float *c) {
  for (int64_t p = 0; p < count; p++, a += a_step, b += b_step)
    for (int64_t i = 0; i < m; i++, c += n)
      for (int64_t j = 0; j < n; j++) {
        float sum = 0;
        for (int64_t l = 0; l < k; l++) sum = MADD_NUMBER(a[i * k + l], b[l * n + j], sum);
        c[j] = sum;
      }
}

static void multiply_few(int64_t m, int64_t k, int64_t n, int64_t count, const float *a,
                         int64_t a_step, const float *b, int64_t b_step, float *c) {
  if (n == 1)
    multiply_columns_of_few(1, m, k, count, a, a_step, b, b_step, c);
  else if (n == 2)
    multiply_columns_of_few(2, m, k, count, a, a_step, b, b_step, c);
  else if (n == 3)
    multiply_columns_of_few(3, m, k, count, a, a_step, b, b_step, c);
  else if (n == 4)
    multiply_columns_of_few(4, m, k, count, a, a_step, b, b_step, c);
  else
    multiply_columns_of_few(n, m, k, count, a, a_step, b, b_step, c);
}

const mmci_half_loops LOOPS = {widen_f16,  widen_bf16, round_f16,
                               round_bf16, multiply,   multiply_few};

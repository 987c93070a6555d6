/* half_loops_body.h: defines LOOPS, for an instruction set that the file that includes this one has
 * chosen: VECTOR floats are a vector, WIDEN and ROUND turn as many f16 into it and back. */

#define INLINE static inline __attribute__((always_inline))

typedef float vector __attribute__((vector_size(4 * VECTOR), aligned(4), may_alias));
typedef uint32_t words __attribute__((vector_size(4 * VECTOR), aligned(4), may_alias));
typedef uint16_t halves __attribute__((vector_size(2 * VECTOR), aligned(2), may_alias));

static void widen_f16(const uint16_t *from, int64_t count, float *to) {
  int64_t i = 0;
  for (; i + VECTOR <= count; i += VECTOR) WIDEN(from + i, to + i);
  for (; i < count; i++) to[i] = mmci_f16_to_f32(from[i]);
}

static void round_f16(const float *from, int64_t count, uint16_t *to) {
  int64_t i = 0;
  for (; i + VECTOR <= count; i += VECTOR) ROUND(from + i, to + i);
  for (; i < count; i++) to[i] = mmci_f16_round((double)from[i]);
}

static void widen_bf16(const uint16_t *from, int64_t count, float *to) {
  int64_t i = 0;
  for (; i + VECTOR <= count; i += VECTOR)
    *(words *)(void *)(to + i) = __builtin_convertvector(*(const halves *)(from + i), words) << 16;
  for (; i < count; i++) to[i] = mmci_bf16_to_f32(from[i]);
}

/* Half of a last place, less a bit where that is even, carries where it must. A NaN keeps its upper
 * half, and is made a quiet one. */
static void round_bf16(const float *from, int64_t count, uint16_t *to) {
  int64_t i = 0;
  for (; i + VECTOR <= count; i += VECTOR) {
    const words bits = *(const words *)(const void *)(from + i),
                is_nan = (words)((bits & 0x7fffffffU) > 0x7f800000U),
                rounded = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16, nan = bits >> 16 | 0x40U;
    *(halves *)(to + i) = __builtin_convertvector((rounded & ~is_nan) | (nan & is_nan), halves);
  }
  for (; i < count; i++) to[i] = mmci_bf16_round((double)from[i]);
}

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
      for (int r = 0; r < rows; r++) sums[r][v] += a[r * x->a_down] * right;
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

const mmci_half_loops LOOPS = {widen_f16, widen_bf16, round_f16, round_bf16, multiply};

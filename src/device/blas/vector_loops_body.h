/* vector_loops_body.h: the loops of vector_loops.h for numbers of one type. The file that includes
 * this one has defined NUMBER, their type, NAME(x), which names what is defined here, SIGNS(x, y)
 * and SWAP(x), the vectors of a sign for real and one for imaginary parts, and of pairs that have
 * changed places, SUM(x) of a vector, the same of halves, and what adds products to sums. A complex
 * number is two numbers here. */

enum { NAME(WIDTH) = sizeof(NAME(vector)) / sizeof(NUMBER), NAME(HALF) = NAME(WIDTH) / 2 };

/* Computes a tile of so many rows and vectors; constants make the loops over them straight code.
 * Where the tile has few sums, they are split in two, which do not wait for each other. */
#define LINES_TILE(name, vec, spread_madd, signs, swap)                                        \
  INLINE void NAME(name)(const bool is_complex, const int rows, const int vectors,             \
                         const mmci_vectors *x, const NUMBER *a, const NUMBER *b, NUMBER *c) { \
    enum { WIDTH = sizeof(vec) / sizeof(NUMBER) };                                             \
    const int split = rows * vectors <= 2 ? 2 : 1;                                             \
    vec one[2][2][4] = {{{{0}}}}, two[2][2][4] = {{{{0}}}};                                    \
    int64_t p = 0;                                                                             \
    for (; p + split <= x->k; p += split)                                                      \
      for (int s = 0; s < split; s++)                                                          \
        for (int v = 0; v < vectors; v++) {                                                    \
          const vec right = *(const vec *)(b + (p + s) * x->b_down + v * WIDTH);               \
          for (int r = 0; r < rows; r++) {                                                     \
            const NUMBER *left = a + r * x->a_down + (p + s) * x->a_along;                     \
            one[s][r][v] = spread_madd(left, right, one[s][r][v]);                             \
            if (is_complex) two[s][r][v] = spread_madd(left + 1, right, two[s][r][v]);         \
          }                                                                                    \
        }                                                                                      \
    if (split == 2 && p < x->k)                                                                \
      for (int v = 0; v < vectors; v++) {                                                      \
        const vec right = *(const vec *)(b + p * x->b_down + v * WIDTH);                       \
        for (int r = 0; r < rows; r++) {                                                       \
          const NUMBER *left = a + r * x->a_down + p * x->a_along;                             \
          one[0][r][v] = spread_madd(left, right, one[0][r][v]);                               \
          if (is_complex) two[0][r][v] = spread_madd(left + 1, right, two[0][r][v]);           \
        }                                                                                      \
      }                                                                                        \
    for (int r = 0; r < rows; r++)                                                             \
      for (int v = 0; v < vectors; v++) {                                                      \
        vec sum = one[0][r][v], other = two[0][r][v];                                          \
        if (split == 2) {                                                                      \
          sum += one[1][r][v];                                                                 \
          other += two[1][r][v];                                                               \
        }                                                                                      \
        if (is_complex) {                                                                      \
          sum = sum * signs(1, (NUMBER)x->sign_b) +                                            \
                swap(other) * signs((NUMBER)(-x->sign_a * x->sign_b), (NUMBER)x->sign_a);      \
        }                                                                                      \
        *(vec *)(c + r * x->c_down + v * WIDTH) = sum;                                         \
      }                                                                                        \
  }

LINES_TILE(tile, NAME(vector), MADD, SIGNS, SWAP)
LINES_TILE(half_tile, NAME(half), MADD_HALF, SIGNS_HALF, SWAP_HALF)

/* Computes lines that are shorter than half a vector. */
INLINE void NAME(short_lines)(const bool is_complex, const int rows, const mmci_vectors *x,
                              const NUMBER *a, const NUMBER *b, NUMBER *c) {
  for (int r = 0; r < rows; r++, a += x->a_down, c += x->c_down)
    for (int64_t col = 0; col < x->n; col += is_complex ? 2 : 1) {
      NUMBER real = 0, imaginary = 0;
      for (int64_t p = 0; p < x->k; p++) {
        const NUMBER *left = a + p * x->a_along, *right = b + p * x->b_down + col;
        if (is_complex) {
          const NUMBER i = left[1] * (NUMBER)x->sign_a, j = right[1] * (NUMBER)x->sign_b;
          real += left[0] * right[0] - i * j;
          imaginary += left[0] * j + i * right[0];
        } else {
          real += left[0] * right[0];
        }
      }
      c[col] = real;
      if (is_complex) c[col + 1] = imaginary;
    }
}

INLINE void NAME(some_lines)(const bool is_complex, const int rows, const mmci_vectors *x,
                             const NUMBER *a, const NUMBER *b, NUMBER *c) {
  enum { WIDTH = NAME(WIDTH), HALF = NAME(HALF) };
  const int64_t n = x->n;
  int64_t col = 0;
  if (n < HALF) {
    NAME(short_lines)(is_complex, rows, x, a, b, c);
    return;
  }
  if (n < WIDTH) {
    NAME(half_tile)(is_complex, rows, 1, x, a, b, c);
    if (n > HALF) NAME(half_tile)(is_complex, rows, 1, x, a, b + n - HALF, c + n - HALF);
    return;
  }
  if (rows == 1)
    for (; col + 4 * WIDTH <= n; col += 4 * WIDTH)
      NAME(tile)(is_complex, rows, 4, x, a, b + col, c + col);
  for (; col + 2 * WIDTH <= n; col += 2 * WIDTH)
    NAME(tile)(is_complex, rows, 2, x, a, b + col, c + col);
  if (col + WIDTH <= n) {
    NAME(tile)(is_complex, rows, 1, x, a, b + col, c + col);
    col += WIDTH;
  }
  if (col < n) NAME(tile)(is_complex, rows, 1, x, a, b + n - WIDTH, c + n - WIDTH);
}

INLINE void NAME(lines)(const bool is_complex, const mmci_vectors *x, int64_t count, const char *a,
                        const char *b, char *c) {
  for (; count > 0; count--, a += x->a_step, b += x->b_step, c += x->c_step) {
    const NUMBER *left = (const NUMBER *)(const void *)a, *right = (const NUMBER *)(const void *)b;
    NUMBER *to = (NUMBER *)(void *)c;
    int64_t row = 0;
    for (; row + 2 <= x->m; row += 2)
      NAME(some_lines)(is_complex, 2, x, left + row * x->a_down, right, to + row * x->c_down);
    if (row < x->m)
      NAME(some_lines)(is_complex, 1, x, left + row * x->a_down, right, to + row * x->c_down);
  }
}

static void NAME(real_lines)(const mmci_vectors *x, int64_t count, const char *a, const char *b,
                             char *c) {
  const int64_t size = (int64_t)sizeof(NUMBER);
  if (x->m == 1 && x->k == 1 && x->n == 1 && x->c_step == size && x->a_step == size &&
      x->b_step == size) {
    const NUMBER *left = (const NUMBER *)(const void *)a, *right = (const NUMBER *)(const void *)b;
    NUMBER *restrict to = (NUMBER *)(void *)c;
    for (int64_t i = 0; i < count; i++) to[i] = left[i] * right[i];
    return;
  }
  NAME(lines)(false, x, count, a, b, c);
}

static void NAME(complex_lines)(const mmci_vectors *x, int64_t count, const char *a, const char *b,
                                char *c) {
  NAME(lines)(true, x, count, a, b, c);
}

/* Computes so many elements of a column, whose rows of A begin at a. */
INLINE void NAME(some_sums)(const bool is_complex, const int rows, const mmci_vectors *x,
                            const NUMBER *a, const NUMBER *b, NUMBER *c) {
  enum { WIDTH = NAME(WIDTH), HALF = NAME(HALF) };
  const int64_t numbers = is_complex ? 2 * x->k : x->k;
  NUMBER real[4] = {0}, imaginary[4] = {0};
  int64_t p = 0;
  if (numbers >= 4) { /* fewer are added up one by one */
    NAME(vector) one[4] = {{0}}, two[4] = {{0}};
    for (; p + WIDTH <= numbers; p += WIDTH) {
      const NAME(vector) right = *(const NAME(vector) *)(b + p);
      for (int r = 0; r < rows; r++) {
        const NAME(vector) left = *(const NAME(vector) *)(a + r * x->a_down + p);
        one[r] = MADD_VECTORS(left, right, one[r]);
        if (is_complex) two[r] = MADD_VECTORS(left, SWAP(right), two[r]);
      }
    }
    NAME(half) first[4], second[4];
    for (int r = 0; r < rows; r++) {
      first[r] = FOLD(one[r]);
      if (is_complex) second[r] = FOLD(two[r]);
    }
    if (p + HALF <= numbers) {
      const NAME(half) right = *(const NAME(half) *)(b + p);
      for (int r = 0; r < rows; r++) {
        const NAME(half) left = *(const NAME(half) *)(a + r * x->a_down + p);
        first[r] = MADD_HALVES(left, right, first[r]);
        if (is_complex) second[r] = MADD_HALVES(left, SWAP_HALF(right), second[r]);
      }
      p += HALF;
    }
    for (int r = 0; r < rows; r++) {
      if (is_complex) {
        const NAME(half) of_real = first[r] * SIGNS_HALF(1, (NUMBER)(-x->sign_a * x->sign_b));
        const NAME(half) of_imaginary =
            second[r] * SIGNS_HALF((NUMBER)x->sign_b, (NUMBER)x->sign_a);
        const NAME(half) both = PAIRS(of_real, of_imaginary);
        real[r] = FIRST(both);
        imaginary[r] = SECOND(both);
      } else {
        real[r] = SUM(first[r]);
      }
    }
  }
  for (; p < numbers; p += is_complex ? 2 : 1)
    for (int r = 0; r < rows; r++) {
      const NUMBER *left = a + r * x->a_down + p, *right = b + p;
      if (is_complex) {
        const NUMBER i = left[1] * (NUMBER)x->sign_a, j = right[1] * (NUMBER)x->sign_b;
        real[r] += left[0] * right[0] - i * j;
        imaginary[r] += left[0] * j + i * right[0];
      } else {
        real[r] += left[0] * right[0];
      }
    }
  for (int r = 0; r < rows; r++) {
    c[r * x->c_down] = real[r];
    if (is_complex) c[r * x->c_down + 1] = imaginary[r];
  }
}

/* Copies the columns of B, each of which becomes a line. */
INLINE void NAME(pack)(const bool is_complex, const mmci_vectors *x, const NUMBER *b, NUMBER *to) {
  const int64_t parts = is_complex ? 2 : 1;
  for (int64_t col = 0; col < x->n; col++)
    for (int64_t p = 0; p < x->k; p++, to += parts) {
      to[0] = b[p * x->b_down + col * parts];
      if (is_complex) to[1] = b[p * x->b_down + col * parts + 1];
    }
}

INLINE void NAME(sums)(const bool is_complex, const mmci_vectors *x, int64_t count, const char *a,
                       const char *b, char *c) {
  NUMBER room[MMCI_VECTORS_PACKED / sizeof(NUMBER)];
  const int64_t parts = is_complex ? 2 : 1;
  for (; count > 0; count--, a += x->a_step, b += x->b_step, c += x->c_step) {
    const NUMBER *left = (const NUMBER *)(const void *)a, *right = (const NUMBER *)(const void *)b;
    NUMBER *to = (NUMBER *)(void *)c;
    if (x->n > 1) {
      NAME(pack)(is_complex, x, right, room);
      right = room;
    }
    int64_t row = 0;
    for (; row + 4 <= x->m; row += 4) {
      const NUMBER *of_a = left + row * x->a_down;
      NUMBER *of_c = to + row * x->c_down;
      for (int64_t col = 0; col < x->n; col++, of_c += parts)
        NAME(some_sums)(is_complex, 4, x, of_a, right + col * x->k * parts, of_c);
    }
    for (; row < x->m; row++) {
      const NUMBER *of_a = left + row * x->a_down;
      NUMBER *of_c = to + row * x->c_down;
      for (int64_t col = 0; col < x->n; col++, of_c += parts)
        NAME(some_sums)(is_complex, 1, x, of_a, right + col * x->k * parts, of_c);
    }
  }
}

static void NAME(real_sums)(const mmci_vectors *x, int64_t count, const char *a, const char *b,
                            char *c) {
  NAME(sums)(false, x, count, a, b, c);
}

static void NAME(complex_sums)(const mmci_vectors *x, int64_t count, const char *a, const char *b,
                               char *c) {
  NAME(sums)(true, x, count, a, b, c);
}

#undef LINES_TILE

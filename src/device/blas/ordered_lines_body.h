/* ordered_lines_body.h: the loops of vector_loops.h in order for numbers of one type. The file that
 * includes this one has defined NUMBER, their type, NAME(x), which names what is defined here,
 * VECTOR, of WIDTH numbers, MASK, which says how many of them there are, and what is done with
 * these, and ROWS that are computed at once, so that their sums need not wait for themselves. All
 * but ROWS are undefined at the end. A complex number is two numbers here. */

/* Computes a tile of so many rows and vectors, of which the last one has the numbers of a mask.
 * Each lane has an element, or a part of one, from the first term to the last: of a complex product
 * the real part takes Re l Re r, then -Im l Im r, the imaginary one Re l Im r, then Im l Re r,
 * where l is the left operand of the chain, which is B where C is turned. */
INLINE void NAME(tile)(const bool is_complex, const bool turned, const int rows, const int vectors,
                       const mmci_vectors *x, MASK last, const NUMBER *a, const NUMBER *b,
                       NUMBER *c) {
  const NUMBER both = (NUMBER)(-x->sign_a * x->sign_b);
  const VECTOR first = SIGNS(1, (NUMBER)(turned ? x->sign_a : x->sign_b)),
               second = SIGNS(both, (NUMBER)(turned ? x->sign_b : x->sign_a));
  VECTOR sums[ROWS][4];
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++) sums[r][v] = (VECTOR){0};
  for (int64_t p = 0; p < x->k; p++, a += x->a_along, b += x->b_down)
    for (int v = 0; v < vectors; v++) {
      const VECTOR right = v == vectors - 1 ? LOAD_FIRST(b + v * WIDTH, last) : LOAD(b + v * WIDTH);
      const VECTOR one = turned ? EVEN(right) : TIMES(right, first),
                   two = turned ? ODD(right) : TIMES(SWAP(right), second);
      for (int r = 0; r < rows; r++) {
        const NUMBER *left = a + r * x->a_down;
        if (!is_complex) {
          sums[r][v] = FMA(SPREAD(left), right, sums[r][v]);
        } else if (turned) {
          const VECTOR pair = PAIR(left);
          sums[r][v] = FMA(one, TIMES(pair, first), sums[r][v]);
          sums[r][v] = FMA(two, TIMES(SWAP(pair), second), sums[r][v]);
        } else {
          sums[r][v] = FMA(SPREAD(left), one, sums[r][v]);
          sums[r][v] = FMA(SPREAD(left + 1), two, sums[r][v]);
        }
      }
    }
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++)
      if (v == vectors - 1)
        STORE_FIRST(c + r * x->c_down + v * WIDTH, last, SETTLE(sums[r][v]));
      else
        STORE(c + r * x->c_down + v * WIDTH, SETTLE(sums[r][v]));
}

/* Computes so many elements of a column of numbers. */
INLINE void NAME(column)(const int rows, const mmci_vectors *x, const NUMBER *a, const NUMBER *b,
                         NUMBER *c) {
  NUMBER sums[ROWS] = {0};
  for (int64_t p = 0; p < x->k; p++, a += x->a_along, b += x->b_down)
    for (int r = 0; r < rows; r++) sums[r] = FMA_NUMBER(a[r * x->a_down], *b, sums[r]);
  for (int r = 0; r < rows; r++) c[r * x->c_down] = sums[r] == sums[r] ? sums[r] + 0 : (NUMBER)NAN;
}

INLINE void NAME(some_rows)(const bool is_complex, const bool turned, const int rows,
                            const mmci_vectors *x, int64_t row, const NUMBER *a, const NUMBER *b,
                            NUMBER *c) {
  a += row * x->a_down;
  c += row * x->c_down;
  if (!is_complex && x->n == 1) {
    NAME(column)(rows, x, a, b, c);
    return;
  }
  int64_t col = 0;
  if (rows == 1) /* has few sums otherwise */
    for (; col + 4 * WIDTH <= x->n; col += 4 * WIDTH)
      NAME(tile)(is_complex, turned, rows, 4, x, FIRST(WIDTH), a, b + col, c + col);
  for (; col + WIDTH < x->n; col += 2 * WIDTH) {
    const MASK last = FIRST(x->n - col < 2 * WIDTH ? x->n - col - WIDTH : WIDTH);
    NAME(tile)(is_complex, turned, rows, 2, x, last, a, b + col, c + col);
  }
  if (col < x->n)
    NAME(tile)(is_complex, turned, rows, 1, x, FIRST(x->n - col), a, b + col, c + col);
}

INLINE void NAME(products)(const bool is_complex, const bool turned, const mmci_vectors *x,
                           int64_t count, const char *a, const char *b, char *c) {
  for (; count > 0; count--, a += x->a_step, b += x->b_step, c += x->c_step) {
    const NUMBER *left = (const NUMBER *)(const void *)a, *right = (const NUMBER *)(const void *)b;
    NUMBER *to = (NUMBER *)(void *)c;
    int64_t row = 0;
    for (; row + ROWS <= x->m; row += ROWS)
      NAME(some_rows)(is_complex, turned, ROWS, x, row, left, right, to);
    for (; row + 3 <= x->m; row += 3) /* of the rows that are left */
      NAME(some_rows)(is_complex, turned, 3, x, row, left, right, to);
    for (; row < x->m; row++) NAME(some_rows)(is_complex, turned, 1, x, row, left, right, to);
  }
}

static void NAME(real)(const mmci_vectors *x, int64_t count, const char *a, const char *b,
                       char *c) {
  NAME(products)(false, false, x, count, a, b, c);
}

static void NAME(complex)(const mmci_vectors *x, int64_t count, const char *a, const char *b,
                          char *c) {
  if (x->turned)
    NAME(products)(true, true, x, count, a, b, c);
  else
    NAME(products)(true, false, x, count, a, b, c);
}

#undef NUMBER
#undef NAME
#undef FMA_NUMBER
#undef VECTOR
#undef MASK
#undef WIDTH
#undef FIRST
#undef LOAD
#undef LOAD_FIRST
#undef STORE
#undef STORE_FIRST
#undef SPREAD
#undef PAIR
#undef FMA
#undef TIMES
#undef SIGNS
#undef SWAP
#undef EVEN
#undef ODD
#undef SETTLE

/* ordered_lines_body.h: the loops of vector_loops.h in order for numbers of one type. The file that
 * includes this one has defined NUMBER, their type, NAME(x), which names what is defined here,
 * VECTOR, of WIDTH numbers, MASK, which says how many of them there are, and what is done with
 * these, and ROWS that are computed at once, so that their sums need not wait for themselves. All
 * but ROWS are undefined at the end. A complex number is two numbers here. */

/* Adds a term to the sums of so many rows and a vector: of a column of A and a vector of B.
 * Each lane has an element, or a part of one, from the first term to the last: of a complex product
 * the real part takes Re l Re r, then -Im l Im r, the imaginary one Re l Im r, then Im l Re r,
 * where l is the left operand of the chain, which is B where C is turned. */
INLINE void NAME(add_term)(const bool is_complex, const bool turned, const int rows,
                           const mmci_vectors *x, const NUMBER *a, const VECTOR right,
                           VECTOR sums[ROWS]) {
  const NUMBER both = (NUMBER)(-x->sign_a * x->sign_b);
  const VECTOR first = SIGNS(1, (NUMBER)(turned ? x->sign_a : x->sign_b)),
               second = SIGNS(both, (NUMBER)(turned ? x->sign_b : x->sign_a));
  const VECTOR one = turned ? EVEN(right) : TIMES(right, first),
               two = turned ? ODD(right) : TIMES(SWAP(right), second);
  for (int r = 0; r < rows; r++) {
    const NUMBER *left = a + r * x->a_down;
    if (!is_complex) {
      sums[r] = FMA(SPREAD(left), right, sums[r]);
    } else if (turned) {
      const VECTOR pair = PAIR(left);
      sums[r] = FMA(one, TIMES(pair, first), sums[r]);
      sums[r] = FMA(two, TIMES(SWAP(pair), second), sums[r]);
    } else {
      sums[r] = FMA(SPREAD(left), one, sums[r]);
      sums[r] = FMA(SPREAD(left + 1), two, sums[r]);
    }
  }
}

/* Copy so many numbers of each of some rows of C, which lie apart, to lines of their own and back.
 */
static SELDOM void NAME(gather)(const mmci_vectors *x, int parts, int rows, int count,
                                const NUMBER *c, NUMBER lines[ROWS][4 * WIDTH]) {
  for (int r = 0; r < rows; r++, c += x->c_down)
    for (int i = 0; i < count; i++) lines[r][i] = c[i / parts * x->c_along + i % parts];
}
static SELDOM void NAME(scatter)(const mmci_vectors *x, int parts, int rows, int count,
                                 NUMBER lines[ROWS][4 * WIDTH], NUMBER *c) {
  for (int r = 0; r < rows; r++, c += x->c_down)
    for (int i = 0; i < count; i++) c[i / parts * x->c_along + i % parts] = lines[r][i];
}

/* Adds all terms to the sums of a tile where B has its columns along memory. A cache line's bytes
 * of each are read together, as columns may lie so that they displace each other, and turned into
 * vectors of a term. Lanes behind the last column have that one as well. */
INLINE void NAME(add_across)(const bool is_complex, const bool turned, const int rows,
                             const int vectors, const mmci_vectors *x, int count, const NUMBER *a,
                             const NUMBER *b, VECTOR sums[4][ROWS]) {
  enum { LINE = 64 / sizeof(NUMBER) };
  const int parts = is_complex ? 2 : 1, lanes = WIDTH / parts, last = count / parts - 1;
  const int64_t all = x->k * parts, step = x->a_along;
  const NUMBER *columns[4 * WIDTH];
  VECTOR lines[WIDTH], terms[WIDTH];
  for (int l = 0; l < vectors * lanes; l++) columns[l] = b + (l < last ? l : last) * x->b_along;
  int64_t p = 0;
  for (; p + LINE <= all; p += LINE, a += LINE / parts * step)
#pragma GCC unroll 1
    for (int v = 0; v < vectors; v++)
#pragma GCC unroll 16
      for (int i = 0; i < LINE; i += WIDTH) {
#pragma GCC unroll 16
        for (int l = 0; l < lanes; l++) lines[l] = LOAD(columns[v * lanes + l] + p + i);
        TURN(parts, lines, terms);
#pragma GCC unroll 16
        for (int t = 0; t < lanes; t++) {
          const NUMBER *left = a + (i / parts + t) * step;
          NAME(add_term)(is_complex, turned, rows, x, left, terms[t], sums[v]);
        }
      }
  for (; p < all; p += WIDTH, a += lanes * step)
#pragma GCC unroll 1
    for (int v = 0; v < vectors; v++) {
      const int here = (int)(all - p < WIDTH ? all - p : WIDTH);
#pragma GCC unroll 16
      for (int l = 0; l < lanes; l++)
        lines[l] = LOAD_FIRST(columns[v * lanes + l] + p, FIRST(here));
      TURN(parts, lines, terms);
      for (int t = 0; t * parts < here; t++)
        NAME(add_term)(is_complex, turned, rows, x, a + t * step, terms[t], sums[v]);
    }
}

/* Computes a tile of so many rows and vectors, which has `count` numbers a row. */
INLINE void NAME(tile)(const bool is_complex, const bool turned, const bool across,
                       const bool continues, const int rows, const int vectors,
                       const mmci_vectors *x, int count, const NUMBER *a, const NUMBER *b,
                       NUMBER *c, int64_t c_down) {
  const int64_t k = x->k;
  const MASK last = FIRST(count - (vectors - 1) * WIDTH);
  VECTOR sums[4][ROWS];
#pragma GCC unroll 16
  for (int v = 0; v < vectors; v++)
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
      const NUMBER *from = c + r * c_down + v * WIDTH;
      sums[v][r] = !continues         ? (VECTOR){0}
                   : v == vectors - 1 ? LOAD_FIRST(from, last)
                                      : LOAD(from);
    }
  if (across)
    NAME(add_across)(is_complex, turned, rows, vectors, x, count, a, b, sums);
  else
    for (int64_t p = 0; p < k; p++, a += x->a_along, b += x->b_down)
      for (int v = 0; v < vectors; v++) {
        const NUMBER *from = b + v * WIDTH;
        const VECTOR right = v == vectors - 1 ? LOAD_FIRST(from, last) : LOAD(from);
        NAME(add_term)(is_complex, turned, rows, x, a, right, sums[v]);
      }
#pragma GCC unroll 16
  for (int v = 0; v < vectors; v++)
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
      if (v == vectors - 1)
        STORE_FIRST(c + r * c_down + v * WIDTH, last, SETTLE(sums[v][r]));
      else
        STORE(c + r * c_down + v * WIDTH, SETTLE(sums[v][r]));
}

/* Computes a line of tiles. What has few rows has several vectors instead, as a sum waits for each
 * of its terms. */
INLINE void NAME(some_rows)(const bool is_complex, const bool turned, const bool across,
                            const bool is_plain, const int rows, const mmci_vectors *x, int64_t row,
                            const NUMBER *a, const NUMBER *b, NUMBER *c) {
  const int parts = is_complex ? 2 : 1, most = rows == 1 ? 4 : rows <= 3 || !across ? 2 : 1;
  const bool is_apart = !is_plain && x->c_along != parts, continues = !is_plain && x->continues;
  NUMBER lines[ROWS][4 * WIDTH];
  a += row * x->a_down;
  c += row * x->c_down;
  for (int64_t col = 0; col < x->n;) {
    const int64_t left = x->n - col;
    const NUMBER *right = across ? b + col / parts * x->b_along : b + col;
    const int vectors = most == 4 && left > 3 * WIDTH ? 4 : most >= 2 && left > WIDTH ? 2 : 1;
    const int count = (int)(left < vectors * WIDTH ? left : vectors * WIDTH);
    NUMBER *own = is_apart ? c + col / parts * x->c_along : c + col,
           *to = is_apart ? lines[0] : own;
    const int64_t down = is_apart ? 4 * WIDTH : x->c_down;
    if (is_apart && continues) NAME(gather)(x, parts, rows, count, own, lines);
    if (across) /* keeps its sums in memory, whose number need not be known */
      NAME(tile)(is_complex, turned, true, continues, rows, vectors, x, count, a, right, to, down);
    else if (most == 4 && vectors == 4)
      NAME(tile)(is_complex, turned, false, continues, rows, 4, x, count, a, right, to, down);
    else if (most >= 2 && vectors == 2)
      NAME(tile)(is_complex, turned, false, continues, rows, 2, x, count, a, right, to, down);
    else
      NAME(tile)(is_complex, turned, false, continues, rows, 1, x, count, a, right, to, down);
    if (is_apart) NAME(scatter)(x, parts, rows, count, lines, own);
    col += count;
  }
}

/* Plain products have new sums, which lie side by side in C. */
INLINE void NAME(products)(const bool is_complex, const bool turned, const bool across,
                           const bool is_plain, const mmci_vectors *x, int64_t count, const char *a,
                           const char *b, char *c) {
  for (; count > 0; count--, a += x->a_step, b += x->b_step, c += x->c_step) {
    const NUMBER *left = (const NUMBER *)(const void *)a, *right = (const NUMBER *)(const void *)b;
    NUMBER *to = (NUMBER *)(void *)c;
    int64_t row = 0;
    for (; row + ROWS <= x->m; row += ROWS)
      NAME(some_rows)(is_complex, turned, across, is_plain, ROWS, x, row, left, right, to);
    for (; row + 3 <= x->m; row += 3) /* of the rows that are left */
      NAME(some_rows)(is_complex, turned, across, is_plain, 3, x, row, left, right, to);
    if (row + 2 == x->m)
      NAME(some_rows)(is_complex, turned, across, is_plain, 2, x, row, left, right, to);
    if (row + 1 == x->m)
      NAME(some_rows)(is_complex, turned, across, is_plain, 1, x, row, left, right, to);
  }
}

INLINE void NAME(any_lines)(const bool is_complex, const bool turned, const mmci_vectors *x,
                            int64_t count, const char *a, const char *b, char *c) {
  if (x->c_along == (is_complex ? 2 : 1) && !x->continues)
    NAME(products)(is_complex, turned, false, true, x, count, a, b, c);
  else
    NAME(products)(is_complex, turned, false, false, x, count, a, b, c);
}

static void NAME(lines)(const mmci_vectors *x, int64_t count, const char *a, const char *b,
                        char *c) {
  NAME(any_lines)(false, false, x, count, a, b, c);
}

static void NAME(across)(const mmci_vectors *x, int64_t count, const char *a, const char *b,
                         char *c) {
  NAME(products)(false, false, true, false, x, count, a, b, c);
}

static void NAME(complex_lines)(const mmci_vectors *x, int64_t count, const char *a, const char *b,
                                char *c) {
  if (x->turned)
    NAME(any_lines)(true, true, x, count, a, b, c);
  else
    NAME(any_lines)(true, false, x, count, a, b, c);
}

static void NAME(complex_across)(const mmci_vectors *x, int64_t count, const char *a, const char *b,
                                 char *c) {
  if (x->turned)
    NAME(products)(true, true, true, false, x, count, a, b, c);
  else
    NAME(products)(true, false, true, false, x, count, a, b, c);
}

#undef NUMBER
#undef NAME
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
#undef TURN

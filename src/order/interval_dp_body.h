/* interval_dp_body.h: the arithmetic of the interval dynamic program, for one type of cell and one
 * instruction set. Each interval_dp_<set>_<type>.c defines what is listed below and includes this
 * file once. The price is the number of multiplications.
 *
 *     cell         a number of the table
 *     vec          LANES cells: load, store, splat, add, subtract, multiply, least, greatest,
 *                  multiply_add(x, y, z) = x y + z; less(x, y) has bit l set when lane l of x is
 *                  less than that of y; lanes_least and lanes_greatest give one cell
 *     cell_from    the cell that a count is
 *     INFINITE     a cell that no candidate with finite parts exceeds, as interval_dp.c defines it
 *     GROUP        rows of a tile taken together
 *     PANEL        vecs of each of these rows taken together, when all candidates are computed
 *     ROW_PANEL    vecs of one row taken together, when few candidates are
 *     KERNEL, KERNEL_NAME
 *
 * Pruning. A product of tiles has 64^3 candidates, and nearly all of them lose by far. Let m be at
 * most the least dim of the blocks I..J, q the least dim p[b] of block J, and base[b] any number
 * for each column. With
 *
 *     rest[v] = min over b of c[v][b] - base[b],     gain[v] = (p[v] - m) q,
 *     top[a]  = max over b of c[a][b] - base[b] - m p[a] p[b],
 *
 * a candidate c[a][v] + c[v][b] + p[a] p[v] p[b] that is less than c[a][b], for any b, implies
 *
 *     c[a][v] + rest[v] + p[a] gain[v] < top[a],
 *
 * because p[a] p[v] p[b] = p[a] (p[v] - m) p[b] + m p[a] p[b] and the first term is at least
 * p[a] gain[v]. rest and gain belong to the tile (K, J) and serve for every I. So a product costs
 * one test of each pair (a, v) instead of one of each triple, and the candidates of the pairs that
 * pass.
 *
 * Few pass when c[a][b] is nearly a number of a, plus one of b, plus m p[a] p[b], as it is where a
 * sub-chain has a vertex of dim m between its ends. Hence m is the least dim of I..J, and base is
 * taken from a row of the tile: that of a light vertex, but not of dim m, whose row would be
 * without the term in p[a] p[b]. Both are renewed every few tiles on the way up a column. And the
 * tile must hold good costs before the first product: start() sees to that. */

typedef struct bound {
  cell rest[MMCI_DP_TILE], gain[MMCI_DP_TILE];
} bound;

/* What belongs to one column J of tiles. */
typedef struct column {
  _Alignas(MMCI_ALIGNMENT) cell base[MMCI_DP_TILE];
  cell top[MMCI_DP_TILE];  /* top[] of the tile (I, J) at hand */
  cell span[MMCI_DP_TILE]; /* the sum of dim times next dim from vertex span_from to b */
  /* These describe the split of (a, b) at the lightest vertex v of block J before b, the nearest of
   * several: */
  cell near_after[MMCI_DP_TILE]; /* c[v][b] */
  cell near_area[MMCI_DP_TILE];  /* p[v] p[b] */
  int32_t near[MMCI_DP_TILE];    /* v, counted from the block's first */
  cell least;                    /* m */
  cell narrowest;                /* q */
  int32_t span_from;
  int32_t renewed; /* the row of tiles at which base and m were chosen last */
  int32_t hub;     /* the lightest vertex of the finished tiles between I and J */
  _Alignas(MMCI_ALIGNMENT) bound bounds[]; /* rest and gain of the tiles (K, J) */
} column;

/* The same base and m serve for so many rows of tiles. */
enum { RENEWAL = 8 };

/* When at least so many pairs (a, v) of GROUP rows pass the test, all candidates of these rows are
 * computed. */
enum { DENSE = GROUP * MMCI_DP_TILE * 5 / 8 };

static size_t chain_bytes(int32_t tiles) {
  return 2 * (size_t)tiles * MMCI_DP_TILE * sizeof(cell);
}

static size_t column_bytes(int32_t tiles) {
  return sizeof(column) + (size_t)tiles * sizeof(bound);
}

static inline cell *tile_at(const mmci_dp_run *run, int32_t I, int32_t J) {
  return mmci_dp_tile(run->table, I, J, sizeof(cell));
}

static inline const cell *dims_of(const mmci_dp_run *run, int32_t I) {
  return (const cell *)run->chain + (size_t)I * MMCI_DP_TILE;
}

/* Returns, for each vertex a of block I, the sum of dim times next dim from a to the end of the
 * block. */
static inline const cell *spans_of(const mmci_dp_run *run, int32_t I) {
  return dims_of(run, run->table->tiles + I);
}

static inline column *column_of(const mmci_dp_work *work, int32_t J) {
  size_t bytes = column_bytes(work->run->table->tiles);
  return (column *)(void *)(work->columns + (size_t)(J - work->first_column) * bytes);
}

static inline int32_t vertex_of(const mmci_dp_run *run, int32_t t) {
  return t < run->table->n ? t : run->table->n;
}

/* Returns the sum plus the side (t, t+1) of the polygon; what exceeds the ceiling is cut to it. */
static mmci_u128 grow(const mmci_dp_run *run, mmci_u128 sum, int32_t t) {
  if (t >= run->table->n) return sum;
  sum =
      mmci_u128_add(sum, mmci_multiplications(run->problem->dims[t], run->problem->dims[t + 1], 1));
  return sum < run->ceiling ? sum : run->ceiling;
}

static void prepare(const mmci_dp_run *run) {
  int32_t tiles = run->table->tiles;
  cell *dims = run->chain, *spans = dims + (size_t)tiles * MMCI_DP_TILE;
  for (int32_t I = 0; I < tiles; I++) {
    mmci_u128 sum = 0;
    for (int32_t t = (I + 1) * MMCI_DP_TILE - 1; t >= I * MMCI_DP_TILE; t--) {
      dims[t] = (cell)run->problem->dims[vertex_of(run, t)];
      sum = grow(run, sum, t);
      spans[t] = cell_from(sum);
    }
  }
}

/* ---- candidates ----------------------------------------------------------------------------- */

/* Computes row[b] = min(row[b], left[v] + right[v][b] + pa pv[v] pb[b]) for the v whose bit is
 * set. */
static void improve_row(cell *row, const cell *left, cell pa, const cell *right, const cell *pv,
                        const cell *pb, uint64_t splits) {
  for (int b0 = 0; b0 < MMCI_DP_TILE; b0 += ROW_PANEL * LANES) {
    vec x[ROW_PANEL];
    for (int c = 0; c < ROW_PANEL; c++) x[c] = load(row + b0 + c * LANES);
    for (uint64_t more = splits; more != 0; more &= more - 1) {
      int v = __builtin_ctzll(more);
      vec before = splat(left[v]), area = multiply(splat(pa), splat(pv[v]));
      const cell *after = right + v * MMCI_DP_TILE + b0;
      for (int c = 0; c < ROW_PANEL; c++)
        x[c] = least(x[c], add(multiply_add(area, load(pb + b0 + c * LANES), before),
                               load(after + c * LANES)));
    }
    for (int c = 0; c < ROW_PANEL; c++) store(row + b0 + c * LANES, x[c]);
  }
}

/* Improves a row by one v of block J itself, for b > v: the rest of the row that v's entry
 * begins. */
static void improve_right(cell *row, int v, const cell *corner, cell pa, const cell *pb) {
  vec before = splat(row[v]), area = multiply(splat(pa), splat(pb[v]));
  const cell *after = corner + v * MMCI_DP_TILE;
  for (int b = (v + 1) / LANES * LANES; b < MMCI_DP_TILE; b += LANES)
    store(row + b,
          least(load(row + b), add(multiply_add(area, load(pb + b), before), load(after + b))));
}

/* Improves GROUP rows by every v. */
static void improve_group(cell *rows, const cell *left, const cell *pa, const cell *right,
                          const cell *pv, const cell *pb) {
  for (int b0 = 0; b0 < MMCI_DP_TILE; b0 += PANEL * LANES) {
    vec x[GROUP][PANEL];
    for (int r = 0; r < GROUP; r++)
      for (int c = 0; c < PANEL; c++) x[r][c] = load(rows + r * MMCI_DP_TILE + b0 + c * LANES);
    for (int v = 0; v < MMCI_DP_TILE; v++) {
      vec after[PANEL], area[PANEL];
      for (int c = 0; c < PANEL; c++) {
        after[c] = load(right + v * MMCI_DP_TILE + b0 + c * LANES);
        area[c] = multiply(splat(pv[v]), load(pb + b0 + c * LANES));
      }
      for (int r = 0; r < GROUP; r++) {
        vec before = splat(left[r * MMCI_DP_TILE + v]), height = splat(pa[r]);
        for (int c = 0; c < PANEL; c++)
          x[r][c] = least(x[r][c], add(multiply_add(area[c], height, before), after[c]));
      }
    }
    for (int r = 0; r < GROUP; r++)
      for (int c = 0; c < PANEL; c++) store(rows + r * MMCI_DP_TILE + b0 + c * LANES, x[r][c]);
  }
}

/* ---- pruning -------------------------------------------------------------------------------- */

/* Returns top of a row, whose entries are finite. */
static cell top_of_row(const column *col, const cell *row, cell pa, const cell *pb) {
  vec m_pa = splat(col->least * pa), top = splat(0);
  for (int b = 0; b < MMCI_DP_TILE; b += LANES) {
    vec level = subtract(load(row + b), load(col->base + b));
    vec x = subtract(level, multiply(m_pa, load(pb + b)));
    top = b == 0 ? x : greatest(top, x);
  }
  return lanes_greatest(top);
}

/* Returns rest of the vertex whose row of the tile (K, J) this is. */
static cell rest_of_row(const column *col, const cell *row) {
  vec rest = splat(INFINITE);
  for (int b = 0; b < MMCI_DP_TILE; b += LANES)
    rest = least(rest, subtract(load(row + b), load(col->base + b)));
  return lanes_least(rest);
}

static void set_gains(const mmci_dp_run *run, column *col, int32_t K) {
  const cell *pv = dims_of(run, K);
  vec m = splat(col->least), q = splat(col->narrowest);
  for (int v = 0; v < MMCI_DP_TILE; v += LANES)
    store(col->bounds[K].gain + v, multiply(subtract(load(pv + v), m), q));
}

/* Returns the bits of the v for which the test passes: the candidates of (a, v) may be less. */
static inline uint64_t survivors(const cell *left, cell pa, const bound *limit, cell top) {
  uint64_t bits = 0;
  for (int v = 0; v < MMCI_DP_TILE; v += LANES) {
    vec x = multiply_add(splat(pa), load(limit->gain + v), load(left + v));
    bits |= (uint64_t)less(add(x, load(limit->rest + v)), splat(top)) << v;
  }
  return bits;
}

/* Returns the bits of the rows of the group for which the test passes for any v. */
static inline unsigned hit_rows(const cell *left, const cell *pa, const bound *limit,
                                const cell *top) {
  vec x[GROUP];
  for (int r = 0; r < GROUP; r++) x[r] = splat(INFINITE);
  for (int v = 0; v < MMCI_DP_TILE; v += LANES) {
    vec gain = load(limit->gain + v), rest = load(limit->rest + v);
    for (int r = 0; r < GROUP; r++) {
      vec y = add(multiply_add(splat(pa[r]), gain, load(left + r * MMCI_DP_TILE + v)), rest);
      x[r] = least(x[r], y);
    }
  }
  unsigned hits = 0;
  for (int r = 0; r < GROUP; r++) hits |= (unsigned)(less(x[r], splat(top[r])) != 0) << r;
  return hits;
}

/* Chooses m and base, which hold for the next RENEWAL rows of tiles, and with them the bounds of
 * the tiles that are finished. */
static void renew(const mmci_dp_run *run, column *col, int32_t I, int32_t J) {
  const int64_t *dims = run->problem->dims;
  int64_t m = dims[run->lightest[J]];
  for (int32_t K = I < RENEWAL ? 0 : I - RENEWAL + 1; K < J; K++)
    if (dims[run->lightest[K]] < m) m = dims[run->lightest[K]];
  col->least = (cell)m;
  col->narrowest = (cell)dims[run->lightest[J]];
  col->renewed = I;

  const cell *pa = dims_of(run, I), *pb = dims_of(run, J);
  int light = 0;
  for (int a = 1; a < MMCI_DP_TILE; a++)
    if (pa[light] == col->least || (pa[a] < pa[light] && pa[a] > col->least)) light = a;
  const cell *row = tile_at(run, I, J) + light * MMCI_DP_TILE;
  vec m_pa = splat(col->least * pa[light]);
  for (int b = 0; b < MMCI_DP_TILE; b += LANES)
    store(col->base + b, subtract(load(row + b), multiply(m_pa, load(pb + b))));

  for (int32_t K = I + 1; K <= J; K++) {
    const cell *tile = tile_at(run, K, J);
    for (int v = 0; v < MMCI_DP_TILE; v++)
      col->bounds[K].rest[v] = rest_of_row(col, tile + v * MMCI_DP_TILE);
    set_gains(run, col, K);
  }
}

/* ---- a tile --------------------------------------------------------------------------------- */

static void diagonal(mmci_dp_work *work, int32_t I) {
  const mmci_dp_run *run = work->run;
  cell *tile = tile_at(run, I, I);
  const cell *p = dims_of(run, I);
  for (int a = MMCI_DP_TILE - 1; a >= 0; a--) {
    cell *row = tile + a * MMCI_DP_TILE;
    for (int b = 0; b < MMCI_DP_TILE; b += LANES) store(row + b, splat(INFINITE));
    int inside = run->table->n - I * MMCI_DP_TILE; /* the number of vertex n in this block */
    if (a >= inside) continue;
    for (int b = a + 1; b < MMCI_DP_TILE && (b == a + 1 || a + 1 == inside); b++) row[b] = 0;
    for (int v = a + 1; v < MMCI_DP_TILE - 1 && v < inside; v++)
      improve_right(row, v, tile, p[a], p);
  }
}

/* Starts with fans: between a and b, the fan from a, or from b, continues the best order of the
 * sub-chain up to the finished tile (I, left), or down to the tile below. */
static void start_fans(const mmci_dp_run *run, column *col, int32_t I, int32_t J, int32_t left) {
  cell *tile = tile_at(run, I, J);
  const cell *pa = dims_of(run, I), *pb = dims_of(run, J), *fall = spans_of(run, I);
  const cell *below = tile_at(run, I + 1, J), *beside = tile_at(run, I, left);
  int32_t from = (left + 1) * MMCI_DP_TILE - 1;
  if (I == J - 1 || col->span_from != from) {
    mmci_u128 sum = 0;
    for (int32_t t = from; t < J * MMCI_DP_TILE; t++) sum = grow(run, sum, t);
    for (int b = 0; b < MMCI_DP_TILE; b++) {
      col->span[b] = cell_from(sum);
      sum = grow(run, sum, J * MMCI_DP_TILE + b);
    }
    col->span_from = from;
  }

  /* No entry exceeds the ceiling, so costs above it are cut; and a fan that may cost more, and may
   * overflow, is replaced by the ceiling plus 0 times its span. */
  const cell ceiling = cell_from(run->ceiling);
  double widest = (double)col->span[MMCI_DP_TILE - 1], deepest = (double)fall[0];
  _Alignas(MMCI_ALIGNMENT) cell height[MMCI_DP_TILE], down[MMCI_DP_TILE];
  for (int b = 0; b < MMCI_DP_TILE; b++) {
    bool fits = (double)pb[b] * deepest <= (double)ceiling;
    height[b] = fits ? pb[b] : 0;
    down[b] = fits ? below[b] : ceiling;
  }
  for (int a = 0; a < MMCI_DP_TILE; a++) {
    bool fits = (double)pa[a] * widest <= (double)ceiling;
    vec width = splat(fits ? pa[a] : 0);
    vec across = splat(fits ? beside[a * MMCI_DP_TILE + MMCI_DP_TILE - 1] : ceiling);
    for (int b = 0; b < MMCI_DP_TILE; b += LANES) {
      vec x = least(multiply_add(width, load(col->span + b), across),
                    multiply_add(splat(fall[a]), load(height + b), load(down + b)));
      store(tile + a * MMCI_DP_TILE + b, least(x, splat(ceiling)));
    }
  }
  if (J == I + 1) /* the last vertex of I and the first of J, with its copies, are neighbours */
    for (int b = 0; b < MMCI_DP_TILE; b++)
      if (vertex_of(run, J * MMCI_DP_TILE + b) == J * MMCI_DP_TILE)
        tile[(MMCI_DP_TILE - 1) * MMCI_DP_TILE + b] = 0;
}

/* Starts with the split at the lightest vertex between I and J, as far as tiles are finished. */
static void start_hub(const mmci_dp_run *run, column *col, int32_t I, int32_t J, int32_t left) {
  if (I >= left) return;
  int32_t next = run->lightest[I + 1];
  if (I == left - 1 || run->problem->dims[next] <= run->problem->dims[col->hub]) col->hub = next;
  int32_t K = col->hub / MMCI_DP_TILE, v = col->hub % MMCI_DP_TILE;
  cell *tile = tile_at(run, I, J);
  const cell *before = tile_at(run, I, K), *after = tile_at(run, K, J);
  const cell *pa = dims_of(run, I), *pv = dims_of(run, K), *pb = dims_of(run, J);
  for (int a = 0; a < MMCI_DP_TILE; a++)
    improve_row(tile + a * MMCI_DP_TILE, before + a * MMCI_DP_TILE, pa[a], after, pv, pb,
                (uint64_t)1 << v);
}

/* Starts with the splits at the lightest vertex of block I after a, and of block J before b, where
 * they are better than what the tile holds. */
static void start_near(const mmci_dp_run *run, column *col, int32_t I, int32_t J) {
  cell *tile = tile_at(run, I, J);
  const cell *corner_left = tile_at(run, I, I), *corner_right = tile_at(run, J, J);
  const cell *pa = dims_of(run, I), *pb = dims_of(run, J);
  if (I == J - 1)
    for (int b = 0, v = 0; b < MMCI_DP_TILE; b++) {
      col->near[b] = v;
      col->near_after[b] = corner_right[v * MMCI_DP_TILE + b];
      col->near_area[b] = pb[v] * pb[b];
      if (pb[b] <= pb[v]) v = b;
    }
  for (int a = MMCI_DP_TILE - 1, v = MMCI_DP_TILE - 1; a >= 0; a--) {
    cell *row = tile + a * MMCI_DP_TILE;
    if (a < v)
      improve_row(row, corner_left + a * MMCI_DP_TILE, pa[a], tile, pa, pb, (uint64_t)1 << v);
    if (pa[a] <= pa[v]) v = a;
    _Alignas(MMCI_ALIGNMENT) cell before[MMCI_DP_TILE];
    for (int b = 0; b < MMCI_DP_TILE; b++) before[b] = row[col->near[b]];
    vec height = splat(pa[a]);
    for (int b = 0; b < MMCI_DP_TILE; b += LANES) {
      vec x = multiply_add(height, load(col->near_area + b), load(before + b));
      store(row + b, least(load(row + b), add(x, load(col->near_after + b))));
    }
  }
}

/* Fills the tile with costs of orders that are often the best, or near. */
static void start(mmci_dp_work *work, int32_t I, int32_t J, int32_t left) {
  const mmci_dp_run *run = work->run;
  column *col = column_of(work, J);
  start_fans(run, col, I, J, left);
  start_hub(run, col, I, J, left);
  start_near(run, col, I, J);
  if (I == J - 1 || col->renewed - I == RENEWAL) renew(run, col, I, J);
  const cell *tile = tile_at(run, I, J), *pa = dims_of(run, I), *pb = dims_of(run, J);
  for (int a = 0; a < MMCI_DP_TILE; a++)
    col->top[a] = top_of_row(col, tile + a * MMCI_DP_TILE, pa[a], pb);
}

static void products(mmci_dp_work *work, int32_t I, int32_t K, int32_t J, int32_t count) {
  const mmci_dp_run *run = work->run;
  const cell *pv = dims_of(run, K);
  /* The rows of the left tile stay in the nearest cache while they serve all columns. */
  for (int a = 0; a < MMCI_DP_TILE; a += GROUP) {
    const cell *left = tile_at(run, I, K) + a * MMCI_DP_TILE, *pa = dims_of(run, I) + a;
    for (int32_t j = J; j < J + count; j++) {
      column *col = column_of(work, j);
      cell *rows = tile_at(run, I, j) + a * MMCI_DP_TILE;
      const cell *right = tile_at(run, K, j), *pb = dims_of(run, j);
      const bound *limit = &col->bounds[K];
      unsigned hits = hit_rows(left, pa, limit, col->top + a);
      if (hits == 0) continue;

      uint64_t splits[GROUP];
      int pairs = 0;
      for (unsigned more = hits; more != 0; more &= more - 1) {
        int r = __builtin_ctz(more);
        splits[r] = survivors(left + r * MMCI_DP_TILE, pa[r], limit, col->top[a + r]);
        pairs += __builtin_popcountll(splits[r]);
      }
      if (pairs >= DENSE) improve_group(rows, left, pa, right, pv, pb);
      for (unsigned more = hits; more != 0; more &= more - 1) {
        int r = __builtin_ctz(more);
        cell *row = rows + r * MMCI_DP_TILE;
        if (pairs < DENSE)
          improve_row(row, left + r * MMCI_DP_TILE, pa[r], right, pv, pb, splits[r]);
        col->top[a + r] = top_of_row(col, row, pa[r], pb);
      }
    }
  }
}

/* Takes the candidates through the blocks I and J themselves. Those of row a through I need the
 * rows below a in this tile, which are final; those through J need the entries of row a further
 * left. */
static void finish(mmci_dp_work *work, int32_t I, int32_t J) {
  const mmci_dp_run *run = work->run;
  column *col = column_of(work, J);
  cell *tile = tile_at(run, I, J);
  const cell *corner_left = tile_at(run, I, I), *corner_right = tile_at(run, J, J);
  const cell *pa = dims_of(run, I), *pb = dims_of(run, J);
  bound *limit_left = &col->bounds[I];
  const bound *limit_right = &col->bounds[J];
  set_gains(run, col, I);
  /* A cell of rest stays 0 until its row is final. */
  for (int v = 0; v < MMCI_DP_TILE; v++) limit_left->rest[v] = 0;
  for (int a = MMCI_DP_TILE - 1; a >= 0; a--) {
    cell *row = tile + a * MMCI_DP_TILE, top = col->top[a];
    const cell *left = corner_left + a * MMCI_DP_TILE;
    uint64_t splits = survivors(left, pa[a], limit_left, top); /* none up to a: left is infinite */
    if (splits != 0) {
      improve_row(row, left, pa[a], tile, pa, pb, splits);
      top = top_of_row(col, row, pa[a], pb);
    }

    vec height = splat(pa[a]);
    for (int v0 = 0; v0 < MMCI_DP_TILE; v0 += LANES) {
      /* An improvement through v can make splits further right pass. */
      for (unsigned todo = (1u << LANES) - 1; todo != 0;) {
        vec x = multiply_add(height, load(limit_right->gain + v0), load(row + v0));
        unsigned bits = todo & less(add(x, load(limit_right->rest + v0)), splat(top));
        if (bits == 0) break;
        int l = __builtin_ctz(bits);
        todo &= ~1u << l;
        improve_right(row, v0 + l, corner_right, pa[a], pb);
      }
    }
    limit_left->rest[a] = rest_of_row(col, row);
  }
}

/* ---- reading -------------------------------------------------------------------------------- */

static inline cell cell_at(const mmci_dp_table *table, int32_t a, int32_t b) {
  const cell *tile = mmci_dp_tile(table, a / MMCI_DP_TILE, b / MMCI_DP_TILE, sizeof(cell));
  return tile[a % MMCI_DP_TILE * MMCI_DP_TILE + b % MMCI_DP_TILE];
}

static mmci_u128 entry(const mmci_dp_table *table, int32_t a, int32_t b) {
  return (mmci_u128)cell_at(table, a, b);
}

static uint64_t matches(const mmci_dp_run *run, int32_t a, int32_t b, int32_t first,
                        int32_t count) {
  int32_t K = first / MMCI_DP_TILE, v = first % MMCI_DP_TILE;
  const cell *left = tile_at(run, a / MMCI_DP_TILE, K) + a % MMCI_DP_TILE * MMCI_DP_TILE + v;
  const cell *right = tile_at(run, K, b / MMCI_DP_TILE) + v * MMCI_DP_TILE + b % MMCI_DP_TILE;
  const cell *p = run->chain, c = cell_at(run->table, a, b);
  uint64_t bits = 0;
  for (int32_t t = 0; t < count; t++) {
    cell candidate = p[a] * p[first + t] * p[b] + left[t] + right[t * MMCI_DP_TILE];
    bits |= (uint64_t)(candidate == c) << t;
  }
  return bits;
}

const mmci_dp_kernel KERNEL = {
    .name = KERNEL_NAME,
    .cell_bytes = sizeof(cell),
    .chain_bytes = chain_bytes,
    .column_bytes = column_bytes,
    .prepare = prepare,
    .diagonal = diagonal,
    .start = start,
    .products = products,
    .finish = finish,
    .matches = matches,
    .entry = entry,
};

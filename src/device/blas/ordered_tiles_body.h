/* ordered_tiles_body.h: defines TILES, for an instruction set whose operations the file that
 * includes this one has named.
 *
 * Every element of a tile has a register's lane of its own, from the first term to the last, so
 * that how wide registers are and how large the tile is changes no bit. */
#include <math.h>

#include "device/blas/ordered_tiles.h"

/* ---- tiles ----------------------------------------------------------------------------------- */

#define REAL_TILE(name, suffix, type, vector, ROWS, VECTORS)                                     \
  static void name(int64_t k, const void *of_a, const void *of_b, void *of_sums, bool turned) {  \
    enum { WIDTH = sizeof(vector) / sizeof(type) };                                              \
    const type *a = of_a, *b = of_b;                                                             \
    type *sums = of_sums;                                                                        \
    vector sum[ROWS][VECTORS];                                                                   \
    (void)turned;                                                                                \
    for (int r = 0; r < (ROWS); r++)                                                             \
      for (int v = 0; v < (VECTORS); v++)                                                        \
        sum[r][v] = load_##suffix(sums + (r * (VECTORS) + v) * WIDTH);                           \
    for (int64_t p = 0; p < k; p++, a += (ROWS), b += (VECTORS)*WIDTH) {                         \
      vector right[VECTORS];                                                                     \
      for (int v = 0; v < (VECTORS); v++) right[v] = load_##suffix(b + v * WIDTH);               \
      for (int r = 0; r < (ROWS); r++) {                                                         \
        const vector left = spread_##suffix(a + r);                                              \
        for (int v = 0; v < (VECTORS); v++) sum[r][v] = fma_##suffix(left, right[v], sum[r][v]); \
      }                                                                                          \
    }                                                                                            \
    for (int r = 0; r < (ROWS); r++)                                                             \
      for (int v = 0; v < (VECTORS); v++)                                                        \
        store_##suffix(sums + (r * (VECTORS) + v) * WIDTH, sum[r][v]);                           \
  }

#define COMPLEX_TILE(name, suffix, type, vector, ROWS, VECTORS, FIRST, SECOND)            \
  static void name(int64_t k, const type *a, const type *b, type *sums) {                 \
    enum { WIDTH = sizeof(vector) / sizeof(type), COLS = (VECTORS)*WIDTH };               \
    vector re[ROWS][VECTORS], im[ROWS][VECTORS];                                          \
    for (int r = 0; r < (ROWS); r++)                                                      \
      for (int v = 0; v < (VECTORS); v++) {                                               \
        re[r][v] = load_##suffix(sums + r * COLS + v * WIDTH);                            \
        im[r][v] = load_##suffix(sums + ((ROWS) + r) * COLS + v * WIDTH);                 \
      }                                                                                   \
    for (int64_t p = 0; p < k; p++, a += 2 * (ROWS), b += 2 * COLS) {                     \
      vector right[2][VECTORS];                                                           \
      for (int v = 0; v < (VECTORS); v++) {                                               \
        right[0][v] = load_##suffix(b + v * WIDTH);                                       \
        right[1][v] = load_##suffix(b + COLS + v * WIDTH);                                \
      }                                                                                   \
      for (int r = 0; r < (ROWS); r++) {                                                  \
        const vector left[2] = {spread_##suffix(a + r), spread_##suffix(a + (ROWS) + r)}; \
        for (int v = 0; v < (VECTORS); v++) {                                             \
          re[r][v] = fma_##suffix(left[0], right[0][v], re[r][v]);                        \
          im[r][v] = fma_##suffix(left[FIRST], right[SECOND][v], im[r][v]);               \
        }                                                                                 \
        for (int v = 0; v < (VECTORS); v++) {                                             \
          re[r][v] = less_##suffix(left[1], right[1][v], re[r][v]);                       \
          im[r][v] = fma_##suffix(left[SECOND], right[FIRST][v], im[r][v]);               \
        }                                                                                 \
      }                                                                                   \
    }                                                                                     \
    for (int r = 0; r < (ROWS); r++)                                                      \
      for (int v = 0; v < (VECTORS); v++) {                                               \
        store_##suffix(sums + r * COLS + v * WIDTH, re[r][v]);                            \
        store_##suffix(sums + ((ROWS) + r) * COLS + v * WIDTH, im[r][v]);                 \
      }                                                                                   \
  }

/* The left operand of the chain is a, unless the product is turned. */
#define EITHER_WAY(name, suffix, type, vector, ROWS, VECTORS)                          \
  COMPLEX_TILE(upright_##name, suffix, type, vector, ROWS, VECTORS, 0, 1)              \
  COMPLEX_TILE(turned_##name, suffix, type, vector, ROWS, VECTORS, 1, 0)               \
  static void name(int64_t k, const void *a, const void *b, void *sums, bool turned) { \
    (turned ? turned_##name : upright_##name)(k, a, b, sums);                          \
  }

#define TILES_OF(suffix, type, vector)                                    \
  REAL_TILE(real_##suffix##_1, suffix, type, vector, REAL_ROWS, 1)        \
  REAL_TILE(real_##suffix##_2, suffix, type, vector, REAL_ROWS, 2)        \
  REAL_TILE(real_##suffix##_3, suffix, type, vector, REAL_ROWS, 3)        \
  EITHER_WAY(complex_##suffix##_1, suffix, type, vector, COMPLEX_ROWS, 1) \
  EITHER_WAY(complex_##suffix##_2, suffix, type, vector, COMPLEX_ROWS, 2) \
  EITHER_WAY(complex_##suffix##_3, suffix, type, vector, COMPLEX_ROWS, 3)

TILES_OF(f32, float, vector_f32)
TILES_OF(f64, double, vector_f64)

#define WORD_TILES(suffix, type, vector)                            \
  REAL_TILE(words_##suffix##_1, suffix, type, vector, REAL_ROWS, 1) \
  REAL_TILE(words_##suffix##_2, suffix, type, vector, REAL_ROWS, 2) \
  REAL_TILE(words_##suffix##_3, suffix, type, vector, REAL_ROWS, 3)

WORD_TILES(u32, uint32_t, vector_u32)
WORD_TILES(u64, uint64_t, vector_u64)

/* ---- rows ------------------------------------------------------------------------------------ */

/* So many rows of the matrix are added to all of c in turn. */
enum { LINES = 8 };

#define ROW(suffix, type, fuse)                                                       \
  static void add_lines_##suffix(int lines, const mmci_ordered_row *row, int64_t p) { \
    const type *b = (const type *)row->b + p * row->down, *x = row->x;                \
    type *c = row->c, left[LINES];                                                    \
    for (int l = 0; l < lines; l++) left[l] = x[(p + l) * row->x_step];               \
    for (int64_t j = 0; j < row->n; j++) {                                            \
      type sum = c[j];                                                                \
      for (int l = 0; l < lines; l++) sum = fuse(left[l], b[l * row->down + j], sum); \
      c[j] = sum;                                                                     \
    }                                                                                 \
  }                                                                                   \
  static void row_##suffix(const mmci_ordered_row *row) {                             \
    int64_t p = 0;                                                                    \
    for (; p + LINES <= row->k; p += LINES) add_lines_##suffix(LINES, row, p);        \
    for (; p < row->k; p++) add_lines_##suffix(1, row, p);                            \
  }

ROW(f32, float, __builtin_fmaf)
ROW(f64, double, __builtin_fma)

/* ---- pieces side by side --------------------------------------------------------------------- */

/* So many vectors of lanes hide how long a fused multiply-add takes. What fills TURNED_BYTES of a
 * vector's lanes is turned at once, by turn_terms_f32 and turn_terms_f64. */
enum { LANE_VECTORS = 2, TURNED_BYTES = 64 };

#define TURN(suffix, type, vector)                                                                \
  static void turn_##suffix(const void *const *lanes, int64_t count, void *of_to, int64_t step) { \
    enum {                                                                                        \
      WIDTH = sizeof(vector) / sizeof(type),                                                      \
      LANES = LANE_VECTORS * WIDTH,                                                               \
      TERMS = TURNED_BYTES / sizeof(type)                                                         \
    };                                                                                            \
    for (int v = 0; v < LANE_VECTORS; v++) {                                                      \
      const void *const *own = lanes + v * WIDTH;                                                 \
      type *to = (type *)of_to + v * WIDTH;                                                       \
      int64_t t = 0;                                                                              \
      for (; t + TERMS <= count; t += TERMS)                                                      \
        turn_terms_##suffix(own, t, to + t * step * LANES, step * LANES);                         \
      for (; t < count; t++)                                                                      \
        for (int l = 0; l < WIDTH; l++) to[t * step * LANES + l] = ((const type *)own[l])[t];     \
    }                                                                                             \
  }

#define REAL_LANES(name, suffix, type, vector, ROWS, COLS)                                  \
  static void name(int64_t k, const mmci_ordered_lane_sums *of) {                           \
    enum { WIDTH = sizeof(vector) / sizeof(type), LANES = LANE_VECTORS * WIDTH };           \
    const type *a = of->a, *b = of->b;                                                      \
    type *sums = of->sums;                                                                  \
    vector sum[ROWS][COLS][LANE_VECTORS];                                                   \
    for (int r = 0; r < (ROWS); r++)                                                        \
      for (int c = 0; c < (COLS); c++)                                                      \
        for (int v = 0; v < LANE_VECTORS; v++)                                              \
          sum[r][c][v] = load_##suffix(sums + (r * of->sums_down + c) * LANES + v * WIDTH); \
    for (int64_t t = 0; t < k; t++, a += of->of_a.term * LANES, b += of->of_b.term * LANES) \
      for (int v = 0; v < LANE_VECTORS; v++) {                                              \
        vector right[COLS];                                                                 \
        for (int c = 0; c < (COLS); c++)                                                    \
          right[c] = load_##suffix(b + c * of->of_b.line * LANES + v * WIDTH);              \
        for (int r = 0; r < (ROWS); r++) {                                                  \
          const vector left = load_##suffix(a + r * of->of_a.line * LANES + v * WIDTH);     \
          for (int c = 0; c < (COLS); c++)                                                  \
            sum[r][c][v] = fma_##suffix(left, right[c], sum[r][c][v]);                      \
        }                                                                                   \
      }                                                                                     \
    for (int r = 0; r < (ROWS); r++)                                                        \
      for (int c = 0; c < (COLS); c++)                                                      \
        for (int v = 0; v < LANE_VECTORS; v++)                                              \
          store_##suffix(sums + (r * of->sums_down + c) * LANES + v * WIDTH, sum[r][c][v]); \
  }

#define COMPLEX_LANES(name, suffix, type, vector, ROWS, COLS, FIRST, SECOND)                     \
  static void name(int64_t k, const mmci_ordered_lane_sums *of) {                                \
    enum { WIDTH = sizeof(vector) / sizeof(type), LANES = LANE_VECTORS * WIDTH };                \
    const type *a = of->a, *b = of->b;                                                           \
    type *sums = of->sums;                                                                       \
    vector re[ROWS][COLS][LANE_VECTORS], im[ROWS][COLS][LANE_VECTORS];                           \
    for (int r = 0; r < (ROWS); r++)                                                             \
      for (int c = 0; c < (COLS); c++)                                                           \
        for (int v = 0; v < LANE_VECTORS; v++) {                                                 \
          const type *at = sums + (r * of->sums_down + 2 * c) * LANES + v * WIDTH;               \
          re[r][c][v] = load_##suffix(at);                                                       \
          im[r][c][v] = load_##suffix(at + LANES);                                               \
        }                                                                                        \
    for (int64_t t = 0; t < k; t++, a += of->of_a.term * LANES, b += of->of_b.term * LANES)      \
      for (int v = 0; v < LANE_VECTORS; v++) {                                                   \
        vector right[COLS][2];                                                                   \
        for (int c = 0; c < (COLS); c++)                                                         \
          for (int q = 0; q < 2; q++)                                                            \
            right[c][q] =                                                                        \
                load_##suffix(b + (c * of->of_b.line + q * of->of_b.part) * LANES + v * WIDTH);  \
        for (int r = 0; r < (ROWS); r++) {                                                       \
          const type *at = a + r * of->of_a.line * LANES + v * WIDTH;                            \
          const vector left[2] = {load_##suffix(at), load_##suffix(at + of->of_a.part * LANES)}; \
          for (int c = 0; c < (COLS); c++) {                                                     \
            re[r][c][v] = fma_##suffix(left[0], right[c][0], re[r][c][v]);                       \
            im[r][c][v] = fma_##suffix(left[FIRST], right[c][SECOND], im[r][c][v]);              \
            re[r][c][v] = less_##suffix(left[1], right[c][1], re[r][c][v]);                      \
            im[r][c][v] = fma_##suffix(left[SECOND], right[c][FIRST], im[r][c][v]);              \
          }                                                                                      \
        }                                                                                        \
      }                                                                                          \
    for (int r = 0; r < (ROWS); r++)                                                             \
      for (int c = 0; c < (COLS); c++)                                                           \
        for (int v = 0; v < LANE_VECTORS; v++) {                                                 \
          type *at = sums + (r * of->sums_down + 2 * c) * LANES + v * WIDTH;                     \
          store_##suffix(at, re[r][c][v]);                                                       \
          store_##suffix(at + LANES, im[r][c][v]);                                               \
        }                                                                                        \
  }

#define LANES_EITHER_WAY(name, suffix, type, vector, ROWS, COLS)        \
  COMPLEX_LANES(upright_##name, suffix, type, vector, ROWS, COLS, 0, 1) \
  COMPLEX_LANES(turned_##name, suffix, type, vector, ROWS, COLS, 1, 0)  \
  static void name(int64_t k, const mmci_ordered_lane_sums *of) {       \
    (of->turned ? turned_##name : upright_##name)(k, of);               \
  }

#define LANES_OF(suffix, type, vector)                                      \
  TURN(suffix, type, vector)                                                \
  REAL_LANES(real_lanes_##suffix##_11, suffix, type, vector, 1, 1)          \
  REAL_LANES(real_lanes_##suffix##_12, suffix, type, vector, 1, 2)          \
  REAL_LANES(real_lanes_##suffix##_21, suffix, type, vector, 2, 1)          \
  REAL_LANES(real_lanes_##suffix##_22, suffix, type, vector, 2, 2)          \
  LANES_EITHER_WAY(complex_lanes_##suffix##_11, suffix, type, vector, 1, 1) \
  LANES_EITHER_WAY(complex_lanes_##suffix##_12, suffix, type, vector, 1, 2) \
  LANES_EITHER_WAY(complex_lanes_##suffix##_21, suffix, type, vector, 2, 1) \
  LANES_EITHER_WAY(complex_lanes_##suffix##_22, suffix, type, vector, 2, 2)

LANES_OF(f32, float, vector_f32)
LANES_OF(f64, double, vector_f64)

#define ALL_LANES(suffix, type, vector)                                                          \
  {                                                                                              \
    LANE_VECTORS *(int)(sizeof(vector) / sizeof(type)), real_dot_##suffix, complex_dot_##suffix, \
        turn_##suffix,                                                                           \
        {{real_lanes_##suffix##_11, real_lanes_##suffix##_12},                                   \
         {real_lanes_##suffix##_21, real_lanes_##suffix##_22}},                                  \
    {                                                                                            \
      {complex_lanes_##suffix##_11, complex_lanes_##suffix##_12}, {                              \
        complex_lanes_##suffix##_21, complex_lanes_##suffix##_22                                 \
      }                                                                                          \
    }                                                                                            \
  }

/* ---- zeros and NaN --------------------------------------------------------------------------- */

static void settle_f32(float *line, int64_t n) {
  for (int64_t i = 0; i < n; i++) line[i] = line[i] == line[i] ? line[i] + 0.0F : NAN;
}

static void settle_f64(double *line, int64_t n) {
  for (int64_t i = 0; i < n; i++) line[i] = line[i] == line[i] ? line[i] + 0.0 : (double)NAN;
}

#define WIDTH_OF(vector, type) ((int)(sizeof(vector) / sizeof(type)))

const mmci_ordered_tiles TILES = {
    .f32 = {REAL_ROWS,
            WIDTH_OF(vector_f32, float),
            REAL_VECTORS,
            {real_f32_1, real_f32_2, real_f32_3}},
    .f64 = {REAL_ROWS,
            WIDTH_OF(vector_f64, double),
            REAL_VECTORS,
            {real_f64_1, real_f64_2, real_f64_3}},
    .c64 = {COMPLEX_ROWS,
            WIDTH_OF(vector_f32, float),
            COMPLEX_VECTORS,
            {complex_f32_1, complex_f32_2, complex_f32_3}},
    .c128 = {COMPLEX_ROWS,
             WIDTH_OF(vector_f64, double),
             COMPLEX_VECTORS,
             {complex_f64_1, complex_f64_2, complex_f64_3}},
    .u32 = {REAL_ROWS,
            WIDTH_OF(vector_u32, uint32_t),
            REAL_VECTORS,
            {words_u32_1, words_u32_2, words_u32_3}},
    .u64 = {REAL_ROWS,
            WIDTH_OF(vector_u64, uint64_t),
            REAL_VECTORS,
            {words_u64_1, words_u64_2, words_u64_3}},
    .row_f32 = row_f32,
    .row_f64 = row_f64,
    .lanes_f32 = ALL_LANES(f32, float, vector_f32),
    .lanes_f64 = ALL_LANES(f64, double, vector_f64),
    .settle_f32 = settle_f32,
    .settle_f64 = settle_f64,
};

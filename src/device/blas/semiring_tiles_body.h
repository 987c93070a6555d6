/* semiring_tiles_body.h: defines TILES, for an instruction set whose operations the file that
 * includes this one has named. */
#include "device/blas/semiring_tiles.h"

#define TILE(name, suffix, type, vector, VECTORS)                                  \
  static void name(int64_t k, const void *of_a, const void *of_b, void *of_tile) { \
    enum { WIDTH = sizeof(vector) / sizeof(type) };                                \
    const type *a = of_a, *b = of_b;                                               \
    type *tile = of_tile;                                                          \
    vector best[ROWS][VECTORS];                                                    \
    for (int r = 0; r < ROWS; r++)                                                 \
      for (int v = 0; v < (VECTORS); v++)                                          \
        best[r][v] = load_##suffix(tile + (r * (VECTORS) + v) * WIDTH);            \
    for (int64_t p = 0; p < k; p++, a += ROWS, b += (VECTORS)*WIDTH) {             \
      vector right[VECTORS];                                                       \
      for (int v = 0; v < (VECTORS); v++) right[v] = load_##suffix(b + v * WIDTH); \
      for (int r = 0; r < ROWS; r++) {                                             \
        const vector left = spread_##suffix(a + r);                                \
        for (int v = 0; v < (VECTORS); v++)                                        \
          best[r][v] = greater_##suffix(add_##suffix(left, right[v]), best[r][v]); \
      }                                                                            \
    }                                                                              \
    for (int r = 0; r < ROWS; r++)                                                 \
      for (int v = 0; v < (VECTORS); v++)                                          \
        store_##suffix(tile + (r * (VECTORS) + v) * WIDTH, best[r][v]);            \
  }

#define TILES_OF(suffix, type, vector)      \
  TILE(suffix##_1, suffix, type, vector, 1) \
  TILE(suffix##_2, suffix, type, vector, 2) \
  TILE(suffix##_3, suffix, type, vector, 3) \
  TILE(suffix##_4, suffix, type, vector, 4)

TILES_OF(f32, float, vector_f32)
TILES_OF(f64, double, vector_f64)
TILES_OF(i64, int64_t, vector_i64)

#define TILE_OF(suffix, type, vector)                      \
  {                                                        \
    ROWS, (int)(sizeof(vector) / sizeof(type)), VECTORS, { \
      suffix##_1, suffix##_2, suffix##_3, suffix##_4       \
    }                                                      \
  }

const mmci_semiring_tiles TILES = {.f32 = TILE_OF(f32, float, vector_f32),
                                   .f64 = TILE_OF(f64, double, vector_f64),
                                   .i64 = TILE_OF(i64, int64_t, vector_i64)};

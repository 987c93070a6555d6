/* semiring_tiles_body.h: defines TILES, for an instruction set whose operations the file that
 * includes this one has named. */
#include <math.h>
#include <stddef.h>

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

/* ---- a row of C ------------------------------------------------------------------------------ */

/* So many rows, or vectors of a column, are met at a time. NaN is seen in a sum of all sums, which
 * keeps it; where infinities of both signs make one, it is seen in vain. */
enum { AT_ONCE = 4 };

#define VECTOR(suffix, type, vector)                                                               \
  static inline __attribute__((always_inline))                                                     \
  vector suffix##_sum(vector a, const type *b, bool least) {                                       \
    const vector right = read_##suffix(b);                                                         \
    return least ? subtract_##suffix(a, right) : add_##suffix(a, right);                           \
  }                                                                                                \
  static inline                                                                                    \
      __attribute__((always_inline)) bool suffix##_meet(type a, type b, bool least, type *most) {  \
    const type sum = least ? a - b : a + b;                                                        \
    if (sum > *most) *most = sum;                                                                  \
    return sum == sum;                                                                             \
  }                                                                                                \
  static inline __attribute__((always_inline)) bool suffix##_is_sound(const vector *seen) {        \
    enum { WIDTH = sizeof(vector) / sizeof(type) };                                                \
    _Alignas(64) type lanes[WIDTH];                                                                \
    bool sound = true;                                                                             \
    for (int i = 0; i < AT_ONCE; i++) {                                                            \
      store_##suffix(lanes, seen[i]);                                                              \
      for (int j = 0; j < WIDTH; j++) sound &= lanes[j] == lanes[j];                               \
    }                                                                                              \
    return sound;                                                                                  \
  }                                                                                                \
  static inline __attribute__((always_inline)) bool suffix##_rows(                                 \
      int64_t rows, int64_t n, const type *a, const type *b, int64_t down, bool least,             \
      vector *seen, type *sums) {                                                                  \
    enum { WIDTH = sizeof(vector) / sizeof(type) };                                                \
    vector left[AT_ONCE];                                                                          \
    bool sound = true;                                                                             \
    int64_t j = 0;                                                                                 \
    for (int i = 0; i < rows; i++) left[i] = spread_##suffix(a + i);                               \
    for (; j + WIDTH <= n; j += WIDTH) {                                                           \
      vector most = load_##suffix(sums + j);                                                       \
      for (int i = 0; i < rows; i++) {                                                             \
        const vector sum = suffix##_sum(left[i], b + i * down + j, least);                         \
        seen[i] = add_##suffix(seen[i], sum);                                                      \
        most = greater_##suffix(sum, most);                                                        \
      }                                                                                            \
      store_##suffix(sums + j, most);                                                              \
    }                                                                                              \
    for (; j < n; j++)                                                                             \
      for (int i = 0; i < rows; i++)                                                               \
        sound &= suffix##_meet(a[i], b[i * down + j], least, &sums[j]);                            \
    return sound;                                                                                  \
  }                                                                                                \
  static inline __attribute__((always_inline)) bool suffix##_column(                               \
      int64_t k, const type *a, const type *b, bool least, vector *seen, type *sum) {              \
    enum { WIDTH = sizeof(vector) / sizeof(type) };                                                \
    const type none = -(type)INFINITY;                                                             \
    _Alignas(64) type lanes[WIDTH];                                                                \
    vector most[AT_ONCE];                                                                          \
    bool sound = true;                                                                             \
    int64_t p = 0;                                                                                 \
    for (int i = 0; i < AT_ONCE; i++) most[i] = spread_##suffix(&none);                            \
    for (; p + AT_ONCE * WIDTH <= k; p += AT_ONCE * WIDTH)                                         \
      for (int i = 0; i < AT_ONCE; i++) {                                                          \
        const vector left = read_##suffix(a + p + i * WIDTH),                                      \
                     term = suffix##_sum(left, b + p + i * WIDTH, least);                          \
        seen[i] = add_##suffix(seen[i], term);                                                     \
        most[i] = greater_##suffix(term, most[i]);                                                 \
      }                                                                                            \
    for (; p + WIDTH <= k; p += WIDTH) {                                                           \
      const vector term = suffix##_sum(read_##suffix(a + p), b + p, least);                        \
      seen[0] = add_##suffix(seen[0], term);                                                       \
      most[0] = greater_##suffix(term, most[0]);                                                   \
    }                                                                                              \
    most[0] = greater_##suffix(most[0], most[1]);                                                  \
    most[2] = greater_##suffix(most[2], most[3]);                                                  \
    store_##suffix(lanes, greater_##suffix(most[0], most[2]));                                     \
    for (int j = 0; j < WIDTH; j++)                                                                \
      if (lanes[j] > *sum) *sum = lanes[j];                                                        \
    for (; p < k; p++) sound &= suffix##_meet(a[p], b[p], least, sum);                             \
    return sound;                                                                                  \
  }                                                                                                \
  static inline __attribute__((always_inline)) bool suffix##_all(                                  \
      int64_t k, int64_t n, const type *a, const type *b, int64_t down, int64_t along, bool least, \
      type *sums) {                                                                                \
    const type zero = 0;                                                                           \
    vector seen[AT_ONCE];                                                                          \
    bool sound = true;                                                                             \
    int64_t p = 0;                                                                                 \
    for (int i = 0; i < AT_ONCE; i++) seen[i] = spread_##suffix(&zero);                            \
    if (down == 1 && (along != 1 || n == 1)) {                                                     \
      for (int64_t j = 0; j < n; j++)                                                              \
        sound &= suffix##_column(k, a, b + j * along, least, seen, &sums[j]);                      \
      return suffix##_is_sound(seen) && sound;                                                     \
    }                                                                                              \
    for (; p + AT_ONCE <= k; p += AT_ONCE)                                                         \
      sound &= suffix##_rows(AT_ONCE, n, a + p, b + p * down, down, least, seen, sums);            \
    for (; p < k; p++) sound &= suffix##_rows(1, n, a + p, b + p * down, down, least, seen, sums); \
    return suffix##_is_sound(seen) && sound;                                                       \
  }                                                                                                \
  static bool suffix##_vector(int64_t k, int64_t n, const void *a, const void *b, int64_t down,    \
                              int64_t along, bool least, void *sums) {                             \
    return least ? suffix##_all(k, n, a, b, down, along, true, sums)                               \
                 : suffix##_all(k, n, a, b, down, along, false, sums);                             \
  }

VECTOR(f32, float, vector_f32)
VECTOR(f64, double, vector_f64)

#define TILE_OF(suffix, type, vector, row)                    \
  {                                                           \
    ROWS, (int)(sizeof(vector) / sizeof(type)), VECTORS,      \
        {suffix##_1, suffix##_2, suffix##_3, suffix##_4}, row \
  }

const mmci_semiring_tiles TILES = {.f32 = TILE_OF(f32, float, vector_f32, f32_vector),
                                   .f64 = TILE_OF(f64, double, vector_f64, f64_vector),
                                   .i64 = TILE_OF(i64, int64_t, vector_i64, NULL)};

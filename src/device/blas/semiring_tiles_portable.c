/* semiring_tiles_portable.c: the innermost loops of semiring.h on any processor. */
#include <stdint.h>

#define TILES mmci_semiring_tiles_portable
enum { ROWS = 4, VECTORS = 4 };
typedef float vector_f32;
typedef double vector_f64;
typedef int64_t vector_i64;
#define load_f32(x) (*(x))
#define load_f64(x) (*(x))
#define load_i64(x) (*(x))
#define store_f32(x, y) (*(x) = (y))
#define store_f64(x, y) (*(x) = (y))
#define store_i64(x, y) (*(x) = (y))
#define spread_f32(x) (*(x))
#define spread_f64(x) (*(x))
#define spread_i64(x) (*(x))
#define add_f32(x, y) ((x) + (y))
#define add_f64(x, y) ((x) + (y))
#define read_f32(x) (*(x))
#define read_f64(x) (*(x))
#define subtract_f32(x, y) ((x) - (y))
#define subtract_f64(x, y) ((x) - (y))
#define add_i64(x, y) ((x) + (y))
static inline float greater_f32(float x, float y) {
  return x > y ? x : y;
}
static inline double greater_f64(double x, double y) {
  return x > y ? x : y;
}
static inline int64_t greater_i64(int64_t x, int64_t y) {
  return x > y ? x : y;
}
#include "device/blas/semiring_tiles_body.h"

const mmci_semiring_tiles *mmci_semiring_tiles_here(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return &mmci_semiring_tiles_avx512;
  if (__builtin_cpu_supports("avx2")) return &mmci_semiring_tiles_avx2;
#endif
  return &mmci_semiring_tiles_portable;
}

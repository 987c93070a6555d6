/* ordered_tiles_portable.c: the innermost loops of ordered.h on any processor. Where it has no
 * fused multiply-add, the C library computes one, exactly and slowly. */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TILES mmci_ordered_tiles_portable
#define real_dot_f32 NULL /* pieces are packed */
#define real_dot_f64 NULL
#define complex_dot_f32 NULL
#define complex_dot_f64 NULL
enum { REAL_ROWS = 4, REAL_VECTORS = 3, COMPLEX_ROWS = 2, COMPLEX_VECTORS = 3 };
typedef float vector_f32;
typedef double vector_f64;
typedef uint32_t vector_u32;
typedef uint64_t vector_u64;
#define load_f32(from) (*(from))
#define load_f64(from) (*(from))
#define store_f32(to, x) (*(to) = (x))
#define store_f64(to, x) (*(to) = (x))
#define spread_f32(x) (*(x))
#define spread_f64(x) (*(x))
#define fma_f32 fmaf
#define fma_f64 fma
#define less_f32(x, y, sum) fmaf(-(x), y, sum)
#define less_f64(x, y, sum) fma(-(x), y, sum)
#define load_u32(from) (*(from))
#define load_u64(from) (*(from))
#define store_u32(to, x) (*(to) = (x))
#define store_u64(to, x) (*(to) = (x))
#define spread_u32(x) (*(x))
#define spread_u64(x) (*(x))
#define fma_u32(x, y, sum) ((sum) + (x) * (y))
#define fma_u64(x, y, sum) ((sum) + (x) * (y))

/* Store terms of a lane, 16 or 8, step numbers apart. */
static inline void turn_terms_f32(const void *const *lanes, int64_t t, float *to, int64_t step) {
  for (int i = 0; i < 16; i++) to[i * step] = ((const float *)lanes[0])[t + i];
}
static inline void turn_terms_f64(const void *const *lanes, int64_t t, double *to, int64_t step) {
  for (int i = 0; i < 8; i++) to[i * step] = ((const double *)lanes[0])[t + i];
}
#include "device/blas/ordered_tiles_body.h"

const mmci_ordered_tiles *mmci_ordered_tiles_here(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
    return &mmci_ordered_tiles_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return &mmci_ordered_tiles_avx2;
#endif
  return &mmci_ordered_tiles_portable;
}

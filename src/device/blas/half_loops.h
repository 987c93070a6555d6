/* half_loops.h: what is done with f16 and bf16 element by element, in the vectors that the
 * processor has: making floats of them and back, and products of few of these floats. */
#ifndef MMCI_HALF_LOOPS_H
#define MMCI_HALF_LOOPS_H

#include "device/device.h"

/* Lines of B and C begin this many floats apart, or a multiple of it. */
enum { MMCI_HALF_LINE = 16 };

/* A product of floats: element (i, l) of A is a[i * a_down + l * a_along]; lines of B and C are
 * `line` floats apart, of which all are multiplied. */
typedef struct mmci_half_tiles {
  int64_t m, k, line;
  const float *a, *b;
  float *c;
  int64_t a_down, a_along;
  bool accumulate;
} mmci_half_tiles;

typedef struct mmci_half_loops {
  /* Make floats of count elements. */
  void (*widen_f16)(const uint16_t *from, int64_t count, float *to);
  void (*widen_bf16)(const uint16_t *from, int64_t count, float *to);
  /* Round count floats to the nearest elements, to even ones of two. */
  void (*round_f16)(const float *from, int64_t count, uint16_t *to);
  void (*round_bf16)(const float *from, int64_t count, uint16_t *to);
  void (*multiply)(const mmci_half_tiles *x);
  /* Computes count products of floats without gaps, m x k by k x n, whose matrices are so many
   * floats apart. */
  void (*multiply_few)(int64_t m, int64_t k, int64_t n, int64_t count, const float *a,
                       int64_t a_step, const float *b, int64_t b_step, float *c);
} mmci_half_loops;

/* Returns the fastest loops that this processor runs. */
const mmci_half_loops *mmci_half_loops_here(void);

extern const mmci_half_loops mmci_half_loops_portable;
#if defined(__x86_64__)
extern const mmci_half_loops mmci_half_loops_avx2, mmci_half_loops_avx512;
#endif

#endif

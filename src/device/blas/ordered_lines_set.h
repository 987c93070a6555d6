/* ordered_lines_set.h: defines SET, the loops in order for an instruction set whose operations the
 * file that includes this one has named. */
#include <stdbool.h>

#define SELDOM __attribute__((noinline))

enum { QUADS = sizeof(VECTOR_F32) / 16 }; /* of bytes in a vector */

/* Turn as many lines as a vector has of words, pairs of words, and fours. */
INLINE void turn_words(const VECTOR_F32 *from, VECTOR_F32 *to) {
  VECTOR_F32 quads[4][QUADS], terms[QUADS];
#pragma GCC unroll 16
  for (int q = 0; q < QUADS; q++, from += 4) {
    const VECTOR_F32 low = LOW_WORDS(from[0], from[1]), high = HIGH_WORDS(from[0], from[1]),
                     low_2 = LOW_WORDS(from[2], from[3]), high_2 = HIGH_WORDS(from[2], from[3]);
    quads[0][q] = LOW_PAIRS(low, low_2);
    quads[1][q] = HIGH_PAIRS(low, low_2);
    quads[2][q] = LOW_PAIRS(high, high_2);
    quads[3][q] = HIGH_PAIRS(high, high_2);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 4; i++) {
    turn_quads(quads[i], terms);
#pragma GCC unroll 16
    for (int q = 0; q < QUADS; q++) to[4 * q + i] = terms[q];
  }
}
INLINE void turn_pairs(const VECTOR_F32 *from, VECTOR_F32 *to) {
  VECTOR_F32 quads[2][QUADS], terms[QUADS];
#pragma GCC unroll 16
  for (int q = 0; q < QUADS; q++, from += 2) {
    quads[0][q] = LOW_PAIRS(from[0], from[1]);
    quads[1][q] = HIGH_PAIRS(from[0], from[1]);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 2; i++) {
    turn_quads(quads[i], terms);
#pragma GCC unroll 16
    for (int q = 0; q < QUADS; q++) to[2 * q + i] = terms[q];
  }
}
INLINE void turn_f32(const int parts, const VECTOR_F32 *from, VECTOR_F32 *to) {
  if (parts == 1)
    turn_words(from, to);
  else
    turn_pairs(from, to);
}
INLINE void turn_f64(const int parts, const VECTOR_F64 *from, VECTOR_F64 *to) {
  VECTOR_F32 lines[2 * QUADS], terms[2 * QUADS];
  const int count = parts == 1 ? 2 * QUADS : QUADS;
#pragma GCC unroll 16
  for (int l = 0; l < count; l++) lines[l] = F32_FROM_F64(from[l]);
  if (parts == 1)
    turn_pairs(lines, terms);
  else
    turn_quads(lines, terms);
#pragma GCC unroll 16
  for (int t = 0; t < count; t++) to[t] = F64_FROM_F32(terms[t]);
}

#define NUMBER float
#define NAME(x) x##_f32
#define VECTOR VECTOR_F32
#define MASK MASK_F32
#define WIDTH ((int)(sizeof(VECTOR) / sizeof(NUMBER)))
#define FIRST FIRST_F32
#define LOAD LOAD_F32
#define LOAD_FIRST LOAD_FIRST_F32
#define STORE STORE_F32
#define STORE_FIRST STORE_FIRST_F32
#define SPREAD SPREAD_F32
#define PAIR PAIR_F32
#define FMA FMA_F32
#define TIMES TIMES_F32
#define SIGNS SIGNS_F32
#define SWAP SWAP_F32
#define EVEN EVEN_F32
#define ODD ODD_F32
#define SETTLE SETTLE_F32
#define TURN turn_f32
#include "device/blas/ordered_lines_body.h"

#define NUMBER double
#define NAME(x) x##_f64
#define VECTOR VECTOR_F64
#define MASK MASK_F64
#define WIDTH ((int)(sizeof(VECTOR) / sizeof(NUMBER)))
#define FIRST FIRST_F64
#define LOAD LOAD_F64
#define LOAD_FIRST LOAD_FIRST_F64
#define STORE STORE_F64
#define STORE_FIRST STORE_FIRST_F64
#define SPREAD SPREAD_F64
#define PAIR PAIR_F64
#define FMA FMA_F64
#define TIMES TIMES_F64
#define SIGNS SIGNS_F64
#define SWAP SWAP_F64
#define EVEN EVEN_F64
#define ODD ODD_F64
#define SETTLE SETTLE_F64
#define TURN turn_f64
#include "device/blas/ordered_lines_body.h"

const mmci_ordered_set SET = {
    .lines = {lines_f32, lines_f64, complex_lines_f32, complex_lines_f64},
    .across = {across_f32, across_f64, complex_across_f32, complex_across_f64}};

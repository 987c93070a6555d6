/* tiled_loops.h: the loops whose traffic src/cost/traffic.h prices, counting every word they move.
 * Tiles at the edges are as small as what is left, so the counts are those of real loops; where the
 * tile divides the matrix they are what the formulas say. */
#ifndef MMC_TEST_TILED_LOOPS_H
#define MMC_TEST_TILED_LOOPS_H

#include <stdint.h>

static inline int64_t least_of(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* P0 x P1 by P1 x P2: a tile of the result stays on chip. The one write of the result is not
 * counted. */
static inline int64_t product_loops(int64_t p0, int64_t p1, int64_t p2, int64_t x, int64_t y) {
  int64_t words = 0;
  for (int64_t i = 0; i < p0; i += x)
    for (int64_t j = 0; j < p2; j += y)
      for (int64_t z = 0; z < p1; z++) {
        words += least_of(x, p0 - i); /* a column of the rows of A1 */
        words += least_of(y, p2 - j); /* a row of the columns of A2 */
      }
  return words;
}

/* (A1 A2) A3: a tile of T = A1 A2 stays on chip and is multiplied by A3 from there. The last write
 * of the result is not counted. */
static inline int64_t left_fuse_loops(const int64_t p[4], int64_t x, int64_t y) {
  int64_t words = 0;
  for (int64_t i = 0; i < p[0]; i += x)
    for (int64_t j = 0; j < p[2]; j += y) {
      int64_t rows = least_of(x, p[0] - i), cols = least_of(y, p[2] - j);
      for (int64_t z = 0; z < p[1]; z++) words += rows + cols;
      for (int64_t c = 0; c < p[3]; c++) {
        words += cols;                   /* of a column of A3 */
        if (j > 0) words += rows;        /* what R has so far */
        if (j + y < p[2]) words += rows; /* and has then */
      }
    }
  return words;
}

/* A1 (A2 A3), the mirror image: the transposed chain, fused left. */
static inline int64_t right_fuse_loops(const int64_t p[4], int64_t x, int64_t y) {
  return left_fuse_loops((const int64_t[]){p[3], p[2], p[1], p[0]}, y, x);
}

#endif

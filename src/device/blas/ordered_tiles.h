/* ordered_tiles.h: the innermost loops of ordered.h, compiled for several instruction sets. */
#ifndef MMCI_ORDERED_TILES_H
#define MMCI_ORDERED_TILES_H

#include <stdbool.h>
#include <stdint.h>

/* Continues the chains of a tile of C by k more terms: fused multiply-adds, and of words, unsigned
 * integers, products and sums modulo 2^32 or 2^64. a holds k columns of so many elements as the
 * tile has rows, b k rows of as many as it has columns, and sums the tile, row by row; all are
 * aligned to 64 bytes. Of complex elements, each column of a and row of b and the tile is followed
 * by that of its imaginary parts; with turned, an imaginary part takes Im a Re b first. */
typedef void (*mmci_ordered_fn)(int64_t k, const void *a, const void *b, void *sums, bool turned);

enum { MMCI_ORDERED_VECTORS = 3 };

/* A tile has so many rows, and up to so many vectors of columns; multiply[v] is for v + 1. */
typedef struct mmci_ordered_tile {
  int rows, width, vectors;
  mmci_ordered_fn multiply[MMCI_ORDERED_VECTORS];
} mmci_ordered_tile;

/* A row times a matrix: c is a row of n, which the chains begin with, x holds k elements, and
 * element (p, j) of the matrix is b[p * down + j * along], where one of the steps is 1. Steps are
 * in elements, and signs are those of imaginary parts. */
typedef struct mmci_ordered_row {
  int64_t k, n;
  const void *x, *b;
  void *c;
  int64_t x_step, down, along, c_step;
  double x_sign, b_sign;
  bool turned;
} mmci_ordered_row;

/* Pieces of sums side by side, one a lane: of each part, real or imaginary, of each line and term
 * an operand has a vector of so many lanes. The vector of a term, a line and a part lies so many
 * times term, line and part vectors behind the first one. */
typedef struct mmci_ordered_lattice {
  int64_t term, line, part;
} mmci_ordered_lattice;

enum { MMCI_ORDERED_LANES = 32, MMCI_ORDERED_LANE_LINES = 2 }; /* at most */

/* Lines of two operands, and sums of their products: element (r, c) lies r * sums_down + c * parts
 * vectors behind the first, its imaginary part behind it. */
typedef struct mmci_ordered_lane_sums {
  const void *a, *b;
  void *sums;
  mmci_ordered_lattice of_a, of_b;
  int64_t sums_down;
  bool turned;
} mmci_ordered_lane_sums;

/* Continues the chains of so many lines of a by so many lines of b by k more terms. */
typedef void (*mmci_ordered_lanes_fn)(int64_t k, const mmci_ordered_lane_sums *of);

/* A dot product of so many terms of every lane, which lie side by side in memory; terms fill 64
 * bytes, or multiples of them. Sums are real parts of all lanes, then imaginary ones. Signs are
 * those of imaginary parts. */
typedef struct mmci_ordered_dot {
  int lanes, count; /* all lanes, and the first ones, which are asked for */
  int64_t terms;
  const void *const *a, *const *b;
  void *sums;
  double a_sign, b_sign;
  bool turned;
} mmci_ordered_dot;

/* Their pieces are turned in registers, by AVX2 with AVX-512, too: more shuffles of 32 bytes go on
 * at once than of 64. */
void mmci_ordered_dot_f32_avx2(const mmci_ordered_dot *dot);
void mmci_ordered_dot_f64_avx2(const mmci_ordered_dot *dot);
void mmci_ordered_dot_c64_avx2(const mmci_ordered_dot *dot);
void mmci_ordered_dot_c128_avx2(const mmci_ordered_dot *dot);

typedef struct mmci_ordered_lanes {
  int count;
  void (*real_dot)(const mmci_ordered_dot *dot), (*complex_dot)(const mmci_ordered_dot *dot);
  /* Turns `count` neighbouring reals of each lane into vectors that lie step vectors apart. */
  void (*turn)(const void *const *lanes, int64_t count, void *to, int64_t step);
  mmci_ordered_lanes_fn real[MMCI_ORDERED_LANE_LINES][MMCI_ORDERED_LANE_LINES],
      complex[MMCI_ORDERED_LANE_LINES][MMCI_ORDERED_LANE_LINES];
} mmci_ordered_lanes;

typedef struct mmci_ordered_tiles {
  mmci_ordered_tile f32, f64, c64, c128, u32, u64;
  /* For long rows of real elements that lie side by side, as those of the matrix do. */
  void (*row_f32)(const mmci_ordered_row *row), (*row_f64)(const mmci_ordered_row *row);
  mmci_ordered_lanes lanes_f32, lanes_f64;
  /* Let zeros be +0 and NaN the positive quiet one without a payload. */
  void (*settle_f32)(float *line, int64_t n);
  void (*settle_f64)(double *line, int64_t n);
} mmci_ordered_tiles;

extern const mmci_ordered_tiles mmci_ordered_tiles_avx512, mmci_ordered_tiles_avx2,
    mmci_ordered_tiles_portable;

/* Returns the fastest ones for this processor. */
const mmci_ordered_tiles *mmci_ordered_tiles_here(void);

#endif

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

typedef struct mmci_ordered_tiles {
  mmci_ordered_tile f32, f64, c64, c128, u32, u64;
  void (*row_f32)(const mmci_ordered_row *row), (*row_f64)(const mmci_ordered_row *row),
      (*row_c64)(const mmci_ordered_row *row), (*row_c128)(const mmci_ordered_row *row);
  /* Let zeros be +0 and NaN the positive quiet one without a payload. */
  void (*settle_f32)(float *line, int64_t n);
  void (*settle_f64)(double *line, int64_t n);
} mmci_ordered_tiles;

extern const mmci_ordered_tiles mmci_ordered_tiles_avx512, mmci_ordered_tiles_avx2,
    mmci_ordered_tiles_portable;

/* Returns the fastest ones for this processor. */
const mmci_ordered_tiles *mmci_ordered_tiles_here(void);

#endif

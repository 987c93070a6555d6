/* semiring_tiles.h: the innermost loops of semiring.h, compiled for several instruction sets. */
#ifndef MMCI_SEMIRING_TILES_H
#define MMCI_SEMIRING_TILES_H

#include <stdbool.h>
#include <stdint.h>

/* Lets the elements of a tile be the greatest of themselves and of k more sums each. a holds k
 * columns of so many elements as the tile has rows, b k rows of as many as it has columns, and
 * tile the rows of the tile; all are aligned to 64 bytes, and no sum of elements is NaN. */
typedef void (*mmci_semiring_fn)(int64_t k, const void *a, const void *b, void *tile);

/* Lets n sums, aligned to 64 bytes, be the greatest of themselves and of k more each: of a[p] and
 * the element p * down + j * along of b, whose sign is changed where `least`; either down or along
 * is 1. Returns false where a sum may be NaN; these then mean nothing. */
typedef bool (*mmci_semiring_vector_fn)(int64_t k, int64_t n, const void *a, const void *b,
                                        int64_t down, int64_t along, bool least, void *sums);

enum { MMCI_SEMIRING_VECTORS = 4 };

/* A tile has so many rows, and up to so many vectors of columns; greatest[v] is for v + 1. */
typedef struct mmci_semiring_tile {
  int rows, width, vectors;
  mmci_semiring_fn greatest[MMCI_SEMIRING_VECTORS];
  mmci_semiring_vector_fn vector; /* for a row of C; NULL of integers */
} mmci_semiring_tile;

typedef struct mmci_semiring_tiles {
  mmci_semiring_tile f32, f64, i64;
} mmci_semiring_tiles;

extern const mmci_semiring_tiles mmci_semiring_tiles_avx512, mmci_semiring_tiles_avx2,
    mmci_semiring_tiles_portable;

/* Returns the fastest ones for this processor. */
const mmci_semiring_tiles *mmci_semiring_tiles_here(void);

#endif

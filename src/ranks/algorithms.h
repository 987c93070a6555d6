/* algorithms.h: how ranks multiply two matrices together: what layouts each way takes and gives,
 * and the words it sends.
 *
 *     row      A rows, B whole    -> C rows       nothing
 *     column   A whole, B columns -> C columns    nothing
 *     inner    A columns, B rows  -> C any block  (P - 1) m n, sums of partial products
 *     grid     all three grid     -> C grid       (cols - 1) m k + (rows - 1) k n
 *     all      A whole, B whole   -> C whole      nothing: every rank computes the whole product
 *
 * Making an operand whole is a change of its layout: (P - 1) k n words for B before "row". Only
 * ranks that have something to send do, so the words are exact for any dims and any P. */
#ifndef MMCI_RANKS_ALGORITHMS_H
#define MMCI_RANKS_ALGORITHMS_H

#include "ranks/layout.h"

typedef enum mmci_algorithm {
  MMCI_BY_ROW,
  MMCI_BY_COLUMN,
  MMCI_BY_INNER,
  MMCI_BY_GRID,
  MMCI_BY_ALL
} mmci_algorithm;

/* Returns "row", "column", "inner", "grid", "all". */
const char *mmci_algorithm_name(mmci_algorithm algorithm);

/* One way to multiply, with all that it takes. */
typedef struct mmci_way {
  mmci_algorithm algorithm;
  mmci_layout left, right, result;
} mmci_way;

/* Writes the ways of a product on so many ranks to ways, and returns how many there are: at most
 * MMCI_WAYS. On one rank there is one way, "row". */
enum { MMCI_GRIDS = 3, MMCI_LAYOUTS = 3 + MMCI_GRIDS, MMCI_WAYS = 3 + 2 + 2 * MMCI_GRIDS };
int mmci_ways(int32_t ranks, mmci_way ways[MMCI_WAYS]);

/* Writes the layouts that matrices may have on so many ranks, and returns how many: rows, columns,
 * whole, and grids, those nearest to a square; on one rank rows alone. */
int mmci_layouts(int32_t ranks, mmci_layout layouts[MMCI_LAYOUTS]);

/* Returns the words that all ranks send together while they multiply m x k by k x n. */
mmci_u128 mmci_way_words(const mmci_way *way, int64_t m, int64_t k, int64_t n);

/* Returns the multiplications of the rank that does most. */
mmci_u128 mmci_way_multiplications(const mmci_way *way, int64_t m, int64_t k, int64_t n);

/* Returns the multiplications of all ranks together. */
mmci_u128 mmci_way_total(const mmci_way *way, int64_t m, int64_t k, int64_t n);

/* Returns the messages that a rank sends or waits for, one after the other. */
int64_t mmci_way_messages(const mmci_way *way, int64_t m, int64_t k, int64_t n);

/* Returns the words that a rank reads or writes besides its pieces of A, B and C. */
mmci_u128 mmci_way_buffer_words(const mmci_way *way, int64_t m, int64_t k, int64_t n);

/* Returns the most words that a rank holds at once besides its pieces of A, B and C: with what is
 * packed and what has come, but is not where it belongs. */
mmci_u128 mmci_way_held_words(const mmci_way *way, int64_t m, int64_t k, int64_t n);

#endif

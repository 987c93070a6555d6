/* structured_loops.h: products with narrow bands and with permutations, by loops over lines.
 *
 * C := M B, where lines of B and C are their rows, or Z := M z for each line z, where lines are
 * what lies in one piece. So a matrix that lies by columns, or that M stands behind, is multiplied
 * as its transposed. */
#ifndef MMCI_STRUCTURED_LOOPS_H
#define MMCI_STRUCTURED_LOOPS_H

#include "chain/traits.h"

/* M is side x side; element (i, j) is at i * row_step + j * column_step of data. */
typedef struct mmci_line_matrix {
  const void *data;
  int64_t side, row_step, column_step;
  bool conj;
  mmc_band band;
  /* Of a permutation that is given by its index, the elements from one number of that to the next;
   * else 0. Where turned, M is the transposed one of that permutation. */
  int64_t index_step;
  bool turned;
} mmci_line_matrix;

/* Lines of B and C, length elements long. */
typedef struct mmci_lines {
  const void *b;
  void *c;
  int64_t ldb, ldc, count, length;
  bool along;      /* M goes along each line, else across them: it mixes lines */
  mmc_band b_band; /* line l of B is zero before element l - below and behind l + above */
} mmci_lines;

/* Returns how many elements of scratch a band takes. */
static inline int64_t mmci_band_scratch(mmc_band band, int64_t side) {
  return (band.below + band.above + 1) * side;
}
void mmci_band_lines(mmc_dtype dtype, const mmci_line_matrix *m, const mmci_lines *lines,
                     void *scratch);

/* Makes a square matrix its own transposed, conjugated where it is complex. */
void mmci_transpose_square(mmc_dtype dtype, void *z, int64_t n, int64_t ld);

/* Permutes; index has room for side numbers. */
void mmci_permute_lines(mmc_dtype dtype, const mmci_line_matrix *m, const mmci_lines *lines,
                        int64_t *index);

#endif

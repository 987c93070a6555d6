/* band_solves.h: solves with factors of banded matrices, for several right-hand sides at once.
 *
 * LAPACK solves column by column, and every element of a column waits for that before it. Here so
 * many columns as a few vectors hold are laid by rows, and a row is computed at once. */
#ifndef MMCI_BLAS_BAND_SOLVES_H
#define MMCI_BLAS_BAND_SOLVES_H

#include "chain/structured.h"

/* One triangle: element (i, j) lies at i * row_step + j * column_step, and is zero where i and j
 * differ by more than the width. */
typedef struct mmci_band_triangle {
  const void *at;
  int64_t row_step, column_step, width;
  bool lower, unit;
} mmci_band_triangle;

/* What is done before the triangles: the eliminations of LU with exchanges of rows. Row j is
 * exchanged with row exchanges(j), and then taken from those below. */
typedef struct mmci_band_eliminations {
  const void *at; /* NULL where there are none; steps as above */
  int64_t row_step, column_step, width;
  const void *pivots; /* of LAPACK, from 1 on */
  bool narrow;        /* they have 32 bits */
} mmci_band_eliminations;

/* Says whether mmci_band_solve() takes these: of a real dtype, with so many columns that it is the
 * faster. */
bool mmci_band_solve_takes(mmc_dtype dtype, int64_t columns);

/* Solves with the eliminations and then with the triangles, in place; Z is rows x cols and
 * column-major. */
mmc_status mmci_band_solve(const mmci_structured *product, void *z,
                           const mmci_band_eliminations *eliminations,
                           const mmci_band_triangle *triangles, int count, mmci_error *error);

#endif

#include "device/blas/band_solves.h"

#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/sizes.h"

/* So many columns are solved for at once: few enough that what a row reads of those before it stays
 * in the innermost cache. */
enum { LANES = 16, ROWS = 8 };

static int64_t pivot_at(const mmci_band_eliminations *e, int64_t i) {
  return e->narrow ? ((const int32_t *)e->pivots)[i] : ((const int64_t *)e->pivots)[i];
}

/* Defines the work of one dtype on a piece x, n rows of LANES elements. */
#define SOLVES(suffix, type)                                                                      \
  static inline void subtract_##suffix(type *restrict x, const type *restrict y, type factor) {   \
    for (int t = 0; t < LANES; t++) x[t] -= factor * y[t];                                        \
  }                                                                                               \
  static void substitute_##suffix(const mmci_band_triangle *r, int64_t n, type *x) {              \
    const type *at = r->at;                                                                       \
    for (int64_t step = 0; step < n; step++) {                                                    \
      const int64_t i = r->lower ? step : n - 1 - step;                                           \
      const int64_t first = r->lower ? mmci_larger(0, i - r->width) : i + 1,                      \
                    end = r->lower ? i : mmci_smaller(n, i + r->width + 1);                       \
      const type *row = at + i * r->row_step;                                                     \
      for (int64_t j = first; j < end; j++)                                                       \
        subtract_##suffix(x + i * LANES, x + j * LANES, row[j * r->column_step]);                 \
      if (r->unit) continue;                                                                      \
      const type diagonal = row[i * r->column_step];                                              \
      for (int t = 0; t < LANES; t++) x[i * LANES + t] /= diagonal;                               \
    }                                                                                             \
  }                                                                                               \
  static void eliminate_##suffix(const mmci_band_eliminations *e, int64_t n, type *x) {           \
    const type *at = e->at;                                                                       \
    for (int64_t j = 0; j < n; j++) {                                                             \
      type *here = x + j * LANES, *other = x + (pivot_at(e, j) - 1) * LANES;                      \
      for (int t = 0; t < LANES && other != here; t++) {                                          \
        const type kept = here[t];                                                                \
        here[t] = other[t];                                                                       \
        other[t] = kept;                                                                          \
      }                                                                                           \
      const int64_t end = mmci_smaller(n, j + e->width + 1);                                      \
      for (int64_t i = j + 1; i < end; i++)                                                       \
        subtract_##suffix(x + i * LANES, here, at[i * e->row_step + j * e->column_step]);         \
    }                                                                                             \
  }                                                                                               \
  /* Copies columns to rows, or back. */                                                          \
  static void lay_##suffix(type *z, int64_t ld, int64_t n, int64_t columns, type *x, bool back) { \
    for (int64_t i0 = 0; i0 < n; i0 += ROWS)                                                      \
      for (int64_t t = 0; t < columns; t++)                                                       \
        for (int64_t i = i0; i < n && i < i0 + ROWS; i++)                                         \
          if (back)                                                                               \
            z[t * ld + i] = x[i * LANES + t];                                                     \
          else                                                                                    \
            x[i * LANES + t] = z[t * ld + i];                                                     \
  }                                                                                               \
  static void solve_##suffix(const mmci_structured *p, type *z, const mmci_band_eliminations *e,  \
                             const mmci_band_triangle *triangles, int count, type *x) {           \
    for (int64_t j = 0; j < p->cols; j += LANES) {                                                \
      const int64_t columns = mmci_smaller(LANES, p->cols - j);                                   \
      lay_##suffix(z + j * p->ldz, p->ldz, p->rows, columns, x, false);                           \
      if (e->at != NULL) eliminate_##suffix(e, p->rows, x);                                       \
      for (int k = 0; k < count; k++) substitute_##suffix(&triangles[k], p->rows, x);             \
      lay_##suffix(z + j * p->ldz, p->ldz, p->rows, columns, x, true);                            \
    }                                                                                             \
  }
SOLVES(f32, float)
SOLVES(f64, double)

bool mmci_band_solve_takes(mmc_dtype dtype, int64_t columns) {
  return (dtype == MMC_F32 || dtype == MMC_F64) && columns >= MMCI_BAND_LINES;
}

mmc_status mmci_band_solve(const mmci_structured *product, void *z,
                           const mmci_band_eliminations *eliminations,
                           const mmci_band_triangle *triangles, int count, mmci_error *error) {
  const size_t bytes = (size_t)product->rows * LANES * mmc_dtype_size(product->dtype);
  void *x = mmci_alloc_zeroed(bytes, 1); /* lanes that have no column stay zero */
  if (x == NULL) return mmci_fail_nomem(error, bytes);
  if (product->dtype == MMC_F32)
    solve_f32(product, z, eliminations, triangles, count, x);
  else
    solve_f64(product, z, eliminations, triangles, count, x);
  free(x);
  return MMC_OK;
}

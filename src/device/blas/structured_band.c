#include "device/blas/structured_band.h"

#include <string.h>

#include "base/address.h"
#include "base/alloc.h"
#include "base/dtype.h"
#include "base/sizes.h"
#include "device/blas/band_solves.h"

/* ---- products -------------------------------------------------------------------------------- */

/* An operand: op(x), as it lies. */
typedef struct operand {
  const void *at;
  int64_t ld;
  mmc_op op;
} operand;

/* Returns the address of op(x) from element (r, c) on. */
static const void *place(const operand *x, mmc_dtype dtype, int64_t r, int64_t c) {
  const int64_t element = x->op == MMC_OP_N ? c * x->ld + r : r * x->ld + c;
  return mmci_address(x->at, element * (int64_t)mmc_dtype_size(dtype));
}

static void multiply_by_symmetric(const mmci_structured *p, void *z, const void *s) {
  const mmci_lapack *x = mmci_lapack_of(p->dtype);
  (p->hermitian ? x->hemm : x->symm)(p->right ? "R" : "L", "L", &p->rows, &p->cols,
                                     mmci_lapack_one_of(p->dtype), s, &p->lds, p->b, &p->ldb,
                                     mmci_lapack_zero_of(p->dtype), z, &p->ldz, 1, 1);
}

/* The vector is a column of Z, or a row. */
static void multiply_symmetric(const mmci_structured *p, void *z, const void *s) {
  const mmci_lapack *x = mmci_lapack_of(p->dtype);
  const int64_t side = p->right ? p->cols : p->rows, step_b = p->right ? p->ldb : 1,
                step_z = p->right ? p->ldz : 1;
  (p->hermitian ? x->hemv : x->symv)("L", &side, mmci_lapack_one_of(p->dtype), s, &p->lds, p->b,
                                     &step_b, mmci_lapack_zero_of(p->dtype), z, &step_z, 1);
}

/* Multiplies block by block: of what a block of rows of the left operand and one of columns of the
 * right one have that is not zero. Z is written whole. */
static void multiply_blocks(const mmci_structured *p, char *z, const void *s) {
  const mmci_lapack *x = mmci_lapack_of(p->dtype);
  const int64_t size = (int64_t)mmc_dtype_size(p->dtype), side = p->right ? p->cols : p->rows,
                count = p->right ? p->rows : p->cols;
  const operand special = {s, p->lds, p->op}, other = {p->b, p->ldb, p->b_op};
  const operand *left = p->right ? &other : &special, *right = p->right ? &special : &other;
  const mmc_band everything = mmci_band_full(mmci_larger(side, count) + 1);
  const mmc_band rest = side == count ? p->b_band : everything;
  const mmc_band a = p->right ? rest : p->band, b = p->right ? p->band : rest;
  /* Only a banded operand is cut; of two, as the one whose band is wider would be. */
  const bool cuts_rows = a.below + a.above < 2 * (side - 1),
             cuts_columns = b.below + b.above < 2 * (side - 1);
  const int64_t block = mmci_structure_block(side, p->band.below + p->band.above + 1);
  const int64_t rows = cuts_rows ? block : p->rows, columns = cuts_columns ? block : p->cols;
  for (int64_t j = 0; j < p->cols; j += columns)
    for (int64_t i = 0; i < p->rows; i += rows) {
      const int64_t m = mmci_smaller(rows, p->rows - i), n = mmci_smaller(columns, p->cols - j);
      /* k runs over what the rows have, and the columns. */
      int64_t first = 0, end = side;
      if (cuts_rows) {
        first = mmci_larger(0, i - a.below);
        end = mmci_smaller(end, i + m + a.above);
      }
      if (cuts_columns) {
        first = mmci_larger(first, j - b.above);
        end = mmci_smaller(end, j + n + b.below);
      }
      char *c = mmci_address(z, (j * p->ldz + i) * size);
      const int64_t k = end - first;
      for (int64_t t = 0; t < n && k <= 0; t++)
        memset(mmci_address(c, t * p->ldz * size), 0, (size_t)(m * size));
      if (k > 0)
        x->gemm(mmci_lapack_letter_of(left->op), mmci_lapack_letter_of(right->op), &m, &n, &k,
                mmci_lapack_one_of(p->dtype), place(left, p->dtype, i, first), &left->ld,
                place(right, p->dtype, first, j), &right->ld, mmci_lapack_zero_of(p->dtype), c,
                &p->ldz, 1, 1);
    }
}

/* ---- solves ---------------------------------------------------------------------------------- */

/* Returns the first row with a zero on the diagonal of S, which lies whole, from 1 on; 0 for none.
 */
static int64_t zero_row(const mmci_structured *p, const void *s) {
  const int64_t size = (int64_t)mmc_dtype_size(p->dtype);
  for (int64_t i = 0; i < p->rows; i++) {
    const void *at = mmci_address(s, i * (p->lds + 1) * size);
    if (p->dtype == MMC_F32 ? *(const float *)at == 0 : *(const double *)at == 0) return i + 1;
  }
  return 0;
}

/* S lies whole: its diagonals are ld + 1 elements apart, as in LAPACK's band storage with one row
 * more. */
static mmc_status solve_triangular(const mmci_structured *p, void *z, const void *s, int64_t *pivot,
                                   mmci_error *error) {
  const mmci_lapack *x = mmci_lapack_of(p->dtype);
  const int64_t width = mmci_larger(p->band.below, p->band.above), ld = p->lds + 1;
  const bool lower = (p->traits & MMC_LOWER) != 0, turned = p->op != MMC_OP_N,
             unit = (p->traits & MMC_UNIT) != 0;
  if (mmci_band_solve_takes(p->dtype, p->cols)) {
    const mmci_band_eliminations none = {0};
    const mmci_band_triangle triangle = {s,     turned ? p->lds : 1, turned ? 1 : p->lds,
                                         width, lower != turned,     unit};
    *pivot = unit ? 0 : zero_row(p, s);
    return *pivot != 0 ? MMC_OK : mmci_band_solve(p, z, &none, &triangle, 1, error);
  }
  const void *band = mmci_address(s, lower ? 0 : -width * (int64_t)mmc_dtype_size(p->dtype));
  int64_t info = 0;
  x->tbtrs(mmci_lapack_half_of(p->traits), mmci_lapack_letter_of(p->op),
           mmci_lapack_diagonal_of(p->traits), &p->rows, &width, &p->cols, band, &ld, z, &p->ldz,
           &info, 1, 1, 1);
  *pivot = mmci_lapack_row_of(info);
  return MMC_OK;
}

static mmc_status solve_definite(const mmci_structured *p, void *z, void *s, int64_t *pivot,
                                 mmci_error *error) {
  const mmci_lapack *x = mmci_lapack_of(p->dtype);
  int64_t info = 0;
  x->pbtrf("L", &p->rows, &p->band.below, s, &p->lds, &info, 1);
  *pivot = mmci_lapack_row_of(info);
  if (*pivot != 0) return MMC_OK;
  if (mmci_band_solve_takes(p->dtype, p->cols)) { /* L, and then its transposed */
    const mmci_band_eliminations none = {0};
    const mmci_band_triangle triangles[] = {{s, 1, p->lds - 1, p->band.below, true, false},
                                            {s, p->lds - 1, 1, p->band.below, false, false}};
    return mmci_band_solve(p, z, &none, triangles, 2, error);
  }
  x->pbtrs("L", &p->rows, &p->band.below, &p->cols, s, &p->lds, z, &p->ldz, &info, 1);
  return MMC_OK;
}

/* The factor U has a second diagonal above the main one, which follows the others in S. */
static mmc_status solve_tridiagonal(const mmci_structured *p, void *z, void *s, int64_t *pivot,
                                    mmci_error *error) {
  const mmci_lapack *x = mmci_lapack_of(p->dtype);
  const int64_t length = p->lds * (int64_t)mmc_dtype_size(p->dtype);
  void *main = mmci_address(s, length), *above = mmci_address(s, 2 * length);
  int64_t info = 0;
  if (!mmci_band_solve_takes(p->dtype, p->cols)) {
    x->gtsv(&p->rows, &p->cols, s, main, above, z, &p->ldz, &info);
    *pivot = mmci_lapack_row_of(info);
    return MMC_OK;
  }
  const size_t bytes = (size_t)p->rows * sizeof(int64_t);
  void *pivots = mmci_alloc_zeroed(bytes, 1);
  if (pivots == NULL) return mmci_fail_nomem(error, bytes);
  x->gttrf(&p->rows, s, main, above, mmci_address(s, 3 * length), pivots, &info);
  *pivot = mmci_lapack_row_of(info);
  const mmci_band_eliminations lower = {s, 0, 1, 1, pivots, mmci_lapack_is_narrow()};
  const mmci_band_triangle upper = {main, 1 - p->lds, p->lds, 2, false, false};
  mmc_status status = MMC_OK;
  if (*pivot == 0) status = mmci_band_solve(p, z, &lower, &upper, 1, error);
  free(pivots);
  return status;
}

static mmc_status solve_general(const mmci_structured *p, void *z, void *s, int64_t *pivot,
                                mmci_error *error) {
  const mmci_lapack *x = mmci_lapack_of(p->dtype);
  const int64_t below = p->band.below, over = below + p->band.above;
  const size_t bytes = (size_t)p->rows * sizeof(int64_t);
  int64_t info = 0;
  mmc_status status = MMC_OK;
  void *pivots = mmci_alloc_zeroed(bytes, 1);
  if (pivots == NULL) return mmci_fail_nomem(error, bytes);
  x->gbtrf(&p->rows, &p->rows, &below, &p->band.above, s, &p->lds, pivots, &info);
  *pivot = mmci_lapack_row_of(info);
  if (*pivot == 0 && mmci_band_solve_takes(p->dtype, p->cols)) {
    const void *main = mmci_address(s, over * (int64_t)mmc_dtype_size(p->dtype));
    const mmci_band_eliminations lower = {main,  1,      p->lds - 1,
                                          below, pivots, mmci_lapack_is_narrow()};
    const mmci_band_triangle upper = {main, 1, p->lds - 1, over, false, false};
    status = mmci_band_solve(p, z, &lower, &upper, 1, error);
  } else if (*pivot == 0) {
    x->gbtrs("N", &p->rows, &below, &p->band.above, &p->cols, s, &p->lds, pivots, z, &p->ldz, &info,
             1);
  }
  free(pivots);
  return status;
}

mmc_status mmci_blas_banded(const mmci_structured *product, void *z, void *s, int64_t *pivot,
                            mmci_error *error) {
  switch (product->kernel) {
    case MMCI_STRUCTURE_SYMV:
      multiply_symmetric(product, z, s);
      return MMC_OK;
    case MMCI_STRUCTURE_SYMM:
      multiply_by_symmetric(product, z, s);
      return MMC_OK;
    case MMCI_STRUCTURE_BLOCKS:
      multiply_blocks(product, z, s);
      return MMC_OK;
    case MMCI_STRUCTURE_TBSV:
      return solve_triangular(product, z, s, pivot, error);
    case MMCI_STRUCTURE_PBSV:
      return solve_definite(product, z, s, pivot, error);
    case MMCI_STRUCTURE_GTSV:
      return solve_tridiagonal(product, z, s, pivot, error);
    case MMCI_STRUCTURE_GBSV:
      return solve_general(product, z, s, pivot, error);
    default:
      return mmci_fail(error, MMC_E_UNSUPPORTED, "device 'blas': no such kernel");
  }
}

#include "fake_structured.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>

#include "../complex_number.h"
#include "../elements.h"

typedef double complex number;

/* A column-major matrix of numbers, without gaps. */
typedef struct matrix {
  int64_t rows, cols;
  number *at;
} matrix;

static matrix matrix_of(int64_t rows, int64_t cols) {
  matrix x = {rows, cols, calloc((size_t)(rows * cols) + 1, sizeof *x.at)};
  if (x.at == NULL) abort();
  return x;
}

static number *item(const matrix *x, int64_t r, int64_t c) {
  return &x->at[c * x->rows + r];
}

/* op(X), of rows x cols, of a column-major X with ld; of a triangle only that half is read. */
static matrix read_matrix(mmc_dtype dtype, const char *data, int64_t ld, mmc_op op, int64_t rows,
                          int64_t cols, uint32_t half) {
  matrix x = matrix_of(rows, cols);
  const bool turned = op != MMC_OP_N;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++) {
      const int64_t i = turned ? c : r, j = turned ? r : c;
      if (((half & MMC_LOWER) != 0 && i < j) || ((half & MMC_UPPER) != 0 && i > j)) continue;
      if ((half & MMC_UNIT) != 0 && i == j) {
        *item(&x, r, c) = 1;
        continue;
      }
      const element e = element_read(
          dtype, (const unsigned char *)data + (size_t)(j * ld + i) * mmc_dtype_size(dtype));
      const double im = mmci_dtype_is_complex(dtype) ? e.im : 0;
      *item(&x, r, c) = CMPLX(e.re, op == MMC_OP_H ? -im : im);
    }
  return x;
}

static void write_matrix(mmc_dtype dtype, const matrix *x, char *data, int64_t ld) {
  for (int64_t r = 0; r < x->rows; r++)
    for (int64_t c = 0; c < x->cols; c++)
      element_write(dtype, (unsigned char *)data + (size_t)(c * ld + r) * mmc_dtype_size(dtype),
                    (element){creal(*item(x, r, c)), cimag(*item(x, r, c))});
}

static matrix multiply(const matrix *a, const matrix *b) {
  matrix c = matrix_of(a->rows, b->cols);
  for (int64_t i = 0; i < a->rows; i++)
    for (int64_t j = 0; j < b->cols; j++)
      for (int64_t k = 0; k < a->cols; k++) *item(&c, i, j) += *item(a, i, k) * *item(b, k, j);
  return c;
}

/* X := A^-1 X by elimination with pivots; returns the column that has none, from 1, or 0. */
static int32_t eliminate(matrix *a, matrix *x) {
  const int64_t n = a->rows;
  for (int64_t k = 0; k < n; k++) {
    int64_t best = k;
    for (int64_t r = k + 1; r < n; r++)
      if (cabs(*item(a, r, k)) > cabs(*item(a, best, k))) best = r;
    if (*item(a, best, k) == 0) return (int32_t)k + 1;
    for (int64_t c = 0; c < n && best != k; c++) {
      const number kept = *item(a, k, c);
      *item(a, k, c) = *item(a, best, c);
      *item(a, best, c) = kept;
    }
    for (int64_t c = 0; c < x->cols && best != k; c++) {
      const number kept = *item(x, k, c);
      *item(x, k, c) = *item(x, best, c);
      *item(x, best, c) = kept;
    }
    for (int64_t r = 0; r < n; r++) {
      if (r == k) continue;
      const number factor = *item(a, r, k) / *item(a, k, k);
      for (int64_t c = k; c < n; c++) *item(a, r, c) -= factor * *item(a, k, c);
      for (int64_t c = 0; c < x->cols; c++) *item(x, r, c) -= factor * *item(x, k, c);
    }
  }
  for (int64_t k = 0; k < n; k++)
    for (int64_t c = 0; c < x->cols; c++) *item(x, k, c) /= *item(a, k, k);
  return 0;
}

/* Returns the row, from 1, at which Cholesky's factorisation ends, or 0. */
static int32_t indefinite_at(const matrix *a) {
  matrix l = matrix_of(a->rows, a->rows);
  int32_t found = 0;
  for (int64_t j = 0; j < a->rows && found == 0; j++) {
    double d = creal(*item(a, j, j));
    for (int64_t k = 0; k < j; k++) d -= pow(cabs(*item(&l, j, k)), 2);
    if (!(d > 0)) {
      found = (int32_t)j + 1;
      break;
    }
    *item(&l, j, j) = sqrt(d);
    for (int64_t i = j + 1; i < a->rows; i++) {
      number sum = *item(a, i, j);
      for (int64_t k = 0; k < j; k++) sum -= *item(&l, i, k) * conj(*item(&l, j, k));
      *item(&l, i, j) = sum / *item(&l, j, j);
    }
  }
  free(l.at);
  return found;
}

static int32_t zero_on_diagonal(const matrix *a) {
  for (int64_t i = 0; i < a->rows; i++)
    if (*item(a, i, i) == 0) return (int32_t)i + 1;
  return 0;
}

static matrix transposed(const matrix *x) {
  matrix t = matrix_of(x->cols, x->rows);
  for (int64_t r = 0; r < x->rows; r++)
    for (int64_t c = 0; c < x->cols; c++) *item(&t, c, r) = *item(x, r, c);
  return t;
}

static void replace(matrix *x, matrix by) {
  free(x->at);
  *x = by;
}

/* x := a^-1 x, or x a^-1; returns the pivot. */
static int32_t solve(matrix *a, matrix *x, bool right, bool triangular, bool definite) {
  int32_t pivot = triangular ? zero_on_diagonal(a) : definite ? indefinite_at(a) : 0;
  if (pivot != 0) return pivot;
  if (right) {
    replace(a, transposed(a));
    replace(x, transposed(x));
  }
  pivot = eliminate(a, x);
  if (right) replace(x, transposed(x));
  return pivot;
}

static int32_t invert(const mmci_structured *p, char *z) {
  const bool orthogonal = (p->traits & MMC_ORTHOGONAL) != 0;
  const uint32_t half = p->traits & (MMC_LOWER | MMC_UPPER);
  const bool diagonal = half == (MMC_LOWER | MMC_UPPER);
  matrix a = read_matrix(p->dtype, z, p->ldz, orthogonal && !diagonal ? MMC_OP_H : MMC_OP_N,
                         p->rows, p->rows, p->traits & (MMC_LOWER | MMC_UPPER | MMC_UNIT));
  matrix x = matrix_of(p->rows, p->rows);
  for (int64_t i = 0; i < p->rows; i++) *item(&x, i, i) = 1;
  int32_t pivot = 0;
  if (orthogonal && !diagonal)
    write_matrix(p->dtype, &a, z, p->ldz);
  else
    pivot = solve(&a, &x, false, half != 0, half == 0 && (p->traits & MMC_POSITIVE_DEFINITE) != 0);
  if (pivot == 0 && (!orthogonal || diagonal)) write_matrix(p->dtype, &x, z, p->ldz);
  free(a.at);
  free(x.at);
  return pivot;
}

static int32_t solve_with(const mmci_structured *p, char *z, char *s) {
  const int64_t side = p->right ? p->cols : p->rows;
  const bool triangular = p->kernel == MMCI_STRUCTURE_TRSM;
  const uint32_t half = triangular ? p->traits & (MMC_LOWER | MMC_UPPER | MMC_UNIT) : 0;
  matrix a = read_matrix(p->dtype, s, p->lds, p->op, side, side, half);
  matrix x = read_matrix(p->dtype, z, p->ldz, MMC_OP_N, p->rows, p->cols, 0);
  const int32_t pivot = solve(&a, &x, p->right, triangular, p->kernel == MMCI_STRUCTURE_POSV);
  if (pivot == 0) write_matrix(p->dtype, &x, z, p->ldz);
  if (!triangular) write_matrix(p->dtype, &a, s, p->lds); /* it is overwritten */
  free(a.at);
  free(x.at);
  return pivot;
}

static void multiply_mirrored(const mmci_structured *p, char *z, const char *s) {
  const bool turned = p->op != MMC_OP_N;
  const mmc_op op = !turned ? MMC_OP_N : p->hermitian ? MMC_OP_H : MMC_OP_T;
  matrix a = read_matrix(p->dtype, s, p->lds, op, p->rows, p->depth, 0), b = transposed(&a);
  for (int64_t i = 0; i < b.rows * b.cols && p->hermitian; i++) b.at[i] = conj(b.at[i]);
  matrix c = multiply(&a, &b);
  write_matrix(p->dtype, &c, z, p->ldz);
  free(a.at);
  free(b.at);
  free(c.at);
}

static int32_t multiply_apart(const mmci_structured *p, char *z, const char *s, const char *b) {
  const int64_t side = p->right ? p->cols : p->rows;
  const bool scales = p->kernel == MMCI_STRUCTURE_SCALE;
  const uint32_t half = p->kernel == MMCI_STRUCTURE_TRMM || p->kernel == MMCI_STRUCTURE_TRTRMM
                            ? p->traits & (MMC_LOWER | MMC_UPPER | MMC_UNIT)
                        : scales ? MMC_LOWER | MMC_UPPER
                                 : 0;
  matrix a = read_matrix(p->dtype, s, p->lds, p->op, side, side, half);
  matrix x = read_matrix(p->dtype, b, p->ldb, p->b_op, p->rows, p->cols, 0);
  for (int64_t r = 0; r < side && p->kernel == MMCI_STRUCTURE_BAND; r++)
    for (int64_t c = 0; c < side; c++)
      if (r - c > p->band.below || c - r > p->band.above) *item(&a, r, c) = 0;
  const int32_t pivot = p->divides ? zero_on_diagonal(&a) : 0;
  for (int64_t i = 0; i < side && p->divides && pivot == 0; i++)
    *item(&a, i, i) = 1 / *item(&a, i, i);
  matrix c = p->right ? multiply(&x, &a) : multiply(&a, &x);
  write_matrix(p->dtype, &c, z, p->ldz);
  free(a.at);
  free(x.at);
  free(c.at);
  return pivot;
}

void fake_structured(const mmci_structured *p, char *z, char *s, const char *b, int32_t *pivot) {
  int32_t found = 0;
  if (p->rows == 0 || p->cols == 0)
    found = 0;
  else if (p->inverts)
    found = invert(p, z);
  else if (p->kernel == MMCI_STRUCTURE_SYRK)
    multiply_mirrored(p, z, s);
  else if (p->kernel >= MMCI_STRUCTURE_TRSM && p->kernel <= MMCI_STRUCTURE_GESV)
    found = solve_with(p, z, s);
  else
    found = multiply_apart(p, z, s, b);
  if (mmci_structured_has_pivot(p)) *pivot = found;
}

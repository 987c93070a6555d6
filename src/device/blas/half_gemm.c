/* half_gemm.c: factors are widened to f32 and multiplied, panel by panel, and a panel of C is
 * rounded when it is complete. */
#include "device/blas/half_gemm.h"

#include "base/address.h"
#include "base/interrupt.h"
#include "device/blas/cblas_table.h"
#include "device/blas/half_loops.h"
#include "device/blas/ordered_tiles.h"
#include "device/blas/vector_loops.h"

static int panel_length(int64_t rest) {
  return rest < MMCI_HALF_PANEL ? (int)rest : MMCI_HALF_PANEL;
}

/* Widens lines of an operand, which begin ld elements apart and then to_ld floats. */
static void widen(mmc_dtype dtype, const uint16_t *from, int64_t ld, int64_t lines, int64_t length,
                  float *to, int64_t to_ld) {
  const mmci_half_loops *loops = mmci_half_loops_here();
  const bool is_f16 = dtype == MMC_F16;
  if (ld == length && to_ld == length) {
    length *= lines;
    lines = 1;
  }
  for (int64_t i = 0; i < lines; i++, from += ld, to += to_ld)
    (is_f16 ? loops->widen_f16 : loops->widen_bf16)(from, length, to);
}

static void round_off(mmc_dtype dtype, const float *from, int64_t from_ld, int64_t lines,
                      int64_t length, uint16_t *to, int64_t ld) {
  const mmci_half_loops *loops = mmci_half_loops_here();
  const bool is_f16 = dtype == MMC_F16;
  if (ld == length && from_ld == length) {
    length *= lines;
    lines = 1;
  }
  for (int64_t i = 0; i < lines; i++, from += from_ld, to += ld)
    (is_f16 ? loops->round_f16 : loops->round_bf16)(from, length, to);
}

/* Widens rows x cols of an operand from (row, col) on, in the layout in which they are stored. */
static void widen_operand(mmc_dtype dtype, const uint16_t *data, const mmci_form *form, int64_t row,
                          int64_t col, int rows, int cols, float *to) {
  if (form->trans)
    widen(dtype, data + col * form->ld + row, form->ld, cols, rows, to, rows);
  else
    widen(dtype, data + row * form->ld + col, form->ld, rows, cols, to, cols);
}

mmc_status mmci_half_gemm(const mmci_gemm *gemm, const void *a, const void *b, void *c,
                          mmci_half_panels *panels, mmci_error *error) {
  int a_op = gemm->a.trans ? MMCI_CBLAS_T : MMCI_CBLAS_N;
  int b_op = gemm->b.trans ? MMCI_CBLAS_T : MMCI_CBLAS_N;
  for (int64_t i = 0; i < gemm->m; i += MMCI_HALF_PANEL)
    for (int64_t j = 0; j < gemm->n; j += MMCI_HALF_PANEL) {
      int m = panel_length(gemm->m - i), n = panel_length(gemm->n - j);
      uint16_t *corner = (uint16_t *)c + i * gemm->ldc + j;
      if (gemm->accumulate) widen(gemm->dtype, corner, gemm->ldc, m, n, panels->c, n);
      for (int64_t l = 0; l < gemm->k; l += MMCI_HALF_PANEL) {
        int k = panel_length(gemm->k - l);
        widen_operand(gemm->dtype, a, &gemm->a, i, l, m, k, panels->a);
        widen_operand(gemm->dtype, b, &gemm->b, l, j, k, n, panels->b);
        mmci_blas.sgemm(MMCI_CBLAS_ROW_MAJOR, a_op, b_op, m, n, k, 1, panels->a,
                        gemm->a.trans ? m : k, panels->b, gemm->b.trans ? k : n,
                        l > 0 || gemm->accumulate ? 1 : 0, panels->c, n);
        if (mmci_interrupted())
          return mmci_fail(error, MMC_E_INTERRUPTED, "stopped within a product");
      }
      round_off(gemm->dtype, panels->c, n, m, n, corner, gemm->ldc);
    }
  return MMC_OK;
}

/* ---- small products -------------------------------------------------------------------------- */

/* Rows of A and C that are in f32 at a time. */
enum { FEW_ROWS = 32 };

bool mmci_half_is_small(const mmci_gemm *gemm) {
  return gemm->m <= MMCI_HALF_SMALL && gemm->k <= MMCI_HALF_SMALL && gemm->n <= MMCI_HALF_SMALL;
}

/* Widens B, k lines of n elements; of a transposed one each column is a line in memory. What is
 * behind the last element of a line is multiplied with the rest, and is zero. */
static void widen_right(const mmci_gemm *gemm, const uint16_t *b, int64_t line, float *to) {
  for (int64_t l = 0; l < gemm->k && line > gemm->n; l++)
    for (int64_t j = gemm->n; j < line; j++) to[l * line + j] = 0;
  if (!gemm->b.trans) {
    widen(gemm->dtype, b, gemm->b.ld, gemm->k, gemm->n, to, line);
    return;
  }
  float column[MMCI_HALF_SMALL];
  for (int64_t j = 0; j < gemm->n; j++) {
    widen(gemm->dtype, b + j * gemm->b.ld, gemm->k, 1, gemm->k, column, gemm->k);
    for (int64_t l = 0; l < gemm->k; l++) to[l * line + j] = column[l];
  }
}

bool mmci_half_is_in_order(const mmci_gemm *gemm) {
  return mmci_half_is_small(gemm) && mmci_gemm_is_in_order(gemm) && !gemm->accumulate &&
         mmci_half_loops_here() != &mmci_half_loops_portable;
}

/* Lets zeros and NaN among so many sums of a reproducible product be those that these have. */
static void settle(const mmci_gemm *gemm, float *sums, int64_t count) {
  if (mmci_precision_is_reproducible(gemm->precision))
    mmci_ordered_tiles_here()->settle_f32(sums, count);
}

/* Numbers of each matrix that are in f32 at a time, and multiplications of a product that is worth
 * it, or terms of one with a vector. */
enum { FEW_NUMBERS = 2048, FEW_MULTIPLICATIONS = 512, FEW_TERMS = 64 };

/* Says whether products are so small, and their matrices follow each other or are one for all, that
 * several are widened and rounded at once. */
static bool are_few(const mmci_halves *x) {
  const mmci_gemm *gemm = &x->gemm;
  const int64_t size = (int64_t)sizeof(uint16_t), m = gemm->m, k = gemm->k, n = gemm->n;
  const bool a_is_dense = !gemm->a.trans && (gemm->a.ld == k || m == 1) &&
                          (x->a_step == m * k * size || x->a_step == 0),
             b_is_dense = !gemm->b.trans && (gemm->b.ld == n || k == 1) &&
                          (x->b_step == k * n * size || x->b_step == 0),
             c_is_dense = (gemm->ldc == n || m == 1) && x->c_step == m * n * size;
  return a_is_dense && b_is_dense && c_is_dense && !gemm->accumulate && m * k <= FEW_NUMBERS &&
         k * n <= FEW_NUMBERS && m * n <= FEW_NUMBERS &&
         (m * k * n <= FEW_MULTIPLICATIONS || (n == 1 && k <= FEW_TERMS));
}

static void multiply_few(const mmci_halves *x, int64_t count, const void *a, const void *b,
                         void *c) {
  const mmci_gemm *gemm = &x->gemm;
  const int64_t of_a = gemm->m * gemm->k, of_b = gemm->k * gemm->n, of_c = gemm->m * gemm->n;
  const int64_t largest = of_a > of_b ? (of_a > of_c ? of_a : of_c) : of_b > of_c ? of_b : of_c;
  const int64_t a_step = x->a_step != 0 ? of_a : 0, b_step = x->b_step != 0 ? of_b : 0;
  const int64_t each = FEW_NUMBERS / largest;
  float left[FEW_NUMBERS], right[FEW_NUMBERS], sums[FEW_NUMBERS];
  for (int64_t i = 0; i < count; i += each) {
    const int64_t here = count - i < each ? count - i : each;
    if (i == 0 || a_step != 0)
      widen(gemm->dtype, mmci_address(a, i * x->a_step), of_a, a_step != 0 ? here : 1, of_a, left,
            of_a);
    if (i == 0 || b_step != 0)
      widen(gemm->dtype, mmci_address(b, i * x->b_step), of_b, b_step != 0 ? here : 1, of_b, right,
            of_b);
    mmci_half_loops_here()->multiply_few(gemm->m, gemm->k, gemm->n, here, left, a_step, right,
                                         b_step, sums);
    settle(gemm, sums, of_c * here);
    round_off(gemm->dtype, sums, of_c, here, of_c, mmci_address(c, i * x->c_step), of_c);
  }
}

/* Returns the product of so many rows, in f32, and a vector. */
static mmci_gemm widened_by_vector(const mmci_gemm *gemm, int64_t rows) {
  return (mmci_gemm){.dtype = MMC_F32,
                     .precision = gemm->precision,
                     .m = rows,
                     .k = gemm->k,
                     .n = 1,
                     .a = {.ld = gemm->a.trans ? rows : gemm->k, .trans = gemm->a.trans},
                     .b = {.ld = 1},
                     .ldc = 1};
}

/* Says whether loops for vectors compute the products of rows and a vector. */
static bool is_by_vector(const mmci_gemm *gemm) {
  if (gemm->n != 1 || gemm->accumulate) return false;
  const mmci_gemm wide = widened_by_vector(gemm, gemm->m < FEW_ROWS ? gemm->m : FEW_ROWS);
  return mmci_vectors_pay(&wide);
}

static void multiply_by_vector(const mmci_halves *x, int64_t count, const void *a, const void *b,
                               void *c) {
  const mmci_gemm *gemm = &x->gemm;
  float left[FEW_ROWS * MMCI_HALF_SMALL], right[MMCI_HALF_SMALL], sums[FEW_ROWS];
  const bool keeps_left = x->a_step == 0 && gemm->m <= FEW_ROWS;
  for (int64_t i = 0; i < count; i++) {
    if (i == 0 || x->b_step != 0)
      widen_operand(gemm->dtype, mmci_address(b, i * x->b_step), &gemm->b, 0, 0, (int)gemm->k, 1,
                    right);
    for (int64_t row = 0; row < gemm->m; row += FEW_ROWS) {
      const int rows = gemm->m - row < FEW_ROWS ? (int)(gemm->m - row) : FEW_ROWS;
      uint16_t *to = (uint16_t *)mmci_address(c, i * x->c_step) + row * gemm->ldc;
      if (i == 0 || !keeps_left)
        widen_operand(gemm->dtype, mmci_address(a, i * x->a_step), &gemm->a, row, 0, rows,
                      (int)gemm->k, left);
      const mmci_gemm wide = widened_by_vector(gemm, rows);
      const mmci_vectors vectors = mmci_vectors_make(&wide, 0, 0, 0);
      mmci_vectors_multiply(&vectors, 1, left, right, sums);
      round_off(gemm->dtype, sums, 1, rows, 1, to, gemm->ldc);
    }
  }
}

void mmci_halves_multiply(const mmci_halves *x, int64_t count, const void *a, const void *b,
                          void *c) {
  if (count > 1 && are_few(x)) {
    multiply_few(x, count, a, b, c);
    return;
  }
  if (is_by_vector(&x->gemm)) {
    multiply_by_vector(x, count, a, b, c);
    return;
  }
  const mmci_gemm *gemm = &x->gemm;
  const mmci_half_loops *loops = mmci_half_loops_here();
  float left[FEW_ROWS * MMCI_HALF_SMALL], right[MMCI_HALF_SMALL * MMCI_HALF_SMALL],
      sums[FEW_ROWS * MMCI_HALF_SMALL];
  const int64_t line = (gemm->n + MMCI_HALF_LINE - 1) / MMCI_HALF_LINE * MMCI_HALF_LINE;
  const bool keeps_left = x->a_step == 0 && gemm->m <= FEW_ROWS, keeps_right = x->b_step == 0;
  for (int64_t i = 0; i < count; i++) {
    const void *of_a = mmci_address(a, i * x->a_step);
    if (i == 0 || !keeps_right) widen_right(gemm, mmci_address(b, i * x->b_step), line, right);
    for (int64_t row = 0; row < gemm->m; row += FEW_ROWS) {
      const int rows = gemm->m - row < FEW_ROWS ? (int)(gemm->m - row) : FEW_ROWS;
      uint16_t *to = (uint16_t *)mmci_address(c, i * x->c_step) + row * gemm->ldc;
      if (i == 0 || !keeps_left)
        widen_operand(gemm->dtype, of_a, &gemm->a, row, 0, rows, (int)gemm->k, left);
      if (gemm->accumulate) widen(gemm->dtype, to, gemm->ldc, rows, gemm->n, sums, line);
      const mmci_half_tiles tiles = {.m = rows,
                                     .k = gemm->k,
                                     .line = line,
                                     .a = left,
                                     .b = right,
                                     .c = sums,
                                     .a_down = gemm->a.trans ? 1 : gemm->k,
                                     .a_along = gemm->a.trans ? rows : 1,
                                     .accumulate = gemm->accumulate};
      loops->multiply(&tiles);
      settle(gemm, sums, rows * line);
      round_off(gemm->dtype, sums, line, rows, gemm->n, to, gemm->ldc);
    }
  }
}

void mmci_half_small(const mmci_gemm *gemm, const void *a, const void *b, void *c) {
  const mmci_halves one = {.gemm = *gemm};
  mmci_halves_multiply(&one, 1, a, b, c);
}

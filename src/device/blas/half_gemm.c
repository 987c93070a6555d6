/* half_gemm.c: multiplies panel by panel: factors are widened to f32 and multiplied by SGEMM, and a
 * panel of C is rounded when it is complete. */
#include "device/blas/half_gemm.h"

#include "base/half.h"
#include "device/blas/cblas_table.h"

static int panel_length(int64_t rest) {
  return rest < MMCI_HALF_PANEL ? (int)rest : MMCI_HALF_PANEL;
}

static void widen(mmc_dtype dtype, const uint16_t *from, int64_t ld, int lines, int length,
                  float *to) {
  for (int i = 0; i < lines; i++, from += ld, to += length)
    if (dtype == MMC_F16)
      for (int j = 0; j < length; j++) to[j] = mmci_f16_to_f32(from[j]);
    else
      for (int j = 0; j < length; j++) to[j] = mmci_bf16_to_f32(from[j]);
}

static void round_off(mmc_dtype dtype, const float *from, int lines, int length, uint16_t *to,
                      int64_t ld) {
  for (int i = 0; i < lines; i++, from += length, to += ld)
    if (dtype == MMC_F16)
      for (int j = 0; j < length; j++) to[j] = mmci_f16_round(from[j]);
    else
      for (int j = 0; j < length; j++) to[j] = mmci_bf16_round(from[j]);
}

/* Widens rows x cols of an operand from (row, col) on, in the layout in which they are stored. */
static void widen_operand(mmc_dtype dtype, const uint16_t *data, const mmci_form *form, int64_t row,
                          int64_t col, int rows, int cols, float *to) {
  if (form->trans)
    widen(dtype, data + col * form->ld + row, form->ld, cols, rows, to);
  else
    widen(dtype, data + row * form->ld + col, form->ld, rows, cols, to);
}

void mmci_half_gemm(const mmci_gemm *gemm, const void *a, const void *b, void *c,
                    mmci_half_panels *panels) {
  int a_op = gemm->a.trans ? MMCI_CBLAS_T : MMCI_CBLAS_N;
  int b_op = gemm->b.trans ? MMCI_CBLAS_T : MMCI_CBLAS_N;
  for (int64_t i = 0; i < gemm->m; i += MMCI_HALF_PANEL)
    for (int64_t j = 0; j < gemm->n; j += MMCI_HALF_PANEL) {
      int m = panel_length(gemm->m - i), n = panel_length(gemm->n - j);
      uint16_t *corner = (uint16_t *)c + i * gemm->ldc + j;
      if (gemm->accumulate) widen(gemm->dtype, corner, gemm->ldc, m, n, panels->c);
      for (int64_t l = 0; l < gemm->k; l += MMCI_HALF_PANEL) {
        int k = panel_length(gemm->k - l);
        widen_operand(gemm->dtype, a, &gemm->a, i, l, m, k, panels->a);
        widen_operand(gemm->dtype, b, &gemm->b, l, j, k, n, panels->b);
        mmci_blas.sgemm(MMCI_CBLAS_ROW_MAJOR, a_op, b_op, m, n, k, 1, panels->a,
                        gemm->a.trans ? m : k, panels->b, gemm->b.trans ? k : n,
                        l > 0 || gemm->accumulate ? 1 : 0, panels->c, n);
      }
      round_off(gemm->dtype, panels->c, m, n, corner, gemm->ldc);
    }
}

#include "device/padding.h"

enum { A, B, C };

void mmci_padding_bind(mmci_padding *padding, const mmci_gemm *gemm) {
  const mmci_gemm padded = mmci_gemm_padded(padding->multiple, gemm);
  const bool m = padded.m != gemm->m, k = padded.k != gemm->k, n = padded.n != gemm->n;
  const bool moves[MMCI_PADDED_OPERANDS] = {m || k || padded.a.ld != gemm->a.ld,
                                            k || n || padded.b.ld != gemm->b.ld,
                                            m || n || padded.ldc != gemm->ldc};
  const uint64_t bytes[MMCI_PADDED_OPERANDS] = {
      mmci_padded_bytes(padding->multiple, gemm->dtype, gemm->m, gemm->k),
      mmci_padded_bytes(padding->multiple, gemm->dtype, gemm->k, gemm->n)};
  char *room = padding->room;
  padding->gemm = *gemm;
  padding->padded = padded;
  for (int i = 0; i < MMCI_PADDED_OPERANDS; room += bytes[i], i++)
    padding->copies[i] = moves[i] ? room : NULL;
}

/* Describes the copy of an operand as it lies: lines stay lines, and conjugation is left to the
 * product. */
static mmci_resizing resizing_of(const mmci_gemm *gemm, const mmci_gemm *to, int operand) {
  const bool trans = operand == A ? gemm->a.trans : operand == B && gemm->b.trans;
  const int64_t rows = operand == B ? gemm->k : gemm->m, to_rows = operand == B ? to->k : to->m;
  const int64_t cols = operand == A ? gemm->k : gemm->n, to_cols = operand == A ? to->k : to->n;
  return (mmci_resizing){
      .lines = trans ? cols : rows,
      .length = trans ? rows : cols,
      .ld = operand == A   ? gemm->a.ld
            : operand == B ? gemm->b.ld
                           : gemm->ldc,
      .to_lines = trans ? to_cols : to_rows,
      .to_length = trans ? to_rows : to_cols,
      .to_ld = operand == A   ? to->a.ld
               : operand == B ? to->b.ld
                              : to->ldc,
  };
}

mmc_status mmci_padding_begin(const mmci_padding *padding, const mmci_device_ops *ops,
                              mmci_queue *queue, const void **a, const void **b, void **c,
                              mmci_error *error) {
  const mmci_gemm *gemm = &padding->gemm;
  const void *own[MMCI_PADDED_OPERANDS] = {*a, *b, *c};
  mmci_resizing copies[MMCI_PADDED_OPERANDS];
  int count = 0;
  for (int i = 0; i < MMCI_PADDED_OPERANDS; i++) {
    if (padding->copies[i] == NULL || (i == C && !gemm->accumulate)) continue;
    copies[count] = resizing_of(gemm, &padding->padded, i);
    copies[count].from = own[i];
    copies[count++].to = padding->copies[i];
  }
  if (padding->copies[A] != NULL) *a = padding->copies[A];
  if (padding->copies[B] != NULL) *b = padding->copies[B];
  if (padding->copies[C] != NULL) *c = padding->copies[C];
  return count > 0 ? ops->async->resize(queue, gemm->dtype, copies, count, error) : MMC_OK;
}

mmc_status mmci_padding_end(const mmci_padding *padding, const mmci_device_ops *ops,
                            mmci_queue *queue, void *c, mmci_error *error) {
  if (padding->copies[C] == NULL) return MMC_OK;
  mmci_resizing copy = resizing_of(&padding->padded, &padding->gemm, C);
  copy.from = padding->copies[C];
  copy.to = c;
  return ops->async->resize(queue, padding->gemm.dtype, &copy, 1, error);
}

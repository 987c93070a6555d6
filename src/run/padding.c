#include "run/padding.h"

/* The copy's leading dimension, or the operand's own where that is a multiple already. */
static int64_t padded_ld(int multiple, int64_t ld, int64_t length) {
  if (ld % multiple == 0) return ld;
  return length > 0 ? (length + multiple - 1) / multiple * multiple : multiple;
}

void mmci_padding_bind(mmci_padding *padding, const mmci_gemm *gemm) {
  int multiple = padding->multiple;
  mmci_gemm *padded = &padding->padded;
  padding->gemm = *padded = *gemm;
  padded->a.ld = padded_ld(multiple, gemm->a.ld, gemm->a.trans ? gemm->m : gemm->k);
  padded->b.ld = padded_ld(multiple, gemm->b.ld, gemm->b.trans ? gemm->k : gemm->n);
  padded->ldc = padded_ld(multiple, gemm->ldc, gemm->n);
  char *b = padding->room + mmci_padded_bytes(multiple, gemm->dtype, gemm->m, gemm->k);
  char *c = b + mmci_padded_bytes(multiple, gemm->dtype, gemm->k, gemm->n);
  padding->copies[0] = padded->a.ld != gemm->a.ld ? padding->room : NULL;
  padding->copies[1] = padded->b.ld != gemm->b.ld ? b : NULL;
  padding->copies[2] = padded->ldc != gemm->ldc ? c : NULL;
}

/* As it lies: lines stay lines, and what is conjugated stays to be conjugated. */
static mmc_status copy(const mmci_padding *padding, const mmci_device_ops *ops, mmci_queue *queue,
                       const mmci_form *form, int64_t rows, int64_t cols, const void *from,
                       void *to, int64_t to_ld, mmci_error *error) {
  int64_t lines = form->trans ? cols : rows, length = form->trans ? rows : cols;
  return ops->async->copy(queue, padding->gemm.dtype, lines, length, from,
                          &(mmci_form){.ld = form->ld}, to, to_ld, false, error);
}

mmc_status mmci_padding_begin(const mmci_padding *padding, const mmci_device_ops *ops,
                              mmci_queue *queue, const void **a, const void **b, void **c,
                              mmci_error *error) {
  const mmci_gemm *g = &padding->gemm, *padded = &padding->padded;
  void *const *copies = padding->copies;
  mmc_status status = MMC_OK;
  if (copies[0] != NULL)
    status = copy(padding, ops, queue, &g->a, g->m, g->k, *a, copies[0], padded->a.ld, error);
  if (copies[1] != NULL && status == MMC_OK)
    status = copy(padding, ops, queue, &g->b, g->k, g->n, *b, copies[1], padded->b.ld, error);
  if (copies[0] != NULL) *a = copies[0];
  if (copies[1] != NULL) *b = copies[1];
  if (copies[2] != NULL) *c = copies[2];
  return status;
}

mmc_status mmci_padding_end(const mmci_padding *padding, const mmci_device_ops *ops,
                            mmci_queue *queue, void *c, mmci_error *error) {
  if (padding->copies[2] == NULL) return MMC_OK;
  return copy(padding, ops, queue, &(mmci_form){.ld = padding->padded.ldc}, padding->gemm.m,
              padding->gemm.n, padding->copies[2], c, padding->gemm.ldc, error);
}

#include "device/blas/several.h"

mmci_several mmci_several_make(mmci_several_kind kind, const mmci_gemm *gemm, int64_t a_step,
                               int64_t b_step, int64_t c_step) {
  mmci_several x = {.kind = kind, .a_step = a_step, .b_step = b_step, .c_step = c_step};
  if (kind == MMCI_BY_VECTORS)
    x.vectors = mmci_vectors_make(gemm, a_step, b_step, c_step);
  else
    x.gemm = *gemm;
  return x;
}

void mmci_several_multiply(const mmci_several *x, int64_t count, const void *a, const void *b,
                           void *c) {
  switch (x->kind) {
    case MMCI_ONE_BY_ONE:
      return;
    case MMCI_BY_VECTORS:
      mmci_vectors_multiply(&x->vectors, count, a, b, c);
      return;
    case MMCI_BY_HALVES: {
      const mmci_halves halves = {x->gemm, x->a_step, x->b_step, x->c_step};
      mmci_halves_multiply(&halves, count, a, b, c);
      return;
    }
    case MMCI_BY_INTEGERS: {
      const mmci_integers integers = {x->gemm, x->a_step, x->b_step, x->c_step};
      mmci_integers_multiply(&integers, count, a, b, c);
      return;
    }
  }
}

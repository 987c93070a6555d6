#include "device/blas/several.h"

#include "base/dtype.h"
#include "device/host.h"

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

void mmci_several_gathered(mmci_several_kind kind, const mmci_gemm *gemm, int64_t first,
                           int64_t end, const void *a, const void *b, void *c) {
  const size_t size = mmc_dtype_size(gemm->dtype);
  const char *x = mmci_batch_at(a, &gemm->a, size, first),
             *y = mmci_batch_at(b, &gemm->b, size, first);
  mmci_several several = {.kind = MMCI_ONE_BY_ONE};
  for (int64_t i = first, j; i < end; i = j) {
    const char *from_x = x, *from_y = y;
    for (j = i + 1; j < end; j++) {
      const char *next_x = mmci_batch_at(a, &gemm->a, size, j),
                 *next_y = mmci_batch_at(b, &gemm->b, size, j);
      const int64_t a_step = (int64_t)((uintptr_t)next_x - (uintptr_t)x),
                    b_step = (int64_t)((uintptr_t)next_y - (uintptr_t)y);
      if (several.kind == MMCI_ONE_BY_ONE)
        several = mmci_several_make(kind, gemm, a_step, b_step, gemm->c_stride * (int64_t)size);
      x = next_x;
      y = next_y;
      if (a_step != several.a_step || b_step != several.b_step) break;
    }
    if (several.kind == MMCI_ONE_BY_ONE)
      several = mmci_several_make(kind, gemm, 0, 0, gemm->c_stride * (int64_t)size);
    mmci_several_multiply(&several, j - i, from_x, from_y,
                          mmci_address(c, i * gemm->c_stride * (int64_t)size));
  }
}

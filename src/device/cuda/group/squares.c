/* squares.c: chains of equal squares, as squares.cu and sides.cu take them. */
#include <stdint.h>

#include "device/cuda/group/group.h"

enum { LEAST_BATCH = 2 };

int64_t mmci_squares_side(const mmci_group *chain) {
  const int64_t side = chain->products[0].m;
  if (chain->n > MMCI_SIDES_FACTORS || chain->count != chain->n - 1 || chain->batch < LEAST_BATCH ||
      chain->batch > INT32_MAX || chain->ldc != side || chain->c_gathered)
    return 0;
  for (int i = 0; i < chain->n; i++) {
    const mmci_form *form = &chain->forms[i];
    const bool conj = form->conj && mmci_dtype_is_complex(chain->dtype);
    if (form->trans || conj || form->gathered || form->ld != side) return 0;
  }
  for (int s = 0; s < chain->count; s++) {
    const mmci_group_product *step = &chain->products[s];
    if (step->m != side || step->k != side || step->n != side ||
        step->left != (s == 0 ? 0 : chain->n + s - 1) || step->right != s + 1)
      return 0;
  }
  return side;
}

void mmci_squares_fill(const mmci_group *chain, mmci_squares *out) {
  *out = (mmci_squares){.c_stride = chain->c_stride,
                        .batch = chain->batch,
                        .n = chain->n,
                        .in_order = mmci_precision_is_reproducible(chain->precision)};
  for (int i = 0; i < chain->n; i++) out->stride[i] = chain->forms[i].stride;
}

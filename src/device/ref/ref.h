/* ref.h: the plain product, for whom it is the oracle or the last resort. */
#ifndef MMCI_REF_H
#define MMCI_REF_H

#include "device/device.h"

/* C = A B by three loops, sums in double precision. Any shape, any operand. */
void mmci_ref_gemm(const mmci_gemm *gemm, const mmci_operand *a, const mmci_operand *b, void *c,
                   int64_t ldc);

#endif

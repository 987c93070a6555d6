/* ref.h: the plain product, for whom it is the oracle or the last resort. */
#ifndef MMCI_REF_H
#define MMCI_REF_H

#include "device/device.h"

/* The product by three loops, sums in double precision, rounded once. Any shape, any operand. */
void mmci_ref_gemm(const mmci_gemm *gemm, const void *a, const void *b, void *c);

#endif

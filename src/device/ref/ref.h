/* ref.h: the product by plain loops, which is the oracle of other devices and what they fall back
 * on. */
#ifndef MMCI_REF_H
#define MMCI_REF_H

#include "device/device.h"

/* Multiplies by three loops, with sums in double precision that are rounded once, for any shape and
 * any operand. */
void mmci_ref_gemm(const mmci_gemm *gemm, const void *a, const void *b, void *c);

#endif

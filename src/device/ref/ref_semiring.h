/* ref_semiring.h: products over semirings by plain loops, by the rules of mmc_semiring. */
#ifndef MMCI_REF_SEMIRING_H
#define MMCI_REF_SEMIRING_H

#include "chain/gemm.h"

/* Multiplies one product of f32, f64 or i64, whose rule has a semiring. */
void mmci_ref_semiring_gemm(const mmci_gemm *gemm, const void *a, const void *b, void *c);

#endif

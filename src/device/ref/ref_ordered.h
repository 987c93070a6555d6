#ifndef MMCI_REF_ORDERED_H
#define MMCI_REF_ORDERED_H

#include "chain/gemm.h"

/* Multiplies floating-point matrices as MMCI_REPRODUCIBLE says; not for a batch. */
void mmci_ref_ordered(const mmci_gemm *gemm, const void *a, const void *b, void *c);

#endif

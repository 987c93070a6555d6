/* small_loops.h: computes what LIBXSMM's code computes, without writing code.
 *
 * Writing code for a size takes LIBXSMM as long as some fifty such products. Until a product has
 * been executed as often, these loops compute it. Every element is summed in the same order, from
 * the first term to the last in one accumulator, and each term is added by one FMA: the bits are
 * the same where mmci_xsmm_in_order(), so a result does not change when the code has been written.
 * Elsewhere no code is taken. */
#ifndef MMCI_SMALL_LOOPS_H
#define MMCI_SMALL_LOOPS_H

#include "chain/gemm.h"

/* Says whether this processor has AVX2 and FMA, which the loops need. Any thread may call it. */
bool mmci_small_loops_can(void);

/* Computes one product for which mmci_xsmm_can(), on such a processor. */
void mmci_small_loops(const mmci_gemm *gemm, const void *a, const void *b, void *c);

/* Does that without AVX-512, where the other takes it; the bits are the same. */
void mmci_small_loops_avx2(const mmci_gemm *gemm, const void *a, const void *b, void *c);

#endif

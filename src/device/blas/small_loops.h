/* small_loops.h: what LIBXSMM's code computes, by code that is here already.
 *
 * To write code for a size takes LIBXSMM as long as some fifty such products. Until a product
 * has been executed as often, these loops compute it. Every element is summed in the
 * same order, from the first term to the last in one accumulator, each term added by one FMA: the
 * bits are the same, and so a product does not change when its code has been written. */
#ifndef MMCI_SMALL_LOOPS_H
#define MMCI_SMALL_LOOPS_H

#include "chain/gemm.h"

/* Whether this processor can: it has AVX2 and FMA. Any thread. */
bool mmci_small_loops_can(void);

/* One product for which mmci_xsmm_can(), on such a processor. */
void mmci_small_loops(const mmci_gemm *gemm, const void *a, const void *b, void *c);

#endif

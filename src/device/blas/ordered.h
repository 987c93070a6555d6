/* ordered.h: products whose bits depend on their operands alone, MMCI_REPRODUCIBLE.
 *
 * Each element of C is one chain of fused multiply-adds from the first k to the last, which IEEE
 * 754 defines to the last bit: how C is cut into blocks and tiles, how many threads share them, and
 * how wide registers are does not matter, nor does cutting k, as a chain goes on from what is in C;
 * of f16 and bf16 it does, since C is rounded. Long products are sums of such chains, as mmci_sums
 * says, whose pieces are computed in any order and added up in theirs. */
#ifndef MMCI_ORDERED_H
#define MMCI_ORDERED_H

#include <stddef.h>

#include "chain/gemm.h"

/* Room for blocks of the operands, which grows when a product needs more; zeros at first. */
typedef struct mmci_ordered_room {
  char *memory;
  size_t bytes;
} mmci_ordered_room;

/* Multiplies in this thread, in room on its stack; sizes above 0. Long products that threads do not
 * share are for it, too. */
void mmci_ordered_small(const mmci_gemm *gemm, const void *a, const void *b, void *c);

/* Returns how many threads share a product that is not small. */
int mmci_ordered_threads(const mmci_gemm *gemm);
/* Multiplies by so many threads, which mmci_workers_provide() has made; sizes above 0. Returns:
 * E_NOMEM, E_INTERRUPTED. */
mmc_status mmci_ordered_gemm(const mmci_gemm *gemm, int threads, const void *a, const void *b,
                             void *c, mmci_ordered_room *room, mmci_error *error);

/* Says whether a long product has so few terms that one thread computes it. */
bool mmci_ordered_is_short(const mmci_gemm *gemm);

/* Makes zeros and NaN of C, which such chains have written otherwise, those of MMCI_REPRODUCIBLE.
 */
void mmci_ordered_settle(const mmci_gemm *gemm, void *c);

#endif

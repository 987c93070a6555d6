/* semiring.h: products over max-plus, min-plus and log, see mmc_semiring.
 *
 * Greatest sums are found as a BLAS finds sums of products: blocks of the operands are packed, and
 * tiles of C stay in registers. Least sums are the greatest of negated elements, negated. While it
 * packs, a block looks for what the fast loops do not know, NaN and infinities of which a sum is
 * NaN, or integers whose sums might overflow, and is then left to the loops of ref.
 *
 * Logarithms of sums are those of a product of doubles: rows of A and columns of B are
 * exponentiated after their greatest element is taken out. Where so little is left of a sum that
 * terms may have vanished, that element is computed term by term. */
#ifndef MMCI_SEMIRING_H
#define MMCI_SEMIRING_H

#include "chain/gemm.h"

/* Returns how many threads a product is worth. */
int mmci_semiring_workers(const mmci_gemm *gemm);
/* Returns the bytes of the room for so many workers, aligned to MMCI_ALIGNMENT, that the product
 * needs; UINT64_MAX when there cannot be so many. */
uint64_t mmci_semiring_room(const mmci_gemm *gemm, int workers);
/* Such a room, which grows when a product needs more; zeros at first. */
typedef struct mmci_semiring_memory {
  char *memory;
  uint64_t bytes;
} mmci_semiring_memory;

/* Makes it at least so large. Returns E_NOMEM, and then there is none. */
mmc_status mmci_semiring_memory_make(mmci_semiring_memory *room, uint64_t bytes, mmci_error *error);

/* Multiplies one product. Returns false when it was stopped. */
bool mmci_semiring_multiply(const mmci_gemm *gemm, const void *a, const void *b, void *c,
                            int workers, void *room);
/* Returns a guess at the seconds that one thread takes. */
double mmci_semiring_serial_s(const mmci_gemm *gemm);

#endif

/* whole_gemm.h: sums of whole numbers, as whole.h says, by exact products of integers.
 *
 * Sums of f32 and c64 fit 64 bits. Of others 64 bits and the residue modulo a prime are computed,
 * which tell a sum of 125 bits; where words are slow, the residues modulo six primes of 20 bits, by
 * DGEMM. */
#ifndef MMCI_WHOLE_GEMM_H
#define MMCI_WHOLE_GEMM_H

#include "device/blas/integer_gemm.h"

/* Room for the lines and sums of one block, which grows when a product needs more; zeros at first.
 * Lines are up to 1024 of either side, all terms long, of 8 bytes a number or, by DGEMM, 24: up to
 * 0.6 and 1.7 GB. */
typedef struct mmci_whole_room {
  char *memory;
  size_t bytes;
} mmci_whole_room;

/* Multiplies by threads that mmci_workers_provide() has made, for sizes above 0. The integers'
 * room is used, too. Returns: E_NOMEM, E_INTERRUPTED, E_UNSUPPORTED. */
mmc_status mmci_whole_gemm(const mmci_gemm *gemm, const void *a, const void *b, void *c,
                           mmci_whole_room *room, mmci_integer_room *integers, mmci_error *error);

#endif

/* identity.h: the product of no factors. */
#ifndef MMCI_CHAIN_IDENTITY_H
#define MMCI_CHAIN_IDENTITY_H

#include "mmchain.h"

/* Writes an n x n identity without gaps: ones of the semiring on the diagonal, and its zeros
 * elsewhere. */
void mmci_write_identity(mmc_dtype dtype, mmc_semiring semiring, int64_t n, void *to);

#endif

/* exact.h: checks a product of integers, which has no rounding to allow for. */
#ifndef MMC_CLI_EXACT_H
#define MMC_CLI_EXACT_H

#include "factors.h"

/* How many vectors a product is checked with. */
enum { CLI_EXACT_VECTORS = 16 };

/* Compares R t with A1 (A2 (... (An t))) for such random vectors t, of every chain of the batch, in
 * the arithmetic of the chain: modulo 2^64, of which all bits of the dtype are compared, modulo its
 * modulus, or of truth values. A wrong element agrees with one vector by a chance of a half at
 * most, but for truth values, of which vectors of many densities are taken. Returns CLI_DONE, or
 * the exit status after saying that memory is short. */
int cli_exact_check(cli_call *call, const cli_factors *factors, const mmc_matrix *result,
                    bool *agrees);

#endif

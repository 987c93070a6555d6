/* promote.h: factors of several dtypes in the one that holds the values of all. */
#ifndef MMC_CLI_PROMOTE_H
#define MMC_CLI_PROMOTE_H

#include <stddef.h>

#include "mmchain.h"

/* Finds the dtype that numpy.result_type() has for two: complex where one is, of the wider reals;
 * f32 for f16 and bf16; of integers the least that holds both. Returns false where integers are
 * with floating-point numbers, or u64 with signed ones, of which NumPy makes floating-point
 * numbers. */
bool cli_promoted(mmc_dtype a, mmc_dtype b, mmc_dtype *out);

/* Writes count elements in another dtype, to which theirs is promoted. */
void cli_promote(mmc_dtype from, const void *data, size_t count, mmc_dtype to, void *out);

#endif

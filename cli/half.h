/* half.h: converts f16 and bf16, which C has no type for, to double and back. */
#ifndef MMC_CLI_HALF_H
#define MMC_CLI_HALF_H

#include "mmchain.h"

bool cli_is_half(mmc_dtype dtype);
/* Returns the distance of 1 to the next element of f16 or bf16. */
double cli_half_epsilon(mmc_dtype dtype);
double cli_half_load(mmc_dtype dtype, uint16_t half);
/* Returns the nearest element, of two the even one; infinity when value is too large. */
uint16_t cli_half_round(mmc_dtype dtype, double value);

#endif

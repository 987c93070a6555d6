/* solves.h: the inverse of factors in a row, applied to a vector by the library. */
#ifndef MMC_CLI_SOLVES_H
#define MMC_CLI_SOLVES_H

#include "factors.h"

/* Factors first to last of chain number `chain` of the batch, whose product is to be inverted. */
typedef struct cli_solve {
  cli_call *call;
  const cli_factors *factors;
  int64_t chain, first, last;
} cli_solve;

/* Replaces a vector of pairs (re, im) by the inverse times it, in the dtype of the factors. Returns
 * CLI_DONE, or the exit status after saying what is wrong. */
int cli_solve_run(const cli_solve *solve, double *pairs);

/* Returns matrix number i of a batch. */
mmc_matrix cli_matrix_of_batch(const mmc_matrix *matrix, mmc_dtype dtype, int64_t i);

#endif

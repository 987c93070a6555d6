/* running.h: checks all running products of a stack, by a vector that takes the same way.
 *
 * For a random u, u P_t is compared with v_t = v_(t-1) A_t, a vector in double precision; from the
 * end, P_t u with v_t = A_t v_(t+1). The difference is measured as in residual.c: against the
 * greater of v_t and of the noise that rounding has on the way, with a tolerance of 4 eps for every
 * term of every product before. */
#ifndef MMC_CLI_RUNNING_H
#define MMC_CLI_RUNNING_H

#include "mmchain.h"

/* A scan whose results are there: row-major matrices without gaps, and an initial one. */
typedef struct cli_running {
  mmc_dtype dtype;
  int64_t n, length, batch;
  bool reverse, exclusive, initial;
  const mmc_scan_operands *operands;
} cli_running;

/* The tolerance is that of the product of all factors, and value the worst of the residuals, each
 * times that tolerance and divided by its own. Products are skipped where they, or factors before
 * them, hold NaN or infinity, and have vanished where they are too small for the digits of the
 * dtype. */
typedef struct cli_running_residual {
  double value, tolerance;
  int64_t checked, skipped, vanished;
} cli_running_residual;

/* Computes the residual. Returns false when memory is short. */
bool cli_running_check(const cli_running *running, cli_running_residual *out);

#endif

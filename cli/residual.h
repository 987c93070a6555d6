/* residual.h: whether R is the product of a chain, by R t = A1 (A2 (... (An t))) for a random t.
 *
 * Costs a few passes over the factors, whatever the order of R was. */
#ifndef MMC_CLI_RESIDUAL_H
#define MMC_CLI_RESIDUAL_H

#include "factors.h"

typedef struct cli_residual {
  double value;     /* relative to the right-hand side */
  double tolerance; /* what rounding may account for */
  bool meaningful;  /* false: a factor holds NaN or infinity */
  /* Of a batch, value is the worst of the chains that are meaningful; the others are skipped. */
  int64_t chains, skipped;
} cli_residual;

/* t is normal, from seed. Returns CLI_DONE, or the exit status after saying what is wrong. A
 * residual that is not `value <= tolerance` is the caller's to judge. */
int cli_residual_compute(cli_call *call, const cli_factors *factors, const mmc_matrix *result,
                         uint64_t seed, cli_residual *out);

#endif

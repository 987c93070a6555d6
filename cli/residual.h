/* residual.h: checks whether R is the product of a chain, by R t = A1 (A2 (... (An t))) for a
 * random t, and whether it has left the range of its dtype.
 *
 * A check costs a few passes over the factors, whatever the order of R was. */
#ifndef MMC_CLI_RESIDUAL_H
#define MMC_CLI_RESIDUAL_H

#include "factors.h"

typedef struct cli_residual {
  double value;     /* the error relative to the right-hand side */
  double tolerance; /* the error that rounding accounts for at most */
  bool meaningful;  /* false when a factor holds NaN or infinity */
  bool overflows;   /* a result holds NaN or infinity, and its factors do not */
  /* For a batch, value is the worst of the chains that are meaningful; the others are skipped. */
  int64_t chains, skipped;
  int64_t solves;        /* so many inverses were applied to vectors to check with, */
  double backward_error; /* with this error of the worst before it was refined, see residual.c */
} cli_residual;

/* Computes the residual for a normal t from seed. is_fast says that products may be those of TF32,
 * where there are such, and bound what a tolerance lets the result be off by, as a part of the
 * product of the factors' lengths; NaN without one. Where exponents is not NULL, the product of
 * chain b is its result times 2^exponents[b]. Returns CLI_DONE, or the exit status after saying
 * what is wrong. cli_residual_tell() judges it. */
int cli_residual_compute(cli_call *call, const cli_factors *factors, const mmc_matrix *result,
                         const int64_t *exponents, bool is_fast, double bound, uint64_t seed,
                         cli_residual *out);

/* Tells the residual on standard error, and the backward error of solves. Returns CLI_DONE, or the
 * exit status after saying why the result is not to be written; where its dtype is too narrow and
 * can_scale says that --scaled may be asked for, it says so. */
int cli_residual_tell(const cli_call *call, const cli_factors *factors,
                      const cli_residual *residual, bool can_scale);

/* Counts the chains that have NaN or infinity in their result though their factors hold none. */
int64_t cli_count_overflows(const cli_factors *factors, const mmc_matrix *result);

#endif

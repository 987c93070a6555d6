/* sparse.h: multiplies factors of which some are sparse matrices in files. */
#ifndef MMC_CLI_SPARSE_H
#define MMC_CLI_SPARSE_H

#include "command.h"

/* What is asked for. */
typedef struct cli_sparse_job {
  mmc_sparse_options options;
  const char *output;
  bool explain, check, json;
} cli_sparse_job;

/* Says whether a sparse chain is meant: a factor's file holds a sparse matrix, of which nothing is
 * said but an op and a power. Where results are checked, no more is said of the others, and there
 * is no group that is inverted. Returns CLI_DONE, or CLI_BAD after saying what is wrong. */
int cli_sparse_is_meant(cli_call *call, bool check, int count, char **arguments, bool *meant);
/* Multiplies. The result is sparse where all factors are and the output's format has sparse
 * matrices. Returns CLI_DONE, or the exit status after saying what is wrong. */
int cli_sparse_multiply(cli_call *call, const cli_sparse_job *job, int count, char **arguments);

#endif

/* factors.h: a chain whose factors are .npy files.
 *
 * A.npy:T is transposed, A.npy:H conjugated too; nothing is copied for it. A 1-D array is a row at
 * the beginning of a chain and a column at its end, and the result loses those dimensions, as in
 * NumPy. "-" is standard input. */
#ifndef MMC_CLI_FACTORS_H
#define MMC_CLI_FACTORS_H

#include "command.h"

typedef struct cli_factors {
  int64_t n;
  mmc_file **files;     /* n */
  char **paths;         /* n, without the op */
  mmc_matrix *matrices; /* n, as mmc_execute() takes them */
  int result_ndim;      /* 2, 1 or 0 */
  mmc_chain *chain;
} cli_factors;

/* Whether an argument is a file: its name ends with .npy, an op may follow. */
bool cli_factor_is_file(const char *argument);

/* Opens the files. Returns CLI_DONE, or the exit status after saying what is wrong. */
int cli_factors_open(cli_call *call, int count, char **arguments, cli_factors *out);
void cli_factors_close(cli_factors *factors);

#endif

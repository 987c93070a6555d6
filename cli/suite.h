/* suite.h: a list of chains, from the arguments of a command or from a file.
 *
 * A file has one chain a line, in a form of chains.h or as "name: 30 35 15 5"; # begins a comment.
 */
#ifndef MMC_CLI_SUITE_H
#define MMC_CLI_SUITE_H

#include "command.h"

typedef struct cli_suite_entry {
  char *name; /* name of the chain; NULL when it has none */
  mmc_chain *chain;
} cli_suite_entry;

/* A list that starts as {0}. */
typedef struct cli_suite {
  cli_suite_entry *entries;
  int count, capacity;
} cli_suite;

/* Appends the chains in a file; "-" is standard input. Returns CLI_DONE, or the exit status after
 * saying which line is wrong. */
int cli_suite_read(cli_call *call, const char *path, cli_suite *suite);
/* Appends one chain for each argument; arguments that are factors or files make one together. */
int cli_suite_of_arguments(cli_call *call, int count, char **arguments, cli_suite *suite);
/* Gives all chains this dtype, the value of --dtype. */
int cli_suite_set_dtype(cli_call *call, const char *name, cli_suite *suite);
void cli_suite_free(cli_suite *suite);

#endif

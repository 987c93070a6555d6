/* dims.h: dims as a bare list of numbers of any length.
 *
 * Numbers are separated by white space, a comma or an x, two of which in turn are an error, as at
 * the beginning and the end; what follows a # is dropped up to the end of the line. Messages give
 * line and column. */
#ifndef MMC_CLI_DIMS_H
#define MMC_CLI_DIMS_H

#include "command.h"

/* A list that starts as {0}; free(dims) ends it. */
typedef struct cli_dims {
  int64_t *dims;
  int64_t count;
  int64_t capacity;
} cli_dims;

/* Appends the numbers in text, which name calls "dims.txt" or "argument 2" in messages. Returns
 * CLI_DONE, or the exit status after saying what is wrong. */
int cli_dims_append(cli_call *call, const char *name, const char *text, cli_dims *dims);
/* Appends the numbers in a file; "-" is standard input. */
int cli_dims_read(cli_call *call, const char *path, cli_dims *dims);

#endif

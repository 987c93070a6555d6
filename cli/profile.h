/* profile.h: the time of each kernel on each diagonal of the table, as CSV and as a plot.
 *
 * The CSV has a line of names, "l,kernel,seconds" for every diagonal and kernel, and comments:
 * "# range,first,last,kernel" tells which kernel was chosen for the diagonals first..last. */
#ifndef MMC_CLI_PROFILE_H
#define MMC_CLI_PROFILE_H

#include "command.h"

/* Starts a profile with the line of names. Returns false when memory is short. */
bool cli_profile_start(cli_buffer *csv);
/* Prints the ranges of diagonals and their kernels, if there are any. */
void cli_profile_print_ranges(cli_call *call, const cli_buffer *csv);
/* Checks both outputs of cli_profile_write(), as cli_check_output() does. */
int cli_profile_check(cli_call *call, const char *path);
/* Writes the CSV to path, and a plot beside it with .svg for .csv. Without gnuplot there is no
 * plot, which is said but is no failure. */
int cli_profile_write(cli_call *call, const char *path, const cli_buffer *csv);

#endif

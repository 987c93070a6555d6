/* profile.h: the time of each kernel on each diagonal of the table, as CSV and as a plot.
 *
 * The CSV has a line of names, "l,kernel,seconds" for every diagonal and kernel, and comments:
 * "# range,first,last,kernel" tells which kernel was chosen for the diagonals first..last. */
#ifndef MMC_CLI_PROFILE_H
#define MMC_CLI_PROFILE_H

#include "command.h"

/* Starts a profile with the line of names. Returns false when memory is short. */
bool cli_profile_start(cli_buffer *csv);
enum { CLI_PROFILE_NAME_SIZE = 32 };

/* What a line of a profile says: the seconds of a kernel on diagonal first, which is last too, or
 * which kernel was chosen for a range of diagonals. */
typedef struct cli_profile_line {
  bool is_range;
  int64_t first, last;
  char kernel[CLI_PROFILE_NAME_SIZE];
  double seconds; /* of a diagonal, not of a range */
} cli_profile_line;

/* Reads the next line that says anything from *at on, which is NULL or lies in the text of a CSV,
 * and moves *at past it. Returns false when there is none. */
bool cli_profile_next(const char **at, cli_profile_line *out);
/* Prints the ranges of diagonals and their kernels, if there are any. */
void cli_profile_print_ranges(cli_call *call, const cli_buffer *csv);
/* Checks both outputs of cli_profile_write(), as cli_check_output() does. */
int cli_profile_check(cli_call *call, const char *path);
/* Writes the CSV to path, and a plot beside it with .svg for .csv. Without gnuplot there is no
 * plot, which is said but is no failure. */
int cli_profile_write(cli_call *call, const char *path, const cli_buffer *csv);

#endif

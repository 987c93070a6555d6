/* programs.h: runs other programs, such as gnuplot, when they are installed. */
#ifndef MMC_CLI_PROGRAMS_H
#define MMC_CLI_PROGRAMS_H

#include <limits.h>

#include "command.h"

/* Finds a program on the PATH. */
bool cli_program_find(const char *name, char path[PATH_MAX]);

/* Runs argv, gives it input and gathers its standard output. Returns CLI_DONE, or the exit status
 * after saying what is wrong: `install package` when there is no such program. */
int cli_program_run(cli_call *call, const char *package, char *const argv[],
                    const cli_buffer *input, cli_buffer *out);

/* Writes a file as a whole or not at all. A path of "-" is standard output; option, as in "--svg",
 * begins the message of a failure. */
int cli_buffer_save(cli_call *call, const char *option, const char *path, const cli_buffer *buffer);

#endif

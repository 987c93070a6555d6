/* guard.h: keeps the files that a command writes apart from those that it reads, and from each
 * other. Every command notes its inputs where it opens them and its outputs where it checks them,
 * in whichever order; the second of two that are one file is refused.
 *
 * Files are compared, not names: links and ./ are seen through, also where a file is not there
 * yet. What is no regular file, as a pipe or /dev/null, may be named as often as one likes, but
 * standard input, which can be read once. A wisdom store is written by the library alone, and no
 * output at all. */
#ifndef MMC_CLI_GUARD_H
#define MMC_CLI_GUARD_H

#include <stddef.h>

struct cli_call;

/* The files that were noted. It starts as {0}. */
typedef struct cli_guard {
  struct cli_guarded *files;
  size_t count, capacity;
} cli_guard;

/* Notes a file that is read. what and name together say in messages which it is: "the factor " and
 * "A.npy", or "" and "--dims". Returns CLI_DONE, or CLI_BAD after saying which output it is, or
 * which other input standard input is. */
int cli_note_input(struct cli_call *call, const char *what, const char *name, const char *path);
/* Notes a file that is written; name is what was typed after the option. Returns CLI_DONE, or
 * CLI_BAD after saying which input or output it is. */
int cli_note_output(struct cli_call *call, const char *option, const char *name, const char *path);
/* Does what cli_note_output() does, but notes nothing: for outputs in great number, whose names
 * differ. */
int cli_check_apart(struct cli_call *call, const char *option, const char *name, const char *path);

void cli_guard_free(cli_guard *guard);

#endif

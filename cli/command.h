/* command.h: what a command of mmchain is given, and what it answers.
 *
 * A command file defines one cli_command; main.c tables them. Results go to call->out, everything
 * else to standard error. An error is one line, written where it is found by one of the cli_fail
 * functions, which return the exit status to hand on. */
#ifndef MMC_CLI_COMMAND_H
#define MMC_CLI_COMMAND_H

#include "guard.h"
#include "mmchain.h"
#include "output.h"

enum { CLI_NDIM_MAX = 64 }; /* dimensions of an array at most, as in NumPy */

enum cli_exit {
  CLI_DONE = 0,
  CLI_FAILED = 1, /* the work failed */
  CLI_BAD = 2,    /* bad usage or bad input */
  CLI_INTERRUPTED = 130
};

typedef struct cli_command cli_command;

struct option; /* declared by getopt.h */

typedef struct cli_call {
  const cli_command *self;      /* NULL before it is known which one runs */
  const struct option *options; /* options of the command once it has read one; else NULL */
  uint64_t typed;               /* which of these were, by their places: bits */
  mmc_context *context;
  cli_stream out;  /* standard output */
  cli_guard guard; /* the files that are read and written */
  /* Work that shows how far it is, see progress.h; NULL for most. */
  struct cli_stage *stage;
  /* Where messages of errors go while ranks have not agreed on them, CLI_KEPT_SIZE bytes; NULL
   * means standard error. */
  char *kept;
} cli_call;

enum { CLI_KEPT_SIZE = 480 };

struct cli_command {
  const char *name;
  const char *summary; /* its line of `mmchain --help` */
  const char *help;    /* the text of `mmchain NAME --help` */
  /* What follows it, or NULL: compilers need not take a string of more than 4095 characters. */
  const char *options_help;
  int (*run)(cli_call *call, int argc,
             char **argv); /* argv[0] is the name; returns the exit status */
};

extern const cli_command cli_plan;
extern const cli_command cli_multiply;
extern const cli_command cli_scan;
extern const cli_command cli_generate;
extern const cli_command cli_bench;
extern const cli_command cli_info;
extern const cli_command cli_order;
extern const cli_command cli_report;
extern const cli_command cli_tune;
extern const cli_command cli_wisdom;

/* Prints the command's help. Returns CLI_DONE. */
int cli_help(cli_call *call);

/* ---- what went wrong ------------------------------------------------------------------------- */

/* Writes "mmchain NAME: message" to standard error, on one line whatever it holds. Returns status.
 */
int cli_fail(const cli_call *call, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes the context's message for status as an error, and returns CLI_BAD for bad arguments,
 * formats and inputs, and for a request that no machine supports; CLI_FAILED for everything else,
 * as a device that is not here. Where the message is about an argument of
 * the library that an option of the command sets, it names the option instead. where, "" or
 * "suite.txt:3: ", goes before it. */
int cli_fail_status(const cli_call *call, mmc_status status, const char *where);

/* Writes the context's message for the status of a call that was writing, and returns CLI_BAD
 * for an output that where names, else CLI_FAILED. */
int cli_fail_write(const cli_call *call, mmc_status status, const char *where);
/* Writes as an error why a call that was writing to a cli_buffer has failed, and returns
 * CLI_FAILED. */
int cli_buffer_fail(const cli_call *call, mmc_status status);

/* Returns CLI_DONE when path may be written, else CLI_BAD after saying why not: it must not have
 * the ending of matrices, nor be an input or another output (guard.h), in which it is noted. It
 * creates nothing, and is called to find out before the work is done. option is "-o" or the like.
 */
int cli_check_output(cli_call *call, const char *option, const char *path);
/* Returns CLI_DONE unless the ending of a name says a format of others, as r.csv does, in which no
 * matrix is written; else CLI_BAD after saying which endings there are. Any other ending is that
 * of an .npy file. */
int cli_check_ending(cli_call *call, const char *option, const char *name);
/* Returns CLI_DONE when name, which may have a member, may be written as that of a matrix, else
 * CLI_BAD after saying why not, as cli_check_output() does. */
int cli_check_matrix_path(cli_call *call, const char *option, const char *name);
/* Does so for a matrix of so many dimensions in the format of its name: it has no ending of others'
 * formats, a file with other members is not replaced, and not every format has every dtype. */
int cli_check_matrix_output(cli_call *call, const char *option, const char *name, mmc_dtype dtype,
                            int ndim);
/* Writes a batch of matrices as an array of that shape to a file, as mmc_file_write_stack() does.
 * Returns CLI_DONE, or the exit status after saying what is wrong. */
int cli_matrix_save(cli_call *call, const char *option, const char *name, mmc_dtype dtype,
                    const mmc_matrix *matrix, int64_t batch, int ndim, const int64_t *shape);

/* Says that there is not enough memory for size bytes of what. */
int cli_fail_memory(const cli_call *call, const char *what, double size_bytes);

#endif

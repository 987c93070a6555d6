/* options.h: options and numbers of the command line, read strictly. */
#ifndef MMC_CLI_OPTIONS_H
#define MMC_CLI_OPTIONS_H

#include <getopt.h>

#include "command.h"

/* These are codes of options that several commands have. A command's own begin at
 * CLI_OPTION_OWN. */
enum { CLI_OPTION_END = -1, CLI_OPTION_WRONG = '?', CLI_OPTION_HELP = 'h', CLI_OPTION_OUT = 'o' };
enum {
  CLI_OPTION_ON = 256, /* past all letters */
  CLI_OPTION_FOR,
  CLI_OPTION_SOLVER,
  CLI_OPTION_ORDER,
  CLI_OPTION_MEMORY_LIMIT,
  CLI_OPTION_DEVICE_MEMORY,
  CLI_OPTION_PRECISION,
  CLI_OPTION_REPRODUCIBLE,
  CLI_OPTION_TOLERANCE,
  CLI_OPTION_JSON,
  CLI_OPTION_ENERGY,
  CLI_OPTION_METER,
  CLI_OPTION_MAX_SLOWDOWN,
  CLI_OPTION_NO_SYNC, /* handled by cli_option_next() */
  CLI_OPTION_OWN
};

/* Returns the next option's code, with its value in optarg. After the last option it returns
 * CLI_OPTION_END, and the other arguments begin at argv[optind]; on a wrong option it says what is
 * wrong and returns CLI_OPTION_WRONG. */
int cli_option_next(cli_call *call, int argc, char **argv, const struct option *options);

/* Reads a whole number from least to most, of decimal digits alone. name, as in "--seed", begins
 * the message. Returns false when text is something else, after saying so. */
bool cli_number(const cli_call *call, const char *name, const char *text, int64_t least,
                int64_t most, int64_t *out);
/* Reads seconds: a decimal number, 0 or more. */
bool cli_seconds(const cli_call *call, const char *name, const char *text, double *out);
/* Reads --max-slowdown: a decimal number, 1 or more. */
bool cli_slowdown(const cli_call *call, const char *text, double *out);

/* The options that say how a chain is planned. */
typedef struct cli_planning {
  mmc_plan_options *options;
  bool reproducible;     /* --reproducible is given */
  const char *tolerance; /* the argument of --tolerance; NULL where it is not given */
} cli_planning;

/* Takes one of the options CLI_OPTION_ON to CLI_OPTION_TOLERANCE and CLI_OPTION_MAX_SLOWDOWN, whose
 * argument is optarg. Returns false for any other code, and for a bad argument after saying so. */
bool cli_planning_option(const cli_call *call, int code, cli_planning *planning);
/* Lets the options' precision be what --precision, --reproducible and --tolerance say together,
 * once all options are taken. Returns false where they contradict each other, after saying so. */
bool cli_planning_arithmetic(const cli_call *call, const cli_planning *planning);

/* Reads --semiring: one of the names of mmc_semiring_name(). */
bool cli_semiring(const cli_call *call, const char *text, mmc_semiring *out);
/* Reads bytes: a whole number with K, M, G or T (powers of 1000) or KiB, MiB, GiB or TiB (of
 * 1024). */
bool cli_size(const cli_call *call, const char *name, const char *text, uint64_t *out);

/* The largest dim, 2^62. */
#define CLI_DIM_MAX ((int64_t)1 << 62)

typedef enum cli_digits { CLI_DIGITS_FINE, CLI_DIGITS_NONE, CLI_DIGITS_TOO_LARGE } cli_digits;

/* Reads decimal digits from *at on, and moves *at past them. */
cli_digits cli_digits_read(const char **at, uint64_t most, uint64_t *out);

#endif

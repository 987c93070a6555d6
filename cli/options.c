#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "nearest.h"

/* ---- what went wrong ------------------------------------------------------------------------- */

enum { MESSAGE_SIZE = 1024, ARGUMENT_SIZE = 64 };

int cli_fail(const cli_call *call, int status, const char *format, ...) {
  char message[MESSAGE_SIZE];
  va_list args;
  va_start(args, format);
  if (vsnprintf(message, sizeof message, format, args) < 0) message[0] = '\0';
  va_end(args);
  for (char *c = message; *c != '\0'; c++)
    if (iscntrl((unsigned char)*c)) *c = '?';
  if (call->kept != NULL) {
    snprintf(call->kept, CLI_KEPT_SIZE, "%.479s", message);
    return status;
  }
  fprintf(stderr, "mmchain%s%s: %s\n", call->self != NULL ? " " : "",
          call->self != NULL ? call->self->name : "", message);
  return status;
}

/* The arguments of the library, as its messages name them, that options of the command set. Of
 * several options for one, the last that was typed is meant, else the first. */
static const struct {
  const char *argument, *option;
} settings[] = {
    {"solver", "solver"},
    {"ranks", "ranks"},
    {"order", "order"},
    {"plan", "plan"},
    {"device", "on"},
    {"kernel", "kernel"},
    {"threads", "threads"},
    {"threads_per_block", "threads-per-block"},
    {"blocks_per_entry", "blocks-per-entry"},
    {"memory limit", "memory-limit"},
    {"device memory", "device-memory"},
    {"precision", "precision"},
    {"precision", "reproducible"},
    {"precision", "tolerance"},
    {"modulus", "mod"},
    {"checked", "checked"},
    {"semiring", "semiring"},
    {"scaled", "scaled"},
    {"tolerance", "tolerance"},
    {"tolerance", "precision"},
    {"objective", "for"},
    {"fuse", "fuse"},
    {"on_chip_words", "on-chip"},
    {"tile", "tile"},
    {"meter", "meter"},
    {"budget", "budget"},
    {"range", "range"},
    {"chains", "chain"},
    {"dtype", "chain"},
    {"max_slowdown", "max-slowdown"},
};

/* Returns the place of the command's option of a name; -1 when it has none. */
static int place_of(const cli_call *call, const char *name) {
  for (int o = 0; call->options != NULL && call->options[o].name != NULL; o++)
    if (strcmp(call->options[o].name, name) == 0) return o;
  return -1;
}

/* Returns the command's option that sets the argument which the context's message is about; NULL
 * when there is none. */
static const char *option_of_message(const cli_call *call, char argument[ARGUMENT_SIZE]) {
  const char *found = NULL;
  mmc_context_argument(call->context, argument, ARGUMENT_SIZE);
  for (size_t s = 0; s < sizeof settings / sizeof settings[0]; s++) {
    if (strcmp(settings[s].argument, argument) != 0) continue;
    const int place = place_of(call, settings[s].option);
    const bool is_typed = place >= 0 && (call->typed >> place & 1) != 0;
    if (is_typed || (place >= 0 && found == NULL)) found = settings[s].option;
  }
  return found;
}

static void read_message(const cli_call *call, mmc_status status, char text[MESSAGE_SIZE]) {
  mmc_context_message(call->context, text, MESSAGE_SIZE);
  if (text[0] == '\0') snprintf(text, MESSAGE_SIZE, "%s", mmc_status_string(status));
}

/* Says whether what is not supported is the request, whatever the machine: not that a device, a
 * meter, a kernel or what a plan was made for is not here. */
static bool is_request(const char *argument) {
  static const char *const requests[] = {"precision", "tolerance", "scaled", "semiring",
                                         "dtype",     "chain",     "factors"};
  for (size_t r = 0; r < sizeof requests / sizeof requests[0]; r++)
    if (strcmp(argument, requests[r]) == 0) return true;
  return false;
}

/* argument is what the message is about, or "". */
static int exit_of(mmc_status status, const char *argument) {
  switch (status) {
    case MMC_E_UNSUPPORTED:
      return is_request(argument) ? CLI_BAD : CLI_FAILED;
    case MMC_OK:
      return CLI_DONE;
    case MMC_E_ARG:
    case MMC_E_FORMAT:
    case MMC_E_OVERFLOW:
    case MMC_E_MEMORY_LIMIT:
    case MMC_E_IO:
      return CLI_BAD;
    case MMC_E_INTERRUPTED:
      return CLI_INTERRUPTED;
    default:
      return CLI_FAILED;
  }
}

int cli_fail_status(const cli_call *call, mmc_status status, const char *where) {
  char text[MESSAGE_SIZE], argument[ARGUMENT_SIZE];
  read_message(call, status, text);
  const char *option = option_of_message(call, argument);
  const int result = exit_of(status, argument);
  if (option == NULL) return cli_fail(call, result, "%s%s", where, text);
  /* The message begins with the argument's name, a colon and a blank. */
  return cli_fail(call, result, "%s--%s: %s", where, option,
                  text + strlen(argument) + strlen(": "));
}

int cli_fail_write(const cli_call *call, mmc_status status, const char *where) {
  char text[MESSAGE_SIZE];
  read_message(call, status, text);
  /* An output that the user has named and that cannot be written is bad input. */
  bool named = where[0] != '\0' && status == MMC_E_IO;
  return cli_fail(call, named ? CLI_BAD : CLI_FAILED, "%s%s", where, text);
}

/* Checks an output in the file at path; name is what was typed. */
static int check_file(cli_call *call, const char *option, const char *name, const char *path) {
  if (path[0] == '\0') return cli_fail(call, CLI_BAD, "%s: expected the name of a file", option);
  const char *reason = cli_file_unwritable(path);
  if (reason == NULL) return cli_note_output(call, option, name, path);
  return cli_fail(call, CLI_BAD, "%s: %s: cannot write: %s", option, path, reason);
}

int cli_check_output(cli_call *call, const char *option, const char *path) {
  if (mmc_file_format(path, NULL) == NULL) return check_file(call, option, path, path);
  return cli_fail(call, CLI_BAD, "%s: expected a name without the ending of a matrix, got '%s'",
                  option, path);
}

int cli_check_matrix_path(cli_call *call, const char *option, const char *name) {
  char *path = cli_file_part(name);
  if (path == NULL) return cli_fail_memory(call, "a file name takes", 1.0);
  int result = check_file(call, option, name, path);
  free(path);
  return result;
}

int cli_fail_memory(const cli_call *call, const char *what, double size_bytes) {
  static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
  size_t u = 0;
  for (; size_bytes >= 1000 && u + 1 < sizeof units / sizeof units[0]; u++) size_bytes /= 1000;
  return cli_fail(call, CLI_FAILED, "not enough memory: %s %.4g %s", what, size_bytes, units[u]);
}

/* ---- options --------------------------------------------------------------------------------- */

int cli_help(cli_call *call) {
  cli_print(&call->out, "%s", call->self->help);
  if (call->self->options_help != NULL) cli_print(&call->out, "%s", call->self->options_help);
  return CLI_DONE;
}

/* Notes that the option of a code was typed. */
static void note_typed(cli_call *call, int code) {
  for (int o = 0; call->options[o].name != NULL; o++)
    if (call->options[o].val == code) call->typed |= UINT64_C(1) << o;
}

static const char *name_of(const struct option *options, int code) {
  for (const struct option *o = options; o->name != NULL; o++)
    if (o->val == code) return o->name;
  return "";
}

/* Returns the argument in which getopt_long() met a letter that is no option. */
static const char *argument_of(int argc, char **argv, int letter) {
  const char *last = argv[optind - 1];
  if (last[0] == '-' && last[1] == letter && last[2] == '\0') return last;
  return optind < argc ? argv[optind] : last;
}

static void say_unknown(const cli_call *call, int argc, char **argv, const struct option *options) {
  const char *argument = argv[optind - 1];
  if (optopt == 0) {
    char name[64], hint[CLI_HINT_SIZE];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(argument, "="), argument);
    cli_nearest search = cli_nearest_start(name);
    for (const struct option *o = options; o->name != NULL; o++) {
      char candidate[64];
      snprintf(candidate, sizeof candidate, "--%s", o->name);
      cli_nearest_consider(&search, candidate);
    }
    cli_fail(call, CLI_BAD, "%s: no such option%s (see mmchain %s --help)", argument,
             cli_nearest_hint(&search, hint), call->self->name);
  } else if (strncmp(argument, "--", 2) == 0 && strchr(argument, '=') != NULL) {
    cli_fail(call, CLI_BAD, "--%s: takes no value", name_of(options, optopt));
  } else {
    argument = argument_of(argc, argv, optopt);
    if (isdigit(optopt))
      cli_fail(call, CLI_BAD, "'%s': expected an option or a dim, which is not negative", argument);
    else
      cli_fail(call, CLI_BAD, "-%c: no such option (see mmchain %s --help)", optopt,
               call->self->name);
  }
}

/* Standard input with an op or a power, "-:T", is no option though it begins like one:
 * getopt_long() sees another first character in its place. */
static void swap_first(int argc, char **argv, char from, char to) {
  for (int i = 1; i < argc; i++)
    if (argv[i][0] == from && (argv[i][1] == ':' || argv[i][1] == '^')) argv[i][0] = to;
}

int cli_option_next(cli_call *call, int argc, char **argv, const struct option *options) {
  static const char hidden = '\1';
  bool writes = name_of(options, CLI_OPTION_OUT)[0] != '\0';
  call->options = options;
  opterr = 0;
  int code;
  swap_first(argc, argv, '-', hidden);
  while ((code = getopt_long(argc, argv, writes ? ":ho:" : ":h", options, NULL)) ==
         CLI_OPTION_NO_SYNC)
    cli_file_sync(false);
  swap_first(argc, argv, hidden, '-');
  note_typed(call, code);
  if (code == CLI_OPTION_WRONG) say_unknown(call, argc, argv, options);
  if (code == ':') {
    cli_fail(call, CLI_BAD, "%s: expected a value after it", argv[optind - 1]);
    code = CLI_OPTION_WRONG;
  }
  return code;
}

/* ---- numbers --------------------------------------------------------------------------------- */

cli_digits cli_digits_read(const char **at, uint64_t most, uint64_t *out) {
  if (!isdigit((unsigned char)**at)) return CLI_DIGITS_NONE;
  uint64_t value = 0;
  bool fits = true;
  for (; isdigit((unsigned char)**at); ++*at) {
    uint64_t digit = (uint64_t)(**at - '0');
    fits = fits && !__builtin_mul_overflow(value, 10, &value) &&
           !__builtin_add_overflow(value, digit, &value) && value <= most;
  }
  *out = value;
  return fits ? CLI_DIGITS_FINE : CLI_DIGITS_TOO_LARGE;
}

bool cli_number(const cli_call *call, const char *name, const char *text, int64_t least,
                int64_t most, int64_t *out) {
  const char *at = text;
  uint64_t value;
  if (cli_digits_read(&at, (uint64_t)most, &value) == CLI_DIGITS_FINE && *at == '\0' &&
      (int64_t)value >= least) {
    *out = (int64_t)value;
    return true;
  }
  cli_fail(call, CLI_BAD, "%s: expected a whole number from %" PRId64 " to %" PRId64 ", got '%s'",
           name, least, most, text);
  return false;
}

static bool decimal(const char *text, double least, double *out) {
  char *end;
  errno = 0;
  double value = strtod(text, &end);
  bool fine = (isdigit((unsigned char)text[0]) || text[0] == '.') && *end == '\0' &&
              isfinite(value) && value >= least;
  if (fine) *out = value;
  return fine;
}

bool cli_planning_option(const cli_call *call, int code, cli_planning *planning) {
  mmc_plan_options *o = planning->options;
  switch (code) {
    case CLI_OPTION_ON:
      o->device = optarg;
      return true;
    case CLI_OPTION_FOR:
      o->objective = optarg;
      return true;
    case CLI_OPTION_SOLVER:
      o->solver = optarg;
      return true;
    case CLI_OPTION_ORDER:
      o->order = optarg;
      return true;
    case CLI_OPTION_MEMORY_LIMIT:
      return cli_size(call, "--memory-limit", optarg, &o->memory_limit_bytes);
    case CLI_OPTION_DEVICE_MEMORY:
      return cli_size(call, "--device-memory", optarg, &o->device_memory_bytes);
    case CLI_OPTION_PRECISION:
      o->precision = optarg;
      return true;
    case CLI_OPTION_REPRODUCIBLE:
      planning->reproducible = true;
      return true;
    case CLI_OPTION_TOLERANCE:
      planning->tolerance = optarg;
      return true;
    case CLI_OPTION_MAX_SLOWDOWN:
      return cli_slowdown(call, optarg, &o->max_slowdown);
    default:
      return false;
  }
}

bool cli_planning_arithmetic(const cli_call *call, const cli_planning *planning) {
  const bool reproducible = planning->reproducible;
  const char *tolerance = planning->tolerance, **precision = &planning->options->precision;
  const char *name = *precision;
  if (reproducible && name != NULL && strcmp(name, "fast") == 0) {
    cli_fail(call, CLI_BAD, "--reproducible: expected no --precision fast with it");
    return false;
  }
  if (tolerance != NULL && (reproducible || (name != NULL && strcmp(name, "faithful") != 0))) {
    cli_fail(call, CLI_BAD, "--tolerance: expected no %s with it",
             reproducible ? "--reproducible" : "--precision but faithful");
    return false;
  }
  double value;
  if (tolerance != NULL && !(decimal(tolerance, 0, &value) && value > 0 && value < 1)) {
    cli_fail(call, CLI_BAD, "--tolerance: expected a number above 0 and below 1, got '%s'",
             tolerance);
    return false;
  }
  const bool is_faithful = name != NULL && strstr(name, "faithful") != NULL;
  if (reproducible) *precision = is_faithful ? "reproducible+faithful" : "reproducible";
  if (tolerance != NULL) *precision = tolerance;
  return true;
}

bool cli_semiring(const cli_call *call, const char *text, mmc_semiring *out) {
  for (int s = 0; mmc_semiring_name((mmc_semiring)s) != NULL; s++) {
    if (strcmp(text, mmc_semiring_name((mmc_semiring)s)) != 0) continue;
    *out = (mmc_semiring)s;
    return true;
  }
  cli_fail(call, CLI_BAD,
           "--semiring: expected plus-times, max-plus, min-plus, log or or-and, got '%s'", text);
  return false;
}

bool cli_slowdown(const cli_call *call, const char *text, double *out) {
  if (decimal(text, 1, out)) return true;
  cli_fail(call, CLI_BAD, "--max-slowdown: expected a number from 1, as in 1.1, got '%s'", text);
  return false;
}

bool cli_seconds(const cli_call *call, const char *name, const char *text, double *out) {
  if (decimal(text, 0, out)) return true;
  cli_fail(call, CLI_BAD, "%s: expected a number of seconds, as in 2 or 0.5, got '%s'", name, text);
  return false;
}

bool cli_size(const cli_call *call, const char *name, const char *text, uint64_t *out) {
  static const struct {
    const char *name;
    uint64_t bytes;
  } units[] = {
      {"", 1},
      {"K", 1000},
      {"M", 1000000},
      {"G", 1000000000},
      {"T", 1000000000000},
      {"KiB", (uint64_t)1 << 10},
      {"MiB", (uint64_t)1 << 20},
      {"GiB", (uint64_t)1 << 30},
      {"TiB", (uint64_t)1 << 40},
  };
  const char *at = text;
  uint64_t value, most = (uint64_t)1 << 62;
  if (cli_digits_read(&at, most, &value) == CLI_DIGITS_FINE)
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++)
      if (strcmp(at, units[u].name) == 0 && !__builtin_mul_overflow(value, units[u].bytes, out) &&
          *out <= most)
        return true;
  cli_fail(call, CLI_BAD,
           "%s: expected bytes, at most 2^62, with K, M, G, T, KiB, MiB, GiB, TiB or nothing after "
           "the number, got '%s'",
           name, text);
  return false;
}

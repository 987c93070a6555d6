/* experiment.c: the list of experiments, their options, and the run of one. */
#include "experiment.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../options.h"

static const cli_experiment *const experiments[] = {
    &cli_experiment_tee_acm2, &cli_experiment_us9836434, &cli_experiment_nishida_2011};

enum { EXPERIMENT_COUNT = sizeof experiments / sizeof experiments[0], COMMAND_MOST = 400 };

bool cli_experiment_wants(const char *asked, const char *name) {
  return asked == NULL || strcmp(asked, name) == 0;
}

/* ---- one run --------------------------------------------------------------------------------- */

static int make_directory(const cli_call *call, const char *path) {
  struct stat found;
  if (mkdir(path, 0777) == 0 || (stat(path, &found) == 0 && S_ISDIR(found.st_mode)))
    return CLI_DONE;
  return cli_fail(call, CLI_BAD, "-o: %s: cannot make this directory: %s", path, strerror(errno));
}

/* Reads a number that is followed by one of these characters, and moves *at past it. */
static bool read_number(char **at, const char *ends, double *out) {
  char *end;
  *out = strtod(*at, &end);
  if (end == *at || !isfinite(*out) || strchr(ends, *end) == NULL) return false;
  *at = end;
  return true;
}

/* Reads "1764524000.5,202.5" into JSON. Where numbers stand apart by ; or tabs, commas are decimal
 * marks. */
static bool read_power_line(char *line, char *json, size_t size) {
  double s, watts;
  if (strpbrk(line, ";\t") != NULL)
    for (char *c = line; (c = strchr(c, ',')) != NULL;) *c = '.';
  if (!read_number(&line, " ,;\t", &s)) return false;
  line += strspn(line, " \t");
  if (*line == ',' || *line == ';') line++;
  if (!read_number(&line, " \t\r\n", &watts) || line[strspn(line, " \t\r\n")] != '\0') return false;
  snprintf(json, size, "{\"part\": \"power_log\", \"s\": %.3f, \"watts\": %.6g}", s, watts);
  return true;
}

/* Reads DIR/power.csv, another instrument's log: lines of seconds since 1970 and watts, # before a
 * comment. Without it there is nothing to read. */
static int read_power_log(cli_call *call, const char *path, cli_records *out) {
  FILE *file = fopen(path, "re");
  char *line = NULL, json[128];
  size_t room = 0;
  int result = CLI_DONE;
  if (file == NULL && errno == ENOENT) return CLI_DONE;
  if (file == NULL) return cli_fail(call, CLI_BAD, "%s: cannot read: %s", path, strerror(errno));
  for (int number = 1; result == CLI_DONE && getline(&line, &room, file) > 0; number++) {
    line[strcspn(line, "\r\n")] = '\0';
    if (line[0] == '#' || line[strspn(line, " \t")] == '\0') continue;
    char was[41];
    snprintf(was, sizeof was, "%s", line);
    result = read_power_line(line, json, sizeof json)
                 ? cli_records_parse(call, path, json, out)
                 : cli_fail(call, CLI_BAD,
                            "%s:%d: expected seconds since 1970 and watts, as in "
                            "1764524000.5,202.5 or 1764524000,5;202,5, got '%s'",
                            path, number, was);
  }
  if (result == CLI_DONE && ferror(file))
    result = cli_fail(call, CLI_BAD, "%s: cannot read: %s", path, strerror(errno));
  free(line);
  fclose(file);
  return result;
}

/* Fails unless all lines are of one experiment, machine and device, as the page says of them. */
static int check_alike(cli_call *call, const char *path, const cli_records *all) {
  static const char *const names[] = {"experiment", "machine", "device"};
  for (size_t r = 1; r < all->count; r++)
    for (int n = 0; n < 3; n++) {
      const char *first = cli_record_text(&all->records[0], names[n]),
                 *other = cli_record_text(&all->records[r], names[n]);
      if (other[0] != '\0' && strcmp(first, other) != 0)
        return cli_fail(call, CLI_BAD, "%s: expected the %s '%s' in all lines, got '%s'", path,
                        names[n], first, other);
    }
  return CLI_DONE;
}

/* Draws what the lines say into a directory, with the files of other instruments that lie beside
 * the lines. */
static int draw(cli_call *call, const cli_experiment *e, const char *directory, const char *into,
                cli_records *records) {
  char counters[4096], power[4096];
  int length = snprintf(counters, sizeof counters, "%s/counters.jsonl", directory);
  snprintf(power, sizeof power, "%s/power.csv", directory);
  if (length < 0 || (size_t)length >= sizeof counters)
    return cli_fail(call, CLI_BAD, "-o: expected a shorter name");
  int result = cli_records_read(call, counters, false, records);
  if (result == CLI_DONE) result = check_alike(call, directory, records);
  if (result == CLI_DONE) result = read_power_log(call, power, records);
  return result == CLI_DONE ? cli_exhibits_write(call, into, e->source, records) : result;
}

/* Writes results.jsonl and, for an experiment that was not interrupted, the page. */
static int keep_results(cli_laboratory *x, const cli_experiment *e, const char *directory,
                        bool interrupted) {
  if (directory == NULL) return CLI_DONE;
  int saved = cli_laboratory_save(x);
  if (saved != CLI_DONE) return saved;
  if (interrupted) return CLI_DONE;
  cli_records records = {0};
  int result = cli_records_parse(x->call, "results.jsonl", x->lines, &records);
  if (result == CLI_DONE) result = draw(x->call, e, directory, directory, &records);
  cli_records_free(&records);
  return result;
}

/* Fails unless the value of --only is a part of the experiment. */
static int check_part(const cli_call *call, const cli_experiment *experiment, const char *part) {
  if (part == NULL) return CLI_DONE;
  char names[160] = "";
  for (size_t p = 0; p < CLI_EXPERIMENT_PARTS && experiment->parts[p] != NULL; p++) {
    if (strcmp(part, experiment->parts[p]) == 0) return CLI_DONE;
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, p > 0 ? ", %s" : "%s", experiment->parts[p]);
  }
  return cli_fail(call, CLI_BAD, "--only: expected one of %s, got '%s'", names, part);
}

static int start_experiment(cli_laboratory *x, const cli_experiment *e,
                            const cli_experiment_options *o, const char *command) {
  mmc_memory *memory;
  int result = check_part(x->call, e, o->part);
  if (result == CLI_DONE && o->directory != NULL) result = make_directory(x->call, o->directory);
  if (result != CLI_DONE) return result;
  /* A device that is not there is told before anything is measured. */
  mmc_status status = mmc_memory_create(x->call->context, x->device, 0, &memory);
  if (status != MMC_OK) return cli_fail_status(x->call, status, "");
  mmc_memory_destroy(memory);
  result = cli_laboratory_open(x);
  if (result == CLI_DONE && o->directory != NULL)
    result = cli_exhibits_remove(x->call, o->directory, e->source);
  if (result == CLI_DONE) result = cli_energy_open(x->call, &x->energy, x->device);
  if (result == CLI_DONE) cli_laboratory_tell_about(x, command);
  return result;
}

static int run_experiment(cli_call *call, const cli_experiment *e, const cli_experiment_options *o,
                          const char *command) {
  cli_laboratory x = {.call = call,
                      .experiment = e->name,
                      .device = o->device != NULL ? o->device : "cpu",
                      .directory = o->directory,
                      .quick = o->quick,
                      .json = o->json,
                      .window_s = o->window_s >= 0 ? o->window_s : e->window_s[o->quick],
                      .budget_s = o->budget_s >= 0 ? o->budget_s : e->budget_s[o->quick],
                      .repeats = o->repeats > 0 ? o->repeats : e->repeats[o->quick],
                      .energy = {.wanted = e->has_joules, .meter_name = o->meter}};
  cli_interrupt_catch();
  int result = start_experiment(&x, e, o, command);
  if (result == CLI_DONE) {
    result = e->run(&x, o);
    cli_progress_end(&x.progress);
    if (result == CLI_DONE || result == CLI_INTERRUPTED) {
      int kept = keep_results(&x, e, o->directory, result == CLI_INTERRUPTED);
      if (result == CLI_DONE) result = kept;
    }
  }
  cli_laboratory_close(&x);
  return result;
}

int cli_experiment_redraw(cli_call *call, const char *directory, const char *into) {
  char path[4096];
  cli_records records = {0};
  int length = snprintf(path, sizeof path, "%s/results.jsonl", directory);
  if (length < 0 || (size_t)length >= sizeof path)
    return cli_fail(call, CLI_BAD, "%s: expected a shorter name", directory);
  int result = cli_records_read(call, path, true, &records);
  const cli_experiment *found = NULL;
  for (int e = 0; e < EXPERIMENT_COUNT && records.count > 0; e++)
    if (cli_record_has(&records.records[0], "experiment", experiments[e]->name))
      found = experiments[e];
  if (result == CLI_DONE && found == NULL)
    result = cli_fail(call, CLI_BAD, "%s: expected the results of an experiment", path);
  if (result == CLI_DONE && into != NULL) result = make_directory(call, into);
  if (result == CLI_DONE && found != NULL)
    result = draw(call, found, directory, into != NULL ? into : directory, &records);
  cli_records_free(&records);
  return result;
}

/* ---- arguments ------------------------------------------------------------------------------- */

enum {
  OPTION_EXPERIMENT = CLI_OPTION_OWN,
  OPTION_WINDOW,
  OPTION_QUICK,
  OPTION_ONLY,
  OPTION_FAMILY,
  OPTION_SIZES,
  OPTION_REPEATS,
  OPTION_BUDGET
};

static const struct option long_options[] = {
    {"experiment", required_argument, NULL, OPTION_EXPERIMENT},
    {"on", required_argument, NULL, CLI_OPTION_ON},
    {"meter", required_argument, NULL, CLI_OPTION_METER},
    {"energy", no_argument, NULL, CLI_OPTION_ENERGY},
    {"output", required_argument, NULL, CLI_OPTION_OUT},
    {"window", required_argument, NULL, OPTION_WINDOW},
    {"quick", no_argument, NULL, OPTION_QUICK},
    {"only", required_argument, NULL, OPTION_ONLY},
    {"family", required_argument, NULL, OPTION_FAMILY},
    {"sizes", required_argument, NULL, OPTION_SIZES},
    {"repeats", required_argument, NULL, OPTION_REPEATS},
    {"budget", required_argument, NULL, OPTION_BUDGET},
    {"json", no_argument, NULL, CLI_OPTION_JSON},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static int print_help(cli_call *call) {
  cli_print(&call->out,
            "usage: mmchain bench --experiment NAME [options]\n"
            "\n"
            "Measures again what a publication measured. What is not possible here says why.\n"
            "\n");
  for (int e = 0; e < EXPERIMENT_COUNT; e++)
    cli_print(&call->out, "  %-12s %s\n", experiments[e]->name, experiments[e]->summary);
  cli_print(
      &call->out,
      "\n"
      "  --on DEVICE  cpu (the best there is), blas, ref, cuda or cuda:N; see mmchain info\n"
      "  --meter NAME joules by another meter than the device's; see mmchain info\n"
      "  -o DIR       write results.jsonl, index.html (a page that needs nothing else) and its\n"
      "               pictures there; mmchain report DIR draws them again from results.jsonl\n"
      "  --window S   seconds of one sample\n"
      "  --repeats N  samples of everything, up to 32\n"
      "  --budget S   seconds of searches: of us9836434 to tune, of nishida-2011 for one solver\n"
      "  --quick      smaller sizes, shorter and fewer samples\n"
      "  --only PART  one part of the experiment\n"
      "  --family F   only trials of tee-acm2 by plain, tee, faithful or fused kernels, or by the\n"
      "               kernel of this whole name\n"
      "  --sizes LIST n of tee-acm2's single products, of nishida-2011's chains, as in 4096,8192\n"
      "  --json       print the lines of results.jsonl\n"
      "  -h, --help   this text\n");
  return CLI_DONE;
}

/* Reads n of single products: "4096,8192". */
static bool parse_sizes(const cli_call *call, const char *text, cli_experiment_options *out) {
  const char *at = text;
  uint64_t n = 0;
  out->size_count = 0;
  while (out->size_count < CLI_EXPERIMENT_SIZES &&
         cli_digits_read(&at, INT32_MAX, &n) == CLI_DIGITS_FINE && n > 0) {
    out->sizes[out->size_count++] = (int64_t)n;
    if (*at == '\0') return true;
    if (*at++ != ',') break;
  }
  cli_fail(call, CLI_BAD, "--sizes: expected up to %d numbers, as in 4096,8192, got '%s'",
           CLI_EXPERIMENT_SIZES, text);
  return false;
}

static const cli_experiment *find_experiment(const cli_call *call, const char *name) {
  for (int e = 0; e < EXPERIMENT_COUNT; e++)
    if (strcmp(experiments[e]->name, name) == 0) return experiments[e];
  char names[160] = "help";
  for (int e = 0; e < EXPERIMENT_COUNT; e++) {
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, ", %s", experiments[e]->name);
  }
  cli_fail(call, CLI_BAD, "--experiment: expected one of %s, got '%s'", names, name);
  return NULL;
}

bool cli_experiment_is_asked(int argc, char **argv) {
  static const char option[] = "--experiment";
  for (int a = 1; a < argc && strcmp(argv[a], "--") != 0; a++)
    if (strncmp(argv[a], option, sizeof option - 1) == 0 &&
        (argv[a][sizeof option - 1] == '\0' || argv[a][sizeof option - 1] == '='))
      return true;
  return false;
}

/* Writes "mmchain bench ..." as it was called, cut where it is long. */
static void join_words(int argc, char **argv, char out[COMMAND_MOST]) {
  int length = snprintf(out, COMMAND_MOST, "mmchain");
  for (int a = 0; a < argc && length < COMMAND_MOST; a++)
    length += snprintf(out + length, (size_t)(COMMAND_MOST - length), " %s", argv[a]);
}

int cli_experiment_run(cli_call *call, int argc, char **argv) {
  cli_experiment_options o = {.window_s = -1, .budget_s = -1};
  const char *name = "help";
  char command[COMMAND_MOST];
  int64_t repeats = 0;
  join_words(argc, argv, command);
  for (int code; (code = cli_option_next(call, argc, argv, long_options)) != CLI_OPTION_END;) {
    switch (code) {
      case OPTION_EXPERIMENT:
        name = optarg;
        break;
      case CLI_OPTION_ON:
        o.device = optarg;
        break;
      case CLI_OPTION_METER:
        o.meter = optarg;
        break;
      case CLI_OPTION_ENERGY: /* joules are measured wherever they can be */
        break;
      case CLI_OPTION_OUT:
        o.directory = optarg;
        break;
      case OPTION_WINDOW:
        if (!cli_seconds(call, "--window", optarg, &o.window_s)) return CLI_BAD;
        break;
      case OPTION_QUICK:
        o.quick = true;
        break;
      case OPTION_ONLY:
        o.part = optarg;
        break;
      case OPTION_FAMILY:
        o.kernel = optarg;
        break;
      case OPTION_REPEATS:
        if (!cli_number(call, "--repeats", optarg, 1, CLI_REPEATS_MOST, &repeats)) return CLI_BAD;
        o.repeats = (int)repeats;
        break;
      case OPTION_BUDGET:
        if (!cli_seconds(call, "--budget", optarg, &o.budget_s)) return CLI_BAD;
        break;
      case OPTION_SIZES:
        if (!parse_sizes(call, optarg, &o)) return CLI_BAD;
        break;
      case CLI_OPTION_JSON:
        o.json = true;
        break;
      case CLI_OPTION_HELP:
        return print_help(call);
      default:
        return CLI_BAD;
    }
  }
  if (strcmp(name, "help") == 0) return print_help(call);
  const cli_experiment *experiment = find_experiment(call, name);
  if (experiment == NULL) return CLI_BAD;
  if (optind < argc)
    return cli_fail(call, CLI_BAD, "--experiment: expected no chains with it, got '%s'",
                    argv[optind]);
  return run_experiment(call, experiment, &o, command);
}

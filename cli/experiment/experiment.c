/* experiment.c: the list of experiments, their options, and the run of one. */
#include "experiment.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../options.h"
#include "../progress.h"
#include "../timing.h"

static const cli_experiment *const experiments[] = {&cli_experiment_tee_acm2};

enum { EXPERIMENT_COUNT = sizeof experiments / sizeof experiments[0] };

typedef struct run_state {
  const cli_experiment *experiment;
  const cli_experiment_options *options;
  cli_laboratory laboratory;
  FILE *results; /* results.jsonl; NULL when it is not wanted */
  cli_buffer lines;
} run_state;

bool cli_experiment_wants(const char *asked, const char *name) {
  return asked == NULL || strcmp(asked, name) == 0;
}

/* ---- one run --------------------------------------------------------------------------------- */

static void tell_trial(run_state *x, const cli_trial *t) {
  cli_stream *out = &x->laboratory.call->out;
  if (x->options->json)
    cli_trial_print_json(out, &x->laboratory, x->experiment->name, t);
  else
    cli_trial_print_text(out, t);
  cli_stream_flush(out);
  if (x->results == NULL) return;
  cli_stream lines = {.file = x->results};
  cli_trial_print_json(&lines, &x->laboratory, x->experiment->name, t);
}

static int try_all(run_state *x) {
  cli_laboratory *lab = &x->laboratory;
  cli_call *call = lab->call;
  double total_s = 0, done_s = 0, start = cli_now_s();
  for (size_t i = 0; i < lab->all.count; i++)
    total_s += cli_trial_estimate(lab, &lab->all.trials[i]);
  fprintf(stderr, "mmchain bench: %zu trials on %s, about %.0f s at most\n", lab->all.count,
          lab->all.machine, ceil(total_s));
  if (!x->options->json) cli_trial_print_heading(&call->out, lab, x->experiment->name);
  cli_progress progress = cli_progress_start(call);
  int result = CLI_DONE;
  for (size_t i = 0; i < lab->all.count && result == CLI_DONE && call->out.error == 0; i++) {
    double share = done_s / total_s, taken_s = cli_now_s() - start;
    if (cli_progress_show_left(&progress, share, share > 0 ? taken_s * (1 / share - 1) : total_s))
      result = cli_fail(call, CLI_INTERRUPTED, "interrupted");
    if (result != CLI_DONE) break;
    done_s += cli_trial_estimate(lab, &lab->all.trials[i]);
    result = cli_trial_run(lab, &lab->all.trials[i]);
    cli_progress_end(&progress);
    if (result == CLI_DONE) tell_trial(x, &lab->all.trials[i]);
  }
  cli_progress_end(&progress);
  return result;
}

/* Writes the device's model: its description up to the first comma. */
static void name_machine(cli_laboratory *x) {
  mmc_device_info info;
  for (int d = 0; mmc_device_describe(x->call->context, d, &info) == MMC_OK; d++) {
    size_t length = strlen(info.name);
    bool found = strcmp(info.name, x->device) == 0 ||
                 (strncmp(info.name, x->device, strlen(x->device)) == 0 && length > 2 &&
                  strcmp(info.name + length - 2, ":0") == 0) ||
                 (strcmp(x->device, "cpu") == 0 && info.available);
    if (!found) continue;
    snprintf(x->all.machine, sizeof x->all.machine, "%.*s", (int)strcspn(info.description, ","),
             info.description);
    break;
  }
  x->is_gpu = strncmp(x->device, "cuda", 4) == 0;
}

static int make_directory(cli_call *call, const char *path) {
  struct stat found;
  if (mkdir(path, 0777) == 0 || (stat(path, &found) == 0 && S_ISDIR(found.st_mode)))
    return CLI_DONE;
  return cli_fail(call, CLI_BAD, "-o: %s: cannot make this directory: %s", path, strerror(errno));
}

/* Writes results.jsonl and, for an experiment that was not interrupted, the figures. */
static int keep_results(run_state *x, bool interrupted) {
  const char *directory = x->options->directory;
  cli_call *call = x->laboratory.call;
  if (directory == NULL) return CLI_DONE;
  char path[4096];
  int length = snprintf(path, sizeof path, "%s/results.jsonl", directory);
  cli_file file;
  fflush(x->results);
  if (length < 0 || (size_t)length >= sizeof path || !cli_file_create(path, &file))
    return cli_fail(call, CLI_BAD, "-o: %s: cannot write: %s", path, strerror(errno));
  cli_stream_write(&file.stream, x->lines.bytes, x->lines.size);
  if (!cli_file_commit(&file))
    return cli_fail(call, CLI_BAD, "-o: %s: cannot write: %s", path, strerror(errno));
  return interrupted ? CLI_DONE : x->experiment->draw(call, directory, &x->laboratory.all);
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

static int start_experiment(run_state *x) {
  const cli_experiment_options *o = x->options;
  cli_laboratory *lab = &x->laboratory;
  cli_call *call = lab->call;
  int result = check_part(call, x->experiment, o->part);
  if (result == CLI_DONE && o->directory != NULL) result = make_directory(call, o->directory);
  if (result != CLI_DONE) return result;
  mmc_status status = mmc_memory_create(call->context, lab->device, 0, &lab->memory);
  if (status != MMC_OK) return cli_fail_status(call, status, "");
  name_machine(lab);
  if (o->directory != NULL &&
      (x->results = open_memstream(&x->lines.bytes, &x->lines.size)) == NULL)
    return cli_fail_memory(call, "the results take", 1 << 16);
  result = cli_laboratory_open(lab);
  if (result == CLI_DONE && !x->experiment->list(lab, o)) result = CLI_FAILED;
  if (result == CLI_DONE && lab->all.count == 0)
    result =
        cli_fail(call, CLI_BAD, "--family: no trial of '%s'", o->kernel != NULL ? o->kernel : "");
  return result == CLI_DONE ? cli_energy_open(call, &lab->energy, lab->device) : result;
}

static int run_experiment(cli_call *call, const cli_experiment *experiment,
                          const cli_experiment_options *options) {
  run_state x = {.experiment = experiment,
                 .options = options,
                 .laboratory = {.call = call,
                                .device = options->device != NULL ? options->device : "cpu",
                                .window_s = options->window_s >= 0 ? options->window_s
                                            : options->quick       ? 0.5
                                                                   : 2,
                                .energy = {.wanted = true, .meter_name = options->meter}}};
  cli_interrupt_catch();
  int result = start_experiment(&x);
  if (result == CLI_DONE) {
    result = try_all(&x);
    if (result == CLI_DONE || result == CLI_INTERRUPTED) {
      int kept = keep_results(&x, result == CLI_INTERRUPTED);
      if (result == CLI_DONE) result = kept;
    }
  }
  cli_laboratory_close(&x.laboratory);
  if (x.results != NULL) fclose(x.results);
  free(x.lines.bytes);
  return result;
}

/* ---- arguments ------------------------------------------------------------------------------- */

enum {
  OPTION_EXPERIMENT = CLI_OPTION_OWN,
  OPTION_WINDOW,
  OPTION_QUICK,
  OPTION_ONLY,
  OPTION_FAMILY,
  OPTION_SIZES
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
      "  -o DIR       write results.jsonl and figure-NN.svg there, numbered as the source does\n"
      "  --window S   measure each trial for S seconds; 2 when left out\n"
      "  --quick      smaller sizes, and windows of 0.5 s\n"
      "  --only PART  one part of the experiment\n"
      "  --family F   only trials by plain, tee, faithful or fused kernels, or by the kernel of\n"
      "               this whole name\n"
      "  --sizes LIST n of single products, as in 4096,8192\n"
      "  --json       one object a line for every trial\n"
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

int cli_experiment_run(cli_call *call, int argc, char **argv) {
  cli_experiment_options o = {.window_s = -1};
  const char *name = "help";
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
  return run_experiment(call, experiment, &o);
}

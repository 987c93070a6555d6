/* bench.c: `mmchain bench` compares left to right, the order of fewest multiplications, and ours.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "experiment/experiment.h"
#include "methods.h"
#include "options.h"
#include "suite.h"

static const char help[] =
    "usage: mmchain bench CHAIN ... [options]\n"
    "       mmchain bench --suite FILE [options]\n"
    "       mmchain bench --experiment NAME [options]\n"
    "\n"
    "Times each chain left to right, in the order of fewest multiplications (flop-optimal) and in\n"
    "the way that mmchain knows best (ours): for time, or energy, where something was tuned for\n"
    "the device (see mmchain tune), and else as flop-optimal. Prints the median and the spread, "
    "the\n"
    "GFLOP/s (2mkn flops a product, 8mkn for complex numbers) and the share of the machine's "
    "peak,\n"
    "which is the best of some square products on the same device and dtype.\n"
    "\n"
    "  CHAIN        f32:10x30x5x60 and the like, @10000 behind it for a batch of so many; each\n"
    "               argument a chain; factors, 10x30 30x5, or .npy files make one chain together;\n"
    "               see mmchain --help\n"
    "  --suite FILE a chain a line, as CHAIN or as `name: 30 35 15`; # begins a comment; - for\n"
    "               standard input\n"
    "  --dtype NAME multiply all chains in f32, f64, c64, c128, f16, bf16, i8 to i64, u8 to u64\n"
    "               or bool, whatever they say\n"
    "  --for WHAT   what ours is to make least: time (when left out) or energy, by joules\n"
    "  --max-slowdown X\n"
    "               with --for energy, at most so many times the time of the plan for time\n"
    "  --on DEVICE  cpu (the best there is), blas, ref, cuda or cuda:N; see mmchain info\n"
    "  --location L device (when left out) or host: where factors and results lie\n"
    "  --precision P native (when left out), faithful or fast\n"
    "  --reproducible\n"
    "               the same bits on every device, by any number of threads, with --precision\n"
    "               faithful large products by whole numbers: docs/reproducible.md\n"
    "  --tolerance X\n"
    "               as little work as surely keeps results within X of the factors' lengths\n"
    "  --seconds S  how long to measure a chain; 1 when left out, and 5 runs at least\n"
    "  --energy     measure the joules of each method too, for two seconds, or say why not\n"
    "  --meter NAME --energy by another meter than the device's; see mmchain info\n"
    "  --json       one object a line for every chain and method\n"
    "  -h, --help   this text\n"
    "\n"
    "mmchain bench --experiment help lists experiments, what publications measured, and their "
    "options.\n";

enum { OPTION_SUITE = CLI_OPTION_OWN, OPTION_SECONDS, OPTION_LOCATION, OPTION_DTYPE };

static const struct option options[] = {
    {"suite", required_argument, NULL, OPTION_SUITE},
    {"for", required_argument, NULL, CLI_OPTION_FOR},
    {"max-slowdown", required_argument, NULL, CLI_OPTION_MAX_SLOWDOWN},
    {"on", required_argument, NULL, CLI_OPTION_ON},
    {"location", required_argument, NULL, OPTION_LOCATION},
    {"dtype", required_argument, NULL, OPTION_DTYPE},
    {"precision", required_argument, NULL, CLI_OPTION_PRECISION},
    {"reproducible", no_argument, NULL, CLI_OPTION_REPRODUCIBLE},
    {"tolerance", required_argument, NULL, CLI_OPTION_TOLERANCE},
    {"seconds", required_argument, NULL, OPTION_SECONDS},
    {"energy", no_argument, NULL, CLI_OPTION_ENERGY},
    {"meter", required_argument, NULL, CLI_OPTION_METER},
    {"json", no_argument, NULL, CLI_OPTION_JSON},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {NULL, 0, NULL, 0},
};

/* ---- printing -------------------------------------------------------------------------------- */

static void print_energy(cli_stream *out, const mmc_energy *energy) {
  if (energy->measured)
    cli_print(out, " %10.4g %8.4g", energy->joules, energy->watts);
  else
    cli_print(out, " %10s %8s", "-", "-");
}

/* Prints the idle power, or why there are no joules. */
static void print_meter(cli_stream *out, const cli_measurement all[CLI_METHODS]) {
  for (int i = 0; i < CLI_METHODS; i++) {
    const mmc_energy *energy = &all[i].energy;
    if (energy->measured) continue;
    cli_print(out, "no joules: %s\n", energy->reason);
    return;
  }
  cli_print(out, "joules by %s, %.4g W when idle\n", all[0].energy.meter, all[0].energy.idle_watts);
}

static void print_bench_text(cli_call *call, const cli_contest *b, const cli_suite_entry *entry,
                             const char *text, const cli_measurement all[CLI_METHODS]) {
  const cli_peak *p = &b->peaks[mmc_chain_dtype(entry->chain)];
  cli_stream *out = &call->out;
  if (entry->name != NULL) cli_print(out, "name    %s\n", entry->name);
  cli_print(out, "chain   %s\ndevice  %s, peak %.4g GFLOP/s (%dx%dx%d)\n", text,
            mmc_plan_device(all[0].plan), p->flops_per_s / 1e9, p->n, p->n, p->n);
  cli_print(out, "%-13s %20s %10s %10s %10s %10s %7s %9s %8s %10s", "method", "multiplications",
            "median", "predicted", "min", "max", "runs", "GFLOP/s", "of peak", "planned in");
  cli_print(out, b->energy.wanted ? " %10s %8s\n" : "\n", "J", "W");
  for (int i = 0; i < CLI_METHODS; i++) {
    const cli_measurement *m = &all[i];
    char count[MMC_COUNT_TEXT_SIZE];
    double flops_per_s =
        cli_plan_flops(mmc_chain_dtype(entry->chain), m->plan) / cli_measurement_median(m);
    cli_print(out, "%-13s %20s %10s %10s %10s %10s %7zu %9.4g %6.1f %% %10s", cli_method_names[i],
              mmc_count_format(mmc_plan_multiplications(m->plan), count),
              cli_in_words(cli_measurement_median(m)).text,
              isnan(m->predicted_s) ? "-" : cli_in_words(m->predicted_s).text,
              cli_in_words(m->samples_s[0]).text, cli_in_words(m->samples_s[m->count - 1]).text,
              m->count, flops_per_s / 1e9, 100 * flops_per_s / p->flops_per_s,
              cli_in_words(m->plan_s).text);
    if (b->energy.wanted) print_energy(out, &m->energy);
    cli_print(out, "\n");
  }
  if (b->energy.wanted) print_meter(out, all);
  if (!isnan(all[2].predicted_j)) cli_print(out, "ours predicted %.4g J\n", all[2].predicted_j);
  if (cli_plan_same(all[1].plan, all[2].plan))
    cli_print(out, "ours is the flop-optimal plan here\n");
  cli_print(out, "\n");
}

static void print_bench_json(cli_call *call, const cli_contest *b, const cli_suite_entry *entry,
                             const char *text, const cli_measurement all[CLI_METHODS]) {
  const cli_peak *p = &b->peaks[mmc_chain_dtype(entry->chain)];
  cli_stream *out = &call->out;
  for (int i = 0; i < CLI_METHODS; i++) {
    const cli_measurement *m = &all[i];
    double flops_per_s =
        cli_plan_flops(mmc_chain_dtype(entry->chain), m->plan) / cli_measurement_median(m);
    cli_print(out, "{\"name\": ");
    if (entry->name != NULL)
      cli_print_json_string(out, entry->name);
    else
      cli_print(out, "null");
    cli_print(out, ", \"chain\": \"%s\", \"device\": ", text);
    cli_print_json_string(out, mmc_plan_device(m->plan));
    cli_print(out, ", \"method\": \"%s\", \"multiplications\": ", cli_method_names[i]);
    cli_print_json_count(out, mmc_plan_multiplications(m->plan));
    cli_print(out, ", \"median_s\": %.6g, \"min_s\": %.6g, \"max_s\": %.6g, \"runs\": %zu",
              cli_measurement_median(m), m->samples_s[0], m->samples_s[m->count - 1], m->count);
    if (isnan(m->predicted_s))
      cli_print(out, ", \"predicted_s\": null");
    else
      cli_print(out, ", \"predicted_s\": %.6g", m->predicted_s);
    if (isnan(m->predicted_j))
      cli_print(out, ", \"predicted_joules\": null");
    else
      cli_print(out, ", \"predicted_joules\": %.6g", m->predicted_j);
    cli_print(out, ", \"gflops\": %.6g, \"peak_share\": %.6g, \"peak_gflops\": %.6g",
              flops_per_s / 1e9, flops_per_s / p->flops_per_s, p->flops_per_s / 1e9);
    cli_print(out, ", \"plan_s\": %.6g, \"flop_optimal_plan\": %s, ", m->plan_s,
              cli_plan_same(all[1].plan, m->plan) ? "true" : "false");
    cli_energy_print_json(out, &m->energy);
    cli_print(out, "}\n");
  }
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Checks that a chain can be measured. */
static int check_chain(cli_call *call, const mmc_chain *chain) {
  const mmc_semiring semiring = mmc_chain_semiring(chain);
  const int64_t n = mmc_chain_length(chain);
  if (n >= 2 && cli_chain_is_timed(chain)) return CLI_DONE;
  char *text = cli_chain_text(chain);
  if (text == NULL) return cli_fail_memory(call, "the chain's text takes", 8 * (double)n);
  int result =
      n < 2 ? cli_fail(call, CLI_BAD, "%s: expected a chain of two factors at least", text)
            : cli_fail(call, CLI_BAD,
                       "%s: expected sums and products, of which times are predicted, got %s", text,
                       mmc_semiring_name(semiring));
  free(text);
  return result;
}

static int bench_chain(cli_call *call, cli_contest *b, const cli_suite_entry *entry, bool json) {
  const mmc_chain *chain = entry->chain;
  int64_t n = mmc_chain_length(chain);
  char *text = cli_chain_text(chain);
  if (text == NULL) return cli_fail_memory(call, "the chain's text takes", 8 * (double)n);
  cli_measurement all[CLI_METHODS] = {0};
  int result = cli_contest_run(call, b, chain, all);
  if (result == CLI_DONE) {
    (json ? print_bench_json : print_bench_text)(call, b, entry, text, all);
    /* Flushed, so that what was measured is not lost when the rest is interrupted. */
    cli_stream_flush(&call->out);
  }
  cli_contest_free(all);
  free(text);
  return result;
}

static bool parse_objective(const cli_call *call, const char *text, const char **out) {
  *out = text;
  if (strcmp(text, "time") == 0 || strcmp(text, "energy") == 0) return true;
  cli_fail(call, CLI_BAD, "--for: expected time or energy, got '%s'", text);
  return false;
}

static bool parse_location(const cli_call *call, const char *text, mmc_location *out) {
  *out = strcmp(text, "host") == 0 ? MMC_HOST : MMC_DEVICE;
  if (*out == MMC_HOST || strcmp(text, "device") == 0) return true;
  cli_fail(call, CLI_BAD, "--location: expected device or host, got '%s'", text);
  return false;
}

/* Says whether a device that is here is the one of that name; "cpu" is the first. */
static bool is_meant(const mmc_device_info *info, const char *name, int index) {
  if (name == NULL || strcmp(name, "cpu") == 0) return index == 0 && info->available;
  size_t length = strlen(name);
  return info->available && strncmp(info->name, name, length) == 0 &&
         (info->name[length] == '\0' || strcmp(info->name + length, ":0") == 0);
}

/* Says on standard error what makes the device slower than it need be: figures are no good then. */
static void tell_what_is_slow(cli_call *call, const char *device) {
  mmc_device_info info;
  for (int d = 0; mmc_device_describe(call->context, d, &info) == MMC_OK; d++) {
    const char *slow = is_meant(&info, device, d) ? strstr(info.description, "; slow: ") : NULL;
    if (slow != NULL) fprintf(stderr, "mmchain bench: %s is%s\n", info.name, slow + 1);
  }
}

static int run(cli_call *call, int argc, char **argv) {
  if (cli_experiment_is_asked(argc, argv)) return cli_experiment_run(call, argc, argv);
  cli_contest b = {.seconds = 1, .objective = "time", .plan_options = MMC_PLAN_OPTIONS_INIT};
  b.plan_options.location = MMC_DEVICE;
  const char *suite_path = NULL, *dtype = NULL;
  cli_planning planning = {.options = &b.plan_options};
  bool json = false;
  for (int code; (code = cli_option_next(call, argc, argv, options)) != CLI_OPTION_END;) {
    switch (code) {
      case OPTION_SUITE:
        suite_path = optarg;
        break;
      case OPTION_LOCATION:
        if (!parse_location(call, optarg, &b.plan_options.location)) return CLI_BAD;
        break;
      case CLI_OPTION_FOR:
        if (!parse_objective(call, optarg, &b.objective)) return CLI_BAD;
        break;
      case CLI_OPTION_MAX_SLOWDOWN:
        if (!cli_slowdown(call, optarg, &b.max_slowdown)) return CLI_BAD;
        break;
      case OPTION_DTYPE:
        dtype = optarg;
        break;
      case OPTION_SECONDS:
        if (!cli_seconds(call, "--seconds", optarg, &b.seconds)) return CLI_BAD;
        break;
      case CLI_OPTION_METER:
        b.energy.meter_name = optarg;
        b.energy.wanted = true;
        break;
      case CLI_OPTION_ENERGY:
        b.energy.wanted = true;
        break;
      case CLI_OPTION_JSON:
        json = true;
        break;
      case CLI_OPTION_HELP:
        return cli_help(call);
      default:
        if (!cli_planning_option(call, code, &planning)) return CLI_BAD;
    }
  }
  if (!cli_planning_arithmetic(call, &planning)) return CLI_BAD;
  if (b.max_slowdown > 0 && strcmp(b.objective, "energy") != 0)
    return cli_fail(call, CLI_BAD, "--max-slowdown: expected --for energy with it");
  cli_suite suite = {0};
  int result = CLI_DONE;
  if (suite_path != NULL) result = cli_suite_read(call, suite_path, &suite);
  if (result == CLI_DONE)
    result = cli_suite_of_arguments(call, argc - optind, argv + optind, &suite);
  if (result == CLI_DONE && dtype != NULL) result = cli_suite_set_dtype(call, dtype, &suite);
  if (result == CLI_DONE && suite.count == 0)
    result =
        cli_fail(call, CLI_BAD, "expected chains, as in 10x30x5x60, or --suite FILE with some");
  for (int i = 0; i < suite.count && result == CLI_DONE; i++)
    result = check_chain(call, suite.entries[i].chain);
  for (int i = 0; i < suite.count && result == CLI_DONE && call->out.error == 0; i++) {
    result = bench_chain(call, &b, &suite.entries[i], json);
    if (result == CLI_DONE && i == 0) tell_what_is_slow(call, b.plan_options.device);
  }
  cli_energy_close(&b.energy);
  cli_suite_free(&suite);
  return result;
}

const cli_command cli_bench = {
    .name = "bench",
    .summary = "time chains left to right, flop-optimal and as mmchain does",
    .help = help,
    .run = run,
};

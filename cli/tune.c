/* tune.c: `mmchain tune` measures how products run best here, for plans for time and energy. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chains.h"
#include "options.h"
#include "progress.h"
#include "random.h"
#include "suite.h"
#include "team.h"

static const char help[] =
    "usage: mmchain tune --chain CHAIN ... [options]\n"
    "       mmchain tune --set FILE [options]\n"
    "       mmchain tune --range MAX [options]\n"
    "       mmchain tune --calibrate [options]\n"
    "\n"
    "Measures how products run best on this machine: whole, in parts, by another algorithm of the\n"
    "library. What it finds is kept (see mmchain wisdom) and used by plan, multiply and bench "
    "with\n"
    "--for time. Every measurement is kept as soon as it is made: begun again, after Ctrl-C or\n"
    "anything else, tuning goes on where it was. Leave the machine alone meanwhile.\n"
    "\n"
    "With --for energy the joules of each product are measured, by the plain call, by the "
    "device's\n"
    "variants and by what was found to be fastest, for plans with --for energy.\n"
    "\n"
    "  --chain CHAIN ...  the products of chains: all that an order may need of up to 6 factors, "
    "of\n"
    "                     longer ones those of the fewest multiplications; and several of "
    "them\n"
    "                     as one call where the device takes that, a batch's products together\n"
    "  --set FILE         the products of a file, one a line: m k n [ops [dtype]], as in 64 4096 "
    "32\n"
    "                     or 64 4096 32 NT f32; # begins a comment; - for standard input\n"
    "  --range MAX        the efficiency of all sizes up to MAX, on a grid; of --dtype and --ops\n"
    "  --calibrate        the facts of the model, for what is not measured; of --dtype. They are\n"
    "                     measured with everything else, too, where they are not known\n"
    "  --on DEVICE        cpu (the best there is), blas, ref, cuda or cuda:N; see mmchain info;\n"
    "                     scalapack with --calibrate, on all ranks that mpirun or srun has "
    "started\n"
    "  --precision NAME   native, faithful (as accurate) or fast (TF32 for f32 on a GPU)\n"
    "  --dtype TYPE       f64 when left out\n"
    "  --ops OPS          NN when left out: N as stored, T transposed, H conjugate transposed\n"
    "  --for OBJECTIVE    what to make least: time (when left out) or energy, by joules: two\n"
    "                     seconds a measurement, of chains and sets\n"
    "  --meter NAME       --for energy by another meter than the device's; see mmchain info\n"
    "  --budget SECONDS   to measure at most; as long as it takes when left out\n"
    "  --json             one object a line for every product that is decided and every call "
    "that\n"
    "                     is timed\n"
    "  -h, --help         this text\n";

enum {
  OPTION_CHAIN = CLI_OPTION_OWN,
  OPTION_SET,
  OPTION_RANGE,
  OPTION_CALIBRATE,
  OPTION_DTYPE,
  OPTION_OPS,
  OPTION_BUDGET
};

static const struct option options[] = {
    {"chain", required_argument, NULL, OPTION_CHAIN},
    {"set", required_argument, NULL, OPTION_SET},
    {"range", required_argument, NULL, OPTION_RANGE},
    {"calibrate", no_argument, NULL, OPTION_CALIBRATE},
    {"on", required_argument, NULL, CLI_OPTION_ON},
    {"precision", required_argument, NULL, CLI_OPTION_PRECISION},
    {"dtype", required_argument, NULL, OPTION_DTYPE},
    {"ops", required_argument, NULL, OPTION_OPS},
    {"for", required_argument, NULL, CLI_OPTION_FOR},
    {"meter", required_argument, NULL, CLI_OPTION_METER},
    {"budget", required_argument, NULL, OPTION_BUDGET},
    {"json", no_argument, NULL, CLI_OPTION_JSON},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static const int64_t range_max = INT64_C(1) << 40;

typedef struct tuning {
  cli_call *call;
  mmc_tune_options options;
  const char *set_path;
  cli_suite chains;
  const mmc_chain **chain_list; /* the chains of the suite, as mmc_tune() takes them */
  mmc_tune_product *products;   /* products of the set */
  int64_t capacity;
  bool json;
  cli_progress progress;
} tuning;

/* ---- what to tune ---------------------------------------------------------------------------- */

static bool parse_ops(const char *text, mmc_op *a, mmc_op *b) {
  static const char letters[] = {[MMC_OP_N] = 'N', [MMC_OP_T] = 'T', [MMC_OP_H] = 'H'};
  if (strlen(text) != 2) return false;
  mmc_op *const ops[2] = {a, b};
  for (int i = 0; i < 2; i++) {
    const char *found = memchr(letters, text[i], sizeof letters);
    if (found == NULL) return false;
    *ops[i] = (mmc_op)(found - letters);
  }
  return true;
}

/* Integers need no tuning. */
static bool parse_dtype(const char *text, mmc_dtype *out) {
  for (mmc_dtype d = MMC_F32; mmc_dtype_name(d) != NULL; d = (mmc_dtype)(d + 1))
    if (!cli_dtype_is_integer(d) && strcmp(mmc_dtype_name(d), text) == 0) {
      *out = d;
      return true;
    }
  return false;
}

static const char ops_expected[] = "expected two letters of N, T and H, as in NT";
static const char dtypes_expected[] = "expected f32, f64, c64, c128, f16 or bf16";

static int read_product(cli_call *call, const char *where, const cli_words *words,
                        mmc_tune_product *out) {
  if (words->count < 3 || words->count > 5)
    return cli_fail(call, CLI_BAD, "%sexpected m k n [ops [dtype]], got %d words", where,
                    words->count);
  int64_t *const sizes[3] = {&out->m, &out->k, &out->n};
  for (int i = 0; i < 3; i++) {
    char name[512];
    snprintf(name, sizeof name, "%s%c", where, "mkn"[i]);
    if (!cli_number(call, name, words->words[i], 1, CLI_DIM_MAX, sizes[i])) return CLI_BAD;
  }
  if (words->count > 3 && !parse_ops(words->words[3], &out->op_a, &out->op_b))
    return cli_fail(call, CLI_BAD, "%sops: %s, got '%s'", where, ops_expected, words->words[3]);
  if (words->count > 4 && !parse_dtype(words->words[4], &out->dtype))
    return cli_fail(call, CLI_BAD, "%sdtype: %s, got '%s'", where, dtypes_expected,
                    words->words[4]);
  return CLI_DONE;
}

static int append_line(tuning *t, const char *where, const char *line) {
  cli_words words;
  if (!cli_words_split(line, &words))
    return cli_fail_memory(t->call, "a line takes", (double)strlen(line));
  int result = CLI_DONE;
  mmc_tune_options *o = &t->options;
  if (words.count > 0 && o->product_count == t->capacity) {
    size_t capacity = 2 * (size_t)t->capacity + 64;
    mmc_tune_product *grown = realloc(t->products, capacity * sizeof *grown);
    if (grown == NULL)
      result = cli_fail_memory(t->call, "the set takes", (double)(capacity * sizeof *grown));
    else
      t->products = grown, t->capacity = (int64_t)capacity;
  }
  if (words.count > 0 && result == CLI_DONE) {
    mmc_tune_product product = {.dtype = o->dtype, .op_a = o->op_a, .op_b = o->op_b};
    result = read_product(t->call, where, &words, &product);
    if (result == CLI_DONE) t->products[o->product_count++] = product;
  }
  cli_words_free(&words);
  return result;
}

static int read_set(tuning *t) {
  const char *path = t->set_path;
  bool standard_input = strcmp(path, "-") == 0;
  const char *name = standard_input ? "standard input" : path;
  int result = cli_note_input(t->call, "", "--set", standard_input ? "/dev/stdin" : path);
  if (result != CLI_DONE) return result;
  FILE *file = standard_input ? stdin : fopen(path, "re");
  if (file == NULL)
    return cli_fail(t->call, CLI_BAD, "--set: %s: cannot read: %s", name, strerror(errno));
  char *line = NULL;
  size_t capacity = 0;
  for (long number = 1; result == CLI_DONE && getline(&line, &capacity, file) >= 0; number++) {
    char where[480];
    snprintf(where, sizeof where, "%.400s:%ld: ", name, number);
    result = append_line(t, where, line);
  }
  if (result == CLI_DONE && ferror(file))
    result = cli_fail(t->call, CLI_BAD, "--set: %s: cannot read: %s", name, strerror(errno));
  free(line);
  if (!standard_input) fclose(file);
  if (result == CLI_DONE && t->options.product_count == 0)
    result = cli_fail(t->call, CLI_BAD, "--set: %s: expected products, one a line", name);
  t->options.products = t->products;
  return result;
}

static int list_chains(tuning *t) {
  int count = t->chains.count;
  if (count == 0) return CLI_DONE;
  t->chain_list = malloc((size_t)count * sizeof *t->chain_list);
  if (t->chain_list == NULL)
    return cli_fail_memory(t->call, "the list of chains takes", 8 * (double)count);
  for (int c = 0; c < count; c++) {
    t->chain_list[c] = t->chains.entries[c].chain;
    if (mmc_chain_length(t->chain_list[c]) < 2)
      return cli_fail(t->call, CLI_BAD, "--chain: expected two factors at least, as in 10x30x5");
  }
  t->options.chains = t->chain_list;
  t->options.chain_count = count;
  return CLI_DONE;
}

/* ---- what is told ---------------------------------------------------------------------------- */

/* The bar is of the budget where there is one, else of what is under way. */
static int show_progress(void *user, const mmc_tune_progress *now) {
  tuning *t = user;
  char words[120];
  bool has_budget = !isnan(now->spent);
  snprintf(words, sizeof words, "%s, %" PRId64 " of %" PRId64 " %s of %s",
           has_budget ? "of the budget" : "done", now->decided, now->count, now->unit,
           mmc_dtype_name(now->dtype));
  double share = has_budget ? now->spent : (double)now->decided / (double)now->count;
  return cli_progress_show_words(&t->progress, share, words);
}

static int show_decided(void *user, const mmc_tuned *tuned) {
  tuning *t = user;
  const mmc_tune_product *p = &tuned->product;
  cli_stream *out = &t->call->out;
  const char ops[] = {"NTH"[p->op_a], "NTH"[p->op_b], '\0'};
  cli_progress_end(&t->progress);
  bool for_energy = !isnan(tuned->joules);
  if (t->json) {
    cli_print(out,
              "{\"dtype\": \"%s\", \"m\": %" PRId64 ", \"k\": %" PRId64 ", \"n\": %" PRId64
              ", \"ops\": \"%s\", \"recipe\": \"%s\", \"plain_s\": %.6g, \"seconds\": %.6g, "
              "\"gain\": %.4f, \"gain_low\": %.4f, \"gain_high\": %.4f",
              mmc_dtype_name(p->dtype), p->m, p->k, p->n, ops, tuned->recipe, tuned->plain_s,
              tuned->seconds, tuned->gain, tuned->gain_low, tuned->gain_high);
    if (for_energy)
      cli_print(out, ", \"plain_joules\": %.6g, \"joules\": %.6g", tuned->plain_joules,
                tuned->joules);
    cli_print(out, "}\n");
  } else {
    cli_print(out, "%-5s %8" PRId64 " %8" PRId64 " %8" PRId64 "  %s  plain %8s",
              mmc_dtype_name(p->dtype), p->m, p->k, p->n, ops, cli_in_words(tuned->plain_s).text);
    if (for_energy)
      cli_print(out, " %10.4g uJ, %s %.4g uJ", 1e6 * tuned->plain_joules,
                cli_in_words(tuned->seconds).text, 1e6 * tuned->joules);
    cli_print(out, "  gain %.3f (%.3f to %.3f)  %s\n", tuned->gain, tuned->gain_low,
              tuned->gain_high, tuned->recipe);
  }
  cli_stream_flush(out);
  return out->error != 0;
}

static int show_timed(void *user, const mmc_timed *timed) {
  tuning *t = user;
  cli_stream *out = &t->call->out;
  cli_progress_end(&t->progress);
  if (t->json)
    cli_print(out,
              "{\"dtype\": \"%s\", \"call\": \"%s\", \"seconds\": %.6g, \"low\": %.6g, "
              "\"high\": %.6g}\n",
              mmc_dtype_name(timed->dtype), timed->call, timed->seconds, timed->low, timed->high);
  else
    cli_print(out, "%-5s %8s (%s to %s)  %s\n", mmc_dtype_name(timed->dtype),
              cli_in_words(timed->seconds).text, cli_in_words(timed->low).text,
              cli_in_words(timed->high).text, timed->call);
  cli_stream_flush(out);
  return out->error != 0;
}

static void tell_report(const mmc_tune_report *report) {
  fprintf(stderr, "mmchain tune: %" PRId64 " measurement%s", report->measurements,
          report->measurements == 1 ? "" : "s");
  if (report->products > 0)
    fprintf(stderr, ", %" PRId64 " of %" PRId64 " product%s decided", report->decided,
            report->products, report->products == 1 ? "" : "s");
  if (report->calls > 0)
    fprintf(stderr, ", %" PRId64 " call%s timed", report->calls, report->calls == 1 ? "" : "s");
  if (report->cut > 0)
    fprintf(stderr, ", %" PRId64 " size%s of the range cut in two", report->cut,
            report->cut == 1 ? "" : "s");
  fprintf(stderr, report->complete ? "\n" : "; the budget is spent: run it again to go on\n");
}

static int tune(tuning *t) {
  cli_interrupt_catch();
  t->progress = cli_progress_start(t->call);
  mmc_tune_report report;
  mmc_status status = mmc_tune(t->call->context, &t->options, &report);
  cli_progress_end(&t->progress);
  if (status == MMC_OK) {
    tell_report(&report);
    return CLI_DONE;
  }
  if (status == MMC_E_INTERRUPTED && cli_interrupted())
    return cli_fail(t->call, CLI_INTERRUPTED,
                    "interrupted; what was measured is kept: run it again to go on");
  if (status == MMC_E_INTERRUPTED) return CLI_DONE; /* main() says why standard output failed */
  return status == MMC_E_IO ? cli_fail_write(t->call, status, "")
                            : cli_fail_status(t->call, status, "");
}

/* Measures what the ranks of a team take, which is all that plans for them go by. */
static int tune_team(const tuning *t) {
  const mmc_tune_options *o = &t->options;
  if (!o->calibrate || o->chain_count > 0 || o->product_count > 0 || o->range > 0 ||
      o->objective != NULL || o->precision != NULL || o->meter != NULL)
    return cli_fail(t->call, CLI_BAD, "--on: %s takes --calibrate, with --dtype, and nothing else",
                    o->device);
  return cli_team_calibrate(t->call, o->device, o->dtype);
}

/* ---- the command ----------------------------------------------------------------------------- */

static int read_option(tuning *t, int code) {
  mmc_tune_options *o = &t->options;
  cli_call *call = t->call;
  switch (code) {
    case OPTION_CHAIN:
      return cli_suite_of_arguments(call, 1, &optarg, &t->chains);
    case OPTION_SET:
      t->set_path = optarg;
      return CLI_DONE;
    case OPTION_RANGE:
      return cli_number(call, "--range", optarg, 1, range_max, &o->range) ? CLI_DONE : CLI_BAD;
    case OPTION_CALIBRATE:
      o->calibrate = true;
      return CLI_DONE;
    case CLI_OPTION_ON:
      o->device = optarg;
      return CLI_DONE;
    case CLI_OPTION_PRECISION:
      o->precision = optarg;
      return CLI_DONE;
    case OPTION_DTYPE:
      if (parse_dtype(optarg, &o->dtype)) return CLI_DONE;
      return cli_fail(call, CLI_BAD, "--dtype: %s, got '%s'", dtypes_expected, optarg);
    case OPTION_OPS:
      if (parse_ops(optarg, &o->op_a, &o->op_b)) return CLI_DONE;
      return cli_fail(call, CLI_BAD, "--ops: %s, got '%s'", ops_expected, optarg);
    case CLI_OPTION_FOR:
      o->objective = optarg;
      return CLI_DONE;
    case CLI_OPTION_METER:
      o->meter = optarg;
      return CLI_DONE;
    case OPTION_BUDGET:
      if (!cli_seconds(call, "--budget", optarg, &o->budget_s)) return CLI_BAD;
      if (o->budget_s > 0) return CLI_DONE;
      return cli_fail(call, CLI_BAD, "--budget: expected more than 0 seconds");
    case CLI_OPTION_JSON:
      t->json = true;
      return CLI_DONE;
    default:
      return CLI_BAD;
  }
}

static int read_arguments(tuning *t, int argc, char **argv) {
  bool chains = t->chains.count > 0;
  if (optind < argc && !chains)
    return cli_fail(t->call, CLI_BAD, "%s: expected --chain before chains", argv[optind]);
  int result = cli_suite_of_arguments(t->call, argc - optind, argv + optind, &t->chains);
  if (result == CLI_DONE && t->set_path != NULL) result = read_set(t);
  if (result == CLI_DONE) result = list_chains(t);
  if (result == CLI_DONE && !chains && t->set_path == NULL && t->options.range == 0 &&
      !t->options.calibrate)
    result = cli_fail(t->call, CLI_BAD,
                      "expected --chain CHAIN, --set FILE, --range MAX or --calibrate");
  return result;
}

static int run(cli_call *call, int argc, char **argv) {
  tuning t = {.call = call, .options = MMC_TUNE_OPTIONS_INIT};
  t.options.progress = show_progress;
  t.options.decided = show_decided;
  t.options.timed = show_timed;
  t.options.user = &t;
  int result = CLI_DONE, code = 0;
  while (result == CLI_DONE && code != CLI_OPTION_HELP &&
         (code = cli_option_next(call, argc, argv, options)) != CLI_OPTION_END)
    result = code == CLI_OPTION_HELP ? cli_help(call) : read_option(&t, code);
  if (result == CLI_DONE && code != CLI_OPTION_HELP) {
    result = read_arguments(&t, argc, argv);
    if (result == CLI_DONE) result = cli_on_team(t.options.device) ? tune_team(&t) : tune(&t);
  }
  cli_suite_free(&t.chains);
  free(t.chain_list);
  free(t.products);
  return result;
}

const cli_command cli_tune = {
    .name = "tune",
    .summary = "measure how products run best here, for plans for time and energy",
    .help = help,
    .run = run,
};

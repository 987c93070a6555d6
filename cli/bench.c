/* bench.c: `mmchain bench` compares left to right, the order of fewest multiplications, and ours.
 *
 * The methods take turns, so that what else the machine does hits them alike. Runs that are short
 * against the clock are timed several in a row. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "energy.h"
#include "experiment/experiment.h"
#include "options.h"
#include "random.h"
#include "suite.h"
#include "timing.h"

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
    "  --dtype NAME multiply all chains in f32, f64, c64, c128, f16 or bf16, whatever they say\n"
    "  --for WHAT   what ours is to make least: time (when left out) or energy, by joules\n"
    "  --max-slowdown X\n"
    "               with --for energy, at most so many times the time of the plan for time\n"
    "  --on DEVICE  cpu (the best there is), blas, ref, cuda or cuda:N; see mmchain info\n"
    "  --location L device (when left out) or host: where factors and results lie\n"
    "  --precision P native (when left out), faithful or fast\n"
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
    {"seconds", required_argument, NULL, OPTION_SECONDS},
    {"energy", no_argument, NULL, CLI_OPTION_ENERGY},
    {"meter", required_argument, NULL, CLI_OPTION_METER},
    {"json", no_argument, NULL, CLI_OPTION_JSON},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {NULL, 0, NULL, 0},
};

/* The methods; a solver of NULL means ours. */
static const struct {
  const char *name, *solver;
} methods[] = {{"left-to-right", "left-to-right"}, {"flop-optimal", "auto"}, {"ours", NULL}};

enum { METHOD_COUNT = sizeof methods / sizeof methods[0] };
enum { LEAST_RUNS = 5, PLANNINGS = 5, DTYPE_COUNT = MMC_BF16 + 1 };
enum { SEED = 1, ALIGNMENT = 256 };

static const double sample_least_s = 20e-6, peak_run_most_s = 0.5, peak_search_s = 0.3;

/* A measured peak, and the square that gave it; both are 0 before it is measured. */
typedef struct peak {
  double flops_per_s;
  int n;
} peak;

typedef struct bench {
  mmc_plan_options plan_options; /* all but the solver and the objective of ours */
  const char *objective;         /* "time" or "energy" */
  double max_slowdown;
  double seconds;
  bool json;
  cli_energy energy;
  peak peaks[DTYPE_COUNT];
} bench;

/* One method on one chain. */
typedef struct measurement {
  mmc_plan *plan;
  mmc_run *run;
  double plan_s;
  double predicted_s; /* NaN when the plan is for neither time nor energy */
  double predicted_j; /* NaN when the plan is not for energy */
  double *samples_s;
  size_t count, capacity;
  int runs_a_sample;
  mmc_energy energy;
} measurement;

/* A chain's operands, on the host or in memory of the device. */
typedef struct operands {
  mmc_matrix *factors;
  mmc_matrix result;
  mmc_memory *memory; /* of all of them; NULL when each has host memory of its own */
} operands;

/* ---- operands -------------------------------------------------------------------------------- */

static void free_operands(operands *o, const mmc_chain *chain) {
  for (int64_t i = 0; o->factors != NULL && i < mmc_chain_length(chain); i++)
    if (o->factors[i].location == MMC_HOST && mmc_chain_same(chain, i) == i)
      free(o->factors[i].data);
  free(o->factors);
  if (o->result.location == MMC_HOST) free(o->result.data);
  mmc_memory_destroy(o->memory);
}

/* Returns the chain's text form, a string to free, or NULL. */
static char *chain_text(const mmc_chain *chain) {
  cli_buffer text = {0};
  if (mmc_chain_write(chain, cli_buffer_write, &text) == MMC_OK) return text.bytes;
  cli_buffer_free(&text);
  return NULL;
}

static int fail_memory(cli_call *call, const mmc_chain *chain, double bytes) {
  char *text = chain_text(chain), what[128];
  snprintf(what, sizeof what, "%.100s takes", text != NULL ? text : "a chain");
  free(text);
  return cli_fail_memory(call, what, bytes);
}

/* Returns the bytes of all matrices. */
static double operand_bytes(const mmc_chain *chain) {
  mmc_dtype dtype = mmc_chain_dtype(chain);
  const int64_t *dims = mmc_chain_dims(chain), n = mmc_chain_length(chain);
  int64_t batch = mmc_chain_batch(chain);
  double bytes = cli_matrix_bytes(dtype, batch, dims[0], dims[n]);
  for (int64_t i = 0; i < n; i++)
    if (mmc_chain_same(chain, i) == i)
      bytes += cli_matrix_bytes(dtype, batch, dims[i], dims[i + 1]);
  return bytes;
}

/* Moves a matrix to `offset` of the device's memory, and the offset behind it; the result is not
 * copied. */
static int move_to_device(cli_call *call, const mmc_chain *chain, bool copied, mmc_matrix *matrix,
                          operands *o, size_t *offset) {
  size_t size = (size_t)mmc_chain_batch(chain) * (size_t)matrix->rows * (size_t)matrix->cols *
                mmc_dtype_size(mmc_chain_dtype(chain));
  mmc_status status = MMC_OK;
  if (copied) status = mmc_memory_write(o->memory, *offset, matrix->data, size);
  if (status != MMC_OK) return cli_fail_status(call, status, "");
  free(matrix->data);
  matrix->data = (char *)mmc_memory_address(o->memory) + *offset;
  matrix->location = MMC_DEVICE;
  *offset += (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  return CLI_DONE;
}

/* Moves the operands to memory of the device. */
static int move_all_to_device(cli_call *call, const mmc_chain *chain, const char *device,
                              operands *o) {
  int64_t n = mmc_chain_length(chain);
  size_t bytes = (size_t)operand_bytes(chain) + (size_t)(n + 1) * ALIGNMENT, offset = 0;
  mmc_status status = mmc_memory_create(call->context, device, bytes, &o->memory);
  if (status != MMC_OK) return cli_fail_status(call, status, "");
  int result = CLI_DONE;
  for (int64_t i = 0; i < n && result == CLI_DONE; i++) {
    int64_t same = mmc_chain_same(chain, i);
    if (same != i)
      o->factors[i] = o->factors[same];
    else
      result = move_to_device(call, chain, true, &o->factors[i], o, &offset);
  }
  if (result == CLI_DONE) result = move_to_device(call, chain, false, &o->result, o, &offset);
  return result;
}

static int make_operands(cli_call *call, const mmc_chain *chain, const bench *b, double bytes,
                         operands *out) {
  int64_t n = mmc_chain_length(chain);
  const int64_t *dims = mmc_chain_dims(chain);
  mmc_dtype dtype = mmc_chain_dtype(chain);
  /* A system may promise memory that it does not have. */
  double machine_bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  if (!(bytes <= machine_bytes)) return fail_memory(call, chain, bytes);
  operands o = {.factors = calloc((size_t)n, sizeof *o.factors),
                .result = {.rows = dims[0], .cols = dims[n], .layout = MMC_ROW_MAJOR}};
  bool done = o.factors != NULL && cli_matrix_allocate(dtype, mmc_chain_batch(chain), &o.result);
  for (int64_t i = 0; i < n && done; i++) {
    if (mmc_chain_same(chain, i) != i) {
      o.factors[i] = o.factors[mmc_chain_same(chain, i)];
      continue;
    }
    o.factors[i] = cli_stored_factor(chain, i);
    done = cli_matrix_allocate(dtype, mmc_chain_batch(chain), &o.factors[i]);
    if (done) cli_random_fill_factor(chain, i, SEED, o.factors[i].data);
  }
  if (!done) {
    free_operands(&o, chain);
    return fail_memory(call, chain, bytes);
  }
  int result = CLI_DONE;
  if (b->plan_options.location == MMC_DEVICE)
    result = move_all_to_device(call, chain, b->plan_options.device, &o);
  if (result == CLI_DONE)
    *out = o;
  else
    free_operands(&o, chain);
  return result;
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* Says whether a plan for time, or for energy, rests on anything that was measured. */
static bool is_informed(const mmc_plan *plan) {
  int64_t count = mmc_plan_step_count(plan);
  bool for_energy = !isnan(mmc_plan_predicted_joules(plan));
  mmc_step_time time;
  mmc_step_energy energy;
  for (int64_t s = 0; s < count; s++) {
    const char *source = "model, not calibrated";
    if (for_energy && mmc_plan_step_energy(plan, s, &energy) == MMC_OK) source = energy.source;
    if (!for_energy && mmc_plan_step_time(plan, s, &time) == MMC_OK) source = time.source;
    if (strcmp(source, "model, not calibrated") != 0) return true;
  }
  return false;
}

/* Plans as often as it takes to time planning. */
static int plan_for(cli_call *call, const mmc_chain *chain, const mmc_plan_options *plan_options,
                    measurement *m) {
  m->plan_s = INFINITY;
  for (int p = 0; p < PLANNINGS; p++) {
    mmc_plan_destroy(m->plan);
    m->plan = NULL;
    double start = cli_now_s();
    mmc_status status = mmc_plan_create(call->context, chain, plan_options, &m->plan);
    double taken_s = cli_now_s() - start;
    if (status != MMC_OK) return cli_fail_status(call, status, "");
    if (taken_s < m->plan_s) m->plan_s = taken_s;
  }
  return CLI_DONE;
}

/* Makes the plan of a method. A solver of NULL means for time or energy, where such a plan rests on
 * measurements. */
static int plan(cli_call *call, const mmc_chain *chain, const bench *b, const char *solver,
                measurement *m) {
  mmc_plan_options plan_options = b->plan_options;
  plan_options.solver = solver;
  m->predicted_s = m->predicted_j = (double)NAN;
  if (solver == NULL) {
    plan_options.objective = b->objective;
    plan_options.max_slowdown = b->max_slowdown;
    int result = plan_for(call, chain, &plan_options, m);
    if (result != CLI_DONE) return result;
    if (is_informed(m->plan)) {
      m->predicted_s = mmc_plan_predicted_seconds(m->plan);
      m->predicted_j = mmc_plan_predicted_joules(m->plan);
      return CLI_DONE;
    }
    plan_options.objective = NULL;
    plan_options.max_slowdown = 0;
  }
  return plan_for(call, chain, &plan_options, m);
}

/* Measures the seconds of a run, over runs_a_sample of them, which a device may begin before the
 * last one has ended. */
static int sample(cli_call *call, const measurement *m, const operands *o, double *out) {
  double start = cli_now_s();
  for (int r = 0; r < m->runs_a_sample; r++) {
    mmc_status status = mmc_enqueue(m->run, NULL, o->factors, &o->result);
    if (status != MMC_OK) return cli_fail_status(call, status, "");
  }
  mmc_status status = mmc_wait(m->run);
  if (status != MMC_OK) return cli_fail_status(call, status, "");
  *out = (cli_now_s() - start) / m->runs_a_sample;
  return CLI_DONE;
}

/* Prepares the run and warms it up. */
static int warm_up(cli_call *call, measurement *m, const operands *o) {
  mmc_status status = mmc_run_create(m->plan, &m->run);
  if (status != MMC_OK) return cli_fail_status(call, status, "");
  double first_s, second_s = 0;
  m->runs_a_sample = 1;
  int result = sample(call, m, o, &first_s);
  if (result == CLI_DONE && first_s < 1) result = sample(call, m, o, &second_s);
  if (second_s > 0 && second_s < sample_least_s)
    m->runs_a_sample = (int)ceil(sample_least_s / second_s);
  return result;
}

static int keep(cli_call *call, measurement *m, double sample_s) {
  if (m->count == m->capacity) {
    size_t capacity = 2 * m->capacity + 64;
    double *grown = realloc(m->samples_s, capacity * sizeof *grown);
    if (grown == NULL) return cli_fail_memory(call, "the samples take", 8 * (double)capacity);
    m->samples_s = grown;
    m->capacity = capacity;
  }
  m->samples_s[m->count++] = sample_s;
  return CLI_DONE;
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Measures all methods in turn, for the time asked for. */
static int measure(cli_call *call, const bench *b, const operands *o,
                   measurement all[METHOD_COUNT]) {
  int result = CLI_DONE;
  for (int m = 0; m < METHOD_COUNT && result == CLI_DONE; m++) result = warm_up(call, &all[m], o);
  double start = cli_now_s();
  for (int round = 0; result == CLI_DONE; round++) {
    if (round >= LEAST_RUNS && cli_now_s() - start >= b->seconds) break;
    for (int m = 0; m < METHOD_COUNT && result == CLI_DONE; m++) {
      double sample_s;
      result = sample(call, &all[m], o, &sample_s);
      if (result == CLI_DONE) result = keep(call, &all[m], sample_s);
    }
  }
  for (int m = 0; m < METHOD_COUNT && result == CLI_DONE; m++)
    qsort(all[m].samples_s, all[m].count, sizeof(double), compare_doubles);
  for (int m = 0; m < METHOD_COUNT && result == CLI_DONE; m++)
    result = cli_energy_measure(call, &b->energy, CLI_ENERGY_WINDOW_S, all[m].run, o->factors,
                                &o->result, &all[m].energy);
  return result;
}

static double median(const measurement *m) {
  size_t half = m->count / 2;
  return m->count % 2 != 0 ? m->samples_s[half] : (m->samples_s[half - 1] + m->samples_s[half]) / 2;
}

/* Returns the real flops of a multiplication and its addition. */
static double flops_each(mmc_dtype dtype) {
  return dtype == MMC_C64 || dtype == MMC_C128 ? 8 : 2;
}

static double flops_of(mmc_dtype dtype, const mmc_plan *planned) {
  return flops_each(dtype) * mmc_count_to_double(mmc_plan_multiplications(planned));
}

/* ---- the peak -------------------------------------------------------------------------------- */

/* Measures the shortest seconds of some products of n x n. */
static int time_square(cli_call *call, const bench *b, mmc_dtype dtype, int n, double *best_s) {
  int64_t dims[3] = {n, n, n};
  mmc_chain *chain;
  mmc_status status = mmc_chain_create(call->context, dtype, 2, dims, NULL, &chain);
  if (status != MMC_OK) return cli_fail_status(call, status, "");
  measurement m = {0};
  operands o = {0};
  int result = plan(call, chain, b, "auto", &m);
  if (result == CLI_DONE) result = make_operands(call, chain, b, operand_bytes(chain), &o);
  if (result == CLI_DONE) result = warm_up(call, &m, &o);
  *best_s = INFINITY;
  double start = cli_now_s();
  for (int r = 0; result == CLI_DONE; r++) {
    if (r >= LEAST_RUNS && cli_now_s() - start >= peak_search_s) break;
    double sample_s = 0;
    result = sample(call, &m, &o, &sample_s);
    if (sample_s < *best_s) *best_s = sample_s;
  }
  mmc_run_destroy(m.run);
  mmc_plan_destroy(m.plan);
  free_operands(&o, chain);
  mmc_chain_destroy(chain);
  return result;
}

/* Measures the peak of a dtype once: the best of some squares. Large ones are left out on a device
 * that would take long for them. */
static int find_peak(cli_call *call, bench *b, mmc_dtype dtype) {
  static const int sizes[] = {256, 1024, 4096, 8192};
  peak *p = &b->peaks[dtype];
  if (p->n != 0) return CLI_DONE;
  peak best = {0};
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
    double flops = flops_each(dtype) * pow(sizes[s], 3), best_s = INFINITY;
    if (s > 0 && flops / best.flops_per_s > peak_run_most_s) break;
    int result = time_square(call, b, dtype, sizes[s], &best_s);
    if (result != CLI_DONE) return result;
    if (flops / best_s > best.flops_per_s)
      best = (peak){.flops_per_s = flops / best_s, .n = sizes[s]};
  }
  *p = best;
  return CLI_DONE;
}

/* ---- printing -------------------------------------------------------------------------------- */

typedef struct duration {
  char text[24];
} duration;

static duration in_words(double seconds) {
  static const struct {
    const char *name;
    double least_s;
  } units[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 0}};
  size_t u = 0;
  while (seconds < units[u].least_s) u++;
  duration d;
  double unit_s = units[u].least_s > 0 ? units[u].least_s : 1e-9;
  snprintf(d.text, sizeof d.text, "%.3g %s", seconds / unit_s, units[u].name);
  return d;
}

/* Says whether a step is cut into parts. */
static bool is_split(const mmc_plan *plan, int64_t step) {
  mmc_step_time time;
  return !isnan(mmc_plan_predicted_seconds(plan)) &&
         mmc_plan_step_time(plan, step, &time) == MMC_OK && time.split[0] != '\0';
}

/* Says whether two plans multiply the same by the same kernels in the same order. */
static bool same_plan(const mmc_plan *a, const mmc_plan *b) {
  int64_t count = mmc_plan_step_count(a);
  mmc_step x, y;
  for (int64_t s = 0; s < count; s++)
    if (mmc_plan_step(a, s, &x) != MMC_OK || mmc_plan_step(b, s, &y) != MMC_OK ||
        x.left != y.left || x.right != y.right || is_split(a, s) != is_split(b, s))
      return false;
  return true;
}

static void print_energy(cli_stream *out, const mmc_energy *energy) {
  if (energy->measured)
    cli_print(out, " %10.4g %8.4g", energy->joules, energy->watts);
  else
    cli_print(out, " %10s %8s", "-", "-");
}

/* Prints the idle power, or why there are no joules. */
static void print_meter(cli_stream *out, const measurement all[METHOD_COUNT]) {
  for (int i = 0; i < METHOD_COUNT; i++) {
    const mmc_energy *energy = &all[i].energy;
    if (energy->measured) continue;
    cli_print(out, "no joules: %s\n", energy->reason);
    return;
  }
  cli_print(out, "joules by %s, %.4g W when idle\n", all[0].energy.meter, all[0].energy.idle_watts);
}

static void print_text(cli_call *call, const bench *b, const cli_suite_entry *entry,
                       const char *text, const measurement all[METHOD_COUNT]) {
  const peak *p = &b->peaks[mmc_chain_dtype(entry->chain)];
  cli_stream *out = &call->out;
  if (entry->name != NULL) cli_print(out, "name    %s\n", entry->name);
  cli_print(out, "chain   %s\ndevice  %s, peak %.4g GFLOP/s (%dx%dx%d)\n", text,
            mmc_plan_device(all[0].plan), p->flops_per_s / 1e9, p->n, p->n, p->n);
  cli_print(out, "%-13s %20s %10s %10s %10s %10s %7s %9s %8s %10s", "method", "multiplications",
            "median", "predicted", "min", "max", "runs", "GFLOP/s", "of peak", "planned in");
  cli_print(out, b->energy.wanted ? " %10s %8s\n" : "\n", "J", "W");
  for (int i = 0; i < METHOD_COUNT; i++) {
    const measurement *m = &all[i];
    char count[MMC_COUNT_TEXT_SIZE];
    double flops_per_s = flops_of(mmc_chain_dtype(entry->chain), m->plan) / median(m);
    cli_print(out, "%-13s %20s %10s %10s %10s %10s %7zu %9.4g %6.1f %% %10s", methods[i].name,
              mmc_count_format(mmc_plan_multiplications(m->plan), count), in_words(median(m)).text,
              isnan(m->predicted_s) ? "-" : in_words(m->predicted_s).text,
              in_words(m->samples_s[0]).text, in_words(m->samples_s[m->count - 1]).text, m->count,
              flops_per_s / 1e9, 100 * flops_per_s / p->flops_per_s, in_words(m->plan_s).text);
    if (b->energy.wanted) print_energy(out, &m->energy);
    cli_print(out, "\n");
  }
  if (b->energy.wanted) print_meter(out, all);
  if (!isnan(all[2].predicted_j)) cli_print(out, "ours predicted %.4g J\n", all[2].predicted_j);
  if (same_plan(all[1].plan, all[2].plan)) cli_print(out, "ours is the flop-optimal plan here\n");
  cli_print(out, "\n");
}

static void print_json(cli_call *call, const bench *b, const cli_suite_entry *entry,
                       const char *text, const measurement all[METHOD_COUNT]) {
  const peak *p = &b->peaks[mmc_chain_dtype(entry->chain)];
  cli_stream *out = &call->out;
  for (int i = 0; i < METHOD_COUNT; i++) {
    const measurement *m = &all[i];
    double flops_per_s = flops_of(mmc_chain_dtype(entry->chain), m->plan) / median(m);
    cli_print(out, "{\"name\": ");
    if (entry->name != NULL)
      cli_print_json_string(out, entry->name);
    else
      cli_print(out, "null");
    cli_print(out, ", \"chain\": \"%s\", \"device\": ", text);
    cli_print_json_string(out, mmc_plan_device(m->plan));
    cli_print(out, ", \"method\": \"%s\", \"multiplications\": ", methods[i].name);
    cli_print_json_count(out, mmc_plan_multiplications(m->plan));
    cli_print(out, ", \"median_s\": %.6g, \"min_s\": %.6g, \"max_s\": %.6g, \"runs\": %zu",
              median(m), m->samples_s[0], m->samples_s[m->count - 1], m->count);
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
              same_plan(all[1].plan, m->plan) ? "true" : "false");
    cli_energy_print_json(out, &m->energy);
    cli_print(out, "}\n");
  }
}

/* ---- the command ----------------------------------------------------------------------------- */

static int bench_chain(cli_call *call, bench *b, const cli_suite_entry *entry) {
  const mmc_chain *chain = entry->chain;
  int64_t n = mmc_chain_length(chain);
  char *text = chain_text(chain);
  if (text == NULL) return cli_fail_memory(call, "the chain's text takes", 8 * (double)n);
  measurement all[METHOD_COUNT] = {0};
  operands o = {0};
  double bytes = operand_bytes(chain);
  int result = CLI_DONE;
  if (n < 2) result = cli_fail(call, CLI_BAD, "%s: expected a chain of two factors at least", text);
  for (int m = 0; m < METHOD_COUNT && result == CLI_DONE; m++) {
    result = plan(call, chain, b, methods[m].solver, &all[m]);
    if (result == CLI_DONE) bytes += (double)mmc_plan_workspace_bytes(all[m].plan);
  }
  if (result == CLI_DONE) result = make_operands(call, chain, b, bytes, &o);
  if (result == CLI_DONE) result = cli_energy_open(call, &b->energy, mmc_plan_device(all[0].plan));
  if (result == CLI_DONE) result = find_peak(call, b, mmc_chain_dtype(chain));
  if (result == CLI_DONE) result = measure(call, b, &o, all);
  if (result == CLI_DONE) {
    (b->json ? print_json : print_text)(call, b, entry, text, all);
    /* Flushed, so that what was measured is not lost when the rest is interrupted. */
    cli_stream_flush(&call->out);
  }
  for (int m = 0; m < METHOD_COUNT; m++) {
    mmc_run_destroy(all[m].run);
    mmc_plan_destroy(all[m].plan);
    free(all[m].samples_s);
  }
  free_operands(&o, chain);
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
  bench b = {.seconds = 1, .objective = "time", .plan_options = MMC_PLAN_OPTIONS_INIT};
  b.plan_options.location = MMC_DEVICE;
  const char *suite_path = NULL, *dtype = NULL;
  for (int code; (code = cli_option_next(call, argc, argv, options)) != CLI_OPTION_END;) {
    switch (code) {
      case OPTION_SUITE:
        suite_path = optarg;
        break;
      case CLI_OPTION_ON:
        b.plan_options.device = optarg;
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
      case CLI_OPTION_PRECISION:
        b.plan_options.precision = optarg;
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
        b.json = true;
        break;
      case CLI_OPTION_HELP:
        return cli_help(call);
      default:
        return CLI_BAD;
    }
  }
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
  if (result == CLI_DONE) tell_what_is_slow(call, b.plan_options.device);
  for (int i = 0; i < suite.count && result == CLI_DONE && call->out.error == 0; i++)
    result = bench_chain(call, &b, &suite.entries[i]);
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

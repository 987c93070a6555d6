/* methods.c: times the three ways to multiply a chain that the commands compare.
 *
 * The methods take turns, so that what else the machine does hits them alike. Runs that are short
 * against the clock are timed several in a row. */
#include "methods.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "random.h"
#include "timing.h"

const char *const cli_method_names[CLI_METHODS] = {"left-to-right", "flop-optimal", "ours"};

/* The solvers of the methods; NULL means ours. */
static const char *const solvers[CLI_METHODS] = {"left-to-right", "auto", NULL};

enum { LEAST_RUNS = 5, PLANNINGS = 5 };
enum { SEED = 1, ALIGNMENT = 256 };

static const double sample_least_s = 20e-6, peak_run_most_s = 0.5, peak_search_s = 0.3;

/* A chain's operands, on the host or in memory of the device. */
typedef struct operands {
  mmc_matrix *factors;
  mmc_matrix result;
  mmc_memory *memory; /* memory of all operands; NULL when each has host memory of its own */
} operands;

char *cli_chain_text(const mmc_chain *chain) {
  cli_buffer text = {0};
  if (mmc_chain_write(chain, cli_buffer_write, &text) == MMC_OK) return text.bytes;
  cli_buffer_free(&text);
  return NULL;
}

bool cli_chain_is_timed(const mmc_chain *chain) {
  return mmc_chain_semiring(chain) == MMC_PLUS_TIMES || mmc_chain_dtype(chain) == MMC_BOOL;
}

/* ---- operands -------------------------------------------------------------------------------- */

static void free_operands(operands *o, const mmc_chain *chain) {
  for (int64_t i = 0; o->factors != NULL && i < mmc_chain_length(chain); i++)
    if (o->factors[i].location == MMC_HOST && mmc_chain_stored(chain, i) == i)
      free(o->factors[i].data);
  free(o->factors);
  if (o->result.location == MMC_HOST) free(o->result.data);
  mmc_memory_destroy(o->memory);
}

static int fail_memory(cli_call *call, const mmc_chain *chain, double bytes) {
  char *text = cli_chain_text(chain), what[128];
  snprintf(what, sizeof what, "%.100s takes", text != NULL ? text : "a chain");
  free(text);
  return cli_fail_memory(call, what, bytes);
}

/* Returns the bytes of all matrices. */
static double operand_bytes(const mmc_chain *chain) {
  mmc_dtype dtype = mmc_chain_dtype(chain);
  const int64_t *dims = mmc_chain_dims(chain), n = mmc_chain_length(chain);
  double bytes = cli_matrix_bytes(dtype, mmc_chain_batch(chain), dims[0], dims[n]);
  for (int64_t i = 0; i < n; i++)
    if (mmc_chain_stored(chain, i) == i)
      bytes += cli_matrix_bytes(dtype, cli_factor_count(chain, i), dims[i], dims[i + 1]);
  return bytes;
}

/* Moves so many matrices to `offset` of the device's memory, and the offset behind them; the
 * results are not copied. */
static int move_to_device(cli_call *call, const mmc_chain *chain, int64_t count, bool copied,
                          mmc_matrix *matrix, operands *o, size_t *offset) {
  size_t size = (size_t)count * (size_t)matrix->rows * (size_t)matrix->cols *
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
    int64_t first = mmc_chain_stored(chain, i);
    if (first != i)
      o->factors[i] = o->factors[first];
    else
      result =
          move_to_device(call, chain, cli_factor_count(chain, i), true, &o->factors[i], o, &offset);
  }
  if (result == CLI_DONE)
    result = move_to_device(call, chain, mmc_chain_batch(chain), false, &o->result, o, &offset);
  return result;
}

static int make_operands(cli_call *call, const mmc_chain *chain, const cli_contest *b, double bytes,
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
    if (mmc_chain_stored(chain, i) != i) {
      o.factors[i] = o.factors[mmc_chain_stored(chain, i)];
      continue;
    }
    o.factors[i] = cli_stored_factor(chain, i);
    done = cli_matrix_allocate(dtype, cli_factor_count(chain, i), &o.factors[i]);
    if (done) cli_random_fill_factor(chain, i, SEED, o.factors[i].data, NULL, NULL);
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
                    cli_measurement *m) {
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
static int plan(cli_call *call, const mmc_chain *chain, const cli_contest *b, const char *solver,
                cli_measurement *m) {
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
static int sample(cli_call *call, const cli_measurement *m, const operands *o, double *out) {
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
static int warm_up(cli_call *call, cli_measurement *m, const operands *o) {
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

static int keep(cli_call *call, cli_measurement *m, double sample_s) {
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
static int measure(cli_call *call, const cli_contest *b, const operands *o,
                   cli_measurement all[CLI_METHODS]) {
  int result = CLI_DONE;
  for (int m = 0; m < CLI_METHODS && result == CLI_DONE; m++) result = warm_up(call, &all[m], o);
  double start = cli_now_s();
  for (int round = 0; result == CLI_DONE; round++) {
    if (round >= LEAST_RUNS && cli_now_s() - start >= b->seconds) break;
    for (int m = 0; m < CLI_METHODS && result == CLI_DONE; m++) {
      double sample_s;
      result = sample(call, &all[m], o, &sample_s);
      if (result == CLI_DONE) result = keep(call, &all[m], sample_s);
    }
  }
  for (int m = 0; m < CLI_METHODS && result == CLI_DONE; m++)
    qsort(all[m].samples_s, all[m].count, sizeof(double), compare_doubles);
  for (int m = 0; m < CLI_METHODS && result == CLI_DONE; m++)
    result = cli_energy_measure(call, &b->energy, CLI_ENERGY_WINDOW_S, all[m].run, o->factors,
                                &o->result, &all[m].energy);
  return result;
}

double cli_measurement_median(const cli_measurement *m) {
  size_t half = m->count / 2;
  return m->count % 2 != 0 ? m->samples_s[half] : (m->samples_s[half - 1] + m->samples_s[half]) / 2;
}

/* Returns the real flops of a multiplication and its addition. */
static double flops_each(mmc_dtype dtype) {
  return dtype == MMC_C64 || dtype == MMC_C128 ? 8 : 2;
}

double cli_plan_flops(mmc_dtype dtype, const mmc_plan *planned) {
  return flops_each(dtype) * mmc_count_to_double(mmc_plan_multiplications(planned));
}

/* ---- the peak -------------------------------------------------------------------------------- */

int cli_contest_product(cli_call *call, const cli_contest *b, mmc_dtype dtype, int64_t batch,
                        const int64_t sizes[3], double search_s, double *best_s) {
  mmc_chain *chain;
  mmc_chain_options chain_options = MMC_CHAIN_OPTIONS_INIT;
  chain_options.batch = batch;
  mmc_status status =
      mmc_chain_create_batch(call->context, dtype, 2, sizes, NULL, &chain_options, &chain);
  if (status != MMC_OK) return cli_fail_status(call, status, "");
  cli_measurement m = {0};
  operands o = {0};
  int result = plan(call, chain, b, "auto", &m);
  if (result == CLI_DONE) result = make_operands(call, chain, b, operand_bytes(chain), &o);
  if (result == CLI_DONE) result = warm_up(call, &m, &o);
  *best_s = INFINITY;
  double start = cli_now_s();
  for (int r = 0; result == CLI_DONE; r++) {
    if (r >= LEAST_RUNS && cli_now_s() - start >= search_s) break;
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

/* Measures the peak of a dtype once: the best of some squares. Large ones are left out where they
 * would take long, as the one before says: bool's are the slower the larger they are. */
static int find_peak(cli_call *call, cli_contest *b, mmc_dtype dtype) {
  static const int sizes[] = {256, 1024, 4096, 8192};
  cli_peak *p = &b->peaks[dtype];
  if (p->n != 0) return CLI_DONE;
  cli_peak best = {0};
  double last = 0;
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
    double flops = flops_each(dtype) * pow(sizes[s], 3), best_s = INFINITY;
    if (s > 0 && flops / last > peak_run_most_s) break;
    const int64_t square[] = {sizes[s], sizes[s], sizes[s]};
    int result = cli_contest_product(call, b, dtype, 1, square, peak_search_s, &best_s);
    if (result != CLI_DONE) return result;
    last = flops / best_s;
    if (last > best.flops_per_s) best = (cli_peak){.flops_per_s = last, .n = sizes[s]};
  }
  *p = best;
  return CLI_DONE;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Says whether a step is cut into parts. */
static bool is_split(const mmc_plan *plan, int64_t step) {
  mmc_step_time time;
  return !isnan(mmc_plan_predicted_seconds(plan)) &&
         mmc_plan_step_time(plan, step, &time) == MMC_OK && time.split[0] != '\0';
}

bool cli_plan_same(const mmc_plan *a, const mmc_plan *b) {
  int64_t count = mmc_plan_step_count(a);
  mmc_step x, y;
  for (int64_t s = 0; s < count; s++)
    if (mmc_plan_step(a, s, &x) != MMC_OK || mmc_plan_step(b, s, &y) != MMC_OK ||
        x.left != y.left || x.right != y.right || is_split(a, s) != is_split(b, s))
      return false;
  return true;
}

int cli_contest_run(cli_call *call, cli_contest *b, const mmc_chain *chain,
                    cli_measurement all[CLI_METHODS]) {
  operands o = {0};
  double bytes = operand_bytes(chain);
  int result = CLI_DONE;
  for (int m = 0; m < CLI_METHODS && result == CLI_DONE; m++) {
    if (all[m].plan == NULL) result = plan(call, chain, b, solvers[m], &all[m]);
    if (result == CLI_DONE) bytes += (double)mmc_plan_workspace_bytes(all[m].plan);
  }
  if (result == CLI_DONE) result = make_operands(call, chain, b, bytes, &o);
  if (result == CLI_DONE) result = cli_energy_open(call, &b->energy, mmc_plan_device(all[0].plan));
  if (result == CLI_DONE) result = find_peak(call, b, mmc_chain_dtype(chain));
  if (result == CLI_DONE) result = measure(call, b, &o, all);
  for (int m = 0; m < CLI_METHODS; m++) {
    mmc_run_destroy(all[m].run);
    all[m].run = NULL;
  }
  free_operands(&o, chain);
  return result;
}

void cli_contest_free(cli_measurement all[CLI_METHODS]) {
  for (int m = 0; m < CLI_METHODS; m++) {
    mmc_plan_destroy(all[m].plan);
    free(all[m].samples_s);
  }
}

#include "experiment.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "energy.h"
#include "options.h"
#include "progress.h"
#include "random.h"
#include "timing.h"

enum { PLANNINGS = 5, SEED = 1, ALIGNMENT = 256, POOL = (1 << 22) - 3, TILE_COUNT_MAX = 64 };

/* Every number is normal times this: near 1/sqrt(k) for the k here, so that long chains stay in
 * range. */
static const double scale = 0x1p-7;
static const double least_window_s = 1e-3;
static const double write_bytes_per_s = 4e9, around_s = 0.3; /* for the estimate alone */

typedef struct experiment {
  cli_call *call;
  const cli_experiment_options *options;
  const char *device;
  bool is_gpu;
  double window_s;
  int64_t shrink; /* dims of the six chains are divided by it */
  cli_energy energy;
  cli_trials all;
  FILE *results; /* the lines of results.jsonl; NULL: not wanted */
  cli_buffer lines;
  /* The operands of the trial before. */
  float *pool;
  char chain[CLI_TRIAL_TEXT];
  mmc_memory *memory;
  mmc_matrix *matrices; /* factors, then the result */
} experiment;

/* ---- what is tried --------------------------------------------------------------------------- */

/* As bench/chains/tee-acm2.txt has them. */
static const struct {
  const char *name;
  int64_t dims[14];
} chains[] = {
    {"best-6", {8000, 10000, 12000, 14000, 16000, 18000, 20000}},
    {"worst-6", {20000, 18000, 16000, 14000, 12000, 10000, 8000}},
    {"random-6", {10000, 20000, 15000, 9000, 9000, 22000, 21000}},
    {"best-12",
     {8000, 9000, 10000, 11000, 12000, 13000, 14000, 15000, 16000, 17000, 18000, 19000, 20000}},
    {"worst-12",
     {20000, 19000, 18000, 17000, 16000, 15000, 14000, 13000, 12000, 11000, 10000, 9000, 8000}},
    {"random-12",
     {20000, 16000, 17000, 10000, 16000, 19000, 9000, 24000, 16000, 16000, 12000, 8000, 10000}},
};

/* kernel "": the device's own, one call a product. */
static const struct {
  const char *name, *kernel, *precision;
} ways[] = {
    {"plain", "", "native"}, {"tee", "tee", "native"}, {"faithful", "faithful", "faithful"}};

static const char *const orders[] = {"in-order", "OP_Count", "OP_DM_Fuse"};
static const char *const parts[] = {"single", "tiles", "fused", "chains"};

/* Products around a narrow intermediate; the wide side is divided on other devices than GPUs. */
static const struct {
  const char *name, *order;
  int64_t dims[4];
} pairs[] = {
    {"left 16", "in-order", {1 << 20, 16, 16, 16}},
    {"left 32", "in-order", {1 << 20, 32, 32, 32}},
    {"left 64-16", "OP_Count", {1 << 20, 64, 16, 64}},
    {"right 64-16", "OP_Count", {64, 16, 64, 1 << 20}},
};

static bool is_wanted(const char *asked, const char *name) {
  return asked == NULL || strcmp(asked, name) == 0;
}

/* A trial more, NULL when memory is short; its way and what it is called follow. */
static cli_trial *add(experiment *x, const char *part, const char *order, const char *way,
                      const int64_t *dims, int count) {
  cli_trials *all = &x->all;
  if (all->count == all->capacity) {
    size_t capacity = 2 * all->capacity + 64;
    cli_trial *grown = realloc(all->trials, capacity * sizeof *grown);
    if (grown == NULL) {
      cli_fail_memory(x->call, "the list of trials takes",
                      (double)capacity * (double)sizeof *grown);
      return NULL;
    }
    all->trials = grown;
    all->capacity = capacity;
  }
  cli_trial *t = &all->trials[all->count++];
  *t = (cli_trial){.part = part,
                   .order = order,
                   .kernel = "",
                   .precision = "native",
                   .words = NAN,
                   .plan_s = NAN,
                   .create_s = NAN,
                   .seconds = NAN};
  t->energy = (mmc_energy){.joules = NAN, .watts = NAN, .idle_watts = NAN, .crosscheck = NAN};
  snprintf(t->way, sizeof t->way, "%s", way);
  int length = snprintf(t->chain, sizeof t->chain, "f32:%" PRId64, dims[0]);
  for (int d = 1; d < count; d++)
    length += snprintf(t->chain + length, sizeof t->chain - (size_t)length, "x%" PRId64, dims[d]);
  return t;
}

static bool add_single(experiment *x, const int64_t *sizes, int size_count) {
  for (int s = 0; s < size_count; s++) {
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
      if (!is_wanted(x->options->way, ways[w].name)) continue;
      cli_trial *t =
          add(x, "single", "OP_Count", ways[w].name, (int64_t[]){sizes[s], sizes[s], sizes[s]}, 3);
      if (t == NULL) return false;
      t->kernel = ways[w].kernel;
      t->precision = ways[w].precision;
      t->tells_kernel = s == size_count - 1;
      snprintf(t->name, sizeof t->name, "n=%" PRId64, sizes[s]);
    }
  }
  return true;
}

/* Every way of the device whose name says a tile, and its plain one. */
static bool add_tiles(experiment *x, int64_t n) {
  const mmc_tune_product product = {.dtype = MMC_F32, .m = n, .k = n, .n = n};
  mmc_kernel_info info;
  int found = 0;
  for (int index = 0; index < TILE_COUNT_MAX; index++) {
    mmc_status status =
        mmc_kernel_describe(x->call->context, x->device, "native", &product, index, &info);
    if (status == MMC_E_ARG) break; /* past the last */
    if (status != MMC_OK) return cli_fail_status(x->call, status, "") == CLI_DONE;
    bool is_tee = strncmp(info.name, "tee", 3) == 0;
    if ((index > 0 && !is_tee) || !info.available) continue;
    if (!is_wanted(x->options->way, info.name)) continue;
    cli_trial *t = add(x, "tiles", "OP_Count", info.name, (int64_t[]){n, n, n}, 3);
    if (t == NULL) return false;
    t->kernel = info.name;
    t->tells_kernel = true;
    found += is_tee;
    snprintf(t->name, sizeof t->name, "n=%" PRId64, n);
  }
  if (found > 0 || !is_wanted(x->options->way, "tee")) return true;
  cli_trial *t = add(x, "tiles", "OP_Count", "tee", (int64_t[]){n, n, n}, 3);
  if (t == NULL) return false;
  t->kernel = "tee"; /* planning it tells why there is none */
  snprintf(t->name, sizeof t->name, "n=%" PRId64, n);
  return true;
}

static bool add_fused(experiment *x, int64_t shrink) {
  static const char *const kernels[][2] = {{"plain", ""}, {"fused", "fused"}};
  for (size_t p = 0; p < sizeof pairs / sizeof pairs[0]; p++) {
    int64_t dims[4];
    for (int d = 0; d < 4; d++)
      dims[d] = pairs[p].dims[d] > 64 ? pairs[p].dims[d] / shrink : pairs[p].dims[d];
    for (int k = 0; k < 2; k++) {
      if (!is_wanted(x->options->way, kernels[k][0])) continue;
      cli_trial *t = add(x, "fused", pairs[p].order, kernels[k][0], dims, 4);
      if (t == NULL) return false;
      t->kernel = kernels[k][1];
      snprintf(t->name, sizeof t->name, "%s", pairs[p].name);
    }
  }
  return true;
}

/* In OP_DM_Fuse the device may run pairs as one call where it has its own choice. */
static bool add_chains(experiment *x) {
  for (size_t c = 0; c < sizeof chains / sizeof chains[0]; c++) {
    int64_t dims[14] = {0};
    int count = 0;
    while (count < 14 && chains[c].dims[count] > 0) {
      dims[count] = chains[c].dims[count] / x->shrink;
      count++;
    }
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
      if (!is_wanted(x->options->way, ways[w].name)) continue;
      for (size_t o = 0; o < sizeof orders / sizeof orders[0]; o++) {
        cli_trial *t = add(x, "chains", orders[o], ways[w].name, dims, count);
        if (t == NULL) return false;
        t->kernel = o == 2 && w == 0 ? NULL : ways[w].kernel;
        t->precision = ways[w].precision;
        snprintf(t->name, sizeof t->name, "%s", chains[c].name);
      }
    }
  }
  return true;
}

static bool list_trials(experiment *x) {
  static const struct {
    int64_t sizes[4], shrink, pair_shrink;
  } choices[2][2] = {{{{128, 256, 512, 1024}, 40, 64}, {{64, 128}, 400, 1024}},
                     {{{4096, 8192, 12288, 16384}, 1, 1}, {{2048, 4096}, 4, 8}}};
  const cli_experiment_options *o = x->options;
  const int64_t *sizes = o->size_count > 0 ? o->sizes : choices[x->is_gpu][o->quick].sizes;
  int count = o->size_count;
  if (count == 0)
    while (count < 4 && sizes[count] > 0) count++;
  x->shrink = choices[x->is_gpu][o->quick].shrink;
  bool done = true;
  if (is_wanted(o->part, parts[0])) done = add_single(x, sizes, count);
  if (done && is_wanted(o->part, parts[1])) done = add_tiles(x, sizes[count / 2]);
  if (done && is_wanted(o->part, parts[2]))
    done = add_fused(x, choices[x->is_gpu][o->quick].pair_shrink);
  if (done && is_wanted(o->part, parts[3])) done = add_chains(x);
  return done;
}

/* ---- operands -------------------------------------------------------------------------------- */

static void free_operands(experiment *x) {
  mmc_memory_destroy(x->memory);
  free(x->matrices);
  x->memory = NULL;
  x->matrices = NULL;
  x->chain[0] = '\0';
}

/* Seeded normal numbers, the same ones again and again. Their count is odd and large against a
 * row, so that no two rows of a matrix are the same. */
static mmc_status fill(experiment *x, size_t offset, size_t bytes, size_t *next) {
  while (bytes > 0) {
    size_t size = (POOL - *next) * sizeof *x->pool;
    if (size > bytes) size = bytes;
    mmc_status status = mmc_memory_write(x->memory, offset, x->pool + *next, size);
    if (status != MMC_OK) return status;
    offset += size;
    bytes -= size;
    *next = (*next + size / sizeof *x->pool) % POOL;
  }
  return MMC_OK;
}

static mmc_status make_operands(experiment *x, const mmc_chain *chain, const char *text) {
  if (strcmp(x->chain, text) == 0) return MMC_OK;
  free_operands(x);
  int64_t n = mmc_chain_length(chain);
  const int64_t *dims = mmc_chain_dims(chain);
  x->matrices = calloc((size_t)n + 1, sizeof *x->matrices);
  if (x->matrices == NULL) return MMC_E_NOMEM;
  size_t bytes = 0, next = 0;
  for (int64_t i = 0; i <= n; i++) {
    x->matrices[i] = (mmc_matrix){.rows = dims[i < n ? i : 0],
                                  .cols = dims[i < n ? i + 1 : n],
                                  .layout = MMC_ROW_MAJOR,
                                  .location = MMC_DEVICE};
    bytes += (size_t)cli_matrix_bytes(MMC_F32, 1, x->matrices[i].rows, x->matrices[i].cols);
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }
  mmc_status status = mmc_memory_create(x->call->context, x->device, bytes, &x->memory);
  size_t offset = 0;
  for (int64_t i = 0; i <= n && status == MMC_OK; i++) {
    mmc_matrix *m = &x->matrices[i];
    size_t size = (size_t)cli_matrix_bytes(MMC_F32, 1, m->rows, m->cols);
    m->data = (char *)mmc_memory_address(x->memory) + offset;
    if (i < n) status = fill(x, offset, size, &next);
    offset = (offset + size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }
  if (status == MMC_OK)
    snprintf(x->chain, sizeof x->chain, "%s", text);
  else
    free_operands(x);
  return status;
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* What a machine may lack is a reason; anything else ends the experiment. */
static int cannot(experiment *x, cli_trial *t, mmc_status status) {
  if (status != MMC_E_UNSUPPORTED && status != MMC_E_NOMEM && status != MMC_E_MEMORY_LIMIT)
    return cli_fail_status(x->call, status, "");
  mmc_context_message(x->call->context, t->reason, sizeof t->reason);
  return CLI_DONE;
}

static mmc_status plan_trial(const experiment *x, cli_trial *t, const mmc_chain *chain) {
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.device = x->device;
  options.location = MMC_DEVICE;
  options.precision = t->precision;
  options.kernel = t->kernel;
  if (t->order == orders[0]) options.solver = "left-to-right";
  if (t->order == orders[2]) options.objective = "traffic";
  for (int p = 0; p < PLANNINGS; p++) {
    mmc_plan_destroy(t->plan);
    t->plan = NULL;
    double start = cli_now_s();
    mmc_status status = mmc_plan_create(x->call->context, chain, &options, &t->plan);
    double taken_s = cli_now_s() - start;
    if (status != MMC_OK) return status;
    if (!(taken_s >= t->plan_s)) t->plan_s = taken_s;
  }
  return MMC_OK;
}

static bool same_plan(const mmc_plan *a, const mmc_plan *b) {
  int64_t count = mmc_plan_step_count(a);
  mmc_step p, q;
  if (count != mmc_plan_step_count(b)) return false;
  for (int64_t s = 0; s < count; s++)
    if (mmc_plan_step(a, s, &p) != MMC_OK || mmc_plan_step(b, s, &q) != MMC_OK ||
        p.left != q.left || p.right != q.right ||
        strcmp(mmc_plan_step_kernel(a, s), mmc_plan_step_kernel(b, s)) != 0)
      return false;
  return true;
}

/* An earlier trial whose measurement is this one's too; NULL: none. */
static const cli_trial *find_same(const experiment *x, const cli_trial *t) {
  for (const cli_trial *e = x->all.trials; e < t; e++)
    if (e->measured && e->part == t->part && e->measured_as == NULL &&
        strcmp(e->chain, t->chain) == 0 && strcmp(e->way, t->way) == 0 &&
        same_plan(e->plan, t->plan))
      return e;
  return NULL;
}

/* What the plan and the kernel's name tell. */
static void read_plan(const experiment *x, cli_trial *t) {
  int64_t count = mmc_plan_step_count(t->plan);
  mmc_step step;
  mmc_step_traffic traffic;
  snprintf(t->kernel_name, sizeof t->kernel_name, "%s", mmc_plan_step_kernel(t->plan, count - 1));
  for (int64_t s = 0; s < count; s++)
    if (mmc_plan_step_traffic(t->plan, s, &traffic) == MMC_OK && traffic.partner >= 0 &&
        traffic.partner < s)
      t->pairs++;
  if (!t->tells_kernel || mmc_plan_step(t->plan, 0, &step) != MMC_OK) return;
  const char *tile = t->kernel_name + strcspn(t->kernel_name, " ");
  if (strncmp(t->kernel_name, "tee ", 4) == 0 &&
      sscanf(tile, " %" SCNd64 "x%" SCNd64, &t->tile[0], &t->tile[1]) == 2)
    t->words = (double)step.m * (double)step.k * (double)step.n *
               (1 / (double)t->tile[0] + 1 / (double)t->tile[1]);
  const mmc_tune_product product = {.dtype = MMC_F32, .m = step.m, .k = step.k, .n = step.n};
  for (int index = 0; index < TILE_COUNT_MAX; index++) {
    mmc_kernel_info info;
    if (mmc_kernel_describe(x->call->context, x->device, t->precision, &product, index, &info) !=
        MMC_OK)
      break;
    if (!info.available || strcmp(info.name, t->kernel_name) != 0) continue;
    t->info = info;
    break;
  }
}

/* Seconds of one of `runs` executions. */
static mmc_status time_runs(const experiment *x, mmc_run *run, int64_t n, int64_t runs,
                            double *seconds) {
  double start = cli_now_s();
  mmc_status status = MMC_OK;
  for (int64_t r = 0; r < runs && status == MMC_OK; r++)
    status = mmc_enqueue(run, NULL, x->matrices, &x->matrices[n]);
  if (status == MMC_OK) status = mmc_wait(run);
  *seconds = (cli_now_s() - start) / (double)runs;
  return status;
}

/* Joules where there is a meter, else seconds alone; after two executions, of which the first
 * prepares what the others find. */
static int measure(experiment *x, cli_trial *t, mmc_run *run, int64_t n) {
  double once_s;
  mmc_status status = time_runs(x, run, n, 1, &once_s);
  if (status == MMC_OK) status = time_runs(x, run, n, 1, &once_s);
  if (status != MMC_OK) return cannot(x, t, status);
  int result = cli_energy_measure(x->call, &x->energy, fmax(x->window_s, least_window_s), run,
                                  x->matrices, &x->matrices[n], &t->energy);
  if (result != CLI_DONE) return result;
  t->seconds = t->energy.seconds;
  if (!t->energy.measured) {
    double runs = ceil(x->window_s / fmax(once_s, 1e-7));
    status = time_runs(x, run, n, runs > 1 ? (int64_t)runs : 1, &t->seconds);
    if (status != MMC_OK) return cannot(x, t, status);
  }
  t->measured = true;
  return CLI_DONE;
}

static int try_plan(experiment *x, cli_trial *t, const mmc_chain *chain) {
  mmc_status status = plan_trial(x, t, chain);
  if (status != MMC_OK) return cannot(x, t, status);
  read_plan(x, t);
  status = make_operands(x, chain, t->chain);
  if (status != MMC_OK) return cannot(x, t, status);
  double start = cli_now_s();
  mmc_run *run;
  status = mmc_run_create(t->plan, &run);
  if (status != MMC_OK) return cannot(x, t, status);
  t->create_s = cli_now_s() - start;
  const cli_trial *same = find_same(x, t);
  int result = CLI_DONE;
  if (same == NULL) {
    result = measure(x, t, run, mmc_chain_length(chain));
  } else {
    t->measured = true;
    t->measured_as = same->order;
    t->seconds = same->seconds;
    t->energy = same->energy;
  }
  mmc_run_destroy(run);
  return result;
}

static int try_trial(experiment *x, cli_trial *t) {
  mmc_chain *chain;
  mmc_status status = mmc_chain_parse(x->call->context, t->chain, &chain);
  if (status != MMC_OK) return cli_fail_status(x->call, status, "");
  int result = try_plan(x, t, chain);
  mmc_chain_destroy(chain);
  return result;
}

/* ---- telling --------------------------------------------------------------------------------- */

static double flops_of(const cli_trial *t) {
  return t->plan == NULL ? NAN : 2 * mmc_count_to_double(mmc_plan_multiplications(t->plan));
}

static void print_number(cli_stream *out, const char *name, double value) {
  if (isfinite(value))
    cli_print(out, ", \"%s\": %.6g", name, value);
  else
    cli_print(out, ", \"%s\": null", name);
}

static void print_known(cli_stream *out, const char *name, int64_t value) {
  if (value > 0)
    cli_print(out, ", \"%s\": %" PRId64, name, value);
  else
    cli_print(out, ", \"%s\": null", name);
}

static void print_text_field(cli_stream *out, const char *name, const char *text) {
  cli_print(out, ", \"%s\": ", name);
  if (text != NULL && text[0] != '\0')
    cli_print_json_string(out, text);
  else
    cli_print(out, "null");
}

static void print_json(cli_stream *out, const experiment *x, const cli_trial *t) {
  cli_print(out, "{\"experiment\": \"%s\", \"part\": \"%s\"", x->options->name, t->part);
  print_text_field(out, "machine", x->all.machine);
  print_text_field(out, "device", x->device);
  print_text_field(out, "name", t->name);
  print_text_field(out, "chain", t->chain);
  print_text_field(out, "order", t->order);
  print_text_field(out, "way", t->way);
  print_text_field(out, "kernel", t->kernel_name);
  print_text_field(out, "precision", t->precision);
  cli_print(out, ", \"measured\": %s", t->measured ? "true" : "false");
  print_text_field(out, "reason", t->reason);
  print_text_field(out, "measured_as", t->measured_as);
  cli_print(out, ", \"multiplications\": ");
  if (t->plan != NULL)
    cli_print_json_count(out, mmc_plan_multiplications(t->plan));
  else
    cli_print(out, "null");
  if (t->order == orders[2])
    cli_print(out, ", \"fused_pairs\": %" PRId64, t->pairs);
  else
    cli_print(out, ", \"fused_pairs\": null");
  print_number(out, "plan_s", t->plan_s);
  print_number(out, "create_s", t->create_s);
  print_number(out, "seconds", t->seconds);
  print_number(out, "gflops", 1e-9 * flops_of(t) / t->seconds);
  print_known(out, "tile_rows", t->tile[0]);
  print_known(out, "tile_cols", t->tile[1]);
  print_number(out, "model_load_words", t->words);
  cli_print(out,
            ", \"global_load_bytes\": null, \"global_load_reason\": \"hardware counters are "
            "not readable here: see scripts/check-gpu counters\"");
  print_known(out, "registers_per_thread", t->info.registers_per_thread);
  print_known(out, "threads_per_block", t->info.threads_per_block);
  print_known(out, "shared_bytes_per_block", t->info.shared_bytes_per_block);
  cli_print(out, ", ");
  cli_energy_print_json(out, &t->energy);
  cli_print(out, "}\n");
}

static void print_heading(cli_stream *out, const experiment *x) {
  cli_print(out, "%s on %s (%s)\n", x->options->name, x->device, x->all.machine);
  if (x->energy.idle.measured)
    cli_print(out, "joules by %s, %.4g W when idle\n", x->energy.idle.meter,
              x->energy.idle.idle_watts);
  else
    cli_print(out, "no joules: %s\n", x->energy.idle.reason);
  cli_print(out, "global loads: hardware counters are not readable here\n\n");
  cli_print(out, "%-7s %-12s %-11s %-16s %-18s %10s %10s %10s %9s %10s %8s\n", "part", "name",
            "order", "way", "kernel", "planned s", "created s", "seconds", "GFLOP/s", "J", "W");
}

static void print_text(cli_stream *out, const cli_trial *t) {
  cli_print(out, "%-7s %-12s %-11s %-16s ", t->part, t->name, t->order, t->way);
  if (!t->measured) {
    cli_print(out, "not measured: %s\n", t->reason);
    return;
  }
  cli_print(out, "%-18s %10.3g %10.3g %10.4g %9.4g", t->kernel_name, t->plan_s, t->create_s,
            t->seconds, 1e-9 * flops_of(t) / t->seconds);
  if (t->energy.measured)
    cli_print(out, " %10.4g %8.4g", t->energy.joules, t->energy.watts);
  else
    cli_print(out, " %10s %8s", "-", "-");
  cli_print(out, t->measured_as != NULL ? "  as %s\n" : "%s\n",
            t->measured_as != NULL ? t->measured_as : "");
}

static void tell(experiment *x, const cli_trial *t) {
  if (x->options->json)
    print_json(&x->call->out, x, t);
  else
    print_text(&x->call->out, t);
  cli_stream_flush(&x->call->out);
  if (x->results == NULL) return;
  cli_stream lines = {.file = x->results};
  print_json(&lines, x, t);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Seconds a trial will take, about: what a plan for time predicts, for any order and way. */
static double estimate(const experiment *x, const cli_trial *t) {
  mmc_chain *chain;
  mmc_plan *plan;
  if (mmc_chain_parse(NULL, t->chain, &chain) != MMC_OK) return 0;
  int64_t n = mmc_chain_length(chain);
  const int64_t *dims = mmc_chain_dims(chain);
  double bytes = 0, run_s = 0;
  for (int64_t i = 0; i < n; i++) bytes += cli_matrix_bytes(MMC_F32, 1, dims[i], dims[i + 1]);
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.device = x->device;
  options.objective = "time";
  options.location = MMC_DEVICE;
  if (mmc_plan_create(x->call->context, chain, &options, &plan) == MMC_OK) {
    run_s = mmc_plan_predicted_seconds(plan);
    mmc_plan_destroy(plan);
  }
  mmc_chain_destroy(chain);
  bool fresh = t == x->all.trials || strcmp(t[-1].chain, t->chain) != 0;
  return around_s + 2 * run_s + fmax(x->window_s * 1.25, 2 * run_s) +
         (fresh ? bytes / write_bytes_per_s : 0);
}

static int try_all(experiment *x) {
  double total_s = 0, done_s = 0, start = cli_now_s();
  for (size_t i = 0; i < x->all.count; i++) total_s += estimate(x, &x->all.trials[i]);
  fprintf(stderr, "mmchain bench: %zu trials on %s, about %.0f s at most\n", x->all.count,
          x->all.machine, ceil(total_s));
  if (!x->options->json) print_heading(&x->call->out, x);
  cli_progress progress = cli_progress_start(x->call);
  int result = CLI_DONE;
  for (size_t i = 0; i < x->all.count && result == CLI_DONE && x->call->out.error == 0; i++) {
    double share = done_s / total_s, taken_s = cli_now_s() - start;
    if (cli_progress_show_left(&progress, share, share > 0 ? taken_s * (1 / share - 1) : total_s))
      result = cli_fail(x->call, CLI_INTERRUPTED, "interrupted");
    if (result != CLI_DONE) break;
    done_s += estimate(x, &x->all.trials[i]);
    result = try_trial(x, &x->all.trials[i]);
    cli_progress_end(&progress);
    if (result == CLI_DONE) tell(x, &x->all.trials[i]);
  }
  cli_progress_end(&progress);
  return result;
}

/* The device's model: its description up to the first comma. */
static void name_machine(experiment *x) {
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

/* Writes results.jsonl and, of an experiment that was not interrupted, the figures. */
static int keep(experiment *x, bool interrupted) {
  const char *directory = x->options->directory;
  if (directory == NULL) return CLI_DONE;
  char path[4096];
  int length = snprintf(path, sizeof path, "%s/results.jsonl", directory);
  cli_file file;
  fflush(x->results);
  if (length < 0 || (size_t)length >= sizeof path || !cli_file_create(path, &file))
    return cli_fail(x->call, CLI_BAD, "-o: %s: cannot write: %s", path, strerror(errno));
  cli_stream_write(&file.stream, x->lines.bytes, x->lines.size);
  if (!cli_file_commit(&file))
    return cli_fail(x->call, CLI_BAD, "-o: %s: cannot write: %s", path, strerror(errno));
  return interrupted ? CLI_DONE : cli_experiment_draw(x->call, directory, &x->all);
}

static int start(experiment *x) {
  const cli_experiment_options *o = x->options;
  cli_call *call = x->call;
  if (strcmp(o->name, "tee-acm2") != 0)
    return cli_fail(call, CLI_BAD, "--experiment: expected tee-acm2, got '%s'", o->name);
  bool known = o->part == NULL;
  for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++)
    known = known || strcmp(o->part, parts[p]) == 0;
  if (!known)
    return cli_fail(call, CLI_BAD, "--only: expected single, tiles, fused or chains, got '%s'",
                    o->part);
  int result = o->directory != NULL ? make_directory(call, o->directory) : CLI_DONE;
  if (result != CLI_DONE) return result;
  mmc_status status = mmc_memory_create(call->context, x->device, 0, &x->memory);
  if (status != MMC_OK) return cli_fail_status(call, status, "");
  name_machine(x);
  if (o->directory != NULL &&
      (x->results = open_memstream(&x->lines.bytes, &x->lines.size)) == NULL)
    return cli_fail_memory(call, "the results take", 1 << 16);
  x->pool = malloc(POOL * sizeof *x->pool);
  if (x->pool == NULL) return cli_fail_memory(call, "the numbers take", POOL * sizeof *x->pool);
  cli_random random = cli_random_start(SEED, 0);
  cli_random_fill(&random, MMC_F32, POOL, scale, x->pool);
  if (!list_trials(x)) result = CLI_FAILED;
  if (result == CLI_DONE && x->all.count == 0)
    result = cli_fail(call, CLI_BAD, "--way: no trial of '%s'", o->way != NULL ? o->way : "");
  return result == CLI_DONE ? cli_energy_open(call, &x->energy, x->device) : result;
}

int cli_experiment_run(cli_call *call, const cli_experiment_options *options) {
  experiment x = {.call = call,
                  .options = options,
                  .device = options->device != NULL ? options->device : "cpu",
                  .window_s = options->window_s >= 0 ? options->window_s
                              : options->quick       ? 0.5
                                                     : 2,
                  .energy = {.wanted = true, .meter_name = options->meter}};
  cli_interrupt_catch();
  int result = start(&x);
  if (result == CLI_DONE) {
    result = try_all(&x);
    if (result == CLI_DONE || result == CLI_INTERRUPTED) {
      int kept = keep(&x, result == CLI_INTERRUPTED);
      if (result == CLI_DONE) result = kept;
    }
  }
  cli_energy_close(&x.energy);
  free_operands(&x);
  for (size_t i = 0; i < x.all.count; i++) mmc_plan_destroy(x.all.trials[i].plan);
  free(x.all.trials);
  free(x.pool);
  if (x.results != NULL) fclose(x.results);
  free(x.lines.bytes);
  return result;
}

/* trials.c: plans, executes and measures the trials of an experiment. */
#include "trials.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../random.h"
#include "../timing.h"

enum { PLANNINGS = 5, SEED = 1, ALIGNMENT = 256, POOL = (1 << 22) - 3, KERNEL_COUNT_MAX = 64 };

/* Every number is a normal one times this: near 1/sqrt(k) for the k here, so that long chains stay
 * in range. */
static const double scale = 0x1p-7;
static const double least_window_s = 1e-3;

cli_trial *cli_trial_add(cli_trials *all, const char *part, const char *order, const char *family,
                         const int64_t *dims, int count) {
  if (all->count == all->capacity) {
    size_t capacity = 2 * all->capacity + 64;
    cli_trial *grown = realloc(all->trials, capacity * sizeof *grown);
    if (grown == NULL) {
      cli_fail_memory(all->lab->call, "the list of trials takes",
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
                   .plan_s = NAN};
  t->energy = (mmc_energy){.joules = NAN, .watts = NAN, .idle_watts = NAN, .crosscheck = NAN};
  snprintf(t->family, sizeof t->family, "%s", family);
  int length = snprintf(t->chain, sizeof t->chain, "f32:%" PRId64, dims[0]);
  for (int d = 1; d < count; d++)
    length += snprintf(t->chain + length, sizeof t->chain - (size_t)length, "x%" PRId64, dims[d]);
  return t;
}

/* ---- operands -------------------------------------------------------------------------------- */

static void free_operands(cli_trials *x) {
  mmc_memory_destroy(x->memory);
  free(x->matrices);
  x->memory = NULL;
  x->matrices = NULL;
  x->chain[0] = '\0';
}

/* Fills with seeded normal numbers, the same ones again and again. Their count is odd and large
 * against a row, so that no two rows of a matrix are the same. */
static mmc_status fill_normals(cli_trials *x, size_t offset, size_t bytes, size_t *next) {
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

static mmc_status make_operands(cli_trials *x, const mmc_chain *chain, const char *text) {
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
  mmc_status status = mmc_memory_create(x->lab->call->context, x->lab->device, bytes, &x->memory);
  size_t offset = 0;
  for (int64_t i = 0; i <= n && status == MMC_OK; i++) {
    mmc_matrix *m = &x->matrices[i];
    size_t size = (size_t)cli_matrix_bytes(MMC_F32, 1, m->rows, m->cols);
    m->data = (char *)mmc_memory_address(x->memory) + offset;
    if (i < n) status = fill_normals(x, offset, size, &next);
    offset = (offset + size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }
  if (status == MMC_OK)
    snprintf(x->chain, sizeof x->chain, "%s", text);
  else
    free_operands(x);
  return status;
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* Notes the reason for what a machine may lack; any other failure ends the experiment. */
static int cannot(cli_trials *x, cli_trial *t, mmc_status status) {
  if (status != MMC_E_UNSUPPORTED && status != MMC_E_NOMEM && status != MMC_E_MEMORY_LIMIT)
    return cli_fail_status(x->lab->call, status, "");
  mmc_context_message(x->lab->call->context, t->reason, sizeof t->reason);
  t->prepared = false;
  return CLI_DONE;
}

static mmc_status plan_trial(const cli_trials *x, cli_trial *t, const mmc_chain *chain) {
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.device = x->lab->device;
  options.location = MMC_DEVICE;
  options.precision = t->precision;
  options.kernel = t->kernel;
  options.solver = t->solver;
  options.objective = t->objective;
  options.fuse = t->fuse;
  for (int p = 0; p < PLANNINGS; p++) {
    mmc_plan_destroy(t->plan);
    t->plan = NULL;
    double start = cli_now_s();
    mmc_status status = mmc_plan_create(x->lab->call->context, chain, &options, &t->plan);
    double taken_s = cli_now_s() - start;
    if (status != MMC_OK) return status;
    if (!(taken_s >= t->plan_s)) t->plan_s = taken_s;
  }
  return MMC_OK;
}

/* Says which steps run as one call: the groups of a plan as it is explained. The text is freed by
 * the caller. */
static cli_buffer groups_of(const mmc_plan *plan) {
  cli_buffer text = {0};
  if (mmc_plan_explain(plan, MMC_JSON, cli_buffer_write, &text) != MMC_OK) return text;
  char *from = strstr(text.bytes, "\"groups\": ["), *to = strstr(text.bytes, "\"steps\": [");
  if (from == NULL || to == NULL || to < from) return text;
  text.size = (size_t)(to - from);
  memmove(text.bytes, from, text.size);
  return text;
}

static bool same_groups(const mmc_plan *a, const mmc_plan *b) {
  cli_buffer p = groups_of(a), q = groups_of(b);
  bool same = p.size > 0 && p.size == q.size && memcmp(p.bytes, q.bytes, p.size) == 0;
  cli_buffer_free(&p);
  cli_buffer_free(&q);
  return same;
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
  return same_groups(a, b);
}

/* Returns an earlier trial whose measurement is this one's too; NULL when there is none. */
static cli_trial *find_same(const cli_trials *x, const cli_trial *t) {
  for (cli_trial *e = x->trials; e < t && t->may_copy; e++)
    if (e->prepared && e->part == t->part && e->measured_as == NULL &&
        strcmp(e->chain, t->chain) == 0 && strcmp(e->family, t->family) == 0 &&
        same_plan(e->plan, t->plan))
      return e;
  return NULL;
}

/* Reads what the plan and the kernel's name tell. */
static void read_plan(const cli_trials *x, cli_trial *t) {
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
  if (strncmp(t->kernel_name, "large_tile ", 11) == 0 &&
      sscanf(tile, " %" SCNd64 "x%" SCNd64, &t->tile[0], &t->tile[1]) == 2)
    t->words = (double)step.m * (double)step.k * (double)step.n *
               (1 / (double)t->tile[0] + 1 / (double)t->tile[1]);
  const mmc_tune_product product = {.dtype = MMC_F32, .m = step.m, .k = step.k, .n = step.n};
  for (int index = 0; index < KERNEL_COUNT_MAX; index++) {
    mmc_kernel_info info;
    if (mmc_kernel_describe(x->lab->call->context, x->lab->device, t->precision, &product, index,
                            &info) != MMC_OK)
      break;
    if (!info.available || strcmp(info.name, t->kernel_name) != 0) continue;
    t->info = info;
    break;
  }
}

/* Measures the seconds of one of `runs` executions. */
static mmc_status time_runs(const cli_trials *x, cli_trial *t, mmc_run *run, int64_t n,
                            int64_t runs, double *seconds) {
  t->samples.executions += runs;
  double start = cli_now_s();
  mmc_status status = MMC_OK;
  for (int64_t r = 0; r < runs && status == MMC_OK; r++)
    status = mmc_enqueue(run, NULL, x->matrices, &x->matrices[n]);
  if (status == MMC_OK) status = mmc_wait(run);
  *seconds = (cli_now_s() - start) / (double)runs;
  return status;
}

/* Takes one sample: joules where there is a meter, else seconds alone, after an execution, or two
 * before the first sample, of which the first prepares what the others need. */
static int measure_run(cli_trials *x, cli_trial *t, mmc_run *run, int64_t n, double create_s) {
  const cli_laboratory *lab = x->lab;
  cli_trial_samples *s = &t->samples;
  double once_s, seconds;
  mmc_status status = time_runs(x, t, run, n, 1, &once_s);
  if (status == MMC_OK && s->count == 0) status = time_runs(x, t, run, n, 1, &once_s);
  if (status != MMC_OK) return cannot(x, t, status);
  int result = cli_energy_measure(lab->call, &lab->energy, fmax(lab->window_s, least_window_s), run,
                                  x->matrices, &x->matrices[n], &t->energy);
  if (result != CLI_DONE) return result;
  seconds = t->energy.seconds;
  if (!t->energy.measured) {
    double runs = ceil(lab->window_s / fmax(once_s, 1e-7));
    status = time_runs(x, t, run, n, runs > 1 ? (int64_t)runs : 1, &seconds);
    if (status != MMC_OK) return cannot(x, t, status);
  }
  bool metered = t->energy.measured;
  s->seconds[s->count] = seconds;
  s->create_s[s->count] = create_s;
  s->joules[s->count] = metered ? t->energy.joules : NAN;
  s->watts[s->count] = metered ? t->energy.watts : NAN;
  s->sampled_watts[s->count] = metered ? t->energy.watts * (1 + t->energy.crosscheck) : NAN;
  s->tick_error[s->count] = metered ? t->energy.tick_error : NAN;
  s->until_s[s->count] = cli_unix_s();
  s->count++;
  t->measured = true;
  return CLI_DONE;
}

/* Says whether the plan has steps that run as one call. */
static bool has_groups(const mmc_plan *plan) {
  cli_buffer text = groups_of(plan);
  bool has = text.size > 0 && memchr(text.bytes, '{', text.size) != NULL;
  cli_buffer_free(&text);
  return has;
}

static int plan_one(cli_trials *x, cli_trial *t, const mmc_chain *chain) {
  mmc_status status = plan_trial(x, t, chain);
  if (status != MMC_OK) return cannot(x, t, status);
  if (t->fuse != NULL && !has_groups(t->plan)) {
    snprintf(t->reason, sizeof t->reason, "the device runs none of its products as one call");
    return CLI_DONE;
  }
  read_plan(x, t);
  status = make_operands(x, chain, t->chain);
  if (status != MMC_OK) return cannot(x, t, status);
  t->prepared = true;
  const cli_trial *same = find_same(x, t);
  if (same != NULL) t->measured_as = same->order;
  if (same != NULL) return CLI_DONE;
  /* The first run of a plan pays for what later ones find ready, and counts for none. */
  mmc_run *run;
  status = mmc_run_create(t->plan, &run);
  if (status != MMC_OK) return cannot(x, t, status);
  mmc_run_destroy(run);
  return CLI_DONE;
}

static int sample_one(cli_trials *x, cli_trial *t, int64_t n) {
  if (!t->prepared || t->measured_as != NULL) return CLI_DONE;
  mmc_run *run;
  double start = cli_now_s();
  mmc_status status = mmc_run_create(t->plan, &run);
  if (status != MMC_OK) return cannot(x, t, status);
  int result = measure_run(x, t, run, n, cli_now_s() - start);
  mmc_run_destroy(run);
  return result;
}

/* Tells of the trial which measurement is its own, or another's. */
static void tell_trial(cli_trials *x, cli_trial *t) {
  if (t->measured_as != NULL) {
    const cli_trial *same = find_same(x, t);
    if (same != NULL) {
      t->measured = same->measured;
      t->samples = same->samples;
      t->energy = same->energy;
      snprintf(t->reason, sizeof t->reason, "%s", same->reason);
    }
  }
  cli_trial_tell(x, t);
}

/* Measures the trials from first to end, which have one chain, in turns. */
static int run_group(cli_trials *x, size_t first, size_t end) {
  cli_laboratory *lab = x->lab;
  mmc_chain *chain;
  mmc_status status = mmc_chain_parse(lab->call->context, x->trials[first].chain, &chain);
  if (status != MMC_OK) return cli_fail_status(lab->call, status, "");
  int result = CLI_DONE;
  for (size_t i = first; i < end && result == CLI_DONE; i++)
    result = plan_one(x, &x->trials[i], chain);
  for (int r = 0; r < lab->repeats && result == CLI_DONE; r++)
    for (size_t i = first; i < end && result == CLI_DONE; i++) {
      double done = (double)(end - first) * r + (double)(i - first);
      result = cli_laboratory_show(lab, ((double)first + done / lab->repeats) / (double)x->count,
                                   x->trials[i].name);
      if (result == CLI_DONE) result = sample_one(x, &x->trials[i], mmc_chain_length(chain));
    }
  for (size_t i = first; i < end && (result == CLI_DONE || result == CLI_INTERRUPTED); i++)
    if (result == CLI_DONE || x->trials[i].samples.count > 0) tell_trial(x, &x->trials[i]);
  mmc_chain_destroy(chain);
  return result;
}

int cli_trials_run(cli_trials *x) {
  int result = CLI_DONE;
  for (size_t first = 0, end; first < x->count && result == CLI_DONE; first = end) {
    const cli_trial *t = &x->trials[first];
    for (end = first + 1; end < x->count && x->trials[end].part == t->part &&
                          strcmp(x->trials[end].chain, t->chain) == 0;)
      end++;
    result = run_group(x, first, end);
  }
  return result;
}

/* ---- all of them ----------------------------------------------------------------------------- */

int cli_trials_open(cli_trials *x) {
  x->pool = malloc(POOL * sizeof *x->pool);
  if (x->pool == NULL)
    return cli_fail_memory(x->lab->call, "the numbers take", POOL * sizeof *x->pool);
  cli_random random = cli_random_start(SEED, 0);
  cli_random_fill(&random, MMC_F32, POOL, scale, x->pool);
  return CLI_DONE;
}

void cli_trials_close(cli_trials *x) {
  free_operands(x);
  for (size_t i = 0; i < x->count; i++) mmc_plan_destroy(x->trials[i].plan);
  free(x->trials);
  free(x->pool);
}

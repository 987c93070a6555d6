/* tee_acm2.c: what the TEE-ACM2 poster (SC22) measured: single products, tiles, fused products and
 * six chains, in order, as OP_Count and as OP_DM_Fuse. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "experiment.h"
#include "tee_acm2_page.h"
#include "trials.h"

enum { KERNEL_COUNT_MAX = 64 };

/* The poster's names of the orders, and how a plan is asked for them. */
enum { IN_ORDER, OP_COUNT, OP_DM_FUSE, ORDER_COUNT };
static const struct {
  const char *name, *solver, *objective;
} orders[ORDER_COUNT] = {
    [IN_ORDER] = {"in-order", "left-to-right", NULL},
    [OP_COUNT] = {"OP_Count", NULL, NULL},
    [OP_DM_FUSE] = {"OP_DM_Fuse", NULL, "traffic"},
};

/* ---- what is tried --------------------------------------------------------------------------- */

/* The chains are those of bench/chains/tee-acm2.txt. */
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

/* The kernels; "" is the device's own, by one call a product. */
static const struct {
  const char *name, *kernel, *precision;
} families[] = {
    {"plain", "", "native"}, {"tee", "large_tile", "native"}, {"faithful", "emulated", "faithful"}};

/* Products around a narrow intermediate; on devices other than GPUs the wide side is divided. */
static const struct {
  const char *name;
  int order;
  int64_t dims[4];
} pairs[] = {
    {"left 16", IN_ORDER, {1 << 20, 16, 16, 16}},
    {"left 32", IN_ORDER, {1 << 20, 32, 32, 32}},
    {"left 64-16", OP_COUNT, {1 << 20, 64, 16, 64}},
    {"right 64-16", OP_COUNT, {64, 16, 64, 1 << 20}},
};

/* The chain of the poster's table of fusion decisions, with the last size that its numbers need. */
static const int64_t decided_dims[] = {936, 1008, 552, 368, 1016, 616, 616};
enum { DECIDED = sizeof decided_dims / sizeof decided_dims[0] };

/* Adds a trial of this order; NULL when memory is short. */
static cli_trial *add_trial(cli_trials *x, const char *part, int order, const char *family,
                            const int64_t *dims, int count) {
  cli_trial *t = cli_trial_add(x, part, orders[order].name, family, dims, count);
  if (t == NULL) return NULL;
  t->solver = orders[order].solver;
  t->objective = orders[order].objective;
  return t;
}

static bool add_single(cli_trials *x, const cli_experiment_options *options, const int64_t *sizes,
                       int size_count) {
  for (int s = 0; s < size_count; s++) {
    for (size_t w = 0; w < sizeof families / sizeof families[0]; w++) {
      if (!cli_experiment_wants(options->kernel, families[w].name)) continue;
      cli_trial *t = add_trial(x, "single", OP_COUNT, families[w].name,
                               (int64_t[]){sizes[s], sizes[s], sizes[s]}, 3);
      if (t == NULL) return false;
      t->kernel = families[w].kernel;
      t->precision = families[w].precision;
      t->tells_kernel = s == size_count - 1;
      snprintf(t->name, sizeof t->name, "n=%" PRId64, sizes[s]);
    }
  }
  return true;
}

/* Adds a trial for every kernel of the device whose name says a tile, and for its plain one. */
static bool add_tiles(cli_trials *x, const cli_experiment_options *options, int64_t n) {
  const mmc_tune_product product = {.dtype = MMC_F32, .m = n, .k = n, .n = n};
  mmc_kernel_info info;
  int found = 0;
  for (int index = 0; index < KERNEL_COUNT_MAX; index++) {
    mmc_status status = mmc_kernel_describe(x->lab->call->context, x->lab->device, "native",
                                            &product, index, &info);
    if (status == MMC_E_ARG) break; /* there are no more kernels */
    if (status != MMC_OK) return cli_fail_status(x->lab->call, status, "") == CLI_DONE;
    bool is_tee = strncmp(info.name, "large_tile", 10) == 0;
    if ((index > 0 && !is_tee) || !info.available) continue;
    if (!cli_experiment_wants(options->kernel, info.name)) continue;
    cli_trial *t = add_trial(x, "tiles", OP_COUNT, info.name, (int64_t[]){n, n, n}, 3);
    if (t == NULL) return false;
    t->kernel = info.name;
    t->tells_kernel = true;
    found += is_tee;
    snprintf(t->name, sizeof t->name, "n=%" PRId64, n);
  }
  if (found > 0 || !cli_experiment_wants(options->kernel, "tee")) return true;
  cli_trial *t = add_trial(x, "tiles", OP_COUNT, "tee", (int64_t[]){n, n, n}, 3);
  if (t == NULL) return false;
  t->kernel = "large_tile"; /* planning it says why there is none */
  snprintf(t->name, sizeof t->name, "n=%" PRId64, n);
  return true;
}

static bool add_fused(cli_trials *x, const cli_experiment_options *options, int64_t shrink) {
  static const char *const kernels[][2] = {{"plain", ""}, {"fused", "fused"}};
  for (size_t p = 0; p < sizeof pairs / sizeof pairs[0]; p++) {
    int64_t dims[4];
    for (int d = 0; d < 4; d++)
      dims[d] = pairs[p].dims[d] > 64 ? pairs[p].dims[d] / shrink : pairs[p].dims[d];
    for (int k = 0; k < 2; k++) {
      if (!cli_experiment_wants(options->kernel, kernels[k][0])) continue;
      cli_trial *t = add_trial(x, "fused", pairs[p].order, kernels[k][0], dims, 4);
      if (t == NULL) return false;
      t->kernel = kernels[k][1];
      snprintf(t->name, sizeof t->name, "%s", pairs[p].name);
    }
  }
  return true;
}

/* Adds the chain of the table, product by product and with the pairs that its prices fuse. */
static bool add_decided(cli_trials *x, const cli_experiment_options *options, int64_t shrink) {
  static const char *const fuses[] = {"poster", "exact"};
  int64_t dims[DECIDED];
  for (int d = 0; d < DECIDED; d++) dims[d] = decided_dims[d] / shrink;
  for (int f = 0; f < 2; f++)
    for (int fused = 0; fused < 2; fused++) {
      const char *family = fused ? "fused" : "plain";
      if (!cli_experiment_wants(options->kernel, family)) continue;
      cli_trial *t = add_trial(x, "fused", OP_COUNT, family, dims, DECIDED);
      if (t == NULL) return false;
      if (fused) {
        t->kernel = NULL;
        t->objective = "traffic";
        t->fuse = fuses[f];
      }
      snprintf(t->name, sizeof t->name, "table %s", fuses[f]);
    }
  return true;
}

/* Adds the chains. In OP_DM_Fuse the device may run pairs as one call where it has its own
 * choice. */
static bool add_chains(cli_trials *x, const cli_experiment_options *options, int64_t shrink) {
  for (size_t c = 0; c < sizeof chains / sizeof chains[0]; c++) {
    int64_t dims[14] = {0};
    int count = 0;
    while (count < 14 && chains[c].dims[count] > 0) {
      dims[count] = chains[c].dims[count] / shrink;
      count++;
    }
    for (int o = 0; o < ORDER_COUNT; o++) {
      for (size_t w = 0; w < sizeof families / sizeof families[0]; w++) {
        if (w > 0 && o != OP_COUNT)
          continue; /* the poster has its own kernel with the tree alone */
        if (!cli_experiment_wants(options->kernel, families[w].name)) continue;
        cli_trial *t = add_trial(x, "chains", o, families[w].name, dims, count);
        if (t == NULL) return false;
        t->kernel = o == OP_DM_FUSE && w == 0 ? NULL : families[w].kernel;
        t->precision = families[w].precision;
        t->may_copy = o == OP_DM_FUSE;
        snprintf(t->name, sizeof t->name, "%s", chains[c].name);
      }
    }
  }
  return true;
}

static bool list_trials(cli_trials *x, const cli_experiment_options *o) {
  static const struct {
    int64_t sizes[4], shrink, pair_shrink;
  } choices[2][2] = {{{{128, 256, 512, 1024}, 40, 64}, {{64, 128}, 400, 1024}},
                     {{{4096, 8192, 12288, 16384}, 1, 1}, {{2048, 4096}, 4, 8}}};
  const int64_t *sizes = o->size_count > 0 ? o->sizes : choices[x->lab->is_gpu][o->quick].sizes;
  int count = o->size_count;
  if (count == 0)
    while (count < 4 && sizes[count] > 0) count++;
  bool done = true;
  if (cli_experiment_wants(o->part, "single")) done = add_single(x, o, sizes, count);
  if (done && cli_experiment_wants(o->part, "tiles")) done = add_tiles(x, o, sizes[count / 2]);
  if (done && cli_experiment_wants(o->part, "fused"))
    done = add_fused(x, o, choices[x->lab->is_gpu][o->quick].pair_shrink) &&
           add_decided(x, o, o->quick && !x->lab->is_gpu ? 16 : 1);
  if (done && cli_experiment_wants(o->part, "chains"))
    done = add_chains(x, o, choices[x->lab->is_gpu][o->quick].shrink);
  return done;
}

/* ---- the poster's model ---------------------------------------------------------------------- */

/* Writes a line for each product of the order: the words of its choices. */
static int tell_decisions(cli_laboratory *x, const char *fuse) {
  static const char *const names[] = {[MMC_FUSION_NONE] = "no_fuse",
                                      [MMC_FUSION_LEFT] = "left_fuse",
                                      [MMC_FUSION_RIGHT] = "right_fuse"};
  mmc_chain *chain;
  mmc_plan *plan = NULL;
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.objective = "traffic";
  options.fuse = fuse;
  options.device = x->device;
  mmc_status status =
      mmc_chain_create(x->call->context, MMC_F32, DECIDED - 1, decided_dims, NULL, &chain);
  if (status != MMC_OK) return cli_fail_status(x->call, status, "");
  status = mmc_plan_create(x->call->context, chain, &options, &plan);
  mmc_chain_destroy(chain);
  if (status != MMC_OK) return cli_fail_status(x->call, status, "");
  mmc_step_traffic t;
  for (int64_t s = 0; mmc_plan_step_traffic(plan, s, &t) == MMC_OK; s++) {
    char node[24]; /* "T1" */
    snprintf(node, sizeof node, "T%" PRId64, s + 1);
    cli_line_begin(x, "decision");
    cli_line_text(x, "fuse", fuse);
    cli_line_text(x, "node", node);
    for (int f = 0; f < 3; f++)
      cli_line_number(x, names[f], t.possible[f] ? mmc_count_to_double(t.choices[f]) : (double)NAN);
    cli_line_text(x, "chosen", names[t.chosen]);
    cli_line_count(x, "tile_rows", t.chosen_tile[0] / 8 * 8);
    cli_line_count(x, "tile_cols", t.chosen_tile[1] / 8 * 8);
    cli_line_end(x);
  }
  mmc_plan_destroy(plan);
  return CLI_DONE;
}

/* Writes, for the poster's chains at their own sizes, the words with and without fusion. */
static int tell_words(cli_laboratory *x) {
  static const char *const fuses[] = {"none", "exact", "poster", "joint"};
  for (size_t c = 0; c < sizeof chains / sizeof chains[0]; c++) {
    mmc_chain *chain;
    int count = 0;
    while (count < 14 && chains[c].dims[count] > 0) count++;
    mmc_status status =
        mmc_chain_create(x->call->context, MMC_F32, count - 1, chains[c].dims, NULL, &chain);
    if (status != MMC_OK) return cli_fail_status(x->call, status, "");
    cli_line_begin(x, "words");
    cli_line_text(x, "name", chains[c].name);
    for (int f = 0; f < 4 && status == MMC_OK; f++) {
      mmc_plan *plan;
      mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
      options.objective = "traffic";
      options.fuse = fuses[f];
      options.device = x->device;
      status = mmc_plan_create(x->call->context, chain, &options, &plan);
      if (status != MMC_OK) break;
      cli_line_exact(x, fuses[f], mmc_plan_traffic_words(plan));
      mmc_plan_destroy(plan);
    }
    cli_line_end(x);
    mmc_chain_destroy(chain);
    if (status != MMC_OK) return cli_fail_status(x->call, status, "");
  }
  return CLI_DONE;
}

/* Writes the words of one product for tiles of every shape that hold as many words: Figure 3. */
static int tell_tilings(cli_laboratory *x) {
  enum { SIDE = 4096, SHAPES = 17 };
  mmc_chain *chain;
  mmc_status status = mmc_chain_create(x->call->context, MMC_F32, 2,
                                       (const int64_t[]){SIDE, SIDE, SIDE}, NULL, &chain);
  double rows[SHAPES], words[SHAPES];
  for (int s = 0; s < SHAPES && status == MMC_OK; s++) {
    mmc_plan *plan;
    mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
    options.objective = "traffic";
    options.device = x->device;
    options.tile[0] = llround(16 * pow(2, s / 2.0)); /* 16 to 4096, two a doubling */
    options.tile[1] = MMC_ON_CHIP_WORDS / options.tile[0];
    status = mmc_plan_create(x->call->context, chain, &options, &plan);
    if (status != MMC_OK) break;
    rows[s] = (double)options.tile[0];
    words[s] = mmc_count_to_double(mmc_plan_traffic_words(plan));
    mmc_plan_destroy(plan);
  }
  mmc_chain_destroy(chain);
  if (status != MMC_OK) return cli_fail_status(x->call, status, "");
  cli_line_begin(x, "tiling");
  cli_line_count(x, "n", SIDE);
  cli_line_count(x, "on_chip_words", MMC_ON_CHIP_WORDS);
  cli_line_numbers(x, "rows", rows, SHAPES);
  cli_line_numbers(x, "words", words, SHAPES);
  cli_line_end(x);
  return CLI_DONE;
}

static int tell_model(cli_laboratory *x) {
  int result = cli_tell_orders(x, "f32:10x30x5x60");
  if (result == CLI_DONE) result = tell_tilings(x);
  if (result == CLI_DONE) result = tell_decisions(x, "poster");
  if (result == CLI_DONE) result = tell_decisions(x, "exact");
  return result == CLI_DONE ? tell_words(x) : result;
}

/* ---- the experiment -------------------------------------------------------------------------- */

static int run(cli_laboratory *x, const cli_experiment_options *o) {
  cli_trials all = {.lab = x};
  int result = cli_trials_open(&all);
  if (result == CLI_DONE && !list_trials(&all, o)) result = CLI_FAILED;
  if (result == CLI_DONE && all.count == 0 && (o->part == NULL || strcmp(o->part, "model") != 0))
    result = cli_fail(x->call, CLI_BAD, "--family: no trial of '%s'",
                      o->kernel != NULL ? o->kernel : "");
  if (result == CLI_DONE && cli_experiment_wants(o->part, "model")) result = tell_model(x);
  if (result == CLI_DONE) cli_trial_heading(x);
  if (result == CLI_DONE) result = cli_trials_run(&all);
  cli_trials_close(&all);
  return result;
}

const cli_experiment cli_experiment_tee_acm2 = {
    .name = "tee-acm2",
    .summary =
        "what the TEE-ACM2 poster (SC22) measured, on seeded normal f32 numbers: time, power\n"
        "               and joules of single products, tile sizes, fused products, and six chains\n"
        "               in order, as OP_Count and as OP_DM_Fuse, by the device's own kernels\n"
        "               (plain), by large tiles and faithful; its table of fusion decisions;\n"
        "               --only model, single, tiles, fused or chains",
    .parts = {"model", "single", "tiles", "fused", "chains"},
    .has_joules = true,
    .window_s = {1, 0.5},
    .repeats = {5, 2},
    .run = run,
    .source = &cli_tee_acm2_source,
};

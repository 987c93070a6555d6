/* bench_time.c: random chains of four, planned for time against fewest multiplications with plain
 * calls, one JSON line a chain.
 *
 *     bench_time [--on DEVICE] [--dtype TYPE] [--precision NAME] [--chains N] [--seconds S]
 *
 * Half of S seconds (75) measures the efficiency array of all sizes up to the largest dim, the
 * other half the products of the chains, each chain with an equal share of what is left. All of it
 * is kept in a store that is deleted. Both plans are then executed in turns, matrices on the
 * device. A chain whose plans are the same has the ratio 1. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "timing.h"

enum { FACTORS = 4, MOST_CHAINS = 100, TURNS = 31, LEAST_DIM = 64, MOST_DIM = 4096 };
static const double sample_least_s = 1e-3;

static mmc_context *context;

static void require(mmc_status status) {
  if (status == MMC_OK) return;
  char text[512];
  fprintf(stderr, "bench_time: %s\n", mmc_context_message(context, text, sizeof text));
  exit(1);
}

static uint64_t next_random(uint64_t *state) { /* splitmix64 (Steele, Lea and Flood 2014) */
  uint64_t z = (*state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/* Log-uniform dims, multiples of 8 as often as not. */
static mmc_chain *random_chain(uint64_t *state, mmc_dtype dtype) {
  int64_t dims[FACTORS + 1];
  for (int d = 0; d <= FACTORS; d++) {
    double share = (double)(next_random(state) >> 11) * 0x1p-53;
    int64_t size = llround(LEAST_DIM * exp(share * log((double)MOST_DIM / LEAST_DIM)));
    dims[d] = next_random(state) % 2 == 0 ? size / 8 * 8 : size;
  }
  mmc_chain *chain;
  require(mmc_chain_create(context, dtype, FACTORS, dims, NULL, &chain));
  return chain;
}

/* ---- matrices on the device ---------------------------------------------------------------- */

typedef struct operands {
  mmc_matrix factors[FACTORS], result;
  mmc_memory *memory[FACTORS + 1];
} operands;

/* Numbers of mean 0; of a dtype of two bytes any bits that are no NaN. */
static void fill(void *data, size_t count, mmc_dtype dtype, uint64_t *state) {
  for (size_t i = 0; i < count; i++) {
    double x = (double)(int64_t)next_random(state) * 0x1p-63;
    uint16_t bits = (uint16_t)(0x3F00u | ((unsigned)next_random(state) & 0x80FFu));
    if (dtype == MMC_F32) ((float *)data)[i] = (float)x;
    if (dtype == MMC_F64) ((double *)data)[i] = x;
    if (dtype == MMC_F16 || dtype == MMC_BF16) ((uint16_t *)data)[i] = bits;
  }
}

static mmc_matrix on_device(const char *device, mmc_dtype dtype, int64_t rows, int64_t cols,
                            uint64_t *state, mmc_memory **memory) {
  size_t count = (size_t)rows * (size_t)cols, size = count * mmc_dtype_size(dtype);
  void *data = malloc(size);
  if (data == NULL) exit(1);
  fill(data, count, dtype, state);
  require(mmc_memory_create(context, device, size, memory));
  require(mmc_memory_write(*memory, 0, data, size));
  free(data);
  return (mmc_matrix){
      .data = mmc_memory_address(*memory), .rows = rows, .cols = cols, .location = MMC_DEVICE};
}

static void make_operands(const mmc_chain *chain, const char *device, uint64_t *state,
                          operands *out) {
  const int64_t *dims = mmc_chain_dims(chain);
  mmc_dtype dtype = mmc_chain_dtype(chain);
  for (int i = 0; i < FACTORS; i++)
    out->factors[i] = on_device(device, dtype, dims[i], dims[i + 1], state, &out->memory[i]);
  out->result = on_device(device, dtype, dims[0], dims[FACTORS], state, &out->memory[FACTORS]);
}

/* ---- one chain ----------------------------------------------------------------------------- */

static double sample(mmc_run *run, const operands *o, int runs) {
  double start_s = now_s();
  for (int r = 0; r < runs; r++) require(mmc_enqueue(run, NULL, o->factors, &o->result));
  require(mmc_wait(run));
  return (now_s() - start_s) / runs;
}

static double median(double samples[TURNS]) {
  qsort(samples, TURNS, sizeof samples[0], ascending);
  return samples[TURNS / 2];
}

static bool same_plan(const mmc_plan *a, const mmc_plan *timed) {
  for (int64_t s = 0; s < FACTORS - 1; s++) {
    mmc_step x, y;
    mmc_step_time how;
    require(mmc_plan_step(a, s, &x));
    require(mmc_plan_step(timed, s, &y));
    require(mmc_plan_step_time(timed, s, &how));
    if (x.left != y.left || x.right != y.right || how.split[0] != '\0') return false;
  }
  return true;
}

static int put_text(void *user, const char *bytes, size_t size) {
  return fwrite(bytes, 1, size, user) != size;
}

/* The ratio of the two plans' times. */
static double compare(const mmc_chain *chain, mmc_plan_options options, uint64_t *state) {
  mmc_plan *plans[2];
  mmc_run *runs[2];
  operands o;
  double times[2][TURNS], ratios[TURNS];
  options.location = MMC_DEVICE;
  require(mmc_plan_create(context, chain, &options, &plans[0]));
  options.objective = "time";
  require(mmc_plan_create(context, chain, &options, &plans[1]));
  bool same = same_plan(plans[0], plans[1]);
  make_operands(chain, options.device, state, &o);
  int count[2];
  for (int p = 0; p < 2; p++) {
    require(mmc_run_create(plans[p], &runs[p]));
    for (int warm = 0; warm < 3; warm++) sample(runs[p], &o, 1);
    count[p] = 1 + (int)fmin(1000, sample_least_s / sample(runs[p], &o, 3));
  }
  for (int t = 0; t < TURNS; t++) {
    for (int i = 0; i < 2; i++) {
      int p = (i + t) % 2;
      times[p][t] = sample(runs[p], &o, count[p]);
    }
    ratios[t] = times[0][t] / times[1][t];
  }
  double ratio = same ? 1 : median(ratios);
  printf("{\"bench\":\"time\",\"device\":\"%s\",\"chain\":\"", mmc_plan_device(plans[0]));
  mmc_chain_write(chain, put_text, stdout);
  printf(
      "\",\"same\":%s,\"fewest_s\":%.4g,\"time_s\":%.4g,\"predicted_s\":%.4g,\"more\":%.3f,"
      "\"ratio\":%.4f,\"splits\":[",
      same ? "true" : "false", median(times[0]), median(times[1]),
      mmc_plan_predicted_seconds(plans[1]),
      mmc_count_to_double(mmc_plan_multiplications(plans[1])) /
          mmc_count_to_double(mmc_plan_multiplications(plans[0])),
      ratio);
  for (int64_t s = 0; s < FACTORS - 1; s++) {
    mmc_step_time how;
    require(mmc_plan_step_time(plans[1], s, &how));
    printf("%s\"%s %s\"", s > 0 ? "," : "", how.source, how.split);
  }
  printf("]}\n");
  fflush(stdout);
  for (int p = 0; p < 2; p++) {
    mmc_run_destroy(runs[p]);
    mmc_plan_destroy(plans[p]);
  }
  for (int i = 0; i <= FACTORS; i++) mmc_memory_destroy(o.memory[i]);
  return ratio;
}

/* ---- the program --------------------------------------------------------------------------- */

static mmc_dtype dtype_of(const char *name) {
  for (mmc_dtype d = MMC_F32; mmc_dtype_name(d) != NULL; d = (mmc_dtype)(d + 1))
    if (strcmp(mmc_dtype_name(d), name) == 0 && d != MMC_C64 && d != MMC_C128) return d;
  fprintf(stderr, "bench_time: expected f32, f64, f16 or bf16, got '%s'\n", name);
  exit(2);
}

static void tune(mmc_tune_options *options, double seconds) {
  mmc_tune_report report;
  options->budget_s = fmax(seconds, 1e-3);
  require(mmc_tune(context, options, &report));
}

int main(int argc, char **argv) {
  mmc_plan_options plan_options = MMC_PLAN_OPTIONS_INIT;
  mmc_tune_options tune_options = MMC_TUNE_OPTIONS_INIT;
  mmc_dtype dtype = MMC_F32;
  int count = 20;
  double seconds = 75, logs = 0, least = (double)INFINITY, most = 0;
  for (int at = 1; at + 1 < argc; at += 2) {
    if (strcmp(argv[at], "--on") == 0) plan_options.device = argv[at + 1];
    if (strcmp(argv[at], "--dtype") == 0) dtype = dtype_of(argv[at + 1]);
    if (strcmp(argv[at], "--precision") == 0) plan_options.precision = argv[at + 1];
    if (strcmp(argv[at], "--chains") == 0) count = (int)strtol(argv[at + 1], NULL, 10);
    if (strcmp(argv[at], "--seconds") == 0) seconds = strtod(argv[at + 1], NULL);
  }
  if (count < 1 || count > MOST_CHAINS) count = MOST_CHAINS;
  char directory[] = "/tmp/mmchain-bench-XXXXXX", path[64];
  if (mkdtemp(directory) == NULL) return 1;
  snprintf(path, sizeof path, "%s/wisdom.db", directory);
  mmc_context_options context_options = MMC_CONTEXT_OPTIONS_INIT;
  context_options.wisdom_path = path;
  if (mmc_context_create(&context_options, &context) != MMC_OK) return 1;

  static mmc_chain *chains[MOST_CHAINS];
  uint64_t random = 20240917;
  for (int c = 0; c < count; c++) chains[c] = random_chain(&random, dtype);
  tune_options.device = plan_options.device;
  tune_options.precision = plan_options.precision;
  tune_options.dtype = dtype;
  tune_options.range = MOST_DIM;
  double start_s = now_s();
  tune(&tune_options, seconds / 2);
  tune_options.range = 0;
  for (int c = 0; c < count; c++) {
    const mmc_chain *one[] = {chains[c]};
    tune_options.chains = one;
    tune_options.chain_count = 1;
    tune(&tune_options, (seconds - (now_s() - start_s)) / (count - c));
  }
  for (int c = 0; c < count; c++) {
    double ratio = compare(chains[c], plan_options, &random);
    logs += log(ratio);
    least = fmin(least, ratio);
    most = fmax(most, ratio);
    mmc_chain_destroy(chains[c]);
  }
  printf(
      "{\"bench\":\"time\",\"dtype\":\"%s\",\"precision\":\"%s\",\"chains\":%d,"
      "\"geomean\":%.4f,\"least\":%.4f,\"most\":%.4f}\n",
      mmc_dtype_name(dtype), plan_options.precision != NULL ? plan_options.precision : "native",
      count, exp(logs / count), least, most);
  mmc_context_destroy(context);
  const char *const endings[] = {"", "-wal", "-shm"};
  for (int e = 0; e < 3; e++) {
    snprintf(path, sizeof path, "%s/wisdom.db%s", directory, endings[e]);
    unlink(path);
  }
  rmdir(directory);
  return 0;
}

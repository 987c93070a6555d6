/* test_whole.c: chains of precision "reproducible+faithful" whose products are large have the same
 * bits however they are computed: by any number of threads, alone or in a batch, within little
 * memory, however matrices lie, by a plan for any objective or one that was saved, on the device
 * that is named as on the CPU.
 *
 *     run_whole DEVICE [SEED]
 *
 * Exit status 77: the device is not here. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../expect.h"
#include "../how_many.h"
#include "../random.h"
#include "base/dtype.h"
#include "mmchain.h"

enum { MOST_FACTORS = 3, BATCH = 2 };

/* The library's OpenMP, where it has one. */
extern void omp_set_num_threads(int count) __attribute__((weak));

/* A chain and its values, in rows without gaps. */
typedef struct problem {
  mmc_dtype dtype;
  int n;
  int64_t dims[MOST_FACTORS + 1];
  unsigned char *values[MOST_FACTORS];
} problem;

typedef struct how {
  const char *name, *device, *objective, *order;
  int threads;
  int64_t batch;
  uint64_t device_memory_bytes;
  bool by_columns, turned_factor; /* the result; the second factor is stored transposed */
  bool saved;
} how;

static int64_t reals_of(mmc_dtype dtype) {
  return dtype == MMC_C64 || dtype == MMC_C128 ? 2 : 1;
}

static size_t real_size(mmc_dtype dtype) {
  return mmc_dtype_size(dtype) / (size_t)reals_of(dtype);
}

static size_t bytes_of(const problem *p, int64_t rows, int64_t cols) {
  return (size_t)(rows * cols) * mmc_dtype_size(p->dtype);
}

/* Fills a factor with numbers of both signs; some rows have what is left to FP64. */
static void fill(const problem *p, int64_t rows, int64_t cols, uint64_t *random,
                 unsigned char *values) {
  const int64_t parts = reals_of(p->dtype);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols * parts; c++) {
      double x = random_unit(random);
      if (r % 97 == 5 && c == 3) x = 1e9;
      if (r % 501 == 7 && c == 4) x = (double)NAN;
      const float single = (float)x;
      memcpy(values + (size_t)(r * cols * parts + c) * real_size(p->dtype),
             real_size(p->dtype) == 8 ? (const void *)&x : &single, real_size(p->dtype));
    }
}

static unsigned char *transposed(const problem *p, int64_t rows, int64_t cols,
                                 const unsigned char *values) {
  const size_t size = mmc_dtype_size(p->dtype);
  unsigned char *to = malloc(bytes_of(p, rows, cols));
  for (int64_t r = 0; r < rows && to != NULL; r++)
    for (int64_t c = 0; c < cols; c++)
      memcpy(to + (size_t)(c * rows + r) * size, values + (size_t)(r * cols + c) * size, size);
  return to;
}

static bool fine(mmc_context *context, mmc_status status, const char *what) {
  char message[512];
  if (expect(status == MMC_OK, what)) return true;
  printf("  %s\n", mmc_context_message(context, message, sizeof message));
  return false;
}

/* Text that grows. */
typedef struct text {
  char *bytes;
  size_t size;
} text;

static int add_text(void *user, const char *bytes, size_t size) {
  text *x = user;
  char *more = realloc(x->bytes, x->size + size + 1);
  if (more == NULL) return 1;
  memcpy(more + x->size, bytes, size);
  x->bytes = more;
  x->size += size;
  return 0;
}

/* Makes a plan again from its text. */
static bool save(mmc_context *context, const mmc_chain *chain, mmc_plan **plan) {
  text json = {0};
  mmc_plan *other = NULL;
  mmc_status status = mmc_plan_explain(*plan, MMC_JSON, add_text, &json);
  if (status == MMC_OK) status = mmc_plan_read(context, json.bytes, json.size, chain, NULL, &other);
  free(json.bytes);
  if (!fine(context, status, "a plan is saved")) return false;
  mmc_plan_destroy(*plan);
  *plan = other;
  return true;
}

/* Executes the chain; returns the result, of every chain of the batch, in rows without gaps. */
static unsigned char *execute(mmc_context *context, const problem *p, const how *h) {
  mmc_op ops[MOST_FACTORS] = {MMC_OP_N};
  if (h->turned_factor) ops[1] = MMC_OP_T;
  mmc_chain_options chain_options = MMC_CHAIN_OPTIONS_INIT;
  chain_options.batch = h->batch;
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.device = h->device;
  options.objective = h->objective;
  options.order = h->order;
  options.precision = "reproducible+faithful";
  options.device_memory_bytes = h->device_memory_bytes;
  mmc_chain *chain = NULL;
  mmc_plan *plan = NULL;
  mmc_run *run = NULL;
  mmc_matrix matrices[MOST_FACTORS], out;
  unsigned char *turned = NULL;
  const int64_t m = p->dims[0], n = p->dims[p->n];
  const size_t bytes = bytes_of(p, m, n);
  unsigned char *result = calloc((size_t)h->batch, bytes);
  if (omp_set_num_threads != NULL && h->threads > 0) omp_set_num_threads(h->threads);
  for (int i = 0; i < p->n; i++) {
    const int64_t rows = p->dims[i], cols = p->dims[i + 1];
    const bool is_turned = ops[i] == MMC_OP_T;
    if (is_turned) turned = transposed(p, rows, cols, p->values[i]);
    matrices[i] = (mmc_matrix){.data = is_turned ? turned : p->values[i],
                               .rows = is_turned ? cols : rows,
                               .cols = is_turned ? rows : cols};
  }
  out = (mmc_matrix){.data = result,
                     .rows = m,
                     .cols = n,
                     .stride = m * n,
                     .layout = h->by_columns ? MMC_COL_MAJOR : MMC_ROW_MAJOR};
  bool done =
      expect(result != NULL, "memory") &&
      fine(context,
           mmc_chain_create_batch(context, p->dtype, p->n, p->dims, ops, &chain_options, &chain),
           "a chain") &&
      fine(context, mmc_plan_create(context, chain, &options, &plan), "a plan") &&
      (!h->saved || save(context, chain, &plan)) &&
      fine(context, mmc_run_create(plan, &run), "a run") &&
      fine(context, mmc_execute(run, matrices, &out), "a product");
  for (int64_t i = 1; i < h->batch && done; i++)
    done = expect(memcmp(result, result + (size_t)i * bytes, bytes) == 0, "chains of a batch");
  if (h->by_columns && done) {
    unsigned char *rows = transposed(p, n, m, result);
    free(result);
    result = rows;
  }
  free(turned);
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  if (done) return result;
  free(result);
  return NULL;
}

static void try_problem(mmc_context *context, const char *device, problem *p, uint64_t *random) {
  const how base = {
      .name = "on the CPU", .device = "cpu", .batch = 1, .device_memory_bytes = MMC_NO_LIMIT};
  const bool is_cpu = strcmp(device, "cpu") == 0;
  how hows[] = {base, base, base, base, base, base, base};
  enum { HOWS = sizeof hows / sizeof *hows };
  enum { ONE_THREAD, BY_COLUMNS, IN_A_BATCH = 4 };
  hows[ONE_THREAD].name = "by one thread";
  hows[ONE_THREAD].threads = 1;
  hows[BY_COLUMNS].name = "by columns";
  hows[BY_COLUMNS].by_columns = true;
  hows[2].name = "a factor that is stored transposed";
  hows[2].turned_factor = true;
  hows[3].name = "for time";
  hows[3].objective = "time";
  hows[IN_A_BATCH].name = "in a batch";
  hows[IN_A_BATCH].batch = BATCH;
  hows[5].name = "within little memory";
  hows[5].device_memory_bytes = is_cpu ? MMC_NO_LIMIT : UINT64_C(400) << 20;
  hows[6].name = "by a saved plan";
  hows[6].saved = true;
  for (int i = 0; i < p->n; i++) {
    p->values[i] = malloc(bytes_of(p, p->dims[i], p->dims[i + 1]));
    if (!expect(p->values[i] != NULL, "memory")) return;
    fill(p, p->dims[i], p->dims[i + 1], random, p->values[i]);
  }
  unsigned char *expected = execute(context, p, &base);
  const size_t bytes = bytes_of(p, p->dims[0], p->dims[p->n]);
  /* Doubles take a CPU long, and all of it takes sanitizers long: in short real numbers are
   * multiplied in some ways and complex ones in others. */
  const bool is_short = is_cpu && (real_size(p->dtype) == 8 || !is_in_full()),
             one_thread = random_below(random, 2) == 0;
  for (int h = 0; h < HOWS && expected != NULL; h++) {
    if (is_short && h != ONE_THREAD && h != BY_COLUMNS && h != IN_A_BATCH) continue;
    if (is_short && !is_in_full() && mmci_dtype_is_complex(p->dtype) != (h == IN_A_BATCH)) continue;
    if (is_short && !is_in_full() && h == (one_thread ? BY_COLUMNS : ONE_THREAD)) continue;
    if (p->n > 2) hows[h].order = "((A1 A2) A3)";
    hows[h].device = device;
    unsigned char *result = execute(context, p, &hows[h]);
    if (result != NULL && !expect(memcmp(expected, result, bytes) == 0, hows[h].name))
      printf("  %s %" PRId64 "x%" PRId64 "x%" PRId64 " on %s\n", mmc_dtype_name(p->dtype),
             p->dims[0], p->dims[1], p->dims[2], device);
    free(result);
  }
  if (omp_set_num_threads != NULL) omp_set_num_threads(2);
  free(expected);
  for (int i = 0; i < p->n; i++) free(p->values[i]);
}

/* Says whether the device is on this machine. */
static bool is_here(mmc_context *context, const char *device) {
  char message[512];
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  mmc_chain *chain = NULL;
  mmc_plan *plan = NULL;
  options.device = device;
  const bool here = mmc_chain_parse(context, "f32:2x2x2", &chain) == MMC_OK &&
                    mmc_plan_create(context, chain, &options, &plan) == MMC_OK;
  if (!here) printf("skipped: %s\n", mmc_context_message(context, message, sizeof message));
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  return here;
}

int main(int argc, char **argv) {
  static const problem problems[] = {
      {.dtype = MMC_F32, .n = 2, .dims = {1800, 2100, 1700}},
      {.dtype = MMC_C64, .n = 2, .dims = {900, 1900, 1010}},
      {.dtype = MMC_F32, .n = 3, .dims = {520, 16000, 730, 40}},
      {.dtype = MMC_F64, .n = 2, .dims = {1200, 30000, 1201}},
      {.dtype = MMC_C128, .n = 2, .dims = {1300, 6500, 1280}},
  };
  const char *device = argc > 1 ? argv[1] : "cpu";
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 20261128, random = seed;
  const bool is_long = strcmp(device, "cpu") != 0 || is_in_full();
  mmc_context *context = NULL;
  printf("seed %" PRIu64 "\n", seed);
  if (!expect(mmc_context_create(NULL, &context) == MMC_OK, "a context")) return 1;
  if (!is_here(context, device)) {
    mmc_context_destroy(context);
    return TEST_SKIPPED;
  }
  for (int p = 0; p < (is_long ? 5 : 2); p++) {
    problem x = problems[p];
    try_problem(context, device, &x, &random);
  }
  mmc_context_destroy(context);
  return expect_summary();
}

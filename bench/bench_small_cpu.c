/* bench_small_cpu.c: small products and chains on the CPU, one JSON line a case.
 *
 *     bench_small_cpu [ROUNDS]
 *
 * batch    chains of four square factors, each chain its own factors, the device's one call
 * long     one chain of 1000 square factors in a balanced tree, the device's one call
 * execute  mmc_execute() of a made plan with the same matrices again
 *
 * Seconds are the median of ROUNDS (default 11) of what is fastest of a few. bench_numpy.py puts
 * NumPy beside. The device's calls have no public function, so this sees the inside. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device/device.h"
#include "timing.h"

enum { MOST_ROUNDS = 101, LONG = 1000, BATCHED = 4, EXECUTED = 5 };

/* Seeded, in (-1, 1), or fifths of that for large sides, so that long products stay finite; on
 * large pages, as NumPy asks for them. */
static void *random_elements(mmc_dtype dtype, int64_t side, int64_t count) {
  static uint64_t state = 1;
  int64_t reals = count * (dtype == MMC_C64 || dtype == MMC_C128 ? 2 : 1);
  bool single = dtype == MMC_F32 || dtype == MMC_C64;
  size_t bytes = (size_t)reals * (single ? sizeof(float) : sizeof(double)), page = 1 << 21;
  void *data = NULL;
  if (posix_memalign(&data, bytes >= 2 * page ? page : 64, bytes) != 0)
    check(MMC_E_NOMEM, "factors");
  if (bytes >= 2 * page) madvise(data, bytes, MADV_HUGEPAGE);
  double scale = side > 8 ? 0.2 : 1;
  for (int64_t t = 0; t < reals; t++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    double value = scale * ((double)(state >> 11) / (double)(UINT64_C(1) << 52) - 1);
    if (single)
      ((float *)data)[t] = (float)value;
    else
      ((double *)data)[t] = value;
  }
  return data;
}

/* Time of one call, by as many as take a millisecond. */
typedef void (*call)(void *state);

static double median_s(call run, void *state, int rounds) {
  double samples[MOST_ROUNDS];
  int repeats = 0;
  run(state);
  for (double start = now_s(); repeats == 0 || now_s() - start < 1e-3; repeats++) run(state);
  for (int r = 0; r < rounds; r++) {
    double best = 1e300;
    for (int turn = 0; turn < 3; turn++) {
      double start = now_s();
      for (int t = 0; t < repeats; t++) run(state);
      double seconds = (now_s() - start) / repeats;
      if (seconds < best) best = seconds;
    }
    samples[r] = best;
  }
  qsort(samples, (size_t)rounds, sizeof *samples, ascending);
  return samples[rounds / 2];
}

/* ---- the device's one call ---------------------------------------------------------------------
 */

typedef struct one_call {
  mmci_opened on;
  mmci_queue *queue;
  mmci_group_kernel *kernel;
  const void *operands[LONG];
  void *c;
} one_call;

static void run_one_call(void *state) {
  one_call *x = state;
  mmci_error error;
  check(x->on.ops->group_enqueue(x->queue, x->kernel, x->operands, x->c, &error), "chain");
}

/* Neighbours in pairs, until one is left. */
static int32_t balanced(int32_t n, int64_t side, mmci_group_product *products) {
  int32_t open[LONG], count = 0;
  for (int32_t i = 0; i < n; i++) open[i] = i;
  for (int32_t left = n; left > 1;) {
    int32_t kept = 0;
    for (int32_t i = 0; i < left; i += 2) {
      if (i + 1 < left)
        products[count++] = (mmci_group_product){side, side, side, open[i], open[i + 1]};
      open[kept++] = i + 1 < left ? n + count - 1 : open[i];
    }
    left = kept;
  }
  return count;
}

static void bench_one_call(mmci_registry *registry, mmc_dtype dtype, int32_t n, int64_t side,
                           int64_t batch, int rounds) {
  one_call x;
  mmci_error error;
  mmci_form forms[LONG];
  mmci_group_product products[LONG];
  check(mmci_registry_open(registry, "cpu", &x.on, &error), "device");
  check(x.on.ops->queue_open(x.on.device, &x.queue, &error), "queue");
  for (int32_t f = 0; f < n; f++) {
    forms[f] = (mmci_form){.ld = side, .stride = side * side};
    x.operands[f] = random_elements(dtype, side, side * side * batch);
  }
  x.c = random_elements(dtype, side, side * side * batch);
  mmci_group chain = {.dtype = dtype,
                      .batch = batch,
                      .n = n,
                      .count = balanced(n, side, products),
                      .forms = forms,
                      .products = products,
                      .ldc = side,
                      .c_stride = side * side};
  double start = now_s();
  check(x.on.ops->group_prepare(x.on.device, &chain, &x.kernel, &error), "prepare");
  double prepare_s = now_s() - start, seconds = median_s(run_one_call, &x, rounds);
  double bytes = (double)(n + 1) * (double)(side * side * batch) * (double)mmc_dtype_size(dtype);
  double flops = chain.count * mmci_flops(dtype, side, side, side) * (double)batch;
  printf(
      "{\"bench\": \"%s\", \"dtype\": \"%s\", \"factors\": %d, \"side\": %lld, \"batch\": %lld, "
      "\"kernel\": \"%s\", \"prepare_s\": %.3g, \"seconds\": %.4g, \"gflops\": %.3g, "
      "\"gbytes_per_s\": %.3g}\n",
      batch > 1 ? "batch" : "long", mmc_dtype_name(dtype), n, (long long)side, (long long)batch,
      x.on.ops->group_name(x.on.device, &chain), prepare_s, seconds, 1e-9 * flops / seconds,
      1e-9 * bytes / seconds);
  fflush(stdout);
  x.on.ops->group_release(x.kernel);
  x.on.ops->queue_close(x.queue);
  for (int32_t f = 0; f < n; f++) free((void *)x.operands[f]);
  free(x.c);
}

/* ---- mmc_execute() ------------------------------------------------------------------------------
 */

typedef struct execution {
  mmc_run *run;
  mmc_matrix factors[EXECUTED], out;
} execution;

static void run_execution(void *state) {
  execution *x = state;
  check(mmc_execute(x->run, x->factors, &x->out), "execute");
}

static void bench_execute(int64_t side, int rounds) {
  mmc_context *context;
  mmc_chain *chain;
  mmc_plan *plan;
  execution x = {.out = {.rows = side, .cols = side}};
  int64_t dims[EXECUTED + 1];
  for (int i = 0; i <= EXECUTED; i++) dims[i] = side;
  check(mmc_context_create(NULL, &context), "context");
  check(mmc_chain_create(context, MMC_F64, EXECUTED, dims, NULL, &chain), "chain");
  check(mmc_plan_create(context, chain, NULL, &plan), "plan");
  check(mmc_run_create(plan, &x.run), "run");
  for (int i = 0; i < EXECUTED; i++)
    x.factors[i] = (mmc_matrix){
        .data = random_elements(MMC_F64, side, side * side), .rows = side, .cols = side};
  x.out.data = random_elements(MMC_F64, side, side * side);
  printf(
      "{\"bench\": \"execute\", \"dtype\": \"f64\", \"factors\": %d, \"side\": %lld, "
      "\"batch\": 1, \"seconds\": %.4g}\n",
      EXECUTED, (long long)side, median_s(run_execution, &x, rounds));
  for (int i = 0; i < EXECUTED; i++) free(x.factors[i].data);
  free(x.out.data);
  mmc_run_destroy(x.run);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  mmc_context_destroy(context);
}

int main(int count, char **arguments) {
  int rounds = count > 1 ? atoi(arguments[1]) : 11;
  if (rounds < 1 || rounds > MOST_ROUNDS) {
    fprintf(stderr, "usage: bench_small_cpu [ROUNDS], from 1 to %d\n", MOST_ROUNDS);
    return 2;
  }
  mmci_registry *registry;
  mmci_error error;
  check(mmci_registry_create("", &registry, &error), "registry");
  static const mmc_dtype dtypes[] = {MMC_F64, MMC_C128, MMC_F32, MMC_C64};
  for (int d = 0; d < 4; d++)
    for (int64_t side = 4; side <= 64; side *= 2)
      bench_one_call(registry, dtypes[d], BATCHED, side, 6400000 / (side * side), rounds);
  bench_one_call(registry, MMC_F64, LONG, 64, 1, rounds);
  bench_execute(4, rounds);
  bench_execute(16, rounds);
  mmci_registry_destroy(registry);
  return 0;
}

/* bench_small.c: chains of small factors on a CUDA device against cuBLAS, one JSON line each.
 *
 *     bench_small MODULE [chains | kernels | joules]
 *
 * MODULE is mmchain-cuda.so; chains: single chains, no batches; kernels: short single chains by the
 * device's choice of kernel and by the general one in turns. Everything lies on the device,
 * normal random f32; sets of operands take turns where the L2 would hold them. median_us is of runs
 * of many launches in a row between two events; replayed_us of a graph that holds one launch. The
 * peer is cublasSgemmStridedBatched for one product after the other, in the same order, and in a
 * graph where replayed. floor_us is what reading the factors and writing the result once takes at
 * the rate of cudaMemcpyAsync in the same run (GB/s), or the multiplications at 60 TFLOP/s where
 * that is longer. joules: of a batch, by NVML's counter over about three seconds, of both. Results
 * are checked against each other. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascending.h"
#include "base/monotonic.h"
#include "device/device.h"
#include "on_device.h"

enum { FACTORS_MOST = 1000, SETS_MOST = 8, RUNS = 9, GRAPH_RUNS = 200 };
static const double L2_BYTES = 300e6, FLOPS = 60e12, JOULES_S = 3;

static double copy_rate; /* bytes read and written a second */

static __typeof__(&cublasSgemmStridedBatched) multiply;

/* ---- time and energy --------------------------------------------------------------------------
 */

typedef void (*work_fn)(void *what, int turn);

/* Median seconds of a call among many in a row. */
static double time_of(work_fn work, void *what) {
  double seconds[RUNS];
  int calls = 3, turn = 0;
  for (int r = -4; r < RUNS; r++) {
    float ms = 0;
    try(cudaEventRecord(begin, stream), "event");
    for (int i = 0; i < calls; i++) work(what, turn++);
    try(cudaEventRecord(end, stream), "event");
    try(cudaEventSynchronize(end), "work");
    try(cudaEventElapsedTime(&ms, begin, end), "event");
    if (r >= 0) seconds[r] = ms * 1e-3 / calls;
    /* So many that a run takes about 3 ms. */
    if (r < -1 && ms > 0) calls = (int)fmax(8, fmin(2000, 3 / (double)ms * calls));
  }
  qsort(seconds, RUNS, sizeof *seconds, mmci_ascending_doubles);
  return seconds[RUNS / 2];
}

static void launch_graph(void *graph, int turn) {
  (void)turn;
  try(cudaGraphLaunch((cudaGraphExec_t)graph, stream), "graph");
}

/* Median seconds of a graph that holds one call. */
static double replayed(work_fn work, void *what) {
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  try(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  work(what, 0);
  try(cudaStreamEndCapture(stream, &graph), "capture");
  try(cudaGraphInstantiate(&ready, graph, 0), "graph");
  const double seconds = time_of(launch_graph, ready);
  try(cudaGraphExecDestroy(ready), "graph");
  try(cudaGraphDestroy(graph), "graph");
  return seconds;
}

/* Joules of a call: energy between two changes of the counter while calls go on. */
static double joules_of(work_fn work, void *what, double seconds) {
  unsigned long long first = 0, now = 0, from = 0;
  const int burst = (int)fmax(1, 0.002 / seconds);
  double calls = 0;
  nvml_energy(nvml_device, &first);
  const double start = mmci_now_s();
  for (int turn = 0;;) {
    for (int i = 0; i < burst; i++) work(what, turn++);
    try(cudaStreamSynchronize(stream), "work");
    if (from != 0) calls += burst;
    nvml_energy(nvml_device, &now);
    const double passed = mmci_now_s() - start;
    if (from == 0 && now != first && passed > 0.5) from = now;
    if (from != 0 && now != from && passed > JOULES_S) return (double)(now - from) * 1e-3 / calls;
  }
}

static void copy(void *memory, int turn) {
  const size_t bytes = (size_t)1 << 30;
  char *at = memory;
  try(cudaMemcpyAsync(at + (turn % 2 == 0 ? bytes : 0), at + (turn % 2 == 0 ? 0 : bytes), bytes,
                      cudaMemcpyDeviceToDevice, stream),
      "copy");
}

static void measure_copies(void) {
  char *memory;
  try(cudaMalloc((void **)&memory, (size_t)2 << 30), "memory");
  try(cudaMemset(memory, 1, (size_t)2 << 30), "memory");
  copy_rate = 2 * (double)((size_t)1 << 30) / time_of(copy, memory);
  try(cudaFree(memory), "memory");
}

/* ---- a chain ----------------------------------------------------------------------------------
 */

typedef struct setting {
  int n, sets;
  int64_t batch, dims[FACTORS_MOST + 1];
  int32_t count;
  mmci_group_product products[FACTORS_MOST];
  mmci_form forms[FACTORS_MOST];
  int64_t rows[2 * FACTORS_MOST], cols[2 * FACTORS_MOST];
  float *at[SETS_MOST][2 * FACTORS_MOST], *c[SETS_MOST]; /* at: the peer's intermediates too */
  const void *operands[SETS_MOST][FACTORS_MOST];
  mmci_group_kernel *kernel;
} setting;

/* Normal numbers from a pattern, since all of them would take the host long. */
static void fill_normal(float *to, int64_t count, double scale, uint64_t *state) {
  enum { PATTERN = 1 << 20 };
  static float pattern[PATTERN];
  const int64_t length = count < PATTERN ? count : PATTERN;
  for (int64_t i = 0; i < length; i++) pattern[i] = (float)(normal(state) * scale);
  for (int64_t at = 0; at < count; at += length)
    try(cudaMemcpy(to + at, pattern, (size_t)(count - at < length ? count - at : length) * 4,
                   cudaMemcpyHostToDevice),
        "memory");
}

static int32_t add(setting *s, int32_t left, int32_t right) {
  s->products[s->count] =
      (mmci_group_product){s->rows[left], s->cols[left], s->cols[right], left, right};
  s->rows[s->n + s->count] = s->rows[left];
  s->cols[s->n + s->count] = s->cols[right];
  return s->n + s->count++;
}

/* Of s with its forms, by the kernel that variant names; 0 is the device's choice. */
static mmci_group chain_of(const setting *s, int variant) {
  return (mmci_group){.dtype = MMC_F32,
                      .batch = s->batch,
                      .n = s->n,
                      .count = s->count,
                      .forms = s->forms,
                      .products = s->products,
                      .ldc = s->dims[s->n],
                      .c_stride = s->dims[0] * s->dims[s->n],
                      .variant = variant};
}

static double bytes_of(const setting *s) {
  double words = (double)(s->dims[0] * s->dims[s->n]);
  for (int i = 0; i < s->n; i++) words += (double)(s->dims[i] * s->dims[i + 1]);
  return 4 * words * (double)s->batch;
}

static double flops_of(const setting *s) {
  double sum = 0;
  for (int32_t p = 0; p < s->count; p++)
    sum += mmci_flops(MMC_F32, s->products[p].m, s->products[p].k, s->products[p].n);
  return sum * (double)s->batch;
}

static int64_t aligned_words(const setting *s, int32_t x) {
  return (s->rows[x] * s->cols[x] * s->batch + 63) / 64 * 64;
}

static void fill(setting *s) {
  mmci_error error = {0};
  uint64_t state = 7;
  s->sets = (int)fmin(SETS_MOST, ceil(L2_BYTES / bytes_of(s)));
  /* Of a set the operands lie one after the other, each aligned to 256 bytes; the peer's
   * intermediates serve all sets. */
  int64_t words = 0;
  for (int x = 0; x < s->n; x++) words += aligned_words(s, x);
  for (int set = 0; set < s->sets; set++) {
    float *at;
    try(cudaMalloc((void **)&at, (size_t)words * 4), "memory");
    for (int32_t x = 0; x < s->n; x++) {
      s->operands[set][x] = s->at[set][x] = at;
      fill_normal(at, s->rows[x] * s->cols[x] * s->batch, 1 / sqrt((double)s->rows[x]), &state);
      at += aligned_words(s, x);
    }
    for (int32_t x = s->n; x < s->n + s->count; x++) {
      s->at[set][x] = s->at[0][x];
      if (set == 0)
        try(cudaMalloc((void **)&s->at[0][x], (size_t)aligned_words(s, x) * 4), "memory");
    }
    try(cudaMalloc((void **)&s->c[set], (size_t)(s->dims[0] * s->dims[s->n] * s->batch) * 4),
        "memory");
  }
  for (int i = 0; i < s->n; i++)
    s->forms[i] = (mmci_form){.ld = s->cols[i], .stride = s->rows[i] * s->cols[i]};
  const mmci_group chain = chain_of(s, 0);
  printf("\"kernel\": \"%s\", ", ops->group_name(device, &chain));
  check(ops->group_prepare(device, &chain, &s->kernel, &error), &error);
}

static void empty(setting *s) {
  ops->group_release(s->kernel);
  for (int set = 0; set < s->sets; set++) {
    try(cudaFree(s->at[set][0]), "memory");
    for (int32_t x = s->n; set == 0 && x < s->n + s->count; x++)
      try(cudaFree(s->at[0][x]), "memory");
    try(cudaFree(s->c[set]), "memory");
  }
}

static void ours(void *what, int turn) {
  setting *s = what;
  mmci_error error = {0};
  const int set = turn % s->sets;
  check(ops->group_enqueue(queue, s->kernel, s->operands[set], s->c[set], &error), &error);
}

static void peer(void *what, int turn) {
  setting *s = what;
  const float one = 1, zero = 0;
  float **at = s->at[turn % s->sets];
  for (int32_t p = 0; p < s->count; p++) {
    const mmci_group_product *x = &s->products[p];
    const int m = (int)x->m, k = (int)x->k, n = (int)x->n;
    if (multiply(cublas, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, at[x->right], n, (int64_t)k * n,
                 at[x->left], k, (int64_t)m * k, &zero, at[s->n + p], n, (int64_t)m * n,
                 (int)s->batch) != CUBLAS_STATUS_SUCCESS)
      stop("cuBLAS", "a product");
  }
}

/* The norm of the difference of both results of set 0, of the peer's norm. */
static double difference(setting *s) {
  const int64_t count = s->dims[0] * s->dims[s->n] * s->batch;
  float *x = malloc((size_t)count * 4), *y = malloc((size_t)count * 4);
  double sum = 0, norm = 0;
  if (x == NULL || y == NULL) stop("memory", "none");
  try(cudaMemset(s->c[0], 0xff, (size_t)count * 4), "memory");
  try(cudaDeviceSynchronize(), "work");
  ours(s, 0);
  peer(s, 0);
  try(cudaStreamSynchronize(stream), "work");
  try(cudaMemcpy(x, s->c[0], (size_t)count * 4, cudaMemcpyDeviceToHost), "memory");
  try(cudaMemcpy(y, s->at[0][s->n + s->count - 1], (size_t)count * 4, cudaMemcpyDeviceToHost),
      "memory");
  for (int64_t i = 0; i < count; i++) {
    sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    norm += (double)y[i] * (double)y[i];
  }
  free(x);
  free(y);
  return sqrt(sum / norm);
}

static void measure(setting *s, const char *name, bool joules) {
  printf("{\"bench\": \"small\", \"chain\": \"%s\", \"batch\": %lld, \"dtype\": \"f32\", ", name,
         (long long)s->batch);
  fill(s);
  const double off = difference(s), seconds = time_of(ours, s), other = time_of(peer, s),
               floor_s = fmax(bytes_of(s) / copy_rate, flops_of(s) / FLOPS);
  printf("\"median_us\": %.3f, \"peer_us\": %.3f, ", seconds * 1e6, other * 1e6);
  if (s->batch == 1)
    printf("\"replayed_us\": %.3f, \"peer_replayed_us\": %.3f, ", replayed(ours, s) * 1e6,
           replayed(peer, s) * 1e6);
  if (joules) {
    const double mine = joules_of(ours, s, seconds), theirs = joules_of(peer, s, other);
    printf("\"joules\": %.5g, \"peer_joules\": %.5g, \"joules_to_peer\": %.3f, ", mine, theirs,
           mine / theirs);
  }
  printf(
      "\"floor_us\": %.3f, \"share_of_floor\": %.4f, \"peer_share\": %.4f, \"copy_gb_s\": %.0f, "
      "\"difference\": %.2g}\n",
      floor_s * 1e6, floor_s / seconds, floor_s / other, copy_rate * 1e-9, off);
  fflush(stdout);
  empty(s);
  if (!(off < 1e-4)) stop(name, "another result than cuBLAS's");
}

/* Times of the device's choice of kernel and of the general kernel, in turns: of one launch in a
 * row of many, and of a graph that holds one. */
static void compare(setting *s, const char *name) {
  enum { TURNS = 7, GENERAL = 1 };
  mmci_error error = {0};
  double seconds[4][TURNS];
  printf("{\"bench\": \"kernels\", \"chain\": \"%s\", \"dtype\": \"f32\", ", name);
  fill(s);
  const mmci_group chain = chain_of(s, GENERAL);
  mmci_group_kernel *const chosen = s->kernel;
  mmci_group_kernel *general;
  check(ops->group_prepare(device, &chain, &general, &error), &error);
  for (int t = 0; t < TURNS; t++)
    for (int which = 0; which < 2; which++) {
      s->kernel = which == 0 ? chosen : general;
      seconds[which][t] = time_of(ours, s);
      seconds[2 + which][t] = replayed(ours, s);
    }
  s->kernel = general;
  const double off = difference(s);
  s->kernel = chosen;
  for (int which = 0; which < 4; which++)
    qsort(seconds[which], TURNS, sizeof(double), mmci_ascending_doubles);
  static const char *const FIELDS[] = {"us", "general_us", "replayed_us", "general_replayed_us"};
  for (int which = 0; which < 4; which++)
    printf("\"%s\": [%.3f, %.3f, %.3f], ", FIELDS[which], seconds[which][0] * 1e6,
           seconds[which][TURNS / 2] * 1e6, seconds[which][TURNS - 1] * 1e6);
  printf(
      "\"general_to_chosen\": %.3f, \"general_to_chosen_replayed\": %.3f, \"difference\": "
      "%.2g}\n",
      seconds[1][TURNS / 2] / seconds[0][TURNS / 2], seconds[3][TURNS / 2] / seconds[2][TURNS / 2],
      off);
  fflush(stdout);
  ops->group_release(general);
  empty(s);
  if (!(off < 1e-4)) stop(name, "another result than cuBLAS's");
}

/* The products of operands first to last from left to right. */
static setting *begin_chain(int n, int64_t batch, const int64_t *dims, int64_t all) {
  setting *s = calloc(1, sizeof *s);
  if (s == NULL) stop("memory", "none");
  s->n = n;
  s->batch = batch;
  for (int i = 0; i <= n; i++) s->dims[i] = dims != NULL ? dims[i] : all;
  for (int i = 0; i < n; i++) {
    s->rows[i] = s->dims[i];
    s->cols[i] = s->dims[i + 1];
  }
  return s;
}

static void left_to_right(setting *s) {
  int32_t x = 0;
  for (int i = 1; i < s->n; i++) x = add(s, x, i);
}

/* Runs of so many at each level, ever fewer: the tree of chain.h for long chains. */
static void levels(setting *s, const int *counts) {
  static int32_t nodes[FACTORS_MOST];
  int32_t count = s->n;
  for (int i = 0; i < s->n; i++) nodes[i] = i;
  for (int level = 0; count > 1; level++) {
    const int32_t wanted = counts[level] < count ? counts[level] : count;
    for (int32_t g = 0; g < wanted; g++) {
      const int32_t from = (int32_t)((int64_t)g * count / wanted),
                    to = (int32_t)((int64_t)(g + 1) * count / wanted);
      int32_t x = nodes[from];
      for (int32_t i = from + 1; i < to; i++) x = add(s, x, nodes[i]);
      nodes[g] = x;
    }
    count = wanted;
  }
}

static void balanced_level(setting *s) {
  int halves[16], count = 0;
  for (int n = s->n; n > 1; n = (n + 1) / 2) halves[count++] = (n + 1) / 2;
  levels(s, halves);
}

static void batch(int64_t side, int64_t count, bool joules) {
  char name[64];
  snprintf(name, sizeof name, "four of %lldx%lld", (long long)side, (long long)side);
  setting *s = begin_chain(4, count, NULL, side);
  left_to_right(s);
  measure(s, name, joules);
  free(s);
}

static const int64_t CLRS[] = {30, 35, 15, 5, 10, 20, 25};

static void order_clrs(setting *s) {
  const int32_t bc = add(s, 1, 2), abc = add(s, 0, bc), de = add(s, 3, 4);
  add(s, abc, add(s, de, 5));
}

static void alone(void) {
  static const int64_t SHORT[] = {10, 30, 5, 60};
  setting *s = begin_chain(3, 1, SHORT, 0);
  left_to_right(s);
  measure(s, "10x30x5x60", false);
  free(s);
  s = begin_chain(6, 1, CLRS, 0);
  order_clrs(s);
  measure(s, "30x35x15x5x10x20x25", false);
  free(s);
  s = begin_chain(8, 1, NULL, 64);
  left_to_right(s);
  measure(s, "eight of 64x64", false);
  free(s);
}

/* Short chains of random sizes, from left to right, and one in the order of CLRS. */
static void kernels(void) {
  uint64_t state = 20;
  for (int c = 0; c < 12; c++) {
    int64_t dims[8];
    char name[64] = "";
    const int n = 2 + c % 6;
    for (int i = 0; i <= n; i++) {
      dims[i] = 4 + (int64_t)(fabs(normal(&state)) * 24);
      snprintf(name + strlen(name), sizeof name - strlen(name), i == 0 ? "%lld" : "x%lld",
               (long long)dims[i]);
    }
    setting *s = begin_chain(n, 1, dims, 0);
    left_to_right(s);
    compare(s, name);
    free(s);
  }
  setting *s = begin_chain(6, 1, CLRS, 0);
  order_clrs(s);
  compare(s, "30x35x15x5x10x20x25 in its best order");
  free(s);
}

static void batches(void) {
  batch(4, 200000, false);
  batch(8, 200000, false);
  batch(12, 100000, false);
  batch(16, 10000, false);
  batch(16, 100000, false);
  batch(32, 10000, false);
  batch(64, 10000, false);
  batch(20, 10000, false);
  batch(48, 10000, false);
  batch(100, 1000, false);
  batch(128, 1000, false);
}

static void long_chain(int64_t side, const char *name, const int *counts) {
  setting *s = begin_chain(FACTORS_MOST, 1, NULL, side);
  if (counts == NULL)
    balanced_level(s);
  else
    levels(s, counts);
  measure(s, name, false);
  free(s);
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: bench_small MODULE [chains | kernels | joules]\n");
    return 2;
  }
  open_all(argv[1]);
  *(void **)&multiply = find(cublas_library, "cublasSgemmStridedBatched");
  measure_copies();
  if (argc > 2 && strcmp(argv[2], "joules") == 0) {
    open_nvml();
    batch(32, 10000, true);
    return 0;
  }
  if (argc > 2 && strcmp(argv[2], "kernels") == 0) {
    kernels();
    return 0;
  }
  /* What a plan for time takes on 132 multiprocessors, and others. */
  static const int PLANNED[] = {125, 32, 8, 2, 1}, FEW[] = {132, 33, 5, 1},
                   MANY[] = {264, 33, 8, 1};
  alone();
  if (argc < 3) batches();
  long_chain(64, "1000 of 64x64 in 125, 32, 8, 2", PLANNED);
  long_chain(64, "1000 of 64x64 in 132, 33, 5", FEW);
  long_chain(64, "1000 of 64x64 in 264, 33, 8", MANY);
  long_chain(64, "1000 of 64x64 balanced", NULL);
  long_chain(32, "1000 of 32x32 in 125, 32, 8, 2", PLANNED);
  long_chain(32, "1000 of 32x32 in 132, 33, 5", FEW);
  long_chain(128, "1000 of 128x128 in 125, 32, 8, 2", PLANNED);
  return 0;
}

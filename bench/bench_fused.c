/* bench_fused.c: pairs of products in bf16 as one kernel on a CUDA device, against cuBLAS's two
 * calls, one JSON line each.
 *
 *     bench_fused MODULE [joules] [MxKxWxN[:right]]...
 *
 * MODULE is mmchain-cuda.so. Everything lies on the device, normal random bf16, (A B) C and A (B C)
 * for tall A and wide C, or the chains that are named, of (A B) C or, as M x K x W x N too, of
 * A (B C); both sides are captured into a graph once and replayed in turns. us and
 * peer_us are [least, median, greatest] of RUNS runs; floor_us is what reading the factors and
 * writing the result once takes at the rate of cudaMemcpyAsync in the same run, or the
 * multiplications at 700 TFLOP/s where that is longer. joules are NVML's counter over some two
 * seconds. Results are checked against each other. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascending.h"
#include "base/half.h"
#include "base/monotonic.h"
#include "device/device.h"
#include "on_device.h"

enum { RUNS = 11, PATTERN = 1 << 20 };
static const double FLOPS = 700e12, JOULES_S = 2, MOST_OFF = 0.02;

static double copy_rate; /* bytes read and written a second */

static __typeof__(&cublasGemmEx) multiply;

static void open_cublas(void) {
  const size_t workspace_bytes = (size_t)64 << 20;
  void *workspace;
  __typeof__(&cublasSetWorkspace_v2) set_workspace;
  *(void **)&set_workspace = find(cublas_library, "cublasSetWorkspace_v2");
  *(void **)&multiply = find(cublas_library, "cublasGemmEx");
  try(cudaMalloc(&workspace, workspace_bytes), "memory");
  if (set_workspace(cublas, workspace, workspace_bytes) != 0) stop("cuBLAS", "no workspace");
}

/* ---- a pair ---------------------------------------------------------------------------------- */

typedef struct pair {
  int64_t dims[4]; /* A dims[0] x dims[1], B, C ... x dims[3] */
  bool right;      /* A (B C) */
  mmci_form forms[3];
  mmci_group_product products[2];
  uint16_t *at[3], *t, *out, *peer_out; /* the factors, the peer's intermediate, both results */
  mmci_group_kernel *kernel;
} pair;

static mmci_group group_of(const pair *p) {
  enum { VARIANT_FUSED = 3 };
  return (mmci_group){.dtype = MMC_BF16,
                      .batch = 1,
                      .n = 3,
                      .count = 2,
                      .forms = p->forms,
                      .products = p->products,
                      .ldc = p->dims[3],
                      .c_stride = p->dims[0] * p->dims[3],
                      .variant = VARIANT_FUSED};
}

/* Returns normal numbers on the device, from a pattern, since all of them would take long. */
static uint16_t *take_normal(int64_t count, double scale, uint64_t *state) {
  static uint16_t pattern[PATTERN];
  uint16_t *to;
  for (int i = 0; i < PATTERN; i++) pattern[i] = mmci_bf16_round((float)(normal(state) * scale));
  try(cudaMalloc((void **)&to, (size_t)count * sizeof *to), "memory");
  for (int64_t at = 0; at < count; at += PATTERN)
    try(cudaMemcpy(to + at, pattern,
                   (size_t)(count - at < PATTERN ? count - at : PATTERN) * sizeof *to,
                   cudaMemcpyHostToDevice),
        "memory");
  return to;
}

static uint16_t *take_halves(int64_t count) {
  uint16_t *to;
  try(cudaMalloc((void **)&to, (size_t)count * sizeof *to), "memory");
  try(cudaMemset(to, 0xff, (size_t)count * sizeof *to), "memory");
  return to;
}

static void fill(pair *p) {
  mmci_error error = {0};
  uint64_t state = 7;
  const int64_t *d = p->dims, inner = p->right ? d[1] * d[3] : d[0] * d[2];
  for (int i = 0; i < 3; i++) {
    p->forms[i] = (mmci_form){.ld = d[i + 1]};
    p->at[i] = take_normal(d[i] * d[i + 1], 1 / sqrt((double)d[i]), &state);
  }
  const int first = p->right ? 1 : 0;
  p->products[0] = (mmci_group_product){d[first], d[first + 1], d[first + 2], first, first + 1};
  p->products[1] = p->right ? (mmci_group_product){d[0], d[1], d[3], 0, 3}
                            : (mmci_group_product){d[0], d[2], d[3], 3, 2};
  p->t = take_halves(inner);
  p->out = take_halves(d[0] * d[3]);
  p->peer_out = take_halves(d[0] * d[3]);
  const mmci_group group = group_of(p);
  printf("\"kernel\": \"%s\", ", ops->group_name(device, &group));
  check(ops->group_prepare(device, &group, &p->kernel, &error), &error);
}

static void empty(pair *p) {
  ops->group_release(p->kernel);
  uint16_t *const all[] = {p->at[0], p->at[1], p->at[2], p->t, p->out, p->peer_out};
  for (int i = 0; i < 6; i++) try(cudaFree(all[i]), "memory");
}

static void ours(void *what) {
  pair *p = what;
  mmci_error error = {0};
  const void *operands[] = {p->at[0], p->at[1], p->at[2]};
  check(ops->group_enqueue(queue, p->kernel, operands, p->out, &error), &error);
}

/* Row-major products are the transposed ones of the transposed operands in cuBLAS's words. */
static void peer_product(const mmci_group_product *x, const uint16_t *a, const uint16_t *b,
                         uint16_t *c) {
  const float one = 1, zero = 0;
  const int m = (int)x->m, k = (int)x->k, n = (int)x->n;
  if (multiply(cublas, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, b, CUDA_R_16BF, n, a, CUDA_R_16BF,
               k, &zero, c, CUDA_R_16BF, n, CUBLAS_COMPUTE_32F,
               CUBLAS_GEMM_DEFAULT) != CUBLAS_STATUS_SUCCESS)
    stop("cuBLAS", "a product");
}

static void peer(void *what) {
  pair *p = what;
  peer_product(&p->products[0], p->at[p->right ? 1 : 0], p->at[p->right ? 2 : 1], p->t);
  if (p->right)
    peer_product(&p->products[1], p->at[0], p->t, p->peer_out);
  else
    peer_product(&p->products[1], p->t, p->at[2], p->peer_out);
}

/* Returns the norm of the difference of both results, of the peer's norm. */
static double difference(const pair *p) {
  const int64_t count = p->dims[0] * p->dims[3];
  uint16_t *x = malloc((size_t)count * sizeof *x), *y = malloc((size_t)count * sizeof *y);
  double sum = 0, norm = 0;
  if (x == NULL || y == NULL) stop("memory", "none");
  try(cudaMemcpy(x, p->out, (size_t)count * sizeof *x, cudaMemcpyDeviceToHost), "memory");
  try(cudaMemcpy(y, p->peer_out, (size_t)count * sizeof *y, cudaMemcpyDeviceToHost), "memory");
  for (int64_t i = 0; i < count; i++) {
    const double mine = (double)mmci_bf16_to_f32(x[i]), theirs = (double)mmci_bf16_to_f32(y[i]);
    sum += (mine - theirs) * (mine - theirs);
    norm += theirs * theirs;
  }
  free(x);
  free(y);
  return sqrt(sum / norm);
}

/* ---- time and energy ------------------------------------------------------------------------- */

static cudaGraphExec_t captured(void (*work)(void *what), void *what) {
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  try(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  work(what);
  try(cudaStreamEndCapture(stream, &graph), "capture");
  try(cudaGraphInstantiate(&ready, graph, 0), "graph");
  try(cudaGraphDestroy(graph), "graph");
  return ready;
}

/* Returns the seconds of a replay among several in a row. */
static double seconds_of(cudaGraphExec_t graph, int replays) {
  float ms = 0;
  try(cudaGraphLaunch(graph, stream), "graph");
  try(cudaEventRecord(begin, stream), "event");
  for (int i = 0; i < replays; i++) try(cudaGraphLaunch(graph, stream), "graph");
  try(cudaEventRecord(end, stream), "event");
  try(cudaEventSynchronize(end), "work");
  try(cudaEventElapsedTime(&ms, begin, end), "event");
  return ms * 1e-3 / replays;
}

static double joules_of(cudaGraphExec_t graph, double seconds) {
  unsigned long long from = 0, to = 0;
  const int replays = (int)(JOULES_S / seconds);
  for (int i = 0; i < replays / 4; i++) try(cudaGraphLaunch(graph, stream), "graph");
  try(cudaStreamSynchronize(stream), "work");
  nvml_energy(nvml_device, &from);
  for (int i = 0; i < replays; i++) try(cudaGraphLaunch(graph, stream), "graph");
  try(cudaStreamSynchronize(stream), "work");
  nvml_energy(nvml_device, &to);
  return (double)(to - from) * 1e-3 / replays;
}

static void measure_copies(void) {
  const size_t bytes = (size_t)1 << 30;
  char *memory;
  double best = 1;
  try(cudaMalloc((void **)&memory, 2 * bytes), "memory");
  try(cudaMemset(memory, 1, 2 * bytes), "memory");
  for (int r = 0; r < RUNS; r++) {
    const double from = mmci_now_s();
    try(cudaMemcpyAsync(memory, memory + bytes, bytes, cudaMemcpyDeviceToDevice, stream), "copy");
    try(cudaStreamSynchronize(stream), "copy");
    best = fmin(best, mmci_now_s() - from);
  }
  copy_rate = 2 * (double)bytes / best;
  try(cudaFree(memory), "memory");
}

static void put_times(const char *name, double *seconds) {
  qsort(seconds, RUNS, sizeof *seconds, mmci_ascending_doubles);
  printf("\"%s\": [%.2f, %.2f, %.2f], ", name, seconds[0] * 1e6, seconds[RUNS / 2] * 1e6,
         seconds[RUNS - 1] * 1e6);
}

static double floor_of(const pair *p) {
  const int64_t *d = p->dims;
  const double bytes = 2 * (double)(d[0] * d[1] + d[1] * d[2] + d[2] * d[3] + d[0] * d[3]);
  double flops = 0;
  for (int i = 0; i < 2; i++)
    flops += mmci_flops(MMC_BF16, p->products[i].m, p->products[i].k, p->products[i].n);
  return fmax(bytes / copy_rate, flops / FLOPS);
}

static void measure(int64_t m, int64_t k, int64_t w, int64_t n, bool right) {
  pair p = {.dims = {m, k, w, n}, .right = right};
  double seconds[2][RUNS];
  printf(
      "{\"bench\": \"fused\", \"dtype\": \"bf16\", \"chain\": \"%lldx%lldx%lldx%lld\", "
      "\"order\": \"%s\", ",
      (long long)m, (long long)k, (long long)w, (long long)n, right ? "A (B C)" : "(A B) C");
  fill(&p);
  cudaGraphExec_t graphs[] = {captured(ours, &p), captured(peer, &p)};
  const int replays = (int)fmax(3, fmin(50, 2e-3 / seconds_of(graphs[1], 3)));
  for (int r = 0; r < RUNS; r++)
    for (int g = 0; g < 2; g++) seconds[g][r] = seconds_of(graphs[g], replays);
  const double off = difference(&p), floor_s = floor_of(&p);
  put_times("us", seconds[0]);
  put_times("peer_us", seconds[1]);
  const double mine = seconds[0][RUNS / 2], theirs = seconds[1][RUNS / 2];
  if (nvml_energy != NULL) {
    const double joules = joules_of(graphs[0], mine), peer_joules = joules_of(graphs[1], theirs);
    printf("\"joules\": %.5g, \"peer_joules\": %.5g, \"joules_to_peer\": %.3f, ", joules,
           peer_joules, joules / peer_joules);
  }
  printf("\"to_peer\": %.3f, \"floor_us\": %.2f, \"share_of_floor\": %.3f, \"difference\": %.2g}\n",
         mine / theirs, floor_s * 1e6, floor_s / mine, off);
  fflush(stdout);
  for (int g = 0; g < 2; g++) try(cudaGraphExecDestroy(graphs[g]), "graph");
  empty(&p);
  if (!(off < MOST_OFF)) stop("a pair", "another result than cuBLAS's");
}

static void measure_named(const char *name) {
  long long d[4];
  char rest[8] = "";
  const int read = sscanf(name, "%lldx%lldx%lldx%lld:%7s", &d[0], &d[1], &d[2], &d[3], rest);
  const bool right = read == 5 && strcmp(rest, "right") == 0;
  if (read != 4 && !right) stop(name, "expected MxKxWxN or MxKxWxN:right");
  measure(d[0], d[1], d[2], d[3], right);
}

static void measure_all(void) {
  static const int64_t SIDES[] = {64, 128, 256, 512}, ROWS[] = {16384, 131072, 1048576};
  for (int right = 0; right < 2; right++) {
    for (int r = 0; r < 3; r++)
      for (int s = 0; s < 4; s++) {
        const int64_t m = ROWS[r], side = SIDES[s];
        if (right)
          measure(side, side, side, m, true);
        else
          measure(m, side, side, side, false);
      }
    if (right)
      measure(1024, 64, 1024, 131072, true);
    else
      measure(131072, 1024, 64, 1024, false);
  }
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: bench_fused MODULE [joules] [MxKxWxN[:right]]...\n");
    return 2;
  }
  const int first = argc > 2 && strcmp(argv[2], "joules") == 0 ? 3 : 2;
  open_all(argv[1]);
  open_cublas();
  if (first == 3) open_nvml();
  measure_copies();
  for (int i = first; i < argc; i++) measure_named(argv[i]);
  if (first == argc) measure_all();
  return 0;
}

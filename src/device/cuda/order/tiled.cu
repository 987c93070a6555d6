/* tiled.cu: the ordering problem as a table of tiles, diagonal after diagonal, on one device.
 *
 * A tile (I, J) is finished by the vertices of its middle tiles K, I < K < J, and then by those of
 * its own rows and columns (tiled_close.cuh). The middle is nearly all the work, and all of
 * it but the outermost two tiles K is known two diagonals ahead. So two streams run: one finishes
 * diagonal d - 1 while the other applies tiles I+2..J-2 to diagonal d.
 *
 * Products of tiles test bounds on groups of candidates first and compute what these leave
 * (tiled_products.cuh), so the time depends on the data; never by much on the bad side.
 *
 * The number type follows from an upper bound on every entry of the table: 32-bit integers, FP64 as
 * long as every cost is below 2^53, else 64-bit integers below 2^63, whose sums saturate where
 * candidates may be larger. Dims are divided by their
 * greatest common divisor first. The splits are found again in the table (tiled_walk.cuh). */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <type_traits>

extern "C" {
#include "base/alloc.h"
#include "base/status.h"
}
#include "device/cuda/order/cuda_order.h"
#include "device/cuda/order/tiled_close.cuh"
#include "device/cuda/order/tiled_products.cuh"
#include "device/cuda/order/tiled_table.cuh"
#include "device/cuda/order/tiled_walk.cuh"

/* It is included after launch.cuh, which may stand in for the runtime. */
#include "device/cuda/cuda_check.h"

__extension__ typedef unsigned __int128 u128;

namespace mmci_tiled {

#define TRY(step)                                        \
  do {                                                   \
    mmc_status status_of_step = (step);                  \
    if (status_of_step != MMC_OK) return status_of_step; \
  } while (0)

enum {
  LEAD = 4,        /* diagonals that may be under way */
  TEST_SHARE = 2,  /* pairs of tiles that a warp tests at least */
  TEST_ROUNDS = 4, /* blocks that test, for each that fits at a time, at most */
  WALK_BLOCKS_PER_MULTIPROCESSOR = 8
};

/* ---- what the chain allows ------------------------------------------------------------------ */

static const u128 TOO_LARGE = ~(u128)0;

static u128 add(u128 a, u128 b) {
  return a + b < a ? TOO_LARGE : a + b;
}

static u128 saturating_product(u128 a, u128 b) {
  u128 product;
  return __builtin_mul_overflow(a, b, &product) ? TOO_LARGE : product;
}

/* The chain with its dims divided by their greatest common divisor. */
struct Reduced {
  int32_t n;
  uint64_t *dims;   /* n+1 dims */
  uint64_t divisor; /* 1 when all dims are 0 */
  uint64_t least, most;
  u128 sides;         /* the sum of all p[i] p[i+1] */
  u128 entry_max;     /* an upper bound of all entries of the table */
  u128 candidate_max; /* an upper bound of all candidates */
};

/* No entry costs more than the fan at its least vertex v: p[v] times the sum of p[i] p[i+1] over
 * the sides i, i+1 that do not touch v, and of the product of the ends. Both are at most those of
 * the longest sub-chain in which v is least, the ends taken as its greatest dims left and right of
 * v. A stack of vertices with ascending dims finds these sub-chains in O(n). */
struct Least {
  int32_t vertex, first;          /* least in first..; vertices first..vertex-1 have been dropped */
  uint64_t most_left, most_right; /* the greatest dims of first..vertex-1, and since vertex */
};

static u128 bound_fan(const Reduced *chain, const u128 *sides, const Least *at, int32_t end) {
  const uint64_t *p = chain->dims;
  const int32_t v = at->vertex;
  u128 sum = sides[end] == TOO_LARGE ? TOO_LARGE : sides[end] - sides[at->first];
  if (sum != TOO_LARGE) {
    if (v > at->first) sum -= (u128)p[v - 1] * p[v];
    if (v < end) sum -= (u128)p[v] * p[v + 1];
  }
  return saturating_product(p[v], add(sum, (u128)at->most_left * at->most_right));
}

static mmc_status bound_entries(Reduced *chain, mmci_error *error) {
  const int32_t n = chain->n;
  const uint64_t *p = chain->dims;
  u128 *sides = (u128 *)mmci_alloc_array((size_t)n + 1, sizeof *sides); /* sums before an index */
  Least *stack = (Least *)mmci_alloc_array((size_t)n + 1, sizeof *stack);
  if (sides == NULL || stack == NULL) {
    free(sides);
    free(stack);
    return mmci_fail_nomem(error, ((uint64_t)n + 1) * (sizeof *sides + sizeof *stack));
  }
  sides[0] = 0;
  for (int32_t i = 0; i < n; i++) sides[i + 1] = add(sides[i], (u128)p[i] * p[i + 1]);
  u128 largest = 0;
  int32_t depth = 0;
  for (int32_t i = 0; i <= n + 1; i++) {
    Least here = {i, i, 0, 0};
    while (depth > 0 && (i == n + 1 || p[stack[depth - 1].vertex] >= p[i])) {
      const Least *top = &stack[--depth];
      const u128 fan = bound_fan(chain, sides, top, i - 1);
      if (fan > largest) largest = fan;
      /* What lies around a dropped vertex, and the vertex, lie right of the one below and left of
       * i. */
      uint64_t most = p[top->vertex];
      if (top->most_left > most) most = top->most_left;
      if (top->most_right > most) most = top->most_right;
      if (depth > 0 && most > stack[depth - 1].most_right) stack[depth - 1].most_right = most;
      if (most > here.most_left) here.most_left = most;
      here.first = top->first;
    }
    if (i == n + 1) break;
    if (depth > 0 && p[i] > stack[depth - 1].most_right) stack[depth - 1].most_right = p[i];
    stack[depth++] = here;
  }
  chain->sides = sides[n];
  free(sides);
  free(stack);
  uint64_t top[3] = {0, 0, 0};
  for (int32_t i = 0; i <= n; i++) {
    uint64_t dim = p[i];
    for (int t = 0; t < 3; t++)
      if (dim > top[t]) {
        uint64_t smaller = top[t];
        top[t] = dim;
        dim = smaller;
      }
  }
  chain->entry_max = largest;
  chain->candidate_max =
      add(add(largest, largest), saturating_product((u128)top[0] * top[1], top[2]));
  return MMC_OK;
}

static mmc_status reduce_chain(const mmci_device_order *order, Reduced *chain, mmci_error *error) {
  chain->n = order->n;
  chain->dims = (uint64_t *)mmci_alloc_array((size_t)order->n + 1, sizeof *chain->dims);
  if (chain->dims == NULL)
    return mmci_fail_nomem(error, ((uint64_t)order->n + 1) * sizeof *chain->dims);
  uint64_t divisor = 0;
  for (int32_t i = 0; i <= order->n; i++) {
    uint64_t a = (uint64_t)order->dims[i];
    while (a != 0) {
      uint64_t rest = divisor % a;
      divisor = a;
      a = rest;
    }
  }
  chain->divisor = divisor != 0 ? divisor : 1;
  chain->least = UINT64_MAX;
  chain->most = 0;
  for (int32_t i = 0; i <= order->n; i++) {
    chain->dims[i] = (uint64_t)order->dims[i] / chain->divisor;
    if (chain->dims[i] < chain->least) chain->least = chain->dims[i];
    if (chain->dims[i] > chain->most) chain->most = chain->dims[i];
  }
  return bound_entries(chain, error);
}

/* ---- memory --------------------------------------------------------------------------------- */

/* All that a solve holds; release_solver() releases whatever of it was taken. */
template <class Number>
struct Solver {
  typedef typename Number::Value Value;
  const Reduced *chain;
  mmci_device_order *order;
  int tiles, levels, multiprocessors, test_blocks, compute_blocks;
  Table<Number> table; /* the table, whose pointers lead into memory */
  Walk walk;
  char *memory; /* the solver's one allocation on the device */
  cudaStream_t closing, middle;
  cudaEvent_t started, finished;
  cudaEvent_t closed[LEAD], applied[LEAD]; /* events of diagonal d, at d % LEAD */
  double next_progress;
};

static double now_s() {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Takes count objects of T from the layout that begins at *used bytes. */
template <typename T>
static T *place_array(char *memory, uint64_t *used, uint64_t count) {
  uint64_t start = (*used + 255) / 256 * 256;
  *used = start + count * sizeof(T);
  return memory != nullptr ? (T *)(memory + start) : nullptr;
}

/* Lays the table out from memory on and returns the bytes it takes. The host's data come first, in
 * one piece of *upload bytes. */
template <class Number>
static uint64_t lay_out_tables(Solver<Number> *s, char *memory, uint64_t *upload) {
  typedef typename Number::Value Value;
  const uint64_t vertices = (uint64_t)s->tiles * TILE;
  const uint64_t count = (uint64_t)s->tiles * ((uint64_t)s->tiles + 1) / 2;
  const uint64_t products = s->chain->n > 1 ? (uint64_t)s->chain->n - 1 : 1;
  uint64_t used = 0;
  s->table.tiles = s->tiles;
  s->table.dim = place_array<Value>(memory, &used, vertices);
  s->table.base = place_array<Value>(memory, &used, vertices);
  s->table.dim_low = place_array<float>(memory, &used, vertices);
  s->table.dim_tile = place_array<float>(memory, &used, vertices / TILE);
  s->table.dim_group = place_array<float>(memory, &used, vertices / GROUP);
  s->table.least_dim = place_array<int>(memory, &used, vertices * (uint64_t)s->levels);
  s->table.undecided_count = place_array<unsigned>(memory, &used, (uint64_t)s->tiles);
  s->walk.products = (int)products;
  s->walk.counters = place_array<int>(memory, &used, COUNTERS);
  s->walk.ready = place_array<int>(memory, &used, products);
  *upload = used;
  s->walk.nodes = place_array<int4>(memory, &used, products);
  s->walk.splits = place_array<int>(memory, &used, products);
  s->table.cost = place_array<Value>(memory, &used, count * TILE_ENTRIES);
  s->table.bound = place_array<float>(memory, &used, count * 2 * TILE_BOUNDS);
  s->table.limit = place_array<float>(memory, &used, (uint64_t)s->tiles * TILE_ENTRIES);
  /* At most (tiles - d) (d - 3) products of 2 * GROUPS items are on a diagonal, which is at most
   * tiles^2 / 4. */
  s->table.undecided = place_array<Undecided>(
      memory, &used, (uint64_t)s->tiles * (uint64_t)s->tiles * (2 * GROUPS / 4));
  return used;
}

static float round_down(uint64_t value) {
  float rounded = (float)value;
  if (rounded >= 0x1p64f || (uint64_t)rounded > value) rounded = nextafterf(rounded, 0);
  return rounded;
}

/* Writes the upload: s->table and s->walk point into host memory. The vertices past the chain's end
 * have dim 0. */
template <class Number>
static void fill_upload(const Solver<Number> *s) {
  typedef typename Number::Value Value;
  const Table<Number> &t = s->table;
  const Reduced *chain = s->chain;
  const int vertices = s->tiles * TILE, n = chain->n;
  Value *dim = const_cast<Value *>(t.dim), *base = const_cast<Value *>(t.base);
  float *dim_low = const_cast<float *>(t.dim_low), *group = const_cast<float *>(t.dim_group);
  float *tile = const_cast<float *>(t.dim_tile);
  int *least_dim = const_cast<int *>(t.least_dim);
  /* Any factor will do for W; it must keep W below the limit. */
  uint64_t sum = 0, factor = chain->least;
  while (factor != 0 && saturating_product(factor, chain->sides) >= Number::LIMIT) factor /= 2;
  for (int i = 0; i < vertices; i++) {
    uint64_t p = i <= n ? chain->dims[i] : 0;
    if (i > 0 && i <= n) sum += factor * chain->dims[i - 1] * p;
    dim[i] = (Value)p;
    base[i] = (Value)sum;
    dim_low[i] = round_down(p);
    group[i / GROUP] = i % GROUP == 0 ? dim_low[i] : fminf(group[i / GROUP], dim_low[i]);
    tile[i / TILE] = i % TILE == 0 ? dim_low[i] : fminf(tile[i / TILE], dim_low[i]);
    least_dim[i] = i;
  }
  for (int level = 1; level < s->levels; level++) {
    int *row = least_dim + (size_t)level * (size_t)vertices, *half = row - vertices;
    for (int i = 0; i < vertices; i++) {
      const int other = i + (1 << (level - 1));
      const int right = other < vertices ? half[other] : half[i];
      row[i] = dim[right] < dim[half[i]] ? right : half[i];
    }
  }
  memset(t.undecided_count, 0, sizeof(unsigned) * (size_t)s->tiles);
  memset(s->walk.ready, 0, sizeof(int) * (size_t)s->walk.products);
  memset(s->walk.counters, 0, sizeof(int) * COUNTERS);
}

/* Takes the device's memory and starts the copy of the chain on stream closing. *staging is to be
 * released when that stream has got there. */
template <class Number>
static mmc_status take_memory(Solver<Number> *s, char **staging, mmci_error *error) {
  size_t free_bytes, total_bytes;
  uint64_t upload, needed = lay_out_tables(s, (char *)NULL, &upload);
  MMCI_CUDA_TRY(cudaMemGetInfo(&free_bytes, &total_bytes));
  if (needed > free_bytes)
    return mmci_fail(error, MMC_E_NOMEM,
                     "the table of %d factors needs %.1f GB of device memory, %.1f GB are free",
                     (int)s->chain->n, (double)needed * 1e-9, (double)free_bytes * 1e-9);
  MMCI_CUDA_TRY(cudaMalloc(&s->memory, needed));
  *staging = (char *)mmci_alloc_array(upload, 1);
  if (*staging == NULL) return mmci_fail_nomem(error, upload);
  lay_out_tables(s, *staging, &upload);
  fill_upload(s);
  lay_out_tables(s, s->memory, &upload);
  MMCI_CUDA_TRY(cudaMemcpyAsync(s->memory, *staging, upload, cudaMemcpyHostToDevice, s->closing));
  MMCI_CUDA_TRY(cudaStreamSynchronize(s->closing));
  return MMC_OK;
}

template <class Number>
static mmc_status open_solver(Solver<Number> *s, mmci_error *error) {
  int least_priority, greatest_priority, device;
  MMCI_CUDA_TRY(cudaGetDevice(&device));
  MMCI_CUDA_TRY(
      cudaDeviceGetAttribute(&s->multiprocessors, cudaDevAttrMultiProcessorCount, device));
  MMCI_CUDA_TRY(cudaDeviceGetStreamPriorityRange(&least_priority, &greatest_priority));
  MMCI_CUDA_TRY(
      cudaStreamCreateWithPriority(&s->closing, cudaStreamNonBlocking, greatest_priority));
  MMCI_CUDA_TRY(cudaStreamCreateWithPriority(&s->middle, cudaStreamNonBlocking, least_priority));
  MMCI_CUDA_TRY(cudaEventCreate(&s->started));
  MMCI_CUDA_TRY(cudaEventCreate(&s->finished));
  for (int i = 0; i < LEAD; i++) {
    MMCI_CUDA_TRY(cudaEventCreateWithFlags(&s->closed[i], cudaEventDisableTiming));
    MMCI_CUDA_TRY(cudaEventCreateWithFlags(&s->applied[i], cudaEventDisableTiming));
  }
  MMCI_CUDA_TRY(cudaFuncSetAttribute(close_tiles<Number>,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     (int)sizeof(CloseMemory<Number>)));
  MMCI_CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&s->test_blocks, test_tiles<Number>,
                                                              TEST_THREADS, 0));
  MMCI_CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &s->compute_blocks, compute_undecided<Number>, COMPUTE_THREADS, 0));
  char *staging = NULL;
  mmc_status status = take_memory(s, &staging, error);
  free(staging);
  return status;
}

/* Work that is under way uses the memory, so it is waited for. */
template <class Number>
static void release_solver(Solver<Number> *s) {
  if (s->closing != NULL) cudaStreamSynchronize(s->closing);
  if (s->middle != NULL) cudaStreamSynchronize(s->middle);
  for (int i = 0; i < LEAD; i++) {
    if (s->closed[i] != NULL) cudaEventDestroy(s->closed[i]);
    if (s->applied[i] != NULL) cudaEventDestroy(s->applied[i]);
  }
  if (s->started != NULL) cudaEventDestroy(s->started);
  if (s->finished != NULL) cudaEventDestroy(s->finished);
  if (s->closing != NULL) cudaStreamDestroy(s->closing);
  if (s->middle != NULL) cudaStreamDestroy(s->middle);
  if (s->memory != NULL) cudaFree(s->memory);
}

/* ---- the table ------------------------------------------------------------------------------ */

/* Tells the caller how far the work is, several times a second. */
template <class Number>
static mmc_status report_progress(Solver<Number> *s, double done, mmci_error *error) {
  if (s->order->progress == NULL || now_s() < s->next_progress) return MMC_OK;
  s->next_progress = now_s() + 0.1;
  if (s->order->progress(s->order->progress_user, done) != 0)
    return mmci_fail(error, MMC_E_INTERRUPTED, "stopped by the progress callback");
  return MMC_OK;
}

/* Waits for the event, and informs the caller. */
template <class Number>
static mmc_status wait_for(Solver<Number> *s, cudaEvent_t event, double done, mmci_error *error) {
  const double start = now_s();
  for (;;) {
    cudaError_t code = cudaEventQuery(event);
    if (code == cudaSuccess) return report_progress(s, done, error);
    if (code != cudaErrorNotReady) return mmci_cuda_check(code, "solving on the device", error);
    TRY(report_progress(s, done, error));
    if (now_s() - start < 0.002) continue;
    struct timespec pause = {0, 50000};
    nanosleep(&pause, NULL);
  }
}

static unsigned clamp_blocks(long long wanted, long long most) {
  return (unsigned)(wanted < 1 ? 1 : wanted < most ? wanted : most);
}

/* Applies tiles I+2..J-2 to diagonal d; they are known once diagonal d - 2 is finished. */
template <class Number>
static mmc_status enqueue_middle(Solver<Number> *s, int d, mmci_error *error) {
  const int count = s->tiles - d;
  const long long products = (long long)count * (d - 3), places = s->multiprocessors;
  const unsigned test_blocks = clamp_blocks(products / TEST_SHARE / (TEST_THREADS / WARP),
                                            TEST_ROUNDS * places * s->test_blocks);
  const unsigned compute_blocks = clamp_blocks(products * 2 * GROUPS, places * s->compute_blocks);
  MMCI_CUDA_TRY(cudaStreamWaitEvent(s->middle, s->closed[(d - 2) % LEAD], 0));
  MMCI_CUDA_TRY(mmci_launch(seed_tiles<Number>, count * SEED_PARTS, SEED_THREADS, 0, s->middle,
                            s->table, d, 2));
  MMCI_CUDA_TRY(
      mmci_launch(test_tiles<Number>, test_blocks, TEST_THREADS, 0, s->middle, s->table, d));
  MMCI_CUDA_TRY(mmci_launch(compute_undecided<Number>, compute_blocks, COMPUTE_THREADS, 0,
                            s->middle, s->table, d));
  MMCI_CUDA_TRY(cudaEventRecord(s->applied[d % LEAD], s->middle));
  MMCI_CUDA_TRY(cudaStreamWaitEvent(s->closing, s->applied[d % LEAD], 0));
  return MMC_OK;
}

/* Finishes diagonal d: the outer tiles and the tiles' own vertices. */
template <class Number>
static mmc_status enqueue_end(Solver<Number> *s, int d, mmci_error *error) {
  const int count = s->tiles - d;
  if (d == 2 || d == 3)
    MMCI_CUDA_TRY(mmci_launch(seed_tiles<Number>, count * SEED_PARTS, SEED_THREADS, 0, s->closing,
                              s->table, d, 1));
  if (d >= 2)
    MMCI_CUDA_TRY(mmci_launch(outer_tiles<Number>, count * (d == 2 ? 1 : 2) * 2 * GROUPS,
                              COMPUTE_THREADS, 0, s->closing, s->table, d));
  MMCI_CUDA_TRY(mmci_launch(close_tiles<Number>, count, CLOSE_THREADS, sizeof(CloseMemory<Number>),
                            s->closing, s->table, d));
  MMCI_CUDA_TRY(cudaEventRecord(s->closed[d % LEAD], s->closing));
  return MMC_OK;
}

template <class Number>
static mmc_status fill_table(Solver<Number> *s, mmci_error *error) {
  typedef typename Number::Value Value;
  const int tiles = s->tiles;
  const double work_total = (double)tiles * tiles * tiles / 6 + tiles;
  double work = 0;
  MMCI_CUDA_TRY(cudaEventRecord(s->started, s->closing));
  MMCI_CUDA_TRY(mmci_launch(first_tiles<Number>, tiles, FIRST_THREADS,
                            (TILE * (TILE + 1) + TILE) * sizeof(Value), s->closing, s->table));
  MMCI_CUDA_TRY(cudaEventRecord(s->closed[0], s->closing));
  for (int d = 1; d < tiles; d++) {
    if (d >= LEAD) {
      /* Waits for diagonal d - LEAD. */
      TRY(wait_for(s, s->closed[d % LEAD], work / work_total, error));
      work += (double)(tiles - d + LEAD) * (d - LEAD + 1);
    }
    if (d >= 4) TRY(enqueue_middle(s, d, error));
    TRY(enqueue_end(s, d, error));
  }
  MMCI_CUDA_TRY(cudaEventRecord(s->finished, s->closing));
  TRY(wait_for(s, s->finished, work / work_total, error));
  float milliseconds;
  MMCI_CUDA_TRY(cudaEventElapsedTime(&milliseconds, s->started, s->finished));
  s->order->seconds = 1e-3 * (double)milliseconds;
  return MMC_OK;
}

/* ---- the answers ---------------------------------------------------------------------------- */

/* Turns a cost of the reduced chain into one of the chain; all ones when it does not fit. */
template <typename Value>
static mmc_count count_of(Value cost, uint64_t divisor) {
  u128 value = (u128)cost;
  for (int i = 0; i < 3 && divisor != 1; i++) value = saturating_product(value, divisor);
  mmc_count count = {(uint64_t)value, (uint64_t)(value >> 64)};
  return count;
}

template <class Number>
static mmc_status find_tree(Solver<Number> *s, mmci_error *error) {
  const int n = s->chain->n;
  if (n < 2) return MMC_OK;
  const int4 root = {0, n, 0, 0};
  const int one = 1;
  MMCI_CUDA_TRY(
      cudaMemcpyAsync(s->walk.nodes, &root, sizeof root, cudaMemcpyHostToDevice, s->closing));
  MMCI_CUDA_TRY(
      cudaMemcpyAsync(s->walk.ready, &one, sizeof one, cudaMemcpyHostToDevice, s->closing));
  MMCI_CUDA_TRY(cudaMemcpyAsync(&s->walk.counters[WRITTEN], &one, sizeof one,
                                cudaMemcpyHostToDevice, s->closing));
  const unsigned blocks =
      clamp_blocks(n / 4, (long long)s->multiprocessors * WALK_BLOCKS_PER_MULTIPROCESSOR);
  MMCI_CUDA_TRY(
      mmci_launch(find_splits<Number>, blocks, WALK_THREADS, 0, s->closing, s->table, s->walk));
  MMCI_CUDA_TRY(cudaEventRecord(s->closed[0], s->closing));
  TRY(wait_for(s, s->closed[0], 1, error));
  int counters[COUNTERS];
  MMCI_CUDA_TRY(cudaMemcpy(counters, s->walk.counters, sizeof counters, cudaMemcpyDeviceToHost));
  if (counters[FAILED] != 0 || counters[FOUND] != n - 1)
    return mmci_fail(error, MMC_E_DEVICE, "the table on the device contradicts itself");
  MMCI_CUDA_TRY(cudaMemcpy(s->order->splits, s->walk.splits, sizeof(int32_t) * (size_t)(n - 1),
                           cudaMemcpyDeviceToHost));
  return MMC_OK;
}

/* Copies columns of tiles to the host one after the other. */
template <class Number>
static mmc_status copy_table(Solver<Number> *s, mmci_error *error) {
  typedef typename Number::Value Value;
  const int64_t n = s->chain->n;
  const size_t column_bytes = sizeof(Value) * TILE_ENTRIES * (size_t)s->tiles;
  Value *column = (Value *)mmci_alloc_array(column_bytes, 1);
  if (column == NULL) return mmci_fail_nomem(error, column_bytes);
  mmc_status status = MMC_OK;
  for (int J = 0; J < s->tiles && status == MMC_OK; J++) {
    status = mmci_cuda_check(
        cudaMemcpy(column, s->table.cost + tile_index(0, J) * TILE_ENTRIES,
                   sizeof(Value) * TILE_ENTRIES * (size_t)(J + 1), cudaMemcpyDeviceToHost),
        "copying the table from the device", error);
    if (status == MMC_OK) status = report_progress(s, 1, error);
    const int64_t b_end = (J + 1) * TILE <= n ? (J + 1) * TILE : n + 1;
    for (int64_t i = 0; i < b_end && status == MMC_OK; i++) {
      const Value *row = column + i / TILE * TILE_ENTRIES + i % TILE * TILE;
      mmc_count *out = s->order->table + i * n - i * (i - 1) / 2 - i - 1;
      for (int64_t j = i + 1 > J * TILE ? i + 1 : J * TILE; j < b_end; j++)
        out[j] = count_of(row[j % TILE], s->chain->divisor);
    }
  }
  free(column);
  return status;
}

template <class Number>
static mmc_status answer_order(Solver<Number> *s, mmci_error *error) {
  typedef typename Number::Value Value;
  TRY(open_solver(s, error));
  TRY(fill_table(s, error));
  TRY(find_tree(s, error));
  const int n = s->chain->n;
  Value cost = 0;
  MMCI_CUDA_TRY(cudaMemcpy(&cost, s->table.cost + tile_index(0, n / TILE) * TILE_ENTRIES + n % TILE,
                           sizeof cost, cudaMemcpyDeviceToHost));
  s->order->multiplications = count_of(cost, s->chain->divisor);
  if (s->order->multiplications.lo == UINT64_MAX && s->order->multiplications.hi == UINT64_MAX)
    return mmci_fail(error, MMC_E_OVERFLOW, "the multiplications do not fit 128 bits");
  if (s->order->table != NULL) TRY(copy_table(s, error));
  return MMC_OK;
}

template <class Number>
static mmc_status solve_on_card(const Reduced *chain, mmci_device_order *order, mmci_error *error) {
  Solver<Number> s;
  memset((void *)&s, 0, sizeof s);
  s.chain = chain;
  s.order = order;
  s.tiles = chain->n / TILE + 1;
  for (s.levels = 1; (int64_t)1 << s.levels <= (int64_t)s.tiles * TILE; s.levels++) continue;
  mmc_status status = answer_order(&s, error);
  release_solver(&s);
  return status;
}

static mmc_status solve_reduced(const Reduced *chain, mmci_device_order *order, mmci_error *error) {
  /* Dims beside a 0 may be larger than every cost. */
  if (chain->candidate_max < NumberU32::LIMIT && chain->most < NumberU32::LIMIT) {
    order->kernel_used = "tiled u32";
    return solve_on_card<NumberU32>(chain, order, error);
  }
  if (chain->entry_max < NumberF64::LIMIT && chain->most < NumberF64::LIMIT) {
    order->kernel_used = "tiled f64";
    return solve_on_card<NumberF64>(chain, order, error);
  }
  if (chain->candidate_max < NumberU64::LIMIT && chain->most < NumberU64::DIM_LIMIT) {
    order->kernel_used = "tiled u64";
    return solve_on_card<NumberU64>(chain, order, error);
  }
  if (chain->entry_max < NumberSaturating::LIMIT) {
    order->kernel_used = "tiled u64 saturating";
    return solve_on_card<NumberSaturating>(chain, order, error);
  }
  return mmci_fail(
      error, MMC_E_UNSUPPORTED,
      "costs may exceed 2^63, which kernel tiled does not hold; solver hu-shing and the "
      "table on the cpu do");
}

}  // namespace mmci_tiled

extern "C" mmc_status mmci_cuda_order_tiled(mmci_device_order *order, mmci_error *error) {
  mmci_tiled::Reduced chain;
  mmc_status status = mmci_tiled::reduce_chain(order, &chain, error);
  if (status == MMC_OK) status = mmci_tiled::solve_reduced(&chain, order, error);
  free(chain.dims);
  return status;
}

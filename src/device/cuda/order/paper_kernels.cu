/* paper_kernels.cu: OneThreadPerOneEntry, OneBlockPerOneEntry and BlocksPerOneEntry, the
 * three kernels of Nishida, Ito and Nakano (2011), section IV.
 *
 * Layout   tables m and s by diagonals, as paper.cuh says: one launch a diagonal.
 * Cost     (n-l+1)(l-1) candidates on diagonal l, two words of m read for each; the sub-chains
 *          left of the split lie in one column of the layout, those right of it on a slant.
 * Idea     the fewer entries a diagonal has, the longer each takes: so one thread, one block or
 *          several blocks work on an entry.
 *
 * Table s keeps the first of equally cheap splits, as the paper's program does. mmchain wants
 * another of them; the walk back down the tree finds it, so that these kernels can stay what the
 * paper describes. */
#include "device/cuda/order/paper.cuh"

/* ---- candidates ---------------------------------------------------------------------------- */

static __device__ bool beats(const mmci_paper_candidate &a, const mmci_paper_candidate &b) {
  return a.q < b.q || (a.q == b.q && a.k < b.k);
}

/* Returns the cost of entry (i, i + l) when it is split after a of its factors. */
static __device__ uint64_t cost_of_split(const mmci_paper_tables &tables, int32_t l, int32_t i,
                                         int32_t a, uint64_t ends) {
  size_t n = (size_t)tables.n;
  uint64_t left = tables.m[(size_t)(a - 1) * n + (size_t)i];
  uint64_t right = tables.m[(size_t)(l - a - 1) * n + (size_t)(i + a)];
  return left + right + ends * tables.p[i + a];
}

/* Returns the best of the splits after first, first + step, ... factors of entry (i, i + l). Where
 * there are none, it costs more than all that exist. */
static __device__ mmci_paper_candidate best_split(const mmci_paper_tables &tables, int32_t l,
                                                  int32_t i, int32_t first, int32_t step) {
  uint64_t ends = tables.p[i] * tables.p[i + l];
  mmci_paper_candidate best = {UINT64_MAX, INT32_MAX};
  for (int32_t a = first; a < l; a += step) {
    uint64_t q = cost_of_split(tables, l, i, a, ends);
    if (q < best.q) {
      best.q = q;
      best.k = i + a;
    }
  }
  return best;
}

/* Returns, to all threads of a block, the best of what they found. The number of threads is a power
 * of two. */
static __device__ mmci_paper_candidate best_of_block(const mmci_paper_candidate &mine) {
  __shared__ mmci_paper_candidate found[MMCI_PAPER_THREADS_MAX];
  int32_t thread = (int32_t)threadIdx.x;
  found[thread] = mine;
  __syncthreads();
  for (int32_t half = (int32_t)blockDim.x / 2; half > 0; half /= 2) {
    if (thread < half && beats(found[thread + half], found[thread]))
      found[thread] = found[thread + half];
    __syncthreads();
  }
  return found[0];
}

static __device__ void store_entry(const mmci_paper_tables &tables, int32_t l, int32_t i,
                                   const mmci_paper_candidate &best) {
  size_t entry = (size_t)(l - 1) * (size_t)tables.n + (size_t)i;
  tables.m[entry] = best.q;
  tables.s[entry] = best.k;
}

/* ---- the kernels --------------------------------------------------------------------------- */

/* This is OneThreadPerOneEntry: neighbouring threads read neighbouring words of m. */
static __global__ void order_paper_thread(mmci_paper_tables tables, int32_t l) {
  int32_t i = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
  if (i > tables.n - l) return;
  store_entry(tables, l, i, best_split(tables, l, i, 1, 1));
}

/* This is OneBlockPerOneEntry: thread t takes the splits t, t + threads, ..., whose words of m are
 * rows apart. */
static __global__ void order_paper_block(mmci_paper_tables tables, int32_t l) {
  int32_t i = (int32_t)blockIdx.x;
  mmci_paper_candidate mine =
      best_split(tables, l, i, 1 + (int32_t)threadIdx.x, (int32_t)blockDim.x);
  mmci_paper_candidate best = best_of_block(mine);
  if (threadIdx.x == 0) store_entry(tables, l, i, best);
}

/* This is the first kernel of BlocksPerOneEntry: the threads of all blocks of an entry share the
 * splits, and every block leaves the best it found. */
static __global__ void order_paper_blocks(mmci_paper_tables tables, int32_t l, int32_t blocks) {
  int32_t i = (int32_t)blockIdx.x / blocks, block = (int32_t)blockIdx.x % blocks;
  int32_t threads = (int32_t)blockDim.x;
  mmci_paper_candidate mine =
      best_split(tables, l, i, 1 + block * threads + (int32_t)threadIdx.x, blocks * threads);
  mmci_paper_candidate best = best_of_block(mine);
  if (threadIdx.x == 0) tables.found[blockIdx.x] = best;
}

/* This is the second kernel of BlocksPerOneEntry: one block takes the best of an entry, a thread
 * for each block of the first. */
static __global__ void order_paper_blocks_end(mmci_paper_tables tables, int32_t l) {
  int32_t i = (int32_t)blockIdx.x;
  mmci_paper_candidate mine = tables.found[blockIdx.x * blockDim.x + threadIdx.x];
  mmci_paper_candidate best = best_of_block(mine);
  if (threadIdx.x == 0) store_entry(tables, l, i, best);
}

static __global__ void order_paper_start(mmci_paper_tables tables) {
  int32_t i = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
  mmci_paper_candidate none = {0, i};
  if (i < tables.n) store_entry(tables, 1, i, none);
}

/* ---- the way back -------------------------------------------------------------------------- */

/* Returns which of splits k and o mmchain takes when entry (i, j) costs the same with both; a
 * negative one is no split. The lighter of two vertices is that of smaller dim, of equal dims the
 * one further left. A split lighter than both ends is taken before others, the lightest first;
 * where none is, the one furthest from the lighter end. */
static __device__ int32_t preferred(const uint64_t *p, int32_t i, int32_t j, int32_t k, int32_t o) {
  if (k < 0 || o < 0) return k < 0 ? o : k;
  int32_t end = p[j] < p[i] ? j : i;
  int32_t lightest = p[k] < p[o] || (p[k] == p[o] && k < o) ? k : o;
  if (p[lightest] < p[end] || (p[lightest] == p[end] && lightest < end)) return lightest;
  return (k > o) == (end == i) ? k : o;
}

/* Walks down by one block: products wait for the product above them, but the threads share the
 * search for ties, which begins at the first split of least cost, kept in s. */
static __global__ void order_paper_trace(mmci_paper_tables tables, int32_t *stack,
                                         int32_t *splits) {
  __shared__ int32_t found[MMCI_PAPER_TRACE_THREADS_MAX];
  const uint64_t *p = tables.p;
  int32_t thread = (int32_t)threadIdx.x, threads = (int32_t)blockDim.x;
  if (thread == 0) {
    stack[0] = 0;
    stack[1] = tables.n;
  }
  for (int32_t top = 2, done = 0; top > 0; done++) {
    __syncthreads(); /* the stack is written, found has been read */
    int32_t j = stack[--top], i = stack[--top], l = j - i;
    size_t entry = (size_t)(l - 1) * (size_t)tables.n + (size_t)i;
    uint64_t cost = tables.m[entry], ends = p[i] * p[j];
    int32_t mine = -1;
    for (int32_t a = tables.s[entry] - i + thread; a < l; a += threads)
      if (cost_of_split(tables, l, i, a, ends) == cost) mine = preferred(p, i, j, i + a, mine);
    found[thread] = mine;
    __syncthreads();
    for (int32_t half = threads / 2; half > 0; half /= 2) {
      if (thread < half) found[thread] = preferred(p, i, j, found[thread], found[thread + half]);
      __syncthreads();
    }
    int32_t k = found[0];
    if (thread == 0) splits[done] = k;
    /* The right part lies on top, to be next. Single factors are left out, so the parts that wait
     * have two factors each at least. */
    int32_t parts[2][2] = {{i, k}, {k, j}};
    for (int32_t part = 0; part < 2; part++) {
      if (parts[part][1] - parts[part][0] < 2) continue;
      if (thread == 0) {
        stack[top] = parts[part][0];
        stack[top + 1] = parts[part][1];
      }
      top += 2;
    }
  }
}

/* ---- launching ----------------------------------------------------------------------------- */

const mmci_paper_config mmci_paper_configs[MMCI_PAPER_CONFIGS] = {
    {MMCI_PAPER_THREAD, 32, 0, "thread 32"},     {MMCI_PAPER_THREAD, 64, 0, "thread 64"},
    {MMCI_PAPER_THREAD, 128, 0, "thread 128"},   {MMCI_PAPER_THREAD, 256, 0, "thread 256"},
    {MMCI_PAPER_BLOCK, 32, 0, "block 32"},       {MMCI_PAPER_BLOCK, 64, 0, "block 64"},
    {MMCI_PAPER_BLOCK, 128, 0, "block 128"},     {MMCI_PAPER_BLOCK, 256, 0, "block 256"},
    {MMCI_PAPER_BLOCKS, 32, 2, "blocks 2x32"},   {MMCI_PAPER_BLOCKS, 32, 4, "blocks 4x32"},
    {MMCI_PAPER_BLOCKS, 32, 8, "blocks 8x32"},   {MMCI_PAPER_BLOCKS, 32, 16, "blocks 16x32"},
    {MMCI_PAPER_BLOCKS, 64, 2, "blocks 2x64"},   {MMCI_PAPER_BLOCKS, 64, 4, "blocks 4x64"},
    {MMCI_PAPER_BLOCKS, 64, 8, "blocks 8x64"},   {MMCI_PAPER_BLOCKS, 64, 16, "blocks 16x64"},
    {MMCI_PAPER_BLOCKS, 128, 2, "blocks 2x128"}, {MMCI_PAPER_BLOCKS, 128, 4, "blocks 4x128"},
    {MMCI_PAPER_BLOCKS, 128, 8, "blocks 8x128"}, {MMCI_PAPER_BLOCKS, 128, 16, "blocks 16x128"},
    {MMCI_PAPER_BLOCKS, 256, 2, "blocks 2x256"}, {MMCI_PAPER_BLOCKS, 256, 4, "blocks 4x256"},
    {MMCI_PAPER_BLOCKS, 256, 8, "blocks 8x256"}, {MMCI_PAPER_BLOCKS, 256, 16, "blocks 16x256"},
};

cudaError_t mmci_paper_start(const mmci_paper_tables *tables) {
  unsigned threads = MMCI_PAPER_THREADS_MAX;
  unsigned blocks = ((unsigned)tables->n + threads - 1) / threads;
  return mmci_launch(order_paper_start, blocks, threads, 0, 0, *tables);
}

cudaError_t mmci_paper_diagonal(const mmci_paper_tables *tables, int32_t l,
                                const mmci_paper_config *config) {
  unsigned entries = (unsigned)(tables->n - l + 1);
  unsigned threads = (unsigned)config->threads, blocks = (unsigned)config->blocks;
  if (config->kernel == MMCI_PAPER_THREAD)
    return mmci_launch(order_paper_thread, (entries + threads - 1) / threads, threads, 0, 0,
                       *tables, l);
  if (config->kernel == MMCI_PAPER_BLOCK)
    return mmci_launch(order_paper_block, entries, threads, 0, 0, *tables, l);
  cudaError_t code =
      mmci_launch(order_paper_blocks, entries * blocks, threads, 0, 0, *tables, l, config->blocks);
  if (code != cudaSuccess) return code;
  return mmci_launch(order_paper_blocks_end, entries, blocks, 0, 0, *tables, l);
}

cudaError_t mmci_paper_trace(const mmci_paper_tables *tables, int32_t *stack, int32_t *splits) {
  /* With few products a large block would mostly wait for itself. */
  unsigned threads = 32;
  while (threads < MMCI_PAPER_TRACE_THREADS_MAX && 4 * threads < (unsigned)tables->n) threads *= 2;
  return mmci_launch(order_paper_trace, 1, threads, 0, 0, *tables, stack, splits);
}

/* split.cu: splits an operand into parts, bytes or FP16, and judges its rows: how badly bytes hold
 * them, and which are left to FP64.
 *
 * Rows that lie along k are read once, by a block each, which keeps them in registers. Rows that
 * lie across are read twice: for the largest elements; then 128 rows x 128 k's a block, whose parts
 * are transposed in shared memory, those read last first, as they may still be in L2. The last
 * block that is done with rows judges them. */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/emulated/emulated_kernels.h"
#include "device/cuda/emulated/left.cuh"
#include "device/cuda/emulated/parts.cuh"

enum {
  THREADS = 256,
  WARPS = THREADS / 32,
  QUAD = 4,                     /* neighbours along k */
  QUADS = MMCI_DEPTH / QUAD,    /* quads in a block of parts */
  KEPT = 8,                     /* quads of a row that a thread keeps in registers */
  ROWS = 128,                   /* rows across that a block of threads has */
  LOOK_DEPTH = 128,             /* k's of a block that looks for the largest elements */
  SPLIT_DEPTH = 2 * MMCI_DEPTH, /* k's of a block that splits */
  EACH = ROWS / MMCI_LINE_ROWS, /* rows of a thread */
  EACH_QUADS = QUADS / WARPS,   /* quads of each row that a thread has */
  AT_ONCE = EACH_QUADS * QUAD,  /* elements of a row that a thread has at a time */
};

static __device__ __forceinline__ int at_most(int64_t count, int most) {
  return count < most ? (int)count : most;
}

/* ---- parts: quads as words, and what a row's facts say
 * ------------------------------------------------------------------------------------------- */

struct Halves {
  enum { WORDS = 4, LINE_WORDS = 32 };
  static __device__ __forceinline__ mmci_scale scale(uint32_t most) {
    return mmci_parts_scale(most < 0x7f800000u ? mmci_parts_exponent(most) : 0);
  }
  static __device__ __forceinline__ void cut(const float (&x)[QUAD], mmci_scale scale,
                                             uint32_t (&words)[WORDS], mmci_row_facts &facts) {
    mmci_parts parts[QUAD];
#pragma unroll
    for (int e = 0; e < QUAD; e++) {
      const float scaled = x[e] * scale.first * scale.second;
      mmci_row_facts_add(facts, scaled);
      parts[e] = mmci_parts_of(scaled);
    }
#pragma unroll
    for (int w = 0; w < 2; w++) {
      words[w] = parts[2 * w].hi | (uint32_t)parts[2 * w + 1].hi << 16;
      words[w + 2] = parts[2 * w].lo | (uint32_t)parts[2 * w + 1].lo << 16;
    }
  }
  /* Returns a place in a block of parts. */
  static __device__ __forceinline__ int place(int row, int quad, int word) {
    return (quad / 8 * MMCI_LINE_ROWS + row) * LINE_WORDS + word / 2 * 16 + quad % 8 * 2 + word % 2;
  }
  static __device__ __forceinline__ void judge(const mmci_emulated_operand &to, int64_t r,
                                               uint32_t most, mmci_row_facts facts) {
    const int exponent = mmci_parts_judge(most, facts, to.k);
    to.row[r].exponent = exponent;
    if (exponent == MMCI_PARTS_LEFT) atomicAdd(to.left, 1);
  }
};

struct Bytes {
  enum { WORDS = MMCI_BYTES, LINE_WORDS = 16 };
  static __device__ __forceinline__ mmci_scale scale(uint32_t most) {
    return mmci_bytes_scale(most);
  }
  static __device__ __forceinline__ void cut(const float (&x)[QUAD], mmci_scale scale,
                                             uint32_t (&words)[WORDS], mmci_row_facts &facts) {
    mmci_bytes_cut(x, scale, words, facts);
  }
  static __device__ __forceinline__ int place(int row, int quad, int word) {
    return (word * MMCI_LINE_ROWS + row) * LINE_WORDS + quad;
  }
  static __device__ __forceinline__ void judge(const mmci_emulated_operand &to, int64_t r,
                                               uint32_t most, mmci_row_facts facts) {
    facts.poor -= (int)(to.blocks * MMCI_DEPTH - to.k); /* padding is small */
    to.row[r].unit = mmci_bytes_unit(most);
    atomicAdd(reinterpret_cast<unsigned long long *>(to.rough),
              (unsigned long long)mmci_bytes_roughness(most, facts, to.k));
  }
};

template <class Parts>
struct Block {
  enum { WORDS = Parts::WORDS * QUADS * MMCI_LINE_ROWS };
  /* Returns the block of a row and a k. */
  static __device__ __forceinline__ uint32_t *at(const mmci_emulated_operand &to, int64_t row,
                                                 int64_t k) {
    return to.parts + (row / MMCI_LINE_ROWS * to.blocks + k / MMCI_DEPTH) * WORDS;
  }
};

/* ---- rows along k ------------------------------------------------------------------------------
 */

static __device__ __forceinline__ mmci_row_facts sum_facts(mmci_row_facts facts) {
  __shared__ float squares[WARPS];
  __shared__ int poor[WARPS];
  for (int d = 16; d > 0; d >>= 1) {
    facts.squares += __shfl_xor_sync(~0u, facts.squares, d);
    facts.poor += __shfl_xor_sync(~0u, facts.poor, d);
  }
  if (threadIdx.x % 32 == 0) {
    squares[threadIdx.x / 32] = facts.squares;
    poor[threadIdx.x / 32] = facts.poor;
  }
  __syncthreads();
  facts = {};
  for (int w = 0; w < WARPS; w++) {
    facts.squares += squares[w];
    facts.poor += poor[w];
  }
  return facts;
}

static __device__ __forceinline__ uint32_t most_of_block(uint32_t most) {
  __shared__ uint32_t warps[WARPS];
  most = __reduce_max_sync(~0u, most);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = most;
  __syncthreads();
  for (int w = 0; w < WARPS; w++) most = max(most, warps[w]);
  return most;
}

/* Fills with zeros from `count` on. */
template <bool FOURS>
static __device__ __forceinline__ void read_quad(float (&quad)[QUAD], const float *x, int64_t k,
                                                 int64_t count) {
  if (FOURS) {
    float4 four = {};
    if (k < count) four = __ldcs(reinterpret_cast<const float4 *>(x + k));
    quad[0] = four.x;
    quad[1] = four.y;
    quad[2] = four.z;
    quad[3] = four.w;
  } else {
#pragma unroll
    for (int e = 0; e < QUAD; e++) quad[e] = k + e < count ? x[k + e] : 0;
  }
}

static __device__ __forceinline__ uint32_t most_of_quad(const float (&quad)[QUAD]) {
  return max(max(mmci_magnitude(quad[0]), mmci_magnitude(quad[1])),
             max(mmci_magnitude(quad[2]), mmci_magnitude(quad[3])));
}

template <class Parts>
static __device__ __forceinline__ void write_quad(const mmci_emulated_operand &to, int64_t row,
                                                  int64_t k, const float (&quad)[QUAD],
                                                  mmci_scale scale, mmci_row_facts &facts) {
  uint32_t words[Parts::WORDS];
  Parts::cut(quad, scale, words, facts);
  uint32_t *block = Block<Parts>::at(to, row, k);
#pragma unroll
  for (int w = 0; w < Parts::WORDS; w++)
    block[Parts::place((int)(row % MMCI_LINE_ROWS), (int)(k % MMCI_DEPTH) / QUAD, w)] = words[w];
}

/* FOURS says that ld, the address and k are multiples of four elements. */
template <class Parts, bool FOURS>
__global__ void __launch_bounds__(THREADS)
    split_along(mmci_emulated_operand to, mmci_rough rough, const float *from, int64_t ld) {
  if (mmci_bytes_are_enough(rough)) return;
  const int64_t r = blockIdx.x;
  const float *x = from + r * ld;
  const int64_t padded = to.blocks * MMCI_DEPTH, kept_k = (int64_t)KEPT * QUAD * THREADS;
  const int64_t mine = QUAD * threadIdx.x, count = r < to.rows ? to.k : 0;
  float kept[KEPT][QUAD], quad[QUAD];
  uint32_t most = 0;
#pragma unroll
  for (int q = 0; q < KEPT; q++) read_quad<FOURS>(kept[q], x, mine + q * QUAD * THREADS, count);
#pragma unroll
  for (int q = 0; q < KEPT; q++) most = max(most, most_of_quad(kept[q]));
  for (int64_t k = mine + kept_k; k < count; k += QUAD * THREADS) {
    read_quad<FOURS>(quad, x, k, count);
    most = max(most, most_of_quad(quad));
  }
  most = most_of_block(most);
  const mmci_scale scale = Parts::scale(most);
  mmci_row_facts facts = {};
#pragma unroll
  for (int q = 0; q < KEPT; q++) {
    const int64_t k = mine + q * QUAD * THREADS;
    if (k < padded) write_quad<Parts>(to, r, k, kept[q], scale, facts);
  }
  for (int64_t k = mine + kept_k; k < padded; k += QUAD * THREADS) {
    read_quad<FOURS>(quad, x, k, count);
    write_quad<Parts>(to, r, k, quad, scale, facts);
  }
  facts = sum_facts(facts);
  if (threadIdx.x == 0 && r < to.rows) Parts::judge(to, r, most, facts);
}

/* ---- rows across k -----------------------------------------------------------------------------
 */

/* Finds the largest elements. Thread x of 32 looks at rows x, x + 32, ..: neighbours read
 * neighbours whatever the address is. */
__global__ void __launch_bounds__(THREADS)
    find_most(mmci_emulated_operand to, const float *from, int64_t ld) {
  __shared__ uint32_t most[WARPS][ROWS];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t row = (int64_t)blockIdx.x * ROWS, k = (int64_t)blockIdx.y * LOOK_DEPTH;
  const int rows = at_most(to.rows - row, ROWS);
  const int depth = at_most(to.k - k, LOOK_DEPTH);
  const float *x = from + (k + warp) * ld + row + lane;
  uint32_t mine[EACH] = {};
#pragma unroll
  for (int d = 0; d < LOOK_DEPTH; d += WARPS, x += WARPS * ld)
#pragma unroll
    for (int e = 0; e < EACH; e++)
      if (warp + d < depth && lane + 32 * e < rows)
        mine[e] = max(mine[e], mmci_magnitude(x[32 * e]));
#pragma unroll
  for (int e = 0; e < EACH; e++) most[warp][lane + 32 * e] = mine[e];
  __syncthreads();
  if ((int)threadIdx.x >= rows) return;
  uint32_t all = 0;
  for (int w = 0; w < WARPS; w++) all = max(all, most[w][threadIdx.x]);
  if (all > 0) atomicMax(&to.row[row + threadIdx.x].most, all);
}

/* Reads 64 k's x 128 rows: thread (warp, lane) has rows lane, lane + 32, .., and of each quads
 * `warp`, warp + 8; depth and rows are counted from its first ones. */
static __device__ __forceinline__ void read_turn(float (&mine)[EACH][AT_ONCE], const float *x,
                                                 int64_t ld, int depth, int rows) {
#pragma unroll
  for (int d = 0; d < AT_ONCE; d++) {
    const int k = d / QUAD * QUAD * WARPS + d % QUAD;
#pragma unroll
    for (int e = 0; e < EACH; e++)
      mine[e][d] = k < depth && MMCI_LINE_ROWS * e < rows ? x[k * ld + MMCI_LINE_ROWS * e] : 0;
  }
}

/* Adds the warps' facts of each row, which have room in shared memory, to the row. */
static __device__ __forceinline__ void give_facts(const mmci_emulated_operand &to, int64_t first,
                                                  const mmci_row_facts (&mine)[EACH],
                                                  mmci_row_facts (*all)[ROWS]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int e = 0; e < EACH; e++) all[warp][lane + MMCI_LINE_ROWS * e] = mine[e];
  __syncthreads();
  if (threadIdx.x >= ROWS || first + threadIdx.x >= to.rows) return;
  mmci_row_facts facts = {};
  for (int w = 0; w < WARPS; w++) {
    facts.squares += all[w][threadIdx.x].squares;
    facts.poor += all[w][threadIdx.x].poor;
  }
  mmci_emulated_row *row = to.row + first + threadIdx.x;
  atomicAdd(&row->squares, facts.squares);
  if (facts.poor > 0) atomicAdd(&row->poor, facts.poor);
  __threadfence();
}

/* Then facts are gathered anew, should the rows be split once more. */
template <class Parts>
static __device__ __forceinline__ void judge_rows(const mmci_emulated_operand &to, int64_t first) {
  const int64_t r = first + threadIdx.x;
  if (threadIdx.x == 0) to.arrived[blockIdx.x] = 0;
  if (threadIdx.x >= ROWS || r >= to.rows) return;
  volatile mmci_emulated_row *row = to.row + r;
  Parts::judge(to, r, row->most, {row->squares, row->poor});
  row->squares = 0;
  row->poor = 0;
}

/* The next elements are loaded while the present ones are transposed. */
template <class Parts>
__global__ void __launch_bounds__(THREADS)
    split_across(mmci_emulated_operand to, mmci_rough rough, const float *from, int64_t ld) {
  enum { WORDS = Block<Parts>::WORDS, APART = WORDS + WORDS / Parts::LINE_WORDS };
  __shared__ union {
    uint32_t words[EACH][APART]; /* lines one word apart, so that warps hit all banks */
    mmci_row_facts facts[WARPS][ROWS];
  } turned;
  __shared__ bool last;
  if (mmci_bytes_are_enough(rough)) return;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t first = (int64_t)blockIdx.x * ROWS, padded = to.blocks * MMCI_DEPTH;
  const int64_t k_first = (int64_t)(gridDim.y - 1 - blockIdx.y) * SPLIT_DEPTH;
  const int64_t k_end = k_first + SPLIT_DEPTH < padded ? k_first + SPLIT_DEPTH : padded;
  const int rows = at_most(to.rows - first, ROWS);
  const int own = rows - lane;
  int depth = at_most(to.k - k_first, SPLIT_DEPTH) - QUAD * warp;
  const float *x = from + (k_first + QUAD * warp) * ld + first + lane;
  float mine[EACH][AT_ONCE];
  read_turn(mine, x, ld, depth, own);
  mmci_scale scale[EACH];
  mmci_row_facts facts[EACH] = {};
#pragma unroll
  for (int e = 0; e < EACH; e++)
    scale[e] =
        Parts::scale(MMCI_LINE_ROWS * e < own ? to.row[first + lane + MMCI_LINE_ROWS * e].most : 0);
  for (int64_t k = k_first; k < k_end; k += MMCI_DEPTH) {
#pragma unroll
    for (int e = 0; e < EACH; e++)
#pragma unroll
      for (int q = 0; q < EACH_QUADS; q++) {
        const float quad[QUAD] = {mine[e][QUAD * q], mine[e][QUAD * q + 1], mine[e][QUAD * q + 2],
                                  mine[e][QUAD * q + 3]};
        uint32_t words[Parts::WORDS];
        Parts::cut(quad, scale[e], words, facts[e]);
#pragma unroll
        for (int w = 0; w < Parts::WORDS; w++) {
          const int at = Parts::place(lane, warp + q * WARPS, w);
          turned.words[e][at + at / Parts::LINE_WORDS] = words[w];
        }
      }
    x += MMCI_DEPTH * ld;
    depth -= MMCI_DEPTH;
    if (k + MMCI_DEPTH < k_end) read_turn(mine, x, ld, depth, own);
    __syncthreads();
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      if (MMCI_LINE_ROWS * e >= rows) break;
      uint32_t *block = Block<Parts>::at(to, first + MMCI_LINE_ROWS * e, k);
#pragma unroll
      for (int w = 0; w < WORDS; w += THREADS) {
        const int at = w + (int)threadIdx.x;
        block[at] = turned.words[e][at + at / Parts::LINE_WORDS];
      }
    }
    __syncthreads();
  }
  give_facts(to, first, facts, turned.facts);
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(to.arrived + blockIdx.x, 1) == (int)gridDim.y - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  judge_rows<Parts>(to, first);
}

static int64_t blocks_of(int64_t count, int64_t each) {
  return (count + each - 1) / each;
}

template <class Parts>
static mmc_status split_operand(cudaStream_t stream, const mmci_emulated_operand &to,
                                mmci_rough rough, const float *x, int64_t ld, bool across,
                                mmci_error *error) {
  const int64_t rows = blocks_of(to.rows, MMCI_LINE_ROWS) * MMCI_LINE_ROWS;
  const dim3 block(THREADS);
  if (across) {
    dim3 splits((unsigned)blocks_of(to.rows, ROWS),
                (unsigned)blocks_of(to.blocks * MMCI_DEPTH, SPLIT_DEPTH));
    MMCI_CUDA_TRY(mmci_launch(split_across<Parts>, splits, block, 0, stream, to, rough, x, ld));
    return MMC_OK;
  }
  bool fours = ld % 4 == 0 && to.k % 4 == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0;
  MMCI_CUDA_TRY(mmci_launch(fours ? split_along<Parts, true> : split_along<Parts, false>,
                            dim3((unsigned)rows), block, 0, stream, to, rough, x, ld));
  return MMC_OK;
}

extern "C" mmc_status mmci_emulated_split(cudaStream_t stream, const mmci_emulated_product *product,
                                          const mmci_emulated_operand *operand, bool bytes,
                                          const float *x, int64_t ld, bool across,
                                          mmci_error *error) {
  const mmci_emulated_operand to = *operand;
  /* The first call to split looks for the largest elements. */
  if (across && bytes == product->bytes) {
    dim3 looks((unsigned)blocks_of(to.rows, ROWS), (unsigned)blocks_of(to.k, LOOK_DEPTH));
    MMCI_CUDA_TRY(mmci_launch(find_most, looks, dim3(THREADS), 0, stream, to, x, ld));
  }
  return bytes ? split_operand<Bytes>(stream, to, {}, x, ld, across, error)
               : split_operand<Halves>(stream, to, mmci_rough_of(product), x, ld, across, error);
}

/* faithful_split.cu: writes an operand in parts, and says which rows are left to FP64.
 *
 * Rows that lie along k are read once, by a block each, which keeps them in shared memory. Rows
 * that lie across are read twice: for the largest elements, then 32 rows x 512 k's a block, turned
 * in shared memory. The last block that is done with 32 rows judges them. */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/faithful_kernels.h"
#include "device/cuda/faithful_parts.cuh"

enum {
  THREADS = 256,
  GROUP = 8,      /* neighbours along k that a thread writes as one: 16 bytes of each part */
  KEPT = 8192,    /* elements of a row that are kept in shared memory */
  MAX_ROWS = 128, /* of a block that looks for the largest elements */
  MAX_DEPTH = 128,
  TURN_DEPTH = 64, /* k's that are turned at a time */
  SPLIT_DEPTH = 256,
};

static_assert(KEPT % GROUP == 0, "a group is kept or is not");
static_assert(TURN_DEPTH * MMCI_LINE_ROWS == THREADS * GROUP, "a thread turns one group");

/* Halves before the lines of row r. */
static __device__ __forceinline__ int64_t first_half(int64_t row, int64_t lines) {
  return (row / MMCI_LINE_ROWS * lines * MMCI_LINE_ROWS + row % MMCI_LINE_ROWS) * (2 * MMCI_LINE);
}

/* Scales and writes GROUP elements from k on, k a multiple of GROUP; row points at line 0. */
static __device__ __forceinline__ void write_group(const float (&x)[GROUP], mmci_scale scale,
                                                   uint16_t *row, int64_t k,
                                                   mmci_row_facts &facts) {
  union {
    uint16_t half[GROUP];
    uint4 whole;
  } hi, lo;
  const bool twice = scale.second != 1;
#pragma unroll
  for (int e = 0; e < GROUP; e++) {
    float scaled = x[e] * scale.first;
    if (twice) scaled *= scale.second;
    mmci_row_facts_add(facts, scaled);
    mmci_parts parts = mmci_parts_of(scaled);
    hi.half[e] = parts.hi;
    lo.half[e] = parts.lo;
  }
  uint16_t *to = row + k / MMCI_LINE * (MMCI_LINE_ROWS * 2 * MMCI_LINE) + k % MMCI_LINE;
  *reinterpret_cast<uint4 *>(to) = hi.whole;
  *reinterpret_cast<uint4 *>(to + MMCI_LINE) = lo.whole;
}

/* ---- rows along k ------------------------------------------------------------------------------
 */

static __device__ __forceinline__ mmci_row_facts sum_facts(mmci_row_facts facts) {
  __shared__ float squares[THREADS / 32];
  __shared__ int poor[THREADS / 32];
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
  for (int w = 0; w < THREADS / 32; w++) {
    facts.squares += squares[w];
    facts.poor += poor[w];
  }
  return facts;
}

static __device__ __forceinline__ uint32_t most_of_block(uint32_t most) {
  __shared__ uint32_t warps[THREADS / 32];
  most = __reduce_max_sync(~0u, most);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = most;
  __syncthreads();
  for (int w = 0; w < THREADS / 32; w++) most = max(most, warps[w]);
  return most;
}

/* FOURS: ld and the address are multiples of four elements, k too. */
template <bool FOURS>
__global__ void __launch_bounds__(THREADS)
    split_along(mmci_faithful_operand to, const float *from, int64_t ld) {
  __shared__ __align__(16) float kept[KEPT];
  const int64_t r = blockIdx.x;
  const float *x = from + r * ld;
  uint16_t *row = to.parts + first_half(r, to.lines);
  const int64_t padded = to.lines * MMCI_LINE;
  const bool inside = r < to.rows;
  const int64_t k_here = inside ? to.k : 0;
  uint32_t most = 0;
  if (FOURS) {
#pragma unroll 8
    for (int64_t k = 4 * threadIdx.x; k < k_here; k += 4 * THREADS) {
      float4 four = __ldcs(reinterpret_cast<const float4 *>(x + k));
      if (k < KEPT) *reinterpret_cast<float4 *>(kept + k) = four;
      most = max(max(most, mmci_magnitude(four.x)), mmci_magnitude(four.y));
      most = max(max(most, mmci_magnitude(four.z)), mmci_magnitude(four.w));
    }
  } else {
#pragma unroll 8
    for (int64_t k = threadIdx.x; k < k_here; k += THREADS) {
      float one = x[k];
      if (k < KEPT) kept[k] = one;
      most = max(most, mmci_magnitude(one));
    }
  }
  most = most_of_block(most); /* its barrier makes `kept` visible */
  const mmci_scale scale = mmci_parts_scale(most < 0x7f800000u ? mmci_parts_exponent(most) : 0);
  mmci_row_facts facts = {};
  for (int64_t k = GROUP * threadIdx.x; k < padded; k += GROUP * THREADS) {
    union {
      float group[GROUP];
      float4 four[GROUP / 4];
    } x8;
    if (k + GROUP <= k_here && k < KEPT) {
      x8.four[0] = reinterpret_cast<const float4 *>(kept + k)[0];
      x8.four[1] = reinterpret_cast<const float4 *>(kept + k)[1];
    } else {
#pragma unroll
      for (int e = 0; e < GROUP; e++)
        x8.group[e] = k + e >= k_here ? 0 : k < KEPT ? kept[k + e] : x[k + e];
    }
    write_group(x8.group, scale, row, k, facts);
  }
  facts = sum_facts(facts);
  if (threadIdx.x != 0 || !inside) return;
  int exponent = mmci_parts_judge(most, facts, to.k);
  to.row[r].exponent = exponent;
  if (exponent == MMCI_PARTS_LEFT) atomicAdd(to.left, 1);
}

/* ---- rows across k -----------------------------------------------------------------------------
 */

/* Thread x of 32 looks at rows x, x + 32, ..: neighbours read neighbours whatever the address. */
__global__ void __launch_bounds__(THREADS)
    find_most(mmci_faithful_operand to, const float *from, int64_t ld) {
  enum { EACH = MAX_ROWS / 32, LANES = THREADS / 32 };
  __shared__ uint32_t most[LANES][MAX_ROWS];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t row = (int64_t)blockIdx.x * MAX_ROWS, k = (int64_t)blockIdx.y * MAX_DEPTH;
  const int rows = (int)(to.rows - row < MAX_ROWS ? to.rows - row : MAX_ROWS);
  const int depth = (int)(to.k - k < MAX_DEPTH ? to.k - k : MAX_DEPTH);
  const float *x = from + (k + warp) * ld + row + lane;
  uint32_t mine[EACH] = {};
#pragma unroll
  for (int d = 0; d < MAX_DEPTH; d += LANES, x += LANES * ld)
#pragma unroll
    for (int e = 0; e < EACH; e++)
      if (warp + d < depth && lane + 32 * e < rows)
        mine[e] = max(mine[e], mmci_magnitude(x[32 * e]));
#pragma unroll
  for (int e = 0; e < EACH; e++) most[warp][lane + 32 * e] = mine[e];
  __syncthreads();
  if (threadIdx.x >= rows) return;
  uint32_t all = 0;
  for (int w = 0; w < LANES; w++) all = max(all, most[w][threadIdx.x]);
  if (all > 0) atomicMax(&to.row[row + threadIdx.x].most, all);
}

/* One warp: the rows' facts are complete. */
static __device__ void judge_rows(const mmci_faithful_operand &to, int64_t first) {
  const int64_t r = first + threadIdx.x;
  bool left = false;
  if (r < to.rows) {
    volatile mmci_faithful_row *row = to.row + r;
    int exponent = mmci_parts_judge(row->most, {row->squares, row->poor}, to.k);
    row->exponent = exponent;
    left = exponent == MMCI_PARTS_LEFT;
  }
  int count = __popc(__ballot_sync(~0u, left));
  if (threadIdx.x == 0 && count > 0) atomicAdd(to.left, count);
}

/* What a thread reads of 64 k's x 32 rows: row `lane` at every eighth k. */
static __device__ __forceinline__ void read_turn(float (&mine)[GROUP], const float *x, int64_t ld,
                                                 int depth, bool inside) {
#pragma unroll
  for (int e = 0; e < GROUP; e++)
    mine[e] = inside && e * (THREADS / 32) < depth ? x[e * (THREADS / 32) * ld] : 0;
}

/* The next elements are on their way while those at hand are turned. */
__global__ void __launch_bounds__(THREADS)
    split_across(mmci_faithful_operand to, const float *from, int64_t ld) {
  __shared__ float tile[TURN_DEPTH][MMCI_LINE_ROWS + 1];
  __shared__ bool last;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t first = (int64_t)blockIdx.x * MMCI_LINE_ROWS, padded = to.lines * MMCI_LINE;
  const int64_t k_first = (int64_t)blockIdx.y * SPLIT_DEPTH;
  const int64_t k_end = k_first + SPLIT_DEPTH < padded ? k_first + SPLIT_DEPTH : padded;
  const int group = threadIdx.x % (TURN_DEPTH / GROUP), line = threadIdx.x / (TURN_DEPTH / GROUP);
  const int64_t r = first + line;
  const bool inside = first + lane < to.rows;
  const float *x = from + (k_first + warp) * ld + first + lane;
  /* From this warp's first k on. */
  int depth = (int)(to.k - k_first < SPLIT_DEPTH ? to.k - k_first : SPLIT_DEPTH) - warp;
  float mine[GROUP];
  read_turn(mine, x, ld, depth, inside);
  const uint32_t most = r < to.rows ? to.row[r].most : 0;
  const mmci_scale scale = mmci_parts_scale(most < 0x7f800000u ? mmci_parts_exponent(most) : 0);
  uint16_t *row = to.parts + first_half(r, to.lines);
  mmci_row_facts facts = {};
  for (int64_t k = k_first; k < k_end; k += TURN_DEPTH) {
    __syncthreads();
#pragma unroll
    for (int e = 0; e < GROUP; e++) tile[warp + e * (THREADS / 32)][lane] = mine[e];
    __syncthreads();
    x += TURN_DEPTH * ld;
    depth -= TURN_DEPTH;
    if (k + TURN_DEPTH < k_end) read_turn(mine, x, ld, depth, inside);
    float turned[GROUP];
#pragma unroll
    for (int e = 0; e < GROUP; e++) turned[e] = tile[GROUP * group + e][line];
    write_group(turned, scale, row, k + GROUP * group, facts);
  }
  for (int d = TURN_DEPTH / GROUP / 2; d > 0; d >>= 1) {
    facts.squares += __shfl_xor_sync(~0u, facts.squares, d);
    facts.poor += __shfl_xor_sync(~0u, facts.poor, d);
  }
  if (group == 0 && r < to.rows) {
    atomicAdd(&to.row[r].squares, facts.squares);
    if (facts.poor > 0) atomicAdd(&to.row[r].poor, facts.poor);
    __threadfence();
  }
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(to.arrived + blockIdx.x, 1) == (int)gridDim.y - 1;
  __syncthreads();
  if (!last || threadIdx.x >= MMCI_LINE_ROWS) return;
  __threadfence();
  judge_rows(to, first);
}

static int64_t blocks_of(int64_t count, int64_t each) {
  return (count + each - 1) / each;
}

extern "C" mmc_status mmci_faithful_split(cudaStream_t stream, const mmci_faithful_operand *operand,
                                          const float *x, int64_t ld, bool across,
                                          mmci_error *error) {
  const mmci_faithful_operand to = *operand;
  const int64_t groups = blocks_of(to.rows, MMCI_LINE_ROWS);
  const dim3 block(THREADS);
  if (!across) {
    bool fours = ld % 4 == 0 && to.k % 4 == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0;
    MMCI_CUDA_TRY(mmci_launch(fours ? split_along<true> : split_along<false>,
                              dim3((unsigned)(groups * MMCI_LINE_ROWS)), block, 0, stream, to, x,
                              ld));
    return MMC_OK;
  }
  dim3 looks((unsigned)blocks_of(to.rows, MAX_ROWS), (unsigned)blocks_of(to.k, MAX_DEPTH));
  dim3 splits((unsigned)groups, (unsigned)blocks_of(to.lines * MMCI_LINE, SPLIT_DEPTH));
  MMCI_CUDA_TRY(mmci_launch(find_most, looks, block, 0, stream, to, x, ld));
  MMCI_CUDA_TRY(mmci_launch(split_across, splits, block, 0, stream, to, x, ld));
  return MMC_OK;
}

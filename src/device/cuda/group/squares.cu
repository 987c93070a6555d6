/* squares.cu: batches of R = A1 A2 ... An, f32, all factors s x s, from left to right: the
 * running product stays on the chip, factors arrive two products ahead.
 *
 * quad   s = 4: four lanes a chain, a row each; factors by shuffles, no shared memory
 * rows   s = 8, 12: s / HEIGHT lanes a chain, each with whole rows of the product in registers;
 *        factors in shared memory are read as broadcasts
 * tiles  s = 16, 32, 64: tiles of HEIGHT x WIDTH in registers, the product in padded shared memory;
 *        lanes lie so that i, i^1 or i, i^2 read the same 16 bytes of either operand. The
 *        product's columns lie there in swapped pairs: what is stored at once is in neighbouring
 *        registers, so sums and elements of the right operand that meet are in different banks.
 *        The first factor's are swapped as well, so that all sums run from the first k to the last
 *
 * Layout   tight row-major factors and result, 16-byte aligned; chains apart by multiples of that
 * Traffic  each factor is read once, the result is written once
 * Idea     sums are reproducible ones: chains of fused multiply-adds from the first k to the last
 */
#include "device/cuda/group/group_kernels.cuh"

#include "device/cuda/elements.cuh"

enum { WARP = 32, FOUR_CHAIN_THREADS = 256 };

static __device__ __forceinline__ float part(const float4 &x, int q) {
  return q == 0 ? x.x : q == 1 ? x.y : q == 2 ? x.z : x.w;
}

/* Return where a chain's factor and its result lie. */
static __device__ __forceinline__ const float *factor_of(const mmci_squares &e, int f,
                                                         int64_t chain) {
  return static_cast<const float *>(e.data[f]) + chain * e.stride[f];
}
static __device__ __forceinline__ float *result_of(const mmci_squares &e, int64_t chain) {
  return static_cast<float *>(e.c) + chain * e.c_stride;
}

/* Holds how many factors there are; the compiler knows it when FACTORS is not 0. */
template <int FACTORS>
static __device__ __forceinline__ int factors_of(const mmci_squares &e) {
  return FACTORS != 0 ? FACTORS : e.n;
}

/* ---- quad ------------------------------------------------------------------------------------ */

/* Multiplies the lane's row x by the 4 x 4 matrix whose rows the four lanes hold. */
static __device__ __forceinline__ float4 times_quad(const float4 &x, const float4 &row) {
  float4 y = make_float4(0, 0, 0, 0);
#pragma unroll
  for (int k = 0; k < 4; k++) {
    const float v = part(x, k);
    mmci_fuse_product(y.x, v, __shfl_sync(~0u, row.x, k, 4));
    mmci_fuse_product(y.y, v, __shfl_sync(~0u, row.y, k, 4));
    mmci_fuse_product(y.z, v, __shfl_sync(~0u, row.z, k, 4));
    mmci_fuse_product(y.w, v, __shfl_sync(~0u, row.w, k, 4));
  }
  return y;
}

template <int FACTORS>
__global__ void __launch_bounds__(FOUR_CHAIN_THREADS)
    multiply_quads(const __grid_constant__ mmci_squares e) {
  const int n = factors_of<FACTORS>(e), row = (int)(threadIdx.x % 4);
  const int64_t chain = (int64_t)blockIdx.x * (FOUR_CHAIN_THREADS / 4) + threadIdx.x / 4;
  /* All lanes of a warp take part in shuffles, those past the end with the last chain. */
  const int64_t c = chain < e.batch ? chain : e.batch - 1;
  float4 v[MMCI_SQUARES_FACTORS];
  mmci_follow_previous();
#pragma unroll
  for (int f = 0; f < MMCI_SQUARES_FACTORS; f++)
    if (f < n) v[f] = __ldg(reinterpret_cast<const float4 *>(factor_of(e, f, c)) + row);
#pragma unroll
  for (int f = 1; f < MMCI_SQUARES_FACTORS; f++)
    if (f < n) v[0] = times_quad(v[0], v[f]);
  if (chain < e.batch)
    reinterpret_cast<float4 *>(result_of(e, c))[row] = mmci_result_of(v[0], e.in_order);
}

/* ---- rows ------------------------------------------------------------------------------------ */

enum { STAGES = 3 }; /* factors that are being loaded or in use, besides the first */

template <int SIDE, int HEIGHT, int WARPS>
struct RowsShape {
  static constexpr int side = SIDE, lanes = SIDE / HEIGHT, per_warp = WARP / lanes,
                       threads = WARPS * WARP, per_block = WARPS * per_warp,
                       pitch = SIDE * SIDE + 4, words = SIDE * SIDE / 4,
                       warp_floats = (1 + STAGES) * per_warp * pitch,
                       shared_bytes = WARPS * warp_floats * 4;
};

template <int SIDE, int HEIGHT, int WARPS, int FACTORS>
__global__ void __launch_bounds__(WARPS *WARP)
    multiply_rows(const __grid_constant__ mmci_squares e) {
  typedef RowsShape<SIDE, HEIGHT, WARPS> Shape;
  constexpr int lanes = Shape::lanes, per_warp = Shape::per_warp, pitch = Shape::pitch,
                words = Shape::words;
  MMCI_DYNAMIC_SHARED(memory);
  const int lane = (int)(threadIdx.x % WARP), warp = (int)(threadIdx.x / WARP),
            n = factors_of<FACTORS>(e);
  const int64_t first = ((int64_t)blockIdx.x * WARPS + warp) * per_warp;
  const int there = e.batch - first < per_warp ? (int)(e.batch - first) : per_warp;
  float *mine = reinterpret_cast<float *>(memory) + warp * Shape::warp_floats;
  mmci_follow_previous();
  if (there <= 0) return;
  auto stage = [&](int f) { return mine + (f == 0 ? 0 : 1 + (f - 1) % STAGES) * per_warp * pitch; };
  auto load = [&](int f) {
    const float *from = factor_of(e, f, first);
#pragma unroll
    for (int w = lane; w < per_warp * words; w += WARP)
      if (w / words < there)
        mmci_copy_async_bytes<16>(stage(f) + w / words * pitch + w % words * 4,
                                  from + w / words * e.stride[f] + w % words * 4);
  };
  load(0);
#pragma unroll
  for (int f = 1; f <= STAGES; f++) {
    if (f < n) load(f);
    mmci_copy_async_commit();
  }
  const int row = lane % lanes;
  /* The chain's place in stage 0; lanes past the last chain stay within it. */
  float *chain = mine + lane / lanes * pitch;
  const bool works = lane / lanes < per_warp;
  if (!works) chain = mine;
  float x[HEIGHT][SIDE], y[HEIGHT][SIDE];
#pragma unroll(FACTORS != 0 ? FACTORS : 1)
  for (int f = 1; f < n; f++) {
    mmci_copy_async_wait<STAGES - 1>();
    __syncwarp();
    if (f == 1)
#pragma unroll
      for (int i = 0; i < HEIGHT; i++)
#pragma unroll
        for (int j = 0; j < SIDE; j += 4)
          *reinterpret_cast<float4 *>(&x[i][j]) =
              *reinterpret_cast<const float4 *>(chain + (row + i * lanes) * SIDE + j);
    const float *right = stage(f) + (chain - mine);
#pragma unroll
    for (int i = 0; i < HEIGHT; i++)
#pragma unroll
      for (int j = 0; j < SIDE; j++) y[i][j] = 0;
#pragma unroll
    for (int k = 0; k < SIDE; k++)
#pragma unroll
      for (int j = 0; j < SIDE; j += 4) {
        const float4 b = *reinterpret_cast<const float4 *>(right + k * SIDE + j);
#pragma unroll
        for (int i = 0; i < HEIGHT; i++)
#pragma unroll
          for (int q = 0; q < 4; q++) mmci_fuse_product(y[i][j + q], x[i][k], part(b, q));
      }
#pragma unroll
    for (int i = 0; i < HEIGHT; i++)
#pragma unroll
      for (int j = 0; j < SIDE; j++) x[i][j] = y[i][j];
    if (f + STAGES < n) {
      __syncwarp();
      load(f + STAGES);
    }
    mmci_copy_async_commit();
  }
  /* The result goes through shared memory, so that neighbouring lanes write neighbouring words. */
  if (works)
#pragma unroll
    for (int i = 0; i < HEIGHT; i++)
#pragma unroll
      for (int j = 0; j < SIDE; j += 4)
        *reinterpret_cast<float4 *>(chain + (row + i * lanes) * SIDE + j) =
            *reinterpret_cast<float4 *>(&x[i][j]);
  __syncwarp();
  float *to = result_of(e, first);
#pragma unroll
  for (int w = lane; w < per_warp * words; w += WARP)
    if (w / words < there)
      *reinterpret_cast<float4 *>(to + w / words * e.c_stride + w % words * 4) = mmci_result_of(
          *reinterpret_cast<const float4 *>(mine + w / words * pitch + w % words * 4), e.in_order);
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* Swaps the columns of both pairs. */
static __device__ __forceinline__ float4 swapped(const float4 &x) {
  return make_float4(x.y, x.x, x.w, x.z);
}

template <int SIDE, int HEIGHT, int WIDTH, int PER_BLOCK, int BUFFERS>
struct TilesShape {
  static constexpr int side = SIDE, down = SIDE / HEIGHT, across = SIDE / WIDTH,
                       lanes = down * across, threads = lanes * PER_BLOCK, per_block = PER_BLOCK,
                       pitch = SIDE + 4, floats = SIDE * pitch + BUFFERS * SIDE * SIDE,
                       shared_bytes = PER_BLOCK * floats * 4;
};

template <int LANES>
static __device__ __forceinline__ void chain_wait() {
  if (LANES <= WARP)
    __syncwarp();
  else
    __syncthreads();
}

template <int SIDE, int HEIGHT, int WIDTH, int PER_BLOCK, int BUFFERS, int BLOCKS, int UNROLL>
__global__ void __launch_bounds__(TilesShape<SIDE, HEIGHT, WIDTH, PER_BLOCK, BUFFERS>::threads,
                                  BLOCKS) multiply_tiles(const __grid_constant__ mmci_squares e) {
  typedef TilesShape<SIDE, HEIGHT, WIDTH, PER_BLOCK, BUFFERS> Shape;
  constexpr int lanes = Shape::lanes, pitch = Shape::pitch, down = Shape::down,
                across = Shape::across;
  MMCI_DYNAMIC_SHARED(memory);
  const int n = e.n, t = (int)(threadIdx.x % lanes), lane = t % WARP, warp = t / WARP;
  const int64_t chain = (int64_t)blockIdx.x * PER_BLOCK + (int)(threadIdx.x / lanes);
  const bool works = chain < e.batch;
  const int64_t c = works ? chain : e.batch - 1;
  const int col = warp % (across / 4) * 4 + ((lane & 1) | ((lane >> 1) & 2)),
            row = warp / (across / 4) * 8 + (((lane >> 1) & 1) | ((lane >> 2) & 6));
  float *x = reinterpret_cast<float *>(memory) + (int)(threadIdx.x / lanes) * Shape::floats;
  float *buffers = x + SIDE * pitch;
  mmci_follow_previous();
  auto place_of = [&](int w) { return x + w / (SIDE / 4) * pitch + w % (SIDE / 4) * 4; };
  auto load = [&](int f) {
    const float *from = factor_of(e, f, c);
    float *to = buffers + (f + BUFFERS - 1) % BUFFERS * (SIDE * SIDE);
#pragma unroll
    for (int w = t; w < SIDE * SIDE / 4; w += lanes)
      mmci_copy_async_bytes<16>(f == 0 ? place_of(w) : to + w * 4, from + w * 4);
  };
  load(0);
#pragma unroll
  for (int f = 1; f <= BUFFERS; f++) {
    if (f < n) load(f);
    mmci_copy_async_commit();
  }
  float sums[HEIGHT][WIDTH];
#pragma unroll 1
  for (int f = 1; f < n; f++) {
    mmci_copy_async_wait<BUFFERS - 1>();
    if (f == 1) /* a lane swaps what it has copied */
#pragma unroll
      for (int w = t; w < SIDE * SIDE / 4; w += lanes) {
        float4 *at = reinterpret_cast<float4 *>(place_of(w));
        *at = swapped(*at);
      }
    chain_wait<lanes>();
    const float *right = buffers + (f - 1) % BUFFERS * (SIDE * SIDE) + col * 4;
    const float *left = x + row * pitch;
#pragma unroll
    for (int i = 0; i < HEIGHT; i++)
#pragma unroll
      for (int j = 0; j < WIDTH; j++) sums[i][j] = 0;
#pragma unroll(UNROLL)
    for (int k = 0; k < SIDE; k += 4) {
      float4 a[HEIGHT];
#pragma unroll
      for (int i = 0; i < HEIGHT; i++)
        a[i] = *reinterpret_cast<const float4 *>(left + i * down * pitch + k);
#pragma unroll
      for (int d = 0; d < 4; d++) {
        float4 b[WIDTH / 4];
#pragma unroll
        for (int g = 0; g < WIDTH / 4; g++)
          b[g] = *reinterpret_cast<const float4 *>(right + (k + d) * SIDE + g * 4 * across);
#pragma unroll
        for (int i = 0; i < HEIGHT; i++)
#pragma unroll
          for (int at = 0; at < WIDTH; at++) {
            /* Rows go to and fro: the last column of one is the first of the next. */
            const int j = i % 2 == 0 ? at : WIDTH - 1 - at;
            mmci_fuse_product(sums[i][j], part(a[i], d ^ 1), part(b[j / 4], j % 4));
          }
      }
    }
    chain_wait<lanes>();
    if (f + BUFFERS < n) load(f + BUFFERS);
    mmci_copy_async_commit();
#pragma unroll
    for (int i = 0; i < HEIGHT; i++)
#pragma unroll
      for (int g = 0; g < WIDTH; g += 4)
        *reinterpret_cast<float4 *>(x + (row + i * down) * pitch + col * 4 + g * across) =
            swapped(make_float4(sums[i][g], sums[i][g + 1], sums[i][g + 2], sums[i][g + 3]));
  }
  chain_wait<lanes>();
  if (!works) return;
  float *to = result_of(e, c);
#pragma unroll
  for (int w = t; w < SIDE * SIDE / 4; w += lanes) {
    *reinterpret_cast<float4 *>(to + w * 4) =
        mmci_result_of(swapped(*reinterpret_cast<const float4 *>(place_of(w))), e.in_order);
  }
}

/* ---- on the host ----------------------------------------------------------------------------- */

typedef void (*kernel_fn)(mmci_squares);

typedef struct variant {
  int side;
  kernel_fn four, any; /* kernels for four factors, and for any number */
  int threads, per_block, shared_bytes;
} variant;

#define TILES(SIDE, HEIGHT, WIDTH, PER_BLOCK, BUFFERS, BLOCKS, UNROLL)             \
  {                                                                                \
    SIDE, multiply_tiles<SIDE, HEIGHT, WIDTH, PER_BLOCK, BUFFERS, BLOCKS, UNROLL>, \
        multiply_tiles<SIDE, HEIGHT, WIDTH, PER_BLOCK, BUFFERS, BLOCKS, UNROLL>,   \
        TilesShape<SIDE, HEIGHT, WIDTH, PER_BLOCK, BUFFERS>::threads, PER_BLOCK,   \
        TilesShape<SIDE, HEIGHT, WIDTH, PER_BLOCK, BUFFERS>::shared_bytes          \
  }
#define ROWS(SIDE, HEIGHT, WARPS)                                                           \
  {                                                                                         \
    SIDE, multiply_rows<SIDE, HEIGHT, WARPS, 4>, multiply_rows<SIDE, HEIGHT, WARPS, 0>,     \
        RowsShape<SIDE, HEIGHT, WARPS>::threads, RowsShape<SIDE, HEIGHT, WARPS>::per_block, \
        RowsShape<SIDE, HEIGHT, WARPS>::shared_bytes                                        \
  }

static const variant VARIANTS[] = {
    {4, multiply_quads<4>, multiply_quads<0>, FOUR_CHAIN_THREADS, FOUR_CHAIN_THREADS / 4, 0},
    ROWS(8, 2, 4),
    ROWS(12, 3, 2),
    TILES(16, 4, 4, 4, 3, 1, 4),
    TILES(32, 4, 8, 2, 2, 1, 4),
    TILES(64, 8, 4, 1, 2, 4, 16),
};

static const variant *find_variant(int64_t side) {
  for (const variant &v : VARIANTS)
    if (v.side == side) return &v;
  return nullptr;
}

extern "C" bool mmci_squares_has(int64_t side) {
  return find_variant(side) != nullptr;
}

extern "C" mmc_status mmci_squares_prepare(int64_t side, mmci_error *error) {
  const variant *v = find_variant(side);
  for (kernel_fn kernel : {v->four, v->any})
    MMCI_CUDA_TRY(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, v->shared_bytes));
  return MMC_OK;
}

extern "C" mmc_status mmci_squares_launch(cudaStream_t stream, const mmci_group_limits *limits,
                                          int64_t side, const mmci_squares *equal,
                                          mmci_error *error) {
  const variant *v = find_variant(side);
  const int64_t blocks = (equal->batch - 1) / v->per_block + 1;
  MMCI_CUDA_TRY(mmci_launch_overlapped(equal->n == 4 ? v->four : v->any, limits->overlap,
                                       dim3((unsigned)blocks), dim3((unsigned)v->threads),
                                       (size_t)v->shared_bytes, stream, *equal));
  return MMC_OK;
}

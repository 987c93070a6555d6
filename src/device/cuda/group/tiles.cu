/* tiles.cu: batches of R = A1 A2 ... An in f32 from left to right, of any shapes that fit in a
 * square: the running product stays in shared memory, and a lane keeps a tile of the next one in
 * registers while the factor after it arrives.
 *
 * Layout   any leading dimensions and strides; the running product has rows of side + 4 elements,
 *          factors of side; what a product sums over is padded with zeros to a multiple of four
 * Launch   a 1-D grid of the batch; a warp a chain, or several
 * Traffic  each factor is read once, the result is written once
 * Idea     over squares.cu: shapes need not fill the square, and sums only run as far as they must;
 *          they are reproducible ones */
#include "device/cuda/group/group_kernels.cuh"

#include "device/cuda/elements.cuh"

enum { WARP = 32 };

static __device__ __forceinline__ uint32_t quotient(uint32_t x, uint32_t magic) {
  return magic != 0 ? __umulhi(x, magic) : x;
}

static __device__ __forceinline__ float part(const float4 &x, int q) {
  return q == 0 ? x.x : q == 1 ? x.y : q == 2 ? x.z : x.w;
}

/* A lane has HEIGHT rows, DOWN apart, and WIDTH columns in pieces of PIECE, ACROSS * PIECE apart.
 */
template <int HEIGHT_, int WIDTH_, int PIECE_, int DOWN_, int ACROSS_, int PER_BLOCK_, int BUFFERS_>
struct TilesShape {
  static constexpr int HEIGHT = HEIGHT_, WIDTH = WIDTH_, PIECE = PIECE_, DOWN = DOWN_,
                       ACROSS = ACROSS_, PER_BLOCK = PER_BLOCK_, BUFFERS = BUFFERS_,
                       SIDE = HEIGHT * DOWN, LANES = DOWN * ACROSS, PITCH = SIDE + 4,
                       THREADS = LANES * PER_BLOCK, FLOATS = SIDE * PITCH + BUFFERS * SIDE * SIDE,
                       SHARED_BYTES = PER_BLOCK * FLOATS * 4;
  static_assert(WIDTH * ACROSS == SIDE && DOWN % 8 == 0 && ACROSS % 4 == 0, "a square");
};

template <int LANES>
static __device__ __forceinline__ void chain_wait() {
  if (LANES <= WARP)
    __syncwarp();
  else
    __syncthreads();
}

template <int WORD, int LANES>
static __device__ __forceinline__ void load_words(const mmci_tiles_factor &f, const float *from,
                                                  float *to, uint32_t pitch, uint32_t thread) {
  const uint32_t words = f.words, magic = f.magic, across = f.across, rows = f.rows, cols = f.cols;
  const int64_t ld = f.ld;
#pragma unroll 4
  for (uint32_t x = thread; x < words; x += LANES) {
    const uint32_t row = quotient(x, magic), col = (x - row * across) * WORD;
    const bool there = row < rows && col < cols;
    mmci_copy_async_or_zero<4 * WORD>(to + row * pitch + col, there ? from + row * ld + col : from,
                                      there);
  }
}

template <int LANES>
static __device__ __forceinline__ void load_factor(const mmci_tiles_factor &f, int64_t chain,
                                                   float *to, uint32_t pitch, uint32_t thread) {
  const float *from = f.gathered ? static_cast<const float *const *>(f.data)[chain]
                                 : static_cast<const float *>(f.data) + chain * f.stride;
  switch (f.word) {
    case 4:
      return load_words<4, LANES>(f, from, to, pitch, thread);
    case 2:
      return load_words<2, LANES>(f, from, to, pitch, thread);
    default:
      return load_words<1, LANES>(f, from, to, pitch, thread);
  }
}

template <int LANES>
static __device__ __forceinline__ void store_result(const mmci_tiles &e, int64_t chain,
                                                    const float *x, uint32_t pitch,
                                                    uint32_t thread) {
  const uint32_t words = e.c_words, magic = e.c_magic, across = e.c_across;
  float *to = e.c_gathered ? static_cast<float *const *>(e.c)[chain]
                           : static_cast<float *>(e.c) + chain * e.c_stride;
  if (e.c_word == 4) {
    for (uint32_t w = thread; w < words; w += LANES) {
      const uint32_t row = quotient(w, magic), col = (w - row * across) * 4;
      *reinterpret_cast<float4 *>(to + row * e.ldc + col) =
          mmci_result_of(*reinterpret_cast<const float4 *>(x + row * pitch + col), e.in_order);
    }
    return;
  }
#pragma unroll 2
  for (uint32_t w = thread; w < words; w += LANES) {
    const uint32_t row = quotient(w, magic), col = w - row * across;
    to[row * e.ldc + col] = mmci_result_of(x[row * pitch + col], e.in_order);
  }
}

template <typename Shape, int BLOCKS, int UNROLL>
__global__ void __launch_bounds__(Shape::THREADS, BLOCKS)
    multiply_in_tiles(const __grid_constant__ mmci_tiles e) {
  constexpr int LANES = Shape::LANES, PITCH = Shape::PITCH, SIDE = Shape::SIDE,
                HEIGHT = Shape::HEIGHT, WIDTH = Shape::WIDTH, PIECE = Shape::PIECE,
                DOWN = Shape::DOWN, ACROSS = Shape::ACROSS, BUFFERS = Shape::BUFFERS;
  MMCI_DYNAMIC_SHARED(memory);
  const uint32_t thread = threadIdx.x % LANES, lane = thread % WARP, warp = thread / WARP;
  const int64_t chain = (int64_t)blockIdx.x * Shape::PER_BLOCK + threadIdx.x / LANES;
  /* A lane's neighbours read the same words of either operand. */
  const uint32_t col = warp % (ACROSS / 4) * 4 + ((lane & 1) | ((lane >> 1) & 2)),
                 row = warp / (ACROSS / 4) * 8 + (((lane >> 1) & 1) | ((lane >> 2) & 6));
  const int n = e.n;
  alignas(16) float *x = reinterpret_cast<float *>(memory) + threadIdx.x / LANES * Shape::FLOATS;
  float *buffers = x + SIDE * PITCH;
  mmci_follow_previous();
  /* Chains that share a block are warps, which wait for nobody. */
  if (chain >= e.batch) return;
  auto load = [&](int f) {
    if (f == 0)
      load_factor<LANES>(e.factors[0], chain, x, PITCH, thread);
    else
      load_factor<LANES>(e.factors[f], chain, buffers + (f - 1) % BUFFERS * (SIDE * SIDE), SIDE,
                         thread);
  };
  load(0);
#pragma unroll
  for (int f = 1; f <= BUFFERS; f++) {
    if (f < n) load(f);
    mmci_copy_async_commit();
  }
#pragma unroll 1
  for (int f = 1; f < n; f++) {
    mmci_copy_async_wait<BUFFERS - 1>();
    chain_wait<LANES>();
    const float *right = buffers + (f - 1) % BUFFERS * (SIDE * SIDE) + col * PIECE;
    const float *left = x + row * PITCH;
    const int k_end = e.factors[f].rows, cols = e.factors[f].cols;
    float sums[HEIGHT][WIDTH];
#pragma unroll
    for (int i = 0; i < HEIGHT; i++)
#pragma unroll
      for (int j = 0; j < WIDTH; j++) sums[i][j] = 0;
#pragma unroll(UNROLL)
    for (int k = 0; k < k_end; k += 4) {
      float4 a[HEIGHT];
#pragma unroll
      for (int i = 0; i < HEIGHT; i++)
        a[i] = *reinterpret_cast<const float4 *>(left + i * DOWN * PITCH + k);
#pragma unroll
      for (int d = 0; d < 4; d++) {
        alignas(16) float b[WIDTH];
#pragma unroll
        for (int g = 0; g < WIDTH; g += PIECE)
          mmci_copy_word<PIECE>(b + g, right + (k + d) * SIDE + g * ACROSS);
#pragma unroll
        for (int i = 0; i < HEIGHT; i++)
#pragma unroll
          for (int at = 0; at < WIDTH; at++) {
            /* Rows go to and fro: the last column of one is the first of the next. */
            const int j = i % 2 == 0 ? at : WIDTH - 1 - at;
            mmci_fuse_product(sums[i][j], part(a[i], d), b[j]);
          }
      }
    }
    chain_wait<LANES>();
    if (f + BUFFERS < n) load(f + BUFFERS);
    mmci_copy_async_commit();
    /* What is beyond the product's columns may be summed over by the next. */
#pragma unroll
    for (int i = 0; i < HEIGHT; i++)
#pragma unroll
      for (int g = 0; g < WIDTH; g += PIECE) {
        const int at = (int)col * PIECE + g * ACROSS;
        alignas(16) float piece[PIECE];
#pragma unroll
        for (int q = 0; q < PIECE; q++) piece[q] = at + q < cols ? sums[i][g + q] : 0;
        mmci_copy_word<PIECE>(x + (row + i * DOWN) * PITCH + at, piece);
      }
  }
  chain_wait<LANES>();
  store_result<LANES>(e, chain, x, PITCH, thread);
}

/* ---- on the host ----------------------------------------------------------------------------- */

typedef void (*kernel_fn)(mmci_tiles);

typedef struct variant {
  kernel_fn kernel;
  int side, threads, per_block, shared_bytes;
} variant;

template <typename Shape, int BLOCKS, int UNROLL>
static constexpr variant variant_of() {
  return {multiply_in_tiles<Shape, BLOCKS, UNROLL>, Shape::SIDE, Shape::THREADS, Shape::PER_BLOCK,
          Shape::SHARED_BYTES};
}

/* The variants are in the order of the sizes of tiles.c. */
static const variant VARIANTS[] = {
    variant_of<TilesShape<3, 6, 2, 8, 4, 2, 2>, 8, 2>(),
    variant_of<TilesShape<4, 8, 4, 8, 4, 2, 2>, 8, 2>(),
    variant_of<TilesShape<5, 10, 2, 8, 4, 2, 2>, 5, 1>(),
    variant_of<TilesShape<6, 12, 4, 8, 4, 2, 2>, 4, 1>(),
    variant_of<TilesShape<8, 4, 4, 8, 16, 1, 2>, 4, 1>(),
    variant_of<TilesShape<8, 8, 4, 16, 16, 1, 2>, 1, 1>(),
};

extern "C" mmc_status mmci_tiles_prepare(const mmci_tiles *tiles, mmci_error *error) {
  const variant *v = &VARIANTS[tiles->size];
  MMCI_CUDA_TRY(cudaFuncSetAttribute(v->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     v->shared_bytes));
  return MMC_OK;
}

extern "C" mmc_status mmci_tiles_launch(cudaStream_t stream, const mmci_group_limits *limits,
                                        const mmci_tiles *tiles, mmci_error *error) {
  const variant *v = &VARIANTS[tiles->size];
  const int64_t blocks = (tiles->batch - 1) / v->per_block + 1;
  if (blocks > INT32_MAX)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "batch: expected fewer chains for one launch");
  MMCI_CUDA_TRY(mmci_launch_overlapped(v->kernel, limits->overlap, dim3((unsigned)blocks),
                                       dim3((unsigned)v->threads), (size_t)v->shared_bytes, stream,
                                       *tiles));
  return MMC_OK;
}

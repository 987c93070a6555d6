/* large_tile_async.cu: C = A B by large tiles in FP32 for any chip since sm_80, and the sum of what
 * blocks share, in FP32 and FP64.
 *
 * Layout   A as k lines of m elements, B as k lines of n, at multiples of 16 bytes; C row-major,
 *          any ldc; zeros past the edges
 * Launch   as many blocks of 256 threads as stay at the same time; each keeps a tile in registers
 * Idea     Steps of k come by cp.async, STAGES - 1 ahead; one barrier of the block a step. */
#include "device/cuda/product/large_tile.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/launch.cuh"

/* ---- the kernel
 * ---------------------------------------------------------------------------------- */

template <typename Tile_, int WM_, int WN_, int BK_, int STAGES_, int BLOCKS_>
struct Shape {
  typedef Tile_ Tile;
  typedef typename Tile::Element Element;
  enum {
    WM = WM_,
    BK = BK_,
    STAGES = STAGES_,
    BLOCKS = BLOCKS_, /* blocks on a multiprocessor */
    THREADS = 32 * WM_ * WN_,
    BM = WM * Tile::ROWS,
    BN = WN_ * Tile::COLS,
    A_STRIDE = BM + Tile::PAD,
    B_STRIDE = BN + Tile::PAD,
    STAGE = BK * (A_STRIDE + B_STRIDE), /* elements of a stage */
    SHARED_BYTES = STAGES * STAGE * (int)sizeof(Element) + THREADS * Tile::STAGED_BYTES
  };
};

static __device__ __forceinline__ void copy_16(void *to, const void *from, int bytes) {
  unsigned address = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes)
               : "memory");
}

/* Loads lines line.. and elements first.. of an operand, WIDTH x DEPTH, with zeros past its
 * edges. */
template <int WIDTH, int DEPTH, int STRIDE, int THREADS, typename Element>
static __device__ __forceinline__ void load_lines(Element *to, const mmci_large_tile_lines &from,
                                                  int64_t line, int64_t first) {
  enum { EACH = 16 / (int)sizeof(Element), CHUNKS = WIDTH / EACH };
  static_assert(CHUNKS * DEPTH % THREADS == 0, "every thread copies as much");
#pragma unroll
  for (int i = 0; i < CHUNKS * DEPTH / THREADS; i++) {
    const int at = (int)threadIdx.x + i * THREADS, l = at / CHUNKS, e = at % CHUNKS * EACH;
    const int64_t left = line + l < from.k ? from.length - first - e : 0;
    const int bytes = left >= EACH ? 16 : left > 0 ? (int)left * (int)sizeof(Element) : 0;
    const Element *data = (const Element *)from.data;
    copy_16(to + l * STRIDE + e, bytes > 0 ? data + (line + l) * from.ld + first + e : data, bytes);
  }
}

template <typename S>
static __device__ __forceinline__ void load_step(typename S::Element *stages,
                                                 const mmci_large_tile_lines &a,
                                                 const mmci_large_tile_lines &b,
                                                 const LargeTileItem &item, int step) {
  if (step < item.count) {
    typename S::Element *to = stages + step % S::STAGES * S::STAGE;
    const int64_t line = (int64_t)(item.first + step) * S::BK;
    load_lines<S::BM, S::BK, S::A_STRIDE, S::THREADS>(to, a, line, (int64_t)item.row * S::BM);
    load_lines<S::BN, S::BK, S::B_STRIDE, S::THREADS>(to + S::BK * S::A_STRIDE, b, line,
                                                      (int64_t)item.col * S::BN);
  }
  mmci_copy_async_commit();
}

template <typename S>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    large_tile_async(const __grid_constant__ mmci_large_tile_lines a,
                     const __grid_constant__ mmci_large_tile_lines b,
                     const __grid_constant__ mmci_large_tile_work work,
                     const __grid_constant__ mmci_large_tile_result c) {
  typedef typename S::Element Element;
  MMCI_DYNAMIC_SHARED(shared);
  Element *stages = reinterpret_cast<Element *>(shared);
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  typename S::Tile tile;
  const int row = warp % S::WM * S::Tile::ROWS + tile.row_of_lane(lane);
  const int col = warp / S::WM * S::Tile::COLS + tile.col_of_lane(lane);
  LargeTileItem item;
#pragma unroll 1
  for (int i = 0; large_tile_item(work, (int)blockIdx.x, i, &item); i++) {
    tile.clear();
    for (int s = 0; s < S::STAGES - 1; s++) load_step<S>(stages, a, b, item, s);
#pragma unroll 1
    for (int step = 0; step < item.count; step++) {
      mmci_copy_async_wait<S::STAGES - 2>();
      __syncthreads();
      load_step<S>(stages, a, b, item, step + S::STAGES - 1);
      const Element *at = stages + step % S::STAGES * S::STAGE;
      tile.template step<S::BK, 2, S::A_STRIDE, S::B_STRIDE>(at + row,
                                                             at + S::BK * S::A_STRIDE + col);
    }
    mmci_copy_async_wait<0>();
    __syncthreads();
    Element *to = (Element *)c.slots + (int64_t)blockIdx.x * S::BM * S::BN + row * S::BN + col;
    int64_t ld = S::BN, rows = S::BM - row, cols = S::BN - col;
    if (!item.is_partial) {
      const int64_t r = (int64_t)item.row * S::BM + row, q = (int64_t)item.col * S::BN + col;
      to = (Element *)c.c + r * c.ldc + q;
      ld = c.ldc;
      rows = c.m - r;
      cols = c.n - q;
    }
    const unsigned staged = (unsigned)__cvta_generic_to_shared(stages + S::STAGES * S::STAGE);
    tile.leave(to, ld, rows, cols, item.is_partial || c.vectors, !item.is_partial && c.accumulate,
               staged + threadIdx.x * 16, S::THREADS);
  }
}

/* ---- the sum of the shares
 * ------------------------------------------------------------------------ */

enum { REDUCE_THREADS = 256, REDUCE_PARTS = 16 };

struct Blocks {
  int rows, cols, cluster_rows, cluster_cols;
};

/* Block x works on a shared tile, and y on a part of its rows. */
template <typename Element>
__global__ void __launch_bounds__(REDUCE_THREADS)
    large_tile_reduce(Blocks s, const __grid_constant__ mmci_large_tile_work w,
                      const __grid_constant__ mmci_large_tile_result c) {
  const int cluster = s.cluster_rows * s.cluster_cols;
  const int shared = (int)blockIdx.x / cluster, rank = (int)blockIdx.x % cluster;
  const unsigned steps = (unsigned)w.steps, begin = (unsigned)shared * steps;
  LargeTileItem item;
  large_tile_place(w, w.rounds * w.workers + shared, &item);
  const int64_t first_row = (int64_t)(item.row * s.cluster_rows + rank % s.cluster_rows) * s.rows;
  const int64_t first_col = (int64_t)(item.col * s.cluster_cols + rank / s.cluster_rows) * s.cols;
  const int64_t size = (int64_t)s.rows * s.cols;
  /* The shares that begin inside the tile. */
  unsigned from = begin / (w.share_steps + 1);
  while (large_tile_share_begin(w, from) <= begin) from++;
  unsigned to = from;
  while (to < (unsigned)w.sharers && large_tile_share_begin(w, to) < begin + steps) to++;
  if (from == to) return;
  const int part = (s.rows + REDUCE_PARTS - 1) / REDUCE_PARTS;
  for (int at = (int)threadIdx.x; at < part * s.cols; at += REDUCE_THREADS) {
    const int r = (int)blockIdx.y * part + at / s.cols, q = at % s.cols;
    if (r >= s.rows || first_row + r >= c.m || first_col + q >= c.n) continue;
    Element *result = (Element *)c.c + (first_row + r) * c.ldc + first_col + q;
    Element sum = *result;
    for (unsigned u = from; u < to; u++)
      sum += ((const Element *)
                  c.slots)[((int64_t)u * cluster + rank) * size + (int64_t)r * s.cols + q];
    *result = sum;
  }
}

extern "C" mmc_status mmci_large_tile_reduce(cudaStream_t stream, mmc_dtype dtype,
                                             const mmci_large_tile_kernel *kernel,
                                             const mmci_large_tile_work *work,
                                             const mmci_large_tile_result *result,
                                             mmci_error *error) {
  const Blocks blocks = {kernel->block_rows, kernel->block_cols, kernel->cluster_rows,
                         kernel->cluster_cols};
  const int tiles = work->shared_tiles * kernel->cluster_rows * kernel->cluster_cols;
  MMCI_CUDA_TRY(mmci_launch(dtype == MMC_F64 ? large_tile_reduce<double> : large_tile_reduce<float>,
                            dim3((unsigned)tiles, REDUCE_PARTS), dim3(REDUCE_THREADS), 0, stream,
                            blocks, *work, *result));
  return MMC_OK;
}

/* ---- the table
 * ---------------------------------------------------------------------------------- */

template <typename S>
static mmci_large_tile_kernel kernel_of() {
  return {(const void *)large_tile_async<S>,
          S::BM,
          S::BN,
          1,
          1,
          S::BK,
          S::THREADS,
          S::SHARED_BYTES,
          false};
}

const mmci_large_tile_kernel mmci_large_tile_f32_async[] = {
    {},
    {},
    kernel_of<Shape<LargeTileF32<4, 2>, 4, 2, 16, 3, 1>>(),
    kernel_of<Shape<LargeTileF32<2, 2>, 4, 2, 16, 3, 2>>(),
    {},
    {},
    {},
    {},
};

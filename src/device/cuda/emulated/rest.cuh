/* rest.cuh: computes what is left of C in FP64 on tensor cores, rounded once: no sum in FP32 is
 * more accurate. Each is one chain of fused multiply-adds, from the first k to the last, which is
 * how the tensor cores add up doubles. NaN and infinity pass through. It does nothing when nothing
 * is left. A struct says what is left:
 *
 *     Element                    of A, B and C
 *     a_left(row), b_left(col)   whether that row or column of C is left
 *     rows(), cols()             how many are
 *     all(m, n)                  whether all of C is
 *
 * Layout any forms and leading dimensions; edges guarded
 * Launch blocks that stride over 128 x 128 tiles: of C, or of the rows that are left and all
 * columns, and then of all rows and the columns that are left; eight warps, 32 x 64 elements each
 * Traffic 2mkn flops for all of C; reads mk ceil(n/128) + kn ceil(m/128) elements
 * Idea a block finds the rows of its tile among all flags, in microseconds, so few rows that are
 *      left, wherever they are, are few tiles. Tiles of all of C are taken in groups of 8 rows of
 *      tiles, so that operands stay in L2. */
#ifndef MMCI_CUDA_EMULATED_REST_CUH
#define MMCI_CUDA_EMULATED_REST_CUH

#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/tensor_f64_tile.cuh"
#include "device/device.h"
#include "device/whole/rows.h"

template <class Left, bool A_ALONG, bool B_ALONG, bool VECTORS>
struct mmci_rest {
  typedef typename Left::Element Element;
  /* Measured to be fastest on an H200. */
  enum { DEPTH = A_ALONG && !B_ALONG ? 16 : 32, STAGES = DEPTH == 16 ? 4 : 3 };
  typedef mmci_f64_tile<Element, A_ALONG, B_ALONG, VECTORS, 2, 8, 4, 2, DEPTH, STAGES> Tile;
  typedef mmci_f64_operand<Element> Operand;
  enum {
    TILE = Tile::ROWS,
    THREADS = Tile::THREADS,
    WARPS = THREADS / 32,
    GROUP = 8, /* rows of tiles */
  };
  static_assert((int)Tile::COLS == (int)TILE, "lists are of either");

  /* What a block shares. Lines are the rows of A or the columns of B that are left, -1 where a tile
   * has none. */
  struct Shared {
    int32_t lines[TILE], counts[WARPS];
  };

  Left left;
  Operand a, b;
  Element *c;
  int64_t ldc;
  bool accumulate;

#if __CUDA_ARCH__ >= 800 || defined(MMCI_EMULATE_CUDA)

  /* Writes those of so many lines that are left, from the first-th of them on. */
  template <class IsLeft>
  static __device__ __forceinline__ void gather(Shared &s, int64_t first, int64_t count,
                                                IsLeft is_left) {
    int32_t *lines = s.lines;
    const int thread = (int)threadIdx.x, lane = thread % 32, warp = thread / 32;
    if (thread < TILE) lines[thread] = -1;
    int64_t found = 0; /* of all lines before */
    for (int64_t line = 0; line < count && found < first + TILE; line += THREADS) {
      const bool mine = line + thread < count && is_left(line + thread);
      const unsigned among = __ballot_sync(~0u, mine);
      if (lane == 0) s.counts[warp] = __popc(among);
      __syncthreads();
      int64_t at = found - first + __popc(among & ((1u << lane) - 1));
      for (int w = 0; w < WARPS; w++) {
        if (w < warp) at += s.counts[w];
        found += s.counts[w];
      }
      if (mine && at >= 0 && at < TILE) lines[at] = (int32_t)(line + thread);
      __syncthreads();
    }
  }

  __device__ __forceinline__ float result(float before, double sum) const {
    return mmci_result_f32(before, accumulate, sum);
  }
  __device__ __forceinline__ double result(double before, double sum) const {
    return mmci_result_f64(before, accumulate, sum);
  }

  /* Multiplies a tile of rows and columns, either of which may be those that are listed. Columns
   * that are left have no rows that are: those were written before. */
  __device__ __forceinline__ void multiply(Element *stages, const Operand &x, int64_t row,
                                           const Operand &y, int64_t col) const {
    Tile tile;
    tile.multiply(stages, x, row, y, col, 0, (int)((x.k + Tile::DEPTH - 1) / Tile::DEPTH));
    tile.each([&](int down, int across, double first, double second) {
      const int64_t i = x.listed != nullptr ? x.listed[down] : row + down;
      if (i < 0 || i >= x.lines || (y.listed != nullptr && left.a_left(i))) return;
      for (int e = 0; e < 2; e++) {
        const int64_t j = y.listed != nullptr ? y.listed[across + e] : col + across + e;
        if (j < 0 || j >= y.lines) continue;
        Element *to = c + i * ldc + j;
        *to = result(*to, e == 0 ? first : second);
      }
    });
    __syncthreads(); /* nobody reads the lines before others are listed */
  }

  static __device__ __forceinline__ int64_t tiles_of(int64_t lines) {
    return (lines + TILE - 1) / TILE;
  }

  __device__ __forceinline__ void work(Element *stages, Shared &s) const {
    const bool all = left.all(a.lines, b.lines);
    const int64_t across = tiles_of(b.lines), wide = all ? 0 : tiles_of(left.cols()),
                  down = tiles_of(all ? a.lines : left.rows()), first = down * across,
                  tiles = first + tiles_of(a.lines) * wide;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      Operand x = a, y = b;
      int64_t row = 0, col = 0;
      if (tile < first) {
        const int64_t group = tile / (GROUP * across) * GROUP, rest = tile - group * across,
                      left_down = down - group,
                      high = left_down < GROUP ? left_down : (int64_t)GROUP;
        row = (group + rest % high) * TILE;
        col = rest / high * TILE;
        if (!all) {
          gather(s, row, a.lines, [&](int64_t line) { return left.a_left(line); });
          x.listed = s.lines;
        }
      } else {
        const int64_t at = tile - first;
        gather(s, at % wide * TILE, b.lines, [&](int64_t line) { return left.b_left(line); });
        y.listed = s.lines;
        row = at / wide * TILE;
      }
      multiply(stages, x, row, y, col);
    }
  }

#endif
};

template <class Rest>
__global__ void __launch_bounds__(Rest::THREADS)
    mmci_rest_kernel(const __grid_constant__ Rest rest) {
#if __CUDA_ARCH__ >= 800 || defined(MMCI_EMULATE_CUDA)
  MMCI_DYNAMIC_SHARED(stages);
  __shared__ typename Rest::Shared shared;
  rest.work(reinterpret_cast<typename Rest::Element *>(stages), shared);
#endif
}

template <class Rest, class Left>
static mmc_status mmci_rest_launch_as(cudaStream_t stream, const Left &left, const mmci_gemm *g,
                                      int multiprocessors, const void *a, const void *b, void *c,
                                      mmci_error *error) {
  typedef typename Left::Element Element;
  const Rest rest = {left,
                     {static_cast<const Element *>(a), g->a.ld, g->m, g->k, NULL},
                     {static_cast<const Element *>(b), g->b.ld, g->n, g->k, NULL},
                     static_cast<Element *>(c),
                     g->ldc,
                     g->accumulate};
  const int64_t tile = Rest::TILE, most = multiprocessors;
  const int64_t tiles = (g->m + tile - 1) / tile * ((g->n + tile - 1) / tile);
  const int bytes = Rest::Tile::SHARED_BYTES;
  auto *kernel = mmci_rest_kernel<Rest>;
  MMCI_CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  MMCI_CUDA_TRY(mmci_launch(kernel, dim3((unsigned)(tiles < most ? tiles : most)),
                            dim3(Rest::THREADS), (size_t)bytes, stream, rest));
  return MMC_OK;
}

template <bool VECTORS, class Left>
static mmc_status mmci_rest_launch_by(cudaStream_t stream, const Left &left, const mmci_gemm *g,
                                      int multiprocessors, const void *a, const void *b, void *c,
                                      mmci_error *error) {
  auto *launch =
      g->a.trans ? (g->b.trans ? mmci_rest_launch_as<mmci_rest<Left, false, true, VECTORS>, Left>
                               : mmci_rest_launch_as<mmci_rest<Left, false, false, VECTORS>, Left>)
                 : (g->b.trans ? mmci_rest_launch_as<mmci_rest<Left, true, true, VECTORS>, Left>
                               : mmci_rest_launch_as<mmci_rest<Left, true, false, VECTORS>, Left>);
  return launch(stream, left, g, multiprocessors, a, b, c, error);
}

template <class Left>
static mmc_status mmci_rest_launch(cudaStream_t stream, const Left &left, const mmci_gemm *g,
                                   int multiprocessors, const void *a, const void *b, void *c,
                                   mmci_error *error) {
  typedef const typename Left::Element *Elements;
  const bool vectors = mmci_f64_has_vectors(static_cast<Elements>(a), g->a.ld) &&
                       mmci_f64_has_vectors(static_cast<Elements>(b), g->b.ld);
  auto *launch = vectors ? mmci_rest_launch_by<true, Left> : mmci_rest_launch_by<false, Left>;
  return launch(stream, left, g, multiprocessors, a, b, c, error);
}

#endif

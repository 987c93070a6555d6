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
 * columns, and then of all rows and the columns that are left; eight warps, 64 x 32 elements each
 * Traffic 2mkn flops for all of C; reads mk ceil(n/128) + kn ceil(m/128) elements
 * Idea a block finds the rows of its tile among all flags, in microseconds, so few rows that are
 *      left, wherever they are, are few tiles. */
#ifndef MMCI_CUDA_EMULATED_REST_CUH
#define MMCI_CUDA_EMULATED_REST_CUH

#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/tensor_f64.cuh"
#include "device/device.h"
#include "device/whole/rows.h"

template <class Left>
struct mmci_rest {
  typedef typename Left::Element Element;
  enum {
    TILE = 128,
    DEPTH = 64 / sizeof(Element),
    THREADS = 256,
    WARPS = THREADS / 32,
    EACH = TILE * DEPTH / THREADS,       /* elements that a thread stages */
    APART = TILE + 32 / sizeof(Element), /* lines of a tile, so that a warp's reads hit all banks */
    WARP_ROWS = 64,
    WARP_COLS = 32,
    ROWS = 16, /* rows of a product of the tensor cores, 16 x 8 x 8 */
    COLS = 8,
    STEP = 8,
    DOWN = WARP_ROWS / ROWS,
    ACROSS = WARP_COLS / COLS,
  };
  typedef Element Staged[DEPTH][APART];
  typedef double Sums[DOWN][ACROSS][4];

  /* What a block shares. Lines are the rows of A or the columns of B that are left, -1 where a tile
   * has none. */
  struct Shared {
    alignas(16) Staged a[2], b[2];
    int32_t lines[TILE], counts[WARPS];
  };

  Left left;
  const Element *a, *b;
  Element *c;
  int64_t m, k, n, lda, ldb, ldc;
  bool a_across, b_across, accumulate;

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

  /* Copies one element to shared memory, or 0 when it is not inside. */
  static __device__ __forceinline__ void copy_one(Element *to, const Element *from, bool inside) {
    if (inside)
      mmci_copy_async_bytes<sizeof(Element)>(to, from);
    else
      *to = 0;
  }

  /* Loads TILE lines, from the first one on or, where they are gathered, those that are listed, and
   * DEPTH k's from depth on, with zeros outside. Neighbouring threads read neighbouring elements,
   * where lines follow each other. */
  template <bool GATHERED>
  static __device__ __forceinline__ void stage_tile(Staged &tile, const Element *x, int64_t ld,
                                                    bool across, int64_t count, int64_t k,
                                                    int64_t first, const int32_t *lines,
                                                    int64_t depth) {
    const int thread = (int)threadIdx.x;
    const int line = across ? thread % TILE : thread / DEPTH,
              d = across ? thread / TILE : thread % DEPTH;
    const int lines_on = across ? 0 : THREADS / DEPTH, d_on = across ? THREADS / TILE : 0;
    const Element *from =
        x + (across ? (depth + d) * ld + first + line : (first + line) * ld + depth + d);
    const int64_t lines_left = count - first, d_left = k - depth;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      const int at = line + e * lines_on, deep = d + e * d_on;
      if (GATHERED) {
        const int64_t of = lines[at], there = depth + deep;
        copy_one(&tile[deep][at], x + (across ? there * ld + of : of * ld + there),
                 of >= 0 && deep < d_left);
      } else {
        copy_one(&tile[deep][at], from, at < lines_left && deep < d_left);
        from += (lines_on + d_on) * ld;
      }
    }
  }

  __device__ __forceinline__ float result(float before, double sum) const {
    return mmci_result_f32(before, accumulate, sum);
  }
  __device__ __forceinline__ double result(double before, double sum) const {
    return mmci_result_f64(before, accumulate, sum);
  }

  /* Adds a warp's part of the tiles' products; row and col are its thread's first in a and b. */
  static __device__ __forceinline__ void add_products(Sums &sum, const Staged &a, const Staged &b,
                                                      int row, int col) {
#pragma unroll
    for (int d = (int)threadIdx.x % (STEP / 2); d < DEPTH; d += STEP) {
      double above[DOWN][2][2], right[ACROSS][2];
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const int at = d + h * (STEP / 2);
#pragma unroll
        for (int p = 0; p < DOWN; p++) {
          above[p][h][0] = (double)a[at][row + p * ROWS];
          above[p][h][1] = (double)a[at][row + p * ROWS + ROWS / 2];
        }
#pragma unroll
        for (int q = 0; q < ACROSS; q++) right[q][h] = (double)b[at][col + q * COLS];
      }
#pragma unroll
      for (int p = 0; p < DOWN; p++)
#pragma unroll
        for (int q = 0; q < ACROSS; q++) mmci_multiply_f64(sum[p][q], above[p], right[q]);
    }
  }

  /* Multiplies a tile of rows and columns, either of which may be those that are left. Columns that
   * are left have no rows that are: those were written before. */
  template <bool ROWS_LEFT, bool COLS_LEFT>
  __device__ __forceinline__ void multiply(Shared &s, int64_t row, int64_t col) const {
    const int warp = (int)threadIdx.x / 32, group = (int)threadIdx.x % 32 / 4,
              pair = (int)threadIdx.x % 4 * 2;
    const int y = warp % (TILE / WARP_ROWS) * WARP_ROWS + group,
              x = warp / (TILE / WARP_ROWS) * WARP_COLS;
    auto stage = [&](int to, int64_t depth) {
      stage_tile<ROWS_LEFT>(s.a[to], a, lda, a_across, m, k, row, s.lines, depth);
      stage_tile<COLS_LEFT>(s.b[to], b, ldb, b_across, n, k, col, s.lines, depth);
      mmci_copy_async_commit();
    };
    Sums sum = {};
    __syncthreads(); /* the lines are there, and nobody reads the tile before */
    stage(0, 0);
    for (int64_t depth = 0; depth < k; depth += DEPTH) {
      const int now = (int)(depth / DEPTH % 2);
      mmci_copy_async_wait<0>();
      __syncthreads();
      stage(1 - now, depth + DEPTH);
      add_products(sum, s.a[now], s.b[now], y, x + group);
    }
    mmci_copy_async_wait<0>();
#pragma unroll
    for (int p = 0; p < DOWN; p++)
#pragma unroll
      for (int q = 0; q < ACROSS; q++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          const int down = y + p * ROWS + e / 2 * (ROWS / 2), right = x + q * COLS + pair + e % 2;
          const int64_t i = ROWS_LEFT ? s.lines[down] : row + down,
                        j = COLS_LEFT ? s.lines[right] : col + right;
          if (i < 0 || i >= m || j < 0 || j >= n || (COLS_LEFT && left.a_left(i))) continue;
          Element *to = c + i * ldc + j;
          *to = result(*to, sum[p][q][e]);
        }
    __syncthreads(); /* nobody reads the lines before others are listed */
  }

  static __device__ __forceinline__ int64_t tiles_of(int64_t lines) {
    return (lines + TILE - 1) / TILE;
  }

  __device__ __forceinline__ void work_on_all(Shared &s) const {
    const int64_t across = tiles_of(n), tiles = tiles_of(m) * across;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x)
      multiply<false, false>(s, tile / across * TILE, tile % across * TILE);
  }

  __device__ __forceinline__ void work(Shared &s) const {
    const int64_t rows = left.rows(), cols = left.cols(), across = tiles_of(n),
                  wide = tiles_of(cols), first = tiles_of(rows) * across,
                  tiles = first + tiles_of(m) * wide;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      if (tile < first) {
        gather(s, tile / across * TILE, m, [&](int64_t row) { return left.a_left(row); });
        multiply<true, false>(s, 0, tile % across * TILE);
      } else {
        const int64_t at = tile - first;
        gather(s, at % wide * TILE, n, [&](int64_t col) { return left.b_left(col); });
        multiply<false, true>(s, at / wide * TILE, 0);
      }
    }
  }

#endif
};

template <class Left>
__global__ void __launch_bounds__(mmci_rest<Left>::THREADS)
    mmci_rest_kernel(const __grid_constant__ mmci_rest<Left> rest) {
#if __CUDA_ARCH__ >= 800 || defined(MMCI_EMULATE_CUDA)
  __shared__ typename mmci_rest<Left>::Shared shared;
  if (rest.left.all(rest.m, rest.n))
    rest.work_on_all(shared);
  else
    rest.work(shared);
#endif
}

template <class Left>
static mmc_status mmci_rest_launch(cudaStream_t stream, const Left &left, const mmci_gemm *g,
                                   int multiprocessors, const void *a, const void *b, void *c,
                                   mmci_error *error) {
  typedef typename Left::Element Element;
  const mmci_rest<Left> rest = {left,
                                static_cast<const Element *>(a),
                                static_cast<const Element *>(b),
                                static_cast<Element *>(c),
                                g->m,
                                g->k,
                                g->n,
                                g->a.ld,
                                g->b.ld,
                                g->ldc,
                                g->a.trans,
                                !g->b.trans,
                                g->accumulate};
  const int64_t tile = mmci_rest<Left>::TILE, most = multiprocessors;
  const int64_t tiles = (g->m + tile - 1) / tile * ((g->n + tile - 1) / tile);
  MMCI_CUDA_TRY(mmci_launch(mmci_rest_kernel<Left>, dim3((unsigned)(tiles < most ? tiles : most)),
                            dim3(mmci_rest<Left>::THREADS), 0, stream, rest));
  return MMC_OK;
}

#endif

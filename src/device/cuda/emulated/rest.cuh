/* rest.cuh: computes what is left of C in FP64 on tensor cores, rounded once: no sum in FP32 is
 * more accurate. Each is one chain of fused multiply-adds, from the first k to the last, which is
 * how the tensor cores add up doubles. NaN and infinity pass through. It does nothing when nothing
 * is left. A struct says what is left:
 *
 *     Element                    of A, B and C
 *     a_left(row), b_left(col)   whether that row or column of C is left
 *     nothing(), all(m, n)       whether nothing is, or all
 *
 * Layout any forms and leading dimensions; edges guarded
 * Launch blocks that stride over 128 x 128 tiles of C, eight warps, 64 x 32 elements each
 * Traffic 2mkn flops; reads mk ceil(n/128) + kn ceil(m/128) elements */
#ifndef MMCI_CUDA_EMULATED_REST_CUH
#define MMCI_CUDA_EMULATED_REST_CUH

#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/device.h"
#include "device/whole/rows.h"

template <class Left>
struct mmci_rest {
  typedef typename Left::Element Element;
  enum {
    TILE = 128,
    DEPTH = 64 / sizeof(Element),
    THREADS = 256,
    EACH = TILE * DEPTH / THREADS,       /* elements that a thread stages */
    APART = TILE + 32 / sizeof(Element), /* lines of a tile, so that a warp's reads hit all banks */
    WARP_ROWS = 64,
    WARP_COLS = 32,
    ROWS = 16, /* rows of a product of the tensor cores, 16 x 8 x 4 */
    COLS = 8,
    STEP = 4,
    DOWN = WARP_ROWS / ROWS,
    ACROSS = WARP_COLS / COLS,
  };
  typedef Element Staged[DEPTH][APART];
  typedef double Sums[DOWN][ACROSS][4];

  Left left;
  const Element *a, *b;
  Element *c;
  int64_t m, k, n, lda, ldb, ldc;
  bool a_across, b_across, accumulate;

#if __CUDA_ARCH__ >= 800

  /* Copies one element to shared memory, or 0 when it is not inside. */
  static __device__ __forceinline__ void copy_one(Element *to, const Element *from, bool inside) {
    unsigned address = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(address), "l"(from),
                 "r"(inside ? (int)sizeof(Element) : 0), "n"(sizeof(Element))
                 : "memory");
  }

  /* Loads TILE rows from first on and DEPTH k's from depth on, with zeros outside. Neighbouring
   * threads read neighbouring elements. */
  static __device__ __forceinline__ void stage_tile(Staged &tile, const Element *x, int64_t ld,
                                                    bool across, int64_t rows, int64_t k,
                                                    int64_t first, int64_t depth) {
    const int thread = (int)threadIdx.x;
    const int row = across ? thread % TILE : thread / DEPTH,
              d = across ? thread / TILE : thread % DEPTH;
    const int rows_on = across ? 0 : THREADS / DEPTH, d_on = across ? THREADS / TILE : 0;
    const Element *from =
        x + (across ? (depth + d) * ld + first + row : (first + row) * ld + depth + d);
    const int rows_left = (int)(rows - first < TILE ? rows - first : TILE);
    const int d_left = (int)(k - depth < DEPTH ? k - depth : DEPTH);
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      const int r = row + e * rows_on, at = d + e * d_on;
      const bool inside = r < rows_left && at < d_left;
      copy_one(&tile[at][r], inside ? from : x, inside);
      from += (rows_on + d_on) * ld;
    }
  }

  /* Says whether one of TILE rows of C, or columns, is left. */
  __device__ __forceinline__ bool any_left(int64_t row, int64_t col) const {
    const int64_t at = threadIdx.x % TILE;
    return threadIdx.x < TILE ? row + at < m && left.a_left(row + at)
                              : col + at < n && left.b_left(col + at);
  }

  __device__ __forceinline__ float result(float before, double sum) const {
    return mmci_result_f32(before, accumulate, sum);
  }
  __device__ __forceinline__ double result(double before, double sum) const {
    return mmci_result_f64(before, accumulate, sum);
  }

  __device__ __forceinline__ void store(bool all, int64_t row, int64_t col, double sum) const {
    if (row >= m || col >= n || (!all && !left.a_left(row) && !left.b_left(col))) return;
    Element *to = c + row * ldc + col;
    *to = result(*to, sum);
  }

  /* Computes sum += a b: thread 4g + t has rows g and g + 8 of a at k t, column g of b at k t, and
   * columns 2t and 2t + 1 of rows g and g + 8 of sum. */
  static __device__ __forceinline__ void add_product(double (&sum)[4], const double (&a)[2],
                                                     double b) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%0, %1, %2, %3};"
        : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3])
        : "d"(a[0]), "d"(a[1]), "d"(b));
#else
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(sum[0]), "+d"(sum[1])
                 : "d"(a[0]), "d"(b));
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(sum[2]), "+d"(sum[3])
                 : "d"(a[1]), "d"(b));
#endif
  }

  /* Adds a warp's part of the tiles' products; row and col are its thread's first in a and b. */
  static __device__ __forceinline__ void add_products(Sums &sum, const Staged &a, const Staged &b,
                                                      int row, int col) {
#pragma unroll
    for (int d = (int)threadIdx.x % STEP; d < DEPTH; d += STEP) {
      double above[DOWN][2], right[ACROSS];
#pragma unroll
      for (int p = 0; p < DOWN; p++) {
        above[p][0] = (double)a[d][row + p * ROWS];
        above[p][1] = (double)a[d][row + p * ROWS + ROWS / 2];
      }
#pragma unroll
      for (int q = 0; q < ACROSS; q++) right[q] = (double)b[d][col + q * COLS];
#pragma unroll
      for (int p = 0; p < DOWN; p++)
#pragma unroll
        for (int q = 0; q < ACROSS; q++) add_product(sum[p][q], above[p], right[q]);
    }
  }

  __device__ __forceinline__ void work(Staged (&a_tile)[2], Staged (&b_tile)[2]) const {
    const bool all = left.all(m, n);
    const int warp = (int)threadIdx.x / 32, group = (int)threadIdx.x % 32 / 4,
              pair = (int)threadIdx.x % 4 * 2;
    const int y = warp % (TILE / WARP_ROWS) * WARP_ROWS + group,
              x = warp / (TILE / WARP_ROWS) * WARP_COLS;
    const int64_t across = (n + TILE - 1) / TILE, tiles = (m + TILE - 1) / TILE * across;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      const int64_t row = tile / across * TILE, col = tile % across * TILE;
      if (!__syncthreads_or(all || any_left(row, col))) continue;
      Sums sum = {};
      stage_tile(a_tile[0], a, lda, a_across, m, k, row, 0);
      stage_tile(b_tile[0], b, ldb, b_across, n, k, col, 0);
      mmci_copy_async_commit();
      for (int64_t depth = 0; depth < k; depth += DEPTH) {
        const int now = (int)(depth / DEPTH % 2);
        mmci_copy_async_wait<0>();
        __syncthreads();
        stage_tile(a_tile[1 - now], a, lda, a_across, m, k, row, depth + DEPTH);
        stage_tile(b_tile[1 - now], b, ldb, b_across, n, k, col, depth + DEPTH);
        mmci_copy_async_commit();
        add_products(sum, a_tile[now], b_tile[now], y, x + group);
      }
      mmci_copy_async_wait<0>();
      __syncthreads();
#pragma unroll
      for (int p = 0; p < DOWN; p++)
#pragma unroll
        for (int q = 0; q < ACROSS; q++)
#pragma unroll
          for (int e = 0; e < 4; e++)
            store(all, row + y + p * ROWS + e / 2 * (ROWS / 2), col + x + q * COLS + pair + e % 2,
                  sum[p][q][e]);
    }
  }

#endif
};

template <class Left>
__global__ void __launch_bounds__(mmci_rest<Left>::THREADS)
    mmci_rest_kernel(const __grid_constant__ mmci_rest<Left> rest) {
#if __CUDA_ARCH__ >= 800
  __shared__ __align__(16) typename mmci_rest<Left>::Staged a_tile[2], b_tile[2];
  if (!rest.left.nothing()) rest.work(a_tile, b_tile);
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

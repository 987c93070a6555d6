/* rest.cu: computes what is left of C in FP64 on tensor cores, rounded once: no sum in FP32 is more
 * accurate. NaN and infinity pass through. It does nothing when nothing is left.
 *
 * Layout any forms and leading dimensions; edges guarded
 * Launch blocks that stride over 128 x 128 tiles of C, eight warps, 64 x 32 elements each
 * Traffic 2mkn flops; reads mk ceil(n/128) + kn ceil(m/128) elements */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/emulated/emulated_kernels.h"
#include "device/cuda/emulated/left.cuh"
#include "device/cuda/emulated/parts.cuh"

enum {
  TILE = 128,
  DEPTH = 16,
  THREADS = 256,
  EACH = TILE * DEPTH / THREADS, /* elements that a thread stages */
  APART = TILE + 8,              /* lines of a tile, so that a warp's reads hit all banks */
  WARP_ROWS = 64,
  WARP_COLS = 32,
  ROWS = 16, /* rows of a product of the tensor cores, 16 x 8 x 4 */
  COLS = 8,
  STEP = 4,
  DOWN = WARP_ROWS / ROWS,
  ACROSS = WARP_COLS / COLS,
};

struct Rest {
  const mmci_emulated_row *a_rows, *b_rows;
  mmci_left left;
  const float *a, *b;
  float *c;
  int64_t m, k, n, lda, ldb, ldc;
  bool a_across, b_across, accumulate;
};

typedef float Staged[DEPTH][APART];

#if __CUDA_ARCH__ >= 900

/* Copies one element to shared memory, or 0 when it is not inside. */
static __device__ __forceinline__ void copy_one(float *to, const float *from, bool inside) {
  unsigned address = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from),
               "r"(inside ? 4 : 0)
               : "memory");
}

/* Loads TILE rows from first on and DEPTH k's from depth on, with zeros outside. Neighbouring
 * threads read neighbouring elements. */
static __device__ __forceinline__ void stage_tile(Staged &tile, const float *x, int64_t ld,
                                                  bool across, int64_t rows, int64_t k,
                                                  int64_t first, int64_t depth) {
  const int thread = (int)threadIdx.x;
  const int row = across ? thread % TILE : thread / DEPTH,
            d = across ? thread / TILE : thread % DEPTH;
  const int rows_on = across ? 0 : THREADS / DEPTH, d_on = across ? THREADS / TILE : 0;
  const float *from =
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

/* Says whether one of TILE rows from first on is left. */
static __device__ __forceinline__ bool any_left(const mmci_emulated_row *rows, int64_t first,
                                                int64_t count) {
  int64_t r = first + threadIdx.x % TILE;
  return r < count && rows[r].exponent == MMCI_PARTS_LEFT;
}

static __device__ __forceinline__ void store_tile(const Rest &s, bool all, int64_t row, int64_t col,
                                                  double sum) {
  if (row >= s.m || col >= s.n) return;
  if (!all && s.a_rows[row].exponent != MMCI_PARTS_LEFT &&
      s.b_rows[col].exponent != MMCI_PARTS_LEFT)
    return;
  float *to = s.c + row * s.ldc + col;
  *to = (float)(s.accumulate ? (double)*to + sum : sum);
}

/* Computes sum += a b: thread 4g + t has rows g and g + 8 of a at k t, column g of b at k t, and
 * columns 2t and 2t + 1 of rows g and g + 8 of sum. */
static __device__ __forceinline__ void add_product(double (&sum)[4], const double (&a)[2],
                                                   double b) {
  asm volatile(
      "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%0, %1, %2, %3};"
      : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3])
      : "d"(a[0]), "d"(a[1]), "d"(b));
}

typedef double Sums[DOWN][ACROSS][4];

/* Adds a warp's part of the tiles' products; row and col are its thread's first in a and b. */
static __device__ __forceinline__ void add_products(Sums &sum, const Staged &a, const Staged &b,
                                                    int row, int col) {
#pragma unroll
  for (int d = (int)threadIdx.x % STEP; d < DEPTH; d += STEP) {
    double left[DOWN][2], right[ACROSS];
#pragma unroll
    for (int p = 0; p < DOWN; p++) {
      left[p][0] = (double)a[d][row + p * ROWS];
      left[p][1] = (double)a[d][row + p * ROWS + ROWS / 2];
    }
#pragma unroll
    for (int q = 0; q < ACROSS; q++) right[q] = (double)b[d][col + q * COLS];
#pragma unroll
    for (int p = 0; p < DOWN; p++)
#pragma unroll
      for (int q = 0; q < ACROSS; q++) add_product(sum[p][q], left[p], right[q]);
  }
}

#endif

__global__ void __launch_bounds__(THREADS) emulated_rest(const __grid_constant__ Rest s) {
#if __CUDA_ARCH__ >= 900
  __shared__ __align__(16) Staged a_tile[2], b_tile[2];
  if (mmci_left_is_nothing(s.left)) return;
  const bool all = mmci_left_is_most(s.left, s.m, s.n);
  const int warp = (int)threadIdx.x / 32, group = (int)threadIdx.x % 32 / 4,
            pair = (int)threadIdx.x % 4 * 2;
  const int y = warp % (TILE / WARP_ROWS) * WARP_ROWS + group,
            x = warp / (TILE / WARP_ROWS) * WARP_COLS;
  const int64_t across = (s.n + TILE - 1) / TILE, tiles = (s.m + TILE - 1) / TILE * across;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t row = tile / across * TILE, col = tile % across * TILE;
    bool mine = threadIdx.x < TILE ? any_left(s.a_rows, row, s.m) : any_left(s.b_rows, col, s.n);
    if (!__syncthreads_or(all || mine)) continue;
    Sums sum = {};
    stage_tile(a_tile[0], s.a, s.lda, s.a_across, s.m, s.k, row, 0);
    stage_tile(b_tile[0], s.b, s.ldb, s.b_across, s.n, s.k, col, 0);
    mmci_copy_async_commit();
    for (int64_t depth = 0; depth < s.k; depth += DEPTH) {
      const int now = (int)(depth / DEPTH % 2);
      mmci_copy_async_wait<0>();
      __syncthreads();
      stage_tile(a_tile[1 - now], s.a, s.lda, s.a_across, s.m, s.k, row, depth + DEPTH);
      stage_tile(b_tile[1 - now], s.b, s.ldb, s.b_across, s.n, s.k, col, depth + DEPTH);
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
          store_tile(s, all, row + y + p * ROWS + e / 2 * (ROWS / 2),
                     col + x + q * COLS + pair + e % 2, sum[p][q][e]);
  }
#endif
}

extern "C" mmc_status mmci_emulated_rest(cudaStream_t stream, const mmci_emulated_product *product,
                                         int multiprocessors, const float *a, const float *b,
                                         float *c, mmci_error *error) {
  const mmci_gemm *g = &product->gemm;
  const Rest rest = {product->a.row,
                     product->b.row,
                     mmci_left_of(product),
                     a,
                     b,
                     c,
                     g->m,
                     g->k,
                     g->n,
                     g->a.ld,
                     g->b.ld,
                     g->ldc,
                     g->a.trans,
                     !g->b.trans,
                     g->accumulate};
  const int64_t tiles = (g->m + TILE - 1) / TILE * ((g->n + TILE - 1) / TILE);
  const int64_t most = multiprocessors;
  MMCI_CUDA_TRY(mmci_launch(emulated_rest, dim3((unsigned)(tiles < most ? tiles : most)),
                            dim3(THREADS), 0, stream, rest));
  return MMC_OK;
}

/* faithful_rest.cu: what of C is left to FP32, in FP32: each element one sum in the order of k, as
 * FP32 would have it, NaN and infinity too. Does nothing when nothing is left.
 *
 * Layout  any forms and leading dimensions; edges guarded
 * Launch  blocks that stride over 128 x 128 tiles of C, 256 threads, 8 x 8 elements each
 * Traffic 2mkn flops; reads mk ceil(n/128) + kn ceil(m/128) elements */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/faithful_kernels.h"
#include "device/cuda/faithful_left.cuh"
#include "device/cuda/faithful_parts.cuh"

enum {
  TILE = 128,
  DEPTH = 16,
  THREADS = 256,
  FOUR = 4,
  EACH = TILE * DEPTH / THREADS, /* elements that a thread stages */
  BLOCKS_EACH = 2,               /* a multiprocessor */
};

struct Rest {
  const mmci_faithful_row *a_rows, *b_rows;
  mmci_left left;
  const float *a, *b;
  float *c;
  int64_t m, k, n, lda, ldb, ldc;
  bool a_across, b_across, accumulate;
};

typedef float Staged[DEPTH][TILE + FOUR];

/* One element to shared memory, 0 instead when not inside. */
static __device__ __forceinline__ void copy_one(float *to, const float *from, bool inside) {
  unsigned address = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from),
               "r"(inside ? 4 : 0)
               : "memory");
}

/* TILE rows from first on, DEPTH k's from depth on; zeros outside. Threads side by side read side
 * by side. */
static __device__ __forceinline__ void stage(Staged &tile, const float *x, int64_t ld, bool across,
                                             int64_t rows, int64_t k, int64_t first,
                                             int64_t depth) {
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

/* Whether one of TILE rows from first on is left. */
static __device__ __forceinline__ bool any_left(const mmci_faithful_row *rows, int64_t first,
                                                int64_t count) {
  int64_t r = first + threadIdx.x % TILE;
  return r < count && rows[r].exponent == MMCI_PARTS_F32;
}

static __device__ __forceinline__ void store(const Rest &s, bool all, int64_t row, int64_t col,
                                             float sum) {
  if (row >= s.m || col >= s.n) return;
  if (!all && s.a_rows[row].exponent != MMCI_PARTS_F32 && s.b_rows[col].exponent != MMCI_PARTS_F32)
    return;
  float *to = s.c + row * s.ldc + col;
  *to = s.accumulate ? *to + sum : sum;
}

__global__ void __launch_bounds__(THREADS) faithful_rest(const __grid_constant__ Rest s) {
  __shared__ __align__(16) Staged a_tile[2], b_tile[2];
  if (mmci_left_is_nothing(s.left)) return;
  const bool all = mmci_left_is_most(s.left, s.m, s.n);
  const int y = (int)threadIdx.x / 16 * FOUR, x = (int)threadIdx.x % 16 * FOUR;
  const int64_t across = (s.n + TILE - 1) / TILE, tiles = (s.m + TILE - 1) / TILE * across;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t row = tile / across * TILE, col = tile % across * TILE;
    bool mine = threadIdx.x < TILE ? any_left(s.a_rows, row, s.m) : any_left(s.b_rows, col, s.n);
    if (!__syncthreads_or(all || mine)) continue;
    float sum[2 * FOUR][2 * FOUR] = {};
    stage(a_tile[0], s.a, s.lda, s.a_across, s.m, s.k, row, 0);
    stage(b_tile[0], s.b, s.ldb, s.b_across, s.n, s.k, col, 0);
    mmci_copy_async_commit();
    for (int64_t depth = 0; depth < s.k; depth += DEPTH) {
      const int now = (int)(depth / DEPTH % 2);
      mmci_copy_async_wait<0>();
      __syncthreads();
      stage(a_tile[1 - now], s.a, s.lda, s.a_across, s.m, s.k, row, depth + DEPTH);
      stage(b_tile[1 - now], s.b, s.ldb, s.b_across, s.n, s.k, col, depth + DEPTH);
      mmci_copy_async_commit();
#pragma unroll
      for (int d = 0; d < DEPTH; d++) {
        union {
          float4 four[2];
          float one[2 * FOUR];
        } left, right;
        left.four[0] = *reinterpret_cast<const float4 *>(&a_tile[now][d][y]);
        left.four[1] = *reinterpret_cast<const float4 *>(&a_tile[now][d][y + TILE / 2]);
        right.four[0] = *reinterpret_cast<const float4 *>(&b_tile[now][d][x]);
        right.four[1] = *reinterpret_cast<const float4 *>(&b_tile[now][d][x + TILE / 2]);
#pragma unroll
        for (int p = 0; p < 2 * FOUR; p++)
#pragma unroll
          for (int q = 0; q < 2 * FOUR; q++) sum[p][q] = fmaf(left.one[p], right.one[q], sum[p][q]);
      }
    }
    mmci_copy_async_wait<0>();
    __syncthreads();
    /* The first four are in the tile's first half, the others in its second. */
#pragma unroll
    for (int p = 0; p < 2 * FOUR; p++)
#pragma unroll
      for (int q = 0; q < 2 * FOUR; q++)
        store(s, all, row + y + p % FOUR + p / FOUR * (TILE / 2),
              col + x + q % FOUR + q / FOUR * (TILE / 2), sum[p][q]);
  }
}

extern "C" mmc_status mmci_faithful_rest(cudaStream_t stream, const mmci_faithful_product *product,
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
  const int64_t most = (int64_t)multiprocessors * BLOCKS_EACH;
  MMCI_CUDA_TRY(mmci_launch(faithful_rest, dim3((unsigned)(tiles < most ? tiles : most)),
                            dim3(THREADS), 0, stream, rest));
  return MMC_OK;
}

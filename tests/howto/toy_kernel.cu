/* toy_kernel.cu: the worked example of docs/howto-kernel.md: C = A B in f32, all row-major. One
 * 16 x 16 tile of C per block, staged through shared memory.
 *
 * Layout  leading dimensions of each matrix; any m, k, n >= 0, edges guarded
 * Launch  grid (ceil(n/16), ceil(m/16)), block 16 x 16 threads, an element of C each
 * Traffic 2mkn flops; reads mk ceil(n/16) + kn ceil(m/16) elements
 * Idea    over a thread an element: what a block reads once it uses 16 times */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "howto/toy_kernel.h"

enum { TILE = 16 };

/* The element at row, col of a row-major matrix, and 0 outside of it. */
static __device__ __forceinline__ float read_or_zero(const float *from, int64_t ld, int64_t rows,
                                                     int64_t cols, int64_t row, int64_t col) {
  return row < rows && col < cols ? from[row * ld + col] : 0;
}

__global__ void toy_gemm_f32_shared_16x16(int64_t m, int64_t k, int64_t n, const float *a,
                                          int64_t lda, const float *b, int64_t ldb, float *c,
                                          int64_t ldc) {
  __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
  const int i = (int)threadIdx.y, j = (int)threadIdx.x;
  const int64_t row = (int64_t)blockIdx.y * TILE + i, col = (int64_t)blockIdx.x * TILE + j;
  float sum = 0;
  for (int64_t depth = 0; depth < k; depth += TILE) {
    a_tile[i][j] = read_or_zero(a, lda, m, k, row, depth + j);
    b_tile[i][j] = read_or_zero(b, ldb, k, n, depth + i, col);
    __syncthreads();
    for (int d = 0; d < TILE; d++) sum += a_tile[i][d] * b_tile[d][j];
    __syncthreads(); /* nobody writes the next tiles before all have read these */
  }
  if (row < m && col < n) c[row * ldc + col] = sum;
}

static unsigned tiles_of(int64_t length) {
  return (unsigned)((length + TILE - 1) / TILE);
}

extern "C" mmc_status toy_kernel_enqueue(cudaStream_t stream, const mmci_gemm *g, const float *a,
                                         const float *b, float *c, mmci_error *error) {
  if (g->m == 0 || g->n == 0) return MMC_OK;
  MMCI_CUDA_TRY(mmci_launch(toy_gemm_f32_shared_16x16, dim3(tiles_of(g->n), tiles_of(g->m)),
                            dim3(TILE, TILE), 0, stream, g->m, g->k, g->n, a, g->a.ld, b, g->b.ld,
                            c, g->ldc));
  return MMC_OK;
}

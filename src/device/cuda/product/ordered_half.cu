/* ordered_half.cu: computes any product or batch of f16 or bf16 by tensor cores in one order: each
 * element of C is a chain of their sums of 16 products in f32, from the first k to the last, and is
 * rounded once. What follows after the last k is zero times zero.
 *
 * Layout any forms, sizes and leading dimensions in 64 bits; edges guarded
 * Launch a 1-D grid that strides over the tiles of 64 x 64, 128 threads: a warp has 32 x 32; the
 *        next 32 terms are loaded while others are multiplied
 * Traffic 2mkn flops; reads mk ceil(n/64) + kn ceil(m/64) elements */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_kernels.h"
#include "device/cuda/elements.cuh"

enum {
  TILE = 64,
  DEPTH = 32,
  THREADS = 128,
  WARP_TILE = 32,
  STEP = 16,        /* products that tensor cores add up at once */
  LINE = DEPTH + 8, /* words of lines lie in different banks */
  EACH = TILE * DEPTH / THREADS,
  ROW_BLOCKS = WARP_TILE / 16,
  COL_BLOCKS = WARP_TILE / 8
};
static const int64_t MOST_BLOCKS = 1 << 20;

struct HalfShape {
  int64_t m, k, n, lda, ldb, ldc, batch, a_stride, b_stride, c_stride;
  bool a_trans, a_gathered, b_trans, b_gathered, accumulate;
};

/* ---- one sum of tensor cores -------------------------------------------------------------------
 */

/* Adds a b to sum: 16 x 16 by 16 x 8. Lane 4 g + t holds rows g and g + 8 of A and C, columns 2 t,
 * 2 t + 1, 2 t + 8 and 2 t + 9 of A, the same rows and column g of B, columns 2 t, 2 t + 1 of C. */
template <typename Element>
static __device__ __forceinline__ void multiply(float (&sum)[4], const uint32_t (&a)[4],
                                                const uint32_t (&b)[2]) {
#ifdef MMCI_EMULATE_CUDA
  enum { WARP = 32, WARPS = THREADS / WARP };
  static uint32_t left[WARPS][WARP][4], right[WARPS][WARP][2];
  const unsigned rank = mmci_emulation_rank(), warp = rank / WARP, lane = rank % WARP;
  for (int i = 0; i < 4; i++) left[warp][lane][i] = a[i];
  for (int i = 0; i < 2; i++) right[warp][lane][i] = b[i];
  __syncwarp();
  for (unsigned e = 0; e < 4; e++) {
    const unsigned g = lane / 4, col = 2 * (lane % 4) + e % 2;
    double all = sum[e];
    for (unsigned k = 0; k < STEP; k++) {
      const unsigned t = k % 8 / 2, high = k / 8, shift = 16 * (k % 2);
      const uint16_t x = (uint16_t)(left[warp][4 * g + t][2 * high + e / 2] >> shift),
                     y = (uint16_t)(right[warp][4 * col + t][high] >> shift);
      all += (double)Element::read(x, false) * (double)Element::read(y, false);
    }
    sum[e] = (float)all;
  }
  __syncwarp();
#else
  if constexpr (Element::IS_BF16)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

struct F16 : mmci_f16_element {
  static constexpr bool IS_BF16 = false;
};
struct Bf16 : mmci_bf16_element {
  static constexpr bool IS_BF16 = true;
};

/* ---- tiles -------------------------------------------------------------------------------------
 */

static __device__ __forceinline__ const uint16_t *matrix_of(const void *data, int64_t i,
                                                            int64_t stride, bool gathered) {
  return gathered ? static_cast<const uint16_t *const *>(data)[i]
                  : static_cast<const uint16_t *>(data) + i * stride;
}

/* Element e of those that a thread brings: neighbouring threads read neighbouring elements. */
static __device__ __forceinline__ void spot(int e, bool along_lines, int *line, int *depth) {
  const int at = (int)threadIdx.x + e * THREADS;
  *line = along_lines ? at % TILE : at / DEPTH;
  *depth = along_lines ? at / TILE : at % DEPTH;
}

static __device__ __forceinline__ void load(const uint16_t *from, int64_t step, int64_t next,
                                            int64_t lines, int64_t k, int64_t first, int64_t begin,
                                            uint16_t (&to)[EACH]) {
#pragma unroll
  for (int e = 0; e < EACH; e++) {
    int line, depth;
    spot(e, step == 1, &line, &depth);
    to[e] = first + line < lines && begin + depth < k
                ? from[(first + line) * step + (begin + depth) * next]
                : (uint16_t)0;
  }
}

static __device__ __forceinline__ void store(const uint16_t (&from)[EACH], bool along_lines,
                                             uint16_t (*tile)[LINE]) {
#pragma unroll
  for (int e = 0; e < EACH; e++) {
    int line, depth;
    spot(e, along_lines, &line, &depth);
    tile[line][depth] = from[e];
  }
}

/* Returns two neighbours along k. */
static __device__ __forceinline__ uint32_t pair(const uint16_t (*tile)[LINE], int line, int depth) {
  return *reinterpret_cast<const uint32_t *>(&tile[line][depth]);
}

template <typename Element>
__global__ void __launch_bounds__(THREADS)
    ordered_half(HalfShape s, const void *all_a, const void *all_b, uint16_t *all_c) {
  __shared__ __align__(16) uint16_t a_tile[TILE][LINE], b_tile[TILE][LINE];
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int top = warp / 2 * WARP_TILE, left = warp % 2 * WARP_TILE;
  const int64_t across = (s.n + TILE - 1) / TILE, tiles = (s.m + TILE - 1) / TILE * across;
  const int64_t a_step = s.a_trans ? 1 : s.lda, a_next = s.a_trans ? s.lda : 1;
  const int64_t b_step = s.b_trans ? s.ldb : 1, b_next = s.b_trans ? 1 : s.ldb;
  for (int64_t at = blockIdx.x; at < tiles * s.batch; at += gridDim.x) {
    const int64_t tile = at % tiles, i = at / tiles, first_row = tile / across * TILE,
                  first_col = tile % across * TILE;
    const uint16_t *a = matrix_of(all_a, i, s.a_stride, s.a_gathered),
                   *b = matrix_of(all_b, i, s.b_stride, s.b_gathered);
    uint16_t *c = all_c + i * s.c_stride;
    float sum[ROW_BLOCKS][COL_BLOCKS][4];
    uint16_t a_terms[EACH], b_terms[EACH];
#pragma unroll
    for (int p = 0; p < ROW_BLOCKS; p++)
#pragma unroll
      for (int q = 0; q < COL_BLOCKS; q++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          const int64_t row = first_row + top + 16 * p + g + 8 * (e / 2),
                        col = first_col + left + 8 * q + 2 * t + e % 2;
          sum[p][q][e] = s.accumulate && row < s.m && col < s.n
                             ? Element::read(c[row * s.ldc + col], false)
                             : 0.0f;
        }
    load(a, a_step, a_next, s.m, s.k, first_row, 0, a_terms);
    load(b, b_step, b_next, s.n, s.k, first_col, 0, b_terms);
    for (int64_t depth = 0; depth < s.k; depth += DEPTH) {
      store(a_terms, a_step == 1, a_tile);
      store(b_terms, b_step == 1, b_tile);
      __syncthreads();
      if (depth + DEPTH < s.k) {
        load(a, a_step, a_next, s.m, s.k, first_row, depth + DEPTH, a_terms);
        load(b, b_step, b_next, s.n, s.k, first_col, depth + DEPTH, b_terms);
      }
#pragma unroll
      for (int d = 0; d < DEPTH; d += STEP) {
#pragma unroll
        for (int p = 0; p < ROW_BLOCKS; p++) {
          const int row = top + 16 * p + g;
          const uint32_t x[4] = {pair(a_tile, row, d + 2 * t), pair(a_tile, row + 8, d + 2 * t),
                                 pair(a_tile, row, d + 2 * t + 8),
                                 pair(a_tile, row + 8, d + 2 * t + 8)};
#pragma unroll
          for (int q = 0; q < COL_BLOCKS; q++) {
            const int col = left + 8 * q + g;
            const uint32_t y[2] = {pair(b_tile, col, d + 2 * t), pair(b_tile, col, d + 2 * t + 8)};
            multiply<Element>(sum[p][q], x, y);
          }
        }
      }
      __syncthreads();
    }
#pragma unroll
    for (int p = 0; p < ROW_BLOCKS; p++)
#pragma unroll
      for (int q = 0; q < COL_BLOCKS; q++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          const int64_t row = first_row + top + 16 * p + g + 8 * (e / 2),
                        col = first_col + left + 8 * q + 2 * t + e % 2;
          if (row < s.m && col < s.n)
            c[row * s.ldc + col] = mmci_settled_half<Element>(Element::write(sum[p][q][e]));
        }
  }
}

extern "C" mmc_status mmci_cuda_ordered_half(cudaStream_t stream, const mmci_gemm *gemm,
                                             const void *a, const void *b, void *c,
                                             mmci_error *error) {
  const mmci_form &x = gemm->a, &y = gemm->b;
  const HalfShape s = {gemm->m,
                       gemm->k,
                       gemm->n,
                       x.ld,
                       y.ld,
                       gemm->ldc,
                       gemm->batch > 0 ? gemm->batch : 1,
                       x.stride,
                       y.stride,
                       gemm->c_stride,
                       x.trans,
                       x.gathered,
                       y.trans,
                       y.gathered,
                       gemm->accumulate};
  const int64_t tiles = (s.m + TILE - 1) / TILE * ((s.n + TILE - 1) / TILE) * s.batch;
  if (tiles == 0) return MMC_OK;
  const dim3 grid((unsigned)(tiles < MOST_BLOCKS ? tiles : MOST_BLOCKS));
  if (gemm->dtype == MMC_BF16)
    MMCI_CUDA_TRY(mmci_launch(ordered_half<Bf16>, grid, dim3(THREADS), 0, stream, s, a, b,
                              static_cast<uint16_t *>(c)));
  else
    MMCI_CUDA_TRY(mmci_launch(ordered_half<F16>, grid, dim3(THREADS), 0, stream, s, a, b,
                              static_cast<uint16_t *>(c)));
  return MMC_OK;
}

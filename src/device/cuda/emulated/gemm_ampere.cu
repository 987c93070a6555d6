/* gemm_ampere.cu: multiplies operands in two FP16 parts on the tensor cores of Ampere, as gemm.cu
 * does on Hopper's.
 *
 * Layout parts as emulated_kernels.h says; C row-major, any size, edges guarded
 * Launch a block of 256 threads for every 64 x 128 tile of C, warps of 32 x 32 elements
 * Traffic 6mkn flops; reads 4 bytes mk ceil(n/128) + kn ceil(m/64) times, mostly from L2
 * Idea lines of rows come to shared memory while the ones before are multiplied. The 16 bytes of a
 *         line lie there where the rows that lanes read at once meet all banks. Sums of hi hi'
 * leave the tensor cores after every line, those of hi lo' and lo hi' stay to the end. */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/emulated/emulated_kernels.h"
#include "device/cuda/emulated/left.cuh"
#include "device/cuda/emulated/parts.cuh"
#include "device/cuda/group/tensor_math.cuh"

enum {
  TILE_ROWS = 64,
  TILE_COLS = 128,
  THREADS = 256,
  WARPS_ACROSS = TILE_COLS / 32,
  LINES = TILE_ROWS + TILE_COLS, /* of a stage: rows of A, then columns of B */
  CHUNK_WORDS = 4,               /* words that are copied at once */
  CHUNKS = 8,                    /* of a line */
  LINE_WORDS = CHUNKS * CHUNK_WORDS,
  LO_CHUNK = CHUNKS / 2, /* where lo parts of a line begin */
  STAGES = 3,
  STAGE_WORDS = LINES * LINE_WORDS,
  DOWN = 2,   /* products of 16 x 8 of a warp, one below the other */
  ACROSS = 4, /* and side by side */
};

struct Product {
  mmci_emulated_operand a, b;
  mmci_left left;
  float *c;
  int64_t ldc, lines; /* of every row */
  int m, n;
  bool accumulate;
};

typedef float Sums[DOWN][ACROSS][4];

/* Copies line number `line` of the tile's rows and columns. Rows beyond an operand's padding are
 * others, of which nothing is written. */
static __device__ __forceinline__ void copy_lines(uint32_t *stage, const Product &p, int row,
                                                  int col, int64_t line) {
  for (int at = (int)threadIdx.x; at < LINES * CHUNKS; at += THREADS) {
    const int r = at / CHUNKS, chunk = at % CHUNKS;
    const mmci_emulated_operand &x = r < TILE_ROWS ? p.a : p.b;
    const int64_t last = (x.rows + MMCI_LINE_ROWS - 1) / MMCI_LINE_ROWS * MMCI_LINE_ROWS - 1;
    const int64_t wanted = r < TILE_ROWS ? row + r : col + r - TILE_ROWS;
    const int64_t of = wanted < last ? wanted : last;
    const uint32_t *from =
        x.parts +
        ((of / MMCI_LINE_ROWS * p.lines + line) * MMCI_LINE_ROWS + of % MMCI_LINE_ROWS) *
            LINE_WORDS +
        chunk * CHUNK_WORDS;
    mmci_copy_async(stage + r * LINE_WORDS + (chunk ^ r % CHUNKS) * CHUNK_WORDS, from);
  }
}

static __device__ __forceinline__ uint32_t word_of(const uint32_t *stage, int r, int chunk,
                                                   int word) {
  return stage[r * LINE_WORDS + (chunk ^ r % CHUNKS) * CHUNK_WORDS + word];
}

/* Loads 16 k's of a warp's rows, from this chunk on. */
static __device__ __forceinline__ void load_rows(uint32_t (&to)[DOWN][4], const uint32_t *stage,
                                                 int row, int chunk, int word) {
#pragma unroll
  for (int i = 0; i < DOWN; i++)
#pragma unroll
    for (int e = 0; e < 4; e++)
      to[i][e] = word_of(stage, row + 16 * i + 8 * (e % 2), chunk + e / 2, word);
}

static __device__ __forceinline__ void load_cols(uint32_t (&to)[ACROSS][2], const uint32_t *stage,
                                                 int col, int chunk, int word) {
#pragma unroll
  for (int j = 0; j < ACROSS; j++)
#pragma unroll
    for (int e = 0; e < 2; e++) to[j][e] = word_of(stage, col + 8 * j, chunk + e, word);
}

static __device__ __forceinline__ void multiply(Sums &sums, const uint32_t (&a)[DOWN][4],
                                                const uint32_t (&b)[ACROSS][2]) {
#pragma unroll
  for (int i = 0; i < DOWN; i++)
#pragma unroll
    for (int j = 0; j < ACROSS; j++)
      mmci_multiply_tiles<mmci_f16_element>(sums[i][j], a[i], b[j][0], b[j][1]);
}

/* Adds a line's products; row and col are the first of a lane among the stage's lines. */
static __device__ __forceinline__ void add_line(Sums &sum, Sums &lo, const uint32_t *stage, int row,
                                                int col, int word) {
  Sums run = {};
#pragma unroll
  for (int chunk = 0; chunk < LO_CHUNK; chunk += 2) {
    uint32_t a_hi[DOWN][4], b_hi[ACROSS][2], a_lo[DOWN][4], b_lo[ACROSS][2];
    load_rows(a_hi, stage, row, chunk, word);
    load_cols(b_hi, stage, col, chunk, word);
    multiply(run, a_hi, b_hi);
    load_cols(b_lo, stage, col, LO_CHUNK + chunk, word);
    multiply(lo, a_hi, b_lo);
    load_rows(a_lo, stage, row, LO_CHUNK + chunk, word);
    multiply(lo, a_lo, b_hi);
  }
#pragma unroll
  for (int i = 0; i < DOWN; i++)
#pragma unroll
    for (int j = 0; j < ACROSS; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) sum[i][j][e] += run[i][j][e];
}

static __device__ __forceinline__ void store(const Product &p, int row, int col, float sum) {
  if (row >= p.m || col >= p.n) return;
  const int down = p.a.row[row].exponent, across = p.b.row[col].exponent;
  if (down == MMCI_PARTS_LEFT || across == MMCI_PARTS_LEFT) return;
  const float value = mmci_parts_unscale(sum, down + across);
  float *to = p.c + row * p.ldc + col;
  *to = p.accumulate ? *to + value : value;
}

__global__ void __launch_bounds__(THREADS) emulated_gemm_ampere(Product p) {
  MMCI_DYNAMIC_SHARED(memory);
  uint32_t *stages = reinterpret_cast<uint32_t *>(memory);
  if (mmci_left_is_most(p.left, p.m, p.n)) return;
  const int row = (int)blockIdx.x * TILE_ROWS, col = (int)blockIdx.y * TILE_COLS;
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
  const int group = lane / 4, word = lane % 4, down = warp / WARPS_ACROSS * 32,
            across = warp % WARPS_ACROSS * 32;
  Sums sum = {}, lo = {};
  for (int64_t line = 0; line < STAGES - 1; line++) {
    if (line < p.lines) copy_lines(stages + line * STAGE_WORDS, p, row, col, line);
    mmci_copy_async_commit();
  }
  for (int64_t line = 0; line < p.lines; line++) {
    const int64_t ahead = line + STAGES - 1;
    mmci_copy_async_wait<STAGES - 2>();
    __syncthreads();
    if (ahead < p.lines) copy_lines(stages + ahead % STAGES * STAGE_WORDS, p, row, col, ahead);
    mmci_copy_async_commit();
    add_line(sum, lo, stages + line % STAGES * STAGE_WORDS, down + group,
             TILE_ROWS + across + group, word);
  }
#pragma unroll
  for (int i = 0; i < DOWN; i++)
#pragma unroll
    for (int j = 0; j < ACROSS; j++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        store(p, row + down + 16 * i + group + 8 * (e / 2), col + across + 8 * j + 2 * word + e % 2,
              fmaf(lo[i][j][e], 1.0f / (1 << MMCI_PARTS_LO_BITS), sum[i][j][e]));
}

extern "C" mmc_status mmci_emulated_multiply_ampere(cudaStream_t stream,
                                                    const mmci_emulated_product *product, float *c,
                                                    mmci_error *error) {
  const mmci_gemm *g = &product->gemm;
  const size_t bytes = STAGES * STAGE_WORDS * sizeof(uint32_t);
  const Product p = {product->a, product->b, mmci_left_of(product),
                     c,          g->ldc,     2 * product->a.blocks,
                     (int)g->m,  (int)g->n,  g->accumulate};
  const dim3 grid((unsigned)((g->m + TILE_ROWS - 1) / TILE_ROWS),
                  (unsigned)((g->n + TILE_COLS - 1) / TILE_COLS));
  MMCI_CUDA_TRY(cudaFuncSetAttribute(emulated_gemm_ampere,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
  MMCI_CUDA_TRY(mmci_launch(emulated_gemm_ampere, grid, dim3(THREADS), bytes, stream, p));
  return MMC_OK;
}

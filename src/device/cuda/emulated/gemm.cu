/* gemm.cu: multiplies operands in parts on Hopper's tensor cores. FP16 parts are multiplied a few
 * k's at a time and added up in FP32 outside of the tensor cores, where sums are rounded and not
 * truncated. Bytes are multiplied over all of k, because sums of integers are exact.
 *
 * Layout parts as emulated_kernels.h says; C row-major, any size, edges guarded
 * Launch as many clusters of two blocks as there is room for; 384 threads: one warpgroup copies,
 *         two multiply 64 rows each. The blocks of a cluster have tiles one below the other and
 *         share B
 * Traffic 6mkn flops; reads 4 bytes mk ceil(n/128) + kn ceil(m/256) times. For bytes 12mkn, 3 bytes
 * Idea hi hi', hi lo' and lo hi' come from the same tiles of 128 x 128; those with lo, which are of
 *         both signs and small, have sums of their own over all of k, and go on in the tensor cores
 *         while those of hi are added up. MMCI_INT8: three sums, of the products of digits that
 *         count as much as the first two, the first and the second, and the next. Tiles are taken
 *         in groups of 16 rows of tiles, so that operands stay in L2. */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/emulated/bytes.cuh"
#include "device/cuda/emulated/emulated_kernels.h"
#include "device/cuda/emulated/left.cuh"
#include "device/cuda/emulated/parts.cuh"
#include "device/cuda/emulated/wgmma.cuh"

enum {
  BLOCKS = MMCI_TILE_COLS / MMCI_BOX_COLS, /* blocks in a cluster */
  WARPGROUP = 128,
  THREADS = 3 * WARPGROUP,
  GROUP_ROWS = 16, /* rows of tiles that are worked on before the next ones */
  LO = 4,          /* a descriptor's step from hi to lo */
  HALF_LINE = 2,   /* a descriptor's step by 16 halves */
};

template <mmci_emulated_kind kind>
struct Tile;
template <>
struct Tile<MMCI_HALVES> {
  enum { COLS = MMCI_TILE_COLS, STAGES = 7, PIECES = 1, LINE_BYTES = 128 };
};
template <>
struct Tile<MMCI_INT8> {
  enum { COLS = MMCI_TILE_COLS, STAGES = 4, PIECES = MMCI_BYTES, LINE_BYTES = 64 };
};

template <mmci_emulated_kind kind>
struct Memory {
  enum {
    A_PIECE = MMCI_TILE_ROWS * Tile<kind>::LINE_BYTES,
    B_PIECE = Tile<kind>::COLS * Tile<kind>::LINE_BYTES,
    A = Tile<kind>::PIECES * A_PIECE,
    STAGE = A + Tile<kind>::PIECES * B_PIECE,
    BARRIERS = Tile<kind>::STAGES * STAGE,
    /* Units of the columns of two tiles for each warpgroup. */
    UNITS = BARRIERS + Tile<kind>::STAGES * 16,
    /* 1024 bytes to align with. */
    BYTES = UNITS + (kind == MMCI_INT8 ? 4 * Tile<kind>::COLS * 8 : 0) + 1024
  };
};

/* The argument of the kernel. */
struct Job {
  const mmci_emulated_row *a_rows, *b_rows;
  mmci_left left;
  mmci_rough rough;
  float *c;
  int64_t ldc;
  int m, n, lines;        /* a line of each row is a stage, or one of each digit */
  bool accumulate, pairs; /* pairs: two neighbours of C may be written as one */
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Counts through the stages of shared memory; phase is what the next wait is for. */
template <int STAGES>
struct Ring {
  int stage;
  uint32_t phase;
  __device__ __forceinline__ void next() {
    if (++stage == STAGES) {
      stage = 0;
      phase ^= 1;
    }
  }
};

template <mmci_emulated_kind kind>
struct Kernel {
  typedef Tile<kind> Shape;
  typedef Memory<kind> At;
  enum { SUMS = Shape::COLS / 2, STAGES = Shape::STAGES };

  const Job &job;
  unsigned char *aligned; /* the shared memory that begins at base */
  uint32_t base, rank;
  int down, across; /* tiles of clusters */

  __device__ __forceinline__ uint32_t full(int stage) const {
    return base + At::BARRIERS + 8 * stage;
  }
  __device__ __forceinline__ uint32_t empty(int stage) const { return full(stage) + 8 * STAGES; }

  /* Returns where tile t of this block begins. */
  __device__ __forceinline__ void place(int t, int &row, int &col) const {
    int group = t / (GROUP_ROWS / BLOCKS * across), first = group * (GROUP_ROWS / BLOCKS);
    int rows = min(down - first, GROUP_ROWS / BLOCKS);
    int within = t - first * across;
    row = ((first + within % rows) * BLOCKS + (int)rank) * MMCI_TILE_ROWS;
    col = within / rows * Shape::COLS;
  }

  __device__ __forceinline__ int first_tile() const { return (int)blockIdx.x / BLOCKS; }
  __device__ __forceinline__ int clusters() const { return (int)gridDim.x / BLOCKS; }

  /* ---- copying: one thread
   * ----------------------------------------------------------------------- */

  __device__ __forceinline__ void copy(const CUtensorMap *a, const CUtensorMap *b) const {
    Ring<STAGES> ring = {0, 1};
    for (int t = first_tile(); t < down * across; t += clusters()) {
      int row, col;
      place(t, row, col);
      for (int line = 0; line < job.lines; line++, ring.next()) {
        uint32_t to = base + ring.stage * At::STAGE, barrier = full(ring.stage);
        mmci_barrier_wait(empty(ring.stage), ring.phase);
        mmci_barrier_expect(barrier, At::STAGE);
        for (int p = 0; p < Shape::PIECES; p++) {
          const int from = line * Shape::PIECES + p;
          mmci_tensor_load(to + p * At::A_PIECE, a, barrier, from, row / MMCI_LINE_ROWS);
          mmci_tensor_load_all(to + At::A + p * At::B_PIECE + rank * (At::B_PIECE / BLOCKS), b,
                               barrier, from,
                               col / MMCI_LINE_ROWS + (int)rank * (MMCI_BOX_COLS / MMCI_LINE_ROWS),
                               (1 << BLOCKS) - 1);
        }
      }
    }
    /* Waits until nobody will arrive at this block's barriers any more. */
    for (int s = 0; s < STAGES; s++, ring.next()) mmci_barrier_wait(empty(ring.stage), ring.phase);
  }

  /* ---- multiplying: two warpgroups
   * --------------------------------------------------------------- */

  /* A stage may be overwritten, by either block, when both are done with it. */
  __device__ __forceinline__ void release(int stage) const {
    uint32_t lane = threadIdx.x % 32;
    if (lane < BLOCKS) mmci_barrier_arrive(empty(stage), lane);
  }

  __device__ __forceinline__ uint64_t a_at(int stage, int half) const {
    return mmci_matrix_at(base + stage * At::STAGE + half * (At::A_PIECE / 2));
  }
  __device__ __forceinline__ uint64_t b_at(int stage) const {
    return mmci_matrix_at(base + stage * At::STAGE + At::A);
  }

  static __device__ __forceinline__ void lo_products(float (&d)[SUMS], uint64_t a, uint64_t b,
                                                     int keep) {
    mmci_half_products_add(d, a, b + LO, keep);
    mmci_half_products_add(d, a + HALF_LINE, b + LO + HALF_LINE, 1);
    mmci_half_products_add(d, a + LO, b, 1);
    mmci_half_products_add(d, a + LO + HALF_LINE, b + HALF_LINE, 1);
  }
  static __device__ __forceinline__ void hi_products(float (&d)[SUMS], uint64_t a, uint64_t b) {
    mmci_half_products_add(d, a, b, 0);
    mmci_half_products_add(d, a + HALF_LINE, b + HALF_LINE, 1);
  }

  /* Sums of hi leave the tensor cores, which truncate, after every line; meanwhile those go on with
   * products of lo. */
  __device__ __forceinline__ void add_halves(Ring<STAGES> &ring, int half,
                                             float (&sum)[SUMS]) const {
    static_assert(MMCI_PARTS_RUN == 32, "a line is a run");
    float run[SUMS], lo[SUMS];
    int before = 0;
    for (int line = 0; line < job.lines; line++) {
      const uint64_t a = a_at(ring.stage, half), b = b_at(ring.stage);
      mmci_barrier_wait(full(ring.stage), ring.phase);
      mmci_products_begin();
      hi_products(run, a, b);
      mmci_products_commit();
      lo_products(lo, a, b, line > 0);
      mmci_products_commit();
      mmci_products_wait<1>();
      mmci_pin(run);
      if (line > 0) release(before);
      before = ring.stage;
      ring.next();
#pragma unroll
      for (int i = 0; i < SUMS; i++) sum[i] += run[i];
    }
    mmci_products_wait<0>();
    mmci_pin(lo);
    release(before);
#pragma unroll
    for (int i = 0; i < SUMS; i++) sum[i] = fmaf(lo[i], 1.0f / (1 << MMCI_PARTS_LO_BITS), sum[i]);
  }

  /* Multiplies digits 0 and 0; 0 and 1; 1 and 1, 0 and 2. Others are left out. */
  static __device__ __forceinline__ void byte_products(int (&d0)[SUMS], int (&d1)[SUMS],
                                                       int (&d2)[SUMS], uint64_t a, uint64_t b,
                                                       int keep) {
    const int a_on = At::A_PIECE >> 4, b_on = At::B_PIECE >> 4;
    add_bytes(d2, a, b + 2 * b_on, keep);
    add_bytes(d2, a + 2 * a_on, b, 1);
    add_bytes(d2, a + a_on, b + b_on, 1);
    add_bytes(d1, a, b + b_on, keep);
    add_bytes(d1, a + a_on, b, 1);
    add_bytes(d0, a, b, keep);
  }
  /* Adds a line, which is two products long. */
  static __device__ __forceinline__ void add_bytes(int (&d)[SUMS], uint64_t a, uint64_t b,
                                                   int keep) {
    mmci_byte_products_add(d, a, b, keep);
    mmci_byte_products_add(d, a + 2, b + 2, 1);
  }

  __device__ __forceinline__ double *units(int half, int tile) const {
    return reinterpret_cast<double *>(aligned + At::UNITS) + (2 * half + tile % 2) * Shape::COLS;
  }

  /* Computes a tile by bytes, and its part of C; row and col are the tile's. */
  __device__ __forceinline__ void multiply_bytes(Ring<STAGES> &ring, int half, int tile, int row,
                                                 int col) const {
    int d0[SUMS], d1[SUMS], d2[SUMS], before = 0;
    const int thread = (int)threadIdx.x % WARPGROUP;
    const double unit = col + thread < job.n ? job.b_rows[col + thread].unit : 0;
    for (int line = 0; line < job.lines; line++) {
      const uint32_t at = base + ring.stage * At::STAGE;
      mmci_barrier_wait(full(ring.stage), ring.phase);
      mmci_products_begin();
      byte_products(d0, d1, d2, mmci_byte_matrix_at(at + half * (At::A_PIECE / 2)),
                    mmci_byte_matrix_at(at + At::A), line > 0);
      mmci_products_commit();
      mmci_products_wait<1>();
      if (line > 0) release(before);
      before = ring.stage;
      ring.next();
    }
    units(half, tile)[thread] = unit;
    mmci_warpgroup_sync(1 + half);
    row += 64 * half + thread / 4 % 8 + 16 * (thread / 32);
    /* The last of the sums has products of 2^16. */
    const double above = row < job.m ? 0x1p16 * job.a_rows[row].unit : 0,
                 below = row + 8 < job.m ? 0x1p16 * job.a_rows[row + 8].unit : 0;
    mmci_products_wait<0>();
    mmci_pin(d0);
    mmci_pin(d1);
    mmci_pin(d2);
    release(before);
#pragma unroll
    for (int j = 0; j < SUMS / 4; j++) {
      const int at = 8 * j + 2 * (thread % 4), i = 4 * j;
      const double left = units(half, tile)[at], right = units(half, tile)[at + 1];
      store_pair(row, col + at, byte_sum(d0[i], d1[i], d2[i]) * above * left,
                 byte_sum(d0[i + 1], d1[i + 1], d2[i + 1]) * above * right);
      store_pair(row + 8, col + at, byte_sum(d0[i + 2], d1[i + 2], d2[i + 2]) * below * left,
                 byte_sum(d0[i + 3], d1[i + 3], d2[i + 3]) * below * right);
    }
  }

  /* Returns a sum that is below 2^47 in magnitude as a double, by its bits: added to 2^52 + 2^51 it
   * is in the last ones. Conversions would be slow. */
  static __device__ __forceinline__ double byte_sum(int d0, int d1, int d2) {
    const long long sum = ((long long)d0 << 16) + ((long long)d1 << 8) + d2;
    return __longlong_as_double(sum + 0x4338000000000000ll) - 0x1.8p52;
  }

  __device__ __forceinline__ void store_pair(int row, int col, double left, double right) const {
    if (row >= job.m || col >= job.n) return;
    float *to = job.c + row * job.ldc + col;
    if (job.pairs && !job.accumulate && col + 1 < job.n) {
      *reinterpret_cast<float2 *>(to) = {(float)left, (float)right};
      return;
    }
    to[0] = (float)(job.accumulate ? (double)to[0] + left : left);
    if (col + 1 < job.n) to[1] = (float)(job.accumulate ? (double)to[1] + right : right);
  }

  __device__ __forceinline__ void store_one(float *to, float sum, int exponent,
                                            int col_exponent) const {
    if (col_exponent == MMCI_PARTS_LEFT) return;
    float value = mmci_parts_unscale(sum, exponent + col_exponent);
    *to = job.accumulate ? *to + value : value;
  }

  /* Sums 4j and 4j + 1 are neighbours in `row`, and so are the next two eight rows below. */
  __device__ __forceinline__ void store_row(int row, int col, const float (&sum)[SUMS],
                                            int below) const {
    if (row >= job.m) return;
    const int exponent = job.a_rows[row].exponent;
    if (exponent == MMCI_PARTS_LEFT) return;
    float *line = job.c + row * job.ldc;
#pragma unroll
    for (int j = 0; j < SUMS / 4; j++) {
      const int at = col + 8 * j;
      if (at >= job.n) continue;
      const float x = sum[4 * j + 2 * below], y = sum[4 * j + 2 * below + 1];
      const int left = job.b_rows[at].exponent;
      const int right = at + 1 < job.n ? job.b_rows[at + 1].exponent : MMCI_PARTS_LEFT;
      if (job.pairs && !job.accumulate && left != MMCI_PARTS_LEFT && right != MMCI_PARTS_LEFT) {
        *reinterpret_cast<float2 *>(line + at) = {mmci_parts_unscale(x, exponent + left),
                                                  mmci_parts_unscale(y, exponent + right)};
      } else {
        store_one(line + at, x, exponent, left);
        store_one(line + at + 1, y, exponent, right);
      }
    }
  }

  /* Computes a tile by FP16 parts, and its part of C; row and col are the tile's. */
  __device__ __forceinline__ void multiply_halves(Ring<STAGES> &ring, int half, int row,
                                                  int col) const {
    const int thread = (int)threadIdx.x % WARPGROUP;
    float sum[SUMS];
#pragma unroll
    for (int i = 0; i < SUMS; i++) sum[i] = 0;
    add_halves(ring, half, sum);
    row += 64 * half + thread / 4 % 8 + 16 * (thread / 32);
    col += 2 * (thread % 4);
    store_row(row, col, sum, 0);
    store_row(row + 8, col, sum, 1);
  }

  __device__ __forceinline__ void multiply() const {
    const int half = (int)threadIdx.x / WARPGROUP - 1;
    Ring<STAGES> ring = {0, 0};
    int turn = 0;
    for (int t = first_tile(); t < down * across; t += clusters()) {
      int row, col;
      place(t, row, col);
      if constexpr (kind == MMCI_INT8)
        multiply_bytes(ring, half, turn++, row, col);
      else
        multiply_halves(ring, half, row, col);
    }
  }
};

#endif

template <mmci_emulated_kind kind>
__global__ void __launch_bounds__(THREADS, 1)
    emulated_gemm(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                  const __grid_constant__ Job job) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if (mmci_bytes_are_enough(job.rough) != (kind == MMCI_INT8)) return;
  if (kind != MMCI_INT8 && mmci_left_is_most(job.left, job.m, job.n)) return;
  MMCI_DYNAMIC_SHARED(memory);
  const uint32_t begins = mmci_shared_address(memory), base = (begins + 1023) & ~1023u;
  Kernel<kind> kernel = {job,
                         memory + (base - begins),
                         base,
                         mmci_cluster_rank(),
                         (job.m + BLOCKS * MMCI_TILE_ROWS - 1) / (BLOCKS * MMCI_TILE_ROWS),
                         (job.n + Tile<kind>::COLS - 1) / Tile<kind>::COLS};
  mmci_ring_open(kernel.full(0), Tile<kind>::STAGES, BLOCKS);
  mmci_copy_and_multiply(kernel, &a, &b);
#endif
}

/* ---- launching ---------------------------------------------------------------------------------
 */

template <mmci_emulated_kind kind>
static mmc_status launch_gemm(cudaStream_t stream, const Job &job, const CUtensorMap *a,
                              const CUtensorMap *b, int multiprocessors, mmci_error *error) {
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = BLOCKS;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  int tiles = (job.m + BLOCKS * MMCI_TILE_ROWS - 1) / (BLOCKS * MMCI_TILE_ROWS) *
              ((job.n + Tile<kind>::COLS - 1) / Tile<kind>::COLS);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3((unsigned)(BLOCKS * min(tiles, multiprocessors / BLOCKS)));
  config.blockDim = dim3(THREADS);
  config.dynamicSmemBytes = Memory<kind>::BYTES;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  MMCI_CUDA_TRY(cudaFuncSetAttribute(
      emulated_gemm<kind>, cudaFuncAttributeMaxDynamicSharedMemorySize, Memory<kind>::BYTES));
  MMCI_CUDA_TRY(cudaLaunchKernelEx(&config, emulated_gemm<kind>, *a, *b, job));
  return MMC_OK;
}

extern "C" mmc_status mmci_emulated_multiply(cudaStream_t stream,
                                             const mmci_emulated_product *product,
                                             mmci_emulated_kind kind, const CUtensorMap *a,
                                             const CUtensorMap *b, int multiprocessors, float *c,
                                             mmci_error *error) {
  const mmci_gemm *g = &product->gemm;
  const Job job = {product->a.row,
                   product->b.row,
                   mmci_left_of(product),
                   mmci_rough_of(product),
                   c,
                   g->ldc,
                   (int)g->m,
                   (int)g->n,
                   (int)product->a.blocks * (kind == MMCI_INT8 ? 1 : 2),
                   g->accumulate,
                   g->ldc % 2 == 0 && reinterpret_cast<uintptr_t>(c) % sizeof(float2) == 0};
  return kind == MMCI_INT8 ? launch_gemm<MMCI_INT8>(stream, job, a, b, multiprocessors, error)
                           : launch_gemm<MMCI_HALVES>(stream, job, a, b, multiprocessors, error);
}

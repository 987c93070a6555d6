/* large_tile_tma.cu: C = A B in FP32 by large tiles, for chips with TMA and clusters (sm_90a).
 *
 * Layout   A as k lines of m elements, B as k lines of n; a tensor map each, which fills with zeros
 *          past the edges; C row-major, any ldc
 * Launch   one block of 256 threads a multiprocessor, in clusters of CM x CN, which stay for all
 *          their tiles; a block keeps a tile of WM 16 GM x WN 32 GN elements in registers
 * Idea     Traffic falls with the tile's sides, and a cluster's blocks share what they load by
 *          multicast: a cluster is one tile. Loads run stages ahead through mbarriers, across the
 *          ends of tiles. */
#include <cuda.h>

#include "device/cuda/product/large_tile.cuh"

/* ---- barriers, clusters and TMA ----------------------------------------------------------------
 */

/* Multicast is compiled only for this architecture; elsewhere kernels are empty and take no memory,
 * by which large_tile.c recognises them. */
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define MMCI_LARGE_TILE_TMA 1
#else
#define MMCI_LARGE_TILE_TMA 0
#endif

#if MMCI_LARGE_TILE_TMA

static __device__ __forceinline__ unsigned shared_address(const void *p) {
  return (unsigned)__cvta_generic_to_shared(p);
}

static __device__ __forceinline__ void barrier_init(unsigned barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

static __device__ __forceinline__ void barrier_expect(unsigned barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

static __device__ __forceinline__ void barrier_wait(unsigned barrier, int parity) {
  asm volatile(
      "{\n.reg .pred p;\nagain: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@p bra done;\nbra again;\ndone:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/* Arrives at the same barrier of another block of the cluster. Only reads of ours come before
 * it. */
static __device__ __forceinline__ void barrier_arrive_at(unsigned barrier, int block) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier),
      "r"(block)
      : "memory");
}

static __device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}

static __device__ __forceinline__ int cluster_rank() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/* Copies a box of the matrix to the same place in every block of mask. */
template <bool MULTICAST>
static __device__ __forceinline__ void load_box(unsigned to, const CUtensorMap *map, int x, int y,
                                                unsigned barrier, int mask) {
  if (MULTICAST)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
        "l"(map), "r"(x), "r"(y), "r"(barrier), "h"((short)mask)
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
        "l"(map), "r"(x), "r"(y), "r"(barrier)
        : "memory");
}

#endif

/* ---- the kernel
 * ---------------------------------------------------------------------------------- */

/* State of the loading thread; it is in shared memory, because registers are the same for all
 * threads. */
struct Loader {
  int item, x, y, line, left; /* left: steps of the item */
  int stage, parity;
};

template <int GM_, int GN_, int WM_, int WN_, int BK_, int STAGES_, int CM_, int CN_, int UNROLL_>
struct Shape {
  enum {
    GM = GM_,
    GN = GN_,
    WM = WM_,
    WN = WN_,
    BK = BK_,
    STAGES = STAGES_,
    CM = CM_,
    CN = CN_,
    UNROLL = UNROLL_, /* lines; ptxas makes the fewest conflicts with so many */
    THREADS = 32 * WM * WN,
    BM = WM * LargeTileF32<GM, GN>::ROWS,
    BN = WN * LargeTileF32<GM, GN>::COLS,
    STAGE_BYTES = BK * (BM + BN) * 4,
    SHARED_BYTES = STAGES * STAGE_BYTES + THREADS * LargeTileF32<GM, GN>::STAGED_BYTES
  };
};

#if MMCI_LARGE_TILE_TMA

/* Issues one step of loads, when there is one left. The A of a block is that of its row of the
 * cluster, and every block of the row loads a part of it for all; B is shared by columns in the
 * same manner. */
template <typename S>
static __device__ __forceinline__ void load_step(const mmci_large_tile_work &work, Loader *loader,
                                                 const CUtensorMap *a, const CUtensorMap *b,
                                                 unsigned stages, unsigned full, unsigned empty) {
  const int rank = cluster_rank(), cm = rank % S::CM, cn = rank / S::CM;
  if (loader->left == 0) {
    LargeTileItem item;
    if (!large_tile_item(work, (int)blockIdx.x / (S::CM * S::CN), loader->item, &item)) return;
    loader->item++;
    loader->x = (item.row * S::CM + cm) * S::BM;
    loader->y = (item.col * S::CN + cn) * S::BN;
    loader->line = item.first * S::BK;
    loader->left = item.count;
  }
  int mask_a = 0, mask_b = 0;
#pragma unroll
  for (int q = 0; q < S::CN; q++) mask_a |= 1 << (cm + S::CM * q);
#pragma unroll
  for (int q = 0; q < S::CM; q++) mask_b |= 1 << (cn * S::CM + q);
  const int stage = loader->stage, line = loader->line;
  const unsigned at = stages + stage * S::STAGE_BYTES;
  barrier_wait(empty + 8 * stage, loader->parity ^ 1);
  barrier_expect(full + 8 * stage, S::STAGE_BYTES);
  const int a_line = cn * (S::BK / S::CN), b_line = cm * (S::BK / S::CM);
  load_box<(S::CN > 1)>(at + a_line * S::BM * 4, a, loader->x, line + a_line, full + 8 * stage,
                        mask_a);
  load_box<(S::CM > 1)>(at + (S::BK * S::BM + b_line * S::BN) * 4, b, loader->y, line + b_line,
                        full + 8 * stage, mask_b);
  loader->line = line + S::BK;
  loader->left--;
  loader->stage = stage + 1 == S::STAGES ? 0 : stage + 1;
  loader->parity ^= stage + 1 == S::STAGES;
}

/* Returns where this block's part of an item goes. */
template <typename S>
static __device__ __forceinline__ void leave_item(const mmci_large_tile_result &c,
                                                  const LargeTileItem &item,
                                                  LargeTileF32<S::GM, S::GN> &tile, int row,
                                                  int col, unsigned staged) {
  const int rank = cluster_rank();
  if (item.is_partial) {
    float *slot = (float *)c.slots + (int64_t)blockIdx.x * S::BM * S::BN;
    tile.leave(slot + row * S::BN + col, S::BN, S::BM - row, S::BN - col, true, false, staged,
               S::THREADS);
    return;
  }
  const int64_t r = (int64_t)(item.row * S::CM + rank % S::CM) * S::BM + row;
  const int64_t q = (int64_t)(item.col * S::CN + rank / S::CM) * S::BN + col;
  tile.leave((float *)c.c + r * c.ldc + q, c.ldc, c.m - r, c.n - q, c.vectors, c.accumulate, staged,
             S::THREADS);
}

#endif

template <typename S>
__global__ void __launch_bounds__(S::THREADS, 1)
    large_tile_f32_tma(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                       const __grid_constant__ mmci_large_tile_work work,
                       const __grid_constant__ mmci_large_tile_result c) {
#if MMCI_LARGE_TILE_TMA
  extern __shared__ __align__(1024) unsigned char stages[];
  __shared__ __align__(8) uint64_t barriers[2 * S::STAGES];
  __shared__ Loader loader;
  const int thread = (int)threadIdx.x, warp = thread / 32, lane = thread % 32;
  const unsigned full = shared_address(barriers), empty = full + 8 * S::STAGES;
  if (thread == 0) {
    for (int s = 0; s < S::STAGES; s++) {
      barrier_init(full + 8 * s, 1);
      barrier_init(empty + 8 * s, S::WM * S::WN * (S::CM + S::CN - 1));
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    loader = Loader{};
  }
  __syncthreads();
  cluster_sync();
  /* Two stages are kept back, so that the loading thread seldom waits for the other warps. */
  if (thread == 0)
    for (int s = 0; s < S::STAGES - 2; s++)
      load_step<S>(work, &loader, &a, &b, shared_address(stages), full, empty);
  __syncwarp();

  LargeTileF32<S::GM, S::GN> tile;
  /* This lane tells one block that its loads were read: blocks of our row, then of our column. */
  const int rank = cluster_rank(), cm = rank % S::CM, cn = rank / S::CM;
  const int other = lane - S::CN < cm ? lane - S::CN : lane - S::CN + 1;
  const int source = lane < S::CN ? cm + S::CM * lane : cn * S::CM + other;
  const int row = warp % S::WM * tile.ROWS + tile.row_of_lane(lane);
  const int col = warp / S::WM * tile.COLS + tile.col_of_lane(lane);
  int stage = 0, parity = 0;
  LargeTileItem item;
#pragma unroll 1
  for (int i = 0; large_tile_item(work, (int)blockIdx.x / (S::CM * S::CN), i, &item); i++) {
    tile.clear();
#pragma unroll 1
    for (int left = item.count; left > 0; left--) {
      if (thread == 0) load_step<S>(work, &loader, &a, &b, shared_address(stages), full, empty);
      __syncwarp();
      barrier_wait(full + 8 * stage, parity);
      const float *a_line = (const float *)(stages + stage * S::STAGE_BYTES) + row;
      const float *b_line = (const float *)(stages + stage * S::STAGE_BYTES) + S::BK * S::BM + col;
      tile.template step<S::BK, S::UNROLL, S::BM, S::BN>(a_line, b_line);
      __syncwarp();
      if (lane < S::CM + S::CN - 1) barrier_arrive_at(empty + 8 * stage, source);
      parity ^= stage + 1 == S::STAGES;
      stage = stage + 1 == S::STAGES ? 0 : stage + 1;
    }
    leave_item<S>(c, item, tile, row, col,
                  shared_address(stages) + S::STAGES * S::STAGE_BYTES + thread * 16);
  }
  /* Blocks of the cluster may still arrive at barriers here. */
  cluster_sync();
#endif
}

/* ---- the table
 * ----------------------------------------------------------------------------------- */

template <typename S>
static mmci_large_tile_kernel kernel_of() {
  return {(const void *)large_tile_f32_tma<S>,
          S::BM,
          S::BN,
          S::CM,
          S::CN,
          S::BK,
          S::THREADS,
          S::SHARED_BYTES,
          true};
}

const mmci_large_tile_kernel mmci_large_tile_f32_tma[] = {
    kernel_of<Shape<4, 3, 4, 2, 32, 3, 1, 2, 4>>(), kernel_of<Shape<3, 4, 4, 2, 32, 3, 2, 1, 2>>(),
    kernel_of<Shape<4, 2, 4, 2, 32, 4, 1, 2, 2>>(), kernel_of<Shape<2, 2, 4, 2, 32, 4, 1, 2, 2>>(),
    kernel_of<Shape<4, 3, 4, 2, 32, 3, 2, 1, 2>>(), kernel_of<Shape<3, 4, 4, 2, 32, 3, 1, 2, 2>>(),
    kernel_of<Shape<4, 3, 4, 2, 32, 3, 2, 2, 4>>(), kernel_of<Shape<4, 3, 4, 2, 32, 3, 2, 4, 4>>(),
};

/* single.cu: chains of a few small factors, f32 or f64, in any order, by a block each.
 *
 * Layout  matrices in the arena have rows of an odd number of 16-byte words and zeros up to
 *         multiples of four both ways, so products have no guards
 * Idea    time goes by the length of the path of instructions and by what is not in a cache yet:
 *         of the parameters, a cold constant bank, each warp reads its own load alone; the list of
 *         products is copied to shared memory while the operands are on their way, all at once.
 *         Products that wait for none of each other are done side by side, by some warps each.
 *         One chain takes no longer for batches: the first block does not look at strides */
#include "device/cuda/group/group_kernels.cuh"

enum { WARP = 32, THREADS = MMCI_SINGLE_WARPS * WARP };

static __device__ __forceinline__ uint32_t quotient(uint32_t x, uint32_t magic) {
  return magic != 0 ? __umulhi(x, magic) : x;
}

template <typename Real>
struct alignas(16) Four {
  Real v[4];
};

/* Loads what the warp has of a chain, whose operand is so many elements from the first chain's. */
template <typename Real>
static __device__ __forceinline__ void load_part(const mmci_single_load &l, int64_t offset,
                                                 Real *arena, int lane) {
  constexpr uint32_t per_word = 16 / (uint32_t)sizeof(Real);
  const Real *from = static_cast<const Real *>(l.data) + offset;
  Real *to = arena + l.at;
  const uint32_t magic = l.magic, across = l.across, pitch = l.pitch, rows = l.rows, cols = l.cols,
                 end = l.end;
  const int64_t ld = l.ld;
  if (l.wide) {
    for (uint32_t x = l.begin + (uint32_t)lane * per_word; x < end; x += WARP * per_word) {
      const uint32_t row = quotient(x, magic), col = x - row * across;
      const bool there = row < rows && col < cols;
      mmci_copy_async_or_zero<16>(to + row * pitch + col, there ? from + row * ld + col : from,
                                  there);
    }
    return;
  }
#pragma unroll 2
  for (uint32_t x = l.begin + (uint32_t)lane; x < end; x += WARP) {
    const uint32_t row = quotient(x, magic), col = x - row * across;
    const bool there = row < rows && col < cols;
    mmci_copy_async_or_zero<(int)sizeof(Real)>(to + row * pitch + col,
                                               there ? from + row * ld + col : from, there);
  }
}

/* Describes a tile of 1 x 4 and the lanes that share its sum over k. */
struct Tile {
  uint32_t work, row, col, a, b;
};

static __device__ __forceinline__ Tile tile_of(const mmci_single_product &p, uint32_t work) {
  const uint32_t tile = work < p.work ? work >> p.split : 0, row = quotient(tile, p.magic),
                 col = (tile - row * p.tiles_across) * 4;
  return {work, row, col, p.a + row * p.a_pitch, p.b + col};
}

/* Calls put(row, col, sums) in the first of a tile's lanes. */
template <typename Real, typename Put>
static __device__ __forceinline__ void multiply_product(const mmci_single_product &p,
                                                        const Real *arena, Tile tile, Put put) {
  const uint32_t lanes = 1u << p.split, first = tile.work & (lanes - 1);
#pragma unroll 1
  for (; (tile.work & ~(WARP - 1u)) < p.work; tile = tile_of(p, tile.work + p.threads)) {
    const Real *a = arena + tile.a, *b = arena + tile.b;
    Four<Real> sums = {};
#pragma unroll 2
    for (uint32_t k = first; k < p.k4; k += lanes) {
      const Four<Real> left = *reinterpret_cast<const Four<Real> *>(a + 4 * k);
      Four<Real> right[4];
#pragma unroll
      for (int d = 0; d < 4; d++)
        right[d] = *reinterpret_cast<const Four<Real> *>(b + (4 * k + d) * p.b_pitch);
#pragma unroll
      for (int d = 0; d < 4; d++)
#pragma unroll
        for (int q = 0; q < 4; q++) sums.v[q] += left.v[d] * right[d].v[q];
    }
    for (int distance = (int)lanes / 2; distance > 0; distance /= 2)
#pragma unroll
      for (int q = 0; q < 4; q++) sums.v[q] += __shfl_xor_sync(~0u, sums.v[q], distance);
    if (tile.work < p.work && first == 0) put(tile.row, tile.col, sums);
  }
}

template <typename Real>
__global__ void __launch_bounds__(THREADS)
    multiply_single(const __grid_constant__ mmci_single alone) {
  MMCI_DYNAMIC_SHARED(memory);
  __shared__ mmci_single_product list[MMCI_SINGLE_PRODUCTS];
  __shared__ uint8_t turns[MMCI_SINGLE_PRODUCTS * MMCI_SINGLE_WARPS];
  Real *arena = reinterpret_cast<Real *>(memory);
  const int thread = (int)threadIdx.x, warp = thread / WARP,
            words = (int)(sizeof *list / sizeof(uint32_t));
  const int64_t chain = blockIdx.x;
  mmci_follow_previous();
  const int64_t offset = chain != 0 ? chain * alone.strides[alone.loads[warp].operand] : 0;
  load_part(alone.loads[warp], offset, arena, thread % WARP);
  mmci_copy_async_commit();
  if (thread < alone.count * words)
    reinterpret_cast<uint32_t *>(list)[thread] =
        reinterpret_cast<const uint32_t *>(alone.products)[thread];
  if (thread < (int)sizeof turns) turns[thread] = (&alone.turns[0][0])[thread];
  Real *c = static_cast<Real *>(alone.c) + (chain != 0 ? chain * alone.c_stride : 0);
  const int64_t ldc = alone.ldc;
  const int last = alone.count - 1, rounds = alone.rounds;
  __syncthreads();
  int product = turns[warp];
  mmci_single_product p = list[product];
  Tile tile = tile_of(p, (uint32_t)thread - p.first);
  mmci_copy_async_wait<0>();
  __syncthreads();
#pragma unroll 1
  for (int r = 1;; r++) {
    /* The next product is found out meanwhile. */
    const int next = turns[(r < rounds ? r : 0) * MMCI_SINGLE_WARPS + warp];
    const mmci_single_product following = list[next];
    const Tile first = tile_of(following, (uint32_t)thread - following.first);
    multiply_product(p, arena, tile, [&](uint32_t row, uint32_t col, Four<Real> v) {
      if (product < last) {
        /* Beyond m x n there must be zeros, although infinity times zero is NaN. */
#pragma unroll
        for (uint32_t q = 0; q < 4; q++)
          if (row >= p.m || col + q >= p.n) v.v[q] = 0;
        *reinterpret_cast<Four<Real> *>(arena + p.to + row * p.to_pitch + col) = v;
      } else if (row < p.m) {
        Real *at = c + row * ldc + col;
#pragma unroll
        for (uint32_t q = 0; q < 4; q++)
          if (col + q < p.n) at[q] = v.v[q];
      }
    });
    if (r == rounds) return;
    __syncthreads();
    product = next;
    p = following;
    tile = first;
  }
}

/* ---- on the host ----------------------------------------------------------------------------- */

template <typename Real>
static mmc_status allow_arena(const mmci_single *alone, mmci_error *error) {
  /* The limit is raised above any before, so that kernels prepared earlier still fit. */
  cudaFuncAttributes facts;
  MMCI_CUDA_TRY(cudaFuncGetAttributes(&facts, multiply_single<Real>));
  if ((int)alone->arena_bytes > facts.maxDynamicSharedSizeBytes)
    MMCI_CUDA_TRY(cudaFuncSetAttribute(multiply_single<Real>,
                                       cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       (int)alone->arena_bytes));
  return MMC_OK;
}

template <typename Real>
static mmc_status launch_single(cudaStream_t stream, bool overlap, const mmci_single *alone,
                                mmci_error *error) {
  MMCI_CUDA_TRY(mmci_launch_overlapped(multiply_single<Real>, overlap, dim3((unsigned)alone->batch),
                                       dim3(THREADS), alone->arena_bytes, stream, *alone));
  return MMC_OK;
}

extern "C" mmc_status mmci_single_prepare(mmc_dtype dtype, const mmci_single *alone,
                                          mmci_error *error) {
  return dtype == MMC_F64 ? allow_arena<double>(alone, error) : allow_arena<float>(alone, error);
}

extern "C" mmc_status mmci_single_launch(cudaStream_t stream, const mmci_group_limits *limits,
                                         mmc_dtype dtype, const mmci_single *alone,
                                         mmci_error *error) {
  return dtype == MMC_F64 ? launch_single<double>(stream, limits->overlap, alone, error)
                          : launch_single<float>(stream, limits->overlap, alone, error);
}

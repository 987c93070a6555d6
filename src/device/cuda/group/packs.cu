/* packs.cu: computes many small chains of any shapes, forms and order. A warp takes several chains,
 * and so many lanes share one; operands are copied to shared memory as they lie in device memory,
 * and results go back in one piece.
 *
 * Layout a chain's matrices follow each other; lanes read different banks at once (packs.c)
 * Launch a 1-D grid of the batch; warps know nothing of each other
 * Traffic each operand read once, the result written once, by neighbouring lanes
 * Idea   over general.cu: no lane is idle because a chain is smaller than a warp, and no sum is
 *        padded. Sums are reproducible ones */
#include "device/cuda/group/group_kernels.cuh"

#include "device/cuda/elements.cuh"

enum { WARP = 32, BLOCK_THREADS = 128 };

static __device__ __forceinline__ uint32_t quotient(uint32_t x, uint32_t magic) {
  return magic != 0 ? __umulhi(x, magic) : x;
}

/* ---- loads and stores ------------------------------------------------------------------------ */

/* Copies one element; asynchronously where nothing is converted. */
template <typename Element>
static __device__ __forceinline__ void load_one(typename Element::Sum *to,
                                                const typename Element::Stored *from, bool conj) {
  typedef typename Element::Stored Stored;
  constexpr int bytes = (int)sizeof(Stored),
                real_bytes = bytes > alignof(Stored) ? bytes / 2 : bytes;
  if (bytes == 2 || conj) {
    *to = Element::read(*from, conj);
  } else if constexpr (bytes > 2) {
    for (int at = 0; at < bytes; at += real_bytes)
      mmci_copy_async_or_zero<real_bytes>(reinterpret_cast<char *>(to) + at,
                                          reinterpret_cast<const char *>(from) + at, true);
  }
}

/* Loads an operand of `there` chains from number first on. */
template <typename Element>
static __device__ __forceinline__ void load_operand(const mmci_packs_load &l, int64_t first,
                                                    uint32_t there, uint32_t chain_elements,
                                                    typename Element::Sum *arena, uint32_t lane) {
  typedef typename Element::Stored Stored;
  const uint32_t length = l.length, matrix = l.lines * length, all = there * matrix,
                 matrix_magic = l.matrix_magic, line_magic = l.line_magic, pitch = l.pitch;
  const bool conj = l.conj, trans = l.trans;
  const Stored *data = static_cast<const Stored *>(l.data);
  arena += l.at;
  if (l.tight && !trans) {
    const uint32_t line_gap = pitch - length, gap = chain_elements - l.lines * pitch;
    data += first * matrix;
    if (sizeof(Stored) > 2 && line_gap != 0) {
#pragma unroll 4
      for (uint32_t x = lane; x < all; x += WARP)
        load_one<Element>(
            arena + x + quotient(x, line_magic) * line_gap + quotient(x, matrix_magic) * gap,
            data + x, conj);
      return;
    }
#pragma unroll 4
    for (uint32_t x = lane; x < all; x += WARP)
      load_one<Element>(arena + x + quotient(x, matrix_magic) * gap, data + x, conj);
    return;
  }
#pragma unroll 2
  for (uint32_t x = lane; x < all; x += WARP) {
    const uint32_t chain = quotient(x, matrix_magic), rest = x - chain * matrix,
                   line = quotient(rest, line_magic), at = rest - line * length;
    const Stored *from = l.gathered ? static_cast<const Stored *const *>(l.data)[first + chain]
                                    : data + (first + chain) * l.stride;
    load_one<Element>(
        arena + chain * chain_elements + (trans ? at * pitch + line : line * pitch + at),
        from + line * l.ld + at, conj);
  }
}

template <typename Element>
static __device__ __forceinline__ typename Element::Stored result(typename Element::Sum sum,
                                                                  bool in_order) {
  return Element::write(in_order ? mmci_settled(sum) : sum);
}

/* Writes the results of `there` chains. */
template <typename Element>
static __device__ __forceinline__ void store_results(const mmci_packs &p, uint32_t place,
                                                     int64_t first, uint32_t there,
                                                     const typename Element::Sum *arena,
                                                     uint32_t lane) {
  typedef typename Element::Stored Stored;
  const uint32_t n = p.n, matrix = p.m * n, all = there * matrix;
  Stored *c = static_cast<Stored *>(p.c);
  arena += place;
  if (p.c_tight) {
    const uint32_t gap = p.chain_elements - matrix;
    c += first * matrix;
#pragma unroll 4
    for (uint32_t x = lane; x < all; x += WARP)
      c[x] = result<Element>(arena[x + quotient(x, p.c_magic) * gap], p.in_order);
    return;
  }
#pragma unroll 2
  for (uint32_t x = lane; x < all; x += WARP) {
    const uint32_t chain = quotient(x, p.c_magic), rest = x - chain * matrix,
                   line = quotient(rest, p.c_line_magic), at = rest - line * n;
    Stored *to = p.c_gathered ? static_cast<Stored *const *>(p.c)[first + chain]
                              : c + (first + chain) * p.c_stride;
    to[line * p.ldc + at] = result<Element>(arena[chain * p.chain_elements + rest], p.in_order);
  }
}

/* ---- products -------------------------------------------------------------------------------- */

/* Tiles are matrices of neighbouring elements, or have every down-th row and every across-th
 * column. Those at the lower edge compute their last row again; those at the right edge read what
 * follows in the arena, and write none of it. */
template <typename Element, int HEIGHT, int WIDTH, bool SPREAD>
static __device__ __forceinline__ void multiply_tiles(const mmci_packs_product &p,
                                                      typename Element::Sum *chain, uint32_t lane,
                                                      uint32_t lanes) {
  typedef typename Element::Sum Sum;
  const uint32_t m = p.m, n = p.n, across = p.across, tiles = p.down * across, a_pitch = p.a_pitch,
                 b_pitch = p.b_pitch, k_end = p.k, row_step = SPREAD ? p.down : 1,
                 col_step = SPREAD ? across : 1;
  for (uint32_t t = lane; t < tiles; t += lanes) {
    const uint32_t line = quotient(t, p.magic), row = line * (SPREAD ? 1 : HEIGHT),
                   col = (t - line * across) * (SPREAD ? 1 : WIDTH);
    const Sum *a[HEIGHT], *b = chain + p.b + col;
#pragma unroll
    for (int i = 0; i < HEIGHT; i++) {
      const uint32_t at = row + i * row_step;
      a[i] = chain + p.a + (at < m ? at : m - 1) * a_pitch;
    }
    Sum sums[HEIGHT][WIDTH] = {};
#pragma unroll 4
    for (uint32_t k = 0; k < k_end; k++) {
      Sum left[HEIGHT], right[WIDTH];
#pragma unroll
      for (int i = 0; i < HEIGHT; i++) left[i] = a[i][k];
#pragma unroll
      for (int j = 0; j < WIDTH; j++) right[j] = b[j * col_step];
      b += b_pitch;
#pragma unroll
      for (int i = 0; i < HEIGHT; i++)
#pragma unroll
        for (int j = 0; j < WIDTH; j++) mmci_fuse_product(sums[i][j], left[i], right[j]);
    }
#pragma unroll
    for (int i = 0; i < HEIGHT; i++)
#pragma unroll
      for (int j = 0; j < WIDTH; j++)
        if (row + i * row_step < m && col + j * col_step < n)
          chain[p.to + (row + i * row_step) * p.to_pitch + col + j * col_step] =
              Element::read(Element::write(sums[i][j]), false);
  }
}

/* The heights and widths that packs.c chooses among. */
template <typename Element, bool SPREAD>
static __device__ __forceinline__ void multiply_product(const mmci_packs_product &p,
                                                        typename Element::Sum *chain, uint32_t lane,
                                                        uint32_t lanes) {
  constexpr int bytes = (int)sizeof(typename Element::Sum);
#define SHAPE(height, width) \
  case height * 8 + width:   \
    return multiply_tiles<Element, height, width, SPREAD>(p, chain, lane, lanes)
  switch (p.height * 8 + p.width) {
    SHAPE(1, 1);
    SHAPE(1, 2);
    SHAPE(2, 1);
    SHAPE(2, 2);
  }
  if constexpr (bytes <= 8) switch (p.height * 8 + p.width) {
      SHAPE(1, 3);
      SHAPE(1, 4);
      SHAPE(2, 3);
      SHAPE(2, 4);
    }
  if constexpr (bytes <= 4) switch (p.height * 8 + p.width) {
      SHAPE(4, 1);
      SHAPE(4, 2);
      SHAPE(4, 3);
      SHAPE(4, 4);
    }
#undef SHAPE
}

template <typename Element>
__global__ void __launch_bounds__(BLOCK_THREADS)
    multiply_packs(const __grid_constant__ mmci_packs packs) {
  typedef typename Element::Sum Sum;
  constexpr bool can_spread = sizeof(typename Element::Stored) > 2; /* as packs.c has it */
  MMCI_DYNAMIC_SHARED(memory);
  const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, lanes = packs.lanes,
                 per_warp = WARP / lanes, elements = packs.chain_elements;
  const int64_t first = ((int64_t)blockIdx.x * packs.warps + warp) * per_warp,
                left = packs.batch - first;
  mmci_follow_previous();
  if (left <= 0) return;
  const uint32_t there = left < per_warp ? (uint32_t)left : per_warp;
  Sum *arena = reinterpret_cast<Sum *>(memory) + (size_t)warp * per_warp * elements;
  /* Chains past the last are not computed. */
  const uint32_t mine = lane / lanes, sub = mine < there ? lane % lanes : UINT32_MAX - WARP;
  Sum *chain = arena + (mine < there ? mine : 0) * elements;
  for (int l = 0; l < packs.loads_first; l++)
    load_operand<Element>(packs.load[l], first, there, elements, arena, lane);
  int given = packs.loads_first;
  for (int s = 0; s < packs.count; s++) {
    mmci_copy_async_commit();
    mmci_copy_async_wait<0>();
    __syncwarp();
    const mmci_packs_product p = packs.products[s];
    for (; given < p.loads; given++)
      load_operand<Element>(packs.load[given], first, there, elements, arena, lane);
    if (can_spread && p.spread)
      multiply_product<Element, can_spread>(p, chain, sub, lanes);
    else
      multiply_product<Element, false>(p, chain, sub, lanes);
  }
  __syncwarp();
  store_results<Element>(packs, packs.products[packs.count - 1].to, first, there, arena, lane);
}

/* ---- on the host ----------------------------------------------------------------------------- */

template <typename Element>
static size_t shared_bytes(const mmci_packs *packs) {
  return (size_t)packs->warps * (WARP / packs->lanes) * packs->chain_elements *
         sizeof(typename Element::Sum);
}

template <typename Element>
static mmc_status allow_arena(const mmci_packs *packs, mmci_error *error) {
  /* The limit is raised above any before, so that kernels prepared earlier still fit. */
  cudaFuncAttributes facts;
  MMCI_CUDA_TRY(cudaFuncGetAttributes(&facts, multiply_packs<Element>));
  const int bytes = (int)shared_bytes<Element>(packs);
  if (bytes > facts.maxDynamicSharedSizeBytes)
    MMCI_CUDA_TRY(cudaFuncSetAttribute(multiply_packs<Element>,
                                       cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  return MMC_OK;
}

template <typename Element>
static mmc_status launch_packs(cudaStream_t stream, const mmci_group_limits *limits,
                               const mmci_packs *packs, mmci_error *error) {
  const int64_t per_block = (int64_t)packs->warps * (WARP / packs->lanes),
                blocks = (packs->batch - 1) / per_block + 1;
  if (blocks > INT32_MAX)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "batch: expected fewer chains for one launch");
  MMCI_CUDA_TRY(mmci_launch_overlapped(multiply_packs<Element>, limits->overlap,
                                       dim3((unsigned)blocks), dim3(packs->warps * WARP),
                                       shared_bytes<Element>(packs), stream, *packs));
  return MMC_OK;
}

extern "C" mmc_status mmci_packs_prepare(mmc_dtype dtype, const mmci_packs *packs,
                                         mmci_error *error) {
#define PREPARE(Element) allow_arena<Element>(packs, error)
  MMCI_FOR_ELEMENT(dtype, error, PREPARE);
}

extern "C" mmc_status mmci_packs_launch(cudaStream_t stream, const mmci_group_limits *limits,
                                        mmc_dtype dtype, const mmci_packs *packs,
                                        mmci_error *error) {
#define LAUNCH(Element) launch_packs<Element>(stream, limits, packs, error)
  MMCI_FOR_ELEMENT(dtype, error, LAUNCH);
}

/* general.cu: computes chains whose operands and intermediates fit in shared memory, of any shapes,
 * forms and order: a group of threads takes a chain at a time, loads its operands while it
 * multiplies, and writes the result once.
 *
 * Layout matrices in the arena have rows of an odd number of 16-byte words and zeros up to
 *         multiples of four both ways, so products have no guards
 * Launch a 1-D grid that strides over the batch; groups of whole warps
 * Traffic each operand read once, the result written once
 * Idea the list of products is read from shared memory; a warp reads only those loads from the
 *         parameters that it issues. Where a lane has whole sums, they are chains of fused
 *         multiply-adds from the first k to the last: reproducible ones */
#include "device/cuda/group/group_kernels.cuh"

#include "device/cuda/elements.cuh"

enum { WARP = 32, BLOCK_THREADS = 256 };

template <typename Sum>
struct alignas(sizeof(Sum) * 4 < 16 ? sizeof(Sum) * 4 : 16) Four {
  Sum v[4];
};

template <typename Sum>
static __device__ __forceinline__ Sum lane_sum(Sum value, int distance) {
  return value + __shfl_xor_sync(~0u, value, distance);
}
template <typename Real>
static __device__ __forceinline__ mmci_complex<Real> lane_sum(mmci_complex<Real> value,
                                                              int distance) {
  return {lane_sum(value.re, distance), lane_sum(value.im, distance)};
}

static __device__ __forceinline__ uint32_t quotient(uint32_t x, uint32_t magic) {
  return magic != 0 ? __umulhi(x, magic) : x;
}

/* ---- loads ----------------------------------------------------------------------------------- */

/* Copies one element, or zero; asynchronously where nothing is converted. */
template <typename Element>
static __device__ __forceinline__ void load_one(typename Element::Sum *to,
                                                const typename Element::Stored *from, bool there,
                                                bool conj) {
  typedef typename Element::Stored Stored;
  constexpr int bytes = (int)sizeof(Stored),
                real_bytes = bytes > alignof(Stored) ? bytes / 2 : bytes;
  if (bytes == 2 || conj) {
    typename Element::Sum value = {};
    if (there) value = Element::read(*from, conj);
    *to = value;
  } else if constexpr (bytes > 2) {
    for (int at = 0; at < bytes; at += real_bytes)
      mmci_copy_async_or_zero<real_bytes>(reinterpret_cast<char *>(to) + at,
                                          reinterpret_cast<const char *>(from) + at, there);
  }
}

/* Loads elements that become 16 bytes of the arena; those of two bytes are converted. */
template <typename Element>
static __device__ __forceinline__ void load_word(typename Element::Sum *to,
                                                 const typename Element::Stored *from, bool there) {
  typedef typename Element::Stored Stored;
  if constexpr (sizeof(Stored) == 2) {
    Four<typename Element::Sum> values = {};
    if (there) {
      const Four<Stored> stored = *reinterpret_cast<const Four<Stored> *>(from);
#pragma unroll
      for (int q = 0; q < 4; q++) values.v[q] = Element::read(stored.v[q], false);
    }
    *reinterpret_cast<Four<typename Element::Sum> *>(to) = values;
  } else {
    mmci_copy_async_or_zero<16>(to, from, there);
  }
}

template <typename Element>
static __device__ __forceinline__ void load_part(const mmci_general_load &l, int64_t chain,
                                                 typename Element::Sum *arena, int lane) {
  typedef typename Element::Stored Stored;
  constexpr uint32_t per_word = 16 / (uint32_t)sizeof(typename Element::Sum);
  const Stored *from = l.gathered ? static_cast<const Stored *const *>(l.data)[chain]
                                  : static_cast<const Stored *>(l.data) + chain * l.stride;
  typename Element::Sum *to = arena + l.at;
  const int64_t ld = l.ld;
  const uint32_t end = l.end, magic = l.magic, across = l.across, pitch = l.pitch, lines = l.lines,
                 length = l.length;
  if (l.wide) {
#pragma unroll 4
    for (uint32_t x = l.begin + (uint32_t)lane * per_word; x < end; x += WARP * per_word) {
      const uint32_t line = quotient(x, magic), at = x - line * across;
      const bool there = line < lines && at < length;
      load_word<Element>(to + line * pitch + at, there ? from + line * ld + at : from, there);
    }
    return;
  }
  const bool trans = l.trans, conj = l.conj;
#pragma unroll 2
  for (uint32_t x = l.begin + (uint32_t)lane; x < end; x += WARP) {
    const uint32_t line = quotient(x, magic), at = x - line * across;
    const bool there = line < lines && at < length;
    load_one<Element>(to + (trans ? at * pitch + line : line * pitch + at),
                      there ? from + line * ld + at : from, there, conj);
  }
}

/* ---- products -------------------------------------------------------------------------------- */

/* Writes a tile's sums: to an intermediate with zeros beyond m x n, or to a part of the result. */
template <typename Element>
struct Target {
  typename Element::Sum *arena;
  typename Element::Stored *c; /* NULL for an intermediate */
  int64_t ldc;
  bool in_order; /* results are reproducible ones */

  __device__ __forceinline__ void put(const mmci_general_product &p, uint32_t row, uint32_t col,
                                      const Four<typename Element::Sum> &sums) const {
    typedef typename Element::Sum Sum;
    if (c == nullptr) {
      Four<Sum> rounded = {};
#pragma unroll
      for (uint32_t q = 0; q < 4; q++)
        if (row < p.m && col + q < p.n)
          rounded.v[q] = Element::read(Element::write(sums.v[q]), false);
      *reinterpret_cast<Four<Sum> *>(arena + p.to + row * p.to_pitch + col) = rounded;
    } else if (row < p.m) {
#pragma unroll
      for (uint32_t q = 0; q < 4; q++)
        if (col + q < p.n)
          c[row * ldc + col + q] = Element::write(in_order ? mmci_settled(sums.v[q]) : sums.v[q]);
    }
  }
};

template <typename Element, int HEIGHT>
static __device__ __forceinline__ void multiply_product(const mmci_general_product &p,
                                                        const typename Element::Sum *arena,
                                                        const Target<Element> &target,
                                                        uint32_t thread, uint32_t threads) {
  typedef typename Element::Sum Sum;
  typedef Four<Sum> Row;
  const uint32_t split = HEIGHT == 1 ? p.split : 0, lanes = 1u << split,
                 first = thread & (lanes - 1);
  for (uint32_t w = thread; (w & ~(WARP - 1u)) < p.work; w += threads) {
    const bool works = w < p.work;
    const uint32_t tile = works ? w >> split : 0, line = quotient(tile, p.magic),
                   row = line * HEIGHT, col = (tile - line * p.tiles_across) * 4;
    const Sum *a = arena + p.a + row * p.a_pitch, *b = arena + p.b + col;
    Row sums[HEIGHT] = {};
#pragma unroll 2
    for (uint32_t k = first; k < p.k4; k += lanes) {
      Row left[HEIGHT];
#pragma unroll
      for (int i = 0; i < HEIGHT; i++)
        left[i] = *reinterpret_cast<const Row *>(a + i * p.a_pitch + 4 * k);
#pragma unroll
      for (int d = 0; d < 4; d++) {
        const Row right = *reinterpret_cast<const Row *>(b + (4 * k + d) * p.b_pitch);
#pragma unroll
        for (int i = 0; i < HEIGHT; i++)
#pragma unroll
          for (int q = 0; q < 4; q++) mmci_fuse_product(sums[i].v[q], left[i].v[d], right.v[q]);
      }
    }
    if (HEIGHT == 1)
      for (int distance = (int)lanes / 2; distance > 0; distance /= 2)
#pragma unroll
        for (int q = 0; q < 4; q++) sums[0].v[q] = lane_sum(sums[0].v[q], distance);
    if (!works || first != 0) continue;
#pragma unroll
    for (int i = 0; i < HEIGHT; i++) target.put(p, row + i, col, sums[i]);
  }
}

template <typename Element>
__global__ void __launch_bounds__(BLOCK_THREADS)
    multiply_chains(const __grid_constant__ mmci_general steps) {
  typedef typename Element::Sum Sum;
  typedef typename Element::Stored Stored;
  MMCI_DYNAMIC_SHARED(memory);
  __shared__ mmci_general_product list[MMCI_GENERAL_PRODUCTS];
  const int threads = steps.threads, warps = threads / WARP, group = (int)threadIdx.x / threads,
            thread = (int)threadIdx.x % threads, warp = thread / WARP, lane = thread % WARP,
            groups = steps.groups, count = steps.count;
  const int64_t batch = steps.batch, stride = (int64_t)gridDim.x * groups;
  Sum *arena = reinterpret_cast<Sum *>(memory + (size_t)group * steps.arena_bytes);
  const int words = count * (int)(sizeof *list / sizeof(uint32_t));
  mmci_follow_previous();
  int64_t chain = (int64_t)blockIdx.x * groups + group;
  if (chain < batch)
    for (int l = warp; l < steps.loads_first; l += warps)
      load_part<Element>(steps.load[l], chain, arena, lane);
  for (int w = (int)threadIdx.x; w < words; w += threads * groups)
    reinterpret_cast<uint32_t *>(list)[w] = reinterpret_cast<const uint32_t *>(steps.products)[w];
  __syncthreads();
  while (chain < batch) {
    int given = steps.loads_first;
    for (int s = 0; s < count; s++) {
      mmci_copy_async_commit();
      mmci_copy_async_wait<0>();
      mmci_group_wait(group, threads);
      const mmci_general_product &p = list[s];
      for (int l = given + warp; l < p.loads; l += warps)
        load_part<Element>(steps.load[l], chain, arena, lane);
      given = p.loads;
      if (steps.late) {
        mmci_copy_async_commit();
        mmci_copy_async_wait<0>();
        mmci_group_wait(group, threads);
      }
      Target<Element> target = {arena, nullptr, steps.ldc, steps.in_order};
      if (s == count - 1)
        target.c = steps.c_gathered ? static_cast<Stored *const *>(steps.c)[chain]
                                    : static_cast<Stored *>(steps.c) + chain * steps.c_stride;
      if (p.tall)
        multiply_product<Element, 4>(p, arena, target, (uint32_t)thread, (uint32_t)threads);
      else
        multiply_product<Element, 1>(p, arena, target, (uint32_t)thread, (uint32_t)threads);
    }
    chain += stride;
    if (chain >= batch) break;
    mmci_group_wait(group, threads);
    for (int l = warp; l < steps.loads_first; l += warps)
      load_part<Element>(steps.load[l], chain, arena, lane);
  }
}

/* ---- on the host ----------------------------------------------------------------------------- */

template <typename Element>
static mmc_status allow_arena(const mmci_general *steps, mmci_error *error) {
  /* The limit is raised above any before, so that kernels prepared earlier still fit. */
  cudaFuncAttributes facts;
  MMCI_CUDA_TRY(cudaFuncGetAttributes(&facts, multiply_chains<Element>));
  const int bytes = (int)(steps->arena_bytes * steps->groups);
  if (bytes > facts.maxDynamicSharedSizeBytes)
    MMCI_CUDA_TRY(cudaFuncSetAttribute(multiply_chains<Element>,
                                       cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  return MMC_OK;
}

template <typename Element>
static mmc_status launch_general(cudaStream_t stream, const mmci_group_limits *limits,
                                 const mmci_general *steps, mmci_error *error) {
  const int64_t most = INT32_MAX, blocks = (steps->batch - 1) / steps->groups + 1;
  MMCI_CUDA_TRY(mmci_launch_overlapped(multiply_chains<Element>, limits->overlap,
                                       dim3((unsigned)(blocks < most ? blocks : most)),
                                       dim3((unsigned)steps->threads * steps->groups),
                                       (size_t)steps->arena_bytes * steps->groups, stream, *steps));
  return MMC_OK;
}

extern "C" mmc_status mmci_general_prepare(mmc_dtype dtype, const mmci_general *steps,
                                           mmci_error *error) {
#define PREPARE(Element) allow_arena<Element>(steps, error)
  MMCI_FOR_ELEMENT(dtype, error, PREPARE);
}

extern "C" mmc_status mmci_general_launch(cudaStream_t stream, const mmci_group_limits *limits,
                                          mmc_dtype dtype, const mmci_general *steps,
                                          mmci_error *error) {
#define LAUNCH(Element) launch_general<Element>(stream, limits, steps, error)
  MMCI_FOR_ELEMENT(dtype, error, LAUNCH);
}

/* tensor.cu: computes chains of f16 and bf16 whose operands and intermediates fit in shared memory,
 * of any shapes, forms and order, by tensor cores: a group of warps takes a chain at a time, loads
 * its operands while it multiplies, and writes the result once.
 *
 * Layout operands lie in the arena as they are stored, with zeros up to multiples of 16 terms; rows
 *        begin in different banks
 * Launch a 1-D grid that strides over the batch; groups of whole warps
 * Traffic each operand read once, the result written once, up to 16 bytes at a time, as rows allow
 * Idea   over general.cu: m16n8k16 products with sums in f32, and ldmatrix, which turns operands as
 *        it reads them; a warp computes a strip of 16 rows and up to 64 columns. Sums are those of
 *        ordered_half.cu: 16 products at a time, from the first k to the last */
#include "device/cuda/group/tensor_math.cuh"

enum { WARP = 32, TILE = 16, HALF = 8 };

static __device__ __forceinline__ uint32_t quotient(uint32_t x, uint32_t magic) {
  return magic != 0 ? __umulhi(x, magic) : x;
}

/* ---- loads and stores ------------------------------------------------------------------------ */

template <int WORD>
static __device__ __forceinline__ void load_words(const mmci_tensor_load &l, const uint16_t *from,
                                                  uint16_t *to, uint32_t thread, uint32_t threads) {
  const uint32_t words = l.words, magic = l.magic, across = l.across, pitch = l.pitch,
                 lines = l.lines, length = l.length;
  const int64_t ld = l.ld;
#pragma unroll 4
  for (uint32_t x = thread; x < words; x += threads) {
    const uint32_t line = quotient(x, magic), at = (x - line * across) * WORD;
    const bool there = line < lines && at < length;
    mmci_copy_async_or_zero<2 * WORD>(to + line * pitch + at, there ? from + line * ld + at : from,
                                      there);
  }
}

/* Reads elements one by one, and writes eight of them, or zeros, at once. */
static __device__ __forceinline__ void load_elements(const mmci_tensor_load &l,
                                                     const uint16_t *from, uint16_t *to,
                                                     uint32_t thread, uint32_t threads) {
  const uint32_t words = l.words, magic = l.magic, across = l.across, pitch = l.pitch,
                 lines = l.lines, length = l.length;
  const int64_t ld = l.ld;
#pragma unroll 2
  for (uint32_t x = thread; x < words; x += threads) {
    const uint32_t line = quotient(x, magic), at = (x - line * across) * HALF;
    const uint32_t there = line < lines && at < length ? length - at : 0;
    const uint16_t *first = from + line * ld + at;
    uint32_t values[HALF];
#pragma unroll
    for (uint32_t e = 0; e < HALF; e++) values[e] = e < there ? first[e] : 0;
    uint4 word;
    word.x = values[0] | values[1] << 16;
    word.y = values[2] | values[3] << 16;
    word.z = values[4] | values[5] << 16;
    word.w = values[6] | values[7] << 16;
    *reinterpret_cast<uint4 *>(to + line * pitch + at) = word;
  }
}

static __device__ __forceinline__ void load_operand(const mmci_tensor_load &l, int64_t chain,
                                                    uint16_t *arena, uint32_t thread,
                                                    uint32_t threads) {
  const uint16_t *from = l.gathered ? static_cast<const uint16_t *const *>(l.data)[chain]
                                    : static_cast<const uint16_t *>(l.data) + chain * l.stride;
  uint16_t *to = arena + l.at;
  switch (l.word) {
    case 8:
      return load_words<8>(l, from, to, thread, threads);
    case 4:
      return load_words<4>(l, from, to, thread, threads);
    case 2:
      return load_words<2>(l, from, to, thread, threads);
    default:
      return load_elements(l, from, to, thread, threads);
  }
}

/* Returns two results: as they are, or reproducible ones. */
template <typename Element>
static __device__ __forceinline__ uint32_t result_of(uint32_t pair, bool in_order) {
  return in_order ? (uint32_t)mmci_settled_half<Element>((uint16_t)pair) |
                        (uint32_t)mmci_settled_half<Element>((uint16_t)(pair >> 16)) << 16
                  : pair;
}

/* Writes PAIRS of elements at once. */
template <typename Element, int PAIRS>
static __device__ __forceinline__ void store_words(const mmci_tensor &t, uint16_t *c,
                                                   const uint16_t *arena, uint32_t thread,
                                                   uint32_t threads) {
  struct alignas(4 * PAIRS) Word {
    uint32_t pair[PAIRS];
  };
  const uint32_t words = t.c_words, magic = t.c_magic, across = t.c_across, pitch = t.c_pitch;
  const int64_t ldc = t.ldc;
  for (uint32_t x = thread; x < words; x += threads) {
    const uint32_t line = quotient(x, magic), at = (x - line * across) * (2 * PAIRS);
    Word word = *reinterpret_cast<const Word *>(arena + line * pitch + at);
#pragma unroll
    for (int p = 0; p < PAIRS; p++) word.pair[p] = result_of<Element>(word.pair[p], t.in_order);
    *reinterpret_cast<Word *>(c + line * ldc + at) = word;
  }
}

template <typename Element>
static __device__ __forceinline__ void store_elements(const mmci_tensor &t, uint16_t *c,
                                                      const uint16_t *arena, uint32_t thread,
                                                      uint32_t threads) {
  const uint32_t words = t.c_words, magic = t.c_magic, across = t.c_across, pitch = t.c_pitch;
  const int64_t ldc = t.ldc;
#pragma unroll 2
  for (uint32_t x = thread; x < words; x += threads) {
    const uint32_t line = quotient(x, magic), at = x - line * across;
    c[line * ldc + at] = (uint16_t)result_of<Element>(arena[line * pitch + at], t.in_order);
  }
}

template <typename Element>
static __device__ __forceinline__ void store_result(const mmci_tensor &t, int64_t chain,
                                                    const uint16_t *arena, uint32_t thread,
                                                    uint32_t threads) {
  uint16_t *c = t.c_gathered ? static_cast<uint16_t *const *>(t.c)[chain]
                             : static_cast<uint16_t *>(t.c) + chain * t.c_stride;
  arena += t.c_at;
  switch (t.c_word) {
    case 8:
      return store_words<Element, 4>(t, c, arena, thread, threads);
    case 4:
      return store_words<Element, 2>(t, c, arena, thread, threads);
    case 2:
      return store_words<Element, 1>(t, c, arena, thread, threads);
    default:
      return store_elements<Element>(t, c, arena, thread, threads);
  }
}

/* ---- products -------------------------------------------------------------------------------- */

/* Returns where a lane's row of four tiles of 8 x 8 begins. The second tile is 8 further along the
 * lines, and the third across them, when lines_first; else the other way round. */
static __device__ __forceinline__ uint32_t lane_offset(uint32_t lane, uint32_t pitch,
                                                       bool lines_first) {
  const uint32_t second = lane / HALF % 2, third = lane / TILE, down = lines_first ? second : third,
                 right = lines_first ? third : second;
  return (lane % HALF + down * HALF) * pitch + right * HALF;
}

/* What a warp reads for 16 terms of a strip: A, and WIDTH times B. */
template <int WIDTH>
struct Operands {
  uint32_t a[4], b[WIDTH][4];

  template <bool A_TRANS, bool B_TRANS>
  __device__ __forceinline__ void load(mmci_tile_row a_at, mmci_tile_row b_at, uint32_t b_step) {
    mmci_load_tiles<A_TRANS>(a, a_at);
#pragma unroll
    for (int j = 0; j < WIDTH; j++) mmci_load_tiles<!B_TRANS>(b[j], b_at + j * b_step);
  }

  template <typename Element>
  __device__ __forceinline__ void multiply(float (&sums)[WIDTH][2][4]) const {
#pragma unroll
    for (int j = 0; j < WIDTH; j++) {
      mmci_multiply_tiles<Element>(sums[j][0], a, b[j][0], b[j][1]);
      mmci_multiply_tiles<Element>(sums[j][1], a, b[j][2], b[j][3]);
    }
  }
};

/* Writes a strip's sums, with zeros beyond m x n; row and col are of the lane's first sum. */
template <typename Element, int WIDTH>
static __device__ __forceinline__ void put_strip(const mmci_tensor_product &p, uint16_t *arena,
                                                 uint32_t row, uint32_t col,
                                                 const float (&sums)[WIDTH][2][4]) {
  uint16_t *to = arena + p.to + row * p.to_pitch + col;
  const uint32_t below = HALF * p.to_pitch, m = p.m, n = p.n;
  /* The lanes of a warp agree on this. */
  const bool inside = row / TILE * TILE + TILE <= m && col / TILE * TILE + WIDTH * TILE <= n;
#pragma unroll
  for (int j = 0; j < WIDTH; j++)
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
      for (int r = 0; r < 2; r++) {
        const uint32_t at = col + j * TILE + h * HALF;
        float low = sums[j][h][2 * r], high = sums[j][h][2 * r + 1];
        if (!inside) {
          const bool there = row + r * HALF < m;
          low = there && at < n ? low : 0;
          high = there && at + 1 < n ? high : 0;
        }
        *reinterpret_cast<uint32_t *>(to + r * below + j * TILE + h * HALF) =
            mmci_pair<Element>(low, high);
      }
}

/* A strip of WIDTH tiles of 16 x 16. */
template <typename Element, bool A_TRANS, bool B_TRANS, int WIDTH>
static __device__ __forceinline__ void multiply_strip(const mmci_tensor_product &p, uint16_t *arena,
                                                      mmci_tile_row a, mmci_tile_row b,
                                                      uint32_t row, uint32_t col) {
  const uint32_t k16 = p.k16, a_next = p.a.k_step, b_next = p.b.k_step, b_step = p.b.step;
  float sums[WIDTH][2][4] = {};
  Operands<WIDTH> now;
  /* Several steps at a time, so that one is read while another is multiplied. */
#pragma unroll 4
  for (uint32_t k = 0; k < k16; k++) {
    now.template load<A_TRANS, B_TRANS>(a, b, b_step);
    now.template multiply<Element>(sums);
    a = a + a_next;
    b = b + b_next;
  }
  put_strip<Element, WIDTH>(p, arena, row, col, sums);
}

/* The last strip of a row may be narrower. */
template <typename Element, int WIDEST, bool A_TRANS, bool B_TRANS>
static __device__ __forceinline__ void multiply_strips(const mmci_tensor_product &p,
                                                       uint16_t *arena, uint32_t warp,
                                                       uint32_t warps, uint32_t lane) {
  const mmci_tile_row a_first =
      mmci_tile_row_of(arena + p.a.at + lane_offset(lane, p.a.pitch, !A_TRANS));
  const mmci_tile_row b_first =
      mmci_tile_row_of(arena + p.b.at + lane_offset(lane, p.b.pitch, !B_TRANS));
  for (uint32_t u = warp; u < p.units; u += warps) {
    const uint32_t line = quotient(u, p.magic), first = (u - line * p.strips) * p.width,
                   left = p.n16 - first, row = line * TILE + lane / 4,
                   col = first * TILE + lane % 4 * 2;
    const mmci_tile_row a = a_first + line * p.a.step, b = b_first + first * p.b.step;
    const uint32_t width = left < p.width ? left : p.width;
    if (width == 1)
      multiply_strip<Element, A_TRANS, B_TRANS, 1>(p, arena, a, b, row, col);
    else if (WIDEST == 2 || width == 2)
      multiply_strip<Element, A_TRANS, B_TRANS, 2>(p, arena, a, b, row, col);
    else if (width == 3)
      multiply_strip<Element, A_TRANS, B_TRANS, 3>(p, arena, a, b, row, col);
    else
      multiply_strip<Element, A_TRANS, B_TRANS, 4>(p, arena, a, b, row, col);
  }
}

template <typename Element, int WIDEST>
static __device__ __forceinline__ void multiply_product(const mmci_tensor_product &p,
                                                        uint16_t *arena, uint32_t warp,
                                                        uint32_t warps, uint32_t lane) {
  switch (p.a.trans * 2 + p.b.trans) {
    case 0:
      return multiply_strips<Element, WIDEST, false, false>(p, arena, warp, warps, lane);
    case 1:
      return multiply_strips<Element, WIDEST, false, true>(p, arena, warp, warps, lane);
    case 2:
      return multiply_strips<Element, WIDEST, true, false>(p, arena, warp, warps, lane);
    default:
      return multiply_strips<Element, WIDEST, true, true>(p, arena, warp, warps, lane);
  }
}

/* Small chains have strips of at most two tiles: fewer registers, so that more of them are worked
 * on together. */
template <typename Element, int WIDEST>
__global__ void __launch_bounds__(WIDEST == 2 ? MMCI_TENSOR_SMALL_THREADS : MMCI_TENSOR_THREADS,
                                  WIDEST == 2 ? 4 : 1)
    multiply_by_tensor_cores(const __grid_constant__ mmci_tensor t) {
  MMCI_DYNAMIC_SHARED(memory);
  const uint32_t threads = t.threads, group = threadIdx.x / threads, thread = threadIdx.x % threads,
                 warp = thread / WARP, warps = threads / WARP, lane = thread % WARP;
  const int64_t stride = (int64_t)gridDim.x * t.groups;
  uint16_t *arena = reinterpret_cast<uint16_t *>(memory + (size_t)group * t.arena_bytes);
  mmci_follow_previous();
  for (int64_t chain = (int64_t)blockIdx.x * t.groups + group; chain < t.batch; chain += stride) {
    int given = 0;
    for (; given < t.loads_first; given++)
      load_operand(t.load[given], chain, arena, thread, threads);
    for (int s = 0; s < t.count; s++) {
      mmci_copy_async_commit();
      mmci_copy_async_wait<0>();
      mmci_group_wait((int)group, (int)threads);
      const mmci_tensor_product p = t.products[s];
      for (; given < p.loads; given++) load_operand(t.load[given], chain, arena, thread, threads);
      if (t.late) {
        mmci_copy_async_commit();
        mmci_copy_async_wait<0>();
        mmci_group_wait((int)group, (int)threads);
      }
      multiply_product<Element, WIDEST>(p, arena, warp, warps, lane);
    }
    mmci_group_wait((int)group, (int)threads);
    store_result<Element>(t, chain, arena, thread, threads);
    if (chain + stride < t.batch) mmci_group_wait((int)group, (int)threads);
  }
}

/* ---- on the host ----------------------------------------------------------------------------- */

typedef void (*kernel_fn)(mmci_tensor);

static kernel_fn kernel_of(mmc_dtype dtype, const mmci_tensor *tensor) {
  if (dtype == MMC_F16)
    return tensor->small ? multiply_by_tensor_cores<mmci_f16_element, 2>
                         : multiply_by_tensor_cores<mmci_f16_element, 4>;
  return tensor->small ? multiply_by_tensor_cores<mmci_bf16_element, 2>
                       : multiply_by_tensor_cores<mmci_bf16_element, 4>;
}

extern "C" mmc_status mmci_tensor_prepare(mmc_dtype dtype, const mmci_tensor *tensor,
                                          mmci_error *error) {
  /* The limit is raised above any before, so that kernels prepared earlier still fit. */
  cudaFuncAttributes facts;
  const kernel_fn kernel = kernel_of(dtype, tensor);
  MMCI_CUDA_TRY(cudaFuncGetAttributes(&facts, kernel));
  const int bytes = (int)(tensor->arena_bytes * tensor->groups);
  if (bytes > facts.maxDynamicSharedSizeBytes)
    MMCI_CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  return MMC_OK;
}

extern "C" mmc_status mmci_tensor_launch(cudaStream_t stream, const mmci_group_limits *limits,
                                         mmc_dtype dtype, const mmci_tensor *tensor,
                                         mmci_error *error) {
  const int64_t most = INT32_MAX, blocks = (tensor->batch - 1) / tensor->groups + 1;
  MMCI_CUDA_TRY(mmci_launch_overlapped(
      kernel_of(dtype, tensor), limits->overlap, dim3((unsigned)(blocks < most ? blocks : most)),
      dim3((unsigned)tensor->threads * tensor->groups),
      (size_t)tensor->arena_bytes * tensor->groups, stream, *tensor));
  return MMC_OK;
}

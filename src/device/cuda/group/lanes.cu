/* lanes.cu: batches of R = A1 A2 ... An from left to right, all factors side x side and small, each
 * side by a kernel of its own: a chain has one lane, or up to sixteen, which keep rows of the
 * running product in registers.
 *
 * Layout   factors and result without gaps, one matrix behind the other, at whole 16-byte words, or
 *          a factor that all chains share; a warp has slots, each for a factor of its chains
 * Launch   a block a multiprocessor, of as many warps as fit; a warp strides over the batch
 * Traffic  each factor is read once, the result is written once
 * Idea     over packs.cu: a factor of all chains of a warp arrives by one copy while the one before
 *          is multiplied, and no lane computes an address that depends on the chain. Sums are
 *          reproducible ones
 */
#include <string.h>

#include "device/cuda/group/bulk_copies.cuh"

#include "device/cuda/elements.cuh"
#include "device/cuda/group/sides.h"

enum { WARP = 32, WORD_BYTES = 16 };

template <typename Element_, int SIDE_, int LANES_, int WARPS_, bool APART_>
struct LanesShape {
  typedef Element_ Element;
  typedef typename Element::Sum Sum;
  typedef typename Element::Stored Stored;
  static constexpr int SIDE = SIDE_, LANES = LANES_, WARPS = WARPS_, CHAINS = WARP / LANES,
                       HEIGHT = (SIDE + LANES - 1) / LANES, AREA = SIDE * SIDE,
                       UNIT = CHAINS * AREA, EACH = (int)sizeof(Stored);
  /* Matrices of a slot lie one behind the other, or apart, each copied alone, where they would
   * begin in the same banks otherwise. */
  static constexpr bool APART = APART_;
  /* Elements of 16 bits take longer to multiply than to copy: they gain nothing by their place. */
  static constexpr bool PLACED = !APART && EACH > 2;
  static constexpr int PITCH = AREA + (APART ? WORD_BYTES / EACH : 0),
                       SLACK = PLACED ? MMCI_PLACE_BYTES / EACH : 0, SLOT = CHAINS * PITCH + SLACK,
                       SLOT_BYTES = SLOT * EACH, GATE_BYTES = 32,
                       BYTES = GATE_BYTES + MMCI_LANES_SLOTS * SLOT_BYTES, FIT = 227 * 1024 / BYTES,
                       MOST_WARPS = FIT < WARPS ? FIT : WARPS;
  static_assert(MMCI_LANES_SLOTS * (int)sizeof(mmci_counted_gate) <= GATE_BYTES, "gates");
  static_assert((APART ? AREA : UNIT) * EACH % WORD_BYTES == 0, "whole words");
  /* How many elements are read at once of a matrix, from an element whose number is a multiple of
   * this one. */
  static constexpr int at_once(int multiple) {
    int count = WORD_BYTES / EACH;
    while (multiple % count != 0 || AREA % count != 0) count /= 2;
    return count;
  }
  /* So many rows of a factor are read at a time, so that they are larger words. */
  static constexpr int STEP = at_once(2 * SIDE) > at_once(SIDE) ? 2 : 1,
                       ROW_AT_ONCE = at_once(SIDE), STEP_AT_ONCE = at_once(STEP * SIDE),
                       AREA_AT_ONCE = at_once(AREA);
};

template <int BYTES>
struct Word;
template <>
struct Word<2> {
  typedef uint16_t Type;
};
template <>
struct Word<4> {
  typedef uint32_t Type;
};
template <>
struct Word<8> {
  typedef uint2 Type;
};
template <>
struct Word<16> {
  typedef uint4 Type;
};

/* Reads COUNT elements, of which AT_ONCE are a word. */
template <typename Element, int COUNT, int AT_ONCE>
static __device__ __forceinline__ void read_elements(typename Element::Sum (&to)[COUNT],
                                                     const typename Element::Stored *from) {
  typedef typename Element::Stored Stored;
  typedef typename Word<AT_ONCE *(int)sizeof(Stored)>::Type Bits;
#pragma unroll
  for (int i = 0; i < COUNT; i += AT_ONCE) {
    const Bits bits = *reinterpret_cast<const Bits *>(from + i);
    Stored piece[AT_ONCE];
    memcpy(piece, &bits, sizeof bits);
#pragma unroll
    for (int q = 0; q < AT_ONCE; q++) to[i + q] = Element::read(piece[q], false);
  }
}

template <typename Element, int COUNT, int AT_ONCE>
static __device__ __forceinline__ void write_elements(typename Element::Stored *to,
                                                      const typename Element::Sum (&from)[COUNT]) {
  typedef typename Element::Stored Stored;
  typedef typename Word<AT_ONCE *(int)sizeof(Stored)>::Type Bits;
#pragma unroll
  for (int i = 0; i < COUNT; i += AT_ONCE) {
    Stored piece[AT_ONCE];
#pragma unroll
    for (int q = 0; q < AT_ONCE; q++) piece[q] = Element::write(from[i + q]);
    Bits bits;
    memcpy(&bits, piece, sizeof bits);
    *reinterpret_cast<Bits *>(to + i) = bits;
  }
}

/* Begins to copy a factor of so many chains to a slot. */
template <typename Shape, typename Stored = typename Shape::Stored>
static __device__ __forceinline__ void load_factor(const Stored *from, int chains, Stored *to,
                                                   mmci_counted_gate *gate, int lane) {
  constexpr unsigned EACH = sizeof(Stored), AREA = Shape::AREA;
  if constexpr (Shape::APART) {
    if (lane == 0) {
      gate->expect((unsigned)chains * AREA * EACH);
      gate->arrive_after_copies();
    }
    __syncwarp();
    if (lane < chains) gate->copy(to + lane * Shape::PITCH, from + lane * AREA, AREA * EACH);
  } else if (lane == 0) {
    mmci_load_matrices(from, (unsigned)chains * AREA, to, gate);
  }
}

/* Copies results from a slot, and returns when they have been read. */
template <typename Shape, typename Stored = typename Shape::Stored>
static __device__ __forceinline__ void store_results(Stored *to, int chains, const Stored *from,
                                                     int lane) {
  constexpr unsigned EACH = sizeof(Stored), AREA = Shape::AREA;
  if constexpr (Shape::APART) {
    if (lane < chains) mmci_bulk_store(to + lane * AREA, from + lane * Shape::PITCH, AREA * EACH);
    mmci_bulk_stores_commit();
  } else if (lane == 0) {
    mmci_store_matrices(to, (unsigned)chains * AREA, from);
  }
  mmci_await_bulk_reads();
  __syncwarp();
}

/* Multiplies a lane's rows by the factor. */
template <typename Shape>
static __device__ __forceinline__ void multiply(
    typename Shape::Sum (&rows)[Shape::HEIGHT][Shape::SIDE], const typename Shape::Stored *factor) {
  typedef typename Shape::Element Element;
  typedef typename Shape::Sum Sum;
  constexpr int SIDE = Shape::SIDE, HEIGHT = Shape::HEIGHT, STEP = Shape::STEP;
  Sum sums[HEIGHT][SIDE] = {};
#pragma unroll
  for (int k = 0; k < SIDE; k += STEP) {
    Sum right[STEP * SIDE];
    read_elements<Element, STEP * SIDE, Shape::STEP_AT_ONCE>(right, factor + k * SIDE);
#pragma unroll
    for (int d = 0; d < STEP; d++)
#pragma unroll
      for (int i = 0; i < HEIGHT; i++)
#pragma unroll
        for (int j = 0; j < SIDE; j++)
          mmci_fuse_product(sums[i][j], rows[i][k + d], right[d * SIDE + j]);
  }
#pragma unroll
  for (int i = 0; i < HEIGHT; i++)
#pragma unroll
    for (int j = 0; j < SIDE; j++) rows[i][j] = Element::read(Element::write(sums[i][j]), false);
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::WARPS *WARP, 1)
    multiply_by_lanes(const __grid_constant__ mmci_squares e) {
  if constexpr (!MMCI_HAS_BULK_COPIES) return;
  typedef typename Shape::Element Element;
  typedef typename Shape::Sum Sum;
  typedef typename Shape::Stored Stored;
  constexpr int SLOTS = MMCI_LANES_SLOTS, SIDE = Shape::SIDE, AREA = Shape::AREA,
                HEIGHT = Shape::HEIGHT, CHAINS = Shape::CHAINS, UNIT = Shape::UNIT,
                PITCH = Shape::PITCH, SLOT = Shape::SLOT;
  MMCI_DYNAMIC_SHARED(memory);
  const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, n = e.n;
  unsigned char *mine = memory + warp * Shape::BYTES;
  mmci_counted_gate *gates = reinterpret_cast<mmci_counted_gate *>(mine);
  Stored *ring = reinterpret_cast<Stored *>(mine + Shape::GATE_BYTES);
  if (lane < SLOTS) gates[lane].open(MMCI_MATRICES_ARRIVALS);
  __syncwarp();
  mmci_follow_previous();
  const int64_t units = (e.batch - 1) / CHAINS + 1,
                stride = (int64_t)gridDim.x * (blockDim.x / WARP);
  const int chains_last = (int)(e.batch - (units - 1) * CHAINS);
  auto chains_of = [&](int64_t of) { return of + 1 < units ? CHAINS : chains_last; };
  /* Lanes beyond the last row have the last one too, and write nothing. */
  const int chain = lane / Shape::LANES, row = lane % Shape::LANES * HEIGHT;
  int64_t at = blockIdx.x + (int64_t)gridDim.x * warp, coming = at;
  int coming_factor = 0, coming_slot = 0, slot = 0;
  unsigned parity = 0;
  auto is_shared = [&](int factor) { return e.stride[factor] == 0; };
  auto factor_of = [&](int factor, int64_t of) {
    return static_cast<const Stored *>(e.data[factor]) + (is_shared(factor) ? 0 : of * UNIT);
  };
  auto place_of = [&](int number, const Stored *from) {
    Stored *place = ring + number * SLOT;
    return Shape::PLACED ? mmci_place_as(place, from) : place;
  };
  auto load_next = [&]() {
    if (coming >= units) return;
    const Stored *from = factor_of(coming_factor, coming);
    load_factor<Shape>(from, is_shared(coming_factor) ? 1 : chains_of(coming),
                       place_of(coming_slot, from), gates + coming_slot, lane);
    coming_slot = coming_slot + 1 == SLOTS ? 0 : coming_slot + 1;
    if (++coming_factor == n) {
      coming_factor = 0;
      coming += stride;
    }
  };
  /* A copy may land before words have been read that lanes have asked for. */
  auto load_next_after_reads = [&]() {
    mmci_order_bulk_copies();
    __syncwarp();
    load_next();
  };
  auto take = [&](int factor) {
    gates[slot].wait(parity);
    Stored *place = place_of(slot, factor_of(factor, at));
    slot++;
    if (slot == SLOTS) {
      slot = 0;
      parity ^= 1;
    }
    return place;
  };
#pragma unroll 1
  for (int i = 0; i < SLOTS; i++) load_next();
  auto row_of = [&](int i) {
    const int r = row + i;
    return SIDE % Shape::LANES == 0 || r < SIDE ? r : SIDE - 1;
  };
#pragma unroll 1
  for (; at < units; at += stride) {
    const Stored *first = take(0) + (is_shared(0) ? 0 : chain * PITCH);
    Sum rows[HEIGHT][SIDE];
    if constexpr (Shape::LANES == 1) {
      Sum flat[AREA];
      read_elements<Element, AREA, Shape::AREA_AT_ONCE>(flat, first);
#pragma unroll
      for (int i = 0; i < AREA; i++) rows[i / SIDE][i % SIDE] = flat[i];
    } else {
#pragma unroll
      for (int i = 0; i < HEIGHT; i++)
        read_elements<Element, SIDE, Shape::ROW_AT_ONCE>(rows[i], first + row_of(i) * SIDE);
    }
    load_next_after_reads();
    Stored *last = nullptr;
#pragma unroll 1
    for (int f = 1; f < n; f++) {
      last = take(f);
      multiply<Shape>(rows, last + (is_shared(f) ? 0 : chain * PITCH));
      if (f < n - 1) load_next_after_reads();
    }
    if (e.in_order) {
#pragma unroll
      for (int i = 0; i < HEIGHT; i++)
#pragma unroll
        for (int j = 0; j < SIDE; j++) rows[i][j] = mmci_settled(rows[i][j]);
    }
    /* The result takes the last factor's place, which no lane reads any more. */
    Stored *result = last + chain * PITCH;
    __syncwarp();
    if constexpr (Shape::LANES == 1) {
      Sum flat[AREA];
#pragma unroll
      for (int i = 0; i < AREA; i++) flat[i] = rows[i / SIDE][i % SIDE];
      write_elements<Element, AREA, Shape::AREA_AT_ONCE>(result, flat);
    } else {
#pragma unroll
      for (int i = 0; i < HEIGHT; i++)
        if (SIDE % Shape::LANES == 0 || row + i < SIDE)
          write_elements<Element, SIDE, Shape::ROW_AT_ONCE>(result + (row + i) * SIDE, rows[i]);
    }
    mmci_order_bulk_copies();
    __syncwarp();
    store_results<Shape>(static_cast<Stored *>(e.c) + at * UNIT, chains_of(at), last, lane);
    load_next();
  }
  mmci_await_bulk_stores();
}

/* ---- on the host ----------------------------------------------------------------------------- */

typedef void (*kernel_fn)(mmci_squares);

typedef struct variant {
  kernel_fn kernel;
  int chains, warps, bytes;
} variant;

template <typename Shape>
static constexpr variant variant_of() {
  return {multiply_by_lanes<Shape>, Shape::CHAINS, Shape::MOST_WARPS, Shape::BYTES};
}

#define VARIANT_F32(...) variant_of<LanesShape<mmci_real_element<float>, __VA_ARGS__>>(),
#define VARIANT_F64(...) variant_of<LanesShape<mmci_real_element<double>, __VA_ARGS__>>(),
#define VARIANT_C64(...) variant_of<LanesShape<mmci_complex_element<float>, __VA_ARGS__>>(),
#define VARIANT_C128(...) variant_of<LanesShape<mmci_complex_element<double>, __VA_ARGS__>>(),
#define VARIANT_F16(...) variant_of<LanesShape<mmci_f16_element, __VA_ARGS__>>(),
#define VARIANT_BF16(...) variant_of<LanesShape<mmci_bf16_element, __VA_ARGS__>>(),
static const variant VARIANTS_F32[] = {MMCI_ROWS(MMCI_LANES_F32, VARIANT_F32)},
                     VARIANTS_F64[] = {MMCI_ROWS(MMCI_LANES_F64, VARIANT_F64)},
                     VARIANTS_C64[] = {MMCI_ROWS(MMCI_LANES_C64, VARIANT_C64)},
                     VARIANTS_C128[] = {MMCI_ROWS(MMCI_LANES_C128, VARIANT_C128)},
                     VARIANTS_F16[] = {MMCI_ROWS(MMCI_LANES_HALF, VARIANT_F16)},
                     VARIANTS_BF16[] = {MMCI_ROWS(MMCI_LANES_HALF, VARIANT_BF16)};

static const variant *variant_for(mmc_dtype dtype, int number) {
  const variant *variants = dtype == MMC_F32    ? VARIANTS_F32
                            : dtype == MMC_F64  ? VARIANTS_F64
                            : dtype == MMC_C64  ? VARIANTS_C64
                            : dtype == MMC_C128 ? VARIANTS_C128
                            : dtype == MMC_F16  ? VARIANTS_F16
                                                : VARIANTS_BF16;
  return variants + number;
}

extern "C" mmc_status mmci_lanes_prepare(mmc_dtype dtype, int number, mmci_error *error) {
  const variant *v = variant_for(dtype, number);
  MMCI_CUDA_TRY(cudaFuncSetAttribute(v->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     v->warps * v->bytes));
  return MMC_OK;
}

extern "C" mmc_status mmci_lanes_launch(cudaStream_t stream, const mmci_group_limits *limits,
                                        mmc_dtype dtype, int number, const mmci_squares *squares,
                                        mmci_error *error) {
  const variant *v = variant_for(dtype, number);
  const int64_t all = (squares->batch - 1) / v->chains + 1,
                blocks = all < limits->multiprocessors ? all : limits->multiprocessors,
                asked = (all - 1) / blocks + 1, warps = asked < v->warps ? asked : v->warps;
  MMCI_CUDA_TRY(mmci_launch_overlapped(v->kernel, limits->overlap, dim3((unsigned)blocks),
                                       dim3((unsigned)(warps * WARP)), (size_t)(warps * v->bytes),
                                       stream, *squares));
  return MMC_OK;
}

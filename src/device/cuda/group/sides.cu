/* sides.cu: batches of R = A1 A2 ... An in f32 and f64 from left to right, all factors side x side,
 * each side by a kernel of its own: the running product stays on the chip, whole factors arrive by
 * bulk copies while those before are multiplied.
 *
 * Layout   factors and result without gaps, at whole 16-byte words; a unit of chains, some lanes
 *          each, has slots for factors, which lie there as they are stored, and a place for the
 *          running product, whose rows are an odd number of words long
 * Launch   a block a multiprocessor, of as many units as fit; a unit strides over the batch
 * Traffic  each factor is read once, the result is written once
 * Idea     over rings.cu: as the compiler knows the side, a lane's tiles, their edges and all
 *          addresses are constants, terms are read well before they are multiplied, and small sides
 *          share a warp. Sums are reproducible ones
 */
#include "device/cuda/group/bulk_copies.cuh"

#include "device/cuda/elements.cuh"
#include "device/cuda/group/sides.h"

enum { WARP = 32 };

static constexpr int up(int x, int to) {
  return (x + to - 1) / to * to;
}

template <typename Real_, int SIDE_, int HEIGHT_, int WIDTH_, int PIECE_, int LANES_, int SLOTS_,
          int UNITS_, bool FIRST_, int TERMS_>
struct SidesShape {
  typedef Real_ Real;
  static constexpr int SIDE = SIDE_, HEIGHT = HEIGHT_, WIDTH = WIDTH_, PIECE = PIECE_,
                       LANES = LANES_, SLOTS = SLOTS_, UNITS = UNITS_, TERMS = TERMS_,
                       AREA = SIDE * SIDE, SINGLE = WIDTH % PIECE,
                       DOWN = LANES > 128    ? 16
                              : LANES > WARP ? 8
                                             : 4,
                       ACROSS = LANES / DOWN, ROWS = HEIGHT * DOWN, COLS = WIDTH * ACROSS;
  static constexpr bool FIRST = FIRST_, SPLIT = LANES < WARP, AT_ONCE = SIDE % 2 == 1;
  /* Elements of 16 bytes, and of half the banks; what is read at once of a row as it is stored. */
  static constexpr int BYTES_EACH = (int)sizeof(Real), WORD = 16 / BYTES_EACH,
                       BANKS = 64 / BYTES_EACH,
                       STEP = SIDE % WORD == 0 ? WORD
                              : AT_ONCE        ? 1
                                               : 2;
  static constexpr int CHAINS = AT_ONCE ? WORD : SPLIT ? 2 : 1, THREADS = CHAINS * LANES;
  /* Two chains of a warp read different halves of the banks. */
  static constexpr int up_to_other_banks(int x) { return up(x + BANKS, 2 * BANKS) - BANKS; }
  /* From a chain's factor in a slot to the next's, and a row of the running product to the next. */
  static constexpr int FACTOR = AT_ONCE || !SPLIT ? AREA : up_to_other_banks(AREA),
                       PITCH =
                           up(SIDE, WORD) / WORD % 2 == 0 ? up(SIDE, WORD) + WORD : up(SIDE, WORD),
                       PRODUCT = SPLIT ? up_to_other_banks(ROWS * PITCH) : ROWS * PITCH,
                       SLOT = up(CHAINS * FACTOR, WORD), GATES = SLOTS + (FIRST ? 1 : 0),
                       GATE_BYTES = up(GATES * 8, 16),
                       BYTES = GATE_BYTES + (SLOTS * SLOT + CHAINS * PRODUCT) * BYTES_EACH;
  static_assert(ROWS >= SIDE && COLS >= SIDE && SINGLE <= 1 && UNITS * THREADS <= 1024, "tiles");
  static_assert(UNITS * BYTES <= 227 * 1024 && (!FIRST || SIDE % WORD == 0), "memory");
};

/* Adds terms begin to end, of which STEP are read from a row of the left operand at once. A lane's
 * first piece of the right operand is at b, a column that is left over at single. */
template <typename Shape, int STEP, int PITCH, typename Real = typename Shape::Real>
static __device__ __forceinline__ void add_terms(const Real *a, const Real *b, const Real *single,
                                                 int begin, int end,
                                                 Real (&sums)[Shape::HEIGHT][Shape::WIDTH]) {
  constexpr int HEIGHT = Shape::HEIGHT, WIDTH = Shape::WIDTH, PIECE = Shape::PIECE;
#pragma unroll(Shape::TERMS / STEP)
  for (int k = begin; k < end; k += STEP) {
    alignas(16) Real left[HEIGHT][STEP];
#pragma unroll
    for (int i = 0; i < HEIGHT; i++) mmci_copy_word<STEP>(left[i], a + i * Shape::DOWN * PITCH + k);
#pragma unroll
    for (int d = 0; d < STEP; d++) {
      alignas(16) Real right[WIDTH];
#pragma unroll
      for (int j = 0; j + PIECE <= WIDTH; j += PIECE)
        mmci_copy_word<PIECE>(right + j, b + (k + d) * Shape::SIDE + j * Shape::ACROSS);
      if constexpr (Shape::SINGLE != 0) right[WIDTH - 1] = single[(k + d) * Shape::SIDE];
#pragma unroll
      for (int i = 0; i < HEIGHT; i++)
#pragma unroll
        for (int at = 0; at < WIDTH; at++) {
          /* Rows go to and fro: the last column of one is the first of the next. */
          const int j = i % 2 == 0 ? at : WIDTH - 1 - at;
          mmci_fuse_product(sums[i][j], left[i][d], right[j]);
        }
    }
  }
}

/* Writes what is in the product of a lane's tile, whose first element is at row, col * PIECE. */
template <typename Shape, typename Real = typename Shape::Real>
static __device__ __forceinline__ void store_tile(Real *to, int pitch, int row, int col,
                                                  Real (&sums)[Shape::HEIGHT][Shape::WIDTH]) {
  constexpr int SIDE = Shape::SIDE, WIDTH = Shape::WIDTH, PIECE = Shape::PIECE;
#pragma unroll
  for (int i = 0; i < Shape::HEIGHT; i++) {
    const int r = row + i * Shape::DOWN;
    if (Shape::ROWS > SIDE && r >= SIDE) continue;
#pragma unroll
    for (int j = 0; j + PIECE <= WIDTH; j += PIECE) {
      const int c = col * PIECE + j * Shape::ACROSS;
      alignas(16) Real piece[PIECE];
#pragma unroll
      for (int q = 0; q < PIECE; q++) piece[q] = sums[i][j + q];
      if (Shape::COLS == SIDE || c < SIDE) mmci_copy_word<PIECE>(to + r * pitch + c, piece);
    }
    if constexpr (Shape::SINGLE != 0) {
      const int c = col + (WIDTH - 1) * Shape::ACROSS;
      if (Shape::COLS == SIDE || c < SIDE) to[r * pitch + c] = sums[i][WIDTH - 1];
    }
  }
}

/* Tells a lane's first row and column, in pieces, of its chain's product. Its neighbours read the
 * same words of either operand. */
template <typename Shape>
static __device__ __forceinline__ void place_lane(unsigned lane, int *row, int *col) {
  const unsigned pair = (lane & 1) | ((lane >> 1) & 2), high = (lane >> 1) & 1;
  if (Shape::LANES > WARP) {
    const unsigned warp = lane / WARP, across = Shape::ACROSS / 4;
    *col = (int)(warp % across * 4 + pair);
    *row = (int)(warp / across * 8 + (high | ((lane >> 2) & 6)));
  } else {
    *col = (int)(Shape::LANES == WARP ? pair | ((lane >> 2) & 4) : pair);
    *row = (int)(high | ((lane >> 2) & 2));
  }
}

/* Begins to copy a factor of so many chains to a slot. Of chains that are copied at once, some
 * elements may be no whole word. */
template <typename Shape, typename Real = typename Shape::Real>
static __device__ __forceinline__ void load_factor(const Real *from, int64_t stride, int chains,
                                                   Real *to, mmci_counted_gate *gate) {
  constexpr unsigned EACH = sizeof(Real), BYTES = Shape::AREA * EACH;
  if constexpr (Shape::AT_ONCE) {
    const unsigned all = (unsigned)chains * BYTES, whole = all & ~15u;
#pragma unroll 1
    for (unsigned i = whole / EACH; i < all / EACH; i++) to[i] = from[i];
    gate->expect(whole);
    gate->copy(to, from, whole);
  } else {
    gate->expect((unsigned)chains * BYTES);
    gate->copy(to, from, BYTES);
    if (Shape::CHAINS == 2 && chains == 2) gate->copy(to + Shape::FACTOR, from + stride, BYTES);
  }
}

/* Begins to copy results from where the first chain's lies, one behind the other. */
template <typename Shape, typename Real = typename Shape::Real>
static __device__ __forceinline__ void store_results(Real *to, int64_t stride, int chains,
                                                     const Real *from) {
  constexpr unsigned EACH = sizeof(Real), BYTES = Shape::AREA * EACH;
  if constexpr (Shape::AT_ONCE) {
    const unsigned all = (unsigned)chains * BYTES, whole = all & ~15u;
    mmci_bulk_store(to, from, whole);
#pragma unroll 1
    for (unsigned i = whole / EACH; i < all / EACH; i++) to[i] = from[i];
  } else {
    mmci_bulk_store(to, from, BYTES);
    if (Shape::CHAINS == 2 && chains == 2) mmci_bulk_store(to + stride, from + Shape::AREA, BYTES);
  }
  mmci_bulk_stores_commit();
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::UNITS *Shape::THREADS, 1)
    multiply_side(const __grid_constant__ mmci_squares e) {
  if constexpr (!MMCI_HAS_BULK_COPIES) return;
  typedef typename Shape::Real Real;
  constexpr int SIDE = Shape::SIDE, AREA = Shape::AREA, CHAINS = Shape::CHAINS,
                THREADS = Shape::THREADS, SLOTS = Shape::SLOTS, PITCH = Shape::PITCH,
                HEIGHT = Shape::HEIGHT, WIDTH = Shape::WIDTH;
  MMCI_DYNAMIC_SHARED(memory);
  const int unit = (int)threadIdx.x / THREADS, thread = (int)threadIdx.x % THREADS,
            chain = thread / Shape::LANES, n = e.n;
  mmci_counted_gate *gates = reinterpret_cast<mmci_counted_gate *>(memory + unit * Shape::BYTES);
  Real *slots = reinterpret_cast<Real *>(memory + unit * Shape::BYTES + Shape::GATE_BYTES),
       *products = slots + SLOTS * Shape::SLOT, *product = products + chain * Shape::PRODUCT;
  int row, col;
  place_lane<Shape>((unsigned)(thread % Shape::LANES), &row, &col);
  if (thread < Shape::GATES) gates[thread].open(1);
  mmci_group_wait(unit, THREADS);
  mmci_follow_previous();
  const int64_t units = (e.batch - 1) / CHAINS + 1,
                stride = (int64_t)gridDim.x * (blockDim.x / THREADS);
  int64_t at = blockIdx.x + (int64_t)gridDim.x * unit, coming = at;
  int coming_factor = Shape::FIRST ? 1 : 0, coming_slot = 0;
  unsigned taken = 0, firsts = 0;
  /* The last unit may have fewer chains. */
  const int chains_last = (int)(e.batch - (units - 1) * CHAINS);
  auto chains_of = [&](int64_t of) { return CHAINS == 1 || of + 1 < units ? CHAINS : chains_last; };
  auto factor_of = [&](int f) { return static_cast<const Real *>(e.data[f]); };
  Real *result = static_cast<Real *>(e.c);
  auto load_next = [&]() {
    if (coming >= units) return;
    if (thread == 0)
      load_factor<Shape>(factor_of(coming_factor) + coming * CHAINS * e.stride[coming_factor],
                         e.stride[coming_factor], chains_of(coming),
                         slots + coming_slot * Shape::SLOT, gates + coming_slot);
    coming_slot = coming_slot + 1 == SLOTS ? 0 : coming_slot + 1;
    if (++coming_factor == n) {
      coming_factor = Shape::FIRST ? 1 : 0;
      coming += stride;
    }
  };
  auto take = [&]() -> const Real * {
    const unsigned slot = taken % SLOTS;
    gates[slot].wait(taken / SLOTS % 2);
    taken++;
    return slots + slot * Shape::SLOT + chain * Shape::FACTOR;
  };
  /* A first factor goes to the product's place row by row; nothing else does meanwhile. */
  auto load_first = [&](int64_t of) {
    if (of >= units) return;
    if (thread == 0) gates[SLOTS].expect(AREA * (unsigned)sizeof(Real));
    mmci_group_wait(unit, THREADS);
    for (int r = thread; r < SIDE; r += THREADS)
      gates[SLOTS].copy(products + r * PITCH, factor_of(0) + of * e.stride[0] + r * SIDE,
                        SIDE * (unsigned)sizeof(Real));
  };
  if constexpr (Shape::FIRST) load_first(at);
#pragma unroll 1
  for (int i = 0; i < SLOTS; i++) load_next();
#pragma unroll 1
  for (; at < units; at += stride) {
    const Real *first = product;
    if constexpr (Shape::FIRST)
      gates[SLOTS].wait(firsts++ % 2);
    else
      first = take();
#pragma unroll 1
    for (int f = 1; f < n; f++) {
      const bool is_last = f == n - 1;
      const Real *factor = take(), *right = factor + col * Shape::PIECE,
                 *single = factor + (WIDTH - 1) * Shape::ACROSS + col;
      Real sums[HEIGHT][WIDTH];
#pragma unroll
      for (int i = 0; i < HEIGHT; i++)
#pragma unroll
        for (int j = 0; j < WIDTH; j++) sums[i][j] = 0;
      constexpr int STEP = Shape::STEP, WORD = Shape::WORD, WHOLE = SIDE / WORD * WORD;
      if (f == 1 && !Shape::FIRST) {
        add_terms<Shape, STEP, SIDE>(first + row * SIDE, right, single, 0, SIDE, sums);
      } else {
        const Real *left = product + row * PITCH;
        add_terms<Shape, WORD, PITCH>(left, right, single, 0, WHOLE, sums);
        if constexpr (WHOLE < SIDE)
          add_terms<Shape, STEP, PITCH>(left, right, single, WHOLE, SIDE, sums);
      }
      if (is_last && e.in_order) {
#pragma unroll
        for (int i = 0; i < HEIGHT; i++)
#pragma unroll
          for (int j = 0; j < WIDTH; j++) sums[i][j] = mmci_settled(sums[i][j]);
      }
      mmci_order_bulk_copies();
      mmci_group_wait(unit, THREADS);
      if constexpr (Shape::FIRST) {
        if (is_last) load_first(at + stride);
      } else if (f == 1) {
        /* The result before is stored from where products go. */
        load_next();
        if (thread == 0) mmci_await_bulk_reads();
        mmci_group_wait(unit, THREADS);
      }
      load_next();
      if (Shape::FIRST && is_last)
        store_tile<Shape>(result + at * e.c_stride, SIDE, row, col, sums);
      else
        store_tile<Shape>(is_last ? products + chain * AREA : product, is_last ? SIDE : PITCH, row,
                          col, sums);
      /* Bulk copies follow, of the result or to where the product lies. */
      if (is_last != Shape::FIRST) mmci_order_bulk_copies();
      mmci_group_wait(unit, THREADS);
      if (!Shape::FIRST && is_last && thread == 0)
        store_results<Shape>(result + at * CHAINS * e.c_stride, e.c_stride, chains_of(at),
                             products);
    }
  }
  if (thread == 0) mmci_await_bulk_stores();
}

/* ---- on the host ----------------------------------------------------------------------------- */

typedef void (*kernel_fn)(mmci_squares);

typedef struct variant {
  kernel_fn kernel;
  int chains, threads, units, bytes;
} variant;

template <typename Shape>
static constexpr variant variant_of() {
  return {multiply_side<Shape>, Shape::CHAINS, Shape::THREADS, Shape::UNITS, Shape::BYTES};
}

#define VARIANT_F32(...) variant_of<SidesShape<float, __VA_ARGS__>>(),
#define VARIANT_F64(...) variant_of<SidesShape<double, __VA_ARGS__>>(),
static const variant VARIANTS_F32[] = {MMCI_SIDES_F32(VARIANT_F32)},
                     VARIANTS_F64[] = {MMCI_SIDES_F64(VARIANT_F64)};

static mmci_sides_size size_of(const mmci_sides *sides) {
  mmci_sides_size size = {};
  (void)mmci_sides_size_of(sides->dtype, sides->size, &size);
  return size;
}

static const variant *variant_for(mmc_dtype dtype, const mmci_sides_size &size) {
  return (dtype == MMC_F32 ? VARIANTS_F32 : VARIANTS_F64) + size.number;
}

extern "C" mmc_status mmci_sides_prepare(const mmci_sides *sides, mmci_error *error) {
  const mmci_sides_size size = size_of(sides);
  if (size.way == MMCI_BY_LANE) return mmci_lanes_prepare(sides->dtype, size.number, error);
  if (size.way == MMCI_BY_STRIP) return mmci_strips_prepare(sides->dtype, size.number, error);
  const variant *v = variant_for(sides->dtype, size);
  MMCI_CUDA_TRY(cudaFuncSetAttribute(v->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     v->units * v->bytes));
  return MMC_OK;
}

extern "C" mmc_status mmci_sides_launch(cudaStream_t stream, const mmci_group_limits *limits,
                                        const mmci_sides *sides, mmci_error *error) {
  const mmci_sides_size size = size_of(sides);
  if (size.way == MMCI_BY_LANE)
    return mmci_lanes_launch(stream, limits, sides->dtype, size.number, &sides->squares, error);
  if (size.way == MMCI_BY_STRIP)
    return mmci_strips_launch(stream, limits, sides->dtype, size.number, &sides->squares, error);
  const variant *v = variant_for(sides->dtype, size);
  const int64_t all = (sides->squares.batch - 1) / v->chains + 1,
                blocks = all < limits->multiprocessors ? all : limits->multiprocessors,
                asked = (all - 1) / blocks + 1, units = asked < v->units ? asked : v->units;
  MMCI_CUDA_TRY(mmci_launch_overlapped(v->kernel, limits->overlap, dim3((unsigned)blocks),
                                       dim3((unsigned)(units * v->threads)),
                                       (size_t)(units * v->bytes), stream, sides->squares));
  return MMC_OK;
}

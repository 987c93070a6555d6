/* sides.cu: batches of R = A1 A2 ... An in f32, f64 and c64 from left to right, all factors side x
 * side, each side by a kernel of its own: the running product stays on the chip, whole factors
 * arrive by bulk copies while those before are multiplied.
 *
 * Layout   factors and result without gaps, at whole 16-byte words; a unit of chains, some lanes
 *          each, has slots for factors, which lie there as they are stored, and a place for the
 *          running product, which lies there turned: its columns one behind the other
 * Launch   a block a multiprocessor, of as many units as fit; a unit strides over the batch
 * Traffic  each factor is read once, the result is written once
 * Idea     over rings.cu: as the compiler knows the side, a lane's tiles, their edges and all
 *          addresses are constants, and small sides share a warp. A multiprocessor reads two
 *          registers of an instruction at once if they are in different banks, which are the even
 *          and the odd ones. Terms of a lane's tile go down its columns, so that an element of the
 *          right operand is read once; elements of the left operand and sums that meet are in
 *          different banks, as rows of each pair change places when a product is stored: what is
 *          read or stored at once lies in neighbouring registers. Sums are reproducible ones
 */
#include "device/cuda/group/bulk_copies.cuh"

#include "device/cuda/group/sides.h"
#include "device/cuda/group/sides_tile.cuh"

template <typename Element_, int SIDE_, int HEIGHT_, int WIDTH_, int PIECE_, int DOWN_, int LANES_,
          int SLOTS_, int UNITS_, int TERMS_, bool AHEAD_>
struct SidesShape {
  typedef Element_ Element;
  static constexpr int SIDE = SIDE_, HEIGHT = HEIGHT_, WIDTH = WIDTH_, PIECE = PIECE_, DOWN = DOWN_,
                       LANES = LANES_, SLOTS = SLOTS_, UNITS = UNITS_, TERMS = TERMS_,
                       AREA = SIDE * SIDE, ACROSS = LANES / DOWN, ROWS = HEIGHT * DOWN,
                       COLS = WIDTH * ACROSS;
  static constexpr bool AHEAD = AHEAD_, SPLIT = LANES < WARP, AT_ONCE = SIDE % 2 == 1,
                        WHOLE_ROWS = ROWS == SIDE, WHOLE_COLS = COLS == SIDE;
  /* Elements of a word and of all banks of shared memory. */
  static constexpr int BYTES_EACH = (int)sizeof(Element), WORD = WORD_BYTES / BYTES_EACH,
                       IN_BANKS = BANKS * BANK_BYTES / BYTES_EACH;
  static constexpr int CHAINS = AT_ONCE ? WORD : SPLIT ? 2 : 1, THREADS = CHAINS * LANES;
  /* Two chains of a warp read different halves of the banks. */
  static constexpr int up_to_other_banks(int x) {
    return up(x + IN_BANKS / 2, IN_BANKS) - IN_BANKS / 2;
  }
  /* From a chain's factor in a slot to the next's; the place has the result as well. */
  static constexpr int FACTOR = AT_ONCE || !SPLIT ? AREA : up_to_other_banks(AREA),
                       PITCH = mmci_sides_pitch(ROWS, PIECE, WORD, IN_BANKS),
                       TURNED = up(SIDE * PITCH, WORD),
                       PRODUCT = SPLIT ? up_to_other_banks(TURNED) : TURNED,
                       SLOT = up(CHAINS * FACTOR, WORD), GATE_BYTES = up(SLOTS * 8, WORD_BYTES),
                       BYTES = GATE_BYTES + (SLOTS * SLOT + CHAINS * PRODUCT) * BYTES_EACH;
  /* Terms are read one ahead: behind the last product lies as much as that reads. */
  static constexpr int BEHIND = AHEAD ? PITCH * BYTES_EACH : 0;
  static_assert(!AHEAD || TERMS % 2 == 0, "terms ahead");
  static_assert(SIDE % PIECE == 0 && PIECE <= WORD, "pieces are whole words of their rows");
  static_assert(LANES % DOWN == 0 && (SPLIT             ? DOWN == 4 && ACROSS == 4
                                      : ACROSS % 8 == 0 ? DOWN % 4 == 0
                                                        : ACROSS % 4 == 0 && DOWN % 8 == 0),
                "warps of 4 x 8 or 8 x 4 lanes");
  static_assert(THREADS == WARP || UNITS < 16, "a named barrier a unit");
  static_assert(ROWS >= SIDE && COLS >= SIDE && UNITS * THREADS <= 1024, "tiles");
  static_assert(UNITS * BYTES + BEHIND <= 227 * 1024, "memory");
};

/* Adds all terms of a product. */
template <typename Shape, typename Element = typename Shape::Element>
static __device__ __forceinline__ void multiply(const Element *product, const Element *factor,
                                                int lane_down, int lane_across,
                                                Element (&sums)[Shape::HEIGHT][Shape::WIDTH]) {
  constexpr int TERMS = Shape::TERMS, REST = Shape::SIDE % TERMS;
#pragma unroll
  for (int i = 0; i < Shape::HEIGHT; i++)
#pragma unroll
    for (int j = 0; j < Shape::WIDTH; j++) sums[i][j] = Element{};
  Terms<Shape> terms;
  if constexpr (Shape::AHEAD) terms.read(0, product, factor, lane_down, lane_across);
#pragma unroll 1
  for (int k = TERMS; k <= Shape::SIDE; k += TERMS) {
    add_terms<Shape, TERMS>(product, factor, Shape::SIDE, lane_down, lane_across, terms, sums);
    product += TERMS * Shape::PITCH;
    factor += TERMS * Shape::SIDE;
  }
  if constexpr (REST > 0)
    add_terms<Shape, REST>(product, factor, Shape::SIDE, lane_down, lane_across, terms, sums);
}

/* ---- the running product --------------------------------------------------------------------- */

/* Turns a factor, as it is stored, into the place of the product: a lane has some rows of a column
 * at a time. */
template <typename Shape, typename Element = typename Shape::Element>
static __device__ __forceinline__ void turn_factor(const Element *from, Element *product,
                                                   int lane) {
  constexpr int SIDE = Shape::SIDE, WORD = Shape::WORD, LINES = (SIDE + WORD - 1) / WORD;
#pragma unroll 2
  for (int x = lane; x < LINES * SIDE; x += Shape::LANES) {
    const int line = x / SIDE, col = x - line * SIDE;
    alignas(WORD_BYTES) Element rows[WORD] = {};
#pragma unroll
    for (int q = 0; q < WORD; q++)
      if (SIDE % WORD == 0 || line * WORD + q < SIDE)
        rows[q] = from[(line * WORD + q) * SIDE + col];
    mmci_copy_word<WORD>(product + col * Shape::PITCH + line * WORD, rows);
  }
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Begins to copy a factor of so many chains to a slot. Of chains that are copied at once, some
 * elements may be no whole word. */
template <typename Shape, typename Element = typename Shape::Element>
static __device__ __forceinline__ void load_factor(const Element *from, int64_t stride, int chains,
                                                   Element *to, mmci_counted_gate *gate) {
  constexpr unsigned EACH = sizeof(Element), BYTES = Shape::AREA * EACH;
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
template <typename Shape, typename Element = typename Shape::Element>
static __device__ __forceinline__ void store_results(Element *to, int64_t stride, int chains,
                                                     const Element *from) {
  constexpr unsigned EACH = sizeof(Element), BYTES = Shape::AREA * EACH;
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
  typedef typename Shape::Element Element;
  constexpr int CHAINS = Shape::CHAINS, THREADS = Shape::THREADS, SLOTS = Shape::SLOTS;
  MMCI_DYNAMIC_SHARED(memory);
  const int unit = (int)threadIdx.x / THREADS, thread = (int)threadIdx.x % THREADS,
            chain = thread / Shape::LANES, lane = thread % Shape::LANES, n = e.n;
  mmci_counted_gate *gates = reinterpret_cast<mmci_counted_gate *>(memory + unit * Shape::BYTES);
  Element *slots = reinterpret_cast<Element *>(memory + unit * Shape::BYTES + Shape::GATE_BYTES),
          *products = slots + SLOTS * Shape::SLOT, *product = products + chain * Shape::PRODUCT;
  int lane_down, lane_across;
  place_lane<Shape>((unsigned)lane, &lane_down, &lane_across);
  if (thread < SLOTS) gates[thread].open(1);
  mmci_group_wait(unit, THREADS);
  mmci_follow_previous();
  const int64_t units = (e.batch - 1) / CHAINS + 1,
                stride = (int64_t)gridDim.x * (blockDim.x / THREADS);
  int64_t at = blockIdx.x + (int64_t)gridDim.x * unit, coming = at;
  int coming_factor = 0, coming_slot = 0;
  unsigned taken = 0;
  /* The last unit may have fewer chains. */
  const int chains_last = (int)(e.batch - (units - 1) * CHAINS);
  auto chains_of = [&](int64_t of) { return CHAINS == 1 || of + 1 < units ? CHAINS : chains_last; };
  Element *result = static_cast<Element *>(e.c);
  auto load_next = [&]() {
    if (coming >= units) return;
    if (thread == 0)
      load_factor<Shape>(static_cast<const Element *>(e.data[coming_factor]) +
                             coming * CHAINS * e.stride[coming_factor],
                         e.stride[coming_factor], chains_of(coming),
                         slots + coming_slot * Shape::SLOT, gates + coming_slot);
    coming_slot = coming_slot + 1 == SLOTS ? 0 : coming_slot + 1;
    if (++coming_factor == n) {
      coming_factor = 0;
      coming += stride;
    }
  };
  auto take = [&]() -> const Element * {
    const unsigned slot = taken % SLOTS;
    gates[slot].wait(taken / SLOTS % 2);
    taken++;
    return slots + slot * Shape::SLOT + chain * Shape::FACTOR;
  };
#pragma unroll 1
  for (int i = 0; i < SLOTS; i++) load_next();
#pragma unroll 1
  for (; at < units; at += stride) {
    const Element *first = take();
    /* The result before is stored from where products go. */
    if (thread == 0) mmci_await_bulk_reads();
    mmci_group_wait(unit, THREADS);
    turn_factor<Shape>(first, product, lane);
    mmci_order_bulk_copies();
    mmci_group_wait(unit, THREADS);
    load_next();
#pragma unroll 1
    for (int f = 1; f < n; f++) {
      const bool is_last = f == n - 1;
      Element sums[Shape::HEIGHT][Shape::WIDTH];
      multiply<Shape>(product, take(), lane_down, lane_across, sums);
      mmci_order_bulk_copies();
      mmci_group_wait(unit, THREADS);
      load_next();
      if (is_last) {
        store_result<Shape>(products + chain * Shape::AREA, Shape::SIDE, lane_down, lane_across,
                            n % 2, e.in_order, sums);
        mmci_order_bulk_copies();
      } else {
        store_product<Shape>(product, Shape::SIDE, lane_down, lane_across, sums);
      }
      mmci_group_wait(unit, THREADS);
      if (is_last && thread == 0)
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
  int chains, threads, units, bytes, behind; /* bytes of a unit, and those behind all */
} variant;

template <typename Shape>
static constexpr variant variant_of() {
  return {multiply_side<Shape>, Shape::CHAINS, Shape::THREADS,
          Shape::UNITS,         Shape::BYTES,  Shape::BEHIND};
}

#define VARIANT_F32(...) variant_of<SidesShape<float, __VA_ARGS__>>(),
#define VARIANT_F64(...) variant_of<SidesShape<double, __VA_ARGS__>>(),
#define VARIANT_C64(...) variant_of<SidesShape<mmci_complex<float>, __VA_ARGS__>>(),
static const variant VARIANTS_F32[] = {MMCI_ROWS(MMCI_SIDES_F32, VARIANT_F32)},
                     VARIANTS_F64[] = {MMCI_ROWS(MMCI_SIDES_F64, VARIANT_F64)},
                     VARIANTS_C64[] = {MMCI_ROWS(MMCI_SIDES_C64, VARIANT_C64)};

static mmci_sides_size size_of(const mmci_sides *sides) {
  mmci_sides_size size = {};
  (void)mmci_sides_size_of(sides->dtype, sides->size, &size);
  return size;
}

static const variant *variant_for(mmc_dtype dtype, const mmci_sides_size &size) {
  return (dtype == MMC_F32   ? VARIANTS_F32
          : dtype == MMC_F64 ? VARIANTS_F64
                             : VARIANTS_C64) +
         size.number;
}

extern "C" mmc_status mmci_sides_prepare(const mmci_sides *sides, mmci_error *error) {
  const mmci_sides_size size = size_of(sides);
  if (size.way == MMCI_BY_LANE) return mmci_lanes_prepare(sides->dtype, size.number, error);
  if (size.way == MMCI_BY_STRIP)
    return mmc_dtype_size(sides->dtype) == 2
               ? mmci_strips_prepare(sides->dtype, size.number, error)
               : mmci_strips_double_prepare(sides->dtype, size.number, error);
  const variant *v = variant_for(sides->dtype, size);
  MMCI_CUDA_TRY(cudaFuncSetAttribute(v->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     v->units * v->bytes + v->behind));
  return MMC_OK;
}

extern "C" mmc_status mmci_sides_launch(cudaStream_t stream, const mmci_group_limits *limits,
                                        const mmci_sides *sides, mmci_error *error) {
  const mmci_sides_size size = size_of(sides);
  if (size.way == MMCI_BY_LANE)
    return mmci_lanes_launch(stream, limits, sides->dtype, size.number, &sides->squares, error);
  if (size.way == MMCI_BY_STRIP)
    return (mmc_dtype_size(sides->dtype) == 2 ? mmci_strips_launch : mmci_strips_double_launch)(
        stream, limits, sides->dtype, size.number, &sides->squares, error);
  const variant *v = variant_for(sides->dtype, size);
  const int64_t all = (sides->squares.batch - 1) / v->chains + 1,
                blocks = all < limits->multiprocessors ? all : limits->multiprocessors,
                asked = (all - 1) / blocks + 1, units = asked < v->units ? asked : v->units;
  MMCI_CUDA_TRY(mmci_launch_overlapped(
      v->kernel, limits->overlap, dim3((unsigned)blocks), dim3((unsigned)(units * v->threads)),
      (size_t)(units * v->bytes + v->behind), stream, sides->squares));
  return MMC_OK;
}

/* panels.cu: batches of R = A1 A2 ... An in f32 from left to right, all factors squares of a side
 * that is too large for whole factors beside the running product (sides.cu): panels of their rows
 * arrive by bulk copies while those before are multiplied.
 *
 * Layout   factors and result without gaps, at any addresses; a unit of lanes has a chain, slots
 *          for panels, which lie there as they are stored, and a place for the running product,
 *          which lies there turned: its columns one behind the other
 * Launch   a block a multiprocessor, of as many units as the tile has; a unit strides over the
 *          batch
 * Traffic  each factor is read once, the result is written once
 * Idea     over cuBLAS's batched products: a lane has up to 13 x 13 elements of a product, and what
 *          hangs over is small where a side is a little less than a multiple of the tile: 200 is,
 *          of 16 x 13, but not of a power of two. The product never leaves the chip. Words of the
 *          right operand are read where rows begin at them, else single elements. Sums are
 *          reproducible ones */
#include "device/cuda/group/bulk_copies.cuh"

#include "device/cuda/group/sides.h"
#include "device/cuda/group/sides_tile.cuh"

enum {
  SLOTS = 2,
  ROWS_MOST = 40, /* of a panel: more gain nothing */
  GATE_BYTES = MMCI_LINE_BYTES
};

template <int TILE_, int DOWN_, int UNITS_, bool AHEAD_, int PIECE_>
struct PanelsShape {
  typedef float Element;
  static constexpr int SIDE = 0, HEIGHT = TILE_, WIDTH = TILE_, DOWN = DOWN_, ACROSS = DOWN_,
                       LANES = DOWN_ * DOWN_, UNITS = UNITS_, PIECE = PIECE_, ROWS = TILE_ * DOWN_,
                       WORD = WORD_BYTES / (int)sizeof(Element),
                       PITCH = mmci_sides_pitch(ROWS, PIECE, WORD, BANKS);
  static constexpr bool AHEAD = AHEAD_, SPLIT = false, WHOLE_ROWS = false, WHOLE_COLS = false;
  /* Behind the running product lies a column that is read ahead, or a result's last elements. */
  static constexpr int place_bytes(int side) {
    return up((side + 1) * PITCH * (int)sizeof(Element), MMCI_LINE_BYTES);
  }
  static constexpr int slot_bytes(int side, int rows) {
    return up(rows * side * (int)sizeof(Element) + WORD_BYTES, MMCI_LINE_BYTES);
  }
  static constexpr int unit_bytes(int side, int rows) {
    return GATE_BYTES + SLOTS * slot_bytes(side, rows) + place_bytes(side);
  }
  static_assert(UNITS < 16 && UNITS * LANES <= 1024, "a named barrier a unit");
  static_assert(UNITS * unit_bytes(ROWS, WORD) <= 227 * 1024, "memory");
};

/* What a launch is about. */
struct Panels {
  mmci_squares squares;
  int side, rows;                   /* of a panel; the last one of a factor may have fewer */
  int slot_bytes, unit_bytes, zero; /* zero is 0, as the compiler does not know */
};

/* Moves sums to other registers. Otherwise the compiler keeps them all the time where a row of the
 * result is stored at once, in banks where they meet elements of the left operand. */
template <typename Shape, typename Element = typename Shape::Element>
static __device__ __forceinline__ void move_sums(Element (&sums)[Shape::HEIGHT][Shape::WIDTH],
                                                 int zero) {
#ifdef MMCI_EMULATE_CUDA
  (void)sums, (void)zero;
#else
#pragma unroll
  for (int i = 0; i < Shape::HEIGHT; i++)
#pragma unroll
    for (int j = 0; j < Shape::WIDTH; j++)
      sums[i][j] = __int_as_float(__float_as_int(sums[i][j]) ^ zero);
#endif
}

/* Returns how many elements lie between a whole word and what begins there. */
template <typename Shape>
static __device__ __forceinline__ unsigned behind_word(const void *address) {
  return Shape::PIECE == Shape::WORD
             ? 0
             : (unsigned)((uintptr_t)address % WORD_BYTES / sizeof(typename Shape::Element));
}

/* Turns a panel of the first factor into the place of the product, from its first row on. */
template <typename Shape, typename Element = typename Shape::Element>
static __device__ __forceinline__ void turn_panel(const Element *from, int side, int rows,
                                                  Element *product, int lane) {
  constexpr int WORD = Shape::WORD;
#pragma unroll 1
  for (int row = 0; row < rows; row += WORD)
#pragma unroll 2
    for (int col = lane; col < side; col += Shape::LANES) {
      alignas(WORD_BYTES) Element word[WORD] = {};
#pragma unroll
      for (int q = 0; q < WORD; q++)
        if (row + q < rows) word[q] = from[(row + q) * side + col];
      mmci_copy_word<WORD>(product + col * Shape::PITCH + row, word);
    }
}

/* Adds the terms of a panel. */
template <typename Shape, typename Element = typename Shape::Element>
static __device__ __forceinline__ void add_panel(const Element *product, const Element *panel,
                                                 int side, int rows, int lane_down, int lane_across,
                                                 Element (&sums)[Shape::HEIGHT][Shape::WIDTH]) {
  enum { TERMS = 2 };
  Terms<Shape> terms;
  if constexpr (Shape::AHEAD) terms.read(0, product, panel, lane_down, lane_across);
#pragma unroll 1
  for (int k = TERMS; k <= rows; k += TERMS) {
    add_terms<Shape, TERMS>(product, panel, side, lane_down, lane_across, terms, sums);
    product += TERMS * Shape::PITCH;
    panel += TERMS * side;
  }
  if (Shape::PIECE != Shape::WORD && rows % TERMS != 0)
    add_terms<Shape, 1>(product, panel, side, lane_down, lane_across, terms, sums);
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::UNITS *Shape::LANES, 1)
    multiply_panels(const __grid_constant__ Panels x) {
  if constexpr (!MMCI_HAS_BULK_COPIES) return;
  typedef typename Shape::Element Element;
  constexpr int LANES = Shape::LANES;
  MMCI_DYNAMIC_SHARED(memory);
  const mmci_squares &e = x.squares;
  const int unit = (int)threadIdx.x / LANES, lane = (int)threadIdx.x % LANES, side = x.side,
            n = e.n;
  unsigned char *mine = memory + unit * x.unit_bytes, *slots = mine + GATE_BYTES;
  mmci_counted_gate *gates = reinterpret_cast<mmci_counted_gate *>(mine);
  Element *product = reinterpret_cast<Element *>(slots + SLOTS * x.slot_bytes);
  int lane_down, lane_across;
  place_lane<Shape>((unsigned)lane, &lane_down, &lane_across);
  if (lane < SLOTS) gates[lane].open(MMCI_MATRICES_ARRIVALS);
  mmci_group_wait(unit, LANES);
  mmci_follow_previous();
  const int64_t stride = (int64_t)gridDim.x * (blockDim.x / LANES);
  int64_t at = blockIdx.x + (int64_t)gridDim.x * unit, coming = at;
  int coming_factor = 0, coming_row = 0, coming_slot = 0;
  unsigned taken = 0;
  auto panel_of = [&](int64_t chain, int factor, int row) {
    return static_cast<const Element *>(e.data[factor]) + chain * e.stride[factor] + row * side;
  };
  auto rows_from = [&](int row) { return row + x.rows < side ? x.rows : side - row; };
  auto load_next = [&]() {
    if (coming >= e.batch) return;
    if (lane == 0) {
      const Element *from = panel_of(coming, coming_factor, coming_row);
      const unsigned behind = behind_word<Shape>(from);
      mmci_load_matrices(from - behind, (unsigned)(rows_from(coming_row) * side) + behind,
                         reinterpret_cast<Element *>(slots + coming_slot * x.slot_bytes),
                         gates + coming_slot);
    }
    coming_slot = coming_slot + 1 == SLOTS ? 0 : coming_slot + 1;
    coming_row += x.rows;
    if (coming_row < side) return;
    coming_row = 0;
    if (++coming_factor < n) return;
    coming_factor = 0;
    coming += stride;
  };
  auto take = [&](int factor, int row) -> const Element * {
    const unsigned slot = taken % SLOTS;
    gates[slot].wait(taken / SLOTS % 2);
    taken++;
    return reinterpret_cast<const Element *>(slots + slot * x.slot_bytes) +
           behind_word<Shape>(panel_of(at, factor, row));
  };
  /* Lets the slot that was taken last be filled again. */
  auto give_back = [&]() {
    mmci_order_bulk_copies();
    mmci_group_wait(unit, LANES);
    load_next();
  };
#pragma unroll 1
  for (int i = 0; i < SLOTS; i++) load_next();
#pragma unroll 1
  for (; at < e.batch; at += stride) {
    /* The result before is stored from where products go. */
    if (lane == 0) mmci_await_bulk_reads();
    mmci_group_wait(unit, LANES);
#pragma unroll 1
    for (int row = 0; row < side; row += x.rows) {
      turn_panel<Shape>(take(0, row), side, rows_from(row), product + row, lane);
      give_back();
    }
#pragma unroll 1
    for (int f = 1; f < n; f++) {
      Element sums[Shape::HEIGHT][Shape::WIDTH];
#pragma unroll
      for (int i = 0; i < Shape::HEIGHT; i++)
#pragma unroll
        for (int j = 0; j < Shape::WIDTH; j++) sums[i][j] = 0;
#pragma unroll 1
      for (int row = 0; row < side; row += x.rows) {
        add_panel<Shape>(product + row * Shape::PITCH, take(f, row), side, rows_from(row),
                         lane_down, lane_across, sums);
        give_back();
      }
      if (f < n - 1) {
        store_product<Shape>(product, side, lane_down, lane_across, sums);
        mmci_group_wait(unit, LANES);
        continue;
      }
      Element *to = static_cast<Element *>(e.c) + at * e.c_stride;
      const unsigned behind = behind_word<Shape>(to),
                     first = behind == 0 ? 0 : (unsigned)Shape::WORD - behind;
      Element *result = product + behind;
      move_sums<Shape>(sums, x.zero);
      store_result<Shape>(result, side, lane_down, lane_across, n % 2, e.in_order, sums);
      mmci_order_bulk_copies();
      mmci_group_wait(unit, LANES);
      if (lane == 0) {
        for (unsigned i = 0; i < first; i++) to[i] = result[i];
        mmci_store_matrices(to + first, (unsigned)(side * side) - first, result + first);
      }
    }
  }
  if (lane == 0) mmci_await_bulk_stores();
}

/* ---- on the host ----------------------------------------------------------------------------- */

typedef void (*kernel_fn)(Panels);

/* A kernel for rows that begin at whole words, or for any. */
struct Variant {
  kernel_fn kernel;
  int threads, units; /* threads of a unit */
  int (*slot_bytes)(int side, int rows), (*unit_bytes)(int side, int rows);
};

template <typename Shape>
static constexpr Variant variant_of() {
  return {multiply_panels<Shape>, Shape::LANES, Shape::UNITS, Shape::slot_bytes, Shape::unit_bytes};
}

#define PANELS(...) \
  {variant_of<PanelsShape<__VA_ARGS__, 4>>(), variant_of<PanelsShape<__VA_ARGS__, 1>>()},
static const Variant VARIANTS[][2] = {MMCI_ROWS(MMCI_PANELS_F32, PANELS)};

/* Returns the rows of a panel: as many words of them as fit. */
static int rows_of(const Variant *v, int side, size_t shared_bytes) {
  enum { WORD = 4 };
  int rows = WORD;
  while (rows < ROWS_MOST && rows < side &&
         (size_t)v->units * v->unit_bytes(side, rows + WORD) <= shared_bytes)
    rows += WORD;
  return rows;
}

extern "C" mmc_status mmci_panels_prepare(const mmci_group_limits *limits,
                                          const mmci_panels *panels, mmci_error *error) {
  for (const Variant &v : VARIANTS[panels->size]) {
    const int bytes = v.unit_bytes(panels->side, rows_of(&v, panels->side, limits->shared_bytes));
    MMCI_CUDA_TRY(cudaFuncSetAttribute(v.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       v.units * bytes));
  }
  return MMC_OK;
}

/* Says whether all rows of factors and of the result begin at whole words. */
static bool in_words(const mmci_panels *panels) {
  const mmci_squares *e = &panels->squares;
  const uint64_t element = sizeof(float);
  uint64_t bits =
      (uint64_t)panels->side * element | (uintptr_t)e->c | (uint64_t)e->c_stride * element;
  for (int i = 0; i < e->n; i++) bits |= (uintptr_t)e->data[i] | (uint64_t)e->stride[i] * element;
  return bits % WORD_BYTES == 0;
}

extern "C" mmc_status mmci_panels_launch(cudaStream_t stream, const mmci_group_limits *limits,
                                         const mmci_panels *panels, mmci_error *error) {
  const Variant *v = &VARIANTS[panels->size][in_words(panels) ? 0 : 1];
  const int rows = rows_of(v, panels->side, limits->shared_bytes);
  const Panels x = {panels->squares,
                    panels->side,
                    rows,
                    v->slot_bytes(panels->side, rows),
                    v->unit_bytes(panels->side, rows),
                    0};
  const int64_t batch = x.squares.batch,
                blocks = batch < limits->multiprocessors ? batch : limits->multiprocessors,
                asked = (batch - 1) / blocks + 1, units = asked < v->units ? asked : v->units;
  MMCI_CUDA_TRY(mmci_launch_overlapped(v->kernel, limits->overlap, dim3((unsigned)blocks),
                                       dim3((unsigned)(units * v->threads)),
                                       (size_t)units * (size_t)x.unit_bytes, stream, x));
  return MMC_OK;
}

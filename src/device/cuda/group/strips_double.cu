/* strips_double.cu: batches of R = A1 A2 ... An in f64 and c128 from left to right, all factors
 * side x side: a warp keeps 16 rows of the running product in registers, as the operand that tensor
 * cores take.
 *
 * Layout   factors and result without gaps, at whole 16-byte words, or a factor that all chains
 *          share; a unit, one chain, or two of an odd side of f64, has slots for factors, and a
 *          warp for every 16 rows of a chain
 * Launch   a block a multiprocessor, of as many units as fit; a unit strides over the batch
 * Traffic  each factor is read once, the result is written once
 * Idea     over sides.cu: tensor cores multiply twice as fast, and what they add up is the left
 *          operand of the next product where it is: they may be given columns in any order, as long
 *          as the next factor's rows come in the same one. A complex column is two real ones, and a
 *          complex row (re, im) and (-im, re). Where a tile of columns ends with the side, rows
 *          that lanes read at once would begin in few banks: there a lane has rows of a quarter of
 *          its own, and the quarters of a factor lie some words apart
 *
 * Sums are those of fused multiply-adds, but not in the order of k. */
#include "device/cuda/group/strips_walk.cuh"
#include "device/cuda/tensor_f64.cuh"

enum { WARP = 32, STRIP = 16, TILE = 8, QUARTERS = 4 };

struct alignas(16) DoublePair {
  double part[2];
};

/* A tile is 8 real columns. The lane 4 line + pair of a warp has two of them side by side of the
 * left operand, PAIR elements from place PAIR * pair on; they are rows of the right operand, too,
 * of which it has the real column `line`. */
template <typename Element_, int TILES_, bool WHOLE_>
struct DoubleShape {
  typedef Element_ Element;
  static constexpr int TILES = TILES_;
  static constexpr bool WHOLE = WHOLE_; /* the side is SIDE */
  static constexpr int PARTS = sizeof(Element) / sizeof(double), EACH = TILE / PARTS,
                       PAIR = 2 / PARTS, SIDE = TILES * EACH, QUARTER = SIDE / QUARTERS;

  /* Returns the column of a whole shape. Its quarters begin `turn` columns apart. */
  static constexpr __host__ __device__ int column_at(int tile, int place, int turn) {
    const int quarter = place / PAIR;
    return quarter * QUARTER + (PAIR * tile + turn * quarter) % QUARTER + place % PAIR;
  }
  /* Counts the elements of one bank that lanes read at once of a factor, summed over its tiles: a
   * half or a quarter of a warp reads 4 or 1 columns of 4 rows. */
  static constexpr int conflicts(int pad, int turn) {
    constexpr int BANKS = 16 / PARTS, COLUMNS = PARTS == 1 ? 4 : 1;
    int all = 0;
    for (int tile = 0; tile < TILES; tile++)
      for (int first = 0; first < EACH; first += COLUMNS) {
        int most = 0, count[BANKS] = {};
        for (int at = 0; at < QUARTERS * COLUMNS; at++) {
          const int row = column_at(tile, at % QUARTERS * PAIR, turn),
                    word = row * SIDE + pad * (row / QUARTER) +
                           column_at(tile, first + at / QUARTERS, turn);
          const int times = ++count[word % BANKS];
          most = times > most ? times : most;
        }
        all += most;
      }
    return all;
  }
  struct Way {
    int pad, turn;
  };
  /* Returns the elements between quarters and the turn with the fewest conflicts. */
  static constexpr Way WAY = [] {
    Way least = {0, 0};
    for (int pad = 0; WHOLE && pad < 16 / PARTS; pad += PAIR)
      for (int turn = 0; turn < QUARTER; turn += PAIR)
        if (conflicts(pad, turn) < conflicts(least.pad, least.turn)) least = {pad, turn};
    return least;
  }();
  static constexpr int PAD = WAY.pad, TURN = WAY.turn;
  /* More threads leave registers for fewer tiles, and where they suffice rows are read a tile ahead
   * of what is multiplied. */
  static constexpr int THREADS = TILES <= 4                                  ? 512
                                 : TILES <= 6                                ? 384
                                 : TILES <= 8 || (TILES <= 12 && PARTS == 2) ? 256
                                 : TILES <= 10                               ? 320
                                                                             : 192,
                       AHEAD = TILES <= 8 ? 1 : 0;

  static __device__ __forceinline__ int column(int tile, int place) {
    return WHOLE ? column_at(tile, place, TURN) : tile * EACH + place;
  }
  /* Says whether the lane's left column h of a tile is one of the side. */
  static __device__ __forceinline__ bool is_inside(int tile, int pair, int h, int side) {
    return WHOLE || tile < TILES - 1 || column(tile, PAIR * pair) + h / PARTS < side;
  }
  /* Returns where a row begins in a slot. */
  static __device__ __forceinline__ int row_at(int row, int side) {
    return row * side + (WHOLE ? row / QUARTER * PAD : 0);
  }
};

/* The elements of a slot for so many chains, a whole number of 16-byte words, wherever in a line
 * they begin. */
template <typename Shape>
static constexpr int slot_elements(int side, int chains) {
  constexpr int PAIR = Shape::PAIR;
  return (chains * side * side + (Shape::WHOLE ? (QUARTERS - 1) * Shape::PAD : 0) + PAIR - 1) /
             PAIR * PAIR +
         MMCI_PLACE_BYTES / (int)sizeof(typename Shape::Element);
}

struct DoubleCall {
  mmci_squares squares;
  int side, chains, slots, slot; /* chains of a unit; elements of a slot */
};

/* Begins to copy matrices that lie one behind the other to a slot. */
template <typename Shape, typename Element>
static __device__ __forceinline__ void load_slot(const Element *from, int count, Element *to,
                                                 mmci_counted_gate *gate) {
  if constexpr (Shape::WHOLE) {
    constexpr int PART = Shape::QUARTER * Shape::SIDE, BYTES = PART * (int)sizeof(Element);
    gate->expect(QUARTERS * BYTES);
#pragma unroll
    for (int q = 0; q < QUARTERS; q++)
      gate->copy(to + q * (PART + Shape::PAD), from + q * PART, BYTES);
    gate->arrive_after_copies();
  } else {
    mmci_load_matrices<double>(reinterpret_cast<const double *>(from),
                               (unsigned)count * Shape::PARTS, reinterpret_cast<double *>(to),
                               gate);
  }
}

template <typename Shape, typename Element>
static __device__ __forceinline__ void store_slot(Element *to, int count, const Element *from) {
  if constexpr (Shape::WHOLE) {
    constexpr int PART = Shape::QUARTER * Shape::SIDE;
#pragma unroll
    for (int q = 0; q < QUARTERS; q++)
      mmci_bulk_store(to + q * PART, from + q * (PART + Shape::PAD), PART * sizeof(Element));
    mmci_bulk_stores_commit();
  } else {
    mmci_store_matrices(reinterpret_cast<double *>(to), (unsigned)count * Shape::PARTS,
                        reinterpret_cast<const double *>(from));
  }
}

/* Returns the real column `line` of an element's row and of that of its product with i. */
static __device__ __forceinline__ void right_parts(const DoublePair &z, int line,
                                                   double (&out)[2]) {
  out[0] = line % 2 == 0 ? z.part[0] : z.part[1];
  out[1] = line % 2 == 0 ? -z.part[1] : z.part[0];
}

/* 16 rows of the running product from a row on, as an operand of tensor cores, and the sums of the
 * next one: of each tile a lane has two columns of two rows. Columns beyond the side are 0. */
template <typename Shape>
struct DoubleStrip {
  typedef typename Shape::Element Element;
  static constexpr int TILES = Shape::TILES, PAIR = Shape::PAIR;
  const int (&column)[TILES]; /* of the right operand */
  const int row, line, pair, side;
  double x[TILES][2][2]; /* [column][row] */
  double sums[TILES][4];

  __device__ __forceinline__ DoubleStrip(const int (&column_)[TILES], int row_, int line_,
                                         int pair_, int side_)
      : column(column_), row(row_), line(line_), pair(pair_), side(side_) {}

  __device__ __forceinline__ void read(const Element *matrix) {
#pragma unroll
    for (int below = 0; below < 2; below++) {
      const int r = row + below * TILE, last = side - 1;
      const Element *from = matrix + Shape::row_at(r < last ? r : last, side);
#pragma unroll
      for (int tile = 0; tile < TILES; tile++) {
        const double *at =
            reinterpret_cast<const double *>(from + Shape::column(tile, PAIR * pair));
#pragma unroll
        for (int h = 0; h < 2; h++)
          x[tile][h][below] = Shape::is_inside(tile, pair, h, side) ? at[h] : 0;
      }
    }
  }

  __device__ __forceinline__ void take() {
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
      for (int h = 0; h < 2; h++)
#pragma unroll
        for (int below = 0; below < 2; below++)
          x[tile][h][below] = Shape::is_inside(tile, pair, h, side) ? sums[tile][2 * below + h] : 0;
  }

  __device__ __forceinline__ void write(Element *matrix) const {
#pragma unroll
    for (int below = 0; below < 2; below++) {
      const int r = row + below * TILE;
      if (r >= side) continue;
      Element *to = matrix + Shape::row_at(r, side);
#pragma unroll
      for (int tile = 0; tile < TILES; tile++) {
        double *at = reinterpret_cast<double *>(to + Shape::column(tile, PAIR * pair));
#pragma unroll
        for (int h = 0; h < 2; h++)
          if (Shape::is_inside(tile, pair, h, side)) at[h] = sums[tile][2 * below + h];
      }
    }
  }

  __device__ __forceinline__ void multiply(const Element *factor) {
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
      for (int e = 0; e < 4; e++) sums[tile][e] = 0;
    constexpr int AHEAD = Shape::AHEAD;
    double right[AHEAD + 1][TILES][2];
    if (AHEAD > 0) read_rows(factor, 0, right[0]);
#pragma unroll
    for (int k = 0; k < TILES; k++) {
      const int next = k + AHEAD;
      if (next < TILES) read_rows(factor, next, right[next % (AHEAD + 1)]);
#pragma unroll
      for (int tile = 0; tile < TILES; tile++)
        mmci_multiply_f64(sums[tile], x[k], right[k % (AHEAD + 1)][tile]);
    }
  }

  /* Reads the rows that meet tile number k of the left operand. */
  __device__ __forceinline__ void read_rows(const Element *factor, int k,
                                            double (&right)[TILES][2]) const {
    const Element *from[PAIR];
#pragma unroll
    for (int e = 0; e < PAIR; e++)
      from[e] = factor + (Shape::is_inside(k, pair, e, side)
                              ? Shape::row_at(Shape::column(k, PAIR * pair) + e, side)
                              : 0);
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
      if constexpr (PAIR == 2) {
        right[tile][0] = from[0][column[tile]];
        right[tile][1] = from[1][column[tile]];
      } else {
        right_parts(from[0][column[tile]], line, right[tile]);
      }
#pragma unroll
      for (int h = 0; h < 2; h++)
        if (!Shape::is_inside(k, pair, h, side)) right[tile][h] = 0;
    }
  }
};

template <typename Shape>
__global__ void __launch_bounds__(Shape::THREADS, 1)
    multiply_double_strips(const __grid_constant__ DoubleCall call) {
  if constexpr (!MMCI_HAS_BULK_COPIES) return;
  typedef typename Shape::Element Element;
  MMCI_DYNAMIC_SHARED(memory);
  const int side = Shape::WHOLE ? Shape::SIDE : call.side,
            chains = Shape::WHOLE || Shape::PARTS == 2 ? 1 : call.chains, area = side * side,
            warps = (side - 1) / STRIP + 1, threads = chains * warps * WARP,
            thread = (int)threadIdx.x % threads, warp = thread / WARP, line = thread % WARP / 4,
            pair = thread % 4, row = warp % warps * STRIP + line,
            bytes =
                mmci_strips_gate_bytes(call.slots) + call.slots * call.slot * (int)sizeof(Element);
  const mmci_strips_unit unit = {threads, chains, area, call.slots, call.slot, true};
  int column[Shape::TILES];
#pragma unroll
  for (int tile = 0; tile < Shape::TILES; tile++) {
    const int c = Shape::column(tile, line / Shape::PARTS), last = side - 1;
    column[tile] = c < last ? c : last;
  }
  mmci_walk_strips<Element>(
      call.squares, unit, memory + (int)threadIdx.x / threads * bytes, warp / warps,
      [&]() { return DoubleStrip<Shape>(column, row, line, pair, side); },
      [&](const Element *from, int matrices, Element *to, mmci_counted_gate *gate) {
        load_slot<Shape>(from, matrices * area, to, gate);
      },
      [&](Element *to, int matrices, const Element *from) {
        store_slot<Shape>(to, matrices * area, from);
      });
}

/* ---- on the host ----------------------------------------------------------------------------- */

enum { MOST_BYTES = 227 * 1024 };

typedef void (*kernel_fn)(DoubleCall);

typedef struct variant {
  kernel_fn kernel;
  int side, chains, slots, units, slot, unit_threads, unit_bytes;
} variant;

template <typename Element, int SIDE, int SLOTS, int UNITS>
static constexpr variant variant_of() {
  constexpr int EACH = TILE * sizeof(double) / sizeof(Element);
  typedef DoubleShape<Element, (SIDE + EACH - 1) / EACH, SIDE % EACH == 0> Shape;
  constexpr int CHAINS = Shape::PARTS == 1 ? SIDE % 2 + 1 : 1,
                SLOT = slot_elements<Shape>(SIDE, CHAINS),
                THREADS = CHAINS * ((SIDE - 1) / STRIP + 1) * WARP,
                BYTES = mmci_strips_gate_bytes(SLOTS) + SLOTS * SLOT * (int)sizeof(Element);
  static_assert(UNITS * THREADS <= Shape::THREADS && UNITS * BYTES <= MOST_BYTES, "a block");
  return {multiply_double_strips<Shape>, SIDE, CHAINS, SLOTS, UNITS, SLOT, THREADS, BYTES};
}

#define VARIANT_F64(...) variant_of<double, __VA_ARGS__>(),
#define VARIANT_C128(...) variant_of<DoublePair, __VA_ARGS__>(),
static const variant VARIANTS_F64[] = {MMCI_ROWS(MMCI_STRIPS_F64, VARIANT_F64)},
                     VARIANTS_C128[] = {MMCI_ROWS(MMCI_STRIPS_C128, VARIANT_C128)};

static const variant *variant_for(mmc_dtype dtype, int number) {
  return (dtype == MMC_F64 ? VARIANTS_F64 : VARIANTS_C128) + number;
}

/* Sides of as many tiles share a kernel, which may have as much memory as any of them takes. */
extern "C" mmc_status mmci_strips_double_prepare(mmc_dtype dtype, int number, mmci_error *error) {
  MMCI_CUDA_TRY(cudaFuncSetAttribute(variant_for(dtype, number)->kernel,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, MOST_BYTES));
  return MMC_OK;
}

extern "C" mmc_status mmci_strips_double_launch(cudaStream_t stream,
                                                const mmci_group_limits *limits, mmc_dtype dtype,
                                                int number, const mmci_squares *squares,
                                                mmci_error *error) {
  const variant *v = variant_for(dtype, number);
  const int64_t all = (squares->batch - 1) / v->chains + 1,
                blocks = all < limits->multiprocessors ? all : limits->multiprocessors,
                asked = (all - 1) / blocks + 1, units = asked < v->units ? asked : v->units;
  const DoubleCall call = {*squares, v->side, v->chains, v->slots, v->slot};
  MMCI_CUDA_TRY(mmci_launch_overlapped(v->kernel, limits->overlap, dim3((unsigned)blocks),
                                       dim3((unsigned)(units * v->unit_threads)),
                                       (size_t)(units * v->unit_bytes), stream, call));
  return MMC_OK;
}

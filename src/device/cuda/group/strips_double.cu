/* strips_double.cu: batches of R = A1 A2 ... An in f64 from left to right, all factors side x side:
 * a warp keeps 16 rows of the running product in registers, as the operand that tensor cores take.
 *
 * Layout   factors and result without gaps, at whole 16-byte words, or a factor that all chains
 *          share; a unit, one chain, or two of an odd side, has slots for factors, and a warp for
 *          every 16 rows of a chain
 * Launch   a block a multiprocessor, of as many units as fit; a unit strides over the batch
 * Traffic  each factor is read once, the result is written once
 * Idea     over sides.cu: tensor cores multiply twice as fast, and what they add up is the left
 *          operand of the next product where it is: they may be given columns in any order, as long
 *          as the next factor's rows come in the same one. Where the side is a multiple of eight,
 *          rows that lanes read at once would begin in one bank: there a lane has rows of a quarter
 *          of its own, and the quarters of a factor lie some words apart
 *
 * Sums are those of fused multiply-adds, but not in the order of k. */
#include "device/cuda/group/bulk_copies.cuh"
#include "device/cuda/group/sides.h"
#include "device/cuda/tensor_f64.cuh"

enum { WARP = 32, STRIP = 16, TILE = 8, QUARTERS = 4, BANKS = 16 /* of doubles */ };

/* Of the columns of tile number n, at a place of eight, a lane has those at two places side by
 * side: 2 t and 2 t + 1 of lane 4 g + t. They are columns of A, and so rows of B, too. */
template <int TILES_, bool WHOLE_>
struct DoubleShape {
  static constexpr int TILES = TILES_;
  static constexpr bool WHOLE = WHOLE_; /* the side is TILES * TILE */
  static constexpr int SIDE = TILES * TILE, QUARTER = SIDE / QUARTERS;

  /* Returns the column of a whole shape. Its quarters begin `turn` columns apart. */
  static constexpr __host__ __device__ int column_at(int tile, int place, int turn) {
    const int quarter = place / 2;
    return quarter * QUARTER + (2 * tile + turn * quarter) % QUARTER + place % 2;
  }
  /* Counts the words of one bank that lanes read at once of a factor, summed over its tiles. */
  static constexpr int conflicts(int pad, int turn) {
    int all = 0;
    for (int tile = 0; tile < TILES; tile++)
      for (int half = 0; half < 2; half++) {
        int most = 0, count[BANKS] = {};
        for (int lane = 0; lane < STRIP; lane++) {
          const int row = column_at(tile, lane % 4 * 2, turn),
                    word = row * SIDE + pad * (row / QUARTER) +
                           column_at(tile, 4 * half + lane / 4, turn);
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
  /* Returns the words between quarters and the turn with the fewest conflicts. */
  static constexpr Way WAY = [] {
    Way least = {0, 0};
    for (int pad = 0; WHOLE && pad < BANKS; pad += 2)
      for (int turn = 0; turn < QUARTER; turn += 2)
        if (conflicts(pad, turn) < conflicts(least.pad, least.turn)) least = {pad, turn};
    return least;
  }();
  static constexpr int PAD = WAY.pad, TURN = WAY.turn;
  /* More threads leave registers for fewer tiles, and where they suffice rows are read a tile ahead
   * of what is multiplied. */
  static constexpr int THREADS = TILES <= 4    ? 512
                                 : TILES <= 6  ? 384
                                 : TILES <= 8  ? 256
                                 : TILES <= 10 ? 320
                                               : 192,
                       AHEAD = TILES <= 8 ? 1 : 0;

  static __device__ __forceinline__ int column(int tile, int place) {
    return WHOLE ? column_at(tile, place, TURN) : tile * TILE + place;
  }
  /* Returns where a row begins in a slot. */
  static __device__ __forceinline__ int row_at(int row, int side) {
    return row * side + (WHOLE ? row / QUARTER * PAD : 0);
  }
};

/* The doubles of a slot for so many chains, a whole number of 16-byte words. */
template <typename Shape>
static constexpr int slot_doubles(int side, int chains) {
  return (chains * side * side + (Shape::WHOLE ? (QUARTERS - 1) * Shape::PAD : 0) + 1) / 2 * 2;
}

static constexpr __host__ __device__ int gate_bytes(int slots) {
  return (slots * 8 + 15) / 16 * 16;
}

struct DoubleCall {
  mmci_squares squares;
  int side, chains, slots, slot; /* chains of a unit; doubles of a slot */
};

/* Begins to copy matrices that lie one behind the other to a slot. */
template <typename Shape>
static __device__ __forceinline__ void load_slot(const double *from, int count, double *to,
                                                 mmci_counted_gate *gate) {
  if constexpr (Shape::WHOLE) {
    constexpr int PART = Shape::QUARTER * Shape::SIDE;
    gate->expect(QUARTERS * PART * 8);
#pragma unroll
    for (int q = 0; q < QUARTERS; q++)
      gate->copy(to + q * (PART + Shape::PAD), from + q * PART, PART * 8);
    gate->arrive_after_copies();
  } else {
    mmci_load_matrices<double>(from, (unsigned)count, to, gate);
  }
}

template <typename Shape>
static __device__ __forceinline__ void store_slot(double *to, int count, const double *from) {
  if constexpr (Shape::WHOLE) {
    constexpr int PART = Shape::QUARTER * Shape::SIDE;
#pragma unroll
    for (int q = 0; q < QUARTERS; q++)
      mmci_bulk_store(to + q * PART, from + q * (PART + Shape::PAD), PART * 8);
    mmci_bulk_stores_commit();
  } else {
    mmci_store_matrices(to, (unsigned)count, from);
  }
}

/* 16 rows of a matrix, as an operand of tensor cores. The lane is 4 line + pair of its warp; a lane
 * has two columns of two rows of each tile. Columns beyond the side are 0. */
template <typename Shape>
struct DoubleStrip {
  static constexpr int TILES = Shape::TILES;
  double x[TILES][2][2]; /* [column][row] */

  static __device__ __forceinline__ bool is_inside(int tile, int place, int side) {
    return Shape::WHOLE || tile < TILES - 1 || Shape::column(tile, place) < side;
  }

  __device__ __forceinline__ void read(const double *matrix, int row, int pair, int side) {
#pragma unroll
    for (int below = 0; below < 2; below++) {
      const int r = row + below * TILE, last = side - 1;
      const double *from = matrix + Shape::row_at(r < last ? r : last, side);
#pragma unroll
      for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int h = 0; h < 2; h++)
          x[tile][h][below] =
              is_inside(tile, 2 * pair + h, side) ? from[Shape::column(tile, 2 * pair) + h] : 0;
    }
  }

  __device__ __forceinline__ void take(const double (&sums)[TILES][4], int pair, int side) {
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
      for (int h = 0; h < 2; h++)
#pragma unroll
        for (int below = 0; below < 2; below++)
          x[tile][h][below] = is_inside(tile, 2 * pair + h, side) ? sums[tile][2 * below + h] : 0;
  }

  /* Writes sums as a matrix. */
  static __device__ __forceinline__ void write(const double (&sums)[TILES][4], double *matrix,
                                               int row, int pair, int side) {
#pragma unroll
    for (int below = 0; below < 2; below++) {
      const int r = row + below * TILE;
      if (r >= side) continue;
      double *to = matrix + Shape::row_at(r, side);
#pragma unroll
      for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int h = 0; h < 2; h++)
          if (is_inside(tile, 2 * pair + h, side))
            to[Shape::column(tile, 2 * pair) + h] = sums[tile][2 * below + h];
    }
  }

  /* Multiplies by a factor, of whose tiles the lane reads these columns. */
  __device__ __forceinline__ void multiply(const double *factor, const int (&column)[TILES],
                                           int pair, int side, double (&sums)[TILES][4]) const {
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
      for (int e = 0; e < 4; e++) sums[tile][e] = 0;
    constexpr int AHEAD = Shape::AHEAD;
    double right[AHEAD + 1][TILES][2];
    if (AHEAD > 0) read_rows(factor, column, pair, side, 0, right[0]);
#pragma unroll
    for (int k = 0; k < TILES; k++) {
      const int next = k + AHEAD;
      if (next < TILES) read_rows(factor, column, pair, side, next, right[next % (AHEAD + 1)]);
#pragma unroll
      for (int tile = 0; tile < TILES; tile++)
        mmci_multiply_f64(sums[tile], x[k], right[k % (AHEAD + 1)][tile]);
    }
  }

  /* Reads tile number k of the factor's rows. */
  static __device__ __forceinline__ void read_rows(const double *factor, const int (&column)[TILES],
                                                   int pair, int side, int k,
                                                   double (&right)[TILES][2]) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int row = Shape::column(k, 2 * pair) + h;
      const bool is_there = is_inside(k, 2 * pair + h, side);
      const double *from = factor + (is_there ? Shape::row_at(row, side) : 0);
#pragma unroll
      for (int tile = 0; tile < TILES; tile++) right[tile][h] = is_there ? from[column[tile]] : 0;
    }
  }
};

template <typename Shape>
__global__ void __launch_bounds__(Shape::THREADS, 1)
    multiply_double_strips(const __grid_constant__ DoubleCall call) {
  if constexpr (!MMCI_HAS_BULK_COPIES) return;
  typedef DoubleStrip<Shape> Strip;
  MMCI_DYNAMIC_SHARED(memory);
  const mmci_squares &e = call.squares;
  const int side = Shape::WHOLE ? Shape::SIDE : call.side, chains = Shape::WHOLE ? 1 : call.chains,
            area = side * side, slots = call.slots, warps = (side - 1) / STRIP + 1,
            threads = chains * warps * WARP, unit = (int)threadIdx.x / threads,
            thread = (int)threadIdx.x % threads, warp = thread / WARP, chain = warp / warps,
            line = thread % WARP / 4, pair = thread % 4, row = warp % warps * STRIP + line, n = e.n,
            bytes = gate_bytes(slots) + slots * call.slot * 8;
  mmci_counted_gate *gates = reinterpret_cast<mmci_counted_gate *>(memory + unit * bytes);
  double *places = reinterpret_cast<double *>(memory + unit * bytes + gate_bytes(slots));
  int column[Shape::TILES];
#pragma unroll
  for (int tile = 0; tile < Shape::TILES; tile++) {
    const int c = Shape::column(tile, line), last = side - 1;
    column[tile] = c < last ? c : last;
  }
  if (thread < slots) gates[thread].open(MMCI_MATRICES_ARRIVALS);
  mmci_group_wait(unit, threads);
  mmci_follow_previous();
  const int64_t units = (e.batch - 1) / chains + 1,
                stride = (int64_t)gridDim.x * ((int)blockDim.x / threads);
  /* The last unit may have fewer chains. */
  const int chains_last = (int)(e.batch - (units - 1) * chains);
  auto chains_of = [&](int64_t of) { return of + 1 < units ? chains : chains_last; };
  auto is_shared = [&](int factor) { return e.stride[factor] == 0; };
  int64_t at = blockIdx.x + (int64_t)gridDim.x * unit, coming = at;
  int coming_factor = 0, coming_slot = 0, slot = 0;
  unsigned parity = 0;
  auto load_next = [&]() {
    if (coming >= units) return;
    if (thread == 0)
      load_slot<Shape>(static_cast<const double *>(e.data[coming_factor]) +
                           coming * chains * e.stride[coming_factor],
                       (is_shared(coming_factor) ? 1 : chains_of(coming)) * area,
                       places + coming_slot * call.slot, gates + coming_slot);
    coming_slot = coming_slot + 1 == slots ? 0 : coming_slot + 1;
    if (++coming_factor == n) {
      coming_factor = 0;
      coming += stride;
    }
  };
  /* A copy may land before words have been read that lanes have asked for. */
  auto load_next_after_reads = [&]() {
    mmci_order_bulk_copies();
    mmci_group_wait(unit, threads);
    load_next();
  };
  auto take = [&]() {
    gates[slot].wait(parity);
    double *place = places + slot * call.slot;
    slot++;
    if (slot == slots) {
      slot = 0;
      parity ^= 1;
    }
    return place;
  };
#pragma unroll 1
  for (int i = 0; i < slots; i++) load_next();
#pragma unroll 1
  for (; at < units; at += stride) {
    const bool is_there = chain < chains_of(at);
    const double *first = take() + (is_shared(0) ? 0 : chain * area);
    Strip product;
    if (is_there) product.read(first, row, pair, side);
    load_next_after_reads();
    double sums[Shape::TILES][4];
    double *last = nullptr;
#pragma unroll 1
    for (int f = 1; f < n; f++) {
      last = take();
      if (is_there)
        product.multiply(last + (is_shared(f) ? 0 : chain * area), column, pair, side, sums);
      if (f == n - 1) break;
      load_next_after_reads();
      if (is_there) product.take(sums, pair, side);
    }
    /* The result takes the last factor's place, which no lane reads any more. */
    mmci_group_wait(unit, threads);
    if (is_there) Strip::write(sums, last + chain * area, row, pair, side);
    mmci_order_bulk_copies();
    mmci_group_wait(unit, threads);
    if (thread == 0) {
      store_slot<Shape>(static_cast<double *>(e.c) + at * chains * e.c_stride, chains_of(at) * area,
                        last);
      mmci_await_bulk_reads();
    }
    load_next();
  }
  if (thread == 0) mmci_await_bulk_stores();
}

/* ---- on the host ----------------------------------------------------------------------------- */

enum { MOST_BYTES = 227 * 1024 };

static constexpr int unit_bytes_of(int slots, int slot) {
  return gate_bytes(slots) + slots * slot * (int)sizeof(double);
}
static constexpr int unit_threads_of(int side, int chains) {
  return chains * ((side - 1) / STRIP + 1) * WARP;
}

typedef void (*kernel_fn)(DoubleCall);

typedef struct variant {
  kernel_fn kernel;
  int side, chains, slots, units, slot, unit_threads, unit_bytes;
} variant;

template <int SIDE, int SLOTS, int UNITS>
static constexpr variant variant_of() {
  typedef DoubleShape<(SIDE + TILE - 1) / TILE, SIDE % TILE == 0> Shape;
  constexpr int CHAINS = SIDE % 2 + 1, SLOT = slot_doubles<Shape>(SIDE, CHAINS),
                THREADS = unit_threads_of(SIDE, CHAINS), BYTES = unit_bytes_of(SLOTS, SLOT);
  static_assert(UNITS * THREADS <= Shape::THREADS && UNITS * BYTES <= MOST_BYTES, "a block");
  return {multiply_double_strips<Shape>, SIDE, CHAINS, SLOTS, UNITS, SLOT, THREADS, BYTES};
}

#define VARIANT(...) variant_of<__VA_ARGS__>(),
static const variant VARIANTS[] = {MMCI_ROWS(MMCI_STRIPS_F64, VARIANT)};

/* Sides of as many tiles share a kernel, which may have as much memory as any of them takes. */
extern "C" mmc_status mmci_strips_double_prepare(int number, mmci_error *error) {
  MMCI_CUDA_TRY(cudaFuncSetAttribute(VARIANTS[number].kernel,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, MOST_BYTES));
  return MMC_OK;
}

extern "C" mmc_status mmci_strips_double_launch(cudaStream_t stream,
                                                const mmci_group_limits *limits, int number,
                                                const mmci_squares *squares, mmci_error *error) {
  const variant *v = &VARIANTS[number];
  const int64_t all = (squares->batch - 1) / v->chains + 1,
                blocks = all < limits->multiprocessors ? all : limits->multiprocessors,
                asked = (all - 1) / blocks + 1, units = asked < v->units ? asked : v->units;
  const DoubleCall call = {*squares, v->side, v->chains, v->slots, v->slot};
  MMCI_CUDA_TRY(mmci_launch_overlapped(v->kernel, limits->overlap, dim3((unsigned)blocks),
                                       dim3((unsigned)(units * v->unit_threads)),
                                       (size_t)(units * v->unit_bytes), stream, call));
  return MMC_OK;
}

/* spines.cu: one chain, or few, on the whole device: blocks take pieces of spines (group.h) in an
 * order in which every piece comes after those that it waits for.
 *
 * rows    up to 16 rows of the running product times S x S factors, S = 32, 64, 128:
 *         warp w has k from w S/8 on and, of the sums, the same columns, so the running product and
 *         its part of each factor are its own; factors come ahead of use without a barrier, and
 *         partial sums of the warps meet in shared memory, one barrier a factor
 * tiles   more rows: a group of warps, tiles of 4 x 8 elements a thread, product and factors in
 *         shared memory
 * squares as tiles, for whole squares of side 32 or 64: a block or half of one each, no guards
 *
 * Chains that are a single spine each need no order: their blocks find all in the launch's
 * parameters.
 *
 * Launch  as many blocks as fit at once; each draws tickets. A ticket says which task and which
 *         launch, and the last one drawn begins the next launch's. A block waits only for tasks of
 *         lower tickets, which run or ran already, so all ends however few blocks run at a time.
 *         The record that describes a task is copied while the task before it is computed
 * Layout  factors smaller than S are filled up with zeros */
#include "device/cuda/group/group_kernels.cuh"

#include "device/cuda/group/spines.h"

enum {
  WARP = 32,
  THREADS = MMCI_SPINES_THREADS,
  WARPS = THREADS / WARP,
  ROWS_MOST = 16,
  LINE_BYTES = 128
};

/* An operand, once its address is known. */
template <typename Real>
struct Source {
  const Real *data;
  int64_t ld;
  int rows, cols;
  bool trans, wide;
};

template <typename Real>
static __device__ __forceinline__ Source<Real> resolve(const mmci_spine_operand &o,
                                                       const void *address) {
  const Real *data = static_cast<const Real *>(address);
  const bool aligned = reinterpret_cast<uintptr_t>(data) % 16 == 0;
  return {data,
          o.ld,
          o.rows,
          o.cols,
          o.way == MMCI_SPINES_TRANSPOSED,
          o.way == MMCI_SPINES_WIDE && aligned};
}

/* The operands of a piece's record. */
template <typename Real>
struct Recorded {
  const mmci_spine_operand *list;
  __device__ __forceinline__ Source<Real> operator[](int f) const {
    return resolve<Real>(list[f], list[f].data);
  }
};

/* Holds operands that came with the launch, of one chain. */
template <typename Real>
struct Given {
  const mmci_spine_alone &alone;
  const unsigned chain;
  __device__ __forceinline__ Source<Real> operator[](int f) const {
    const mmci_spine_operand &o = alone.list[f];
    return resolve<Real>(o, static_cast<const char *>(o.data) + chain * o.stride);
  }
};

/* Copies rows first_row.. and all columns of a source into rows x cols elements of pitch, with
 * zeros outside, by threads that count lanes. */
template <typename Real>
static __device__ __forceinline__ void load(const Source<Real> &from, int first_row, int rows,
                                            int cols, Real *to, int pitch, int lane, int lanes) {
  constexpr int per_word = 16 / (int)sizeof(Real);
  if (from.wide) {
    const int across = cols / per_word;
    for (int x = lane; x < rows * across; x += lanes) {
      const int r = x / across, c = x % across * per_word, row = first_row + r;
      const bool there = row < from.rows && c < from.cols;
      mmci_copy_async_or_zero<16>(to + r * pitch + c,
                                  there ? from.data + row * from.ld + c : from.data, there);
    }
    return;
  }
  for (int x = lane; x < rows * cols; x += lanes) {
    const int r = from.trans ? x % rows : x / cols, c = from.trans ? x / rows : x % cols,
              row = first_row + r;
    const bool there = row < from.rows && c < from.cols;
    const Real *at = from.data + (from.trans ? c * from.ld + row : row * from.ld + c);
    mmci_copy_async_or_zero<(int)sizeof(Real)>(to + r * pitch + c, there ? at : from.data, there);
  }
}

/* Describes where a piece's last product goes. */
template <typename Real>
struct Result {
  Real *to;
  int64_t ld;
  int rows;
};

/* ---- few rows ---------------------------------------------------------------------------------
 */

template <typename Real, int COUNT>
struct alignas(COUNT * sizeof(Real) < 16 ? COUNT * sizeof(Real) : 16) Several {
  Real v[COUNT];
};

template <typename Real, int SIDE, int ROWS = ROWS_MOST>
struct RowsShape {
  static constexpr int depth = SIDE / WARPS, /* how much of k a warp takes */
      columns = SIDE / WARP,                 /* columns of a lane */
      pitch = SIDE + 16 / (int)sizeof(Real) * 2, factor = SIDE * SIDE;
  /* So many factors are loaded ahead, as there is room for. */
  static constexpr int bytes = factor * (int)sizeof(Real), ahead = bytes <= 16384   ? 7
                                                                   : bytes <= 32768 ? 2
                                                                                    : 1;
  static constexpr int rows = bytes <= 65536 ? ROWS : ROWS < ROWS_MOST / 4 ? ROWS : ROWS_MOST / 4;
  Real partial[2][WARPS][rows][pitch];
  Real product[WARPS][rows][depth];
  Real factors[ahead][factor];
};

/* Computes ROWS rows from row on. meanwhile(f) does whatever else is to be done during product
 * f. */
template <typename Real, int SIDE, int ROWS, bool EVEN, typename Sources, typename Meanwhile>
static __device__ __forceinline__ void multiply_rows(unsigned char *memory, const Sources &sources,
                                                     int operands, int row,
                                                     const Result<Real> &result,
                                                     Meanwhile meanwhile) {
  typedef RowsShape<Real, SIDE, ROWS> Shape;
  Shape &shared = *reinterpret_cast<Shape *>(memory);
  constexpr int depth = Shape::depth, columns = Shape::columns, ahead = Shape::ahead,
                per_word = 16 / (int)sizeof(Real);
  /* The warp's ROWS x depth sums are added up, so many in a lane, by as many lanes each. */
  constexpr int at_once = ROWS < 4 || depth > 8 ? 2 : 4, sums = ROWS * depth,
                each = sums >= WARP ? sums / WARP : 1, sharers = sums >= WARP ? 1 : WARP / sums;
  const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, k = warp * depth;
  int slot = 0;
  auto ask = [&](int f) {
    if (f < operands) {
      const Source<Real> part = sources[f];
      Real *to = shared.factors[slot] + k * SIDE;
      if (EVEN) {
        constexpr int across = SIDE / per_word, down = WARP / across;
        const int ld = (int)part.ld;
        const Real *from = part.data + (int64_t)(k + lane / across) * ld + lane % across * per_word;
#pragma unroll
        for (int d = 0; d < depth; d += down) {
          mmci_copy_async(to + d * SIDE + lane * per_word, from);
          from += down * ld;
        }
      } else {
        load(part, k, depth, SIDE, to, SIDE, lane, WARP);
      }
    }
    mmci_copy_async_commit();
    slot = slot + 1 == ahead ? 0 : slot + 1;
  };
  Several<Real, columns> factor[depth];
  auto take = [&] {
    mmci_copy_async_wait<ahead - 1>();
    __syncwarp();
    const Real *from = shared.factors[slot] + k * SIDE + lane * columns;
#pragma unroll
    for (int d = 0; d < depth; d++)
      factor[d] = *reinterpret_cast<const Several<Real, columns> *>(from + d * SIDE);
  };
  /* The warp's columns of the first operand's rows. */
  {
    const Source<Real> first = sources[0];
    Real *to = &shared.product[warp][0][0];
    if (EVEN)
#pragma unroll
      for (int x = lane * per_word; x < ROWS * depth; x += WARP * per_word)
        mmci_copy_async(to + x, first.data + (row + x / depth) * first.ld + k + x % depth);
    else
      for (int x = lane; x < ROWS * depth; x += WARP) {
        const int r = row + x / depth, c = k + x % depth;
        const bool there = r < first.rows && c < first.cols;
        const Real *at = first.data + (first.trans ? c * first.ld + r : r * first.ld + c);
        mmci_copy_async_or_zero<(int)sizeof(Real)>(to + x, there ? at : first.data, there);
      }
  }
#pragma unroll EVEN ? ahead : 1
  for (int f = 1; f <= ahead; f++) ask(f);
  take();
  __syncwarp();
  const int at = lane * each % sums, r = at / depth, c = at % depth,
            from = lane * each / sums * (WARPS / sharers);
#pragma unroll 1
  for (int f = 1; f < operands; f++) {
    /* The next rows are loaded before sums are stored where the compiler cannot tell them apart. */
    Several<Real, 4> x[2][at_once][depth / 4];
    auto get = [&](int i) {
#pragma unroll
      for (int t = 0; t < at_once; t++)
#pragma unroll
        for (int d = 0; d < depth; d += 4)
          x[i / at_once & 1][t][d / 4] = *reinterpret_cast<const Several<Real, 4> *>(
              &shared.product[warp][0][0] + (i + t) * depth + d);
    };
    get(0);
    meanwhile(f);
    ask(f + ahead);
#pragma unroll
    for (int i = 0; i < ROWS; i += at_once) {
      if (i + at_once < ROWS) get(i + at_once);
      Several<Real, columns> sum[at_once] = {};
#pragma unroll
      for (int d = 0; d < depth; d++)
#pragma unroll
        for (int t = 0; t < at_once; t++)
#pragma unroll
          for (int j = 0; j < columns; j++)
            sum[t].v[j] += x[i / at_once & 1][t][d / 4].v[d % 4] * factor[d].v[j];
#pragma unroll
      for (int t = 0; t < at_once; t++)
        *reinterpret_cast<Several<Real, columns> *>(
            &shared.partial[f & 1][warp][i + t][lane * columns]) = sum[t];
    }
    const int cols = EVEN ? SIDE : sources[f].cols;
    __syncthreads();
    Several<Real, each> part[WARPS / sharers], sum = {};
#pragma unroll
    for (int w = 0; w < WARPS / sharers; w++)
      part[w] = *reinterpret_cast<const Several<Real, each> *>(
          &shared.partial[f & 1][from + w][r][k + c]);
    take();
#pragma unroll
    for (int w = 0; w < WARPS / sharers; w++)
#pragma unroll
      for (int j = 0; j < each; j++) sum.v[j] += part[w].v[j];
#pragma unroll
    for (int distance = WARP / 2; distance >= sums; distance /= 2)
      sum.v[0] += __shfl_xor_sync(~0u, sum.v[0], distance);
    if (!EVEN) {
      /* Beyond the columns there must be zeros, although infinity times zero is NaN. */
#pragma unroll
      for (int j = 0; j < each; j++)
        if (k + c + j >= cols) sum.v[j] = 0;
    }
    if (lane * each < sums) {
      if (f < operands - 1)
        *reinterpret_cast<Several<Real, each> *>(&shared.product[warp][0][0] + r * depth + c) = sum;
      else if (EVEN)
        *reinterpret_cast<Several<Real, each> *>(result.to + r * result.ld + k + c) = sum;
      else if (r < result.rows)
#pragma unroll
        for (int j = 0; j < each; j++)
          if (k + c + j < cols) result.to[r * result.ld + k + c + j] = sum.v[j];
    }
    __syncwarp();
  }
  mmci_copy_async_wait<0>();
}

/* ---- many rows --------------------------------------------------------------------------------
 */

/* Computes to = from (rows x 4 k4) factor (4 k4 x 8 across), in tiles of 4 x 8 whose rows are apart
 * by down. */
template <typename Real, typename Put>
static __device__ __forceinline__ void multiply_tile(const Real *from, int from_pitch,
                                                     const Real *factor, int factor_pitch, int down,
                                                     int across, int k4, int thread, int threads,
                                                     Put put) {
  typedef Several<Real, 4> Row;
  /* Lanes i, i^1 or i, i^2 read the same words where eight rows by four columns fill a warp. */
  const bool square = down % 8 == 0 && across % 4 == 0;
  for (int t = thread; t < down * across; t += threads) {
    int row = t / across, col = t % across;
    if (square) {
      const int lane = t % WARP, block = t / WARP;
      col = block % (across / 4) * 4 + ((lane & 1) | ((lane >> 1) & 2));
      row = block / (across / 4) * 8 + (((lane >> 1) & 1) | ((lane >> 2) & 6));
    }
    const Real *a = from + row * from_pitch, *b = factor + col * 4;
    Row sums[4][2] = {};
#pragma unroll 2
    for (int k = 0; k < k4; k++) {
      Row left[4];
#pragma unroll
      for (int i = 0; i < 4; i++)
        left[i] = *reinterpret_cast<const Row *>(a + i * down * from_pitch + 4 * k);
#pragma unroll
      for (int d = 0; d < 4; d++)
#pragma unroll
        for (int g = 0; g < 2; g++) {
          const Row right =
              *reinterpret_cast<const Row *>(b + (4 * k + d) * factor_pitch + g * 4 * across);
#pragma unroll
          for (int i = 0; i < 4; i++)
#pragma unroll
            for (int q = 0; q < 4; q++) sums[i][g].v[q] += left[i].v[d] * right.v[q];
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int g = 0; g < 2; g++) put(row + i * down, col * 4 + g * 4 * across, sums[i][g]);
  }
}

template <typename Real, int SIDE, typename Sources, typename Meanwhile>
static __device__ __forceinline__ void multiply_tiles(Real *memory, const Sources &sources,
                                                      int operands, int row, int depth, int group,
                                                      int thread, int threads,
                                                      const Result<Real> &result,
                                                      Meanwhile meanwhile) {
  constexpr int pitch = SIDE + 16 / (int)sizeof(Real);
  typedef Several<Real, 4> Row;
  const int down = (result.rows + 3) / 4, rows = down * 4;
  Real *from = memory, *to = memory + rows * pitch, *factors = memory + 2 * rows * pitch;
  auto factor_at = [&](int f) { return factors + (f - 1) % depth * (SIDE * SIDE); };
  auto ask = [&](int f) {
    if (f < operands) {
      const Source<Real> source = sources[f];
      load(source, 0, (source.rows + 3) / 4 * 4, SIDE, factor_at(f), SIDE, thread, threads);
    }
    mmci_copy_async_commit();
  };
  const Source<Real> first = sources[0];
  load(first, row, rows, SIDE, from, pitch, thread, threads);
  for (int f = 1; f <= depth; f++) ask(f);
#pragma unroll 1
  for (int f = 1; f < operands; f++) {
    if (depth == 3)
      mmci_copy_async_wait<2>();
    else if (depth == 2)
      mmci_copy_async_wait<1>();
    else
      mmci_copy_async_wait<0>();
    mmci_group_wait(group, threads);
    meanwhile(f);
    const int k4 = (sources[f].rows + 3) / 4, cols = sources[f].cols, across = (cols + 7) / 8;
    if (f < operands - 1)
      multiply_tile(from, pitch, factor_at(f), SIDE, down, across, k4, thread, threads,
                    [&](int r, int c, Row v) {
#pragma unroll
                      for (int q = 0; q < 4; q++)
                        if (c + q >= cols) v.v[q] = 0;
                      *reinterpret_cast<Row *>(to + r * pitch + c) = v;
                    });
    else
      multiply_tile(from, pitch, factor_at(f), SIDE, down, across, k4, thread, threads,
                    [&](int r, int c, const Row &v) {
                      if (r >= result.rows) return;
                      Real *at = result.to + r * result.ld + c;
                      if (c + 4 <= cols && reinterpret_cast<uintptr_t>(at) % alignof(Row) == 0)
                        *reinterpret_cast<Row *>(at) = v;
                      else
#pragma unroll
                        for (int q = 0; q < 4; q++)
                          if (c + q < cols) at[q] = v.v[q];
                    });
    mmci_group_wait(group, threads);
    ask(f + depth);
    Real *free = from;
    from = to;
    to = free;
  }
  mmci_copy_async_wait<0>();
}

/* ---- squares ----------------------------------------------------------------------------------
 */

/* Computes all rows of a spine of squares, by a block or half of one. */
template <typename Real, int SIDE, int GROUP>
struct SquaresShape {
  static constexpr int threads = GROUP, across = SIDE / 4, down = threads / across,
                       height = SIDE / down, ahead = 3, pitch = SIDE + 16 / (int)sizeof(Real);
  Real products[2][SIDE * pitch];
  Real factors[ahead][SIDE * SIDE];
};

template <typename Real, int SIDE, int GROUP, typename Sources, typename Meanwhile>
static __device__ __forceinline__ void multiply_squares(unsigned char *memory,
                                                        const Sources &sources, int operands,
                                                        int group, int thread,
                                                        const Result<Real> &result,
                                                        Meanwhile meanwhile) {
  typedef SquaresShape<Real, SIDE, GROUP> Shape;
  typedef Several<Real, 4> Row;
  constexpr int height = Shape::height, down = Shape::down, pitch = Shape::pitch,
                per_word = 16 / (int)sizeof(Real), words = SIDE / per_word;
  Shape &shared = *reinterpret_cast<Shape *>(memory);
  /* Lanes i, i^1 or i, i^2 read the same words. */
  const int lane = thread % WARP, warp = thread / WARP, warps_across = Shape::across / 4,
            col = (warp % warps_across * 4 + ((lane & 1) | ((lane >> 1) & 2))) * 4,
            row = warp / warps_across * 8 + (((lane >> 1) & 1) | ((lane >> 2) & 6));
  auto load_square = [&](int f, Real *to, int to_pitch) {
    constexpr int lines = Shape::threads / words;
    const Source<Real> source = sources[f];
    const int line = thread / words, c = thread % words * per_word;
    const int ld = (int)source.ld;
    const Real *from = source.data + (int64_t)line * ld + c;
#pragma unroll
    for (int r = 0; r < SIDE; r += lines) {
      mmci_copy_async(to + (r + line) * to_pitch + c, from);
      from += lines * ld;
    }
  };
  auto ask = [&](int f) {
    if (f < operands) load_square(f, shared.factors[(f - 1) % Shape::ahead], SIDE);
    mmci_copy_async_commit();
  };
  load_square(0, shared.products[1], pitch);
  for (int f = 1; f <= Shape::ahead; f++) ask(f);
#pragma unroll 1
  for (int f = 1; f < operands; f++) {
    if (f == 1)
      mmci_copy_async_wait<Shape::ahead - 1>();
    else
      mmci_copy_async_wait<Shape::ahead - 2>();
    mmci_group_wait(group, Shape::threads);
    /* A thread that comes here is done with the product before. */
    if (f > 1) ask(f + Shape::ahead - 1);
    meanwhile(f);
    const Real *left = shared.products[f & 1] + row * pitch,
               *right = shared.factors[(f - 1) % Shape::ahead] + col;
    Row sums[height] = {};
#pragma unroll 4
    for (int k = 0; k < SIDE; k += 4) {
      Row x[height];
#pragma unroll
      for (int i = 0; i < height; i++)
        x[i] = *reinterpret_cast<const Row *>(left + i * down * pitch + k);
#pragma unroll
      for (int d = 0; d < 4; d++) {
        const Row y = *reinterpret_cast<const Row *>(right + (k + d) * SIDE);
#pragma unroll
        for (int i = 0; i < height; i++)
#pragma unroll
          for (int q = 0; q < 4; q++) sums[i].v[q] += x[i].v[d] * y.v[q];
      }
    }
    auto put = [&](Real *to, int64_t ld) {
#pragma unroll
      for (int i = 0; i < height; i++)
        *reinterpret_cast<Row *>(to + (row + i * down) * ld + col) = sums[i];
    };
    if (f < operands - 1)
      put(shared.products[(f + 1) & 1], pitch);
    else
      put(result.to, result.ld);
  }
  mmci_copy_async_commit();
  mmci_copy_async_wait<0>();
}

/* ---- pieces -----------------------------------------------------------------------------------
 */

/* So many addresses travel with a launch. */
enum { FEW = 64, MANY = 480 };

template <int COUNT>
struct Addresses {
  const void *at[COUNT];
};

template <typename Real, int SIDE, bool EVEN, typename Sources, typename Meanwhile>
static __device__ __forceinline__ void multiply_piece(unsigned char *memory,
                                                      const mmci_spine_task &task,
                                                      const mmci_spine_piece &piece, int depth,
                                                      const Sources &sources, int group, int thread,
                                                      int threads, const Result<Real> &result,
                                                      Meanwhile meanwhile) {
#define ROWS(COUNT)                                                                          \
  multiply_rows<Real, SIDE, COUNT, EVEN>(memory, sources, piece.operands, piece.row, result, \
                                         meanwhile)
  if (task.group_elements == 0) {
    if (piece.rows <= 2) {
      ROWS(2);
    } else if (piece.rows <= 4) {
      ROWS(4);
    } else if constexpr (RowsShape<Real, SIDE>::rows > 4) {
      if (piece.rows <= 8)
        ROWS(8);
      else
        ROWS(16);
    }
    return;
  }
#undef ROWS
  unsigned char *mine = memory + (size_t)group * (size_t)task.group_elements * sizeof(Real);
  if constexpr (EVEN) {
    if (piece.rows == SIDE && threads >= THREADS / 2) {
      if (threads == THREADS)
        multiply_squares<Real, SIDE, THREADS>(mine, sources, piece.operands, group, thread, result,
                                              meanwhile);
      else
        multiply_squares<Real, SIDE, THREADS / 2>(mine, sources, piece.operands, group, thread,
                                                  result, meanwhile);
      return;
    }
  }
  multiply_tiles<Real, SIDE>(reinterpret_cast<Real *>(mine), sources, piece.operands, piece.row,
                             depth, group, thread, threads, result, meanwhile);
}

template <typename Real, int SIDE, bool EVEN>
__global__ void __launch_bounds__(THREADS, 1)
    multiply_spines(const __grid_constant__ mmci_spines_call call,
                    const __grid_constant__ Addresses<FEW> addresses) {
  MMCI_DYNAMIC_SHARED(memory);
  __shared__ int drawn[2];
  __shared__ unsigned launches; /* launches so far, with this one */
  const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
  const bool draws = call.ticket != nullptr;
  unsigned long long ticket = blockIdx.x;
  /* Records never change. */
  const int64_t lines =
      ((int64_t)call.tasks_count * call.record_bytes + LINE_BYTES - 1) / LINE_BYTES;
  for (int64_t l = (int64_t)blockIdx.x * THREADS + threadIdx.x; l < lines;
       l += (int64_t)gridDim.x * THREADS)
    mmci_prefetch(call.records + l * LINE_BYTES);
  mmci_follow_previous();
  auto draw = [&] {
    if (lane == 0) ticket = atomicAdd(call.ticket, 1ull);
  };
  /* The first warp asks for the record of what was drawn. */
  auto fetch = [&](int turn) {
    ticket = __shfl_sync(~0u, ticket, 0);
    const int number = (int)(unsigned)ticket;
    if (lane == 0) {
      drawn[turn] = number;
      launches = (unsigned)(ticket >> 32) + 1;
      /* All other blocks have drawn their last. */
      if (draws && number == call.tasks_count + (int)gridDim.x - 1)
        *call.ticket = (unsigned long long)launches << 32;
    }
    if (number >= call.tasks_count) return;
    const char *from = call.records + (int64_t)number * call.record_bytes;
    for (int x = lane * 16; x < call.record_bytes; x += WARP * 16)
      mmci_copy_async(memory + turn * call.record_bytes + x, from + x);
  };
  if (warp == 0) {
    if (draws) draw();
    fetch(0);
    mmci_copy_async_commit();
    mmci_copy_async_wait<0>();
  }
  __syncthreads();
  for (int turn = 0; drawn[turn] < call.tasks_count; turn ^= 1) {
    unsigned char *record = memory + turn * call.record_bytes;
    const mmci_spine_task task = *reinterpret_cast<const mmci_spine_task *>(record);
    const int threads = THREADS >> task.split, group = ((int)threadIdx.x << task.split) / THREADS,
              thread = (int)threadIdx.x & (threads - 1);
    if (group < task.pieces) {
      record += sizeof task + group * task.piece_bytes;
      mmci_spine_piece &mine = *reinterpret_cast<mmci_spine_piece *>(record);
      mmci_spine_operand *list = reinterpret_cast<mmci_spine_operand *>(record + sizeof mine);
      const mmci_spine_wait *waits =
          reinterpret_cast<const mmci_spine_wait *>(list + mine.operands);
      /* The record gets the addresses that it has not. */
      for (int f = thread; f < mine.operands; f += threads) {
        const int source = list[f].source;
        const void *data = list[f].data;
        if (data == nullptr)
          data = call.base != nullptr    ? call.base + source * call.step
                 : call.table != nullptr ? call.table[source]
                                         : addresses.at[source];
        list[f].data = list[f].gathered != 0
                           ? static_cast<const void *const *>(data)[mine.chain]
                           : static_cast<const char *>(data) + mine.chain * list[f].stride;
      }
      if (thread == threads - 1) {
        const bool is_result = mine.to == nullptr;
        char *first = static_cast<char *>(is_result ? call.c : mine.to);
        mine.to = is_result && call.c_gathered ? static_cast<void *const *>(call.c)[mine.chain]
                                               : first + mine.chain * mine.stride;
      }
      for (int w = thread; w < mine.waits; w += threads) {
        const unsigned goal = launches * (unsigned)waits[w].pieces;
        while ((int)(mmci_acquire(call.counters + waits[w].counter) - goal) < 0) continue;
      }
      mmci_group_wait(group, threads);
      const mmci_spine_piece piece = mine;
      /* The next task is drawn when all blocks must have drawn theirs, and its record is asked for
       * when the ticket must have arrived: the pieces' own copies bring it. */
      const int asked = piece.operands - 1 < 3 ? piece.operands - 1 : 3;
      auto meanwhile = [&](int f) {
        if (!draws || warp != 0) return;
        if (f == 1) draw();
        if (f == asked) fetch(turn ^ 1);
      };
      const Result<Real> result = {static_cast<Real *>(piece.to) + piece.row * piece.ld, piece.ld,
                                   piece.rows};
      const Recorded<Real> sources = {list};
      multiply_piece<Real, SIDE, EVEN>(memory + 2 * call.record_bytes, task, piece, call.depth,
                                       sources, group, thread, threads, result, meanwhile);
      mmci_group_wait(group, threads);
      if (thread == 0 && piece.counter >= 0) mmci_release(call.counters + piece.counter);
    }
    if (!draws) return;
    __syncthreads();
  }
}

/* Computes chains that are one spine: each block takes rows of one. */
template <typename Real, int SIDE, bool EVEN>
__global__ void __launch_bounds__(THREADS, 1)
    multiply_spine(const __grid_constant__ mmci_spine_alone alone) {
  constexpr int rows = MMCI_SPINES_FEW_ROWS;
  MMCI_DYNAMIC_SHARED(memory);
  const int row = (int)blockIdx.x * rows, left = alone.rows - row;
  void *to = static_cast<char *>(alone.to) + blockIdx.y * alone.stride;
  const Result<Real> result = {static_cast<Real *>(to) + row * alone.ld, alone.ld,
                               left < rows ? left : rows};
  mmci_follow_previous();
  multiply_rows<Real, SIDE, rows, EVEN>(memory, Given<Real>{alone, blockIdx.y}, alone.operands, row,
                                        result, [](int) {});
}

__global__ void put_addresses(const __grid_constant__ Addresses<MANY> addresses, const void **table,
                              int count) {
  mmci_follow_previous();
  for (int i = (int)threadIdx.x; i < count; i += THREADS) table[i] = addresses.at[i];
}

/* ---- on the host ------------------------------------------------------------------------------
 */

static mmc_status allow(const void *kernel, size_t shared_bytes, mmci_error *error) {
  /* The limit is raised above any before, so that kernels prepared earlier still fit. */
  cudaFuncAttributes facts;
  MMCI_CUDA_TRY(cudaFuncGetAttributes(&facts, kernel));
  if ((int)shared_bytes > facts.maxDynamicSharedSizeBytes)
    MMCI_CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       (int)shared_bytes));
  return MMC_OK;
}

/* Even where all sizes are even, addresses may not be. */
template <typename Real, int SIDE, bool EVEN>
static mmc_status prepare(size_t shared_bytes, mmci_error *error) {
  const size_t alone_bytes = sizeof(RowsShape<Real, SIDE, MMCI_SPINES_FEW_ROWS>);
  mmc_status status = MMC_OK;
  if (EVEN) status = prepare<Real, SIDE, false>(shared_bytes, error);
  if (status == MMC_OK)
    status = allow(reinterpret_cast<const void *>(multiply_spines<Real, SIDE, EVEN>), shared_bytes,
                   error);
  if (status == MMC_OK)
    status =
        allow(reinterpret_cast<const void *>(multiply_spine<Real, SIDE, EVEN>), alone_bytes, error);
  return status;
}

struct Launch {
  cudaStream_t stream;
  bool overlap;
  size_t shared_bytes;
  int blocks;
  int32_t n;
  const mmci_spines_call *call;
  const void *const *operands;
};

static bool are_spaced(const Launch &l, int64_t step) {
  const char *base = static_cast<const char *>(l.operands[0]);
  for (int32_t i = 0; i < l.n; i++)
    if (static_cast<const char *>(l.operands[i]) != base + i * step) return false;
  return true;
}

static mmc_status put_table(const Launch &l, const void **table, mmci_error *error) {
  for (int32_t first = 0; first < l.n; first += MANY) {
    Addresses<MANY> addresses = {};
    const int32_t count = l.n - first < MANY ? l.n - first : MANY;
    for (int32_t i = 0; i < count; i++) addresses.at[i] = l.operands[first + i];
    MMCI_CUDA_TRY(mmci_launch_overlapped(put_addresses, l.overlap, dim3(1), dim3(THREADS), 0,
                                         l.stream, addresses, table + first, count));
  }
  return MMC_OK;
}

template <typename Real, int SIDE, bool EVEN>
static mmc_status launch(const Launch &l, mmci_error *error) {
  Addresses<FEW> addresses = {};
  mmci_spines_call call = *l.call;
  const int64_t step =
      l.n > 1 ? static_cast<const char *>(l.operands[1]) - static_cast<const char *>(l.operands[0])
              : 0;
  if (are_spaced(l, step)) {
    call.base = static_cast<const char *>(l.operands[0]);
    call.step = step;
  } else if (l.n <= FEW) {
    call.table = nullptr;
    for (int32_t i = 0; i < l.n; i++) addresses.at[i] = l.operands[i];
  } else {
    mmc_status status = put_table(l, call.table, error);
    if (status != MMC_OK) return status;
  }
  MMCI_CUDA_TRY(mmci_launch_overlapped(multiply_spines<Real, SIDE, EVEN>, l.overlap,
                                       dim3((unsigned)l.blocks), dim3(THREADS), l.shared_bytes,
                                       l.stream, call, addresses));
  return MMC_OK;
}

template <typename Real, int SIDE, bool EVEN>
static mmc_status launch_alone(cudaStream_t stream, bool overlap, const mmci_spine_alone *alone,
                               mmci_error *error) {
  const int rows = MMCI_SPINES_FEW_ROWS, blocks = (alone->rows + rows - 1) / rows;
  MMCI_CUDA_TRY(mmci_launch_overlapped(
      multiply_spine<Real, SIDE, EVEN>, overlap, dim3((unsigned)blocks, (unsigned)alone->batch),
      dim3(THREADS), sizeof(RowsShape<Real, SIDE, rows>), stream, *alone));
  return MMC_OK;
}

template <typename Real, int SIDE, bool EVEN>
static mmci_spines_facts facts() {
  return {RowsShape<Real, SIDE>::rows, sizeof(RowsShape<Real, SIDE>)};
}

/* Expands to CALL<Real, SIDE, EVEN> arguments. */
#define FOR_REAL(CALL, SIDE, EVEN, arguments)                             \
  return kind.dtype == MMC_F64                 ? CALL<double, SIDE, EVEN> \
                                     arguments : CALL<float, SIDE, EVEN> arguments
#define FOR_KIND(CALL, arguments)                                        \
  if (kind.side == 32 && kind.even) FOR_REAL(CALL, 32, true, arguments); \
  if (kind.side == 32) FOR_REAL(CALL, 32, false, arguments);             \
  if (kind.side == 64 && kind.even) FOR_REAL(CALL, 64, true, arguments); \
  if (kind.side == 64) FOR_REAL(CALL, 64, false, arguments);             \
  FOR_REAL(CALL, 128, false, arguments)

extern "C" mmci_spines_facts mmci_spines_kernel_facts(mmci_spines_kind kind) {
  FOR_KIND(facts, ());
}

extern "C" mmc_status mmci_spines_kernel_prepare(mmci_spines_kind kind, size_t shared_bytes,
                                                 mmci_error *error) {
  FOR_KIND(prepare, (shared_bytes, error));
}

extern "C" mmc_status mmci_spines_kernel_launch(cudaStream_t stream, bool overlap,
                                                mmci_spines_kind kind, size_t shared_bytes,
                                                int blocks, int32_t n, const mmci_spines_call *call,
                                                const void *const *operands, mmci_error *error) {
  const Launch l = {stream, overlap, shared_bytes, blocks, n, call, operands};
  FOR_KIND(launch, (l, error));
}

extern "C" mmc_status mmci_spines_kernel_launch_alone(cudaStream_t stream, bool overlap,
                                                      mmci_spines_kind kind,
                                                      const mmci_spine_alone *alone,
                                                      mmci_error *error) {
  FOR_KIND(launch_alone, (stream, overlap, alone, error));
}

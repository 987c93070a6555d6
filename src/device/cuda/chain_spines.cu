/* chain_spines.cu: one chain on the whole device: blocks take pieces of spines (chain.h) in an
 * order in which every piece comes after those that it waits for.
 *
 * rows    up to 16 rows of the running product times S x S factors, S = 32, 64, 128:
 *         warp w has k from w S/8 on and, of the sums, the same columns, so the running product and
 *         its part of each factor are its own; factors come ahead of use without a barrier, and
 *         partial sums of the warps meet in shared memory, one barrier a factor
 * tiles   more rows: a group of warps, tiles of 4 x 8 elements a thread, product and factors in
 *         shared memory
 *
 * Launch  as many blocks as fit at once; each draws tickets. A ticket says which task and which
 *         launch, so nothing needs to be reset; a block waits for tasks of lower tickets alone,
 *         which are others' that run or ran, so all ends however few blocks run at a time
 * Layout  factors smaller than S are filled up with zeros */
#include "device/cuda/chain_kernels.cuh"

#include "device/cuda/chain_spines.h"

enum { WARP = 32, THREADS = MMCI_SPINES_THREADS, WARPS = THREADS / WARP, ROWS_MOST = 16 };

static __device__ __forceinline__ unsigned acquire(const unsigned *counter) {
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  return value;
}

static __device__ __forceinline__ void signal(unsigned *counter) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}

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
                                                       const mmci_spines_call &call,
                                                       const void *const *addresses) {
  const void *address = call.base != nullptr    ? call.base + o.source * call.step
                        : call.table != nullptr ? call.table[o.source]
                                                : addresses[o.source];
  const Real *data = o.scratch >= 0 ? static_cast<const Real *>(call.scratch) + o.scratch
                                    : static_cast<const Real *>(address);
  const bool aligned = reinterpret_cast<uintptr_t>(data) % 16 == 0;
  return {data, o.ld, o.rows, o.cols, o.trans != 0, o.wide != 0 && aligned};
}

/* Rows first_row.. and all columns of a source into rows x cols elements of pitch, zeros outside,
 * by threads that count lanes. */
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

/* Where a piece's last product goes. */
template <typename Real>
struct Result {
  Real *to;
  int64_t ld;
  int rows;
};

template <typename Real>
static __device__ __forceinline__ Result<Real> result_of(const mmci_spine_piece &piece,
                                                         const mmci_spines_call &call) {
  Real *to = piece.to == MMCI_SPINES_RESULT ? static_cast<Real *>(call.c)
                                            : static_cast<Real *>(call.scratch) + piece.to;
  return {to + piece.row * piece.ld, piece.ld, piece.rows};
}

/* ---- few rows ---------------------------------------------------------------------------------
 */

template <typename Real, int COUNT>
struct alignas(COUNT * sizeof(Real) < 16 ? COUNT * sizeof(Real) : 16) Several {
  Real v[COUNT];
};

template <typename Real, int SIDE>
struct RowsShape {
  static constexpr int depth = SIDE / WARPS, /* of a warp */
      columns = SIDE / WARP,                 /* of a lane */
      pitch = SIDE + 16 / (int)sizeof(Real) * 2, factor = SIDE * SIDE;
  /* Factors on their way, as many as there is room for. */
  static constexpr int bytes = factor * (int)sizeof(Real), ahead = bytes <= 16384   ? 7
                                                                   : bytes <= 32768 ? 2
                                                                                    : 1;
  static constexpr int rows = bytes <= 65536 ? ROWS_MOST : ROWS_MOST / 4;
  Real partial[2][WARPS][rows][pitch];
  Real product[WARPS][rows][depth];
  Real factors[ahead][factor];
};

template <typename Real, int SIDE, int ROWS>
static __device__ __forceinline__ void multiply_rows(RowsShape<Real, SIDE> &shared,
                                                     const Source<Real> *sources, int operands,
                                                     int row, const Result<Real> &result) {
  typedef RowsShape<Real, SIDE> Shape;
  constexpr int depth = Shape::depth, columns = Shape::columns, ahead = Shape::ahead;
  /* Of the warp's ROWS x depth sums: so many a lane, by as many lanes each. */
  constexpr int sums = ROWS * depth, each = sums >= WARP ? sums / WARP : 1,
                sharers = sums >= WARP ? 1 : WARP / sums;
  const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, k = warp * depth;
  auto ask = [&](int f) {
    if (f < operands) {
      Source<Real> part = sources[f];
      load(part, k, depth, SIDE, shared.factors[(f - 1) % ahead] + k * SIDE, SIDE, lane, WARP);
    }
    mmci_copy_async_commit();
  };
  Several<Real, columns> factor[depth];
  auto take = [&](int f) {
    mmci_copy_async_wait<ahead - 1>();
    __syncwarp();
#pragma unroll
    for (int d = 0; d < depth; d++)
      factor[d] = *reinterpret_cast<const Several<Real, columns> *>(
          shared.factors[(f - 1) % ahead] + (k + d) * SIDE + lane * columns);
    __syncwarp();
    ask(f + ahead);
  };
  /* The warp's columns of the first operand's rows. */
  {
    const Source<Real> first = sources[0];
    Real *to = &shared.product[warp][0][0];
    for (int x = lane; x < ROWS * depth; x += WARP) {
      const int r = row + x / depth, c = k + x % depth;
      const bool there = r < first.rows && c < first.cols;
      const Real *at = first.data + (first.trans ? c * first.ld + r : r * first.ld + c);
      mmci_copy_async_or_zero<(int)sizeof(Real)>(to + x, there ? at : first.data, there);
    }
  }
  for (int f = 1; f <= ahead; f++) ask(f);
  take(1);
  const int at = lane * each % sums, r = at / depth, c = at % depth,
            from = lane * each / sums * (WARPS / sharers);
#pragma unroll 1
  for (int f = 1; f < operands; f++) {
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
      Several<Real, columns> sum = {};
#pragma unroll
      for (int d = 0; d < depth; d += 4) {
        const Several<Real, 4> x = *reinterpret_cast<const Several<Real, 4> *>(
            &shared.product[warp][0][0] + i * depth + d);
#pragma unroll
        for (int q = 0; q < 4; q++)
#pragma unroll
          for (int j = 0; j < columns; j++) sum.v[j] += x.v[q] * factor[d + q].v[j];
      }
      *reinterpret_cast<Several<Real, columns> *>(&shared.partial[f & 1][warp][i][lane * columns]) =
          sum;
    }
    const int cols = sources[f].cols;
    take(f + 1);
    __syncthreads();
    Several<Real, each> sum = {};
#pragma unroll
    for (int w = 0; w < WARPS / sharers; w++) {
      const Several<Real, each> part = *reinterpret_cast<const Several<Real, each> *>(
          &shared.partial[f & 1][from + w][r][k + c]);
#pragma unroll
      for (int j = 0; j < each; j++) sum.v[j] += part.v[j];
    }
#pragma unroll
    for (int distance = WARP / 2; distance >= sums; distance /= 2)
      sum.v[0] += __shfl_xor_sync(~0u, sum.v[0], distance);
      /* Beyond the columns there are zeros, whatever infinity times zero says. */
#pragma unroll
    for (int j = 0; j < each; j++)
      if (k + c + j >= cols) sum.v[j] = 0;
    if (lane * each < sums) {
      if (f < operands - 1)
        *reinterpret_cast<Several<Real, each> *>(&shared.product[warp][0][0] + r * depth + c) = sum;
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

/* to = from (rows x 4 k4) factor (4 k4 x 8 across), tiles of 4 x 8; rows apart by down. */
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

template <typename Real, int SIDE>
static __device__ __forceinline__ void multiply_tiles(Real *memory, const Source<Real> *sources,
                                                      int operands, int row, int depth, int group,
                                                      int thread, int threads,
                                                      const Result<Real> &result) {
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
    if (depth == 2)
      mmci_copy_async_wait<1>();
    else
      mmci_copy_async_wait<0>();
    mmci_group_wait(group, threads);
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

/* ---- pieces -----------------------------------------------------------------------------------
 */

template <typename Real, int SIDE>
static __device__ __noinline__ void take_pieces(const mmci_spines_call &call,
                                                const void *const *addresses) {
  MMCI_DYNAMIC_SHARED(memory);
  __shared__ int drawn;
  __shared__ unsigned launches; /* this one included */
  __shared__ Source<Real> sources[MMCI_SPINES_GROUPS][MMCI_SPINES_LENGTH];
  const unsigned long long round = (unsigned long long)call.tasks_count + gridDim.x;
  const bool draws = call.ticket != nullptr;
  unsigned long long next = blockIdx.x;
  if (draws && threadIdx.x == 0) next = atomicAdd(call.ticket, 1ull);
  do {
    if (threadIdx.x == 0) {
      launches = (unsigned)(next / round) + 1;
      drawn = (int)(next % round);
    }
    __syncthreads();
    const int number = drawn;
    if (number >= call.tasks_count) return;
    if (draws && threadIdx.x == 0) next = atomicAdd(call.ticket, 1ull);
    const mmci_spine_task task = call.tasks[number];
    const int threads = THREADS / task.groups, group = (int)threadIdx.x / threads,
              thread = (int)threadIdx.x % threads;
    if (group < task.pieces) {
      mmci_spine_piece piece = call.pieces[task.first + group];
      for (int o = thread; o < piece.operands; o += threads)
        sources[group][o] = resolve<Real>(call.operands[piece.first + o], call, addresses);
      for (int w = thread; w < piece.waits; w += threads) {
        const mmci_spine_wait wait = call.waits[piece.first_wait + w];
        const unsigned goal = launches * (unsigned)wait.pieces;
        while ((int)(acquire(call.counters + wait.counter) - goal) < 0) continue;
      }
      mmci_group_wait(group, threads);
      const Source<Real> *mine = sources[group];
      const Result<Real> result = result_of<Real>(piece, call);
      if (task.group_elements == 0) {
        RowsShape<Real, SIDE> &shared = *reinterpret_cast<RowsShape<Real, SIDE> *>(memory);
        if (piece.rows <= 2)
          multiply_rows<Real, SIDE, 2>(shared, mine, piece.operands, piece.row, result);
        else if (piece.rows <= 4)
          multiply_rows<Real, SIDE, 4>(shared, mine, piece.operands, piece.row, result);
        else if constexpr (RowsShape<Real, SIDE>::rows > 4) {
          if (piece.rows <= 8)
            multiply_rows<Real, SIDE, 8>(shared, mine, piece.operands, piece.row, result);
          else
            multiply_rows<Real, SIDE, 16>(shared, mine, piece.operands, piece.row, result);
        }
      } else {
        multiply_tiles<Real, SIDE>(
            reinterpret_cast<Real *>(memory) + (size_t)group * task.group_elements, mine,
            piece.operands, piece.row, call.depth, group, thread, threads, result);
      }
      mmci_group_wait(group, threads);
      if (thread == 0 && piece.counter >= 0) signal(call.counters + piece.counter);
    }
    __syncthreads();
  } while (draws);
}

/* Addresses that travel with a launch. */
enum { FEW = 64, MANY = 480 };

template <int COUNT>
struct Addresses {
  const void *at[COUNT];
};

template <typename Real, int SIDE>
__global__ void __launch_bounds__(THREADS, 1)
    multiply_spines(const __grid_constant__ mmci_spines_call call,
                    const __grid_constant__ Addresses<FEW> addresses) {
  mmci_follow_previous();
  take_pieces<Real, SIDE>(call, addresses.at);
}

__global__ void put_addresses(const __grid_constant__ Addresses<MANY> addresses, const void **table,
                              int count) {
  mmci_follow_previous();
  for (int i = (int)threadIdx.x; i < count; i += THREADS) table[i] = addresses.at[i];
}

/* ---- on the host ------------------------------------------------------------------------------
 */

template <typename Real, int SIDE>
static mmc_status prepare(size_t shared_bytes, mmci_error *error) {
  /* Greater than any before, so that kernels prepared earlier still fit. */
  cudaFuncAttributes facts;
  MMCI_CUDA_TRY(
      cudaFuncGetAttributes(&facts, reinterpret_cast<const void *>(multiply_spines<Real, SIDE>)));
  if ((int)shared_bytes > facts.maxDynamicSharedSizeBytes)
    MMCI_CUDA_TRY(cudaFuncSetAttribute(reinterpret_cast<const void *>(multiply_spines<Real, SIDE>),
                                       cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       (int)shared_bytes));
  return MMC_OK;
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

template <typename Real, int SIDE>
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
  MMCI_CUDA_TRY(mmci_launch_overlapped(multiply_spines<Real, SIDE>, l.overlap,
                                       dim3((unsigned)l.blocks), dim3(THREADS), l.shared_bytes,
                                       l.stream, call, addresses));
  return MMC_OK;
}

/* Returns CALL<Real, SIDE> arguments. */
#define FOR_KERNEL(CALL, arguments)        \
  switch (side * 2 + (dtype == MMC_F64)) { \
    case 64:                               \
      return CALL<float, 32> arguments;    \
    case 65:                               \
      return CALL<double, 32> arguments;   \
    case 128:                              \
      return CALL<float, 64> arguments;    \
    case 129:                              \
      return CALL<double, 64> arguments;   \
    case 256:                              \
      return CALL<float, 128> arguments;   \
    default:                               \
      return CALL<double, 128> arguments;  \
  }

template <typename Real, int SIDE>
static mmci_spines_facts facts() {
  return {RowsShape<Real, SIDE>::rows, sizeof(RowsShape<Real, SIDE>)};
}

extern "C" mmci_spines_facts mmci_spines_kernel_facts(mmc_dtype dtype, int side) {
  FOR_KERNEL(facts, ())
}

extern "C" mmc_status mmci_spines_kernel_prepare(mmc_dtype dtype, int side, size_t shared_bytes,
                                                 mmci_error *error) {
  FOR_KERNEL(prepare, (shared_bytes, error))
}

extern "C" mmc_status mmci_spines_kernel_launch(cudaStream_t stream, bool overlap, mmc_dtype dtype,
                                                int side, size_t shared_bytes, int blocks,
                                                int32_t n, const mmci_spines_call *call,
                                                const void *const *operands, mmci_error *error) {
  const Launch l = {stream, overlap, shared_bytes, blocks, n, call, operands};
  FOR_KERNEL(launch, (l, error))
}

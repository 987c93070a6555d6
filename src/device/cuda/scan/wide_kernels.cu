/* wide_kernels.cu: running products of matrices of 17 to 64 rows, see scan_kernels.h.
 *
 * A block of threads goes from factor to factor with rows of a state in shared memory, where the
 * next factor arrives meanwhile. A row of a state depends on no other row, so a block takes all
 * rows of a tile where there are many tiles, and eight where there are few.
 *
 * Launch  a block for every tile of every scan and its rows; 64 to 256 threads */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/scan/scan_kernels.h"

namespace {

enum { PIECE_BYTES = 16, COLS = 4 /* of a thread */ };

/* A block takes M rows of states of N columns, a thread ROWS of them and four columns. */
template <typename Real, int SIDE, int TAKEN, int OWN>
struct Shape {
  enum {
    N = SIDE,
    M = TAKEN,
    ROWS = OWN,
    ACROSS = N / COLS,
    THREADS = M / ROWS * ACROSS,
    PITCH = M + ROWS, /* of a column of the state */
    PIECE = PIECE_BYTES / sizeof(Real),
    ELEMENTS = 2 * N * N + 2 * N * PITCH /* of shared memory */
  };
};

/* Elements that are loaded at once. */
template <typename Real, int COUNT>
struct alignas(COUNT * sizeof(Real) < PIECE_BYTES ? COUNT * sizeof(Real)
                                                  : (size_t)PIECE_BYTES) Some {
  Real of[COUNT];
};

template <typename Real, typename S>
struct Walk {
  const mmci_cuda_walk &walk;
  Real *factors, *columns; /* two factors; two states, column by column */
  int64_t b, tile, begin, count;
  int first_row, row, col;

  __device__ __forceinline__ Walk(const mmci_cuda_walk &w, Real *shared)
      : walk(w), factors(shared), columns(shared + 2 * S::N * S::N) {
    const int64_t parts = S::N / S::M, number = (int64_t)blockIdx.x / parts;
    first_row = (int)((int64_t)blockIdx.x % parts) * S::M;
    b = number / walk.tiles;
    tile = number % walk.tiles;
    begin = tile * walk.run;
    count = walk.length - begin < walk.run ? walk.length - begin : walk.run;
    row = (int)threadIdx.x / S::ACROSS * S::ROWS;
    col = (int)threadIdx.x % S::ACROSS * COLS;
  }

  /* Clears what is beyond n of both factors, where pieces do not reach. */
  __device__ __forceinline__ void clear() const {
    for (int e = (int)threadIdx.x; walk.n < S::N && e < 2 * S::N * S::N; e += S::THREADS)
      if (e / S::N % S::N >= walk.n || e % S::N >= walk.n) factors[e] = Real(0);
  }

  /* Brings factor t of the tile: pieces of 16 bytes where all lines begin at one, else elements. */
  __device__ __forceinline__ void bring(int64_t t) const {
    const mmci_cuda_stack &x = walk.factors;
    const Real *from = static_cast<const Real *>(x.data) + b * x.stride + (begin + t) * x.step;
    Real *to = factors + t % 2 * S::N * S::N;
    const bool has_pieces = walk.n % S::PIECE == 0 && x.ld % S::PIECE == 0 && !x.turned &&
                            (uintptr_t)x.data % PIECE_BYTES == 0 && x.step % S::PIECE == 0 &&
                            x.stride % S::PIECE == 0;
    if (has_pieces && walk.n == S::N && x.ld == S::N) { /* one address serves all pieces */
      for (int e = (int)threadIdx.x * S::PIECE; e < S::N * S::N; e += S::THREADS * S::PIECE)
        mmci_copy_async(to + e, from + e);
    } else if (has_pieces) {
      for (int e = (int)threadIdx.x * S::PIECE; e < S::N * S::N; e += S::THREADS * S::PIECE) {
        const int line = e / S::N, at = e % S::N;
        if (line < walk.n && at < walk.n) mmci_copy_async(to + e, from + line * x.ld + at);
      }
    } else {
      for (int e = (int)threadIdx.x; e < S::N * S::N; e += S::THREADS) {
        const int line = e / S::N, at = e % S::N;
        if (line < walk.n && at < walk.n)
          to[x.turned ? at * S::N + line : e] = from[line * x.ld + at];
      }
    }
    mmci_copy_async_commit();
  }

  __device__ __forceinline__ void put(int turn, const Real (&own)[S::ROWS][COLS]) const {
    Real *to = columns + turn * S::N * S::PITCH;
#pragma unroll
    for (int c = 0; c < COLS; c++)
#pragma unroll
      for (int r = 0; r < S::ROWS; r++) to[(col + c) * S::PITCH + row + r] = own[r][c];
  }

  /* Reads the own elements of a matrix of the chip's memory, or of a factor. */
  __device__ __forceinline__ void get(const Real *from, int64_t ld, bool turned, int64_t rows,
                                      Real (&own)[S::ROWS][COLS]) const {
#pragma unroll
    for (int r = 0; r < S::ROWS; r++)
#pragma unroll
      for (int c = 0; c < COLS; c++) {
        const int64_t i = first_row + row + r, j = col + c;
        own[r][c] = i < rows && j < rows ? from[turned ? j * ld + i : i * ld + j] : Real(0);
      }
  }

  /* Reads the state before the tile; returns whether there is one. */
  __device__ __forceinline__ bool get_before(Real (&own)[S::ROWS][COLS]) const {
    const mmci_cuda_stack &x = walk.initial;
    if (!walk.finishes) return false;
    if (tile > 0) {
      get(static_cast<const Real *>(walk.carries) + (b * walk.tiles + tile - 1) * walk.n * walk.n,
          walk.n, false, walk.n, own);
      return true;
    }
    if (x.data == nullptr) return false;
    get(static_cast<const Real *>(x.data) + b * x.stride, x.ld, x.turned, walk.n, own);
    return true;
  }

  __device__ __forceinline__ void write(Real *to, int64_t ld, bool turned,
                                        const Real (&own)[S::ROWS][COLS]) const {
#pragma unroll
    for (int r = 0; r < S::ROWS; r++) {
      const int64_t i = first_row + row + r;
      if (i >= walk.n) continue;
      if (!turned && (uintptr_t)(to + i * ld + col) % (COLS * sizeof(Real)) == 0 &&
          col + COLS <= walk.n) {
        *reinterpret_cast<Some<Real, COLS> *>(to + i * ld + col) = {own[r][0], own[r][1], own[r][2],
                                                                    own[r][3]};
        continue;
      }
#pragma unroll
      for (int c = 0; c < COLS; c++)
        if (col + c < walk.n) to[turned ? (col + c) * ld + i : i * ld + col + c] = own[r][c];
    }
  }

  /* own = state M, where both are in shared memory. Columns beyond n stay 0: an infinite element
   * times 0 is NaN there, which must not come back. */
  __device__ __forceinline__ void multiply(int64_t t, Real (&own)[S::ROWS][COLS]) const {
    const Real *matrix = factors + t % 2 * S::N * S::N + col;
    const Real *column = columns + t % 2 * S::N * S::PITCH + row;
#pragma unroll
    for (int r = 0; r < S::ROWS; r++)
#pragma unroll
      for (int c = 0; c < COLS; c++) own[r][c] = 0;
#pragma unroll 8
    for (int k = 0; k < S::N; k++) {
      const auto s = *reinterpret_cast<const Some<Real, S::ROWS> *>(column + k * S::PITCH);
      const auto m = *reinterpret_cast<const Some<Real, COLS> *>(matrix + k * S::N);
#pragma unroll
      for (int r = 0; r < S::ROWS; r++)
#pragma unroll
        for (int c = 0; c < COLS; c++) own[r][c] += s.of[r] * m.of[c];
    }
    if (walk.n == S::N) return;
#pragma unroll
    for (int r = 0; r < S::ROWS; r++)
#pragma unroll
      for (int c = 0; c < COLS; c++)
        if (col + c >= walk.n) own[r][c] = 0;
  }
};

template <typename Real, typename S>
__global__ void __launch_bounds__(S::THREADS) step_through(const mmci_cuda_walk walk) {
  MMCI_DYNAMIC_SHARED(memory);
  const Walk<Real, S> x(walk, reinterpret_cast<Real *>(memory));
  const mmci_cuda_stack &states = walk.states;
  Real own[S::ROWS][COLS];
  x.clear();
  x.bring(0);
  const bool has_before = x.get_before(own);
  if (has_before) x.put(0, own);
  for (int64_t t = 0; t < x.count; t++) {
    mmci_copy_async_wait<0>();
    __syncthreads();
    if (t + 1 < x.count) x.bring(t + 1);
    if (t > 0 || has_before)
      x.multiply(t, own);
    else
      x.get(x.factors, S::N, false, S::N, own);
    if (t + 1 < x.count) x.put((int)((t + 1) % 2), own);
    if (walk.finishes)
      x.write(static_cast<Real *>(const_cast<void *>(states.data)) + x.b * states.stride +
                  (x.begin + t) * states.step,
              states.ld, states.turned, own);
  }
  if (!walk.finishes)
    x.write(static_cast<Real *>(walk.totals) + (x.b * walk.tiles + x.tile) * walk.n * walk.n,
            walk.n, false, own);
}

template <typename Real, typename S>
mmc_status launch(cudaStream_t stream, const mmci_cuda_walk *walk, mmci_error *error) {
  const auto kernel = step_through<Real, S>;
  const size_t shared = S::ELEMENTS * sizeof(Real);
  const unsigned blocks = (unsigned)(walk->tiles * walk->batch * (S::N / S::M));
  MMCI_CUDA_TRY(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
  MMCI_CUDA_TRY(mmci_launch(kernel, dim3(blocks), dim3(S::THREADS), shared, stream, *walk));
  return MMC_OK;
}

template <typename Real>
mmc_status launch_side(cudaStream_t stream, const mmci_cuda_walk *walk, mmci_error *error) {
  if (walk->n <= 32)
    return walk->splits_rows ? launch<Real, Shape<Real, 32, 8, 1>>(stream, walk, error)
                             : launch<Real, Shape<Real, 32, 32, 2>>(stream, walk, error);
  return walk->splits_rows ? launch<Real, Shape<Real, 64, 8, 1>>(stream, walk, error)
                           : launch<Real, Shape<Real, 64, 64, 4>>(stream, walk, error);
}

}  // namespace

extern "C" bool mmci_cuda_walk_can(mmc_dtype dtype, int64_t n) {
  return (dtype == MMC_F32 || dtype == MMC_F64) && n > MMCI_CUDA_SWEEP_SIDE && n <= 64;
}

extern "C" mmc_status mmci_cuda_walk_run(cudaStream_t stream, const mmci_cuda_walk *walk,
                                         mmci_error *error) {
  return walk->dtype == MMC_F32 ? launch_side<float>(stream, walk, error)
                                : launch_side<double>(stream, walk, error);
}

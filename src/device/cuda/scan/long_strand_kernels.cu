/* long_strand_kernels.cu: running products of matrices of up to 16 rows whose strands are long, see
 * scan_kernels.h.
 *
 * A warp follows a strand on tensor cores of doubles, with the state in registers, as in
 * strand_kernels.cu. A few warps of a multiprocessor are enough here, because the factors come
 * through a ring in shared memory, so far ahead that memory is not waited for. Where there are many
 * scans each is one strand, and every factor is read once. Else one launch finds the products of
 * all strands and another, once the states before them are known, follows them again. Where a scan
 * has few strands, the first is followed while the products of the next ones are found, and each
 * later one multiplies these itself, so that two launches are enough and the first and the last
 * strand are read once.
 *
 * A line of 16 elements is put in another place in shared memory, and its pieces of 16 bytes in
 * another order, so that lanes meet all banks, whether they read lines or across them.
 *
 * Launch  a block of one warp for every tile of every scan, or all but one */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/scan/scan_kernels.h"
#include "device/cuda/scan/strands.cuh"

namespace {

/* The number of slots of a ring; all but one hold factors that are on their way. */
template <typename Real>
constexpr int SLOTS = sizeof(Real) == 4 ? 12 : 8;

/* A strand's factors, on their way through a ring of RING slots in shared memory. Where SIDE is
 * not 0, they are of so many rows without gaps, at multiples of 16 bytes. */
template <typename Real, int RING, int SIDE>
struct Ring {
  typedef Sixteen<Real> Matrix;
  enum {
    N = Matrix::N,
    SIZE = Matrix::SIZE,
    PIECE = PIECE_BYTES / sizeof(Real), /* elements in 16 bytes */
    PIECES = N / PIECE,                 /* of a line */
    MOVES = N * PIECES / WARP           /* of a lane, for a factor */
  };

  Real *slots;
  const Real *from;       /* the next factor that is sent for */
  int64_t ld, step, left; /* left: factors that are not sent for */
  int n, sent, taken;     /* sent and taken are numbers of slots: the next to fill, and to read */
  bool turned, by_pieces;

  __device__ __forceinline__ Ring(const mmci_cuda_stack &factors, int64_t n_, void *shared,
                                  const Real *first, int64_t count)
      : slots(static_cast<Real *>(shared)),
        from(first),
        ld(SIDE > 0 ? (int64_t)SIDE : factors.ld),
        step(factors.step),
        left(count),
        n(SIDE > 0 ? SIDE : (int)n_),
        sent(0),
        taken(0),
        turned(factors.turned) {
    by_pieces = SIDE > 0 || ((n | ld | step | factors.stride) % PIECE == 0 &&
                             (uintptr_t)factors.data % PIECE_BYTES == 0);
    /* What is beyond n is never written again. */
    for (int e = (int)threadIdx.x; n < N && e < RING * SIZE; e += WARP) slots[e] = 0;
    __syncwarp();
    for (int d = 0; d < RING - 1; d++) bring();
  }

  /* Returns where piece `at` of a line lies. */
  static __device__ __forceinline__ int place(int line, int at) {
    const int to = line ^ ((line >> 1 ^ line >> 2) & 1);
    return to * N + (at ^ (line >> 3 & 1) * (PIECES / 2)) * PIECE;
  }
  static __device__ __forceinline__ int place_of(int line, int element) {
    return place(line, element / PIECE) + element % PIECE;
  }

  /* Sends for the next factor, if there is one. */
  __device__ __forceinline__ void bring() {
    const int lane = (int)threadIdx.x;
    Real *to = slots + sent * SIZE;
    if (left > 0 && (SIDE > 0 || by_pieces)) {
#pragma unroll
      for (int k = 0; k < MOVES; k++) {
        const int q = lane + k * WARP, line = q / PIECES, at = q % PIECES;
        if (line < n && at * PIECE < n)
          mmci_copy_async(to + place(line, at), from + line * ld + at * PIECE);
      }
    } else if (left > 0) {
      for (int q = lane; q < SIZE; q += WARP) {
        const int line = q / N, at = q % N;
        if (line < n && at < n)
          mmci_copy_async_bytes<(int)sizeof(Real)>(to + place_of(line, at), from + line * ld + at);
      }
    }
    mmci_copy_async_commit();
    from += step;
    left--;
    sent = sent + 1 == RING ? 0 : sent + 1;
  }

  /* Waits for the next factor and reads what the lane needs of it. */
  __device__ __forceinline__ void take(typename Matrix::Factor *out) {
    mmci_copy_async_wait<RING - 2>();
    __syncwarp();
    const Real *slot = slots + taken * SIZE;
    const int g = Matrix::g(), t = Matrix::t();
    if (turned) {
#pragma unroll
      for (int c = 0; c < 2; c++)
#pragma unroll
        for (int r = 0; r < 4; r += PIECE) {
          const auto x =
              *reinterpret_cast<const Some<Real, PIECE> *>(slot + place_of(2 * g + c, 4 * t + r));
#pragma unroll
          for (int e = 0; e < PIECE; e++) out->of[r + e][c] = x.of[e];
        }
    } else {
#pragma unroll
      for (int r = 0; r < 4; r++) {
        const auto x = *reinterpret_cast<const Some<Real, 2> *>(slot + place_of(4 * t + r, 2 * g));
        out->of[r][0] = x.of[0];
        out->of[r][1] = x.of[1];
      }
    }
    taken = taken + 1 == RING ? 0 : taken + 1;
  }
};

/* So many strands of 16x16 in f64 an H200 follows by a kernel of their own: two and a half for each
 * multiprocessor, as measured. */
enum { FEW_STRANDS = 330 };

/* Which state is before a tile but the first: a carry, or that after the first tile times the
 * products of those between. */
enum Before { CARRY, FIRST_TILE };

/* Follows a tile: writes its states, or finds its product. Where SIDE is not 0, factors and
 * states are of so many rows without gaps, at multiples of 16 bytes, and not turned: addresses are
 * then constants, and half the instructions are not needed. */
template <typename Real, bool WRITES, int SIDE, Before BEFORE = CARRY>
__device__ __forceinline__ void follow(const mmci_cuda_tiles &pass, void *memory, int64_t b,
                                       int64_t tile) {
  typedef Sixteen<Real> Matrix;
  const int64_t begin = tile * pass.run, rest = pass.length - begin;
  const int64_t count = rest < pass.run ? rest : pass.run;
  const int n = SIDE > 0 ? SIDE : (int)pass.n, size = n * n;
  /* The product alone is found from the last factor to the first, as that of the transposed ones:
   * the first factors, which are read next, are then still in the cache. */
  mmci_cuda_stack factors = pass.factors;
  const Real *first = static_cast<const Real *>(factors.data) + b * factors.stride +
                      (WRITES ? begin : begin + count - 1) * factors.step;
  if (SIDE > 0) factors.turned = false;
  if (!WRITES) {
    factors.step = -factors.step;
    factors.turned = !factors.turned;
  }
  Ring<Real, SLOTS<Real>, SIDE> ring(factors, n, memory, first, count);
  const Way way = SIDE > 0 ? Way{SIDE, SIDE, false, true, true} : way_of<Real>(pass.states, n);
  Real *const states = static_cast<Real *>(const_cast<void *>(pass.states.data)) +
                       b * pass.states.stride,
              *to = states + begin * pass.states.step;
  typename Matrix::State state, last;
  typename Matrix::Factor factor;
  double m[4][2];
  const auto convert = [&](int col) {
#pragma unroll
    for (int r = 0; r < 4; r++) m[r][col] = (double)factor.of[r][col];
  };
  const auto store = [&](const typename Matrix::State &x) {
    if (SIDE > 0)
      Matrix::template store_whole<SIDE>(x, to);
    else
      Matrix::store(way, x, to);
  };
  const auto take = [&]() {
    ring.take(&factor);
    convert(0);
    convert(1);
    ring.bring();
  };
  const int64_t number = b * pass.tiles + tile;
  if (WRITES && (BEFORE == FIRST_TILE || tile > 0 || pass.initial.data != nullptr)) {
    if (BEFORE == FIRST_TILE) {
      const Way tight = way_of<Real>({pass.totals, n, size, 0, false}, n);
      const Real *total = static_cast<const Real *>(pass.totals) + (b * pass.tiles + 1) * size;
      mmci_await_previous();
      if (tile > 1) Matrix::load(tight, total, &factor);
      Matrix::load_state(way, states + (pass.run - 1) * pass.states.step, &state);
      for (int64_t t = 1; t < tile; t++) {
        convert(0);
        convert(1);
        total += size;
        if (t + 1 < tile) Matrix::load(tight, total, &factor);
        Matrix::multiply(&state, m, n);
      }
    } else if (tile > 0) {
      Matrix::load_state(way_of<Real>({pass.carries, n, size, 0, false}, n),
                         static_cast<const Real *>(pass.carries) + (number - 1) * size, &state);
    } else {
      Matrix::load_state({pass.initial.ld, n, pass.initial.turned, false, false},
                         static_cast<const Real *>(pass.initial.data) + b * pass.initial.stride,
                         &state);
    }
    take();
    Matrix::multiply(&state, m, n);
  } else {
    Matrix::load_state(way_of<Real>(factors, n), first, &state);
    take();
  }
  take();
  /* While a product is on its way, the state before it is written and the next factor read. */
#pragma unroll 2
  for (int64_t i = 1; i < count; i++) {
    last = state;
    double now[4][2];
#pragma unroll
    for (int e = 0; e < 8; e++) now[e / 2][e % 2] = m[e / 2][e % 2];
    Matrix::multiply(&state, now, n, [&](int done) {
      if (done == 0) ring.take(&factor);
      if (done == 1 && WRITES) store(last);
      if (done == 1) convert(0);
      if (done == 2) convert(1);
      if (done == 3) ring.bring();
    });
    to += pass.states.step;
  }
  if (WRITES)
    store(state);
  else
    Matrix::store(way_of<Real>({pass.totals, n, size, 0, true}, n), state,
                  static_cast<Real *>(pass.totals) + number * size);
}

template <typename Real, bool WRITES, int SIDE>
__global__ void __launch_bounds__(WARP) long_strands(const mmci_cuda_tiles pass) {
  MMCI_DYNAMIC_SHARED(memory);
  const int64_t number = (int64_t)blockIdx.x;
  follow<Real, WRITES, SIDE>(pass, memory, number / pass.tiles, number % pass.tiles);
}

/* The first tile of every scan is followed, and the products of those before the last one are
 * found. What takes longest is first, and is shared by all multiprocessors. */
template <typename Real, int SIDE>
__global__ void __launch_bounds__(WARP) first_and_products(const mmci_cuda_tiles pass) {
  MMCI_DYNAMIC_SHARED(memory);
  mmci_let_next_start();
  const int64_t b = (int64_t)blockIdx.x % pass.batch, tile = (int64_t)blockIdx.x / pass.batch;
  if (tile == 0)
    follow<Real, true, SIDE>(pass, memory, b, 0);
  else
    follow<Real, false, SIDE>(pass, memory, b, tile);
}

template <typename Real, int SIDE>
__global__ void __launch_bounds__(WARP) all_but_first(const mmci_cuda_tiles pass) {
  MMCI_DYNAMIC_SHARED(memory);
  const int64_t b = (int64_t)blockIdx.x % pass.batch, number = (int64_t)blockIdx.x / pass.batch;
  follow<Real, true, SIDE, FIRST_TILE>(pass, memory, b, pass.tiles - 1 - number);
}

template <typename Real, int SIDE>
mmc_status launch(cudaStream_t stream, const mmci_cuda_tiles *pass, bool finishes,
                  mmci_error *error) {
  const auto kernel = !pass->walks_first ? finishes ? long_strands<Real, true, SIDE>
                                                    : long_strands<Real, false, SIDE>
                      : finishes ? all_but_first<Real, SIDE>
                                         : first_and_products<Real, SIDE>;
  const size_t shared = SLOTS<Real> * Sixteen<Real>::SIZE * sizeof(Real);
  const unsigned blocks = (unsigned)((pass->tiles - (pass->walks_first ? 1 : 0)) * pass->batch);
  const bool early = pass->walks_first && finishes && pass->overlaps;
  MMCI_CUDA_TRY(mmci_launch_after(kernel, early, dim3(blocks), dim3(WARP), shared, stream, *pass));
  return MMC_OK;
}

/* Says whether matrices of n rows are not turned, have no gaps and begin at multiples of 16 bytes.
 */
template <typename Real>
bool is_whole(const mmci_cuda_stack &x, int64_t n) {
  const int64_t piece = PIECE_BYTES / sizeof(Real);
  return !x.turned && x.ld == n && (x.step | x.stride) % piece == 0 &&
         (uintptr_t)x.data % PIECE_BYTES == 0;
}

/* Returns the side of matrices that have kernels of their own; else 0. */
template <typename Real>
int side_of(const mmci_cuda_tiles *pass) {
  const int64_t n = pass->n;
  if ((n != 12 && n != 16) || !is_whole<Real>(pass->factors, n) || !is_whole<Real>(pass->states, n))
    return 0;
  /* One strand each of many scans waits for memory, and is slower so. */
  const bool is_bound =
      sizeof(Real) == 8 && n == 16 && !pass->walks_first && pass->tiles * pass->batch > FEW_STRANDS;
  return is_bound ? 0 : (int)n;
}

template <typename Real>
mmc_status launch_side(cudaStream_t stream, const mmci_cuda_tiles *pass, bool finishes,
                       mmci_error *error) {
  const int side = side_of<Real>(pass);
  if (side == 16) return launch<Real, 16>(stream, pass, finishes, error);
  if (side == 12) return launch<Real, 12>(stream, pass, finishes, error);
  return launch<Real, 0>(stream, pass, finishes, error);
}

mmc_status launch_dtype(cudaStream_t stream, const mmci_cuda_tiles *pass, bool finishes,
                        mmci_error *error) {
  return pass->dtype == MMC_F32 ? launch_side<float>(stream, pass, finishes, error)
                                : launch_side<double>(stream, pass, finishes, error);
}

}  // namespace

extern "C" bool mmci_cuda_long_strands_can(int major, int minor, mmc_dtype dtype, int64_t n) {
  return mmci_cuda_strands_can(major, minor, dtype, n);
}

extern "C" bool mmci_cuda_long_strands_have_pieces(const mmci_cuda_tiles *pass) {
  const int64_t piece = PIECE_BYTES / (pass->dtype == MMC_F32 ? sizeof(float) : sizeof(double));
  const mmci_cuda_stack *x = &pass->factors;
  return (pass->n | x->ld | x->step | x->stride) % piece == 0;
}

extern "C" bool mmci_cuda_long_strands_have_side(const mmci_cuda_tiles *pass) {
  return (pass->dtype == MMC_F32 ? side_of<float>(pass) : side_of<double>(pass)) > 0;
}

extern "C" int64_t mmci_cuda_long_strands_at_once(mmc_dtype dtype) {
  return dtype == MMC_F32 ? 12 : 8;
}

extern "C" mmc_status mmci_cuda_long_strands_reduce(cudaStream_t stream,
                                                    const mmci_cuda_tiles *pass,
                                                    mmci_error *error) {
  return launch_dtype(stream, pass, false, error);
}

extern "C" mmc_status mmci_cuda_long_strands_finish(cudaStream_t stream,
                                                    const mmci_cuda_tiles *pass,
                                                    mmci_error *error) {
  return launch_dtype(stream, pass, true, error);
}

/* recurrence.cu: states of linear recurrences, see scan_kernels.h.
 *
 * Each state needs the one before, so one warp of a block goes from state to state. Meanwhile the
 * others bring the next chunk of factors and addends to shared memory, so that the warp never waits
 * for the chip's. Where there are fewer elements than lanes, several lanes share a sum.
 *
 * Where there are fewer scans than a GPU follows at once, each is cut into pieces, and three
 * launches follow: the products of the factors of every piece but the last, and what its addends
 * come to; the state before each piece; all pieces side by side. A row of a product is kept with an
 * exponent of its own, so that it does not overflow, or vanish, where states do not.
 *
 * Launch  512 threads a block, a block for every scan; 128 threads for the pieces of four warps */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/scan/scan_kernels.h"

namespace {

enum { WARP = 32, MOST_SIDE = 32, MOST_ELEMENTS = 256 };
/* Threads of a block that follows a whole scan, or pieces of some. */
enum { WHOLE_THREADS = 512, PIECE_THREADS = 128 };
/* Bytes of a chunk, of which there are two, and the factors that it has at most. */
enum { CHUNK_BYTES = 32 << 10, MOST_CHUNK = 32 };
/* So many elements of a matrix are on their way to a lane at once. */
enum { FLYING = 8 };

template <typename Real>
struct Work {
  mmci_cuda_recurrence x;
  int n, width, chunk;
  /* Shared memory: a factor with its addend takes a slot. */
  __host__ __device__ int pitch() const { return n + 1; }
  __host__ __device__ int slot() const { return n * pitch() + width * n; }
  /* Pieces: their product, what their addends come to, and the state after each; n x n, then width
   * x n, and width x n, without gaps. */
  Real *products, *sums, *ends;
  int *exponents; /* of every row of a product */
};

template <typename Real>
__device__ __forceinline__ const Real *matrix_at(const mmci_cuda_stack &x, int64_t b, int64_t t) {
  return static_cast<const Real *>(x.data) + b * x.stride + t * x.step;
}

/* Where a lane of a warp is in lines of so many elements; it goes on by a warp's lanes. */
struct Place {
  int length, lines, rest, at, line, place;
  __device__ __forceinline__ Place(int line_length, int first, int stride)
      : length(line_length),
        lines(stride / line_length),
        rest(stride % line_length),
        at(first),
        line(first / line_length),
        place(first % line_length) {}
  __device__ __forceinline__ void go_on(int stride) {
    at += stride;
    line += lines;
    place += rest;
    if (place < length) return;
    place -= length;
    line++;
  }
};

/* Copies a rows x cols matrix to shared memory, by a warp. */
template <typename Real>
__device__ __forceinline__ void bring(const mmci_cuda_stack &x, const Real *from, int rows,
                                      int cols, int pitch, Real *to) {
  /* Lines in memory are columns where it is turned. */
  const int count = rows * cols;
  Place get(x.turned ? rows : cols, (int)threadIdx.x % WARP, WARP), put = get;
  while (get.at < count) {
    Real held[FLYING];
#pragma unroll
    for (int i = 0; i < FLYING; i++, get.go_on(WARP))
      held[i] = get.at < count ? from[get.line * x.ld + get.place] : Real(0);
#pragma unroll
    for (int i = 0; i < FLYING; i++, put.go_on(WARP))
      if (put.at < count)
        to[x.turned ? put.place * pitch + put.line : put.line * pitch + put.place] = held[i];
  }
}

/* Brings a chunk of factors and addends, of which `left` are left, by the warps from `warp` on, of
 * which there are warps. */
template <typename Real>
__device__ __forceinline__ void bring_chunk(const Work<Real> &w, int64_t b, int64_t first,
                                            int64_t left, int warp, int warps, Real *slots) {
  const int count = left < w.chunk ? (int)left : w.chunk;
  for (int t = warp; t < count; t += warps) {
    Real *slot = slots + t * w.slot();
    bring(w.x.factors, matrix_at<Real>(w.x.factors, b, first + t), w.n, w.n, w.pitch(), slot);
    if (w.x.addends.data != nullptr)
      bring(w.x.addends, matrix_at<Real>(w.x.addends, b, first + t), w.width, w.n, w.n,
            slot + w.n * w.pitch());
  }
}

/* How a warp computes a state: `sharing` lanes share a sum, of which `part` is this one. A factor's
 * rows are pitch elements apart, its columns `across`, an addend's rows addend_pitch. */
struct Sharing {
  int n, addend_pitch, width, sharing, part, pitch, across;
};

/* Computes one state by a warp: next = state M + addend. o is where the lane begins. */
template <typename Real>
__device__ __forceinline__ void step(const Sharing &w, Place o, const Real *factor,
                                     const Real *addend, const Real *state, Real *next,
                                     const mmci_cuda_stack &states, Real *out) {
  const int count = w.width * w.n, together = WARP / w.sharing;
  for (int first = 0; first < count; first += together, o.go_on(together)) {
    const bool is_there = o.at < count;
    const Real *row = state + o.line * w.n, *column = factor + o.place * w.across;
    Real sum = 0, other = 0;
    if (is_there) {
      int k = w.part;
#pragma unroll 4
      for (; k + w.sharing < w.n; k += 2 * w.sharing) {
        sum += row[k] * column[k * w.pitch];
        other += row[k + w.sharing] * column[(k + w.sharing) * w.pitch];
      }
      if (k < w.n) sum += row[k] * column[k * w.pitch];
    }
    sum += other;
    for (int apart = 1; apart < w.sharing; apart *= 2)
      sum += __shfl_xor_sync(0xffffffffu, sum, apart);
    if (!is_there || w.part != 0) continue;
    if (addend != nullptr) sum += addend[o.line * w.addend_pitch + o.place];
    next[o.at] = sum;
    out[states.turned ? o.place * states.ld + o.line : o.line * states.ld + o.place] = sum;
  }
  __syncwarp();
}

/* Follows a whole scan. */
template <typename Real>
__global__ void __launch_bounds__(WHOLE_THREADS) follow(const Work<Real> w) {
  enum { WARPS = WHOLE_THREADS / WARP };
  MMCI_DYNAMIC_SHARED(memory);
  Real *slots = reinterpret_cast<Real *>(memory), *states = slots + 2 * w.chunk * w.slot();
  const int64_t b = blockIdx.x;
  const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
  const int count = w.width * w.n;
  int sharing = 1, now = 0;
  while (2 * sharing * count <= WARP) sharing *= 2;
  const Place o(w.n, lane / sharing, WARP / sharing);
  if (warp == 0) bring(w.x.initial, matrix_at<Real>(w.x.initial, b, 0), w.width, w.n, w.n, states);
  bring_chunk(w, b, 0, w.x.length, warp, WARPS, slots);
  __syncthreads();
  for (int64_t first = 0; first < w.x.length; first += w.chunk) {
    const int64_t left = w.x.length - first;
    Real *here = slots + now * w.chunk * w.slot(), *there = slots + (1 - now) * w.chunk * w.slot();
    if (warp > 0 && left > w.chunk)
      bring_chunk(w, b, first + w.chunk, left - w.chunk, warp - 1, WARPS - 1, there);
    for (int t = 0; warp == 0 && t < w.chunk && t < left; t++) {
      const int turn = (int)((first + t) % 2);
      Real *slot = here + t * w.slot();
      step<Real>({w.n, w.n, w.width, sharing, lane % sharing, w.pitch(), 1}, o, slot,
                 w.x.addends.data != nullptr ? slot + w.n * w.pitch() : nullptr,
                 states + turn * count, states + (1 - turn) * count, w.x.states,
                 const_cast<Real *>(matrix_at<Real>(w.x.states, b, first + t)));
    }
    now = 1 - now;
    __syncthreads();
  }
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* So many factors are on their way to a lane, and after so many a row may be scaled. */
enum { DEPTH = 4, SCALED_EVERY = 8 };
/* A row is scaled when its largest element is beyond 2 to the power of this, or of its negative. */
enum { SCALED_BEYOND = 30 };

/* How the factors of pieces are multiplied: `lanes` lanes take up to as many rows of one piece,
 * which are those of its product and then those of its sum. */
template <typename Real, int N>
struct Gathering {
  /* A line of a factor is LINE elements after the one before. */
  enum { PIECE = 16 / sizeof(Real), PIECES = N / PIECE, LINE = N + PIECE };
  struct alignas(16) Words {
    Real of[PIECE];
  };
  int rows, lanes, sets; /* of a piece */
  __host__ __device__ explicit Gathering(const Work<Real> &w)
      : rows(w.n + (w.x.addends.data != nullptr ? w.width : 0)), lanes(1) {
    while (lanes < rows && lanes < WARP) lanes *= 2;
    sets = (rows + lanes - 1) / lanes;
  }
  static __host__ __device__ int pitch(const Work<Real> &w) {
    return N * LINE + (w.x.addends.data != nullptr ? w.width * N : 0) + PIECE;
  }
  /* Pieces of 16 bytes can be moved; what is turned stays so in shared memory. */
  static __device__ __forceinline__ bool is_whole(const Work<Real> &w) {
    const mmci_cuda_stack &x = w.x.factors;
    return w.n == N && x.ld == N && (uintptr_t)x.data % 16 == 0 && x.step % PIECE == 0 &&
           x.stride % PIECE == 0;
  }
  __host__ __device__ int64_t tasks(const Work<Real> &w) const {
    return w.x.batch * (w.x.pieces - 1) * sets;
  }
};

/* Brings a factor and its addend to a slot, by so many lanes. What is
 * beyond n is left as it is. */
template <typename Real, int N>
__device__ __forceinline__ void bring_step(const Work<Real> &w, bool is_whole, int64_t b, int64_t t,
                                           int lane, int lanes, Real *slot) {
  enum { PIECE = 16 / sizeof(Real), PIECES = N / PIECE, LINE = N + PIECE };
  const Real *a = matrix_at<Real>(w.x.factors, b, t);
  if (is_whole) {
    for (int q = lane; q < N * PIECES; q += lanes)
      mmci_copy_async(slot + q / PIECES * LINE + q % PIECES * PIECE, a + q * PIECE);
  } else {
    const bool turned = w.x.factors.turned;
    Place x(w.n, lane, lanes);
    for (; x.at < w.n * w.n; x.go_on(lanes))
      slot[turned ? x.place * LINE + x.line : x.line * LINE + x.place] =
          a[x.line * w.x.factors.ld + x.place];
  }
  if (w.x.addends.data == nullptr) return;
  const mmci_cuda_stack &c = w.x.addends;
  const Real *from = matrix_at<Real>(c, b, t);
  Place x(w.n, lane, lanes);
  for (; x.at < w.width * w.n; x.go_on(lanes))
    slot[N * LINE + x.line * N + x.place] =
        c.turned ? from[x.place * c.ld + x.line] : from[x.line * c.ld + x.place];
}

/* sum += row M, where M is in shared memory, or its transpose. */
template <typename Real, int N>
__device__ __forceinline__ void multiply_row(const Real *matrix, bool turned, const Real (&row)[N],
                                             Real (&sum)[N]) {
  typedef Gathering<Real, N> G;
#pragma unroll
  for (int line = 0; line < N; line++)
#pragma unroll
    for (int v = 0; v < G::PIECES; v++) {
      const typename G::Words words =
          *reinterpret_cast<const typename G::Words *>(matrix + line * G::LINE + v * G::PIECE);
#pragma unroll
      for (int e = 0; e < G::PIECE; e++) {
        if (turned)
          sum[line] += row[v * G::PIECE + e] * words.of[e];
        else
          sum[v * G::PIECE + e] += row[line] * words.of[e];
      }
    }
}

/* Returns the exponent by which a row's largest element is beyond the bounds; 0 where it is not, or
 * is no number. */
template <typename Real, int N>
__device__ __forceinline__ int beyond(const Real (&row)[N]) {
  Real most = 0;
#pragma unroll
  for (int j = 0; j < N; j++) most = fmax(most, fabs(row[j]));
  if (!(most > 0) || !(most <= Real(1e38))) return 0;
  const int exponent = ilogb(most);
  return exponent > SCALED_BEYOND || exponent < -SCALED_BEYOND ? exponent : 0;
}

/* Multiplies the factors of pieces, all but the last of each scan. */
template <typename Real, int N>
__global__ void __launch_bounds__(PIECE_THREADS) gather(const Work<Real> w) {
  MMCI_DYNAMIC_SHARED(memory);
  const Gathering<Real, N> g(w);
  const int each = WARP / g.lanes, pitch = g.pitch(w), set_of = (int)threadIdx.x / g.lanes;
  const int lane = (int)threadIdx.x % g.lanes;
  Real *slots = reinterpret_cast<Real *>(memory) + set_of * DEPTH * pitch;
  const int64_t task = (int64_t)blockIdx.x * (PIECE_THREADS / WARP * each) + set_of;
  const bool is_there = task < g.tasks(w);
  const int64_t number = is_there ? task / g.sets : 0; /* of the piece */
  const int row = lane + (int)(task % g.sets) * g.lanes;
  const int64_t b = number / (w.x.pieces - 1), begin = number % (w.x.pieces - 1) * w.x.run;
  const bool is_whole = g.is_whole(w), turned = is_whole && w.x.factors.turned;
  const bool is_sum = row >= w.n;
  Real held[N];
  int scaled_by = 0;
#pragma unroll
  for (int j = 0; j < N; j++) held[j] = !is_sum && j == row ? Real(1) : Real(0);
  for (int e = lane; e < DEPTH * pitch; e += g.lanes) slots[e] = 0;
  __syncwarp();
  for (int t = 0; t < DEPTH - 1; t++) {
    if (is_there && t < w.x.run)
      bring_step<Real, N>(w, is_whole, b, begin + t, lane, g.lanes, slots + t * pitch);
    mmci_copy_async_commit();
  }
  for (int64_t t = 0; t < w.x.run; t++) {
    mmci_copy_async_wait<DEPTH - 2>();
    __syncwarp();
    if (is_there && t + DEPTH - 1 < w.x.run)
      bring_step<Real, N>(w, is_whole, b, begin + t + DEPTH - 1, lane, g.lanes,
                          slots + (t + DEPTH - 1) % DEPTH * pitch);
    mmci_copy_async_commit();
    const Real *slot = slots + t % DEPTH * pitch;
    Real sum[N];
#pragma unroll
    for (int j = 0; j < N; j++)
      sum[j] = is_sum && row < g.rows ? slot[N * g.LINE + (row - w.n) * N + j] : Real(0);
    if (t == 0 && !is_sum) {
#pragma unroll
      for (int j = 0; j < N; j++)
        if (row < w.n) sum[j] = slot[turned ? j * g.LINE + row : row * g.LINE + j];
    } else if (t > 0) {
      if (turned)
        multiply_row<Real, N>(slot, true, held, sum);
      else
        multiply_row<Real, N>(slot, false, held, sum);
    }
    /* Beyond n an infinite element times 0 is NaN, which must not come back. */
#pragma unroll
    for (int j = 0; j < N; j++) held[j] = w.n == N || j < w.n ? sum[j] : Real(0);
    if (t % SCALED_EVERY != SCALED_EVERY - 1 || is_sum) continue;
    const int exponent = beyond<Real, N>(held);
    scaled_by += exponent;
    if (exponent == 0) continue;
#pragma unroll
    for (int j = 0; j < N; j++) held[j] = scalbn(held[j], -exponent);
  }
  if (!is_there || row >= g.rows) return;
  if (is_sum) {
    for (int j = 0; j < w.n; j++) w.sums[(number * w.width + row - w.n) * w.n + j] = held[j];
    return;
  }
#pragma unroll
  for (int j = 0; j < N; j++)
    if (j < w.n) w.products[(number * w.n + row) * w.n + j] = held[j];
  w.exponents[number * w.n + row] = scaled_by;
}

/* Finds the state after every piece but the last, a block for each scan and a thread for each
 * element. */
template <typename Real>
__global__ void __launch_bounds__(MOST_ELEMENTS) carry(const Work<Real> w) {
  __shared__ Real states[2][MOST_ELEMENTS];
  const int count = w.width * w.n, e = (int)threadIdx.x, r = e / w.n, j = e % w.n;
  const int64_t b = blockIdx.x;
  const mmci_cuda_stack &x = w.x.initial;
  const Real *initial = matrix_at<Real>(x, b, 0);
  if (e < count) states[0][e] = x.turned ? initial[j * x.ld + r] : initial[r * x.ld + j];
  __syncthreads();
  for (int64_t p = 0; p + 1 < w.x.pieces; p++) {
    const int64_t number = b * (w.x.pieces - 1) + p;
    const Real *product = w.products + number * w.n * w.n;
    const int *exponents = w.exponents + number * w.n;
    Real sum = 0;
    if (e < count) {
#pragma unroll 4
      for (int k = 0; k < w.n; k++)
        sum += scalbn(states[p % 2][r * w.n + k] * product[k * w.n + j], exponents[k]);
      if (w.x.addends.data != nullptr) sum += w.sums[number * count + e];
      states[1 - p % 2][e] = sum;
      w.ends[number * count + e] = sum;
    }
    __syncthreads();
  }
}

/* Follows the pieces of scans from the states before them, a warp each. */
template <typename Real, int N>
__global__ void __launch_bounds__(PIECE_THREADS) follow_pieces(const Work<Real> w) {
  MMCI_DYNAMIC_SHARED(memory);
  const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
  const int64_t number = (int64_t)blockIdx.x * (PIECE_THREADS / WARP) + warp;
  if (number >= w.x.batch * w.x.pieces) return;
  const int64_t b = number / w.x.pieces, piece = number % w.x.pieces, begin = piece * w.x.run;
  const int64_t left = w.x.length - begin, length = left < w.x.run ? left : w.x.run;
  const int pitch = Gathering<Real, N>::pitch(w), count = w.width * w.n;
  const bool is_whole = Gathering<Real, N>::is_whole(w), turned = is_whole && w.x.factors.turned;
  Real *slots = reinterpret_cast<Real *>(memory) + warp * (DEPTH * pitch + 2 * MOST_ELEMENTS);
  Real *states = slots + DEPTH * pitch;
  enum { LINE = Gathering<Real, N>::LINE };
  Sharing sharing = {w.n, N, w.width, 1, 0, turned ? 1 : LINE, turned ? LINE : 1};
  while (2 * sharing.sharing * count <= WARP) sharing.sharing *= 2;
  sharing.part = lane % sharing.sharing;
  const Place o(w.n, lane / sharing.sharing, WARP / sharing.sharing);
  if (piece == 0) bring(w.x.initial, matrix_at<Real>(w.x.initial, b, 0), w.width, w.n, w.n, states);
  for (int e = lane; piece > 0 && e < count; e += WARP)
    states[e] = w.ends[(b * (w.x.pieces - 1) + piece - 1) * count + e];
  for (int t = 0; t < DEPTH - 1; t++) {
    if (t < length) bring_step<Real, N>(w, is_whole, b, begin + t, lane, WARP, slots + t * pitch);
    mmci_copy_async_commit();
  }
  for (int64_t t = 0; t < length; t++) {
    mmci_copy_async_wait<DEPTH - 2>();
    __syncwarp();
    if (t + DEPTH - 1 < length)
      bring_step<Real, N>(w, is_whole, b, begin + t + DEPTH - 1, lane, WARP,
                          slots + (t + DEPTH - 1) % DEPTH * pitch);
    mmci_copy_async_commit();
    const Real *slot = slots + t % DEPTH * pitch;
    step<Real>(sharing, o, slot, w.x.addends.data != nullptr ? slot + N * LINE : nullptr,
               states + t % 2 * MOST_ELEMENTS, states + (1 - t % 2) * MOST_ELEMENTS, w.x.states,
               const_cast<Real *>(matrix_at<Real>(w.x.states, b, begin + t)));
  }
}

template <typename Real, int N>
mmc_status launch_pieces(cudaStream_t stream, const Work<Real> &w, mmci_error *error) {
  const Gathering<Real, N> g(w);
  const int tasks = PIECE_THREADS / g.lanes, warps = PIECE_THREADS / WARP;
  const size_t gathered = (size_t)(tasks * DEPTH * g.pitch(w)) * sizeof(Real),
               followed = (size_t)(warps * (DEPTH * g.pitch(w) + 2 * MOST_ELEMENTS)) * sizeof(Real);
  const unsigned gatherers = (unsigned)((g.tasks(w) + tasks - 1) / tasks),
                 followers = (unsigned)((w.x.batch * w.x.pieces + warps - 1) / warps);
  MMCI_CUDA_TRY(cudaFuncSetAttribute(gather<Real, N>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     (int)gathered));
  MMCI_CUDA_TRY(cudaFuncSetAttribute(follow_pieces<Real, N>,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, (int)followed));
  MMCI_CUDA_TRY(
      mmci_launch(gather<Real, N>, dim3(gatherers), dim3(PIECE_THREADS), gathered, stream, w));
  MMCI_CUDA_TRY(
      mmci_launch(carry<Real>, dim3((unsigned)w.x.batch), dim3(MOST_ELEMENTS), 0, stream, w));
  MMCI_CUDA_TRY(mmci_launch(follow_pieces<Real, N>, dim3(followers), dim3(PIECE_THREADS), followed,
                            stream, w));
  return MMC_OK;
}

template <typename Real>
mmc_status launch_follow(cudaStream_t stream, Work<Real> w, mmci_error *error) {
  const int fit = CHUNK_BYTES / (w.slot() * (int)sizeof(Real));
  w.chunk = fit < MOST_CHUNK ? fit : MOST_CHUNK;
  const size_t shared = (size_t)(2 * w.chunk * w.slot() + 2 * w.width * w.n) * sizeof(Real);
  MMCI_CUDA_TRY(
      cudaFuncSetAttribute(follow<Real>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
  MMCI_CUDA_TRY(
      mmci_launch(follow<Real>, dim3((unsigned)w.x.batch), dim3(WHOLE_THREADS), shared, stream, w));
  return MMC_OK;
}

template <typename Real>
mmc_status launch(cudaStream_t stream, const mmci_cuda_recurrence *x, mmci_error *error) {
  Work<Real> w = {};
  w.x = *x;
  w.n = (int)x->n;
  w.width = (int)x->width;
  if (x->pieces == 1) return launch_follow<Real>(stream, w, error);
  const int64_t cuts = x->batch * (x->pieces - 1), size = x->n * x->n, count = x->n * x->width;
  w.products = static_cast<Real *>(x->work);
  w.sums = w.products + cuts * size;
  w.ends = w.sums + cuts * count;
  w.exponents = reinterpret_cast<int *>(w.ends + cuts * count);
  if (x->n <= 4) return launch_pieces<Real, 4>(stream, w, error);
  if (x->n <= 8) return launch_pieces<Real, 8>(stream, w, error);
  if (x->n <= 16) return launch_pieces<Real, 16>(stream, w, error);
  return launch_pieces<Real, 32>(stream, w, error);
}

}  // namespace

extern "C" size_t mmci_cuda_recurrence_room(const mmci_cuda_recurrence *x) {
  const int64_t cuts = x->batch * (x->pieces - 1);
  const size_t element = x->dtype == MMC_F32 ? sizeof(float) : sizeof(double);
  return (size_t)(cuts * (x->n * x->n + 2 * x->n * x->width)) * element +
         (size_t)(cuts * x->n) * sizeof(int);
}

extern "C" bool mmci_cuda_recurrence_can(mmc_dtype dtype, int64_t n, int64_t width) {
  return (dtype == MMC_F32 || dtype == MMC_F64) && n <= MOST_SIDE && n * width <= MOST_ELEMENTS;
}

extern "C" mmc_status mmci_cuda_recurrence_follow(cudaStream_t stream,
                                                  const mmci_cuda_recurrence *x,
                                                  mmci_error *error) {
  return x->dtype == MMC_F32 ? launch<float>(stream, x, error) : launch<double>(stream, x, error);
}

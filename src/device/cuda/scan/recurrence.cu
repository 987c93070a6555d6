/* recurrence.cu: states of linear recurrences, see scan_kernels.h.
 *
 * Each state needs the one before, so one warp of a block goes from state to state. Meanwhile the
 * others bring the next chunk of factors and addends to shared memory, so that the warp never waits
 * for the chip's. Where there are fewer elements than lanes, several lanes share a sum.
 *
 * Launch  512 threads a block, a block for every scan */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/scan/scan_kernels.h"

namespace {

enum { THREADS = 512, WARP = 32, WARPS = THREADS / WARP, MOST_SIDE = 32, MOST_ELEMENTS = 256 };
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
};

template <typename Real>
__device__ __forceinline__ const Real *matrix_at(const mmci_cuda_stack &x, int64_t b, int64_t t) {
  return static_cast<const Real *>(x.data) + b * x.stride + t * x.step;
}

/* Copies a rows x cols matrix to shared memory, by a warp. */
template <typename Real>
__device__ __forceinline__ void bring(const mmci_cuda_stack &x, const Real *from, int rows,
                                      int cols, int pitch, Real *to) {
  const int lane = (int)threadIdx.x % WARP;
  /* Lines in memory are columns where it is turned. */
  const int length = x.turned ? rows : cols, count = rows * cols;
  for (int first = lane; first < count; first += FLYING * WARP) {
    Real held[FLYING];
#pragma unroll
    for (int i = 0; i < FLYING; i++) {
      const int at = first + i * WARP;
      held[i] = at < count ? from[at / length * x.ld + at % length] : Real(0);
    }
#pragma unroll
    for (int i = 0; i < FLYING; i++) {
      const int at = first + i * WARP, line = at / length, place = at % length;
      if (at < count) to[x.turned ? place * pitch + line : line * pitch + place] = held[i];
    }
  }
}

/* Brings a chunk of factors and addends, by the warps from `warp` on, of which there are warps. */
template <typename Real>
__device__ __forceinline__ void bring_chunk(const Work<Real> &w, int64_t b, int64_t first, int warp,
                                            int warps, Real *slots) {
  const int64_t left = w.x.length - first;
  const int count = left < w.chunk ? (int)left : w.chunk;
  for (int t = warp; t < count; t += warps) {
    Real *slot = slots + t * w.slot();
    bring(w.x.factors, matrix_at<Real>(w.x.factors, b, first + t), w.n, w.n, w.pitch(), slot);
    if (w.x.addends.data != nullptr)
      bring(w.x.addends, matrix_at<Real>(w.x.addends, b, first + t), w.width, w.n, w.n,
            slot + w.n * w.pitch());
  }
}

/* Computes one state by a warp: next = state M + addend. `sharing` lanes share a sum. */
template <typename Real>
__device__ __forceinline__ void step(const Work<Real> &w, int sharing, const Real *slot,
                                     const Real *state, Real *next, Real *out) {
  const int lane = (int)threadIdx.x % WARP, count = w.width * w.n, part = lane % sharing;
  for (int first = 0; first < count; first += WARP / sharing) {
    const int o = first + lane / sharing, r = o / w.n, j = o % w.n;
    const bool is_there = o < count;
    Real sum = 0;
    if (is_there)
      for (int k = part; k < w.n; k += sharing) sum += state[r * w.n + k] * slot[k * w.pitch() + j];
    for (int apart = 1; apart < sharing; apart *= 2)
      sum += __shfl_xor_sync(0xffffffffu, sum, apart);
    if (!is_there || part != 0) continue;
    if (w.x.addends.data != nullptr) sum += slot[w.n * w.pitch() + o];
    next[o] = sum;
    out[w.x.states.turned ? j * w.x.states.ld + r : r * w.x.states.ld + j] = sum;
  }
  __syncwarp();
}

template <typename Real>
__global__ void __launch_bounds__(THREADS) follow(const Work<Real> w) {
  MMCI_DYNAMIC_SHARED(memory);
  Real *slots = reinterpret_cast<Real *>(memory), *states = slots + 2 * w.chunk * w.slot();
  const int64_t b = blockIdx.x;
  const int warp = (int)threadIdx.x / WARP, count = w.width * w.n;
  int sharing = 1, now = 0;
  while (2 * sharing * count <= WARP) sharing *= 2;
  if (warp == 0) bring(w.x.initial, matrix_at<Real>(w.x.initial, b, 0), w.width, w.n, w.n, states);
  bring_chunk(w, b, 0, warp, WARPS, slots);
  __syncthreads();
  for (int64_t first = 0; first < w.x.length; first += w.chunk) {
    const int64_t left = w.x.length - first;
    Real *here = slots + now * w.chunk * w.slot(), *there = slots + (1 - now) * w.chunk * w.slot();
    if (warp > 0 && left > w.chunk) bring_chunk(w, b, first + w.chunk, warp - 1, WARPS - 1, there);
    for (int t = 0; warp == 0 && t < w.chunk && t < left; t++) {
      const int turn = (int)((first + t) % 2);
      step(w, sharing, here + t * w.slot(), states + turn * count, states + (1 - turn) * count,
           const_cast<Real *>(matrix_at<Real>(w.x.states, b, first + t)));
    }
    now = 1 - now;
    __syncthreads();
  }
}

template <typename Real>
mmc_status launch(cudaStream_t stream, const mmci_cuda_recurrence *x, mmci_error *error) {
  Work<Real> w = {*x, (int)x->n, (int)x->width, MOST_CHUNK};
  const int fit = CHUNK_BYTES / (w.slot() * (int)sizeof(Real));
  if (w.chunk > fit) w.chunk = fit;
  const size_t shared = (size_t)(2 * w.chunk * w.slot() + 2 * w.width * w.n) * sizeof(Real);
  MMCI_CUDA_TRY(
      cudaFuncSetAttribute(follow<Real>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
  MMCI_CUDA_TRY(
      mmci_launch(follow<Real>, dim3((unsigned)x->batch), dim3(THREADS), shared, stream, w));
  return MMC_OK;
}

}  // namespace

extern "C" bool mmci_cuda_recurrence_can(mmc_dtype dtype, int64_t n, int64_t width) {
  return (dtype == MMC_F32 || dtype == MMC_F64) && n <= MOST_SIDE && n * width <= MOST_ELEMENTS;
}

extern "C" mmc_status mmci_cuda_recurrence_follow(cudaStream_t stream,
                                                  const mmci_cuda_recurrence *x,
                                                  mmci_error *error) {
  return x->dtype == MMC_F32 ? launch<float>(stream, x, error) : launch<double>(stream, x, error);
}

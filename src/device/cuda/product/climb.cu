/* climb.cu: the products on the way from a leaf of a tree to its root, of square matrices, by one
 * launch (chain/tree_node.h), and which kernel takes which.
 *
 * Layout   row-major without gaps, sides up to 32; climb_cluster.cu has the kernel of others
 * Launch   a block for each chain of the batch, 256 threads, 4 x 4 elements each of a slice of the
 *          sum
 * Traffic  the block reads each sibling once, and writes each product once
 * Idea     the product of a step is in shared memory for the next one. Siblings, which do not wait
 *          for it, are fetched ahead */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_kernels.h"

namespace {

enum { THREADS = 256, TILE = 4 };

/* How a block works: matrices are of at most PADDED rows, and STAGES siblings are fetched ahead. */
template <typename Real, int PADDED, int STAGES>
struct Shape {
  enum {
    PITCH = PADDED + 16 / (int)sizeof(Real), /* rows four apart begin in other banks */
    MATRIX = PADDED * PITCH,
    ACROSS = PADDED / TILE,
    LANES = ACROSS * ACROSS, /* threads that have a tile of the same slice of the sums */
    SLICES = THREADS / LANES,
    PARTIALS = SLICES * PADDED * PADDED,
    ELEMENTS = (2 + STAGES) * MATRIX + PARTIALS
  };

  static __device__ __forceinline__ void fetch(Real *to, const Real *from, int side) {
    const int each = 16 / (int)sizeof(Real);
    if (side % each == 0 && reinterpret_cast<uintptr_t>(from) % 16 == 0) {
      const int pieces = side / each;
      for (int e = (int)threadIdx.x; e < side * pieces; e += THREADS) {
        const int row = e / pieces, col = e % pieces * each;
        mmci_copy_async(to + row * PITCH + col, from + row * side + col);
      }
    } else {
      for (int e = (int)threadIdx.x; e < side * side; e += THREADS) {
        const int row = e / side, col = e % side;
        mmci_copy_async_bytes<(int)sizeof(Real)>(to + row * PITCH + col, from + row * side + col);
      }
    }
  }

  /* Multiplies a by b, and leaves the sums of every slice in parts. What is past a matrix's edge
   * goes into elements that nobody reads. */
  static __device__ __forceinline__ void multiply(const Real *a, const Real *b, int side,
                                                  Real *parts) {
    const int lane = (int)threadIdx.x % LANES, slice = (int)threadIdx.x / LANES;
    const int row = lane / ACROSS * TILE, col = lane % ACROSS * TILE;
    Real sum[TILE][TILE] = {};
#pragma unroll 4
    for (int d = slice; d < side; d += SLICES) {
      Real left[TILE], right[TILE];
#pragma unroll
      for (int p = 0; p < TILE; p++) {
        left[p] = a[(row + p) * PITCH + d];
        right[p] = b[d * PITCH + col + p];
      }
#pragma unroll
      for (int p = 0; p < TILE; p++)
#pragma unroll
        for (int q = 0; q < TILE; q++) sum[p][q] += left[p] * right[q];
    }
    Real *to = parts + (slice * PADDED + row) * PADDED + col;
#pragma unroll
    for (int p = 0; p < TILE; p++)
#pragma unroll
      for (int q = 0; q < TILE; q++) to[p * PADDED + q] = sum[p][q];
  }
};

template <typename Real, int PADDED, int STAGES>
__global__ void __launch_bounds__(THREADS) climb(const __grid_constant__ mmci_climb x) {
  typedef Shape<Real, PADDED, STAGES> S;
  MMCI_DYNAMIC_SHARED(memory);
  Real *now = reinterpret_cast<Real *>(memory), *next = now + S::MATRIX;
  Real *stages = next + S::MATRIX, *parts = stages + STAGES * S::MATRIX;
  const int side = (int)x.side, count = (int)x.count;
  const int64_t chain = (int64_t)blockIdx.x * side * side;
  const auto fetch_step = [&](int step) {
    if (step < count)
      S::fetch(stages + step % STAGES * S::MATRIX,
               static_cast<const Real *>(x.steps[step].sibling) + chain, side);
    mmci_copy_async_commit();
  };
  S::fetch(now, static_cast<const Real *>(x.first) + chain, side);
  for (int step = 0; step < STAGES; step++) fetch_step(step);
  mmci_copy_async_wait<STAGES - 1>();
  __syncthreads();
  for (int step = 0; step < count; step++) {
    const Real *sibling = stages + step % STAGES * S::MATRIX;
    const bool is_left = x.steps[step].sibling_is_left != 0;
    S::multiply(is_left ? sibling : now, is_left ? now : sibling, side, parts);
    const bool is_last = step + 1 == count;
    __syncthreads();
    fetch_step(step + STAGES);
    Real *out = static_cast<Real *>(x.steps[step].out) + chain;
    Real *result = is_last && x.result != nullptr ? static_cast<Real *>(x.result) + chain : nullptr;
    for (int e = (int)threadIdx.x; e < side * PADDED; e += THREADS) {
      const int row = e / PADDED, col = e % PADDED;
      if (col >= side) continue;
      Real sum = parts[row * PADDED + col];
#pragma unroll
      for (int slice = 1; slice < S::SLICES; slice++)
        sum += parts[(slice * PADDED + row) * PADDED + col];
      next[row * S::PITCH + col] = sum;
      out[row * side + col] = sum;
      if (result != nullptr) result[row * side + col] = sum;
    }
    mmci_copy_async_wait<STAGES - 1>();
    __syncthreads();
    Real *swapped = now;
    now = next;
    next = swapped;
  }
}

template <typename Real, int PADDED, int STAGES>
mmc_status launch(cudaStream_t stream, const mmci_climb *x, int64_t chains, mmci_error *error) {
  const auto kernel = climb<Real, PADDED, STAGES>;
  const size_t shared = Shape<Real, PADDED, STAGES>::ELEMENTS * sizeof(Real);
  if (shared > 48 << 10)
    MMCI_CUDA_TRY(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
  MMCI_CUDA_TRY(mmci_launch(kernel, dim3((unsigned)chains), dim3(THREADS), shared, stream, *x));
  return MMC_OK;
}

/* Climbs in one block each. */
template <typename Real>
mmc_status launch_side(cudaStream_t stream, const mmci_climb *x, int64_t chains,
                       mmci_error *error) {
  if (x->side <= 16) return launch<Real, 16, 4>(stream, x, chains, error);
  return launch<Real, 32, 2>(stream, x, chains, error);
}

mmc_status launch_any(cudaStream_t stream, mmc_dtype dtype, bool has_clusters, const mmci_climb *x,
                      int64_t chains, mmci_error *error) {
  if (has_clusters && x->side > 16) return mmci_cuda_climb_cluster(stream, dtype, x, chains, error);
  if (dtype == MMC_F32) return launch_side<float>(stream, x, chains, error);
  return launch_side<double>(stream, x, chains, error);
}

}  // namespace

extern "C" bool mmci_cuda_climbs(mmc_dtype dtype, bool has_clusters, int64_t side) {
  return (dtype == MMC_F32 || dtype == MMC_F64) && side >= 1 && side <= (has_clusters ? 64 : 32);
}

extern "C" mmc_status mmci_cuda_climb(cudaStream_t stream, mmc_dtype dtype, bool has_clusters,
                                      const mmci_climb *climb, int64_t batch, mmci_error *error) {
  if (!mmci_cuda_climbs(dtype, has_clusters, climb->side))
    return mmci_fail(error, MMC_E_UNSUPPORTED, "the card does not go up such a tree by one launch");
  const int64_t most = INT64_C(1) << 26; /* chains of a launch */
  const size_t one = (size_t)(climb->side * climb->side) * (dtype == MMC_F32 ? 4 : 8);
  mmc_status status = MMC_OK;
  for (int64_t t = 0; t < batch && status == MMC_OK; t += most) {
    const size_t past = (size_t)t * one;
    const auto move = [&](const void *p) { return (void *)((char *)p + past); };
    mmci_climb part = *climb;
    part.first = move(climb->first);
    if (climb->result != nullptr) part.result = move(climb->result);
    for (int64_t s = 0; s < climb->count; s++) {
      part.steps[s].sibling = move(climb->steps[s].sibling);
      part.steps[s].out = move(climb->steps[s].out);
    }
    status =
        launch_any(stream, dtype, has_clusters, &part, batch - t < most ? batch - t : most, error);
  }
  return status;
}

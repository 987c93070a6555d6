/* climb.cu: the products on the way from a leaf of a tree to its root, of square matrices, by one
 * launch (chain/tree_node.h).
 *
 * Layout   row-major without gaps, sides up to 64
 * Launch   a cluster of 8 blocks for each chain of the batch where the sides are above 32 and the
 *          card has clusters, else a block; 256 threads, 4 x 4 elements each of a slice of the sum
 * Traffic  each block reads the siblings on the right whole, of those on the left its own rows;
 *          each product is written once
 * Idea     the product of a step is never read from global memory: every block has it whole in
 *          shared memory where the next step reads more than its own rows. Siblings, which do not
 *          wait for it, are fetched ahead */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_kernels.h"

namespace {

enum { THREADS = 256, TILE = 4, CLUSTER = 8 };

/* How a block works: BLOCKS of them share the rows of matrices of at most PADDED, and STAGES
 * siblings are fetched ahead. */
template <typename Real, int PADDED, int BLOCKS, int STAGES>
struct Shape {
  enum {
    ROWS = PADDED / BLOCKS,
    PITCH = PADDED + 16 / (int)sizeof(Real), /* rows four apart begin in other banks */
    MATRIX = PADDED * PITCH,
    ACROSS = PADDED / TILE,
    LANES = ROWS / TILE * ACROSS, /* threads that have a tile of the same slice of the sums */
    SLICES = THREADS / LANES,
    PARTIALS = SLICES * ROWS * PADDED,
    ELEMENTS = (2 + STAGES) * MATRIX + PARTIALS
  };

  /* Fetches rows first to end - 1 of a matrix, to the same rows. */
  static __device__ __forceinline__ void fetch(Real *to, const Real *from, int side, int first,
                                               int end) {
    const int each = 16 / (int)sizeof(Real);
    if (side % each == 0 && reinterpret_cast<uintptr_t>(from) % 16 == 0) {
      const int pieces = side / each;
      for (int e = (int)threadIdx.x; e < (end - first) * pieces; e += THREADS) {
        const int row = first + e / pieces, col = e % pieces * each;
        mmci_copy_async(to + row * PITCH + col, from + row * side + col);
      }
    } else {
      for (int e = (int)threadIdx.x; e < (end - first) * side; e += THREADS) {
        const int row = first + e / side, col = e % side;
        mmci_copy_async_bytes<(int)sizeof(Real)>(to + row * PITCH + col, from + row * side + col);
      }
    }
  }

  /* Multiplies rows `first` and on of a by b, and leaves the sums of every slice in parts. What is
   * past a matrix's edge goes into elements that nobody reads. */
  static __device__ __forceinline__ void multiply(const Real *a, const Real *b, int side, int first,
                                                  Real *parts) {
    const int lane = (int)threadIdx.x % LANES, slice = (int)threadIdx.x / LANES;
    const int row = lane / ACROSS * TILE, col = lane % ACROSS * TILE;
    Real sum[TILE][TILE] = {};
    const Real *own = a + (first + row) * PITCH;
#pragma unroll 4
    for (int d = slice; d < side; d += SLICES) {
      Real left[TILE], right[TILE];
#pragma unroll
      for (int p = 0; p < TILE; p++) {
        left[p] = own[p * PITCH + d];
        right[p] = b[d * PITCH + col + p];
      }
#pragma unroll
      for (int p = 0; p < TILE; p++)
#pragma unroll
        for (int q = 0; q < TILE; q++) sum[p][q] += left[p] * right[q];
    }
    Real *to = parts + (slice * ROWS + row) * PADDED + col;
#pragma unroll
    for (int p = 0; p < TILE; p++)
#pragma unroll
      for (int q = 0; q < TILE; q++) to[p * PADDED + q] = sum[p][q];
  }
};

template <int BLOCKS>
__device__ __forceinline__ void meet() {
  if (BLOCKS > 1)
    mmci_cluster_sync();
  else
    __syncthreads();
}

template <typename Real, int PADDED, int BLOCKS, int STAGES>
__global__ void __launch_bounds__(THREADS) climb(const __grid_constant__ mmci_climb x) {
  typedef Shape<Real, PADDED, BLOCKS, STAGES> S;
  MMCI_DYNAMIC_SHARED(memory);
  Real *now = reinterpret_cast<Real *>(memory), *next = now + S::MATRIX;
  Real *stages = next + S::MATRIX, *parts = stages + STAGES * S::MATRIX;
  const int side = (int)x.side, count = (int)x.count;
  const int rank = BLOCKS > 1 ? (int)mmci_cluster_rank() : 0;
  const int first = min(rank * S::ROWS, side), end = min(first + S::ROWS, side);
  const int64_t chain = (int64_t)blockIdx.x / BLOCKS * side * side;
  const auto fetch_step = [&](int step) {
    if (step < count) {
      const bool is_left = x.steps[step].sibling_is_left != 0;
      S::fetch(stages + step % STAGES * S::MATRIX,
               static_cast<const Real *>(x.steps[step].sibling) + chain, side, is_left ? first : 0,
               is_left ? end : side);
    }
    mmci_copy_async_commit();
  };
  S::fetch(now, static_cast<const Real *>(x.first) + chain, side, 0, side);
  for (int step = 0; step < STAGES; step++) fetch_step(step);
  mmci_copy_async_wait<STAGES - 1>();
  meet<BLOCKS>();
  bool have_met = true; /* all blocks, since they read what is `next` in a step */
  for (int step = 0; step < count; step++) {
    const Real *sibling = stages + step % STAGES * S::MATRIX;
    const bool is_left = x.steps[step].sibling_is_left != 0;
    S::multiply(is_left ? sibling : now, is_left ? now : sibling, side, first, parts);
    const bool is_last = step + 1 == count;
    const bool all_read_it = BLOCKS > 1 && !is_last && x.steps[step + 1].sibling_is_left != 0;
    if (all_read_it && !have_met)
      meet<BLOCKS>();
    else
      __syncthreads();
    fetch_step(step + STAGES);
    Real *out = static_cast<Real *>(x.steps[step].out) + chain;
    Real *result = is_last && x.result != nullptr ? static_cast<Real *>(x.result) + chain : nullptr;
    for (int e = (int)threadIdx.x; e < (end - first) * PADDED; e += THREADS) {
      const int row = e / PADDED, col = e % PADDED;
      if (col >= side) continue;
      Real sum = parts[row * PADDED + col];
#pragma unroll
      for (int slice = 1; slice < S::SLICES; slice++)
        sum += parts[(slice * S::ROWS + row) * PADDED + col];
      Real *to = next + (first + row) * S::PITCH + col;
      if (all_read_it) {
#pragma unroll
        for (int block = 0; block < BLOCKS; block++) *mmci_cluster_at(to, block) = sum;
      } else {
        *to = sum;
      }
      out[(first + row) * side + col] = sum;
      if (result != nullptr) result[(first + row) * side + col] = sum;
    }
    mmci_copy_async_wait<STAGES - 1>();
    have_met = all_read_it;
    if (all_read_it)
      meet<BLOCKS>();
    else
      __syncthreads();
    Real *swapped = now;
    now = next;
    next = swapped;
  }
}

template <typename Real, int PADDED, int BLOCKS, int STAGES>
mmc_status launch(cudaStream_t stream, const mmci_climb *x, int64_t batch, mmci_error *error) {
  const auto kernel = climb<Real, PADDED, BLOCKS, STAGES>;
  const size_t shared = Shape<Real, PADDED, BLOCKS, STAGES>::ELEMENTS * sizeof(Real);
  if (shared > 48 << 10)
    MMCI_CUDA_TRY(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
  const int64_t most = INT64_C(1) << 27; /* chains of a launch */
  for (int64_t t = 0; t < batch; t += most) {
    const int64_t chains = batch - t < most ? batch - t : most, past = t * x->side * x->side;
    mmci_climb part = *x;
    const auto move = [&](const void *p) {
      return const_cast<Real *>(static_cast<const Real *>(p)) + past;
    };
    part.first = move(x->first);
    if (x->result != nullptr) part.result = move(x->result);
    for (int64_t s = 0; s < x->count; s++) {
      part.steps[s].sibling = move(x->steps[s].sibling);
      part.steps[s].out = move(x->steps[s].out);
    }
    MMCI_CUDA_TRY(mmci_launch_clusters(kernel, dim3((unsigned)(chains * BLOCKS)), BLOCKS,
                                       dim3(THREADS), shared, stream, part));
  }
  return MMC_OK;
}

/* So many siblings fit the shared memory that a block of a cluster may have. */
template <typename Real>
mmc_status launch_side(cudaStream_t stream, const mmci_climb *x, int64_t batch, mmci_error *error) {
  if (x->side <= 16) return launch<Real, 16, 1, 4>(stream, x, batch, error);
  if (x->side <= 32) return launch<Real, 32, 1, 2>(stream, x, batch, error);
  return launch < Real, 64, CLUSTER, sizeof(Real) == 4 ? 10 : 3 > (stream, x, batch, error);
}

}  // namespace

extern "C" bool mmci_cuda_climbs(mmc_dtype dtype, bool has_clusters, int64_t side) {
  return (dtype == MMC_F32 || dtype == MMC_F64) && side >= 1 && side <= (has_clusters ? 64 : 32);
}

extern "C" mmc_status mmci_cuda_climb(cudaStream_t stream, mmc_dtype dtype, bool has_clusters,
                                      const mmci_climb *climb, int64_t batch, mmci_error *error) {
  if (!mmci_cuda_climbs(dtype, has_clusters, climb->side))
    return mmci_fail(error, MMC_E_UNSUPPORTED, "the card does not go up such a tree by one launch");
  if (dtype == MMC_F32) return launch_side<float>(stream, climb, batch, error);
  return launch_side<double>(stream, climb, batch, error);
}

/* climb_cluster.cu: the products on the way from a leaf of a tree to its root (chain/tree_node.h),
 * of square matrices, by one launch for cards with clusters.
 *
 * Layout   row-major without gaps, sides up to 64
 * Launch   a cluster for each chain of the batch, 4 threads for each row of the largest matrices
 * Traffic  each block reads all siblings, a piece of the first matrix, and writes its piece of each
 *          product
 * Idea     rows of a product by a matrix from the right are those rows by that matrix, and so are
 *          columns where it comes from the left. So a block has a few rows, or columns, of the
 *          product so far, and needs nothing of other blocks as long as matrices come from the same
 *          side. When the side changes, every block posts to every other one what is of its rows
 *          and of the other's columns, which is little. Siblings are fetched ahead
 *
 * Each product is of the one below it, in the order of the tree, and each element is summed in an
 * order that depends on the side alone. */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_kernels.h"

namespace {

/* Elements that are read at once. */
template <typename Real, int COUNT>
struct alignas(COUNT * sizeof(Real)) Vector {
  Real at[COUNT];
};

/* How a block works: BLOCKS of them share the rows or columns of matrices of at most PADDED, and
 * STAGES siblings are fetched ahead. Where IS_FULL the matrices are of PADDED rows.
 *
 * A piece of a product is a block's OWN rows, or columns, of it. Its elements have two numbers: the
 * one along the piece, and the one across, which is below OWN. A warp computes 8 elements along and
 * all across; 8 of its lanes share each sum, and 4 have sums of their own, of 2 elements along. */
template <typename Real, int PADDED, int BLOCKS, int STAGES, bool IS_FULL>
struct Shape {
  enum {
    THREADS = 4 * PADDED,
    OWN = PADDED / BLOCKS,
    EACH = 16 / (int)sizeof(Real), /* elements in 16 bytes */
    PITCH = PADDED + 8,            /* rows that a warp reads at once begin in other banks */
    MATRIX = PADDED * PITCH,
    PIECE = OWN * PADDED,
    PIECES = 4, /* two that a block writes in turns, and two that all write */
    SUMS = 2 * OWN,
    SHARED = (STAGES * MATRIX + PIECES * PIECE) * (int)sizeof(Real) +
             MMCI_CLIMB_STEPS * (int)sizeof(mmci_gate)
  };
  typedef Vector<Real, EACH> Each;
  static_assert(OWN % EACH == 0 && PADDED % (8 * EACH) == 0, "vectors of lanes");

  /* Where a piece has an element: what is at the same place along is in 16 bytes, and what lanes
   * read at once is in other banks. */
  static __device__ __forceinline__ int place(int along, int across) {
    return ((across / EACH) * PADDED + (along ^ (along >> 3 & 3))) * EACH + across % EACH;
  }

  static __device__ __forceinline__ void fetch(Real *to, const Real *from, int side) {
    if (side % EACH == 0 && reinterpret_cast<uintptr_t>(from) % 16 == 0) {
      const int across = PADDED / EACH, col = (int)threadIdx.x % across * EACH;
#pragma unroll
      for (int row = (int)threadIdx.x / across; row < (IS_FULL ? PADDED : side);
           row += THREADS / across)
        if (IS_FULL || col < side) mmci_copy_async(to + row * PITCH + col, from + row * side + col);
    } else {
      const int col = (int)threadIdx.x % PADDED;
      for (int row = (int)threadIdx.x / PADDED; row < side && col < side; row += THREADS / PADDED)
        mmci_copy_async_bytes<(int)sizeof(Real)>(to + row * PITCH + col, from + row * side + col);
    }
  }

  /* Adds the product of some rows, whose elements are of column k, with row k of a matrix. */
  static __device__ __forceinline__ void add(Real (&sum)[2][OWN], const Real *piece, int k,
                                             Real left, Real right) {
#pragma unroll
    for (int group = 0; group < OWN / EACH; group++) {
      const Each own = *reinterpret_cast<const Each *>(piece + place(k, group * EACH));
#pragma unroll
      for (int e = 0; e < EACH; e++) {
        sum[0][group * EACH + e] += left * own.at[e];
        sum[1][group * EACH + e] += right * own.at[e];
      }
    }
  }

  /* What of a sibling is past its edge is not zero, and counts as such. */
  static __device__ __forceinline__ Real within(Real value, int k, int side) {
    return IS_FULL || k < side ? value : (Real)0;
  }

  /* Adds up products of a piece's rows with a matrix from the right. */
  static __device__ __forceinline__ void multiply_rows(Real (&sum)[2][OWN], const Real *piece,
                                                       const Real *matrix, int along, int share,
                                                       int side) {
#pragma unroll
    for (int j = 0; j < PADDED / 8; j++) {
      const int k = 8 * j + share;
      const Vector<Real, 2> two =
          *reinterpret_cast<const Vector<Real, 2> *>(matrix + k * PITCH + along);
      add(sum, piece, k, within(two.at[0], k, side), within(two.at[1], k, side));
    }
  }

  /* Adds up products of a piece's columns with a matrix from the left. */
  static __device__ __forceinline__ void multiply_columns(Real (&sum)[2][OWN], const Real *piece,
                                                          const Real *matrix, int along, int share,
                                                          int side) {
#pragma unroll
    for (int j = 0; j < PADDED / (8 * EACH); j++) {
      const int first = EACH * (8 * j + share);
      const Real *row = matrix + along * PITCH + first;
      const Each upper = *reinterpret_cast<const Each *>(row);
      const Each lower = *reinterpret_cast<const Each *>(row + PITCH);
#pragma unroll
      for (int e = 0; e < EACH; e++)
        add(sum, piece, first + e, within(upper.at[e], first + e, side),
            within(lower.at[e], first + e, side));
    }
  }

  /* Adds up what lanes have that differ by these distances. Each is left with the first SUMS / 8
   * elements, which are those from the returned one on. */
  static __device__ __forceinline__ int gather(Real (&sums)[SUMS], int share, int distance) {
    int first = 0;
#pragma unroll
    for (int b = 0; b < 3; b++) {
      const int half = SUMS >> (b + 1);
      const bool is_upper = (share >> b & 1) != 0;
#pragma unroll
      for (int e = 0; e < half; e++) {
        const Real given = is_upper ? sums[e] : sums[e + half];
        const Real kept = is_upper ? sums[e + half] : sums[e];
        sums[e] = kept + __shfl_xor_sync(0xffffffffu, given, distance << b);
      }
      first += is_upper ? half : 0;
    }
    return first;
  }
};

template <typename Real, int PADDED, int BLOCKS, int STAGES, bool IS_FULL>
__global__ void __launch_bounds__(4 * PADDED) climb_cluster(const __grid_constant__ mmci_climb x) {
  typedef Shape<Real, PADDED, BLOCKS, STAGES, IS_FULL> S;
  MMCI_DYNAMIC_SHARED(memory);
  Real *stages = reinterpret_cast<Real *>(memory), *pieces = stages + STAGES * S::MATRIX;
  mmci_gate *gates = reinterpret_cast<mmci_gate *>(pieces + S::PIECES * S::PIECE);
  const int side = IS_FULL ? PADDED : (int)x.side, count = (int)x.count;
  const int first = (int)mmci_cluster_rank() * S::OWN;
  const int own = IS_FULL ? (int)S::OWN : max(min((int)S::OWN, side - first), 0);
  const int64_t chain = (int64_t)blockIdx.x / BLOCKS * side * side;
  const auto fetch_step = [&](int step) {
    if (step < count)
      S::fetch(stages + step % STAGES * S::MATRIX,
               static_cast<const Real *>(x.steps[step].sibling) + chain, side);
    mmci_copy_async_commit();
  };
  for (int step = 0; step < STAGES; step++) fetch_step(step);
  uint64_t lefts = 0, of_step = 1; /* a bit for each step whose sibling is the left operand */
  for (int step = 0; step < count; step++, of_step <<= 1)
    if (x.steps[step].sibling_is_left != 0) lefts |= of_step;
  for (int step = (int)threadIdx.x; step < count; step += S::THREADS)
    gates[step].close_until_posted((unsigned)(own * side) * (unsigned)sizeof(Real));
  if (!IS_FULL) {
    for (int e = (int)threadIdx.x; e < S::PIECES * S::PIECE; e += S::THREADS) pieces[e] = 0;
    __syncthreads();
  }
  const Real *leaf = static_cast<const Real *>(x.first) + chain;
  for (int e = (int)threadIdx.x; e < S::PIECE; e += S::THREADS) {
    const bool is_left = (lefts & 1) != 0;
    const int along = is_left ? e / S::OWN : e % PADDED, across = is_left ? e % S::OWN : e / PADDED;
    if (along < side && across < own)
      pieces[S::place(along, across)] =
          leaf[is_left ? along * side + first + across : (first + across) * side + along];
  }
  mmci_copy_async_wait<STAGES - 1>();
  mmci_cluster_sync();

  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
  int now = 0, posts = 0; /* the piece that is multiplied, and how often the side has changed */
  for (int step = 0; step < count; step++) {
    const Real *sibling = stages + step % STAGES * S::MATRIX, *piece = pieces + now * S::PIECE;
    const bool is_left = (lefts >> step & 1) != 0, is_last = step + 1 == count;
    const bool turns = !is_last && (lefts >> (step + 1) & 1) != (lefts >> step & 1);
    const int share = is_left ? lane % 8 : lane / 4;
    int along = 8 * warp + 2 * (is_left ? lane / 8 : lane % 4);
    Real sum[2][S::OWN] = {}, sums[S::SUMS];
    if (is_left)
      S::multiply_columns(sum, piece, sibling, along, share, side);
    else
      S::multiply_rows(sum, piece, sibling, along, share, side);
#pragma unroll
    for (int e = 0; e < S::SUMS; e++) sums[e] = sum[e / S::OWN][e % S::OWN];
    const int of_lane = S::gather(sums, share, is_left ? 1 : 4);
    along += of_lane / S::OWN;
    const int across = of_lane % S::OWN;
    const int next = turns ? 2 + posts % 2 : now == 0 ? 1 : 0;
    Real *out = static_cast<Real *>(x.steps[step].out) + chain;
    Real *result = is_last && x.result != nullptr ? static_cast<Real *>(x.result) + chain : nullptr;
#pragma unroll
    for (int e = 0; e < S::SUMS / 8; e++) {
      if (!IS_FULL && (along >= side || across + e >= own)) continue;
      Real *to = pieces + next * S::PIECE;
      if (turns)
        mmci_post(to + S::place(first + across + e, along % S::OWN), sums[e], &gates[posts],
                  (unsigned)(along / S::OWN));
      else
        to[S::place(along, across + e)] = sums[e];
    }
#pragma unroll
    for (int e = 0; e < S::SUMS / 8; e++) {
      if (!IS_FULL && (along >= side || across + e >= own)) continue;
      const int at =
          is_left ? along * side + first + across + e : (first + across + e) * side + along;
      out[at] = sums[e];
      if (result != nullptr) result[at] = sums[e];
    }
    if (is_last) break;
    mmci_copy_async_wait<STAGES - 2>();
    __syncthreads();
    fetch_step(step + STAGES);
    if (turns) gates[posts++].wait();
    now = next;
  }
}

template <typename Real, int PADDED, int BLOCKS, int STAGES, bool IS_FULL>
mmc_status launch(cudaStream_t stream, const mmci_climb *x, int64_t chains, mmci_error *error) {
  typedef Shape<Real, PADDED, BLOCKS, STAGES, IS_FULL> S;
  const auto kernel = climb_cluster<Real, PADDED, BLOCKS, STAGES, IS_FULL>;
  MMCI_CUDA_TRY(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)S::SHARED));
  if (BLOCKS > 8)
    MMCI_CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  MMCI_CUDA_TRY(mmci_launch_clusters(kernel, dim3((unsigned)(chains * BLOCKS)), BLOCKS,
                                     dim3(S::THREADS), S::SHARED, stream, *x));
  return MMC_OK;
}

/* So many siblings fit the shared memory that a block may have. */
template <typename Real>
mmc_status launch_side(cudaStream_t stream, const mmci_climb *x, int64_t chains,
                       mmci_error *error) {
  enum { STAGES = sizeof(Real) == 4 ? 10 : 5 };
  if (x->side == 64) return launch<Real, 64, 16, STAGES, true>(stream, x, chains, error);
  if (x->side > 32) return launch<Real, 64, 16, STAGES, false>(stream, x, chains, error);
  return launch<Real, 32, 8, STAGES, false>(stream, x, chains, error);
}

}  // namespace

extern "C" mmc_status mmci_cuda_climb_cluster(cudaStream_t stream, mmc_dtype dtype,
                                              const mmci_climb *climb, int64_t chains,
                                              mmci_error *error) {
  if (dtype == MMC_F32) return launch_side<float>(stream, climb, chains, error);
  return launch_side<double>(stream, climb, chains, error);
}

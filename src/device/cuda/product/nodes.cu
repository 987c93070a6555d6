/* nodes.cu: products of a level of a tree, forwards or back, each of its own shape and at its own
 * addresses (chain/tree_node.h).
 *
 * Layout   any leading dimensions, transposed and conjugated; sides up to 64
 * Launch   a 1-D grid of nodes and chains of the batch; 256 threads, up to 4 x 4 elements each
 * Traffic  each operand is read once, each result is written once
 * Idea     going back, both cotangents of a node are one block's, which has read both operands by
 *          then: they take the operands' places, and a level needs no memory of its own */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_kernels.h"
#include "device/cuda/elements.cuh"

namespace {

enum { SIDE = 16, THREADS = SIDE * SIDE };

template <typename Real>
__device__ __forceinline__ Real conjugate(Real x, bool) {
  return x;
}
template <typename Real>
__device__ __forceinline__ mmci_complex<Real> conjugate(mmci_complex<Real> x, bool conj) {
  return {x.re, conj ? -x.im : x.im};
}

/* A matrix in shared memory, of PART * SIDE rows; the odd width spreads columns over the banks. */
template <typename Element, int PART>
struct Shared {
  typedef typename Element::Sum Sum;
  typedef typename Element::Stored Stored;
  enum { PITCH = PART * SIDE + 1, ELEMENTS = PART * SIDE * PITCH };

  /* Loads a matrix of rows x cols. Neighbouring threads read neighbouring elements. */
  static __device__ __forceinline__ void load(const mmci_node_matrix &x, int64_t chain, int rows,
                                              int cols, bool conj, Sum *to) {
    const Stored *from = static_cast<const Stored *>(x.data) + chain * x.stride;
    const int length = x.trans != 0 ? rows : cols;
    const bool conjugates = (x.conj != 0) != conj;
#pragma unroll 4
    for (int e = (int)threadIdx.x; e < rows * cols; e += THREADS) {
      const int line = e / length, at = e - line * length;
      const int row = x.trans != 0 ? at : line, col = x.trans != 0 ? line : at;
      to[row * PITCH + col] = Element::read(from[line * x.ld + at], conjugates);
    }
  }

  /* The own elements of a product that sums over depth steps of two matrices in shared memory;
   * what is past a matrix's edge goes into elements past the product's. */
  static __device__ __forceinline__ void multiply(const Sum *a, int a_row, int a_step, const Sum *b,
                                                  int b_step, int b_col, int depth,
                                                  Sum sum[PART][PART]) {
    const int row = (int)threadIdx.x / SIDE, col = (int)threadIdx.x % SIDE;
#pragma unroll
    for (int p = 0; p < PART; p++)
#pragma unroll
      for (int q = 0; q < PART; q++) sum[p][q] = Sum{};
#pragma unroll 4
    for (int d = 0; d < depth; d++) {
      Sum left[PART], right[PART];
#pragma unroll
      for (int p = 0; p < PART; p++) {
        left[p] = a[(row + p * SIDE) * a_row + d * a_step];
        right[p] = b[d * b_step + (col + p * SIDE) * b_col];
      }
#pragma unroll
      for (int p = 0; p < PART; p++)
#pragma unroll
        for (int q = 0; q < PART; q++) mmci_add_product(sum[p][q], left[p], right[q]);
    }
  }

  static __device__ __forceinline__ void store(const mmci_node_matrix &x, int64_t chain, int rows,
                                               int cols, const Sum sum[PART][PART]) {
    Stored *to = static_cast<Stored *>(x.data) + chain * x.stride;
#pragma unroll
    for (int p = 0; p < PART; p++)
#pragma unroll
      for (int q = 0; q < PART; q++) {
        const int r = (int)threadIdx.x / SIDE + p * SIDE, c = (int)threadIdx.x % SIDE + q * SIDE;
        if (r < rows && c < cols)
          to[x.trans != 0 ? c * x.ld + r : r * x.ld + c] =
              Element::write(conjugate(sum[p][q], x.conj != 0));
      }
  }
};

template <typename Element, int PART>
__global__ void __launch_bounds__(THREADS)
    nodes_forward(const mmci_tree_node *nodes, int64_t batch) {
  typedef Shared<Element, PART> S;
  typedef typename Element::Sum Sum;
  MMCI_DYNAMIC_SHARED(memory);
  Sum *a = reinterpret_cast<Sum *>(memory), *b = a + S::ELEMENTS;
  const mmci_tree_node &x = nodes[(int64_t)blockIdx.x / batch];
  const int64_t chain = (int64_t)blockIdx.x % batch;
  const int m = (int)x.m, k = (int)x.k, n = (int)x.n;
  S::load(x.a, chain, m, k, false, a);
  S::load(x.b, chain, k, n, false, b);
  __syncthreads();
  Sum sum[PART][PART];
  S::multiply(a, S::PITCH, 1, b, S::PITCH, 1, k, sum);
  S::store(x.c, chain, m, n, sum);
}

template <typename Element, int PART>
__global__ void __launch_bounds__(THREADS) nodes_back(const mmci_tree_node *nodes, int64_t batch) {
  typedef Shared<Element, PART> S;
  typedef typename Element::Sum Sum;
  MMCI_DYNAMIC_SHARED(memory);
  Sum *a = reinterpret_cast<Sum *>(memory), *b = a + S::ELEMENTS, *c = b + S::ELEMENTS;
  const mmci_tree_node &x = nodes[(int64_t)blockIdx.x / batch];
  const int64_t chain = (int64_t)blockIdx.x % batch;
  const int m = (int)x.m, k = (int)x.k, n = (int)x.n;
  S::load(x.c, chain, m, n, false, c);
  if (x.db.data != nullptr) S::load(x.a, chain, m, k, true, a);
  if (x.da.data != nullptr) S::load(x.b, chain, k, n, true, b);
  __syncthreads();
  Sum sum[PART][PART];
  if (x.da.data != nullptr) {
    S::multiply(c, S::PITCH, 1, b, 1, S::PITCH, n, sum);
    S::store(x.da, chain, m, k, sum);
  }
  if (x.db.data != nullptr) {
    S::multiply(a, 1, S::PITCH, c, S::PITCH, 1, m, sum);
    S::store(x.db, chain, k, n, sum);
  }
}

template <typename Element, int PART>
mmc_status launch(cudaStream_t stream, const mmci_tree_node *nodes, int64_t count, int64_t batch,
                  bool back, mmci_error *error) {
  const auto kernel = back ? nodes_back<Element, PART> : nodes_forward<Element, PART>;
  const size_t matrix = Shared<Element, PART>::ELEMENTS * sizeof(typename Element::Sum);
  const size_t shared = (back ? 3 : 2) * matrix;
  if (shared > 48 << 10)
    MMCI_CUDA_TRY(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
  const int64_t most = INT64_C(1) << 30; /* blocks of a launch */
  const int64_t at_once = batch < most ? most / batch : 1;
  for (int64_t i = 0; i < count; i += at_once) {
    const int64_t now = count - i < at_once ? count - i : at_once;
    MMCI_CUDA_TRY(mmci_launch(kernel, dim3((unsigned)(now * batch)), dim3(THREADS), shared, stream,
                              nodes + i, batch));
  }
  return MMC_OK;
}

template <typename Element>
mmc_status launch_side(cudaStream_t stream, int side, const mmci_tree_node *nodes, int64_t count,
                       int64_t batch, bool back, mmci_error *error) {
  if (side <= SIDE) return launch<Element, 1>(stream, nodes, count, batch, back, error);
  if (side <= 2 * SIDE) return launch<Element, 2>(stream, nodes, count, batch, back, error);
  return launch<Element, 4>(stream, nodes, count, batch, back, error);
}

}  // namespace

extern "C" mmc_status mmci_cuda_nodes(cudaStream_t stream, mmc_dtype dtype, int side,
                                      const mmci_tree_node *nodes, int64_t count, int64_t batch,
                                      bool back, mmci_error *error) {
#define LAUNCH(Element) launch_side<Element>(stream, side, nodes, count, batch, back, error)
  MMCI_FOR_ELEMENT(dtype, error, LAUNCH);
#undef LAUNCH
}

/* vectors.cu: computes batches of matrices by vectors and of vectors by matrices, each of which is
 * read once. cuBLAS takes two to twenty times as long as that, and a product that is small has a
 * block, or several, of its own there.
 *
 * Layout any forms and leading dimensions; lines are read as they lie
 * Launch a 1-D grid of 256 threads. Along lines, groups of lanes have sums, whatever products these
 *   are of; across them, a block has a tile of a product, or tiles of several
 * Order a thread's terms from the first to the last, then threads by halves (along) or in turn
 *   (across): the same in every run
 * Traffic each matrix once, the vector once for every line, mostly from caches */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_kernels.h"
#include "device/cuda/elements.cuh"
extern "C" {
#include "device/cuda/product/vectors.h"
}

namespace {

enum { THREADS = MMCI_VECTORS_THREADS, WARP = 32 };

/* Divides numbers below 2^31: the quotient is (x * factor) >> shift. */
struct Divisor {
  uint32_t factor, shift, by;
};

Divisor divisor_of(uint32_t by) {
  uint32_t bits = 0;
  while (bits < 31 && ((uint32_t)1 << bits) < by) bits++;
  const uint64_t one = (uint64_t)1 << (31 + bits);
  return {(uint32_t)((one + by - 1) / by), 31 + bits, by};
}

__device__ __forceinline__ uint32_t quotient(uint32_t x, const Divisor &by) {
  return (uint32_t)((uint64_t)x * by.factor >> by.shift);
}

struct Vectors {
  const void *matrix, *x;
  void *y;
  int64_t stride, x_stride, y_stride, ld, y_step;
  uint32_t step, x_step; /* from term to term of the matrix, and of the vector */
  uint32_t outs, terms, products;
  bool conj, x_conj;
  Divisor by_outs;                       /* along */
  Divisor by_cols, by_threads, by_tiles; /* across; by_threads: those of a product */
  uint32_t together;                     /* across: products of a block */
};

/* Terms of each sum that a thread reads together, where it has so many: some 64 bytes of all sums,
 * without which memory is waited for. The last ones are read FEW at a time. */
enum { FEW = 4 };
template <typename Element, int COUNT>
constexpr int MANY = 64 / (int)sizeof(typename Element::Stored) / COUNT > FEW
                         ? 64 / (int)sizeof(typename Element::Stored) / COUNT
                         : FEW;

/* COUNT sums of a thread, each of its own terms of the matrix, and of a vector, which is the same
 * for all where is_one_vector. Terms are `apart` from each other. */
template <typename Element, int COUNT>
struct Sums {
  typedef typename Element::Sum Sum;
  typedef typename Element::Stored Stored;
  typedef mmci_whole<Stored> Whole;
  Sum sums[COUNT];
  const Whole *from[COUNT], *x[COUNT];
  bool is_one_vector;

  /* Adds the products of TERMS terms from number t on, of which all are there, or some. */
  template <int TERMS, bool ARE_THERE>
  __device__ __forceinline__ void add_terms(const Vectors &v, uint32_t t, uint32_t apart) {
    Stored left[COUNT][TERMS] = {}, right[COUNT][TERMS] = {};
#pragma unroll
    for (int i = 0; i < TERMS; i++) {
      const uint32_t at = t + i * apart;
      if (ARE_THERE || at < v.terms) right[0][i] = x[0][at * v.x_step].value;
    }
#pragma unroll
    for (int c = 0; c < COUNT; c++)
#pragma unroll
      for (int i = 0; i < TERMS; i++) {
        const uint32_t at = t + i * apart;
        const bool is_there = ARE_THERE || at < v.terms;
        if (is_there) left[c][i] = from[c][at * v.step].value;
        if (c > 0) right[c][i] = right[0][i];
        if (c > 0 && !is_one_vector && is_there) right[c][i] = x[c][at * v.x_step].value;
      }
#pragma unroll
    for (int c = 0; c < COUNT; c++)
#pragma unroll
      for (int i = 0; i < TERMS; i++)
        mmci_fuse_product(sums[c], Element::read(left[c][i], v.conj),
                          Element::read(right[c][i], v.x_conj));
  }

  __device__ __forceinline__ void add(const Vectors &v, uint32_t first, uint32_t apart) {
    enum { TERMS = MANY<Element, COUNT> };
    uint32_t t = first;
    for (; t + (TERMS - 1) * apart < v.terms; t += TERMS * apart)
      add_terms<TERMS, true>(v, t, apart);
    for (; t < v.terms; t += FEW * apart) add_terms<FEW, false>(v, t, apart);
  }
};

/* A group of lanes has LINES sums, as far from each other as there are groups in a block. */
template <typename Element, int LANES, int LINES>
__global__ void __launch_bounds__(THREADS) sum_along(const __grid_constant__ Vectors v) {
  typedef mmci_whole<typename Element::Stored> Whole;
  enum { GROUPS = THREADS / LANES };
  const uint32_t lane = threadIdx.x % LANES, all = v.outs * v.products,
                 number = blockIdx.x * (GROUPS * LINES) + threadIdx.x / LANES;
  Sums<Element, LINES> mine = {};
  Whole *to[LINES];
  mine.is_one_vector = true;
#pragma unroll
  for (int i = 0; i < LINES; i++) {
    /* Beyond the last sum it is computed again, because lanes of a warp want each other's values.
     */
    const uint32_t wanted = number + i * GROUPS, at = wanted < all ? wanted : all - 1,
                   product = quotient(at, v.by_outs), out = at - product * v.outs;
    mine.from[i] = static_cast<const Whole *>(v.matrix) + product * v.stride + out * v.ld;
    mine.x[i] = static_cast<const Whole *>(v.x) + product * v.x_stride;
    to[i] = static_cast<Whole *>(v.y) + product * v.y_stride + out * v.y_step;
    mine.is_one_vector = mine.is_one_vector && mine.x[i] == mine.x[0];
  }
  mine.add(v, lane, LANES);
#pragma unroll
  for (int i = 0; i < LINES; i++) {
#pragma unroll
    for (int bit = LANES / 2; bit >= 1; bit /= 2)
      mine.sums[i] = mmci_add(mine.sums[i], mmci_from_lane(mine.sums[i], bit));
    if (lane == 0 && number + i * GROUPS < all) to[i]->value = Element::write(mine.sums[i]);
  }
}

/* A thread has COLS sums of a tile, as far from each other as there are threads along it. */
template <typename Element, int COLS>
__global__ void __launch_bounds__(THREADS) sum_across(const __grid_constant__ Vectors v) {
  typedef mmci_whole<typename Element::Stored> Whole;
  typedef typename Element::Sum Sum;
  __shared__ Sum parts[COLS * THREADS];
  const uint32_t group = quotient(blockIdx.x, v.by_tiles),
                 tile = blockIdx.x - group * v.by_tiles.by,
                 slot = quotient(threadIdx.x, v.by_threads),
                 thread = threadIdx.x - slot * v.by_threads.by, across = v.by_cols.by,
                 share = quotient(thread, v.by_cols), col = thread - share * across,
                 shares = v.by_threads.by / across, product = group * v.together + slot,
                 first = tile * across * COLS + col;
  const bool works = slot < v.together && product < v.products && first < v.outs;
  Sums<Element, COLS> mine = {};
  mine.is_one_vector = true;
  if (works) {
#pragma unroll
    for (int c = 0; c < COLS; c++) {
      const uint32_t out = first + c * across; /* the first one again where there is none */
      mine.from[c] =
          static_cast<const Whole *>(v.matrix) + product * v.stride + (out < v.outs ? out : first);
      mine.x[c] = static_cast<const Whole *>(v.x) + product * v.x_stride;
    }
    mine.add(v, share, shares);
  }
  Sum(&sums)[COLS] = mine.sums;
  if (shares > 1) {
#pragma unroll
    for (int c = 0; c < COLS; c++) parts[c * THREADS + threadIdx.x] = sums[c];
    __syncthreads();
    if (share == 0 && works)
      for (uint32_t s = 1; s < shares; s++)
#pragma unroll
        for (int c = 0; c < COLS; c++)
          sums[c] = mmci_add(sums[c], parts[c * THREADS + threadIdx.x + s * across]);
  }
  if (share != 0 || !works) return;
  Whole *to = static_cast<Whole *>(v.y) + product * v.y_stride;
#pragma unroll
  for (int c = 0; c < COLS; c++)
    if (first + c * across < v.outs)
      to[(first + c * across) * v.y_step].value = Element::write(sums[c]);
}

typedef void (*kernel_fn)(Vectors);

template <typename Element, int LINES>
kernel_fn along_of(int lanes) {
  switch (lanes) {
    case 1:
      return sum_along<Element, 1, LINES>;
    case 2:
      return sum_along<Element, 2, LINES>;
    case 4:
      return sum_along<Element, 4, LINES>;
    case 8:
      return sum_along<Element, 8, LINES>;
    case 16:
      return sum_along<Element, 16, LINES>;
    default:
      return sum_along<Element, WARP, LINES>;
  }
}

template <typename Element>
kernel_fn kernel_of(const mmci_vectors_cut *cut) {
  enum { EACH = mmci_vectors_each((int)sizeof(typename Element::Stored)) };
  if (cut->along)
    return cut->each > 1 ? along_of<Element, EACH>(cut->lanes) : along_of<Element, 1>(cut->lanes);
  return cut->each > 1 ? sum_across<Element, EACH> : sum_across<Element, 1>;
}

template <typename Element>
mmc_status launch_vectors(cudaStream_t stream, const mmci_gemm *gemm, const void *a, const void *b,
                          void *c, mmci_error *error) {
  const mmci_vectors_cut cut = mmci_vectors_cut_of(gemm);
  Vectors v = {};
  v.matrix = cut.matrix_is_left ? a : b;
  v.x = cut.matrix_is_left ? b : a;
  v.y = c;
  v.ld = cut.ld;
  v.step = (uint32_t)cut.step;
  v.x_step = (uint32_t)cut.x_step;
  v.y_step = cut.y_step;
  v.stride = cut.stride;
  v.x_stride = cut.x_stride;
  v.y_stride = cut.y_stride;
  v.outs = (uint32_t)cut.outs;
  v.terms = (uint32_t)cut.terms;
  v.products = (uint32_t)cut.products;
  v.conj = cut.conj;
  v.x_conj = cut.x_conj;
  if (cut.along) {
    v.by_outs = divisor_of(v.outs);
  } else {
    const uint32_t across = (uint32_t)cut.across, threads = across * (uint32_t)cut.shares,
                   cols = across * (uint32_t)cut.each;
    v.step = (uint32_t)cut.ld;
    v.by_cols = divisor_of(across);
    v.by_threads = divisor_of(threads);
    v.by_tiles = divisor_of((v.outs + cols - 1) / cols);
    v.together = THREADS / threads;
  }
  MMCI_CUDA_TRY(mmci_launch(kernel_of<Element>(&cut), dim3((unsigned)cut.blocks), dim3(THREADS), 0,
                            stream, v));
  return MMC_OK;
}

}  // namespace

extern "C" mmc_status mmci_cuda_vectors_product(cudaStream_t stream, const mmci_gemm *gemm,
                                                const void *a, const void *b, void *c,
                                                mmci_error *error) {
#define MMCI_VECTORS(Element) launch_vectors<Element>(stream, gemm, a, b, c, error)
  switch (gemm->dtype) {
    MMCI_FULL_ELEMENT_CASES(MMCI_VECTORS)
    default:
      break;
  }
#undef MMCI_VECTORS
  return mmci_fail(error, MMC_E_ARG, "dtype: expected f32, f64, c64 or c128, got %d",
                   (int)gemm->dtype);
}

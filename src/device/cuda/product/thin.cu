/* thin.cu: computes products of few elements, whose sums are long beside them: vectors by vectors,
 * few rows by a matrix, and the like. A block computes a small tile of C, and its threads take the
 * terms of its sums in turns. cuBLAS leaves such products to kernels in which one thread, or a few,
 * walk along k: 65 ns for every term.
 *
 * Layout any forms and leading dimensions; those lines are read best that lie along k, or whose
 *   tile is 32 bytes or more across
 * Launch a block of 32 to 512 threads for every tile and product of the batch; 1 x 1 to 4 x 4
 *   elements of C each
 * Order a thread's terms from the first k to the last, then threads by halves: the same in every
 *   run
 * Traffic 2mkn flops; reads mk ceil(n/4) + kn ceil(m/4) elements, the tiles' parts mostly from
 *   caches */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_kernels.h"
#include "device/cuda/elements.cuh"
#include "device/cuda/product/thin.h"

enum { WARP = MMCI_THIN_WARP, MOST_WARPS = MMCI_THIN_WARPS, SIDE = MMCI_THIN_SIDE };

/* An operand's element of row (column) i of C and term k lies at i * across + k * along. */
struct Lines {
  const void *data;
  int64_t across, along, stride;
  bool conj;
};

struct Thin {
  int64_t m, k, n, ldc, c_stride, tiles_across;
  bool accumulate;
};

/* Gives one half of 2 HALF sums to one half of the lanes and the other to the other, then goes on
 * with those that are left. */
template <int COUNT, int HALF, typename Sum>
static __device__ __forceinline__ void halve(Sum *sums, int lane) {
  if constexpr (HALF > 0) {
    const int bit = WARP / COUNT * HALF;
    const bool upper = (lane & bit) != 0;
#pragma unroll
    for (int i = 0; i < HALF; i++) {
      const Sum keep = upper ? sums[i + HALF] : sums[i], give = upper ? sums[i] : sums[i + HALF];
      sums[i] = mmci_add(keep, mmci_from_lane(give, bit));
    }
    halve<COUNT, HALF / 2>(sums, lane);
  }
}

/* Adds up the COUNT sums of all lanes; sum number lane / (WARP / COUNT) is then in sums[0]. */
template <int COUNT, typename Sum>
static __device__ __forceinline__ void add_lanes(Sum *sums, int lane) {
  halve<COUNT, COUNT / 2>(sums, lane);
#pragma unroll
  for (int bit = WARP / COUNT / 2; bit >= 1; bit /= 2)
    sums[0] = mmci_add(sums[0], mmci_from_lane(sums[0], bit));
}

template <typename Element, int ROWS, int COLS>
__global__ void __launch_bounds__(MOST_WARPS *WARP)
    thin_product(Thin s, Lines a, Lines b, typename Element::Stored *c) {
  typedef typename Element::Sum Sum;
  typedef typename Element::Stored Stored;
  enum {
    COUNT = ROWS * COLS,
    TERM_BYTES = sizeof(Sum) * (ROWS + COLS),
    AT_ONCE = TERM_BYTES <= 20   ? 8
              : TERM_BYTES <= 40 ? 4
              : TERM_BYTES <= 80 ? 2
                                 : 1
  };
  __shared__ Sum parts[MOST_WARPS][COUNT];
  const int64_t tile = blockIdx.x % (uint64_t)s.tiles_across,
                first_row = blockIdx.x / (uint64_t)s.tiles_across * ROWS, first_col = tile * COLS,
                product = blockIdx.y;
  const mmci_whole<Stored> *left =
                               static_cast<const mmci_whole<Stored> *>(a.data) + product * a.stride,
                           *right =
                               static_cast<const mmci_whole<Stored> *>(b.data) + product * b.stride;
  int64_t row_at[ROWS], col_at[COLS];
  /* What lies beyond C's edge is computed of its last row or column, and not stored. */
#pragma unroll
  for (int p = 0; p < ROWS; p++) {
    const int64_t row = first_row + p;
    row_at[p] = (row < s.m ? row : s.m - 1) * a.across;
  }
#pragma unroll
  for (int q = 0; q < COLS; q++) {
    const int64_t col = first_col + q;
    col_at[q] = (col < s.n ? col : s.n - 1) * b.across;
  }
  Sum sums[COUNT] = {};
  /* A thread loads AT_ONCE terms together; those beyond the last are zeros. */
  for (int64_t first = threadIdx.x; first < s.k; first += AT_ONCE * (int64_t)blockDim.x) {
    Sum row[AT_ONCE][ROWS] = {}, col[AT_ONCE][COLS] = {};
#pragma unroll
    for (int t = 0; t < AT_ONCE; t++) {
      const int64_t k = first + t * (int64_t)blockDim.x;
      if (k < s.k) {
        const mmci_whole<Stored> *x = left + k * a.along, *y = right + k * b.along;
#pragma unroll
        for (int p = 0; p < ROWS; p++) row[t][p] = Element::read(x[row_at[p]].value, a.conj);
#pragma unroll
        for (int q = 0; q < COLS; q++) col[t][q] = Element::read(y[col_at[q]].value, b.conj);
      }
    }
#pragma unroll
    for (int t = 0; t < AT_ONCE; t++)
#pragma unroll
      for (int p = 0; p < ROWS; p++)
#pragma unroll
        for (int q = 0; q < COLS; q++) mmci_fuse_product(sums[p * COLS + q], row[t][p], col[t][q]);
  }
  const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP,
            warps = (int)blockDim.x / WARP;
  add_lanes<COUNT>(sums, lane);
  if (lane % (WARP / COUNT) == 0) parts[warp][lane / (WARP / COUNT)] = sums[0];
  __syncthreads();
  if ((int)threadIdx.x >= COUNT) return;
  Sum sum = parts[0][threadIdx.x];
  for (int w = 1; w < warps; w++) sum = mmci_add(sum, parts[w][threadIdx.x]);
  const int64_t row = first_row + (int)threadIdx.x / COLS,
                col = first_col + (int)threadIdx.x % COLS;
  if (row >= s.m || col >= s.n) return;
  Stored *to = c + product * s.c_stride + row * s.ldc + col;
  *to = Element::write(s.accumulate ? mmci_add(Element::read(*to, false), sum) : sum);
}

template <typename Element, int ROWS, int COLS>
static mmc_status launch_tiles(cudaStream_t stream, const mmci_gemm *gemm, const void *a,
                               const void *b, void *c, mmci_error *error) {
  const mmci_form &x = gemm->a, &y = gemm->b;
  const Thin s = {gemm->m,         gemm->k,        gemm->n,
                  gemm->ldc,       gemm->c_stride, mmci_thin_tiles(gemm->n),
                  gemm->accumulate};
  const Lines left = {a, x.trans ? 1 : x.ld, x.trans ? x.ld : 1, x.stride, x.conj},
              right = {b, y.trans ? y.ld : 1, y.trans ? 1 : y.ld, y.stride, y.conj};
  const int64_t tiles = mmci_thin_tiles(s.m) * s.tiles_across,
                batch = gemm->batch > 0 ? gemm->batch : 1;
  const dim3 grid((unsigned)tiles, (unsigned)batch);
  MMCI_CUDA_TRY(mmci_launch(thin_product<Element, ROWS, COLS>, grid,
                            dim3((unsigned)mmci_thin_warps(s.k, tiles * batch) * WARP), 0, stream,
                            s, left, right, static_cast<typename Element::Stored *>(c)));
  return MMC_OK;
}

template <typename Element>
static mmc_status launch_thin(cudaStream_t stream, const mmci_gemm *gemm, const void *a,
                              const void *b, void *c, mmci_error *error) {
  if (gemm->m == 1 && gemm->n == 1)
    return launch_tiles<Element, 1, 1>(stream, gemm, a, b, c, error);
  if (gemm->m == 1) return launch_tiles<Element, 1, SIDE>(stream, gemm, a, b, c, error);
  if (gemm->n == 1) return launch_tiles<Element, SIDE, 1>(stream, gemm, a, b, c, error);
  return launch_tiles<Element, SIDE, SIDE>(stream, gemm, a, b, c, error);
}

extern "C" mmc_status mmci_cuda_thin_product(cudaStream_t stream, const mmci_gemm *gemm,
                                             const void *a, const void *b, void *c,
                                             mmci_error *error) {
#define MMCI_THIN(Element) launch_thin<Element>(stream, gemm, a, b, c, error)
  MMCI_FOR_ELEMENT(gemm->dtype, error, MMCI_THIN);
#undef MMCI_THIN
}

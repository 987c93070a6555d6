/* plain.cu: computes any product or batch that cuBLAS cannot express: conjugated and not
 * transposed, gathered, of integers, or at addresses that it does not take. One 64 x 64 tile of C
 * per block is staged through shared memory.
 *
 * Layout any forms, sizes and leading dimensions in 64 bits; edges guarded
 * Launch a 1-D grid that strides over the tiles, 256 threads, 4 x 4 elements of C each
 * Traffic 2mkn flops; reads mk ceil(n/64) + kn ceil(m/64) elements */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_kernels.h"
#include "device/cuda/elements.cuh"

enum { TILE = 64, DEPTH = 16, PART = 4, SIDE = TILE / PART, THREADS = SIDE * SIDE };
static const int64_t MOST_BLOCKS = 1 << 20;

static_assert(TILE * DEPTH % THREADS == 0, "every thread stages as many elements");

struct Shape {
  int64_t m, k, n, lda, ldb, ldc, batch, a_stride, b_stride, c_stride;
  bool a_trans, a_conj, a_gathered, b_trans, b_conj, b_gathered, accumulate;
};

/* Returns matrix number i of an operand. */
template <typename Stored>
static __device__ __forceinline__ const Stored *matrix(const void *data, int64_t i, int64_t stride,
                                                       bool gathered) {
  return gathered ? static_cast<const Stored *const *>(data)[i]
                  : static_cast<const Stored *>(data) + i * stride;
}

/* Loads rows first_row.. and columns first_col.. of an operand of rows x cols into a HEIGHT x WIDTH
 * tile, with zeros outside. Neighbouring threads read neighbouring elements. */
template <typename Element, int HEIGHT, int WIDTH, typename Place>
static __device__ __forceinline__ void stage_tile(const typename Element::Stored *from, int64_t ld,
                                                  bool trans, bool conj, int64_t rows, int64_t cols,
                                                  int64_t first_row, int64_t first_col,
                                                  Place place) {
#pragma unroll
  for (int e = 0; e < HEIGHT * WIDTH / THREADS; e++) {
    int at = (int)threadIdx.x + e * THREADS;
    int row = trans ? at % HEIGHT : at / WIDTH, col = trans ? at / HEIGHT : at % WIDTH;
    int64_t r = first_row + row, c = first_col + col;
    typename Element::Sum value = {};
    if (r < rows && c < cols) value = Element::read(from[trans ? c * ld + r : r * ld + c], conj);
    place(row, col) = value;
  }
}

template <typename Element>
__global__ void __launch_bounds__(THREADS)
    plain_product(Shape s, const void *all_a, const void *all_b, typename Element::Stored *all_c) {
  typedef typename Element::Sum Sum;
  typedef typename Element::Stored Stored;
  /* The tiles hold one column of A, and one row of B, after the other. The odd width spreads
   * columns over the banks. */
  __shared__ Sum a_tile[DEPTH][TILE + 1], b_tile[DEPTH][TILE + 1];
  const int row = (int)threadIdx.x / SIDE, col = (int)threadIdx.x % SIDE;
  const int64_t across = (s.n + TILE - 1) / TILE, tiles = (s.m + TILE - 1) / TILE * across;
  for (int64_t at = blockIdx.x; at < tiles * s.batch; at += gridDim.x) {
    const int64_t tile = at % tiles, i = at / tiles, first_row = tile / across * TILE,
                  first_col = tile % across * TILE;
    const Stored *a = matrix<Stored>(all_a, i, s.a_stride, s.a_gathered),
                 *b = matrix<Stored>(all_b, i, s.b_stride, s.b_gathered);
    Stored *c = all_c + i * s.c_stride;
    Sum sum[PART][PART] = {};
    for (int64_t depth = 0; depth < s.k; depth += DEPTH) {
      stage_tile<Element, TILE, DEPTH>(a, s.lda, s.a_trans, s.a_conj, s.m, s.k, first_row, depth,
                                       [&](int r, int d) -> Sum & { return a_tile[d][r]; });
      stage_tile<Element, DEPTH, TILE>(b, s.ldb, s.b_trans, s.b_conj, s.k, s.n, depth, first_col,
                                       [&](int d, int q) -> Sum & { return b_tile[d][q]; });
      __syncthreads();
#pragma unroll 4
      for (int d = 0; d < DEPTH; d++) {
        Sum left[PART], right[PART];
#pragma unroll
        for (int p = 0; p < PART; p++) {
          left[p] = a_tile[d][row + p * SIDE];
          right[p] = b_tile[d][col + p * SIDE];
        }
#pragma unroll
        for (int p = 0; p < PART; p++)
#pragma unroll
          for (int q = 0; q < PART; q++) mmci_add_product(sum[p][q], left[p], right[q]);
      }
      __syncthreads();
    }
#pragma unroll
    for (int p = 0; p < PART; p++)
#pragma unroll
      for (int q = 0; q < PART; q++) {
        int64_t r = first_row + row + p * SIDE, t = first_col + col + q * SIDE;
        if (r >= s.m || t >= s.n) continue;
        Stored *to = c + r * s.ldc + t;
        *to = Element::write(s.accumulate ? mmci_add(Element::read(*to, false), sum[p][q])
                                          : sum[p][q]);
      }
  }
}

template <typename Element>
static mmc_status launch_plain(cudaStream_t stream, const Shape &s, const void *a, const void *b,
                               void *c, mmci_error *error) {
  int64_t tiles = (s.m + TILE - 1) / TILE * ((s.n + TILE - 1) / TILE) * s.batch;
  if (tiles == 0) return MMC_OK;
  unsigned blocks = (unsigned)(tiles < MOST_BLOCKS ? tiles : MOST_BLOCKS);
  MMCI_CUDA_TRY(mmci_launch(plain_product<Element>, dim3(blocks), dim3(THREADS), 0, stream, s, a, b,
                            static_cast<typename Element::Stored *>(c)));
  return MMC_OK;
}

extern "C" mmc_status mmci_cuda_plain_product(cudaStream_t stream, const mmci_gemm *gemm,
                                              const void *a, const void *b, void *c,
                                              mmci_error *error) {
  const mmci_form &x = gemm->a, &y = gemm->b;
  const int64_t batch = gemm->batch > 0 ? gemm->batch : 1;
  const Shape s = {gemm->m,  gemm->k,    gemm->n,         x.ld,    y.ld,   gemm->ldc,  batch,
                   x.stride, y.stride,   gemm->c_stride,  x.trans, x.conj, x.gathered, y.trans,
                   y.conj,   y.gathered, gemm->accumulate};
  switch (gemm->dtype) {
    case MMC_F32:
      return launch_plain<mmci_real_element<float>>(stream, s, a, b, c, error);
    case MMC_F64:
      return launch_plain<mmci_real_element<double>>(stream, s, a, b, c, error);
    case MMC_C64:
      return launch_plain<mmci_complex_element<float>>(stream, s, a, b, c, error);
    case MMC_C128:
      return launch_plain<mmci_complex_element<double>>(stream, s, a, b, c, error);
    case MMC_F16:
      return launch_plain<mmci_f16_element>(stream, s, a, b, c, error);
    case MMC_BF16:
      return launch_plain<mmci_bf16_element>(stream, s, a, b, c, error);
    case MMC_I8:
    case MMC_U8:
      return launch_plain<mmci_integer_element<uint8_t, uint32_t>>(stream, s, a, b, c, error);
    case MMC_I16:
    case MMC_U16:
      return launch_plain<mmci_integer_element<uint16_t, uint32_t>>(stream, s, a, b, c, error);
    case MMC_I32:
    case MMC_U32:
      return launch_plain<mmci_integer_element<uint32_t, uint32_t>>(stream, s, a, b, c, error);
    case MMC_I64:
    case MMC_U64:
      return launch_plain<mmci_integer_element<uint64_t, uint64_t>>(stream, s, a, b, c, error);
    case MMC_BOOL:
      return launch_plain<mmci_bool_element>(stream, s, a, b, c, error);
    default:
      break;
  }
  return mmci_fail(error, MMC_E_ARG, "dtype: expected one of mmc_dtype, got %d", (int)gemm->dtype);
}

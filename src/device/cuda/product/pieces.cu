/* pieces.cu: adds up the pieces of long products in order, and writes the sums as MMCI_REPRODUCIBLE
 * says: added to C, where that is asked, rounded once, zeros +0 and NaN without a payload.
 *
 * Layout parts without gaps, product by product and piece by piece; C by rows, ldc apart
 * Launch a 1-D grid that strides over the elements, 256 threads, one element each
 * Traffic reads every part once */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_kernels.h"
#include "device/cuda/elements.cuh"

enum { THREADS = 256, AHEAD = 16 };
static const int64_t MOST_BLOCKS = 1 << 20;

struct PiecesShape {
  int64_t elements, n, batch, count, ldc, c_stride;
  bool is_first, is_last, accumulate;
};

/* Rounds a sum; a NaN of 16 bits is positive and quiet, too. */
template <typename Element>
static __device__ __forceinline__ typename Element::Stored rounded(typename Element::Sum sum) {
  return Element::write(mmci_settled(sum));
}
template <>
__device__ __forceinline__ uint16_t rounded<mmci_f16_element>(float sum) {
  return mmci_settled_half<mmci_f16_element>(mmci_f16_element::write(sum));
}
template <>
__device__ __forceinline__ uint16_t rounded<mmci_bf16_element>(float sum) {
  return mmci_settled_half<mmci_bf16_element>(mmci_bf16_element::write(sum));
}

template <typename Element>
__global__ void __launch_bounds__(THREADS)
    add_pieces(PiecesShape s, const typename Element::Sum *all_parts, typename Element::Sum *sums,
               typename Element::Stored *all_c) {
  typedef typename Element::Sum Sum;
  for (int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x; at < s.elements * s.batch;
       at += (int64_t)gridDim.x * THREADS) {
    const int64_t i = at / s.elements, e = at - i * s.elements;
    const Sum *parts = all_parts + i * s.count * s.elements + e;
    int64_t p = s.is_first ? 1 : 0;
    Sum sum = s.is_first ? parts[0] : sums[at];
    for (; p + AHEAD <= s.count; p += AHEAD) {
      Sum next[AHEAD];
#pragma unroll
      for (int t = 0; t < AHEAD; t++) next[t] = parts[(p + t) * s.elements];
#pragma unroll
      for (int t = 0; t < AHEAD; t++) sum = mmci_add(sum, next[t]);
    }
    for (; p < s.count; p++) sum = mmci_add(sum, parts[p * s.elements]);
    if (!s.is_last) {
      sums[at] = sum;
      continue;
    }
    typename Element::Stored *c = all_c + i * s.c_stride + e / s.n * s.ldc + e % s.n;
    if (s.accumulate) sum = mmci_add(Element::read(*c, false), sum);
    *c = rounded<Element>(sum);
  }
}

template <typename Element>
static mmc_status launch(cudaStream_t stream, const PiecesShape &s, const void *parts, void *sums,
                         void *c, mmci_error *error) {
  const int64_t blocks = (s.elements * s.batch + THREADS - 1) / THREADS;
  if (blocks == 0) return MMC_OK;
  MMCI_CUDA_TRY(mmci_launch(
      add_pieces<Element>, dim3((unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS)),
      dim3(THREADS), 0, stream, s, static_cast<const typename Element::Sum *>(parts),
      static_cast<typename Element::Sum *>(sums), static_cast<typename Element::Stored *>(c)));
  return MMC_OK;
}

extern "C" mmc_status mmci_cuda_add_pieces(cudaStream_t stream, const mmci_gemm *gemm,
                                           const mmci_piece_range *range, const void *parts,
                                           void *sums, void *c, mmci_error *error) {
  const int64_t pieces = (gemm->k + MMCI_PIECE_TERMS - 1) / MMCI_PIECE_TERMS;
  const PiecesShape s = {gemm->m * gemm->n,
                         gemm->n,
                         gemm->batch > 0 ? gemm->batch : 1,
                         range->count,
                         gemm->ldc,
                         gemm->c_stride,
                         range->first == 0,
                         range->first + range->count == pieces,
                         gemm->accumulate};
#define LAUNCH(Element) launch<Element>(stream, s, parts, sums, c, error)
  MMCI_FOR_ELEMENT(gemm->dtype, error, LAUNCH);
#undef LAUNCH
}

/* piece_dots.cu: pieces of long products of few elements, each of which is one chain of fused
 * multiply-adds in one thread. Complex products are upright ones.
 *
 * Layout any forms and addresses; MOST_LINES rows of A and columns of B together
 * Launch a block of 256 threads for each piece of each product; all of them bring the next terms
 *        into registers while those that have an element multiply
 * Traffic reads A and B once
 * Idea   over ordered.cu: no thread multiplies zeros that fill up a tile */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_kernels.h"
#include "device/cuda/elements.cuh"
#include "device/cuda/product/ordered_tiles.cuh"

enum { THREADS = 256, MOST_LINES = 16, MOST_ELEMENTS = 64, LINE_BYTES = 1024, WORD_BYTES = 16 };
static const int64_t MOST_BLOCKS = 1 << 20;

struct DotsShape {
  int64_t m, n, k, a_step, a_next, b_step, b_next, batch, a_stride, b_stride;
  bool a_gathered, b_gathered, a_conj, b_conj;
  mmci_spans spans;
};

template <typename Element>
__global__ void __launch_bounds__(THREADS)
    multiply_dots(DotsShape s, const void *all_a, const void *all_b, typename Element::Sum *parts) {
  typedef typename Element::Sum Sum;
  typedef typename Element::Stored Stored;
  constexpr int TERMS = LINE_BYTES / (int)sizeof(Sum),
                PITCH = TERMS + WORD_BYTES / (int)sizeof(Sum), EACH = MOST_LINES * TERMS / THREADS,
                UNROLLED = 64 / (int)sizeof(Sum);
  __shared__ __align__(16) Sum lines[MOST_LINES][PITCH];
  const int m = (int)s.m, n = (int)s.n, mine = (int)threadIdx.x;
  const bool has_element = mine < m * n;
  const Sum *left = lines[has_element ? mine / n : 0],
            *right = lines[has_element ? m + mine % n : 0];
  for (int64_t i = blockIdx.x; i < s.batch; i += gridDim.x) {
    const mmci_span span = mmci_span_of(s.spans, s.k, i);
    const Stored *a = mmci_matrix_of<Stored>(all_a, span.product, s.a_stride, s.a_gathered),
                 *b = mmci_matrix_of<Stored>(all_b, span.product, s.b_stride, s.b_gathered);
    Sum next[EACH], sum = {};
    auto load = [&](int64_t begin) {
#pragma unroll
      for (int e = 0; e < EACH; e++) {
        const int at = mine + e * THREADS, line = at / TERMS;
        const int64_t term = begin + at % TERMS;
        next[e] = Sum{};
        if (line < m + n && term < span.end)
          next[e] = line < m ? Element::read(a[line * s.a_step + term * s.a_next], s.a_conj)
                             : Element::read(b[(line - m) * s.b_step + term * s.b_next], s.b_conj);
      }
    };
    load(span.begin);
    for (int64_t begin = span.begin; begin < span.end; begin += TERMS) {
#pragma unroll
      for (int e = 0; e < EACH; e++) {
        const int at = mine + e * THREADS;
        lines[at / TERMS][at % TERMS] = next[e];
      }
      __syncthreads();
      if (begin + TERMS < span.end) load(begin + TERMS);
      const int count = span.end - begin < TERMS ? (int)(span.end - begin) : TERMS;
      if (has_element) {
        int t = 0;
        for (; t + UNROLLED <= count; t += UNROLLED)
#pragma unroll
          for (int u = 0; u < UNROLLED; u++) mmci_fuse_product(sum, left[t + u], right[t + u]);
        for (; t < count; t++) mmci_fuse_product(sum, left[t], right[t]);
      }
      __syncthreads();
    }
    if (has_element) parts[i * s.m * s.n + mine] = sum;
  }
}

extern "C" bool mmci_cuda_takes_dots(const mmci_gemm *gemm) {
  const bool has_words = gemm->dtype == MMC_F32 || gemm->dtype == MMC_F64 ||
                         (mmci_dtype_is_complex(gemm->dtype) && !gemm->turned);
  return has_words && gemm->m + gemm->n <= MOST_LINES && gemm->m * gemm->n <= MOST_ELEMENTS;
}

extern "C" mmc_status mmci_cuda_piece_dots(cudaStream_t stream, const mmci_gemm *gemm,
                                           const mmci_piece_range *range, const void *a,
                                           const void *b, void *parts, mmci_error *error) {
  const mmci_form &x = gemm->a, &y = gemm->b;
  const DotsShape s = {gemm->m,
                       gemm->n,
                       gemm->k,
                       x.trans ? 1 : x.ld,
                       x.trans ? x.ld : 1,
                       y.trans ? y.ld : 1,
                       y.trans ? 1 : y.ld,
                       (gemm->batch > 0 ? gemm->batch : 1) * range->count,
                       x.stride,
                       y.stride,
                       x.gathered,
                       y.gathered,
                       x.conj,
                       y.conj,
                       {range->first, range->count, MMCI_PIECE_TERMS}};
  const unsigned blocks = (unsigned)(s.batch < MOST_BLOCKS ? s.batch : MOST_BLOCKS);
  if (blocks == 0) return MMC_OK;
#define LAUNCH(Element)                                                                          \
  mmci_cuda_check(mmci_launch(multiply_dots<Element>, dim3(blocks), dim3(THREADS), 0, stream, s, \
                              a, b, static_cast<typename Element::Sum *>(parts)),                \
                  "a launch", error)
  switch (gemm->dtype) {
    MMCI_FULL_ELEMENT_CASES(LAUNCH)
    default:
      break;
  }
#undef LAUNCH
  return mmci_fail(error, MMC_E_ARG, "dtype: expected one of words, got %d", (int)gemm->dtype);
}

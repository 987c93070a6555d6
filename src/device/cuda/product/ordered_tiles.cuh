/* ordered_tiles.cuh: what kernels of reproducible products have in common: which matrices a tile of
 * C is of, and where it begins. */
#ifndef MMCI_CUDA_PRODUCT_ORDERED_TILES_CUH
#define MMCI_CUDA_PRODUCT_ORDERED_TILES_CUH

#include <stdint.h>

/* Which sums are computed: all terms of products; or of each product so many pieces, from number
 * `first` on, of so many terms, of which the last piece may have fewer. Result number i is that of
 * piece first + i % count of product i / count. */
struct mmci_spans {
  int64_t first, count, terms;
};

static inline mmci_spans mmci_all_terms(int64_t k) {
  return {0, 1, k};
}

/* The product that a result is of, and its terms. */
struct mmci_span {
  int64_t product, begin, end;
};

static __device__ __forceinline__ mmci_span mmci_span_of(const mmci_spans &spans, int64_t k,
                                                         int64_t i) {
  if (spans.count == 1 && spans.first == 0) return {i, 0, k < spans.terms ? k : spans.terms};
  const int64_t product = i / spans.count,
                begin = (spans.first + i - product * spans.count) * spans.terms,
                end = begin + spans.terms;
  return {product, begin, end < k ? end : k};
}

/* Returns matrix number i of an operand. */
template <typename Stored>
static __device__ __forceinline__ const Stored *mmci_matrix_of(const void *data, int64_t i,
                                                               int64_t stride, bool gathered) {
  return gathered ? static_cast<const Stored *const *>(data)[i]
                  : static_cast<const Stored *>(data) + i * stride;
}

/* The number of a tile's matrices, and where it begins in C. */
struct mmci_spot {
  int64_t i, row, col;
};

/* Returns the spot of tile number `at` of all; a matrix has so many tiles, `across` in a row. */
template <int ROWS, int COLS>
static __device__ __forceinline__ mmci_spot mmci_spot_of(int64_t tiles, int64_t across,
                                                         int64_t at) {
  int64_t i = at, tile = 0, down = 0;
  if (tiles > 1) {
    if (((at | tiles) >> 32) == 0) {
      i = (uint32_t)at / (uint32_t)tiles;
      tile = at - i * tiles;
      down = (uint32_t)tile / (uint32_t)across;
    } else {
      i = at / tiles;
      tile = at % tiles;
      down = tile / across;
    }
  }
  return {i, down * ROWS, (tile - down * across) * COLS};
}

#endif

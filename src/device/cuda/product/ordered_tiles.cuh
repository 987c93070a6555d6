/* ordered_tiles.cuh: what kernels of reproducible products have in common: which matrices a tile of
 * C is of, and where it begins. */
#ifndef MMCI_CUDA_PRODUCT_ORDERED_TILES_CUH
#define MMCI_CUDA_PRODUCT_ORDERED_TILES_CUH

#include <stdint.h>

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

/* large_tile_f64.cu: C = A B in FP64 by large tiles, on the tensor cores of any chip since sm_80,
 * whose arithmetic of doubles is the native one.
 *
 * Layout   A as k lines of m elements, B as k lines of n, at multiples of 16 bytes; C row-major,
 *          any ldc; zeros past the edges
 * Launch   as many blocks as stay at the same time; each keeps a tile in registers
 * Idea     tensor_f64_tile.cuh's main loop. Steps of 32 k's have half as many barriers as steps of
 *          16, and need more shared memory than chips before sm_90 have. */
#include "device/cuda/product/large_tile.cuh"

#include "device/cuda/launch.cuh"
#include "device/cuda/tensor_f64_tile.cuh"

/* Writes two neighbours of C, or adds them to what is there. */
static __device__ __forceinline__ void leave_pair(double *to, int64_t cols, bool vectors, bool add,
                                                  double x, double y) {
  if (vectors && cols > 1) {
    const double2 was = add ? *reinterpret_cast<double2 *>(to) : make_double2(0, 0);
    *reinterpret_cast<double2 *>(to) = make_double2(x + was.x, y + was.y);
    return;
  }
  if (cols > 0) to[0] = x + (add ? to[0] : 0);
  if (cols > 1) to[1] = y + (add ? to[1] : 0);
}

template <class Tile, int BLOCKS>
__global__ void __launch_bounds__(Tile::THREADS, BLOCKS)
    large_tile_f64(const __grid_constant__ mmci_large_tile_lines a,
                   const __grid_constant__ mmci_large_tile_lines b,
                   const __grid_constant__ mmci_large_tile_work work,
                   const __grid_constant__ mmci_large_tile_result c) {
#if __CUDA_ARCH__ >= 800
  MMCI_DYNAMIC_SHARED(shared);
  const mmci_f64_operand<double> x = {(const double *)a.data, a.ld, a.length, a.k, nullptr},
                                 y = {(const double *)b.data, b.ld, b.length, b.k, nullptr};
  LargeTileItem item;
#pragma unroll 1
  for (int i = 0; large_tile_item(work, (int)blockIdx.x, i, &item); i++) {
    Tile tile;
    const int64_t row = (int64_t)item.row * Tile::ROWS, col = (int64_t)item.col * Tile::COLS;
    tile.multiply(reinterpret_cast<double *>(shared), x, row, y, col,
                  (int64_t)item.first * Tile::DEPTH, item.count);
    double *slot = (double *)c.slots + (int64_t)blockIdx.x * Tile::ROWS * Tile::COLS;
    tile.each([&](int down, int across, double first, double second) {
      if (item.is_partial)
        leave_pair(slot + down * Tile::COLS + across, 2, true, false, first, second);
      else if (row + down < c.m)
        leave_pair((double *)c.c + (row + down) * c.ldc + col + across, c.n - col - across,
                   c.vectors, c.accumulate, first, second);
    });
  }
#endif
}

template <class Tile, int BLOCKS>
static mmci_large_tile_kernel kernel_of() {
  return {(const void *)large_tile_f64<Tile, BLOCKS>,
          Tile::ROWS,
          Tile::COLS,
          1,
          1,
          Tile::DEPTH,
          Tile::THREADS,
          Tile::SHARED_BYTES,
          false};
}

template <int GM, int GN, int WM, int WN, int DEPTH, int STAGES>
using Tile = mmci_f64_tile<double, false, false, true, GM, GN, WM, WN, DEPTH, STAGES>;

const mmci_large_tile_kernel mmci_large_tile_f64_deep[] = {
    kernel_of<Tile<2, 8, 4, 2, 32, 3>, 1>(),
    kernel_of<Tile<2, 8, 4, 1, 16, 4>, 2>(),
};

/* These kernels have as many stages as chips with 99 KiB for a block have room for. */
const mmci_large_tile_kernel mmci_large_tile_f64_async[] = {
    kernel_of<Tile<2, 8, 4, 2, 16, 3>, 1>(),
    kernel_of<Tile<2, 8, 4, 1, 16, 3>, 2>(),
};

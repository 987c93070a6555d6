/* large_tile_kernels.h: the kernels large_tile as C sees them. Each works on a stream of the
 * current device and returns once it is launched. docs and reasons: large_tile.h, large_tile.cuh.
 */
#ifndef MMCI_CUDA_PRODUCT_LARGE_TILE_KERNELS_H
#define MMCI_CUDA_PRODUCT_LARGE_TILE_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#include "base/status.h"
#include "mmchain.h"

enum {
  MMCI_LARGE_TILE_GROUP = 8, /* rows of tiles that are worked on side by side */
  MMCI_LARGE_TILE_SHARE = 4  /* steps of k, at least, of whoever shares a tile */
};

/* Who computes what: workers take rounds tiles each, sharers of them the rest, shared_tiles:
 * share_steps steps of k each, the first longer_shares one more. A tile is what a worker, a block
 * or a cluster of blocks, has in registers. Fewer than 2^31 steps are shared. */
typedef struct mmci_large_tile_work {
  int tiles_down, tiles_across, steps;
  int workers, rounds, sharers, shared_tiles;
  unsigned share_steps, longer_shares;
} mmci_large_tile_work;

/* C's side of a product. */
typedef struct mmci_large_tile_result {
  void *c;
  int64_t ldc, m, n;
  void *slots; /* a worker's tile each, for sharers */
  bool accumulate;
  bool vectors; /* c and ldc are multiples of 16 bytes */
} mmci_large_tile_result;

/* An operand as kernels without TMA read it: k lines of length elements; its address and ld are
 * multiples of 16 bytes. */
typedef struct mmci_large_tile_lines {
  const void *data;
  int64_t ld, length, k;
} mmci_large_tile_lines;

/* A kernel. Arguments: with TMA two CUtensorMap (boxes of depth / cluster_cols lines of block_rows
 * elements of A, of depth / cluster_rows lines of block_cols of B), else two mmci_large_tile_lines;
 * then mmci_large_tile_work and mmci_large_tile_result. */
typedef struct mmci_large_tile_kernel {
  const void *function;
  int block_rows, block_cols; /* of C, in a block's registers */
  int cluster_rows, cluster_cols, depth, threads, shared_bytes;
  bool tma;
} mmci_large_tile_kernel;

#ifdef __cplusplus
extern "C" {
#endif

/* In the order of the shapes of large_tile.h; a function of NULL: there is no such kernel. */
extern const mmci_large_tile_kernel mmci_large_tile_f32_tma[], mmci_large_tile_f32_async[],
    mmci_large_tile_f64_async[];

/* Adds to C what sharers of its tiles have left in their slots. */
mmc_status mmci_large_tile_reduce(cudaStream_t stream, mmc_dtype dtype,
                                  const mmci_large_tile_kernel *kernel,
                                  const mmci_large_tile_work *work,
                                  const mmci_large_tile_result *result, mmci_error *error);

#ifdef __cplusplus
}
#endif

#endif

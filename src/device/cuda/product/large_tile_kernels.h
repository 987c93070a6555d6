/* large_tile_kernels.h: the kernels large_tile as C sees them. Each works on a stream of the
 * current device and returns once it is launched; large_tile.h and large_tile.cuh explain them. */
#ifndef MMCI_CUDA_PRODUCT_LARGE_TILE_KERNELS_H
#define MMCI_CUDA_PRODUCT_LARGE_TILE_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#include "base/status.h"
#include "mmchain.h"

enum {
  MMCI_LARGE_TILE_GROUP = 8, /* rows of tiles that are worked on side by side */
  MMCI_LARGE_TILE_SHARE = 4  /* least steps of k of a worker that shares a tile */
};

/* Who computes what. Each worker, a block or a cluster of blocks, takes `rounds` whole tiles, which
 * it keeps in registers. `sharers` of the workers take the remaining shared_tiles: share_steps
 * steps of k each, and the first longer_shares one more. Fewer than 2^31 steps are shared. */
typedef struct mmci_large_tile_work {
  int tiles_down, tiles_across, steps;
  int workers, rounds, sharers, shared_tiles;
  unsigned share_steps, longer_shares;
} mmci_large_tile_work;

/* C, as a product writes it. */
typedef struct mmci_large_tile_result {
  void *c;
  int64_t ldc, m, n;
  void *slots; /* one worker's tile each, for sharers */
  bool accumulate;
  bool vectors; /* c and ldc are multiples of 16 bytes */
} mmci_large_tile_result;

/* An operand as kernels without TMA read it: k lines of length elements; its address and ld are
 * multiples of 16 bytes. */
typedef struct mmci_large_tile_lines {
  const void *data;
  int64_t ld, length, k;
} mmci_large_tile_lines;

/* A kernel. Its arguments are, with TMA, two CUtensorMap (boxes of depth / cluster_cols lines of
 * block_rows elements of A, of depth / cluster_rows lines of block_cols of B), else two
 * mmci_large_tile_lines; then mmci_large_tile_work and mmci_large_tile_result. */
typedef struct mmci_large_tile_kernel {
  const void *function;
  int block_rows, block_cols; /* rows and columns of C in a block's registers */
  int cluster_rows, cluster_cols, depth, threads, shared_bytes;
  bool tma;
} mmci_large_tile_kernel;

#ifdef __cplusplus
extern "C" {
#endif

/* Listed in the order of the shapes of large_tile.h; a function of NULL means that there is no such
 * kernel. The deep ones need the shared memory of sm_90. */
extern const mmci_large_tile_kernel mmci_large_tile_f32_tma[], mmci_large_tile_f32_async[],
    mmci_large_tile_f64_deep[], mmci_large_tile_f64_async[];

/* Adds to C what the sharers of its tiles have left in their slots. */
mmc_status mmci_large_tile_reduce(cudaStream_t stream, mmc_dtype dtype,
                                  const mmci_large_tile_kernel *kernel,
                                  const mmci_large_tile_work *work,
                                  const mmci_large_tile_result *result, mmci_error *error);

#ifdef __cplusplus
}
#endif

#endif

/* scan_kernels.h: one pass of running products over tiles of a stack, as C sees it.
 *
 * A tile is as many runs of factors as a block of threads has chains. Reducing gives the product of
 * every tile; finishing gives every state, once the state before each tile is known. What is
 * between is the running products of the tiles, which is the same problem, shorter by a tile's
 * length. */
#ifndef MMCI_CUDA_SCAN_KERNELS_H
#define MMCI_CUDA_SCAN_KERNELS_H

#ifndef MMCI_EMULATE_CUDA
#include <cuda_runtime_api.h>
#endif

#include "chain/scan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Matrices of a stack in device memory. Element (r, c) of a state is at r * ld + c, or at c * ld +
 * r when turned; of factors too. */
typedef struct mmci_cuda_stack {
  const void *data; /* NULL when there is none */
  int64_t ld, step, stride;
  bool turned;
} mmci_cuda_stack;

/* States are multiplied by factors from the right. Totals and carries are n x n without gaps, one a
 * tile, all of a scan and then those of the next one. */
typedef struct mmci_cuda_scan_pass {
  mmc_dtype dtype;
  int64_t n, length, batch;
  int64_t run;   /* how many factors a chain takes, one after the other */
  int64_t tiles; /* of each scan */
  mmci_cuda_stack factors, states, initial;
  const void *carries; /* the state after each tile; NULL where there is one tile */
  void *totals;
  /* Reducing keeps here, for every chain of every tile, the product of the tile's chains up to it,
   * for finishing; n x n each without gaps. NULL where there is one tile. */
  void *parts;
} mmci_cuda_scan_pass;

/* Says whether there are kernels for matrices of this size. */
bool mmci_cuda_scan_can(mmc_dtype dtype, int64_t n);
/* Returns how many chains a tile has. */
int64_t mmci_cuda_scan_chains(mmc_dtype dtype, int64_t n);

/* A recurrence: states of width rows are multiplied by factors from the right, and addends added.
 */
typedef struct mmci_cuda_recurrence {
  mmc_dtype dtype;
  int64_t n, width, length, batch;
  mmci_cuda_stack factors, states, initial, addends;
} mmci_cuda_recurrence;

/* Says whether there is a kernel for such a recurrence. */
bool mmci_cuda_recurrence_can(mmc_dtype dtype, int64_t n, int64_t width);
/* Writes all states, each scan by a block of threads. */
mmc_status mmci_cuda_recurrence_follow(cudaStream_t stream, const mmci_cuda_recurrence *x,
                                       mmci_error *error);

/* Writes the product of every tile to totals. */
mmc_status mmci_cuda_scan_reduce(cudaStream_t stream, const mmci_cuda_scan_pass *pass,
                                 mmci_error *error);
/* Writes all states. */
mmc_status mmci_cuda_scan_finish(cudaStream_t stream, const mmci_cuda_scan_pass *pass,
                                 mmci_error *error);

#ifdef __cplusplus
}
#endif

#endif

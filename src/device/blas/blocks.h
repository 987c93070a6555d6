/* blocks.h: one product of any size by code of LIBXSMM, block by block.
 *
 * A block of B is packed once, so that its rows follow each other, and rows of A are packed panel
 * by panel, however both lie; each block of C is then one small product (Goto and van de Geijn
 * 2008). LIBXSMM writes code for the widest registers of the processor, which an older OpenBLAS
 * does not use, and takes narrow results without a loss, where a CBLAS packs more than it
 * multiplies. */
#ifndef MMCI_BLOCKS_H
#define MMCI_BLOCKS_H

#include <stddef.h>

#include "device/blas/xsmm.h"

/* Room for packed blocks, which grows when a product needs more; zeros at first. */
typedef struct mmci_blocks_room {
  char *memory;
  size_t bytes;
} mmci_blocks_room;

typedef struct mmci_blocks {
  mmci_gemm gemm;
  int64_t deep, wide; /* sizes of blocks along k and along n */
  int threads;        /* threads that share the panels of A */
  /* The code for a block: that is lower than others, narrower, shallower, not the first along k. */
  mmci_xsmm_fn code[2][2][2][2];
} mmci_blocks;

/* Says whether one such product, whatever its batch, is of f32 or f64 and its sizes are at least 1
 * and fit into int. */
bool mmci_blocks_can(const mmci_gemm *gemm);

/* Says whether that is also faster than a CBLAS with as many threads, as measured: for sums of
 * enough terms, where kernels of the CBLAS are older than the processor (blas_is_old), or where B
 * is narrow. */
bool mmci_blocks_pays(const mmci_gemm *gemm, bool blas_is_old);

/* Returns how many pieces threads can share. */
int64_t mmci_blocks_panels(const mmci_gemm *gemm);

/* Makes a product for which mmci_blocks_can(), and the threads that share it. Returns false when
 * this machine has no code, or no room for it. */
bool mmci_blocks_make(const mmci_gemm *gemm, int threads, mmci_blocks *out);

/* Multiplies. Returns: E_NOMEM, E_INTERRUPTED. */
mmc_status mmci_blocks_multiply(const mmci_blocks *x, const void *a, const void *b, void *c,
                                mmci_blocks_room *room, mmci_error *error);

#endif

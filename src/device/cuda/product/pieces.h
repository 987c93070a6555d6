/* pieces.h: long products, whose sums are in pieces: those are a batch of products, as many at a
 * time as a queue's workspace holds, which pieces.cu adds up in order. */
#ifndef MMCI_CUDA_PRODUCT_PIECES_H
#define MMCI_CUDA_PRODUCT_PIECES_H

#include <stddef.h>
#ifdef MMCI_EMULATE_CUDA
#include "cuda_emulation_c.h"
#else
#include <cuda_runtime_api.h>
#endif

#include "device/device.h"

typedef struct mmci_long_product mmci_long_product;

/* Memory of a queue for what its products have on their way. */
typedef struct mmci_piece_room {
  void *memory;
  size_t bytes;
} mmci_piece_room;

/* How many pieces of how many products of a batch are there at once: all pieces of some products,
 * or some pieces of one. */
typedef struct mmci_piece_rounds {
  int64_t pieces, at_once, products;
} mmci_piece_rounds;

/* Returns those for so many bytes; at_once is 0 where they are too few. */
mmci_piece_rounds mmci_piece_rounds_of(const mmci_gemm *gemm, size_t bytes);

/* Returns some pieces of a product, or of each of a batch, as a batch of products. Those of 16 bits
 * have results in f32, which a mmci_gemm cannot say. */
mmci_gemm mmci_pieces_as_batch(const mmci_gemm *gemm, int64_t terms, int64_t pieces);

/* Prepares a long product, or batch, for the current device, whose cuBLAS was found, and for rooms
 * of so many bytes. Returns E_UNSUPPORTED where they are too few, E_NOMEM, E_DEVICE. */
mmc_status mmci_long_product_prepare(mmci_device *device, const mmci_gemm *gemm, size_t bytes,
                                     mmci_long_product **out, mmci_error *error);
void mmci_long_product_release(mmci_long_product *product);
mmc_status mmci_long_product_enqueue(const mmci_long_product *product, cudaStream_t stream,
                                     const mmci_piece_room *room, const void *a, const void *b,
                                     void *c, mmci_error *error);

#endif

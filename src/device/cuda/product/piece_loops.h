/* piece_loops.h: rounds of pieces, whatever computes them, and the loops that compute any. */
#ifndef MMCI_CUDA_PRODUCT_PIECE_LOOPS_H
#define MMCI_CUDA_PRODUCT_PIECE_LOOPS_H

#include "device/cuda/product/pieces.h"

#include "device/cuda/cuda_kernels.h"

/* Computes pieces of a product, or of each of a batch, as mmci_cuda_ordered_pieces() does. */
typedef mmc_status (*mmci_piece_fn)(const void *user, cudaStream_t stream, const mmci_gemm *gemm,
                                    const mmci_piece_range *range, const void *a, const void *b,
                                    void *parts, mmci_error *error);

typedef struct mmci_piece_way {
  mmci_piece_fn compute;
  const void *user;
} mmci_piece_way;

/* Computes a long product or batch round by round. */
mmc_status mmci_piece_rounds_enqueue(cudaStream_t stream, const mmci_gemm *gemm,
                                     const mmci_piece_way *way, const mmci_piece_room *room,
                                     const void *a, const void *b, void *c, mmci_error *error);

/* Computes them by loops; user points to a bool that says whether tensor cores compute those of 16
 * bits. */
mmc_status mmci_loops_compute_parts(const void *user, cudaStream_t stream, const mmci_gemm *gemm,
                                    const mmci_piece_range *range, const void *a, const void *b,
                                    void *parts, mmci_error *error);

/* Return where a piece of an operand begins that is not gathered. */
const char *mmci_piece_of_a(const mmci_gemm *gemm, int64_t piece, const void *a);
const char *mmci_piece_of_b(const mmci_gemm *gemm, int64_t piece, const void *b);

#endif

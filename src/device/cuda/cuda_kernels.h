/* cuda_kernels.h: the kernels of the CUDA module for products and copies, as C sees them. Each
 * works on a stream of the current device and returns once it is launched. Sizes and leading
 * dimensions are any that memory holds; elements are aligned to their real type. */
#ifndef MMCI_CUDA_KERNELS_H
#define MMCI_CUDA_KERNELS_H

#ifndef MMCI_EMULATE_CUDA
#include <cuda_runtime_api.h>
#endif

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Computes the product that gemm describes, whatever its forms. */
mmc_status mmci_cuda_plain_product(cudaStream_t stream, const mmci_gemm *gemm, const void *a,
                                   const void *b, void *c, mmci_error *error);
/* Computes a product, or a batch, of few elements and long sums, of floating point; its matrices
 * are not gathered. It has 2^31 tiles of 4 x 4 elements at most, and 65535 products. */
mmc_status mmci_cuda_thin_product(cudaStream_t stream, const mmci_gemm *gemm, const void *a,
                                  const void *b, void *c, mmci_error *error);
/* Computes a product, or a batch, that mmci_outer_supports() takes. */
mmc_status mmci_cuda_outer_product(cudaStream_t stream, const mmci_gemm *gemm, const void *a,
                                   const void *b, void *c, mmci_error *error);
/* Computes a batch that mmci_vectors_supports() takes. */
mmc_status mmci_cuda_vectors_product(cudaStream_t stream, const mmci_gemm *gemm, const void *a,
                                     const void *b, void *c, mmci_error *error);
/* Enqueues a product of integers modulo a number. */
mmc_status mmci_cuda_modular_product(cudaStream_t stream, const mmci_gemm *gemm, const void *a,
                                     const void *b, void *c, mmci_error *error);

/* Enqueues a product of integers that sets *exceeds where an element exceeds the dtype, and stores
 * what is left of it. `most` may be NULL; where the greatest magnitudes of A and B that it points
 * to say that no element exceeds, C stays as it is. Both pointers are of the device. */
mmc_status mmci_cuda_checked_product(cudaStream_t stream, const mmci_gemm *gemm,
                                     const uint64_t *most, int32_t *exceeds, const void *a,
                                     const void *b, void *c, mmci_error *error);

/* Computes nodes of a tree, as nodes_enqueue of device.h. */
mmc_status mmci_cuda_nodes(cudaStream_t stream, mmc_dtype dtype, int side,
                           const mmci_tree_node *nodes, int64_t count, int64_t batch, bool back,
                           mmci_error *error);
/* Say whether a card, with or without clusters, goes up a tree, and do so, as the slots of device.h
 * for it. */
bool mmci_cuda_climbs(mmc_dtype dtype, bool has_clusters, int64_t side);
mmc_status mmci_cuda_climb(cudaStream_t stream, mmc_dtype dtype, bool has_clusters,
                           const mmci_climb *climb, int64_t batch, mmci_error *error);
/* Does so by a cluster for each chain, of sides above 16; the chains fit a launch. */
mmc_status mmci_cuda_climb_cluster(cudaStream_t stream, mmc_dtype dtype, const mmci_climb *climb,
                                   int64_t chains, mmci_error *error);

/* Computes it as MMCI_REPRODUCIBLE says, whatever its precision. */
mmc_status mmci_cuda_ordered_product(cudaStream_t stream, const mmci_gemm *gemm, const void *a,
                                     const void *b, void *c, mmci_error *error);

/* Does the same with complex products alone. */
mmc_status mmci_cuda_ordered_complex(cudaStream_t stream, const mmci_gemm *gemm, const void *a,
                                     const void *b, void *c, mmci_error *error);
/* Does so by a tile of ordered_complex.h; a negative number is for the one that is chosen. */
mmc_status mmci_cuda_ordered_complex_by(cudaStream_t stream, const mmci_gemm *gemm, int tile,
                                        const void *a, const void *b, void *c, mmci_error *error);

/* Writes B of a product of c64 or c128 to `to`, 2k lines of 2n reals, ld reals apart: each row, and
 * the same times i. */
mmc_status mmci_cuda_spread(cudaStream_t stream, const mmci_gemm *gemm, const void *b, void *to,
                            int64_t ld, mmci_error *error);

/* Computes a product of f16 or bf16, or a batch, as such devices' tensor cores add up: 16 products
 * after the other from the first k to the last, in f32, rounded once at the end. It needs compute
 * capability 8.0. */
mmc_status mmci_cuda_ordered_half(cudaStream_t stream, const mmci_gemm *gemm, const void *a,
                                  const void *b, void *c, mmci_error *error);

/* Pieces of long products: of each so many, from number `first` on. Their sums go to parts: those
 * of a product one after the other, m x n without gaps, in what sums are made of, f32 for 16 bits.
 */
typedef struct mmci_piece_range {
  int64_t first, count;
} mmci_piece_range;

/* Compute pieces of a long product, or batch, by the loops of ordered.cu, ordered_complex.cu, by a
 * tile of ordered_complex.h or the one that is chosen, and ordered_half.cu. */
mmc_status mmci_cuda_ordered_pieces(cudaStream_t stream, const mmci_gemm *gemm,
                                    const mmci_piece_range *range, const void *a, const void *b,
                                    void *parts, mmci_error *error);
mmc_status mmci_cuda_ordered_complex_pieces(cudaStream_t stream, const mmci_gemm *piece,
                                            const mmci_piece_range *range, int tile, const void *a,
                                            const void *b, void *parts, mmci_error *error);
mmc_status mmci_cuda_ordered_half_pieces(cudaStream_t stream, const mmci_gemm *gemm,
                                         const mmci_piece_range *range, const void *a,
                                         const void *b, float *parts, mmci_error *error);
/* Computes the sums of pieces of a product of few elements, by piece_dots.cu, where it takes the
 * product. */
bool mmci_cuda_takes_dots(const mmci_gemm *gemm);
mmc_status mmci_cuda_piece_dots(cudaStream_t stream, const mmci_gemm *gemm,
                                const mmci_piece_range *range, const void *a, const void *b,
                                void *parts, mmci_error *error);
/* Adds such parts, in order, to the sums of pieces before them, which are in sums, unless they
 * begin with the first; then writes them there, or where they are the last, to C. */
mmc_status mmci_cuda_add_pieces(cudaStream_t stream, const mmci_gemm *gemm,
                                const mmci_piece_range *range, const void *parts, void *sums,
                                void *c, mmci_error *error);

/* Computes the same as mmci_cuda_ordered_half(), but for rounding; results are f32, which are not
 * settled. */
mmc_status mmci_cuda_ordered_half_sums(cudaStream_t stream, const mmci_gemm *gemm, const void *a,
                                       const void *b, float *c, mmci_error *error);

/* Lets zeros of real products that were computed in order be +0, and NaN the positive quiet one. */
mmc_status mmci_cuda_settle(cudaStream_t stream, const mmci_gemm *gemm, void *c, mmci_error *error);

/* What products over semirings have to themselves: so many multiprocessors, and memory for the
 * parts of those that are long along k. */
typedef struct mmci_cuda_semiring_room {
  int processors;
  void *memory; /* may be NULL where only seconds are asked for */
  size_t bytes;
} mmci_cuda_semiring_room;

/* Computes the product over max-plus, min-plus or log that gemm describes. Its bits depend on the
 * multiprocessors and the bytes. */
mmc_status mmci_cuda_semiring_product(cudaStream_t stream, const mmci_gemm *gemm,
                                      const mmci_cuda_semiring_room *room, const void *a,
                                      const void *b, void *c, mmci_error *error);
/* Returns how long that is taken to last. */
double mmci_cuda_semiring_seconds(const mmci_gemm *gemm, const mmci_cuda_semiring_room *room);

/* Does what the slot copy of device.h says. */
mmc_status mmci_cuda_copy_tiles(cudaStream_t stream, mmc_dtype dtype, int64_t rows, int64_t cols,
                                const void *from, const mmci_form *form, void *to, int64_t to_ld,
                                bool to_trans, mmci_error *error);

/* Does what the slot resize of device.h says, in one launch. */
mmc_status mmci_cuda_resize(cudaStream_t stream, mmc_dtype dtype, const mmci_resizing *matrices,
                            int count, mmci_error *error);

#ifdef __cplusplus
}
#endif

#endif

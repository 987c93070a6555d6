/* large_tile.h: C = op(A) op(B) by large tiles, in native FP32 or FP64: kernels that move few
 * words.
 *
 * A tile of x by y elements of C that stays on chip reads mkn (1/x + 1/y) words: least at x = y =
 * sqrt(M) for room for M of them (the theorem of the TEE-ACM2 poster, SC22). The largest room on a
 * multiprocessor is its registers. A kernel has one shape of the tile of a block:
 *
 *     f32   0  256 x 192, 1 x 2     1  192 x 256, 2 x 1     2  256 x 128, 1 x 2
 *           3  128 x 128, 1 x 2     4  256 x 192, 2 x 1     5  192 x 256, 1 x 2
 *           6  256 x 192, 2 x 2     7  256 x 192, 2 x 4
 *     f64   0  128 x 128            1  128 x 64
 *
 * 16 x 12 elements are the most that a thread of 255 registers holds beside its operands. Numbers
 * of shapes stay what they are: records name them. On compute capability 9.0 FP32 uses TMA and
 * clusters, which share what they load: a cluster is one tile, and which way it lies decides how
 * much of it hangs over C's edges. Four and eight blocks read least from L2, but leave some of the
 * chip's multiprocessors without work. Elsewhere there are shapes 2 and 3, without clusters.
 *
 * Operands are read as lines of equal k: A transposed, B as it is, addresses and leading dimensions
 * multiples of 16 bytes. Those that lie otherwise are first copied, A by one transposition, into
 * memory that belongs to the product; it is written by every enqueue, so one mmci_large_tile is for
 * one stream at a time. C lies anywhere. The result is the same in every run. */
#ifndef MMCI_CUDA_PRODUCT_LARGE_TILE_H
#define MMCI_CUDA_PRODUCT_LARGE_TILE_H

#include <cuda_runtime_api.h>

#include "device/device.h"

typedef struct mmci_large_tile mmci_large_tile;

/* Returns how many shapes there are for the dtype, on any device; 0 when there are none. */
int mmci_large_tile_shapes(mmc_dtype dtype);
/* Returns static text: "large_tile 256x192 1x2". */
const char *mmci_large_tile_name(mmc_dtype dtype, int shape);
/* Says whether a device of these properties can compute the product in this shape. */
bool mmci_large_tile_supports(const struct cudaDeviceProp *device, const mmci_gemm *gemm,
                              int shape);
/* Returns the bytes of device memory that copies of its operands take; 0 when there is no such
 * shape. Partial tiles take some, too, at most a tile for each block that the device has room
 * for. */
uint64_t mmci_large_tile_bytes(const struct cudaDeviceProp *device, const mmci_gemm *gemm,
                               int shape);

/* Takes what the product needs on the current device, whose properties are given. Returns
 * E_UNSUPPORTED (no such shape here), E_NOMEM, E_DEVICE. Sizes of gemm are positive; its variant
 * does not matter. */
mmc_status mmci_large_tile_prepare(const struct cudaDeviceProp *device, const mmci_gemm *gemm,
                                   int shape, mmci_large_tile **out, mmci_error *error);
void mmci_large_tile_release(mmci_large_tile *large);
/* Says whether operands at these addresses can be taken: those that are not copied must be at
 * multiples of 16 bytes. */
bool mmci_large_tile_takes(const mmci_large_tile *large, const void *a, const void *b);
/* Enqueues the product; all addresses are in device memory. Returns once the work is launched;
 * allocates nothing. */
mmc_status mmci_large_tile_enqueue(const mmci_large_tile *large, cudaStream_t stream, const void *a,
                                   const void *b, void *c, mmci_error *error);

#endif

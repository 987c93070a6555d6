/* sliced_k_kernels.h: the kernels sliced_k as C sees them; sliced_k.h and sliced_k.cu explain
 * them. */
#ifndef MMCI_CUDA_PRODUCT_SLICED_K_KERNELS_H
#define MMCI_CUDA_PRODUCT_SLICED_K_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mmci_sliced_k_operand {
  const void *data;
  int64_t ld;
  bool vectors; /* data and ld are multiples of 16 bytes */
} mmci_sliced_k_operand;

/* A product, which is the argument of every kernel. Sizes are below 2^30, tiles times parts below
 * 2^31. */
typedef struct mmci_sliced_k_job {
  mmci_sliced_k_operand a, b;
  void *c;
  int64_t ldc;
  int m, k, n;
  int down, across; /* tiles of C */
  int parts;        /* blocks that share a tile, the size of the cluster: 1, 2, 4 or 8 */
  bool accumulate;
  bool vectors; /* c and ldc are multiples of 16 bytes */
} mmci_sliced_k_job;

/* There is a kernel for every pair of forms, A as stored or transposed and B as stored or
 * transposed. */
typedef struct mmci_sliced_k_kernel {
  const void *functions[2][2];
  int rows, cols, depth; /* rows and columns of a tile, depth of a step along k */
  int threads, shared_bytes;
  int shared_by_parts; /* further bytes, when a tile has several parts */
} mmci_sliced_k_kernel;

#ifdef __cplusplus
extern "C" {
#endif

/* The kernels are in the order of the shapes of sliced_k.h. */
extern const mmci_sliced_k_kernel mmci_sliced_k_f32[];

#ifdef __cplusplus
}
#endif

#endif

/* structured_kernels.h: the kernels of the CUDA module for products whose operands have structure,
 * as C sees them, for f32, f64, c64 and c128. Each works on a stream of the current device and
 * returns once it is launched. Element (l, i) of a matrix is at l * ld + i: line l, place i. */
#ifndef MMCI_CUDA_STRUCTURED_KERNELS_H
#define MMCI_CUDA_STRUCTURED_KERNELS_H

#ifndef MMCI_EMULATE_CUDA
#include <cuda_runtime_api.h>
#endif

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A matrix in the device's memory. */
typedef struct mmci_device_lines {
  void *data;
  int64_t lines, length, ld;
} mmci_device_lines;

/* Copies one half of an n x n matrix to the other one, transposed, and conjugated where conj holds;
 * from_late says that the half is copied whose lines begin before the diagonal, at places less than
 * the line's number. */
mmc_status mmci_cuda_mirror(cudaStream_t stream, mmc_dtype dtype, void *z, int64_t n, int64_t ld,
                            bool from_late, bool conj, mmci_error *error);

/* A diagonal: element e is at e * step, and conjugated where conj holds. */
typedef struct mmci_diagonal {
  const void *data;
  int64_t count, step;
  bool conj, by_line; /* line l has element l, else place i has element i */
} mmci_diagonal;

/* Writes B to Z, of the same size, each element times that of the diagonal, or divided by it. They
 * are the same matrix or do not overlap. */
mmc_status mmci_cuda_scale(cudaStream_t stream, mmc_dtype dtype, const mmci_device_lines *z,
                           const void *b, int64_t ldb, const mmci_diagonal *diagonal, bool divides,
                           mmci_error *error);
/* Writes the number, from 1, of the first element that is zero, or 0 when there is none. */
mmc_status mmci_cuda_find_zero(cudaStream_t stream, mmc_dtype dtype, const mmci_diagonal *diagonal,
                               int32_t *pivot, mmci_error *error);

/* Makes an n x n matrix the identity; its own transposed, conjugated where it is complex; replaces
 * the elements of its diagonal by their inverses. */
mmc_status mmci_cuda_identity(cudaStream_t stream, mmc_dtype dtype, void *z, int64_t n, int64_t ld,
                              mmci_error *error);
mmc_status mmci_cuda_transpose_square(cudaStream_t stream, mmc_dtype dtype, void *z, int64_t n,
                                      int64_t ld, mmci_error *error);
mmc_status mmci_cuda_invert_diagonal(cudaStream_t stream, mmc_dtype dtype, void *z, int64_t n,
                                     int64_t ld, mmci_error *error);

/* Fills index, of n numbers, with the place of what is not zero in each line of an n x n matrix, or
 * with the line of what is not zero at each place. */
mmc_status mmci_cuda_find_ones(cudaStream_t stream, mmc_dtype dtype, const void *p, int64_t n,
                               int64_t ld, bool of_places, int64_t *index, mmci_error *error);
/* Writes line index[l] of B to line l of Z, or, where along holds, place index[i] to place i. */
mmc_status mmci_cuda_gather(cudaStream_t stream, mmc_dtype dtype, const mmci_device_lines *z,
                            const void *b, int64_t ldb, const int64_t *index, bool along,
                            mmci_error *error);

/* An n x n matrix M with a band; element (i, j) is at i * row_step + j * column_step. */
typedef struct mmci_device_band {
  const void *data;
  int64_t n, row_step, column_step;
  bool conj;
  mmc_band band;
} mmci_device_band;

/* Writes M B to Z, where rows are lines, or, where along holds, M z for each line z of B. */
mmc_status mmci_cuda_band(cudaStream_t stream, mmc_dtype dtype, const mmci_device_lines *z,
                          const void *b, int64_t ldb, const mmci_device_band *m, bool along,
                          mmci_error *error);

#ifdef __cplusplus
}
#endif

#endif

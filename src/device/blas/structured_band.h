/* structured_band.h: banded, triangular and symmetric operands of products and solves, by blocks of
 * GEMM and by LAPACK; and what is said to its routines. */
#ifndef MMCI_BLAS_STRUCTURED_BAND_H
#define MMCI_BLAS_STRUCTURED_BAND_H

#include "device/blas/lapack_table.h"

/* Computes the kernels from SYMV on, for mmci_blas_structured(). */
mmc_status mmci_blas_banded(const mmci_structured *product, void *z, void *s, int64_t *pivot,
                            mmci_error *error);

/* ---- what routines are told ------------------------------------------------------------------ */

static inline const void *mmci_lapack_one_of(mmc_dtype dtype) {
  static const double one[2] = {1, 0};
  static const float one_single[2] = {1, 0};
  return dtype == MMC_F32 || dtype == MMC_C64 ? (const void *)one_single : (const void *)one;
}

static inline const void *mmci_lapack_zero_of(mmc_dtype dtype) {
  static const double zero[2] = {0, 0};
  static const float zero_single[2] = {0, 0};
  return dtype == MMC_F32 || dtype == MMC_C64 ? (const void *)zero_single : (const void *)zero;
}

static inline mmci_letter mmci_lapack_letter_of(mmc_op op) {
  return op == MMC_OP_N ? "N" : op == MMC_OP_T ? "T" : "C";
}

static inline mmci_letter mmci_lapack_half_of(uint32_t traits) {
  return (traits & MMC_LOWER) != 0 ? "L" : "U";
}

static inline mmci_letter mmci_lapack_diagonal_of(uint32_t traits) {
  return (traits & MMC_UNIT) != 0 ? "U" : "N";
}

/* Reads what a routine says of failure: where positive, the row at which it failed. */
static inline int64_t mmci_lapack_row_of(int64_t info) {
  int64_t row = mmci_lapack_is_narrow() ? (int64_t)(int32_t)(uint32_t)(uint64_t)info : info;
  return row > 0 ? row : 0;
}

#endif

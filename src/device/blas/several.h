/* several.h: loops that compute several products of one kind, whose matrices are evenly far apart,
 * and find out once what is asked for. */
#ifndef MMCI_BLAS_SEVERAL_H
#define MMCI_BLAS_SEVERAL_H

#include "device/blas/half_gemm.h"
#include "device/blas/integer_gemm.h"
#include "device/blas/vector_loops.h"

typedef enum mmci_several_kind {
  MMCI_ONE_BY_ONE, /* there are no such loops */
  MMCI_BY_VECTORS,
  MMCI_BY_HALVES,
  MMCI_BY_INTEGERS
} mmci_several_kind;

typedef struct mmci_several {
  mmci_several_kind kind;
  int64_t a_step, b_step, c_step; /* bytes from one product's matrix to the next one's */
  union {
    mmci_gemm gemm;
    mmci_vectors vectors;
  };
} mmci_several;

/* Makes products of a kind that blas.h names for the gemm. */
mmci_several mmci_several_make(mmci_several_kind kind, const mmci_gemm *gemm, int64_t a_step,
                               int64_t b_step, int64_t c_step);

/* Computes count products, of which the first has these operands; the kind is not
 * MMCI_ONE_BY_ONE. */
void mmci_several_multiply(const mmci_several *x, int64_t count, const void *a, const void *b,
                           void *c);

/* Computes products first to end - 1 of a batch some of whose operands are at addresses: those at
 * once that are as far apart as the first two. */
void mmci_several_gathered(mmci_several_kind kind, const mmci_gemm *gemm, int64_t first,
                           int64_t end, const void *a, const void *b, void *c);

#endif

/* methods.h: how the device "blas" computes a product, and by which call. */
#ifndef MMCI_BLAS_METHODS_H
#define MMCI_BLAS_METHODS_H

#include "device/blas/blas.h"

/* How a product is computed, which its shape and the layout of its operands decide. */
typedef enum mmci_method {
  MMCI_METHOD_NOTHING,       /* C has no elements, or nothing is added to them */
  MMCI_METHOD_ZEROS,         /* k = 0: C is a sum of no terms */
  MMCI_METHOD_SEMIRING,      /* neither sums nor products, see semiring.h */
  MMCI_METHOD_ORDERED,       /* reproducible sums, and words that wrap around, see ordered.h */
  MMCI_METHOD_LOOPS,         /* what this CBLAS cannot express */
  MMCI_METHOD_PANELS,        /* f16 and bf16, widened panel by panel */
  MMCI_METHOD_WIDENED,       /* small ones of f16 and bf16 */
  MMCI_METHOD_DIRECT,        /* few integers, by loops */
  MMCI_METHOD_DIGITS,        /* integers, split into digits, or words of which a rule has several */
  MMCI_METHOD_WHOLE,         /* sums of whole numbers, see whole_gemm.h */
  MMCI_METHOD_VECTORS,       /* a few numbers, see vector_loops.h */
  MMCI_METHOD_DOT,           /* a row times a column */
  MMCI_METHOD_MATRIX_VECTOR, /* a product with n = 1 */
  MMCI_METHOD_VECTOR_MATRIX, /* a product with m = 1 */
  MMCI_METHOD_SMALL,         /* a product of small matrices, see small.h */
  MMCI_METHOD_MATRIX_MATRIX,
  MMCI_METHODS
} mmci_method;

mmci_method mmci_blas_method(const mmci_gemm *gemm);

#endif

/* gemm.h: one product of a chain, and how its operands lie. */
#ifndef MMCI_GEMM_H
#define MMCI_GEMM_H

#include "base/status.h"

typedef enum mmci_precision {
  MMCI_NATIVE,   /* the arithmetic of the dtype */
  MMCI_FAITHFUL, /* other arithmetic allowed where no less accurate */
  MMCI_FAST      /* less accurate allowed: TF32 for f32 and c64 */
} mmci_precision;

/* How an operand lies. Element (r, c) is data[r * ld + c], or data[c * ld + r] when trans,
 * conjugated when conj. A column-major matrix is a transposed row-major one. ld in elements, at
 * least 1. */
typedef struct mmci_form {
  int64_t ld;
  bool trans, conj;
} mmci_form;

/* C = A B, or C += A B when accumulate. C m x n, row-major; A m x k, B k x n; all sizes >= 0. */
typedef struct mmci_gemm {
  mmc_dtype dtype;
  mmci_precision precision;
  int64_t m, k, n;
  mmci_form a, b;
  int64_t ldc;
  bool accumulate;
  int variant; /* 0: the device's own choice; 1 to variants(): another way to the same result;
                  prepare returns E_UNSUPPORTED where there is no such way */
} mmci_gemm;

/* Real flops of a product: a complex multiplication and addition are four of each of the real ones.
 */
static inline double mmci_flops(mmc_dtype dtype, int64_t m, int64_t k, int64_t n) {
  bool is_complex = dtype == MMC_C64 || dtype == MMC_C128;
  return (is_complex ? 8 : 2) * (double)m * (double)k * (double)n;
}

/* The op that a form stands for; false when it is none: conjugated but not transposed. */
static inline bool mmci_form_op(const mmci_form *form, mmc_op *out) {
  *out = !form->trans ? MMC_OP_N : form->conj ? MMC_OP_H : MMC_OP_T;
  return form->trans || !form->conj;
}

/* op(A) op(B) of m x k by k x n with all matrices row-major, without gaps. */
static inline mmci_gemm mmci_gemm_tight(mmc_dtype dtype, mmci_precision precision, int64_t m,
                                        int64_t k, int64_t n, mmc_op op_a, mmc_op op_b) {
  bool is_complex = dtype == MMC_C64 || dtype == MMC_C128;
  int64_t a_ld = op_a == MMC_OP_N ? k : m, b_ld = op_b == MMC_OP_N ? n : k;
  return (mmci_gemm){
      .dtype = dtype,
      .precision = precision,
      .m = m,
      .k = k,
      .n = n,
      .a = {a_ld > 0 ? a_ld : 1, op_a != MMC_OP_N, op_a == MMC_OP_H && is_complex},
      .b = {b_ld > 0 ? b_ld : 1, op_b != MMC_OP_N, op_b == MMC_OP_H && is_complex},
      .ldc = n > 0 ? n : 1,
      .accumulate = false,
      .variant = 0,
  };
}

#endif

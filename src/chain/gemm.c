#include "chain/gemm.h"

static bool is_complex(mmc_dtype dtype) {
  return dtype == MMC_C64 || dtype == MMC_C128;
}

double mmci_flops(mmc_dtype dtype, int64_t m, int64_t k, int64_t n) {
  return (is_complex(dtype) ? 8 : 2) * (double)m * (double)k * (double)n;
}

double mmci_gemm_bytes(const mmci_gemm *gemm) {
  double m = (double)gemm->m, k = (double)gemm->k, n = (double)gemm->n;
  return (double)mmc_dtype_size(gemm->dtype) * (m * k + k * n + m * n);
}

bool mmci_form_op(const mmci_form *form, mmc_op *out) {
  *out = !form->trans ? MMC_OP_N : form->conj ? MMC_OP_H : MMC_OP_T;
  return form->trans || !form->conj;
}

/* An operand that is rows x cols after its op. */
static mmci_form form_of(mmc_dtype dtype, int64_t rows, int64_t cols, mmc_op op) {
  int64_t ld = op == MMC_OP_N ? cols : rows;
  return (mmci_form){
      .ld = ld > 0 ? ld : 1, .trans = op != MMC_OP_N, .conj = op == MMC_OP_H && is_complex(dtype)};
}

mmci_gemm mmci_gemm_tight(mmc_dtype dtype, mmci_precision precision, int64_t m, int64_t k,
                          int64_t n, mmc_op op_a, mmc_op op_b) {
  return (mmci_gemm){.dtype = dtype,
                     .precision = precision,
                     .m = m,
                     .k = k,
                     .n = n,
                     .a = form_of(dtype, m, k, op_a),
                     .b = form_of(dtype, k, n, op_b),
                     .ldc = n > 0 ? n : 1};
}

int64_t mmci_elements(int64_t rows, int64_t cols) {
  int64_t elements;
  return __builtin_mul_overflow(rows, cols, &elements) ? 0 : elements;
}

void mmci_gemm_spread(mmci_gemm *gemm, int64_t batch) {
  gemm->batch = batch;
  gemm->a.stride = batch > 1 ? mmci_elements(gemm->m, gemm->k) : 0;
  gemm->b.stride = batch > 1 ? mmci_elements(gemm->k, gemm->n) : 0;
  gemm->c_stride = batch > 1 ? mmci_elements(gemm->m, gemm->n) : 0;
}

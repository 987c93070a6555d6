/* lt.c: describes products to cuBLASLt, which multiplies column-major matrices: it is asked for
 * C^T = B^T A^T. */
#include "device/cuda/product/lt.h"

static const mmci_arithmetic NATIVE[] = {
    [MMC_F32] = {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, "cublas sgemm"},
    [MMC_F64] = {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, "cublas dgemm"},
    [MMC_C64] = {CUDA_C_32F, CUDA_C_32F, CUBLAS_COMPUTE_32F, "cublas cgemm"},
    [MMC_C128] = {CUDA_C_64F, CUDA_C_64F, CUBLAS_COMPUTE_64F, "cublas zgemm"},
    [MMC_F16] = {CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F, "cublas f16"},
    [MMC_BF16] = {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F, "cublas bf16"},
};

const mmci_arithmetic *mmci_arithmetic_of(mmc_dtype dtype) {
  return (unsigned)dtype < sizeof NATIVE / sizeof *NATIVE && NATIVE[dtype].name != NULL
             ? &NATIVE[dtype]
             : NULL;
}

bool mmci_stored_as(const mmci_form *form, int64_t rows, int64_t cols, mmc_dtype dtype,
                    mmci_stored *out) {
  bool conj = form->conj && mmci_dtype_is_complex(dtype);
  if (conj && !form->trans) return false;
  out->op = conj ? CUBLAS_OP_C : form->trans ? CUBLAS_OP_T : CUBLAS_OP_N;
  out->rows = form->trans ? rows : cols;
  out->cols = form->trans ? cols : rows;
  out->ld = form->ld;
  if (out->ld >= out->rows) return true;
  /* A single line has no distance to a next. */
  out->ld = out->rows;
  return out->cols == 1;
}

void mmci_lt_destroy(const mmci_cublas *cublas, mmci_lt_product *lt) {
  cublasLtMatrixLayout_t layouts[] = {lt->a, lt->b, lt->c};
  for (int t = 0; t < 3; t++)
    if (layouts[t] != NULL) (void)cublas->cublasLtMatrixLayoutDestroy(layouts[t]);
  if (lt->product != NULL) (void)cublas->cublasLtMatmulDescDestroy(lt->product);
}

static mmc_status describe_matrix(const mmci_cublas *cublas, cudaDataType_t type,
                                  const mmci_stored *matrix, int64_t batch, int64_t stride,
                                  cublasLtMatrixLayout_t *out, mmci_error *error) {
  const int32_t count = (int32_t)batch;
  MMCI_CUBLAS_TRY(cublas, cublasLtMatrixLayoutCreate,
                  (out, type, (uint64_t)matrix->rows, (uint64_t)matrix->cols, matrix->ld));
  if (batch <= 1) return MMC_OK;
  MMCI_CUBLAS_TRY(cublas, cublasLtMatrixLayoutSetAttribute,
                  (*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
  MMCI_CUBLAS_TRY(cublas, cublasLtMatrixLayoutSetAttribute,
                  (*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
  return MMC_OK;
}

mmc_status mmci_lt_describe(const mmci_cublas *cublas, const mmci_arithmetic *as,
                            const mmci_gemm *gemm, const mmci_stored *a, const mmci_stored *b,
                            const mmci_stored *c, cudaDataType_t of_c, mmci_lt_product *lt,
                            mmci_error *error) {
  const int64_t batch = gemm->batch;
  MMCI_CUBLAS_TRY(cublas, cublasLtMatmulDescCreate, (&lt->product, as->compute, as->scale));
  MMCI_CUBLAS_TRY(cublas, cublasLtMatmulDescSetAttribute,
                  (lt->product, CUBLASLT_MATMUL_DESC_TRANSA, &b->op, sizeof b->op));
  MMCI_CUBLAS_TRY(cublas, cublasLtMatmulDescSetAttribute,
                  (lt->product, CUBLASLT_MATMUL_DESC_TRANSB, &a->op, sizeof a->op));
  mmc_status status = describe_matrix(cublas, as->type, a, batch, gemm->a.stride, &lt->a, error);
  if (status == MMC_OK)
    status = describe_matrix(cublas, as->type, b, batch, gemm->b.stride, &lt->b, error);
  if (status == MMC_OK)
    status = describe_matrix(cublas, of_c, c, batch, gemm->c_stride, &lt->c, error);
  return status;
}

static mmc_status prefer(const mmci_cublas *cublas, const mmci_lt_terms *terms,
                         cublasLtMatmulPreference_t preference, mmci_error *error) {
  static const cublasLtMatmulPreferenceAttributes_t ALIGNMENTS[] = {
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
  const uint32_t alignment = MMCI_LT_VECTOR_BYTES;
  MMCI_CUBLAS_TRY(cublas, cublasLtMatmulPreferenceSetAttribute,
                  (preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &terms->workspace_bytes,
                   sizeof terms->workspace_bytes));
  for (int t = 0; t < 4; t++)
    MMCI_CUBLAS_TRY(cublas, cublasLtMatmulPreferenceSetAttribute,
                    (preference, ALIGNMENTS[t], &alignment, sizeof alignment));
  MMCI_CUBLAS_TRY(cublas, cublasLtMatmulPreferenceSetAttribute,
                  (preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &terms->reductions,
                   sizeof terms->reductions));
  return MMC_OK;
}

mmc_status mmci_lt_propose(const mmci_cublas *cublas, const mmci_lt_product *lt,
                           const mmci_lt_terms *terms,
                           cublasLtMatmulHeuristicResult_t results[MMCI_LT_PROPOSALS], int *count,
                           mmci_error *error) {
  cublasLtMatmulPreference_t preference = NULL;
  MMCI_CUBLAS_TRY(cublas, cublasLtMatmulPreferenceCreate, (&preference));
  mmc_status status = prefer(cublas, terms, preference, error);
  int found = 0;
  if (status == MMC_OK) {
    cublasStatus_t code = MMCI_CUBLAS_CALL(
        cublas->cublasLtMatmulAlgoGetHeuristic(cublas->lt, lt->product, lt->b, lt->a, lt->c, lt->c,
                                               preference, MMCI_LT_PROPOSALS, results, &found));
    if (code == CUBLAS_STATUS_NOT_SUPPORTED)
      found = 0;
    else
      status = mmci_cublas_check(cublas, code, "cublasLtMatmulAlgoGetHeuristic", error);
  }
  (void)cublas->cublasLtMatmulPreferenceDestroy(preference);
  if (status != MMC_OK) return status;
  *count = 0;
  for (int t = 0; t < found; t++)
    if (results[t].state == CUBLAS_STATUS_SUCCESS) results[(*count)++] = results[t];
  return MMC_OK;
}

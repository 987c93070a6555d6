/* lt.h: products as cuBLASLt describes them, and the algorithms that it proposes. */
#ifndef MMCI_CUDA_PRODUCT_LT_H
#define MMCI_CUDA_PRODUCT_LT_H

#include "chain/gemm.h"
#include "device/cuda/cublas.h"

enum {
  MMCI_LT_PROPOSALS = 24,
  MMCI_LT_VECTOR_BYTES = 16 /* algorithms are asked for with addresses that are multiples */
};

/* By which arithmetic cuBLAS computes. */
typedef struct mmci_arithmetic {
  cudaDataType_t type, scale;
  cublasComputeType_t compute;
  const char *name;
} mmci_arithmetic;

/* An operand as cuBLAS sees it: column-major, rows x cols as stored, then op. */
typedef struct mmci_stored {
  cublasOperation_t op;
  int64_t rows, cols, ld;
} mmci_stored;

/* A product of cuBLASLt with its algorithm. */
typedef struct mmci_lt_product {
  cublasLtMatmulDesc_t product;
  cublasLtMatrixLayout_t b, a, c;
  cublasLtMatmulAlgo_t algorithm;
} mmci_lt_product;

/* What an algorithm may use: so much workspace, and ways to add up partial sums. */
typedef struct mmci_lt_terms {
  uint64_t workspace_bytes;
  uint32_t reductions; /* a mask of cublasLtReductionScheme_t; all of them: no bit is missing */
} mmci_lt_terms;

/* Returns the dtype's own arithmetic; NULL for integers. */
const mmci_arithmetic *mmci_arithmetic_of(mmc_dtype dtype);

/* Expresses a row-major rows x cols operand; returns false when cuBLAS cannot express its form. */
bool mmci_stored_as(const mmci_form *form, int64_t rows, int64_t cols, mmc_dtype dtype,
                    mmci_stored *out);

/* Describes op(A) op(B), a batch with the gemm's strides, whose results are of type of_c. What was
 * described before a failure is destroyed by mmci_lt_destroy(), like the rest. */
mmc_status mmci_lt_describe(const mmci_cublas *cublas, const mmci_arithmetic *arithmetic,
                            const mmci_gemm *gemm, const mmci_stored *a, const mmci_stored *b,
                            const mmci_stored *c, cudaDataType_t of_c, mmci_lt_product *out,
                            mmci_error *error);
void mmci_lt_destroy(const mmci_cublas *cublas, mmci_lt_product *lt);

/* Asks for the algorithms for a product that was described, best first. */
mmc_status mmci_lt_propose(const mmci_cublas *cublas, const mmci_lt_product *lt,
                           const mmci_lt_terms *terms,
                           cublasLtMatmulHeuristicResult_t results[MMCI_LT_PROPOSALS], int *count,
                           mmci_error *error);

#endif

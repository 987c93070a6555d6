/* cublas.h: cuBLAS, found at run time, so that the module serves all but products without it. */
#ifndef MMCI_CUBLAS_H
#define MMCI_CUBLAS_H

#include <cublasLt.h>
#include <cublas_v2.h>

#include "base/status.h"

/* What is called of cuBLAS 12 or later; cublasLt* is in a library that libcublas brings along. */
#define MMCI_CUBLAS_FUNCTIONS(X)          \
  X(cublasCreate_v2)                      \
  X(cublasDestroy_v2)                     \
  X(cublasSetStream_v2)                   \
  X(cublasSetWorkspace_v2)                \
  X(cublasSetMathMode)                    \
  X(cublasGemmEx_64)                      \
  X(cublasGemmStridedBatchedEx_64)        \
  X(cublasSsymm_v2_64)                    \
  X(cublasDsymm_v2_64)                    \
  X(cublasChemm_v2_64)                    \
  X(cublasZhemm_v2_64)                    \
  X(cublasSsyrk_v2_64)                    \
  X(cublasDsyrk_v2_64)                    \
  X(cublasCsyrk_v2_64)                    \
  X(cublasZsyrk_v2_64)                    \
  X(cublasCherk_v2_64)                    \
  X(cublasZherk_v2_64)                    \
  X(cublasStrmm_v2_64)                    \
  X(cublasDtrmm_v2_64)                    \
  X(cublasCtrmm_v2_64)                    \
  X(cublasZtrmm_v2_64)                    \
  X(cublasStrsm_v2_64)                    \
  X(cublasDtrsm_v2_64)                    \
  X(cublasCtrsm_v2_64)                    \
  X(cublasZtrsm_v2_64)                    \
  X(cublasGetProperty)                    \
  X(cublasGetStatusString)                \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtMatmul)                       \
  X(cublasLtMatmulAlgoConfigGetAttribute) \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)          \
  X(cublasLtMatrixLayoutSetAttribute)     \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute)

typedef struct mmci_cublas {
  void *library;
  cublasLtHandle_t lt; /* has no stream; threads share it */
#define MMCI_CUBLAS_FIELD(name) __typeof__(&(name)) name;
  MMCI_CUBLAS_FUNCTIONS(MMCI_CUBLAS_FIELD)
#undef MMCI_CUBLAS_FIELD
} mmci_cublas;

/* Loads the library for the current device. Returns E_UNSUPPORTED (it is not here; the error says
 * what to install), E_NOMEM, E_DEVICE. */
mmc_status mmci_cublas_load(mmci_cublas **out, mmci_error *error);
void mmci_cublas_unload(mmci_cublas *cublas);

/* Says whether the library is there, and its version. */
bool mmci_cublas_version(int version[3]);

/* Turns a code of cuBLAS into a status, as mmci_cuda_check() does. */
mmc_status mmci_cublas_check(const mmci_cublas *cublas, cublasStatus_t code, const char *call,
                             mmci_error *error);

/* All calls of cuBLAS that can fail go through this; a test puts failures in their place. */
#ifndef MMCI_CUBLAS_CALL
#define MMCI_CUBLAS_CALL(call) (call)
#endif

/* MMCI_CUBLAS_TRY(cublas, cublasCreate_v2, (&handle)): leaves the calling function, which returns
 * mmc_status and has an error in scope, when the call fails. */
#define MMCI_CUBLAS_TRY(cublas, name, arguments)                                               \
  do {                                                                                         \
    mmc_status status_of_call =                                                                \
        mmci_cublas_check((cublas), MMCI_CUBLAS_CALL((cublas)->name arguments), #name, error); \
    if (status_of_call != MMC_OK) return status_of_call;                                       \
  } while (0)

#endif

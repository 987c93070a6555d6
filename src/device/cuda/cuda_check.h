/* cuda_check.h: how a failed call of the CUDA runtime becomes a status. */
#ifndef MMCI_CUDA_CHECK_H
#define MMCI_CUDA_CHECK_H

#ifndef MMCI_EMULATE_CUDA
#include <cuda_runtime_api.h>
#endif

#include "base/status.h"

/* Returns MMC_OK, or E_DEVICE (E_NOMEM when the device is out of memory) with the call and the
 * runtime's reason in error. The runtime forgets the failure, as far as it can. */
static inline mmc_status mmci_cuda_check(cudaError_t code, const char *call, mmci_error *error) {
  if (code == cudaSuccess) return MMC_OK;
  (void)cudaGetLastError();
  return mmci_fail(error, code == cudaErrorMemoryAllocation ? MMC_E_NOMEM : MMC_E_DEVICE, "%s: %s",
                   call, cudaGetErrorString(code));
}

/* Leaves the calling function, which returns mmc_status and has an error in scope, when the call
 * fails. */
#define MMCI_CUDA_TRY(call)                                            \
  do {                                                                 \
    mmc_status status_of_call = mmci_cuda_check((call), #call, error); \
    if (status_of_call != MMC_OK) return status_of_call;               \
  } while (0)

#endif

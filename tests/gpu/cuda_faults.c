/* cuda_faults.c: which call of the CUDA module fails. The linker leads calls of NAME to
 * __wrap_NAME(), from where __real_NAME() is NAME. */
#include <stdatomic.h>

#include "cuda_faults.h"

static atomic_int calls, to_fail;

bool mmci_fault(void) {
  return atomic_fetch_add(&calls, 1) + 1 == atomic_load(&to_fail);
}

int mmci_fault_at(int call) {
  atomic_store(&to_fail, call);
  return atomic_exchange(&calls, 0);
}

cudaError_t __real_cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *function);
cudaError_t __real_cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute,
                                        int value);
cudaError_t __real_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                       void **arguments);
cudaError_t __wrap_cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *function);
cudaError_t __wrap_cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute,
                                        int value);
cudaError_t __wrap_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                       void **arguments);

cudaError_t __wrap_cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *function) {
  return MMCI_FAULT_OR(__real_cudaFuncGetAttributes(out, function));
}

cudaError_t __wrap_cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute,
                                        int value) {
  return MMCI_FAULT_OR(__real_cudaFuncSetAttribute(function, attribute, value));
}

cudaError_t __wrap_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                       void **arguments) {
  return MMCI_FAULT_OR(__real_cudaLaunchKernelExC(config, function, arguments));
}

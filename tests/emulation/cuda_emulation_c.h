/* cuda_emulation_c.h: what C sources use of the CUDA runtime, by the emulation of
 * cuda_emulation.h. */
#ifndef MMCI_CUDA_EMULATION_C_H
#define MMCI_CUDA_EMULATION_C_H

#include <stddef.h>

typedef int cudaError_t;
enum {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorNotReady = 600
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
typedef struct mmci_emulation_stream *cudaStream_t;
typedef struct mmci_emulation_tensor_map CUtensorMap; /* named by declarations alone */

#ifndef __cplusplus
#define cudaMalloc mmci_emulation_c_malloc
#define cudaFree mmci_emulation_c_free
#define cudaMemset mmci_emulation_c_memset
#define cudaMemcpy mmci_emulation_c_memcpy
#define cudaStreamSynchronize mmci_emulation_c_synchronize
#define cudaGetLastError mmci_emulation_c_last_error
#define cudaGetErrorString mmci_emulation_c_error_string
#define cudaStreamLegacy ((cudaStream_t)NULL)
#else
extern "C" {
#endif

cudaError_t mmci_emulation_c_malloc(void **out, size_t size_bytes);
cudaError_t mmci_emulation_c_free(void *memory);
cudaError_t mmci_emulation_c_memset(void *to, int value, size_t size_bytes);
cudaError_t mmci_emulation_c_memcpy(void *to, const void *from, size_t size_bytes,
                                    enum cudaMemcpyKind kind);
cudaError_t mmci_emulation_c_synchronize(cudaStream_t stream);
cudaError_t mmci_emulation_c_last_error(void);
const char *mmci_emulation_c_error_string(cudaError_t error);

#ifdef __cplusplus
}
#endif

#endif

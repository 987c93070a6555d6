/* cuda_emulation_c.cpp: cuda_emulation_c.h by cuda_emulation.h. */
#include "cuda_emulation.h"

cudaError_t mmci_emulation_c_malloc(void **out, size_t size_bytes) {
  return cudaMalloc(out, size_bytes);
}
cudaError_t mmci_emulation_c_free(void *memory) {
  return cudaFree(memory);
}
cudaError_t mmci_emulation_c_memset(void *to, int value, size_t size_bytes) {
  return cudaMemset(to, value, size_bytes);
}
cudaError_t mmci_emulation_c_memcpy(void *to, const void *from, size_t size_bytes,
                                    cudaMemcpyKind kind) {
  return cudaMemcpy(to, from, size_bytes, kind);
}
cudaError_t mmci_emulation_c_synchronize(cudaStream_t stream) {
  return cudaStreamSynchronize(stream);
}
cudaError_t mmci_emulation_c_last_error(void) {
  return cudaGetLastError();
}
const char *mmci_emulation_c_error_string(cudaError_t error) {
  return cudaGetErrorString(error);
}
cudaError_t mmci_emulation_c_shared_most(const void *kernel, int bytes) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

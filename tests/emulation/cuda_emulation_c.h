/* cuda_emulation_c.h: what C sources use of the CUDA runtime, by the emulation of
 * cuda_emulation.h. */
#ifndef MMCI_CUDA_EMULATION_C_H
#define MMCI_CUDA_EMULATION_C_H

#include <stddef.h>
#include <stdint.h>

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

/* A tensor of 16-bit elements of up to three dimensions, the first one along memory, and the box of
 * its first two that is copied at once. Strides are in elements. */
typedef struct CUtensorMap {
  uint16_t *data;
  int64_t sizes[3], strides[2];
  int box[2];
} CUtensorMap;
typedef void (*PFN_cuTensorMapEncodeTiled_v12000)(void);
typedef uint64_t cuuint64_t;
typedef uint32_t cuuint32_t;
typedef enum {
  CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
  CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
} CUtensorMapDataType;
typedef enum { CU_TENSOR_MAP_SWIZZLE_64B = 2, CU_TENSOR_MAP_SWIZZLE_128B = 3 } CUtensorMapSwizzle;
typedef enum { CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3 } CUtensorMapL2promotion;

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

cudaError_t mmci_emulation_c_shared_most(const void *kernel, int bytes);
/* A test defines this that calls what launches kernels by their addresses. */
cudaError_t mmci_emulation_c_launch(const void *kernel, unsigned blocks, unsigned in_cluster,
                                    unsigned threads, size_t shared_bytes, void **arguments);

#ifdef __cplusplus
}
#else

enum { cudaFuncAttributeMaxDynamicSharedMemorySize, cudaLaunchAttributeClusterDimension };
typedef struct dim3 {
  unsigned x, y, z;
} dim3;
typedef struct cudaLaunchAttribute {
  int id;
  struct {
    dim3 clusterDim;
  } val;
} cudaLaunchAttribute;
typedef struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute *attrs;
  unsigned numAttrs;
} cudaLaunchConfig_t;

static inline cudaError_t cudaFuncSetAttribute(const void *kernel, int attribute, int value) {
  (void)attribute;
  return mmci_emulation_c_shared_most(kernel, value);
}
static inline cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel,
                                              void **arguments) {
  return mmci_emulation_c_launch(kernel, config->gridDim.x,
                                 config->numAttrs > 0 ? config->attrs->val.clusterDim.x : 1,
                                 config->blockDim.x, config->dynamicSmemBytes, arguments);
}

#endif

#endif

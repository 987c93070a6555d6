/* cuda_faults.h: put before every C source of the CUDA module in a build for tests: of all calls
 * that can fail, of CUDA, cuBLAS, cuSOLVER and for memory, the one that mmci_fault_at() names does.
 * A call that ends something is made all the same. What kernels' files call, too, cuda_faults.c
 * wraps. */
#ifndef CUDA_FAULTS_H
#define CUDA_FAULTS_H

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/alloc.h"

/* Counts a call; whether it is the one to fail. */
bool mmci_fault(void);
/* Call number call, from 1, is to fail, 0: none; returns how many were counted, and counts anew. */
__attribute__((visibility("default"))) int mmci_fault_at(int call);

#define MMCI_FAULT_OR(call) (mmci_fault() ? cudaErrorUnknown : (call))
#define MMCI_FAULT_AFTER(call) \
  ((call) == cudaSuccess && !mmci_fault() ? cudaSuccess : cudaErrorUnknown)

#define cudaDriverGetVersion(...) MMCI_FAULT_OR(cudaDriverGetVersion(__VA_ARGS__))
#define cudaEventCreateWithFlags(...) MMCI_FAULT_OR(cudaEventCreateWithFlags(__VA_ARGS__))
#define cudaEventElapsedTime(...) MMCI_FAULT_OR(cudaEventElapsedTime(__VA_ARGS__))
#define cudaEventQuery(...) MMCI_FAULT_OR(cudaEventQuery(__VA_ARGS__))
#define cudaEventRecord(...) MMCI_FAULT_OR(cudaEventRecord(__VA_ARGS__))
#define cudaEventSynchronize(...) MMCI_FAULT_OR(cudaEventSynchronize(__VA_ARGS__))
#define cudaGetDevice(...) MMCI_FAULT_OR(cudaGetDevice(__VA_ARGS__))
#define cudaGetDeviceCount(...) MMCI_FAULT_OR(cudaGetDeviceCount(__VA_ARGS__))
#define cudaGetDeviceProperties(...) MMCI_FAULT_OR(cudaGetDeviceProperties(__VA_ARGS__))
#define cudaGetDriverEntryPointByVersion(...) \
  MMCI_FAULT_OR(cudaGetDriverEntryPointByVersion(__VA_ARGS__))
#define cudaGraphInstantiate(...) MMCI_FAULT_OR(cudaGraphInstantiate(__VA_ARGS__))
#define cudaGraphLaunch(...) MMCI_FAULT_OR(cudaGraphLaunch(__VA_ARGS__))
#define cudaHostAlloc(...) MMCI_FAULT_OR(cudaHostAlloc(__VA_ARGS__))
#define cudaMalloc(...) MMCI_FAULT_OR(cudaMalloc(__VA_ARGS__))
#define cudaMemGetInfo(...) MMCI_FAULT_OR(cudaMemGetInfo(__VA_ARGS__))
#define cudaMemcpy(...) MMCI_FAULT_OR(cudaMemcpy(__VA_ARGS__))
#define cudaMemset(...) MMCI_FAULT_OR(cudaMemset(__VA_ARGS__))
#define cudaMemsetAsync(...) MMCI_FAULT_OR(cudaMemsetAsync(__VA_ARGS__))
#define cudaMemcpy2DAsync(...) MMCI_FAULT_OR(cudaMemcpy2DAsync(__VA_ARGS__))
#define cudaMemcpyAsync(...) MMCI_FAULT_OR(cudaMemcpyAsync(__VA_ARGS__))
#define cudaOccupancyMaxActiveBlocksPerMultiprocessor(...) \
  MMCI_FAULT_OR(cudaOccupancyMaxActiveBlocksPerMultiprocessor(__VA_ARGS__))
#define cudaOccupancyMaxActiveClusters(...) \
  MMCI_FAULT_OR(cudaOccupancyMaxActiveClusters(__VA_ARGS__))
#define cudaPointerGetAttributes(...) MMCI_FAULT_OR(cudaPointerGetAttributes(__VA_ARGS__))
#define cudaRuntimeGetVersion(...) MMCI_FAULT_OR(cudaRuntimeGetVersion(__VA_ARGS__))
#define cudaSetDevice(...) MMCI_FAULT_OR(cudaSetDevice(__VA_ARGS__))
#define cudaStreamBeginCapture(...) MMCI_FAULT_OR(cudaStreamBeginCapture(__VA_ARGS__))
#define cudaStreamCreateWithFlags(...) MMCI_FAULT_OR(cudaStreamCreateWithFlags(__VA_ARGS__))
#define cudaStreamIsCapturing(...) MMCI_FAULT_OR(cudaStreamIsCapturing(__VA_ARGS__))
#define cudaStreamSynchronize(...) MMCI_FAULT_OR(cudaStreamSynchronize(__VA_ARGS__))
#define cudaStreamWaitEvent(...) MMCI_FAULT_OR(cudaStreamWaitEvent(__VA_ARGS__))
#define cudaEventDestroy(...) MMCI_FAULT_AFTER(cudaEventDestroy(__VA_ARGS__))
#define cudaFree(...) MMCI_FAULT_AFTER(cudaFree(__VA_ARGS__))
#define cudaFreeHost(...) MMCI_FAULT_AFTER(cudaFreeHost(__VA_ARGS__))
#define cudaGraphDestroy(...) MMCI_FAULT_AFTER(cudaGraphDestroy(__VA_ARGS__))
#define cudaGraphExecDestroy(...) MMCI_FAULT_AFTER(cudaGraphExecDestroy(__VA_ARGS__))
#define cudaStreamDestroy(...) MMCI_FAULT_AFTER(cudaStreamDestroy(__VA_ARGS__))
#define cudaStreamEndCapture(...) MMCI_FAULT_AFTER(cudaStreamEndCapture(__VA_ARGS__))
#define MMCI_CUBLAS_CALL(call) (mmci_fault() ? CUBLAS_STATUS_INTERNAL_ERROR : (call))
#define MMCI_CUSOLVER_CALL(call) (mmci_fault() ? CUSOLVER_STATUS_INTERNAL_ERROR : (call))
#define mmci_alloc_zeroed(...) (mmci_fault() ? NULL : mmci_alloc_zeroed(__VA_ARGS__))
#define pthread_create(...) (mmci_fault() ? 1 : pthread_create(__VA_ARGS__))

#endif

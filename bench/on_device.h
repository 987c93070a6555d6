/* on_device.h: what bench_fused and bench_small share: the module of CUDA with a stream, cuBLAS,
 * which is their peer, NVML's counter of joules, and normal numbers. What fails ends the program.
 */
#ifndef MMC_BENCH_ON_DEVICE_H
#define MMC_BENCH_ON_DEVICE_H

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/device.h"
#include "inside.h"

static const mmci_device_ops *ops;
static mmci_device *device;
static mmci_queue *queue;
static cudaStream_t stream;
static cudaEvent_t begin, end;
static cublasHandle_t cublas;
static void *cublas_library;

/* NVML's counter of a device, NULL before open_nvml(). */
static int (*nvml_energy)(void *device, unsigned long long *millijoules);
static void *nvml_device;

static void stop(const char *what, const char *why) {
  fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
  exit(1);
}

static void try(cudaError_t code, const char *what) {
  if (code != cudaSuccess) stop(what, cudaGetErrorString(code));
}

static void *find(void *library, const char *name) {
  void *symbol = library != NULL ? dlsym(library, name) : NULL;
  if (symbol == NULL) stop(name, "not found");
  return symbol;
}

/* Opens device 0 of a module, a queue and events on a stream, and a handle of cuBLAS there. */
static void open_all(const char *module) {
  mmci_error error = {0};
  mmci_module_entry_fn entry;
  __typeof__(&cublasCreate_v2) create;
  __typeof__(&cublasSetStream_v2) set_stream;
  *(void **)&entry = find(dlopen(module, RTLD_NOW | RTLD_LOCAL), "mmci_module_entry");
  ops = entry();
  check(ops->open(0, &device, &error), &error);
  check(ops->queue_open(device, &queue, &error), &error);
  try(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  try(cudaEventCreate(&begin), "event");
  try(cudaEventCreate(&end), "event");
  ops->async->queue_attach(queue, stream);
  cublas_library = dlopen("libcublas.so.13", RTLD_NOW);
  if (cublas_library == NULL) cublas_library = dlopen("libcublas.so.12", RTLD_NOW);
  *(void **)&create = find(cublas_library, "cublasCreate_v2");
  *(void **)&set_stream = find(cublas_library, "cublasSetStream_v2");
  if (create(&cublas) != CUBLAS_STATUS_SUCCESS || set_stream(cublas, stream) != 0)
    stop("cuBLAS", "no handle");
}

static void open_nvml(void) {
  void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  int (*init)(void), (*by_index)(unsigned, void **);
  *(void **)&init = find(library, "nvmlInit_v2");
  *(void **)&by_index = find(library, "nvmlDeviceGetHandleByIndex_v2");
  *(void **)&nvml_energy = find(library, "nvmlDeviceGetTotalEnergyConsumption");
  if (init() != 0 || by_index(0, &nvml_device) != 0) stop("NVML", "no device");
}

/* Returns a number that is nearly standard normal. */
static double normal(uint64_t *state) {
  double sum = -6;
  for (int i = 0; i < 12; i++) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    sum += (double)(*state >> 11) * 0x1p-53;
  }
  return sum;
}

#endif

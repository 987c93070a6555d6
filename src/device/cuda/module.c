/* module.c: the CUDA module, mmchain-cuda.so, as the registry sees it.
 *
 * The runtime is linked statically and finds the driver when it runs, so the module loads on a
 * machine without either, and probe says what is missing. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_order.h"
#include "device/device.h"

/* The oldest chips that the kernels are compiled for: Ampere. */
enum { COMPUTE_CAPABILITY_MIN = 8 };

struct mmci_device {
  int index;
  int driver, runtime; /* versions: 1000 * major + 10 * minor */
  struct cudaDeviceProp properties;
};

static mmc_status probe(int *count, mmci_error *error) {
  *count = 0;
  int found = 0, driver = 0;
  cudaError_t code = cudaGetDeviceCount(&found);
  if (code == cudaSuccess && found > 0) {
    *count = found;
    return MMC_OK;
  }
  (void)cudaGetLastError();
  if (code == cudaErrorInsufficientDriver || code == cudaErrorStubLibrary) {
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
      mmci_fail(error, MMC_E_UNSUPPORTED, "no CUDA driver: install the NVIDIA driver");
    else
      mmci_fail(error, MMC_E_UNSUPPORTED,
                "the NVIDIA driver knows CUDA %d.%d and this needs %d.%d: update the driver",
                driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                CUDART_VERSION % 1000 / 10);
  } else if (code == cudaSuccess || code == cudaErrorNoDevice) {
    mmci_fail(error, MMC_E_UNSUPPORTED,
              "no CUDA device: the NVIDIA driver shows none (is CUDA_VISIBLE_DEVICES set?)");
  } else {
    mmci_fail(error, MMC_E_UNSUPPORTED, "no CUDA device: %s", cudaGetErrorString(code));
  }
  return MMC_OK;
}

static mmc_status read_facts(mmci_device *device, mmci_error *error) {
  MMCI_CUDA_TRY(cudaDriverGetVersion(&device->driver));
  MMCI_CUDA_TRY(cudaRuntimeGetVersion(&device->runtime));
  MMCI_CUDA_TRY(cudaGetDeviceProperties(&device->properties, device->index));
  if (device->properties.major >= COMPUTE_CAPABILITY_MIN) return MMC_OK;
  return mmci_fail(error, MMC_E_UNSUPPORTED,
                   "%s has compute capability %d.%d; the kernels need %d.0 or later",
                   device->properties.name, device->properties.major, device->properties.minor,
                   COMPUTE_CAPABILITY_MIN);
}

static mmc_status open_device(int index, mmci_device **out, mmci_error *error) {
  mmci_device *device = mmci_alloc_zeroed(1, sizeof *device);
  if (device == NULL) return mmci_fail_nomem(error, sizeof *device);
  device->index = index;
  mmc_status status = read_facts(device, error);
  if (status == MMC_OK)
    *out = device;
  else
    free(device);
  return status;
}

static void close_device(mmci_device *device) {
  free(device);
}

static void describe(const mmci_device *device, char *text, size_t size) {
  const struct cudaDeviceProp *facts = &device->properties;
  uint64_t tenths = (uint64_t)facts->totalGlobalMem / ((uint64_t)1 << 30) * 10 +
                    (uint64_t)facts->totalGlobalMem % ((uint64_t)1 << 30) * 10 / (1 << 30);
  snprintf(text, size,
           "%s, %" PRIu64 ".%" PRIu64
           " GiB, %d SMs, compute capability %d.%d, driver for CUDA "
           "%d.%d, runtime %d.%d",
           facts->name, tenths / 10, tenths % 10, facts->multiProcessorCount, facts->major,
           facts->minor, device->driver / 1000, device->driver % 1000 / 10, device->runtime / 1000,
           device->runtime % 1000 / 10);
}

static void identify(const mmci_device *device, mmci_identity *out) {
  *out = (mmci_identity){0};
  const struct cudaDeviceProp *facts = &device->properties;
  snprintf(out->model, sizeof out->model, "%.100s, %d SMs", facts->name,
           facts->multiProcessorCount);
  snprintf(out->driver, sizeof out->driver, "CUDA %d.%d, runtime %d.%d", device->driver / 1000,
           device->driver % 1000 / 10, device->runtime / 1000, device->runtime % 1000 / 10);
}

/* ---- the ordering problem -------------------------------------------------------------------- */

typedef mmc_status (*solve_fn)(mmci_device_order *order, mmci_error *error);

static const struct {
  const char *name;
  solve_fn solve;
} KERNELS[] = {
    {"auto", mmci_cuda_order_tiled},   {"tiled", mmci_cuda_order_tiled},
    {"thread", mmci_cuda_order_paper}, {"block", mmci_cuda_order_paper},
    {"blocks", mmci_cuda_order_paper}, {"paper", mmci_cuda_order_paper},
};

static mmc_status solve(const mmci_device *device, mmci_device_order *order, solve_fn solver,
                        mmci_error *error) {
  /* The caller's program may use another device on this thread. */
  int before = 0;
  MMCI_CUDA_TRY(cudaGetDevice(&before));
  MMCI_CUDA_TRY(cudaSetDevice(device->index));
  mmc_status status = solver(order, error);
  cudaError_t code = cudaSetDevice(before);
  return status != MMC_OK ? status : mmci_cuda_check(code, "cudaSetDevice", error);
}

static mmc_status order_chain(mmci_device *device, mmci_device_order *order, mmci_error *error) {
  if (order->kernel == NULL) order->kernel = "auto";
  for (size_t k = 0; k < sizeof KERNELS / sizeof *KERNELS; k++)
    if (strcmp(order->kernel, KERNELS[k].name) == 0)
      return solve(device, order, KERNELS[k].solve, error);
  return mmci_fail(error, MMC_E_ARG,
                   "no kernel %s on device cuda: there are auto, tiled, thread, block, blocks and "
                   "paper",
                   order->kernel);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const mmci_device_ops OPS = {
    .abi = MMCI_DEVICE_ABI,
    .size = sizeof(mmci_device_ops),
    .name = "cuda",
    .probe = probe,
    .open = open_device,
    .close = close_device,
    .describe = describe,
    .identify = identify,
    .order = order_chain,
};

MMC_API const mmci_device_ops *mmci_module_entry(void);
const mmci_device_ops *mmci_module_entry(void) {
  return &OPS;
}

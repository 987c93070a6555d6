/* module.c: the CUDA module, mmchain-cuda.so, as the registry sees it.
 *
 * The runtime is linked statically and finds the driver when it runs, and cuBLAS is looked for when
 * a product is asked for, so the module loads on a machine without any of them, and says what is
 * missing. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "device/cuda/architectures.h"
#include "device/cuda/better.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_kernels.h"
#include "device/cuda/facts.h"
#include "device/cuda/model.h"
#include "device/cuda/order/cuda_order.h"

/* Kernels are compiled for chips from Ampere on. */
enum { COMPUTE_CAPABILITY_MIN = 8 };

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
  const struct cudaDeviceProp *facts = &device->properties;
  if (facts->major < COMPUTE_CAPABILITY_MIN)
    return mmci_fail(error, MMC_E_UNSUPPORTED,
                     "%s has compute capability %d.%d; the kernels need %d.0 or later", facts->name,
                     facts->major, facts->minor, COMPUTE_CAPABILITY_MIN);
  if (mmci_cuda_has_code(MMCI_CUDA_ARCHITECTURES, facts->major, facts->minor)) return MMC_OK;
  return mmci_fail(error, MMC_E_UNSUPPORTED,
                   "%s has compute capability %d.%d; this module was compiled for %s: build it on "
                   "this machine, or with MMC_CUDA_PACKAGE=ON",
                   facts->name, facts->major, facts->minor, MMCI_CUDA_ARCHITECTURES);
}

static mmc_status open_device(int index, mmci_device **out, mmci_error *error) {
  mmci_device *device = mmci_alloc_zeroed(1, sizeof *device);
  if (device == NULL) return mmci_fail_nomem(error, sizeof *device);
  device->index = index;
  mmc_status status = read_facts(device, error);
  if (status == MMC_OK && pthread_mutex_init(&device->lock, NULL) != 0)
    status = mmci_fail(error, MMC_E_NOMEM, "pthread_mutex_init: no more mutexes");
  if (status == MMC_OK)
    *out = device;
  else
    free(device);
  return status;
}

static void close_device(mmci_device *device) {
  if (device == NULL) return;
  /* Only what was used of the runtime has to be released, so that opening alone starts nothing. */
  if (device->cublas != NULL || device->cusolver != NULL || device->ring != NULL) {
    MMCI_CUDA_ON_ANYHOW(device);
    mmci_cuda_ring_destroy(device->ring);
    mmci_cublas_unload(device->cublas);
    mmci_cusolver_unload(device->cusolver);
  }
  pthread_mutex_destroy(&device->lock);
  free(device);
}

static void describe(const mmci_device *device, char *text, size_t size) {
  const struct cudaDeviceProp *facts = &device->properties;
  uint64_t tenths = (uint64_t)facts->totalGlobalMem / ((uint64_t)1 << 30) * 10 +
                    (uint64_t)facts->totalGlobalMem % ((uint64_t)1 << 30) * 10 / (1 << 30);
  char cublas[64] = "no cuBLAS (install libcublas)";
  int version[3];
  if (mmci_cublas_version(version))
    snprintf(cublas, sizeof cublas, "cuBLAS %d.%d.%d", version[0], version[1], version[2]);
  snprintf(text, size,
           "%s, %" PRIu64 ".%" PRIu64
           " GiB, %d SMs, compute capability %d.%d, driver for CUDA "
           "%d.%d, runtime %d.%d, %s, module %d.%d.%d",
           facts->name, tenths / 10, tenths % 10, facts->multiProcessorCount, facts->major,
           facts->minor, device->driver / 1000, device->driver % 1000 / 10, device->runtime / 1000,
           device->runtime % 1000 / 10, cublas, MMC_VERSION_MAJOR, MMC_VERSION_MINOR,
           MMC_VERSION_PATCH);
}

static void identify(const mmci_device *device, mmci_identity *out) {
  *out = (mmci_identity){0};
  const struct cudaDeviceProp *facts = &device->properties;
  snprintf(out->model, sizeof out->model, "%.100s, %d SMs", facts->name,
           facts->multiProcessorCount);
  snprintf(out->driver, sizeof out->driver, "CUDA %d.%d, runtime %d.%d", device->driver / 1000,
           device->driver % 1000 / 10, device->runtime / 1000, device->runtime % 1000 / 10);
  int version[3];
  if (mmci_cublas_version(version))
    snprintf(out->blas, sizeof out->blas, "cuBLAS %d.%d.%d", version[0], version[1], version[2]);
  if (cudaDeviceGetPCIBusId(out->bus_id, sizeof out->bus_id, device->index) != cudaSuccess)
    out->bus_id[0] = '\0';
}

static double product_seconds(const void *user, const mmci_gemm *gemm) {
  return mmci_cuda_product_seconds(user, gemm);
}

static bool product_better(const void *user, const mmci_gemm *gemm, double least_s,
                           mmci_better *out) {
  return mmci_cuda_product_better(user, gemm, least_s, out);
}

/* Tells facts; the model has the arithmetic of a dtype, and of faster ones TF32 alone. */
static void facts(const mmci_device *device, mmc_dtype dtype, mmci_precision precision,
                  mmci_facts *out) {
  *out = mmci_cuda_facts_of(device->properties.multiProcessorCount, dtype, precision);
  if (mmci_dtype_is_integer(dtype)) return;
  const mmci_cuda_model *model = mmci_cuda_model_of(device->properties.name);
  const bool tf32 = dtype == MMC_F32 && precision == MMCI_FAST;
  const double error = mmci_cuda_model_product_error(model, dtype),
               tf32_error = mmci_cuda_tf32_error(device->properties.name);
  out->model = (mmci_model){.user = device,
                            .seconds = product_seconds,
                            .better = product_better,
                            .error = tf32 ? fmax(error, tf32_error) : error,
                            .group_error = mmci_cuda_model_group_error(model, dtype),
                            .source = model->source};
  out->variant_name = mmci_cuda_variant_name;
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

static mmc_status order_chain(mmci_device *device, mmci_device_order *order, mmci_error *error) {
  MMCI_CUDA_ON(device);
  if (order->kernel == NULL) order->kernel = "auto";
  for (size_t k = 0; k < sizeof KERNELS / sizeof *KERNELS; k++)
    if (strcmp(order->kernel, KERNELS[k].name) == 0) return KERNELS[k].solve(order, error);
  return mmci_fail_argument(error, MMC_E_ARG, "kernel",
                            "expected auto, tiled, thread, block, blocks or paper, got '%s'",
                            order->kernel);
}

static mmc_status enqueue_nodes(mmci_queue *queue, mmc_dtype dtype, int side,
                                const mmci_tree_node *nodes, int64_t count, int64_t batch,
                                bool back, mmci_error *error) {
  MMCI_CUDA_ON(queue->device);
  return mmci_cuda_nodes(queue->stream, dtype, side, nodes, count, batch, back, error);
}

static bool has_clusters(const mmci_device *device) {
  return device->properties.major >= 9;
}

static bool supports_climb(const mmci_device *device, mmc_dtype dtype, int64_t side) {
  return mmci_cuda_climbs(dtype, has_clusters(device), side);
}

static mmc_status enqueue_climb(mmci_queue *queue, mmc_dtype dtype, const mmci_climb *climb,
                                int64_t batch, mmci_error *error) {
  MMCI_CUDA_ON(queue->device);
  return mmci_cuda_climb(queue->stream, dtype, has_clusters(queue->device), climb, batch, error);
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
    .facts = facts,
    .supports = mmci_cuda_supports,
    .variants = mmci_cuda_variants,
    .kernel_name = mmci_cuda_kernel_name,
    .prepare = mmci_cuda_prepare,
    .release = mmci_cuda_release,
    .scratch_bytes = mmci_cuda_scratch_bytes,
    .queue_open = mmci_cuda_queue_open,
    .queue_close = mmci_cuda_queue_close,
    .enqueue = mmci_cuda_enqueue,
    .sync = mmci_cuda_sync,
    .kernel_facts = mmci_cuda_kernel_facts,
    .group_seconds = mmci_cuda_chain_seconds,
    .group_share = mmci_cuda_chain_share,
    .group_supports = mmci_cuda_chain_supports,
    .group_name = mmci_cuda_chain_name,
    .group_prepare = mmci_cuda_chain_prepare,
    .group_release = mmci_cuda_chain_release,
    .group_enqueue = mmci_cuda_chain_enqueue,
    .structured_lacks = mmci_cuda_structured_lacks,
    .structured_check = mmci_cuda_structured_check,
    .structured_prepare = mmci_cuda_structured_prepare,
    .structured_enqueue = mmci_cuda_structured_enqueue,
    .structured_release = mmci_cuda_structured_release,
    .alloc = mmci_cuda_alloc,
    .dealloc = mmci_cuda_dealloc,
    .async = &mmci_cuda_async,
    .order = order_chain,
    .error_bound = mmci_cuda_error_bound,
    .share = mmci_cuda_share,
    .scan_supports = mmci_cuda_scan_supports,
    .scan_prepare = mmci_cuda_scan_prepare,
    .scan_release = mmci_cuda_scan_release,
    .scan_facts = mmci_cuda_scan_facts,
    .scan_enqueue = mmci_cuda_scan_enqueue,
    .nodes_enqueue = enqueue_nodes,
    .climb_supports = supports_climb,
    .climb_enqueue = enqueue_climb,
};

MMC_API const mmci_device_ops *mmci_module_entry(void);
const mmci_device_ops *mmci_module_entry(void) {
  return &OPS;
}

/* cuda_device.h: what the files of the CUDA module share.
 *
 * Every slot of device.h begins with MMCI_CUDA_ON: the calling thread's current device is ours
 * until the function returns, however it returns, and then again the caller's. */
#ifndef MMCI_CUDA_DEVICE_H
#define MMCI_CUDA_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "device/cuda/cublas.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/element_bytes.h"
#include "device/cuda/product/in_order.h"
#include "device/cuda/structured/cusolver.h"
#include "device/device.h"

typedef struct mmci_ring mmci_ring;

struct mmci_device {
  int index;
  int driver, runtime; /* versions, 1000 * major + 10 * minor each */
  struct cudaDeviceProp properties;
  /* These are made when first asked for, or written, under the lock. */
  pthread_mutex_t lock;
  mmci_cublas *cublas;
  mmci_cusolver *cusolver;
  mmci_ring *ring;
  mmci_in_order_known in_order;
};

struct mmci_queue {
  mmci_device *device;
  const mmci_cublas *cublas;
  cudaStream_t own, stream; /* stream is where the work goes, its own or the caller's */
  cublasHandle_t handle;
  bool handle_elsewhere; /* the handle still works on another stream */
  bool has_products;     /* products or groups were enqueued */
  void *workspace;       /* workspace of all products, which are computed one after another */
  size_t workspace_bytes;
  /* What products with structure take, made when first asked for. */
  const mmci_cusolver *cusolver;
  cusolverDnHandle_t solver;
  cusolverDnParams_t solver_params;
  mmci_event *pivot_known; /* while a product with structure is enqueued: not recorded yet */
  void *room, *host_room;
  size_t room_bytes, host_room_bytes;
  atomic_int downloads; /* downloads that are in the ring, on their way to the host's memory */
  atomic_bool lost;     /* a download failed where nobody could be told */
};

struct mmci_event {
  mmci_device *device;
  cudaEvent_t event;
};

struct mmci_graph {
  mmci_device *device;
  cudaGraphExec_t graph;
};

/* ---- the current device ---------------------------------------------------------------------- */

typedef struct mmci_cuda_scope {
  int ours, callers;
  mmc_status status;
} mmci_cuda_scope;

static inline mmci_cuda_scope mmci_cuda_enter(const mmci_device *device, mmci_error *error) {
  mmci_cuda_scope scope = {device->index, device->index, MMC_OK};
  scope.status = mmci_cuda_check(cudaGetDevice(&scope.callers), "cudaGetDevice", error);
  if (scope.status != MMC_OK) {
    scope.callers = scope.ours;
  } else if (scope.callers != scope.ours) {
    scope.status = mmci_cuda_check(cudaSetDevice(scope.ours), "cudaSetDevice", error);
  }
  return scope;
}

static inline void mmci_cuda_leave(const mmci_cuda_scope *scope) {
  if (scope->callers != scope->ours && cudaSetDevice(scope->callers) != cudaSuccess)
    (void)cudaGetLastError();
}

#define MMCI_CUDA_SCOPE(device, error)                                              \
  __attribute__((cleanup(mmci_cuda_leave))) const mmci_cuda_scope scope_of_device = \
      mmci_cuda_enter((device), (error))

/* Is the first statement of a function that returns mmc_status and has an error in scope. */
#define MMCI_CUDA_ON(device)        \
  MMCI_CUDA_SCOPE((device), error); \
  if (scope_of_device.status != MMC_OK) return scope_of_device.status

/* A function that destroys something begins with this statement. */
#define MMCI_CUDA_ON_ANYHOW(device) \
  MMCI_CUDA_SCOPE((device), NULL);  \
  (void)scope_of_device

/* Ignores a failure that changes nothing; the runtime forgets it. */
static inline void mmci_cuda_ignore(cudaError_t code) {
  if (code != cudaSuccess) (void)cudaGetLastError();
}

/* ---- product.c, way.c, price.c --------------------------------------------------------------- */

bool mmci_cuda_supports(const mmci_device *device, const mmci_gemm *gemm);
int mmci_cuda_variants(mmci_device *device, const mmci_gemm *gemm);
const char *mmci_cuda_variant_name(mmc_dtype dtype, int variant);
const char *mmci_cuda_kernel_name(const mmci_device *device, const mmci_gemm *gemm);
double mmci_cuda_error_bound(const mmci_device *device, const mmci_gemm *gemm);
bool mmci_cuda_share(mmci_kernel *kernel, int which, const mmci_kernel *from, int of);
double mmci_cuda_product_seconds(const mmci_device *device, const mmci_gemm *gemm);
bool mmci_cuda_product_better(const mmci_device *device, const mmci_gemm *gemm, double least_s,
                              mmci_better *out);
mmc_status mmci_cuda_prepare(mmci_device *device, const mmci_gemm *gemm, mmci_kernel **out,
                             mmci_error *error);
void mmci_cuda_release(mmci_kernel *kernel);
uint64_t mmci_cuda_scratch_bytes(const mmci_device *device, const mmci_gemm *gemm);
mmc_status mmci_cuda_enqueue(mmci_queue *queue, const mmci_kernel *kernel, const void *a,
                             const void *b, void *c, mmci_error *error);

/* Loads device->cublas when it is not loaded yet; the device is the current one. */
mmc_status mmci_cuda_find_cublas(mmci_device *device, mmci_error *error);
/* Returns the bytes of workspace that a queue offers to products. */
size_t mmci_cuda_workspace_bytes(const mmci_device *device);

/* ---- group.c --------------------------------------------------------------------------------- */

bool mmci_cuda_chain_supports(const mmci_device *device, const mmci_group *chain);
const char *mmci_cuda_chain_name(const mmci_device *device, const mmci_group *chain);
double mmci_cuda_chain_seconds(const mmci_device *device, const mmci_group *chain, double *error);
bool mmci_cuda_chain_share(const mmci_device *device, const mmci_group *chain,
                           mmci_group_share *out);
mmc_status mmci_cuda_chain_prepare(mmci_device *device, const mmci_group *chain,
                                   mmci_group_kernel **out, mmci_error *error);
void mmci_cuda_chain_release(mmci_group_kernel *kernel);
mmc_status mmci_cuda_chain_enqueue(mmci_queue *queue, const mmci_group_kernel *kernel,
                                   const void *const *operands, void *c, mmci_error *error);

/* ---- structured/structured.c ----------------------------------------------------------------- */

uint32_t mmci_cuda_structured_lacks(const mmci_device *device, mmc_dtype dtype);
mmc_status mmci_cuda_structured_check(mmci_device *device, const mmci_structured *ask,
                                      mmci_error *error);
mmc_status mmci_cuda_structured_prepare(mmci_device *device, const mmci_structured *product,
                                        mmci_structured_kernel **out, mmci_error *error);
mmc_status mmci_cuda_structured_enqueue(mmci_queue *queue, const mmci_structured_kernel *kernel,
                                        void *z, void *s, const void *b, int32_t *pivot,
                                        mmci_event *known, mmci_error *error);
void mmci_cuda_structured_release(mmci_structured_kernel *kernel);

/* ---- scan/cuda_scan.c ------------------------------------------------------------------------ */

bool mmci_cuda_scan_supports(const mmci_device *device, const mmci_scan *scan);
mmc_status mmci_cuda_scan_prepare(mmci_device *device, const mmci_scan *scan,
                                  mmci_scan_kernel **out, mmci_error *error);
void mmci_cuda_scan_release(mmci_scan_kernel *kernel);
void mmci_cuda_scan_facts(const mmci_scan_kernel *kernel, mmci_scan_facts *out);
mmc_status mmci_cuda_scan_enqueue(mmci_queue *queue, const mmci_scan_kernel *kernel,
                                  const mmci_scan_places *places, mmci_error *error);

/* ---- kernel_facts.c -------------------------------------------------------------------------- */

mmc_status mmci_cuda_kernel_facts(mmci_device *device, const mmci_gemm *gemm,
                                  mmci_kernel_facts *out, mmci_error *error);

/* ---- queue.c --------------------------------------------------------------------------------- */

mmc_status mmci_cuda_queue_open(mmci_device *device, mmci_queue **out, mmci_error *error);
void mmci_cuda_queue_close(mmci_queue *queue);
mmc_status mmci_cuda_sync(mmci_queue *queue, mmci_error *error);
/* Makes the queue's cuBLAS handle work on the queue's stream. */
mmc_status mmci_cuda_bind_handle(mmci_queue *queue, mmci_error *error);
mmc_status mmci_cuda_alloc(mmci_device *device, size_t size_bytes, void **out, mmci_error *error);
void mmci_cuda_dealloc(mmci_device *device, void *memory);

extern const mmci_device_async mmci_cuda_async;

/* ---- transfers.c ----------------------------------------------------------------------------- */

mmc_status mmci_cuda_upload(mmci_queue *queue, const mmci_transfer *transfer, mmci_error *error);
mmc_status mmci_cuda_download(mmci_queue *queue, const mmci_transfer *transfer, mmci_error *error);
/* Waits for the queue's downloads only. */
mmc_status mmci_cuda_drain(mmci_queue *queue, mmci_error *error);
void mmci_cuda_ring_destroy(mmci_ring *ring);

#endif

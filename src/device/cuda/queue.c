/* queue.c: streams, memory, events and graphs of a CUDA device. */
#include "base/alloc.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_kernels.h"

/* So many products that are too small for the whole chip run beside each other. */
enum { QUEUES = 4 };

/* ---- queues ---------------------------------------------------------------------------------- */

mmc_status mmci_cuda_bind_handle(mmci_queue *queue, mmci_error *error) {
  if (!queue->handle_elsewhere) return MMC_OK;
  MMCI_CUBLAS_TRY(queue->cublas, cublasSetStream_v2, (queue->handle, queue->stream));
  /* On a new stream cuBLAS goes back to a workspace of its own. */
  MMCI_CUBLAS_TRY(queue->cublas, cublasSetWorkspace_v2,
                  (queue->handle, queue->workspace, queue->workspace_bytes));
  queue->handle_elsewhere = false;
  return MMC_OK;
}

/* Takes what a queue needs; after a failure, what was taken is still there. */
static mmc_status fill_queue(mmci_queue *queue, mmci_error *error) {
  mmci_device *device = queue->device;
  mmc_status status = mmci_cuda_find_cublas(device, error);
  if (status != MMC_OK) return status;
  queue->cublas = device->cublas;
  queue->workspace_bytes = mmci_cuda_workspace_bytes(device);
  MMCI_CUDA_TRY(cudaStreamCreateWithFlags(&queue->own, cudaStreamNonBlocking));
  MMCI_CUDA_TRY(cudaMalloc(&queue->workspace, queue->workspace_bytes));
  MMCI_CUBLAS_TRY(queue->cublas, cublasCreate_v2, (&queue->handle));
  /* Partial sums of 16-bit types stay in f32. */
  MMCI_CUBLAS_TRY(
      queue->cublas, cublasSetMathMode,
      (queue->handle, (cublasMath_t)((int)CUBLAS_DEFAULT_MATH |
                                     (int)CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
  queue->stream = queue->own;
  queue->handle_elsewhere = true;
  return mmci_cuda_bind_handle(queue, error);
}

mmc_status mmci_cuda_queue_open(mmci_device *device, mmci_queue **out, mmci_error *error) {
  MMCI_CUDA_ON(device);
  mmci_queue *queue = mmci_alloc_zeroed(1, sizeof *queue);
  if (queue == NULL) return mmci_fail_nomem(error, sizeof *queue);
  queue->device = device;
  mmc_status status = fill_queue(queue, error);
  if (status == MMC_OK)
    *out = queue;
  else
    mmci_cuda_queue_close(queue);
  return status;
}

void mmci_cuda_queue_close(mmci_queue *queue) {
  if (queue == NULL) return;
  MMCI_CUDA_ON_ANYHOW(queue->device);
  if (queue->own != NULL) {
    (void)mmci_cuda_drain(queue, NULL);
    mmci_cuda_ignore(cudaStreamSynchronize(queue->stream));
    mmci_cuda_ignore(cudaStreamSynchronize(queue->own));
  }
  if (queue->handle != NULL) (void)queue->cublas->cublasDestroy_v2(queue->handle);
  if (queue->solver_params != NULL)
    (void)queue->cusolver->cusolverDnDestroyParams(queue->solver_params);
  if (queue->solver != NULL) (void)queue->cusolver->cusolverDnDestroy(queue->solver);
  if (queue->room != NULL) mmci_cuda_ignore(cudaFree(queue->room));
  free(queue->host_room);
  if (queue->workspace != NULL) mmci_cuda_ignore(cudaFree(queue->workspace));
  if (queue->own != NULL) mmci_cuda_ignore(cudaStreamDestroy(queue->own));
  free(queue);
}

static void stand_for(mmci_queue *queue, cudaStream_t stream) {
  if (queue->stream == stream) return;
  queue->stream = stream;
  queue->handle_elsewhere = true;
}

static void queue_attach(mmci_queue *queue, void *stream) {
  stand_for(queue, (cudaStream_t)stream);
}

static void queue_detach(mmci_queue *queue) {
  stand_for(queue, queue->own);
}

mmc_status mmci_cuda_sync(mmci_queue *queue, mmci_error *error) {
  MMCI_CUDA_ON(queue->device);
  mmc_status status = mmci_cuda_drain(queue, error);
  mmc_status waited = mmci_cuda_check(cudaStreamSynchronize(queue->stream), "cudaStreamSynchronize",
                                      status == MMC_OK ? error : NULL);
  if (atomic_exchange(&queue->lost, false) && status == MMC_OK && waited == MMC_OK)
    return mmci_fail(error, MMC_E_DEVICE, "a download did not reach the host's memory");
  return status != MMC_OK ? status : waited;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static mmc_status memory(mmci_device *device, uint64_t *free_bytes, uint64_t *total_bytes,
                         mmci_error *error) {
  size_t free_now = 0, total = 0;
  MMCI_CUDA_ON(device);
  MMCI_CUDA_TRY(cudaMemGetInfo(&free_now, &total));
  *free_bytes = free_now;
  *total_bytes = total;
  return MMC_OK;
}

mmc_status mmci_cuda_alloc(mmci_device *device, size_t size_bytes, void **out, mmci_error *error) {
  void *memory = NULL;
  MMCI_CUDA_ON(device);
  cudaError_t code = cudaMalloc(&memory, size_bytes > 0 ? size_bytes : 1);
  mmc_status status = mmci_cuda_check(code, "cudaMalloc", error);
  if (status == MMC_E_NOMEM)
    return mmci_fail(error, status, "%s has no %zu bytes of memory free", device->properties.name,
                     size_bytes);
  if (status == MMC_OK) *out = memory;
  return status;
}

void mmci_cuda_dealloc(mmci_device *device, void *memory) {
  if (memory == NULL) return;
  MMCI_CUDA_ON_ANYHOW(device);
  mmci_cuda_ignore(cudaFree(memory));
}

static mmc_status alloc_pinned(mmci_device *device, size_t size_bytes, void **out,
                               mmci_error *error) {
  void *memory = NULL;
  MMCI_CUDA_ON(device);
  MMCI_CUDA_TRY(cudaHostAlloc(&memory, size_bytes > 0 ? size_bytes : 1, cudaHostAllocPortable));
  *out = memory;
  return MMC_OK;
}

static void dealloc_pinned(mmci_device *device, void *memory) {
  if (memory == NULL) return;
  MMCI_CUDA_ON_ANYHOW(device);
  mmci_cuda_ignore(cudaFreeHost(memory));
}

static mmc_status copy(mmci_queue *queue, mmc_dtype dtype, int64_t rows, int64_t cols,
                       const void *from, const mmci_form *form, void *to, int64_t to_ld,
                       bool to_trans, mmci_error *error) {
  const bool turned = form->conj && (dtype == MMC_C64 || dtype == MMC_C128);
  /* Truths become 0 or 1. */
  const bool same = form->trans == to_trans && !turned && dtype != MMC_BOOL;
  const size_t bytes = mmci_cuda_element_bytes(dtype),
               pitch_max = queue->device->properties.memPitch;
  const size_t lines = (size_t)(to_trans ? cols : rows), length = (size_t)(to_trans ? rows : cols);
  size_t pitch = (size_t)form->ld * bytes, to_pitch = (size_t)to_ld * bytes;
  MMCI_CUDA_ON(queue->device);
  if (lines == 0 || length == 0) return MMC_OK;
  if (lines == 1) pitch = to_pitch = length * bytes;
  if (lines == 1 && same) {
    MMCI_CUDA_TRY(
        cudaMemcpyAsync(to, from, length * bytes, cudaMemcpyDeviceToDevice, queue->stream));
    return MMC_OK;
  }
  if (same && pitch <= pitch_max && to_pitch <= pitch_max) {
    MMCI_CUDA_TRY(cudaMemcpy2DAsync(to, to_pitch, from, pitch, length * bytes, lines,
                                    cudaMemcpyDeviceToDevice, queue->stream));
    return MMC_OK;
  }
  return mmci_cuda_copy_tiles(queue->stream, dtype, rows, cols, from, form, to, to_ld, to_trans,
                              error);
}

static mmc_status resize(mmci_queue *queue, mmc_dtype dtype, const mmci_resizing *matrices,
                         int count, mmci_error *error) {
  MMCI_CUDA_ON(queue->device);
  return mmci_cuda_resize(queue->stream, dtype, matrices, count, error);
}

/* ---- events ---------------------------------------------------------------------------------- */

static mmc_status make_event(mmci_device *device, unsigned flags, mmci_event **out,
                             mmci_error *error) {
  MMCI_CUDA_ON(device);
  mmci_event *event = mmci_alloc_zeroed(1, sizeof *event);
  if (event == NULL) return mmci_fail_nomem(error, sizeof *event);
  event->device = device;
  cudaError_t code = cudaEventCreateWithFlags(&event->event, flags);
  mmc_status status = mmci_cuda_check(code, "cudaEventCreateWithFlags", error);
  if (status == MMC_OK)
    *out = event;
  else
    free(event);
  return status;
}

static mmc_status event_create(mmci_device *device, mmci_event **out, mmci_error *error) {
  return make_event(device, cudaEventDisableTiming, out, error);
}

static mmc_status timed_event_create(mmci_device *device, mmci_event **out, mmci_error *error) {
  return make_event(device, cudaEventDefault, out, error);
}

static mmc_status seconds_between(mmci_event *from, mmci_event *to, double *seconds,
                                  mmci_error *error) {
  float milliseconds = 0;
  MMCI_CUDA_ON(from->device);
  MMCI_CUDA_TRY(cudaEventElapsedTime(&milliseconds, from->event, to->event));
  *seconds = 1e-3 * (double)milliseconds;
  return MMC_OK;
}

static void event_destroy(mmci_event *event) {
  if (event == NULL) return;
  MMCI_CUDA_ON_ANYHOW(event->device);
  mmci_cuda_ignore(cudaEventDestroy(event->event));
  free(event);
}

static mmc_status event_record(mmci_queue *queue, mmci_event *event, mmci_error *error) {
  MMCI_CUDA_ON(queue->device);
  MMCI_CUDA_TRY(cudaEventRecord(event->event, queue->stream));
  return MMC_OK;
}

static mmc_status event_wait(mmci_queue *queue, mmci_event *event, mmci_error *error) {
  MMCI_CUDA_ON(queue->device);
  MMCI_CUDA_TRY(cudaStreamWaitEvent(queue->stream, event->event, 0));
  return MMC_OK;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static mmc_status capture_begin(mmci_queue *queue, mmci_error *error) {
  MMCI_CUDA_ON(queue->device);
  MMCI_CUDA_TRY(cudaStreamBeginCapture(queue->stream, cudaStreamCaptureModeThreadLocal));
  return MMC_OK;
}

static mmc_status instantiate(mmci_device *device, cudaGraph_t recorded, mmci_graph **out,
                              mmci_error *error) {
  mmci_graph *graph = mmci_alloc_zeroed(1, sizeof *graph);
  if (graph == NULL) return mmci_fail_nomem(error, sizeof *graph);
  graph->device = device;
  mmc_status status = mmci_cuda_check(cudaGraphInstantiate(&graph->graph, recorded, 0),
                                      "cudaGraphInstantiate", error);
  if (status == MMC_OK)
    *out = graph;
  else
    free(graph);
  return status;
}

static mmc_status capture_end(mmci_queue *queue, mmci_graph **out, mmci_error *error) {
  cudaGraph_t recorded = NULL;
  MMCI_CUDA_ON(queue->device);
  mmc_status status = mmci_cuda_check(cudaStreamEndCapture(queue->stream, &recorded),
                                      "cudaStreamEndCapture", error);
  if (status == MMC_OK) status = instantiate(queue->device, recorded, out, error);
  if (recorded != NULL) mmci_cuda_ignore(cudaGraphDestroy(recorded));
  return status;
}

static void graph_destroy(mmci_graph *graph) {
  if (graph == NULL) return;
  MMCI_CUDA_ON_ANYHOW(graph->device);
  mmci_cuda_ignore(cudaGraphExecDestroy(graph->graph));
  free(graph);
}

static mmc_status graph_launch(mmci_queue *queue, mmci_graph *graph, mmci_error *error) {
  MMCI_CUDA_ON(queue->device);
  MMCI_CUDA_TRY(cudaGraphLaunch(graph->graph, queue->stream));
  return MMC_OK;
}

/* The default stream cannot be captured. */
static bool is_capturing(mmci_device *device, void *stream) {
  if (stream == NULL) return false;
  enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  MMCI_CUDA_ON_ANYHOW(device);
  cudaError_t code = cudaStreamIsCapturing((cudaStream_t)stream, &capture);
  mmci_cuda_ignore(code);
  return code == cudaSuccess && capture != cudaStreamCaptureStatusNone;
}

/* ---- other devices --------------------------------------------------------------------------- */

/* Bytes per second that copies between two cards are taken to reach: over NVLink, over PCIe, and by
 * way of the host's memory. Only links of the first kind take atomic operations. */
static const double NVLINK_BYTES_PER_S = 300e9, PCIE_BYTES_PER_S = 20e9, HOST_BYTES_PER_S = 8e9;

static mmc_status join(mmci_device *device, mmci_device *other, double *bytes_per_s,
                       mmci_error *error) {
  int direct = 0, atomic = 0;
  MMCI_CUDA_ON(device);
  *bytes_per_s = HOST_BYTES_PER_S;
  if (device->index == other->index) return MMC_OK;
  MMCI_CUDA_TRY(cudaDeviceCanAccessPeer(&direct, device->index, other->index));
  if (direct == 0) return MMC_OK;
  const cudaError_t code = cudaDeviceEnablePeerAccess(other->index, 0);
  mmci_cuda_ignore(code);
  if (code != cudaErrorPeerAccessAlreadyEnabled) MMCI_CUDA_TRY(code);
  MMCI_CUDA_TRY(cudaDeviceGetP2PAttribute(&atomic, cudaDevP2PAttrNativeAtomicSupported,
                                          device->index, other->index));
  *bytes_per_s = atomic != 0 ? NVLINK_BYTES_PER_S : PCIE_BYTES_PER_S;
  return MMC_OK;
}

const mmci_device_async mmci_cuda_async = {
    .queues = QUEUES,
    .memory = memory,
    .alloc_pinned = alloc_pinned,
    .dealloc_pinned = dealloc_pinned,
    .queue_attach = queue_attach,
    .queue_detach = queue_detach,
    .upload = mmci_cuda_upload,
    .download = mmci_cuda_download,
    .copy = copy,
    .resize = resize,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .timer_create = timed_event_create,
    .seconds_between = seconds_between,
    .capture_begin = capture_begin,
    .capture_end = capture_end,
    .graph_destroy = graph_destroy,
    .graph_launch = graph_launch,
    .is_capturing = is_capturing,
    .join = join,
};

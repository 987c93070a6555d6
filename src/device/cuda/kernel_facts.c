/* kernel_facts.c: tells what the kernels of a product take of the chip, cuBLAS's as well as ours:
 * the product is captured into a graph, which is not executed, and the driver is asked about its
 * kernels. */
#include <cudaTypedefs.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/cuda/cuda_device.h"

enum {
  PLACE_BYTES = 256, /* bytes that stand for every operand; nothing is read or written */
  WORD_BYTES = 4,    /* bytes of a register */
  DRIVER_VERSION = 12000
};

/* Functions of the driver, which nothing here is linked with. */
typedef struct driver {
  PFN_cuGraphKernelNodeGetParams_v12000 node_params;
  PFN_cuKernelGetFunction_v12000 kernel_function;
  PFN_cuFuncGetAttribute_v2020 function_attribute;
} driver;

static mmc_status find_symbol(const char *name, void *out, mmci_error *error) {
  enum cudaDriverEntryPointQueryResult found;
  void *entry = NULL;
  MMCI_CUDA_TRY(
      cudaGetDriverEntryPointByVersion(name, &entry, DRIVER_VERSION, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess || entry == NULL)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "the driver has no %s", name);
  memcpy(out, &entry, sizeof entry);
  return MMC_OK;
}

static mmc_status find_driver(driver *out, mmci_error *error) {
  mmc_status status = find_symbol("cuGraphKernelNodeGetParams", &out->node_params, error);
  if (status == MMC_OK) status = find_symbol("cuKernelGetFunction", &out->kernel_function, error);
  if (status == MMC_OK) status = find_symbol("cuFuncGetAttribute", &out->function_attribute, error);
  return status;
}

/* ---- nodes --------------------------------------------------------------------------------- */

static int64_t on_chip_bytes(const mmci_kernel_facts *facts) {
  return WORD_BYTES * facts->registers_per_thread * facts->threads_per_block +
         facts->shared_bytes_per_block;
}

/* Takes the kernel of a node when it is the largest so far. */
static mmc_status read_node(const driver *driver, cudaGraphNode_t node, mmci_kernel_facts *largest,
                            mmci_error *error) {
  enum cudaGraphNodeType type;
  MMCI_CUDA_TRY(cudaGraphNodeGetType(node, &type));
  if (type != cudaGraphNodeTypeKernel) return MMC_OK;
  CUDA_KERNEL_NODE_PARAMS params = {0};
  int registers = 0, shared_bytes = 0;
  CUresult code = driver->node_params(node, &params);
  CUfunction function = params.func;
  if (code == CUDA_SUCCESS && function == NULL)
    code = driver->kernel_function(&function, params.kern);
  if (code == CUDA_SUCCESS)
    code = driver->function_attribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
  if (code == CUDA_SUCCESS)
    code = driver->function_attribute(&shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
  if (code != CUDA_SUCCESS)
    return mmci_fail(error, MMC_E_DEVICE, "a kernel's attributes: error %d of the driver",
                     (int)code);
  const mmci_kernel_facts facts = {
      .registers_per_thread = registers,
      .threads_per_block = (int64_t)params.blockDimX * params.blockDimY * params.blockDimZ,
      .shared_bytes_per_block = shared_bytes + (int64_t)params.sharedMemBytes};
  if (on_chip_bytes(&facts) > on_chip_bytes(largest)) *largest = facts;
  return MMC_OK;
}

static mmc_status read_graph(cudaGraph_t graph, mmci_kernel_facts *out, mmci_error *error) {
  driver driver;
  size_t count = 0;
  mmc_status status = find_driver(&driver, error);
  if (status != MMC_OK) return status;
  MMCI_CUDA_TRY(cudaGraphGetNodes(graph, NULL, &count));
  cudaGraphNode_t *nodes = mmci_alloc_array(count, sizeof(cudaGraphNode_t));
  if (nodes == NULL) return mmci_fail_nomem(error, count * sizeof(cudaGraphNode_t));
  status = mmci_cuda_check(cudaGraphGetNodes(graph, nodes, &count), "cudaGraphGetNodes", error);
  mmci_kernel_facts largest = {0};
  for (size_t i = 0; i < count && status == MMC_OK; i++)
    status = read_node(&driver, nodes[i], &largest, error);
  free(nodes);
  if (status == MMC_OK) *out = largest;
  return status;
}

/* ---- capture ------------------------------------------------------------------------------- */

static mmc_status capture_kernel(mmci_queue *queue, const mmci_kernel *kernel, void *place,
                                 mmci_kernel_facts *out, mmci_error *error) {
  cudaGraph_t graph = NULL;
  /* Kernels may be loaded during the capture, which the stricter modes forbid. */
  MMCI_CUDA_TRY(cudaStreamBeginCapture(queue->stream, cudaStreamCaptureModeRelaxed));
  mmc_status status = mmci_cuda_enqueue(queue, kernel, place, place, place, error);
  mmc_status ended = mmci_cuda_check(cudaStreamEndCapture(queue->stream, &graph),
                                     "cudaStreamEndCapture", status == MMC_OK ? error : NULL);
  if (status == MMC_OK) status = ended;
  if (status == MMC_OK) status = read_graph(graph, out, error);
  if (graph != NULL) mmci_cuda_ignore(cudaGraphDestroy(graph));
  return status;
}

mmc_status mmci_cuda_kernel_facts(mmci_device *device, const mmci_gemm *gemm,
                                  mmci_kernel_facts *out, mmci_error *error) {
  MMCI_CUDA_ON(device);
  mmci_queue *queue = NULL;
  mmci_kernel *kernel = NULL;
  void *place = NULL;
  mmc_status status = mmci_cuda_queue_open(device, &queue, error);
  if (status == MMC_OK) status = mmci_cuda_prepare(device, gemm, &kernel, error);
  if (status == MMC_OK)
    status = mmci_cuda_check(cudaMalloc(&place, PLACE_BYTES), "cudaMalloc", error);
  if (status == MMC_OK) status = capture_kernel(queue, kernel, place, out, error);
  if (place != NULL) mmci_cuda_ignore(cudaFree(place));
  mmci_cuda_release(kernel);
  if (queue != NULL) mmci_cuda_queue_close(queue);
  return status;
}

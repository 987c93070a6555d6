/* sliced_k.c: prepares products by the kernels sliced_k: which kernel, and how many blocks share a
 * tile. */
#include "device/cuda/product/sliced_k.h"

#include <limits.h>

#include "base/sizes.h"
#include "device/cuda/cuda_check.h"

enum {
  WITH_CLUSTERS = 90, /* clusters need code for this architecture */
  MOST_PARTS = 8,     /* every such device can hold a cluster of so many blocks */
  LEAST_SAVED = 48,   /* another part must save so many lines of k each, the cost of a cluster */
  LINE_BYTES = 16,
  /* Tiles of PAYING by PAYING elements at most; with more the kernels never paid. */
  TILES_PER_MULTIPROCESSOR = 8,
  PAYING = 32,
  SHAPES = 5
};
static const int64_t MOST_LENGTH = INT64_C(1) << 30;

/* ---- shapes ---------------------------------------------------------------------------------- */

int mmci_sliced_k_shapes(mmc_dtype dtype) {
  return dtype == MMC_F32 ? SHAPES : 0;
}

const char *mmci_sliced_k_name(int shape) {
  static const char *const NAMES[] = {"sliced_k 16x32 k8", "sliced_k 16x32 k4", "sliced_k 32x32 k8",
                                      "sliced_k 32x32 k4", "sliced_k 64x64 k2"};
  return NAMES[shape];
}

static const mmci_sliced_k_kernel *find_kernel(const struct cudaDeviceProp *device, mmc_dtype dtype,
                                               int shape) {
  if (shape < 0 || shape >= mmci_sliced_k_shapes(dtype) || device->major < 8) return NULL;
  const mmci_sliced_k_kernel *kernel = &mmci_sliced_k_f32[shape];
  return (size_t)kernel->shared_bytes <= device->sharedMemPerBlockOptin ? kernel : NULL;
}

static int64_t tiles_of(const mmci_gemm *gemm, int rows, int cols) {
  return mmci_quotient_up(gemm->m, rows) * mmci_quotient_up(gemm->n, cols);
}

/* Says whether tiles are few enough that these kernels may pay. */
static bool has_few_tiles(const struct cudaDeviceProp *device, const mmci_gemm *gemm) {
  return tiles_of(gemm, PAYING, PAYING) <=
         (int64_t)TILES_PER_MULTIPROCESSOR * device->multiProcessorCount;
}

bool mmci_sliced_k_supports(const struct cudaDeviceProp *device, const mmci_gemm *gemm, int shape) {
  const int64_t most = MOST_LENGTH;
  return find_kernel(device, gemm->dtype, shape) != NULL && gemm->m > 0 && gemm->m <= most &&
         gemm->n > 0 && gemm->n <= most && gemm->k > 0 && gemm->k <= most &&
         has_few_tiles(device, gemm);
}

/* ---- preparing ------------------------------------------------------------------------------- */

/* Returns as many parts as leave every block its place on the chip at once, with clusters, and save
 * enough of k. */
static int choose_parts(const mmci_sliced_k_kernel *kernel, const struct cudaDeviceProp *device,
                        const mmci_gemm *gemm, int blocks) {
  const int64_t tiles = tiles_of(gemm, kernel->rows, kernel->cols),
                steps = mmci_quotient_up(gemm->k, kernel->depth);
  /* Two blocks of eight warps slow each other down; with smaller ones, one place is left free. */
  const int64_t room = (int64_t)device->multiProcessorCount * (blocks > 2 ? blocks - 1 : 1);
  int parts = 1;
  while (parts < MOST_PARTS && 2 * parts <= steps && tiles * 2 * parts <= room &&
         (mmci_quotient_up(steps, parts) - mmci_quotient_up(steps, (int64_t)2 * parts)) *
                 kernel->depth >=
             LEAST_SAVED)
    parts *= 2;
  return parts;
}

mmc_status mmci_sliced_k_prepare(const struct cudaDeviceProp *device, const mmci_gemm *gemm,
                                 int shape, mmci_sliced_k *out, mmci_error *error) {
  if (!mmci_sliced_k_supports(device, gemm, shape))
    return mmci_fail(error, MMC_E_UNSUPPORTED, "sliced_k: %s has no shape %d for this product",
                     device->name, shape);
  const mmci_sliced_k_kernel *kernel = find_kernel(device, gemm->dtype, shape);
  const void *function = kernel->functions[gemm->a.trans][gemm->b.trans];
  const int with_parts = kernel->shared_bytes + kernel->shared_by_parts;
  const bool clusters_fit = (size_t)with_parts <= device->sharedMemPerBlockOptin;
  struct cudaFuncAttributes attributes;
  int blocks = 0;
  MMCI_CUDA_TRY(cudaFuncGetAttributes(&attributes, function));
  MMCI_CUDA_TRY(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     clusters_fit ? with_parts : kernel->shared_bytes));
  MMCI_CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, kernel->threads,
                                                              (size_t)kernel->shared_bytes));
  const bool clusters = clusters_fit && attributes.ptxVersion >= WITH_CLUSTERS;
  *out = (mmci_sliced_k){.kernel = kernel,
                         .function = function,
                         .job = {.a.ld = gemm->a.ld,
                                 .b.ld = gemm->b.ld,
                                 .ldc = gemm->ldc,
                                 .m = (int)gemm->m,
                                 .k = (int)gemm->k,
                                 .n = (int)gemm->n,
                                 .down = (int)mmci_quotient_up(gemm->m, kernel->rows),
                                 .across = (int)mmci_quotient_up(gemm->n, kernel->cols),
                                 .parts = clusters ? choose_parts(kernel, device, gemm, blocks) : 1,
                                 .accumulate = gemm->accumulate}};
  return MMC_OK;
}

/* ---- enqueueing ------------------------------------------------------------------------------ */

static bool is_aligned(const void *address, int64_t ld) {
  return (uintptr_t)address % LINE_BYTES == 0 && ld * (int64_t)sizeof(float) % LINE_BYTES == 0;
}

mmc_status mmci_sliced_k_enqueue(const mmci_sliced_k *product, cudaStream_t stream, const void *a,
                                 const void *b, void *c, mmci_error *error) {
  const mmci_sliced_k_kernel *kernel = product->kernel;
  mmci_sliced_k_job job = product->job;
  job.a.data = a;
  job.a.vectors = is_aligned(a, job.a.ld);
  job.b.data = b;
  job.b.vectors = is_aligned(b, job.b.ld);
  job.c = c;
  job.vectors = is_aligned(c, job.ldc);
  const unsigned parts = (unsigned)job.parts;
  const int more = parts > 1 ? kernel->shared_by_parts : 0;
  void *arguments[] = {&job};
  cudaLaunchAttribute attribute = {.id = cudaLaunchAttributeClusterDimension,
                                   .val.clusterDim = {parts, 1, 1}};
  cudaLaunchConfig_t config = {.gridDim = {(unsigned)(job.down * job.across) * parts, 1, 1},
                               .blockDim = {(unsigned)kernel->threads, 1, 1},
                               .dynamicSmemBytes = (size_t)(kernel->shared_bytes + more),
                               .stream = stream,
                               .attrs = &attribute,
                               .numAttrs = parts > 1 ? 1 : 0};
  MMCI_CUDA_TRY(cudaLaunchKernelExC(&config, product->function, arguments));
  return MMC_OK;
}

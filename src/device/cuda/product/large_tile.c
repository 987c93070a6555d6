/* large_tile.c: prepares products by the kernels large_tile: who computes what, copies of operands,
 * tensor maps. */
#include "device/cuda/product/large_tile.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/sizes.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_kernels.h"
#include "device/cuda/product/large_tile_kernels.h"
#include "device/cuda/tensor_map.h"

enum {
  LINE_BYTES = 16, /* addresses and strides of lines are multiples of this */
  WITH_TMA = 9,    /* compute capability from which there is TMA */
  ALIGNED = 256,   /* parts of the scratch begin at multiples of this */
  ARGUMENTS = 4,
  SHAPES_F32 = 8,
  SHAPES_F64 = 2,
};
static const int64_t MOST_LENGTH = INT64_C(1) << 30;

/* An operand as its kernel reads it. */
typedef struct operand {
  int64_t length, k, ld; /* k lines of length elements, ld apart */
  mmci_form form;
  int64_t rows, cols; /* rows and columns in the product */
  void *copy;         /* the operand's copy; NULL when it is read where it lies */
  bool transposed;    /* the copy transposes it */
} operand;

struct mmci_large_tile {
  mmci_gemm gemm;
  const mmci_large_tile_kernel *kernel;
  mmci_large_tile_work work;
  operand a, b;
  unsigned char *scratch; /* holds copies and slots */
  void *slots;
  mmci_tensor_map_fn encode; /* encodes tensor maps, for kernels with TMA */
};

/* ---- shapes ---------------------------------------------------------------------------------- */

static int64_t element_bytes(mmc_dtype dtype) {
  return dtype == MMC_F64 ? 8 : 4;
}

int mmci_large_tile_shapes(mmc_dtype dtype) {
  return dtype == MMC_F32 ? SHAPES_F32 : dtype == MMC_F64 ? SHAPES_F64 : 0;
}

const char *mmci_large_tile_name(mmc_dtype dtype, int shape) {
  static const char *const F32[] = {"large_tile 256x192 1x2", "large_tile 192x256 2x1",
                                    "large_tile 256x128",     "large_tile 128x128",
                                    "large_tile 256x192 2x1", "large_tile 192x256 1x2",
                                    "large_tile 256x192 2x2", "large_tile 256x192 2x4"};
  static const char *const F64[] = {"large_tile 128x128", "large_tile 128x64"};
  return dtype == MMC_F64 ? F64[shape] : F32[shape];
}

/* Returns NULL when there is no such shape on the device. */
static const mmci_large_tile_kernel *find_kernel(const struct cudaDeviceProp *device,
                                                 mmc_dtype dtype, int shape) {
  if (shape < 0 || shape >= mmci_large_tile_shapes(dtype) || device->major < 8) return NULL;
  const bool deep = device->major >= WITH_TMA && (size_t)mmci_large_tile_f64_deep[0].shared_bytes <=
                                                     device->sharedMemPerBlockOptin;
  const mmci_large_tile_kernel *kernel =
      dtype == MMC_F64            ? (deep ? mmci_large_tile_f64_deep : mmci_large_tile_f64_async)
      : device->major == WITH_TMA ? mmci_large_tile_f32_tma
                                  : mmci_large_tile_f32_async;
  kernel += shape;
  if (kernel->function == NULL || (size_t)kernel->shared_bytes > device->sharedMemPerBlockOptin)
    return NULL;
  return kernel;
}

/* Says whether lines do not overlap; a single line has no distance to a next. */
static bool lines_are_apart(const mmci_form *form, int64_t rows, int64_t cols) {
  int64_t length = form->trans ? rows : cols, lines = form->trans ? cols : rows;
  return form->ld >= length || lines == 1;
}

bool mmci_large_tile_supports(const struct cudaDeviceProp *device, const mmci_gemm *gemm,
                              int shape) {
  const int64_t most = MOST_LENGTH;
  return find_kernel(device, gemm->dtype, shape) != NULL && gemm->m > 0 && gemm->m <= most &&
         gemm->n > 0 && gemm->n <= most && gemm->k > 0 && gemm->k <= most && gemm->a.ld <= most &&
         gemm->b.ld <= most && (gemm->ldc >= gemm->n || gemm->m == 1) &&
         lines_are_apart(&gemm->a, gemm->m, gemm->k) && lines_are_apart(&gemm->b, gemm->k, gemm->n);
}

/* ---- preparing ------------------------------------------------------------------------------- */

/* Plans whole rounds, and what is left in equal shares. */
static mmci_large_tile_work plan_work(const mmci_large_tile_kernel *kernel, const mmci_gemm *gemm,
                                      int workers) {
  mmci_large_tile_work work = {
      .tiles_down = (int)mmci_quotient_up(gemm->m, kernel->block_rows * kernel->cluster_rows),
      .tiles_across = (int)mmci_quotient_up(gemm->n, kernel->block_cols * kernel->cluster_cols),
      .steps = (int)mmci_quotient_up(gemm->k, kernel->depth),
      .workers = workers};
  const int64_t tiles = (int64_t)work.tiles_down * work.tiles_across;
  work.rounds = (int)(tiles / workers);
  work.shared_tiles = (int)(tiles % workers);
  const int64_t steps = (int64_t)work.shared_tiles * work.steps;
  int64_t sharers = steps / MMCI_LARGE_TILE_SHARE;
  /* Reproducible sums are not cut. */
  if (sharers < work.shared_tiles || mmci_gemm_is_in_order(gemm)) sharers = work.shared_tiles;
  if (sharers > workers) sharers = workers;
  if (sharers == 0) return work;
  work.sharers = (int)sharers;
  work.share_steps = (unsigned)(steps / sharers);
  work.longer_shares = (unsigned)(steps % sharers);
  return work;
}

/* Returns an operand of rows x cols, read as lines of its columns when by_columns, else of its
 * rows. */
static operand read_as(const mmci_form *form, int64_t rows, int64_t cols, bool by_columns) {
  operand x = {.length = by_columns ? rows : cols,
               .k = by_columns ? cols : rows,
               .ld = form->ld,
               .form = {.ld = form->ld, .trans = form->trans},
               .rows = rows,
               .cols = cols,
               .transposed = by_columns};
  return x;
}

static size_t aligned_up(size_t bytes) {
  return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* Returns the bytes of a copy, 0 when none is needed; ld becomes that of what the kernel reads. */
static size_t plan_copy(operand *x, bool lies_so, int64_t size) {
  const int64_t tight = mmci_quotient_up(x->length * size, LINE_BYTES) * LINE_BYTES / size;
  if (lies_so && x->k == 1) x->ld = tight;
  if (lies_so && x->ld * size % LINE_BYTES == 0) return 0;
  x->ld = tight;
  return aligned_up((size_t)(tight * x->k * size));
}

/* Decides how the kernel reads A and B. */
static void plan_operands(const mmci_gemm *gemm, operand *a, operand *b, size_t *a_bytes,
                          size_t *b_bytes) {
  const int64_t size = element_bytes(gemm->dtype);
  *a = read_as(&gemm->a, gemm->m, gemm->k, true);
  *b = read_as(&gemm->b, gemm->k, gemm->n, false);
  *a_bytes = plan_copy(a, gemm->a.trans, size);
  *b_bytes = plan_copy(b, !gemm->b.trans, size);
}

uint64_t mmci_large_tile_bytes(const struct cudaDeviceProp *device, const mmci_gemm *gemm,
                               int shape) {
  operand a, b;
  size_t a_bytes, b_bytes;
  if (!mmci_large_tile_supports(device, gemm, shape)) return 0;
  plan_operands(gemm, &a, &b, &a_bytes, &b_bytes);
  return (uint64_t)a_bytes + b_bytes;
}

static mmc_status plan_workers(const mmci_large_tile_kernel *kernel,
                               const struct cudaDeviceProp *device, int *workers,
                               mmci_error *error) {
  struct cudaFuncAttributes attributes;
  MMCI_CUDA_TRY(cudaFuncGetAttributes(&attributes, kernel->function));
  if (kernel->tma && attributes.sharedSizeBytes == 0)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "large_tile: this build has no code for sm_%d0a",
                     WITH_TMA);
  MMCI_CUDA_TRY(cudaFuncSetAttribute(kernel->function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     kernel->shared_bytes));
  const int cluster = kernel->cluster_rows * kernel->cluster_cols;
  if (kernel->tma) {
    cudaLaunchAttribute attribute = {.id = cudaLaunchAttributeClusterDimension,
                                     .val.clusterDim = {(unsigned)cluster, 1, 1}};
    cudaLaunchConfig_t config = {.gridDim = {(unsigned)cluster, 1, 1},
                                 .blockDim = {(unsigned)kernel->threads, 1, 1},
                                 .dynamicSmemBytes = (size_t)kernel->shared_bytes,
                                 .attrs = &attribute,
                                 .numAttrs = 1};
    MMCI_CUDA_TRY(cudaOccupancyMaxActiveClusters(workers, kernel->function, &config));
  } else {
    MMCI_CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        workers, kernel->function, kernel->threads, (size_t)kernel->shared_bytes));
    *workers *= device->multiProcessorCount;
  }
  if (*workers > 0) return MMC_OK;
  return mmci_fail(error, MMC_E_UNSUPPORTED, "large_tile: %s has no room for a block of %d bytes",
                   device->name, kernel->shared_bytes);
}

static mmc_status prepare_kernel(mmci_large_tile *large, const struct cudaDeviceProp *device,
                                 mmci_error *error) {
  const mmci_gemm *gemm = &large->gemm;
  const mmci_large_tile_kernel *kernel = large->kernel;
  const int64_t size = element_bytes(gemm->dtype);
  int workers = 0;
  mmc_status status = plan_workers(kernel, device, &workers, error);
  if (status == MMC_OK && kernel->tma) status = mmci_tensor_map_find(&large->encode, error);
  if (status != MMC_OK) return status;
  large->work = plan_work(kernel, gemm, workers);
  size_t a_bytes, b_bytes;
  plan_operands(gemm, &large->a, &large->b, &a_bytes, &b_bytes);
  const size_t slot_bytes = (size_t)(kernel->block_rows * kernel->block_cols * size) *
                            (size_t)(kernel->cluster_rows * kernel->cluster_cols),
               slots_bytes = (size_t)large->work.sharers * slot_bytes;
  if (a_bytes + b_bytes + slots_bytes == 0) return MMC_OK;
  MMCI_CUDA_TRY(cudaMalloc((void **)&large->scratch, a_bytes + b_bytes + slots_bytes));
  if (a_bytes > 0) large->a.copy = large->scratch;
  if (b_bytes > 0) large->b.copy = large->scratch + a_bytes;
  large->slots = large->scratch + a_bytes + b_bytes;
  return MMC_OK;
}

mmc_status mmci_large_tile_prepare(const struct cudaDeviceProp *device, const mmci_gemm *gemm,
                                   int shape, mmci_large_tile **out, mmci_error *error) {
  if (!mmci_large_tile_supports(device, gemm, shape))
    return mmci_fail(error, MMC_E_UNSUPPORTED, "large_tile: %s has no shape %d for this product",
                     device->name, shape);
  mmci_large_tile *large = mmci_alloc_zeroed(1, sizeof *large);
  if (large == NULL) return mmci_fail_nomem(error, sizeof *large);
  large->gemm = *gemm;
  large->kernel = find_kernel(device, gemm->dtype, shape);
  mmc_status status = prepare_kernel(large, device, error);
  if (status == MMC_OK)
    *out = large;
  else
    mmci_large_tile_release(large);
  return status;
}

void mmci_large_tile_release(mmci_large_tile *large) {
  if (large == NULL) return;
  if (large->scratch != NULL && cudaFree(large->scratch) != cudaSuccess) (void)cudaGetLastError();
  free(large);
}

/* ---- enqueueing ------------------------------------------------------------------------------ */

static bool is_aligned(const void *address) {
  return (uintptr_t)address % LINE_BYTES == 0;
}

bool mmci_large_tile_takes(const mmci_large_tile *large, const void *a, const void *b) {
  return (large->a.copy != NULL || is_aligned(a)) && (large->b.copy != NULL || is_aligned(b));
}

/* Returns where the kernel reads the operand, and copies it there when it lies otherwise. */
static mmc_status place_operand(const operand *x, mmc_dtype dtype, cudaStream_t stream,
                                const void *data, const void **out, mmci_error *error) {
  *out = x->copy != NULL ? x->copy : data;
  if (x->copy == NULL) return MMC_OK;
  return mmci_cuda_copy_tiles(stream, dtype, x->rows, x->cols, data, &x->form, x->copy, x->ld,
                              x->transposed, error);
}

/* Maps boxes of depth lines by width elements, with zeros past the edges. */
static mmc_status map_lines(const mmci_large_tile *large, const operand *x, const void *data,
                            int width, int depth, CUtensorMap *out, mmci_error *error) {
  const mmci_tensor tensor = {.data = data,
                              .type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                              .dims = 2,
                              .sizes = {(cuuint64_t)x->length, (cuuint64_t)x->k},
                              .strides = {(cuuint64_t)(x->ld * element_bytes(large->gemm.dtype))},
                              .box = {(cuuint32_t)width, (cuuint32_t)depth},
                              .swizzle = CU_TENSOR_MAP_SWIZZLE_NONE,
                              .promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_128B};
  return mmci_tensor_map_make(large->encode, &tensor, out, error);
}

static mmc_status launch_kernel(const mmci_large_tile *large, cudaStream_t stream, void **arguments,
                                mmci_error *error) {
  const mmci_large_tile_kernel *kernel = large->kernel;
  const unsigned cluster = (unsigned)(kernel->cluster_rows * kernel->cluster_cols);
  const unsigned workers =
      (unsigned)(large->work.rounds > 0 ? large->work.workers : large->work.sharers);
  cudaLaunchAttribute attribute = {.id = cudaLaunchAttributeClusterDimension,
                                   .val.clusterDim = {cluster, 1, 1}};
  cudaLaunchConfig_t config = {.gridDim = {workers * cluster, 1, 1},
                               .blockDim = {(unsigned)kernel->threads, 1, 1},
                               .dynamicSmemBytes = (size_t)kernel->shared_bytes,
                               .stream = stream,
                               .attrs = &attribute,
                               .numAttrs = kernel->tma ? 1 : 0};
  MMCI_CUDA_TRY(cudaLaunchKernelExC(&config, kernel->function, arguments));
  return MMC_OK;
}

mmc_status mmci_large_tile_enqueue(const mmci_large_tile *large, cudaStream_t stream, const void *a,
                                   const void *b, void *c, mmci_error *error) {
  const mmci_gemm *gemm = &large->gemm;
  const mmci_large_tile_kernel *kernel = large->kernel;
  const void *lines_a, *lines_b;
  mmc_status status = place_operand(&large->a, gemm->dtype, stream, a, &lines_a, error);
  if (status == MMC_OK) status = place_operand(&large->b, gemm->dtype, stream, b, &lines_b, error);
  if (status != MMC_OK) return status;
  mmci_large_tile_work work = large->work;
  mmci_large_tile_result result = {
      .c = c,
      .ldc = gemm->ldc,
      .m = gemm->m,
      .n = gemm->n,
      .slots = large->slots,
      .accumulate = gemm->accumulate,
      .vectors = is_aligned(c) && gemm->ldc * element_bytes(gemm->dtype) % LINE_BYTES == 0};
  CUtensorMap map_a, map_b;
  mmci_large_tile_lines plain_a = {lines_a, large->a.ld, large->a.length, large->a.k},
                        plain_b = {lines_b, large->b.ld, large->b.length, large->b.k};
  void *arguments[ARGUMENTS] = {&plain_a, &plain_b, &work, &result};
  if (kernel->tma) {
    status = map_lines(large, &large->a, lines_a, kernel->block_rows,
                       kernel->depth / kernel->cluster_cols, &map_a, error);
    if (status == MMC_OK)
      status = map_lines(large, &large->b, lines_b, kernel->block_cols,
                         kernel->depth / kernel->cluster_rows, &map_b, error);
    if (status != MMC_OK) return status;
    arguments[0] = &map_a;
    arguments[1] = &map_b;
  }
  status = launch_kernel(large, stream, arguments, error);
  if (status != MMC_OK || work.shared_tiles == 0) return status;
  return mmci_large_tile_reduce(stream, gemm->dtype, kernel, &work, &result, error);
}

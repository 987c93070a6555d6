/* product.c: products on a CUDA device: what each kernel wants is made ready, and handed to it. By
 * which kernel a product goes is in way.h, and what it takes in price.h. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_kernels.h"
#include "device/cuda/emulated/emulated.h"
#include "device/cuda/product/batch.h"
#include "device/cuda/product/complex_by_real.h"
#include "device/cuda/product/in_order.h"
#include "device/cuda/product/large_tile.h"
#include "device/cuda/product/pieces.h"
#include "device/cuda/product/price.h"
#include "device/cuda/product/sliced_k.h"
#include "device/cuda/residues/residues.h"

enum { HOPPER = 9 };

struct mmci_kernel {
  mmci_device *device;
  mmci_way way; /* which changes where memory is short, or what is asked is better done otherwise */
  const void *one, *beta;
  /* Of kernels of these kinds: */
  mmci_lt_product lt;                    /* CUBLASLT */
  mmci_emulated *emulated;               /* EMULATED */
  mmci_residues *residues;               /* RESIDUES, and CHECKED where it is worth it */
  int32_t *exceeds;                      /* CHECKED, in memory of the device */
  mmci_large_tile *large_tile;           /* LARGE_TILE, ORDERED_TILES */
  mmci_sliced_k sliced_k;                /* SLICED_K */
  mmci_in_order *in_order;               /* IN_ORDER */
  mmci_long_product *long_product;       /* IN_PIECES */
  mmci_group_kernel *group;              /* GROUP */
  mmci_complex_product *complex_product; /* ORDERED_COMPLEX, FAITHFUL_COMPLEX */
};

static bool is_batch(const mmci_gemm *gemm) {
  return gemm->batch > 1;
}

/* ---- cuBLASLt -------------------------------------------------------------------------------- */

size_t mmci_cuda_workspace_bytes(const mmci_device *device) {
  /* Hopper's algorithms need more; these are PyTorch's numbers, so that both choose alike. */
  return (size_t)(device->properties.major >= HOPPER ? 32 : 8) << 20;
}

mmc_status mmci_cuda_find_cublas(mmci_device *device, mmci_error *error) {
  pthread_mutex_lock(&device->lock);
  mmc_status status = device->cublas != NULL ? MMC_OK : mmci_cublas_load(&device->cublas, error);
  pthread_mutex_unlock(&device->lock);
  return status;
}

static mmc_status lt_find(const mmci_cublas *cublas, mmci_kernel *kernel, int *count,
                          mmci_error *error) {
  cublasLtMatmulHeuristicResult_t results[MMCI_LT_PROPOSALS];
  const int variant = kernel->way.gemm.variant;
  /* Partial sums of 16-bit types are not to be in the type of C. */
  const mmci_lt_terms terms = {.workspace_bytes = mmci_cuda_workspace_bytes(kernel->device),
                               .reductions = mmci_cuda_element_bytes(kernel->way.gemm.dtype) == 2
                                                 ? (uint32_t)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                                 : (uint32_t)CUBLASLT_REDUCTION_SCHEME_MASK};
  mmc_status status = mmci_lt_describe(cublas, kernel->way.arithmetic, &kernel->way.gemm,
                                       &kernel->way.a, &kernel->way.b, &kernel->way.c,
                                       kernel->way.arithmetic->type, &kernel->lt, error);
  if (status == MMC_OK)
    status = mmci_lt_propose(cublas, &kernel->lt, &terms, results, count, error);
  if (status == MMC_OK && variant > 0 && variant <= *count)
    kernel->lt.algorithm = results[variant - 1].algo;
  return status;
}

int mmci_cuda_variants(mmci_device *device, const mmci_gemm *gemm) {
  int count = 0;
  mmci_kernel kernel = {.device = device};
  MMCI_CUDA_ON_ANYHOW(device);
  mmci_cuda_choose_way(device, gemm, &kernel.way);
  kernel.way.gemm = *gemm;
  if (is_batch(gemm) || mmci_gemm_is_whole(gemm) || kernel.way.kind < MMCI_WAY_CUBLAS ||
      kernel.way.arithmetic == NULL || mmci_cuda_find_cublas(device, NULL) != MMC_OK)
    return 0;
  if (lt_find(device->cublas, &kernel, &count, NULL) != MMC_OK) count = 0;
  mmci_lt_destroy(device->cublas, &kernel.lt);
  for (int s = 0; s < mmci_sliced_k_shapes(gemm->dtype); s++)
    if (mmci_sliced_k_supports(&device->properties, gemm, s)) count = MMCI_FIRST_SLICED_K + s;
  for (int s = 0; s < mmci_large_tile_shapes(gemm->dtype); s++)
    if (mmci_large_tile_supports(&device->properties, gemm, s) &&
        count < mmci_variant_of_large_tile(s))
      count = mmci_variant_of_large_tile(s);
  return count;
}

/* ---- kernels --------------------------------------------------------------------------------- */

static mmc_status prepare_lt(mmci_kernel *kernel, mmci_error *error) {
  int count = 0;
  mmc_status status = lt_find(kernel->device->cublas, kernel, &count, error);
  if (status == MMC_OK && (kernel->way.gemm.variant < 0 || kernel->way.gemm.variant > count))
    status = mmci_fail(error, MMC_E_UNSUPPORTED, "variant: expected 0 to %d, got %d", count,
                       kernel->way.gemm.variant);
  return status;
}

/* Prepares an emulated product. Faithful arithmetic is allowed, never demanded: without memory for
 * its parts, cuBLAS computes the product. */
static mmc_status prepare_emulated(mmci_kernel *kernel, mmci_error *error) {
  mmc_status status = mmci_emulated_prepare(
      &kernel->way.gemm, mmci_emulated_choose(&kernel->device->properties, &kernel->way.gemm),
      kernel->device->properties.multiProcessorCount, &kernel->emulated, error);
  if (status != MMC_E_NOMEM && status != MMC_E_UNSUPPORTED) return status;
  kernel->way.kind = is_batch(&kernel->way.gemm) ? MMCI_WAY_CUBLAS_BATCH : MMCI_WAY_CUBLAS;
  return MMC_OK;
}

/* Without memory for residues, FP64 is cuBLAS's, and integers are multiplied by loops; sums of
 * whole numbers cannot be computed. */
static mmc_status prepare_residues(mmci_kernel *kernel, mmci_error *error) {
  const mmci_gemm *gemm = &kernel->way.gemm;
  mmc_status status = mmci_residues_prepare(gemm, 0, kernel->device->properties.multiProcessorCount,
                                            &kernel->residues, error);
  if ((status != MMC_E_NOMEM && status != MMC_E_UNSUPPORTED) || mmci_gemm_is_whole(gemm))
    return status;
  if (gemm->dtype != MMC_F64)
    kernel->way.kind = gemm->rule.modulus != 0 ? MMCI_WAY_MODULAR : MMCI_WAY_PLAIN;
  else
    kernel->way.kind = is_batch(gemm) ? MMCI_WAY_CUBLAS_BATCH : MMCI_WAY_CUBLAS;
  return MMC_OK;
}

/* Returns the product whose elements wrap around where those of a checked one would be told. */
static mmci_gemm wrapping(const mmci_gemm *gemm) {
  mmci_gemm to = *gemm;
  to.rule.checked = false;
  return to;
}

/* A large product is computed by residues first, which say whether an element may exceed its dtype;
 * without memory for them, or where C is added to, by loops alone. */
static mmc_status prepare_checked(mmci_kernel *kernel, mmci_error *error) {
  const mmci_gemm bytes = wrapping(&kernel->way.gemm);
  MMCI_CUDA_TRY(cudaMalloc((void **)&kernel->exceeds, sizeof *kernel->exceeds));
  if (bytes.accumulate || is_batch(&bytes) || !mmci_residues_ranges(&bytes) ||
      !mmci_cuda_goes_by_residues(kernel->device, &bytes))
    return MMC_OK;
  mmc_status status = mmci_residues_prepare(
      &bytes, 0, kernel->device->properties.multiProcessorCount, &kernel->residues, error);
  return status == MMC_E_NOMEM || status == MMC_E_UNSUPPORTED ? MMC_OK : status;
}

/* Without memory for it, a faithful complex product is cuBLAS's, unless its sums are of whole
 * numbers. */
static mmc_status prepare_faithful_complex(mmci_kernel *kernel, mmci_error *error) {
  mmc_status status = mmci_complex_product_prepare(kernel->device, &kernel->way.gemm, 0,
                                                   &kernel->complex_product, error);
  if ((status != MMC_E_NOMEM && status != MMC_E_UNSUPPORTED) ||
      mmci_gemm_is_whole(&kernel->way.gemm))
    return status;
  kernel->way.kind = is_batch(&kernel->way.gemm) ? MMCI_WAY_CUBLAS_BATCH : MMCI_WAY_CUBLAS;
  return MMC_OK;
}

/* Takes an algorithm of cuBLASLt for a reproducible product where one has its bits; without one, or
 * without memory to find out, the kernel stays as it is. */
static mmc_status prepare_by_cublas(mmci_kernel *kernel, mmci_error *error) {
  mmc_status status =
      mmci_in_order_prepare(kernel->device, &kernel->way.gemm, false, &kernel->in_order, error);
  if (status == MMC_OK) kernel->way.kind = MMCI_WAY_IN_ORDER;
  return status == MMC_E_NOMEM || status == MMC_E_UNSUPPORTED ? MMC_OK : status;
}

static mmc_status prepare_group(mmci_kernel *kernel, mmci_error *error) {
  mmci_cuda_alone x;
  mmci_cuda_make_alone(&kernel->way.gemm, &x);
  return mmci_cuda_chain_prepare(kernel->device, &x.group, &kernel->group, error);
}

/* Takes a kernel for groups for a batch of reproducible products where that is predicted to take
 * less than so many seconds. */
static mmc_status take_group(mmci_kernel *kernel, double than_s, mmci_error *error) {
  double doubt;
  const double group_s = mmci_cuda_alone_seconds(kernel->device, &kernel->way.gemm, &doubt);
  if (!(group_s * (1 + doubt) < than_s)) return MMC_OK;
  mmc_status status = prepare_group(kernel, error);
  if (status == MMC_OK) kernel->way.kind = MMCI_WAY_GROUP;
  return status;
}

/* Takes what is predicted to be faster, a kernel for groups or cuBLASLt; where that has no
 * algorithm with these bits, loops or the kernel for groups. */
static mmc_status prepare_in_order(mmci_kernel *kernel, mmci_error *error) {
  const mmci_gemm *gemm = &kernel->way.gemm;
  mmc_status status =
      take_group(kernel, mmci_cuda_in_order_seconds(kernel->device, gemm, kernel->way.kind), error);
  if (status != MMC_OK || kernel->way.kind == MMCI_WAY_GROUP ||
      kernel->way.kind == MMCI_WAY_ORDERED_COMPLEX || !mmci_in_order_pays(gemm))
    return status;
  status = prepare_by_cublas(kernel, error);
  return status == MMC_OK && mmci_way_is_ordered(kernel->way.kind)
             ? take_group(kernel, mmci_cuda_loops_seconds(kernel->device, gemm), error)
             : status;
}

/* Without memory for copies of its operands, a large reproducible product is one of ordered.cu. */
static mmc_status prepare_ordered_tiles(mmci_kernel *kernel, mmci_error *error) {
  const struct cudaDeviceProp *device = &kernel->device->properties;
  const int shape = mmci_ordered_shape(kernel->way.gemm.dtype);
  mmc_status status =
      kernel->way.kind == MMCI_WAY_ORDERED_COMPLEX
          ? mmci_complex_product_prepare(kernel->device, &kernel->way.gemm, shape,
                                         &kernel->complex_product, error)
          : mmci_large_tile_prepare(device, &kernel->way.gemm, shape, &kernel->large_tile, error);
  if (status != MMC_E_NOMEM && status != MMC_E_UNSUPPORTED) return status;
  kernel->way.kind = MMCI_WAY_ORDERED;
  return MMC_OK;
}

/* Sets what cuBLAS multiplies the product by, 1, and what is in C, 1 or 0. */
static void choose_factors(mmci_kernel *kernel) {
  static const float ONE_F32[2] = {1, 0}, ZERO_F32[2] = {0, 0};
  static const double ONE_F64[2] = {1, 0}, ZERO_F64[2] = {0, 0};
  if (kernel->way.arithmetic == NULL) return;
  const bool in_f64 = kernel->way.arithmetic->compute == CUBLAS_COMPUTE_64F;
  const void *zero = in_f64 ? (const void *)ZERO_F64 : ZERO_F32;
  kernel->one = in_f64 ? (const void *)ONE_F64 : ONE_F32;
  kernel->beta = kernel->way.gemm.accumulate ? kernel->one : zero;
}

mmc_status mmci_cuda_prepare(mmci_device *device, const mmci_gemm *gemm, mmci_kernel **out,
                             mmci_error *error) {
  MMCI_CUDA_ON(device);
  const bool by_cublas = gemm->rule.semiring == MMC_PLUS_TIMES;
  mmc_status status = by_cublas ? mmci_cuda_find_cublas(device, error) : MMC_OK;
  if (status != MMC_OK) return status;
  mmci_kernel *kernel = mmci_alloc_zeroed(1, sizeof *kernel);
  if (kernel == NULL) return mmci_fail_nomem(error, sizeof *kernel);
  kernel->device = device;
  mmci_cuda_choose_way(device, gemm, &kernel->way);
  choose_factors(kernel);
  if (mmci_gemm_is_whole(gemm) && !mmci_cuda_has_whole(device, gemm))
    status = mmci_fail(error, MMC_E_UNSUPPORTED,
                       "sums of whole numbers: expected a GPU of compute capability 9.0");
  if (status != MMC_OK) {
    free(kernel);
    return status;
  }
  if (kernel->way.kind == MMCI_WAY_CUBLASLT) status = prepare_lt(kernel, error);
  if (kernel->way.kind == MMCI_WAY_EMULATED) status = prepare_emulated(kernel, error);
  if (kernel->way.kind == MMCI_WAY_RESIDUES) status = prepare_residues(kernel, error);
  if (kernel->way.kind == MMCI_WAY_CHECKED) status = prepare_checked(kernel, error);
  if (kernel->way.kind == MMCI_WAY_GROUP) status = prepare_group(kernel, error);
  if (kernel->way.kind == MMCI_WAY_IN_PIECES)
    status = mmci_long_product_prepare(device, gemm, mmci_cuda_workspace_bytes(device),
                                       &kernel->long_product, error);
  if (kernel->way.kind == MMCI_WAY_FAITHFUL_COMPLEX)
    status = prepare_faithful_complex(kernel, error);
  if (mmci_way_is_ordered(kernel->way.kind)) status = prepare_in_order(kernel, error);
  if (status == MMC_OK &&
      (kernel->way.kind == MMCI_WAY_ORDERED_TILES || kernel->way.kind == MMCI_WAY_ORDERED_COMPLEX))
    status = prepare_ordered_tiles(kernel, error);
  if ((is_batch(gemm) || !by_cublas) && gemm->variant != 0)
    status = mmci_fail(error, MMC_E_UNSUPPORTED, "variant: expected 0 for a %s, got %d",
                       by_cublas ? "batch" : "semiring", gemm->variant);
  else if (kernel->way.kind == MMCI_WAY_LARGE_TILE)
    status = mmci_large_tile_prepare(&device->properties, gemm,
                                     mmci_large_tile_of_variant(gemm->variant), &kernel->large_tile,
                                     error);
  else if (kernel->way.kind == MMCI_WAY_SLICED_K)
    status = mmci_sliced_k_prepare(&device->properties, gemm, gemm->variant - MMCI_FIRST_SLICED_K,
                                   &kernel->sliced_k, error);
  if (status == MMC_OK)
    *out = kernel;
  else
    mmci_cuda_release(kernel);
  return status;
}

void mmci_cuda_release(mmci_kernel *kernel) {
  if (kernel == NULL) return;
  MMCI_CUDA_ON_ANYHOW(kernel->device);
  mmci_large_tile_release(kernel->large_tile);
  mmci_in_order_release(kernel->in_order);
  mmci_long_product_release(kernel->long_product);
  mmci_cuda_chain_release(kernel->group);
  mmci_complex_product_release(kernel->complex_product);
  mmci_lt_destroy(kernel->device->cublas, &kernel->lt);
  mmci_emulated_release(kernel->emulated);
  mmci_residues_release(kernel->residues);
  if (kernel->exceeds != NULL) mmci_cuda_ignore(cudaFree(kernel->exceeds));
  free(kernel);
}

uint64_t mmci_cuda_scratch_bytes(const mmci_device *device, const mmci_gemm *gemm) {
  mmci_kernel kernel = {0};
  mmci_cuda_choose_way(device, gemm, &kernel.way);
  if (kernel.way.kind == MMCI_WAY_EMULATED) return mmci_emulated_bytes(gemm);
  if (kernel.way.kind == MMCI_WAY_RESIDUES) return mmci_residues_bytes(gemm);
  if (kernel.way.kind == MMCI_WAY_CHECKED) {
    const mmci_gemm bytes = wrapping(gemm);
    return mmci_cuda_goes_by_residues(device, &bytes) ? mmci_residues_bytes(&bytes) : 0;
  }
  if (kernel.way.kind == MMCI_WAY_ORDERED_TILES)
    return mmci_large_tile_bytes(&device->properties, gemm, mmci_ordered_shape(gemm->dtype));
  if (kernel.way.kind == MMCI_WAY_ORDERED_COMPLEX || kernel.way.kind == MMCI_WAY_FAITHFUL_COMPLEX)
    return mmci_complex_product_bytes(&device->properties, gemm, mmci_ordered_shape(gemm->dtype));
  return kernel.way.kind == MMCI_WAY_LARGE_TILE
             ? mmci_large_tile_bytes(&device->properties, gemm,
                                     mmci_large_tile_of_variant(gemm->variant))
             : 0;
}

bool mmci_cuda_share(mmci_kernel *kernel, int which, const mmci_kernel *from, int of) {
  if (kernel->way.kind == MMCI_WAY_EMULATED)
    return which == 1 && mmci_emulated_share_own(kernel->emulated, from == kernel && of == 0);
  if (kernel->way.kind != MMCI_WAY_RESIDUES ||
      (from != NULL && from->way.kind != MMCI_WAY_RESIDUES))
    return false;
  return mmci_residues_share(kernel->residues, which, from != NULL ? from->residues : NULL, of);
}

/* cuBLAS needs whole elements aligned, where memory may be aligned to their real type only. */
static mmci_way_kind kind_of_addresses(const mmci_kernel *kernel, const void *a, const void *b,
                                       const void *c) {
  uintptr_t bits = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c;
  if (kernel->way.kind == MMCI_WAY_ORDERED_TILES)
    return mmci_large_tile_takes(kernel->large_tile, a, b) ? MMCI_WAY_ORDERED_TILES
                                                           : MMCI_WAY_ORDERED;
  if (kernel->way.kind == MMCI_WAY_IN_ORDER && !mmci_in_order_takes(a, b, c))
    return mmci_cuda_element_bytes(kernel->way.gemm.dtype) == 2 ? MMCI_WAY_ORDERED_HALF
                                                                : MMCI_WAY_ORDERED;
  if (kernel->way.kind < MMCI_WAY_CUBLAS_BATCH || mmci_gemm_is_whole(&kernel->way.gemm))
    return kernel->way.kind;
  if (bits % mmci_cuda_element_bytes(kernel->way.gemm.dtype) != 0) return MMCI_WAY_PLAIN;
  if (kernel->way.kind == MMCI_WAY_LARGE_TILE)
    return mmci_large_tile_takes(kernel->large_tile, a, b) ? MMCI_WAY_LARGE_TILE : MMCI_WAY_CUBLAS;
  return kernel->way.kind == MMCI_WAY_CUBLASLT && bits % MMCI_LT_VECTOR_BYTES != 0
             ? MMCI_WAY_CUBLAS
             : kernel->way.kind;
}

/* Waits for the product, because what it finds decides whether another one may follow. */
static mmc_status enqueue_checked(const mmci_queue *queue, const mmci_kernel *kernel, const void *a,
                                  const void *b, void *c, mmci_error *error) {
  cudaStream_t stream = queue->stream;
  enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  MMCI_CUDA_TRY(cudaStreamIsCapturing(stream, &capture));
  if (capture != cudaStreamCaptureStatusNone)
    return mmci_fail(
        error, MMC_E_UNSUPPORTED,
        "checked: a stream that is being captured cannot wait for what a product finds");
  int32_t exceeds = 0;
  const uint64_t *most = NULL;
  mmc_status status = MMC_OK;
  MMCI_CUDA_TRY(cudaMemsetAsync(kernel->exceeds, 0, sizeof *kernel->exceeds, stream));
  if (kernel->residues != NULL) {
    most = mmci_residues_most(kernel->residues);
    status = mmci_residues_enqueue(stream, kernel->residues, a, b, c, error);
  }
  if (status == MMC_OK)
    status =
        mmci_cuda_checked_product(stream, &kernel->way.gemm, most, kernel->exceeds, a, b, c, error);
  if (status != MMC_OK) return status;
  MMCI_CUDA_TRY(
      cudaMemcpyAsync(&exceeds, kernel->exceeds, sizeof exceeds, cudaMemcpyDeviceToHost, stream));
  MMCI_CUDA_TRY(cudaStreamSynchronize(stream));
  const mmci_gemm *g = &kernel->way.gemm;
  return exceeds == 0 ? MMC_OK
                      : mmci_fail(error, MMC_E_OVERFLOW,
                                  "%" PRId64 "x%" PRId64 " by %" PRId64 "x%" PRId64
                                  " has elements that %s does not hold",
                                  g->m, g->k, g->k, g->n, mmc_dtype_name(g->dtype));
}

mmc_status mmci_cuda_enqueue(mmci_queue *queue, const mmci_kernel *kernel, const void *a,
                             const void *b, void *c, mmci_error *error) {
  queue->has_products = true;
  const mmci_cublas *cublas = queue->cublas;
  const mmci_arithmetic *as = kernel->way.arithmetic;
  const mmci_stored *left = &kernel->way.b, *right = &kernel->way.a;
  if (kernel->way.swaps) {
    const void *first = a;
    a = b;
    b = first;
  }
  MMCI_CUDA_ON(queue->device);
  switch (kind_of_addresses(kernel, a, b, c)) {
    case MMCI_WAY_NOTHING:
      break;
    case MMCI_WAY_SEMIRING: {
      const mmci_cuda_semiring_room room = {
          .processors = queue->device->properties.multiProcessorCount,
          .memory = queue->workspace,
          .bytes = queue->workspace_bytes};
      return mmci_cuda_semiring_product(queue->stream, &kernel->way.gemm, &room, a, b, c, error);
    }
    case MMCI_WAY_THIN:
      return mmci_cuda_thin_product(queue->stream, &kernel->way.gemm, a, b, c, error);
    case MMCI_WAY_OUTER:
      return mmci_cuda_outer_product(queue->stream, &kernel->way.gemm, a, b, c, error);
    case MMCI_WAY_VECTORS:
      return mmci_cuda_vectors_product(queue->stream, &kernel->way.gemm, a, b, c, error);
    case MMCI_WAY_ZEROS:
    case MMCI_WAY_PLAIN:
      return mmci_cuda_plain_product(queue->stream, &kernel->way.gemm, a, b, c, error);
    case MMCI_WAY_MODULAR:
      return mmci_cuda_modular_product(queue->stream, &kernel->way.gemm, a, b, c, error);
    case MMCI_WAY_CHECKED:
      return enqueue_checked(queue, kernel, a, b, c, error);
    case MMCI_WAY_ORDERED:
      return mmci_cuda_ordered_product(queue->stream, &kernel->way.gemm, a, b, c, error);
    case MMCI_WAY_ORDERED_HALF:
      return mmci_cuda_ordered_half(queue->stream, &kernel->way.gemm, a, b, c, error);
    case MMCI_WAY_GROUP: {
      const void *const operands[] = {a, b};
      return mmci_cuda_chain_enqueue(queue, kernel->group, operands, c, error);
    }
    case MMCI_WAY_IN_ORDER:
      return mmci_in_order_enqueue(queue->stream, kernel->in_order, a, b, c, error);
    case MMCI_WAY_IN_PIECES: {
      const mmci_piece_room room = {queue->workspace, queue->workspace_bytes};
      return mmci_long_product_enqueue(kernel->long_product, queue->stream, &room, a, b, c, error);
    }
    case MMCI_WAY_ORDERED_COMPLEX:
    case MMCI_WAY_FAITHFUL_COMPLEX:
      return mmci_complex_product_enqueue(kernel->complex_product, queue->stream, a, b, c, error);
    case MMCI_WAY_ORDERED_TILES: {
      mmc_status status =
          mmci_large_tile_enqueue(kernel->large_tile, queue->stream, a, b, c, error);
      return status == MMC_OK ? mmci_cuda_settle(queue->stream, &kernel->way.gemm, c, error)
                              : status;
    }
    case MMCI_WAY_CUBLAS_BATCH: {
      const mmci_gemm *g = &kernel->way.gemm;
      mmc_status status = mmci_cuda_bind_handle(queue, error);
      if (status != MMC_OK) return status;
      MMCI_CUBLAS_TRY(
          cublas, cublasGemmStridedBatchedEx_64,
          (queue->handle, left->op, right->op, g->n, g->m, g->k, kernel->one, b, as->type, left->ld,
           g->b.stride, a, as->type, right->ld, g->a.stride, kernel->beta, c, as->type,
           kernel->way.c.ld, g->c_stride, g->batch, as->compute, CUBLAS_GEMM_DEFAULT));
      break;
    }
    case MMCI_WAY_CUBLAS: {
      mmc_status status = mmci_cuda_bind_handle(queue, error);
      if (status != MMC_OK) return status;
      MMCI_CUBLAS_TRY(
          cublas, cublasGemmEx_64,
          (queue->handle, left->op, right->op, kernel->way.gemm.n, kernel->way.gemm.m,
           kernel->way.gemm.k, kernel->one, b, as->type, left->ld, a, as->type, right->ld,
           kernel->beta, c, as->type, kernel->way.c.ld, as->compute, CUBLAS_GEMM_DEFAULT));
      break;
    }
    case MMCI_WAY_CUBLASLT:
      MMCI_CUBLAS_TRY(
          cublas, cublasLtMatmul,
          (cublas->lt, kernel->lt.product, kernel->one, b, kernel->lt.b, a, kernel->lt.a,
           kernel->beta, c, kernel->lt.c, c, kernel->lt.c, &kernel->lt.algorithm, queue->workspace,
           queue->workspace_bytes, queue->stream));
      break;
    case MMCI_WAY_EMULATED:
      return mmci_emulated_enqueue(queue->stream, kernel->emulated, a, b, c, error);
    case MMCI_WAY_RESIDUES:
      return mmci_residues_enqueue(queue->stream, kernel->residues, a, b, c, error);
    case MMCI_WAY_LARGE_TILE:
      return mmci_large_tile_enqueue(kernel->large_tile, queue->stream, a, b, c, error);
    case MMCI_WAY_SLICED_K:
      return mmci_sliced_k_enqueue(&kernel->sliced_k, queue->stream, a, b, c, error);
  }
  return MMC_OK;
}

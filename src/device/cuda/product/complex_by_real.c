#include "device/cuda/product/complex_by_real.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_kernels.h"
#include "device/cuda/emulated/emulated.h"
#include "device/cuda/product/large_tile.h"
#include "device/cuda/residues/residues.h"

enum { LINE_REALS = 4, ALIGNED = 256 }; /* 16 bytes of f32; bytes */

struct mmci_complex_product {
  mmci_gemm gemm, upright, real;
  mmci_in_order *in_order; /* one of the four */
  mmci_large_tile *large;
  mmci_emulated *emulated;
  mmci_residues *residues;
  char *scratch; /* B and iB, then A where it does not lie as it is read, then C turned back */
  size_t b_bytes, a_bytes;
};

static size_t aligned(int64_t reals, mmc_dtype dtype) {
  const size_t bytes = (size_t)reals * mmc_dtype_size(dtype);
  return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* Says whether the product is computed as it stands in the chain, and its result is turned then:
 * what is left to FP64 of sums of whole numbers has other bits where B is the left operand. */
static bool turns_back(const mmci_gemm *gemm) {
  return mmci_gemm_is_whole(gemm) && gemm->turned;
}

/* Returns the product that is computed. */
static mmci_gemm upright_of(const mmci_gemm *gemm) {
  mmci_gemm to = *gemm;
  to.batch = 1; /* those of a batch go one after the other */
  if (!turns_back(gemm)) return to;
  to.m = gemm->n;
  to.n = gemm->m;
  to.a = mmci_form_transposed(gemm->b);
  to.b = mmci_form_transposed(gemm->a);
  to.ldc = to.n;
  to.turned = false;
  return to;
}

/* An A that is transposed or conjugated is copied. */
static bool copies_a(const mmci_gemm *gemm) {
  return gemm->a.trans || gemm->a.conj;
}

static mmci_gemm real_of(const mmci_gemm *gemm) {
  mmci_gemm real = *gemm;
  real.dtype = gemm->dtype == MMC_C64 ? MMC_F32 : MMC_F64;
  real.k *= 2;
  real.n *= 2;
  real.ldc *= 2;
  real.rule.tolerance /= sqrt(2); /* of each part of an element */
  real.a = (mmci_form){.ld = 2 * (copies_a(gemm) ? gemm->k : gemm->a.ld)};
  real.b = (mmci_form){.ld = (real.n + LINE_REALS - 1) / LINE_REALS * LINE_REALS};
  return real;
}

mmci_gemm mmci_complex_by_real(const mmci_gemm *gemm) {
  const mmci_gemm upright = upright_of(gemm);
  return real_of(&upright);
}

/* Says by what a faithful product is computed: by emulated.h, or by residues. */
static bool is_emulated(const mmci_gemm *real) {
  return real->dtype == MMC_F32 && !mmci_gemm_is_whole(real);
}

static size_t bytes_of_b(const mmci_gemm *real) {
  return aligned(real->k * real->b.ld, real->dtype);
}

static size_t bytes_of_a(const mmci_gemm *gemm, const mmci_gemm *real) {
  return copies_a(gemm) ? aligned(real->m * real->k, real->dtype) : 0;
}

static size_t bytes_of_c(const mmci_gemm *gemm, const mmci_gemm *real) {
  return turns_back(gemm) ? aligned(real->m * real->n, real->dtype) : 0;
}

uint64_t mmci_complex_product_bytes(const struct cudaDeviceProp *device, const mmci_gemm *gemm,
                                    int shape) {
  const mmci_gemm upright = upright_of(gemm), real = real_of(&upright);
  const uint64_t bytes = bytes_of_b(&real) + bytes_of_a(&upright, &real) + bytes_of_c(gemm, &real);
  if (mmci_gemm_is_in_order(gemm)) return bytes + mmci_large_tile_bytes(device, &real, shape);
  return bytes + (is_emulated(&real) ? mmci_emulated_bytes(&real) : mmci_residues_bytes(&real));
}

static mmc_status prepare_in_order(mmci_complex_product *x, mmci_device *device, int shape,
                                   mmci_error *error) {
  mmc_status status = mmci_in_order_prepare(device, &x->real, false, &x->in_order, error);
  return status == MMC_E_UNSUPPORTED
             ? mmci_large_tile_prepare(&device->properties, &x->real, shape, &x->large, error)
             : status;
}

static mmc_status prepare_real(mmci_complex_product *x, mmci_device *device, int shape,
                               mmci_error *error) {
  const int multiprocessors = device->properties.multiProcessorCount;
  if (mmci_gemm_is_in_order(&x->gemm)) return prepare_in_order(x, device, shape, error);
  if (is_emulated(&x->real))
    return mmci_emulated_prepare(&x->real, mmci_emulated_choose(&device->properties, &x->real),
                                 multiprocessors, &x->emulated, error);
  return mmci_residues_prepare(&x->real, 0, multiprocessors, &x->residues, error);
}

static mmc_status enqueue_real(const mmci_complex_product *x, cudaStream_t stream, const void *a,
                               const void *b, void *c, mmci_error *error) {
  if (x->emulated != NULL) return mmci_emulated_enqueue(stream, x->emulated, a, b, c, error);
  if (x->residues != NULL) return mmci_residues_enqueue(stream, x->residues, a, b, c, error);
  if (x->in_order != NULL && mmci_in_order_takes(a, b, c))
    return mmci_in_order_enqueue(stream, x->in_order, a, b, c, error);
  if (x->large == NULL) return mmci_cuda_ordered_product(stream, &x->real, a, b, c, error);
  mmc_status status = mmci_large_tile_enqueue(x->large, stream, a, b, c, error);
  return status == MMC_OK ? mmci_cuda_settle(stream, &x->real, c, error) : status;
}

static mmc_status take_scratch(mmci_complex_product *x, mmci_error *error) {
  MMCI_CUDA_TRY(
      cudaMalloc((void **)&x->scratch, x->b_bytes + x->a_bytes + bytes_of_c(&x->gemm, &x->real)));
  return MMC_OK;
}

mmc_status mmci_complex_product_prepare(mmci_device *device, const mmci_gemm *gemm, int shape,
                                        mmci_complex_product **out, mmci_error *error) {
  mmci_complex_product *x = mmci_alloc_zeroed(1, sizeof *x);
  if (x == NULL) return mmci_fail_nomem(error, sizeof *x);
  x->gemm = *gemm;
  x->upright = upright_of(gemm);
  x->real = real_of(&x->upright);
  x->b_bytes = bytes_of_b(&x->real);
  x->a_bytes = bytes_of_a(&x->upright, &x->real);
  mmc_status status = prepare_real(x, device, shape, error);
  if (status == MMC_OK) status = take_scratch(x, error);
  if (status == MMC_OK)
    *out = x;
  else
    mmci_complex_product_release(x);
  return status;
}

void mmci_complex_product_release(mmci_complex_product *x) {
  if (x == NULL) return;
  mmci_in_order_release(x->in_order);
  mmci_large_tile_release(x->large);
  mmci_emulated_release(x->emulated);
  mmci_residues_release(x->residues);
  if (x->scratch != NULL && cudaFree(x->scratch) != cudaSuccess) (void)cudaGetLastError();
  free(x);
}

static mmc_status enqueue_one(const mmci_complex_product *x, cudaStream_t stream, const void *a,
                              const void *b, void *c, mmci_error *error) {
  const mmci_gemm *gemm = &x->upright;
  const bool turns = turns_back(&x->gemm);
  const void *left = turns ? b : a, *right = turns ? a : b;
  char *copy = x->scratch + x->b_bytes, *result = copy + x->a_bytes;
  mmc_status status = mmci_cuda_spread(stream, gemm, right, x->scratch, x->real.b.ld, error);
  if (status == MMC_OK && copies_a(gemm)) {
    status = mmci_cuda_copy_tiles(stream, gemm->dtype, gemm->m, gemm->k, left, &gemm->a, copy,
                                  gemm->k, false, error);
    left = copy;
  }
  if (status == MMC_OK)
    status = enqueue_real(x, stream, left, x->scratch, turns ? result : c, error);
  if (status != MMC_OK || !turns) return status;
  const mmci_form form = {.ld = gemm->ldc, .trans = true};
  return mmci_cuda_copy_tiles(stream, gemm->dtype, x->gemm.m, x->gemm.n, result, &form, c,
                              x->gemm.ldc, false, error);
}

mmc_status mmci_complex_product_enqueue(const mmci_complex_product *x, cudaStream_t stream,
                                        const void *a, const void *b, void *c, mmci_error *error) {
  const mmci_gemm *g = &x->gemm;
  const int64_t bytes = (int64_t)mmc_dtype_size(g->dtype);
  mmc_status status = MMC_OK;
  for (int64_t i = 0; status == MMC_OK && (i == 0 || i < g->batch); i++)
    status = enqueue_one(x, stream, (const char *)a + i * g->a.stride * bytes,
                         (const char *)b + i * g->b.stride * bytes,
                         (char *)c + i * g->c_stride * bytes, error);
  return status;
}

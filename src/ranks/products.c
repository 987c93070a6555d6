/* products.c: asks the device for its advice on every product. */
#include "ranks/products.h"

mmc_status mmci_products_open(const mmci_team_ops *ops, mmci_team *team, const mmci_opened *blas,
                              mmci_products *out, mmci_error *error) {
  mmci_products products = {.ops = ops, .team = team, .blas = *blas};
  if (blas->ops != NULL) {
    mmc_status status = blas->ops->queue_open(blas->device, &products.queue, error);
    if (status != MMC_OK) return status;
  }
  *out = products;
  return MMC_OK;
}

void mmci_products_close(mmci_products *products) {
  if (products->queue != NULL) products->blas.ops->queue_close(products->queue);
  *products = (mmci_products){.queue = NULL};
}

/* Returns what the device advises, and 0 where that is nothing. */
static int advice(const mmci_products *products, const mmci_gemm *gemm) {
  const mmci_device_ops *ops = products->blas.ops;
  return ops != NULL && ops->advised != NULL ? ops->advised(products->blas.device, gemm) : 0;
}

bool mmci_products_replace(const mmci_products *products, mmc_dtype dtype) {
  enum { SIDE = 512 };
  const mmci_gemm gemm = mmci_gemm_tight(dtype, MMCI_NATIVE, SIDE, SIDE, SIDE, MMC_OP_N, MMC_OP_N);
  return !products->ops->is_named(products->team) && advice(products, &gemm) > 0;
}

static mmc_status multiply_by_device(const mmci_products *products, const mmci_gemm *gemm,
                                     const void *a, const void *b, void *c, mmci_error *error) {
  const mmci_device_ops *ops = products->blas.ops;
  mmci_kernel *kernel;
  mmc_status status = ops->prepare(products->blas.device, gemm, &kernel, error);
  if (status != MMC_OK) return status;
  status = ops->enqueue(products->queue, kernel, a, b, c, error);
  if (status == MMC_OK) status = ops->sync(products->queue, error);
  ops->release(kernel);
  return status;
}

mmc_status mmci_products_multiply(const mmci_products *products, const mmci_how *how, int64_t m,
                                  int64_t k, int64_t n, const mmci_local *a, const mmci_local *b,
                                  void *c, mmci_error *error) {
  mmci_gemm gemm = {.dtype = how->dtype,
                    .precision = how->precision,
                    .sums = how->sums,
                    .m = m,
                    .k = k,
                    .n = n,
                    .a = {.ld = a->ld > 0 ? a->ld : 1, .trans = a->transposed},
                    .b = {.ld = b->ld > 0 ? b->ld : 1, .trans = b->transposed},
                    .ldc = n};
  const bool is_reproducible = how->precision == MMCI_REPRODUCIBLE;
  if (is_reproducible && products->queue == NULL)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "reproducible products need the device blas");
  if (!is_reproducible && how->replaces) gemm.variant = advice(products, &gemm);
  if (is_reproducible) return multiply_by_device(products, &gemm, a->data, b->data, c, error);
  /* The engine needs no memory for a product, and goes on where the device cannot: others wait. */
  mmci_error ignored;
  if (gemm.variant > 0 &&
      multiply_by_device(products, &gemm, a->data, b->data, c, &ignored) == MMC_OK)
    return MMC_OK;
  return products->ops->multiply(products->team, how->dtype, m, k, n, a, b, c, error);
}

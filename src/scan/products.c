#include "scan/products.h"

#include "base/address.h"

mmc_status mmci_products_prepare(const mmci_opened *on, const mmci_gemm *gemm, mmci_products *out,
                                 mmci_error *error) {
  out->gemm = *gemm;
  out->one_by_one = !on->ops->supports(on->device, gemm);
  mmci_gemm one = *gemm;
  if (out->one_by_one) one.batch = 1;
  if (one.batch == 1) one.a.stride = one.b.stride = one.c_stride = 0;
  if (out->one_by_one && !on->ops->supports(on->device, &one))
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "device", "'%s' does not multiply %s",
                              on->name, mmc_dtype_name(gemm->dtype));
  return on->ops->prepare(on->device, &one, &out->kernel, error);
}

void mmci_products_release(const mmci_opened *on, mmci_products *products) {
  if (products->kernel != NULL) on->ops->release(products->kernel);
  products->kernel = NULL;
}

mmc_status mmci_products_enqueue(const mmci_opened *on, mmci_queue *queue,
                                 const mmci_products *products, const void *a, const void *b,
                                 void *c, mmci_error *error) {
  const mmci_gemm *gemm = &products->gemm;
  const int64_t element = (int64_t)mmc_dtype_size(gemm->dtype);
  const int64_t count = products->one_by_one ? gemm->batch : 1;
  mmc_status status = MMC_OK;
  for (int64_t i = 0; i < count && status == MMC_OK; i++)
    status =
        on->ops->enqueue(queue, products->kernel, mmci_address(a, i * gemm->a.stride * element),
                         mmci_address(b, i * gemm->b.stride * element),
                         mmci_address(c, i * gemm->c_stride * element), error);
  return status;
}

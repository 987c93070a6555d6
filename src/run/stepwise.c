#include "run/stepwise.h"

#include "base/alloc.h"
#include "run/actions.h"

mmc_status mmci_stepwise_open(const mmci_plan *plan, const mmci_device_ops *ops,
                              mmci_device *device, mmci_stepwise *out, mmci_error *error) {
  *out = (mmci_stepwise){.plan = plan, .ops = ops, .device = device};
  const size_t count = (size_t)plan->step_count + 1;
  out->products = mmci_alloc_zeroed(count, sizeof *out->products);
  if (out->products == NULL) return mmci_fail_nomem(error, count * sizeof *out->products);
  mmc_status status = ops->queue_open(device, &out->queue, error);
  if (status != MMC_OK || plan->workspace_bytes == 0) return status;
  if (plan->workspace_bytes > SIZE_MAX) return mmci_fail_nomem(error, plan->workspace_bytes);
  void *workspace = NULL;
  status = ops->alloc(device, (size_t)plan->workspace_bytes, &workspace, error);
  out->workspace = workspace;
  return status;
}

void mmci_stepwise_close(mmci_stepwise *x) {
  for (int32_t s = 0; x->products != NULL && s < x->plan->step_count; s++)
    if (x->products[s].kernel != NULL) x->ops->release(x->products[s].kernel);
  if (x->workspace != NULL) x->ops->dealloc(x->device, x->workspace);
  if (x->queue != NULL) x->ops->queue_close(x->queue);
  free(x->products);
  *x = (mmci_stepwise){0};
}

mmc_status mmci_stepwise_enqueue(mmci_stepwise *x, int32_t s, const mmci_gemm *gemm, const void *a,
                                 const void *b, void *c, mmci_error *error) {
  mmci_stepwise_product *product = &x->products[s];
  mmc_status status = MMC_OK;
  if (product->kernel == NULL || !mmci_gemm_same(&product->gemm, gemm)) {
    if (product->kernel != NULL) x->ops->release(product->kernel);
    product->kernel = NULL;
    product->gemm = *gemm;
    status = x->ops->prepare(x->device, gemm, &product->kernel, error);
  }
  return status == MMC_OK ? x->ops->enqueue(x->queue, product->kernel, a, b, c, error) : status;
}

mmc_status mmci_stepwise_multiply(mmci_stepwise *x, int32_t s, const mmci_gemm *gemm, const void *a,
                                  const void *b, void *c, mmci_error *error) {
  mmc_status status = mmci_stepwise_enqueue(x, s, gemm, a, b, c, error);
  return status == MMC_OK ? x->ops->sync(x->queue, error) : status;
}

#include "scan/steps.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/interrupt.h"
#include "scan/products.h"
#include "scan/running_parts.h"

struct mmci_steps {
  mmci_opened on;
  mmci_scan scan;
  mmci_products first, next; /* by an initial state, by a state; where there are such products */
  const char *kernel_name;
};

static mmc_status prepare(mmci_steps *steps, mmci_form s, mmci_products *out, mmci_error *error) {
  const mmci_scan *scan = &steps->scan;
  mmci_gemm gemm = mmci_scan_gemm(scan, &s, &scan->a, scan->ldc);
  gemm.batch = scan->batch;
  gemm.c_stride = scan->c_stride;
  steps->kernel_name = steps->on.ops->kernel_name(steps->on.device, &gemm);
  return mmci_products_prepare(&steps->on, &gemm, out, error);
}

mmc_status mmci_steps_create(const mmci_opened *on, const mmci_scan *scan, mmci_steps **out,
                             mmci_error *error) {
  mmci_steps *steps = mmci_alloc_zeroed(1, sizeof *steps);
  if (steps == NULL) return mmci_fail_nomem(error, sizeof *steps);
  steps->on = *on;
  steps->scan = *scan;
  mmc_status status = MMC_OK;
  if (scan->has_initial) status = prepare(steps, scan->initial, &steps->first, error);
  const mmci_form state = {.ld = scan->ldc, .stride = scan->c_stride};
  if (status == MMC_OK && scan->length > 1) status = prepare(steps, state, &steps->next, error);
  if (status == MMC_OK)
    *out = steps;
  else
    mmci_steps_destroy(steps);
  return status;
}

void mmci_steps_destroy(mmci_steps *steps) {
  if (steps == NULL) return;
  mmci_products_release(&steps->on, &steps->first);
  mmci_products_release(&steps->on, &steps->next);
  free(steps);
}

void mmci_steps_facts(const mmci_steps *steps, mmci_scan_facts *out) {
  const mmci_scan *scan = &steps->scan;
  *out = (mmci_scan_facts){.method = "sequential",
                           .kernel = steps->kernel_name != NULL ? steps->kernel_name : "copy",
                           .why = "each product needs the one before",
                           .blocks = 1,
                           .products = (scan->length - !scan->has_initial) * scan->batch};
}

/* Copies a matrix of each scan of the batch to its state t. */
static mmc_status copy_all(const mmci_steps *steps, mmci_queue *queue, const void *from,
                           const mmci_form *form, void *to, mmci_error *error) {
  const mmci_scan *scan = &steps->scan;
  const int64_t element = (int64_t)mmc_dtype_size(scan->dtype);
  mmc_status status = MMC_OK;
  for (int64_t b = 0; b < scan->batch && status == MMC_OK; b++)
    status =
        mmci_running_copy(&steps->on, queue, scan->dtype, mmci_scan_rows(scan),
                          mmci_scan_cols(scan), mmci_address(from, b * form->stride * element),
                          form, mmci_address(to, b * scan->c_stride * element), scan->ldc, error);
  return status;
}

mmc_status mmci_steps_enqueue(const mmci_steps *steps, mmci_queue *queue,
                              const mmci_scan_places *places, mmci_error *error) {
  const mmci_scan *scan = &steps->scan;
  const int64_t element = (int64_t)mmc_dtype_size(scan->dtype);
  const void *s = places->initial, *a = places->a, *addend = places->addend;
  void *c = places->c;
  mmc_status status = MMC_OK;
  for (int64_t t = 0; t < scan->length && status == MMC_OK; t++) {
    mmci_interrupt_span((double)t / (double)scan->length, (double)(t + 1) / (double)scan->length);
    if (scan->has_addend) status = copy_all(steps, queue, addend, &scan->addend, c, error);
    if (status == MMC_OK && t == 0 && !scan->has_initial)
      status = copy_all(steps, queue, a, &scan->a, c, error);
    else if (status == MMC_OK)
      status = mmci_products_enqueue(&steps->on, queue, t == 0 ? &steps->first : &steps->next,
                                     scan->left ? a : s, scan->left ? s : a, c, error);
    if (status == MMC_OK && mmci_interrupted())
      status = mmci_fail(error, MMC_E_INTERRUPTED, "stopped by the progress callback");
    s = c;
    a = mmci_address(a, scan->a_step * element);
    addend = mmci_address(addend, scan->addend_step * element);
    c = mmci_address(c, scan->c_step * element);
  }
  return status;
}

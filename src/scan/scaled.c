#include "scan/scaled.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/interrupt.h"
#include "chain/copy.h"
#include "chain/scale.h"
#include "scan/products.h"
#include "scan/running_parts.h"

/* Factors that have to be scaled are copied, all of the batch together, so there are two kinds of
 * products each. Copies lie as the factors do, but for the stride of a batch that shares none:
 * products of matrices that lie otherwise may be rounded otherwise. */
struct mmci_scaled {
  mmci_opened on;
  mmci_scan scan;
  mmci_products first[2], next[2]; /* by the factors as they lie, and by their copies */
  const char *kernel_name;
  char *factors;      /* copies, of the batch */
  char *states;       /* the initial states, scaled, without gaps */
  int64_t *exponents; /* of the factors, then of the states */
};

/* Returns the elements from the first one of a factor to its last. */
static int64_t extent(const mmci_scan *scan) {
  return (scan->n - 1) * scan->a.ld + scan->n;
}

static mmci_form copies_of(const mmci_scan *scan) {
  mmci_form form = scan->a;
  if (form.stride != 0) form.stride = extent(scan);
  return form;
}

static mmci_form first_state(const mmci_scan *scan) {
  mmci_form form = mmci_scan_state(scan);
  form.stride = scan->n * scan->width;
  return form;
}

static mmc_status prepare(mmci_scaled *x, mmci_form s, mmci_products out[2], mmci_error *error) {
  const mmci_scan *scan = &x->scan;
  const mmci_form copies = copies_of(scan), *const forms[] = {&scan->a, &copies};
  mmc_status status = MMC_OK;
  for (int i = 0; i < 2 && status == MMC_OK; i++) {
    mmci_gemm gemm = mmci_scan_gemm(scan, &s, forms[i], scan->ldc);
    gemm.batch = scan->batch;
    gemm.c_stride = scan->c_stride;
    x->kernel_name = x->on.ops->kernel_name(x->on.device, &gemm);
    status = mmci_products_prepare(&x->on, &gemm, &out[i], error);
  }
  return status;
}

mmc_status mmci_scaled_create(const mmci_opened *on, const mmci_scan *scan, mmci_scaled **out,
                              mmci_error *error) {
  mmci_scaled *x = mmci_alloc_zeroed(1, sizeof *x);
  if (x == NULL) return mmci_fail_nomem(error, sizeof *x);
  const size_t batch = (size_t)scan->batch, element = mmc_dtype_size(scan->dtype);
  const size_t n = (size_t)scan->n, width = (size_t)scan->width;
  x->on = *on;
  x->scan = *scan;
  x->factors = mmci_alloc_aligned(batch, (size_t)extent(scan) * element);
  x->states = mmci_alloc_aligned(scan->has_initial ? batch : 0, n * width * element);
  x->exponents = mmci_alloc_array(2 * batch, sizeof *x->exponents);
  mmc_status status = MMC_OK;
  if (x->factors == NULL || x->states == NULL || x->exponents == NULL)
    status = mmci_fail_nomem(error, batch * n * (n + width) * element);
  if (status == MMC_OK && scan->has_initial)
    status = prepare(x, first_state(scan), x->first, error);
  const mmci_form state = {.ld = scan->ldc, .stride = scan->c_stride};
  if (status == MMC_OK && scan->length > 1) status = prepare(x, state, x->next, error);
  if (status == MMC_OK)
    *out = x;
  else
    mmci_scaled_destroy(x);
  return status;
}

void mmci_scaled_destroy(mmci_scaled *x) {
  if (x == NULL) return;
  for (int i = 0; i < 2; i++) {
    mmci_products_release(&x->on, &x->first[i]);
    mmci_products_release(&x->on, &x->next[i]);
  }
  free(x->factors);
  free(x->states);
  free(x->exponents);
  free(x);
}

void mmci_scaled_facts(const mmci_scaled *x, mmci_scan_facts *out) {
  const mmci_scan *scan = &x->scan;
  *out = (mmci_scan_facts){.method = "sequential",
                           .kernel = x->kernel_name != NULL ? x->kernel_name : "copy",
                           .why = "each state is scaled before the next",
                           .blocks = 1,
                           .products = (scan->length - !scan->has_initial) * scan->batch};
}

static void *matrix_of(const mmci_scan *scan, const void *data, int64_t stride, int64_t b) {
  return mmci_address(data, b * stride * (int64_t)mmc_dtype_size(scan->dtype));
}

/* Finds the exponents of the factors of a step. Returns where to read them, and says in *copied
 * whether these are copies. */
static const void *scale_factors(const mmci_scaled *x, const void *a, bool *copied) {
  const mmci_scan *scan = &x->scan;
  const mmci_form copies = copies_of(scan);
  *copied = false;
  for (int64_t b = 0; b < scan->batch; b++) {
    x->exponents[b] = mmci_scale_needed(scan->dtype, scan->n, scan->n,
                                        matrix_of(scan, a, scan->a.stride, b), scan->a.ld);
    *copied = *copied || x->exponents[b] != 0;
  }
  for (int64_t b = 0; b < scan->batch && *copied; b++) {
    void *to = matrix_of(scan, x->factors, copies.stride, b);
    const mmci_form stored = {.ld = copies.ld};
    mmci_copy(scan->dtype, scan->n, scan->n, matrix_of(scan, a, scan->a.stride, b), &stored, to,
              copies.ld, false);
    if (x->exponents[b] != 0)
      mmci_scale_by(scan->dtype, scan->n, scan->n, to, copies.ld, (int)x->exponents[b]);
  }
  return *copied ? x->factors : a;
}

/* Takes the initial states, or none, as they are before the first factor. */
static void begin(const mmci_scaled *x, const void *initial) {
  const mmci_scan *scan = &x->scan;
  const int64_t rows = mmci_scan_rows(scan), cols = mmci_scan_cols(scan);
  const mmci_form form = first_state(scan);
  for (int64_t b = 0; b < scan->batch; b++) {
    x->exponents[scan->batch + b] = 0;
    if (!scan->has_initial) continue;
    void *to = matrix_of(scan, x->states, form.stride, b);
    mmci_copy(scan->dtype, rows, cols, matrix_of(scan, initial, scan->initial.stride, b),
              &scan->initial, to, form.ld, false);
    x->exponents[scan->batch + b] = mmci_scale(scan->dtype, rows, cols, to, form.ld);
  }
}

mmc_status mmci_scaled_execute(const mmci_scaled *x, mmci_queue *queue,
                               const mmci_scan_places *places, int64_t *exponents, int64_t stride,
                               int64_t step, mmci_error *error) {
  const mmci_scan *scan = &x->scan;
  const int64_t element = (int64_t)mmc_dtype_size(scan->dtype);
  const int64_t rows = mmci_scan_rows(scan), cols = mmci_scan_cols(scan);
  int64_t *of_states = x->exponents + scan->batch;
  const void *s = x->states;
  mmc_status status = MMC_OK;
  begin(x, places->initial);
  for (int64_t t = 0; t < scan->length && status == MMC_OK; t++) {
    void *c = mmci_address(places->c, t * scan->c_step * element);
    bool copied;
    mmci_interrupt_span((double)t / (double)scan->length, (double)(t + 1) / (double)scan->length);
    const void *a = scale_factors(x, mmci_address(places->a, t * scan->a_step * element), &copied);
    const mmci_form form = copied ? copies_of(scan) : scan->a;
    for (int64_t b = 0; b < scan->batch && t == 0 && !scan->has_initial; b++)
      mmci_copy(scan->dtype, rows, cols, matrix_of(scan, a, form.stride, b), &form,
                matrix_of(scan, c, scan->c_stride, b), scan->ldc, false);
    if (t > 0 || scan->has_initial)
      status = mmci_products_enqueue(&x->on, queue, (t == 0 ? x->first : x->next) + copied,
                                     scan->left ? a : s, scan->left ? s : a, c, error);
    if (status == MMC_OK) status = x->on.ops->sync(queue, error);
    for (int64_t b = 0; b < scan->batch && status == MMC_OK; b++) {
      of_states[b] +=
          x->exponents[b] +
          mmci_scale(scan->dtype, rows, cols, matrix_of(scan, c, scan->c_stride, b), scan->ldc);
      exponents[b * stride + t * step] = of_states[b];
    }
    if (status == MMC_OK && mmci_interrupted())
      status = mmci_fail(error, MMC_E_INTERRUPTED, "stopped by the progress callback");
    s = c;
  }
  return status;
}

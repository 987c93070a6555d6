#include "scan/levels.h"

#include "base/address.h"
#include "base/alloc.h"
#include "scan/products.h"
#include "scan/running_parts.h"

enum { MOST_LEVELS = 63 };

/* The products of 2^l factors each. */
typedef struct level {
  int64_t count;
  char *data;           /* NULL for level 0, the factors */
  mmci_form form;       /* its stride is from one to the next */
  mmci_products up;     /* makes it of the level below */
  mmci_products down;   /* makes states after odd numbers of its products */
  mmci_products before; /* makes the first of these states of the initial one */
} level;

struct mmci_levels {
  mmci_opened on;
  mmci_scan scan;
  int count;
  level levels[MOST_LEVELS];
  void *memory; /* of the device, for one scan */
  const char *kernel_name;
};

/* ---- preparing ------------------------------------------------------------------------------- */

int64_t mmci_levels_calls(const mmci_scan *scan) {
  int64_t calls = 0;
  for (int64_t count = scan->length; count > 0; count /= 2) calls += 3;
  return calls * scan->batch;
}

static mmc_status prepare(mmci_levels *levels, mmci_form s, mmci_form a, int64_t ldc,
                          int64_t c_stride, int64_t batch, mmci_products *out, mmci_error *error) {
  const mmci_device_ops *ops = levels->on.ops;
  if (batch < 1) return MMC_OK;
  mmci_gemm gemm = mmci_scan_gemm(&levels->scan, &s, &a, ldc);
  gemm.batch = batch;
  gemm.c_stride = c_stride;
  if (levels->kernel_name == NULL) levels->kernel_name = ops->kernel_name(levels->on.device, &gemm);
  return mmci_products_prepare(&levels->on, &gemm, out, error);
}

/* Returns a form whose stride is `times` as long. */
static mmci_form spread(mmci_form form, int64_t times) {
  form.stride *= times;
  return form;
}

/* Prepares the products that make and use level l. */
static mmc_status prepare_level(mmci_levels *levels, int l, mmci_error *error) {
  const mmci_scan *scan = &levels->scan;
  level *x = &levels->levels[l];
  const int64_t apart = scan->c_step * (INT64_C(2) << l), odd = (x->count - 1) / 2;
  const mmci_form states = {.ld = scan->ldc, .stride = apart};
  mmci_form initial = scan->initial, one = x->form;
  mmc_status status = MMC_OK;
  initial.stride = one.stride = 0;
  if (l > 0) {
    mmci_form pair = spread(levels->levels[l - 1].form, 2);
    status = prepare(levels, pair, pair, x->form.ld, x->form.stride, x->count, &x->up, error);
  }
  if (status == MMC_OK)
    status = prepare(levels, states, spread(x->form, 2), scan->ldc, apart, odd, &x->down, error);
  if (status == MMC_OK && scan->has_initial)
    status = prepare(levels, initial, one, scan->ldc, 0, 1, &x->before, error);
  return status;
}

static mmc_status take_memory(mmci_levels *levels, mmci_error *error) {
  const mmci_scan *scan = &levels->scan;
  const int64_t n = scan->n;
  const size_t matrix = (size_t)n * (size_t)n * mmc_dtype_size(scan->dtype);
  const mmci_form tight = {.ld = n, .stride = n * n};
  size_t offset = 0;
  for (int64_t count = scan->length; count > 0; count /= 2) {
    level *x = &levels->levels[levels->count++];
    x->count = count;
    x->form = levels->count == 1 ? spread(scan->a, 0) : tight;
  }
  levels->levels[0].form.stride = scan->a_step;
  for (int l = 1; l < levels->count; l++) offset += (size_t)levels->levels[l].count * matrix;
  if (offset == 0) return MMC_OK;
  mmc_status status = levels->on.ops->alloc(levels->on.device, offset, &levels->memory, error);
  char *at = levels->memory;
  for (int l = 1; l < levels->count && status == MMC_OK; l++) {
    levels->levels[l].data = at;
    at += (size_t)levels->levels[l].count * matrix;
  }
  return status;
}

mmc_status mmci_levels_create(const mmci_opened *on, const mmci_scan *scan, mmci_levels **out,
                              mmci_error *error) {
  mmci_levels *levels = mmci_alloc_zeroed(1, sizeof *levels);
  if (levels == NULL) return mmci_fail_nomem(error, sizeof *levels);
  levels->on = *on;
  levels->scan = *scan;
  mmc_status status = take_memory(levels, error);
  for (int l = 0; l < levels->count && status == MMC_OK; l++)
    status = prepare_level(levels, l, error);
  if (status == MMC_OK)
    *out = levels;
  else
    mmci_levels_destroy(levels);
  return status;
}

void mmci_levels_destroy(mmci_levels *levels) {
  if (levels == NULL) return;
  for (int l = 0; l < levels->count; l++) {
    mmci_products_release(&levels->on, &levels->levels[l].up);
    mmci_products_release(&levels->on, &levels->levels[l].down);
    mmci_products_release(&levels->on, &levels->levels[l].before);
  }
  if (levels->memory != NULL) levels->on.ops->dealloc(levels->on.device, levels->memory);
  free(levels);
}

void mmci_levels_facts(const mmci_levels *levels, mmci_scan_facts *out) {
  const mmci_scan *scan = &levels->scan;
  *out = (mmci_scan_facts){
      .method = "levels",
      .kernel = levels->kernel_name != NULL ? levels->kernel_name : "copy",
      .why = "products that need not wait for each other are one call",
      .blocks = scan->length,
  };
  for (int l = 0; l < levels->count; l++) {
    const level *x = &levels->levels[l];
    out->products += (l > 0 ? x->count : 0) + (x->count - 1) / 2 + scan->has_initial;
  }
  out->products *= scan->batch;
}

/* ---- multiplying ----------------------------------------------------------------------------- */

/* One scan of the batch. */
typedef struct pass {
  const mmci_levels *levels;
  mmci_queue *queue;
  const char *a, *initial;
  char *c;
  int64_t element;
} pass;

/* Returns where product i of level l lies. */
static const void *product_at(const pass *p, int l, int64_t i) {
  const level *x = &p->levels->levels[l];
  return mmci_address(l == 0 ? p->a : x->data, i * x->form.stride * p->element);
}

/* Returns where the state after so many factors lies. */
static void *state_after(const pass *p, int64_t count) {
  return mmci_address(p->c, (count - 1) * p->levels->scan.c_step * p->element);
}

/* Multiplies states, or products, by later products. */
static mmc_status multiply(const pass *p, const mmci_products *products, const void *s,
                           const void *a, void *c, mmci_error *error) {
  bool left = p->levels->scan.left;
  return mmci_products_enqueue(&p->levels->on, p->queue, products, left ? a : s, left ? s : a, c,
                               error);
}

/* Makes the states of level l that level l + 1 has not made: the first and the odd ones. */
static mmc_status go_down(const pass *p, int l, mmci_error *error) {
  const mmci_scan *scan = &p->levels->scan;
  const level *x = &p->levels->levels[l];
  const int64_t size = INT64_C(1) << l;
  mmc_status status =
      x->before.kernel != NULL
          ? multiply(p, &x->before, p->initial, product_at(p, l, 0), state_after(p, size), error)
          : mmci_running_copy(&p->levels->on, p->queue, scan->dtype, scan->n, scan->n,
                              product_at(p, l, 0), &x->form, state_after(p, size), scan->ldc,
                              error);
  if (status != MMC_OK || x->down.kernel == NULL) return status;
  return multiply(p, &x->down, state_after(p, 2 * size), product_at(p, l, 2),
                  state_after(p, 3 * size), error);
}

static mmc_status compute_scan(const pass *p, mmci_error *error) {
  mmc_status status = MMC_OK;
  for (int l = 1; l < p->levels->count && status == MMC_OK; l++)
    status = multiply(p, &p->levels->levels[l].up, product_at(p, l - 1, 0), product_at(p, l - 1, 1),
                      p->levels->levels[l].data, error);
  for (int l = p->levels->count - 1; l >= 0 && status == MMC_OK; l--) status = go_down(p, l, error);
  return status;
}

mmc_status mmci_levels_enqueue(const mmci_levels *levels, mmci_queue *queue,
                               const mmci_scan_places *places, mmci_error *error) {
  const mmci_scan *scan = &levels->scan;
  const int64_t element = (int64_t)mmc_dtype_size(scan->dtype);
  mmc_status status = MMC_OK;
  for (int64_t b = 0; b < scan->batch && status == MMC_OK; b++) {
    const pass p = {.levels = levels,
                    .queue = queue,
                    .a = mmci_address(places->a, b * scan->a.stride * element),
                    .initial = mmci_address(places->initial, b * scan->initial.stride * element),
                    .c = mmci_address(places->c, b * scan->c_stride * element),
                    .element = element};
    status = compute_scan(&p, error);
  }
  return status;
}

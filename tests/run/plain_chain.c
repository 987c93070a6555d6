#include "plain_chain.h"

#include <stdlib.h>
#include <string.h>

#include "device/ref/ref.h"

mmci_group *plain_chain_copy(const mmci_group *chain) {
  size_t forms = (size_t)chain->n * sizeof *chain->forms;
  size_t products = (size_t)chain->count * sizeof *chain->products;
  mmci_group *copy = malloc(sizeof *copy + forms + products);
  if (copy == NULL) abort();
  *copy = *chain;
  copy->forms = memcpy(copy + 1, chain->forms, forms);
  copy->products = memcpy((char *)(copy + 1) + forms, chain->products, products);
  return copy;
}

/* The rows and columns of what stands at a number; -1 for an operand, which fits anything. */
static int64_t rows_of(const mmci_group *x, int32_t number) {
  return number < x->n ? -1 : x->products[number - x->n].m;
}
static int64_t cols_of(const mmci_group *x, int32_t number) {
  return number < x->n ? -1 : x->products[number - x->n].n;
}

static bool fits(int64_t size, int64_t wanted) {
  return size < 0 || size == wanted;
}

const char *plain_chain_fault(const mmci_group *x) {
  if (x->n < 1 || x->count < 1 || x->batch != 1) return "a chain of nothing, or a batch";
  bool read[256] = {false};
  if (x->n + x->count > 256) return "more than fit";
  for (int32_t p = 0; p < x->count; p++) {
    const mmci_group_product *s = &x->products[p];
    if (s->left < 0 || s->right < 0 || s->left >= x->n + p || s->right >= x->n + p)
      return "a product that reads what comes later";
    if (!fits(rows_of(x, s->left), s->m) || !fits(cols_of(x, s->left), s->k) ||
        !fits(rows_of(x, s->right), s->k) || !fits(cols_of(x, s->right), s->n))
      return "a product of what does not fit together";
    read[s->left] = read[s->right] = true;
  }
  for (int32_t i = 0; i < x->n + x->count - 1; i++)
    if (!read[i]) return "something that nobody reads";
  return x->ldc >= x->products[x->count - 1].n ? NULL : "rows of the result overlap";
}

void plain_chain_multiply(const mmci_group *x, const void *const *operands, void *c) {
  void **results = calloc((size_t)x->count, sizeof *results);
  if (results == NULL) abort();
  for (int32_t p = 0; p < x->count; p++) {
    const mmci_group_product *s = &x->products[p];
    bool last = p == x->count - 1;
    const void *data[2];
    mmci_form forms[2];
    int32_t numbers[] = {s->left, s->right};
    for (int o = 0; o < 2; o++) {
      int32_t number = numbers[o];
      int64_t cols = number < x->n ? 0 : x->products[number - x->n].n;
      data[o] = number < x->n ? operands[number] : results[number - x->n];
      forms[o] = number < x->n ? x->forms[number] : (mmci_form){.ld = cols > 0 ? cols : 1};
    }
    mmci_gemm gemm = {.dtype = x->dtype,
                      .precision = x->precision,
                      .m = s->m,
                      .k = s->k,
                      .n = s->n,
                      .a = forms[0],
                      .b = forms[1],
                      .ldc = last       ? x->ldc
                             : s->n > 0 ? s->n
                                        : 1};
    results[p] = last ? NULL : malloc((size_t)(s->m * s->n) * mmc_dtype_size(x->dtype) + 1);
    if (!last && results[p] == NULL) abort();
    mmci_ref_gemm(&gemm, data[0], data[1], last ? c : results[p]);
  }
  for (int32_t p = 0; p < x->count; p++) free(results[p]);
  free(results);
}

/* ---- on the host ------------------------------------------------------------------------------
 */

struct mmci_group_kernel {
  mmci_group *chain;
};

int plain_host_refusals, plain_host_enqueued;

static bool supports(const mmci_device *device, const mmci_group *chain) {
  (void)device;
  return plain_chain_fault(chain) == NULL;
}

static const char *name(const mmci_device *device, const mmci_group *chain) {
  (void)device, (void)chain;
  return "plain";
}

static mmc_status prepare(mmci_device *device, const mmci_group *chain, mmci_group_kernel **out,
                          mmci_error *error) {
  (void)device;
  const char *fault = plain_chain_fault(chain);
  if (fault != NULL) return mmci_fail(error, MMC_E_DEVICE, "%s", fault);
  if (plain_host_refusals > 0 && plain_host_refusals-- > 0)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "refused");
  mmci_group_kernel *kernel = malloc(sizeof *kernel);
  if (kernel == NULL) abort();
  kernel->chain = plain_chain_copy(chain);
  *out = kernel;
  return MMC_OK;
}

static void release(mmci_group_kernel *kernel) {
  free(kernel->chain);
  free(kernel);
}

static mmc_status enqueue(mmci_queue *queue, const mmci_group_kernel *kernel,
                          const void *const *operands, void *c, mmci_error *error) {
  (void)queue, (void)error;
  plain_host_enqueued++;
  plain_chain_multiply(kernel->chain, operands, c);
  return MMC_OK;
}

plain_host plain_host_open(void) {
  plain_host host = {.ops = mmci_device_ref};
  host.ops.group_supports = supports;
  host.ops.group_name = name;
  host.ops.group_prepare = prepare;
  host.ops.group_release = release;
  host.ops.group_enqueue = enqueue;
  if (host.ops.open(0, &host.device, NULL) != MMC_OK) abort();
  return host;
}

void plain_host_close(plain_host *host) {
  host->ops.close(host->device);
}

/* api_kernel.c: the ways of a device to compute a product, by name. */
#include <string.h>

#include "api/api.h"
#include "base/alloc.h"
#include "cost/recipe.h"

bool mmci_kernel_is_called(const char *name, const char *asked) {
  return strncmp(name, asked, strlen(asked)) == 0;
}

mmci_gemm mmci_step_gemm(const mmci_plan *plan, const mmci_opened *on, mmci_precision precision,
                         int32_t step) {
  const mmci_plan_step *s = &plan->steps[step];
  mmci_range r = mmci_plan_range(plan, s);
  mmci_gemm gemm = mmci_chain_product(plan->chain, precision, r.first, r.split, r.last);
  if (s->recipe != NULL && mmci_recipe_count(s->recipe) == 1)
    gemm.variant = s->recipe->nodes[0].variant;
  mmci_gemm_spread(&gemm, plan->chunk);
  if (!on->ops->supports(on->device, &gemm)) mmci_gemm_spread(&gemm, 1);
  return gemm;
}

/* Whether the device has this way to the product. Fails as prepare does, but for E_UNSUPPORTED. */
static mmc_status can_prepare(const mmci_opened *on, const mmci_gemm *gemm, bool *out,
                              mmci_error *error) {
  mmci_kernel *kernel;
  *out = false;
  if (!on->ops->supports(on->device, gemm)) return MMC_OK;
  mmc_status status = on->ops->prepare(on->device, gemm, &kernel, error);
  if (status == MMC_E_UNSUPPORTED) return MMC_OK;
  *out = status == MMC_OK;
  if (*out) on->ops->release(kernel);
  return status;
}

/* ---- plans --------------------------------------------------------------------------------- */

/* The first variant of that name; *found: whether there is one. */
static mmc_status find_variant(const mmci_opened *on, mmci_gemm *gemm, const char *kernel,
                               bool *found, mmci_error *error) {
  *found = kernel[0] == '\0'; /* the device's own choice, which prepare takes whatever it is */
  if (*found) return MMC_OK;
  int count = on->ops->variants(on->device, gemm);
  mmc_status status = MMC_OK;
  for (int v = 0; v <= count && !*found && status == MMC_OK; v++) {
    gemm->variant = v;
    if (mmci_kernel_is_called(on->ops->kernel_name(on->device, gemm), kernel))
      status = can_prepare(on, gemm, found, error);
  }
  return status;
}

mmc_status mmci_plan_by_kernel(mmci_plan *plan, const mmci_opened *on, mmci_precision precision,
                               const char *kernel, bool *found, mmci_error *error) {
  size_t count = (size_t)plan->step_count;
  mmci_recipe *ways = mmci_alloc_array(count, sizeof *ways);
  if (ways == NULL) return mmci_fail_nomem(error, count * sizeof *ways);
  /* Panels of streamed products are computed by the device's own choice. */
  *found = !plan->streamed || kernel[0] == '\0';
  mmc_status status = MMC_OK;
  for (size_t s = 0; s < count && *found && status == MMC_OK; s++) {
    mmci_gemm gemm = mmci_step_gemm(plan, on, precision, (int32_t)s);
    status = find_variant(on, &gemm, kernel, found, error);
    ways[s] = mmci_recipe_whole(gemm.variant);
  }
  if (status != MMC_OK || !*found) {
    free(ways);
    return status;
  }
  for (size_t s = 0; s < count; s++)
    if (!mmci_recipe_is_plain(&ways[s])) plan->steps[s].recipe = &ways[s];
  plan->ways = ways;
  return MMC_OK;
}

/* ---- descriptions -------------------------------------------------------------------------- */

static mmc_status check_product(const mmc_tune_product *p, mmci_error *error) {
  if (p == NULL) return mmci_fail(error, MMC_E_ARG, "product: expected a product, got NULL");
  if (mmc_dtype_name(p->dtype) == NULL)
    return mmci_fail(error, MMC_E_ARG, "dtype: expected one of mmc_dtype, got number %d",
                     (int)p->dtype);
  if (p->m < 1 || p->k < 1 || p->n < 1)
    return mmci_fail(error, MMC_E_ARG, "product: expected sizes from 1, got %lldx%lldx%lld",
                     (long long)p->m, (long long)p->k, (long long)p->n);
  if ((unsigned)p->op_a > MMC_OP_H || (unsigned)p->op_b > MMC_OP_H)
    return mmci_fail(error, MMC_E_ARG, "product: expected ops of mmc_op, got numbers %d and %d",
                     (int)p->op_a, (int)p->op_b);
  return MMC_OK;
}

static mmc_status describe(mmc_context *context, const char *device, const char *precision_name,
                           const mmc_tune_product *p, int index, mmc_kernel_info *out,
                           mmci_error *error) {
  mmci_opened on;
  mmci_precision precision;
  mmc_status status = check_product(p, error);
  if (status == MMC_OK) status = mmci_precision_read(precision_name, &precision, error);
  if (status == MMC_OK)
    status = mmci_context_open_device(context, device != NULL ? device : "cpu", &on, error);
  if (status == MMC_OK && on.ops->prepare == NULL)
    status = mmci_fail(error, MMC_E_UNSUPPORTED, "device '%s' cannot multiply", on.name);
  if (status != MMC_OK) return status;
  mmci_gemm gemm = mmci_gemm_tight(p->dtype, precision, p->m, p->k, p->n, p->op_a, p->op_b);
  int count = on.ops->variants(on.device, &gemm);
  if (index < 0 || index > count)
    return mmci_fail(error, MMC_E_ARG, "index: expected 0 to %d, got %d", count, index);
  gemm.variant = index;
  mmc_kernel_info info = {.name = on.ops->kernel_name(on.device, &gemm)};
  mmci_kernel_facts facts = {0};
  status = can_prepare(&on, &gemm, &info.available, error);
  if (status != MMC_OK) return status;
  if (!info.available || on.ops->kernel_facts == NULL ||
      on.ops->kernel_facts(on.device, &gemm, &facts, NULL) != MMC_OK)
    facts = (mmci_kernel_facts){0};
  info.registers_per_thread = facts.registers_per_thread;
  info.threads_per_block = facts.threads_per_block;
  info.shared_bytes_per_block = facts.shared_bytes_per_block;
  *out = info;
  return MMC_OK;
}

mmc_status mmc_kernel_describe(mmc_context *context, const char *device, const char *precision,
                               const mmc_tune_product *product, int index, mmc_kernel_info *out) {
  if (context == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  mmc_status status = out == NULL
                          ? mmci_fail(&error, MMC_E_ARG, "out: expected an address, got NULL")
                          : describe(context, device, precision, product, index, out, &error);
  return mmci_report(context, status, &error);
}

/* api_kernel.c: the public call that describes a device's kernels for a product. */
#include "api/api.h"
#include "planner/offers.h"

static mmc_status check_product(const mmc_tune_product *p, mmci_error *error) {
  if (p == NULL) return mmci_fail(error, MMC_E_ARG, "product: expected a product, got NULL");
  if (mmc_dtype_name(p->dtype) == NULL)
    return mmci_fail(error, MMC_E_ARG, "dtype: expected one of mmc_dtype, got number %d",
                     (int)p->dtype);
  const int64_t sizes[] = {p->m, p->k, p->n};
  for (int d = 0; d < 3; d++)
    if (sizes[d] < 1 || sizes[d] > MMCI_MAX_DIM)
      return mmci_fail(error, MMC_E_ARG, "product: expected %c from 1 to 2^62, got %lld", "mkn"[d],
                       (long long)sizes[d]);
  if ((unsigned)p->op_a > MMC_OP_H || (unsigned)p->op_b > MMC_OP_H)
    return mmci_fail(error, MMC_E_ARG, "product: expected ops of mmc_op, got numbers %d and %d",
                     (int)p->op_a, (int)p->op_b);
  return MMC_OK;
}

static mmc_status describe_kernel(mmc_context *context, const char *device,
                                  const char *precision_name, const mmc_tune_product *p, int index,
                                  mmc_kernel_info *out, mmci_error *error) {
  mmci_opened on;
  mmci_precision precision;
  mmc_status status = check_product(p, error);
  if (status == MMC_OK) status = mmci_precision_read(precision_name, &precision, error);
  if (status == MMC_OK)
    status = mmci_context_open_device(context, device != NULL ? device : "cpu", &on, error);
  if (status == MMC_OK && on.ops->prepare == NULL)
    status =
        mmci_fail_argument(error, MMC_E_UNSUPPORTED, "device", "'%s' cannot multiply", on.name);
  if (status != MMC_OK) return status;
  mmci_gemm gemm = mmci_gemm_tight(p->dtype, precision, p->m, p->k, p->n, p->op_a, p->op_b);
  mmci_gemm_choose_sums(&gemm);
  int count = on.ops->variants(on.device, &gemm);
  if (index < 0 || index > count)
    return mmci_fail(error, MMC_E_ARG, "index: expected 0 to %d, got %d", count, index);
  gemm.variant = index;
  mmc_kernel_info info = {.name = on.ops->kernel_name(on.device, &gemm)};
  mmci_kernel_facts facts = {0};
  status = mmci_offers_product(&on, &gemm, &info.available, error);
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
  mmc_status status =
      out == NULL ? mmci_fail(&error, MMC_E_ARG, "out: expected an address, got NULL")
                  : describe_kernel(context, device, precision, product, index, out, &error);
  return mmci_report(context, status, &error);
}

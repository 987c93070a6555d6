/* api_gradients.c: the public calls about gradients. */
#include "api/api.h"
#include "base/alloc.h"
#include "gradients/gradients.h"

struct mmc_gradients {
  mmc_context *context;
  mmci_gradients *gradients;
  mmci_interrupt interrupt;
};

mmc_status mmc_gradients_create(const mmc_plan *plan, const bool *wanted, mmc_gradients **out) {
  return mmc_gradients_create_within(plan, wanted, MMC_NO_LIMIT, out);
}

mmc_status mmc_gradients_create_within(const mmc_plan *plan, const bool *wanted,
                                       uint64_t memory_limit_bytes, mmc_gradients **out) {
  if (plan == NULL) return MMC_E_ARG;
  if (out == NULL) return mmci_report_null(plan->context, "out");
  mmci_error error = {0};
  if (plan->plan.structure != NULL)
    return mmci_report(plan->context,
                       mmci_fail(&error, MMC_E_UNSUPPORTED,
                                 "plan: expected one of dense products; this one uses the "
                                 "structure of factors"),
                       &error);
  mmc_gradients *gradients = mmci_alloc_zeroed(1, sizeof *gradients);
  if (gradients == NULL)
    return mmci_report(plan->context, mmci_fail_nomem(&error, sizeof *gradients), &error);
  gradients->context = plan->context;
  mmc_status status = mmci_gradients_create(&plan->plan, wanted, memory_limit_bytes, plan->on.ops,
                                            plan->on.device, &gradients->gradients, &error);
  if (status == MMC_OK)
    *out = gradients;
  else
    free(gradients);
  return mmci_report(plan->context, status, &error);
}

void mmc_gradients_destroy(mmc_gradients *gradients) {
  if (gradients == NULL) return;
  mmci_gradients_destroy(gradients->gradients);
  free(gradients);
}

uint64_t mmc_gradients_bytes(const mmc_gradients *gradients) {
  return gradients != NULL ? mmci_gradients_bytes(gradients->gradients) : 0;
}

uint64_t mmc_gradients_offset(const mmc_gradients *gradients, int64_t i) {
  return gradients != NULL ? mmci_gradients_offset(gradients->gradients, i) : UINT64_MAX;
}

void mmc_gradients_on_stream(mmc_gradients *gradients, void *stream) {
  if (gradients != NULL) mmci_gradients_on_stream(gradients->gradients, stream);
}

void mmc_gradients_progress(mmc_gradients *gradients, mmc_progress_fn progress, void *user) {
  if (gradients == NULL) return;
  gradients->interrupt.ask = progress;
  gradients->interrupt.user = user;
}

mmc_status mmc_gradients_forward(mmc_gradients *gradients, const mmc_matrix *factors, void *memory,
                                 const mmc_matrix *out) {
  if (gradients == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  mmci_interrupt *before = mmci_interrupt_begin(&gradients->interrupt);
  mmc_status status = mmci_gradients_forward(gradients->gradients, factors, memory, out, &error);
  mmci_interrupt_end(before);
  return mmci_report(gradients->context, status, &error);
}

mmc_status mmc_gradients_backward(mmc_gradients *gradients, const mmc_matrix *factors, void *memory,
                                  const mmc_matrix *cotangent, const mmc_matrix *copies) {
  if (gradients == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  mmci_interrupt *before = mmci_interrupt_begin(&gradients->interrupt);
  mmc_status status =
      mmci_gradients_backward(gradients->gradients, factors, memory, cotangent, copies, &error);
  mmci_interrupt_end(before);
  return mmci_report(gradients->context, status, &error);
}

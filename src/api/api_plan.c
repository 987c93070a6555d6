/* api_plan.c: plans and runs. */
#include <string.h>

#include "api/api.h"
#include "base/alloc.h"

/* How an operand of a step lies when it has no gaps and, for a factor, is row-major. */
static mmci_form expected_form(const mmc_chain *chain, int32_t number, int64_t rows, int64_t cols) {
  mmc_op op = number < chain->n ? chain->ops[number] : MMC_OP_N;
  int64_t ld = op == MMC_OP_N ? cols : rows;
  return (mmci_form){
      .ld = ld > 0 ? ld : 1,
      .trans = op != MMC_OP_N,
      .conj = op == MMC_OP_H && (chain->dtype == MMC_C64 || chain->dtype == MMC_C128),
  };
}

/* Which kernel the device will run for every step, for whom the plan is explained to. */
static void name_kernels(mmc_plan *plan) {
  const mmc_chain *chain = plan->plan.chain;
  for (int32_t s = 0; s < chain->n - 1; s++) {
    mmci_plan_step *step = &plan->plan.steps[s];
    mmci_gemm gemm = {.dtype = chain->dtype,
                      .precision = plan->precision,
                      .m = step->m,
                      .k = step->k,
                      .n = step->n,
                      .a = expected_form(chain, step->left, step->m, step->k),
                      .b = expected_form(chain, step->right, step->k, step->n),
                      .ldc = step->n > 0 ? step->n : 1};
    step->kernel = plan->on.ops->kernel_name(plan->on.device, &gemm);
  }
}

/* ---- options ------------------------------------------------------------------------------- */

static mmc_status parse_precision(const char *name, mmc_plan *plan, mmci_error *error) {
  static const char *const names[] = {
      [MMCI_NATIVE] = "native", [MMCI_FAITHFUL] = "faithful", [MMCI_FAST] = "fast"};
  for (int p = 0; p < (int)(sizeof names / sizeof names[0]); p++) {
    if (name != NULL && strcmp(name, names[p]) != 0) continue;
    plan->precision = (mmci_precision)p;
    plan->plan.precision = names[p];
    return MMC_OK;
  }
  return mmci_fail(error, MMC_E_ARG, "precision: expected native, faithful or fast, got '%s'",
                   name);
}

static mmc_status check_options(const mmc_plan_options *options, mmci_error *error) {
  if (options->size != sizeof *options)
    return mmci_fail(error, MMC_E_ARG, "options: expected size %zu, got %zu", sizeof *options,
                     options->size);
  if (options->objective != NULL && strcmp(options->objective, "flops") != 0 &&
      strcmp(options->objective, "time") != 0)
    return mmci_fail(error, MMC_E_ARG, "objective: expected flops, got '%s'", options->objective);
  if (options->location != MMC_HOST && options->location != MMC_DEVICE)
    return mmci_fail(error, MMC_E_ARG, "location: expected MMC_HOST or MMC_DEVICE, got number %d",
                     (int)options->location);
  return MMC_OK;
}

/* ---- plans --------------------------------------------------------------------------------- */

/* What a device with memory of its own can hold. Some of what is free is left to its libraries. */
static mmc_status fit(mmc_plan *plan, const mmc_plan_options *options, mmci_error *error) {
  const mmci_device_async *async = plan->on.ops->async;
  if (async == NULL) return MMC_OK;
  uint64_t free_bytes, total_bytes;
  mmc_status status = async->memory(plan->on.device, &free_bytes, &total_bytes, error);
  if (status != MMC_OK) return status;
  mmci_plan_machine machine = {.queues = async->queues,
                               .memory_bytes = free_bytes - free_bytes / 16,
                               .staged = options->location == MMC_HOST};
  if (options->device_memory_bytes < machine.memory_bytes)
    machine.memory_bytes = options->device_memory_bytes;
  return mmci_plan_fit(&plan->plan, &machine, options->memory_limit_bytes, error);
}

static mmc_status create_plan(mmc_context *context, const mmc_chain *chain,
                              const mmc_plan_options *options, mmc_plan **out, mmci_error *error) {
  if (chain == NULL) return mmci_fail(error, MMC_E_ARG, "chain: expected a chain, got NULL");
  if (out == NULL) return mmci_fail(error, MMC_E_ARG, "out: expected an address, got NULL");
  mmc_plan_options defaults = MMC_PLAN_OPTIONS_INIT;
  if (options == NULL) options = &defaults;
  mmc_status status = check_options(options, error);
  if (status != MMC_OK) return status;
  const char *solver = options->solver != NULL ? options->solver : "auto";
  const char *device = options->device != NULL ? options->device : "cpu";

  mmc_plan *plan = malloc(sizeof *plan);
  if (plan == NULL) return mmci_fail_nomem(error, sizeof *plan);
  plan->context = context;
  status = mmci_context_open_device(context, device, &plan->on, error);
  if (status == MMC_OK && plan->on.ops->enqueue == NULL)
    status = mmci_fail(error, MMC_E_UNSUPPORTED, "device '%s' cannot multiply", device);
  if (status == MMC_OK)
    status = mmci_plan_create(chain, solver, options->memory_limit_bytes, &plan->plan, error);
  if (status != MMC_OK) {
    free(plan);
    return status;
  }
  plan->plan.device = plan->on.name;
  status = parse_precision(options->precision, plan, error);
  if (status == MMC_OK) status = fit(plan, options, error);
  if (status != MMC_OK) {
    mmc_plan_destroy(plan);
    return status;
  }
  name_kernels(plan);
  *out = plan;
  return MMC_OK;
}

mmc_status mmc_plan_create(mmc_context *context, const mmc_chain *chain,
                           const mmc_plan_options *options, mmc_plan **out) {
  if (context == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  return mmci_report(context, create_plan(context, chain, options, out, &error), &error);
}

void mmc_plan_destroy(mmc_plan *plan) {
  if (plan == NULL) return;
  mmci_plan_destroy(&plan->plan);
  free(plan);
}

mmc_status mmc_plan_explain(const mmc_plan *plan, mmc_format format, mmc_write_fn write,
                            void *user) {
  if (plan == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  mmc_status status = write == NULL
                          ? mmci_fail(&error, MMC_E_ARG, "write: expected a function, got NULL")
                          : mmci_plan_explain(&plan->plan, format, write, user, &error);
  return mmci_report(plan->context, status, &error);
}

mmc_count mmc_plan_multiplications(const mmc_plan *plan) {
  return mmci_count(plan->plan.multiplications);
}

uint64_t mmc_plan_workspace_bytes(const mmc_plan *plan) {
  return plan->plan.workspace_bytes;
}

const char *mmc_plan_device(const mmc_plan *plan) {
  return plan->plan.device;
}

int64_t mmc_plan_step_count(const mmc_plan *plan) {
  return plan->plan.chain->n - 1;
}

mmc_status mmc_plan_step(const mmc_plan *plan, int64_t index, mmc_step *out) {
  if (plan == NULL || out == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  if (index < 0 || index >= mmc_plan_step_count(plan))
    return mmci_report(
        plan->context,
        mmci_fail(&error, MMC_E_ARG, "index: the plan has no step %lld", (long long)index), &error);
  const mmci_plan_step *step = &plan->plan.steps[index];
  *out = (mmc_step){
      .m = step->m,
      .k = step->k,
      .n = step->n,
      .left = step->left,
      .right = step->right,
      .first = step->first,
      .last = step->last,
  };
  return MMC_OK;
}

/* ---- runs ---------------------------------------------------------------------------------- */

mmc_status mmc_run_create(const mmc_plan *plan, mmc_run **out) {
  if (plan == NULL || out == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  mmc_run *run = malloc(sizeof *run);
  if (run == NULL) return mmci_report(plan->context, mmci_fail_nomem(&error, sizeof *run), &error);
  run->plan = plan;
  mmc_status status = mmci_run_create(&plan->plan, plan->on.ops, plan->on.device, plan->precision,
                                      &run->run, &error);
  if (status != MMC_OK) {
    free(run);
    return mmci_report(plan->context, status, &error);
  }
  *out = run;
  return MMC_OK;
}

void mmc_run_destroy(mmc_run *run) {
  if (run == NULL) return;
  mmci_run_destroy(run->run);
  free(run);
}

mmc_status mmc_execute(mmc_run *run, const mmc_matrix *factors, const mmc_matrix *out) {
  if (run == NULL) return MMC_E_ARG;
  mmci_error error;
  mmc_status status = mmci_run_execute(run->run, factors, out, &error);
  return status == MMC_OK ? MMC_OK : mmci_report(run->plan->context, status, &error);
}

mmc_status mmc_enqueue(mmc_run *run, void *stream, const mmc_matrix *factors,
                       const mmc_matrix *out) {
  if (run == NULL) return MMC_E_ARG;
  mmci_error error;
  mmc_status status = mmci_run_enqueue(run->run, stream, factors, out, &error);
  return status == MMC_OK ? MMC_OK : mmci_report(run->plan->context, status, &error);
}

mmc_status mmc_wait(mmc_run *run) {
  if (run == NULL) return MMC_E_ARG;
  mmci_error error;
  mmc_status status = mmci_run_wait(run->run, &error);
  return status == MMC_OK ? MMC_OK : mmci_report(run->plan->context, status, &error);
}

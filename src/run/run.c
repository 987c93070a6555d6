/* run.c: a run of a plan. On host memory it is walked here; on a device with memory of its own by
 * resident.c or, when it does not fit there, by batches.c and streamed.c. */
#include "run/run.h"

#include <string.h>

#include "base/alloc.h"
#include "base/interrupt.h"
#include "chain/copy.h"
#include "plan/plan_groups.h"
#include "run/actions.h"
#include "run/batches.h"
#include "run/matrices.h"
#include "run/resident.h"
#include "run/scaled_run.h"
#include "run/streamed.h"
#include "run/structured_run.h"

struct mmci_run {
  const mmci_plan *plan;
  const mmci_device_ops *ops;
  mmci_device *device;
  mmci_precision precision;
  /* The run of the plan without groups, which takes over once the device refused a group as its
   * matrices lay. Where it was only slow so, that goes for executions whose matrices lie as those
   * that came last; else for all, and then all other fields are empty. */
  mmci_run *separate;
  mmci_plan separate_plan;
  mmc_matrix *slow; /* n + 1 of them, the result last; NULL where separate is for all */

  mmci_resident *resident; /* one of three at most; without any, the device uses host memory */
  mmci_batches *batches;
  mmci_streamed *streamed;
  mmci_scaled_run *scaled;         /* where results have exponents */
  mmci_structured_run *structured; /* where the plan uses the structure of factors */

  mmci_queue *queue;
  char *workspace;
  mmci_actions actions; /* actions for one chunk of chains */
  mmci_actions rest;    /* actions for the chains left at the end of a batch, if any */
  mmci_operand *operands;
  mmc_matrix *even; /* n + 1 matrices, for addresses that are evenly spaced */
  /* The matrices of the execution before. Most callers give the same ones again, and then neither
   * checks nor operands have to be made anew. */
  bool bound;
  mmc_matrix *factors;
  mmc_matrix out;
};

/* ---- creation ------------------------------------------------------------------------------ */

static mmc_status create_on_host(mmci_run *run, mmci_error *error) {
  const mmci_plan *plan = run->plan;
  size_t n = (size_t)plan->chain->n;
  if (plan->workspace_bytes > SIZE_MAX) return mmci_fail_nomem(error, plan->workspace_bytes);
  run->factors = mmci_alloc_array(n, sizeof *run->factors);
  run->operands = mmci_alloc_array(n, sizeof *run->operands);
  if (run->factors == NULL || run->operands == NULL)
    return mmci_fail_nomem(error, n * (sizeof *run->factors + sizeof *run->operands));
  mmc_status status = run->ops->queue_open(run->device, &run->queue, error);
  if (status == MMC_OK && plan->workspace_bytes > 0) {
    void *workspace = NULL;
    status = run->ops->alloc(run->device, (size_t)plan->workspace_bytes, &workspace, error);
    run->workspace = workspace;
  }
  if (status == MMC_OK)
    status = mmci_actions_expect(&run->actions, run->operands, run->workspace, error);
  if (status == MMC_OK && run->rest.actions != NULL)
    status = mmci_actions_expect(&run->rest, run->operands, run->workspace, error);
  return status;
}

/* Makes the actions, and those for the rest of a batch. */
static mmc_status create_actions(mmci_run *run, mmci_error *error) {
  const mmci_plan *plan = run->plan;
  int64_t rest = plan->chunk > 0 ? plan->chain->batch % plan->chunk : 0;
  mmc_status status = mmci_actions_create(plan, run->ops, run->device, run->precision, plan->chunk,
                                          &run->actions, error);
  if (status == MMC_OK && rest > 0)
    status =
        mmci_actions_create(plan, run->ops, run->device, run->precision, rest, &run->rest, error);
  return status;
}

/* Takes what executing run->plan needs. */
static mmc_status start_run(mmci_run *run, mmci_error *error) {
  const mmci_plan *plan = run->plan;
  size_t count = (size_t)plan->chain->n + 1;
  run->even = mmci_alloc_array(count, sizeof *run->even);
  if (run->even == NULL) return mmci_fail_nomem(error, count * sizeof *run->even);
  if (plan->scaled)
    return mmci_scaled_run_create(plan, run->ops, run->device, run->precision, &run->scaled, error);
  if (plan->structure != NULL)
    return mmci_structured_run_create(plan, run->ops, run->device, &run->structured, error);
  mmc_status status = create_actions(run, error);
  if (status != MMC_OK) return status;
  if (run->ops->async == NULL) return create_on_host(run, error);
  if (plan->streamed) return mmci_streamed_create(&run->actions, &run->streamed, error);
  if (plan->chunk < plan->chain->batch)
    return mmci_batches_create(&run->actions, run->rest.actions != NULL ? &run->rest : NULL,
                               &run->batches, error);
  return mmci_resident_create(&run->actions, &run->resident, error);
}

/* Gives back what start_run() took, and leaves an empty run. */
static void stop_run(mmci_run *run) {
  mmci_resident_destroy(run->resident);
  mmci_batches_destroy(run->batches);
  mmci_streamed_destroy(run->streamed);
  mmci_structured_run_destroy(run->structured);
  mmci_scaled_run_destroy(run->scaled);
  if (run->actions.actions != NULL) mmci_actions_destroy(&run->actions);
  if (run->rest.actions != NULL) mmci_actions_destroy(&run->rest);
  if (run->workspace != NULL) run->ops->dealloc(run->device, run->workspace);
  if (run->queue != NULL) run->ops->queue_close(run->queue);
  free(run->factors);
  free(run->operands);
  free(run->even);
  *run = (mmci_run){.plan = run->plan,
                    .ops = run->ops,
                    .device = run->device,
                    .precision = run->precision,
                    .separate = run->separate,
                    .separate_plan = run->separate_plan,
                    .slow = run->slow};
}

/* Says whether a failed execution may work without groups. */
static bool is_group_refused(const mmci_run *run, mmc_status status) {
  return status == MMC_E_UNSUPPORTED && run->plan->group_count > 0;
}

/* Says whether that was because a group is slow as its matrices lie, and forgets it. */
static bool was_slow(mmci_run *run) {
  const bool was = run->actions.is_slow || run->rest.is_slow;
  run->actions.is_slow = run->rest.is_slow = false;
  return was;
}

static void take_all(mmci_run *run, bool all) {
  run->actions.takes_all = run->rest.takes_all = all;
}

static bool lies_alike(const mmc_matrix *x, const mmc_matrix *y) {
  return x->ld == y->ld && x->layout == y->layout && x->location == y->location &&
         x->stride == y->stride && x->addresses == NULL && y->addresses == NULL;
}

/* Says whether an execution is left to the run without groups. */
static bool goes_separately(const mmci_run *run, const mmc_matrix *factors, const mmc_matrix *out) {
  if (run->separate == NULL) return false;
  if (run->slow == NULL) return true;
  if (factors == NULL || out == NULL) return false;
  const int32_t n = run->plan->chain->n;
  bool alike = lies_alike(&run->slow[n], out);
  for (int32_t i = 0; i < n && alike; i++) alike = lies_alike(&run->slow[i], &factors[i]);
  return alike;
}

/* Says whether the plan's limits leave room for the workspace of another run beside its own. */
static bool has_room_beside(const mmci_plan *plan, const mmci_plan *other) {
  return plan->most_bytes == 0 ||
         mmci_bytes_add(plan->workspace_bytes, other->workspace_bytes) <= plan->most_bytes;
}

/* Makes the run without groups unless there is one; it may stand beside this one or take its place.
 * When this fails, nothing has changed. */
static mmc_status make_separate(mmci_run *run, bool beside, mmci_error *error) {
  if (run->separate != NULL) return MMC_OK;
  mmci_run *x = mmci_alloc_zeroed(1, sizeof *x);
  if (x == NULL) return mmci_fail_nomem(error, sizeof *x);
  mmc_status status = mmci_plan_separate(run->plan, &run->separate_plan, error);
  *x = (mmci_run){.plan = &run->separate_plan,
                  .ops = run->ops,
                  .device = run->device,
                  .precision = run->precision};
  if (status == MMC_OK && beside && !has_room_beside(run->plan, &run->separate_plan))
    status = mmci_fail_nomem(error, run->separate_plan.workspace_bytes);
  if (status == MMC_OK) status = start_run(x, error);
  if (status != MMC_OK) {
    stop_run(x);
    free(x);
    mmci_plan_separate_destroy(&run->separate_plan);
    return status;
  }
  run->separate = x;
  return MMC_OK;
}

/* Goes on without groups. What was enqueued must be done. When this fails, nothing has changed. */
static mmc_status separate(mmci_run *run, mmci_error *error) {
  mmc_status status = make_separate(run, false, error);
  if (status != MMC_OK) return status;
  free(run->slow);
  run->slow = NULL;
  stop_run(run);
  return MMC_OK;
}

/* Leaves executions whose matrices lie as these to the run without groups. Returns false where
 * there is no memory for it; then nothing has changed. */
static bool separate_slow(mmci_run *run, const mmc_matrix *factors, const mmc_matrix *out) {
  const size_t n = (size_t)run->plan->chain->n;
  mmci_error ignored = {0};
  mmc_matrix *slow = run->slow != NULL ? run->slow : mmci_alloc_array(n + 1, sizeof *slow);
  if (slow == NULL) return false;
  if (make_separate(run, true, &ignored) != MMC_OK) {
    free(slow);
    run->slow = NULL;
    return false;
  }
  memcpy(slow, factors, n * sizeof *slow);
  slow[n] = *out;
  run->slow = slow;
  return true;
}

mmc_status mmci_run_create(const mmci_plan *plan, const mmci_device_ops *ops, mmci_device *device,
                           mmci_precision precision, mmci_run **out, mmci_error *error) {
  mmci_run *run = mmci_alloc_zeroed(1, sizeof *run);
  if (run == NULL) return mmci_fail_nomem(error, sizeof *run);
  *run = (mmci_run){.plan = plan, .ops = ops, .device = device, .precision = precision};
  mmc_status status = start_run(run, error);
  if (is_group_refused(run, status)) status = separate(run, error);
  if (status != MMC_OK) {
    mmci_run_destroy(run);
    return status;
  }
  *out = run;
  return MMC_OK;
}

void mmci_run_destroy(mmci_run *run) {
  if (run == NULL) return;
  stop_run(run);
  if (run->separate != NULL) stop_run(run->separate);
  free(run->separate);
  free(run->slow);
  mmci_plan_separate_destroy(&run->separate_plan);
  free(run);
}

/* ---- execution on host memory ---------------------------------------------------------------- */

static bool is_bound_to(const mmci_run *run, const mmc_matrix *factors, const mmc_matrix *out) {
  if (!run->bound || factors == NULL || out == NULL || !mmci_matrix_same(&run->out, out))
    return false;
  for (int32_t i = 0; i < run->plan->chain->n; i++)
    if (!mmci_matrix_same(&run->factors[i], &factors[i])) return false;
  return true;
}

/* Points the actions at chain number `begin` and those behind it. */
static mmc_status point(mmci_run *run, mmci_actions *actions, const mmc_matrix *factors,
                        const mmc_matrix *out, int64_t begin, mmci_error *error) {
  const mmc_chain *chain = run->plan->chain;
  for (int32_t i = 0; i < chain->n; i++)
    run->operands[i] = mmci_operand_of(chain, i, &factors[i], begin);
  mmci_target target = mmci_target_of(chain, out, begin);
  return mmci_actions_bind(actions, run->operands, run->workspace, &target, error);
}

/* Checks the matrices and points the actions at them. */
static mmc_status bind_run(mmci_run *run, const mmc_matrix *factors, const mmc_matrix *out,
                           mmci_error *error) {
  const mmc_chain *chain = run->plan->chain;
  run->bound = false;
  mmc_status status = mmci_matrices_check(chain, factors, out, error);
  if (status != MMC_OK) return status;
  status = point(run, &run->actions, factors, out, 0, error);
  if (status != MMC_OK) return status;
  for (int32_t i = 0; i < chain->n; i++) run->factors[i] = factors[i];
  run->out = *out;
  run->bound = run->actions.batch == chain->batch;
  return MMC_OK;
}

static mmc_status multiply_on_host(mmci_run *run, const mmc_matrix *factors, const mmc_matrix *out,
                                   mmci_error *error) {
  if (!is_bound_to(run, factors, out)) {
    mmc_status status = bind_run(run, factors, out, error);
    if (status != MMC_OK) return status;
  }
  const int64_t batch = run->plan->chain->batch, chunk = run->actions.batch;
  if (chunk < batch) mmci_interrupt_chunk(0, (double)chunk / (double)batch);
  mmc_status status = mmci_actions_enqueue(&run->actions, run->queue, error);
  for (int64_t begin = chunk; begin < batch && status == MMC_OK; begin += chunk) {
    const int64_t end = batch - begin < chunk ? batch : begin + chunk;
    mmci_interrupt_chunk((double)begin / (double)batch, (double)end / (double)batch);
    mmci_actions *actions = batch - begin < chunk ? &run->rest : &run->actions;
    status = point(run, actions, factors, out, begin, error);
    if (status == MMC_OK) status = mmci_actions_enqueue(actions, run->queue, error);
  }
  return status == MMC_OK ? run->ops->sync(run->queue, error) : status;
}

/* ---- execution ------------------------------------------------------------------------------- */

/* Says whether the chain has one factor, on whatever device, and nothing of it is in the device's
 * memory. */
static bool is_host_copy(const mmci_run *run, const mmc_matrix *factors, const mmc_matrix *out) {
  if (run->plan->chain->n != 1) return false;
  if (run->ops->async == NULL || factors == NULL || out == NULL) return true;
  return factors[0].location == MMC_HOST && out->location == MMC_HOST;
}

/* Refuses a chain of one factor that is copied within the device's memory and would have to be
 * reduced. */
static mmc_status check_copy(const mmci_run *run, mmci_error *error) {
  if (run->plan->chain->n > 1 || run->plan->chain->rule.modulus == 0) return MMC_OK;
  return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "factors",
                            "expected a single one modulo a number in the host's memory");
}

static mmc_status copy_on_host(const mmci_run *run, const mmc_matrix *factors,
                               const mmc_matrix *out, mmci_error *error) {
  const mmc_chain *chain = run->plan->chain;
  mmc_status status = mmci_matrices_check(chain, factors, out, error);
  if (status != MMC_OK) return status;
  mmci_form form = mmci_factor_form(chain, 0, &factors[0], mmci_matrix_ld(&factors[0]), 0);
  const bool by_columns = out->layout == MMC_COL_MAJOR;
  const int64_t rows = chain->dims[0], cols = chain->dims[1], ld = mmci_matrix_ld(out);
  for (int64_t i = 0; i < chain->batch; i++) {
    void *to = mmci_matrix_of_batch(out, chain->dtype, i).data;
    mmci_copy(chain->dtype, rows, cols, mmci_matrix_of_batch(&factors[0], chain->dtype, i).data,
              &form, to, ld, by_columns);
    if (chain->rule.modulus != 0)
      mmci_reduce(chain->dtype, chain->rule.modulus, by_columns ? cols : rows,
                  by_columns ? rows : cols, to, ld);
  }
  return MMC_OK;
}

/* Checks a batch of 0, and results without elements; nothing is done for either, however many they
 * are. */
static bool is_nothing(const mmci_run *run, const mmc_matrix *factors, const mmc_matrix *out,
                       mmc_status *status, mmci_error *error) {
  const mmc_chain *chain = run->plan->chain;
  if (chain->batch != 0 && chain->dims[0] != 0 && chain->dims[chain->n] != 0) return false;
  *status = mmci_matrices_check(chain, factors, out, error);
  return true;
}

/* Puts strides in place of evenly spaced addresses. */
static void even_out(const mmci_run *run, const mmc_matrix **factors, const mmc_matrix **out) {
  const mmc_chain *chain = run->plan->chain;
  if (*factors == NULL || *out == NULL) return;
  if (!mmci_matrices_have_addresses(chain->n, *factors, *out)) return;
  mmci_matrices_even_out(chain, *factors, *out, run->even);
  *factors = run->even;
  *out = &run->even[chain->n];
}

static mmc_status execute_run(mmci_run *run, const mmc_matrix *factors, const mmc_matrix *out,
                              mmci_error *error) {
  mmc_status status;
  if (run->scaled != NULL)
    return mmci_fail(error, MMC_E_ARG, "plan: expected one without exponents");
  if (is_nothing(run, factors, out, &status, error)) return status;
  even_out(run, &factors, &out);
  if (run->structured != NULL)
    return mmci_structured_run_execute(run->structured, factors, out, error);
  if (is_host_copy(run, factors, out)) return copy_on_host(run, factors, out, error);
  status = check_copy(run, error);
  if (status != MMC_OK) return status;
  if (run->resident != NULL) return mmci_resident_execute(run->resident, factors, out, error);
  if (run->batches != NULL) return mmci_batches_execute(run->batches, factors, out, error);
  if (run->streamed != NULL) return mmci_streamed_execute(run->streamed, factors, out, error);
  return multiply_on_host(run, factors, out, error);
}

static mmc_status enqueue(mmci_run *run, void *stream, const mmc_matrix *factors,
                          const mmc_matrix *out, mmci_error *error) {
  mmc_status status;
  if (run->scaled != NULL)
    return mmci_fail(error, MMC_E_ARG, "plan: expected one without exponents");
  if (is_nothing(run, factors, out, &status, error)) return status;
  even_out(run, &factors, &out);
  if (run->structured != NULL)
    return mmci_structured_run_enqueue(run->structured, stream, factors, out, error);
  if (is_host_copy(run, factors, out)) {
    status =
        run->resident != NULL ? mmci_resident_await_stream(run->resident, stream, error) : MMC_OK;
    return status == MMC_OK ? copy_on_host(run, factors, out, error) : status;
  }
  status = check_copy(run, error);
  if (status != MMC_OK) return status;
  if (run->resident != NULL)
    return mmci_resident_enqueue(run->resident, stream, factors, out, error);
  if (run->batches != NULL) return mmci_batches_enqueue(run->batches, stream, factors, out, error);
  if (run->streamed != NULL)
    return mmci_streamed_enqueue(run->streamed, stream, factors, out, error);
  return multiply_on_host(run, factors, out, error);
}

mmc_status mmci_run_execute(mmci_run *run, const mmc_matrix *factors, const mmc_matrix *out,
                            mmci_error *error) {
  if (goes_separately(run, factors, out)) return execute_run(run->separate, factors, out, error);
  mmc_status status = execute_run(run, factors, out, error);
  if (!is_group_refused(run, status)) return status;
  if (was_slow(run)) {
    if (separate_slow(run, factors, out)) return execute_run(run->separate, factors, out, error);
    take_all(run, true);
    status = execute_run(run, factors, out, error);
    take_all(run, false);
    if (!is_group_refused(run, status)) return status;
  }
  status = mmci_run_wait(run, error);
  if (status == MMC_OK) status = separate(run, error);
  return status == MMC_OK ? execute_run(run->separate, factors, out, error) : status;
}

mmc_status mmci_run_execute_scaled(mmci_run *run, const mmc_matrix *factors, const mmc_matrix *out,
                                   int64_t *exponents, mmci_error *error) {
  mmc_status status = mmci_matrices_check(run->plan->chain, factors, out, error);
  if (status != MMC_OK) return status;
  return mmci_scaled_run_execute(run->scaled, factors, out, exponents, error);
}

mmc_status mmci_run_enqueue(mmci_run *run, void *stream, const mmc_matrix *factors,
                            const mmc_matrix *out, mmci_error *error) {
  if (goes_separately(run, factors, out))
    return enqueue(run->separate, stream, factors, out, error);
  mmc_status status = enqueue(run, stream, factors, out, error);
  if (!is_group_refused(run, status)) return status;
  /* A capture allows no taking of memory, so its caller has to execute once before. */
  const mmci_device_async *async = run->ops->async;
  const bool is_capturing = async != NULL && async->is_capturing(run->device, stream);
  if (was_slow(run)) {
    if (!is_capturing && separate_slow(run, factors, out))
      return enqueue(run->separate, stream, factors, out, error);
    take_all(run, true);
    status = enqueue(run, stream, factors, out, error);
    take_all(run, false);
    if (!is_group_refused(run, status)) return status;
  }
  if (is_capturing) return status;
  status = mmci_run_wait(run, error);
  if (status == MMC_OK) status = separate(run, error);
  return status == MMC_OK ? enqueue(run->separate, stream, factors, out, error) : status;
}

/* The other kinds of runs have waited already. */
mmc_status mmci_run_wait(mmci_run *run, mmci_error *error) {
  if (run->separate != NULL) {
    const mmc_status status = mmci_run_wait(run->separate, error);
    if (status != MMC_OK || run->slow == NULL) return status;
  }
  if (run->structured != NULL) return mmci_structured_run_wait(run->structured, error);
  return run->resident != NULL ? mmci_resident_wait(run->resident, error) : MMC_OK;
}

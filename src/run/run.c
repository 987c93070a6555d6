#include "run/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "run/copy.h"

/* A step as it is executed; operands, and the last result, are those of the matrices the run is
 * bound to. */
typedef struct action {
  const mmci_kernel *kernel;
  mmci_operand a, b;
  void *result;
  int64_t ld;
} action;

struct mmci_run {
  const mmci_plan *plan;
  const mmci_device_ops *ops;
  mmci_device *device;
  mmci_queue *queue;
  char *workspace;
  mmci_kernel **kernels;
  /* The last product when the result is column-major: C' = B' A' is row-major then. */
  mmci_kernel *transposed;
  int32_t kernel_count, action_count;
  action *actions;
  /* The matrices of the execution before: most callers give the same ones again, and then neither
   * checks nor operands have to be made anew. */
  bool bound;
  mmc_matrix *factors;
  mmc_matrix out;
};

/* ---- creation ------------------------------------------------------------------------------ */

static mmci_operand intermediate(const mmci_run *run, const mmci_plan_step *step) {
  return (mmci_operand){.data = run->workspace + step->offset_bytes,
                        .ld = step->n > 0 ? step->n : 1};
}

static mmc_status prepare(mmci_run *run, const mmci_gemm *gemm, mmci_kernel **out,
                          mmci_error *error) {
  if (!run->ops->supports(run->device, gemm))
    return mmci_fail(
        error, MMC_E_UNSUPPORTED,
        "device '%s' cannot multiply %s %" PRId64 "x%" PRId64 " by %" PRId64 "x%" PRId64,
        run->ops->name, mmc_dtype_name(gemm->dtype), gemm->m, gemm->k, gemm->k, gemm->n);
  return run->ops->prepare(run->device, gemm, out, error);
}

static mmc_status prepare_steps(mmci_run *run, mmci_error *error) {
  const mmci_plan *plan = run->plan;
  const mmc_chain *chain = plan->chain;
  int32_t count = chain->n - 1;
  for (int32_t s = 0; s < count; s++) {
    const mmci_plan_step *step = &plan->steps[s];
    mmci_gemm gemm = {.dtype = chain->dtype, .m = step->m, .k = step->k, .n = step->n};
    mmc_status status = prepare(run, &gemm, &run->kernels[s], error);
    if (status != MMC_OK) return status;
    run->kernel_count++;

    run->actions[s] = (action){
        .kernel = run->kernels[s],
        .result = run->workspace + step->offset_bytes,
        .ld = step->n > 0 ? step->n : 1,
    };
  }
  run->action_count = count;
  if (count == 0) return MMC_OK;
  const mmci_plan_step *last = &plan->steps[count - 1];
  mmci_gemm gemm = {.dtype = chain->dtype, .m = last->n, .k = last->k, .n = last->m};
  return prepare(run, &gemm, &run->transposed, error);
}

mmc_status mmci_run_create(const mmci_plan *plan, const mmci_device_ops *ops, mmci_device *device,
                           mmci_run **out, mmci_error *error) {
  if (plan->workspace_bytes > SIZE_MAX) return mmci_fail_nomem(error, plan->workspace_bytes);
  size_t count = (size_t)plan->chain->n - 1;
  mmci_run *run = mmci_alloc_zeroed(1, sizeof *run);
  if (run == NULL) return mmci_fail_nomem(error, sizeof *run);
  run->plan = plan;
  run->ops = ops;
  run->device = device;
  run->kernels = mmci_alloc_array(count, sizeof(mmci_kernel *));
  run->actions = mmci_alloc_zeroed(count, sizeof *run->actions);
  run->factors = mmci_alloc_array(count + 1, sizeof *run->factors);
  mmc_status status = MMC_OK;
  if (run->kernels == NULL || run->actions == NULL || run->factors == NULL)
    status = mmci_fail_nomem(error, count * (sizeof *run->actions + sizeof *run->factors));
  if (status == MMC_OK) status = ops->queue_open(device, &run->queue, error);
  if (status == MMC_OK && plan->workspace_bytes > 0) {
    void *workspace = NULL;
    status = ops->alloc(device, (size_t)plan->workspace_bytes, &workspace, error);
    run->workspace = workspace;
  }
  if (status == MMC_OK) status = prepare_steps(run, error);
  if (status != MMC_OK) {
    mmci_run_destroy(run);
    return status;
  }
  *out = run;
  return MMC_OK;
}

void mmci_run_destroy(mmci_run *run) {
  if (run == NULL) return;
  for (int32_t s = 0; s < run->kernel_count; s++) run->ops->release(run->kernels[s]);
  if (run->transposed != NULL) run->ops->release(run->transposed);
  if (run->workspace != NULL) run->ops->dealloc(run->device, run->workspace);
  if (run->queue != NULL) run->ops->queue_close(run->queue);
  free(run->kernels);
  free(run->actions);
  free(run->factors);
  free(run);
}

/* ---- execution ----------------------------------------------------------------------------- */

/* A matrix's ld, 0 standing for no gaps; at least 1, as BLAS wants it. */
static int64_t leading_dimension(const mmc_matrix *matrix) {
  int64_t length = matrix->layout == MMC_ROW_MAJOR ? matrix->cols : matrix->rows;
  if (matrix->ld != 0) return matrix->ld;
  return length > 0 ? length : 1;
}

/* index -1 names the result. */
static mmc_status fail_matrix(int32_t index, const char *what, mmci_error *error) {
  if (index < 0) return mmci_fail(error, MMC_E_ARG, "out: %s", what);
  return mmci_fail(error, MMC_E_ARG, "factors[%" PRId32 "]: %s", index, what);
}

/* The bytes from a matrix's first element to past its last. */
typedef struct extent {
  uintptr_t start, end;
} extent;

static mmc_status check_matrix(const mmc_matrix *matrix, int32_t index, int64_t rows, int64_t cols,
                               mmc_dtype dtype, extent *bytes, mmci_error *error) {
  if (matrix->rows != rows || matrix->cols != cols) {
    char what[160];
    snprintf(what, sizeof what,
             "expected %" PRId64 " x %" PRId64 " as stored, got %" PRId64 " x %" PRId64, rows, cols,
             matrix->rows, matrix->cols);
    return fail_matrix(index, what, error);
  }
  if (matrix->layout != MMC_ROW_MAJOR && matrix->layout != MMC_COL_MAJOR)
    return fail_matrix(index, "expected layout MMC_ROW_MAJOR or MMC_COL_MAJOR", error);
  bool by_rows = matrix->layout == MMC_ROW_MAJOR;
  int64_t length = by_rows ? cols : rows, lines = by_rows ? rows : cols;
  if (matrix->ld != 0 && matrix->ld < length)
    return fail_matrix(index, "ld is less than the length of a row (column)", error);
  *bytes = (extent){0};
  if (rows == 0 || cols == 0) return MMC_OK;

  bool single = dtype == MMC_F32 || dtype == MMC_C64;
  uintptr_t start = (uintptr_t)matrix->data;
  if (start == 0) return fail_matrix(index, "data is NULL", error);
  if ((start & (single ? 3 : 7)) != 0)
    return fail_matrix(index, "data is not aligned to its real type", error);
  int64_t elements, size;
  if (__builtin_mul_overflow(lines - 1, leading_dimension(matrix), &elements) ||
      __builtin_add_overflow(elements, length, &elements) ||
      __builtin_mul_overflow(elements, (int64_t)mmc_dtype_size(dtype), &size) ||
      (uint64_t)size > UINTPTR_MAX - start)
    return fail_matrix(index, "ld exceeds the address space", error);
  *bytes = (extent){.start = start, .end = start + (uintptr_t)size};
  return MMC_OK;
}

static mmc_status check_matrices(const mmc_chain *chain, const mmc_matrix *factors,
                                 const mmc_matrix *out, mmci_error *error) {
  if (factors == NULL) return mmci_fail(error, MMC_E_ARG, "factors: expected an array, got NULL");
  if (out == NULL) return mmci_fail(error, MMC_E_ARG, "out: expected a matrix, got NULL");
  int32_t n = chain->n;
  extent result, factor;
  mmc_status status =
      check_matrix(out, -1, chain->dims[0], chain->dims[n], chain->dtype, &result, error);
  for (int32_t i = 0; i < n && status == MMC_OK; i++) {
    bool as_is = chain->ops[i] == MMC_OP_N;
    status = check_matrix(&factors[i], i, chain->dims[as_is ? i : i + 1],
                          chain->dims[as_is ? i + 1 : i], chain->dtype, &factor, error);
    if (status == MMC_OK && factor.start < result.end && result.start < factor.end)
      status = fail_matrix(i, "overlaps the result", error);
  }
  return status;
}

static mmci_operand factor_operand(const mmc_chain *chain, const mmc_matrix *factors, int32_t i) {
  const mmc_matrix *matrix = &factors[i];
  return (mmci_operand){
      .data = matrix->data,
      .ld = leading_dimension(matrix),
      .trans = (chain->ops[i] != MMC_OP_N) != (matrix->layout == MMC_COL_MAJOR),
      .conj = chain->ops[i] == MMC_OP_H && (chain->dtype == MMC_C64 || chain->dtype == MMC_C128),
  };
}

/* ---- binding ------------------------------------------------------------------------------- */

static bool same_matrix(const mmc_matrix *x, const mmc_matrix *y) {
  return x->data == y->data && x->rows == y->rows && x->cols == y->cols && x->ld == y->ld &&
         x->layout == y->layout;
}

static bool is_bound_to(const mmci_run *run, const mmc_matrix *factors, const mmc_matrix *out) {
  if (!run->bound || factors == NULL || out == NULL || !same_matrix(&run->out, out)) return false;
  for (int32_t i = 0; i < run->plan->chain->n; i++)
    if (!same_matrix(&run->factors[i], &factors[i])) return false;
  return true;
}

static mmci_operand operand(const mmci_run *run, const mmc_matrix *factors, int32_t number) {
  const mmci_plan *plan = run->plan;
  int32_t n = plan->chain->n;
  if (number < n) return factor_operand(plan->chain, factors, number);
  return intermediate(run, &plan->steps[number - n]);
}

/* Checks the matrices and points the actions at them. */
static mmc_status bind(mmci_run *run, const mmc_matrix *factors, const mmc_matrix *out,
                       mmci_error *error) {
  const mmc_chain *chain = run->plan->chain;
  run->bound = false;
  mmc_status status = check_matrices(chain, factors, out, error);
  if (status != MMC_OK) return status;
  for (int32_t s = 0; s < run->action_count; s++) {
    action *x = &run->actions[s];
    const mmci_plan_step *step = &run->plan->steps[s];
    x->a = operand(run, factors, step->left);
    x->b = operand(run, factors, step->right);
  }
  if (run->action_count > 0) {
    action *last = &run->actions[run->action_count - 1];
    last->result = out->data;
    last->ld = leading_dimension(out);
    last->kernel = run->kernels[run->action_count - 1];
    if (out->layout == MMC_COL_MAJOR) {
      mmci_operand a = last->a, b = last->b;
      a.trans = !a.trans;
      b.trans = !b.trans;
      last->a = b;
      last->b = a;
      last->kernel = run->transposed;
    }
  }
  for (int32_t i = 0; i < chain->n; i++) run->factors[i] = factors[i];
  run->out = *out;
  run->bound = true;
  return MMC_OK;
}

mmc_status mmci_run_execute(mmci_run *run, const mmc_matrix *factors, const mmc_matrix *out,
                            mmci_error *error) {
  if (!is_bound_to(run, factors, out)) {
    mmc_status status = bind(run, factors, out, error);
    if (status != MMC_OK) return status;
  }
  const mmc_chain *chain = run->plan->chain;
  if (chain->n == 1) {
    mmci_operand operand = factor_operand(chain, factors, 0);
    mmci_gemm shape = {.dtype = chain->dtype, .m = chain->dims[0], .n = chain->dims[1]};
    mmci_copy(&shape, &operand, out->data, leading_dimension(out), out->layout == MMC_COL_MAJOR);
    return MMC_OK;
  }
  for (int32_t s = 0; s < run->action_count; s++) {
    const action *x = &run->actions[s];
    mmc_status status =
        run->ops->enqueue(run->queue, x->kernel, &x->a, &x->b, x->result, x->ld, error);
    if (status != MMC_OK) return status;
  }
  return run->ops->sync(run->queue, error);
}

#include "run/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "run/copy.h"

/* A step as it is executed. Operands that are intermediates are complete; those that are factors
 * get their address, ld and layout when they are known. */
typedef struct action {
  const mmci_kernel *kernel;
  int32_t left, right; /* factor, or -1 */
  mmci_operand a, b;
  void *result; /* NULL: the caller's */
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

    action *x = &run->actions[s];
    bool left_is_factor = step->left < chain->n, right_is_factor = step->right < chain->n;
    x->kernel = run->kernels[s];
    x->left = left_is_factor ? step->left : -1;
    x->right = right_is_factor ? step->right : -1;
    if (!left_is_factor) x->a = intermediate(run, &plan->steps[step->left - chain->n]);
    if (!right_is_factor) x->b = intermediate(run, &plan->steps[step->right - chain->n]);
    x->result = s < count - 1 ? run->workspace + step->offset_bytes : NULL;
    x->ld = step->n > 0 ? step->n : 1;
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
  mmc_status status = MMC_OK;
  if (run->kernels == NULL || run->actions == NULL)
    status = mmci_fail_nomem(error, count * sizeof *run->actions);
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
  free(run);
}

/* ---- execution ----------------------------------------------------------------------------- */

/* Bytes from a matrix's first element to past its last. */
static size_t extent_bytes(const mmc_matrix *matrix, int64_t ld, size_t element_size) {
  if (matrix->rows == 0 || matrix->cols == 0) return 0;
  bool by_rows = matrix->layout == MMC_ROW_MAJOR;
  int64_t lines = by_rows ? matrix->rows : matrix->cols;
  int64_t length = by_rows ? matrix->cols : matrix->rows;
  return (size_t)((lines - 1) * ld + length) * element_size;
}

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

static mmc_status check_matrix(const mmc_matrix *matrix, int32_t index, int64_t rows, int64_t cols,
                               mmc_dtype dtype, mmci_error *error) {
  if (matrix->rows != rows || matrix->cols != cols) {
    char what[160];
    snprintf(what, sizeof what,
             "expected %" PRId64 " x %" PRId64 " as stored, got %" PRId64 " x %" PRId64, rows, cols,
             matrix->rows, matrix->cols);
    return fail_matrix(index, what, error);
  }
  if (matrix->layout != MMC_ROW_MAJOR && matrix->layout != MMC_COL_MAJOR)
    return fail_matrix(index, "expected layout MMC_ROW_MAJOR or MMC_COL_MAJOR", error);
  int64_t length = matrix->layout == MMC_ROW_MAJOR ? cols : rows;
  int64_t lines = matrix->layout == MMC_ROW_MAJOR ? rows : cols;
  if (matrix->ld != 0 && matrix->ld < length)
    return fail_matrix(index, "ld is less than the length of a row (column)", error);
  if (rows == 0 || cols == 0) return MMC_OK;
  if (matrix->data == NULL) return fail_matrix(index, "data is NULL", error);
  size_t size = mmc_dtype_size(dtype);
  size_t real_size = dtype == MMC_F32 || dtype == MMC_C64 ? 4 : 8;
  if ((uintptr_t)matrix->data % real_size != 0)
    return fail_matrix(index, "data is not aligned to its real type", error);
  int64_t ld = leading_dimension(matrix), elements;
  if (__builtin_mul_overflow(lines, ld, &elements) || (uint64_t)elements > PTRDIFF_MAX / size)
    return fail_matrix(index, "ld exceeds the address space", error);
  return MMC_OK;
}

static bool overlap(const mmc_matrix *x, const mmc_matrix *y, size_t element_size) {
  uintptr_t x_start = (uintptr_t)x->data, y_start = (uintptr_t)y->data;
  size_t x_bytes = extent_bytes(x, leading_dimension(x), element_size);
  size_t y_bytes = extent_bytes(y, leading_dimension(y), element_size);
  if (x_bytes == 0 || y_bytes == 0) return false;
  return x_start < y_start + y_bytes && y_start < x_start + x_bytes;
}

static mmc_status check_matrices(const mmc_chain *chain, const mmc_matrix *factors,
                                 const mmc_matrix *out, mmci_error *error) {
  if (factors == NULL) return mmci_fail(error, MMC_E_ARG, "factors: expected an array, got NULL");
  if (out == NULL) return mmci_fail(error, MMC_E_ARG, "out: expected a matrix, got NULL");
  int32_t n = chain->n;
  mmc_status status = check_matrix(out, -1, chain->dims[0], chain->dims[n], chain->dtype, error);
  size_t size = mmc_dtype_size(chain->dtype);
  for (int32_t i = 0; i < n && status == MMC_OK; i++) {
    bool as_is = chain->ops[i] == MMC_OP_N;
    status = check_matrix(&factors[i], i, chain->dims[as_is ? i : i + 1],
                          chain->dims[as_is ? i + 1 : i], chain->dtype, error);
    if (status == MMC_OK && overlap(&factors[i], out, size))
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

mmc_status mmci_run_execute(mmci_run *run, const mmc_matrix *factors, const mmc_matrix *out,
                            mmci_error *error) {
  const mmc_chain *chain = run->plan->chain;
  mmc_status status = check_matrices(chain, factors, out, error);
  if (status != MMC_OK) return status;

  int64_t out_ld = leading_dimension(out);
  bool out_by_columns = out->layout == MMC_COL_MAJOR;
  if (chain->n == 1) {
    mmci_operand operand = factor_operand(chain, factors, 0);
    mmci_gemm shape = {.dtype = chain->dtype, .m = chain->dims[0], .n = chain->dims[1]};
    mmci_copy(&shape, &operand, out->data, out_ld, out_by_columns);
    return MMC_OK;
  }
  for (int32_t s = 0; s < run->action_count; s++) {
    const action *x = &run->actions[s];
    mmci_operand a = x->left >= 0 ? factor_operand(chain, factors, x->left) : x->a;
    mmci_operand b = x->right >= 0 ? factor_operand(chain, factors, x->right) : x->b;
    if (x->result != NULL || !out_by_columns) {
      status = run->ops->enqueue(run->queue, x->kernel, &a, &b,
                                 x->result != NULL ? x->result : out->data,
                                 x->result != NULL ? x->ld : out_ld, error);
    } else {
      a.trans = !a.trans;
      b.trans = !b.trans;
      status = run->ops->enqueue(run->queue, run->transposed, &b, &a, out->data, out_ld, error);
    }
    if (status != MMC_OK) return status;
  }
  return run->ops->sync(run->queue, error);
}

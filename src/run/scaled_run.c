#include "run/scaled_run.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/interrupt.h"
#include "chain/copy.h"
#include "chain/scale.h"
#include "chain/span.h"
#include "run/matrices.h"
#include "run/stepwise.h"

struct mmci_scaled_run {
  mmci_stepwise steps;
  mmci_precision precision;
  int64_t *exponents; /* of the steps' results */
};

/* ---- creation -------------------------------------------------------------------------------- */

mmc_status mmci_scaled_run_create(const mmci_plan *plan, const mmci_device_ops *ops,
                                  mmci_device *device, mmci_precision precision,
                                  mmci_scaled_run **out, mmci_error *error) {
  mmci_scaled_run *run = mmci_alloc_zeroed(1, sizeof *run);
  if (run == NULL) return mmci_fail_nomem(error, sizeof *run);
  run->precision = precision;
  mmc_status status = mmci_stepwise_open(plan, ops, device, &run->steps, error);
  const size_t count = (size_t)plan->step_count + 1;
  if (status == MMC_OK) {
    run->exponents = mmci_alloc_zeroed(count, sizeof *run->exponents);
    if (run->exponents == NULL) status = mmci_fail_nomem(error, count * sizeof *run->exponents);
  }
  if (status == MMC_OK)
    *out = run;
  else
    mmci_scaled_run_destroy(run);
  return status;
}

void mmci_scaled_run_destroy(mmci_scaled_run *run) {
  if (run == NULL) return;
  mmci_stepwise_close(&run->steps);
  free(run->exponents);
  free(run);
}

/* ---- operands -------------------------------------------------------------------------------- */

/* A matrix that is read, and what it is to be multiplied by. */
typedef struct operand {
  const void *data;
  mmci_form form;
  int64_t exponent;
  char *copy; /* to be released; NULL where the matrix is read where it lies */
} operand;

/* Reads factor i of a chain; where it is beyond the range, a copy of it, which lies as the factor
 * does: products of matrices that lie otherwise may be rounded otherwise. */
static mmc_status read_factor(const mmci_scaled_run *run, const mmc_matrix *factors, int32_t i,
                              int64_t number, operand *out, mmci_error *error) {
  const mmc_chain *chain = run->steps.plan->chain;
  const mmc_matrix matrix = mmci_matrix_of_batch(&factors[i], chain->dtype, number);
  const int64_t lines = mmci_matrix_lines(&matrix), length = mmci_matrix_line_length(&matrix);
  const int64_t ld = mmci_matrix_ld(&matrix);
  *out = (operand){.data = matrix.data, .form = mmci_factor_form(chain, i, &matrix, ld, 0)};
  const int exponent = mmci_scale_needed(chain->dtype, lines, length, matrix.data, ld);
  if (exponent == 0) return MMC_OK;
  const mmci_span span = mmci_span_of_matrix(chain->dtype, &matrix);
  const mmci_form stored = {.ld = ld};
  out->copy = mmci_alloc_aligned(span.end - span.start, 1);
  if (out->copy == NULL) return mmci_fail_nomem(error, span.end - span.start);
  mmci_copy(chain->dtype, lines, length, matrix.data, &stored, out->copy, ld, false);
  mmci_scale_by(chain->dtype, lines, length, out->copy, ld, exponent);
  out->data = out->copy;
  out->exponent = exponent;
  return MMC_OK;
}

static mmc_status read_operand(const mmci_scaled_run *run, const mmc_matrix *factors, int32_t index,
                               int64_t number, operand *out, mmci_error *error) {
  const mmci_plan *plan = run->steps.plan;
  if (index < plan->chain->n) return read_factor(run, factors, index, number, out, error);
  const int32_t s = index - plan->chain->n;
  const mmci_plan_step *step = &plan->steps[s];
  *out = (operand){.data = mmci_address(run->steps.workspace, (int64_t)step->offset_bytes),
                   .form = {.ld = step->n > 0 ? step->n : 1},
                   .exponent = run->exponents[s]};
  return MMC_OK;
}

/* ---- executing ------------------------------------------------------------------------------- */

/* Computes step s of a chain, the last one to its result. */
static mmc_status compute(mmci_scaled_run *run, const mmc_matrix *factors, const mmc_matrix *out,
                          int32_t s, int64_t number, mmci_error *error) {
  const mmci_plan *plan = run->steps.plan;
  const mmci_plan_step *step = &plan->steps[s];
  const bool is_last = s == plan->step_count - 1;
  const bool turned = is_last && out->layout == MMC_COL_MAJOR;
  operand a = {0}, b = {0};
  mmc_status status = read_operand(run, factors, step->left, number, &a, error);
  if (status == MMC_OK) status = read_operand(run, factors, step->right, number, &b, error);
  void *c = is_last ? out->data : mmci_address(run->steps.workspace, (int64_t)step->offset_bytes);
  mmci_gemm gemm = {.dtype = plan->chain->dtype,
                    .precision = run->precision,
                    .m = turned ? step->n : step->m,
                    .k = step->k,
                    .n = turned ? step->m : step->n,
                    .a = turned ? mmci_form_transposed(b.form) : a.form,
                    .b = turned ? mmci_form_transposed(a.form) : b.form,
                    .ldc = is_last ? mmci_matrix_ld(out) : step->n,
                    .batch = 1,
                    .turned = turned};
  if (gemm.ldc < 1) gemm.ldc = 1;
  if (status == MMC_OK)
    status = mmci_stepwise_multiply(&run->steps, s, &gemm, turned ? b.data : a.data,
                                    turned ? a.data : b.data, c, error);
  if (status == MMC_OK)
    run->exponents[s] =
        a.exponent + b.exponent + mmci_scale(gemm.dtype, gemm.m, gemm.n, c, gemm.ldc);
  free(a.copy);
  free(b.copy);
  return status;
}

static mmc_status copy_factor(const mmci_scaled_run *run, const mmc_matrix *factors,
                              const mmc_matrix *out, int64_t number, int64_t *exponent,
                              mmci_error *error) {
  const mmc_chain *chain = run->steps.plan->chain;
  operand a = {0};
  mmc_status status = read_factor(run, factors, 0, number, &a, error);
  if (status == MMC_OK)
    mmci_copy(chain->dtype, chain->dims[0], chain->dims[1], a.data, &a.form, out->data,
              mmci_matrix_ld(out), out->layout == MMC_COL_MAJOR);
  *exponent = a.exponent;
  free(a.copy);
  return status;
}

mmc_status mmci_scaled_run_execute(mmci_scaled_run *run, const mmc_matrix *factors,
                                   const mmc_matrix *out, int64_t *exponents, mmci_error *error) {
  const mmci_plan *plan = run->steps.plan;
  const mmc_chain *chain = plan->chain;
  mmc_status status = MMC_OK;
  for (int64_t b = 0; b < chain->batch && status == MMC_OK; b++) {
    const mmc_matrix to = mmci_matrix_of_batch(out, chain->dtype, b);
    exponents[b] = 0;
    if (plan->step_count == 0 && chain->dims[0] != 0 && chain->dims[1] != 0)
      status = copy_factor(run, factors, &to, b, &exponents[b], error);
    for (int32_t s = 0; s < plan->step_count && status == MMC_OK; s++) {
      status = compute(run, factors, &to, s, b, error);
      if (status == MMC_OK && mmci_interrupted())
        status = mmci_fail(error, MMC_E_INTERRUPTED, "stopped between two products");
    }
    if (plan->step_count > 0) exponents[b] = run->exponents[plan->step_count - 1];
  }
  return status;
}

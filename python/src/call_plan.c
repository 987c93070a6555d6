/* call_plan.c: see call_plan.h. */
#include "call_plan.h"

#include <string.h>

#include "torch.h"

mmcp_problem mmcp_problem_of(const mmcp_call *c) {
  return (mmcp_problem){.dtype = c->dtype,
                        .n = c->n,
                        .dims = c->dims,
                        .batch = c->stack_count,
                        .same = c->repeats ? c->same : NULL,
                        .ops = c->has_ops ? c->ops : NULL,
                        .shared = c->has_shared ? c->shared : NULL,
                        .modulus = c->modulus,
                        .checked = c->checked,
                        .semiring = c->semiring,
                        .scaled = c->exponents != NULL,
                        .array_device = c->device,
                        .most_at_once = mmcp_torch_most_by_us(c),
                        .may_be_torchs = c->may_be_torchs};
}

/* Says whether a plan is for the device that the arrays lie on. */
static int runs_beside_arrays(const mmcp_call *c, const mmcp_plan *plan) {
  char here[32];
  snprintf(here, sizeof here, "cuda:%d", c->device);
  return c->device == MMCP_HOST || strcmp(mmc_plan_device(plan->plan), here) == 0;
}

/* Makes of a matrix the transposed one, which lies where it does. */
static void turn_matrix(mmc_matrix *x) {
  const int64_t rows = x->rows;
  x->rows = x->cols;
  x->cols = rows;
  x->layout = x->layout == MMC_ROW_MAJOR ? MMC_COL_MAJOR : MMC_ROW_MAJOR;
}

/* Notes which factors on a GPU lie by columns: what multiplies them there at all, and how fast,
 * depends on it. What defines the bits of reproducible products does not. */
static void tell_turned(mmcp_call *c, PyObject *precision) {
  if (c->device == MMCP_HOST || c->is_chain || mmcp_is_reproducible(precision)) return;
  c->has_ops = false;
  for (int64_t i = 0; i < c->n; i++) {
    const mmc_matrix *x = &c->matrices[i];
    const bool turned = !c->gathers && x->layout == MMC_COL_MAJOR && x->rows > 1 && x->cols > 1;
    if (c->ops[i] != MMC_OP_H) c->ops[i] = turned ? MMC_OP_T : MMC_OP_N;
    c->has_ops = c->has_ops || c->ops[i] != MMC_OP_N;
  }
}

/* Makes of the memory of a conjugated matrix that whose conjugated transposed it is, by rows. */
static void turn_adjoint(mmc_matrix *x) {
  turn_matrix(x);
  if (x->layout == MMC_ROW_MAJOR) return;
  /* A row that lies without gaps has become a column, or a column a row. */
  x->layout = MMC_ROW_MAJOR;
  x->ld = x->cols > 1 ? x->cols : 1;
}

void mmcp_turn_factors(mmcp_call *c, const mmcp_plan *plan) {
  if (plan == NULL && !c->has_ops) return;
  const mmc_op *ops = plan != NULL ? mmc_chain_ops(plan->chain) : c->ops;
  for (int64_t i = 0; i < c->n; i++)
    if (ops[i] != MMC_OP_N) (c->ops[i] == MMC_OP_H ? turn_adjoint : turn_matrix)(&c->matrices[i]);
}

/* The plan given by the caller, or for a stack, conjugated factors or those that lie by columns
 * what it gives for such chains, when that is for these arrays, which are_stored says are matrices
 * as ops find them. */
static int fit_plan(mmcp_call *c, mmcp_plan *given, bool are_stored, mmcp_plan **out) {
  if (mmc_chain_length(given->chain) != c->n || mmc_chain_dtype(given->chain) != c->dtype) return 0;
  if (mmcp_plan_ensure(given) < 0) return -1;
  if (mmcp_find_dims(c, are_stored ? given->plan : NULL) != 1) return 0;
  const int64_t *dims = mmc_chain_dims(given->chain);
  if (c->dims[0] != dims[0] && mmc_chain_batch(given->chain) == 1 &&
      mmcp_may_be_rows(c, given->precision) && c->dims[0] * c->stack_count == dims[0])
    mmcp_make_rows(c);
  if (memcmp(c->dims, dims, (size_t)(c->n + 1) * sizeof *c->dims) != 0) return 0;
  const bool stacks = mmc_chain_batch(given->chain) == 1 && c->stack_count != 1;
  int64_t structured = 0;
  mmc_chain_inverses(given->chain, &structured);
  const bool is_complex = c->dtype == MMC_C64 || c->dtype == MMC_C128;
  for (int64_t i = 0; i < c->n; i++) {
    const mmc_op op = mmc_chain_ops(given->chain)[i];
    if (op == MMC_OP_H && is_complex && !are_stored) return 0;
    structured += op != MMC_OP_N || mmc_chain_traits(given->chain, i) != 0;
  }
  /* A plan for so many says so itself. */
  if (structured != 0 && (stacks || c->is_chain || c->has_ops)) return 0;
  if (structured == 0) tell_turned(c, given->precision);
  if (!stacks && mmc_chain_batch(given->chain) != c->stack_count) return 0;
  bool is_for_others = stacks || c->has_ops;
  for (int64_t i = 0; i < c->n && !is_for_others; i++)
    is_for_others = mmc_chain_shared(given->chain, i) && (c->is_chain || !mmcp_is_shared(c, i));
  if (structured != 0 && is_for_others) return 0;
  mmcp_plan *plan = is_for_others
                        ? mmcp_plan_stacked(given, c->stack_count, c->has_ops ? c->ops : NULL,
                                            c->has_shared ? c->shared : NULL)
                        : (mmcp_plan *)Py_NewRef((PyObject *)given);
  int fits = plan != NULL && mmcp_plan_ensure(plan) == 0 ? runs_beside_arrays(c, plan) : -1;
  if (fits == 1) *out = (mmcp_plan *)Py_NewRef((PyObject *)plan);
  Py_XDECREF(plan);
  return fits;
}

static int check_options(const mmcp_options *options) {
  const char *text;
  if (!PyUnicode_Check(options->objective))
    PyErr_Format(PyExc_TypeError, "objective: expected a str, got %s",
                 Py_TYPE(options->objective)->tp_name);
  else if (!PyUnicode_Check(options->precision))
    PyErr_Format(PyExc_TypeError, "precision: expected a str, got %s",
                 Py_TYPE(options->precision)->tp_name);
  else
    return mmcp_text(options->device, "device", &text);
  return -1;
}

/* Makes a stack's products rows of one, by its plan, where that is predicted to take less than
 * *plan. Returns 0, or -1 with an exception set. */
static int find_rows(mmcp_call *c, const mmcp_options *options, mmcp_plan **plan) {
  int64_t *dims = c->dims;
  const int64_t rows = dims[0];
  mmcp_problem problem = mmcp_problem_of(c);
  problem.batch = 1;
  dims[0] = rows * c->stack_count;
  mmcp_plan *other = NULL;
  const int made = mmcp_plan_as_rows(*plan, &problem, options, &other);
  dims[0] = rows;
  if (made < 0) {
    Py_CLEAR(*plan);
    return -1;
  }
  if (other == NULL) return 0;
  mmcp_cache_used_as_rows();
  mmcp_make_rows(c);
  Py_DECREF(*plan);
  *plan = other;
  return 0;
}

int mmcp_find_plan(mmcp_call *c, PyObject *given, PyObject *const *strings, mmcp_plan **out) {
  if (given != Py_None) return fit_plan(c, (mmcp_plan *)given, strings[0] == mmcp.stored, out);
  if (mmcp_find_dims(c, NULL) != 1) return 0;
  mmcp_options options = {strings[0], strings[1], strings[2]};
  if (check_options(&options) < 0) return -1;
  tell_turned(c, options.precision);
  /* The cache compares addresses. */
  Py_INCREF(options.objective);
  Py_INCREF(options.device);
  Py_INCREF(options.precision);
  PyUnicode_InternInPlace(&options.objective);
  if (options.device != Py_None) PyUnicode_InternInPlace(&options.device);
  PyUnicode_InternInPlace(&options.precision);
  mmcp_problem problem = mmcp_problem_of(c);
  int found = mmcp_cache_find(&problem, &options, out);
  if (found == 0 && *out != NULL && mmcp_may_be_rows(c, options.precision))
    found = find_rows(c, &options, out);
  Py_DECREF(options.objective);
  Py_DECREF(options.device);
  Py_DECREF(options.precision);
  return found < 0 ? -1 : 1;
}

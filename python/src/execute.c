/* execute.c: see execute.h. */
#include "execute.h"

#include <fenv.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif
#include <string.h>

#include "by_numpy.h"
#include "cache.h"
#include "call.h"
#include "modes.h"
#include "torch.h"

/* Multiplications below which keeping the GIL costs others less than a switch costs this thread. */
static const double gil_multiplications = 32768;

/* Functions below return 1; 0 when the arrays cannot be multiplied here; -1 with an exception set.
 */

/* ---- the plan -------------------------------------------------------------------------------- */

static mmcp_problem problem_of(const mmcp_call *c) {
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

/* Makes of each factor the matrix of which the plan's chain has the op, or the call's where there
 * is no plan. */
static void turn_factors(mmcp_call *c, const mmcp_plan *plan) {
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
  if (mmcp_find_dims(c) != 1) return 0;
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
  mmcp_problem problem = problem_of(c);
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

/* The plan as a new reference in *out; NULL where the chain is to be multiplied without one. */
static int find_plan(mmcp_call *c, PyObject *given, PyObject *const *strings, mmcp_plan **out) {
  if (given != Py_None) return fit_plan(c, (mmcp_plan *)given, strings[0] == mmcp.stored, out);
  if (mmcp_has_twins(c)) return 0; /* _structure.py takes it */
  if (mmcp_find_dims(c) != 1) return 0;
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
  mmcp_problem problem = problem_of(c);
  int found = mmcp_cache_find(&problem, &options, out);
  if (found == 0 && *out != NULL && mmcp_may_be_rows(c, options.precision))
    found = find_rows(c, &options, out);
  Py_DECREF(options.objective);
  Py_DECREF(options.device);
  Py_DECREF(options.precision);
  return found < 0 ? -1 : 1;
}

/* ---- the result ------------------------------------------------------------------------------ */

static int result_shape(const mmcp_call *c, int64_t *shape) {
  int ndim = c->stack_ndim;
  memcpy(shape, c->stack_shape, (size_t)ndim * sizeof *shape);
  if (c->row) shape[ndim++] = c->dims[0] / c->together;
  if (c->column) shape[ndim++] = c->dims[c->n];
  return ndim;
}

/* The matrix of the result, which has no gaps where products are rows of one. */
static int read_result(mmcp_call *c) {
  mmc_matrix *matrix = &c->matrices[c->n];
  if (!mmcp_view_matrix(c->result, c->row, c->column, matrix)) return 0;
  if (c->together == 1) return 1;
  matrix->rows = c->dims[0];
  matrix->cols = matrix->ld = c->dims[c->n];
  matrix->layout = MMC_ROW_MAJOR;
  return 1;
}

/* out as the caller gave it: of the right kind and shape, apart from all factors. */
static int take_result(mmcp_call *c, PyObject *out, mmcp_want want) {
  mmcp_view *view = c->result;
  int got = mmcp_view_acquire(out, want, view);
  c->acquired++;
  if (got != 1) return got;
  int64_t shape[MMCP_MAX_NDIM];
  int ndim = result_shape(c, shape);
  if (view->dtype != c->dtype || view->device != c->device || view->ndim != ndim) return 0;
  if (!mmcp_is_of_one_library(c, view)) return 0;
  if (ndim > 0 && memcmp(view->shape, shape, (size_t)ndim * sizeof *shape) != 0) return 0;
  if ((view->is_numpy || c->stack_ndim > 0) && !mmcp_view_is_contiguous(view)) return 0;
  if (c->is_chain && mmcp_view_overlap(view, &c->stack)) return 0;
  for (int64_t i = 0; !c->is_chain && i < c->n; i++)
    if (mmcp_view_overlap(view, &c->views[i])) return 0;
  return read_result(c);
}

static PyObject *new_numpy_array(const mmcp_call *c) {
  int64_t shape[MMCP_MAX_NDIM];
  int ndim = result_shape(c, shape);
  PyObject *tuple = PyTuple_New(ndim);
  for (int d = 0; tuple != NULL && d < ndim; d++) {
    PyObject *size = PyLong_FromLongLong(shape[d]);
    if (size == NULL)
      Py_CLEAR(tuple);
    else
      PyTuple_SET_ITEM(tuple, d, size);
  }
  if (tuple == NULL) return NULL;
  PyObject *arguments[] = {tuple, mmcp.dtypes[c->dtype]};
  PyObject *array = PyObject_Vectorcall(mmcp.empty, arguments, 2, NULL);
  Py_DECREF(tuple);
  return array;
}

/* A new result. NumPy's is *array; another library's is held by its view until it is finished. */
static int make_result(mmcp_call *c, mmcp_want want, PyObject **array) {
  mmcp_view *view = c->result;
  if (c->views[0].is_numpy) {
    *array = new_numpy_array(c);
    if (*array == NULL) return -1;
    c->acquired++;
    int got = mmcp_view_acquire(*array, want, view);
    if (got == 0) PyErr_SetString(PyExc_BufferError, "numpy.empty: expected a writable array");
    if (got != 1) return -1;
  } else if (c->views[0].exchange != NULL) {
    int64_t shape[MMCP_MAX_NDIM];
    int ndim = result_shape(c, shape);
    if (mmcp_view_allocate(c->views[0].exchange, c->dtype, c->device, ndim, shape, view) < 0)
      return -1;
    c->acquired++;
  } else {
    return 0;
  }
  return read_result(c);
}

static int report(const char *kind, PyObject *array) {
  PyObject *module = PyImport_ImportModule("mmchain._errstate");
  PyObject *done = module != NULL ? PyObject_CallMethod(module, "report", "sO", kind, array) : NULL;
  Py_XDECREF(module);
  Py_XDECREF(done);
  return done != NULL ? 1 : -1;
}

/* Says what floating-point errors there were, as NumPy does. */
static int report_errors(const mmcp_call *c, PyObject *array) {
  int done = 1;
  if ((c->errors & FE_OVERFLOW) != 0) done = report("over", array);
  if (done == 1 && (c->errors & FE_INVALID) != 0) done = report("invalid", array);
  return done;
}

/* What the caller gets: a new reference. NumPy returns a scalar where nothing is left to index. */
static PyObject *finish(mmcp_call *c, PyObject *array) {
  mmcp_view *view = c->result;
  if (view->managed != NULL || view->made != NULL) return mmcp_view_object(view);
  if (view->ndim > 0) return Py_NewRef(array);
  PyObject *nothing = PyTuple_New(0);
  PyObject *scalar = nothing != NULL ? PyObject_GetItem(array, nothing) : NULL;
  Py_XDECREF(nothing);
  return scalar;
}

/* ---- executing ------------------------------------------------------------------------------- */

/* Exchange functions name the stream that their library works on; others leave it to the caller. */
static int find_stream(mmcp_call *c, PyObject *given) {
  if (c->device == MMCP_HOST) return 1;
  if (given != Py_None) {
    c->on_stream = true;
    c->stream = PyLong_AsVoidPtr(given);
    return PyErr_Occurred() ? -1 : 1;
  }
  const dl_exchange *exchange = c->views[0].exchange;
  if (exchange == NULL) return 1;
  if (exchange->current_stream == NULL) return 0;
  c->on_stream = true;
  return exchange->current_stream(DL_CUDA, c->device, &c->stream) == 0 ? 1 : -1;
}

/* Executes the run, or without one multiplies at once. */
static mmc_status execute(const mmcp_call *c, const mmc_chain *chain,
                          const mmc_plan_options *options) {
  const mmc_matrix *out = &c->matrices[c->n];
  if (c->run == NULL) return mmc_multiply(mmcp.context, chain, options, c->matrices, out);
  if (c->exponents != NULL) return mmc_execute_scaled(c->run, c->matrices, out, c->exponents);
  return c->on_stream ? mmc_enqueue(c->run, c->stream, c->matrices, out)
                      : mmc_execute(c->run, c->matrices, out);
}

/* What the loops and the BLAS compute by leaves its exceptions in SSE's register; to clear those of
 * the x87 too takes 30 ns. */
#if defined(__x86_64__)
static void clear_errors(void) {
  const unsigned set = _MM_EXCEPT_INVALID | _MM_EXCEPT_OVERFLOW, now = _mm_getcsr();
  if ((now & set) != 0) _mm_setcsr(now & ~set);
}

static int errors_since(void) {
  const unsigned now = _mm_getcsr();
  return ((now & _MM_EXCEPT_INVALID) != 0 ? FE_INVALID : 0) |
         ((now & _MM_EXCEPT_OVERFLOW) != 0 ? FE_OVERFLOW : 0);
}
#else
static void clear_errors(void) {
  feclearexcept(FE_INVALID | FE_OVERFLOW);
}

static int errors_since(void) {
  return fetestexcept(FE_INVALID | FE_OVERFLOW);
}
#endif

static mmc_status multiply(mmcp_call *c, const mmc_chain *chain, const mmc_plan_options *options) {
  const bool plain = c->exponents == NULL && c->semiring == MMC_PLUS_TIMES;
  if (!c->views[0].is_numpy || !plain) return execute(c, chain, options);
  clear_errors();
  mmc_status status = execute(c, chain, options);
  c->errors = errors_since();
  return status;
}

/* Multiplies without a plan. */
static int execute_at_once(mmcp_call *c) {
  mmcp_problem problem = problem_of(c);
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.objective = PyUnicode_AsUTF8(c->objective);
  mmc_chain *chain = options.objective != NULL ? mmcp_chain_new(&problem) : NULL;
  if (chain == NULL) return -1;
  /* The multiplications of the order from left to right; the best takes no more. */
  double multiplications = 0;
  for (int64_t i = 1; i < c->n; i++)
    multiplications += (double)c->dims[0] * (double)c->dims[i] * (double)c->dims[i + 1];
  const bool is_long = multiplications > gil_multiplications;
  PyThreadState *thread = is_long ? mmcp_enter() : NULL;
  mmc_status status = multiply(c, chain, &options);
  if (is_long) mmcp_leave(thread);
  mmc_chain_destroy(chain);
  return status == MMC_OK ? 1 : mmcp_raise(status);
}

/* Executes the plan; NULL stands for multiplying without one. */
static int execute_plan(mmcp_call *c, mmcp_plan *plan) {
  if (plan == NULL) return execute_at_once(c);
  c->run = mmcp_plan_take_run(plan);
  if (c->run == NULL) return -1;
  mmc_status status;
  if (plan->asynchronous || plan->multiplications > gil_multiplications) {
    PyThreadState *thread = mmcp_enter();
    mmc_run_progress(c->run, mmcp_check_signals, &thread);
    status = multiply(c, NULL, NULL);
    mmc_run_progress(c->run, NULL, NULL);
    mmcp_leave(thread);
  } else {
    status = multiply(c, NULL, NULL);
  }
  mmcp_plan_give_run(plan, c->run);
  if (status == MMC_OK && c->asked != NULL && plan->asynchronous && c->on_stream)
    mmcp_recall_keep(c->asked, plan, c->is_chain ? &c->stack : c->views, c->result, c->matrices);
  /* The handler of the signal has set an exception. */
  if (status == MMC_E_INTERRUPTED) return -1;
  return status == MMC_OK ? 1 : mmcp_raise(status);
}

/* Executes a plan for a stack that is the chain; NULL as in execute_plan(). */
static int run_chain(mmcp_call *c, mmcp_plan *plan) {
  mmc_matrix first = c->matrices[0], *result = &c->matrices[c->n];
  int done = 1;
  if (c->stack_ndim > 0) {
    if (!mmcp_spread(c, 0)) {
      PyErr_NoMemory();
      return -1;
    }
    first = c->matrices[0];
    if (!mmcp_spread(c, c->n)) done = -1;
  }
  /* Where the stacks lie unevenly, the factors are given one by one. */
  if (done == 1 && !mmc_matrix_chain(&first, c->dtype, c->n, c->step, c->matrices)) done = 0;
  if (done == 1) done = execute_plan(c, plan);
  if (done < 0 && !PyErr_Occurred()) PyErr_NoMemory();
  free((void *)first.addresses);
  free((void *)result->addresses);
  return done;
}

static int run_plan(mmcp_call *c, mmcp_plan *plan) {
  if (c->is_chain) return run_chain(c, plan);
  bool spreads = c->stack_ndim > 0 && c->together == 1;
  if (spreads && !mmcp_spread_all(c)) {
    mmcp_free_addresses(c);
    if (!PyErr_Occurred()) PyErr_NoMemory();
    return -1;
  }
  turn_factors(c, plan);
  int done = execute_plan(c, plan);
  if (spreads) mmcp_free_addresses(c);
  return done;
}

/* ---- the call -------------------------------------------------------------------------------- */

/* The last two may be left out. */
enum { PLAN, ARRAYS, OUT, OBJECTIVE, DEVICE, PRECISION, STREAM, BF16, RULE, EXPONENTS, ARGUMENTS };

/* Says whether the products are PyTorch's own. A call with a rule comes from _torch.py, which has
 * asked already and found that they are not. */
static int is_torchs(const mmcp_call *c, PyObject *const *args) {
  const bool asks = c->views[0].exchange != NULL && args[RULE] == NULL;
  return asks ? mmcp_is_torchs(args[PLAN] != Py_None) : 0;
}

/* Reads the arithmetic: 0 for nothing, -1 for checked, less for the semiring of the number after
 * that, -2 for the first, else a modulus. */
static int read_rule(mmcp_call *c, PyObject *rule) {
  long long number = PyLong_AsLongLong(rule);
  if (number == -1 && PyErr_Occurred()) return -1;
  c->checked = number == -1;
  c->modulus = number > 0 ? (uint64_t)number : 0;
  c->semiring = number < -1 ? (mmc_semiring)(-1 - number) : MMC_PLUS_TIMES;
  return 0;
}

/* Holds the memory that exponents go to, an array of int64; its length is checked where that of the
 * stack is known. */
static int hold_exponents(mmcp_call *c, PyObject *array, Py_buffer *buffer) {
  if (PyObject_GetBuffer(array, buffer, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) < 0) return -1;
  c->exponents = buffer->buf;
  return 0;
}

static bool is_usual(PyObject *const *args) {
  return args[PRECISION] == mmcp.native &&
         (args[OBJECTIVE] == mmcp.time || args[OBJECTIVE] == mmcp.flops);
}

/* Has PyTorch multiply where nobody asked for anything else; as mmcp_torch_execute(). */
static int execute_by_torch(mmcp_call *c, PyObject *const *items, PyObject *const *args,
                            const mmcp_plan *plan, PyObject **array) {
  if (plan == NULL || c->views[0].exchange == NULL || args[OUT] != Py_None || args[RULE] != NULL ||
      args[BF16] == Py_True)
    return 0;
  /* PyTorch would have a plan's products in the dtype of torch.autocast. */
  const int cast = args[PLAN] != Py_None ? mmcp_is_autocast() : 0;
  if (cast != 0) return cast < 0 ? -1 : 0;
  const bool is_plain = args[PLAN] != Py_None ? mmcp_plan_is_usual((const mmcp_plan *)args[PLAN])
                                              : is_usual(args) && (args[DEVICE] == Py_None ||
                                                                   args[DEVICE] == mmcp.cpu);
  return is_plain ? mmcp_torch_execute(c, items, plan->plan, array) : 0;
}

/* Has PyTorch multiply what comes for one of the first times on a GPU, where a plan takes some ten
 * times as long to make: 1 with the result. Otherwise the plan is found as find_plan() does, for
 * factors that can be read: returns 2, or 0 or -1 as that does. */
static int execute_new_by_torch(mmcp_call *c, PyObject *const *items, PyObject *const *args,
                                bool waits, mmcp_plan **plan, PyObject **array) {
  int done = 1;
  c->may_be_torchs = c->may_be_torchs && mmcp_torch_can(c, items);
  if (c->may_be_torchs) {
    done = find_plan(c, args[PLAN], args + OBJECTIVE, plan);
    const int taken = done == 1 && *plan == NULL ? mmcp_torch_execute_new(c, items, array) : 0;
    if (done != 1 || taken != 0) return done != 1 ? done : taken;
    if (*plan != NULL && !waits) return 2;
    c->may_be_torchs = false;
    Py_CLEAR(*plan);
  }
  if (waits) done = mmcp_write_out(c, items);
  if (done == 1) done = find_plan(c, args[PLAN], args + OBJECTIVE, plan);
  return done == 1 ? 2 : done;
}

/* Says whether nothing was asked for that other libraries' products do not do. */
static bool is_plain_call(PyObject *const *args) {
  return args[PLAN] == Py_None && args[STREAM] == Py_None && args[BF16] != Py_True &&
         args[RULE] == NULL && args[EXPONENTS] == NULL && args[DEVICE] == Py_None && is_usual(args);
}

static int multiply_arrays(mmcp_call *c, PyObject *const *items, PyObject *const *args,
                           Py_buffer *exponents, PyObject **array) {
  bool bf16 = args[BF16] == Py_True;
  if (args[RULE] != NULL && read_rule(c, args[RULE]) < 0) return -1;
  if (args[EXPONENTS] != NULL && hold_exponents(c, args[EXPONENTS], exponents) < 0) return -1;
  mmcp_plan *plan = NULL;
  c->may_be_torchs = is_plain_call(args) && args[OUT] == Py_None && !c->is_chain;
  int done = c->is_chain ? mmcp_read_chain(c)
                         : mmcp_acquire_factors(c, items, bf16 ? MMCP_READ_BF16 : MMCP_READ_FACTOR);
  if (done == 1) {
    const int theirs = is_torchs(c, args);
    done = theirs < 0 ? -1 : !theirs;
  }
  if (done == 1 && c->exponents != NULL && exponents->len != 8 * c->stack_count) {
    PyErr_Format(PyExc_ValueError, "exponents: expected room for %lld", (long long)c->stack_count);
    done = -1;
  }
  if (done == 1) {
    const bool waits = c->gathers && c->may_be_torchs && c->device != MMCP_HOST;
    int taken = execute_new_by_torch(c, items, args, waits, &plan, array);
    done = taken == 2 ? 1 : taken;
    if (taken == 2) taken = execute_by_torch(c, items, args, plan, array);
    if (taken != 0) {
      Py_XDECREF(plan);
      c->is_finished = taken == 1;
      return taken;
    }
  }
  if (done == 1) {
    mmcp_want want = bf16 ? MMCP_WRITE_BF16 : MMCP_WRITE;
    if (args[OUT] != Py_None) {
      *array = Py_NewRef(args[OUT]);
      done = take_result(c, args[OUT], want);
    } else {
      done = make_result(c, want, array);
    }
  }
  if (done == 1) done = find_stream(c, args[STREAM]);
  c->run = NULL;
  c->objective = args[OBJECTIVE];
  if (done == 1) done = run_plan(c, plan);
  if (done == 1 && c->errors != 0) done = report_errors(c, *array);
  Py_XDECREF(plan);
  return done;
}

/* Chains of few factors, as most are, need no memory from the heap. */
enum { FEW = 8, FEW_BITS = 4 };

typedef struct few {
  mmcp_view views[FEW + 1];
  mmc_matrix matrices[FEW + 1];
  int64_t dims[FEW + 1], same[FEW], seen[1 << FEW_BITS];
  mmc_op ops[FEW];
  bool shared[FEW];
} few;

/* Gives the call room for n factors, in `room` or in *block, which call_close() frees. Returns
 * false when there is no memory. */
static bool make_room(mmcp_call *c, Py_ssize_t n, bool is_chain, few *room, char **block) {
  c->n = n;
  c->is_chain = is_chain;
  c->acquired = c->stack_ndim = 0;
  c->together = 1;
  c->on_stream = c->checked = c->has_ops = c->has_shared = c->gathers = c->is_finished =
      c->seeks_parts = c->may_be_torchs = false;
  c->part_count = 0;
  c->modulus = 0;
  c->semiring = MMC_PLUS_TIMES;
  c->exponents = NULL;
  c->errors = 0;
  c->views = room->views;
  c->matrices = room->matrices;
  c->dims = room->dims;
  c->same = room->same;
  c->seen = room->seen;
  c->ops = room->ops;
  c->shared = room->shared;
  c->seen_bits = FEW_BITS;
  c->result = &c->views[is_chain ? 1 : n];
  *block = NULL;
  if (n <= FEW) return true;
  size_t count = (size_t)n + 1;
  while ((size_t)n > (size_t)1 << (c->seen_bits - 1)) c->seen_bits++;
  const size_t views = is_chain ? 2 : count, seen = is_chain ? 0 : (size_t)1 << c->seen_bits;
  *block = malloc(views * sizeof *c->views + count * (sizeof *c->matrices + 2 * sizeof *c->dims) +
                  seen * sizeof *c->seen + (size_t)n * (sizeof *c->ops + sizeof *c->shared));
  if (*block == NULL) return false;
  c->views = (mmcp_view *)(void *)*block;
  c->result = &c->views[views - 1];
  c->matrices = (mmc_matrix *)(c->views + views);
  c->dims = (int64_t *)(c->matrices + count);
  c->same = c->dims + count;
  c->seen = c->same + count;
  c->ops = (mmc_op *)(c->seen + seen);
  c->shared = (bool *)(c->ops + n);
  return true;
}

/* Begins a call for n arrays, or for those of a stack, which it takes over. False: an exception. */
static bool call_open(mmcp_call *c, Py_ssize_t n, mmcp_view *stack, few *room, char **block) {
  if (!make_room(c, n, stack != NULL, room, block)) {
    if (stack != NULL) mmcp_view_release(stack);
    PyErr_NoMemory();
    return false;
  }
  if (stack != NULL) c->stack = *stack;
  return true;
}

static void call_close(mmcp_call *c, char *block) {
  /* When a stack is the chain, views begin with what the stack holds. */
  if (c->is_chain) mmcp_view_release(&c->stack);
  for (int v = 0; v < c->acquired; v++) mmcp_view_release(&c->views[c->is_chain ? v + 1 : v]);
  free(block);
}

static PyObject *execute_items(PyObject *const *items, Py_ssize_t n, mmcp_view *stack,
                               PyObject *const *args, const mmcp_asked *asked);

/* Multiplies the parts, and then what they make of the chain, by plans of their own for what a plan
 * is for. */
static PyObject *execute_parts(const mmcp_call *c, PyObject *const *items, PyObject *const *args) {
  PyObject *made[MMCP_MOST_PARTS], *of_all[ARGUMENTS], *of_part[ARGUMENTS], *result = NULL;
  PyObject **chain = malloc((size_t)c->n * sizeof *chain);
  int count = 0;
  Py_ssize_t n = 0;
  memcpy(of_all, args, sizeof of_all);
  if (args[PLAN] != Py_None) {
    const mmcp_plan *plan = (const mmcp_plan *)args[PLAN];
    of_all[PLAN] = Py_None;
    of_all[OBJECTIVE] = plan->objective;
    of_all[DEVICE] = plan->device;
    of_all[PRECISION] = plan->precision;
  }
  memcpy(of_part, of_all, sizeof of_part);
  of_part[OUT] = Py_None;
  if (chain == NULL) PyErr_NoMemory();
  for (int64_t i = 0; chain != NULL && i < c->n; i++) {
    const mmcp_part *part = count < c->part_count ? &c->parts[count] : NULL;
    if (part == NULL || i != part->first) {
      chain[n++] = items[i];
      continue;
    }
    made[count] = execute_items(items + i, part->last - part->first + 1, NULL, of_part, NULL);
    if (made[count] == NULL || made[count] == Py_NotImplemented) {
      result = made[count];
      n = 0;
      break;
    }
    chain[n++] = made[count++];
    i = part->last;
  }
  if (n > 0) result = execute_items(chain, n, NULL, of_all, NULL);
  for (int p = 0; p < count; p++) Py_DECREF(made[p]);
  free(chain);
  return result;
}

/* Multiplies n arrays, or those of a stack, which is taken over. asked may be NULL. */
static PyObject *execute_items(PyObject *const *items, Py_ssize_t n, mmcp_view *stack,
                               PyObject *const *args, const mmcp_asked *asked) {
  mmcp_call c;
  few room;
  char *block;
  if (!call_open(&c, n, stack, &room, &block)) return NULL;
  c.asked = asked;
  const mmcp_plan *given = args[PLAN] != Py_None ? (const mmcp_plan *)args[PLAN] : NULL;
  const bool is_plain =
      given != NULL ? mmcp_plan_is_usual(given) && given->order == Py_None : is_usual(args);
  c.seeks_parts =
      is_plain && args[RULE] == NULL && args[EXPONENTS] == NULL && args[BF16] != Py_True;
  c.planned = given != NULL ? given->chain : NULL;
  PyObject *array = NULL, *result = NULL;
  Py_buffer exponents = {0};
  int done = multiply_arrays(&c, items, args, &exponents, &array);
  if (exponents.obj != NULL) PyBuffer_Release(&exponents);
  if (done == 1)
    result = args[OUT] != Py_None ? Py_NewRef(args[OUT])
             : c.is_finished      ? Py_NewRef(array)
                                  : finish(&c, array);
  const bool has_parts = done == 0 && items != NULL && c.part_count > 0;
  if (done == 0 && !has_parts) result = Py_NewRef(Py_NotImplemented);
  call_close(&c, block);
  if (has_parts) result = execute_parts(&c, items, args);
  Py_XDECREF(array);
  return result;
}

/* Looks at an array whose matrices are the chain. Returns how many they are, and holds the array in
 * *out; 0 when it is none, and -1 with an exception set. */
static Py_ssize_t acquire_chain(PyObject *array, mmcp_want want, mmcp_view *out) {
  int got = mmcp_view_acquire(array, want, out);
  const int64_t n = got == 1 && out->ndim > 2 ? out->shape[out->ndim - 3] : 0;
  if (n < 1) mmcp_view_release(out);
  return got < 0 ? -1 : (Py_ssize_t)n;
}

/* Multiplies the matrices of one array, which is the chain. */
static PyObject *execute_chain(PyObject *array, PyObject *const *args, const mmcp_asked *asked) {
  mmcp_view stack;
  Py_ssize_t n = acquire_chain(array, args[BF16] == Py_True ? MMCP_READ_BF16 : MMCP_READ, &stack);
  if (n > 1 || (n == 1 && args[PLAN] != Py_None))
    return execute_items(NULL, n, &stack, args, asked);
  if (n == 1) mmcp_view_release(&stack);
  return n < 0 ? NULL : Py_NewRef(Py_NotImplemented);
}

/* Multiplies by PyTorch where it is to record the products, or there is nearly nothing to compute,
 * and nothing else was asked for. Returns as mmcp_torch_multiply(). */
static int execute_recorded(PyObject *const *args, PyObject **out) {
  if (args[OUT] != Py_None) return 0;
  if (args[PLAN] != Py_None)
    return mmcp_torch_multiply_by((mmcp_plan *)args[PLAN], args[ARRAYS], out);
  if (!is_usual(args) || (args[DEVICE] != Py_None && args[DEVICE] != mmcp.cpu)) return 0;
  return mmcp_torch_multiply(args[ARRAYS], args[DEVICE] == Py_None, out);
}

/* Says whether a call is one that may be kept, and what it asks for. */
static bool may_be_kept(PyObject *const *args, PyObject *const *tensors, Py_ssize_t count,
                        bool is_chain, mmcp_asked *out) {
  const bool has_plan = args[PLAN] != Py_None;
  *out = (mmcp_asked){.plan = has_plan ? (mmcp_plan *)args[PLAN] : NULL,
                      .for_flops = !has_plan && args[OBJECTIVE] == mmcp.flops,
                      .is_chain = is_chain,
                      .tensors = tensors,
                      .count = count,
                      .out = args[OUT] != Py_None ? args[OUT] : NULL};
  return count > 0 && args[STREAM] == Py_None && args[BF16] != Py_True && args[RULE] == NULL &&
         (has_plan || (is_usual(args) && args[DEVICE] == Py_None));
}

static PyObject *execute_arrays(PyObject *items, bool is_chain, PyObject *const *args);

/* Multiplies what execute_items() left to others, where NumPy multiplies it, or where lists or
 * files are in place of arrays. Takes its answer. */
static PyObject *execute_others(PyObject *answer, PyObject *const *arrays, Py_ssize_t n,
                                PyObject *const *args) {
  if (answer != Py_NotImplemented || !is_plain_call(args)) return answer;
  PyObject *result = NULL, *items = mmcp_as_arrays(arrays, n);
  PyObject *out = args[OUT] != Py_None ? args[OUT] : NULL;
  if (items != NULL)
    result = execute_arrays(items, false, args);
  else if (!PyErr_Occurred() && mmcp_by_numpy(arrays, n, out, &result) == 0)
    return answer;
  Py_XDECREF(items);
  Py_DECREF(answer);
  return result;
}

/* Multiplies the arrays of a tuple, or of one array. */
static PyObject *execute_arrays(PyObject *items, bool is_chain, PyObject *const *args) {
  PyObject *const *arrays = is_chain ? &args[ARRAYS] : &PyTuple_GET_ITEM(items, 0), *result = NULL;
  const Py_ssize_t n = is_chain ? 1 : PyTuple_GET_SIZE(items),
                   least = args[PLAN] == Py_None ? 2 : 1;
  mmcp_asked question;
  const mmcp_asked *asked = may_be_kept(args, arrays, n, is_chain, &question) ? &question : NULL;
  if (asked != NULL && mmcp_recall(asked, &result) != 0) return result;
  if (is_chain) return execute_chain(args[ARRAYS], args, asked);
  if (execute_recorded(args, &result) != 0) return result;
  if (n < least) return Py_NewRef(Py_NotImplemented);
  return execute_others(execute_items(arrays, n, NULL, args, asked), arrays, n, args);
}

PyObject *mmcp_execute(PyObject *module, PyObject *const *given, Py_ssize_t count) {
  PyObject *args[ARGUMENTS] = {NULL};
  (void)module;
  if (count == ARGUMENTS || count == RULE || count == EXPONENTS)
    memcpy(args, given, (size_t)count * sizeof *args);
  if (args[PLAN] == NULL)
    return PyErr_Format(PyExc_TypeError, "execute: expected %d arguments, got %zd", ARGUMENTS,
                        count);
  if (args[PLAN] != Py_None && !PyObject_TypeCheck(args[PLAN], &mmcp_plan_type))
    return PyErr_Format(PyExc_TypeError, "plan: expected a Plan, got %s",
                        Py_TYPE(args[PLAN])->tp_name);
  if (!PyList_CheckExact(args[ARRAYS]) && !PyTuple_CheckExact(args[ARRAYS]))
    return execute_arrays(NULL, true, args);
  PyObject *items = PySequence_Tuple(args[ARRAYS]); /* a list may change meanwhile */
  PyObject *result = items != NULL ? execute_arrays(items, false, args) : NULL;
  Py_XDECREF(items);
  return result;
}

static PyObject *text_of(const mmcp_call *c) {
  mmcp_problem problem = problem_of(c);
  mmc_chain *chain = mmcp_chain_new(&problem);
  PyObject *text = chain != NULL ? mmcp_chain_text(chain) : NULL;
  mmc_chain_destroy(chain);
  return text;
}

/* The chain as text, the number of the CUDA device that the arrays lie on, or None, and the chain
 * of as many rows, or None. */
static PyObject *describe(mmcp_call *c) {
  PyObject *text = text_of(c), *rows = Py_NewRef(Py_None);
  if (text != NULL && mmcp_may_be_rows(c, mmcp.native)) {
    mmcp_make_rows(c);
    Py_SETREF(rows, text_of(c));
  }
  if (text == NULL || rows == NULL) {
    Py_XDECREF(text);
    Py_XDECREF(rows);
    return NULL;
  }
  return c->device == MMCP_HOST ? Py_BuildValue("NON", text, Py_None, rows)
                                : Py_BuildValue("NiN", text, c->device, rows);
}

/* What chain_of() says of n arrays, or of those of a stack, which is taken over. */
static PyObject *describe_items(PyObject *const *items, Py_ssize_t n, mmcp_view *stack,
                                mmcp_want want) {
  mmcp_call c;
  few room;
  char *block;
  if (!call_open(&c, n, stack, &room, &block)) return NULL;
  PyObject *result = NULL;
  int done = stack != NULL ? mmcp_read_chain(&c)
             : n > 0       ? mmcp_acquire_factors(&c, items, want)
                           : 0;
  if (done == 1) done = mmcp_find_dims(&c);
  if (done == 1) result = describe(&c);
  if (done == 0) result = Py_NewRef(Py_NotImplemented);
  call_close(&c, block);
  return result;
}

PyObject *mmcp_chain_of(PyObject *module, PyObject *const *args, Py_ssize_t count) {
  (void)module;
  if (count != 2)
    return PyErr_Format(PyExc_TypeError, "chain_of: expected 2 arguments, got %zd", count);
  mmcp_want want = args[1] == Py_True ? MMCP_READ_BF16 : MMCP_READ;
  if (!PyList_CheckExact(args[0]) && !PyTuple_CheckExact(args[0])) {
    mmcp_view stack;
    Py_ssize_t n = acquire_chain(args[0], want, &stack);
    if (n > 0) return describe_items(NULL, n, &stack, want);
    return n < 0 ? NULL : Py_NewRef(Py_NotImplemented);
  }
  PyObject *items = PySequence_Tuple(args[0]);
  if (items == NULL) return NULL;
  PyObject *result =
      describe_items(&PyTuple_GET_ITEM(items, 0), PyTuple_GET_SIZE(items), NULL, want);
  Py_DECREF(items);
  return result;
}

PyObject *mmcp_readable(PyObject *module, PyObject *const *args, Py_ssize_t count) {
  (void)module;
  if (count != 2)
    return PyErr_Format(PyExc_TypeError, "readable: expected 2 arguments, got %zd", count);
  mmcp_view view;
  mmc_matrix matrix;
  int got = mmcp_view_acquire(args[0], MMCP_READ, &view);
  bool vector = got == 1 && view.ndim == 1;
  bool column = !vector || args[1] == Py_True, row = !vector || !column;
  bool readable = got == 1 && view.ndim > 0 && mmcp_view_matrix(&view, row, column, &matrix);
  mmcp_view_release(&view);
  return got < 0 ? NULL : PyBool_FromLong(readable);
}

/* What a plan for arrays depends on, of one of them. */
typedef struct place {
  int64_t shape[2], strides[2];
  int32_t dtype, first; /* the first array that begins where this one does */
} place;

/* Returns 1; 0 where the array is not to be had so; -1 with an exception set. */
static int find_place(PyObject *array, place *out, char **begins) {
  mmcp_view view;
  mmc_matrix matrix;
  int got = mmcp_view_acquire(array, MMCP_READ, &view);
  if (got == 1 && (!view.is_numpy || view.ndim < 1 || view.ndim > 2 || view.device != MMCP_HOST ||
                   !mmcp_view_matrix(&view, view.ndim == 2, true, &matrix)))
    got = 0;
  for (int d = 0; d < 2 && got == 1; d++) {
    out->shape[d] = d < view.ndim ? view.shape[d] : -1;
    out->strides[d] = d < view.ndim ? mmcp_view_stride(&view, d) : 0;
  }
  if (got == 1) {
    out->dtype = (int32_t)view.dtype;
    *begins = view.data;
  }
  mmcp_view_release(&view);
  return got;
}

PyObject *mmcp_places(PyObject *module, PyObject *const *args, Py_ssize_t count) {
  enum { MOST = 32 };
  place places[MOST];
  char *begins[MOST];
  (void)module;
  if (count != 1 || !PyList_CheckExact(args[0]))
    return PyErr_Format(PyExc_TypeError, "places: expected a list");
  const Py_ssize_t n = PyList_GET_SIZE(args[0]);
  if (n > MOST) Py_RETURN_NONE;
  memset(places, 0, sizeof places);
  for (Py_ssize_t i = 0; i < n; i++) {
    int got = find_place(PyList_GET_ITEM(args[0], i), &places[i], &begins[i]);
    if (got < 0) return NULL;
    if (got == 0) Py_RETURN_NONE;
    while (begins[places[i].first] != begins[i]) places[i].first++;
  }
  return PyBytes_FromStringAndSize((const char *)places, n * (Py_ssize_t)sizeof *places);
}

/* execute.c: see execute.h. */
#include "execute.h"

#include <fenv.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif
#include <string.h>

#include "by_numpy.h"
#include "call_plan.h"
#include "modes.h"
#include "torch.h"

/* Multiplications below which keeping the GIL costs others less than a switch costs this thread. */
static const double gil_multiplications = 32768;

/* Functions below return 1; 0 when the arrays cannot be multiplied here; -1 with an exception set.
 */

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
  mmcp_problem problem = mmcp_problem_of(c);
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
  mmcp_turn_factors(c, plan);
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

/* As mmcp_find_plan(), but for twins of a call without a rule, which _structure.py may take; what
 * it does not take comes again with one. */
static int find_plan(mmcp_call *c, PyObject *const *args, mmcp_plan **plan) {
  if (args[PLAN] == Py_None && args[RULE] == NULL && mmcp_has_twins(c)) return 0;
  return mmcp_find_plan(c, args[PLAN], args + OBJECTIVE, plan);
}

/* Has PyTorch multiply what comes for one of the first times on a GPU, where a plan takes some ten
 * times as long to make: 1 with the result. Otherwise the plan is found as find_plan() does,
 * for factors that can be read: returns 2, or 0 or -1 as that does. */
static int execute_new_by_torch(mmcp_call *c, PyObject *const *items, PyObject *const *args,
                                bool waits, mmcp_plan **plan, PyObject **array) {
  int done = 1;
  c->may_be_torchs = c->may_be_torchs && mmcp_torch_can(c, items);
  if (c->may_be_torchs) {
    done = find_plan(c, args, plan);
    const int taken = done == 1 && *plan == NULL ? mmcp_torch_execute_new(c, items, array) : 0;
    if (done != 1 || taken != 0) return done != 1 ? done : taken;
    if (*plan != NULL && !waits) return 2;
    c->may_be_torchs = false;
    Py_CLEAR(*plan);
  }
  if (waits) done = mmcp_write_out(c, items);
  if (done == 1) done = find_plan(c, args, plan);
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
  mmcp_few room;
  char *block;
  if (!mmcp_call_open(&c, n, stack, &room, &block)) return NULL;
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
  mmcp_call_close(&c, block);
  if (has_parts) result = execute_parts(&c, items, args);
  Py_XDECREF(array);
  return result;
}

/* Multiplies the matrices of one array, which is the chain. */
static PyObject *execute_chain(PyObject *array, PyObject *const *args, const mmcp_asked *asked) {
  mmcp_view stack;
  Py_ssize_t n =
      mmcp_acquire_chain(array, args[BF16] == Py_True ? MMCP_READ_BF16 : MMCP_READ, &stack);
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

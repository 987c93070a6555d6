/* plan.c: see plan.h. */
#include "plan.h"

#include <math.h>
#include <string.h>

#include "cache.h"
#include "recall.h"
#include "view.h"

/* ---- making -------------------------------------------------------------------------------- */

static bool is_current(const mmcp_plan *self) {
  return self->plan != NULL && self->generation == mmcp.generation;
}

/* Destroys idle runs; those of another generation are left, with the threads they belonged to. */
static void drop_idle(mmcp_plan *self) {
  for (size_t r = 0; r < self->idle_count && is_current(self); r++) {
    if (self->asynchronous) mmc_wait(self->idle[r]);
    mmc_run_destroy(self->idle[r]);
    if (self->cached) mmcp.idle_bytes -= self->workspace_bytes;
  }
  self->idle_count = 0;
}

int mmcp_check_device(const char *device) {
  if (strncmp(device, "cuda", 4) != 0) return 0;
  if (!mmcp.cuda_lost) return 0;
  PyErr_Format(PyExc_RuntimeError,
               "device: '%s' was used before this process was forked, and CUDA does not survive a "
               "fork; start processes by 'spawn' or 'forkserver'",
               device);
  return -1;
}

/* Lets Ctrl-C end long planning. No fork may come in between. user is where the thread is kept. */
static int check_signals(void *user, double done) {
  (void)done;
  PyThreadState **thread = user;
  PyEval_RestoreThread(*thread);
  int stop = PyErr_CheckSignals();
  *thread = PyEval_SaveThread();
  return stop;
}

/* Sets an exception where it fails. */
static mmc_status create_plan(const mmcp_plan *self, mmc_plan_options *options, mmc_plan **out) {
  PyThreadState *thread;
  options->progress = check_signals;
  options->progress_user = &thread;
  const char *text = self->saved != NULL ? PyBytes_AS_STRING(self->saved) : NULL;
  const size_t size = self->saved != NULL ? (size_t)PyBytes_GET_SIZE(self->saved) : 0;
  thread = mmcp_enter();
  mmc_status status = text != NULL
                          ? mmc_plan_read(mmcp.context, text, size, self->chain, options, out)
                          : mmc_plan_create(mmcp.context, self->chain, options, out);
  mmcp_leave(thread);
  if (status != MMC_OK && !PyErr_Occurred()) mmcp_raise(status);
  return status;
}

int mmcp_plan_ensure(mmcp_plan *self) {
  if (is_current(self)) return 0;
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.memory_limit_bytes = self->memory_limit_bytes;
  options.max_slowdown = self->max_slowdown;
  options.location = self->location;
  options.scaled = self->scaled;
  if (mmcp_context_ensure() < 0 ||
      mmcp_text(self->objective, "objective", &options.objective) < 0 ||
      mmcp_text(self->device, "device", &options.device) < 0 ||
      mmcp_text(self->precision, "precision", &options.precision) < 0 ||
      mmcp_text(self->solver, "solver", &options.solver) < 0 ||
      mmcp_text(self->order, "order", &options.order) < 0)
    return -1;
  if (options.device != NULL && mmcp_check_device(options.device) < 0) return -1;
  if (self->saved != NULL) /* whose text says these */
    options.objective = options.device = options.precision = options.solver = options.order = NULL;
  mmc_plan *plan;
  if (create_plan(self, &options, &plan) != MMC_OK) return -1;
  if (is_current(self)) {
    /* Another thread was faster. */
    mmc_plan_destroy(plan);
    return 0;
  }
  self->idle_count = 0;
  self->plan = plan;
  self->generation = mmcp.generation;
  self->multiplications = mmc_count_to_double(mmc_plan_multiplications(plan));
  self->workspace_bytes = mmc_plan_workspace_bytes(plan);
  self->asynchronous = strncmp(mmc_plan_device(plan), "cuda", 4) == 0;
  if (self->asynchronous) mmcp.cuda_used = true;
  return 0;
}

static mmcp_plan *plan_new(PyTypeObject *type, mmc_chain *chain, PyObject *objective,
                           PyObject *device, PyObject *precision, PyObject *solver,
                           PyObject *order) {
  mmcp_plan *self = (mmcp_plan *)type->tp_alloc(type, 0);
  if (self == NULL) {
    mmc_chain_destroy(chain);
    return NULL;
  }
  self->chain = chain;
  self->objective = Py_NewRef(objective);
  self->device = Py_NewRef(device);
  self->precision = Py_NewRef(precision);
  self->solver = Py_NewRef(solver);
  self->order = Py_NewRef(order);
  self->memory_limit_bytes = MMC_NO_LIMIT;
  return self;
}

static void plan_dealloc(mmcp_plan *self) {
  mmcp_recall_forget(self);
  drop_idle(self);
  Py_XDECREF(self->stacked);
  Py_XDECREF(self->as_rows);
  if (is_current(self)) mmc_plan_destroy(self->plan);
  free(self->idle);
  mmc_chain_destroy(self->chain);
  Py_XDECREF(self->objective);
  Py_XDECREF(self->device);
  Py_XDECREF(self->asked_device);
  Py_XDECREF(self->precision);
  Py_XDECREF(self->solver);
  Py_XDECREF(self->order);
  Py_XDECREF(self->saved);
  Py_TYPE(self)->tp_free((PyObject *)self);
}

int64_t *mmcp_read_dims(PyObject *object, int64_t *n) {
  PyObject *sequence = PySequence_Fast(object, "dims: expected a sequence of int");
  if (sequence == NULL) return NULL;
  Py_ssize_t count = PySequence_Fast_GET_SIZE(sequence);
  int64_t *dims = malloc((size_t)(count + 1) * sizeof *dims);
  if (dims == NULL) PyErr_NoMemory();
  for (Py_ssize_t d = 0; dims != NULL && d < count; d++) {
    PyObject *dim = PySequence_Fast_GET_ITEM(sequence, d);
    dims[d] = PyLong_AsLongLong(dim);
    if (dims[d] != -1 || !PyErr_Occurred()) continue;
    if (PyErr_ExceptionMatches(PyExc_OverflowError))
      PyErr_Format(PyExc_ValueError, "dims[%zd]: expected 0 to 2^62, got %S", d, dim);
    free(dims);
    dims = NULL;
  }
  Py_DECREF(sequence);
  *n = (int64_t)count - 1;
  return dims;
}

/* The chain of a dtype's name and dims, or NULL with an exception set. */
static mmc_chain *chain_of_dims(const char *name, PyObject *sizes) {
  int dtype = 0;
  while (dtype < MMCP_DTYPES && strcmp(mmc_dtype_name((mmc_dtype)dtype), name) != 0) dtype++;
  int64_t n;
  int64_t *dims = mmcp_read_dims(sizes, &n);
  if (dims == NULL) return NULL;
  const mmcp_problem problem = {.dtype = (mmc_dtype)dtype, .n = n, .dims = dims, .batch = 1};
  mmc_chain *chain = mmcp_chain_new(&problem);
  free(dims);
  return chain;
}

/* The chain of a text, or of a pair of a dtype's name and dims, which spares the text of a long
 * chain. NULL with an exception set. */
static mmc_chain *read_chain(PyObject *object) {
  const char *text;
  PyObject *sizes = NULL;
  if (PyTuple_Check(object)) {
    if (!PyArg_ParseTuple(object, "sO:chain", &text, &sizes)) return NULL;
    return chain_of_dims(text, sizes);
  }
  if (mmcp_text(object, "chain", &text) < 0 || mmcp_context_ensure() < 0) return NULL;
  mmc_chain *chain;
  mmc_status status = mmc_chain_parse(mmcp.context, text != NULL ? text : "", &chain);
  if (status == MMC_OK) return chain;
  mmcp_raise(status);
  return NULL;
}

/* Reads the bytes of a limit; false with an exception set. */
static bool read_limit(PyObject *limit, uint64_t *bytes) {
  *bytes = MMC_NO_LIMIT;
  if (limit == Py_None) return true;
  PyObject *number = PyIndex_Check(limit) ? PyNumber_Index(limit) : NULL;
  if (number == NULL) {
    if (!PyErr_Occurred())
      PyErr_Format(PyExc_TypeError, "memory_limit: expected a number of bytes, got %.100s",
                   Py_TYPE(limit)->tp_name);
    return false;
  }
  *bytes = PyLong_AsUnsignedLongLong(number);
  if (PyErr_Occurred())
    PyErr_Format(PyExc_ValueError, "memory_limit: expected 0 to 2^64 - 1 bytes, got %S", number);
  Py_DECREF(number);
  return !PyErr_Occurred();
}

static PyObject *plan_type_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {
      "chain",        "objective", "device", "precision", "solver", "memory_limit",
      "max_slowdown", "on_device", "order",  "saved",     NULL};
  PyObject *source, *objective, *device, *precision, *solver, *limit, *slowdown;
  PyObject *order = Py_None, *saved = Py_None;
  int on_device;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOOOOOp|OO:Plan", names, &source, &objective,
                                   &device, &precision, &solver, &limit, &slowdown, &on_device,
                                   &order, &saved))
    return NULL;
  if (saved != Py_None && !PyBytes_Check(saved))
    return PyErr_Format(PyExc_TypeError, "saved: expected bytes, got %.100s",
                        Py_TYPE(saved)->tp_name);
  double max_slowdown = slowdown != Py_None ? PyFloat_AsDouble(slowdown) : 0;
  if (PyErr_Occurred())
    return PyErr_Format(PyExc_TypeError, "max_slowdown: expected a number, got %.100s",
                        Py_TYPE(slowdown)->tp_name);
  uint64_t limit_bytes;
  if (!read_limit(limit, &limit_bytes)) return NULL;
  mmc_chain *chain = read_chain(source);
  if (chain == NULL) return NULL;
  mmcp_plan *self = plan_new(type, chain, objective, device, precision, solver, order);
  if (self == NULL) return NULL;
  self->memory_limit_bytes = limit_bytes;
  self->max_slowdown = max_slowdown;
  self->saved = saved != Py_None ? Py_NewRef(saved) : NULL;
  self->location = on_device ? MMC_DEVICE : MMC_HOST;
  if (mmcp_plan_ensure(self) == 0) return (PyObject *)self;
  Py_DECREF(self);
  return NULL;
}

mmc_chain *mmcp_chain_new(const mmcp_problem *x) {
  if (mmcp_context_ensure() < 0) return NULL;
  mmc_chain *chain;
  mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
  options.batch = x->batch;
  options.same = x->same;
  options.shared = x->shared;
  options.modulus = x->modulus;
  options.checked = x->checked;
  options.semiring = x->semiring;
  mmc_status status =
      mmc_chain_create_batch(mmcp.context, x->dtype, x->n, x->dims, x->ops, &options, &chain);
  if (status == MMC_OK) return chain;
  mmcp_raise(status);
  return NULL;
}

/* Returns a batch of such chains with these ops and shared factors, or NULL with an exception set.
 */
static mmc_chain *chain_stacked(const mmc_chain *chain, int64_t batch, const mmc_op *ops,
                                const bool *shared) {
  int64_t n = mmc_chain_length(chain);
  int64_t *same = malloc((size_t)n * sizeof *same);
  if (same == NULL) return (mmc_chain *)PyErr_NoMemory();
  for (int64_t i = 0; i < n; i++) same[i] = mmc_chain_same(chain, i);
  mmcp_problem problem = {.dtype = mmc_chain_dtype(chain),
                          .n = n,
                          .dims = mmc_chain_dims(chain),
                          .batch = batch,
                          .same = same,
                          .ops = ops,
                          .shared = shared,
                          .modulus = mmc_chain_modulus(chain),
                          .checked = mmc_chain_checked(chain),
                          .semiring = mmc_chain_semiring(chain)};
  mmc_chain *stacked = mmcp_chain_new(&problem);
  free(same);
  return stacked;
}

bool mmcp_has_ops(const mmcp_plan *plan, const mmc_op *ops) {
  if (plan->has_ops != (ops != NULL)) return false;
  return ops == NULL || memcmp(mmc_chain_ops(plan->chain), ops,
                               (size_t)mmc_chain_length(plan->chain) * sizeof *ops) == 0;
}

bool mmcp_has_shared(const mmcp_plan *plan, const bool *shared) {
  if (plan->has_shared != (shared != NULL)) return false;
  for (int64_t i = 0; shared != NULL && i < mmc_chain_length(plan->chain); i++)
    if (mmc_chain_shared(plan->chain, i) != shared[i]) return false;
  return true;
}

mmcp_plan *mmcp_plan_stacked(mmcp_plan *self, int64_t batch, const mmc_op *ops,
                             const bool *shared) {
  if (self->stacked != NULL && mmc_chain_batch(self->stacked->chain) == batch &&
      mmcp_has_ops(self->stacked, ops) && mmcp_has_shared(self->stacked, shared))
    return (mmcp_plan *)Py_NewRef((PyObject *)self->stacked);
  mmc_chain *chain = chain_stacked(self->chain, batch, ops, shared);
  if (chain == NULL) return NULL;
  mmcp_plan *stacked = plan_new(&mmcp_plan_type, chain, self->objective, self->device,
                                self->precision, self->solver, self->order);
  if (stacked == NULL) return NULL;
  stacked->memory_limit_bytes = self->memory_limit_bytes;
  stacked->max_slowdown = self->max_slowdown;
  stacked->location = self->location;
  stacked->has_ops = ops != NULL;
  stacked->has_shared = shared != NULL;
  Py_XSETREF(self->stacked, (mmcp_plan *)Py_NewRef((PyObject *)stacked));
  return stacked;
}

/* Says whether a name stands for several devices of which the first is this one: the array's. */
static bool is_first_of_several(PyObject *device, int array_device) {
  char first[32];
  const char *name = PyUnicode_AsUTF8(device);
  if (name == NULL) {
    PyErr_Clear();
    return false;
  }
  snprintf(first, sizeof first, "cuda:%d,", array_device);
  return (array_device == 0 && strcmp(name, "cuda:all") == 0) ||
         strncmp(name, first, strlen(first)) == 0;
}

/* The device that a plan for arrays lying there is made for, as a new str. */
static PyObject *resolve_device(PyObject *device, int array_device) {
  if (array_device == MMCP_HOST)
    return device == Py_None ? PyUnicode_FromString("cpu") : Py_NewRef(device);
  PyObject *here = PyUnicode_FromFormat("cuda:%d", array_device);
  if (here == NULL || device == Py_None) return here;
  if (PyUnicode_CompareWithASCIIString(device, "cuda") == 0 || PyUnicode_Compare(device, here) == 0)
    return here;
  if (is_first_of_several(device, array_device)) {
    Py_DECREF(here);
    return Py_NewRef(device);
  }
  PyErr_Format(PyExc_ValueError, "device: expected '%U', where the arrays are, got '%U'", here,
               device);
  Py_DECREF(here);
  return NULL;
}

mmcp_plan *mmcp_plan_for_arrays(const mmcp_problem *x, const mmcp_options *options) {
  mmc_chain *chain = mmcp_chain_new(x);
  if (chain == NULL) return NULL;
  PyObject *device = resolve_device(options->device, x->array_device);
  if (device == NULL) {
    mmc_chain_destroy(chain);
    return NULL;
  }
  mmcp_plan *plan = plan_new(&mmcp_plan_type, chain, options->objective, device, options->precision,
                             Py_None, Py_None);
  Py_DECREF(device);
  if (plan == NULL) return NULL;
  plan->asked_device = Py_NewRef(options->device);
  plan->array_device = x->array_device;
  plan->repeats = x->same != NULL;
  plan->has_ops = x->ops != NULL;
  plan->has_shared = x->shared != NULL;
  plan->scaled = x->scaled;
  plan->location = x->array_device == MMCP_HOST ? MMC_HOST : MMC_DEVICE;
  if (mmcp_plan_ensure(plan) == 0) return plan;
  Py_DECREF(plan);
  return NULL;
}

/* Says whether one product of many rows is taken for the batch of its rows. On the host, where a
 * batch keeps shared factors and what is between two products in caches, it takes as little as a
 * third of what is predicted, so rows are to gain more than half; on a GPU, where few rows a
 * product leave most of it idle, they are taken unless they are predicted to lose a quarter. NaN is
 * less than nothing. */
static bool takes_less(const mmcp_plan *rows, const mmcp_plan *batch) {
  const double share = batch->location == MMC_DEVICE ? 1.25 : 0.45;
  return mmc_plan_predicted_seconds(rows->plan) < share * mmc_plan_predicted_seconds(batch->plan);
}

/* Forgets why rows could not be planned, as where memory is short: the batch goes a few products at
 * a time. False for what must not be forgotten. */
static bool forgive(void) {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return false;
  PyErr_Clear();
  return true;
}

int mmcp_plan_as_rows(mmcp_plan *plan, const mmcp_problem *problem, const mmcp_options *options,
                      mmcp_plan **out) {
  if (!plan->has_seen_rows) {
    if (mmcp_plan_ensure(plan) < 0) return -1;
    mmcp_plan *other = mmcp_plan_for_arrays(problem, options);
    if (other == NULL && !forgive()) return -1;
    /* Another thread may have been faster. */
    if (other != NULL && !plan->has_seen_rows && takes_less(other, plan))
      plan->as_rows = other;
    else
      Py_XDECREF(other);
    plan->has_seen_rows = true;
  }
  *out = (mmcp_plan *)Py_XNewRef((PyObject *)plan->as_rows);
  return 0;
}

bool mmcp_plan_is_usual(const mmcp_plan *plan) {
  const mmc_chain *chain = plan->chain;
  int64_t structured = 0;
  mmc_chain_inverses(chain, &structured);
  for (int64_t i = 0; i < mmc_chain_length(chain); i++)
    structured += mmc_chain_ops(chain)[i] != MMC_OP_N || mmc_chain_traits(chain, i) != 0;
  return structured == 0 && plan->precision == mmcp.native && !plan->scaled &&
         plan->memory_limit_bytes == MMC_NO_LIMIT && plan->max_slowdown == 0 &&
         (plan->objective == mmcp.time || plan->objective == mmcp.flops) &&
         (plan->device == Py_None || plan->device == mmcp.cpu);
}

bool mmcp_is_reproducible(PyObject *precision) {
  const char *name = PyUnicode_AsUTF8(precision);
  if (name == NULL) PyErr_Clear();
  return name != NULL && strncmp(name, "reproducible", strlen("reproducible")) == 0;
}

/* ---- runs ---------------------------------------------------------------------------------- */

/* Workspace that idle runs of cached plans may hold together. */
static const uint64_t idle_limit_bytes = (uint64_t)1 << 30;

mmc_run *mmcp_plan_take_run(mmcp_plan *self) {
  if (mmcp_plan_ensure(self) < 0) return NULL;
  if (self->idle_count > 0) {
    if (self->cached) mmcp.idle_bytes -= self->workspace_bytes;
    return self->idle[--self->idle_count];
  }
  mmc_run *run;
  PyThreadState *thread = mmcp_enter();
  mmc_status status = mmc_run_create(self->plan, &run);
  mmcp_leave(thread);
  if (status == MMC_OK) return run;
  mmcp_raise(status);
  return NULL;
}

static void drop_idle_of_others(mmcp_plan *plan, const void *kept) {
  if (plan != kept) drop_idle(plan);
}

static bool keep_run(mmcp_plan *self) {
  if (self->idle_count == self->idle_capacity) {
    size_t capacity = 2 * self->idle_capacity + 1;
    mmc_run **idle = realloc(self->idle, capacity * sizeof *idle);
    if (idle == NULL) return false;
    self->idle = idle;
    self->idle_capacity = capacity;
  }
  if (!self->cached) return true;
  if (mmcp.idle_bytes + self->workspace_bytes > idle_limit_bytes)
    mmcp_cache_each(drop_idle_of_others, self);
  return mmcp.idle_bytes + self->workspace_bytes <= idle_limit_bytes;
}

void mmcp_plan_uncache(mmcp_plan *self) {
  mmcp_recall_forget(self);
  if (self->cached && is_current(self)) mmcp.idle_bytes -= self->idle_count * self->workspace_bytes;
  self->cached = false;
}

void mmcp_plan_give_run(mmcp_plan *self, mmc_run *run) {
  if (keep_run(self)) {
    self->idle[self->idle_count++] = run;
    if (self->cached) mmcp.idle_bytes += self->workspace_bytes;
    return;
  }
  if (self->asynchronous) mmc_wait(run);
  mmc_run_destroy(run);
}

/* ---- methods -------------------------------------------------------------------------------- */

typedef struct growing {
  char *bytes;
  size_t size, capacity;
} growing;

static int grow(void *user, const char *bytes, size_t size) {
  growing *text = user;
  if (text->size + size > text->capacity) {
    size_t capacity = 2 * (text->size + size);
    char *moved = realloc(text->bytes, capacity);
    if (moved == NULL) return 1;
    text->bytes = moved;
    text->capacity = capacity;
  }
  memcpy(text->bytes + text->size, bytes, size);
  text->size += size;
  return 0;
}

static PyObject *grown(growing *text, mmc_status status) {
  PyObject *result = NULL;
  if (status == MMC_OK)
    result = PyUnicode_FromStringAndSize(text->size > 0 ? text->bytes : "", (Py_ssize_t)text->size);
  else
    mmcp_raise(status);
  free(text->bytes);
  return result;
}

static PyObject *plan_takes_less(mmcp_plan *self, PyObject *batch) {
  if (!PyObject_TypeCheck(batch, &mmcp_plan_type))
    return PyErr_Format(PyExc_TypeError, "batch: expected a Plan, got %s", Py_TYPE(batch)->tp_name);
  if (mmcp_plan_ensure((mmcp_plan *)batch) < 0) return NULL;
  if (mmcp_plan_ensure(self) < 0) {
    if (!forgive()) return NULL;
    Py_RETURN_FALSE;
  }
  return PyBool_FromLong(takes_less(self, (mmcp_plan *)batch));
}

static PyObject *plan_describe(mmcp_plan *self, PyObject *argument) {
  static const struct {
    const char *name;
    mmc_format format;
  } formats[] = {{"text", MMC_TEXT}, {"json", MMC_JSON}, {"dot", MMC_DOT}, {"svg", MMC_SVG}};
  const char *name;
  if (mmcp_text(argument, "format", &name) < 0) return NULL;
  if (name == NULL)
    return PyErr_Format(PyExc_TypeError, "format: expected text, json, dot or svg, got None");
  if (mmcp_plan_ensure(self) < 0) return NULL;
  for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++) {
    if (strcmp(name, formats[f].name) != 0) continue;
    growing text = {NULL, 0, 0};
    return grown(&text, mmc_plan_explain(self->plan, formats[f].format, grow, &text));
  }
  return PyErr_Format(PyExc_ValueError, "format: expected text, json, dot or svg, got '%s'", name);
}

static PyObject *plan_products(mmcp_plan *self, PyObject *unused) {
  (void)unused;
  if (mmcp_plan_ensure(self) < 0) return NULL;
  int64_t count = mmc_plan_step_count(self->plan);
  PyObject *list = PyList_New((Py_ssize_t)count);
  for (int64_t s = 0; list != NULL && s < count; s++) {
    mmc_step step;
    mmc_status status = mmc_plan_step(self->plan, s, &step);
    PyObject *pair = NULL;
    if (status == MMC_OK)
      pair = Py_BuildValue("LL", (long long)step.left, (long long)step.right);
    else
      mmcp_raise(status);
    if (pair == NULL)
      Py_CLEAR(list);
    else
      PyList_SET_ITEM(list, (Py_ssize_t)s, pair);
  }
  return list;
}

static PyObject *plan_factors(PyObject *object, void *closure) {
  const mmc_chain *chain = ((mmcp_plan *)object)->chain;
  (void)closure;
  const int64_t n = mmc_chain_length(chain), batch = mmc_chain_batch(chain),
                *dims = mmc_chain_dims(chain);
  int64_t groups;
  mmc_chain_inverses(chain, &groups);
  PyObject *list = PyList_New((Py_ssize_t)n);
  for (int64_t i = 0; list != NULL && i < n; i++) {
    const int64_t count = mmc_chain_shared(chain, i) ? 1 : batch;
    const int is_plain = groups == 0 && mmc_chain_traits(chain, i) == 0;
    PyObject *factor =
        Py_BuildValue("LLLLi", (long long)count, (long long)dims[i], (long long)dims[i + 1],
                      (long long)mmc_chain_same(chain, i), is_plain);
    if (factor == NULL)
      Py_CLEAR(list);
    else
      PyList_SET_ITEM(list, (Py_ssize_t)i, factor);
  }
  return list;
}

PyObject *mmcp_chain_text(const mmc_chain *chain) {
  growing text = {NULL, 0, 0};
  return grown(&text, mmc_chain_write(chain, grow, &text));
}

static PyObject *plan_chain(mmcp_plan *self, void *unused) {
  (void)unused;
  return mmcp_chain_text(self->chain);
}

static PyObject *plan_workspace(mmcp_plan *self, void *unused) {
  (void)unused;
  return mmcp_plan_ensure(self) < 0 ? NULL : PyLong_FromUnsignedLongLong(self->workspace_bytes);
}

static PyObject *plan_multiplications(mmcp_plan *self, void *unused) {
  (void)unused;
  if (mmcp_plan_ensure(self) < 0) return NULL;
  char text[MMC_COUNT_TEXT_SIZE];
  return PyLong_FromString(mmc_count_format(mmc_plan_multiplications(self->plan), text), NULL, 10);
}

static PyObject *plan_device(mmcp_plan *self, void *unused) {
  (void)unused;
  return mmcp_plan_ensure(self) < 0 ? NULL : PyUnicode_FromString(mmc_plan_device(self->plan));
}

static PyObject *number_or_none(double number) {
  return isnan(number) ? Py_NewRef(Py_None) : PyFloat_FromDouble(number);
}

static PyObject *plan_seconds(mmcp_plan *self, void *unused) {
  (void)unused;
  return mmcp_plan_ensure(self) < 0 ? NULL : number_or_none(mmc_plan_predicted_seconds(self->plan));
}

static PyObject *plan_error_bound(mmcp_plan *self, void *unused) {
  (void)unused;
  return mmcp_plan_ensure(self) < 0 ? NULL : number_or_none(mmc_plan_error_bound(self->plan));
}

static PyObject *plan_joules(mmcp_plan *self, void *unused) {
  (void)unused;
  return mmcp_plan_ensure(self) < 0 ? NULL : number_or_none(mmc_plan_predicted_joules(self->plan));
}

/* What __new__ was given, for pickling: a plan is made again where it is loaded. */
static PyObject *plan_arguments(mmcp_plan *self, void *unused) {
  PyObject *chain = plan_chain(self, unused);
  if (chain == NULL) return NULL;
  PyObject *limit = self->memory_limit_bytes == MMC_NO_LIMIT
                        ? Py_NewRef(Py_None)
                        : PyLong_FromUnsignedLongLong(self->memory_limit_bytes);
  PyObject *slowdown =
      self->max_slowdown == 0 ? Py_NewRef(Py_None) : PyFloat_FromDouble(self->max_slowdown);
  if (limit == NULL || slowdown == NULL) {
    Py_DECREF(chain);
    Py_XDECREF(limit);
    Py_XDECREF(slowdown);
    return NULL;
  }
  return Py_BuildValue("NOOOONNOOO", chain, self->objective, self->device, self->precision,
                       self->solver, limit, slowdown,
                       self->location == MMC_DEVICE ? Py_True : Py_False, self->order,
                       self->saved != NULL ? self->saved : Py_None);
}

static PyObject *plan_takes_line(mmcp_plan *self, PyObject *index) {
  const Py_ssize_t i = PyNumber_AsSsize_t(index, PyExc_IndexError);
  if ((i == -1 && PyErr_Occurred()) || mmcp_plan_ensure(self) < 0) return NULL;
  return PyBool_FromLong(mmc_plan_takes_line(self->plan, i));
}

static PyMethodDef plan_methods[] = {
    {"describe", (PyCFunction)plan_describe, METH_O, "The plan as 'text', 'json' or 'dot'."},
    {"_takes_less", (PyCFunction)plan_takes_less, METH_O,
     "Whether one product of many rows takes surely less than this batch of its rows."},
    {"_takes_line", (PyCFunction)plan_takes_line, METH_O,
     "Whether a diagonal or an index may be given as a row for this factor."},
    {"products", (PyCFunction)plan_products, METH_NOARGS,
     "A pair (left, right) for each product: a factor, or n plus an earlier product."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef plan_properties[] = {
    {"chain", (getter)plan_chain, NULL, "The chain's text form.", NULL},
    {"workspace_bytes", (getter)plan_workspace, NULL, "Bytes held for intermediates.", NULL},
    {"multiplications", (getter)plan_multiplications, NULL, "Exact count.", NULL},
    {"error_bound", (getter)plan_error_bound, NULL,
     "What the result is off by at most, as a part of the product of the factors' Frobenius norms; "
     "None without a tolerance.",
     NULL},
    {"predicted_seconds", (getter)plan_seconds, NULL,
     "What it is predicted to take; None when the objective is neither time nor energy.", NULL},
    {"predicted_joules", (getter)plan_joules, NULL,
     "What it is predicted to take; None when the objective is not energy.", NULL},
    {"device", (getter)plan_device, NULL, "The device that executes it.", NULL},
    {"_factors", plan_factors, NULL,
     "Of each factor how many there are, rows, columns, the first that is the same, whether it has "
     "no structure.",
     NULL},
    {"_arguments", (getter)plan_arguments, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject mmcp_plan_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mmchain._mmchain.Plan",
    .tp_basicsize = sizeof(mmcp_plan),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = plan_type_new,
    .tp_dealloc = (destructor)plan_dealloc,
    .tp_methods = plan_methods,
    .tp_getset = plan_properties,
};

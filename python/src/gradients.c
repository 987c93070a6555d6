/* gradients.c: see gradients.h. Arrays are matrices, or stacks of them of three dimensions. */
#include "gradients.h"

#include <string.h>

#include "plan.h"
#include "view.h"

typedef struct gradients {
  PyObject_HEAD mmcp_plan *plan;
  mmc_gradients *gradients;
  uint64_t generation;
  int64_t n;
  mmcp_view *views; /* n factors, then product or cotangent, then the memory */
  mmc_matrix *matrices;
  int device;   /* of the plan: MMCP_HOST, or the number of a CUDA device */
  bool at_work; /* without the GIL */
} gradients;

static void gradients_dealloc(gradients *self) {
  if (self->generation == mmcp.generation) mmc_gradients_destroy(self->gradients);
  Py_XDECREF(self->plan);
  free(self->views);
  free(self->matrices);
  Py_TYPE(self)->tp_free((PyObject *)self);
}

/* Reads which gradients are wanted, off a sequence of bool, and prepares them. */
static int prepare(gradients *self, PyObject *sequence, uint64_t limit) {
  PyObject *items = PySequence_Fast(sequence, "wanted: expected a sequence of bool");
  if (items == NULL) return -1;
  int done = -1;
  bool *wanted = malloc((size_t)self->n * sizeof *wanted);
  if (wanted == NULL) {
    PyErr_NoMemory();
  } else if (PySequence_Fast_GET_SIZE(items) != self->n) {
    PyErr_SetString(PyExc_ValueError, "wanted: expected as many as there are factors");
  } else {
    for (int64_t i = 0; i < self->n; i++)
      wanted[i] = PySequence_Fast_GET_ITEM(items, (Py_ssize_t)i) == Py_True;
    mmc_status status =
        mmc_gradients_create_within(self->plan->plan, wanted, limit, &self->gradients);
    done = status == MMC_OK ? 0 : mmcp_raise(status);
  }
  free(wanted);
  Py_DECREF(items);
  return done;
}

static PyObject *gradients_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"plan", "wanted", "memory_limit", NULL};
  PyObject *plan, *wanted, *most = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|O:Gradients", names, &mmcp_plan_type, &plan,
                                   &wanted, &most))
    return NULL;
  const uint64_t limit = most == Py_None ? MMC_NO_LIMIT : PyLong_AsUnsignedLongLong(most);
  if (PyErr_Occurred()) return NULL;
  if (mmcp_plan_ensure((mmcp_plan *)plan) < 0) return NULL;
  gradients *self = (gradients *)type->tp_alloc(type, 0);
  if (self == NULL) return NULL;
  self->generation = mmcp.generation;
  self->plan = (mmcp_plan *)Py_NewRef(plan);
  self->n = mmc_chain_length(self->plan->chain);
  self->device = mmcp_device_number(mmc_plan_device(self->plan->plan));
  self->views = malloc(((size_t)self->n + 2) * sizeof *self->views);
  self->matrices = malloc(((size_t)self->n + 2) * sizeof *self->matrices);
  if (self->views == NULL || self->matrices == NULL)
    PyErr_NoMemory();
  else if (prepare(self, wanted, limit) == 0)
    return (PyObject *)self;
  Py_DECREF(self);
  return NULL;
}

/* ---- one call at a time -------------------------------------------------------------------- */

/* Looks at an array as a matrix of the chain, or a batch of them. 1, 0 when it cannot be read where
 * it lies, -1 with an exception set. */
static int acquire(gradients *self, PyObject *array, int64_t at, bool writes) {
  const mmc_dtype dtype = mmc_chain_dtype(self->plan->chain);
  const int64_t batch = mmc_chain_batch(self->plan->chain);
  const bool bf16 = dtype == MMC_BF16 && mmcp_exchange_of(array) == NULL; /* NumPy lacks it */
  mmcp_view *view = &self->views[at];
  mmc_matrix *matrix = &self->matrices[at];
  const mmcp_want want =
      writes ? (bf16 ? MMCP_WRITE_BF16 : MMCP_WRITE) : (bf16 ? MMCP_READ_BF16 : MMCP_READ_MEMORY);
  int got = mmcp_view_acquire(array, want, view);
  if (got != 1) return got;
  const int64_t element = (int64_t)mmc_dtype_size(dtype);
  bool fits = view->dtype == dtype && view->device == self->device;
  if (at == self->n + 1) {
    fits = fits && view->ndim == 1 && mmcp_view_is_contiguous(view) &&
           (uint64_t)(view->shape[0] * element) >= mmc_gradients_bytes(self->gradients);
  } else {
    fits = fits && (view->ndim == 2 ? batch == 1 : view->ndim == 3 && view->shape[0] == batch) &&
           mmcp_view_matrix(view, true, true, matrix);
    if (fits && view->ndim == 3) {
      const int64_t stride = mmcp_view_stride(view, 0);
      fits = batch <= 1 || stride % element == 0;
      matrix->stride = batch <= 1 ? 0 : stride / element;
    }
  }
  if (!fits) mmcp_view_release(view);
  return fits;
}

/* Puts the work on the stream of the arrays' library, where it has one. */
static int find_stream(gradients *self) {
  void *stream;
  const dl_exchange *exchange = self->views[self->n + 1].exchange;
  if (self->device == MMCP_HOST || exchange == NULL || exchange->current_stream == NULL) return 1;
  if (exchange->current_stream(DL_CUDA, self->device, &stream) != 0) return -1;
  mmc_gradients_on_stream(self->gradients, stream);
  return 1;
}

typedef mmc_status (*way)(gradients *self);

static mmc_status go_forward(gradients *self) {
  return mmc_gradients_forward(self->gradients, self->matrices, self->views[self->n + 1].data,
                               &self->matrices[self->n]);
}

static mmc_status go_back(gradients *self) {
  return mmc_gradients_backward(self->gradients, self->matrices, self->views[self->n + 1].data,
                                &self->matrices[self->n], NULL);
}

/* Looks at all arrays and goes a way with them. */
static PyObject *go(gradients *self, PyObject *args, way way, bool writes) {
  PyObject *factors, *end, *memory;
  if (!PyArg_ParseTuple(args, "O!OO", &PyTuple_Type, &factors, &memory, &end)) return NULL;
  if (self->generation != mmcp.generation || self->at_work) {
    PyErr_SetString(PyExc_RuntimeError, "gradients: another thread or process is at work with it");
    return NULL;
  }
  if (PyTuple_GET_SIZE(factors) != self->n) {
    PyErr_SetString(PyExc_ValueError, "factors: expected as many as were planned");
    return NULL;
  }
  int64_t held = 0;
  int done = 1;
  for (; held < self->n + 2 && done == 1; held += done == 1) {
    PyObject *array = held == self->n       ? end
                      : held == self->n + 1 ? memory
                                            : PyTuple_GET_ITEM(factors, (Py_ssize_t)held);
    done = acquire(self, array, held, held > self->n || (held == self->n && writes));
  }
  if (done == 1) done = find_stream(self);
  if (done == 1) {
    self->at_work = true;
    PyThreadState *thread = mmcp_enter();
    mmc_gradients_progress(self->gradients, mmcp_check_signals, &thread);
    mmc_status status = way(self);
    mmcp_leave(thread);
    self->at_work = false;
    /* The handler of the signal has set an exception. */
    if (status != MMC_OK) done = status == MMC_E_INTERRUPTED ? -1 : mmcp_raise(status);
  }
  while (held > 0) mmcp_view_release(&self->views[--held]);
  if (done < 0) return NULL;
  return Py_NewRef(done == 1 ? Py_None : Py_NotImplemented);
}

static PyObject *gradients_forward(gradients *self, PyObject *args) {
  return go(self, args, go_forward, true);
}

static PyObject *gradients_backward(gradients *self, PyObject *args) {
  return go(self, args, go_back, false);
}

/* Where each gradient begins in the memory, in elements, or None; and how many elements it has. */
static PyObject *gradients_places(gradients *self, PyObject *unused) {
  (void)unused;
  const uint64_t element = mmc_dtype_size(mmc_chain_dtype(self->plan->chain));
  PyObject *list = PyList_New((Py_ssize_t)self->n);
  for (int64_t i = 0; list != NULL && i < self->n; i++) {
    const uint64_t offset = mmc_gradients_offset(self->gradients, i);
    PyObject *number =
        offset == UINT64_MAX ? Py_NewRef(Py_None) : PyLong_FromUnsignedLongLong(offset / element);
    if (number == NULL)
      Py_CLEAR(list);
    else
      PyList_SET_ITEM(list, (Py_ssize_t)i, number);
  }
  if (list == NULL) return NULL;
  return Py_BuildValue("NK", list,
                       (unsigned long long)(mmc_gradients_bytes(self->gradients) / element));
}

static PyMethodDef gradients_methods[] = {
    {"forward", (PyCFunction)gradients_forward, METH_VARARGS,
     "forward(factors, memory, out): writes the product; or NotImplemented when an array must be "
     "copied first."},
    {"backward", (PyCFunction)gradients_backward, METH_VARARGS,
     "backward(factors, memory, cotangent): writes the gradients to the memory; or likewise."},
    {"places", (PyCFunction)gradients_places, METH_NOARGS,
     "Where each gradient begins in the memory, in elements, or None; and its length."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject mmcp_gradients_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mmchain._mmchain.Gradients",
    .tp_basicsize = sizeof(gradients),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = gradients_new,
    .tp_dealloc = (destructor)gradients_dealloc,
    .tp_methods = gradients_methods,
};

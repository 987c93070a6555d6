/* ranges.c: see ranges.h. Arrays are of four dimensions: batch, factors, rows, columns; one factor
 * of a batch of one may be a matrix. */
#include "ranges.h"

#include <string.h>

#include "view.h"

typedef struct ranges {
  PyObject_HEAD mmc_ranges *ranges;
  uint64_t generation;
  mmc_dtype dtype;
  int64_t side, batch;
  bool scaled;
  int device;   /* of the arrays: MMCP_HOST, or the number of a CUDA device */
  bool at_work; /* whether a thread works on it without the GIL */
} ranges;

static void ranges_dealloc(ranges *self) {
  /* What was made before a fork belongs to the parent. */
  if (self->generation == mmcp.generation) mmc_ranges_destroy(self->ranges);
  Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *ranges_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"dtype",        "n",      "batch",    "device",
                          "memory_limit", "scaled", "semiring", NULL};
  const char *dtype_name;
  long long side, batch;
  PyObject *device, *limit;
  mmc_dtype dtype;
  mmc_ranges_options options = MMC_RANGES_OPTIONS_INIT;
  int scaled = 0, semiring = MMC_PLUS_TIMES;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sLLOO|pi:Ranges", names, &dtype_name, &side,
                                   &batch, &device, &limit, &scaled, &semiring))
    return NULL;
  if (!mmcp_dtype_of_name(dtype_name, &dtype))
    return PyErr_Format(PyExc_ValueError, "dtype: expected the name of one, got %s", dtype_name);
  if (mmcp_text(device, "device", &options.device) < 0) return NULL;
  if (limit != Py_None) {
    options.memory_limit_bytes = PyLong_AsUnsignedLongLong(limit);
    if (PyErr_Occurred()) return NULL;
  }
  options.batch = batch;
  options.scaled = scaled;
  options.semiring = (mmc_semiring)semiring;
  if (mmcp_context_ensure() < 0) return NULL;
  ranges *self = (ranges *)type->tp_alloc(type, 0);
  if (self == NULL) return NULL;
  self->generation = mmcp.generation;
  self->dtype = dtype;
  self->side = side;
  self->batch = batch;
  self->scaled = scaled;
  self->device = mmcp_device_number(options.device);
  mmc_status status = mmc_ranges_create(mmcp.context, dtype, side, &options, &self->ranges);
  if (status == MMC_OK) return (PyObject *)self;
  mmcp_raise(status);
  Py_DECREF(self);
  return NULL;
}

/* ---- one call at a time -------------------------------------------------------------------- */

/* Raises where the row is not to be used now. The caller has a lock, so that none is at work but in
 * a thread that the lock does not know. */
static int check_free(const ranges *self) {
  if (self->generation != mmcp.generation)
    PyErr_SetString(PyExc_RuntimeError,
                    "ranges: expected one made in this process, which was forked since");
  else if (self->at_work)
    PyErr_SetString(PyExc_RuntimeError, "ranges: another thread is at work with it");
  else
    return 0;
  return -1;
}

/* What stops a product is the handler of a signal, which has set an exception. */
static int finish(mmc_status status) {
  if (status == MMC_E_INTERRUPTED) return -1;
  return status == MMC_OK ? 0 : mmcp_raise(status);
}

/* Says whether an array is a matrix that is the one factor asked for. */
static bool is_factor(const ranges *self, const mmcp_view *view, int64_t count) {
  return view->ndim == 2 && self->batch == 1 && count == 1 && view->shape[0] == self->side &&
         view->shape[1] == self->side;
}

/* The matrices of count factors of an array, to be freed. NULL with an exception set, or without
 * one when the array cannot be read where it lies. */
static mmc_matrix *matrices_of(const ranges *self, const mmcp_view *view, int64_t count) {
  const int64_t element = (int64_t)mmc_dtype_size(self->dtype);
  mmc_matrix first;
  const bool one = is_factor(self, view, count);
  if (view->dtype != self->dtype || view->device != self->device) return NULL;
  if (!one && (view->ndim != 4 || view->shape[0] != self->batch || view->shape[1] != count))
    return NULL;
  if (!mmcp_view_matrix(view, true, true, &first)) return NULL;
  const int64_t batch = one ? 0 : mmcp_view_stride(view, 0);
  const int64_t step = one ? 0 : mmcp_view_stride(view, 1);
  if (self->batch > 1 && batch % element != 0) return NULL;
  first.stride = self->batch > 1 ? batch / element : 0;
  mmc_matrix *matrices = malloc(((size_t)count + 1) * sizeof *matrices);
  if (matrices == NULL) return (mmc_matrix *)PyErr_NoMemory();
  for (int64_t i = 0; i < count; i++) {
    matrices[i] = first;
    if (first.data != NULL) matrices[i].data = (char *)first.data + i * step;
  }
  return matrices;
}

/* Looks at an array of count factors; 1, 0 when it must be copied first, -1 with an exception. */
static int acquire(const ranges *self, PyObject *array, bool writes, int64_t count, mmcp_view *view,
                   mmc_matrix **out) {
  const bool bf16 = self->dtype == MMC_BF16;
  const mmcp_want want =
      writes ? (bf16 ? MMCP_WRITE_BF16 : MMCP_WRITE) : (bf16 ? MMCP_READ_BF16 : MMCP_READ);
  *out = NULL;
  int got = mmcp_view_acquire(array, want, view);
  if (got != 1) return got;
  *out = matrices_of(self, view, count);
  if (*out != NULL) return 1;
  mmcp_view_release(view);
  return PyErr_Occurred() ? -1 : 0;
}

/* ---- methods ------------------------------------------------------------------------------- */

static PyObject *ranges_append(ranges *self, PyObject *args) {
  PyObject *array;
  long long count;
  mmcp_view view;
  mmc_matrix *factors;
  if (!PyArg_ParseTuple(args, "OL:append", &array, &count) || check_free(self) < 0) return NULL;
  int done = acquire(self, array, false, count, &view, &factors);
  if (done == 0) return Py_NewRef(Py_NotImplemented);
  if (done < 0) return NULL;
  self->at_work = true;
  PyThreadState *thread = mmcp_enter();
  mmc_status status = mmc_ranges_append(self->ranges, count, factors);
  mmcp_leave(thread);
  self->at_work = false;
  done = finish(status);
  free(factors);
  mmcp_view_release(&view);
  return done == 0 ? Py_NewRef(Py_None) : NULL;
}

static PyObject *ranges_update(ranges *self, PyObject *args) {
  PyObject *array, *list;
  mmcp_view view;
  mmc_matrix *factors;
  if (!PyArg_ParseTuple(args, "OO!:update", &array, &PyList_Type, &list) || check_free(self) < 0)
    return NULL;
  const int64_t count = PyList_GET_SIZE(list);
  int64_t *indices = malloc(((size_t)count + 1) * sizeof *indices);
  if (indices == NULL) return PyErr_NoMemory();
  for (int64_t i = 0; i < count; i++) {
    indices[i] = PyLong_AsLongLong(PyList_GET_ITEM(list, (Py_ssize_t)i));
    if (indices[i] != -1 || !PyErr_Occurred()) continue;
    free(indices);
    return NULL;
  }
  int done = acquire(self, array, false, count, &view, &factors);
  if (done == 1) {
    self->at_work = true;
    PyThreadState *thread = mmcp_enter();
    mmc_status status = mmc_ranges_update(self->ranges, count, indices, factors);
    mmcp_leave(thread);
    self->at_work = false;
    if (finish(status) < 0) done = -1;
    free(factors);
    mmcp_view_release(&view);
  }
  free(indices);
  if (done < 0) return NULL;
  return Py_NewRef(done == 1 ? Py_None : Py_NotImplemented);
}

static PyObject *ranges_pop_front(ranges *self, PyObject *args) {
  long long count;
  if (!PyArg_ParseTuple(args, "L:pop_front", &count) || check_free(self) < 0) return NULL;
  return finish(mmc_ranges_pop_front(self->ranges, count)) == 0 ? Py_NewRef(Py_None) : NULL;
}

static PyObject *ranges_product(ranges *self, PyObject *args) {
  PyObject *array;
  long long first, end;
  mmcp_view view;
  mmc_matrix *out;
  Py_buffer exponents = {0};
  if (!PyArg_ParseTuple(args, "LLO|w*:product", &first, &end, &array, &exponents)) return NULL;
  if (self->scaled && exponents.len != 8 * self->batch)
    PyErr_Format(PyExc_ValueError, "exponents: expected room for %lld", (long long)self->batch);
  if (PyErr_Occurred() || check_free(self) < 0) {
    if (exponents.obj != NULL) PyBuffer_Release(&exponents);
    return NULL;
  }
  int done = acquire(self, array, true, 1, &view, &out);
  if (done != 1) {
    if (exponents.obj != NULL) PyBuffer_Release(&exponents);
    return done == 0 ? Py_NewRef(Py_NotImplemented) : NULL;
  }
  self->at_work = true;
  PyThreadState *thread = mmcp_enter();
  mmc_ranges_progress(self->ranges, mmcp_check_signals, &thread);
  mmc_status status = self->scaled
                          ? mmc_ranges_product_scaled(self->ranges, first, end, out, exponents.buf)
                          : mmc_ranges_product(self->ranges, first, end, out);
  mmc_ranges_progress(self->ranges, NULL, NULL);
  mmcp_leave(thread);
  self->at_work = false;
  done = finish(status);
  free(out);
  mmcp_view_release(&view);
  if (exponents.obj != NULL) PyBuffer_Release(&exponents);
  return done == 0 ? Py_NewRef(Py_None) : NULL;
}

static PyObject *ranges_on_stream(ranges *self, PyObject *number) {
  void *stream = PyLong_AsVoidPtr(number);
  if (stream == NULL && PyErr_Occurred()) return NULL;
  if (check_free(self) < 0) return NULL;
  mmc_ranges_on_stream(self->ranges, stream);
  return Py_NewRef(Py_None);
}

static PyObject *ranges_describe(ranges *self, PyObject *unused) {
  (void)unused;
  mmc_ranges_info info;
  if (check_free(self) < 0 || finish(mmc_ranges_describe(self->ranges, &info)) < 0) return NULL;
  return Py_BuildValue("LLLK", (long long)info.length, (long long)info.block,
                       (long long)info.products, (unsigned long long)info.bytes);
}

static PyMethodDef ranges_methods[] = {
    {"append", (PyCFunction)ranges_append, METH_VARARGS,
     "append(array, count): adds factors, or returns NotImplemented when the array must be copied "
     "first."},
    {"update", (PyCFunction)ranges_update, METH_VARARGS,
     "update(array, indices): changes factors, or returns NotImplemented likewise."},
    {"pop_front", (PyCFunction)ranges_pop_front, METH_VARARGS, "pop_front(count)"},
    {"product", (PyCFunction)ranges_product, METH_VARARGS,
     "product(first, end, out): writes the product to an array of one factor's shape."},
    {"on_stream", (PyCFunction)ranges_on_stream, METH_O,
     "on_stream(number): orders what follows on a stream of CUDA's, given by its address."},
    {"describe", (PyCFunction)ranges_describe, METH_NOARGS,
     "The length, the least number of factors whose product is kept, how many products were "
     "computed, and bytes held."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject mmcp_ranges_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mmchain._mmchain.Ranges",
    .tp_basicsize = sizeof(ranges),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = ranges_new,
    .tp_dealloc = (destructor)ranges_dealloc,
    .tp_methods = ranges_methods,
};

/* view.c: see view.h. */
#include "view.h"

#include <stdlib.h>
#include <string.h>

#include "tensor.h"

/* ---- dtypes -------------------------------------------------------------------------------- */

static const dl_dtype dl_dtypes[MMCP_DTYPES] = {
    [MMC_F32] = {DL_FLOAT, 32, 1},   [MMC_F64] = {DL_FLOAT, 64, 1},
    [MMC_C64] = {DL_COMPLEX, 64, 1}, [MMC_C128] = {DL_COMPLEX, 128, 1},
    [MMC_F16] = {DL_FLOAT, 16, 1},   [MMC_BF16] = {DL_BFLOAT, 16, 1},
    [MMC_I8] = {DL_INT, 8, 1},       [MMC_I16] = {DL_INT, 16, 1},
    [MMC_I32] = {DL_INT, 32, 1},     [MMC_I64] = {DL_INT, 64, 1},
    [MMC_U8] = {DL_UINT, 8, 1},      [MMC_U16] = {DL_UINT, 16, 1},
    [MMC_U32] = {DL_UINT, 32, 1},    [MMC_U64] = {DL_UINT, 64, 1},
    [MMC_BOOL] = {DL_BOOL, 8, 1},
};

dl_dtype mmcp_dl_dtype(mmc_dtype dtype) {
  return dl_dtypes[dtype];
}

bool mmcp_dtype_of_dl(dl_dtype given, mmc_dtype *out) {
  for (int d = 0; d < MMCP_DTYPES; d++) {
    if (given.code != dl_dtypes[d].code || given.bits != dl_dtypes[d].bits || given.lanes != 1)
      continue;
    *out = (mmc_dtype)d;
    return true;
  }
  return false;
}

/* Integers by their letter, of the size that this machine gives it. */
static bool integer_of_format(char letter, Py_ssize_t size, mmc_dtype *out) {
  bool is_signed = strchr("bhilq", letter) != NULL;
  if (letter == '?') *out = MMC_BOOL;
  if (letter == '?') return size == 1;
  if (!is_signed && strchr("BHILQ", letter) == NULL) return false;
  for (int d = 0; d < 4; d++)
    if (size == (Py_ssize_t)1 << d) {
      *out = (mmc_dtype)((is_signed ? MMC_I8 : MMC_U8) + d);
      return true;
    }
  return false;
}

/* Says whether a sign says no more than that elements have this machine's byte order. */
static bool is_of_this_order(char sign) {
  const uint16_t one = 1;
  return sign == '=' || sign == '@' || sign == (*(const char *)&one == 1 ? '<' : '>');
}

/* The buffer protocol's formats, which may say the byte order. */
static bool dtype_of_format(const char *format, Py_ssize_t size, bool bf16, mmc_dtype *out,
                            bool *is_swapped) {
  *is_swapped = false;
  if (format == NULL || format[0] == '\0') return false;
  if (strchr("=@<>", format[0]) != NULL) *is_swapped = !is_of_this_order(*format++);
  bool is_complex = format[0] == 'Z';
  char real = format[is_complex];
  if (real == '\0' || format[is_complex + 1] != '\0') return false;
  if (bf16) {
    *out = MMC_BF16;
    return real == 'H' && !is_complex;
  }
  if (!is_complex && integer_of_format(real, size, out)) return true;
  if (real == 'd')
    *out = is_complex ? MMC_C128 : MMC_F64;
  else if (real == 'f')
    *out = is_complex ? MMC_C64 : MMC_F32;
  else
    *out = MMC_F16;
  return real == 'd' || real == 'f' || (real == 'e' && !is_complex);
}

static bool is_empty(const mmcp_view *view) {
  for (int d = 0; d < view->ndim; d++)
    if (view->shape[d] == 0) return true;
  return false;
}

/* Says whether the first element is aligned, or there is none, as NumPy says of arrays. */
static bool is_aligned(const mmcp_view *view) {
  size_t real = mmc_dtype_size(view->dtype); /* a power of two */
  if (view->dtype == MMC_C64 || view->dtype == MMC_C128) real /= 2;
  return ((uintptr_t)view->data & (real - 1)) == 0 || is_empty(view);
}

/* Notes whether elements of NumPy's, which begin at a number of bytes from each other, cannot be
 * read where they lie. */
static void note_odd(mmcp_view *view) {
  size_t real = mmc_dtype_size(view->dtype), places = (uintptr_t)view->data; /* a power of two */
  if (view->dtype == MMC_C64 || view->dtype == MMC_C128) real /= 2;
  for (int d = 0; d < view->ndim && view->strides != NULL; d++)
    if (view->shape[d] > 1) places |= (size_t)view->strides[d];
  view->is_odd = view->is_swapped || (places & (real - 1)) != 0;
}

/* ---- acquiring ----------------------------------------------------------------------------- */

static int acquire_buffer(PyObject *array, mmcp_want want, mmcp_view *out) {
  bool write = want == MMCP_WRITE || want == MMCP_WRITE_BF16;
  if (PyObject_GetBuffer(array, &out->buffer, write ? PyBUF_RECORDS : PyBUF_RECORDS_RO) != 0) {
    out->buffer.obj = NULL;
    if (PyErr_ExceptionMatches(PyExc_MemoryError)) return -1;
    /* The array is read-only, or of a dtype that no buffer has. */
    PyErr_Clear();
    return 0;
  }
  bool bf16 = want == MMCP_READ_BF16 || want == MMCP_WRITE_BF16;
  if (!dtype_of_format(out->buffer.format, out->buffer.itemsize, bf16, &out->dtype,
                       &out->is_swapped) ||
      (out->is_swapped && want != MMCP_READ_FACTOR))
    return 0;
  out->data = out->buffer.buf;
  out->ndim = out->buffer.ndim;
  out->shape = (const int64_t *)out->buffer.shape;
  out->strides = (const int64_t *)out->buffer.strides;
  out->stride_bytes = 1;
  out->device = MMCP_HOST;
  out->is_numpy = true;
  return 1;
}

/* How NumPy's arrays begin: a part of its binary interface, compiled into every extension. */
typedef struct numpy_array {
  PyObject_HEAD char *data;
  int ndim;
  Py_ssize_t *shape, *strides; /* in bytes */
  PyObject *base, *dtype;
  int flags;
} numpy_array;

static bool arrays_begin_so; /* whether that has been seen */

/* Flags of NumPy's arrays: NPY_ARRAY_C_CONTIGUOUS and so on. */
static const unsigned is_contiguous = 1u, is_writeable = 1u << 10, warns_on_write = 1u << 31;

/* Says whether elements may be written and nobody is to be warned of it. */
static bool is_writable(const numpy_array *array) {
  return ((unsigned)array->flags & (is_writeable | warns_on_write)) == is_writeable;
}

int mmcp_view_learn_numpy(void) {
  PyObject *array = PyObject_CallFunction(mmcp.empty, "(ii)O", 2, 3, mmcp.dtypes[MMC_F64]);
  if (array == NULL) return -1;
  const numpy_array *x = (const numpy_array *)array;
  const bool wrote = is_writable(x);
  Py_XDECREF(PyObject_CallMethod(array, "setflags", "i", 0));
  Py_buffer buffer;
  if (!PyErr_Occurred() && PyObject_GetBuffer(array, &buffer, PyBUF_RECORDS_RO) == 0) {
    arrays_begin_so = (size_t)Py_TYPE(array)->tp_basicsize >= sizeof *x && x->data == buffer.buf &&
                      x->ndim == 2 && x->shape[0] == 2 && x->shape[1] == 3 &&
                      x->strides[0] == buffer.strides[0] && x->strides[1] == buffer.strides[1] &&
                      x->dtype == mmcp.dtypes[MMC_F64] && wrote && !is_writable(x) &&
                      ((unsigned)x->flags & is_contiguous) != 0;
    PyBuffer_Release(&buffer);
  }
  Py_DECREF(array);
  return PyErr_Occurred() ? -1 : 0;
}

bool mmcp_numpy_shape(const PyObject *array, PyObject **dtype, int *ndim,
                      const Py_ssize_t **shape) {
  const numpy_array *x = (const numpy_array *)array;
  if (!arrays_begin_so) return false;
  *dtype = x->dtype;
  *ndim = x->ndim;
  *shape = x->shape;
  return true;
}

bool mmcp_dtype_of_numpy(const PyObject *object, mmc_dtype *out) {
  static mmc_dtype last = MMC_F64;
  for (int d = 0; object != mmcp.dtypes[last] && d < MMCP_DTYPES; d++)
    if (object == mmcp.dtypes[d] && d != MMC_BF16) last = (mmc_dtype)d;
  *out = last;
  return object == mmcp.dtypes[last];
}

/* Reads an array of few dimensions without a buffer, which takes NumPy longer to fill in than we
 * take for the rest; false where that is not to be done. The extents are copied: another thread may
 * give the array others while this one works. */
static bool acquire_array(PyObject *object, bool writes, mmcp_view *out) {
  const numpy_array *array = (const numpy_array *)object;
  if (!arrays_begin_so || array->ndim > MMCP_FEW_NDIM || (writes && !is_writable(array)) ||
      !mmcp_dtype_of_numpy(array->dtype, &out->dtype))
    return false;
  /* As a buffer has them, stacks without gaps have no other strides where an axis has one element,
   * or none. */
  const bool is_even = array->ndim > 2 && ((unsigned)array->flags & is_contiguous) != 0;
  int64_t stride = (int64_t)mmc_dtype_size(out->dtype);
  for (int d = array->ndim - 1; d >= 0; d--) {
    out->extents[d] = array->shape[d];
    out->extents[MMCP_FEW_NDIM + d] = is_even ? stride : array->strides[d];
    stride *= array->shape[d];
  }
  out->owner = Py_NewRef(object);
  out->data = array->data;
  out->ndim = array->ndim;
  out->shape = out->extents;
  out->strides = out->extents + MMCP_FEW_NDIM;
  out->stride_bytes = 1;
  out->device = MMCP_HOST;
  out->is_numpy = true;
  return true;
}

static int read_tensor(const dl_tensor *tensor, mmcp_view *out) {
  if (!mmcp_dtype_of_dl(tensor->dtype, &out->dtype)) return 0;
  switch (tensor->device.type) {
    case DL_CPU:
    case DL_CUDA_HOST:
      out->device = MMCP_HOST;
      break;
    case DL_CUDA:
    case DL_CUDA_MANAGED:
      out->device = tensor->device.id;
      break;
    default:
      return 0;
  }
  out->data = tensor->data != NULL ? (char *)tensor->data + tensor->byte_offset : NULL;
  out->ndim = tensor->ndim;
  out->shape = tensor->shape;
  out->strides = tensor->strides;
  out->stride_bytes = (int64_t)mmc_dtype_size(out->dtype);
  return is_aligned(out);
}

/* The capsule stays unconsumed: it is only looked at while it lives, and frees its tensor itself.
 */
static int acquire_capsule(PyObject *capsule, mmcp_want want, mmcp_view *out) {
  const dl_tensor *tensor;
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    const dl_managed_versioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (managed->version.major != DL_VERSION_MAJOR) return 0;
    out->read_only = (managed->flags & DL_FLAG_READ_ONLY) != 0;
    tensor = &managed->tensor;
  } else if (PyCapsule_IsValid(capsule, "dltensor")) {
    tensor = &((const dl_managed *)PyCapsule_GetPointer(capsule, "dltensor"))->tensor;
  } else {
    return 0;
  }
  Py_INCREF(capsule);
  out->owner = capsule;
  if (out->read_only && want == MMCP_WRITE) return 0;
  return read_tensor(tensor, out);
}

/* A truth value as 0 or 1, of what an object may lack; -1 with an exception set. Takes value. */
static int is_true(PyObject *value) {
  if (value == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Clear();
    return 0;
  }
  int truth = value != NULL ? PyObject_IsTrue(value) : -1;
  Py_XDECREF(value);
  return truth;
}

/* What is known of a type of arrays. Where its attributes are C functions, as PyTorch's are, they
 * are called without a look-up by name. */
typedef struct kind {
  PyTypeObject *type;
  const dl_exchange *exchange; /* NULL when it has none */
  const PyGetSetDef *requires_grad, *layout;
  const PyMethodDef *is_neg, *is_conj;
} kind;

static bool kind_of(PyObject *object, kind *out);

static int ask(PyObject *object, const PyMethodDef *method, PyObject *name) {
  return is_true(method != NULL ? method->ml_meth(object, NULL)
                                : PyObject_CallMethodNoArgs(object, name));
}

static int requires_grad(const kind *k, PyObject *object) {
  const PyGetSetDef *get = k->requires_grad;
  return is_true(get != NULL ? get->get(object, get->closure)
                             : PyObject_GetAttr(object, mmcp.requires_grad));
}

int mmcp_requires_grad(PyObject *object) {
  kind k;
  if (mmcp_tensor_is_known(object)) return mmcp_tensor_wants_gradient(object);
  return kind_of(object, &k) ? requires_grad(&k, object) : -1;
}

/* PyTorch's tensors mean something else than their memory when they are lazily conjugated, which
 * goes to *is_conj, or negated, and must not be read behind the back of autograd. Returns 1 when
 * they are not negated and may be read. */
static int is_readable(const kind *k, PyObject *object, mmc_dtype dtype, bool *is_conj) {
  bool is_complex = dtype == MMC_C64 || dtype == MMC_C128;
  if (mmcp_tensor_is_known(object)) {
    *is_conj = is_complex && mmcp_tensor_is_conjugated(object);
    return !mmcp_tensor_wants_gradient(object) && !mmcp_tensor_is_negated(object);
  }
  int set = requires_grad(k, object);
  if (set == 0) set = ask(object, k->is_neg, mmcp.is_neg);
  int conj = set == 0 && is_complex ? ask(object, k->is_conj, mmcp.is_conj) : 0;
  *is_conj = conj == 1;
  return set < 0 || conj < 0 ? -1 : !set;
}

int mmcp_is_plain(PyObject *object, mmc_dtype dtype, bool is_conj) {
  kind k;
  bool conj;
  if (!kind_of(object, &k)) return -1;
  int readable = is_readable(&k, object, dtype, &conj);
  return readable == 1 ? conj == is_conj : readable;
}

/* Says whether elements have no memory, as PyTorch's zeros that it keeps lazily. */
static bool lacks_memory(const dl_tensor *tensor) {
  for (int d = 0; d < tensor->ndim; d++)
    if (tensor->shape[d] == 0) return false;
  return tensor->data == NULL;
}

/* PyTorch's strided layout, from the first tensor on that could not be read, as sparse ones cannot:
 * PyTorch takes 0.2 ms to say so, and a program that has one has more. */
static PyObject *strided;

static void learn_layout(const kind *k) {
  if (strided != NULL || k->layout == NULL) return;
  PyObject *name = PyUnicode_FromString("torch");
  PyObject *torch = name != NULL ? PyImport_GetModule(name) : NULL;
  strided = torch != NULL ? PyObject_GetAttrString(torch, "strided") : NULL;
  Py_XDECREF(torch);
  Py_XDECREF(name);
  PyErr_Clear();
}

static bool is_known_not_strided(const kind *k, PyObject *object) {
  if (strided == NULL || k->layout == NULL) return false;
  PyObject *layout = k->layout->get(object, k->layout->closure);
  const bool other = layout != NULL && layout != strided;
  if (layout == NULL) PyErr_Clear();
  Py_XDECREF(layout);
  return other;
}

static int borrow(const kind *k, PyObject *object, dl_tensor *out) {
  if (is_known_not_strided(k, object)) return 0;
  if (k->exchange->borrow(object, out) == 0) return 1;
  if (PyErr_ExceptionMatches(PyExc_MemoryError)) return -1;
  /* A tensor without memory is no error: another way is found for it. */
  PyErr_Clear();
  learn_layout(k);
  return 0;
}

int mmcp_borrow(PyObject *object, const dl_exchange *exchange, dl_tensor *out) {
  kind k;
  if (!kind_of(object, &k)) return -1;
  return k.exchange == exchange ? borrow(&k, object, out) : 0;
}

static int acquire_exchanged(const kind *k, PyObject *object, mmcp_want want, mmcp_view *out) {
  const int borrowed = borrow(k, object, &out->tensor);
  if (borrowed != 1) return borrowed;
  if (lacks_memory(&out->tensor)) return 0;
  Py_INCREF(object);
  out->owner = object;
  out->exchange = k->exchange;
  int got = read_tensor(&out->tensor, out);
  if (got == 1 && want != MMCP_READ_MEMORY) got = is_readable(k, object, out->dtype, &out->is_conj);
  return got == 1 && out->is_conj && want != MMCP_READ_FACTOR ? 0 : got;
}

/* Holds nothing. The rest is set when something is found: clearing all of it takes as long. */
static void clear(mmcp_view *view) {
  view->buffer.obj = NULL;
  view->owner = NULL;
  view->managed = NULL;
  view->made = NULL;
  view->copy = NULL;
  view->exchange = NULL;
  view->read_only = view->is_numpy = view->is_conj = view->is_swapped = view->is_odd = false;
}

int mmcp_view_acquire(PyObject *object, mmcp_want want, mmcp_view *out) {
  clear(out);
  const PyObject *type = (PyObject *)Py_TYPE(object);
  if (type == mmcp.ndarray || type == mmcp.memmap) {
    const bool is_bf16 = want == MMCP_READ_BF16 || want == MMCP_WRITE_BF16;
    const int got = !is_bf16 && acquire_array(object, want == MMCP_WRITE, out)
                        ? 1
                        : acquire_buffer(object, want, out);
    if (got == 1) note_odd(out);
    return got == 1 ? want == MMCP_READ_FACTOR || is_aligned(out) : got;
  }
  if (PyCapsule_CheckExact(object)) return acquire_capsule(object, want, out);
  kind k;
  if (!kind_of(object, &k)) return -1;
  return k.exchange != NULL ? acquire_exchanged(&k, object, want, out) : 0;
}

void mmcp_view_release(mmcp_view *view) {
  if (view->buffer.obj != NULL) PyBuffer_Release(&view->buffer);
  Py_CLEAR(view->owner);
  if (view->managed != NULL && view->managed->deleter != NULL)
    view->managed->deleter(view->managed);
  view->managed = NULL;
  if (view->made != NULL) mmcp_tensor_destroy(view->made);
  view->made = NULL;
  free(view->copy);
  view->copy = NULL;
}

int mmcp_device_number(const char *name) {
  if (name == NULL || strncmp(name, "cuda", 4) != 0) return MMCP_HOST;
  return name[4] == ':' ? (int)strtol(name + 5, NULL, 10) : 0;
}

/* ---- exchange functions ---------------------------------------------------------------------- */

/* Returns the capsule of the type itself, since an inherited table knows nothing of what a
 * subclass makes of its memory; NULL when there is none. */
static PyObject *own_capsule(PyTypeObject *type) {
  PyObject *names = PyObject_GetAttrString((PyObject *)type, "__dict__");
  if (names == NULL) return NULL;
  PyObject *capsule = PyMapping_GetItemString(names, "__dlpack_c_exchange_api__");
  Py_DECREF(names);
  if (capsule == NULL && PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_Clear();
  return capsule;
}

static const dl_exchange *find_exchange(PyTypeObject *type) {
  PyObject *capsule = own_capsule(type);
  if (capsule == NULL) return NULL;
  const dl_exchange *exchange = NULL;
  if (PyCapsule_IsValid(capsule, "dlpack_exchange_api"))
    exchange = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  Py_DECREF(capsule); /* the table itself is static */
  while (exchange != NULL && exchange->version.major > DL_VERSION_MAJOR)
    exchange = exchange->previous;
  if (exchange == NULL || exchange->version.major != DL_VERSION_MAJOR) return NULL;
  return exchange->borrow != NULL && exchange->allocate != NULL ? exchange : NULL;
}

/* An attribute of a type, when it is a descriptor of this kind; a borrowed reference, as the type
 * keeps it. */
static PyObject *descriptor_of(PyTypeObject *type, PyObject *name, const PyTypeObject *kind) {
  PyObject *found = PyObject_GetAttr((PyObject *)type, name);
  if (found == NULL) PyErr_Clear();
  Py_XDECREF(found);
  return found != NULL && Py_TYPE(found) == kind ? found : NULL;
}

static const PyMethodDef *method_of(PyTypeObject *type, PyObject *name) {
  const PyObject *found = descriptor_of(type, name, &PyMethodDescr_Type);
  const PyMethodDef *method = found != NULL ? ((const PyMethodDescrObject *)found)->d_method : NULL;
  return method != NULL && method->ml_flags == METH_NOARGS ? method : NULL;
}

static const PyGetSetDef *getter_of(PyTypeObject *type, PyObject *name) {
  const PyObject *found = descriptor_of(type, name, &PyGetSetDescr_Type);
  return found != NULL ? ((const PyGetSetDescrObject *)found)->d_getset : NULL;
}

/* The types asked for last are remembered: a chain's factors are of one. What is known of a type is
 * copied, because a property of another type may be Python code, which asks for types too. Returns
 * false with an exception set. */
static bool kind_of(PyObject *object, kind *out) {
  enum { KINDS = 4 };
  static kind kinds[KINDS];
  static int next;
  PyTypeObject *type = Py_TYPE(object);
  for (int i = 0; i < KINDS; i++)
    if (kinds[i].type == type) {
      *out = kinds[i];
      return true;
    }
  const dl_exchange *exchange = find_exchange(type);
  if (exchange == NULL && PyErr_Occurred()) return false;
  PyObject *layout = PyUnicode_FromString("layout");
  if (layout == NULL) PyErr_Clear();
  *out = (kind){.type = type,
                .exchange = exchange,
                .requires_grad = getter_of(type, mmcp.requires_grad),
                .layout = layout != NULL ? getter_of(type, layout) : NULL,
                .is_neg = method_of(type, mmcp.is_neg),
                .is_conj = method_of(type, mmcp.is_conj)};
  Py_XDECREF(layout);
  PyTypeObject *before = kinds[next].type;
  Py_INCREF(type);
  kinds[next] = *out;
  next = (next + 1) % KINDS;
  Py_XDECREF(before);
  return true;
}

const dl_exchange *mmcp_exchange_of(PyObject *object) {
  kind k;
  return kind_of(object, &k) ? k.exchange : NULL;
}

/* Sets an exception; the exchange functions call it with or without the GIL. */
static void set_error(void *context, const char *kind, const char *message) {
  (void)context;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyErr_Format(PyExc_RuntimeError, "%s: %s", kind, message);
  PyGILState_Release(gil);
}

/* Makes a matrix or a vector of PyTorch's; false where that is not to be done here. */
static bool make_tensor(const dl_exchange *exchange, mmc_dtype dtype, int ndim,
                        const int64_t *shape, mmcp_view *out) {
  int64_t stride = 1;
  for (int d = ndim - 1; d >= 0; d--) {
    out->extents[d] = shape[d];
    out->extents[MMCP_FEW_NDIM + d] = stride;
    if (shape[d] > 1) stride *= shape[d];
  }
  out->made = mmcp_tensor_make(exchange, dtype, ndim, out->extents, out->extents + MMCP_FEW_NDIM,
                               &out->data);
  if (out->made == NULL) return false;
  out->shape = out->extents;
  out->strides = out->extents + MMCP_FEW_NDIM;
  out->stride_bytes = (int64_t)mmc_dtype_size(dtype);
  out->ndim = ndim;
  out->dtype = dtype;
  out->device = MMCP_HOST;
  out->exchange = exchange;
  return true;
}

int mmcp_view_allocate(const dl_exchange *exchange, mmc_dtype dtype, int device, int ndim,
                       int64_t *shape, mmcp_view *out) {
  clear(out);
  if (device == MMCP_HOST && ndim <= 2 && make_tensor(exchange, dtype, ndim, shape, out)) return 0;
  dl_tensor prototype = {
      .device = {device == MMCP_HOST ? DL_CPU : DL_CUDA, device == MMCP_HOST ? 0 : device},
      .ndim = ndim,
      .dtype = mmcp_dl_dtype(dtype),
      .shape = shape,
  };
  if (exchange->allocate(&prototype, &out->managed, NULL, set_error) != 0 || out->managed == NULL) {
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_MemoryError, "the array's library could not allocate the result");
    return -1;
  }
  out->exchange = exchange;
  if (read_tensor(&out->managed->tensor, out) == 1) return 0;
  mmcp_view_release(out);
  PyErr_SetString(PyExc_BufferError, "the array's library allocated another tensor than asked for");
  return -1;
}

PyObject *mmcp_view_object(mmcp_view *view) {
  void *made = view->made;
  view->made = NULL;
  if (made != NULL) return mmcp_tensor_object(made);
  dl_managed_versioned *managed = view->managed;
  void *object = NULL;
  view->managed = NULL;
  return view->exchange->managed_to_object(managed, &object) == 0 ? object : NULL;
}

/* ---- geometry ------------------------------------------------------------------------------- */

int64_t mmcp_view_stride(const mmcp_view *view, int dimension) {
  if (view->strides != NULL) return view->strides[dimension] * view->stride_bytes;
  int64_t stride = (int64_t)mmc_dtype_size(view->dtype);
  for (int d = view->ndim - 1; d > dimension; d--) stride *= view->shape[d];
  return stride;
}

/* Says whether lines of count elements, each without gaps, can lie ld_bytes apart. */
static bool is_ld(int64_t lines, int64_t line_stride, int64_t count, int64_t ld_bytes,
                  int64_t element) {
  if (count > 1 && line_stride != element) return false;
  return lines <= 1 || (ld_bytes % element == 0 && ld_bytes / element >= (count > 1 ? count : 1));
}

bool mmcp_view_matrix(const mmcp_view *view, bool has_row, bool has_column, mmc_matrix *out) {
  int dimension = view->ndim;
  int64_t rows = 1, cols = 1, row_stride = 0, col_stride = 0;
  if (has_column) {
    cols = view->shape[--dimension];
    col_stride = mmcp_view_stride(view, dimension);
  }
  if (has_row) {
    rows = view->shape[--dimension];
    row_stride = mmcp_view_stride(view, dimension);
  }
  int64_t element = (int64_t)mmc_dtype_size(view->dtype);
  *out = (mmc_matrix){
      .data = view->data,
      .rows = rows,
      .cols = cols,
      .location = view->device == MMCP_HOST ? MMC_HOST : MMC_DEVICE,
  };
  /* The strides of arrays without elements may be anything. */
  if (is_empty(view)) return true;
  if (view->is_odd) return false;
  if (is_ld(rows, col_stride, cols, row_stride, element)) {
    out->layout = MMC_ROW_MAJOR;
    out->ld = rows > 1 ? row_stride / element : 0;
    return true;
  }
  out->layout = MMC_COL_MAJOR;
  out->ld = cols > 1 ? col_stride / element : 0;
  return is_ld(cols, row_stride, rows, col_stride, element);
}

bool mmcp_view_is_contiguous(const mmcp_view *view) {
  int64_t expected = (int64_t)mmc_dtype_size(view->dtype);
  if (is_empty(view)) return true;
  for (int d = view->ndim - 1; d >= 0; d--) {
    if (view->shape[d] > 1 && mmcp_view_stride(view, d) != expected) return false;
    expected *= view->shape[d];
  }
  return true;
}

/* The bytes from the first to the last element; false when there are none. */
static bool extent(const mmcp_view *view, uintptr_t *first, uintptr_t *end) {
  *first = (uintptr_t)view->data;
  *end = *first + mmc_dtype_size(view->dtype);
  for (int d = 0; d < view->ndim; d++) {
    if (view->shape[d] == 0) return false;
    int64_t span = (view->shape[d] - 1) * mmcp_view_stride(view, d);
    if (span < 0)
      *first -= (uintptr_t)-span;
    else
      *end += (uintptr_t)span;
  }
  return true;
}

bool mmcp_view_overlap(const mmcp_view *a, const mmcp_view *b) {
  uintptr_t a_first, a_end, b_first, b_end;
  if (!extent(a, &a_first, &a_end) || !extent(b, &b_first, &b_end)) return false;
  return a_first < b_end && b_first < a_end;
}

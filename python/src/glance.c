/* glance.c: see glance.h. */
#include "glance.h"

#include <string.h>
#ifdef __linux__
#include <malloc.h>
#endif

#include "modes.h"
#include "tensor.h"

enum { MOST_BYTES = 256, LINE_BYTES = 64 };

/* PyTorch's stable functions on a handle, which is the address of what points at the object of C++:
 * they return 0, or something else when they fail. */
typedef int (*data_function)(void *handle, void **out);
typedef int (*device_function)(void *handle, int32_t *out);
/* bool c10::TensorImpl::requires_grad() const */
typedef bool (*wants_function)(const void *tensor);

static struct {
  PyTypeObject *type; /* NULL: glances are not taken */
  size_t first, end;  /* bytes */
  data_function data;
  device_function device; /* NULL: there is one */
  wants_function wants;
} seen;

/* ---- finding out what to look at ------------------------------------------------------------ */

PyObject *mmcp_tensor_bytes(PyObject *module, PyObject *args) {
  PyObject *tensor;
  unsigned long long address;
  (void)module;
  if (!PyArg_ParseTuple(args, "OK:tensor_bytes", &tensor, &address)) return NULL;
  size_t size = 0;
#ifdef __linux__
  if ((size_t)Py_TYPE(tensor)->tp_basicsize >= sizeof(PyObject) + sizeof(char *) &&
      (uintptr_t)*mmcp_tensor_handle(tensor) == address)
    size = malloc_usable_size(*mmcp_tensor_handle(tensor));
#endif
  if (size == 0) Py_RETURN_NONE;
  return PyBytes_FromStringAndSize(*mmcp_tensor_handle(tensor),
                                   (Py_ssize_t)(size < MOST_BYTES ? size : MOST_BYTES));
}

PyObject *mmcp_set_glance(PyObject *module, PyObject *args) {
  PyObject *type, *plain, *wanting;
  Py_ssize_t first, end;
  int devices;
  (void)module;
  if (!PyArg_ParseTuple(args, "O!nnpOO:set_glance", &PyType_Type, &type, &first, &end, &devices,
                        &plain, &wanting))
    return NULL;
  if (first < 0 || end <= first || end > MOST_BYTES || first % 8 != 0 || end % 8 != 0)
    return PyErr_Format(PyExc_ValueError, "set_glance: expected words, got bytes %zd to %zd", first,
                        end);
  *(void **)&seen.data = mmcp_torch_function("libtorch_cpu.so", "aoti_torch_get_data_ptr");
  *(void **)&seen.wants = mmcp_torch_function("libc10.so", "_ZNK3c1010TensorImpl13requires_gradEv");
  void *device = mmcp_torch_function("libtorch_cpu.so", "aoti_torch_get_device_index");
  *(void **)&seen.device = devices ? device : NULL;
  if (seen.data == NULL || seen.wants == NULL || device == NULL) Py_RETURN_FALSE;
  if (seen.wants(*mmcp_tensor_handle(plain)) || !seen.wants(*mmcp_tensor_handle(wanting)))
    Py_RETURN_FALSE;
  seen.first = (size_t)first;
  seen.end = (size_t)end;
  Py_XSETREF(seen.type, (PyTypeObject *)Py_NewRef(type));
  Py_RETURN_TRUE;
}

size_t mmcp_glance_words(PyTypeObject *type) {
  static PyTypeObject *asked;
  if (asked != type) {
    asked = type;
    PyObject *module = PyImport_ImportModule("mmchain._glance");
    PyObject *done = module != NULL ? PyObject_CallMethod(module, "learn", "O", type) : NULL;
    if (done == NULL) PyErr_Clear();
    Py_XDECREF(module);
    Py_XDECREF(done);
  }
  return type == seen.type ? (seen.end - seen.first) / sizeof(uint64_t) : 0;
}

/* ---- looking -------------------------------------------------------------------------------- */

/* Says whether the sizes or the strides are among the bytes, as those of few dimensions are. */
static bool is_inside(const char *tensor, const int64_t *extents, int ndim) {
  const uintptr_t begin = (uintptr_t)extents, base = (uintptr_t)tensor;
  return begin >= base + seen.first && begin + (size_t)ndim * sizeof *extents <= base + seen.end;
}

void mmcp_glance_take(PyObject *object, mmcp_glance *out) {
  out->tensor = *mmcp_tensor_handle(object);
  if (out->tensor != NULL) memcpy(out->words, out->tensor + seen.first, seen.end - seen.first);
}

void mmcp_glance_confirm(PyObject *object, const dl_tensor *now, mmcp_glance *glance) {
  char **handle = mmcp_tensor_handle(object);
  void *data;
  if (now == NULL || now->data == NULL || now->byte_offset != 0 || *handle != glance->tensor ||
      !is_inside(*handle, now->shape, now->ndim) || !is_inside(*handle, now->strides, now->ndim) ||
      seen.data(handle, &data) != 0 || data != now->data)
    glance->tensor = NULL;
}

bool mmcp_glance_same(PyObject *object, const mmcp_glance *glance, const void *data, int device) {
  char **handle = mmcp_tensor_handle(object);
  void *lies;
  int32_t index;
  return *handle == glance->tensor && glance->tensor != NULL &&
         memcmp(glance->words, glance->tensor + seen.first, seen.end - seen.first) == 0 &&
         seen.data(handle, &lies) == 0 && lies == data && !seen.wants(glance->tensor) &&
         (seen.device == NULL || (seen.device(handle, &index) == 0 && index == device));
}

void mmcp_glance_ahead(const mmcp_glance *glance) {
  for (size_t b = seen.first; b < seen.end; b += LINE_BYTES) __builtin_prefetch(glance->tensor + b);
}

/* memory.c: see memory.h. */
#include "memory.h"

#include <string.h>

#include "view.h"

typedef struct array {
  PyObject_HEAD mmc_memory *memory;
  uint64_t generation;
  dl_device device;
  dl_dtype dtype;
  int ndim;
  int64_t *shape; /* ndim sizes, then ndim strides in elements */
} array;

static void array_dealloc(array *self) {
  /* What was made before a fork belongs to the parent. */
  if (self->generation == mmcp.generation) mmc_memory_destroy(self->memory);
  free(self->shape);
  Py_TYPE(self)->tp_free((PyObject *)self);
}

/* Fills in shape and strides; returns the bytes that the elements take, or -1 with an exception. */
static int64_t set_shape(array *self, PyObject *shape, int64_t element) {
  self->ndim = (int)PyTuple_GET_SIZE(shape);
  self->shape = malloc((2 * (size_t)self->ndim + 1) * sizeof *self->shape);
  if (self->shape == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  int64_t bytes = element;
  for (int d = self->ndim - 1; d >= 0; d--) {
    int64_t size = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, d));
    if (size == -1 && PyErr_Occurred()) return -1;
    self->shape[d] = size;
    self->shape[self->ndim + d] = bytes / element;
    if (size < 0 || __builtin_mul_overflow(bytes, size > 0 ? size : 1, &bytes)) {
      PyErr_Format(PyExc_ValueError, "shape: expected sizes that memory can hold, got %R", shape);
      return -1;
    }
  }
  return bytes;
}

static PyObject *array_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"device", "dtype", "shape", NULL};
  const char *device, *dtype_name;
  PyObject *shape;
  mmc_dtype dtype;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "ssO!:Array", names, &device, &dtype_name,
                                   &PyTuple_Type, &shape))
    return NULL;
  if (!mmcp_dtype_of_name(dtype_name, &dtype))
    return PyErr_Format(PyExc_ValueError, "dtype: expected a dtype of mmchain, as f32, got %s",
                        dtype_name);
  if (mmcp_context_ensure() < 0) return NULL;
  array *self = (array *)type->tp_alloc(type, 0);
  if (self == NULL) return NULL;
  self->generation = mmcp.generation;
  self->dtype = mmcp_dl_dtype(dtype);
  self->device = (dl_device){DL_CPU, 0};
  if (strncmp(device, "cuda", 4) == 0)
    self->device = (dl_device){DL_CUDA, device[4] == ':' ? atoi(device + 5) : 0};
  int64_t bytes = set_shape(self, shape, (int64_t)mmc_dtype_size(dtype));
  if (bytes >= 0) {
    mmc_status status = mmc_memory_create(mmcp.context, device, (size_t)bytes, &self->memory);
    if (status == MMC_OK) return (PyObject *)self;
    mmcp_raise(status);
  }
  Py_DECREF(self);
  return NULL;
}

/* ---- DLPack ---------------------------------------------------------------------------------- */

static dl_tensor tensor_of(const array *self) {
  return (dl_tensor){
      .data = mmc_memory_address(self->memory),
      .device = self->device,
      .ndim = self->ndim,
      .dtype = self->dtype,
      .shape = self->shape,
      .strides = self->shape + self->ndim,
  };
}

static void release_owner(PyObject *owner) {
  PyGILState_STATE gil = PyGILState_Ensure();
  Py_DECREF(owner);
  PyGILState_Release(gil);
}

static void delete_managed(dl_managed *managed) {
  release_owner(managed->manager);
  free(managed);
}

static void delete_versioned(dl_managed_versioned *managed) {
  release_owner(managed->manager);
  free(managed);
}

/* Frees the tensor of a capsule that nobody consumed. */
static void free_capsule(PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor"))
    delete_managed(PyCapsule_GetPointer(capsule, "dltensor"));
}

static void free_versioned_capsule(PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
    delete_versioned(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
}

static PyObject *export(array *self) {
  dl_managed *managed = malloc(sizeof *managed);
  if (managed == NULL) return PyErr_NoMemory();
  *managed = (dl_managed){tensor_of(self), Py_NewRef((PyObject *)self), delete_managed};
  PyObject *capsule = PyCapsule_New(managed, "dltensor", free_capsule);
  if (capsule == NULL) delete_managed(managed);
  return capsule;
}

static PyObject *export_versioned(array *self) {
  dl_managed_versioned *managed = malloc(sizeof *managed);
  if (managed == NULL) return PyErr_NoMemory();
  *managed = (dl_managed_versioned){
      .version = {DL_VERSION_MAJOR, DL_VERSION_MINOR},
      .manager = Py_NewRef((PyObject *)self),
      .deleter = delete_versioned,
      .tensor = tensor_of(self),
  };
  PyObject *capsule = PyCapsule_New(managed, "dltensor_versioned", free_versioned_capsule);
  if (capsule == NULL) delete_versioned(managed);
  return capsule;
}

/* Work on the memory is done before others see it, so that a stream has nothing to wait for. */
static PyObject *array_dlpack(array *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
  PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream, &version,
                                   &device, &copy))
    return NULL;
  if (self->generation != mmcp.generation) {
    PyErr_SetString(PyExc_BufferError, "the array belongs to the process that was forked");
    return NULL;
  }
  if (copy == Py_True) {
    PyErr_SetString(PyExc_BufferError, "copy: expected None or False, got True");
    return NULL;
  }
  int32_t type = self->device.type, id = self->device.id;
  if (device != Py_None && !PyArg_ParseTuple(device, "ii:dl_device", &type, &id)) return NULL;
  if (type != self->device.type || id != self->device.id) {
    PyErr_SetString(PyExc_BufferError, "dl_device: expected the array's own");
    return NULL;
  }
  int major = 0, minor = 0;
  if (version != Py_None && !PyArg_ParseTuple(version, "ii:max_version", &major, &minor))
    return NULL;
  return major >= DL_VERSION_MAJOR ? export_versioned(self) : export(self);
}

static PyObject *array_dlpack_device(array *self, PyObject *unused) {
  (void)unused;
  return Py_BuildValue("ii", (int)self->device.type, (int)self->device.id);
}

static PyMethodDef array_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))array_dlpack, METH_VARARGS | METH_KEYWORDS, NULL},
    {"__dlpack_device__", (PyCFunction)array_dlpack_device, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

PyTypeObject mmcp_array_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mmchain._mmchain.Array",
    .tp_basicsize = sizeof(array),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = array_new,
    .tp_dealloc = (destructor)array_dealloc,
    .tp_methods = array_methods,
};

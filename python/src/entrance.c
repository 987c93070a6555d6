/* entrance.c: see entrance.h. */
#include "entrance.h"

#include <stddef.h>

#include "execute.h"

typedef struct entrance {
  PyObject_HEAD vectorcallfunc call;
  PyObject *function, *otherwise;
  PyObject *attributes; /* the name, the text and so on of the function */
} entrance;

/* Fills in the keywords that calls have most; false where there is another. */
static bool read_keywords(PyObject *names, PyObject *const *values, PyObject **out,
                          PyObject **objective) {
  const Py_ssize_t count = names != NULL ? PyTuple_GET_SIZE(names) : 0;
  for (Py_ssize_t k = 0; k < count; k++) {
    PyObject *name = PyTuple_GET_ITEM(names, k);
    if (name != mmcp.out && name != mmcp.objective) return false;
    *(name == mmcp.out ? out : objective) = values[k];
  }
  return true;
}

/* A function of Python's takes longer to fill in its keywords than the rest of the way takes. */
static PyObject *call(PyObject *self, PyObject *const *args, size_t count, PyObject *names) {
  PyObject *out = Py_None, *objective = mmcp.time;
  if (PyVectorcall_NARGS(count) == 1 && read_keywords(names, args + 1, &out, &objective)) {
    PyObject *given[] = {Py_None, args[0], out, objective, Py_None, mmcp.native, Py_None, Py_False};
    PyObject *result = mmcp_execute(NULL, given, sizeof given / sizeof given[0]);
    if (result != Py_NotImplemented) return result;
    Py_DECREF(result);
    PyObject *rest[] = {Py_None, args[0], out, objective, Py_None, mmcp.native};
    return PyObject_Vectorcall(((entrance *)self)->otherwise, rest, sizeof rest / sizeof rest[0],
                               NULL);
  }
  return PyObject_Vectorcall(((entrance *)self)->function, args, count, names);
}

PyObject *mmcp_entrance(PyObject *module, PyObject *const *args, Py_ssize_t count) {
  (void)module;
  if (count != 2)
    return PyErr_Format(PyExc_TypeError, "entrance: expected 2 arguments, got %zd", count);
  PyObject *functools = PyImport_ImportModule("functools");
  entrance *made = functools != NULL ? PyObject_GC_New(entrance, &mmcp_entrance_type) : NULL;
  PyObject *named = NULL;
  if (made != NULL) {
    made->call = call;
    made->otherwise = Py_NewRef(args[0]);
    made->function = Py_NewRef(args[1]);
    made->attributes = NULL;
    PyObject_GC_Track(made);
    named = PyObject_CallMethod(functools, "update_wrapper", "OO", made, args[1]);
  }
  Py_XDECREF(made);
  Py_XDECREF(functools);
  return named;
}

static int traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(((entrance *)self)->function);
  Py_VISIT(((entrance *)self)->otherwise);
  Py_VISIT(((entrance *)self)->attributes);
  return 0;
}

static int clear(PyObject *self) {
  Py_CLEAR(((entrance *)self)->function);
  Py_CLEAR(((entrance *)self)->otherwise);
  Py_CLEAR(((entrance *)self)->attributes);
  return 0;
}

static void destroy(PyObject *self) {
  PyObject_GC_UnTrack(self);
  clear(self);
  PyObject_GC_Del(self);
}

static PyObject *repr(PyObject *self) {
  return PyObject_Repr(((entrance *)self)->function);
}

/* As an attribute of a class it is a method, as a function is. */
static PyObject *bind(PyObject *self, PyObject *instance, PyObject *type) {
  (void)type;
  return instance == NULL || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

/* It is pickled by its name. */
static PyObject *reduce(PyObject *self, PyObject *unused) {
  (void)unused;
  return PyObject_GetAttrString(self, "__qualname__");
}

static PyMethodDef methods[] = {
    {"__reduce__", reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject mmcp_entrance_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mmchain._mmchain.Entrance",
    .tp_basicsize = sizeof(entrance),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(entrance, call),
    .tp_dictoffset = offsetof(entrance, attributes),
    .tp_call = PyVectorcall_Call,
    .tp_descr_get = bind,
    .tp_repr = repr,
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_dealloc = destroy,
    .tp_methods = methods,
    .tp_getset = properties,
};

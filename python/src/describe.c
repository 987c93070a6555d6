/* describe.c: see describe.h. */
#include "describe.h"

#include <string.h>

#include "call_plan.h"

static PyObject *text_of(const mmcp_call *c) {
  mmcp_problem problem = mmcp_problem_of(c);
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
  mmcp_few room;
  char *block;
  if (!mmcp_call_open(&c, n, stack, &room, &block)) return NULL;
  PyObject *result = NULL;
  int done = stack != NULL ? mmcp_read_chain(&c)
             : n > 0       ? mmcp_acquire_factors(&c, items, want)
                           : 0;
  if (done == 1) done = mmcp_find_dims(&c, NULL);
  if (done == 1) result = describe(&c);
  if (done == 0) result = Py_NewRef(Py_NotImplemented);
  mmcp_call_close(&c, block);
  return result;
}

PyObject *mmcp_chain_of(PyObject *module, PyObject *const *args, Py_ssize_t count) {
  (void)module;
  if (count != 2)
    return PyErr_Format(PyExc_TypeError, "chain_of: expected 2 arguments, got %zd", count);
  mmcp_want want = args[1] == Py_True ? MMCP_READ_BF16 : MMCP_READ;
  if (!PyList_CheckExact(args[0]) && !PyTuple_CheckExact(args[0])) {
    mmcp_view stack;
    Py_ssize_t n = mmcp_acquire_chain(args[0], want, &stack);
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

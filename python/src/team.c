/* team.c: see team.h. Arrays have two dimensions. All calls but explain() and the attributes are
 * collective, and the interpreter's lock is released while other ranks are waited for. */
#include "team.h"

#include <string.h>

#include "view.h"

typedef struct team {
  PyObject_HEAD mmc_team *team; /* NULL once it was closed */
  uint64_t generation;
  bool at_work; /* whether a thread works with it without the GIL */
} team;

typedef struct team_plan {
  PyObject_HEAD mmc_team_plan *plan;
  team *team; /* NULL: planned for ranks that are not here, and not to be executed */
  uint64_t generation;
  mmc_dtype dtype;
  int64_t n;
  mmc_matrix *matrices; /* n factors and the result */
  mmcp_view *views;
} team_plan;

/* Raises where the team is not to be used now. */
static int check_team(const team *self) {
  if (self->team == NULL)
    PyErr_SetString(PyExc_ValueError, "team: expected one that is not closed");
  else if (self->generation != mmcp.generation)
    PyErr_SetString(PyExc_RuntimeError,
                    "team: expected one made in this process, which was forked since");
  else if (self->at_work)
    PyErr_SetString(PyExc_RuntimeError, "team: another thread is at work with it");
  else
    return 0;
  return -1;
}

/* ---- teams ----------------------------------------------------------------------------------- */

/* What was not closed is left alone: other ranks would have to close it too. */
static void team_dealloc(team *self) {
  Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *team_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"engine", "communicator", NULL};
  PyObject *engine, *address;
  const char *name;
  void *communicator = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:Team", names, &engine, &address)) return NULL;
  if (mmcp_text(engine, "engine", &name) < 0) return NULL;
  if (address != Py_None) communicator = PyLong_AsVoidPtr(address);
  if (PyErr_Occurred() || mmcp_context_ensure() < 0) return NULL;
  team *self = (team *)type->tp_alloc(type, 0);
  if (self == NULL) return NULL;
  self->generation = mmcp.generation;
  PyThreadState *thread = mmcp_enter();
  mmc_status status = mmc_team_open(mmcp.context, name, communicator, &self->team);
  mmcp_leave(thread);
  if (status == MMC_OK) return (PyObject *)self;
  mmcp_raise(status);
  Py_DECREF(self);
  return NULL;
}

static PyObject *team_close(team *self, PyObject *unused) {
  (void)unused;
  if (self->team == NULL || self->generation != mmcp.generation) Py_RETURN_NONE;
  if (check_team(self) < 0) return NULL;
  mmc_team *closing = self->team;
  self->team = NULL;
  PyThreadState *thread = mmcp_enter();
  mmc_team_close(closing);
  mmcp_leave(thread);
  Py_RETURN_NONE;
}

static PyObject *team_describe(team *self, PyObject *unused) {
  (void)unused;
  char text[400];
  if (check_team(self) < 0) return NULL;
  return PyUnicode_FromString(mmc_team_describe(self->team, text, sizeof text));
}

static PyObject *team_calibrate(team *self, PyObject *name) {
  const char *dtype_name;
  mmc_dtype dtype;
  if (check_team(self) < 0 || mmcp_text(name, "dtype", &dtype_name) < 0) return NULL;
  if (dtype_name == NULL || !mmcp_dtype_of_name(dtype_name, &dtype))
    return PyErr_Format(PyExc_ValueError, "dtype: expected f32, f64, c64 or c128, got %R", name);
  self->at_work = true;
  PyThreadState *thread = mmcp_enter();
  mmc_status status = mmc_team_calibrate(self->team, dtype);
  mmcp_leave(thread);
  self->at_work = false;
  if (status == MMC_OK) Py_RETURN_NONE;
  mmcp_raise(status);
  return NULL;
}

/* gather(bytes): those of all ranks, which have the same length, one after the other. */
static PyObject *team_gather(team *self, PyObject *bytes) {
  if (check_team(self) < 0) return NULL;
  if (!PyBytes_Check(bytes)) return PyErr_Format(PyExc_TypeError, "expected bytes");
  const Py_ssize_t size = PyBytes_GET_SIZE(bytes);
  PyObject *all = PyBytes_FromStringAndSize(NULL, size * mmc_team_count(self->team));
  if (all == NULL) return NULL;
  self->at_work = true;
  PyThreadState *thread = mmcp_enter();
  mmc_status status =
      mmc_team_gather(self->team, PyBytes_AS_STRING(bytes), (size_t)size, PyBytes_AS_STRING(all));
  mmcp_leave(thread);
  self->at_work = false;
  if (status == MMC_OK) return all;
  mmcp_raise(status);
  Py_DECREF(all);
  return NULL;
}

/* refuse(message): fails on all ranks, of which others execute a plan meanwhile. */
static PyObject *team_refuse(team *self, PyObject *message) {
  const char *text;
  if (check_team(self) < 0 || mmcp_text(message, "message", &text) < 0) return NULL;
  self->at_work = true;
  PyThreadState *thread = mmcp_enter();
  mmc_status status = mmc_team_agree(self->team, MMC_E_ARG, text);
  mmcp_leave(thread);
  self->at_work = false;
  mmcp_raise(status);
  return NULL;
}

static PyObject *team_rank(team *self, void *unused) {
  (void)unused;
  return PyLong_FromLong(mmc_team_rank(self->team));
}
static PyObject *team_count(team *self, void *unused) {
  (void)unused;
  return PyLong_FromLong(mmc_team_count(self->team));
}

static PyMethodDef team_methods[] = {
    {"close", (PyCFunction)team_close, METH_NOARGS, "Leaves the team."},
    {"describe", (PyCFunction)team_describe, METH_NOARGS, "What the engine is."},
    {"calibrate", (PyCFunction)team_calibrate, METH_O, "calibrate(dtype): measures the ranks."},
    {"refuse", (PyCFunction)team_refuse, METH_O, "refuse(message): raises it on all ranks."},
    {"gather", (PyCFunction)team_gather, METH_O, "gather(bytes): those of all ranks."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef team_attributes[] = {
    {"rank", (getter)team_rank, NULL, "The number of this rank.", NULL},
    {"count", (getter)team_count, NULL, "How many ranks there are.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject mmcp_team_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_mmchain.Team",
    .tp_basicsize = sizeof(team),
    .tp_dealloc = (destructor)team_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc =
        "Team(engine, communicator): the processes of a communicator, given by its address, "
        "or all that were started together.",
    .tp_methods = team_methods,
    .tp_getset = team_attributes,
    .tp_new = team_new,
};

/* ---- plans ----------------------------------------------------------------------------------- */

static void plan_dealloc(team_plan *self) {
  if (self->generation == mmcp.generation) mmc_team_plan_destroy(self->plan);
  free(self->matrices);
  free(self->views);
  Py_XDECREF(self->team);
  Py_TYPE(self)->tp_free((PyObject *)self);
}

static int read_spread(PyObject *object, mmc_spread *out) {
  int kind, rows, cols;
  if (!PyArg_ParseTuple(object, "iii", &kind, &rows, &cols)) return -1;
  *out = (mmc_spread){(mmc_spread_kind)kind, rows, cols};
  return 0;
}

/* The layouts of a list, to be freed; NULL with an exception set. */
static mmc_spread *read_spreads(PyObject *list) {
  const Py_ssize_t count = PyList_GET_SIZE(list);
  mmc_spread *spreads = malloc(((size_t)count + 1) * sizeof *spreads);
  if (spreads == NULL) return (mmc_spread *)PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < count; i++)
    if (read_spread(PyList_GET_ITEM(list, i), &spreads[i]) < 0) {
      free(spreads);
      return NULL;
    }
  return spreads;
}

static int make_plan(team_plan *self, PyObject *chain_text, const mmc_team_options *options) {
  mmc_chain *chain;
  const char *text = PyUnicode_AsUTF8(chain_text);
  if (text == NULL) return -1;
  mmc_status status = mmc_chain_parse(mmcp.context, text, &chain);
  if (status != MMC_OK) return mmcp_raise(status);
  self->n = mmc_chain_length(chain);
  self->dtype = mmc_chain_dtype(chain);
  self->matrices = malloc(((size_t)self->n + 1) * sizeof *self->matrices);
  self->views = malloc(((size_t)self->n + 1) * sizeof *self->views);
  if (self->matrices == NULL || self->views == NULL) {
    mmc_chain_destroy(chain);
    PyErr_NoMemory();
    return -1;
  }
  if (self->team != NULL) self->team->at_work = true;
  PyThreadState *thread = mmcp_enter();
  status = mmc_team_plan_create(mmcp.context, self->team != NULL ? self->team->team : NULL, chain,
                                options, &self->plan);
  mmcp_leave(thread);
  if (self->team != NULL) self->team->at_work = false;
  mmc_chain_destroy(chain);
  return status == MMC_OK ? 0 : mmcp_raise(status);
}

/* Reads what the plan is for: a team, or how many ranks there would be. */
static int read_ranks(PyObject *of, mmc_team_options *options) {
  if (PyObject_TypeCheck(of, &mmcp_team_type)) return check_team((team *)of);
  const long ranks = PyLong_AsLong(of);
  if (ranks == -1 && PyErr_Occurred()) return -1;
  if (ranks < 1 || ranks > INT32_MAX) {
    PyErr_Format(PyExc_ValueError, "team: expected a team or a number of ranks, got %R", of);
    return -1;
  }
  options->ranks = (int32_t)ranks;
  return mmcp_context_ensure();
}

static PyObject *plan_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"team",      "chain",     "factors",   "result",
                          "objective", "precision", "all_ranks", "memory_limit",
                          "order",     "rates",     NULL};
  PyObject *of, *chain, *factors, *result, *objective, *precision, *limit, *order;
  int all_ranks;
  mmc_spread asked;
  mmc_team_options options = MMC_TEAM_OPTIONS_INIT;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OUOOOOpOO|(ddd):TeamPlan", names, &of, &chain,
                                   &factors, &result, &objective, &precision, &all_ranks, &limit,
                                   &order, &options.flops_per_s, &options.byte_s,
                                   &options.message_s))
    return NULL;
  if (read_ranks(of, &options) < 0 || mmcp_text(objective, "objective", &options.objective) < 0 ||
      mmcp_text(precision, "precision", &options.precision) < 0 ||
      mmcp_text(order, "order", &options.order) < 0)
    return NULL;
  options.all_ranks = all_ranks != 0;
  if (limit != Py_None) options.rank_bytes = PyLong_AsUnsignedLongLong(limit);
  if (PyErr_Occurred()) return NULL;
  if (result != Py_None) {
    if (read_spread(result, &asked) < 0) return NULL;
    options.result = &asked;
  }
  mmc_spread *spreads = NULL;
  if (factors != Py_None) {
    if (!PyList_Check(factors)) return PyErr_Format(PyExc_TypeError, "factors: expected a list");
    spreads = read_spreads(factors);
    if (spreads == NULL) return NULL;
    options.factors = spreads;
  }
  team_plan *self = (team_plan *)type->tp_alloc(type, 0);
  if (self != NULL) {
    self->generation = mmcp.generation;
    if (options.ranks == 0) self->team = (team *)Py_NewRef(of);
    if (make_plan(self, chain, &options) < 0) Py_CLEAR(self);
  }
  free(spreads);
  return (PyObject *)self;
}

static int write_text(void *user, const char *bytes, size_t size) {
  PyObject **text = user;
  PyObject *more = PyUnicode_FromStringAndSize(bytes, (Py_ssize_t)size);
  if (more == NULL) return -1;
  PyUnicode_AppendAndDel(text, more);
  return *text != NULL ? 0 : -1;
}

static PyObject *plan_explain(team_plan *self, PyObject *format) {
  const char *name;
  if (mmcp_text(format, "format", &name) < 0) return NULL;
  const bool is_json = name != NULL && strcmp(name, "json") == 0;
  if (!is_json && (name == NULL || strcmp(name, "text") != 0))
    return PyErr_Format(PyExc_ValueError, "format: expected text or json, got %R", format);
  PyObject *text = PyUnicode_FromString("");
  if (text == NULL) return NULL;
  mmc_status status =
      mmc_team_plan_explain(self->plan, is_json ? MMC_JSON : MMC_TEXT, write_text, &text);
  if (status == MMC_OK) return text;
  Py_XDECREF(text);
  if (!PyErr_Occurred()) mmcp_raise(status);
  return NULL;
}

static PyObject *plan_piece(team_plan *self, PyObject *args) {
  long long operand;
  int rank;
  mmc_piece piece;
  if (!PyArg_ParseTuple(args, "Li:piece", &operand, &rank)) return NULL;
  mmc_status status = mmc_team_plan_piece(self->plan, operand, rank, &piece);
  if (status != MMC_OK) {
    mmcp_raise(status);
    return NULL;
  }
  return Py_BuildValue("LLLL", (long long)piece.row, (long long)piece.col, (long long)piece.rows,
                       (long long)piece.cols);
}

/* Looks at an array; 1, 0 when it must be copied first, -1 with an exception. */
static int acquire(team_plan *self, PyObject *array, int64_t at) {
  mmcp_view *view = &self->views[at];
  int got = mmcp_view_acquire(array, at == self->n ? MMCP_WRITE : MMCP_READ, view);
  if (got != 1) return got;
  if (view->ndim == 2 && view->dtype == self->dtype && view->device == MMCP_HOST &&
      mmcp_view_matrix(view, true, true, &self->matrices[at]))
    return 1;
  mmcp_view_release(view);
  return 0;
}

/* execute(factors, out): None, or NotImplemented, before anything is sent, when an array cannot be
 * read where it lies. */
static PyObject *plan_execute(team_plan *self, PyObject *args) {
  PyObject *factors, *out;
  if (!PyArg_ParseTuple(args, "O!O:execute", &PyList_Type, &factors, &out)) return NULL;
  if (self->team == NULL)
    return PyErr_Format(PyExc_ValueError, "team: expected one, but the plan is for ranks alone");
  if (check_team(self->team) < 0) return NULL;
  if (PyList_GET_SIZE(factors) != self->n) {
    PyErr_SetString(PyExc_ValueError, "factors: expected as many as were planned");
    return NULL;
  }
  int64_t held = 0;
  int done = 1;
  for (; held <= self->n && done == 1; held += done == 1)
    done = acquire(self, held == self->n ? out : PyList_GET_ITEM(factors, (Py_ssize_t)held), held);
  if (done == 1) {
    self->team->at_work = true;
    PyThreadState *thread = mmcp_enter();
    mmc_status status = mmc_team_execute(self->plan, self->matrices, &self->matrices[self->n]);
    mmcp_leave(thread);
    self->team->at_work = false;
    if (status != MMC_OK) done = mmcp_raise(status);
  }
  while (held > 0) mmcp_view_release(&self->views[--held]);
  if (done < 0) return NULL;
  return Py_NewRef(done == 1 ? Py_None : Py_NotImplemented);
}

static PyObject *plan_words(team_plan *self, void *unused) {
  (void)unused;
  char text[48];
  mmc_count_format(mmc_team_plan_words(self->plan), text);
  return PyLong_FromString(text, NULL, 10);
}
static PyObject *plan_predicted_seconds(team_plan *self, void *unused) {
  (void)unused;
  return PyFloat_FromDouble(mmc_team_plan_predicted_seconds(self->plan));
}
static PyObject *plan_rank_bytes(team_plan *self, void *unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong(mmc_team_plan_rank_bytes(self->plan));
}

static PyMethodDef plan_methods[] = {
    {"explain", (PyCFunction)plan_explain, METH_O, "explain(format): what the plan does and why."},
    {"piece", (PyCFunction)plan_piece, METH_VARARGS,
     "piece(operand, rank): row, column, rows and columns; operand -1 is the result."},
    {"execute", (PyCFunction)plan_execute, METH_VARARGS,
     "execute(factors, out): None, or NotImplemented when arrays cannot be read where they lie."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef plan_attributes[] = {
    {"words", (getter)plan_words, NULL, "The words that all ranks send.", NULL},
    {"predicted_seconds", (getter)plan_predicted_seconds, NULL, "What it is predicted to take.",
     NULL},
    {"rank_bytes", (getter)plan_rank_bytes, NULL, "The bytes that a rank holds at most.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject mmcp_team_plan_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_mmchain.TeamPlan",
    .tp_basicsize = sizeof(team_plan),
    .tp_dealloc = (destructor)plan_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc =
        "TeamPlan(team, chain, factors, result, objective, precision, all_ranks, "
        "memory_limit, order): a plan over the ranks of a team, or over so many ranks.",
    .tp_methods = plan_methods,
    .tp_getset = plan_attributes,
    .tp_new = plan_new,
};

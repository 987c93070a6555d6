/* _mmchain.c: the extension module of the Python package: what there is, and forks. */
#include <string.h>
#include <time.h>

#include "by_numpy.h"
#include "cache.h"
#include "describe.h"
#include "entrance.h"
#include "execute.h"
#include "glance.h"
#include "gradients.h"
#include "memory.h"
#include "modes.h"
#include "ranges.h"
#include "scan.h"
#include "sparse.h"
#include "team.h"
#include "tensor.h"
#include "torch.h"
#include "tune.h"
#include "xla.h"

mmcp_state mmcp;

/* ---- state --------------------------------------------------------------------------------- */

int mmcp_context_ensure(void) {
  if (mmcp.context != NULL) return 0;
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  if (mmcp.module_dir != NULL) options.module_dir = PyBytes_AS_STRING(mmcp.module_dir);
  mmc_status status = MMC_E_UNSUPPORTED;
  Py_ssize_t count = mmcp.blas_paths != NULL ? PyList_GET_SIZE(mmcp.blas_paths) : 0;
  for (Py_ssize_t i = 0; i < count && status == MMC_E_UNSUPPORTED; i++) {
    options.blas_library = PyBytes_AS_STRING(PyList_GET_ITEM(mmcp.blas_paths, i));
    status = mmc_context_create(&options, &mmcp.context);
  }
  options.blas_library = NULL;
  if (status == MMC_E_UNSUPPORTED) status = mmc_context_create(&options, &mmcp.context);
  return status == MMC_OK ? 0 : mmcp_raise(status);
}

/* The arguments of the library, as its messages name them, that are called otherwise here. */
static const struct {
  const char *argument, *parameter;
} parameters[] = {{"modulus", "mod"}, {"memory limit", "memory_limit"}};

int mmcp_raise(mmc_status status) {
  PyObject *type = PyExc_RuntimeError;
  if (status == MMC_E_ARG || status == MMC_E_FORMAT) type = PyExc_ValueError;
  if (status == MMC_E_OVERFLOW) type = PyExc_OverflowError;
  if (status == MMC_E_NOMEM || status == MMC_E_MEMORY_LIMIT) type = PyExc_MemoryError;
  if (status == MMC_E_IO) type = PyExc_OSError;
  char message[512], argument[32];
  mmc_context_message(mmcp.context, message, sizeof message);
  mmc_context_argument(mmcp.context, argument, sizeof argument);
  for (size_t p = 0; p < sizeof parameters / sizeof parameters[0]; p++)
    if (message[0] != '\0' && strcmp(argument, parameters[p].argument) == 0) {
      PyErr_Format(type, "%s%s", parameters[p].parameter, message + strlen(argument));
      return -1;
    }
  PyErr_SetString(type, message[0] != '\0' ? message : mmc_status_string(status));
  return -1;
}

bool mmcp_dtype_of_name(const char *name, mmc_dtype *out) {
  for (int d = 0; d < MMCP_DTYPES; d++) {
    if (strcmp(name, mmc_dtype_name((mmc_dtype)d)) != 0) continue;
    *out = (mmc_dtype)d;
    return true;
  }
  return false;
}

int mmcp_text(PyObject *object, const char *argument, const char **out) {
  *out = NULL;
  if (object == Py_None) return 0;
  if (!PyUnicode_Check(object)) {
    PyErr_Format(PyExc_TypeError, "%s: expected a str, got %s", argument, Py_TYPE(object)->tp_name);
    return -1;
  }
  Py_ssize_t length;
  const char *text = PyUnicode_AsUTF8AndSize(object, &length);
  if (text == NULL) return -1;
  if ((size_t)length != strlen(text)) {
    PyErr_Format(PyExc_ValueError, "%s: expected text without zero bytes, got %R", argument,
                 object);
    return -1;
  }
  *out = text;
  return 0;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* The paths as bytes, as the system has them. */
static PyObject *paths_of(PyObject *sequence) {
  PyObject *list = PySequence_List(sequence);
  for (Py_ssize_t i = 0; list != NULL && i < PyList_GET_SIZE(list); i++) {
    PyObject *bytes;
    if (!PyUnicode_FSConverter(PyList_GET_ITEM(list, i), &bytes))
      Py_CLEAR(list);
    else
      PyList_SetItem(list, i, bytes);
  }
  return list;
}

static PyObject *configure(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *module_dir, *blas_paths, *dir = NULL;
  if (!PyArg_ParseTuple(args, "OO:configure", &module_dir, &blas_paths)) return NULL;
  if (module_dir != Py_None && !PyUnicode_FSConverter(module_dir, &dir)) return NULL;
  PyObject *paths = paths_of(blas_paths);
  if (paths == NULL) {
    Py_XDECREF(dir);
    return NULL;
  }
  Py_XSETREF(mmcp.module_dir, dir);
  Py_XSETREF(mmcp.blas_paths, paths);
  Py_RETURN_NONE;
}

/* The first device that the library lists is the one that a CBLAS multiplies on. */
static PyObject *blas(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  mmc_device_info info;
  if (mmcp_context_ensure() < 0) return NULL;
  mmc_status status = mmc_device_describe(mmcp.context, 0, &info);
  if (status != MMC_OK) {
    mmcp_raise(status);
    return NULL;
  }
  return Py_BuildValue("sO", info.description, info.available ? Py_True : Py_False);
}

static PyObject *devices(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  if (mmcp_context_ensure() < 0) return NULL;
  PyObject *list = PyList_New(0);
  mmc_device_info info;
  for (int d = 0; list != NULL && mmc_device_describe(mmcp.context, d, &info) == MMC_OK; d++) {
    PyObject *entry =
        Py_BuildValue("ssO", info.name, info.description, info.available ? Py_True : Py_False);
    if (entry == NULL || PyList_Append(list, entry) < 0) Py_CLEAR(list);
    Py_XDECREF(entry);
  }
  return list;
}

static PyObject *splits_of(const mmc_order *found) {
  int64_t count = mmc_order_length(found) - 1;
  PyObject *list = PyList_New((Py_ssize_t)count);
  for (int64_t t = 0; list != NULL && t < count; t++) {
    int64_t first, split, last;
    mmc_order_product(found, t, &first, &split, &last);
    PyObject *triple = Py_BuildValue("LLL", (long long)first, (long long)split, (long long)last);
    if (triple == NULL)
      Py_CLEAR(list);
    else
      PyList_SET_ITEM(list, (Py_ssize_t)t, triple);
  }
  return list;
}

static PyObject *order(PyObject *module, PyObject *object) {
  (void)module;
  if (mmcp_context_ensure() < 0) return NULL;
  int64_t n;
  int64_t *dims = mmcp_read_dims(object, &n);
  if (dims == NULL) return NULL;
  mmc_order *found = NULL;
  PyThreadState *thread = mmcp_enter();
  mmc_status status = mmc_order_create(mmcp.context, n, dims, NULL, &found);
  mmcp_leave(thread);
  free(dims);
  if (status != MMC_OK) {
    mmcp_raise(status);
    return NULL;
  }
  PyObject *list = splits_of(found);
  mmc_order_destroy(found);
  return list;
}

static PyObject *clear_cache(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  mmcp_scan_clear(false);
  mmcp_cache_clear();
  Py_RETURN_NONE;
}

static PyObject *cache_info(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  return Py_BuildValue("{s:n,s:K}", "plans", (Py_ssize_t)mmcp_cache_count(), "workspace_bytes",
                       (unsigned long long)mmcp.idle_bytes);
}

static PyObject *cached_plan(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  return mmcp_cache_last();
}

static void sleep_without_gil(void) {
  const struct timespec pause = {.tv_nsec = 50000};
  PyThreadState *thread = PyEval_SaveThread();
  nanosleep(&pause, NULL);
  PyEval_RestoreThread(thread);
}

PyThreadState *mmcp_enter(void) {
  while (mmcp.forking > 0) sleep_without_gil();
  mmcp.working++;
  return PyEval_SaveThread();
}

void mmcp_leave(PyThreadState *thread) {
  PyEval_RestoreThread(thread);
  mmcp.working--;
}

int mmcp_check_signals(void *user, double done) {
  PyThreadState **thread = user;
  (void)done;
  mmcp_leave(*thread);
  int stop = PyErr_CheckSignals();
  *thread = mmcp_enter();
  return stop;
}

static PyObject *before_fork(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  mmcp.forking++;
  while (mmcp.working > 0) sleep_without_gil();
  Py_RETURN_NONE;
}

static PyObject *after_fork(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  mmcp.forking--;
  Py_RETURN_NONE;
}

/* What the library held had threads, locks and devices that are not here:
 * it is left as it is, and made again when needed. */
static PyObject *after_fork_in_child(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  mmcp.forking = 0;
  mmcp.tuning = false;
  mmcp.generation++;
  mmcp.context = NULL;
  mmcp.cuda_lost = mmcp.cuda_used;
  mmcp_scan_clear(true);
  mmcp_cache_clear();
  mmcp.idle_bytes = 0;
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"execute", (PyCFunction)(void (*)(void))mmcp_execute, METH_FASTCALL,
     "execute(plan, arrays, out, objective, device, precision, stream, bf16): the product, or "
     "NotImplemented when the arrays cannot be read where they lie."},
    {"entrance", (PyCFunction)(void (*)(void))mmcp_entrance, METH_FASTCALL,
     "entrance(otherwise, function): the function, with a shorter way to execute(), and from there "
     "to "
     "otherwise(), where it is called with nothing but arrays, out and objective."},
    {"chain_of", (PyCFunction)(void (*)(void))mmcp_chain_of, METH_FASTCALL,
     "chain_of(arrays, bf16): the text of the chain that execute() makes of them, and the number "
     "of "
     "their CUDA device or None; or NotImplemented."},
    {"places", (PyCFunction)(void (*)(void))mmcp_places, METH_FASTCALL,
     "places(arrays): what a plan for NumPy's arrays depends on, as bytes, or None."},
    {"readable", (PyCFunction)(void (*)(void))mmcp_readable, METH_FASTCALL,
     "readable(array, first): whether execute() can read the array where it lies."},
    {"scan", (PyCFunction)(void (*)(void))mmcp_scan, METH_FASTCALL,
     "scan(factors, initial, addend, out, recurrence, reverse, exclusive, device, stream, bf16, "
     "semiring, exponents): "
     "out, filled, or NotImplemented when the arrays cannot be read where they lie."},
    {"scan_plan", mmcp_scan_plan, METH_VARARGS,
     "scan_plan(dtype, n, length, batch, columns, initial, addend, reverse, exclusive, device): "
     "how "
     "it is computed."},
    {"sparse", mmcp_sparse, METH_VARARGS,
     "sparse(dtype, factors, count, objective, device, out, dense, explains): the product of "
     "factors of "
     "which some are sparse, as None when out, (rows, cols, array), was filled, else (index_bytes, "
     "indptr, indices, values); or how it is computed."},
    {"order", order, METH_O,
     "order(dims): the cheapest order as triples (first, split, last), children before parents."},
    {"tune", mmcp_tune, METH_VARARGS,
     "tune(chains, like, range, device, precision, objective, budget, progress): what was decided, "
     "how much was measured, whether all was."},
    {"xla_target", mmcp_xla_target, METH_O,
     "xla_target(minor): a capsule of the foreign function of XLA that multiplies a chain on the "
     "CPU, by version 0.minor of that interface."},
    {"set_torch", mmcp_set_torch, METH_VARARGS,
     "set_torch(types, mm, mv, dot, matmul, multi_dot, is_grad_enabled, by_us, precision, "
     "has_bf16): "
     "PyTorch's own functions, for tensors of these types."},
    {"is_watched", mmcp_watched, METH_NOARGS,
     "Whether a TorchDispatchMode or a trace watches PyTorch's operations."},
    {"learn_tensors", mmcp_learn_tensors, METH_VARARGS,
     "learn_tensors(types, plain, wanting, negated, conjugated, addresses): whether PyTorch's "
     "functions of C++ are asked about exact tensors of these types."},
    {"tensor_bytes", mmcp_tensor_bytes, METH_VARARGS,
     "tensor_bytes(tensor, address): the bytes of PyTorch's tensor at the address that it holds, "
     "or "
     "None."},
    {"set_glance", mmcp_set_glance, METH_VARARGS,
     "set_glance(type, first, end, devices, plain, wanting): by which bytes tensors of the type "
     "are "
     "seen to be as they were; whether that can be done."},
    {"devices", devices, METH_NOARGS, "Triples (name, description, available)."},
    {"configure", configure, METH_VARARGS,
     "configure(module_dir, blas_paths): where device modules lie, or None, and the files of BLAS "
     "libraries of which the first that can be is used. Before anything else."},
    {"blas", blas, METH_NOARGS, "A pair (description, available) of the device blas."},
    {"clear_cache", clear_cache, METH_NOARGS, "Forgets all cached plans."},
    {"cache_info", cache_info, METH_NOARGS, "What the cache holds."},
    {"cached_plan", cached_plan, METH_NOARGS, "The cached plan that was used last, or None."},
    {"before_fork", before_fork, METH_NOARGS, "For os.register_at_fork, as the next two."},
    {"after_fork", after_fork, METH_NOARGS, "In the parent."},
    {"after_fork_in_child", after_fork_in_child, METH_NOARGS, "In the child."},
    {NULL, NULL, 0, NULL},
};

/* ---- the module ------------------------------------------------------------------------------ */

static int find_numpy(void) {
  static const char *const names[MMCP_DTYPES] = {
      [MMC_F32] = "float32",     [MMC_F64] = "float64", [MMC_C64] = "complex64",
      [MMC_C128] = "complex128", [MMC_F16] = "float16", [MMC_BF16] = "uint16",
      [MMC_I8] = "int8",         [MMC_I16] = "int16",   [MMC_I32] = "int32",
      [MMC_I64] = "int64",       [MMC_U8] = "uint8",    [MMC_U16] = "uint16",
      [MMC_U32] = "uint32",      [MMC_U64] = "uint64",  [MMC_BOOL] = "bool",
  };
  PyObject *numpy = PyImport_ImportModule("numpy");
  if (numpy == NULL) return -1;
  mmcp.ndarray = PyObject_GetAttrString(numpy, "ndarray");
  mmcp.memmap = PyObject_GetAttrString(numpy, "memmap");
  mmcp.empty = PyObject_GetAttrString(numpy, "empty");
  bool found = mmcp.ndarray != NULL && mmcp.memmap != NULL && mmcp.empty != NULL;
  for (int d = 0; found && d < MMCP_DTYPES; d++) {
    mmcp.dtypes[d] = PyObject_CallMethod(numpy, "dtype", "s", names[d]);
    found = mmcp.dtypes[d] != NULL;
  }
  found = found && mmcp_by_numpy_learn(numpy) == 0;
  Py_DECREF(numpy);
  return found ? mmcp_view_learn_numpy() : -1;
}

static int intern_names(void) {
  const struct {
    const char *text;
    PyObject **name;
  } names[] = {{"requires_grad", &mmcp.requires_grad},
               {"is_neg", &mmcp.is_neg},
               {"is_conj", &mmcp.is_conj},
               {"time", &mmcp.time},
               {"flops", &mmcp.flops},
               {"native", &mmcp.native},
               {"stored", &mmcp.stored},
               {"cpu", &mmcp.cpu},
               {"out", &mmcp.out},
               {"objective", &mmcp.objective}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    *names[i].name = PyUnicode_InternFromString(names[i].text);
    if (*names[i].name == NULL) return -1;
  }
  return 0;
}

static int add_types(PyObject *module) {
  if (PyType_Ready(&mmcp_plan_type) < 0 || PyType_Ready(&mmcp_array_type) < 0 ||
      PyType_Ready(&mmcp_ranges_type) < 0 || PyType_Ready(&mmcp_memory_type) < 0 ||
      PyType_Ready(&mmcp_gradients_type) < 0 || PyType_Ready(&mmcp_team_type) < 0 ||
      PyType_Ready(&mmcp_team_plan_type) < 0 || PyType_Ready(&mmcp_entrance_type) < 0)
    return -1;
  Py_INCREF(&mmcp_plan_type);
  if (PyModule_AddObject(module, "Plan", (PyObject *)&mmcp_plan_type) < 0) return -1;
  Py_INCREF(&mmcp_array_type);
  if (PyModule_AddObject(module, "Array", (PyObject *)&mmcp_array_type) < 0) return -1;
  Py_INCREF(&mmcp_gradients_type);
  if (PyModule_AddObject(module, "Gradients", (PyObject *)&mmcp_gradients_type) < 0) return -1;
  Py_INCREF(&mmcp_ranges_type);
  if (PyModule_AddObject(module, "Ranges", (PyObject *)&mmcp_ranges_type) < 0) return -1;
  Py_INCREF(&mmcp_team_type);
  if (PyModule_AddObject(module, "Team", (PyObject *)&mmcp_team_type) < 0) return -1;
  Py_INCREF(&mmcp_team_plan_type);
  if (PyModule_AddObject(module, "TeamPlan", (PyObject *)&mmcp_team_plan_type) < 0) return -1;
  return PyModule_AddStringConstant(module, "version", mmc_version());
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_mmchain",   .m_doc = "The library behind mmchain.",
    .m_size = -1,          .m_methods = functions,
};

PyMODINIT_FUNC PyInit__mmchain(void);

PyMODINIT_FUNC PyInit__mmchain(void) {
  if (find_numpy() < 0 || intern_names() < 0) return NULL;
  PyObject *module = PyModule_Create(&definition);
  if (module != NULL && add_types(module) < 0) Py_CLEAR(module);
  return module;
}

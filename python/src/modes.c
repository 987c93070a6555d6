/* modes.c: see modes.h. */
#include "modes.h"

#include <dlfcn.h>

/* A function of PyTorch's without arguments. One in C is called without what a call of Python's
 * takes. */
typedef struct question {
  PyObject *function; /* NULL: there is none */
  PyCFunction direct; /* or NULL */
  PyObject *self;
} question;

static question autocast, modes, tracing;
/* const std::shared_ptr<TracingState> &getTracingState(), whose first word is NULL where there is
 * no trace; or NULL. To call it takes a tenth of what the question takes. */
static void *const *(*trace)(void);
/* bool at::autocast::is_autocast_enabled(c10::DeviceType), or NULL: likewise. Tensors of other
 * devices than these two are no memory of ours. */
static bool (*is_cast)(int8_t device);
enum { CPU, CUDA };
/* at::ScalarType at::autocast::get_autocast_dtype(c10::DeviceType), or NULL. */
static int8_t (*cast_dtype)(int8_t device);
enum { HALF = 5, BFLOAT16 = 15 }; /* of at::ScalarType */
static PyObject *tangents; /* the names of torch.autograd.forward_ad, which holds the level */
static PyObject *level;    /* that one's name */

static void learn(question *q, PyObject *module, const char *name) {
  q->function = PyObject_GetAttrString(module, name);
  if (q->function == NULL) PyErr_Clear();
  if (q->function == NULL || !PyCFunction_CheckExact(q->function)) return;
  if (PyCFunction_GetFlags(q->function) != METH_NOARGS) return;
  q->direct = PyCFunction_GetFunction(q->function);
  q->self = PyCFunction_GetSelf(q->function);
}

/* A module that is loaded, as a new reference, or NULL. */
static PyObject *loaded(const char *name) {
  PyObject *text = PyUnicode_FromString(name);
  PyObject *module = text != NULL ? PyImport_GetModule(text) : NULL;
  Py_XDECREF(text);
  if (module == NULL) PyErr_Clear();
  return module;
}

void *mmcp_torch_function(const char *library, const char *name) {
  void *found = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  void *function = found != NULL ? dlsym(found, name) : NULL;
  if (found != NULL) dlclose(found);
  return function;
}

/* Says whether PyTorch is there to be asked. */
static bool knows(void) {
  static bool known;
  if (known) return true;
  PyObject *forward = loaded("torch.autograd.forward_ad"), *torch = loaded("torch._C");
  known = forward != NULL && torch != NULL;
  if (known) {
    learn(&autocast, torch, "_is_any_autocast_enabled");
    learn(&modes, torch, "_len_torch_dispatch_stack");
    learn(&tracing, torch, "_is_tracing");
    *(void **)&trace =
        mmcp_torch_function("libtorch_cpu.so", "_ZN5torch3jit6tracer15getTracingStateEv");
    *(void **)&is_cast = mmcp_torch_function(
        "libtorch_cpu.so", "_ZN2at8autocast19is_autocast_enabledEN3c1010DeviceTypeE");
    *(void **)&cast_dtype = mmcp_torch_function(
        "libtorch_cpu.so", "_ZN2at8autocast18get_autocast_dtypeEN3c1010DeviceTypeE");
    tangents = Py_XNewRef(PyModule_GetDict(forward));
    level = PyUnicode_InternFromString("_current_level");
  }
  Py_XDECREF(forward);
  Py_XDECREF(torch);
  return known;
}

static int ask(const question *q) {
  if (q->function == NULL) return 0;
  PyObject *answer =
      q->direct != NULL ? q->direct(q->self, NULL) : PyObject_CallNoArgs(q->function);
  const int truth = answer == NULL ? -1 : answer == Py_False ? 0 : PyObject_IsTrue(answer);
  Py_XDECREF(answer);
  return truth;
}

int mmcp_is_autocast(void) {
  if (!knows()) return 0;
  return is_cast != NULL ? is_cast(CPU) || is_cast(CUDA) : ask(&autocast);
}

bool mmcp_autocast(mmc_dtype *out) {
  if (!knows() || is_cast == NULL || cast_dtype == NULL || !is_cast(CPU)) return false;
  const int8_t dtype = cast_dtype(CPU);
  *out = dtype == HALF ? MMC_F16 : MMC_BF16;
  return dtype == HALF || dtype == BFLOAT16;
}

static int is_watched(void) {
  const int watched = knows() ? ask(&modes) : 0;
  if (watched != 0 || !knows()) return watched;
  return trace != NULL ? *trace() != NULL : ask(&tracing);
}

/* Says whether a level of forward-mode differentiation is open, so that tensors may have tangents,
 * which are not in their memory. */
static int has_tangents(void) {
  PyObject *now = knows() && level != NULL ? PyDict_GetItemWithError(tangents, level) : NULL;
  if (now == NULL) return PyErr_Occurred() ? -1 : 0;
  const long number = PyLong_AsLong(now); /* -1: none is open */
  return number == -1 && PyErr_Occurred() ? -1 : number >= 0;
}

int mmcp_is_torchs(bool has_plan) {
  int is = is_watched();
  if (is == 0) is = has_tangents();
  return is != 0 || has_plan ? is : mmcp_is_autocast();
}

PyObject *mmcp_watched(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  const int is = is_watched();
  return is < 0 ? NULL : PyBool_FromLong(is);
}

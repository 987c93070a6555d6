/* torch.c: see torch.h. */
#include "torch.h"

#include "view.h"

/* Many small matrices are one function with gradients of its own (_torch.py). */
enum { MOST_FACTORS = 15 };

static PyObject *types, *mm, *multi_dot, *is_grad_enabled, *is_autocast, *has_transforms;

PyObject *mmcp_set_torch(PyObject *module, PyObject *args) {
  PyObject *given[6];
  (void)module;
  if (!PyArg_ParseTuple(args, "O!OOOOO:set_torch", &PyTuple_Type, &given[0], &given[1], &given[2],
                        &given[3], &given[4], &given[5]))
    return NULL;
  PyObject **kept[] = {&types, &mm, &multi_dot, &is_grad_enabled, &is_autocast, &has_transforms};
  for (int i = 0; i < 6; i++) Py_XSETREF(*kept[i], Py_NewRef(given[i]));
  Py_RETURN_NONE;
}

static bool is_tensor(PyObject *item) {
  for (Py_ssize_t t = 0; t < PyTuple_GET_SIZE(types); t++)
    if ((PyObject *)Py_TYPE(item) == PyTuple_GET_ITEM(types, t)) return true;
  return false;
}

/* The answer of a function, or the value of an attribute, which this takes; -1 with an exception
 * set. */
static int truth_of(PyObject *value) {
  const int truth = value != NULL ? PyObject_IsTrue(value) : -1;
  Py_XDECREF(value);
  return truth;
}

static int wants_gradients(PyObject *const *items, Py_ssize_t n) {
  int wants = 0;
  for (Py_ssize_t i = 0; i < n && wants == 0; i++)
    wants = truth_of(PyObject_GetAttr(items[i], mmcp.requires_grad));
  return wants;
}

/* Whether products are recorded as they are computed. */
static int is_recorded(void) {
  int answer = truth_of(PyObject_CallNoArgs(is_grad_enabled));
  if (answer != 1) return answer;
  answer = truth_of(PyObject_CallNoArgs(is_autocast));
  if (answer == 0) answer = truth_of(PyObject_CallNoArgs(has_transforms));
  return answer < 0 ? -1 : !answer;
}

/* Reads the dims of matrices of one dtype on the CPU that fit together. Returns 0 when they are not
 * that. */
static int read_dims(PyObject *const *items, Py_ssize_t n, int64_t *dims) {
  const dl_exchange *exchange = mmcp_exchange_of(items[0]);
  mmc_dtype first = MMC_F32;
  if (exchange == NULL) return PyErr_Occurred() ? -1 : 0;
  for (Py_ssize_t i = 0; i < n; i++) {
    dl_tensor tensor;
    mmc_dtype dtype;
    if (exchange->borrow(items[i], &tensor) != 0) {
      PyErr_Clear(); /* it is sparse, or has no memory */
      return 0;
    }
    if (tensor.ndim != 2 || tensor.device.type != DL_CPU ||
        !mmcp_dtype_of_dl(tensor.dtype, &dtype) || dtype > MMC_C128)
      return 0;
    if (i == 0) {
      first = dtype;
      dims[0] = tensor.shape[0];
    }
    if (dtype != first || tensor.shape[0] != dims[i]) return 0;
    dims[i + 1] = tensor.shape[1];
  }
  return 1;
}

static PyObject *call(PyObject *function, PyObject *a, PyObject *b) {
  PyObject *arguments[] = {a, b};
  return PyObject_Vectorcall(function, arguments, b != NULL ? 2 : 1, NULL);
}

/* Of three matrices, whose gradients take a seventh less than those of PyTorch's multi_dot. */
static PyObject *multiply_three(PyObject *const *items, const int64_t *dims) {
  const double m = (double)dims[0], k = (double)dims[1], l = (double)dims[2], n = (double)dims[3];
  const bool left = m * l * (k + n) <= k * n * (l + m);
  PyObject *pair = left ? call(mm, items[0], items[1]) : call(mm, items[1], items[2]);
  if (pair == NULL) return NULL;
  PyObject *product = left ? call(mm, pair, items[2]) : call(mm, items[0], pair);
  Py_DECREF(pair);
  return product;
}

int mmcp_torch_multiply(PyObject *tuple, PyObject **out) {
  PyObject *const *items = &PyTuple_GET_ITEM(tuple, 0);
  const Py_ssize_t n = PyTuple_GET_SIZE(tuple);
  int64_t dims[MOST_FACTORS + 1];
  if (types == NULL || n < 2 || n > MOST_FACTORS) return 0;
  for (Py_ssize_t i = 0; i < n; i++)
    if (!is_tensor(items[i])) return 0;
  int done = wants_gradients(items, n);
  if (done == 1) done = is_recorded();
  if (done == 1) done = read_dims(items, n, dims);
  if (done != 1) return done;
  if (n == 2)
    *out = call(mm, items[0], items[1]);
  else
    *out = n == 3 ? multiply_three(items, dims) : call(multi_dot, tuple, NULL);
  return *out != NULL ? 1 : -1;
}

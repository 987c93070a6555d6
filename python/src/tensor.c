/* tensor.c: see tensor.h. */
#include "tensor.h"

#include <string.h>

#include "modes.h"
#include "view.h"

enum { TYPES = 2, GIVEN = 4, MOST_BYTES = 1 << 20 };

static struct {
  PyTypeObject *types[TYPES];
  const dl_exchange *exchange; /* NULL: new tensors are not made so */
  bool (*wants)(const void *tensor);
  bool (*is_negated)(const void *handle);
  bool (*is_conjugated)(const void *handle);
  int (*make)(int64_t ndim, const int64_t *shape, const int64_t *strides, int32_t dtype,
              int32_t device_type, int32_t device, void **out);
  int (*data)(void *handle, void **out);
  int (*destroy)(void *handle);
  PyObject *(*wrap)(const void *handle);
} known;

/* at::ScalarType */
static const int32_t codes[MMCP_DTYPES] = {
    [MMC_F32] = 6,   [MMC_F64] = 7,   [MMC_C64] = 9,  [MMC_C128] = 10, [MMC_F16] = 5,
    [MMC_BF16] = 15, [MMC_I8] = 1,    [MMC_I16] = 2,  [MMC_I32] = 3,   [MMC_I64] = 4,
    [MMC_U8] = 0,    [MMC_BOOL] = 11, [MMC_U16] = -1, [MMC_U32] = -1,  [MMC_U64] = -1};

/* ---- finding the functions ------------------------------------------------------------------- */

static bool find_questions(void) {
  *(void **)&known.wants =
      mmcp_torch_function("libc10.so", "_ZNK3c1010TensorImpl13requires_gradEv");
  *(void **)&known.is_negated =
      mmcp_torch_function("libtorch_cpu.so", "_ZN2at6native6is_negERKNS_6TensorE");
  *(void **)&known.is_conjugated =
      mmcp_torch_function("libtorch_cpu.so", "_ZN2at6native7is_conjERKNS_6TensorE");
  return known.wants != NULL && known.is_negated != NULL && known.is_conjugated != NULL;
}

static bool find_makers(void) {
  *(void **)&known.make = mmcp_torch_function("libtorch_cpu.so", "aoti_torch_empty_strided");
  *(void **)&known.data = mmcp_torch_function("libtorch_cpu.so", "aoti_torch_get_data_ptr");
  *(void **)&known.destroy =
      mmcp_torch_function("libtorch_cpu.so", "aoti_torch_delete_tensor_object");
  *(void **)&known.wrap =
      mmcp_torch_function("libtorch_python.so", "_Z16THPVariable_WrapRKN2at10TensorBaseE");
  return known.make != NULL && known.data != NULL && known.destroy != NULL && known.wrap != NULL;
}

/* Says whether a tensor that is made so is what its exchange functions say: 1, 0, or -1 with an
 * exception set. */
static int makes(PyTypeObject *type, mmc_dtype dtype) {
  const int64_t shape[] = {2, 3}, strides[] = {3, 1};
  char *data;
  void *made = mmcp_tensor_make(known.exchange, dtype, 2, shape, strides, &data);
  PyObject *object = made != NULL ? mmcp_tensor_object(made) : NULL;
  if (object == NULL) return PyErr_Occurred() ? -1 : 0;
  dl_tensor seen;
  const dl_dtype expected = mmcp_dl_dtype(dtype);
  const bool is = Py_TYPE(object) == type && known.exchange->borrow(object, &seen) == 0 &&
                  (char *)seen.data + seen.byte_offset == data && seen.ndim == 2 &&
                  memcmp(seen.shape, shape, sizeof shape) == 0 &&
                  memcmp(seen.strides, strides, sizeof strides) == 0 &&
                  memcmp(&seen.dtype, &expected, sizeof expected) == 0;
  Py_DECREF(object);
  PyErr_Clear();
  return is;
}

PyObject *mmcp_learn_tensors(PyObject *module, PyObject *args) {
  PyTypeObject *types[TYPES];
  PyObject *given[GIVEN];
  unsigned long long addresses[GIVEN];
  (void)module;
  if (!PyArg_ParseTuple(args, "(O!O!)OOOO(KKKK):learn_tensors", &PyType_Type, &types[0],
                        &PyType_Type, &types[1], &given[0], &given[1], &given[2], &given[3],
                        &addresses[0], &addresses[1], &addresses[2], &addresses[3]))
    return NULL;
  if (!find_questions()) Py_RETURN_FALSE;
  for (int i = 0; i < GIVEN; i++) {
    if (Py_TYPE(given[i]) != types[0] ||
        (size_t)types[0]->tp_basicsize < sizeof(PyObject) + sizeof(char *) ||
        (uintptr_t)*mmcp_tensor_handle(given[i]) != addresses[i])
      Py_RETURN_FALSE;
    if (mmcp_tensor_wants_gradient(given[i]) != (i == 1) ||
        mmcp_tensor_is_negated(given[i]) != (i == 2) ||
        mmcp_tensor_is_conjugated(given[i]) != (i == 3))
      Py_RETURN_FALSE;
  }
  for (int t = 0; t < TYPES; t++)
    Py_XSETREF(known.types[t], (PyTypeObject *)Py_NewRef((PyObject *)types[t]));
  known.exchange = find_makers() ? mmcp_exchange_of(given[0]) : NULL;
  for (int d = 0; known.exchange != NULL && d < MMCP_DTYPES; d++)
    if (codes[d] >= 0 && makes(types[0], (mmc_dtype)d) != 1) known.exchange = NULL;
  if (PyErr_Occurred()) return NULL;
  Py_RETURN_TRUE;
}

/* ---- questions ------------------------------------------------------------------------------- */

bool mmcp_tensor_is_known(PyObject *object) {
  return Py_TYPE(object) == known.types[0] || Py_TYPE(object) == known.types[1];
}

bool mmcp_tensor_wants_gradient(PyObject *tensor) {
  return known.wants(*mmcp_tensor_handle(tensor));
}

bool mmcp_tensor_is_negated(PyObject *tensor) {
  return known.is_negated(mmcp_tensor_handle(tensor));
}

bool mmcp_tensor_is_conjugated(PyObject *tensor) {
  return known.is_conjugated(mmcp_tensor_handle(tensor));
}

/* ---- new tensors ----------------------------------------------------------------------------- */

void *mmcp_tensor_make(const dl_exchange *exchange, mmc_dtype dtype, int ndim, const int64_t *shape,
                       const int64_t *strides, char **data) {
  void *made = NULL, *address;
  if (known.exchange == NULL || exchange != known.exchange || codes[dtype] < 0) return NULL;
  double bytes = (double)mmc_dtype_size(dtype);
  for (int d = 0; d < ndim; d++) bytes *= (double)shape[d];
  if (bytes > MOST_BYTES || known.make(ndim, shape, strides, codes[dtype], 0, 0, &made) != 0)
    return NULL;
  if (known.data(made, &address) != 0) {
    known.destroy(made);
    return NULL;
  }
  *data = address;
  return made;
}

PyObject *mmcp_tensor_object(void *made) {
  PyObject *object = known.wrap(made);
  known.destroy(made);
  return object;
}

void mmcp_tensor_destroy(void *made) {
  known.destroy(made);
}

/* sparse.c: see sparse.h. */
#include "sparse.h"

#include <string.h>

enum { MOST = 64 };

/* ---- the result's memory --------------------------------------------------------------------- */

typedef struct memory {
  PyObject_HEAD PyObject *owner; /* a capsule with the mmc_sparse */
  const void *data;
  Py_ssize_t size;
} memory;

static void memory_dealloc(memory *self) {
  Py_XDECREF(self->owner);
  Py_TYPE(self)->tp_free((PyObject *)self);
}

static int memory_buffer(PyObject *self, Py_buffer *view, int flags) {
  memory *m = (memory *)self;
  static char nothing[1];
  void *data = m->size > 0 ? (void *)m->data : nothing;
  return PyBuffer_FillInfo(view, self, data, m->size, 0, flags);
}

static PyBufferProcs memory_as_buffer = {.bf_getbuffer = memory_buffer};

PyTypeObject mmcp_memory_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mmchain._mmchain.Memory",
    .tp_basicsize = sizeof(memory),
    .tp_dealloc = (destructor)memory_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_as_buffer = &memory_as_buffer,
    .tp_doc = "The memory of an array of a sparse result.",
};

static void destroy_owner(PyObject *capsule) {
  mmc_sparse_destroy(PyCapsule_GetPointer(capsule, NULL));
}

static PyObject *memory_of(PyObject *owner, const void *data, size_t size) {
  memory *m = (memory *)mmcp_memory_type.tp_alloc(&mmcp_memory_type, 0);
  if (m == NULL) return NULL;
  m->owner = Py_NewRef(owner);
  m->data = data;
  m->size = (Py_ssize_t)size;
  return (PyObject *)m;
}

/* Returns (index_bytes, indptr, indices, values), which keep the matrix. */
static PyObject *wrap_result(mmc_sparse *sparse) {
  PyObject *owner = PyCapsule_New(sparse, NULL, destroy_owner);
  if (owner == NULL) {
    mmc_sparse_destroy(sparse);
    return NULL;
  }
  const mmc_csr csr = mmc_sparse_csr(sparse);
  const size_t bytes = (size_t)csr.index_bytes, lines = (size_t)csr.rows + 1;
  const size_t count = csr.index_bytes == 4 ? (size_t)((const int32_t *)csr.indptr)[csr.rows]
                                            : (size_t)((const int64_t *)csr.indptr)[csr.rows];
  const size_t element = mmc_dtype_size(mmc_sparse_dtype(sparse));
  PyObject *result = Py_BuildValue(
      "iNNN", csr.index_bytes, memory_of(owner, csr.indptr, lines * bytes),
      memory_of(owner, csr.indices, count * bytes), memory_of(owner, csr.values, count * element));
  Py_DECREF(owner);
  return result;
}

/* ---- factors --------------------------------------------------------------------------------- */

typedef struct call {
  mmc_dtype dtype;
  Py_ssize_t n;
  Py_buffer buffers[3 * MOST + 1];
  int buffer_count;
  mmc_csr csr[MOST];
  mmc_matrix dense[MOST], out;
  int64_t count;         /* of chains: matrices of a stack, one after the other */
  bool is_stacked[MOST]; /* a dense factor has a matrix for each */
  uint32_t traits[MOST];
  mmc_sparse_factor factors[MOST];
} call;

static const Py_buffer *take_buffer(call *c, PyObject *object, int flags) {
  Py_buffer *buffer = &c->buffers[c->buffer_count];
  if (PyObject_GetBuffer(object, buffer, flags) < 0) return NULL;
  c->buffer_count++;
  return buffer;
}

static int fail_length(const char *name) {
  PyErr_Format(PyExc_ValueError, "arrays: %s of a sparse factor is too short", name);
  return -1;
}

static int read_sparse(call *c, Py_ssize_t i, PyObject *arrays[3], int index_bytes) {
  mmc_csr *x = &c->csr[i];
  const Py_buffer *buffers[3];
  for (int b = 0; b < 3; b++)
    if ((buffers[b] = take_buffer(c, arrays[b], PyBUF_SIMPLE)) == NULL) return -1;
  x->index_bytes = index_bytes;
  x->indptr = buffers[0]->buf;
  x->indices = buffers[1]->buf;
  x->values = buffers[2]->buf;
  if ((index_bytes != 4 && index_bytes != 8) || x->rows < 0 ||
      buffers[0]->len / index_bytes < x->rows + 1)
    return fail_length("indptr");
  const int64_t count = index_bytes == 4 ? ((const int32_t *)x->indptr)[x->rows]
                                         : ((const int64_t *)x->indptr)[x->rows];
  if (count > buffers[1]->len / index_bytes) return fail_length("indices");
  if (count > buffers[2]->len / (Py_ssize_t)mmc_dtype_size(c->dtype)) return fail_length("data");
  c->factors[i].csr = x;
  return 0;
}

static int read_dense(call *c, PyObject *array, int flags, int64_t count, mmc_matrix *x) {
  const Py_buffer *buffer = take_buffer(c, array, flags);
  if (buffer == NULL) return -1;
  x->data = buffer->buf;
  if (x->rows < 0 || x->cols < 0 ||
      buffer->len != count * x->rows * x->cols * (Py_ssize_t)mmc_dtype_size(c->dtype)) {
    PyErr_SetString(PyExc_ValueError, "arrays: a dense array is not as large as it is said to be");
    return -1;
  }
  return 0;
}

/* Reads what is said of a dense factor; words that tell of no solver of its own are passed over. */
static int read_words(PyObject *words, uint32_t *traits) {
  static const struct {
    const char *word;
    uint32_t trait;
  } known[] = {{"lower", MMC_LOWER},
               {"upper", MMC_UPPER},
               {"unit", MMC_UNIT},
               {"diagonal", MMC_LOWER | MMC_UPPER},
               {"spd", MMC_POSITIVE_DEFINITE},
               {"inv", MMC_INVERSE}};
  if (!PyTuple_Check(words)) {
    PyErr_SetString(PyExc_TypeError, "sparse: expected a tuple of words");
    return -1;
  }
  for (Py_ssize_t w = 0; w < PyTuple_GET_SIZE(words); w++) {
    const char *word = PyUnicode_AsUTF8(PyTuple_GET_ITEM(words, w));
    if (word == NULL) return -1;
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
      if (strcmp(word, known[k].word) == 0) *traits |= known[k].trait;
  }
  return 0;
}

/* Reads (rows, cols, transposed, words, is stacked, array) or (rows, cols, transposed, index_bytes,
 * indptr, indices, values). */
static int read_factor(call *c, Py_ssize_t i, PyObject *item) {
  long long rows, cols;
  int transposed, index_bytes;
  PyObject *arrays[3];
  if (!PyTuple_Check(item)) {
    PyErr_SetString(PyExc_TypeError, "sparse: expected tuples");
    return -1;
  }
  if (PyTuple_GET_SIZE(item) == 6) {
    int is_stacked;
    if (!PyArg_ParseTuple(item, "LLpOpO", &rows, &cols, &transposed, &arrays[1], &is_stacked,
                          &arrays[0]))
      return -1;
    c->is_stacked[i] = is_stacked;
    if (read_words(arrays[1], &c->traits[i]) < 0) return -1;
    c->dense[i] = (mmc_matrix){.rows = rows, .cols = cols, .layout = MMC_ROW_MAJOR};
    c->factors[i] = (mmc_sparse_factor){.dense = &c->dense[i]};
    c->factors[i].op = transposed ? MMC_OP_T : MMC_OP_N;
    return read_dense(c, arrays[0], PyBUF_SIMPLE, is_stacked ? c->count : 1, &c->dense[i]);
  }
  if (!PyArg_ParseTuple(item, "LLpiOOO", &rows, &cols, &transposed, &index_bytes, &arrays[0],
                        &arrays[1], &arrays[2]))
    return -1;
  c->csr[i] = (mmc_csr){.rows = rows, .cols = cols};
  c->factors[i].op = transposed ? MMC_OP_T : MMC_OP_N;
  return read_sparse(c, i, arrays, index_bytes);
}

/* ---- the call -------------------------------------------------------------------------------- */

static int append_text(void *user, const char *bytes, size_t size) {
  PyObject **text = user, *more = PyBytes_FromStringAndSize(bytes, (Py_ssize_t)size);
  if (more == NULL) return 1;
  PyBytes_ConcatAndDel(text, more);
  return *text == NULL;
}

static PyObject *explain(const mmc_sparse_chain *chain) {
  PyObject *text = PyBytes_FromStringAndSize("", 0);
  if (text == NULL) return NULL;
  mmc_status status = mmc_sparse_chain_explain(chain, MMC_TEXT, append_text, &text);
  PyObject *result = NULL;
  if (status == MMC_OK)
    result = PyUnicode_FromEncodedObject(text, "utf-8", "strict");
  else if (!PyErr_Occurred())
    mmcp_raise(status);
  Py_XDECREF(text);
  return result;
}

/* Goes from the matrices of one chain to those of the next. */
static void advance(call *c) {
  const Py_ssize_t size = (Py_ssize_t)mmc_dtype_size(c->dtype);
  for (Py_ssize_t i = 0; i < c->n; i++)
    if (c->is_stacked[i])
      c->dense[i].data = (char *)c->dense[i].data + c->dense[i].rows * c->dense[i].cols * size;
  c->out.data = (char *)c->out.data + c->out.rows * c->out.cols * size;
}

static PyObject *multiply(call *c, const mmc_sparse_options *options, bool explains) {
  mmc_sparse_chain *chain = NULL;
  mmc_sparse *sparse = NULL;
  PyThreadState *thread = mmcp_enter();
  mmc_status status =
      mmc_sparse_chain_create(mmcp.context, c->dtype, c->n, c->factors, options, &chain);
  if (status == MMC_OK) mmc_sparse_chain_progress(chain, mmcp_check_signals, &thread);
  for (int64_t t = 0; t < c->count && status == MMC_OK && !explains; t++) {
    if (t > 0) advance(c);
    status = mmc_sparse_chain_execute(chain, c->factors, options->dense_result ? &c->out : NULL,
                                      options->dense_result ? NULL : &sparse);
  }
  mmcp_leave(thread);
  PyObject *result = NULL;
  /* What stops it is the handler of a signal, which has set an exception. */
  if (status != MMC_OK) {
    if (status != MMC_E_INTERRUPTED) mmcp_raise(status);
  } else if (explains) {
    result = explain(chain);
  } else {
    result = sparse != NULL ? wrap_result(sparse) : Py_NewRef(Py_None);
  }
  mmc_sparse_chain_destroy(chain);
  return result;
}

static PyObject *read_and_multiply(call *c, PyObject *factors, PyObject *out,
                                   mmc_sparse_options *options, bool explains) {
  c->n = PyList_GET_SIZE(factors);
  if (c->n > MOST)
    return PyErr_Format(PyExc_ValueError,
                        "arrays: expected at most %d where some are sparse, got %zd", MOST, c->n);
  for (Py_ssize_t i = 0; i < c->n; i++)
    if (read_factor(c, i, PyList_GET_ITEM(factors, i)) < 0) return NULL;
  if (out != Py_None) {
    long long rows, cols;
    PyObject *array;
    if (!PyArg_ParseTuple(out, "LLO", &rows, &cols, &array)) return NULL;
    c->out = (mmc_matrix){.rows = rows, .cols = cols, .layout = MMC_ROW_MAJOR};
    if (read_dense(c, array, PyBUF_WRITABLE, c->count, &c->out) < 0) return NULL;
  }
  options->traits = c->traits;
  return multiply(c, options, explains);
}

PyObject *mmcp_sparse(PyObject *module, PyObject *args) {
  (void)module;
  const char *dtype, *objective, *device;
  PyObject *factors, *out;
  int dense, explains;
  long long count;
  if (!PyArg_ParseTuple(args, "sO!LzzOpp", &dtype, &PyList_Type, &factors, &count, &objective,
                        &device, &out, &dense, &explains))
    return NULL;
  if (count < 0 || (count != 1 && !dense))
    return PyErr_Format(PyExc_ValueError, "sparse: expected one sparse result, got %lld", count);
  call *c = PyMem_Calloc(1, sizeof *c);
  if (c == NULL) return PyErr_NoMemory();
  PyObject *result = NULL;
  c->count = count;
  mmc_sparse_options options = MMC_SPARSE_OPTIONS_INIT;
  options.objective = objective;
  options.device = device;
  options.dense_result = dense;
  if (!mmcp_dtype_of_name(dtype, &c->dtype))
    PyErr_Format(PyExc_ValueError, "dtype: expected a dtype of mmchain, got %s", dtype);
  else if (mmcp_context_ensure() == 0)
    result = read_and_multiply(c, factors, out, &options, explains);
  for (int b = 0; b < c->buffer_count; b++) PyBuffer_Release(&c->buffers[b]);
  PyMem_Free(c);
  return result;
}

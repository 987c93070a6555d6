/* scan.c: see scan.h. */
#include "scan.h"

#include <string.h>

#include "plan.h"
#include "view.h"

enum { FACTORS, INITIAL, ADDEND, OUT, OPERANDS };
enum {
  RECURRENCE = OPERANDS,
  REVERSE,
  EXCLUSIVE,
  DEVICE,
  STREAM,
  BF16,
  SEMIRING,
  EXPONENTS,
  ARGUMENTS
};

/* Elements below which keeping the GIL costs others less than a switch costs this thread. */
static const double gil_elements = 4096;

/* ---- scans that are kept --------------------------------------------------------------------- */

/* What a scan was made for. */
typedef struct key {
  mmc_dtype dtype;
  int64_t n, length, batch, columns;
  bool initial, addend, reverse, exclusive, scaled;
  mmc_semiring semiring;
  char device[64];
} key;

/* Scans of the last calls, which belong to nobody while they are here. */
enum { KEPT = 8 };
static struct kept {
  key key;
  mmc_scan *scan;
} kept[KEPT];
static int next_kept;

static bool same_key(const key *x, const key *y) {
  return x->dtype == y->dtype && x->n == y->n && x->length == y->length && x->batch == y->batch &&
         x->columns == y->columns && x->initial == y->initial && x->addend == y->addend &&
         x->semiring == y->semiring && x->scaled == y->scaled && x->reverse == y->reverse &&
         x->exclusive == y->exclusive && strcmp(x->device, y->device) == 0;
}

static mmc_status create(const key *k, mmc_scan **out) {
  mmc_scan_options options = MMC_SCAN_OPTIONS_INIT;
  options.device = k->device[0] != '\0' ? k->device : NULL;
  options.batch = k->batch;
  options.reverse = k->reverse;
  options.exclusive = k->exclusive;
  options.initial = k->initial;
  options.columns = k->columns;
  options.addend = k->addend;
  options.semiring = k->semiring;
  options.scaled = k->scaled;
  PyThreadState *thread = mmcp_enter();
  mmc_status status = mmc_scan_create(mmcp.context, k->dtype, k->n, k->length, &options, out);
  mmcp_leave(thread);
  return status;
}

/* Takes a scan that is kept, or makes one; NULL with an exception set. */
static mmc_scan *take(const key *k) {
  for (int i = 0; i < KEPT; i++)
    if (kept[i].scan != NULL && same_key(&kept[i].key, k)) {
      mmc_scan *scan = kept[i].scan;
      kept[i].scan = NULL;
      return scan;
    }
  mmc_scan *scan = NULL;
  if (mmcp_context_ensure() < 0) return NULL;
  mmc_status status = create(k, &scan);
  if (status != MMC_OK) mmcp_raise(status);
  return scan;
}

static void give_back(const key *k, mmc_scan *scan) {
  struct kept *place = &kept[next_kept];
  next_kept = (next_kept + 1) % KEPT;
  mmc_scan_destroy(place->scan);
  *place = (struct kept){.key = *k, .scan = scan};
}

void mmcp_scan_clear(bool forked) {
  for (int i = 0; i < KEPT; i++) {
    if (!forked) mmc_scan_destroy(kept[i].scan);
    kept[i].scan = NULL;
  }
}

/* ---- one call -------------------------------------------------------------------------------- */

typedef struct call {
  mmcp_view views[OPERANDS];
  bool has[OPERANDS];
  key key;
  mmc_scan_operands operands;
  bool on_stream;
  void *stream;
} call;

/* Functions below return 1; 0 when the arrays cannot be read here; -1 with an exception set. */

static int acquire(call *c, PyObject *const *args) {
  bool bf16 = args[BF16] == Py_True;
  for (int i = 0; i < OPERANDS; i++) {
    if (args[i] == Py_None) continue;
    mmcp_want want =
        i == OUT ? (bf16 ? MMCP_WRITE_BF16 : MMCP_WRITE) : (bf16 ? MMCP_READ_BF16 : MMCP_READ);
    c->has[i] = true;
    int got = mmcp_view_acquire(args[i], want, &c->views[i]);
    if (got != 1) return got;
    if (c->views[i].dtype != c->views[0].dtype || c->views[i].device != c->views[0].device)
      return 0;
  }
  return 1;
}

/* Reads the matrix of an operand, the step along its axis and the stride of its stack. */
static int read_operand(call *c, int i, mmc_matrix *matrix, int64_t *step) {
  const mmcp_view *view = &c->views[i];
  const int core = step != NULL ? 3 : 2, stacks = view->ndim - core;
  const int64_t element = (int64_t)mmc_dtype_size(view->dtype);
  int64_t strides[64];
  if (stacks != c->views[FACTORS].ndim - 3 || stacks > 60) return 0;
  if (stacks > 0 &&
      memcmp(view->shape, c->views[FACTORS].shape, (size_t)stacks * sizeof *view->shape) != 0)
    return 0;
  if (!mmcp_view_matrix(view, true, true, matrix)) return 0;
  bool has_elements = true; /* without, strides may be anything */
  for (int d = 0; d < view->ndim; d++) has_elements = has_elements && view->shape[d] > 0;
  for (int d = 0; d < stacks + (step != NULL); d++) {
    const int64_t bytes = has_elements || i == OUT ? mmcp_view_stride(view, d) : 0;
    if (view->shape[d] > 1 && bytes % element != 0) return 0;
    strides[d] = bytes / element;
  }
  if (step != NULL) *step = view->shape[stacks] > 1 ? strides[stacks] : 0;
  return mmc_matrix_stack(matrix, view->dtype, stacks, view->shape, strides, NULL);
}

/* Where a result has one step and stride only, those of no length are as long as it. Returns
 * whether results lie apart, and not between each other's lines. */
static int separate(mmc_matrix *out, int64_t *step, int64_t length) {
  const int64_t lines = out->layout == MMC_ROW_MAJOR ? out->rows : out->cols;
  const int64_t cells = out->layout == MMC_ROW_MAJOR ? out->cols : out->rows;
  const int64_t ld = out->ld != 0 ? out->ld : cells;
  if (length <= 1) *step = lines * ld;
  return lines == 0 || llabs(*step) >= (lines - 1) * ld + cells;
}

static int read_operands(call *c) {
  mmc_scan_operands *o = &c->operands;
  *o = (mmc_scan_operands)MMC_SCAN_OPERANDS_INIT;
  if (c->views[FACTORS].ndim < 3) return 0;
  int got = read_operand(c, FACTORS, &o->factors, &o->factors_step);
  if (got == 1 && c->has[INITIAL]) got = read_operand(c, INITIAL, &o->initial, NULL);
  if (got == 1 && c->has[ADDEND]) got = read_operand(c, ADDEND, &o->addend, &o->addend_step);
  if (got == 1) got = read_operand(c, OUT, &o->out, &o->out_step);
  if (got == 1) got = separate(&o->out, &o->out_step, c->views[OUT].shape[c->views[OUT].ndim - 3]);
  return got;
}

static int make_key(call *c, PyObject *const *args) {
  const mmcp_view *view = &c->views[FACTORS];
  const char *device;
  key *k = &c->key;
  int64_t batch = 1;
  for (int d = 0; d < view->ndim - 3; d++) batch *= view->shape[d];
  if (mmcp_text(args[DEVICE], "device", &device) < 0) return -1;
  *k = (key){.dtype = view->dtype,
             .n = view->shape[view->ndim - 1],
             .length = view->shape[view->ndim - 3],
             .batch = batch,
             .initial = c->has[INITIAL],
             .addend = c->has[ADDEND],
             .reverse = args[REVERSE] == Py_True,
             .exclusive = args[EXCLUSIVE] == Py_True,
             .scaled = args[EXPONENTS] != Py_None};
  k->semiring = (mmc_semiring)PyLong_AsLong(args[SEMIRING]);
  if (PyErr_Occurred()) return -1;
  if (args[RECURRENCE] == Py_True) k->columns = c->views[OUT].shape[c->views[OUT].ndim - 1];
  if (view->device != MMCP_HOST)
    snprintf(k->device, sizeof k->device, "cuda:%d", view->device);
  else if (device != NULL)
    snprintf(k->device, sizeof k->device, "%.60s", device);
  return mmcp_check_device(k->device) < 0 ? -1 : 1;
}

static int find_stream(call *c, PyObject *given) {
  const mmcp_view *view = &c->views[FACTORS];
  if (view->device == MMCP_HOST) return 1;
  if (given != Py_None) {
    c->on_stream = true;
    c->stream = PyLong_AsVoidPtr(given);
    return PyErr_Occurred() ? -1 : 1;
  }
  if (view->exchange == NULL) return 1;
  if (view->exchange->current_stream == NULL) return 0;
  c->on_stream = true;
  return view->exchange->current_stream(DL_CUDA, view->device, &c->stream) == 0 ? 1 : -1;
}

static int execute(call *c) {
  const key *k = &c->key;
  const bool is_cuda = strncmp(k->device, "cuda", 4) == 0;
  const uint64_t generation = mmcp.generation;
  mmc_scan *scan = take(k);
  if (scan == NULL) return -1;
  if (is_cuda) mmcp.cuda_used = true;
  const double elements = (double)k->n * (double)k->n * (double)k->length * (double)k->batch;
  PyThreadState *thread = is_cuda || elements > gil_elements ? mmcp_enter() : NULL;
  if (thread != NULL) mmc_scan_progress(scan, mmcp_check_signals, &thread);
  mmc_status status = c->on_stream ? mmc_scan_enqueue(scan, c->stream, &c->operands)
                                   : mmc_scan_execute(scan, &c->operands);
  mmc_scan_progress(scan, NULL, NULL);
  if (thread != NULL) mmcp_leave(thread);
  /* What stops it is the handler of a signal, which has set an exception. */
  if (status != MMC_OK && status != MMC_E_INTERRUPTED) mmcp_raise(status);
  if (generation == mmcp.generation) give_back(k, scan);
  return status == MMC_OK ? 1 : -1;
}

/* Holds the memory that exponents go to: an array of int64, one for each result. */
static int hold_exponents(call *c, PyObject *array, Py_buffer *buffer) {
  if (array == Py_None) return 1;
  if (PyObject_GetBuffer(array, buffer, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) < 0) return -1;
  c->operands.exponents = buffer->buf;
  if (buffer->len == 8 * c->key.batch * c->key.length) return 1;
  const Py_ssize_t count = c->key.batch * c->key.length;
  PyErr_Format(PyExc_ValueError, "exponents: expected room for %zd", count);
  return -1;
}

PyObject *mmcp_scan(PyObject *module, PyObject *const *args, Py_ssize_t count) {
  (void)module;
  if (count != ARGUMENTS)
    return PyErr_Format(PyExc_TypeError, "scan: expected %d arguments, got %zd", ARGUMENTS, count);
  call c;
  Py_buffer exponents = {0};
  memset(&c, 0, sizeof c);
  int done = args[FACTORS] != Py_None && args[OUT] != Py_None ? acquire(&c, args) : 0;
  if (done == 1) done = read_operands(&c);
  if (done == 1) done = make_key(&c, args);
  if (done == 1) done = hold_exponents(&c, args[EXPONENTS], &exponents);
  if (done == 1) done = find_stream(&c, args[STREAM]);
  /* States of no columns are there already; to the library no columns mean products of matrices. */
  const bool has_states = args[RECURRENCE] != Py_True || c.key.columns > 0;
  if (done == 1 && has_states) done = execute(&c);
  if (exponents.obj != NULL) PyBuffer_Release(&exponents);
  for (int i = 0; i < OPERANDS; i++)
    if (c.has[i]) mmcp_view_release(&c.views[i]);
  if (done < 0) return NULL;
  return Py_NewRef(done == 1 ? args[OUT] : Py_NotImplemented);
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* Text that grows. */
typedef struct text {
  PyObject *bytes;
} text;

static int append(void *user, const char *bytes, size_t size) {
  text *t = user;
  PyObject *more = PyBytes_FromStringAndSize(bytes, (Py_ssize_t)size);
  if (more == NULL) return 1;
  PyBytes_ConcatAndDel(&t->bytes, more);
  return t->bytes == NULL;
}

static bool read_dtype(const char *name, mmc_dtype *out) {
  for (int d = 0; d < MMCP_DTYPES; d++) {
    *out = (mmc_dtype)d;
    if (strcmp(mmc_dtype_name(*out), name) == 0) return true;
  }
  PyErr_Format(PyExc_ValueError, "dtype: expected one of mmchain's, got '%s'", name);
  return false;
}

PyObject *mmcp_scan_plan(PyObject *module, PyObject *args) {
  (void)module;
  const char *dtype, *device;
  int initial, addend, reverse, exclusive;
  long long n, length, batch, columns;
  key k = {.batch = 1};
  if (!PyArg_ParseTuple(args, "sLLLLppppz", &dtype, &n, &length, &batch, &columns, &initial,
                        &addend, &reverse, &exclusive, &device) ||
      !read_dtype(dtype, &k.dtype))
    return NULL;
  k.n = n;
  k.length = length;
  k.batch = batch;
  k.columns = columns;
  k.initial = initial;
  k.addend = addend;
  k.reverse = reverse;
  k.exclusive = exclusive;
  if (device != NULL) snprintf(k.device, sizeof k.device, "%.60s", device);
  mmc_scan *scan = take(&k);
  if (scan == NULL) return NULL;
  text t = {.bytes = PyBytes_FromStringAndSize("", 0)};
  mmc_status status = t.bytes != NULL ? mmc_scan_explain(scan, MMC_TEXT, append, &t) : MMC_E_NOMEM;
  give_back(&k, scan);
  PyObject *result = NULL;
  if (status == MMC_OK)
    result = PyUnicode_FromEncodedObject(t.bytes, "utf-8", "strict");
  else if (!PyErr_Occurred())
    mmcp_raise(status);
  Py_XDECREF(t.bytes);
  return result;
}

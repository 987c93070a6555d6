/* tune.c: see tune.h. */
#include "tune.h"

#include <math.h>
#include <string.h>

#include "cache.h"

/* One call, of which there is one at a time: two would measure each other. */
typedef struct tuning {
  mmc_chain **chains;
  Py_ssize_t count;
  mmc_chain *like;    /* a product whose dtype and ops are those of the range */
  PyObject *progress; /* a callable, or None */
  PyObject *decided;  /* list of tuples */
  PyThreadState *thread;
  uint64_t generation;
  bool cuda;
} tuning;

/* ---- callbacks ------------------------------------------------------------------------------- */

/* Between measurements nothing is at work, so that a fork may come here, a callback's as well. */
static void take_gil(tuning *t) {
  mmcp_leave(t->thread);
  if (t->cuda) mmcp.cuda_used = true;
}

/* Goes on, unless an exception is set: then 1. */
static int release_gil(tuning *t) {
  if (t->generation != mmcp.generation && !PyErr_Occurred())
    PyErr_SetString(PyExc_RuntimeError, "tune: a forked process cannot go on with it");
  int stop = PyErr_Occurred() != NULL;
  t->thread = mmcp_enter();
  return stop;
}

static void call_progress(const tuning *t, const mmc_tune_progress *now) {
  if (PyErr_CheckSignals() < 0 || t->progress == Py_None) return;
  PyObject *spent = isnan(now->spent) ? Py_NewRef(Py_None) : PyFloat_FromDouble(now->spent);
  if (spent == NULL) return;
  Py_XDECREF(PyObject_CallFunction(t->progress, "NLLs", spent, (long long)now->decided,
                                   (long long)now->count, now->unit));
}

static int progress(void *user, const mmc_tune_progress *now) {
  tuning *t = user;
  take_gil(t);
  call_progress(t, now);
  return release_gil(t);
}

static int decided(void *user, const mmc_tuned *tuned) {
  static const char letters[] = {[MMC_OP_N] = 'N', [MMC_OP_T] = 'T', [MMC_OP_H] = 'H'};
  tuning *t = user;
  const mmc_tune_product *p = &tuned->product;
  const char ops[3] = {letters[p->op_a], letters[p->op_b], '\0'};
  take_gil(t);
  PyObject *entry = Py_BuildValue("LLLsssddddd", (long long)p->m, (long long)p->k, (long long)p->n,
                                  ops, mmc_dtype_name(p->dtype), tuned->recipe, tuned->plain_s,
                                  tuned->seconds, tuned->gain, tuned->gain_low, tuned->gain_high);
  if (entry != NULL) PyList_Append(t->decided, entry);
  Py_XDECREF(entry);
  return release_gil(t);
}

/* ---- the call -------------------------------------------------------------------------------- */

/* A chain of at least two factors. */
static int parse_chain(const char *text, mmc_chain **out) {
  mmc_chain *chain;
  mmc_status status = mmc_chain_parse(mmcp.context, text, &chain);
  if (status != MMC_OK) return mmcp_raise(status);
  *out = chain;
  if (mmc_chain_length(chain) >= 2) return 0;
  PyErr_Format(PyExc_ValueError, "chains: expected at least two factors, got '%s'", text);
  mmc_chain_destroy(chain);
  *out = NULL;
  return -1;
}

static int read_chains(tuning *t, PyObject *list) {
  Py_ssize_t count = PyList_GET_SIZE(list);
  t->chains = calloc((size_t)count + 1, sizeof(mmc_chain *));
  if (t->chains == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  for (; t->count < count; t->count++) {
    const char *text;
    if (mmcp_text(PyList_GET_ITEM(list, t->count), "chains", &text) < 0) return -1;
    if (parse_chain(text != NULL ? text : "", &t->chains[t->count]) < 0) return -1;
  }
  return 0;
}

static PyObject *tune(tuning *t, mmc_tune_options *options) {
  options->chains = (const mmc_chain *const *)t->chains;
  options->chain_count = t->count;
  options->dtype = mmc_chain_dtype(t->like);
  options->op_a = mmc_chain_ops(t->like)[0];
  options->op_b = mmc_chain_ops(t->like)[1];
  options->progress = progress;
  options->decided = decided;
  options->user = t;
  t->generation = mmcp.generation;
  mmcp.tuning = true;
  mmc_tune_report report;
  t->thread = mmcp_enter();
  mmc_status status = mmc_tune(mmcp.context, options, &report);
  mmcp_leave(t->thread);
  if (t->cuda && status != MMC_E_UNSUPPORTED) mmcp.cuda_used = true;
  mmcp.tuning = false;
  mmcp_cache_clear(); /* plans made before know less, whatever ended the call */
  if (PyErr_Occurred()) return NULL;
  if (status == MMC_OK)
    return Py_BuildValue("OLO", t->decided, (long long)report.measurements,
                         report.complete ? Py_True : Py_False);
  mmcp_raise(status);
  return NULL;
}

static PyObject *read_and_tune(tuning *t, PyObject *chains, const char *like,
                               mmc_tune_options *options) {
  if (mmcp_context_ensure() < 0 || read_chains(t, chains) < 0 || parse_chain(like, &t->like) < 0)
    return NULL;
  if (options->device != NULL && mmcp_check_device(options->device) < 0) return NULL;
  t->cuda = options->device != NULL && strncmp(options->device, "cuda", 4) == 0;
  t->decided = PyList_New(0);
  return t->decided != NULL ? tune(t, options) : NULL;
}

PyObject *mmcp_tune(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *chains;
  const char *like;
  long long range;
  tuning t = {0};
  mmc_tune_options options = MMC_TUNE_OPTIONS_INIT;
  if (!PyArg_ParseTuple(args, "O!sLzzzdO:tune", &PyList_Type, &chains, &like, &range,
                        &options.device, &options.precision, &options.objective, &options.budget_s,
                        &t.progress))
    return NULL;
  options.range = range;
  if (mmcp.tuning) {
    PyErr_SetString(PyExc_RuntimeError, "tune: expected one at a time: another is under way");
    return NULL;
  }
  PyObject *result = read_and_tune(&t, chains, like, &options);
  for (Py_ssize_t c = 0; c < t.count; c++) mmc_chain_destroy(t.chains[c]);
  free(t.chains);
  mmc_chain_destroy(t.like);
  Py_XDECREF(t.decided);
  return result;
}

/* recall.c: see recall.h. */
#include "recall.h"

#include <string.h>

#include "glance.h"
#include "modes.h"

/* ---- what is kept --------------------------------------------------------------------------- */

/* What a tensor was. */
typedef struct tensor {
  PyObject *object;    /* compared only: the reference says whether it lives */
  PyObject *reference; /* a weak one */
  void *data;
  int ndim;
  bool is_conj;
  const int64_t *extents; /* its sizes, then its strides */
  mmcp_glance glance;     /* of what PyTorch has said last to be as it was */
} tensor;

typedef struct kept {
  mmcp_plan *plan; /* that executes it; NULL once it is forgotten */
  const mmcp_plan *asked_plan;
  bool for_flops, is_chain, has_out;
  int users; /* calls that execute it now, for which it must stay */
  PyTypeObject *type;
  const dl_exchange *exchange;
  bool glances; /* whether glances are taken */
  mmc_dtype dtype;
  dl_dtype element; /* the same */
  dl_device device;
  int result_ndim;
  Py_ssize_t count;     /* tensors but the result */
  int64_t n;            /* factors */
  tensor *tensors;      /* count + 1, the result last */
  mmc_matrix *matrices; /* n + 1, the result last */
} kept;

/* A place for one call. Tensors that are made anew for each call often lie where those before did:
 * where tensors died before their call came again, the next are kept later and later. */
typedef struct place {
  uint64_t came; /* the hash of the call that came last */
  unsigned wait, penalty;
  kept *call; /* NULL: nothing */
} place;

enum { PLACES = 64, LONGEST_WAIT = 1024 };
static place places[PLACES];

/* Multiplies by 2^64 / golden ratio (Knuth, The Art of Computer Programming, volume 3, section
 * 6.4), and brings the upper bits down. */
static uint64_t mix(uint64_t hash, const void *address) {
  hash = (hash ^ (uintptr_t)address) * UINT64_C(0x9E3779B97F4A7C15);
  return hash ^ hash >> 32;
}

/* Where a call is, which its ends tell. */
static place *place_of(const mmcp_asked *x) {
  uint64_t hash = mix((uint64_t)x->count << 1 | x->for_flops, x->tensors[0]);
  hash = mix(mix(hash, x->tensors[x->count - 1]), x->out);
  return &places[mix(hash, x->plan) % PLACES];
}

static uint64_t hash_of(const mmcp_asked *x) {
  uint64_t hash = mix((uint64_t)x->is_chain << 1 | x->for_flops, x->plan);
  for (Py_ssize_t i = 0; i < x->count; i++) hash = mix(hash, x->tensors[i]);
  return mix(hash, x->out);
}

static void destroy(kept *call) {
  for (Py_ssize_t i = 0; i <= call->count; i++) Py_XDECREF(call->tensors[i].reference);
  Py_DECREF(call->type);
  free(call);
}

/* Whoever executes the call now destroys it afterwards. */
static void forget(place *p) {
  kept *call = p->call;
  p->call = NULL;
  if (call == NULL) return;
  call->plan = NULL;
  if (call->users == 0) destroy(call);
}

void mmcp_recall_forget(mmcp_plan *plan) {
  for (int p = 0; plan->recalled && p < PLACES; p++)
    if (places[p].call != NULL &&
        (places[p].call->plan == plan || places[p].call->asked_plan == plan))
      forget(&places[p]);
  plan->recalled = false;
}

/* ---- keeping -------------------------------------------------------------------------------- */

/* Describes a tensor, whose extents go to *extents, which is moved on. */
static bool keep_tensor(tensor *t, PyObject *object, const mmcp_view *view, int64_t **extents) {
  if (view->strides == NULL) return false;
  const size_t ndim = (size_t)view->ndim;
  t->object = object;
  t->data = view->data;
  t->ndim = view->ndim;
  t->is_conj = view->is_conj;
  t->extents = *extents;
  memcpy(*extents, view->shape, ndim * sizeof **extents);
  memcpy(*extents + ndim, view->strides, ndim * sizeof **extents);
  *extents += 2 * ndim;
  t->reference = PyWeakref_NewRef(object, NULL);
  if (t->reference == NULL) PyErr_Clear();
  return t->reference != NULL;
}

/* Makes room for a call, with glances of so many words: NULL when there is no memory. */
static kept *make_room(const mmcp_asked *x, int64_t n, const mmcp_view *views,
                       const mmcp_view *result, size_t words, int64_t **extents) {
  size_t axes = (size_t)result->ndim;
  for (Py_ssize_t i = 0; i < x->count; i++) axes += (size_t)views[i].ndim;
  const size_t tensors = (size_t)x->count + 1, matrices = (size_t)n + 1;
  kept *call = malloc(sizeof *call + tensors * sizeof(tensor) + matrices * sizeof(mmc_matrix) +
                      tensors * words * sizeof(uint64_t) + 2 * axes * sizeof **extents);
  if (call == NULL) return NULL;
  memset(call, 0, sizeof *call + tensors * sizeof(tensor));
  call->tensors = (tensor *)(call + 1);
  call->matrices = (mmc_matrix *)(call->tensors + tensors);
  uint64_t *glances = (uint64_t *)(call->matrices + matrices);
  for (size_t t = 0; t < tensors; t++) call->tensors[t].glance.words = glances + t * words;
  *extents = (int64_t *)(glances + tensors * words);
  call->glances = words > 0;
  call->count = x->count;
  call->n = n;
  return call;
}

/* Says whether a call may be kept: its tensors are of one type, and no table of addresses, which
 * the caller owns, is among its matrices. */
static bool can_be_kept(const mmcp_asked *x, const mmcp_plan *plan, const mmc_matrix *matrices) {
  const int64_t n = mmc_chain_length(plan->chain);
  for (int64_t i = 0; i <= n; i++)
    if (matrices[i].addresses != NULL) return false;
  for (Py_ssize_t i = 1; i < x->count; i++)
    if (Py_TYPE(x->tensors[i]) != Py_TYPE(x->tensors[0])) return false;
  return x->out == NULL || Py_TYPE(x->out) == Py_TYPE(x->tensors[0]);
}

/* Says whether the call came before and need not wait. */
static bool came_again(place *p, const mmcp_asked *x) {
  const uint64_t hash = hash_of(x);
  const bool again = p->came == hash;
  p->came = hash;
  if (again && p->wait == 0) return true;
  if (again) p->wait--;
  return false;
}

void mmcp_recall_keep(const mmcp_asked *asked, mmcp_plan *plan, const mmcp_view *views,
                      const mmcp_view *result, const mmc_matrix *matrices) {
  place *p = place_of(asked);
  if (!came_again(p, asked) || !can_be_kept(asked, plan, matrices)) return;
  int64_t *extents, n = mmc_chain_length(plan->chain);
  const size_t words = mmcp_glance_words(Py_TYPE(asked->tensors[0]));
  kept *call = make_room(asked, n, views, result, words, &extents);
  if (call == NULL) return;
  call->type = (PyTypeObject *)Py_NewRef((PyObject *)Py_TYPE(asked->tensors[0]));
  bool done = true;
  for (Py_ssize_t i = 0; i < asked->count && done; i++)
    done = keep_tensor(&call->tensors[i], asked->tensors[i], &views[i], &extents);
  if (done && asked->out != NULL)
    done = keep_tensor(&call->tensors[asked->count], asked->out, result, &extents);
  if (asked->out == NULL) {
    call->tensors[asked->count].extents = extents;
    memcpy(extents, result->shape, (size_t)result->ndim * sizeof *extents);
  }
  if (!done) {
    destroy(call);
    return;
  }
  call->plan = plan;
  call->asked_plan = asked->plan;
  call->for_flops = asked->for_flops;
  call->is_chain = asked->is_chain;
  call->has_out = asked->out != NULL;
  call->result_ndim = result->ndim;
  call->exchange = views[0].exchange;
  call->dtype = views[0].dtype;
  call->element = mmcp_dl_dtype(call->dtype);
  call->device = views[0].tensor.device;
  memcpy(call->matrices, matrices, ((size_t)n + 1) * sizeof *matrices);
  plan->recalled = true;
  if (asked->plan != NULL) asked->plan->recalled = true;
  forget(p);
  p->call = call;
}

/* ---- finding -------------------------------------------------------------------------------- */

static bool is_alive(const tensor *t) {
  return ((PyWeakReference *)t->reference)->wr_object == t->object;
}

/* Says whether an object is the one that is kept, and of the type that it had, which may be
 * assigned. */
static bool is_the_one(const kept *call, const tensor *t, PyObject *object) {
  return t->object == object && is_alive(t) && Py_TYPE(object) == call->type;
}

/* The first tensor that is another than the one kept, as an index of call->tensors; -1: none is. */
static Py_ssize_t first_other(const kept *call, const mmcp_asked *x) {
  for (Py_ssize_t i = 0; i < x->count; i++)
    if (!is_the_one(call, &call->tensors[i], x->tensors[i])) return i;
  return x->out == NULL || is_the_one(call, &call->tensors[x->count], x->out) ? -1 : x->count;
}

/* The call that is kept of these tensors, or NULL. */
static kept *find(const mmcp_asked *x) {
  place *p = place_of(x);
  kept *call = p->call;
  if (call == NULL || call->count != x->count || call->asked_plan != x->plan ||
      call->for_flops != x->for_flops || call->is_chain != x->is_chain ||
      call->has_out != (x->out != NULL))
    return NULL;
  const Py_ssize_t other = first_other(call, x);
  if (other < 0) {
    p->penalty = 0;
    return call;
  }
  if (is_alive(&call->tensors[other])) return NULL;
  p->penalty = p->penalty < LONGEST_WAIT ? 2 * p->penalty + 1 : LONGEST_WAIT;
  p->wait = p->penalty;
  forget(p);
  return NULL;
}

/* Says whether a tensor lies where it did and is no more than its memory, or than its conjugate, as
 * it was, by what PyTorch says: 1, with the tensor in *now, 0, or -1 with an exception set. */
static int is_said_to_be(const kept *call, const tensor *t, PyObject *object, dl_tensor *now) {
  if (call->exchange->borrow(object, now) != 0) {
    PyErr_Clear();
    return 0;
  }
  const size_t bytes = (size_t)t->ndim * sizeof *t->extents;
  if ((char *)now->data + now->byte_offset != t->data || now->ndim != t->ndim ||
      memcmp(&now->device, &call->device, sizeof now->device) != 0 ||
      memcmp(&now->dtype, &call->element, sizeof now->dtype) != 0 || now->strides == NULL ||
      memcmp(now->shape, t->extents, bytes) != 0 ||
      memcmp(now->strides, t->extents + t->ndim, bytes) != 0)
    return 0;
  return mmcp_is_plain(object, call->dtype, t->is_conj);
}

static int is_as_it_was(const kept *call, tensor *t, PyObject *object) {
  if (call->glances && mmcp_glance_same(object, &t->glance, t->data, call->device.id)) return 1;
  dl_tensor now;
  if (call->glances) mmcp_glance_take(object, &t->glance);
  const int is = is_said_to_be(call, t, object, &now);
  if (call->glances) mmcp_glance_confirm(object, is == 1 ? &now : NULL, &t->glance);
  return is;
}

static int are_as_they_were(kept *call, const mmcp_asked *x) {
  enum { AHEAD = 6 };
  int are = 1;
  for (Py_ssize_t i = 0; i < x->count && are == 1; i++) {
    if (call->glances && i + AHEAD < x->count) mmcp_glance_ahead(&call->tensors[i + AHEAD].glance);
    are = is_as_it_was(call, &call->tensors[i], x->tensors[i]);
  }
  if (are == 1 && x->out != NULL) are = is_as_it_was(call, &call->tensors[x->count], x->out);
  if (are == 1) {
    const int theirs = mmcp_is_torchs(x->plan != NULL);
    are = theirs < 0 ? -1 : !theirs;
  }
  return are;
}

/* ---- executing ------------------------------------------------------------------------------ */

/* Makes a new result: 1; 0 when it lies otherwise than the one that was kept; -1 with an exception
 * set. */
static int make_result(const kept *call, mmcp_view *view, mmc_matrix *out) {
  int64_t shape[MMCP_MAX_NDIM];
  memcpy(shape, call->tensors[call->count].extents, (size_t)call->result_ndim * sizeof *shape);
  if (mmcp_view_allocate(call->exchange, call->dtype, call->device.id, call->result_ndim, shape,
                         view) < 0)
    return -1;
  out->data = view->data;
  return mmcp_view_is_contiguous(view);
}

/* Enqueues the run on the stream that the library of the tensors works on. */
static int enqueue(const kept *call, mmcp_plan *plan, const mmc_matrix *out) {
  void *stream;
  if (call->exchange->current_stream(DL_CUDA, call->device.id, &stream) != 0) return -1;
  mmc_run *run = mmcp_plan_take_run(plan);
  if (run == NULL) return -1;
  PyThreadState *thread = mmcp_enter();
  const mmc_status status = mmc_enqueue(run, stream, call->matrices, out);
  mmcp_leave(thread);
  mmcp_plan_give_run(plan, run);
  return status == MMC_OK ? 1 : mmcp_raise(status);
}

static int execute(const kept *call, const mmcp_asked *x, mmcp_plan *plan, PyObject **result) {
  mmc_matrix out = call->matrices[call->n];
  mmcp_view view = {.managed = NULL};
  int done = call->has_out ? 1 : make_result(call, &view, &out);
  if (done == 1) done = enqueue(call, plan, &out);
  if (done == 1) *result = call->has_out ? Py_NewRef(x->out) : mmcp_view_object(&view);
  if (!call->has_out) mmcp_view_release(&view);
  return done == 1 && *result == NULL ? -1 : done;
}

int mmcp_recall(const mmcp_asked *asked, PyObject **result) {
  kept *call = find(asked);
  if (call == NULL) return 0;
  mmcp_plan *plan = (mmcp_plan *)Py_NewRef((PyObject *)call->plan);
  call->users++;
  int done = are_as_they_were(call, asked);
  if (done == 1) done = execute(call, asked, plan, result);
  call->users--;
  if (call->users == 0 && call->plan == NULL) destroy(call);
  plan->touched = true;
  Py_DECREF(plan);
  return done;
}

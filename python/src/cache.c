/* cache.c: see cache.h. */
#include "cache.h"

#include <string.h>

/* ---- keys ----------------------------------------------------------------------------------- */

typedef struct cache_key {
  const void *objective, *device, *precision; /* interned; the plan keeps them alive */
  int64_t array_device, dtype, batch;
  uint64_t rule; /* the modulus; UINT64_MAX when checked */
} cache_key;

static PyObject *make_key(const mmcp_problem *x, const mmcp_options *options) {
  size_t dims_bytes = (size_t)(x->n + 1) * sizeof *x->dims;
  size_t same_bytes = x->same != NULL ? (size_t)x->n * sizeof *x->same : 0;
  PyObject *key =
      PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(sizeof(cache_key) + dims_bytes + same_bytes));
  if (key == NULL) return NULL;
  cache_key head = {options->objective,
                    options->device,
                    options->precision,
                    x->array_device,
                    x->dtype,
                    x->batch,
                    x->checked ? UINT64_MAX : x->modulus};
  char *at = PyBytes_AS_STRING(key);
  memcpy(at, &head, sizeof head);
  memcpy(at + sizeof head, x->dims, dims_bytes);
  if (same_bytes > 0) memcpy(at + sizeof head + dims_bytes, x->same, same_bytes);
  return key;
}

/* The plan used last, which most calls ask for again. Or NULL. */
static mmcp_plan *last;

static bool is_last(const mmcp_problem *x, const mmcp_options *options) {
  return last != NULL && last->array_device == x->array_device &&
         last->objective == options->objective && last->asked_device == options->device &&
         last->precision == options->precision && x->same == NULL && !last->repeats &&
         mmc_chain_modulus(last->chain) == x->modulus &&
         mmc_chain_checked(last->chain) == x->checked && mmc_chain_dtype(last->chain) == x->dtype &&
         mmc_chain_batch(last->chain) == x->batch && mmc_chain_length(last->chain) == x->n &&
         memcmp(mmc_chain_dims(last->chain), x->dims, (size_t)(x->n + 1) * sizeof *x->dims) == 0;
}

static void set_last(mmcp_plan *plan) {
  mmcp_plan *before = last;
  last = (mmcp_plan *)Py_NewRef((PyObject *)plan);
  Py_XDECREF(before);
}

/* ---- queues --------------------------------------------------------------------------------- */

enum { NEW_PLANS = 16, KEPT_PLANS = 496, MOST_PLANS = 512, LEFT_BITS = 10, CHEAP_FACTORS = 16 };

/* Plans in the order in which they came, `count` of them from `first` on, around the end of the
 * array. The dict of all plans holds them. */
typedef struct queue {
  mmcp_plan *plans[MOST_PLANS];
  size_t first, count;
} queue;

static queue fresh, kept;

/* Hashes of shapes that left without being used again, each at its lowest bits. */
static Py_hash_t left[1 << LEFT_BITS];

static Py_hash_t *place_of(Py_hash_t hash) {
  return &left[(size_t)hash % (sizeof left / sizeof left[0])];
}

static void push(queue *q, mmcp_plan *plan) {
  q->plans[(q->first + q->count++) % MOST_PLANS] = plan;
}

static mmcp_plan *pop(queue *q) {
  mmcp_plan *plan = q->plans[q->first];
  q->first = (q->first + 1) % MOST_PLANS;
  q->count--;
  return plan;
}

/* Takes a plan, which is in no queue, out of the dict. Returns -1 with an exception set. */
static int drop(mmcp_plan *plan) {
  Py_INCREF(plan);
  PyObject *key = plan->key;
  plan->key = NULL;
  mmcp_plan_uncache(plan);
  if (plan == last) Py_CLEAR(last);
  int status = PyDict_DelItem(mmcp.cache, key);
  Py_DECREF(key);
  Py_DECREF(plan);
  return status;
}

/* Makes room among the plans that are kept: whoever was used since it came by last stays for
 * another round. */
static int make_room_kept(void) {
  while (kept.count >= KEPT_PLANS) {
    mmcp_plan *plan = pop(&kept);
    if (!plan->touched) return drop(plan);
    plan->touched = false;
    push(&kept, plan);
  }
  return 0;
}

static int keep(mmcp_plan *plan) {
  int status = make_room_kept();
  plan->touched = false;
  push(&kept, plan);
  return status;
}

/* Makes room among the new plans. */
static int make_room_fresh(void) {
  if (fresh.count < NEW_PLANS) return 0;
  mmcp_plan *plan = pop(&fresh);
  if (plan->touched) return keep(plan);
  Py_hash_t hash = PyObject_Hash(plan->key);
  *place_of(hash) = hash;
  return drop(plan);
}

/* A plan that takes long to make, or is for another device, is kept at once. */
static bool is_cheap(const mmcp_plan *plan) {
  return !plan->asynchronous && mmc_chain_length(plan->chain) <= CHEAP_FACTORS;
}

/* Puts a plan into the cache. Returns -1 with an exception set. */
static int put(mmcp_plan *plan, PyObject *key) {
  const Py_hash_t hash = PyObject_Hash(key);
  const bool again = *place_of(hash) == hash, waits = is_cheap(plan) && !again;
  if ((waits ? make_room_fresh() : make_room_kept()) < 0) return -1;
  if (PyDict_SetItem(mmcp.cache, key, (PyObject *)plan) < 0) return -1;
  plan->key = Py_NewRef(key);
  plan->cached = true;
  push(waits ? &fresh : &kept, plan);
  return 0;
}

/* ---- the cache ------------------------------------------------------------------------------ */

PyObject *mmcp_cache_last(void) {
  return Py_NewRef(last != NULL ? (PyObject *)last : Py_None);
}

void mmcp_cache_clear(void) {
  Py_CLEAR(last);
  while (fresh.count + kept.count > 0)
    if (drop(pop(fresh.count > 0 ? &fresh : &kept)) < 0) PyErr_Clear();
  memset(left, 0, sizeof left);
}

/* Makes a plan and puts it into the cache, unless another thread has been faster: new references;
 * NULL with an exception set. */
static mmcp_plan *add(const mmcp_problem *problem, const mmcp_options *options, PyObject *key) {
  mmcp_plan *plan = mmcp_plan_for_arrays(problem, options);
  if (plan == NULL) return NULL;
  mmcp_plan *other = (mmcp_plan *)PyDict_GetItemWithError(mmcp.cache, key);
  if (other == NULL && !PyErr_Occurred() && put(plan, key) == 0) return plan;
  Py_DECREF(plan);
  if (PyErr_Occurred()) return NULL;
  return (mmcp_plan *)Py_NewRef((PyObject *)other);
}

mmcp_plan *mmcp_cache_find(const mmcp_problem *problem, const mmcp_options *options) {
  if (is_last(problem, options)) {
    last->touched = true;
    return (mmcp_plan *)Py_NewRef((PyObject *)last);
  }
  PyObject *key = make_key(problem, options);
  if (key == NULL) return NULL;
  mmcp_plan *plan = (mmcp_plan *)PyDict_GetItemWithError(mmcp.cache, key);
  if (plan != NULL) {
    plan->touched = true;
    Py_INCREF(plan);
  } else if (!PyErr_Occurred()) {
    plan = add(problem, options, key);
  }
  Py_DECREF(key);
  if (plan != NULL) set_last(plan);
  return plan;
}

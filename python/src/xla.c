/* xla.c: multiplies a chain for XLA, as a foreign function on the CPU.
 *
 * XLA calls it from its own threads, without the GIL and at the same time, so it has its plans
 * apart from those of plan.c, under a lock of its own. A plan is found by what the call says:
 * dtype, dims, batch, which factors are the same memory, and the number of the options, the only
 * attribute. */
#include "xla.h"

#include <mmchain.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NDIM = 64, MOST_ENTRIES = 256 };

static const char *const objectives[] = {"time", "energy", "flops"};
static const char *const precisions[] = {"native", "faithful", "fast"};

/* A plan and its idle runs. */
typedef struct entry {
  int64_t *key;
  size_t key_length;
  mmc_chain *chain;
  mmc_plan *plan;
  mmc_run **idle;
  size_t idle_count, idle_capacity;
  int64_t users; /* calls that use the plan now */
  struct entry *next;
} entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mmc_context *context;
static entry *entries; /* the plan that was used last comes first */
static int32_t version_minor;

/* ---- plans ----------------------------------------------------------------------------------- */

static void destroy_entry(entry *x) {
  for (size_t i = 0; i < x->idle_count; i++) mmc_run_destroy(x->idle[i]);
  mmc_plan_destroy(x->plan);
  mmc_chain_destroy(x->chain);
  free(x->idle);
  free(x->key);
  free(x);
}

/* Forgets the plans that were used longest ago, but for those in use. */
static void forget_old(void) {
  int count = 0;
  for (entry **at = &entries; *at != NULL;) {
    entry *x = *at;
    if (++count <= MOST_ENTRIES || x->users > 0) {
      at = &x->next;
      continue;
    }
    *at = x->next;
    destroy_entry(x);
  }
}

/* What a call multiplies: the key is dtype, n, batch, options, n + 1 dims and n numbers of the
 * first factor that is the same. */
enum { KEY_DTYPE, KEY_N, KEY_BATCH, KEY_OPTIONS, KEY_DIMS };

static mmc_status make_entry(const int64_t *key, size_t length, entry **out) {
  entry *x = calloc(1, sizeof *x);
  if (x != NULL) x->key = malloc(length * sizeof *key);
  if (x == NULL || x->key == NULL) {
    free(x);
    return MMC_E_NOMEM;
  }
  memcpy(x->key, key, length * sizeof *key);
  x->key_length = length;
  const int64_t n = key[KEY_N];
  const int64_t *dims = key + KEY_DIMS, *same = dims + n + 1;
  mmc_chain_options chain_options = MMC_CHAIN_OPTIONS_INIT;
  chain_options.batch = key[KEY_BATCH];
  for (int64_t i = 0; i < n; i++)
    if (same[i] != i) chain_options.same = same;
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.objective = objectives[key[KEY_OPTIONS] / 3];
  options.precision = precisions[key[KEY_OPTIONS] % 3];
  options.device = "cpu";
  mmc_status status = MMC_OK;
  if (context == NULL) status = mmc_context_create(NULL, &context);
  if (status == MMC_OK)
    status = mmc_chain_create_batch(context, (mmc_dtype)key[KEY_DTYPE], n, dims, NULL,
                                    &chain_options, &x->chain);
  if (status == MMC_OK) status = mmc_plan_create(context, x->chain, &options, &x->plan);
  if (status == MMC_OK)
    *out = x;
  else
    destroy_entry(x);
  return status;
}

/* Finds or makes the plan, and takes a run of it: an idle one, or a new one. */
static mmc_status take(const int64_t *key, size_t length, entry **out, mmc_run **run) {
  mmc_status status = MMC_OK;
  *run = NULL;
  pthread_mutex_lock(&lock);
  entry **at = &entries;
  while (*at != NULL &&
         ((*at)->key_length != length || memcmp((*at)->key, key, length * sizeof *key) != 0))
    at = &(*at)->next;
  entry *x = *at;
  if (x != NULL)
    *at = x->next;
  else
    status = make_entry(key, length, &x);
  if (status == MMC_OK) {
    x->next = entries;
    entries = x;
    x->users++;
    if (x->idle_count > 0) *run = x->idle[--x->idle_count];
    forget_old();
  }
  pthread_mutex_unlock(&lock);
  if (status == MMC_OK && *run == NULL) status = mmc_run_create(x->plan, run);
  *out = x;
  return status;
}

static void give(entry *x, mmc_run *run) {
  pthread_mutex_lock(&lock);
  x->users--;
  if (run != NULL && x->idle_count == x->idle_capacity) {
    size_t capacity = 2 * x->idle_capacity + 1;
    mmc_run **idle = realloc(x->idle, capacity * sizeof *idle);
    if (idle != NULL) {
      x->idle = idle;
      x->idle_capacity = capacity;
    }
  }
  bool kept = run != NULL && x->idle_count < x->idle_capacity;
  if (kept) x->idle[x->idle_count++] = run;
  pthread_mutex_unlock(&lock);
  if (!kept) mmc_run_destroy(run);
}

/* ---- a call ---------------------------------------------------------------------------------- */

static int dtype_of(int32_t xla) {
  switch (xla) {
    case XLA_F16:
      return MMC_F16;
    case XLA_BF16:
      return MMC_BF16;
    case XLA_F32:
      return MMC_F32;
    case XLA_F64:
      return MMC_F64;
    case XLA_C64:
      return MMC_C64;
    case XLA_C128:
      return MMC_C128;
    default:
      return -1;
  }
}

static void *fail(const xla_call *call, int32_t code, const char *message) {
  xla_error_arguments arguments = {.size = sizeof arguments, .message = message, .code = code};
  return call->api->error_create(&arguments);
}

/* Makes a matrix of a buffer, which is a stack of ndim axes where the result has them. Returns
 * false without memory for a table of addresses. */
static bool read_matrix(const xla_buffer *buffer, const xla_buffer *result, mmc_dtype dtype,
                        int64_t batch, mmc_matrix *out) {
  int ndim = (int)result->rank - 2, own = (int)buffer->rank - 2;
  const int64_t *core = buffer->dims + own;
  *out =
      (mmc_matrix){.data = buffer->data, .rows = core[0], .cols = core[1], .layout = MMC_ROW_MAJOR};
  if (ndim == 0) return true;
  int64_t strides[MAX_NDIM] = {0}, step = core[0] * core[1];
  for (int d = own - 1; d >= 0; d--) {
    strides[ndim - own + d] = buffer->dims[d] == 1 ? 0 : step;
    step *= buffer->dims[d];
  }
  if (mmc_matrix_stack(out, dtype, ndim, result->dims, strides, NULL)) return true;
  void **addresses = malloc((size_t)(batch > 0 ? batch : 1) * sizeof *addresses);
  return addresses != NULL && mmc_matrix_stack(out, dtype, ndim, result->dims, strides, addresses);
}

/* The number of the options, which is the only attribute; -1 for any other. */
static int64_t read_options(const xla_attributes *attributes) {
  if (attributes->count != 1 || attributes->types[0] != XLA_SCALAR) return -1;
  const xla_scalar *scalar = attributes->values[0];
  int64_t number = *(const int64_t *)scalar->value;
  return number >= 0 && number < 9 ? number : -1;
}

/* Says whether the axes of a stack are those of the result, or have one matrix for all. */
static bool broadcasts(const xla_buffer *x, const xla_buffer *result) {
  const int64_t *axes = result->dims + (result->rank - x->rank);
  for (int64_t d = 0; d < x->rank - 2; d++)
    if (x->dims[d] != 1 && x->dims[d] != axes[d]) return false;
  return true;
}

static bool is_readable(const xla_call *call) {
  const xla_buffers *a = &call->arguments;
  if (call->results.count != 1 || a->count < 1) return false;
  const xla_buffer *result = call->results.buffers[0];
  if (result->rank < 2 || result->rank > MAX_NDIM || dtype_of(result->dtype) < 0) return false;
  for (int64_t i = 0; i < a->count; i++) {
    const xla_buffer *x = a->buffers[i];
    if (x->rank < 2 || x->rank > result->rank || x->dtype != result->dtype) return false;
    if (!broadcasts(x, result)) return false;
    if (i > 0 && x->dims[x->rank - 2] != a->buffers[i - 1]->dims[a->buffers[i - 1]->rank - 1])
      return false;
  }
  const xla_buffer *first = a->buffers[0], *last = a->buffers[a->count - 1];
  return result->dims[result->rank - 2] == first->dims[first->rank - 2] &&
         result->dims[result->rank - 1] == last->dims[last->rank - 1];
}

/* Fills the key and the matrices, of which the last is the result. */
static mmc_status read_call(const xla_call *call, int64_t *key, mmc_matrix *matrices) {
  const xla_buffers *a = &call->arguments;
  const xla_buffer *result = call->results.buffers[0];
  const int64_t n = a->count;
  int64_t *dims = key + KEY_DIMS, *same = dims + n + 1;
  const mmc_dtype dtype = (mmc_dtype)dtype_of(result->dtype);
  key[KEY_DTYPE] = dtype;
  key[KEY_N] = n;
  key[KEY_BATCH] = 1;
  for (int64_t d = 0; d < result->rank - 2; d++) key[KEY_BATCH] *= result->dims[d];
  for (int64_t i = 0; i <= n; i++) {
    const xla_buffer *x = i < n ? a->buffers[i] : result;
    if (i < n) dims[i] = x->dims[x->rank - 2];
    if (i == n - 1) dims[n] = x->dims[x->rank - 1];
    if (!read_matrix(x, result, dtype, key[KEY_BATCH], &matrices[i])) return MMC_E_NOMEM;
  }
  for (int64_t i = 0; i < n; i++) {
    same[i] = i;
    for (int64_t j = 0; j < i && same[i] == i; j++)
      if (same[j] == j && matrices[j].data == matrices[i].data && matrices[j].data != NULL &&
          matrices[j].rows == matrices[i].rows && matrices[j].cols == matrices[i].cols &&
          a->buffers[j]->rank == a->buffers[i]->rank && matrices[j].addresses == NULL &&
          matrices[i].addresses == NULL && matrices[j].stride == matrices[i].stride)
        same[i] = j;
  }
  return MMC_OK;
}

static void *multiply_matrices(const xla_call *call, int64_t *key, size_t length,
                               mmc_matrix *matrices) {
  const int64_t n = call->arguments.count;
  char message[512] = "";
  entry *x = NULL;
  mmc_run *run = NULL;
  mmc_status status = read_call(call, key, matrices);
  if (status == MMC_OK) status = take(key, length, &x, &run);
  if (status == MMC_OK) status = mmc_execute(run, matrices, &matrices[n]);
  if (status != MMC_OK) mmc_context_message(context, message, sizeof message);
  if (x != NULL) give(x, run);
  for (int64_t i = 0; i <= n; i++) free((void *)matrices[i].addresses);
  if (status == MMC_OK) return NULL;
  return fail(call, status == MMC_E_NOMEM ? XLA_RESOURCE_EXHAUSTED : XLA_INTERNAL,
              message[0] != '\0' ? message : mmc_status_string(status));
}

static void *chain(xla_call *call) {
  for (xla_extension *e = call->extensions; e != NULL; e = e->next) {
    if (e->type != XLA_METADATA) continue;
    xla_version *version = &((xla_metadata_extension *)e)->metadata->version;
    version->major = 0;
    version->minor = version_minor;
    return NULL;
  }
  if (call->stage != XLA_EXECUTE) return NULL;
  int64_t options = read_options(&call->attributes);
  if (options < 0 || !is_readable(call))
    return fail(call, XLA_INTERNAL, "mmchain: expected a chain of matrices");
  const size_t n = (size_t)call->arguments.count, length = KEY_DIMS + 2 * n + 1;
  int64_t *key = calloc(length, sizeof *key);
  mmc_matrix *matrices = calloc(n + 1, sizeof *matrices);
  void *error;
  if (key != NULL && matrices != NULL) {
    key[KEY_OPTIONS] = options;
    error = multiply_matrices(call, key, length, matrices);
  } else {
    error = fail(call, XLA_RESOURCE_EXHAUSTED, "mmchain: out of memory");
  }
  free(key);
  free(matrices);
  return error;
}

PyObject *mmcp_xla_target(PyObject *module, PyObject *minor) {
  (void)module;
  long number = PyLong_AsLong(minor);
  if (number == -1 && PyErr_Occurred()) return NULL;
  version_minor = (int32_t)number;
  void *(*function)(xla_call *) = chain;
  void *address;
  memcpy(&address, &function, sizeof address); /* ISO C has no cast from one to the other */
  return PyCapsule_New(address, "xla._CUSTOM_CALL_TARGET", NULL);
}

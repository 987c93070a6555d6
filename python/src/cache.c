/* cache.c: see cache.h. */
#include "cache.h"

#include <string.h>

#include "view.h"

/* ---- the table ------------------------------------------------------------------------------ */

/* Multiplies by 2^64 / golden ratio (Knuth, The Art of Computer Programming, volume 3, section
 * 6.4), and brings the upper bits down. */
static uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
  return hash ^ hash >> 32;
}

/* Options are interned, and the plan keeps them alive, so that their addresses tell them apart. A
 * problem has been seen however its factors lay, so that ops say nothing here. */
static uint64_t hash_of(const mmcp_problem *x, const mmcp_options *options) {
  uint64_t hash = mix(0, (uintptr_t)options->objective);
  hash = mix(hash, (uintptr_t)options->device);
  hash = mix(hash, (uintptr_t)options->precision);
  hash = mix(hash, (uint64_t)x->dtype << 32 | (uint32_t)x->array_device);
  hash = mix(hash, x->checked ? UINT64_MAX : x->modulus);
  hash = mix(hash, (uint64_t)x->semiring << 1 | x->scaled);
  hash = mix(hash, (uint64_t)x->batch);
  for (int64_t i = 0; i <= x->n; i++) hash = mix(hash, (uint64_t)x->dims[i]);
  for (int64_t i = 0; x->same != NULL && i < x->n; i++) hash = mix(hash, (uint64_t)x->same[i]);
  for (int64_t i = 0; x->shared != NULL && i < x->n; i++) hash = mix(hash, x->shared[i]);
  return hash;
}

static bool has_same(const mmcp_plan *plan, const mmcp_problem *x) {
  if (plan->repeats != (x->same != NULL)) return false;
  for (int64_t i = 0; plan->repeats && i < x->n; i++)
    if (mmc_chain_same(plan->chain, i) != x->same[i]) return false;
  return true;
}

static bool is_for(const mmcp_plan *plan, const mmcp_problem *x, const mmcp_options *options) {
  return plan->array_device == x->array_device && plan->objective == options->objective &&
         plan->asked_device == options->device && plan->precision == options->precision &&
         mmc_chain_modulus(plan->chain) == x->modulus &&
         mmc_chain_checked(plan->chain) == x->checked &&
         mmc_chain_semiring(plan->chain) == (x->dtype == MMC_BOOL ? MMC_OR_AND : x->semiring) &&
         plan->scaled == x->scaled && mmc_chain_dtype(plan->chain) == x->dtype &&
         mmc_chain_batch(plan->chain) == x->batch && mmc_chain_length(plan->chain) == x->n &&
         memcmp(mmc_chain_dims(plan->chain), x->dims, (size_t)(x->n + 1) * sizeof *x->dims) == 0 &&
         has_same(plan, x) && mmcp_has_ops(plan, x->ops) && mmcp_has_shared(plan, x->shared);
}

enum { NEW_PLANS = 16, KEPT_PLANS = 496, MOST_PLANS = 512, PLACES = 2 * MOST_PLANS };

/* Every plan is at the place that its hash says, or behind it with no gap in between. The table
 * holds a reference to each. */
static mmcp_plan *table[PLACES];
static size_t count;

static size_t place_of(uint64_t hash) {
  return (size_t)(hash % PLACES);
}

/* Where the plan is, or is to be. */
static mmcp_plan **seek(uint64_t hash, const mmcp_problem *x, const mmcp_options *options) {
  size_t p = place_of(hash);
  while (table[p] != NULL && !(table[p]->hash == hash && is_for(table[p], x, options)))
    p = (p + 1) % PLACES;
  return &table[p];
}

/* Takes a plan out, and moves those behind it that would not be found any more. */
static void take_out(const mmcp_plan *plan) {
  size_t gap = place_of(plan->hash);
  while (table[gap] != plan) gap = (gap + 1) % PLACES;
  for (size_t p = (gap + 1) % PLACES; table[p] != NULL; p = (p + 1) % PLACES) {
    const size_t home = place_of(table[p]->hash);
    if ((p + PLACES - home) % PLACES < (p + PLACES - gap) % PLACES) continue;
    table[gap] = table[p];
    gap = p;
  }
  table[gap] = NULL;
  count--;
}

size_t mmcp_cache_count(void) {
  return count;
}

void mmcp_cache_each(void (*visit)(mmcp_plan *plan, const void *user), const void *user) {
  for (size_t p = 0; p < PLACES; p++)
    if (table[p] != NULL) visit(table[p], user);
}

/* The plan used last, which most calls ask for again, or NULL; and whether it was used as rows. */
static mmcp_plan *last;
static bool last_as_rows;

static void set_last(mmcp_plan *plan) {
  mmcp_plan *before = last;
  last = (mmcp_plan *)Py_NewRef((PyObject *)plan);
  Py_XDECREF(before);
}

/* ---- queues --------------------------------------------------------------------------------- */

/* A plan takes as long to make as some six chains without one take more than with it. */
enum { SEEN_BITS = 10, CHEAP_FACTORS = 16, AT_ONCE_MOST = 3 };

/* Plans in the order in which they came, `count` of them from `first` on, around the end of the
 * array. */
typedef struct queue {
  mmcp_plan *plans[MOST_PLANS];
  size_t first, count;
} queue;

static queue fresh, kept;

/* Shapes that were multiplied at once, or whose plans left without being used again, and how many
 * times; each is one of the two at the lowest bits of its hash. */
typedef struct sight {
  uint64_t hash;
  int times;
} sight;

static sight seen[1 << SEEN_BITS][2];

static sight *sight_of(uint64_t hash) {
  sight *pair = seen[hash % (sizeof seen / sizeof seen[0])];
  return pair[0].hash == hash ? &pair[0] : pair[1].hash == hash ? &pair[1] : NULL;
}

static int times_seen(uint64_t hash) {
  const sight *found = sight_of(hash);
  return found != NULL ? found->times : 0;
}

/* The one that was seen less often gives its place to a new one, and the other grows older. */
static void see(uint64_t hash) {
  sight *found = sight_of(hash), *pair = seen[hash % (sizeof seen / sizeof seen[0])];
  if (found == NULL) {
    const int least = pair[0].times <= pair[1].times ? 0 : 1;
    found = &pair[least];
    *found = (sight){hash, 0};
    if (pair[1 - least].times > 0) pair[1 - least].times--;
  }
  if (found->times < AT_ONCE_MOST) found->times++;
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

/* Forgets a plan, which is in no queue. */
static void drop(mmcp_plan *plan) {
  take_out(plan);
  mmcp_plan_uncache(plan);
  if (plan == last) Py_CLEAR(last);
  Py_DECREF(plan);
}

/* Makes room among the plans that are kept: whoever was used since it came by last stays for
 * another round. */
static void make_room_kept(void) {
  while (kept.count >= KEPT_PLANS) {
    mmcp_plan *plan = pop(&kept);
    if (!plan->touched) {
      drop(plan);
      return;
    }
    plan->touched = false;
    push(&kept, plan);
  }
}

static void keep(mmcp_plan *plan) {
  make_room_kept();
  plan->touched = false;
  push(&kept, plan);
}

/* Makes room among the new plans. */
static void make_room_fresh(void) {
  if (fresh.count < NEW_PLANS) return;
  mmcp_plan *plan = pop(&fresh);
  if (plan->touched) {
    keep(plan);
    return;
  }
  see(plan->hash);
  drop(plan);
}

/* A plan that takes long to make, or is for another device, is kept at once. */
static bool is_cheap(const mmcp_plan *plan) {
  return !plan->asynchronous && mmc_chain_length(plan->chain) <= CHEAP_FACTORS;
}

/* Puts a plan into the cache. */
static void put(mmcp_plan *plan, const mmcp_problem *x, const mmcp_options *options) {
  const bool waits = is_cheap(plan) && times_seen(plan->hash) == 0;
  if (waits)
    make_room_fresh();
  else
    make_room_kept();
  *seek(plan->hash, x, options) = (mmcp_plan *)Py_NewRef((PyObject *)plan);
  count++;
  plan->cached = true;
  push(waits ? &fresh : &kept, plan);
}

/* ---- the cache ------------------------------------------------------------------------------ */

PyObject *mmcp_cache_last(void) {
  mmcp_plan *plan = last != NULL && last_as_rows ? last->as_rows : last;
  return Py_NewRef(plan != NULL ? (PyObject *)plan : Py_None);
}

void mmcp_cache_used_as_rows(void) {
  last_as_rows = true;
}

void mmcp_cache_clear(void) {
  Py_CLEAR(last);
  while (fresh.count + kept.count > 0) drop(pop(fresh.count > 0 ? &fresh : &kept));
  memset(seen, 0, sizeof seen);
}

/* Makes a plan and puts it into the cache, unless another thread has been faster: new references;
 * NULL with an exception set. */
static mmcp_plan *add(const mmcp_problem *problem, const mmcp_options *options, uint64_t hash) {
  mmcp_plan *plan = mmcp_plan_for_arrays(problem, options);
  if (plan == NULL) return NULL;
  mmcp_plan *other = *seek(hash, problem, options);
  if (other != NULL) {
    Py_DECREF(plan);
    return (mmcp_plan *)Py_NewRef((PyObject *)other);
  }
  plan->hash = hash;
  put(plan, problem, options);
  return plan;
}

/* Says whether mmc_multiply() is likely to take neither plan nor run: see src/planner/little.h. */
static bool is_little(const mmcp_problem *x, const mmcp_options *options) {
  enum {
    MOST_FACTORS = 16,
    LEAST_REPEATS = 4,
    MOST_SIDE = 1 << 20,
    MOST_MULTIPLICATIONS = 1 << 27,
    MOST_IN_BATCH = 1 << 20
  };
  if (x->array_device != MMCP_HOST || x->n < 2 || x->n > MOST_FACTORS || x->batch < 1 ||
      (x->same != NULL && x->n >= LEAST_REPEATS) || x->shared != NULL ||
      options->precision != mmcp.native ||
      (options->objective != mmcp.time && options->objective != mmcp.flops) ||
      (options->device != Py_None && options->device != mmcp.cpu))
    return false;
  if (x->scaled || x->checked || x->modulus != 0 || x->semiring != MMC_PLUS_TIMES ||
      x->dtype == MMC_BOOL)
    return false;
  const int64_t *dims = x->dims;
  double multiplications = 0;
  for (int64_t i = 0; i <= x->n; i++) {
    if (dims[i] < 1 || dims[i] > MOST_SIDE) return false;
    if (i > 1) multiplications += (double)dims[0] * (double)dims[i - 1] * (double)dims[i];
  }
  if (x->most_at_once > 0 && multiplications > x->most_at_once) return false;
  return x->batch == 1 ? multiplications <= MOST_MULTIPLICATIONS
                       : multiplications * (double)x->batch <= MOST_IN_BATCH;
}

int mmcp_cache_find(const mmcp_problem *problem, const mmcp_options *options, mmcp_plan **out) {
  mmcp_plan *plan = last;
  last_as_rows = false;
  if (plan == NULL || !is_for(plan, problem, options)) {
    const uint64_t hash = hash_of(problem, options);
    plan = *seek(hash, problem, options);
    if (plan == NULL && (problem->may_be_torchs || is_little(problem, options)) &&
        times_seen(hash) < AT_ONCE_MOST) {
      see(hash);
      *out = NULL;
      return 0;
    }
    if (plan == NULL) {
      plan = add(problem, options, hash);
      if (plan == NULL) return -1;
      set_last(plan);
      *out = plan;
      return 0;
    }
    set_last(plan);
  }
  plan->touched = true;
  *out = (mmcp_plan *)Py_NewRef((PyObject *)plan);
  return 0;
}

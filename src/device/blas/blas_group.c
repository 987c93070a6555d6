/* blas_group.c: chains of small factors, each of which one thread computes from its factors to its
 * result.
 *
 * A thread takes blocks of chains of the batch, of which it computes one product after the other,
 * or groups of products of a single long chain (phases.h). Its intermediates have places in memory
 * of its own, which are used again as soon as the result in them has been read: they never leave
 * its cache. What a group hands to another has a place that all threads see.
 *
 * What is the same for all chains of a batch, as its factors are, is computed for the first one
 * that a thread takes of a chunk, and keeps its place.
 *
 * Chains of small factors wait for memory: of a batch, the factors of the next chain are asked for
 * while one is multiplied. */
#include "device/blas/blas_group.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/dtype.h"
#include "device/blas/blas.h"
#include "device/blas/ordered.h"
#include "device/blas/phases.h"
#include "device/blas/small.h"
#include "device/blas/threads.h"
#include "device/blas/ways.h"
#include "device/blas/workers.h"
#include "device/host.h"
#include "device/ref/ref.h"

/* The memory in which a matrix lies; each thread knows the addresses where these begin. Factor f is
 * FACTORS + f. */
enum { OWN, SHARED, RESULT, FACTORS };

/* The bytes of a line of the cache, and of the largest factor that is asked for ahead. */
enum { LINE_BYTES = 64, AHEAD_BYTES = 1024 };

/* A block has at most so many chains, and intermediates of so many bytes, which with the factors
 * leave room in the nearest cache. */
enum { MOST_BLOCK = 32, BLOCK_BYTES = 8192 };

typedef struct place {
  int32_t base;
  int64_t offset; /* bytes from the beginning of the base */
  int64_t step;   /* bytes from one chain's matrix to the next one's, in a block */
  bool is_common; /* one matrix for all chains */
} place;

typedef struct product {
  mmci_gemm gemm;
  place a, b, c;
  mmci_small small; /* used where it can be; it packs at the beginning of OWN */
  mmci_blas_fn multiply;
  mmci_several several; /* used where it is of a kind */
  bool is_large;        /* whether threads of a CBLAS may compute it */
  bool settles;         /* what small computes is settled, where it is the result, as it is
                           reproducible */
} product;

struct mmci_group_kernel {
  size_t element;
  int64_t batch;
  int32_t n, count;
  mmci_form *forms;
  size_t *ahead_bytes; /* bytes of each factor of the next chain that are prefetched */
  int64_t c_stride;
  bool c_gathered;
  product *products; /* products, in the order of the groups */
  mmci_phases groups;
  int threads;
  bool calls_blas;    /* OpenBLAS must not have threads of its own beside these */
  int64_t chunk;      /* chains that a thread takes at a time */
  int64_t block;      /* chains of which it computes one product after the other */
  int crowd;          /* threads that want processors */
  mmci_ways *ways;    /* what was learned in crowds; NULL where a job is too short */
  char *shared;       /* holds the results of groups */
  char *arenas;       /* each thread's arena: the addresses, then OWN */
  size_t arena_bytes; /* bytes of one thread's arena */
};

static bool is_half(mmc_dtype dtype) {
  return dtype == MMC_F16 || dtype == MMC_BF16;
}

/* ---- what it can do -------------------------------------------------------------------------- */

bool mmci_blas_group_supports(const mmci_device *device, const mmci_group *group) {
  (void)device;
  if (group->variant != 0 || group->rule.semiring != MMC_PLUS_TIMES) return false;
  for (int32_t s = 0; s < group->count; s++) {
    const mmci_group_product *x = &group->products[s];
    if (x->m > MMCI_GROUP_SIDE || x->k > MMCI_GROUP_SIDE || x->n > MMCI_GROUP_SIDE) return false;
    if (!mmci_dtype_is_integer(group->dtype)) continue;
    const mmci_gemm gemm = {.m = x->m, .k = x->k, .n = x->n, .rule = group->rule};
    if (!mmci_integer_is_direct(&gemm)) return false;
  }
  return group->count > 0 && mmci_group_is_chains(group);
}

const char *mmci_blas_group_name(const mmci_device *device, const mmci_group *group) {
  mmci_gemm gemm = {.dtype = group->dtype, .m = 8, .k = 8, .n = 8, .ldc = 8};
  (void)device;
  if (mmci_precision_is_reproducible(group->precision) && !mmci_dtype_is_integer(group->dtype))
    return "in order";
  if (is_half(group->dtype)) return "widened";
  if (mmci_dtype_is_integer(group->dtype)) return "loops";
  return mmci_small_can(&gemm) ? "libxsmm" : "gemm";
}

/* ---- preparing ------------------------------------------------------------------------------- */

static size_t bytes_of(const mmci_group_kernel *kernel, const mmci_group_product *x) {
  return mmci_aligned_size((size_t)kernel->block * (size_t)x->m * (size_t)x->n * kernel->element);
}

static void choose_calls(const mmci_group *group, int32_t s, product *out) {
  const mmci_group_product *x = &group->products[s];
  mmci_form tight_left = {.ld = x->k > 0 ? x->k : 1}, tight_right = {.ld = x->n > 0 ? x->n : 1};
  bool last = s == group->count - 1;
  out->gemm = (mmci_gemm){.dtype = group->dtype,
                          .precision = group->precision,
                          .turned = group->turned,
                          .rule = group->rule,
                          .m = x->m,
                          .k = x->k,
                          .n = x->n,
                          .a = x->left < group->n ? group->forms[x->left] : tight_left,
                          .b = x->right < group->n ? group->forms[x->right] : tight_right,
                          .ldc = last ? group->ldc : tight_right.ld};
  if (mmci_blas_is_small(&out->gemm)) out->small = mmci_small_make(&out->gemm);
  out->settles = mmci_blas_is_reproducible(&out->gemm);
  out->is_large = mmci_blas_has_threads(&out->gemm);
  out->multiply = mmci_blas_call(&out->gemm);
  out->several.kind = mmci_blas_several(&out->gemm);
  if (out->multiply == NULL) out->multiply = mmci_ref_gemm;
}

/* Says whether several threads may compute this product at a time, each its own, and are to. */
static bool is_shared(const product *x, int64_t batch) {
  return x->small.can || x->several.kind != MMCI_ONE_BY_ONE || x->multiply == mmci_ref_gemm ||
         x->multiply == mmci_ordered_small || mmci_blas_is_serial(&x->gemm) ||
         mmci_blas_is_shared(&x->gemm, batch);
}

/* State that lives while places are given to the results. */
typedef struct places {
  const mmci_group *group;
  place *results;
  int32_t *last_readers; /* in the order of execution; -1 when nobody reads it */
  int32_t *idle;         /* own places that are free; the last one is used first */
  int32_t idle_count, own_count;
  size_t own_bytes, room_bytes, shared_bytes; /* own_bytes are those of each thread */
} places;

static place place_of(const mmci_group_kernel *kernel, const places *p, int32_t number) {
  if (number >= p->group->n) return p->results[number - p->group->n];
  const int64_t element = (int64_t)kernel->element;
  const mmci_form *form = &p->group->forms[number];
  return (place){.base = FACTORS + number,
                 .step = form->stride * element,
                 .is_common = kernel->batch > 1 && form->stride == 0 && !form->gathered};
}

/* Returns the bytes from one chain's result of a product to the next one's. */
static int64_t step_of(const mmci_group_kernel *kernel, const mmci_group *group, int32_t s) {
  const mmci_group_product *x = &group->products[s];
  return (s == group->count - 1 ? group->c_stride : x->m * x->n) * (int64_t)kernel->element;
}

static void let_go_value(places *p, int32_t number, int32_t reader) {
  int32_t s = number - p->group->n;
  if (s >= 0 && p->results[s].base == OWN && !p->results[s].is_common &&
      p->last_readers[s] == reader) {
    p->idle[p->idle_count++] = (int32_t)p->results[s].offset;
    p->last_readers[s] = -1; /* a reader counts once, though it may read both operands */
  }
}

/* Numbers own places first, because their offsets are known only when the largest is. */
static void give_places(mmci_group_kernel *kernel, places *p) {
  const mmci_group *group = p->group;
  const mmci_phases *groups = &kernel->groups;
  for (int32_t g = 0, t = 0; g < groups->group_count; g++)
    for (; t < groups->groups[g + 1]; t++) {
      int32_t s = groups->order[t];
      const mmci_group_product *x = &group->products[s];
      size_t bytes = bytes_of(kernel, x);
      const bool is_common =
          place_of(kernel, p, x->left).is_common && place_of(kernel, p, x->right).is_common;
      if (s == group->count - 1) {
        p->results[s] = (place){.base = RESULT};
      } else if (t == groups->groups[g + 1] - 1) {
        p->results[s] = (place){.base = SHARED, .offset = (int64_t)p->shared_bytes};
        p->shared_bytes += bytes;
      } else {
        const bool is_new = is_common || p->idle_count == 0;
        int32_t own = is_new ? p->own_count++ : p->idle[--p->idle_count];
        p->results[s] = (place){.base = OWN, .offset = own, .is_common = is_common};
        if (bytes > p->own_bytes) p->own_bytes = bytes;
      }
      let_go_value(p, x->left, t);
      let_go_value(p, x->right, t);
      const mmci_small *small = &kernel->products[t].small;
      size_t room = small->can ? mmci_small_room_bytes(small) : 0;
      if (room > p->room_bytes) p->room_bytes = room;
    }
  p->room_bytes = mmci_aligned_size(p->room_bytes);
  for (int32_t s = 0; s < group->count; s++)
    if (p->results[s].base == OWN)
      p->results[s].offset = (int64_t)(p->room_bytes + (size_t)p->results[s].offset * p->own_bytes);
  for (int32_t t = 0; t < group->count; t++) {
    int32_t s = groups->order[t];
    p->results[s].step = p->results[s].is_common ? 0 : step_of(kernel, group, s);
    product *x = &kernel->products[t];
    x->a = place_of(kernel, p, group->products[s].left);
    x->b = place_of(kernel, p, group->products[s].right);
    x->c = p->results[s];
    x->several = mmci_several_make(x->several.kind, &x->gemm, x->a.step, x->b.step, x->c.step);
  }
}

static mmc_status lay_out_values(mmci_group_kernel *kernel, const mmci_group *group,
                                 mmci_error *error) {
  size_t count = (size_t)group->count;
  places p = {.group = group,
              .results = mmci_alloc_array(count, sizeof *p.results),
              .last_readers = mmci_alloc_array(2 * count, sizeof *p.last_readers)};
  if (p.results == NULL || p.last_readers == NULL) {
    free(p.results);
    free(p.last_readers);
    return mmci_fail_nomem(error, count * sizeof *p.results);
  }
  p.idle = p.last_readers + count;
  for (size_t s = 0; s < count; s++) p.last_readers[s] = -1;
  for (int32_t t = 0; t < group->count; t++) {
    const mmci_group_product *x = &group->products[kernel->groups.order[t]];
    if (x->left >= group->n) p.last_readers[x->left - group->n] = t;
    if (x->right >= group->n) p.last_readers[x->right - group->n] = t;
  }
  give_places(kernel, &p);
  free(p.results);
  free(p.last_readers);

  size_t own = mmci_aligned_size(((size_t)group->n + FACTORS) * sizeof(char *));
  kernel->arena_bytes = own + p.room_bytes + (size_t)p.own_count * p.own_bytes;
  kernel->arenas = mmci_alloc_aligned((size_t)kernel->threads, kernel->arena_bytes);
  kernel->shared = mmci_alloc_aligned(p.shared_bytes, 1);
  if (kernel->arenas == NULL || kernel->shared == NULL)
    return mmci_fail_nomem(error, (size_t)kernel->threads * kernel->arena_bytes + p.shared_bytes);
  for (int t = 0; t < kernel->threads; t++) {
    char *arena = kernel->arenas + (size_t)t * kernel->arena_bytes, **bases = (char **)arena;
    bases[OWN] = arena + own;
    bases[SHARED] = kernel->shared;
  }
  return MMC_OK;
}

/* Returns how many chains a thread takes product by product: those whose intermediates stay in the
 * nearest cache, of a batch that lies in stacks. */
static int64_t choose_block(const mmci_group_kernel *kernel, const mmci_group *group) {
  int64_t bytes = 1;
  for (int32_t s = 0; s < group->count - 1; s++) {
    const mmci_group_product *x = &group->products[s];
    bytes += x->m * x->n * (int64_t)kernel->element;
  }
  for (int32_t i = 0; i < group->n; i++)
    if (group->forms[i].gathered) return 1;
  const int64_t most = BLOCK_BYTES / bytes < MOST_BLOCK ? BLOCK_BYTES / bytes : MOST_BLOCK;
  if (group->c_gathered || group->batch == 1 || most < 1) return 1;
  return most < kernel->chunk ? most : kernel->chunk;
}

/* The processor prefetches larger factors by itself, and they have no room in its nearest cache. */
static void look_ahead(mmci_group_kernel *kernel, const mmci_group *group) {
  for (int32_t s = 0; s < group->count; s++) {
    const mmci_group_product *x = &group->products[s];
    struct {
      int32_t number;
      int64_t rows, cols;
    } operands[] = {{x->left, x->m, x->k}, {x->right, x->k, x->n}};
    for (int o = 0; o < 2; o++) {
      int32_t f = operands[o].number;
      if (f >= group->n || operands[o].rows == 0 || operands[o].cols == 0) continue;
      const mmci_form *form = &group->forms[f];
      int64_t lines = form->trans ? operands[o].cols : operands[o].rows;
      int64_t length = form->trans ? operands[o].rows : operands[o].cols;
      double bytes =
          ((double)(lines - 1) * (double)form->ld + (double)length) * (double)kernel->element;
      if (bytes <= AHEAD_BYTES && (form->gathered || form->stride != 0))
        kernel->ahead_bytes[f] = (size_t)bytes;
    }
  }
}

/* Prepares for crowds. The CBLAS may compute what has large products. */
static mmc_status expect_crowds(mmci_group_kernel *kernel, double serial_s, mmci_error *error) {
  const int library_threads = mmci_blas_threads();
  bool has_library = false;
  for (int32_t t = 0; t < kernel->count; t++)
    has_library = has_library || kernel->products[t].is_large;
  kernel->crowd =
      has_library && library_threads > kernel->threads ? library_threads : kernel->threads;
  const bool has_one_way = kernel->batch == 1 && kernel->threads == 1;
  if (kernel->crowd == 1 || has_one_way || !mmci_ways_pay(serial_s)) return MMC_OK;
  return mmci_ways_create(has_library, &kernel->ways, error);
}

/* Decides how many threads there are, and what each does: chains of the batch, or groups of a
 * single one. A single chain whose products wait for one another leaves those to the CBLAS that are
 * its calls where they are alone: no chain so computed by OpenBLAS's threads was slower by more
 * than the noise, and its bits depend on nothing else. */
static mmc_status share_out(mmci_group_kernel *kernel, const mmci_group *group, mmci_error *error) {
  double *seconds = mmci_alloc_array((size_t)group->count, sizeof *seconds), all_s = 0;
  if (seconds == NULL) return mmci_fail_nomem(error, (size_t)group->count * sizeof *seconds);
  bool shared = true;
  for (int32_t s = 0; s < group->count; s++) {
    product x = {0};
    choose_calls(group, s, &x);
    shared = shared && is_shared(&x, group->batch);
    kernel->calls_blas = kernel->calls_blas || !(x.small.can || x.several.kind != MMCI_ONE_BY_ONE);
    seconds[s] = mmci_blas_serial_s(&x.gemm);
    all_s += seconds[s];
  }
  int64_t pieces = group->batch > 1 ? group->batch : group->count;
  kernel->threads = shared ? mmci_workers((double)group->batch * all_s, pieces) : 1;
  mmc_status status = mmci_phases_create(group, seconds, group->batch > 1 ? 1 : kernel->threads,
                                         &kernel->groups, error);
  free(seconds);
  if (status != MMC_OK) return status;
  if (group->batch == 1 && kernel->groups.group_count == 1) kernel->threads = 1;
  kernel->chunk = group->batch / (16 * (int64_t)kernel->threads) + 1;
  kernel->block = choose_block(kernel, group);
  for (int32_t t = 0; t < group->count; t++) {
    product *x = &kernel->products[t];
    choose_calls(group, kernel->groups.order[t], x);
    const bool waits = kernel->threads == 1 && group->batch == 1;
    if (waits && mmci_blas_is_call(&x->gemm)) x->small = (mmci_small){0};
    if (x->small.can) mmci_small_prepare(&x->small, group->batch);
  }
  status = expect_crowds(kernel, (double)group->batch * all_s, error);
  return status == MMC_OK ? mmci_workers_provide(kernel->threads, error) : status;
}

mmc_status mmci_blas_group_prepare(mmci_device *device, const mmci_group *group,
                                   mmci_group_kernel **out, mmci_error *error) {
  if (!mmci_blas_group_supports(device, group))
    return mmci_fail(error, MMC_E_UNSUPPORTED,
                     "group: expected variant 0 and sides of at most %d, got others",
                     MMCI_GROUP_SIDE);
  mmci_group_kernel *kernel = mmci_alloc_zeroed(1, sizeof *kernel);
  if (kernel == NULL) return mmci_fail_nomem(error, sizeof *kernel);
  kernel->element = mmc_dtype_size(group->dtype);
  kernel->batch = group->batch;
  kernel->n = group->n;
  kernel->count = group->count;
  kernel->c_stride = group->c_stride;
  kernel->c_gathered = group->c_gathered;
  kernel->forms = mmci_alloc_array((size_t)group->n, sizeof *kernel->forms);
  kernel->ahead_bytes = mmci_alloc_zeroed((size_t)group->n, sizeof *kernel->ahead_bytes);
  kernel->products = mmci_alloc_zeroed((size_t)group->count, sizeof *kernel->products);
  mmc_status status =
      kernel->forms != NULL && kernel->ahead_bytes != NULL && kernel->products != NULL
          ? share_out(kernel, group, error)
          : mmci_fail_nomem(error, (size_t)group->count * sizeof(product));
  if (status == MMC_OK) {
    for (int32_t i = 0; i < group->n; i++) kernel->forms[i] = group->forms[i];
    look_ahead(kernel, group);
    status = lay_out_values(kernel, group, error);
  }
  if (status != MMC_OK) {
    mmci_blas_group_release(kernel);
    return status;
  }
  *out = kernel;
  return MMC_OK;
}

void mmci_blas_group_release(mmci_group_kernel *kernel) {
  if (kernel == NULL) return;
  mmci_phases_destroy(&kernel->groups);
  free(kernel->forms);
  free(kernel->ahead_bytes);
  free(kernel->products);
  free(kernel->shared);
  free(kernel->arenas);
  free(kernel->ways);
  free(kernel);
}

/* ---- multiplying ----------------------------------------------------------------------------- */

/* Computes a product of so many chains, by the CBLAS where that has threads for it. */
static void multiply_product(const product *x, int64_t chains, bool by_library,
                             char *const *bases) {
  const char *a = mmci_address(bases[x->a.base], x->a.offset),
             *b = mmci_address(bases[x->b.base], x->b.offset);
  char *c = mmci_address(bases[x->c.base], x->c.offset);
  const bool is_small = x->small.can && !(by_library && x->is_large);
  if (x->several.kind != MMCI_ONE_BY_ONE) {
    mmci_several_multiply(&x->several, chains, a, b, c);
    return;
  }
  if (by_library) mmci_xsmm_leave();
  for (int64_t i = 0; i < chains; i++) {
    if (is_small) {
      mmci_small_multiply(&x->small, a, b, c, bases[OWN]);
      if (x->settles && x->c.base == RESULT) mmci_ordered_settle(&x->gemm, c);
    } else {
      x->multiply(&x->gemm, a, b, c);
    }
    a = mmci_address(a, x->a.step);
    b = mmci_address(b, x->b.step);
    c = mmci_address(c, x->c.step);
  }
}

/* Returns the addresses that thread number `thread` knows. */
static char **bases_of(const mmci_group_kernel *kernel, int thread) {
  return (char **)(kernel->arenas + (size_t)thread * kernel->arena_bytes);
}

static void prefetch(const void *from, size_t bytes) {
  for (size_t t = 0; t < bytes; t += LINE_BYTES) __builtin_prefetch((const char *)from + t);
}

/* Writes the addresses of a block that begins at chain i, and asks for the factors of the next
 * `ahead` chains behind it. */
static void bind_chains(const mmci_group_kernel *x, const void *const *operands, void *c, int64_t i,
                        int64_t ahead, char **bases) {
  for (int32_t f = 0; f < x->n; f++) {
    bases[FACTORS + f] = (char *)mmci_batch_at(operands[f], &x->forms[f], x->element, i);
    for (int64_t next = i + x->block; next < i + x->block + ahead; next++)
      prefetch(mmci_batch_at(operands[f], &x->forms[f], x->element, next), x->ahead_bytes[f]);
  }
  bases[RESULT] = mmci_batch_result_at(c, x->c_gathered, x->c_stride, x->element, i);
}

/* Computes group g of the chains that are bound; what all chains have in common is there unless
 * they are the first ones. */
static void compute_products(const mmci_group_kernel *kernel, int32_t g, int64_t chains,
                             bool are_first, bool by_library, char **bases) {
  const mmci_phases *groups = &kernel->groups;
  for (int32_t t = groups->groups[g]; t < groups->groups[g + 1]; t++) {
    const product *x = &kernel->products[t];
    if (!x->c.is_common)
      multiply_product(x, chains, by_library, bases);
    else if (are_first)
      multiply_product(x, 1, by_library, bases);
  }
}

/* One execution that threads share. */
typedef struct execution {
  const mmci_group_kernel *kernel;
  const void *const *operands;
  void *c;
  int64_t first;       /* the chunk that is piece 0 of what is shared */
  mmci_tally computed; /* how many groups are computed */
} execution;

/* Computes chains from begin to end. */
static void compute_chains(const execution *x, int worker, int64_t begin, int64_t end,
                           bool by_library) {
  const mmci_group_kernel *kernel = x->kernel;
  char **bases = bases_of(kernel, worker);
  for (int64_t i = begin; i < end; i += kernel->block) {
    const int64_t rest = end - i, chains = rest < kernel->block ? rest : kernel->block;
    const int64_t behind = rest - chains;
    bind_chains(kernel, x->operands, x->c, i, kernel->block == 1 && behind > 0, bases);
    for (int32_t g = 0; g < kernel->groups.group_count; g++)
      compute_products(kernel, g, chains, i == begin, by_library, bases);
  }
  mmci_xsmm_leave();
}

/* Returns the chain with which chunk number `chunk` begins. */
static int64_t begin_of(const mmci_group_kernel *kernel, int64_t chunk) {
  const int64_t begin = chunk * kernel->chunk;
  return begin < kernel->batch ? begin : kernel->batch;
}

static void compute_chunk(void *user, int worker, int64_t piece) {
  const execution *x = user;
  const int64_t chunk = x->first + piece;
  compute_chains(x, worker, begin_of(x->kernel, chunk), begin_of(x->kernel, chunk + 1), false);
}

/* Returns how many groups precede the phase of group g; the threads that compute these have
 * begun. */
static int32_t groups_before(const mmci_phases *groups, int64_t g) {
  int32_t p = 0;
  while (groups->phases[p + 1] <= g) p++;
  return groups->phases[p];
}

/* Computes a group of the one chain, once those of earlier phases are there. */
static void compute_group(void *user, int worker, int64_t piece) {
  execution *x = user;
  int32_t before = groups_before(&x->kernel->groups, piece);
  char **bases = bases_of(x->kernel, worker);
  bind_chains(x->kernel, x->operands, x->c, 0, 0, bases);
  mmci_tally_await(&x->computed, before);
  compute_products(x->kernel, (int32_t)piece, 1, true, false, bases);
  mmci_xsmm_leave();
  mmci_tally_raise(&x->computed);
}

/* Computes chunks; the one chain of a batch of 1 is one chunk. */
static void compute_by(void *user, mmci_way way, int64_t begin, int64_t end) {
  execution *x = user;
  const mmci_group_kernel *kernel = x->kernel;
  const bool limits = kernel->threads > 1 && kernel->calls_blas && way != MMCI_LIBRARY;
  if (limits) mmci_blas_threads_limit(1);
  x->first = begin;
  if (way != MMCI_SHARED)
    compute_chains(x, 0, begin_of(kernel, begin), begin_of(kernel, end), way == MMCI_LIBRARY);
  else if (kernel->batch == 1)
    mmci_share(kernel->threads, kernel->groups.group_count, compute_group, x);
  else
    mmci_share(kernel->threads, end - begin, compute_chunk, x);
  if (limits) mmci_blas_threads_restore();
}

mmc_status mmci_blas_group_enqueue(mmci_queue *queue, const mmci_group_kernel *kernel,
                                   const void *const *operands, void *c, mmci_error *error) {
  (void)queue, (void)error;
  for (int32_t t = 0; t < kernel->count; t++)
    if (kernel->products[t].small.can)
      mmci_small_execute(&kernel->products[t].small, kernel->batch);
  execution x = {.kernel = kernel, .operands = operands, .c = c, .computed = MMCI_TALLY};
  const mmci_ways_job job = {.threads = kernel->crowd,
                             .pieces = (kernel->batch + kernel->chunk - 1) / kernel->chunk,
                             .compute = compute_by,
                             .user = &x};
  mmci_ways_compute(kernel->ways, &job);
  return MMC_OK;
}

/* choice.c: see choice.h. */
#include "choice.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fenv.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 8192, PROBES = 8, RANGES = 8, UNKNOWN = 0, OFF = 1, ON = 2 };

/* mmchain's functions. They are loaded and not linked, since the names of what is linked with a
 * library that is preloaded come before those of what the program loads: PyTorch's products would
 * be by our OpenBLAS. */
#define MMCHAIN_FUNCTIONS(X) \
  X(context_create)          \
  X(wisdom_describe)         \
  X(chain_create)            \
  X(chain_destroy)           \
  X(plan_create)             \
  X(plan_step_time)          \
  X(run_create)              \
  X(execute)
#define FIELD(name) __typeof__(mmc_##name) *name;
static struct { MMCHAIN_FUNCTIONS(FIELD) } mmchain;

/* A choice and what it is for; written once, before it can be seen. */
typedef struct entry {
  mmcw_call call;
  bool plain;
  mmcw_choice choice;
  mmc_plan *plan;
  pthread_mutex_t lock; /* of the run */
} entry;

static _Atomic(entry *) slots[SLOTS];
static atomic_int state = UNKNOWN;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mmc_context *context;
static _Thread_local bool inside; /* this thread is in mmchain on behalf of the wrapper */

/* Where the code of mmchain lies. */
static struct { uintptr_t from, to; } ranges[RANGES];
static atomic_int range_count;

/* ---- mmchain's own calls --------------------------------------------------------------------- */

static bool is_mmchain(const char *path) {
  const char *name = strrchr(path, '/');
  name = name != NULL ? name + 1 : path;
  return strncmp(name, "libmmchain.so", 13) == 0 || strncmp(name, "mmchain-", 8) == 0;
}

static int note_range(struct dl_phdr_info *info, size_t size, void *user) {
  (void)size;
  (void)user;
  int count = atomic_load(&range_count);
  if (!is_mmchain(info->dlpi_name)) return 0;
  for (int h = 0; h < info->dlpi_phnum && count < RANGES; h++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[h];
    if (header->p_type != PT_LOAD || (header->p_flags & PF_X) == 0) continue;
    uintptr_t from = info->dlpi_addr + header->p_vaddr;
    bool known = false;
    for (int r = 0; r < count; r++) known = known || ranges[r].from == from;
    if (known) continue;
    ranges[count].from = from;
    ranges[count].to = from + header->p_memsz;
    atomic_store(&range_count, ++count);
  }
  return 0;
}

bool mmcw_is_own(const void *caller) {
  uintptr_t at = (uintptr_t)caller;
  int count = atomic_load_explicit(&range_count, memory_order_acquire);
  for (int r = 0; r < count; r++)
    if (at >= ranges[r].from && at < ranges[r].to) return true;
  return false;
}

/* What another thread of the parent was planning is never finished here: no product is cut then. */
static void after_fork_in_child(void) {
  if (pthread_mutex_trylock(&lock) != 0)
    atomic_store(&state, OFF);
  else
    pthread_mutex_unlock(&lock);
}

/* Loads mmchain before main() begins, when there is memory for its libraries to begin with. */
__attribute__((constructor)) static void load(void) {
  void *library = dlopen(MMCW_LIBRARY, RTLD_LAZY | RTLD_LOCAL), *found;
  bool all = library != NULL;
#define FIND(name)                                               \
  found = library != NULL ? dlsym(library, "mmc_" #name) : NULL; \
  memcpy(&mmchain.name, &found, sizeof found);                   \
  all = all && found != NULL;
  MMCHAIN_FUNCTIONS(FIND)
  dl_iterate_phdr(note_range, NULL);
  if (!all || pthread_atfork(NULL, NULL, after_fork_in_child) != 0) atomic_store(&state, OFF);
}

/* ---- recipes --------------------------------------------------------------------------------- */

/* A text that is being read. */
typedef struct reader {
  const char *at;
  mmcw_choice *out;
} reader;

static bool read_size(reader *r, int64_t *size) {
  if (!isdigit((unsigned char)*r->at)) return false;
  char *end;
  *size = strtoll(r->at, &end, 10);
  r->at = end;
  return *size > 0;
}

static bool read_split(reader *r, const mmcw_piece *box);

/* Reads "96" or "96(m:2,2)": one part, which becomes a piece or several. */
static bool read_part(reader *r, const mmcw_piece *box) {
  if (*r->at == '(') {
    r->at++;
    return read_split(r, box) && *r->at++ == ')';
  }
  if (*r->at == '@' || r->out->count == MMCW_PIECES) return false;
  r->out->pieces[r->out->count++] = *box;
  return true;
}

/* Reads "n:96,32", as docs/tuning.md spells recipes. */
static bool read_split(reader *r, const mmcw_piece *box) {
  char axis = *r->at;
  int64_t sizes[2];
  mmcw_piece parts[2] = {*box, *box};
  if ((axis != 'm' && axis != 'n' && axis != 'k') || r->at[1] != ':') return false;
  r->at += 2;
  for (int p = 0; p < 2; p++) {
    if (p == 1 && *r->at++ != ',') return false;
    if (!read_size(r, &sizes[p])) return false;
    int64_t before = p == 1 ? sizes[0] : 0;
    mmcw_piece *part = &parts[p];
    if (axis == 'm') part->m = sizes[p], part->row += before;
    if (axis == 'n') part->n = sizes[p], part->col += before;
    if (axis == 'k') part->k = sizes[p], part->depth += before;
    if (!read_part(r, part)) return false;
  }
  int64_t whole = axis == 'm' ? box->m : axis == 'n' ? box->n : box->k;
  return sizes[0] + sizes[1] == whole;
}

/* Reads a recipe of plain calls alone into pieces; false when it has anything else. */
static bool read_recipe(const char *text, const mmcw_call *call, mmcw_choice *out) {
  reader r = {.at = text, .out = out};
  const mmcw_piece box = {.m = call->m, .n = call->n, .k = call->k};
  bool fine = read_split(&r, &box) && *r.at == '\0';
  if (!fine) out->count = 0;
  return fine;
}

/* ---- choosing -------------------------------------------------------------------------------- */

static uint64_t hash_of(const mmcw_call *c) {
  uint64_t h = (uint64_t)c->m * 0x9e3779b97f4a7c15u;
  h = (h ^ (uint64_t)c->k) * 0xbf58476d1ce4e5b9u;
  h = (h ^ (uint64_t)c->n) * 0x94d049bb133111ebu;
  h ^= (uint64_t)c->dtype << 8 ^ (uint64_t)c->op_a << 4 ^ (uint64_t)c->op_b ^
       (uint64_t)(c->device + 1) << 16;
  return (h ^ h >> 29) * 0x9e3779b97f4a7c15u >> 32;
}

static bool same(const mmcw_call *a, const mmcw_call *b) {
  return a->m == b->m && a->k == b->k && a->n == b->n && a->dtype == b->dtype &&
         a->op_a == b->op_a && a->op_b == b->op_b && a->device == b->device;
}

/* Finds the entry of a call. *free_slot becomes a slot that is free for it; -1 when there is none.
 */
static entry *find(const mmcw_call *call, int *free_slot) {
  uint64_t hash = hash_of(call);
  *free_slot = -1;
  for (int p = 0; p < PROBES; p++) {
    int slot = (int)((hash + (uint64_t)p) % SLOTS);
    entry *e = atomic_load_explicit(&slots[slot], memory_order_acquire);
    if (e == NULL) {
      *free_slot = slot;
      return NULL;
    }
    if (same(&e->call, call)) return e;
  }
  return NULL;
}

/* Plans the product for time, and takes its recipe where it was measured to gain. */
static void plan(entry *e) {
  const mmcw_call *c = &e->call;
  const int64_t dims[3] = {c->m, c->k, c->n};
  const mmc_op ops[2] = {c->op_a, c->op_b};
  const char *asked = getenv("MMCHAIN_BLAS_GPU");
  char device[32] = "blas";
  mmc_chain *chain;
  mmc_step_time step;
  if (c->device >= 0 && asked != NULL && strlen(asked) < sizeof device)
    memcpy(device, asked, strlen(asked) + 1);
  else if (c->device >= 0)
    snprintf(device, sizeof device, "cuda:%d", c->device);
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.device = device;
  options.objective = "time";
  options.location = c->device >= 0 ? MMC_DEVICE : MMC_HOST;
  if (mmchain.chain_create(context, c->dtype, 2, dims, ops, &chain) != MMC_OK) return;
  mmc_status status = mmchain.plan_create(context, chain, &options, &e->plan);
  mmchain.chain_destroy(chain);
  if (status != MMC_OK || mmchain.plan_step_time(e->plan, 0, &step) != MMC_OK) return;
  bool proven = strcmp(step.source, "measured") == 0 || strcmp(step.source, "array") == 0;
  if (!proven || step.split[0] == '\0') return;
  e->plain = !read_recipe(step.split, c, &e->choice) &&
             (c->device >= 0 || mmchain.run_create(e->plan, &e->choice.run) != MMC_OK);
}

static entry *make(const mmcw_call *call, int slot) {
  entry *e = calloc(1, sizeof *e);
  if (e == NULL) return NULL;
  e->call = *call;
  e->plain = true;
  pthread_mutex_init(&e->lock, NULL);
  plan(e);
  dl_iterate_phdr(note_range, NULL); /* a module may have been loaded */
  atomic_store_explicit(&slots[slot], e, memory_order_release);
  return e;
}

/* Opens the wisdom store, once; without entries of this machine nothing is ever looked up. */
static void open_store(void) {
  mmc_wisdom_info info;
  bool found = mmchain.context_create(NULL, &context) == MMC_OK &&
               mmchain.wisdom_describe(context, &info) == MMC_OK && info.available &&
               info.entries > 0;
  atomic_store(&state, found ? ON : OFF);
}

bool mmcw_is_off(void) {
  return atomic_load_explicit(&state, memory_order_acquire) == OFF;
}

const mmcw_choice *mmcw_choose(const mmcw_call *call, bool may_plan) {
  int now = atomic_load_explicit(&state, memory_order_acquire), slot;
  if (now == OFF || inside || call->m < 1 || call->k < 1 || call->n < 1) return NULL;
  entry *e = now == ON ? find(call, &slot) : NULL;
  if (e == NULL && may_plan && (now == UNKNOWN || slot >= 0)) {
    /* Flags of arithmetic are the caller's: NumPy warns by them. */
    fenv_t flags;
    int code = errno;
    fegetenv(&flags);
    inside = true;
    pthread_mutex_lock(&lock);
    if (atomic_load(&state) == UNKNOWN) open_store();
    if (atomic_load(&state) == ON && (e = find(call, &slot)) == NULL && slot >= 0)
      e = make(call, slot);
    pthread_mutex_unlock(&lock);
    inside = false;
    fesetenv(&flags);
    errno = code;
  }
  return e == NULL || e->plain ? NULL : &e->choice;
}

bool mmcw_execute(const mmcw_choice *choice, const mmc_matrix *factors, const mmc_matrix *out) {
  entry *e = (entry *)((char *)choice - offsetof(entry, choice));
  if (choice->run == NULL || pthread_mutex_trylock(&e->lock) != 0) return false;
  inside = true;
  bool done = mmchain.execute(choice->run, factors, out) == MMC_OK;
  inside = false;
  pthread_mutex_unlock(&e->lock);
  return done;
}

/* ---- the functions behind -------------------------------------------------------------------- */

/* What is looked for in the libraries that are loaded. */
typedef struct search {
  const char *name;
  const void *own;
  void *found;
} search;

static int look_into(struct dl_phdr_info *info, size_t size, void *user) {
  search *s = user;
  (void)size;
  if (info->dlpi_name[0] == '\0' || is_mmchain(info->dlpi_name)) return 0;
  void *library = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL) return 0;
  void *found = dlsym(library, s->name);
  dlclose(library);
  if (found == NULL || found == s->own) return 0;
  s->found = found;
  return 1;
}

void *mmcw_next(const char *name, const void *own, const void *caller) {
  void *found = dlsym(RTLD_NEXT, name);
  if (found != NULL) return found;
  /* A library that was loaded for one module alone, as NumPy's, is not in the global scope. */
  search s = {.name = name, .own = own};
  Dl_info file;
  void *library = NULL;
  if (dladdr(caller, &file) != 0) library = dlopen(file.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (library != NULL) {
    found = dlsym(library, name);
    dlclose(library);
    if (found != NULL && found != own) return found;
  }
  dl_iterate_phdr(look_into, &s);
  return s.found;
}

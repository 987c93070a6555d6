/* chain_spines.c: a chain cut into spines (chain.h), spines into pieces, pieces into tasks for
 * blocks.
 *
 * A spine's level is one more than the highest of those that it reads. The spines of a level are
 * cut into as many rows as give every multiprocessor a piece; tasks are in the order of levels, so
 * that each waits only for those before it. */
#include "device/cuda/chain_spines.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/cuda/cuda_check.h"

enum {
  WARP = 32,
  ROWS_LEAST = 2,
  ALONE_LEAST = 1 << 18, /* multiplications from which one chain gains from several blocks */
};

/* A spine while it is laid out. */
typedef struct spine {
  int32_t first, operands; /* in the list of operands */
  int32_t first_wait, waits;
  int32_t level, pieces;
  int64_t m, n, ld, to;
} spine;

typedef struct layout {
  const mmci_device_chain *chain;
  mmci_chain_limits limits;
  int side;
  size_t element_bytes;
  int32_t *spine_of; /* of every product: the spine that it ends, or -1 */
  int32_t *lengths, *heights;
  spine *spines;
  mmci_spine_operand *operands;
  mmci_spine_wait *waits;
  mmci_spine_piece *pieces;
  mmci_spine_task *tasks;
  int32_t spines_count, operands_count, waits_count, pieces_count, tasks_count, levels;
  int64_t scratch; /* elements */
  int depth;
  size_t shared_bytes;
} layout;

struct mmci_spines {
  mmc_dtype dtype;
  int side, blocks;
  size_t shared_bytes;
  int32_t n;
  void *memory;
  mmci_spines_call call;
};

/* ---- which chains -----------------------------------------------------------------------------
 */

bool mmci_spines_can(const mmci_device_chain *chain) {
  if ((chain->dtype != MMC_F32 && chain->dtype != MMC_F64) || chain->batch != 1 ||
      chain->c_gathered)
    return false;
  for (int i = 0; i < chain->n; i++)
    if (chain->forms[i].gathered) return false;
  for (int s = 0; s < chain->count; s++)
    if (chain->products[s].m == 0 || chain->products[s].k == 0 || chain->products[s].n == 0)
      return false;
  return true;
}

bool mmci_spines_suit(const mmci_chain_limits *limits, const mmci_device_chain *chain) {
  int64_t multiplications = 0;
  for (int s = 0; s < chain->count; s++) {
    const mmci_chain_step *step = &chain->products[s];
    multiplications += step->m * step->k * step->n;
  }
  return limits->multiprocessors > 1 && mmci_spines_can(chain) && multiplications >= ALONE_LEAST;
}

/* ---- spines -----------------------------------------------------------------------------------
 */

static int64_t up(int64_t x, int64_t to) {
  return (x + to - 1) / to * to;
}

static int side_of(const mmci_device_chain *chain) {
  int64_t most = 0;
  for (int s = 0; s < chain->count; s++) {
    const mmci_chain_step *step = &chain->products[s];
    const int64_t sizes[] = {step->m, step->k, step->n};
    for (int t = 0; t < 3; t++)
      if (sizes[t] > most) most = sizes[t];
  }
  return most <= 32 ? 32 : most <= 64 ? 64 : 128;
}

/* Sets spine_of to 0 where a spine ends and -1 elsewhere. */
static void find_ends(layout *l) {
  const mmci_device_chain *chain = l->chain;
  for (int s = 0; s < chain->count; s++) l->spine_of[s] = -1;
  int32_t *readers = l->spine_of; /* first counts, by -1 - readers */
  for (int s = 0; s < chain->count; s++) {
    const mmci_chain_step *step = &chain->products[s];
    if (step->left >= chain->n) readers[step->left - chain->n]--;
    /* A right operand must be whole. */
    if (step->right >= chain->n) readers[step->right - chain->n] -= chain->count + 2;
  }
  for (int s = 0; s < chain->count; s++)
    l->spine_of[s] = s == chain->count - 1 || readers[s] != -2 ? 0 : -1;
}

/* Operand number t of a spine: id as the products count, rows x cols. */
static void set_operand(layout *l, spine *sp, int32_t t, int32_t id, int64_t rows, int64_t cols) {
  const mmci_device_chain *chain = l->chain;
  const int64_t per_word = (int64_t)(16 / l->element_bytes);
  mmci_spine_operand *o = &l->operands[sp->first + t];
  *o = (mmci_spine_operand){.rows = (int16_t)rows, .cols = (int16_t)cols, .source = id};
  if (id < chain->n) {
    const mmci_form *form = &chain->forms[id];
    o->scratch = -1;
    o->ld = form->ld;
    o->trans = form->trans;
    o->wide = !form->trans && form->ld % per_word == 0 && cols % per_word == 0;
    return;
  }
  const int32_t read = l->spine_of[id - chain->n];
  o->scratch = l->spines[read].to;
  o->ld = l->spines[read].ld;
  o->wide = cols % per_word == 0;
  if (l->spines[read].level >= sp->level) sp->level = l->spines[read].level + 1;
  l->waits[l->waits_count++] = (mmci_spine_wait){.counter = read};
  sp->waits++;
}

/* The product before this one in its spine; -1: this is the first. */
static int32_t before(const layout *l, int32_t product) {
  const int32_t left = l->chain->products[product].left - l->chain->n;
  return left >= 0 && l->spine_of[left] < 0 ? left : -1;
}

/* The spine that ends with product top; those that it reads are there. */
static void add_spine(layout *l, int32_t top) {
  const mmci_device_chain *chain = l->chain;
  const mmci_chain_step *last = &chain->products[top];
  int32_t from = top, operands = 2;
  for (; operands < MMCI_SPINES_LENGTH && before(l, from) >= 0; operands++) from = before(l, from);
  spine sp = {.first = l->operands_count,
              .operands = operands,
              .first_wait = l->waits_count,
              .m = last->m,
              .n = last->n,
              .to = l->scratch,
              .ld = up(last->n, 4)};
  if (top == chain->count - 1) {
    sp.to = MMCI_SPINES_RESULT;
    sp.ld = chain->ldc;
  } else {
    l->scratch += up(sp.m * sp.ld, 32);
  }
  l->operands_count += operands;
  for (int32_t t = operands - 1, s = top; t > 0; t--, s = chain->products[s].left - chain->n)
    set_operand(l, &sp, t, chain->products[s].right, chain->products[s].k, chain->products[s].n);
  set_operand(l, &sp, 0, chain->products[from].left, chain->products[from].m,
              chain->products[from].k);
  l->spine_of[top] = l->spines_count;
  l->spines[l->spines_count++] = sp;
  if (sp.level >= l->levels) l->levels = sp.level + 1;
}

/* Ends spines earlier, too: where they are too long, and before a product that waits for what takes
 * no less time than the products before it, which are better done meanwhile. */
static void shorten(layout *l) {
  const mmci_device_chain *chain = l->chain;
  int32_t *length = l->lengths; /* operands of the spine so far */
  int32_t *height = l->heights; /* its level if it ended here */
  for (int32_t s = 0; s < chain->count; s++) {
    const int32_t left = chain->products[s].left - chain->n,
                  right = chain->products[s].right - chain->n;
    if (left >= 0 && right >= 0 && height[right] >= height[left]) l->spine_of[left] = 0;
    const bool goes_on = before(l, s) >= 0;
    length[s] = goes_on ? length[left] + 1 : 2;
    height[s] = left < 0 ? 0 : goes_on ? height[left] : height[left] + 1;
    if (right >= 0 && height[right] >= height[s]) height[s] = height[right] + 1;
    if (length[s] == MMCI_SPINES_LENGTH) l->spine_of[s] = 0;
  }
}

static void find_spines(layout *l) {
  find_ends(l);
  shorten(l);
  for (int32_t s = 0; s < l->chain->count; s++)
    if (l->spine_of[s] >= 0) add_spine(l, s);
}

/* ---- pieces and tasks -------------------------------------------------------------------------
 */

/* How the spines of a level are cut. */
typedef struct cut {
  int rows, groups;
  int32_t group_elements;
} cut;

static int32_t tile_elements(const layout *l, int rows, int depth) {
  const int pitch = l->side + (int)(16 / l->element_bytes);
  return 2 * (int)up(rows, 4) * pitch + depth * l->side * l->side;
}

static cut choose_cut(const layout *l, int64_t m, int64_t width, const mmci_spines_facts *facts) {
  const int64_t multiprocessors = l->limits.multiprocessors;
  int64_t rows = (m * width + multiprocessors - 1) / multiprocessors;
  cut c = {.rows = ROWS_LEAST, .groups = 1};
  while (c.rows < rows && c.rows < facts->rows_most) c.rows *= 2;
  /* A little less than what all multiprocessors could do at once is better than many rows. */
  if (rows * 2 <= c.rows * 3 || m <= c.rows) return c;
  c.rows = (int)up(rows < m ? rows : m, 4);
  while ((size_t)tile_elements(l, c.rows, l->depth) * l->element_bytes > l->limits.shared_bytes)
    c.rows = (int)up(c.rows / 2, 4);
  const int tiles = c.rows / 4 * (l->side / 8);
  const int64_t pieces = (m + c.rows - 1) / c.rows * width;
  c.group_elements = tile_elements(l, c.rows, l->depth);
  while (c.groups < MMCI_SPINES_GROUPS && tiles * c.groups * 2 <= MMCI_SPINES_THREADS &&
         pieces > c.groups * multiprocessors &&
         (size_t)c.group_elements * 2 * (size_t)c.groups * l->element_bytes <=
             l->limits.shared_bytes)
    c.groups *= 2;
  return c;
}

static cut cut_of_level(const layout *l, int32_t level, const mmci_spines_facts *facts) {
  int64_t m = 0, width = 0;
  for (int32_t i = 0; i < l->spines_count; i++) {
    if (l->spines[i].level != level) continue;
    width++;
    if (l->spines[i].m > m) m = l->spines[i].m;
  }
  return choose_cut(l, m, width, facts);
}

static void add_piece(layout *l, int32_t id, const cut *c, int64_t row, bool first) {
  const spine *sp = &l->spines[id];
  const int64_t left = sp->m - row;
  if (first || l->tasks[l->tasks_count - 1].pieces == c->groups)
    l->tasks[l->tasks_count++] = (mmci_spine_task){
        .first = l->pieces_count, .groups = c->groups, .group_elements = c->group_elements};
  l->tasks[l->tasks_count - 1].pieces++;
  l->pieces[l->pieces_count++] =
      (mmci_spine_piece){.to = sp->to,
                         .ld = sp->ld,
                         .first = sp->first,
                         .operands = sp->operands,
                         .first_wait = sp->first_wait,
                         .waits = sp->waits,
                         .counter = sp->to == MMCI_SPINES_RESULT ? -1 : id,
                         .row = (int16_t)row,
                         .rows = (int16_t)(left < c->rows ? left : c->rows)};
}

static void add_level(layout *l, int32_t level, const mmci_spines_facts *facts) {
  const cut c = cut_of_level(l, level, facts);
  const size_t bytes = c.group_elements > 0
                           ? (size_t)c.group_elements * (size_t)c.groups * l->element_bytes
                           : facts->rows_bytes;
  if (bytes > l->shared_bytes) l->shared_bytes = bytes;
  bool first = true;
  for (int32_t i = 0; i < l->spines_count; i++) {
    if (l->spines[i].level != level) continue;
    for (int64_t row = 0; row < l->spines[i].m; row += c.rows) {
      add_piece(l, i, &c, row, first);
      l->spines[i].pieces++;
      first = false;
    }
  }
}

static int64_t pieces_most(const layout *l, const mmci_spines_facts *facts) {
  int64_t most = 0;
  for (int32_t level = 0; level < l->levels; level++) {
    const cut c = cut_of_level(l, level, facts);
    for (int32_t i = 0; i < l->spines_count; i++)
      if (l->spines[i].level == level) most += (l->spines[i].m + c.rows - 1) / c.rows;
  }
  return most;
}

/* ---- memory -----------------------------------------------------------------------------------
 */

static mmc_status take(void *out, size_t count, size_t size, mmci_error *error) {
  void *memory = mmci_alloc_zeroed(count > 0 ? count : 1, size);
  if (memory == NULL) return mmci_fail_nomem(error, count * size);
  memcpy(out, &memory, sizeof memory);
  return MMC_OK;
}

static mmc_status lay_out(layout *l, const mmci_spines_facts *facts, mmci_error *error) {
  const size_t count = (size_t)l->chain->count;
  mmc_status status = take(&l->spine_of, count, sizeof *l->spine_of, error);
  if (status == MMC_OK) status = take(&l->lengths, count, sizeof *l->lengths, error);
  if (status == MMC_OK) status = take(&l->heights, count, sizeof *l->heights, error);
  if (status == MMC_OK) status = take(&l->spines, count, sizeof *l->spines, error);
  /* A spine has one operand more than it has products. */
  if (status == MMC_OK) status = take(&l->operands, 2 * count, sizeof *l->operands, error);
  if (status == MMC_OK) status = take(&l->waits, 2 * count, sizeof *l->waits, error);
  if (status != MMC_OK) return status;
  find_spines(l);
  const size_t pieces = (size_t)pieces_most(l, facts);
  status = take(&l->pieces, pieces, sizeof *l->pieces, error);
  if (status == MMC_OK) status = take(&l->tasks, pieces, sizeof *l->tasks, error);
  if (status != MMC_OK) return status;
  for (int32_t level = 0; level < l->levels; level++) add_level(l, level, facts);
  for (int32_t w = 0; w < l->waits_count; w++)
    l->waits[w].pieces = l->spines[l->waits[w].counter].pieces;
  return MMC_OK;
}

static void layout_free(layout *l) {
  free(l->spine_of);
  free(l->lengths);
  free(l->heights);
  free(l->spines);
  free(l->operands);
  free(l->waits);
  free(l->pieces);
  free(l->tasks);
}

/* A part of the device's memory and what it begins with; NULL: zeros. */
typedef struct region {
  const void *from;
  size_t bytes, at;
} region;

static mmc_status fill(mmci_spines *spines, const layout *l, mmci_error *error) {
  enum { TASKS, PIECES, OPERANDS, WAITS, TICKET, COUNTERS, TABLE, SCRATCH, REGIONS };
  region regions[REGIONS] = {
      [TASKS] = {l->tasks, (size_t)l->tasks_count * sizeof *l->tasks, 0},
      [PIECES] = {l->pieces, (size_t)l->pieces_count * sizeof *l->pieces, 0},
      [OPERANDS] = {l->operands, (size_t)l->operands_count * sizeof *l->operands, 0},
      [WAITS] = {l->waits, (size_t)l->waits_count * sizeof *l->waits, 0},
      [TICKET] = {NULL, sizeof(unsigned long long), 0},
      [COUNTERS] = {NULL, (size_t)l->spines_count * sizeof(unsigned), 0},
      [TABLE] = {NULL, (size_t)l->chain->n * sizeof(void *), 0},
      [SCRATCH] = {NULL, (size_t)l->scratch * l->element_bytes, 0}};
  size_t size = 0;
  for (int r = 0; r < REGIONS; r++) {
    regions[r].at = size;
    size += (size_t)up((int64_t)regions[r].bytes, 256);
  }
  MMCI_CUDA_TRY(cudaMalloc(&spines->memory, size));
  MMCI_CUDA_TRY(cudaMemset(spines->memory, 0, size));
  char *at[REGIONS];
  for (int r = 0; r < REGIONS; r++) {
    at[r] = (char *)spines->memory + regions[r].at;
    if (regions[r].from != NULL && regions[r].bytes > 0)
      MMCI_CUDA_TRY(cudaMemcpy(at[r], regions[r].from, regions[r].bytes, cudaMemcpyHostToDevice));
  }
  /* Streams that wait for nothing read it. */
  MMCI_CUDA_TRY(cudaStreamSynchronize(cudaStreamLegacy));
  spines->call = (mmci_spines_call){
      .tasks = (const void *)at[TASKS],
      .pieces = (const void *)at[PIECES],
      .operands = (const void *)at[OPERANDS],
      .waits = (const void *)at[WAITS],
      .ticket = l->levels > 1 || l->tasks_count > spines->blocks ? (void *)at[TICKET] : NULL,
      .counters = (void *)at[COUNTERS],
      .scratch = at[SCRATCH],
      .table = (void *)at[TABLE],
      .tasks_count = l->tasks_count,
      .depth = l->depth};
  return mmci_spines_kernel_prepare(spines->dtype, spines->side, spines->shared_bytes, error);
}

mmc_status mmci_spines_create(const mmci_chain_limits *limits, const mmci_device_chain *chain,
                              mmci_spines **out, mmci_error *error) {
  mmci_spines *spines = mmci_alloc_zeroed(1, sizeof *spines);
  if (spines == NULL) return mmci_fail_nomem(error, sizeof *spines);
  layout l = {.chain = chain,
              .limits = *limits,
              .side = side_of(chain),
              .element_bytes = chain->dtype == MMC_F64 ? 8 : 4};
  const mmci_spines_facts facts = mmci_spines_kernel_facts(chain->dtype, l.side);
  const size_t factor_bytes = (size_t)l.side * (size_t)l.side * l.element_bytes;
  l.depth = 2 * factor_bytes < limits->shared_bytes ? 2 : 1;
  spines->dtype = chain->dtype;
  spines->side = l.side;
  spines->n = chain->n;
  mmc_status status = lay_out(&l, &facts, error);
  if (status == MMC_OK) {
    spines->shared_bytes = l.shared_bytes;
    spines->blocks =
        l.tasks_count < limits->multiprocessors ? l.tasks_count : limits->multiprocessors;
    status = fill(spines, &l, error);
  }
  layout_free(&l);
  if (status == MMC_OK)
    *out = spines;
  else
    mmci_spines_destroy(spines);
  return status;
}

void mmci_spines_destroy(mmci_spines *spines) {
  if (spines == NULL) return;
  if (spines->memory != NULL && cudaFree(spines->memory) != cudaSuccess) (void)cudaGetLastError();
  free(spines);
}

mmc_status mmci_spines_launch(cudaStream_t stream, const mmci_chain_limits *limits,
                              const mmci_spines *spines, const void *const *operands, void *c,
                              mmci_error *error) {
  mmci_spines_call call = spines->call;
  call.c = c;
  return mmci_spines_kernel_launch(stream, limits->overlap, spines->dtype, spines->side,
                                   spines->shared_bytes, spines->blocks, spines->n, &call, operands,
                                   error);
}

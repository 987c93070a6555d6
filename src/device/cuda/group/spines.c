/* spines.c: cuts a chain into spines (group.h), spines into pieces, and gives blocks their tasks of
 * pieces.
 *
 * A spine's level is one more than the highest of those that it reads. The spines of a level are
 * cut into as many rows as give every multiprocessor a piece; tasks are in the order of levels, so
 * that each waits only for those before it. Every chain of a batch has the same spines: pieces are
 * of one chain each, and a level is as wide as that of one chain times the batch. */
#include "device/cuda/group/spines.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sizes.h"
#include "device/cuda/cuda_check.h"

enum {
  WARP = 32,
  ROWS_LEAST = MMCI_SPINES_FEW_ROWS,
  EVEN_GROUPS = 2, /* where all matrices are squares */
  RESULT = -1,
  ALONE_LEAST = 1 << 18, /* multiplications from which one chain gains by several blocks */
  PRODUCTS_MOST = 4096,  /* of a batch, whose pieces each list their operands in a record */
};

/* A spine while it is laid out. */
typedef struct spine {
  int32_t first, operands; /* the spine's first operand in the list, and how many it has */
  int32_t first_wait, waits;
  int32_t level, pieces;
  int64_t m, n, ld, to; /* to is the result's place in the scratch, in elements, or RESULT */
} spine;

/* Rows of a chain's spine. */
typedef struct piece {
  int32_t spine, chain;
  int16_t row, rows;
} piece;

/* Pieces side by side. */
typedef struct task {
  int32_t first, pieces, groups, group_elements;
} task;

/* The spines of a level. */
typedef struct level {
  /* The most rows of a spine, and how many spines there are in all chains of the batch. */
  int64_t m, width;
} level;

typedef struct layout {
  const mmci_group *chain;
  mmci_group_limits limits;
  int side;
  size_t element_bytes;
  int32_t *spine_of; /* the spine that a product ends; -1 when it ends none */
  int32_t *lengths, *heights;
  spine *spines;
  mmci_spine_operand *operands;
  /* An operand's place in the scratch, in elements; -1 when it is not there. */
  int64_t *places;
  mmci_spine_wait *waits;
  level *level;
  piece *pieces;
  task *tasks;
  int32_t spines_count, operands_count, waits_count, pieces_count, tasks_count, levels;
  int64_t scratch; /* elements of a chain's scratch */
  int depth;
  bool even;
  size_t shared_bytes;
} layout;

struct mmci_spines {
  mmci_spines_kind kind;
  int blocks;
  size_t shared_bytes;
  int32_t n;
  void *memory;
  mmci_spines_call call;
  mmci_spine_alone alone; /* has no operands where it is not used */
};

/* ---- which chains -----------------------------------------------------------------------------
 */

bool mmci_spines_can(const mmci_group *chain) {
  if ((chain->dtype != MMC_F32 && chain->dtype != MMC_F64) ||
      (chain->batch > 1 && chain->batch > PRODUCTS_MOST / chain->count))
    return false;
  for (int s = 0; s < chain->count; s++)
    if (chain->products[s].m == 0 || chain->products[s].k == 0 || chain->products[s].n == 0)
      return false;
  return true;
}

bool mmci_spines_suit(const mmci_group_limits *limits, const mmci_group *chain) {
  int64_t multiplications = 0;
  for (int s = 0; s < chain->count; s++) {
    const mmci_group_product *step = &chain->products[s];
    multiplications += step->m * step->k * step->n;
  }
  return limits->multiprocessors > 1 && mmci_spines_can(chain) && multiplications >= ALONE_LEAST;
}

/* ---- spines -----------------------------------------------------------------------------------
 */

static int side_of(const mmci_group *chain) {
  int64_t most = 0;
  for (int s = 0; s < chain->count; s++) {
    const mmci_group_product *step = &chain->products[s];
    const int64_t sizes[] = {step->m, step->k, step->n};
    for (int t = 0; t < 3; t++)
      if (sizes[t] > most) most = sizes[t];
  }
  return most <= 32 ? 32 : most <= 64 ? 64 : 128;
}

/* Sets spine_of to 0 where a spine ends and -1 elsewhere. */
static void find_ends(layout *l) {
  const mmci_group *chain = l->chain;
  for (int s = 0; s < chain->count; s++) l->spine_of[s] = -1;
  int32_t *readers = l->spine_of; /* holds counts at first, as -1 - readers */
  for (int s = 0; s < chain->count; s++) {
    const mmci_group_product *step = &chain->products[s];
    if (step->left >= chain->n) readers[step->left - chain->n]--;
    /* A right operand must be whole. */
    if (step->right >= chain->n) readers[step->right - chain->n] -= chain->count + 2;
  }
  for (int s = 0; s < chain->count; s++)
    l->spine_of[s] = s == chain->count - 1 || readers[s] != -2 ? 0 : -1;
}

/* Writes operand number t of a spine: id counts as the products do; it is rows x cols. */
static void set_operand(layout *l, spine *sp, int32_t t, int32_t id, int64_t rows, int64_t cols) {
  const mmci_group *chain = l->chain;
  const int64_t per_word = (int64_t)(16 / l->element_bytes);
  mmci_spine_operand *o = &l->operands[sp->first + t];
  *o = (mmci_spine_operand){.rows = (uint8_t)rows, .cols = (uint8_t)cols, .source = id};
  if (id < chain->n) {
    const mmci_form *form = &chain->forms[id];
    l->places[sp->first + t] = -1;
    o->ld = form->ld;
    o->stride = form->stride * (int64_t)l->element_bytes;
    o->gathered = form->gathered;
    if (form->trans)
      o->way = MMCI_SPINES_TRANSPOSED;
    else if (form->ld % per_word == 0 && cols % per_word == 0)
      o->way = MMCI_SPINES_WIDE;
    return;
  }
  const int32_t read = l->spine_of[id - chain->n];
  l->places[sp->first + t] = l->spines[read].to;
  o->ld = l->spines[read].ld;
  o->way = cols % per_word == 0 ? MMCI_SPINES_WIDE : MMCI_SPINES_PLAIN;
  if (l->spines[read].level >= sp->level) sp->level = l->spines[read].level + 1;
  l->waits[l->waits_count++] = (mmci_spine_wait){.counter = read};
  sp->waits++;
}

/* Returns the product before this one in its spine; -1 when this is the first. */
static int32_t before(const layout *l, int32_t product) {
  const int32_t left = l->chain->products[product].left - l->chain->n;
  return left >= 0 && l->spine_of[left] < 0 ? left : -1;
}

/* Adds the spine that ends with product top; those that it reads have been added. */
static void add_spine(layout *l, int32_t top) {
  const mmci_group *chain = l->chain;
  const mmci_group_product *last = &chain->products[top];
  int32_t from = top, operands = 2;
  for (; operands < MMCI_SPINES_LENGTH && before(l, from) >= 0; operands++) from = before(l, from);
  spine sp = {.first = l->operands_count,
              .operands = operands,
              .first_wait = l->waits_count,
              .m = last->m,
              .n = last->n,
              .to = l->scratch,
              .ld = mmci_multiple_up(last->n, 4)};
  if (top == chain->count - 1) {
    sp.to = RESULT;
    sp.ld = chain->ldc;
  } else {
    l->scratch += mmci_multiple_up(sp.m * sp.ld, 32);
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

/* Ends spines earlier where they are too long, and before a product that waits for a result which
 * takes no less time than the products before it: these are better computed meanwhile. */
static void shorten(layout *l) {
  const mmci_group *chain = l->chain;
  int32_t *length = l->lengths; /* operands of the spine so far */
  int32_t *height = l->heights; /* the spine's level if it ended here */
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
  return 2 * (int)mmci_multiple_up(rows, 4) * pitch + depth * l->side * l->side;
}

static cut choose_cut(const layout *l, int64_t m, int64_t width, const mmci_spines_facts *facts) {
  const int64_t multiprocessors = l->limits.multiprocessors;
  int64_t rows = (m * width + multiprocessors - 1) / multiprocessors;
  cut c = {.rows = ROWS_LEAST, .groups = 1};
  while ((m + c.rows - 1) / c.rows * width > multiprocessors && c.rows < facts->rows_most)
    c.rows *= 2;
  /* Using not quite all multiprocessors is better than taking many rows. */
  if (rows * 2 <= c.rows * 3 || m <= c.rows) return c;
  c.rows = (int)mmci_multiple_up(rows < m ? rows : m, 4);
  while ((size_t)tile_elements(l, c.rows, l->depth) * l->element_bytes > l->limits.shared_bytes)
    c.rows = (int)mmci_multiple_up(c.rows / 2, 4);
  const int tiles = c.rows / 4 * (l->side / 8);
  const int64_t pieces = (m + c.rows - 1) / c.rows * width;
  c.group_elements = tile_elements(l, c.rows, l->depth);
  while (c.groups < (l->even ? EVEN_GROUPS : MMCI_SPINES_GROUPS) &&
         tiles * c.groups * 2 <= MMCI_SPINES_THREADS && pieces > c.groups * multiprocessors &&
         (size_t)c.group_elements * 2 * (size_t)c.groups * l->element_bytes <=
             l->limits.shared_bytes)
    c.groups *= 2;
  return c;
}

/* Notes what the spines of every level are. */
static void describe_levels(layout *l) {
  for (int32_t i = 0; i < l->spines_count; i++) {
    const spine *sp = &l->spines[i];
    level *at = &l->level[sp->level];
    at->width += l->chain->batch;
    if (sp->m > at->m) at->m = sp->m;
  }
}

static cut cut_of_level(const layout *l, int32_t number, const mmci_spines_facts *facts) {
  return choose_cut(l, l->level[number].m, l->level[number].width, facts);
}

static void add_piece(layout *l, int32_t id, int32_t chain, const cut *c, int64_t row, bool first) {
  const spine *sp = &l->spines[id];
  const int64_t left = sp->m - row;
  if (first || l->tasks[l->tasks_count - 1].pieces == c->groups)
    l->tasks[l->tasks_count++] =
        (task){.first = l->pieces_count, .groups = c->groups, .group_elements = c->group_elements};
  l->tasks[l->tasks_count - 1].pieces++;
  l->pieces[l->pieces_count++] = (piece){.spine = id,
                                         .chain = chain,
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
    spine *sp = &l->spines[i];
    if (sp->level != level) continue;
    sp->pieces = (int32_t)((sp->m + c.rows - 1) / c.rows);
    for (int32_t chain = 0; chain < l->chain->batch; chain++)
      for (int64_t row = 0; row < sp->m; row += c.rows, first = false)
        add_piece(l, i, chain, &c, row, first);
  }
}

static int64_t pieces_most(const layout *l, const mmci_spines_facts *facts) {
  int64_t most = 0;
  for (int32_t i = 0; i < l->spines_count; i++) {
    const cut c = cut_of_level(l, l->spines[i].level, facts);
    most += (l->spines[i].m + c.rows - 1) / c.rows * l->chain->batch;
  }
  return most;
}

/* ---- memory -----------------------------------------------------------------------------------
 */

static mmc_status take_array(void *out, size_t count, size_t size, mmci_error *error) {
  void *memory = mmci_alloc_zeroed(count > 0 ? count : 1, size);
  if (memory == NULL) return mmci_fail_nomem(error, count * size);
  memcpy(out, &memory, sizeof memory);
  return MMC_OK;
}

/* Finds the spines of the chain. */
static mmc_status lay_out(layout *l, mmci_error *error) {
  const size_t count = (size_t)l->chain->count;
  mmc_status status = take_array(&l->spine_of, count, sizeof *l->spine_of, error);
  if (status == MMC_OK) status = take_array(&l->lengths, count, sizeof *l->lengths, error);
  if (status == MMC_OK) status = take_array(&l->heights, count, sizeof *l->heights, error);
  if (status == MMC_OK) status = take_array(&l->spines, count, sizeof *l->spines, error);
  /* A spine has one operand more than it has products. */
  if (status == MMC_OK) status = take_array(&l->operands, 2 * count, sizeof *l->operands, error);
  if (status == MMC_OK) status = take_array(&l->places, 2 * count, sizeof *l->places, error);
  if (status == MMC_OK) status = take_array(&l->waits, 2 * count, sizeof *l->waits, error);
  if (status != MMC_OK) return status;
  find_spines(l);
  status = take_array(&l->level, (size_t)l->levels, sizeof *l->level, error);
  if (status == MMC_OK) describe_levels(l);
  return status;
}

static mmc_status cut_spines(layout *l, const mmci_spines_facts *facts, mmci_error *error) {
  mmc_status status = lay_out(l, error);
  if (status != MMC_OK) return status;
  const size_t pieces = (size_t)pieces_most(l, facts);
  status = take_array(&l->pieces, pieces, sizeof *l->pieces, error);
  if (status == MMC_OK) status = take_array(&l->tasks, pieces, sizeof *l->tasks, error);
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
  free(l->places);
  free(l->waits);
  free(l->level);
  free(l->pieces);
  free(l->tasks);
}

/* ---- records ----------------------------------------------------------------------------------
 */

static int64_t most_of(const layout *l, bool waits) {
  int32_t most = 0;
  for (int32_t i = 0; i < l->spines_count; i++) {
    const int32_t count = waits ? l->spines[i].waits : l->spines[i].operands;
    if (count > most) most = count;
  }
  return most;
}

static int32_t piece_bytes_of(const layout *l) {
  return (
      int32_t)(sizeof(mmci_spine_piece) + (size_t)most_of(l, false) * sizeof(mmci_spine_operand) +
               (size_t)mmci_multiple_up(most_of(l, true) * (int64_t)sizeof(mmci_spine_wait), 16));
}

static int32_t groups_of(const layout *l) {
  int32_t most = 0;
  for (int32_t t = 0; t < l->tasks_count; t++)
    if (l->tasks[t].pieces > most) most = l->tasks[t].pieces;
  return most;
}

static void write_piece(const layout *l, const piece *p, char *scratch, char *to) {
  const spine *sp = &l->spines[p->spine];
  const int32_t first_counter = p->chain * l->spines_count;
  const int64_t size = (int64_t)l->element_bytes, scratch_stride = l->scratch * size;
  const bool is_result = sp->to == RESULT;
  const mmci_spine_piece head = {.to = is_result ? NULL : scratch + sp->to * size,
                                 .ld = sp->ld,
                                 .stride = is_result ? l->chain->c_stride * size : scratch_stride,
                                 .chain = p->chain,
                                 .counter = is_result ? -1 : first_counter + p->spine,
                                 .operands = (int16_t)sp->operands,
                                 .waits = (int16_t)sp->waits,
                                 .row = p->row,
                                 .rows = p->rows};
  memcpy(to, &head, sizeof head);
  to += sizeof head;
  for (int32_t t = sp->first; t < sp->first + sp->operands; t++) {
    mmci_spine_operand o = l->operands[t];
    if (l->places[t] >= 0) {
      o.data = scratch + l->places[t] * size;
      o.stride = scratch_stride;
    }
    memcpy(to, &o, sizeof o);
    to += sizeof o;
  }
  for (int32_t w = sp->first_wait; w < sp->first_wait + sp->waits; w++) {
    mmci_spine_wait wait = l->waits[w];
    wait.counter += first_counter;
    memcpy(to, &wait, sizeof wait);
    to += sizeof wait;
  }
}

static void write_records(const layout *l, int32_t record_bytes, char *scratch, char *to) {
  const int32_t piece_bytes = piece_bytes_of(l);
  for (int32_t t = 0; t < l->tasks_count; t++, to += record_bytes) {
    const task *from = &l->tasks[t];
    mmci_spine_task head = {from->pieces, 0, from->group_elements, piece_bytes};
    while (1 << head.split < from->groups) head.split++;
    memcpy(to, &head, sizeof head);
    for (int32_t i = 0; i < from->pieces; i++)
      write_piece(l, &l->pieces[from->first + i], scratch, to + sizeof head + i * piece_bytes);
  }
}

/* ---- creation ---------------------------------------------------------------------------------
 */

static bool has_gathered(const mmci_group *chain) {
  bool gathered = chain->c_gathered;
  for (int i = 0; i < chain->n; i++) gathered = gathered || chain->forms[i].gathered;
  return gathered;
}

/* Fills chains that are one spine of few rows a block, which need nothing in the device's memory.
 */
static bool fill_alone(mmci_spines *spines, const layout *l) {
  const spine *sp = &l->spines[0];
  if (l->spines_count > 1 || sp->operands > MMCI_SPINES_FEW || l->tasks[0].group_elements != 0 ||
      l->pieces[0].rows > ROWS_LEAST || has_gathered(l->chain))
    return false;
  spines->alone = (mmci_spine_alone){.ld = sp->ld,
                                     .stride = l->chain->c_stride * (int64_t)l->element_bytes,
                                     .operands = sp->operands,
                                     .rows = (int32_t)sp->m,
                                     .batch = (int32_t)l->chain->batch};
  memcpy(spines->alone.list, l->operands, (size_t)sp->operands * sizeof *l->operands);
  return true;
}

static mmc_status write_spines(mmci_spines *spines, const layout *l, mmci_error *error) {
  enum { RECORDS, TICKET, COUNTERS, TABLE, SCRATCH, REGIONS };
  const int32_t record_bytes = (int32_t)sizeof(mmci_spine_task) + groups_of(l) * piece_bytes_of(l);
  const size_t records = (size_t)l->tasks_count * (size_t)record_bytes,
               batch = (size_t)l->chain->batch;
  const size_t bytes[REGIONS] = {[RECORDS] = records,
                                 [TICKET] = sizeof(unsigned long long),
                                 [COUNTERS] = batch * (size_t)l->spines_count * sizeof(unsigned),
                                 [TABLE] = (size_t)l->chain->n * sizeof(void *),
                                 [SCRATCH] = batch * (size_t)l->scratch * l->element_bytes};
  size_t begin[REGIONS], size = 0;
  for (int r = 0; r < REGIONS; r++) {
    begin[r] = size;
    size += (size_t)mmci_multiple_up((int64_t)bytes[r], 256);
  }
  MMCI_CUDA_TRY(cudaMalloc(&spines->memory, size));
  MMCI_CUDA_TRY(cudaMemset(spines->memory, 0, size));
  char *at[REGIONS], *written;
  for (int r = 0; r < REGIONS; r++) at[r] = (char *)spines->memory + begin[r];
  mmc_status status = take_array(&written, records, 1, error);
  if (status != MMC_OK) return status;
  write_records(l, record_bytes, at[SCRATCH], written);
  cudaError_t code = cudaMemcpy(at[RECORDS], written, records, cudaMemcpyHostToDevice);
  free(written);
  MMCI_CUDA_TRY(code);
  /* Streams that do not wait for others read it. */
  MMCI_CUDA_TRY(cudaStreamSynchronize(cudaStreamLegacy));
  spines->shared_bytes = l->shared_bytes + 2 * (size_t)record_bytes;
  spines->call = (mmci_spines_call){
      .records = at[RECORDS],
      .ticket = l->levels > 1 || l->tasks_count > spines->blocks ? (void *)at[TICKET] : NULL,
      .counters = (void *)at[COUNTERS],
      .table = (void *)at[TABLE],
      .tasks_count = l->tasks_count,
      .record_bytes = record_bytes,
      .depth = l->depth,
      .c_gathered = l->chain->c_gathered};
  return MMC_OK;
}

/* Says whether all matrices are squares of a side that has kernels of their own. */
static bool are_even(const mmci_group *chain, int side, size_t element_bytes) {
  const int64_t per_word = (int64_t)(16 / element_bytes);
  const int64_t ld_most = INT32_MAX / 128;
  if ((side != 32 && side != 64) || has_gathered(chain) || chain->ldc % per_word != 0 ||
      chain->ldc > ld_most || (chain->batch > 1 && chain->c_stride % per_word != 0))
    return false;
  for (int s = 0; s < chain->count; s++) {
    const mmci_group_product *step = &chain->products[s];
    if (step->m != side || step->k != side || step->n != side) return false;
  }
  for (int i = 0; i < chain->n; i++) {
    const mmci_form *form = &chain->forms[i];
    if (form->trans || form->ld % per_word != 0 || form->ld > ld_most ||
        (chain->batch > 1 && form->stride % per_word != 0))
      return false;
  }
  return true;
}

static int depth_of(const layout *l) {
  const size_t factor_bytes = (size_t)l->side * (size_t)l->side * l->element_bytes;
  if (l->even) return 3;
  return 2 * factor_bytes < l->limits.shared_bytes ? 2 : 1;
}

static layout layout_of(const mmci_group_limits *limits, const mmci_group *chain) {
  layout l = {.chain = chain,
              .limits = *limits,
              .side = side_of(chain),
              .element_bytes = chain->dtype == MMC_F64 ? 8 : 4};
  /* Two records lie beside a task's matrices; tasks of few rows leave room for theirs. */
  l.limits.shared_bytes -= 2 * MMCI_SPINES_RECORD_BYTES;
  l.even = are_even(chain, l.side, l.element_bytes);
  l.depth = depth_of(&l);
  return l;
}

mmc_status mmci_spines_create(const mmci_group_limits *limits, const mmci_group *chain,
                              mmci_spines **out, mmci_error *error) {
  mmci_spines *spines = mmci_alloc_zeroed(1, sizeof *spines);
  if (spines == NULL) return mmci_fail_nomem(error, sizeof *spines);
  layout l = layout_of(limits, chain);
  spines->kind = (mmci_spines_kind){chain->dtype, l.side, l.even};
  spines->n = chain->n;
  const mmci_spines_facts facts = mmci_spines_kernel_facts(spines->kind);
  mmc_status status = cut_spines(&l, &facts, error);
  if (status == MMC_OK && !fill_alone(spines, &l)) {
    spines->blocks =
        l.tasks_count < limits->multiprocessors ? l.tasks_count : limits->multiprocessors;
    status = write_spines(spines, &l, error);
  }
  if (status == MMC_OK)
    status = mmci_spines_kernel_prepare(spines->kind, spines->shared_bytes, error);
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

static bool is_aligned(const void *address) {
  return (uintptr_t)address % 16 == 0;
}

mmc_status mmci_spines_launch(cudaStream_t stream, const mmci_group_limits *limits,
                              const mmci_spines *spines, const void *const *operands, void *c,
                              mmci_error *error) {
  mmci_spines_kind kind = spines->kind;
  kind.even = kind.even && is_aligned(c);
  for (int32_t i = 0; kind.even && i < spines->n; i++) kind.even = is_aligned(operands[i]);
  if (spines->alone.operands > 0) {
    mmci_spine_alone alone = spines->alone;
    alone.to = c;
    for (int32_t t = 0; t < alone.operands; t++)
      alone.list[t].data = operands[alone.list[t].source];
    return mmci_spines_kernel_launch_alone(stream, limits->overlap, kind, &alone, error);
  }
  mmci_spines_call call = spines->call;
  call.c = c;
  return mmci_spines_kernel_launch(stream, limits->overlap, kind, spines->shared_bytes,
                                   spines->blocks, spines->n, &call, operands, error);
}

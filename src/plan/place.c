/* place.c: finds places in the workspace by lifetime. This is the dynamic storage allocation
 * problem, which is NP-hard (Garey and Johnson 1979, SR2). Results are placed one after the other,
 * each in the smallest gap that takes it between those that live with it: in the order in which
 * they are written and, unless that takes no more than what lives at some time or they are very
 * many, again the largest first; the smaller workspace of the two is taken. The results of a large
 * tree whose units run at the same time have their places by what is below each in the tree. */
#include <string.h>

#include "base/alloc.h"
#include "plan/layout.h"

/* A result that needs room. A unit is a call: a group, or a step outside groups. */
typedef struct item {
  int32_t unit, step, last; /* last is the last unit that reads the item, or -1 */
  int32_t turn;             /* number in the order of placing */
  uint64_t bytes, offset;
} item;

typedef struct forest forest;

typedef struct placing {
  const mmci_plan *plan;
  int32_t unit_count, item_count;
  int32_t *unit_of; /* the unit of each step; -1 when it is inside a group */
  int32_t *readers; /* units that read the result of unit u, from first_reader[u] on */
  int32_t *first_reader;
  item *items;        /* items in the order in which they are written */
  item **order;       /* items in the order in which they are placed */
  bool largest_first; /* the largest are placed first, and not in the order of writing */
  item **met;         /* items that live at the same time as another one, by rising offset */
  /* These are used when units run at the same time: */
  uint64_t *before; /* bit v of row u: unit u waits for unit v; NULL when they run in turn */
  size_t row_words;
  item **placed; /* items that have their place, by rising offset */
  /* These are used when units run one after the other: the items before item i that are still to be
   * read when it is written are living[first_living[i]] and following. */
  int32_t *living, *first_living;
  forest *forest; /* used in place_in_tree() */
} placing;

static bool waits_for(const placing *p, int32_t u, int32_t v) {
  return p->before[(size_t)u * p->row_words + (size_t)v / 64] >> (v % 64) & 1;
}

/* Says whether some reader of the earlier result may still be at work when the later one is
 * written. */
static bool live_together(const placing *p, const item *x, const item *y) {
  const item *earlier = x->unit < y->unit ? x : y, *later = x->unit < y->unit ? y : x;
  for (int32_t r = p->first_reader[earlier->unit]; r < p->first_reader[earlier->unit + 1]; r++)
    if (!waits_for(p, later->unit, p->readers[r])) return true;
  return false;
}

/* ---- what is read by whom ------------------------------------------------------------------ */

/* Calls visit(p, reader, writer) for every result that a call reads. */
static void each_read(placing *p, void (*visit)(placing *p, int32_t reader, int32_t writer)) {
  const mmci_plan *plan = p->plan;
  for (int32_t s = 0; s < plan->step_count; s++) {
    if (p->unit_of[s] < 0) continue;
    int32_t count;
    const int32_t *reads = mmci_plan_reads(plan, &plan->steps[s], &count);
    for (int32_t o = 0; o < count; o++)
      if (reads[o] >= plan->chain->n)
        visit(p, p->unit_of[s], p->unit_of[reads[o] - plan->chain->n]);
  }
}

static void count_reader(placing *p, int32_t reader, int32_t writer) {
  (void)reader;
  p->first_reader[writer]++;
}

/* Fills each writer's share from its end to its beginning. */
static void note_reader(placing *p, int32_t reader, int32_t writer) {
  p->readers[--p->first_reader[writer]] = reader;
}

static void note_order(placing *p, int32_t reader, int32_t writer) {
  uint64_t *row = p->before + (size_t)reader * p->row_words;
  const uint64_t *earlier = p->before + (size_t)writer * p->row_words;
  for (size_t w = 0; w < p->row_words; w++) row[w] |= earlier[w];
  row[writer / 64] |= (uint64_t)1 << (writer % 64);
}

static void find_readers(placing *p) {
  const mmci_plan *plan = p->plan;
  for (int32_t s = 0; s < plan->step_count; s++)
    p->unit_of[s] = mmci_plan_is_inside(plan, s) ? -1 : p->unit_count++;
  each_read(p, count_reader);
  for (int32_t u = 1; u <= p->unit_count; u++) p->first_reader[u] += p->first_reader[u - 1];
  each_read(p, note_reader);
}

static void find_items(placing *p) {
  const mmci_plan *plan = p->plan;
  for (int32_t s = 0; s < plan->step_count - 1; s++) {
    const mmci_plan_step *x = &plan->steps[s];
    uint64_t bytes =
        mmci_result_bytes(x->m, x->n, mmci_plan_matrix_element_bytes(plan, x->is_common));
    const int32_t u = p->unit_of[s];
    if (u < 0 || bytes == 0) continue;
    int32_t last = -1;
    for (int32_t r = p->first_reader[u]; r < p->first_reader[u + 1]; r++)
      if (p->readers[r] > last) last = p->readers[r];
    p->items[p->item_count++] = (item){.unit = u, .step = s, .last = last, .bytes = bytes};
  }
}

/* Finds which units wait for which, where they run at the same time. */
static bool find_order(placing *p) {
  p->before = mmci_alloc_zeroed((size_t)p->plan->step_count * p->row_words, sizeof *p->before);
  if (p->before != NULL) each_read(p, note_order); /* writers come first, so their rows are whole */
  return p->before != NULL;
}

/* Finds what lives, where units come one after the other. room holds the items that live. */
static bool find_living(placing *p, int32_t *room) {
  if (p->item_count == 0) return true;
  for (int pass = 0; pass < 2; pass++) {
    int32_t count = 0, all = 0;
    for (int32_t i = 0; i < p->item_count; i++) {
      int32_t kept = 0;
      for (int32_t t = 0; t < count; t++)
        if (p->items[room[t]].last >= p->items[i].unit) room[kept++] = room[t];
      p->first_living[i] = all;
      if (pass > 0) memcpy(p->living + all, room, (size_t)kept * sizeof *room);
      all += kept;
      room[kept] = i;
      count = kept + 1;
    }
    p->first_living[p->item_count] = all;
    if (pass == 0) p->living = mmci_alloc_array((size_t)all + 1, sizeof *p->living);
    if (p->living == NULL) return false;
  }
  return true;
}

/* Returns the bytes below which no placing can come. */
static uint64_t least_bytes(const placing *p) {
  uint64_t least = 0;
  for (int32_t i = 0; p->before == NULL && i < p->item_count; i++) {
    uint64_t bytes = p->items[i].bytes;
    for (int32_t t = p->first_living[i]; t < p->first_living[i + 1]; t++)
      bytes = mmci_bytes_add(bytes, p->items[p->living[t]].bytes);
    if (bytes > least) least = bytes;
  }
  return least;
}

/* ---- placed -------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
  const item *x = *(item *const *)a, *y = *(item *const *)b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return (x->unit > y->unit) - (x->unit < y->unit);
}

/* Inserts y by its offset; returns how many there are then. */
static int32_t insert(item **items, int32_t count, item *y) {
  int32_t at = count;
  for (; at > 0 && items[at - 1]->offset > y->offset; at--) items[at] = items[at - 1];
  items[at] = y;
  return count + 1;
}

static int by_offset(const void *a, const void *b) {
  const item *x = *(item *const *)a, *y = *(item *const *)b;
  if (x->offset != y->offset) return x->offset > y->offset ? 1 : -1;
  return (x->turn > y->turn) - (x->turn < y->turn);
}

/* Few live together, as a rule. */
static void sort_by_offset(item **items, int32_t count) {
  enum { FEW = 32 };
  if (count > FEW)
    qsort(items, (size_t)count, sizeof *items, by_offset);
  else
    for (int32_t t = 1; t < count; t++) (void)insert(items, t, items[t]);
}

/* Finds the items that were placed before x and live with it, by rising offset; returns how many
 * there are. */
static int32_t find_met(placing *p, const item *x) {
  int32_t count = 0;
  if (p->before != NULL) {
    for (int32_t t = 0; t < x->turn; t++)
      if (live_together(p, x, p->placed[t])) p->met[count++] = p->placed[t];
    return count;
  }
  const int32_t i = (int32_t)(x - p->items);
  for (int32_t t = p->first_living[i]; t < p->first_living[i + 1]; t++) {
    item *y = &p->items[p->living[t]];
    if (y->turn < x->turn) p->met[count++] = y;
  }
  /* Items that are written later are placed already where the largest come first. */
  for (int32_t j = i + 1; p->largest_first && j < p->item_count && p->items[j].unit <= x->last; j++)
    if (p->items[j].turn < x->turn) p->met[count++] = &p->items[j];
  sort_by_offset(p->met, count);
  return count;
}

/* Puts x into the smallest gap, or behind all that live with it; returns where it ends. */
static uint64_t place_item(placing *p, item *x) {
  uint64_t free_from = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
  const int32_t count = find_met(p, x);
  for (int32_t t = 0; t < count; t++) {
    const item *y = p->met[t];
    uint64_t gap = y->offset > free_from ? y->offset - free_from : 0;
    if (gap >= x->bytes && gap < best_gap) {
      best = free_from;
      best_gap = gap;
    }
    uint64_t end = mmci_bytes_add(y->offset, y->bytes);
    if (end > free_from) free_from = end;
  }
  x->offset = best != UINT64_MAX ? best : free_from;
  if (p->before != NULL) (void)insert(p->placed, x->turn, x);
  return mmci_bytes_add(x->offset, x->bytes);
}

/* Places all items in their order; returns how many bytes they take. */
static uint64_t place_all(placing *p) {
  uint64_t bytes = 0;
  for (int32_t i = 0; i < p->item_count; i++) p->order[i]->turn = i;
  for (int32_t i = 0; i < p->item_count; i++) {
    uint64_t end = place_item(p, p->order[i]);
    if (end > bytes) bytes = end;
  }
  return bytes;
}

static void keep_places(const placing *p, mmci_plan *plan, uint64_t bytes) {
  for (int32_t i = 0; i < p->item_count; i++)
    plan->steps[p->items[i].step].offset_bytes = p->items[i].offset;
  plan->workspace_bytes = bytes;
}

/* Among more results than these, placing them by size takes longer than the rest of planning. */
enum { MOST_BY_SIZE = 1 << 16 };

static void place_best(placing *p, mmci_plan *plan) {
  for (int32_t i = 0; i < p->item_count; i++) p->order[i] = &p->items[i];
  uint64_t as_written = place_all(p);
  keep_places(p, plan, as_written);
  if (p->item_count > MOST_BY_SIZE || as_written <= least_bytes(p)) return;
  qsort(p->order, (size_t)p->item_count, sizeof(item *), by_size);
  p->largest_first = true;
  uint64_t largest_first = place_all(p);
  if (largest_first < as_written) keep_places(p, plan, largest_first);
}

/* ---- many that run at the same time ---------------------------------------------------------- */

/* Bytes of the workspace that are free for a unit; `next` is the one behind it, or -1. */
typedef struct extent {
  uint64_t begin, end;
  int32_t next;
} extent;

/* A tree of units. Whatever is not below a unit may be at work when the unit is, so what is free
 * for it are the bytes of results below it but for those that it reads. */
struct forest {
  placing *p;
  int32_t *child, *sibling; /* the first of the units that a unit reads, and the next; or -1 */
  int32_t *rest;    /* the first extent that is free behind a unit's result is placed, or -1 */
  int32_t *item_of; /* the item of each unit; -1 where it has none */
  extent *extents;  /* one for each unit */
  uint64_t bytes;   /* of the workspace so far */
};

/* Merges two lists by rising address; what has no gap in between becomes one. */
static int32_t merge(extent *extents, int32_t a, int32_t b) {
  int32_t first = -1, last = -1;
  while (a >= 0 || b >= 0) {
    int32_t *from = b < 0 || (a >= 0 && extents[a].begin < extents[b].begin) ? &a : &b;
    const int32_t x = *from;
    *from = extents[x].next;
    if (last >= 0 && extents[last].end == extents[x].begin) {
      extents[last].end = extents[x].end;
      continue;
    }
    *(last < 0 ? &first : &extents[last].next) = x;
    last = x;
  }
  if (last >= 0) extents[last].next = -1;
  return first;
}

/* What is free for a unit. */
static int32_t find_free(forest *f, int32_t unit) {
  int32_t all = -1;
  for (int32_t c = f->child[unit]; c >= 0; c = f->sibling[c]) {
    all = merge(f->extents, all, f->rest[c]);
    for (int32_t d = f->child[c]; d >= 0; d = f->sibling[d]) {
      if (f->item_of[d] < 0) continue;
      const item *x = &f->p->items[f->item_of[d]];
      f->extents[d] = (extent){x->offset, mmci_bytes_add(x->offset, x->bytes), -1};
      all = merge(f->extents, all, d);
    }
  }
  return all;
}

/* Puts x into the smallest extent that takes it, or at the end, and returns what is left. */
static int32_t take(forest *f, int32_t all, item *x) {
  int32_t *best = NULL, *at = &all;
  uint64_t best_bytes = UINT64_MAX, end = f->bytes;
  for (; *at >= 0; at = &f->extents[*at].next) {
    const extent *e = &f->extents[*at];
    if (e->end - e->begin >= x->bytes && e->end - e->begin < best_bytes) {
      best = at;
      best_bytes = e->end - e->begin;
    }
    if (best == NULL && e->next < 0 && e->end == f->bytes) {
      end = e->begin;
      *at = -1; /* it is the end of the workspace, which grows */
      break;
    }
  }
  x->offset = best != NULL ? f->extents[*best].begin : end;
  if (best == NULL) {
    f->bytes = mmci_bytes_add(x->offset, x->bytes);
    return all;
  }
  f->extents[*best].begin += x->bytes;
  if (best_bytes == x->bytes) *best = f->extents[*best].next;
  return all;
}

static void note_child(placing *p, int32_t reader, int32_t writer) {
  p->forest->sibling[writer] = p->forest->child[reader];
  p->forest->child[reader] = writer;
}

/* Places all items in the order in which they are written. */
static mmc_status place_in_tree(placing *p, mmci_plan *plan, mmci_error *error) {
  const size_t units = (size_t)p->unit_count;
  forest f = {.p = p,
              .child = mmci_alloc_array(4 * units, sizeof *f.child),
              .extents = mmci_alloc_array(units, sizeof *f.extents)};
  if (f.child == NULL || f.extents == NULL) {
    free(f.child);
    free(f.extents);
    return mmci_fail_nomem(error, units * (4 * sizeof *f.child + sizeof *f.extents));
  }
  memset(f.child, -1, 4 * units * sizeof *f.child);
  f.sibling = f.child + units;
  f.rest = f.sibling + units;
  f.item_of = f.rest + units;
  p->forest = &f;
  each_read(p, note_child);
  for (int32_t i = 0; i < p->item_count; i++) f.item_of[p->items[i].unit] = i;
  for (int32_t u = 0; u < p->unit_count; u++) {
    f.rest[u] = find_free(&f, u);
    if (f.item_of[u] >= 0) f.rest[u] = take(&f, f.rest[u], &p->items[f.item_of[u]]);
  }
  keep_places(p, plan, f.bytes);
  free(f.child);
  free(f.extents);
  return MMC_OK;
}

/* Says whether every result is read once, and they are so many that to compare them in pairs takes
 * longer than the rest of planning. */
static bool is_large_tree(const placing *p) {
  enum { MOST_IN_PAIRS = 256 };
  if (p->unit_count <= MOST_IN_PAIRS) return false;
  for (int32_t u = 0; u < p->unit_count; u++)
    if (p->first_reader[u + 1] - p->first_reader[u] > 1) return false;
  return true;
}

mmc_status mmci_plan_place(mmci_plan *plan, mmci_error *error) {
  size_t steps = (size_t)plan->step_count, reads = 0;
  mmci_plan_count_levels(plan);
  mmci_plan_find_common(plan);
  for (size_t s = 0; s < steps; s++) {
    int32_t count;
    if (mmci_plan_is_inside(plan, (int32_t)s)) continue;
    (void)mmci_plan_reads(plan, &plan->steps[s], &count);
    reads += (size_t)count;
  }
  placing p = {.plan = plan, .row_words = (steps + 63) / 64};
  p.unit_of = mmci_alloc_zeroed(4 * steps + 2 + reads, sizeof *p.unit_of);
  p.items = mmci_alloc_array(steps, sizeof *p.items + 3 * sizeof *p.order);
  mmc_status status = MMC_OK;
  bool done = p.unit_of != NULL && p.items != NULL, in_tree = false;
  if (done) {
    int32_t *room = p.unit_of + steps;
    p.first_living = room + steps;
    p.first_reader = p.first_living + steps + 1;
    p.readers = p.first_reader + steps + 1;
    p.order = (item **)(p.items + steps);
    p.met = p.order + steps;
    p.placed = p.met + steps;
    find_readers(&p);
    find_items(&p);
    in_tree = plan->parallel && is_large_tree(&p);
    if (in_tree)
      status = place_in_tree(&p, plan, error);
    else
      done = plan->parallel ? find_order(&p) : find_living(&p, room);
  }
  if (done && !in_tree) place_best(&p, plan);
  free(p.unit_of);
  free(p.items);
  free(p.before);
  free(p.living);
  return done ? status : mmci_fail_nomem(error, steps * (2 * sizeof *p.items + p.row_words * 8));
}

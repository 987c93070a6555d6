/* place.c: places in the workspace by lifetime: the dynamic storage allocation problem, which is
 * NP-hard (Garey and Johnson 1979, SR2). Results are placed one after the other, each in the
 * smallest gap that takes it between those that live with it; largest first, and again in the order
 * in which they are written; the smaller workspace of the two is taken. */
#include <string.h>

#include "base/alloc.h"
#include "plan/layout.h"

/* A result that takes room. Units are calls: groups, and steps of none. */
typedef struct item {
  int32_t unit, step;
  uint64_t bytes, offset;
} item;

typedef struct placing {
  const mmci_plan *plan;
  int32_t unit_count, item_count;
  int32_t *unit_of; /* of a step, -1: inside a group */
  int32_t *readers; /* the units that read what unit u writes: from first_reader[u] on */
  int32_t *first_reader;
  uint64_t *before; /* bit v of row u: unit u waits for unit v; NULL: one after the other */
  size_t row_words;
  item *items;
  item *placed; /* by rising offset */
} placing;

static bool waits_for(const placing *p, int32_t u, int32_t v) {
  if (p->before == NULL) return v < u;
  return p->before[(size_t)u * p->row_words + (size_t)v / 64] >> (v % 64) & 1;
}

/* Whether some reader of the earlier result may still be at work when the later one is written. */
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

/* From the end of each writer's share to its begin. */
static void note_reader(placing *p, int32_t reader, int32_t writer) {
  p->readers[--p->first_reader[writer]] = reader;
}

static void note_order(placing *p, int32_t reader, int32_t writer) {
  uint64_t *row = p->before + (size_t)reader * p->row_words;
  const uint64_t *earlier = p->before + (size_t)writer * p->row_words;
  for (size_t w = 0; w < p->row_words; w++) row[w] |= earlier[w];
  row[writer / 64] |= (uint64_t)1 << (writer % 64);
}

static void find_lifetimes(placing *p) {
  const mmci_plan *plan = p->plan;
  for (int32_t s = 0; s < plan->step_count; s++)
    p->unit_of[s] = mmci_plan_is_inside(plan, s) ? -1 : p->unit_count++;
  each_read(p, count_reader);
  for (int32_t u = 1; u <= p->unit_count; u++) p->first_reader[u] += p->first_reader[u - 1];
  each_read(p, note_reader);
  if (p->before != NULL) each_read(p, note_order); /* writers come first, so their rows are whole */
  size_t size = mmci_plan_element_bytes(plan);
  for (int32_t s = 0; s < plan->step_count - 1; s++) {
    uint64_t bytes = mmci_result_bytes(plan->steps[s].m, plan->steps[s].n, size);
    if (p->unit_of[s] < 0 || bytes == 0) continue;
    p->items[p->item_count++] = (item){.unit = p->unit_of[s], .step = s, .bytes = bytes};
  }
}

/* ---- placed -------------------------------------------------------------------------------- */

static int largest_first(const void *a, const void *b) {
  const item *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return (x->unit > y->unit) - (x->unit < y->unit);
}

/* Puts x into the smallest gap, or behind all that live with it; returns where it ends. */
static uint64_t place(placing *p, item *x, int32_t placed_count) {
  uint64_t free_from = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
  for (int32_t i = 0; i < placed_count; i++) {
    const item *y = &p->placed[i];
    if (!live_together(p, x, y)) continue;
    uint64_t gap = y->offset > free_from ? y->offset - free_from : 0;
    if (gap >= x->bytes && gap < best_gap) {
      best = free_from;
      best_gap = gap;
    }
    uint64_t end = mmci_bytes_add(y->offset, y->bytes);
    if (end > free_from) free_from = end;
  }
  x->offset = best != UINT64_MAX ? best : free_from;
  int32_t at = placed_count;
  while (at > 0 && p->placed[at - 1].offset > x->offset) at--;
  memmove(p->placed + at + 1, p->placed + at, (size_t)(placed_count - at) * sizeof *x);
  p->placed[at] = *x;
  return mmci_bytes_add(x->offset, x->bytes);
}

/* Places all items in their order; returns the bytes that takes. */
static uint64_t place_all(placing *p) {
  uint64_t bytes = 0;
  for (int32_t i = 0; i < p->item_count; i++) {
    uint64_t end = place(p, &p->items[i], i);
    if (end > bytes) bytes = end;
  }
  return bytes;
}

static void keep(const placing *p, mmci_plan *plan, uint64_t bytes) {
  for (int32_t i = 0; i < p->item_count; i++)
    plan->steps[p->items[i].step].offset_bytes = p->items[i].offset;
  plan->workspace_bytes = bytes;
}

mmc_status mmci_plan_place(mmci_plan *plan, mmci_error *error) {
  size_t steps = (size_t)plan->step_count, reads = 0;
  mmci_plan_count_levels(plan);
  for (size_t s = 0; s < steps; s++) {
    int32_t count;
    if (mmci_plan_is_inside(plan, (int32_t)s)) continue;
    (void)mmci_plan_reads(plan, &plan->steps[s], &count);
    reads += (size_t)count;
  }
  placing p = {.plan = plan, .row_words = (steps + 63) / 64};
  p.unit_of = mmci_alloc_array(2 * steps + 1 + reads, sizeof *p.unit_of);
  p.items = mmci_alloc_array(2 * steps, sizeof *p.items);
  p.before = plan->parallel ? mmci_alloc_zeroed(steps * p.row_words, sizeof *p.before) : NULL;
  bool done = p.unit_of != NULL && p.items != NULL && (p.before != NULL || !plan->parallel);
  if (done) {
    p.first_reader = p.unit_of + steps;
    p.readers = p.first_reader + steps + 1;
    p.placed = p.items + steps;
    memset(p.first_reader, 0, (steps + 1) * sizeof *p.first_reader);
    find_lifetimes(&p);
    uint64_t as_written = place_all(&p);
    keep(&p, plan, as_written);
    qsort(p.items, (size_t)p.item_count, sizeof *p.items, largest_first);
    uint64_t by_size = place_all(&p);
    if (by_size < as_written) keep(&p, plan, by_size);
  }
  free(p.unit_of);
  free(p.items);
  free(p.before);
  return done ? MMC_OK : mmci_fail_nomem(error, steps * (2 * sizeof *p.items + p.row_words * 8));
}

#include "plan/picture_fold.h"

#include <string.h>

#include "base/alloc.h"
#include "plan/explain.h"

/* A step costs something when it has one part in so many of all. */
enum { LEAST_SHARE = 100 };

typedef enum visibility { HIDDEN, KEPT_HIDDEN, SHOWN } visibility;

/* A hole is a connected set of hidden steps, named by the uppermost one. At most one shown step
 * hangs below it. */
typedef struct folding {
  const mmci_plan *plan;
  int32_t n, count;
  int32_t *owner;  /* the step that a result is drawn under; -1 for the last result */
  int32_t *leaves; /* how many operands of the row are below a step */
  int32_t *low;    /* the first operand in the row below a step */
  int32_t *row;    /* the operands of the row, factors and results that are drawn elsewhere */
  int32_t *top;    /* the hole that a hidden step is in */
  int32_t *bottom; /* the shown step below a hole; -1 when there is none */
  uint8_t *state;  /* the visibility of each step */
  mmci_shown *nodes;
  int32_t node_count;
} folding;

/* ---- the tree ------------------------------------------------------------------------------- */

/* Returns the step that is drawn as the left (0) or right (1) child of step s, or -1 when an
 * operand of the row stands there, or nothing: the right one of a square. */
static int32_t child_step(const folding *f, int32_t s, int side) {
  int32_t operand = mmci_step_operand(f->plan, s, side);
  if (operand < f->n || (side == 1 && mmci_step_squares(f->plan, s))) return -1;
  return f->owner[operand - f->n] == s ? operand - f->n : -1;
}

static bool has_operand(const folding *f, int32_t s, int side) {
  return child_step(f, s, side) < 0 && !(side == 1 && mmci_step_squares(f->plan, s));
}

static void find_owners(folding *f) {
  for (int32_t s = 0; s < f->count; s++) f->owner[s] = -1;
  for (int32_t s = f->count; s-- > 0;) { /* the first reader comes last */
    int32_t operands[] = {f->plan->steps[s].left, f->plan->steps[s].right};
    for (int side = 0; side < 2; side++)
      if (operands[side] >= f->n) f->owner[operands[side] - f->n] = s;
  }
}

/* Puts factors, and results that are drawn elsewhere, in a row. */
static void find_row(folding *f) {
  for (int32_t s = 0; s < f->count; s++) {
    f->leaves[s] = 0;
    for (int side = 0; side < 2; side++) {
      int32_t child = child_step(f, s, side);
      f->leaves[s] += child >= 0 ? f->leaves[child] : has_operand(f, s, side);
    }
  }
  f->low[f->count - 1] = 0;
  for (int32_t s = f->count; s-- > 0;) {
    int32_t at = f->low[s];
    for (int side = 0; side < 2; side++) {
      int32_t child = child_step(f, s, side);
      if (child >= 0) {
        f->low[child] = at;
        at += f->leaves[child];
      } else if (has_operand(f, s, side)) {
        f->row[at++] = mmci_step_operand(f->plan, s, side);
      }
    }
  }
}

/* ---- what is shown -------------------------------------------------------------------------- */

static bool is_shown(const folding *f, int32_t s) {
  return f->state[s] == SHOWN;
}

/* Finds the holes between the shown steps. */
static void find_holes(folding *f) {
  for (int32_t s = f->count; s-- > 0;) {
    int32_t owner = f->owner[s];
    bool below_hidden = owner >= 0 && !is_shown(f, owner);
    f->bottom[s] = -1;
    f->top[s] = below_hidden ? f->top[owner] : s;
    if (is_shown(f, s) && below_hidden) f->bottom[f->top[owner]] = s;
  }
}

/* Says whether a hidden step is the uppermost one of its hole. */
static bool is_hole(const folding *f, int32_t s) {
  return !is_shown(f, s) && f->top[s] == s;
}

/* Counts the boxes in the row. */
static int64_t count_columns(const folding *f) {
  int64_t columns = 0;
  for (int32_t s = 0; s < f->count; s++) {
    if (is_shown(f, s)) {
      columns += has_operand(f, s, 0) + has_operand(f, s, 1);
    } else if (is_hole(f, s)) {
      int32_t b = f->bottom[s];
      columns +=
          b < 0 ? 1
                : (f->low[b] > f->low[s]) + (f->low[b] + f->leaves[b] < f->low[s] + f->leaves[s]);
    }
  }
  return columns;
}

/* Returns the hidden step that costs most, the latest of several; -1 when all is done. */
static int32_t costliest(const folding *f) {
  int32_t best = -1;
  mmci_u128 most = 0;
  for (int32_t s = 0; s < f->count; s++) {
    if (f->state[s] != HIDDEN) continue;
    mmci_u128 cost = mmci_plan_step_cost(f->plan, s);
    if (best < 0 || cost >= most) {
      best = s;
      most = cost;
    }
  }
  return best;
}

/* Returns the lowest step of a hidden tree in which every step takes an operand of the row; -1 when
 * it is another, or short. */
static int32_t end_of_spine(const folding *f, int32_t top) {
  int32_t s = top, length = 1;
  for (;; length++) {
    int32_t left = child_step(f, s, 0), right = child_step(f, s, 1);
    if (left >= 0 && right >= 0) return -1;
    if (left < 0 && right < 0) return length >= 3 ? s : -1;
    s = left >= 0 ? left : right;
  }
}

/* Returns the lowest step above both that is in the hole of s, which may be s itself. */
static int32_t meeting(const folding *f, int32_t s, int32_t bottom) {
  /* Operands of the row tell what is above what. */
  while (!(f->low[s] <= f->low[bottom] &&
           f->low[bottom] + f->leaves[bottom] <= f->low[s] + f->leaves[s]))
    s = f->owner[s];
  return s;
}

/* Says whether every hidden step of a run takes one operand of the row, or each none. */
static bool is_alike(const folding *f, int32_t hole) {
  int32_t hidden = 0, bottom = f->bottom[hole];
  if (bottom < 0) return false;
  for (int32_t s = f->owner[bottom]; s != f->owner[hole]; s = f->owner[s]) hidden++;
  int32_t joining = f->leaves[hole] - f->leaves[bottom];
  return joining == hidden || joining == 0;
}

static void keep_hidden(folding *f, int32_t hole) {
  for (int32_t s = 0; s < f->count; s++)
    if (!is_shown(f, s) && f->top[s] == hole) f->state[s] = KEPT_HIDDEN;
}

/* Returns the step to be shown next, so that no hole gets two shown steps below it; -1 when there
 * is none. */
static int32_t choose_step(folding *f) {
  int32_t s;
  /* Steps that are alike are only worth a box when they cost something. */
  while ((s = costliest(f)) >= 0 && is_alike(f, f->top[s]) &&
         mmci_plan_step_cost(f->plan, s) < mmci_plan_cost(f->plan) / LEAST_SHARE)
    keep_hidden(f, f->top[s]);
  if (s < 0) return -1;
  int32_t hole = f->top[s], bottom = f->bottom[hole];
  if (bottom >= 0) return meeting(f, s, bottom);
  int32_t end = end_of_spine(f, hole);
  return end >= 0 ? end : s;
}

static void choose_all(folding *f, int columns) {
  bool all = f->leaves[f->count - 1] <= columns;
  memset(f->state, all ? SHOWN : HIDDEN, (size_t)f->count);
  f->state[f->count - 1] = SHOWN;
  find_holes(f);
  for (int32_t s; (s = choose_step(f)) >= 0;) {
    int32_t hole = f->top[s];
    f->state[s] = SHOWN;
    find_holes(f);
    if (count_columns(f) <= columns) continue;
    f->state[s] = HIDDEN;
    find_holes(f);
    keep_hidden(f, hole);
  }
}

/* ---- boxes ---------------------------------------------------------------------------------- */

static int32_t add_node(folding *f, const mmci_shown *node) {
  f->nodes[f->node_count] = *node;
  return f->node_count++;
}

static int32_t add_operand(folding *f, int32_t operand) {
  return add_node(f, &(mmci_shown){.kind = operand < f->n ? MMCI_SHOWN_FACTOR : MMCI_SHOWN_AGAIN,
                                   .operand = operand,
                                   .last = operand,
                                   .step = -1,
                                   .group = -1});
}

/* Adds the operands from low to high, without high, as a child of node, if there are any. */
static void add_side(folding *f, int32_t low, int32_t high, mmci_shown *node) {
  if (low == high) return;
  int32_t at = high - low == 1 ? add_operand(f, f->row[low])
                               : add_node(f, &(mmci_shown){.kind = MMCI_SHOWN_OPERANDS,
                                                           .operand = f->row[low],
                                                           .last = f->row[high - 1],
                                                           .hidden = high - low,
                                                           .step = -1,
                                                           .group = -1});
  node->children[node->child_count++] = at;
}

static int32_t add_step(folding *f, int32_t s);

/* Adds what is hidden in a hole, with the shown step below it. */
static int32_t add_hole(folding *f, int32_t hole) {
  int32_t bottom = f->bottom[hole], low = f->low[hole], high = low + f->leaves[hole];
  mmci_shown node = {.kind = bottom < 0 ? MMCI_SHOWN_TREE : MMCI_SHOWN_RUN,
                     .operand = f->row[low],
                     .last = f->row[high - 1],
                     .step = hole,
                     .group = f->plan->steps[hole].group};
  for (int32_t s = 0; s < f->count; s++) {
    if (is_shown(f, s) || f->top[s] != hole) continue;
    node.hidden++;
    node.cost += mmci_plan_step_cost(f->plan, s);
    if (f->plan->steps[s].group != node.group) node.group = -1;
  }
  if (bottom >= 0) {
    node.alike = is_alike(f, hole);
    add_side(f, low, f->low[bottom], &node);
    node.children[node.child_count++] = add_step(f, bottom);
    add_side(f, f->low[bottom] + f->leaves[bottom], high, &node);
  }
  return add_node(f, &node);
}

/* Adds a shown step and all below it. It calls itself no deeper than the picture is high. */
static int32_t add_step(folding *f, int32_t s) {
  mmci_shown node = {.kind = MMCI_SHOWN_STEP,
                     .operand = f->n + s,
                     .last = f->n + s,
                     .step = s,
                     .cost = mmci_plan_step_cost(f->plan, s),
                     .group = f->plan->steps[s].group};
  for (int side = 0; side < 2; side++) {
    int32_t child = child_step(f, s, side), at;
    if (child >= 0)
      at = is_shown(f, child) ? add_step(f, child) : add_hole(f, child);
    else if (has_operand(f, s, side))
      at = add_operand(f, mmci_step_operand(f->plan, s, side));
    else
      continue;
    node.children[node.child_count++] = at;
  }
  return add_node(f, &node);
}

/* ---- all of it ------------------------------------------------------------------------------ */

static mmc_status fold_steps(folding *f, int columns, mmci_picture_fold *out, mmci_error *error) {
  find_owners(f);
  find_row(f);
  choose_all(f, columns);
  int32_t shown = 0;
  for (int32_t s = 0; s < f->count; s++) shown += is_shown(f, s);
  /* A shown step has at most two children, one of which may be a run with its operands. */
  size_t room = 6 * (size_t)shown + 4;
  f->nodes = mmci_alloc_array(room, sizeof *f->nodes);
  if (f->nodes == NULL) return mmci_fail_nomem(error, room * sizeof *f->nodes);
  add_step(f, f->count - 1);
  *out = (mmci_picture_fold){.nodes = f->nodes, .count = f->node_count, .steps = shown};
  return MMC_OK;
}

static mmc_status fold_factor(mmci_picture_fold *out, mmci_error *error) {
  mmci_shown *node = mmci_alloc_zeroed(1, sizeof *node);
  if (node == NULL) return mmci_fail_nomem(error, sizeof *node);
  *node = (mmci_shown){.kind = MMCI_SHOWN_FACTOR, .step = -1, .group = -1};
  *out = (mmci_picture_fold){.nodes = node, .count = 1};
  return MMC_OK;
}

mmc_status mmci_picture_fold_create(const mmci_plan *plan, int columns, mmci_picture_fold *out,
                                    mmci_error *error) {
  int32_t count = plan->step_count;
  if (count == 0) return fold_factor(out, error);
  size_t size = (size_t)count, words = 6 * size + 1;
  int32_t *memory = mmci_alloc_array(words + size / sizeof(int32_t) + 1, sizeof *memory);
  if (memory == NULL) return mmci_fail_nomem(error, (words + size) * sizeof *memory);
  folding f = {.plan = plan,
               .n = plan->chain->n,
               .count = count,
               .owner = memory,
               .leaves = memory + size,
               .low = memory + 2 * size,
               .top = memory + 3 * size,
               .bottom = memory + 4 * size,
               .row = memory + 5 * size,
               .state = (uint8_t *)(memory + words)};
  mmc_status status = fold_steps(&f, columns, out, error);
  free(memory);
  return status;
}

void mmci_picture_fold_destroy(mmci_picture_fold *fold) {
  free(fold->nodes);
  *fold = (mmci_picture_fold){0};
}

/* choose.c: the table of layouts over a plan's tree. */
#include "ranks/choose.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

mmci_ranks_rates mmci_ranks_assumed(void) {
  return (mmci_ranks_rates){
      .flops_per_s = 2e10,
      .word_bytes_s = 8e-10,
      .message_s = 5e-6,
      .memory_bytes_s = 2e-10,
      .flop_j = 1e-10,
      .word_byte_j = 1e-9,
      .rank_watts = 5,
  };
}

/* The price of something, in all units. */
typedef struct price {
  double seconds, communication_s, joules, words;
} price;

/* One layout of a step's result, as the table has it. */
typedef struct cell {
  double least; /* the least price in the unit of the goal; infinity when there is none */
  int way;
  int left, right; /* the layouts that the operands have before they are changed */
} cell;

/* What is being filled for one number of ranks. */
typedef struct table {
  const mmci_ranks_problem *problem;
  int32_t ranks;
  int layout_count, way_count;
  mmci_layout layouts[MMCI_LAYOUTS];
  mmci_way ways[MMCI_WAYS];
  int way_left[MMCI_WAYS], way_right[MMCI_WAYS], way_result[MMCI_WAYS];
  uint64_t step_limit_bytes;
  cell *cells;      /* step_count * MMCI_LAYOUTS */
  int *fixed;       /* step_count: the layout of a result that several steps read, else -1 */
  int32_t *readers; /* step_count */
} table;

/* ---- prices ---------------------------------------------------------------------------------- */

static double in_goal(const mmci_ranks_problem *problem, const price *p) {
  if (problem->goal == MMCI_RANKS_WORDS) return p->words;
  return problem->goal == MMCI_RANKS_JOULES ? p->joules : p->seconds;
}

static double word_bytes(const mmci_ranks_problem *problem) {
  return (double)mmc_dtype_size(problem->dtype);
}

static void add(price *sum, const price *p) {
  sum->seconds += p->seconds;
  sum->communication_s += p->communication_s;
  sum->joules += p->joules;
  sum->words += p->words;
}

static void add_watts(const table *t, price *p) {
  p->joules += p->seconds * t->problem->rates.rank_watts * t->ranks;
}

static price price_of_change(const table *t, const mmci_layout *from, const mmci_layout *to,
                             int64_t rows, int64_t cols) {
  const mmci_ranks_rates *rates = &t->problem->rates;
  price p = {0};
  if (mmci_layout_same(from, to)) return p;
  int64_t messages;
  const double most = mmci_u128_to_double(mmci_layout_change_most(from, to, rows, cols, &messages));
  const double size = word_bytes(t->problem);
  p.words = mmci_u128_to_double(mmci_layout_change_words(from, to, rows, cols));
  p.communication_s = most * size * rates->word_bytes_s + (double)messages * rates->message_s;
  p.seconds = p.communication_s;
  if (p.words == 0) { /* a part of what a rank has is copied */
    const mmci_piece piece = mmci_layout_piece(to, rows, cols, 0);
    p.seconds = 2 * mmci_u128_to_double(mmci_piece_words(&piece)) * size * rates->memory_bytes_s;
  }
  p.joules = p.words * size * rates->word_byte_j;
  add_watts(t, &p);
  return p;
}

static price price_of_way(const table *t, const mmci_way *way, const mmci_ranks_product *x) {
  const mmci_ranks_rates *rates = &t->problem->rates;
  const bool is_complex = t->problem->dtype == MMC_C64 || t->problem->dtype == MMC_C128;
  const double flops = is_complex ? 8 : 2, size = word_bytes(t->problem);
  price p = {.words = mmci_u128_to_double(mmci_way_words(way, x->m, x->k, x->n))};
  const mmci_piece a = mmci_layout_piece(&way->left, x->m, x->k, 0);
  const mmci_piece b = mmci_layout_piece(&way->right, x->k, x->n, 0);
  const mmci_piece c = mmci_layout_piece(&way->result, x->m, x->n, 0);
  const double touched = mmci_u128_to_double(mmci_piece_words(&a)) +
                         mmci_u128_to_double(mmci_piece_words(&b)) +
                         mmci_u128_to_double(mmci_piece_words(&c)) +
                         mmci_u128_to_double(mmci_way_buffer_words(way, x->m, x->k, x->n));
  const double by_flops = flops *
                          mmci_u128_to_double(mmci_way_multiplications(way, x->m, x->k, x->n)) /
                          rates->flops_per_s;
  const double by_memory = touched * size * rates->memory_bytes_s;
  p.communication_s = p.words * size * rates->word_bytes_s / way->result.ranks +
                      (double)mmci_way_messages(way, x->m, x->k, x->n) * rates->message_s;
  p.seconds = p.communication_s + (by_flops > by_memory ? by_flops : by_memory);
  p.joules = p.words * size * rates->word_byte_j +
             flops * mmci_u128_to_double(mmci_way_total(way, x->m, x->k, x->n)) * rates->flop_j;
  add_watts(t, &p);
  return p;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static uint64_t piece_bytes(const table *t, const mmci_layout *layout, int64_t rows, int64_t cols) {
  const mmci_piece piece = mmci_layout_piece(layout, rows, cols, 0);
  const mmci_u128 bytes =
      mmci_u128_mul(mmci_piece_words(&piece), mmc_dtype_size(t->problem->dtype));
  return bytes > UINT64_MAX ? UINT64_MAX : (uint64_t)bytes;
}

static uint64_t operand_bytes(const table *t, const mmci_layout *from, const mmci_layout *to,
                              int64_t rows, int64_t cols) {
  uint64_t bytes = piece_bytes(t, from, rows, cols);
  if (!mmci_layout_same(from, to)) bytes = mmci_bytes_add(bytes, piece_bytes(t, to, rows, cols));
  return bytes;
}

/* Returns the bytes that a rank, the first, which has the largest pieces, holds for one step. */
static uint64_t step_bytes(const table *t, const mmci_way *way, const mmci_layout *left,
                           const mmci_layout *right, const mmci_ranks_product *x) {
  const mmci_u128 buffer = mmci_u128_mul(mmci_way_buffer_words(way, x->m, x->k, x->n),
                                         mmc_dtype_size(t->problem->dtype));
  uint64_t bytes = buffer > UINT64_MAX ? UINT64_MAX : (uint64_t)buffer;
  bytes = mmci_bytes_add(bytes, operand_bytes(t, left, &way->left, x->m, x->k));
  bytes = mmci_bytes_add(bytes, operand_bytes(t, right, &way->right, x->k, x->n));
  return mmci_bytes_add(bytes, piece_bytes(t, &way->result, x->m, x->n));
}

/* ---- the table ------------------------------------------------------------------------------- */

static int find_layout(const table *t, const mmci_layout *layout) {
  for (int l = 0; l < t->layout_count; l++)
    if (mmci_layout_same(&t->layouts[l], layout)) return l;
  return -1;
}

static cell *row_of(const table *t, int64_t step) {
  return t->cells + step * MMCI_LAYOUTS;
}

/* Says in which layout an operand is when no table rules it: given, or fixed. */
static bool is_given(const table *t, int64_t operand, mmci_layout *out) {
  const int64_t n = t->problem->factor_count;
  if (operand < n) {
    if (t->problem->given == NULL) return false;
    *out = t->problem->given[operand];
    return true;
  }
  if (t->fixed[operand - n] < 0) return false;
  *out = t->layouts[t->fixed[operand - n]];
  return true;
}

/* Writes the least price of having an operand of rows x cols in each layout, and the layout that it
 * has before that: an index, -1 for one that is given. */
static void price_operand(const table *t, int64_t operand, int64_t rows, int64_t cols,
                          double least[MMCI_LAYOUTS], int from[MMCI_LAYOUTS]) {
  const int64_t n = t->problem->factor_count;
  mmci_layout given;
  const bool has_given = is_given(t, operand, &given);
  for (int l = 0; l < t->layout_count; l++) {
    least[l] = INFINITY;
    from[l] = l;
    if (has_given) {
      const price p = price_of_change(t, &given, &t->layouts[l], rows, cols);
      least[l] = in_goal(t->problem, &p);
      from[l] = -1;
    } else if (operand < n && t->layouts[l].kind == MMCI_WHOLE) {
      /* Each rank reads a part of the file, and all exchange what they read. */
      const price p = price_of_change(t, &t->layouts[0], &t->layouts[l], rows, cols);
      least[l] = in_goal(t->problem, &p);
      from[l] = 0;
    } else if (operand < n && t->problem->pieces_first && t->layouts[l].kind == MMCI_WHOLE) {
      const price p = price_of_change(t, &t->layouts[0], &t->layouts[l], rows, cols);
      least[l] = in_goal(t->problem, &p);
      from[l] = 0;
    } else if (operand < n) {
      least[l] = 0; /* it is read in this layout */
    } else {
      for (int f = 0; f < t->layout_count; f++) {
        const cell *c = &row_of(t, operand - n)[f];
        if (!(c->least < least[l])) continue;
        const price p = price_of_change(t, &t->layouts[f], &t->layouts[l], rows, cols);
        const double sum = c->least + in_goal(t->problem, &p);
        if (sum < least[l]) {
          least[l] = sum;
          from[l] = f;
        }
      }
    }
  }
}

static const mmci_layout *layout_before(const table *t, int64_t operand, int from,
                                        mmci_layout *room) {
  if (from >= 0) return &t->layouts[from];
  (void)is_given(t, operand, room);
  return room;
}

static void fill_step(table *t, int64_t s) {
  const mmci_ranks_product *x = &t->problem->products[s];
  double left[MMCI_LAYOUTS], right[MMCI_LAYOUTS];
  int left_from[MMCI_LAYOUTS], right_from[MMCI_LAYOUTS];
  price_operand(t, x->left, x->m, x->k, left, left_from);
  price_operand(t, x->right, x->k, x->n, right, right_from);
  cell *row = row_of(t, s);
  for (int l = 0; l < MMCI_LAYOUTS; l++) row[l] = (cell){.least = INFINITY};
  for (int w = 0; w < t->way_count; w++) {
    const mmci_way *way = &t->ways[w];
    if (t->problem->reproducible && way->algorithm == MMCI_BY_INNER) continue;
    const int a = t->way_left[w], b = t->way_right[w], c = t->way_result[w];
    mmci_layout room[2];
    if (t->step_limit_bytes != UINT64_MAX &&
        step_bytes(t, way, layout_before(t, x->left, left_from[a], &room[0]),
                   layout_before(t, x->right, right_from[b], &room[1]), x) > t->step_limit_bytes)
      continue;
    const price p = price_of_way(t, way, x);
    const double sum = left[a] + right[b] + in_goal(t->problem, &p);
    if (sum < row[c].least)
      row[c] = (cell){.least = sum, .way = w, .left = left_from[a], .right = right_from[b]};
  }
  if (t->readers[s] < 2) return;
  int best = 0;
  for (int l = 1; l < t->layout_count; l++)
    if (row[l].least < row[best].least) best = l;
  t->fixed[s] = best;
}

/* ---- what was chosen ------------------------------------------------------------------------- */

/* Notes how step s is computed when its result is in layout l. */
static void note_step(const table *t, int64_t s, int l, mmci_ranks_plan *plan, int *chosen) {
  const int64_t n = t->problem->factor_count;
  const mmci_ranks_product *x = &t->problem->products[s];
  const cell *c = &row_of(t, s)[l];
  mmci_ranks_step *step = &plan->steps[s];
  const mmci_way *way = &t->ways[c->way];
  mmci_layout room;
  *step = (mmci_ranks_step){.way = *way};
  step->left.from = *layout_before(t, x->left, c->left, &room);
  step->right.from = *layout_before(t, x->right, c->right, &room);
  if (x->left >= n) chosen[x->left - n] = find_layout(t, &step->left.from);
  if (x->right >= n) chosen[x->right - n] = find_layout(t, &step->right.from);
  if (x->left < n) plan->factors[x->left] = step->left.from;
  if (x->right < n) plan->factors[x->right] = step->right.from;
  step->left.words = mmci_layout_change_words(&step->left.from, &way->left, x->m, x->k);
  step->right.words = mmci_layout_change_words(&step->right.from, &way->right, x->k, x->n);
  step->words = mmci_u128_add(mmci_u128_add(step->left.words, step->right.words),
                              mmci_way_words(way, x->m, x->k, x->n));
  price p = price_of_way(t, way, x), change;
  change = price_of_change(t, &step->left.from, &way->left, x->m, x->k);
  add(&p, &change);
  change = price_of_change(t, &step->right.from, &way->right, x->k, x->n);
  add(&p, &change);
  step->predicted_s = p.seconds;
  step->communication_s = p.communication_s;
  step->predicted_j = p.joules;
}

/* Counts what a rank holds at every step: its pieces of all results that are still read, and what
 * the step takes. Factors are read when a step needs them, but are there all the time where given.
 */
static void count_memory(const table *t, mmci_ranks_plan *plan, int64_t *last_read) {
  const mmci_ranks_problem *p = t->problem;
  const int64_t n = p->factor_count;
  uint64_t factors = 0, live = 0;
  for (int64_t i = 0; p->given != NULL && i < n; i++)
    factors = mmci_bytes_add(factors, piece_bytes(t, &p->given[i], p->dims[i], p->dims[i + 1]));
  for (int64_t s = 0; s < p->step_count; s++) {
    const mmci_ranks_product *x = &p->products[s];
    if (x->left >= n) last_read[x->left - n] = s;
    if (x->right >= n) last_read[x->right - n] = s;
  }
  plan->rank_bytes = factors;
  for (int64_t s = 0; s < p->step_count; s++) {
    const mmci_ranks_product *x = &p->products[s];
    mmci_ranks_step *step = &plan->steps[s];
    uint64_t own = step_bytes(t, &step->way, &step->left.from, &step->right.from, x);
    /* Operands that are results are among what lives, and factors that are given as well. */
    const uint64_t left = piece_bytes(t, &step->left.from, x->m, x->k);
    const uint64_t right = piece_bytes(t, &step->right.from, x->k, x->n);
    if (own != UINT64_MAX) {
      if (x->left >= n || p->given != NULL) own -= left;
      if (x->right >= n || p->given != NULL) own -= right;
    }
    step->rank_bytes = mmci_bytes_add(mmci_bytes_add(factors, live), own);
    if (step->rank_bytes > plan->rank_bytes) plan->rank_bytes = step->rank_bytes;
    live = mmci_bytes_add(live, piece_bytes(t, &step->way.result, x->m, x->n));
    if (live == UINT64_MAX) continue;
    if (x->left >= n && last_read[x->left - n] == s) live -= left;
    if (x->right >= n && x->right != x->left && last_read[x->right - n] == s) live -= right;
  }
  const mmci_layout *end =
      p->step_count > 0 ? &plan->steps[p->step_count - 1].way.result : &plan->factors[0];
  const uint64_t result = operand_bytes(t, end, &plan->result, p->dims[0], p->dims[n]);
  if (mmci_bytes_add(factors, result) > plan->rank_bytes)
    plan->rank_bytes = mmci_bytes_add(factors, result);
}

/* Notes the cheapest plan of the table; plan's arrays are there. Returns false when no plan keeps
 * within the limit of a step. */
static bool note_plan(const table *t, mmci_ranks_plan *plan, int *chosen, int64_t *last_read) {
  const mmci_ranks_problem *p = t->problem;
  const int64_t n = p->factor_count, last = p->step_count - 1;
  const int64_t rows = p->dims[0], cols = p->dims[n];
  plan->ranks = t->ranks;
  for (int64_t i = 0; i < n; i++) plan->factors[i] = p->given != NULL ? p->given[i] : t->layouts[0];
  mmci_layout end = plan->factors[0];
  if (last >= 0) {
    double least = INFINITY;
    int best = -1;
    for (int l = 0; l < t->layout_count; l++) {
      price change = {0};
      if (p->asked != NULL) change = price_of_change(t, &t->layouts[l], p->asked, rows, cols);
      const double sum = row_of(t, last)[l].least + in_goal(p, &change);
      if (!(sum < least)) continue;
      least = sum;
      best = l;
    }
    if (best < 0) return false;
    chosen[last] = best;
    for (int64_t s = last; s >= 0; s--) note_step(t, s, chosen[s], plan, chosen);
    end = plan->steps[last].way.result;
  } else if (p->given == NULL && p->asked != NULL && p->asked->kind != MMCI_WHOLE) {
    end = plan->factors[0] = *p->asked;
  }
  plan->result = p->asked != NULL ? *p->asked : end;
  plan->last = (mmci_ranks_operand){end, mmci_layout_change_words(&end, &plan->result, rows, cols)};
  price all = price_of_change(t, &end, &plan->result, rows, cols);
  plan->words = plan->last.words;
  for (int64_t s = 0; s <= last; s++) {
    const mmci_ranks_step *step = &plan->steps[s];
    const price one = {step->predicted_s, step->communication_s, step->predicted_j, 0};
    add(&all, &one);
    plan->words = mmci_u128_add(plan->words, step->words);
  }
  plan->predicted_s = all.seconds;
  plan->communication_s = all.communication_s;
  plan->predicted_j = all.joules;
  count_memory(t, plan, last_read);
  return true;
}

static void prepare_table(table *t, const mmci_ranks_problem *problem, int32_t ranks) {
  t->ranks = ranks;
  t->layout_count = mmci_layouts(ranks, t->layouts);
  t->way_count = mmci_ways(ranks, t->ways);
  for (int w = 0; w < t->way_count; w++) {
    t->way_left[w] = find_layout(t, &t->ways[w].left);
    t->way_right[w] = find_layout(t, &t->ways[w].right);
    t->way_result[w] = find_layout(t, &t->ways[w].result);
  }
  for (int64_t s = 0; s < problem->step_count; s++) {
    const mmci_ranks_product *x = &problem->products[s];
    t->fixed[s] = -1;
    t->readers[s] = 0;
    if (x->left >= problem->factor_count) t->readers[x->left - problem->factor_count]++;
    if (x->right >= problem->factor_count) t->readers[x->right - problem->factor_count]++;
  }
}

/* ---- choosing -------------------------------------------------------------------------------- */

void mmci_ranks_plan_destroy(mmci_ranks_plan *plan) {
  if (plan == NULL) return;
  free(plan->steps);
  free(plan->factors);
  *plan = (mmci_ranks_plan){0};
}

static bool allocate_plan(const mmci_ranks_problem *problem, mmci_ranks_plan *plan) {
  *plan = (mmci_ranks_plan){
      .steps = mmci_alloc_zeroed((size_t)problem->step_count, sizeof *plan->steps),
      .factors = mmci_alloc_zeroed((size_t)problem->factor_count, sizeof *plan->factors)};
  return plan->steps != NULL && plan->factors != NULL;
}

static double goal_of_plan(const mmci_ranks_problem *problem, const mmci_ranks_plan *plan) {
  const price p = {plan->predicted_s, 0, plan->predicted_j, mmci_u128_to_double(plan->words)};
  return in_goal(problem, &p);
}

/* Tries one number of ranks, and keeps what is no dearer than `best`. Where a plan takes more
 * memory than there is, steps are held to less and less of it. */
static void try_ranks(table *t, int32_t ranks, mmci_ranks_plan *best, mmci_ranks_plan *spare,
                      int *chosen, int64_t *last_read, uint64_t *leanest) {
  const mmci_ranks_problem *problem = t->problem;
  enum { TRIALS = 24 };
  prepare_table(t, problem, ranks);
  t->step_limit_bytes = UINT64_MAX;
  for (int trial = 0; trial < TRIALS; trial++) {
    for (int64_t s = 0; s < problem->step_count; s++) t->fixed[s] = -1;
    for (int64_t s = 0; s < problem->step_count; s++) fill_step(t, s);
    if (!note_plan(t, spare, chosen, last_read)) return;
    if (spare->rank_bytes < *leanest) *leanest = spare->rank_bytes;
    if (spare->rank_bytes <= problem->limit_bytes) break;
    uint64_t most = 0;
    for (int64_t s = 0; s < problem->step_count; s++)
      if (spare->steps[s].rank_bytes > most) most = spare->steps[s].rank_bytes;
    const uint64_t limit = t->step_limit_bytes == UINT64_MAX ? most : t->step_limit_bytes;
    t->step_limit_bytes = limit - limit / 8 - 1;
    if (limit < 2 || trial == TRIALS - 1) return;
  }
  if (best->ranks > 0 && !(goal_of_plan(problem, spare) <= goal_of_plan(problem, best))) return;
  const mmci_ranks_plan found = *spare;
  *spare = *best;
  *best = found;
}

mmc_status mmci_ranks_choose(const mmci_ranks_problem *problem, mmci_ranks_plan *out,
                             mmci_error *error) {
  if (problem->ranks < 1 || problem->ranks > MMCI_MAX_RANKS)
    return mmci_fail_argument(error, MMC_E_ARG, "ranks", "expected 1 to %d, got %lld",
                              (int)MMCI_MAX_RANKS, (long long)problem->ranks);
  const size_t steps = (size_t)problem->step_count;
  mmci_ranks_plan best, spare;
  table t = {.problem = problem,
             .cells = mmci_alloc_array(steps, MMCI_LAYOUTS * sizeof(cell)),
             .fixed = mmci_alloc_array(steps, sizeof(int)),
             .readers = mmci_alloc_array(steps, sizeof(int32_t))};
  int *chosen = mmci_alloc_zeroed(steps, sizeof *chosen);
  int64_t *last_read = mmci_alloc_zeroed(steps, sizeof *last_read);
  bool is_there = allocate_plan(problem, &best);
  is_there = allocate_plan(problem, &spare) && is_there;
  mmc_status status = MMC_OK;
  uint64_t leanest = UINT64_MAX;
  if (!is_there || t.cells == NULL || t.fixed == NULL || t.readers == NULL || chosen == NULL ||
      last_read == NULL)
    status = mmci_fail_nomem(error, steps * sizeof *best.steps);
  for (int32_t ranks = problem->ranks; status == MMC_OK && ranks >= 1; ranks /= 2) {
    /* The first number of ranks must come to something where all are to be used. */
    try_ranks(&t, ranks, &best, &spare, chosen, last_read, &leanest);
    if (problem->all_ranks) break;
  }
  if (status == MMC_OK && best.ranks == 0)
    status = mmci_fail_argument(
        error, MMC_E_MEMORY_LIMIT, "memory limit", "a rank needs %llu bytes, and may hold %llu",
        (unsigned long long)leanest, (unsigned long long)problem->limit_bytes);
  free(t.cells);
  free(t.fixed);
  free(t.readers);
  free(chosen);
  free(last_read);
  mmci_ranks_plan_destroy(&spare);
  if (status == MMC_OK)
    *out = best;
  else
    mmci_ranks_plan_destroy(&best);
  return status;
}

mmci_u128 mmci_ranks_fixed_grid_words(const mmci_ranks_problem *problem, int32_t grid_rows,
                                      int32_t grid_cols) {
  const mmci_layout grid = mmci_layout_grid(grid_rows, grid_cols);
  const mmci_way way = {MMCI_BY_GRID, grid, grid, grid};
  mmci_u128 words = 0;
  for (int64_t s = 0; s < problem->step_count; s++) {
    const mmci_ranks_product *x = &problem->products[s];
    words = mmci_u128_add(words, mmci_way_words(&way, x->m, x->k, x->n));
  }
  return words;
}

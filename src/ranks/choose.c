/* choose.c: the tables of layouts over a plan's tree. */
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
  int8_t way;
  int8_t left, right; /* the layouts that the operands have before they are changed */
  bool apart;         /* these are layouts of half the ranks each */
} cell;

/* What is being filled for one number of ranks. Its layouts begin at rank 0. */
typedef struct table {
  const mmci_ranks_problem *problem;
  int32_t ranks;
  int layout_count, way_count;
  mmci_layout layouts[MMCI_LAYOUTS];
  mmci_way ways[MMCI_WAYS];
  int way_left[MMCI_WAYS], way_right[MMCI_WAYS], way_result[MMCI_WAYS];
  uint64_t step_limit_bytes;
  const struct table *half; /* for half as many ranks; NULL where operands are not computed apart */
  cell *cells;              /* step_count * MMCI_LAYOUTS */
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

static uint64_t piece_bytes(const table *t, const mmci_layout *layout, int64_t rows, int64_t cols,
                            int32_t rank) {
  const mmci_piece piece = mmci_layout_piece(layout, rows, cols, rank);
  const mmci_u128 bytes =
      mmci_u128_mul(mmci_piece_words(&piece), mmc_dtype_size(t->problem->dtype));
  return bytes > UINT64_MAX ? UINT64_MAX : (uint64_t)bytes;
}

/* Returns the bytes of an operand as a step takes it, where that is not as it lies: in another
 * layout, or copied, as what is conjugated and, for a grid, column-major. */
static uint64_t made_bytes(const table *t, int64_t operand, bool on_grid, const mmci_layout *from,
                           const mmci_layout *to, int64_t rows, int64_t cols, int32_t rank) {
  const mmci_ranks_problem *p = t->problem;
  const bool is_complex = p->dtype == MMC_C64 || p->dtype == MMC_C128;
  const bool is_copied = operand < p->factor_count &&
                         (on_grid || (is_complex && p->ops != NULL && p->ops[operand] == MMC_OP_H));
  if (mmci_layout_same(from, to) && !is_copied) return 0;
  return piece_bytes(t, to, rows, cols, rank);
}

/* Returns the bytes of messages while a layout changes, at most: what a rank sends is packed, and
 * what it gets is apart where rows of both layouts are not cut alike. */
static uint64_t message_bytes(const table *t, const mmci_layout *from, const mmci_layout *to,
                              int64_t rows, int64_t cols, int32_t rank) {
  const bool has_all = from->kind == MMCI_WHOLE && from->ranks == to->ranks;
  if (mmci_layout_same(from, to) || has_all) return 0;
  const uint64_t sent = piece_bytes(t, from, rows, cols, rank);
  if (from->grid_cols == to->grid_cols) return sent;
  return mmci_bytes_add(sent, piece_bytes(t, to, rows, cols, rank));
}

/* Returns the bytes that a rank holds for one step at most, while it changes the left operand, then
 * the right one, or multiplies; the result is not among it where that is the caller's. The first of
 * its ranks has the largest pieces. */
static uint64_t step_bytes(const table *t, const mmci_way *way, const mmci_layout *left,
                           const mmci_layout *right, const mmci_ranks_product *x, int32_t rank,
                           bool is_callers) {
  const mmci_layout *on = &way->result;
  const bool takes_part = rank >= on->first && rank < on->first + on->ranks;
  const bool on_grid = way->algorithm == MMCI_BY_GRID;
  const mmci_u128 held = mmci_u128_mul(takes_part ? mmci_way_held_words(way, x->m, x->k, x->n) : 0,
                                       mmc_dtype_size(t->problem->dtype));
  uint64_t bytes = held > UINT64_MAX ? UINT64_MAX : (uint64_t)held;
  if (!is_callers) bytes = mmci_bytes_add(bytes, piece_bytes(t, on, x->m, x->n, rank));
  uint64_t messages = message_bytes(t, right, &way->right, x->k, x->n, rank);
  if (messages > bytes) bytes = messages;
  bytes =
      mmci_bytes_add(bytes, made_bytes(t, x->right, on_grid, right, &way->right, x->k, x->n, rank));
  messages = message_bytes(t, left, &way->left, x->m, x->k, rank);
  if (messages > bytes) bytes = messages;
  bytes =
      mmci_bytes_add(bytes, made_bytes(t, x->left, on_grid, left, &way->left, x->m, x->k, rank));
  bytes = mmci_bytes_add(bytes, piece_bytes(t, left, x->m, x->k, rank));
  return mmci_bytes_add(bytes, piece_bytes(t, right, x->k, x->n, rank));
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

/* Writes the seconds of changing a result of half the ranks, which begin at `first`, from each of
 * their layouts to each of all ranks. */
static void price_changes(const table *t, int32_t first, int64_t rows, int64_t cols,
                          double seconds[MMCI_LAYOUTS][MMCI_LAYOUTS]) {
  for (int f = 0; f < t->half->layout_count; f++) {
    const mmci_layout from = mmci_layout_later(t->half->layouts[f], first);
    for (int l = 0; l < t->layout_count; l++)
      seconds[f][l] = price_of_change(t, &from, &t->layouts[l], rows, cols).seconds;
  }
}

static double least_of(const table *t, int64_t step) {
  const cell *row = row_of(t, step);
  double least = INFINITY;
  for (int l = 0; l < t->layout_count; l++)
    if (row[l].least < least) least = row[l].least;
  return least;
}

/* Tries to compute both operands of step s at the same time. way_s are seconds of each way. */
static void fill_apart(const table *t, int64_t s, const double way_s[MMCI_WAYS]) {
  const table *half = t->half;
  const mmci_ranks_product *x = &t->problem->products[s];
  const int64_t n = t->problem->factor_count, a = x->left - n, b = x->right - n;
  if (half == NULL || a < 0 || b < 0) return;
  cell *row = row_of(t, s);
  double dearest = 0;
  for (int l = 0; l < t->layout_count; l++)
    if (row[l].least > dearest) dearest = row[l].least;
  if (!(fmax(least_of(half, a), least_of(half, b)) < dearest)) return;
  double left[MMCI_LAYOUTS][MMCI_LAYOUTS], right[MMCI_LAYOUTS][MMCI_LAYOUTS];
  price_changes(t, 0, x->m, x->k, left);
  price_changes(t, half->ranks, x->k, x->n, right);
  for (int w = 0; w < t->way_count; w++) {
    cell *c = &row[t->way_result[w]];
    for (int f = 0; f < half->layout_count; f++)
      for (int g = 0; g < half->layout_count; g++) {
        const double both = fmax(row_of(half, a)[f].least, row_of(half, b)[g].least);
        const double sum = both + left[f][t->way_left[w]] + right[g][t->way_right[w]] + way_s[w];
        if (sum < c->least) *c = (cell){sum, (int8_t)w, (int8_t)f, (int8_t)g, true};
      }
  }
}

static void fill_step(table *t, int64_t s) {
  const mmci_ranks_product *x = &t->problem->products[s];
  double left[MMCI_LAYOUTS], right[MMCI_LAYOUTS], way_price[MMCI_WAYS];
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
                   layout_before(t, x->right, right_from[b], &room[1]), x, 0,
                   false) > t->step_limit_bytes)
      continue;
    const price p = price_of_way(t, way, x);
    way_price[w] = in_goal(t->problem, &p);
    const double sum = left[a] + right[b] + way_price[w];
    if (sum < row[c].least)
      row[c] = (cell){sum, (int8_t)w, (int8_t)left_from[a], (int8_t)right_from[b], false};
  }
  fill_apart(t, s, way_price);
  if (t->readers[s] < 2) return;
  int best = 0;
  for (int l = 1; l < t->layout_count; l++)
    if (row[l].least < row[best].least) best = l;
  t->fixed[s] = best;
}

/* ---- what was chosen ------------------------------------------------------------------------- */

/* Which layout of which table a result has, on ranks from `first` on. */
typedef struct choice {
  const table *table;
  int32_t first;
  int layout;
} choice;

/* Notes what layout an operand has before it is changed: `from` on ranks that begin at `first`. */
static void note_operand(const table *in, int64_t operand, mmci_layout from, int32_t first,
                         mmci_ranks_plan *plan, choice *chosen) {
  const int64_t n = in->problem->factor_count;
  if (operand >= n)
    chosen[operand - n] = (choice){in, first, find_layout(in, &from)};
  else
    plan->factors[operand] = mmci_layout_later(from, first);
}

static void move(mmci_ranks_step *step, int32_t first) {
  mmci_layout *all[] = {&step->way.left, &step->way.right, &step->way.result, &step->left.from,
                        &step->right.from};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    *all[i] = mmci_layout_later(*all[i], first);
}

/* Notes how step s is computed. */
static void note_step(int64_t s, mmci_ranks_plan *plan, choice *chosen) {
  const table *t = chosen[s].table;
  const mmci_ranks_product *x = &t->problem->products[s];
  const cell *c = &row_of(t, s)[chosen[s].layout];
  const table *in = c->apart ? t->half : t;
  const int32_t first = chosen[s].first, right_first = c->apart ? in->ranks : 0;
  mmci_ranks_step *step = &plan->steps[s];
  const mmci_way *way = &step->way;
  mmci_layout room;
  *step = (mmci_ranks_step){.way = t->ways[c->way], .apart = c->apart};
  step->left.from = *layout_before(in, x->left, c->left, &room);
  step->right.from = *layout_before(in, x->right, c->right, &room);
  note_operand(in, x->left, step->left.from, first, plan, chosen);
  note_operand(in, x->right, step->right.from, first + right_first, plan, chosen);
  step->right.from = mmci_layout_later(step->right.from, right_first);
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
  move(step, first);
}

/* Counts what one rank holds at every step: its pieces of all results that are still read, and what
 * the step takes. Factors are read when a step needs them, but are there all the time where given,
 * as the caller's piece of the result is, which the last step may write.
 */
static void count_memory_of(const table *t, int32_t rank, const int64_t *last_read,
                            mmci_ranks_plan *plan) {
  const mmci_ranks_problem *p = t->problem;
  const int64_t n = p->factor_count;
  uint64_t live = 0, factors = piece_bytes(t, &plan->result, p->dims[0], p->dims[n], rank);
  for (int64_t i = 0; p->given != NULL && i < n; i++)
    factors =
        mmci_bytes_add(factors, piece_bytes(t, &p->given[i], p->dims[i], p->dims[i + 1], rank));
  for (int64_t s = 0; s < p->step_count; s++) {
    const mmci_ranks_product *x = &p->products[s];
    mmci_ranks_step *step = &plan->steps[s];
    const bool is_callers =
        s == p->step_count - 1 && mmci_layout_same(&step->way.result, &plan->result);
    uint64_t own =
        step_bytes(t, &step->way, &step->left.from, &step->right.from, x, rank, is_callers);
    /* Operands that are results are among what lives, and factors that are given as well. */
    const uint64_t left = piece_bytes(t, &step->left.from, x->m, x->k, rank);
    const uint64_t right = piece_bytes(t, &step->right.from, x->k, x->n, rank);
    if (own != UINT64_MAX) {
      if (x->left >= n || p->given != NULL) own -= left;
      if (x->right >= n || p->given != NULL) own -= right;
    }
    const uint64_t all = mmci_bytes_add(mmci_bytes_add(factors, live), own);
    if (all > step->rank_bytes) step->rank_bytes = all;
    live = mmci_bytes_add(live, piece_bytes(t, &step->way.result, x->m, x->n, rank));
    if (live == UINT64_MAX) continue;
    if (x->left >= n && last_read[x->left - n] == s) live -= left;
    if (x->right >= n && x->right != x->left && last_read[x->right - n] == s) live -= right;
  }
  const mmci_layout *end =
      p->step_count > 0 ? &plan->steps[p->step_count - 1].way.result : &plan->factors[0];
  const int64_t rows = p->dims[0], cols = p->dims[n];
  uint64_t last = message_bytes(t, end, &plan->result, rows, cols, rank);
  /* A single factor may have to be turned before it is copied. */
  if (p->step_count == 0 || !mmci_layout_same(end, &plan->result))
    last = mmci_bytes_add(last, piece_bytes(t, end, rows, cols, rank));
  if (mmci_bytes_add(factors, last) > plan->rank_bytes)
    plan->rank_bytes = mmci_bytes_add(factors, last);
}

/* Counts the most that any rank holds. The first rank of all that work has the largest pieces, and
 * of those of a half its first has. */
static void count_memory(const table *t, mmci_ranks_plan *plan, int64_t *last_read) {
  const mmci_ranks_problem *p = t->problem;
  const int64_t n = p->factor_count;
  for (int64_t s = 0; s < p->step_count; s++) {
    const mmci_ranks_product *x = &p->products[s];
    if (x->left >= n) last_read[x->left - n] = s;
    if (x->right >= n) last_read[x->right - n] = s;
  }
  plan->rank_bytes = 0;
  for (int32_t rank = 0; rank < t->ranks; rank++) {
    bool is_first = rank == 0;
    for (int64_t s = 0; t->half != NULL && s < p->step_count; s++)
      is_first = is_first || plan->steps[s].way.result.first == rank;
    if (is_first) count_memory_of(t, rank, last_read, plan);
  }
  for (int64_t s = 0; s < p->step_count; s++)
    if (plan->steps[s].rank_bytes > plan->rank_bytes) plan->rank_bytes = plan->steps[s].rank_bytes;
}

/* Adds up what the steps take. Of two operands that are computed at the same time the slower
 * counts, and the ranks of the other wait. taken has room for a price of each step. */
static price add_steps(const table *t, const mmci_ranks_plan *plan, price *taken) {
  const mmci_ranks_problem *p = t->problem;
  const int64_t n = p->factor_count;
  price none = {0};
  for (int64_t s = 0; s < p->step_count; s++) {
    const mmci_ranks_product *x = &p->products[s];
    const mmci_ranks_step *step = &plan->steps[s];
    price *left = x->left >= n ? &taken[x->left - n] : &none;
    price *right = x->right >= n ? &taken[x->right - n] : &none;
    price *slower = left->seconds < right->seconds ? right : left;
    price sum = {step->predicted_s, step->communication_s, step->predicted_j, 0};
    sum.joules += left->joules;
    if (right != left) sum.joules += right->joules;
    if (step->apart) {
      sum.seconds += slower->seconds;
      sum.communication_s += slower->communication_s;
      sum.joules +=
          fabs(left->seconds - right->seconds) * p->rates.rank_watts * step->left.from.ranks;
    } else {
      sum.seconds += left->seconds + (right != left ? right->seconds : 0);
      sum.communication_s += left->communication_s + (right != left ? right->communication_s : 0);
    }
    *left = *right = none; /* a result that is read again was counted */
    taken[s] = sum;
  }
  return p->step_count > 0 ? taken[p->step_count - 1] : none;
}

/* Notes the cheapest plan of the table; plan's arrays are there. Returns false when no plan keeps
 * within the limit of a step. */
static bool note_plan(const table *t, mmci_ranks_plan *plan, choice *chosen, price *taken,
                      int64_t *last_read) {
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
    chosen[last] = (choice){t, 0, best};
    for (int64_t s = last; s >= 0; s--) note_step(s, plan, chosen);
    end = plan->steps[last].way.result;
  } else if (p->given == NULL && p->asked != NULL && p->asked->kind != MMCI_WHOLE) {
    end = plan->factors[0] = *p->asked;
  }
  plan->result = p->asked != NULL ? *p->asked : end;
  plan->last = (mmci_ranks_operand){end, mmci_layout_change_words(&end, &plan->result, rows, cols)};
  price all = price_of_change(t, &end, &plan->result, rows, cols);
  plan->words = plan->last.words;
  const price steps = add_steps(t, plan, taken);
  add(&all, &steps);
  for (int64_t s = 0; s <= last; s++)
    plan->words = mmci_u128_add(plan->words, plan->steps[s].words);
  plan->predicted_s = all.seconds;
  plan->communication_s = all.communication_s;
  plan->predicted_j = all.joules;
  count_memory(t, plan, last_read);
  return true;
}

static void prepare_table(table *t, int32_t ranks) {
  t->ranks = ranks;
  t->layout_count = mmci_layouts(ranks, t->layouts);
  t->way_count = mmci_ways(ranks, t->ways);
  for (int w = 0; w < t->way_count; w++) {
    t->way_left[w] = find_layout(t, &t->ways[w].left);
    t->way_right[w] = find_layout(t, &t->ways[w].right);
    t->way_result[w] = find_layout(t, &t->ways[w].result);
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

/* What is needed to choose. */
typedef struct search {
  table *tables; /* for all ranks, half of them, and so on; the first alone where all are to work */
  int count;
  cell *cells;
  int *fixed;
  int32_t *readers;
  choice *chosen;
  price *taken;
  int64_t *last_read;
  mmci_ranks_plan best, spare;
  uint64_t leanest; /* bytes that a rank holds by the leanest plan so far */
} search;

/* Says whether operands may be computed at the same time. */
static bool may_halve(const mmci_ranks_problem *problem, const int32_t *readers) {
  if (!problem->halves || problem->all_ranks || problem->goal != MMCI_RANKS_SECONDS ||
      problem->given != NULL || problem->limit_bytes != UINT64_MAX || problem->reproducible)
    return false;
  for (int64_t s = 0; s < problem->step_count; s++)
    if (readers[s] > 1) return false;
  return true;
}

static mmc_status open_search(const mmci_ranks_problem *problem, search *out, mmci_error *error) {
  const size_t steps = (size_t)problem->step_count;
  const int64_t n = problem->factor_count;
  search f = {.leanest = UINT64_MAX, .readers = mmci_alloc_zeroed(steps, sizeof(int32_t))};
  for (int64_t s = 0; f.readers != NULL && s < problem->step_count; s++) {
    const mmci_ranks_product *x = &problem->products[s];
    if (x->left >= n) f.readers[x->left - n]++;
    if (x->right >= n) f.readers[x->right - n]++;
  }
  const bool halves = f.readers != NULL && may_halve(problem, f.readers);
  for (int32_t ranks = problem->ranks; ranks >= 1 && (f.count == 0 || !problem->all_ranks);
       ranks /= 2)
    f.count++;
  const size_t kept = halves ? (size_t)f.count : 1; /* tables that others go by */
  f.tables = mmci_alloc_zeroed((size_t)f.count, sizeof *f.tables);
  f.cells = mmci_alloc_array(steps, kept * MMCI_LAYOUTS * sizeof(cell));
  f.fixed = mmci_alloc_array(steps, sizeof(int));
  f.chosen = mmci_alloc_array(steps, sizeof *f.chosen);
  f.taken = mmci_alloc_array(steps, sizeof *f.taken);
  f.last_read = mmci_alloc_zeroed(steps, sizeof *f.last_read);
  bool is_there = allocate_plan(problem, &f.best);
  is_there = allocate_plan(problem, &f.spare) && is_there;
  *out = f;
  if (!is_there || f.tables == NULL || f.cells == NULL || f.fixed == NULL || f.readers == NULL ||
      f.chosen == NULL || f.taken == NULL || f.last_read == NULL)
    return mmci_fail_nomem(error, steps * kept * MMCI_LAYOUTS * sizeof(cell));
  for (int i = 0; i < f.count; i++) {
    table *t = &f.tables[i];
    *t = (table){.problem = problem,
                 .half = halves && i + 1 < f.count ? t + 1 : NULL,
                 .cells = f.cells + (halves ? (size_t)i * steps * MMCI_LAYOUTS : 0),
                 .fixed = f.fixed,
                 .readers = f.readers};
    prepare_table(t, problem->ranks >> i);
  }
  return MMC_OK;
}

static void close_search(search *f) {
  free(f->tables);
  free(f->cells);
  free(f->fixed);
  free(f->readers);
  free(f->chosen);
  free(f->taken);
  free(f->last_read);
  mmci_ranks_plan_destroy(&f->best);
  mmci_ranks_plan_destroy(&f->spare);
}

/* Tries one number of ranks, and keeps what is cheaper than the best. Where a plan takes more
 * memory than there is, steps are held to less and less of it. */
static void try_ranks(search *f, table *t) {
  const mmci_ranks_problem *problem = t->problem;
  enum { TRIALS = 24 };
  t->step_limit_bytes = UINT64_MAX;
  for (int trial = 0; trial < TRIALS; trial++) {
    for (int64_t s = 0; s < problem->step_count; s++) t->fixed[s] = -1;
    for (int64_t s = 0; s < problem->step_count; s++) fill_step(t, s);
    if (!note_plan(t, &f->spare, f->chosen, f->taken, f->last_read)) return;
    if (f->spare.rank_bytes < f->leanest) f->leanest = f->spare.rank_bytes;
    if (f->spare.rank_bytes <= problem->limit_bytes) break;
    uint64_t most = 0;
    for (int64_t s = 0; s < problem->step_count; s++)
      if (f->spare.steps[s].rank_bytes > most) most = f->spare.steps[s].rank_bytes;
    const uint64_t limit = t->step_limit_bytes == UINT64_MAX ? most : t->step_limit_bytes;
    t->step_limit_bytes = limit - limit / 8 - 1;
    if (limit < 2 || trial == TRIALS - 1) return;
  }
  if (f->best.ranks > 0 && !(goal_of_plan(problem, &f->spare) < goal_of_plan(problem, &f->best)))
    return;
  const mmci_ranks_plan found = f->spare;
  f->spare = f->best;
  f->best = found;
}

mmc_status mmci_ranks_choose(const mmci_ranks_problem *problem, mmci_ranks_plan *out,
                             mmci_error *error) {
  if (problem->ranks < 1 || problem->ranks > MMCI_MAX_RANKS)
    return mmci_fail_argument(error, MMC_E_ARG, "ranks", "expected 1 to %d, got %lld",
                              (int)MMCI_MAX_RANKS, (long long)problem->ranks);
  search f;
  mmc_status status = open_search(problem, &f, error);
  /* Few ranks come first: tables for more go by theirs, and win only where they are cheaper. */
  for (int i = f.count - 1; status == MMC_OK && i >= 0; i--) try_ranks(&f, &f.tables[i]);
  if (status == MMC_OK && f.best.ranks == 0)
    status = mmci_fail_argument(
        error, MMC_E_MEMORY_LIMIT, "memory limit", "a rank needs %llu bytes, and may hold %llu",
        (unsigned long long)f.leanest, (unsigned long long)problem->limit_bytes);
  if (status == MMC_OK) {
    *out = f.best;
    f.best = (mmci_ranks_plan){0};
  }
  close_search(&f);
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

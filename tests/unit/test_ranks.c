/* test_ranks.c: layouts, the words that changes and ways send, and the table that chooses among
 * them, against counting element by element and against trying everything. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../expect.h"
#include "../join_factors.h"

enum { SEED = 21 };

static bool has(const mmci_piece *piece, int64_t row, int64_t col) {
  return row >= piece->row && row < piece->row + piece->rows && col >= piece->col &&
         col < piece->col + piece->cols;
}

static mmci_layout random_layout(uint64_t *state, int32_t most_ranks) {
  const int32_t ranks = 1 + (int32_t)random_below(state, most_ranks);
  mmci_layout layouts[MMCI_LAYOUTS];
  const int count = mmci_layouts(ranks, layouts);
  const int32_t first = (int32_t)random_below(state, most_ranks - ranks + 1);
  return mmci_layout_later(layouts[random_below(state, count)], first);
}

/* Counts by element what changing layouts sends, and checks that every element that is lacking
 * comes from one rank that has it. */
static void check_change(uint64_t *state) {
  const mmci_layout before = random_layout(state, 9), after = random_layout(state, 9);
  const int64_t rows = random_below(state, 14), cols = random_below(state, 14);
  const int32_t ranks = 9;
  uint64_t lacking = 0;
  bool once = true, tiled = true;
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < cols; j++) {
      int holders = 0;
      for (int32_t to = 0; to < ranks; to++) {
        const mmci_piece had = mmci_layout_piece(&before, rows, cols, to);
        const mmci_piece wants = mmci_layout_piece(&after, rows, cols, to);
        int senders = 0;
        for (int32_t from = 0; from < ranks; from++) {
          const mmci_piece sent = mmci_layout_sent(&before, &after, rows, cols, from, to);
          const mmci_piece there = mmci_layout_piece(&before, rows, cols, from);
          senders += has(&sent, i, j);
          once = once && (!has(&sent, i, j) || has(&there, i, j));
        }
        holders += has(&had, i, j);
        const bool lacks = has(&wants, i, j) && !has(&had, i, j);
        lacking += lacks;
        once = once && senders == lacks;
      }
      tiled = tiled && holders == (before.kind == MMCI_WHOLE ? before.ranks : 1);
    }
  }
  const mmci_u128 words = mmci_layout_change_words(&before, &after, rows, cols);
  char from[MMCI_LAYOUT_TEXT_SIZE], to[MMCI_LAYOUT_TEXT_SIZE], what[200];
  snprintf(what, sizeof what,
           "%" PRId64 "x%" PRId64 " from %s of %d at %d to %s of %d at %d: %" PRIu64 ", not %g",
           rows, cols, mmci_layout_text(&before, from), before.ranks, before.first,
           mmci_layout_text(&after, to), after.ranks, after.first, lacking,
           mmci_u128_to_double(words));
  expect(words == lacking && once && tiled, what);
}

/* Checks the counts of the issue of who owns what: 1024 x 1024 on 4 ranks, from columns to a grid
 * and to rows, and products on 4 ranks. */
static void check_known(void) {
  const mmci_layout rows = mmci_layout_rows(4), cols = mmci_layout_cols(4);
  const mmci_layout grid = mmci_layout_grid(2, 2), whole = mmci_layout_whole(4);
  const mmci_way by_grid = {MMCI_BY_GRID, grid, grid, grid};
  const mmci_way inner = {MMCI_BY_INNER, cols, rows, cols};
  expect(mmci_layout_change_words(&rows, &grid, 1024, 1024) == 524288, "rows to a grid");
  expect(mmci_layout_change_words(&cols, &grid, 1024, 1024) == 786432, "columns to a grid");
  expect(mmci_layout_change_words(&cols, &rows, 1024, 1024) == 786432, "columns to rows");
  expect(mmci_layout_change_words(&rows, &whole, 128, 128) == 49152, "rows to whole");
  expect(mmci_way_words(&by_grid, 1024, 1024, 1024) == 2097152, "a grid of squares");
  expect(mmci_way_words(&by_grid, 8192, 128, 128) == 1064960, "a grid of a tall product");
  expect(mmci_way_words(&inner, 128, 8192, 128) == 49152, "inner products");
  expect(mmci_way_words(&inner, 5, 2, 7) == 2 * 35 - 2 * 10, "inner products of fewer parts");
}

/* ---- the table against trying everything ----------------------------------------------------- */

enum { MOST_STEPS = 3 };

/* A chain multiplied in a random order. */
typedef struct sample {
  int64_t n, dims[12];
  mmci_ranks_product products[10];
} sample;

static sample random_sample(uint64_t *state, int64_t n, int64_t largest) {
  sample s = {.n = n};
  for (int64_t i = 0; i <= n; i++) s.dims[i] = random_below(state, largest + 1);
  int64_t steps = 0;
  join_factors(state, s.dims, n, 0, n - 1, s.products, &steps);
  return s;
}

static mmci_ranks_problem problem_of(const sample *s, int32_t ranks) {
  return (mmci_ranks_problem){.factor_count = s->n,
                              .step_count = s->n - 1,
                              .dims = s->dims,
                              .products = s->products,
                              .dtype = MMC_F64,
                              .ranks = ranks,
                              .all_ranks = true,
                              .limit_bytes = UINT64_MAX,
                              .goal = MMCI_RANKS_WORDS,
                              .rates = mmci_ranks_assumed()};
}

/* Returns the fewest words of step t with its result in layout `to`, by trying every way. */
static double fewest(const mmci_ranks_problem *p, int64_t operand, int64_t rows, int64_t cols,
                     const mmci_layout *to) {
  if (operand < p->factor_count) {
    if (p->given == NULL)
      return to->kind == MMCI_WHOLE ? (double)((p->ranks - 1) * rows * cols) : 0;
    return mmci_u128_to_double(mmci_layout_change_words(&p->given[operand], to, rows, cols));
  }
  const mmci_ranks_product *x = &p->products[operand - p->factor_count];
  mmci_way ways[MMCI_WAYS];
  const int count = mmci_ways(p->ranks, ways);
  double best = INFINITY;
  for (int w = 0; w < count; w++) {
    const double sum =
        fewest(p, x->left, x->m, x->k, &ways[w].left) +
        fewest(p, x->right, x->k, x->n, &ways[w].right) +
        mmci_u128_to_double(mmci_way_words(&ways[w], x->m, x->k, x->n)) +
        mmci_u128_to_double(mmci_layout_change_words(&ways[w].result, to, rows, cols));
    if (sum < best) best = sum;
  }
  return best;
}

static double fewest_of_all(const mmci_ranks_problem *p) {
  const int64_t rows = p->dims[0], cols = p->dims[p->factor_count];
  mmci_layout layouts[MMCI_LAYOUTS];
  const int count = mmci_layouts(p->ranks, layouts);
  const int64_t last = p->factor_count + p->step_count - 1;
  if (p->asked != NULL) return fewest(p, last, rows, cols, p->asked);
  double best = INFINITY;
  for (int l = 0; l < count; l++) {
    const double words = fewest(p, last, rows, cols, &layouts[l]);
    if (words < best) best = words;
  }
  return best;
}

/* Checks that what the plan's parts say adds up, and that operands have the layouts that their
 * steps give. */
static bool is_consistent(const mmci_ranks_problem *p, const mmci_ranks_plan *plan) {
  const bool is_read = p->given == NULL; /* factors are read in the layouts that steps say */
  mmci_u128 words = plan->last.words;
  bool held = true;
  for (int64_t s = 0; s < p->step_count; s++) {
    const mmci_ranks_product *x = &p->products[s];
    const mmci_ranks_step *step = &plan->steps[s];
    const mmci_layout *left = x->left < p->factor_count
                                  ? &plan->factors[x->left]
                                  : &plan->steps[x->left - p->factor_count].way.result;
    const mmci_layout *right = x->right < p->factor_count
                                   ? &plan->factors[x->right]
                                   : &plan->steps[x->right - p->factor_count].way.result;
    held = held &&
           ((is_read && x->left < p->factor_count) || mmci_layout_same(left, &step->left.from));
    held = held &&
           ((is_read && x->right < p->factor_count) || mmci_layout_same(right, &step->right.from));
    left = &step->left.from;
    right = &step->right.from;
    held = held &&
           step->words == step->left.words + step->right.words +
                              mmci_way_words(&step->way, x->m, x->k, x->n) &&
           step->left.words == mmci_layout_change_words(left, &step->way.left, x->m, x->k) &&
           step->right.words == mmci_layout_change_words(right, &step->way.right, x->k, x->n);
    words += step->words;
  }
  return held && words == plan->words;
}

static void check_choice(uint64_t *state) {
  const sample s = random_sample(state, 2 + random_below(state, MOST_STEPS), 40);
  static const int32_t counts[] = {1, 2, 3, 4, 6};
  mmci_ranks_problem p = problem_of(&s, counts[random_below(state, 5)]);
  mmci_layout given[12], asked;
  mmci_layout layouts[MMCI_LAYOUTS];
  const int count = mmci_layouts(p.ranks, layouts);
  for (int64_t i = 0; i < s.n; i++) given[i] = layouts[random_below(state, count)];
  asked = layouts[random_below(state, count)];
  if (random_below(state, 2) == 0) p.given = given;
  if (random_below(state, 2) == 0) p.asked = &asked;
  mmci_ranks_plan plan;
  mmci_error error;
  if (!expect_ok(mmci_ranks_choose(&p, &plan, &error), &error, "a choice")) return;
  char what[160];
  const double least = fewest_of_all(&p), words = mmci_u128_to_double(plan.words);
  snprintf(what, sizeof what, "%g words, and %g are possible, %d ranks, %" PRId64 " factors", words,
           least, p.ranks, s.n);
  expect(words == least && is_consistent(&p, &plan), what);
  mmci_ranks_plan_destroy(&plan);
}

/* Checks that a limit is kept where it can be, and that the message says what a rank needs where it
 * cannot. */
static void check_limit(uint64_t *state) {
  const sample s = random_sample(state, 3 + random_below(state, 5), 300);
  mmci_ranks_problem p = problem_of(&s, 4);
  p.goal = MMCI_RANKS_SECONDS;
  mmci_ranks_plan free_plan, plan;
  mmci_error error;
  if (!expect_ok(mmci_ranks_choose(&p, &free_plan, &error), &error, "a plan without limit")) return;
  p.limit_bytes = free_plan.rank_bytes;
  if (expect_ok(mmci_ranks_choose(&p, &plan, &error), &error, "a plan within what it needs")) {
    expect(plan.rank_bytes == free_plan.rank_bytes, "a limit that holds changes nothing");
    mmci_ranks_plan_destroy(&plan);
  }
  p.limit_bytes = free_plan.rank_bytes - free_plan.rank_bytes / 4;
  const mmc_status status = mmci_ranks_choose(&p, &plan, &error);
  if (status == MMC_OK) {
    expect(plan.rank_bytes <= p.limit_bytes && is_consistent(&p, &plan), "a limit is kept");
    expect(plan.predicted_s >= free_plan.predicted_s, "a limit makes nothing faster");
    mmci_ranks_plan_destroy(&plan);
  } else {
    expect(status == MMC_E_MEMORY_LIMIT && strstr(error.text, "a rank needs") != NULL,
           "a limit that nothing keeps is told");
  }
  mmci_ranks_plan_destroy(&free_plan);
}

/* Small chains run on one rank, large ones on all; results that are read twice are computed once.
 */
static void check_ranks_used(void) {
  const sample small = {.n = 2, .dims = {8, 8, 8}, .products = {{8, 8, 8, 0, 1}}};
  const sample large = {.n = 2, .dims = {4000, 4000, 4000}, .products = {{4000, 4000, 4000, 0, 1}}};
  const sample power = {.n = 4,
                        .dims = {600, 600, 600, 600, 600},
                        .products = {{600, 600, 600, 0, 0}, {600, 600, 600, 4, 4}}};
  mmci_ranks_problem p = problem_of(&small, 4);
  mmci_ranks_plan plan;
  mmci_error error;
  p.goal = MMCI_RANKS_SECONDS;
  p.all_ranks = false;
  if (expect_ok(mmci_ranks_choose(&p, &plan, &error), &error, "a small chain")) {
    expect(plan.ranks == 1 && plan.words == 0, "a small chain runs on one rank");
    mmci_ranks_plan_destroy(&plan);
  }
  p = problem_of(&large, 4);
  p.goal = MMCI_RANKS_SECONDS;
  p.all_ranks = false;
  if (expect_ok(mmci_ranks_choose(&p, &plan, &error), &error, "a large chain")) {
    expect(plan.ranks == 4, "a large chain runs on all ranks");
    expect(plan.communication_s < plan.predicted_s, "a part of the seconds is communication");
    mmci_ranks_plan_destroy(&plan);
  }
  p = problem_of(&power, 4);
  p.step_count = 2;
  if (expect_ok(mmci_ranks_choose(&p, &plan, &error), &error, "a power")) {
    expect(is_consistent(&p, &plan), "a result that is read twice has one layout");
    mmci_ranks_plan_destroy(&plan);
  }
  p.ranks = 0;
  expect(mmci_ranks_choose(&p, &plan, &error) == MMC_E_ARG, "no ranks are an error");
}

/* Free factors: never more words than a fixed grid. */
static void check_never_more(uint64_t *state) {
  const sample s = random_sample(state, 4 + random_below(state, 7), 8192);
  static const int32_t sides[] = {2, 4, 8};
  for (int i = 0; i < 3; i++) {
    const mmci_ranks_problem p = problem_of(&s, sides[i] * sides[i]);
    mmci_ranks_plan plan;
    mmci_error error;
    if (!expect_ok(mmci_ranks_choose(&p, &plan, &error), &error, "a chain")) continue;
    expect(plan.words <= mmci_ranks_fixed_grid_words(&p, sides[i], sides[i]),
           "no more words than on a fixed grid");
    expect(plan.ranks == p.ranks, "all ranks are used where they are to be");
    mmci_ranks_plan_destroy(&plan);
  }
}

/* ---- operands at the same time --------------------------------------------------------------- */

static void let_wait(double ends[], const mmci_layout *on, double *begin) {
  for (int32_t r = on->first; r < on->first + on->ranks; r++)
    if (ends[r] > *begin) *begin = ends[r];
}

/* Returns when the last rank is done, by letting every rank do one step after the other. */
static double walk_s(const mmci_ranks_problem *p, const mmci_ranks_plan *plan) {
  double ends[64] = {0}, last = 0;
  for (int64_t s = 0; s < p->step_count; s++) {
    const mmci_ranks_step *step = &plan->steps[s];
    const mmci_layout *on = &step->way.result;
    double begin = 0;
    let_wait(ends, on, &begin);
    let_wait(ends, &step->left.from, &begin);
    let_wait(ends, &step->right.from, &begin);
    for (int32_t r = on->first; r < on->first + on->ranks; r++) ends[r] = begin + step->predicted_s;
    last = begin + step->predicted_s;
  }
  return last;
}

/* Says whether operands lie within the ranks of their step: apart on halves that share none. */
static bool is_within(const mmci_ranks_step *step) {
  const mmci_layout *on = &step->way.result, *left = &step->left.from, *right = &step->right.from;
  if (!step->apart)
    return left->first == on->first && left->ranks == on->ranks && right->first == on->first &&
           right->ranks == on->ranks;
  return left->first == on->first && left->ranks == on->ranks / 2 &&
         right->first == left->first + left->ranks && right->ranks == left->ranks;
}

/* Plans with operands apart are faster by prices, end when the ranks' clocks say, and say what they
 * send and hold. Returns how many products they compute so. */
static int check_apart(uint64_t *state) {
  static const int32_t counts[] = {2, 3, 4, 6, 16, 64};
  const sample s = random_sample(state, 4 + random_below(state, 7), 400);
  mmci_ranks_problem p = problem_of(&s, counts[random_below(state, 6)]);
  mmci_ranks_plan plan, together;
  mmci_error error;
  int apart = 0;
  p.all_ranks = false;
  p.goal = MMCI_RANKS_SECONDS;
  p.rates = random_rates(state);
  if (!expect_ok(mmci_ranks_choose(&p, &together, &error), &error, "a plan")) return 0;
  p.halves = true;
  if (expect_ok(mmci_ranks_choose(&p, &plan, &error), &error, "a plan of halves")) {
    bool within = true;
    for (int64_t t = 0; t < p.step_count; t++) {
      within = within && is_within(&plan.steps[t]);
      apart += plan.steps[t].apart;
    }
    const double end = walk_s(&p, &plan);
    char what[160];
    snprintf(what, sizeof what, "%d ranks, %d apart: %g s, together %g, by clocks %g", p.ranks,
             apart, plan.predicted_s, together.predicted_s, end);
    expect(within && is_consistent(&p, &plan), what);
    expect(fabs(plan.predicted_s - end) <= 1e-12 * end, what);
    expect(plan.communication_s <= plan.predicted_s * (1 + 1e-12), what);
    if (apart > 0)
      expect(plan.predicted_s < together.predicted_s, what);
    else
      expect(plan.predicted_s == together.predicted_s && plan.words == together.words, what);
    mmci_ranks_plan_destroy(&plan);
  }
  /* What keeps operands together. */
  const mmci_layout rows = mmci_layout_rows(p.ranks);
  mmci_layout given[12];
  for (int64_t i = 0; i < s.n; i++) given[i] = rows;
  for (int i = 0; i < 5; i++) {
    mmci_ranks_problem q = p;
    if (i == 0) q.all_ranks = true;
    if (i == 1) q.goal = MMCI_RANKS_WORDS;
    if (i == 2) q.given = given;
    if (i == 3) q.limit_bytes = UINT64_MAX - 1;
    if (i == 4) q.reproducible = true;
    if (!expect_ok(mmci_ranks_choose(&q, &plan, &error), &error, "a plan together")) continue;
    bool none = true;
    for (int64_t t = 0; t < q.step_count; t++) none = none && !plan.steps[t].apart;
    expect(none, "all ranks work on one product after the other");
    mmci_ranks_plan_destroy(&plan);
  }
  mmci_ranks_plan_destroy(&together);
  return apart;
}

int main(void) {
  uint64_t state = SEED;
  printf("seed %d\n", SEED);
  check_known();
  check_ranks_used();
  for (int i = 0; i < 3000; i++) check_change(&state);
  for (int i = 0; i < 300; i++) check_choice(&state);
  for (int i = 0; i < 100; i++) check_limit(&state);
  for (int i = 0; i < 100; i++) check_never_more(&state);
  int apart = 0;
  for (int i = 0; i < 400; i++) apart += check_apart(&state);
  printf("%d products of operands that are computed apart\n", apart);
  expect(apart > 20, "operands are computed apart where that is faster");
  return expect_summary();
}

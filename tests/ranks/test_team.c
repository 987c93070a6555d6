/* test_team.c: runs on several ranks: every way to multiply, from all layouts to all layouts, and
 * random chains by the public calls, against loops in double; and the words that an MPI profiling
 * layer counts against those that were predicted, exactly.
 *
 *     mpirun -np 4 -x LD_PRELOAD=count_words.so ranks_team [CASES] [SEED]
 *
 * All ranks draw the same numbers, so each knows all matrices. */
#include <complex.h>
#include <dlfcn.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../expect.h"
#include "../how_many.h"
#include "../join_factors.h"
#include "api/api.h"
#include "base/dtype.h"
#include "ranks/agree.h"
#include "ranks/engines.h"
#include "ranks/walk.h"

enum { MOST = 6 };

static const mmci_team_ops *ops;
static mmci_team *team;
static int32_t rank, count;
static mmci_pool *pool;
static mmci_products products;
static long long (*bytes_sent)(void);
/* Counts of the module count_memory; NULL without it. */
static long (*bytes_held)(void);

/* A matrix in double, row-major. */
typedef struct truth {
  int64_t rows, cols;
  double complex *elements;
} truth;

static truth make_truth(int64_t rows, int64_t cols) {
  return (truth){rows, cols, calloc((size_t)(rows * cols) + 1, sizeof(double complex))};
}

static void put(mmc_dtype dtype, void *data, int64_t at, double complex value) {
  switch (dtype) {
    case MMC_F32:
      ((float *)data)[at] = (float)creal(value);
      break;
    case MMC_F64:
      ((double *)data)[at] = creal(value);
      break;
    case MMC_C64:
      ((float complex *)data)[at] = (float complex)value;
      break;
    default:
      ((double complex *)data)[at] = value;
  }
}

static double complex get(mmc_dtype dtype, const void *data, int64_t at) {
  switch (dtype) {
    case MMC_F32:
      return ((const float *)data)[at];
    case MMC_F64:
      return ((const double *)data)[at];
    case MMC_C64:
      return ((const float complex *)data)[at];
    default:
      return ((const double complex *)data)[at];
  }
}

/* Draws elements that every dtype holds exactly. */
static truth random_truth(uint64_t *state, mmc_dtype dtype, int64_t rows, int64_t cols) {
  truth t = make_truth(rows, cols);
  const bool is_complex = dtype == MMC_C64 || dtype == MMC_C128;
  for (int64_t e = 0; e < rows * cols; e++) {
    const double re = (double)(float)random_unit(state);
    t.elements[e] = is_complex ? re + (double)(float)random_unit(state) * I : re;
  }
  return t;
}

static truth multiply_truths(const truth *a, const truth *b) {
  truth c = make_truth(a->rows, b->cols);
  for (int64_t i = 0; i < a->rows; i++)
    for (int64_t k = 0; k < a->cols; k++)
      for (int64_t j = 0; j < b->cols; j++)
        c.elements[i * c.cols + j] += a->elements[i * a->cols + k] * b->elements[k * b->cols + j];
  return c;
}

/* Returns the sum of the magnitudes of products, that errors are measured by. */
static truth bound_truths(const truth *a, const truth *b) {
  truth c = make_truth(a->rows, b->cols);
  for (int64_t i = 0; i < a->rows; i++)
    for (int64_t k = 0; k < a->cols; k++)
      for (int64_t j = 0; j < b->cols; j++)
        c.elements[i * c.cols + j] +=
            cabs(a->elements[i * a->cols + k]) * cabs(b->elements[k * b->cols + j]);
  return c;
}

static double unit_roundoff(mmc_dtype dtype) {
  return dtype == MMC_F32 || dtype == MMC_C64 ? FLT_EPSILON : DBL_EPSILON;
}

/* A factor as one rank has it: stored so that its op makes it the truth. */
typedef struct stored {
  void *data;
  mmc_matrix matrix;
} stored;

/* Stores a piece of the truth, row-major or column-major, with a gap between lines. */
static stored store(uint64_t *state, mmc_dtype dtype, const truth *t, const mmci_piece *piece,
                    mmc_op op) {
  const bool turned = op != MMC_OP_N;
  const int64_t rows = turned ? piece->cols : piece->rows,
                cols = turned ? piece->rows : piece->cols;
  const mmc_layout layout = random_below(state, 2) == 0 ? MMC_ROW_MAJOR : MMC_COL_MAJOR;
  const int64_t line = layout == MMC_ROW_MAJOR ? cols : rows, gap = random_below(state, 3);
  const int64_t lines = layout == MMC_ROW_MAJOR ? rows : cols;
  stored s = {.data = malloc((size_t)((line + gap) * lines + 1) * mmc_dtype_size(dtype))};
  s.matrix = (mmc_matrix){s.data, rows, cols, line + gap, layout, MMC_HOST, 0, NULL};
  if (line + gap == 0) s.matrix.ld = 0;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++) {
      const int64_t i = piece->row + (turned ? c : r), j = piece->col + (turned ? r : c);
      double complex value = t->elements[i * t->cols + j];
      if (op == MMC_OP_H) value = conj(value);
      put(dtype, s.data, layout == MMC_ROW_MAJOR ? r * (line + gap) + c : c * (line + gap) + r,
          value);
    }
  return s;
}

/* Compares this rank's piece, and sees that what lies beside it is untouched. */
static bool is_right(mmc_dtype dtype, const void *data, const mmci_piece *piece, const truth *want,
                     const truth *bound, double factor) {
  for (int64_t r = 0; r < piece->rows; r++)
    for (int64_t c = 0; c < piece->cols; c++) {
      const int64_t at = (piece->row + r) * want->cols + piece->col + c;
      const double error = cabs(get(dtype, data, r * piece->cols + c) - want->elements[at]);
      if (!(error <= factor * unit_roundoff(dtype) * creal(bound->elements[at]))) return false;
    }
  return true;
}

/* Adds up what all ranks have sent since `before`. */
static double words_since(long long before, mmc_dtype dtype) {
  if (bytes_sent == NULL) return -1;
  long long mine = bytes_sent() - before, *all = malloc((size_t)count * sizeof mine), sum = 0;
  mmci_error error;
  expect_ok(ops->gather(team, &mine, sizeof mine, all, &error), &error, "gather");
  for (int32_t r = 0; r < count; r++) sum += all[r];
  free(all);
  return (double)sum / (double)mmc_dtype_size(dtype);
}

static int64_t random_dim(uint64_t *state) {
  switch (random_below(state, 8)) {
    case 0:
      return random_below(state, 3);
    case 1:
      return 1;
    case 2:
      return 60 + random_below(state, 140);
    default:
      return 1 + random_below(state, 40);
  }
}

static mmci_layout random_layout(uint64_t *state) {
  mmci_layout layouts[MMCI_LAYOUTS];
  const int layouts_count = mmci_layouts(count, layouts);
  return layouts[random_below(state, layouts_count)];
}

/* A layout on some of the ranks. */
static mmci_layout random_part(uint64_t *state) {
  mmci_layout layouts[MMCI_LAYOUTS];
  const int32_t ranks = 1 + (int32_t)random_below(state, count);
  const int layouts_count = mmci_layouts(ranks, layouts);
  const int32_t first = (int32_t)random_below(state, count - ranks + 1);
  return mmci_layout_later(layouts[random_below(state, layouts_count)], first);
}

/* A way on some of the ranks. */
static mmci_way random_way(uint64_t *state) {
  mmci_way ways[MMCI_WAYS];
  const int32_t ranks = 1 + (int32_t)random_below(state, count);
  const int32_t first = (int32_t)random_below(state, count - ranks + 1);
  const int ways_count = mmci_ways(ranks, ways);
  mmci_way way = ways[random_below(state, ways_count)];
  way.left = mmci_layout_later(way.left, first);
  way.right = mmci_layout_later(way.right, first);
  way.result = mmci_layout_later(way.result, first);
  return way;
}

static char text_of[240];

/* ---- one product, by one way ----------------------------------------------------------------- */

static void describe_case(mmc_dtype dtype, int64_t m, int64_t k, int64_t n, const mmci_way *way,
                          const mmci_layout given[2], const mmci_layout *asked) {
  char left[MMCI_LAYOUT_TEXT_SIZE], right[MMCI_LAYOUT_TEXT_SIZE], to[MMCI_LAYOUT_TEXT_SIZE];
  char result[MMCI_LAYOUT_TEXT_SIZE];
  snprintf(text_of, sizeof text_of,
           "rank %d of %d, %s %" PRId64 "x%" PRId64 "x%" PRId64
           " by %s to %s on %d at %d, from %s on %d at %d and %s on %d at %d to %s on %d at %d",
           rank, count, mmc_dtype_name(dtype), m, k, n, mmci_algorithm_name(way->algorithm),
           mmci_layout_text(&way->result, result), way->result.ranks, way->result.first,
           mmci_layout_text(&given[0], left), given[0].ranks, given[0].first,
           mmci_layout_text(&given[1], right), given[1].ranks, given[1].first,
           mmci_layout_text(asked, to), asked->ranks, asked->first);
}

/* Multiplies by one way, from random layouts to a random layout on some of the ranks, by the engine
 * or by what the device advises, which is another way for large matrices alone, or reproducibly. */
static void check_way(uint64_t *state, const mmci_way *way, bool is_large) {
  const mmc_dtype dtype = (mmc_dtype)random_below(state, is_large ? 2 : 4);
  const int64_t more = is_large ? 150 + 40 * count : 0;
  const int64_t dims[3] = {more + random_dim(state), more + random_dim(state),
                           more + random_dim(state)};
  const int64_t m = dims[0], k = dims[1], n = dims[2];
  const mmci_layout given[2] = {random_part(state), random_part(state)};
  const mmci_layout asked = random_part(state);
  const mmci_ranks_product product = {m, k, n, 0, 1};
  const truth a = random_truth(state, dtype, m, k), b = random_truth(state, dtype, k, n);
  const truth want = multiply_truths(&a, &b), bound = bound_truths(&a, &b);
  mmci_ranks_step step = {.way = *way, .left = {.from = given[0]}, .right = {.from = given[1]}};
  mmci_ranks_plan plan = {
      .ranks = count, .steps = &step, .result = asked, .last = {.from = way->result}};
  const mmci_ranks_problem problem = {
      .factor_count = 2,
      .step_count = 1,
      .dims = dims,
      .products = &product,
      .dtype = dtype,
      .ranks = count,
      .given = given,
      .rates = {.replaces = is_large || random_below(state, 2) == 0},
      .reproducible = random_below(state, 4) == 0};
  const double predicted =
      mmci_u128_to_double(mmci_layout_change_words(&given[0], &way->left, m, k)) +
      mmci_u128_to_double(mmci_layout_change_words(&given[1], &way->right, k, n)) +
      mmci_u128_to_double(mmci_way_words(way, m, k, n)) +
      mmci_u128_to_double(mmci_layout_change_words(&way->result, &asked, m, n));
  uint64_t own = *state + (uint64_t)rank;
  const mmci_piece pieces[3] = {mmci_layout_piece(&given[0], m, k, rank),
                                mmci_layout_piece(&given[1], k, n, rank),
                                mmci_layout_piece(&asked, m, n, rank)};
  const stored left = store(&own, dtype, &a, &pieces[0], MMC_OP_N);
  const stored right = store(&own, dtype, &b, &pieces[1], MMC_OP_N);
  const bool left_rows = left.matrix.layout == MMC_ROW_MAJOR;
  const bool right_rows = right.matrix.layout == MMC_ROW_MAJOR;
  const mmci_source sources[2] = {
      {left.data, left_rows ? left.matrix.ld : 1, left_rows ? 1 : left.matrix.ld, false, false},
      {right.data, right_rows ? right.matrix.ld : 1, right_rows ? 1 : right.matrix.ld, false,
       false}};
  const mmci_walk walk = {ops, team, &products, &problem, &plan, sources, pool};
  const size_t size = mmc_dtype_size(dtype);
  const size_t out_size = (size_t)(pieces[2].rows * pieces[2].cols) * size;
  char *out = malloc(out_size + 64);
  memset(out, 0xFF, out_size + 64); /* NaN */
  mmci_error error;
  const long long before = bytes_sent != NULL ? bytes_sent() : 0;
  describe_case(dtype, m, k, n, way, given, &asked);
  mmci_walk_prepare(&walk);
  if (expect_ok(mmci_walk_run(&walk, MMC_OK, out, pieces[2].cols, false, &error), &error,
                text_of)) {
    const double words = words_since(before, dtype);
    char what[300];
    snprintf(what, sizeof what, "%s: %g words sent, %g predicted", text_of, words, predicted);
    expect(words < 0 || words == predicted, what);
    snprintf(what, sizeof what, "%s: the piece", text_of);
    expect(is_right(dtype, out, &pieces[2], &want, &bound, 4.0 * (double)(k + 4)), what);
    bool is_kept = true;
    for (int i = 0; i < 64; i++)
      is_kept = is_kept && (unsigned char)out[out_size + (size_t)i] == 0xFF;
    expect(is_kept, "what lies behind a piece is untouched");
  }
  free(out);
  free(left.data);
  free(right.data);
  free(a.elements);
  free(b.elements);
  free(want.elements);
  free(bound.elements);
}

/* ---- chains by the public calls -------------------------------------------------------------- */

static mmc_spread spread_of(const mmci_layout *layout) {
  return (mmc_spread){(mmc_spread_kind)layout->kind, layout->grid_rows, layout->grid_cols};
}

/* Multiplies all factors, and their magnitudes, which errors are measured by. */
static void multiply_all(const truth *factors, int64_t n, truth *want, truth *bound) {
  *want = make_truth(factors[0].rows, factors[0].cols);
  *bound = make_truth(factors[0].rows, factors[0].cols);
  for (int64_t e = 0; e < want->rows * want->cols; e++) {
    want->elements[e] = factors[0].elements[e];
    bound->elements[e] = cabs(factors[0].elements[e]);
  }
  for (int64_t i = 1; i < n; i++) {
    const truth next = multiply_truths(want, &factors[i]),
                larger = bound_truths(bound, &factors[i]);
    free(want->elements);
    free(bound->elements);
    *want = next;
    *bound = larger;
  }
}

static void check_chain(uint64_t *state, mmc_context *context, mmc_team *public_team) {
  static const char *const objectives[] = {"time", "words", "energy"};
  const int64_t n = 1 + random_below(state, MOST);
  const mmc_dtype dtype = (mmc_dtype)random_below(state, 4);
  int64_t dims[MOST + 1];
  mmc_op chain_ops[MOST];
  mmc_spread spreads[MOST], result;
  truth factors[MOST];
  for (int64_t i = 0; i <= n; i++) dims[i] = random_dim(state);
  for (int64_t i = 0; i < n; i++) {
    const mmci_layout layout = random_layout(state);
    spreads[i] = spread_of(&layout);
    chain_ops[i] = (mmc_op)random_below(state, 3);
    factors[i] = random_truth(state, dtype, dims[i], dims[i + 1]);
  }
  const mmci_layout asked = random_layout(state);
  result = spread_of(&asked);
  mmc_team_options options = MMC_TEAM_OPTIONS_INIT;
  options.objective = objectives[random_below(state, 3)];
  options.all_ranks = random_below(state, 2) == 0;
  if (random_below(state, 2) == 0) options.factors = spreads;
  if (random_below(state, 2) == 0) options.result = &result;
  mmc_chain *chain = NULL;
  mmc_team_plan *plan = NULL;
  char message[480] = "", what[600];
  expect(mmc_chain_create(context, dtype, n, dims, chain_ops, &chain) == MMC_OK, "a chain");
  mmc_status status = mmc_team_plan_create(context, public_team, chain, &options, &plan);
  mmc_context_message(context, message, sizeof message);
  snprintf(what, sizeof what, "a plan of %" PRId64 " factors: %.200s", n, message);
  if (expect(status == MMC_OK, what)) {
    truth want, bound;
    multiply_all(factors, n, &want, &bound);
    stored mine[MOST];
    mmc_matrix matrices[MOST];
    uint64_t own = *state + (uint64_t)rank;
    double longest = 4;
    for (int64_t i = 0; i < n; i++) {
      mmci_piece piece = {.rows = dims[i], .cols = dims[i + 1]};
      mmc_piece told;
      if (options.factors != NULL && mmc_team_plan_piece(plan, i, rank, &told) == MMC_OK)
        piece = (mmci_piece){told.row, told.col, told.rows, told.cols};
      mine[i] = store(&own, dtype, &factors[i], &piece, chain_ops[i]);
      matrices[i] = mine[i].matrix;
      longest += (double)dims[i];
    }
    mmc_piece told;
    expect(mmc_team_plan_piece(plan, -1, rank, &told) == MMC_OK, "the piece of the result");
    const mmci_piece piece = {told.row, told.col, told.rows, told.cols};
    void *data = malloc((size_t)(told.rows * told.cols + 1) * mmc_dtype_size(dtype));
    memset(data, 0xFF, (size_t)(told.rows * told.cols + 1) * mmc_dtype_size(dtype));
    const mmc_matrix out = {.data = data, .rows = told.rows, .cols = told.cols};
    /* Where one rank has no result before anything was executed, all are told. */
    const mmc_matrix *to = rank == count - 1 ? NULL : &out;
    expect(mmc_team_execute(plan, matrices, to) == MMC_E_ARG, "no result on the last rank");
    mmc_matrix at_addresses = out;
    at_addresses.addresses = &data;
    expect(mmc_team_execute(plan, matrices, &at_addresses) == MMC_E_ARG, "a table of addresses");
    const long long before = bytes_sent != NULL ? bytes_sent() : 0;
    status = mmc_team_execute(plan, matrices, &out);
    /* What a second run does with the memory of the first. */
    if (status == MMC_OK && n > 3) {
      memset(data, 0xFF, (size_t)(told.rows * told.cols) * mmc_dtype_size(dtype));
      status = mmc_team_execute(plan, matrices, &out);
    }
    mmc_context_message(context, message, sizeof message);
    snprintf(what, sizeof what, "executing %" PRId64 " factors of %s: %.200s", n,
             mmc_dtype_name(dtype), message);
    if (expect(status == MMC_OK, what)) {
      const double words = words_since(before, dtype);
      const double predicted = (n > 3 ? 2 : 1) * mmc_count_to_double(mmc_team_plan_words(plan));
      snprintf(what, sizeof what, "%" PRId64 " factors: %g words sent, %g predicted", n, words,
               predicted);
      expect(words < 0 || words == predicted, what);
      snprintf(what, sizeof what, "the result of %" PRId64 " factors of %s", n,
               mmc_dtype_name(dtype));
      expect(is_right(dtype, data, &piece, &want, &bound, 4 * longest), what);
    }
    /* Where the result of one rank lies on a factor, all are told. */
    mmc_piece first;
    const bool is_there = mmc_team_plan_piece(plan, -1, 0, &first) == MMC_OK &&
                          first.rows * first.cols > 0 && dims[0] * dims[1] > 0;
    if (options.factors == NULL && is_there) {
      mmc_matrix over = out;
      if (rank == 0) over.data = matrices[0].data;
      expect(mmc_team_execute(plan, matrices, &over) == MMC_E_ARG, "a result on a factor");
      mmc_context_message(context, message, sizeof message);
      expect(strstr(message, "factors[0]: overlaps the result") != NULL, message);
    }
    free(data);
    for (int64_t i = 0; i < n; i++) free(mine[i].data);
    free(want.elements);
    free(bound.elements);
  }
  mmc_team_plan_destroy(plan);
  mmc_chain_destroy(chain);
  for (int64_t i = 0; i < n; i++) free(factors[i].elements);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Executes a random chain within a limit, and counts what a rank holds. */
static void check_memory(uint64_t *state, mmc_context *context, mmc_team *public_team) {
  static const int64_t sides[] = {60, 130, 190, 260};
  const int64_t n = 1 + random_below(state, 4);
  const mmc_dtype dtype = (mmc_dtype)random_below(state, 4);
  const long slack = 1 << 15;
  int64_t dims[MOST + 1];
  mmc_op chain_ops[MOST];
  mmc_spread spreads[MOST], result;
  mmc_matrix matrices[MOST];
  const uint64_t most = 260 * 260 * mmc_dtype_size(dtype);
  for (int64_t i = 0; i <= n; i++) dims[i] = sides[random_below(state, 4)];
  for (int64_t i = 0; i < n; i++) {
    const mmci_layout layout = random_layout(state);
    spreads[i] = spread_of(&layout);
    chain_ops[i] = (mmc_op)random_below(state, 3);
  }
  const mmci_layout asked = random_layout(state);
  result = spread_of(&asked);
  mmc_team_options options = MMC_TEAM_OPTIONS_INIT;
  if (random_below(state, 2) == 0) options.factors = spreads;
  if (random_below(state, 2) == 0) options.result = &result;
  const bool is_lean = random_below(state, 2) == 0;
  mmc_chain *chain = NULL;
  mmc_team_plan *plan = NULL;
  expect(mmc_chain_create(context, dtype, n, dims, chain_ops, &chain) == MMC_OK, "a chain");
  expect(mmc_team_plan_create(context, public_team, chain, &options, &plan) == MMC_OK, "a plan");
  options.rank_bytes = mmc_team_plan_rank_bytes(plan);
  mmc_team_plan_destroy(plan);
  plan = NULL;
  if (is_lean) options.rank_bytes -= options.rank_bytes / 5;
  if (mmc_team_plan_create(context, public_team, chain, &options, &plan) != MMC_OK) {
    expect(is_lean, "a plan within its own limit");
    mmc_chain_destroy(chain);
    return;
  }
  long pieces = 0;
  for (int64_t i = 0; i < n; i++) {
    mmc_piece p = {.rows = dims[i], .cols = dims[i + 1]};
    if (options.factors != NULL && mmc_team_plan_piece(plan, i, rank, &p) == MMC_OK)
      pieces += p.rows * p.cols * (long)mmc_dtype_size(dtype);
    const bool is_n = chain_ops[i] == MMC_OP_N;
    matrices[i] =
        (mmc_matrix){.data = calloc(1, most),
                     .rows = is_n ? p.rows : p.cols,
                     .cols = is_n ? p.cols : p.rows,
                     .layout = random_below(state, 2) == 0 ? MMC_ROW_MAJOR : MMC_COL_MAJOR};
  }
  mmc_piece p = {0};
  mmc_team_plan_piece(plan, -1, rank, &p);
  const mmc_matrix out = {.data = calloc(1, most), .rows = p.rows, .cols = p.cols};
  pieces += p.rows * p.cols * (long)mmc_dtype_size(dtype);
  bytes_held();
  expect(mmc_team_execute(plan, matrices, &out) == MMC_OK, "executing within a limit");
  const long held = bytes_held() + pieces;
  char what[200];
  snprintf(what, sizeof what, "%ld bytes held of %" PRIu64 ", %" PRId64 " factors of %s", held,
           options.rank_bytes, n, mmc_dtype_name(dtype));
  expect(held <= (long)mmc_team_plan_rank_bytes(plan) + slack, what);
  for (int64_t i = 0; i < n; i++) free(matrices[i].data);
  free(out.data);
  mmc_team_plan_destroy(plan);
  mmc_chain_destroy(chain);
}

/* ---- operands at the same time --------------------------------------------------------------- */

/* Draws a tree and rates until a plan computes operands apart, and executes that plan; does nothing
 * when ranks have no halves. */
static void check_apart(uint64_t *state) {
  const mmc_dtype dtype = (mmc_dtype)random_below(state, 4);
  int64_t n = 0, dims[MOST + 1], apart = 0;
  mmci_ranks_product steps[MOST];
  mmci_ranks_problem problem = {0};
  mmci_ranks_plan plan = {0};
  mmci_error error;
  if (count < 2) return;
  while (apart == 0) {
    mmci_ranks_plan_destroy(&plan);
    n = 4 + random_below(state, MOST - 3);
    for (int64_t i = 0; i <= n; i++) dims[i] = random_dim(state);
    int64_t step_count = 0;
    join_factors(state, dims, n, 0, n - 1, steps, &step_count);
    problem = (mmci_ranks_problem){.factor_count = n,
                                   .step_count = step_count,
                                   .dims = dims,
                                   .products = steps,
                                   .dtype = dtype,
                                   .ranks = count,
                                   .halves = true,
                                   .limit_bytes = UINT64_MAX,
                                   .goal = MMCI_RANKS_SECONDS,
                                   .rates = random_rates(state)};
    problem.rates.replaces = random_below(state, 2) == 0;
    if (!expect_ok(mmci_ranks_choose(&problem, &plan, &error), &error, "a plan of halves")) return;
    for (int64_t s = 0; s < step_count; s++) apart += plan.steps[s].apart;
  }
  truth factors[MOST], want, bound;
  stored mine[MOST];
  mmci_source sources[MOST];
  uint64_t own = *state + (uint64_t)rank;
  double longest = 4;
  for (int64_t i = 0; i < n; i++) {
    const mmci_piece all = {.rows = dims[i], .cols = dims[i + 1]};
    factors[i] = random_truth(state, dtype, dims[i], dims[i + 1]);
    mine[i] = store(&own, dtype, &factors[i], &all, MMC_OP_N);
    const bool by_rows = mine[i].matrix.layout == MMC_ROW_MAJOR;
    const int64_t ld = mine[i].matrix.ld;
    sources[i] = (mmci_source){mine[i].data, by_rows ? ld : 1, by_rows ? 1 : ld, false, true};
    longest += (double)dims[i];
  }
  multiply_all(factors, n, &want, &bound);
  const mmci_piece piece = mmci_layout_piece(&plan.result, dims[0], dims[n], rank);
  const size_t bytes = (size_t)(piece.rows * piece.cols) * mmc_dtype_size(dtype);
  void *out = malloc(bytes + 1);
  memset(out, 0xFF, bytes + 1);
  const mmci_walk walk = {ops, team, &products, &problem, &plan, sources, pool};
  const long long before = bytes_sent != NULL ? bytes_sent() : 0;
  char what[200];
  mmci_walk_prepare(&walk);
  snprintf(what, sizeof what, "%" PRId64 " products of %" PRId64 " apart on %d ranks, %s", apart,
           n - 1, count, mmc_dtype_name(dtype));
  if (expect_ok(mmci_walk_run(&walk, MMC_OK, out, piece.cols, false, &error), &error, what)) {
    const double words = words_since(before, dtype), told = mmci_u128_to_double(plan.words);
    expect(is_right(dtype, out, &piece, &want, &bound, 4 * longest), what);
    snprintf(what, sizeof what, "%g words sent, %g predicted, %" PRId64 " products apart", words,
             told, apart);
    expect(words < 0 || words == told, what);
  }
  free(out);
  for (int64_t i = 0; i < n; i++) {
    free(mine[i].data);
    free(factors[i].elements);
  }
  free(want.elements);
  free(bound.elements);
  mmci_ranks_plan_destroy(&plan);
}

/* ---- agreeing -------------------------------------------------------------------------------- */

/* All get to know the first rank that failed, and why, whichever ranks fail. */
static void check_agreement(void) {
  for (int64_t fails = 0; fails < (int64_t)1 << count; fails++) {
    mmci_error told = {0};
    char expected[sizeof told.text] = "";
    const bool mine = (fails >> rank & 1) != 0;
    const mmc_status own = mine ? mmci_fail(&told, rank % 2 == 0 ? MMC_E_IO : MMC_E_NOMEM,
                                            "the trouble of %d", (int)rank)
                                : MMC_OK;
    int32_t first = 0;
    while (first < count && (fails >> first & 1) == 0) first++;
    if (count == 1)
      snprintf(expected, sizeof expected, "%s", told.text);
    else if (first < count)
      snprintf(expected, sizeof expected, "rank %d: the trouble of %d", (int)first, (int)first);
    const mmc_status wanted = first == count ? MMC_OK : first % 2 == 0 ? MMC_E_IO : MMC_E_NOMEM;
    expect(mmci_team_agree(ops, team, own, &told) == wanted, "the status of all");
    expect(strcmp(told.text, expected) == 0, "the message of all");
    mmc_status status = own;
    const int32_t sent = 100 + rank;
    int32_t *all = mmci_team_gather(ops, team, &status, &sent, sizeof sent, &told);
    expect(status == wanted && (all != NULL) == (status == MMC_OK), "what all gather");
    for (int32_t r = 0; all != NULL && r < count; r++)
      expect(all[r] == 100 + r, "what a rank has sent");
    free(all);
  }
}

/* ---- one rank that does otherwise ------------------------------------------------------------ */

static mmc_status look(void *user, const mmc_matrix *result) {
  *(int64_t *)user = result->rows;
  return MMC_OK;
}

/* What one rank asks for and the others do not is told on all of them, and nobody waits. */
static void check_others(mmc_context *context, mmc_team *public_team) {
  const bool is_last = rank == count - 1;
  mmc_chain *chain = NULL;
  mmc_team_plan *plan = NULL;
  mmc_team_options options = MMC_TEAM_OPTIONS_INIT;
  char message[480], path[] = "test_team_XXXXXX.npy";
  int32_t all[64], mine = rank;
  int64_t rows = 0;
  expect(mmc_chain_parse(context, "f64:6x5x4", &chain) == MMC_OK, "a chain");
  if (count > 1) {
    expect(mmc_team_calibrate(public_team, is_last ? MMC_F32 : MMC_F64) == MMC_E_ARG,
           "another dtype on the last rank");
    mmc_context_message(context, message, sizeof message);
    expect(strstr(message, ": measures f32, and rank 0 measures f64") != NULL, message);
  }
  expect(mmc_team_gather(public_team, is_last ? NULL : &mine, sizeof mine, all) == MMC_E_ARG,
         "nothing to gather on the last rank");
  expect(mmc_team_plan_create(context, public_team, chain, &options, is_last ? NULL : &plan) ==
             MMC_E_ARG,
         "no plan on the last rank");
  if (is_last && count > 1) options.rank_bytes = (uint64_t)1 << 40;
  const mmc_status status = mmc_team_plan_create(context, public_team, chain, &options, &plan);
  mmc_context_message(context, message, sizeof message);
  expect(status == (count > 1 ? MMC_E_ARG : MMC_OK), "a limit on the last rank");
  expect(count == 1 || strstr(message, ": has other options") != NULL, message);
  mmc_team_plan_destroy(plan);
  options.rank_bytes = MMC_NO_LIMIT;
  expect(mmc_team_plan_create(context, public_team, chain, &options, &plan) == MMC_OK, "a plan");
  double elements[30] = {0}, product[24];
  const mmc_matrix factors[2] = {{.data = elements, .rows = 6, .cols = 5},
                                 {.data = elements, .rows = 5, .cols = 4}};
  mmc_piece piece = {0};
  expect(mmc_team_plan_piece(plan, -1, rank, &piece) == MMC_OK, "a piece");
  const mmc_matrix out = {.data = product, .rows = piece.rows, .cols = piece.cols};
  expect(mmc_team_execute(plan, factors, &out) == MMC_OK, "a product");
  const int descriptor = rank == 0 ? mkstemps(path, 4) : -1;
  if (descriptor >= 0) close(descriptor);
  expect(mmc_team_write(plan, path, &out, 2, rank == 0 ? look : NULL, &rows) == MMC_OK,
         "a check on rank 0 alone");
  expect(rows == (rank == 0 ? 6 : 0), "what the check has seen");
  if (rank == 0) remove(path);
  mmc_team_plan_destroy(plan);
  mmc_chain_destroy(chain);
}

int main(int argc, char **argv) {
  long cases = argc > 1 ? atol(argv[1]) : 200;
  uint64_t state = argc > 2 ? strtoull(argv[2], NULL, 10) : 21;
  mmc_context *context = NULL;
  mmc_team *public_team = NULL;
  mmci_error error;
  char message[480];
  enum { FEW_CASES = 80 };
  if (is_in_full())
    cases *= 20;
  else if (cases > FEW_CASES)
    cases = FEW_CASES;
  void *symbol = dlsym(RTLD_DEFAULT, "test_bytes_sent");
  memcpy(&bytes_sent, &symbol, sizeof symbol);
  symbol = dlsym(RTLD_DEFAULT, "test_bytes_held");
  memcpy(&bytes_held, &symbol, sizeof symbol);
  if (mmc_context_create(NULL, &context) != MMC_OK) return 1;
  /* The public team initializes MPI and finalizes it; the other is within. */
  if (mmc_team_open(context, "scalapack", NULL, &public_team) != MMC_OK) {
    printf("%s\n", mmc_context_message(context, message, sizeof message));
    return TEST_SKIPPED;
  }
  if (!expect_ok(mmci_engine_load("scalapack", NULL, &ops, &error), &error, "the module") ||
      !expect_ok(ops->open(NULL, &team, &error), &error, "a team"))
    return 1;
  rank = ops->rank(team);
  count = ops->count(team);
  if (rank == 0)
    printf("%s; seed %" PRIu64 "; %s\n", mmc_team_describe(public_team, message, sizeof message),
           state, bytes_sent != NULL ? "words are counted" : "words are not counted");
  mmci_way ways[MMCI_WAYS];
  const int way_count = mmci_ways(count, ways);
  pool = mmci_pool_create(true);
  mmci_opened blas = {.ops = NULL};
  if (mmci_context_open_device(context, "blas", &blas, &error) != MMC_OK) return TEST_SKIPPED;
  if (!expect_ok(mmci_products_open(ops, team, &blas, &products, &error), &error, "products"))
    return 1;
  if (rank == 0)
    printf("the device blas %s\n", mmci_products_replace(&products, MMC_F64)
                                       ? "multiplies large matrices"
                                       : "multiplies what is narrow, at most");
  check_agreement();
  check_others(context, public_team);
  for (long c = 0; c < cases; c++) check_way(&state, &ways[c % way_count], c % 40 == 39);
  for (long c = 0; c < cases; c++) {
    const mmci_way way = random_way(&state);
    check_way(&state, &way, c % 40 == 39);
  }
  for (long c = 0; c < cases; c++) check_chain(&state, context, public_team);
  for (long c = 0; c < cases && bytes_held != NULL; c++) check_memory(&state, context, public_team);
  for (long c = 0; c < cases; c++) check_apart(&state);
  mmci_pool_destroy(pool);
  mmci_products_close(&products);
  /* The team that initialized MPI may be closed before others. */
  mmc_team_close(public_team);
  expect_ok(mmci_team_agree(ops, team, MMC_OK, &error), &error, "the team that is left");
  ops->close(team);
  mmc_context_destroy(context);
  if (rank != 0 && failures == 0) return 0;
  return expect_summary();
}

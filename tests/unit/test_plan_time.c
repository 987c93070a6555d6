/* test_plan_time.c: plans for time by prices that are made up: the order is the best of all orders,
 * the one of fewest multiplications is left only for a sure gain, memory limits hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../random.h"
#include "order/workspace.h"
#include "planner/fewest.h"
#include "planner/fit.h"
#include "planner/time_order.h"

/* ---- prices that are made up --------------------------------------------------------------- */

typedef struct made_up {
  uint64_t seed;
  double error;
  bool modelled;
  double scatter; /* of the price, as an exponent: 0 is the multiplications */
} made_up;

/* The same for the same product, of any size; every third is cut in two. */
static void price(const void *user, const mmci_gemm *gemm, mmci_price *out) {
  const made_up *m = user;
  uint64_t hash = m->seed;
  const int64_t parts[] = {gemm->m, gemm->k, gemm->n, gemm->a.trans, gemm->b.trans, gemm->a.conj};
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
    hash = random_bits(&hash) ^ (uint64_t)parts[i];
  double work = 1 + (double)gemm->m * (double)gemm->k * (double)gemm->n;
  if (gemm->batch > 1) work *= (double)gemm->batch;
  *out = (mmci_price){.seconds = 1e-9 * work * exp(m->scatter * random_unit(&hash)),
                      .error = m->error,
                      .modelled = m->modelled,
                      .source = MMCI_ARRAY,
                      .recipe = mmci_recipe_whole(0)};
  if (hash % 3 != 0 || gemm->n < 2) return;
  mmci_recipe whole = mmci_recipe_whole(0);
  int64_t sizes[2] = {gemm->n / 2, gemm->n - gemm->n / 2};
  assert_true(mmci_recipe_split(MMCI_AXIS_N, sizes, &whole, &whole, &out->recipe));
}

typedef struct context {
  mmc_chain *chain;
  mmci_pricing pricing;
  mmci_time_request request;
} context;

static double seconds_of(void *user, int64_t i, int64_t k, int64_t j) {
  const context *c = user;
  mmci_gemm gemm;
  mmci_price p;
  mmci_chain_product(c->chain, MMCI_NATIVE, i, k, j, &gemm);
  gemm.batch = mmci_chain_product_batch(c->chain, i, j);
  c->pricing.price(c->pricing.user, &gemm, &p);
  return p.seconds;
}

static void set_chain(context *c, const made_up *m, int64_t n, const int64_t *dims,
                      const mmc_op *ops) {
  assert_int_equal(mmci_chain_create(MMC_F64, n, dims, ops, &c->chain, NULL), MMC_OK);
  c->pricing = (mmci_pricing){.user = m, .price = price};
  c->request = (mmci_time_request){.pricing = &c->pricing, .precision = MMCI_NATIVE, .notice = ""};
}

static void random_chain(context *c, const made_up *m, uint64_t *random, int64_t n) {
  int64_t dims[128];
  mmc_op ops[128];
  random_dims(random, (int)random_below(random, 12), n, dims);
  for (int64_t i = 0; i < n; i++) ops[i] = (mmc_op)random_below(random, 3);
  set_chain(c, m, n, dims, ops);
}

static double price_of(context *c, const mmci_tree *tree) {
  mmci_range ranges[128];
  mmci_tree_ranges(tree, ranges);
  double sum = 0;
  for (int32_t t = 0; t < tree->n - 1; t++)
    sum += seconds_of(c, ranges[t].first, ranges[t].split, ranges[t].last);
  return sum;
}

static mmci_plan plan(context *c, const char *solver, uint64_t limit) {
  mmci_plan out;
  mmci_error error;
  if (mmci_plan_create_timed(c->chain, solver, mmci_within(limit), &c->request, &out, &error) !=
          MMC_OK ||
      mmci_plan_price(&out, &c->request, &error) != MMC_OK)
    fail_msg("%s", error.text);
  return out;
}

static bool near(double a, double b) {
  return fabs(a - b) <= 1e-9 * fabs(b);
}

/* ---- the order ----------------------------------------------------------------------------- */

/* Where prices are exact, the plan is the best of all orders, tried one by one. */
static void the_order_is_the_best_of_all(void **state) {
  (void)state;
  int replaced = 0;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    uint64_t random = seed;
    made_up m = {.seed = seed, .scatter = 2, .modelled = seed % 2};
    context c;
    random_chain(&c, &m, &random, 1 + random_below(&random, 9));
    mmci_plan out = plan(&c, "auto", UINT64_MAX);
    mmci_order_problem problem = {
        .n = c.chain->n, .dims = c.chain->dims, .price = seconds_of, .price_user = &c};
    mmci_order_answer best;
    const mmci_solver *used;
    assert_int_equal(mmci_order_solve("brute", &problem, false, &used, &best, NULL), MMC_OK);
    if (!near(out.time->predicted_s, best.price) && c.chain->n > 1)
      fail_msg("seed %llu: %g instead of %g", (unsigned long long)seed, out.time->predicted_s,
               best.price);
    assert_true(near(price_of(&c, &out.tree), out.time->predicted_s) || c.chain->n == 1);
    assert_string_equal(out.solver, out.time->by_time ? "table" : "hu-shing");
    replaced += out.time->by_time;
    mmci_tree_destroy(&best.tree);
    mmci_plan_destroy(&out);
    mmc_chain_destroy(c.chain);
  }
  assert_true(replaced > 50);
}

/* What the chains of a batch share is priced once, so that a plan that knows of it is the best of
 * all orders, and no slower than one that does not. */
static void what_is_shared_is_priced_once(void **state) {
  (void)state;
  int replaced = 0;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    uint64_t random = seed;
    made_up m = {.seed = seed, .scatter = 2};
    context c, blind;
    int64_t dims[8];
    bool shared[8];
    mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
    const int64_t n = 3 + random_below(&random, 5);
    random_dims(&random, (int)random_below(&random, 12), n, dims);
    for (int64_t i = 0; i < n; i++) shared[i] = random_below(&random, 3) > 0;
    options.batch = 1 + random_below(&random, 40);
    set_chain(&blind, &m, n, dims, NULL);
    set_chain(&c, &m, n, dims, NULL);
    mmc_chain_destroy(c.chain);
    options.shared = shared;
    assert_int_equal(mmci_chain_create_as(MMC_F64, n, dims, NULL, &options, &c.chain, NULL),
                     MMC_OK);
    mmci_plan out = plan(&c, "auto", UINT64_MAX), other = plan(&blind, "auto", UINT64_MAX);
    mmci_order_problem problem = {
        .n = c.chain->n, .dims = c.chain->dims, .price = seconds_of, .price_user = &c};
    mmci_order_answer best;
    const mmci_solver *used;
    assert_int_equal(mmci_order_solve("brute", &problem, false, &used, &best, NULL), MMC_OK);
    if (!near(out.time->predicted_s, best.price))
      fail_msg("seed %llu: %g instead of %g", (unsigned long long)seed, out.time->predicted_s,
               best.price);
    const double blind_s = price_of(&c, &other.tree);
    assert_true(out.time->predicted_s <= blind_s * (1 + 1e-9));
    replaced += out.time->predicted_s < blind_s * (1 - 1e-9);
    mmci_tree_destroy(&best.tree);
    mmci_plan_destroy(&out);
    mmci_plan_destroy(&other);
    mmc_chain_destroy(c.chain);
    mmc_chain_destroy(blind.chain);
  }
  assert_true(replaced > 50);
}

/* Errors of products that both orders have do not count; those of the rest do: of one model they
 * add up, others are independent. */
static void only_a_sure_gain_changes_the_order(void **state) {
  (void)state;
  int replaced = 0, kept = 0;
  for (uint64_t seed = 1; seed <= 400; seed++) {
    uint64_t random = seed;
    made_up exact = {.seed = seed, .scatter = 1}, vague = exact;
    vague.modelled = seed % 2;
    vague.error = 0.5 * fabs(random_unit(&random));
    context c;
    random_chain(&c, &vague, &random, 3 + random_below(&random, 6));
    mmci_plan fewest, best, out = plan(&c, "auto", UINT64_MAX);
    assert_int_equal(mmci_plan_create(c.chain, "auto", mmci_within(UINT64_MAX), &fewest, NULL),
                     MMC_OK);
    c.pricing.user = &exact;
    best = plan(&c, "auto", UINT64_MAX);
    mmci_range a[16], b[16];
    mmci_tree_ranges(&fewest.tree, a);
    mmci_tree_ranges(&best.tree, b);
    double gain = 0, sum = 0, squares = 0;
    for (int side = 0; side < 2; side++)
      for (int t = 0; t < c.chain->n - 1; t++) {
        const mmci_range *mine = side == 0 ? a : b, *others = side == 0 ? b : a;
        bool shared = false;
        for (int o = 0; o < c.chain->n - 1; o++)
          shared = shared || memcmp(&mine[t], &others[o], sizeof mine[t]) == 0;
        double s = seconds_of(&c, mine[t].first, mine[t].split, mine[t].last);
        gain += side == 0 ? s : -s;
        if (!shared) sum += s * vague.error;
        if (!shared) squares += s * s * vague.error * vague.error;
      }
    double error = vague.modelled ? sum : sqrt(squares), fewest_s = price_of(&c, &fewest.tree);
    if (fabs(gain - error) > 1e-9 * fewest_s && out.time->by_time != (gain > error))
      fail_msg("seed %llu: gain %g, error %g", (unsigned long long)seed, gain, error);
    if (!(out.time->predicted_s <= fewest_s * (1 + 1e-9)))
      fail_msg("seed %llu: slower than fewest multiplications", (unsigned long long)seed);
    if (out.time->by_time) assert_true(near(out.time->predicted_s + out.time->gain_s, fewest_s));
    replaced += out.time->by_time;
    kept += best.time->by_time && !out.time->by_time;
    mmci_plan_destroy(&fewest);
    mmci_plan_destroy(&best);
    mmci_plan_destroy(&out);
    mmc_chain_destroy(c.chain);
  }
  assert_true(replaced > 20 && kept > 20);
}

/* Ops of single factors are part of the price: a chain that is slow when its factors come as they
 * are is multiplied otherwise when they come transposed. */
static void ops_are_part_of_the_price(void **state) {
  (void)state;
  int differ = 0;
  const int64_t dims[] = {40, 41, 42, 43, 44, 45};
  const mmc_op transposed[] = {MMC_OP_T, MMC_OP_N, MMC_OP_T, MMC_OP_N, MMC_OP_T};
  for (uint64_t seed = 1; seed <= 50; seed++) {
    made_up m = {.seed = seed, .scatter = 1};
    context as_is, turned;
    set_chain(&as_is, &m, 5, dims, NULL);
    set_chain(&turned, &m, 5, dims, transposed);
    mmci_plan a = plan(&as_is, "auto", UINT64_MAX), b = plan(&turned, "auto", UINT64_MAX);
    differ += memcmp(a.tree.products, b.tree.products, 4 * sizeof *a.tree.products) != 0;
    mmci_plan_destroy(&a);
    mmci_plan_destroy(&b);
    mmc_chain_destroy(as_is.chain);
    mmc_chain_destroy(turned.chain);
  }
  assert_true(differ > 10);
}

/* ---- memory -------------------------------------------------------------------------------- */

/* Every order of a short chain, as shifts of factors and reductions of the last two results. */
typedef struct every {
  context *c;
  mmci_product products[8];
  int32_t stack[8], depth, count, shifted;
  uint64_t limit;
  double least; /* of those that fit */
} every;

static void weigh(every *e) {
  mmci_tree tree = {.n = e->c->chain->n, .products = e->products};
  const int64_t *dims = e->c->chain->dims;
  mmci_range ranges[8];
  mmci_need needs[8];
  uint64_t bytes[8];
  mmci_tree_ranges(&tree, ranges);
  for (int32_t t = 0; t < tree.n - 1; t++)
    bytes[t] = mmci_result_bytes(dims[ranges[t].first], dims[ranges[t].last], sizeof(double));
  mmci_tree_needs(&tree, bytes, needs);
  if (needs[tree.n - 2].bytes <= e->limit) e->least = fmin(e->least, price_of(e->c, &tree));
}

static void extend(every *e) {
  int32_t n = e->c->chain->n;
  if (e->count == n - 1) {
    weigh(e);
    return;
  }
  if (e->shifted < n) {
    e->stack[e->depth++] = e->shifted++;
    extend(e);
    e->depth--, e->shifted--;
  }
  if (e->depth >= 2) {
    mmci_product top = {e->stack[e->depth - 2], e->stack[e->depth - 1]};
    e->products[e->count] = top;
    e->stack[e->depth-- - 2] = n + e->count++;
    extend(e);
    e->depth++, e->count--;
    e->stack[e->depth - 2] = top.left;
    e->stack[e->depth - 1] = top.right;
  }
}

static void a_memory_limit_holds(void **state) {
  (void)state;
  int limited = 0, refused = 0;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    uint64_t random = seed;
    made_up m = {.seed = seed, .scatter = 2};
    context c;
    random_chain(&c, &m, &random, 3 + random_below(&random, 4));
    mmci_plan free = plan(&c, "auto", UINT64_MAX), out;
    uint64_t limit = free.workspace_bytes - free.workspace_bytes / (2 + seed % 5);
    every e = {.c = &c, .limit = limit, .least = (double)INFINITY};
    extend(&e);
    mmci_error error;
    mmc_status status =
        mmci_plan_create_timed(c.chain, "auto", mmci_within(limit), &c.request, &out, &error);
    if (status == MMC_E_MEMORY_LIMIT) {
      assert_true(isinf(e.least));
      refused++;
    } else {
      assert_int_equal(status, MMC_OK);
      assert_int_equal(mmci_plan_price(&out, &c.request, &error), MMC_OK);
      assert_true(out.workspace_bytes <= limit);
      if (!near(out.time->predicted_s, e.least))
        fail_msg("seed %llu: %g instead of %g", (unsigned long long)seed, out.time->predicted_s,
                 e.least);
      limited += out.limited && out.time->by_time;
      mmci_plan_destroy(&out);
    }
    mmci_plan_destroy(&free);
    mmc_chain_destroy(c.chain);
  }
  assert_true(limited > 10 && refused > 10);
}

/* ---- steps --------------------------------------------------------------------------------- */

/* After places are given out, which numbers the steps, each has the price of its own product. */
static void steps_have_their_own_prices(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 100; seed++) {
    uint64_t random = seed;
    made_up m = {.seed = seed, .scatter = 2};
    context c;
    random_chain(&c, &m, &random, 2 + random_below(&random, 9));
    mmci_plan out = plan(&c, seed % 2 != 0 ? "auto" : "left-to-right", UINT64_MAX);
    double sum = 0;
    for (int32_t s = 0; s < c.chain->n - 1; s++) {
      const mmci_plan_step *step = &out.steps[s];
      int32_t n = c.chain->n;
      mmc_op op_a = step->left < n ? c.chain->ops[step->left] : MMC_OP_N;
      mmc_op op_b = step->right < n ? c.chain->ops[step->right] : MMC_OP_N;
      mmci_gemm gemm = mmci_gemm_tight(MMC_F64, MMCI_NATIVE, step->m, step->k, step->n, op_a, op_b);
      mmci_price expected;
      price(&m, &gemm, &expected);
      assert_true(expected.seconds == step->predicted_s);
      assert_int_equal(step->source, MMCI_ARRAY);
      char text[MMCI_RECIPE_TEXT_SIZE] = "whole", wanted[MMCI_RECIPE_TEXT_SIZE];
      if (step->recipe != NULL) assert_true(mmci_recipe_format(step->recipe, NULL, text));
      mmci_recipe_format(&expected.recipe, NULL, wanted);
      assert_string_equal(text, wanted);
      sum += step->predicted_s;
    }
    assert_true(near(sum, out.time->predicted_s));
    mmci_plan_destroy(&out);
    mmc_chain_destroy(c.chain);
  }
}

/* Every product by padded copies, which gains a microsecond. */
static void price_padded(const void *user, const mmci_gemm *gemm, mmci_price *out) {
  (void)user, (void)gemm;
  *out = (mmci_price){
      .seconds = 1e-6, .plain_s = 2e-6, .source = MMCI_MEASURED, .recipe = mmci_recipe_whole(0)};
  out->recipe.pad = 8;
}

static uint64_t a_kilobyte(const void *user, const mmci_plan *plan, int32_t step) {
  (void)user;
  return plan->steps[step].recipe != NULL ? 1024 : 0;
}

/* On the host, without room for the copies, and without room for what a kernel holds: a recipe that
 * is given up is priced as the plain call. */
static void recipes_that_are_given_up_are_plain(void **state) {
  (void)state;
  const int64_t dims[] = {3, 5, 7, 9};
  made_up m = {0};
  const uint64_t room[] = {0, 1 << 10, 1 << 20, 1 << 20};
  for (int i = 0; i < 4; i++) {
    context c;
    set_chain(&c, &m, 3, dims, NULL);
    c.pricing.price = price_padded;
    mmci_plan out;
    mmci_error error;
    assert_int_equal(
        mmci_plan_create_timed(c.chain, "auto", mmci_within(UINT64_MAX), &c.request, &out, &error),
        MMC_OK);
    mmci_plan_machine machine = {.queues = 1, .memory_bytes = room[i]};
    if (i > 0) assert_int_equal(mmci_plan_fit(&out, &machine, UINT64_MAX, &error), MMC_OK);
    assert_int_equal(mmci_plan_price(&out, &c.request, &error), MMC_OK);
    machine.scratch_bytes = a_kilobyte;
    if (i == 3) mmci_plan_fit_recipes(&out, &machine, out.workspace_bytes + 1024);
    const int padded = (int[]){0, 0, 2, 1}[i]; /* of two steps */
    double sum = 0;
    for (int32_t s = 0; s < 2; s++) {
      bool is_plain = s < 2 - padded;
      assert_int_equal(out.steps[s].recipe == NULL, is_plain);
      assert_true(near(out.steps[s].predicted_s, is_plain ? 2e-6 : 1e-6));
      sum += out.steps[s].predicted_s;
    }
    assert_true(near(out.time->predicted_s, sum));
    mmci_plan_destroy(&out);
    mmc_chain_destroy(c.chain);
  }
}

/* A named solver's order stays, however slow. */
static void a_named_solver_keeps_its_order(void **state) {
  (void)state;
  made_up m = {.seed = 3, .scatter = 2};
  context c;
  const int64_t dims[] = {100, 1, 100, 1, 100, 1};
  set_chain(&c, &m, 5, dims, NULL);
  mmci_plan out = plan(&c, "left-to-right", UINT64_MAX), other;
  assert_false(out.time->by_time);
  assert_int_equal(
      mmci_plan_create(c.chain, "left-to-right", mmci_within(UINT64_MAX), &other, NULL), MMC_OK);
  assert_memory_equal(out.tree.products, other.tree.products, 4 * sizeof *other.tree.products);
  mmci_plan_destroy(&other);
  mmci_plan_destroy(&out);
  mmc_chain_destroy(c.chain);
}

/* A plain call takes 5 us whatever the size, and of one product of an order of more multiplications
 * 3; cut in two it takes scatter less, relatively. */
static void price_of_latency(const void *user, const mmci_gemm *gemm, mmci_price *out) {
  const made_up *m = user;
  double plain_s = gemm->m == 350 && gemm->n == 216 ? 3e-6 : 5e-6;
  *out = (mmci_price){.seconds = (1 - m->scatter) * plain_s,
                      .plain_s = plain_s,
                      .source = MMCI_ARRAY,
                      .recipe = mmci_recipe_whole(0)};
  mmci_recipe whole = mmci_recipe_whole(0);
  int64_t sizes[2] = {gemm->n / 2, gemm->n - gemm->n / 2};
  if (m->scatter > 0)
    assert_true(mmci_recipe_split(MMCI_AXIS_N, sizes, &whole, &whole, &out->recipe));
}

static const int64_t balanced[] = {350, 767, 128, 216, 959};

/* (A1 A2) (A3 A4) has the fewest multiplications, ((A1 A2) A3) A4 takes 2 us less. That is no gain
 * where the first two products of the former take 7.5 us side by side, unless their arithmetic
 * does not let them. */
static void sub_trees_side_by_side_count(void **state) {
  (void)state;
  const struct {
    double flops_per_s;
    bool by_time;
  } cases[] = {{0, true}, {1e15, false}, {1e13, true}, {2.1e13, true}, {2.25e13, false}};
  for (size_t t = 0; t < sizeof cases / sizeof *cases; t++) {
    made_up m = {0};
    context c;
    set_chain(&c, &m, 4, balanced, NULL);
    c.pricing.price = price_of_latency;
    c.request.shared_flops_per_s = cases[t].flops_per_s;
    mmci_plan out = plan(&c, "auto", UINT64_MAX);
    assert_int_equal(out.time->by_time, cases[t].by_time);
    assert_true(near(out.time->predicted_s, cases[t].by_time ? 13e-6 : 15e-6));
    mmci_plan_destroy(&out);
    mmc_chain_destroy(c.chain);
  }
}

/* Of two products that run side by side recipes are taken when they save more than that does. */
static void side_by_side_or_cut(void **state) {
  (void)state;
  for (int t = 0; t < 8; t++) {
    made_up m = {.scatter = t < 4 ? 0.2 : 0.3}; /* 8 or 7 us of 7.5 */
    bool parallel = t & 1, shared = t & 2;
    context c;
    mmci_plan out;
    set_chain(&c, &m, 4, balanced, NULL);
    c.pricing.price = price_of_latency;
    c.request.shared_flops_per_s = shared ? 1e15 : 0;
    assert_int_equal(mmci_plan_create_timed(c.chain, "hu-shing", mmci_within(UINT64_MAX),
                                            &c.request, &out, NULL),
                     MMC_OK);
    out.parallel = parallel;
    assert_int_equal(mmci_plan_price(&out, &c.request, NULL), MMC_OK);
    bool plain = parallel && shared && t < 4;
    double one_s = (1 - m.scatter) * 5e-6;
    assert_true(near(out.time->predicted_s, plain ? 10e-6 + one_s : 3 * one_s));
    for (int s = 0; s < 3; s++)
      assert_int_equal(mmci_plan_recipe(&out.steps[s]) == NULL, plain && s < 2);
    mmci_plan_destroy(&out);
    mmc_chain_destroy(c.chain);
  }
}

static void long_chains_keep_their_order(void **state) {
  (void)state;
  for (int64_t n = MMCI_TIME_MOST_FACTORS; n <= MMCI_TIME_MOST_FACTORS + 1; n++) {
    uint64_t random = 7;
    made_up m = {.seed = 3, .scatter = 3};
    context c;
    int64_t dims[128];
    random_dims(&random, 0, n, dims);
    set_chain(&c, &m, n, dims, NULL);
    mmci_plan out = plan(&c, "auto", UINT64_MAX);
    assert_int_equal(out.time->by_time, n == MMCI_TIME_MOST_FACTORS);
    if (n > MMCI_TIME_MOST_FACTORS)
      assert_string_equal(out.time->kept,
                          "longer chains than of 64 factors are not ordered by time");
    assert_true(out.time->predicted_s > 0);
    mmci_plan_destroy(&out);
    mmc_chain_destroy(c.chain);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_order_is_the_best_of_all),
      cmocka_unit_test(what_is_shared_is_priced_once),
      cmocka_unit_test(only_a_sure_gain_changes_the_order),
      cmocka_unit_test(ops_are_part_of_the_price),
      cmocka_unit_test(a_memory_limit_holds),
      cmocka_unit_test(steps_have_their_own_prices),
      cmocka_unit_test(recipes_that_are_given_up_are_plain),
      cmocka_unit_test(a_named_solver_keeps_its_order),
      cmocka_unit_test(sub_trees_side_by_side_count),
      cmocka_unit_test(side_by_side_or_cut),
      cmocka_unit_test(long_chains_keep_their_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

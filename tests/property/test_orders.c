/* test_orders.c: what must hold for any chain: the solvers agree, and every order gives the same
 * matrix. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../random.h"
#include "device/device.h"
#include "order/workspace.h"
#include "plan/plan.h"
#include "planner/fewest.h"
#include "run/run.h"

enum { CHAINS = 100000 };
static const uint64_t seed = 20110913;

static mmci_order_answer solve(const mmci_solver *solver, int32_t n, const int64_t *dims) {
  mmci_order_problem problem = {.n = n, .dims = dims, .threads = 1};
  const char *reason;
  if (!solver->applicable(&problem, &reason)) fail_msg("%s: %s", solver->name, reason);
  mmci_order_answer answer;
  mmci_error error;
  if (solver->solve(&problem, false, &answer, &error) != MMC_OK)
    fail_msg("%s: %s", solver->name, error.text);
  return answer;
}

static mmci_u128 multiplications_of(const mmci_tree *tree, const int64_t *dims) {
  mmci_u128 result;
  assert_int_equal(mmci_tree_multiplications(tree, dims, &result, NULL), MMC_OK);
  return result;
}

static void expect_same(const mmci_order_answer *x, const mmci_order_answer *y, int32_t n,
                        const int64_t *dims, const char *solver, int round) {
  bool same =
      x->multiplications == y->multiplications &&
      multiplications_of(&y->tree, dims) == y->multiplications &&
      memcmp(x->tree.products, y->tree.products, (size_t)(n - 1) * sizeof(mmci_product)) == 0;
  if (same) return;
  print_error("%s differs, seed %llu, round %d:", solver, (unsigned long long)seed, round);
  for (int32_t i = 0; i <= n; i++) print_error(" %lld", (long long)dims[i]);
  fail_msg("orders differ");
}

static void solvers_agree(void **state) {
  (void)state;
  uint64_t random = seed;
  int64_t dims[64];
  for (int round = 0; round < CHAINS; round++) {
    int32_t n = 1 + (int32_t)random_below(&random, round % 10 == 0 ? 40 : 12);
    random_dims(&random, round % DIMS_FAMILIES, n, dims);
    mmci_order_answer table = solve(&mmci_solver_interval_dp, n, dims);
    mmci_order_answer hu_shing = solve(&mmci_solver_hu_shing, n, dims);
    expect_same(&table, &hu_shing, n, dims, "hu-shing", round);
    if (n <= 8 || (n <= 12 && round % 500 == 0)) {
      mmci_order_answer brute = solve(&mmci_solver_brute, n, dims);
      expect_same(&table, &brute, n, dims, "brute", round);
      mmci_tree_destroy(&brute.tree);
    }
    mmci_tree_destroy(&table.tree);
    mmci_tree_destroy(&hu_shing.tree);
  }
}

/* ---- every order of a short chain gives the same matrix ------------------------------------ */

/* All full binary trees over factors i..j-1, as splits: calls visit for each one. */
typedef struct enumeration {
  int8_t split[8][8];
  void (*visit)(struct enumeration *, void *);
  void *user;
  int8_t pending[16][2];
} enumeration;

static void enumerate(enumeration *e, int depth) {
  if (depth == 0) {
    e->visit(e, e->user);
    return;
  }
  int i = e->pending[depth - 1][0], j = e->pending[depth - 1][1];
  for (int k = i + 1; k < j; k++) {
    int next = depth - 1;
    e->split[i][j] = (int8_t)k;
    int8_t saved[2][2];
    memcpy(saved, e->pending + (depth - 1), sizeof saved);
    if (k - i > 1) {
      e->pending[next][0] = (int8_t)i;
      e->pending[next++][1] = (int8_t)k;
    }
    if (j - k > 1) {
      e->pending[next][0] = (int8_t)k;
      e->pending[next++][1] = (int8_t)j;
    }
    enumerate(e, next);
    memcpy(e->pending + (depth - 1), saved, sizeof saved);
  }
}

static int32_t enumerated_split(void *user, int32_t i, int32_t j) {
  enumeration *e = user;
  return e->split[i][j];
}

typedef struct pricing {
  int32_t n;
  const int64_t *dims;
  uint64_t limit_bytes;
  mmci_u128 least; /* multiplications of the orders within the limit */
  uint64_t leanest;
  long orders;
} pricing;

static void price(enumeration *e, void *user) {
  pricing *p = user;
  mmci_tree tree;
  assert_int_equal(mmci_tree_create(p->n, &tree, NULL), MMC_OK);
  assert_int_equal(mmci_tree_from_splits(&tree, enumerated_split, e, NULL), MMC_OK);
  mmci_range ranges[8];
  mmci_need needs[8];
  uint64_t bytes[8];
  mmci_tree_ranges(&tree, ranges);
  for (int32_t t = 0; t < p->n - 1; t++)
    bytes[t] = mmci_result_bytes(p->dims[ranges[t].first], p->dims[ranges[t].last], sizeof(double));
  mmci_tree_needs(&tree, bytes, needs);
  uint64_t need = needs[p->n - 2].bytes;
  mmci_u128 cost = multiplications_of(&tree, p->dims);
  if (need <= p->limit_bytes && cost < p->least) p->least = cost;
  if (need < p->leanest) p->leanest = need;
  p->orders++;
  mmci_tree_destroy(&tree);
}

/* The order under a memory limit is the cheapest of all that fit, or there is none. */
static void memory_limit_is_exact(void **state) {
  (void)state;
  uint64_t random = seed + 1;
  int64_t dims[8];
  for (int round = 0; round < 3000; round++) {
    int32_t n = 2 + (int32_t)random_below(&random, 6);
    random_dims(&random, round % 12, n, dims);
    static const long catalan[] = {0, 1, 1, 2, 5, 14, 42, 132};
    pricing p = {.n = n, .dims = dims, .limit_bytes = UINT64_MAX, .least = MMCI_U128_MAX};
    p.leanest = UINT64_MAX;
    enumeration e = {.visit = price, .user = &p, .pending = {{0, (int8_t)n}}};
    enumerate(&e, 1);
    assert_int_equal(p.orders, catalan[n]);

    uint64_t limit = p.leanest + 64 * (uint64_t)random_below(&random, 200) - 64;
    if (p.leanest == 0) limit = 0;
    p.limit_bytes = limit;
    p.least = MMCI_U128_MAX;
    enumerate(&e, 1);

    mmci_order_problem problem = {.n = n, .dims = dims};
    mmci_order_answer answer;
    mmci_error error;
    uint64_t leanest = 0;
    mmc_status status =
        mmci_order_within(&problem, sizeof(double), limit, &leanest, &answer, &error);
    if (p.least == MMCI_U128_MAX) {
      assert_int_equal(status, MMC_E_MEMORY_LIMIT);
      assert_true(leanest == p.leanest);
      continue;
    }
    assert_int_equal(status, MMC_OK);
    if (answer.multiplications != p.least || multiplications_of(&answer.tree, dims) != p.least)
      fail_msg("not the cheapest within the limit, seed %llu, round %d",
               (unsigned long long)(seed + 1), round);
    mmci_tree_destroy(&answer.tree);
  }
}

/* ---- what the chains of a batch share
 * ------------------------------------------------------------
 */

typedef struct sharing {
  int32_t n;
  const int64_t *dims;
  const bool *shared;
  int64_t batch;
  mmci_u128 least;
} sharing;

/* Counts a product of shared factors alone once, and others for every chain. */
static mmci_u128 count_shared(const sharing *s, int32_t i, int32_t k, int32_t j) {
  bool once = j - i < s->n;
  for (int32_t t = i; t < j; t++) once = once && s->shared[t];
  return mmci_multiplications(s->dims[i], s->dims[k], s->dims[j]) *
         (mmci_u128)(once ? 1 : s->batch);
}

static mmci_u128 count_tree(const sharing *s, const mmci_tree *tree) {
  mmci_range ranges[8];
  mmci_u128 sum = 0;
  mmci_tree_ranges(tree, ranges);
  for (int32_t t = 0; t < s->n - 1; t++)
    sum += count_shared(s, ranges[t].first, ranges[t].split, ranges[t].last);
  return sum;
}

static void count_order(enumeration *e, void *user) {
  sharing *s = user;
  mmci_tree tree;
  assert_int_equal(mmci_tree_create(s->n, &tree, NULL), MMC_OK);
  assert_int_equal(mmci_tree_from_splits(&tree, enumerated_split, e, NULL), MMC_OK);
  const mmci_u128 count = count_tree(s, &tree);
  if (count < s->least) s->least = count;
  mmci_tree_destroy(&tree);
}

/* Of chains that share factors, plans have the fewest multiplications of all orders, and what they
 * say that a step takes is what it takes. */
static void what_is_shared_is_counted_once(void **state) {
  (void)state;
  uint64_t random = seed + 3;
  static const char *const solvers[] = {"auto", "table", "brute"};
  int fewer = 0;
  for (int round = 0; round < 6000; round++) {
    const int32_t n = 2 + (int32_t)random_below(&random, 6);
    int64_t dims[8];
    bool shared[8];
    random_dims(&random, round % DIMS_FAMILIES, n, dims);
    for (int32_t i = 0; i < n; i++) shared[i] = random_below(&random, 3) > 0;
    for (int32_t i = 0; i <= n; i++) dims[i] %= 1000; /* so that doubles count exactly */
    sharing s = {.n = n,
                 .dims = dims,
                 .shared = shared,
                 .batch = 2 + random_below(&random, 50),
                 .least = MMCI_U128_MAX};
    enumeration e = {.visit = count_order, .user = &s, .pending = {{0, (int8_t)n}}};
    enumerate(&e, 1);
    mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
    options.batch = s.batch;
    options.shared = shared;
    mmc_chain *chain;
    mmci_plan plan, blind;
    mmci_error error;
    assert_int_equal(mmci_chain_create_as(MMC_F64, n, dims, NULL, &options, &chain, &error),
                     MMC_OK);
    assert_int_equal(
        mmci_plan_create(chain, solvers[round % 3], mmci_within(UINT64_MAX), &plan, &error),
        MMC_OK);
    mmci_u128 steps = 0;
    for (int32_t t = 0; t < n - 1; t++)
      steps += mmci_plan_step_multiplications(&plan, &plan.steps[t]);
    if (plan.multiplications != s.least || count_tree(&s, &plan.tree) != s.least ||
        steps != s.least)
      fail_msg("not the fewest, seed %llu, round %d", (unsigned long long)seed + 3, round);
    assert_int_equal(mmci_plan_create(chain, "hu-shing", mmci_within(UINT64_MAX), &blind, &error),
                     MMC_OK);
    assert_true(blind.multiplications == count_tree(&s, &blind.tree));
    fewer += plan.multiplications < blind.multiplications;
    mmci_plan_destroy(&blind);
    mmci_plan_destroy(&plan);
    mmc_chain_destroy(chain);
  }
  assert_true(fewer > 500);
}

/* ---- every plan executed ------------------------------------------------------------------- */

typedef struct execution {
  mmc_chain *chain;
  const mmc_matrix *factors;
  mmci_opened on;
  const double *expected, *magnitude;
  long runs;
} execution;

/* factors[0] * ... * factors[n-1] from left to right, by plain loops. */
static double *multiply(int32_t n, const int64_t *dims, const mmc_matrix *factors) {
  double *left = NULL;
  for (int32_t i = 0; i < n; i++) {
    int64_t m = dims[0], k = dims[i], c = dims[i + 1];
    double *result = calloc((size_t)(m * c) + 1, sizeof *result);
    const double *factor = factors[i].data;
    for (int64_t t = 0; i == 0 && t < m * c; t++) result[t] = factor[t];
    for (int64_t r = 0; i > 0 && r < m; r++)
      for (int64_t l = 0; l < k; l++)
        for (int64_t t = 0; t < c; t++) result[r * c + t] += left[r * k + l] * factor[l * c + t];
    free(left);
    left = result;
  }
  return left;
}

static void execute(enumeration *e, void *user) {
  execution *x = user;
  int32_t n = x->chain->n;
  int64_t rows = x->chain->dims[0], cols = x->chain->dims[n];
  mmci_tree tree;
  mmci_plan plan;
  mmci_run *run;
  mmci_error error;
  assert_int_equal(mmci_tree_create(n, &tree, &error), MMC_OK);
  assert_int_equal(mmci_tree_from_splits(&tree, enumerated_split, e, &error), MMC_OK);
  assert_int_equal(mmci_plan_from_tree(x->chain, &tree, &plan, &error), MMC_OK);
  assert_int_equal(mmci_run_create(&plan, x->on.ops, x->on.device, MMCI_NATIVE, &run, &error),
                   MMC_OK);
  for (int repeat = 0; repeat < 2; repeat++) {
    double out[100];
    memset(out, 0xff, sizeof out); /* NaN */
    mmc_matrix result = {.data = out, .rows = rows, .cols = cols};
    result.layout = repeat == 0 ? MMC_ROW_MAJOR : MMC_COL_MAJOR;
    assert_int_equal(mmci_run_execute(run, x->factors, &result, &error), MMC_OK);
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < cols; c++) {
        double got = out[repeat == 0 ? r * cols + c : c * rows + r];
        double error_size = fabs(got - x->expected[r * cols + c]);
        if (!(error_size <= 1e-13 * x->magnitude[r * cols + c]))
          fail_msg("an order of %d factors on %s is off by %g, seed %llu", n, x->on.name,
                   error_size, (unsigned long long)seed);
      }
    for (int64_t t = rows * cols; t < 100; t++) assert_true(isnan(out[t]));
  }
  mmci_run_destroy(run);
  mmci_plan_destroy(&plan);
  x->runs++;
}

static void every_plan_gives_the_product(void **state) {
  (void)state;
  uint64_t random = seed + 2;
  mmci_registry *registry;
  mmci_error error;
  assert_int_equal(mmci_registry_create("", &registry, &error), MMC_OK);
  for (int round = 0; round < 42; round++) {
    int32_t n = 2 + round % 6;
    int64_t dims[8];
    for (int32_t i = 0; i <= n; i++) dims[i] = random_below(&random, round % 7 == 0 ? 3 : 10);
    mmc_matrix factors[8];
    for (int32_t i = 0; i < n; i++) {
      int64_t elements = dims[i] * dims[i + 1];
      double *data = calloc((size_t)elements + 1, sizeof *data);
      for (int64_t t = 0; t < elements; t++) data[t] = fabs(random_unit(&random));
      factors[i] = (mmc_matrix){.data = data, .rows = dims[i], .cols = dims[i + 1]};
    }
    execution x = {.factors = factors};
    x.magnitude = multiply(n, dims, factors);
    for (int32_t i = 0; i < n; i++)
      for (int64_t t = 0; t < dims[i] * dims[i + 1]; t++)
        if (random_below(&random, 2) == 0) ((double *)factors[i].data)[t] *= -1;
    x.expected = multiply(n, dims, factors);

    assert_int_equal(mmci_chain_create(MMC_F64, n, dims, NULL, &x.chain, &error), MMC_OK);
    static const char *const devices[] = {"cpu", "ref"};
    static const long catalan[] = {0, 1, 1, 2, 5, 14, 42, 132};
    for (int d = 0; d < 2; d++) {
      assert_int_equal(mmci_registry_open(registry, devices[d], &x.on, &error), MMC_OK);
      x.runs = 0;
      enumeration e = {.visit = execute, .user = &x, .pending = {{0, (int8_t)n}}};
      enumerate(&e, 1);
      assert_int_equal(x.runs, catalan[n]);
    }
    mmc_chain_destroy(x.chain);
    for (int32_t i = 0; i < n; i++) free(factors[i].data);
    free((void *)x.expected);
    free((void *)x.magnitude);
  }
  mmci_registry_destroy(registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(solvers_agree),
      cmocka_unit_test(memory_limit_is_exact),
      cmocka_unit_test(what_is_shared_is_counted_once),
      cmocka_unit_test(every_plan_gives_the_product),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_powers.c: plans of chains whose matrices repeat: what comes again is computed once, where
 * that is cheaper and fits; such plans by time and energy, and what is said of them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../random.h"
#include "base/alloc.h"
#include "plan/layout.h"
#include "planner/energy_front.h"
#include "planner/fewest.h"

static const uint64_t seed = 4711;

static mmci_plan make_plan(const char *text, const char *solver, uint64_t limit_bytes) {
  mmc_chain *chain;
  mmci_plan plan;
  mmci_error error;
  assert_int_equal(mmci_chain_parse(text, &chain, &error), MMC_OK);
  if (mmci_plan_create(chain, solver, mmci_within(limit_bytes), &plan, &error) != MMC_OK)
    fail_msg("%s: %s", text, error.text);
  mmc_chain_destroy(chain);
  return plan;
}

/* ---- steps and places -------------------------------------------------------------------------
 */

enum { MOST_FACTORS = 24 };

/* The labels of all factors of an operand, in order; returns how many. */
static int32_t expand(const mmci_plan *plan, int32_t x, int32_t *labels) {
  int32_t n = plan->chain->n;
  if (x < n) {
    labels[0] = plan->chain->same[x];
    return 1;
  }
  int32_t count = expand(plan, plan->steps[x - n].left, labels);
  return count + expand(plan, plan->steps[x - n].right, labels + count);
}

/* Each step gives the product of the factors that it covers, and prices itself as that. */
static void check_steps(const mmci_plan *plan) {
  const mmc_chain *chain = plan->chain;
  mmci_u128 multiplications = 0;
  for (int32_t s = 0; s < plan->step_count; s++) {
    const mmci_plan_step *step = &plan->steps[s];
    int32_t labels[MOST_FACTORS], count = expand(plan, chain->n + s, labels);
    mmci_range r = mmci_plan_range(plan, step);
    assert_int_equal(count, r.last - r.first);
    for (int32_t i = 0; i < count; i++) assert_int_equal(labels[i], chain->same[r.first + i]);
    assert_int_equal(expand(plan, step->left, labels), r.split - r.first);
    assert_int_equal(step->m, chain->dims[r.first]);
    assert_int_equal(step->k, chain->dims[r.split]);
    assert_int_equal(step->n, chain->dims[r.last]);
    assert_true(step->left < chain->n + s && step->right < chain->n + s);
    multiplications += mmci_plan_step_multiplications(plan, step);
  }
  assert_true(multiplications == plan->multiplications);
  assert_int_equal(plan->steps[plan->step_count - 1].last, chain->n - 1);
}

/* Says whether step u waits for step v, directly or not. */
static bool waits_for(const mmci_plan *plan, int32_t u, int32_t v) {
  int32_t n = plan->chain->n;
  if (!plan->parallel) return v < u;
  if (u <= v) return false;
  const int32_t reads[] = {plan->steps[u].left - n, plan->steps[u].right - n};
  for (int o = 0; o < 2; o++)
    if (reads[o] >= 0 && (reads[o] == v || waits_for(plan, reads[o], v))) return true;
  return false;
}

/* No result is written over before all that read it are done. */
static void check_places(const mmci_plan *plan) {
  int32_t n = plan->chain->n, count = plan->step_count;
  for (int32_t s = 0; s < count - 1; s++)
    for (int32_t t = s + 1; t < count - 1; t++) {
      const mmci_plan_step *x = &plan->steps[s], *y = &plan->steps[t];
      size_t size = mmci_plan_element_bytes(plan);
      uint64_t x_end = x->offset_bytes + mmci_result_bytes(x->m, x->n, size);
      uint64_t y_end = y->offset_bytes + mmci_result_bytes(y->m, y->n, size);
      assert_true(x_end <= plan->workspace_bytes && y_end <= plan->workspace_bytes);
      if (x_end <= y->offset_bytes || y_end <= x->offset_bytes) continue;
      for (int32_t r = 0; r < count; r++)
        if (plan->steps[r].left == n + s || plan->steps[r].right == n + s)
          assert_true(waits_for(plan, t, r));
    }
}

/* What came a period before mostly comes again. */
static mmc_chain *random_chain(uint64_t *random) {
  int64_t dims[MOST_FACTORS + 1], same[MOST_FACTORS];
  mmc_op ops[MOST_FACTORS];
  int32_t n = 2 + (int32_t)random_below(random, MOST_FACTORS - 1);
  int32_t period = 1 + (int32_t)random_below(random, 4);
  for (int32_t i = 0; i <= n; i++)
    dims[i] = i < period ? random_below(random, 30) : dims[i - period];
  for (int32_t i = 0; i < n; i++) {
    bool again = i >= period && random_below(random, 8) != 0;
    same[i] = again ? same[i - period] : i;
    ops[i] = again ? ops[i - period] : (mmc_op)random_below(random, 3);
  }
  mmc_chain *chain;
  assert_int_equal(mmci_chain_create_batch(MMC_F32, n, dims, ops, 1 + random_below(random, 9), same,
                                           &chain, NULL),
                   MMC_OK);
  return chain;
}

static void plans_are_right_and_no_dearer_than_trees(void **state) {
  (void)state;
  uint64_t random = seed;
  int shared = 0;
  for (int round = 0; round < 5000; round++) {
    mmc_chain *chain = random_chain(&random);
    mmci_plan plan, tree;
    mmci_error error;
    assert_int_equal(mmci_plan_create(chain, "auto", mmci_within(UINT64_MAX), &plan, &error),
                     MMC_OK);
    assert_int_equal(mmci_plan_create_tree(chain, "auto", mmci_within(UINT64_MAX), &tree, &error),
                     MMC_OK);
    assert_true(mmci_plan_is_tree(&tree));
    if (mmci_plan_is_tree(&plan)) {
      assert_true(plan.multiplications == tree.multiplications);
    } else {
      shared++;
      assert_true(plan.multiplications < tree.multiplications);
      assert_true(plan.tree_multiplications == tree.multiplications);
      check_steps(&plan);
      check_places(&plan);
      assert_int_equal(mmci_plan_lay_out(&plan, true, &error), MMC_OK);
      check_places(&plan);
    }
    mmci_plan_destroy(&plan);
    mmci_plan_destroy(&tree);
    mmc_chain_destroy(chain);
  }
  assert_true(shared > 2000);
}

static void powers_are_squared(void **state) {
  (void)state;
  mmci_plan plan = make_plan("f64:64x64^1000", "auto", UINT64_MAX);
  assert_int_equal(plan.step_count, 14);
  assert_true(plan.multiplications == 14 * 262144);
  assert_true(plan.tree_multiplications == (mmci_u128)999 * 262144);
  assert_string_equal(plan.solver, "repeats");
  for (int s = 0; s < 9; s++) assert_int_equal(plan.steps[s].left, s > 0 ? 1000 + s - 1 : 0);
  mmci_plan_destroy(&plan);
  plan = make_plan("c64:4x9x4x9x4@10:TNTN=1,2,1,2", "auto", UINT64_MAX);
  assert_int_equal(plan.step_count, 2);
  assert_true(plan.multiplications == 10 * (4 * 9 * 4 + 4 * 4 * 4));
  mmci_plan_destroy(&plan);
}

/* Where the caller asks for an order, where matrices are others or transposed, and for v A^3. */
static void other_chains_stay_trees(void **state) {
  (void)state;
  static const char *const texts[] = {"f64:8x8x8x8x8", "f64:8x8x8:NT", "f64:1x64x64^3", "f64:8x8^1",
                                      "f64:8x8^2"};
  static const char *const solvers[] = {"hu-shing", "table", "brute", "left-to-right"};
  for (int t = 0; t < 5 + 4; t++) {
    mmci_plan plan =
        make_plan(t < 5 ? texts[t] : "f64:8x8^8", t < 5 ? "auto" : solvers[t - 5], UINT64_MAX);
    assert_true(mmci_plan_is_tree(&plan));
    assert_int_equal(plan.shared_bytes, 0);
    mmci_plan_destroy(&plan);
  }
}

static void memory_limits_are_kept(void **state) {
  (void)state;
  mmci_plan plan = make_plan("f64:64x64^1000", "auto", UINT64_MAX);
  uint64_t bytes = plan.workspace_bytes;
  mmci_plan_destroy(&plan);
  plan = make_plan("f64:64x64^1000", "auto", bytes);
  assert_int_equal(plan.step_count, 14);
  mmci_plan_destroy(&plan);
  plan = make_plan("f64:64x64^1000", "auto", bytes - 1);
  assert_int_equal(plan.step_count, 999);
  assert_true(plan.workspace_bytes < bytes && plan.shared_bytes == bytes);
  mmci_plan_destroy(&plan);
  /* Of a batch fewer at a time. */
  plan = make_plan("f64:64x64^1000@50", "auto", 2 * bytes);
  assert_int_equal(plan.step_count, 14);
  assert_int_equal(plan.chunk, 2);
  assert_true(plan.workspace_bytes <= 2 * bytes);
  mmci_plan_destroy(&plan);
}

/* ---- by time and energy ------------------------------------------------------------------------
 */

typedef struct made_up {
  double error; /* of seconds, and of joules */
} made_up;

/* A second a multiplication, but 2x2x2 takes 100. */
static double seconds_of(const mmci_gemm *g) {
  double work = (double)g->m * (double)g->k * (double)g->n;
  return work == 8 ? 100 : work;
}

static void price(const void *user, const mmci_gemm *gemm, mmci_price *out) {
  const made_up *m = user;
  *out = (mmci_price){.seconds = seconds_of(gemm),
                      .error = m->error,
                      .modelled = true,
                      .source = MMCI_ARRAY,
                      .recipe = mmci_recipe_whole(0)};
}

static int ways(const void *user, const mmci_gemm *gemm, mmci_way out[MMCI_WAYS]) {
  const made_up *m = user;
  out[0] = (mmci_way){.joules = 3 * seconds_of(gemm), .error = m->error, .source = MMCI_MODELLED};
  price(user, gemm, &out[0].time);
  return 1;
}

static mmci_plan plan_by_energy(const char *text, const made_up *m) {
  mmci_pricing pricing = {.user = m, .price = price};
  mmci_energy_request request = {
      .offers = {{.name = "native", .pricing = {.user = m, .ways = ways}}},
      .count = 1,
      .time = {.pricing = &pricing, .precision = MMCI_NATIVE, .notice = ""}};
  mmc_chain *chain;
  mmci_plan plan;
  mmci_precision precision;
  mmci_error error;
  assert_int_equal(mmci_chain_parse(text, &chain, &error), MMC_OK);
  if (mmci_plan_create_energetic(chain, "auto", mmci_within(UINT64_MAX), &request, &plan,
                                 &precision, &error) != MMC_OK ||
      mmci_plan_price_energy(&plan, &request, &error) != MMC_OK)
    fail_msg("%s: %s", text, error.text);
  mmc_chain_destroy(chain);
  return plan;
}

static mmci_plan plan_by_time(const char *text, const made_up *m) {
  mmci_pricing pricing = {.user = m, .price = price};
  mmci_time_request request = {.pricing = &pricing, .precision = MMCI_NATIVE, .notice = ""};
  mmc_chain *chain;
  mmci_plan plan;
  mmci_error error;
  assert_int_equal(mmci_chain_parse(text, &chain, &error), MMC_OK);
  if (mmci_plan_create_timed(chain, "auto", mmci_within(UINT64_MAX), &request, &plan, &error) !=
          MMC_OK ||
      mmci_plan_price(&plan, &request, &error) != MMC_OK)
    fail_msg("%s: %s", text, error.text);
  mmc_chain_destroy(chain);
  return plan;
}

/* (AB)(AB) takes 28 + 100 seconds, ((AB)A)B 28 + 28 + 28. The first is left for a sure gain only;
 * where its last product is of another size it is kept. */
static void a_tree_must_be_surely_faster(void **state) {
  (void)state;
  static const char *const slow = "f64:2x7x2x7x2=1,2,1,2", *const fast = "f64:3x7x3x7x3=1,2,1,2";
  static const struct {
    const char *text;
    double error;
    int32_t steps;
    double seconds;
  } cases[] = {{slow, 0, 3, 84}, {slow, 0.5, 2, 128}, {fast, 0, 2, 63 + 27}, {fast, 0.5, 2, 90}};
  for (int t = 0; t < 4; t++) {
    made_up m = {.error = cases[t].error};
    mmci_plan timed = plan_by_time(cases[t].text, &m),
              energetic = plan_by_energy(cases[t].text, &m);
    assert_int_equal(timed.step_count, cases[t].steps);
    assert_int_equal(energetic.step_count, cases[t].steps);
    assert_true(fabs(timed.time->predicted_s - cases[t].seconds) < 1e-9);
    assert_true(fabs(energetic.energy->joules - 3 * cases[t].seconds) < 1e-9);
    assert_true(timed.time->by_time == (cases[t].steps == 3));
    mmci_plan_destroy(&timed);
    mmci_plan_destroy(&energetic);
  }
}

/* ---- explained --------------------------------------------------------------------------------
 */

typedef struct written {
  char text[1 << 16];
  size_t size;
} written;

static int append(void *user, const char *bytes, size_t size) {
  written *w = user;
  assert_true(w->size + size < sizeof w->text);
  memcpy(w->text + w->size, bytes, size);
  w->size += size;
  w->text[w->size] = '\0';
  return 0;
}

static void expect_said(const char *chain, mmc_format format, const char *said, bool is_said) {
  static written w;
  w.size = 0;
  mmci_plan plan = make_plan(chain, "auto", UINT64_MAX);
  mmci_error error;
  assert_int_equal(mmci_plan_explain(&plan, format, append, &w, &error), MMC_OK);
  if ((strstr(w.text, said) != NULL) != is_said) fail_msg("%s: '%s': %s", chain, said, w.text);
  mmci_plan_destroy(&plan);
}

static void plans_are_explained(void **state) {
  (void)state;
  expect_said("f64:8x8^1000", MMC_TEXT,
              "power by squaring: A1^1000 in 14 products; the best order has 999 with 511488 ",
              true);
  expect_said("f64:4x9x4x9x4=1,2,1,2", MMC_TEXT, "what repeats is computed once: 2 products; ",
              true);
  expect_said("f64:8x8^4", MMC_TEXT, "order            ((A1 A2) (A3 A4))\n", true);
  expect_said("f64:8x8^4", MMC_TEXT, "T1 = A1 A1 ", true);
  expect_said("f64:8x8^4", MMC_JSON, "\"best_order_multiplications\": 1536", true);
  expect_said("f64:8x8^4", MMC_JSON, "\"product\": \"R = T1 T1\"", true);
  expect_said("f64:8x8x8x8x8", MMC_JSON, "best_order_multiplications", false);
  expect_said("f64:8x8^4", MMC_DOT, "  T1 -> R;\n  T1 -> R;\n", true);
  expect_said("f64:8x8^4", MMC_DOT, "A2", false);
}

/* Warned of from the first that the largest number is too small for. */
static void overflow_is_warned_of(void **state) {
  (void)state;
  static const struct {
    const char *chain;
    bool warned;
  } cases[] = {
      {"f16:255x255^3", false},   {"f16:256x256^3", true},   {"bf16:256x256^3", false},
      {"f32:10x10^39", false},    {"f32:10x10^40", true},    {"c64:10x10^40", true},
      {"f64:10x10^309", false},   {"f64:10x10^310", true},   {"c128:10x10^310", true},
      {"f32:9x1000000x9", false}, {"f16:9x1000000x9", true}, {"f16:9x0x99999999x9", false}};
  for (size_t t = 0; t < sizeof cases / sizeof cases[0]; t++) {
    expect_said(cases[t].chain, MMC_TEXT, "\nrange  ", cases[t].warned);
    expect_said(cases[t].chain, MMC_JSON, "\"overflow_exponent\": ", cases[t].warned);
  }
}

int main(void) {
  print_message("seed %llu\n", (unsigned long long)seed);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plans_are_right_and_no_dearer_than_trees),
      cmocka_unit_test(powers_are_squared),
      cmocka_unit_test(other_chains_stay_trees),
      cmocka_unit_test(memory_limits_are_kept),
      cmocka_unit_test(a_tree_must_be_surely_faster),
      cmocka_unit_test(plans_are_explained),
      cmocka_unit_test(overflow_is_warned_of),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

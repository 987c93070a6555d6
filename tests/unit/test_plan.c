/* test_plan.c: a plan's steps and where its intermediates lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../random.h"
#include "order/workspace.h"
#include "plan/plan.h"

static const uint64_t seed = 99;

static mmci_plan make_plan(const char *text, uint64_t limit_bytes) {
  mmc_chain *chain;
  mmci_plan plan;
  mmci_error error;
  assert_int_equal(mmci_chain_parse(text, &chain, &error), MMC_OK);
  if (mmci_plan_create(chain, "auto", limit_bytes, &plan, &error) != MMC_OK)
    fail_msg("%s", error.text);
  mmc_chain_destroy(chain);
  return plan;
}

static void steps_follow_the_order(void **state) {
  (void)state;
  mmci_plan plan = make_plan("f64:30x35x15x5x10x20x25", UINT64_MAX);
  static const struct {
    int64_t m, k, n;
    int32_t left, right, first, last;
  } expected[] = {
      {35, 15, 5, 1, 2, 1, 2}, {30, 35, 5, 0, 6, 0, 2}, {5, 10, 20, 3, 4, 3, 4},
      {5, 20, 25, 8, 5, 3, 5}, {30, 5, 25, 7, 9, 0, 5},
  };
  for (int s = 0; s < 5; s++) {
    assert_int_equal(plan.steps[s].m, expected[s].m);
    assert_int_equal(plan.steps[s].k, expected[s].k);
    assert_int_equal(plan.steps[s].n, expected[s].n);
    assert_int_equal(plan.steps[s].left, expected[s].left);
    assert_int_equal(plan.steps[s].right, expected[s].right);
    assert_int_equal(plan.steps[s].first, expected[s].first);
    assert_int_equal(plan.steps[s].last, expected[s].last);
  }
  /* T2 30x5, T3 5x20 and T4 5x25 live together: 1216 + 832 + 1024 bytes. */
  assert_int_equal(plan.workspace_bytes, 3072);
  mmci_plan_destroy(&plan);
}

/* Follows every result from the step that writes it to the one that reads it: in bounds, aligned,
 * apart from all that live with it, read once; and at some step the workspace is full. */
static void check_lifetimes(const mmci_plan *plan) {
  int32_t n = plan->chain->n;
  uint64_t begin[64], end[64], most = 0;
  bool alive[64] = {false}, factor_read[64] = {false};
  for (int32_t s = 0; s < n - 1; s++) {
    const mmci_plan_step *step = &plan->steps[s];
    begin[s] = step->offset_bytes;
    end[s] = begin[s] + mmci_result_bytes(step->m, step->n, mmc_dtype_size(plan->chain->dtype));
    bool last = s == n - 2;
    uint64_t live = last ? 0 : end[s] - begin[s];
    for (int32_t t = 0; t < s; t++) {
      if (!alive[t]) continue;
      live += end[t] - begin[t];
      assert_true(last || end[t] <= begin[s] || end[s] <= begin[t]);
    }
    if (live > most) most = live;
    assert_true(last || end[s] <= plan->workspace_bytes);
    assert_int_equal(begin[s] % 64, 0);
    int32_t operands[] = {step->left, step->right};
    for (int o = 0; o < 2; o++) {
      bool *unread = operands[o] < n ? &factor_read[operands[o]] : &alive[operands[o] - n];
      assert_true(operands[o] < n + s);
      assert_true(*unread == (operands[o] >= n));
      *unread = operands[o] < n;
    }
    alive[s] = true;
  }
  for (int32_t i = 0; i < n && n > 1; i++) assert_true(factor_read[i]);
  assert_true(most == plan->workspace_bytes);
}

static void results_never_collide(void **state) {
  (void)state;
  uint64_t random = seed;
  for (int round = 0; round < 20000; round++) {
    int64_t dims[48];
    int32_t n = 1 + (int32_t)random_below(&random, 40);
    random_dims(&random, round % 12, n, dims);
    mmc_chain *chain;
    mmci_plan plan;
    mmci_error error;
    assert_int_equal(mmci_chain_create((mmc_dtype)(round % 4), n, dims, NULL, &chain, &error),
                     MMC_OK);
    const char *solver = round % 3 == 0 ? "left-to-right" : "hu-shing";
    assert_int_equal(mmci_plan_create(chain, solver, UINT64_MAX, &plan, &error), MMC_OK);
    check_lifetimes(&plan);
    if (n <= 12 && plan.workspace_bytes > 64) {
      mmci_plan smaller;
      uint64_t limit = plan.workspace_bytes - 64;
      if (mmci_plan_create(chain, solver, limit, &smaller, &error) == MMC_OK) {
        assert_true(smaller.workspace_bytes <= limit);
        assert_true(smaller.limited);
        check_lifetimes(&smaller);
        mmci_plan_destroy(&smaller);
      }
    }
    mmci_plan_destroy(&plan);
    mmc_chain_destroy(chain);
  }
}

static void memory_limits_are_kept(void **state) {
  (void)state;
  mmci_plan plan = make_plan("f64:28x6x13x5x15", 1408);
  assert_false(plan.limited);
  assert_true(plan.multiplications == 3330);
  mmci_plan_destroy(&plan);
  plan = make_plan("f64:28x6x13x5x15", 1407);
  assert_true(plan.limited);
  assert_true(plan.multiplications == 3360 && plan.workspace_bytes == 1024);
  assert_true(plan.unlimited_multiplications == 3330 && plan.unlimited_bytes == 1408);
  mmci_plan_destroy(&plan);

  mmc_chain *chain;
  mmci_error error;
  assert_int_equal(mmci_chain_parse("f64:28x6x13x5x15", &chain, &error), MMC_OK);
  assert_int_equal(mmci_plan_create(chain, "auto", 1, &plan, &error), MMC_E_MEMORY_LIMIT);
  assert_string_equal(error.text,
                      "memory limit: no order fits in 1 bytes of workspace; the leanest needs "
                      "1024, the cheapest 1408");
  mmc_chain_destroy(chain);
}

static void absurd_sizes_are_errors(void **state) {
  (void)state;
  mmc_chain *chain;
  mmci_plan plan;
  mmci_error error;
  assert_int_equal(mmci_chain_parse("f64:4000000000x1x4000000000x4000000000x1", &chain, &error),
                   MMC_OK);
  assert_int_equal(mmci_plan_create(chain, "left-to-right", UINT64_MAX, &plan, &error),
                   MMC_E_OVERFLOW);
  assert_int_equal(mmci_plan_create(chain, "auto", UINT64_MAX, &plan, &error), MMC_OK);
  mmci_plan_destroy(&plan);
  mmc_chain_destroy(chain);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps_follow_the_order),
      cmocka_unit_test(results_never_collide),
      cmocka_unit_test(memory_limits_are_kept),
      cmocka_unit_test(absurd_sizes_are_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

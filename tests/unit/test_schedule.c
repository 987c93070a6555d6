/* test_schedule.c: which queue computes which step of a plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "cost/recipe.h"
#include "run/schedule.h"

enum { FACTORS = 8, STEPS = FACTORS - 1, QUEUES = 5 };

static int32_t in_the_middle(void *user, int32_t i, int32_t j) {
  (void)user;
  return (i + j) / 2;
}

/* ((A1 A2) (A3 A4)) ((A5 A6) (A7 A8)), the right half of more multiplications. */
static mmci_plan plan_of_halves(mmc_chain **chain) {
  static const int64_t dims[] = {2, 3, 4, 5, 6, 7, 8, 9, 10};
  mmci_plan plan;
  mmci_tree tree;
  assert_int_equal(mmci_chain_create(MMC_F64, FACTORS, dims, NULL, chain, NULL), MMC_OK);
  assert_int_equal(mmci_tree_create(FACTORS, &tree, NULL), MMC_OK);
  assert_int_equal(mmci_tree_from_splits(&tree, in_the_middle, NULL, NULL), MMC_OK);
  assert_int_equal(mmci_plan_from_tree(*chain, &tree, &plan, NULL), MMC_OK);
  plan.parallel = true;
  return plan;
}

/* Says whether a step stands on another, or is it. */
static bool stands_on(const mmci_plan *plan, int32_t step, int32_t on) {
  if (step == on) return true;
  const int32_t reads[] = {plan->steps[step].left, plan->steps[step].right};
  for (int o = 0; o < 2; o++)
    if (reads[o] >= FACTORS && stands_on(plan, reads[o] - FACTORS, on)) return true;
  return false;
}

/* Sub-trees are on queues of their own, but where one of two that meet has a recipe, which is step
 * number cut's; -1: there is none. */
static void check_queues(const mmci_plan *plan, int32_t cut, int most_queues) {
  mmci_schedule schedule;
  assert_int_equal(mmci_schedule_create(plan, most_queues, &schedule, NULL), MMC_OK);
  assert_int_equal(schedule.queue[STEPS - 1], 0);
  for (int32_t s = 0; s < STEPS; s++) {
    const mmci_plan_step *step = &plan->steps[s];
    assert_true(schedule.queue[s] < schedule.queues && schedule.queues <= most_queues);
    if (step->left < FACTORS || step->right < FACTORS) continue;
    int32_t left = step->left - FACTORS, right = step->right - FACTORS;
    bool has_cut = cut >= 0 && (stands_on(plan, left, cut) || stands_on(plan, right, cut));
    bool apart = plan->parallel && most_queues > 1 && !has_cut;
    assert_int_equal(schedule.queue[left] != schedule.queue[right], apart);
    assert_true(schedule.queue[left] == schedule.queue[s] ||
                schedule.queue[right] == schedule.queue[s]);
    assert_int_equal(schedule.is_waited_for[left] || schedule.is_waited_for[right], apart);
  }
  mmci_schedule_destroy(&schedule);
}

static void sub_trees_have_queues_of_their_own(void **state) {
  (void)state;
  mmc_chain *chain;
  mmci_plan plan = plan_of_halves(&chain);
  for (int queues = 1; queues <= QUEUES; queues += 2) check_queues(&plan, -1, queues);
  plan.parallel = false;
  check_queues(&plan, -1, QUEUES);
  mmci_plan_destroy(&plan);
  mmc_chain_destroy(chain);
}

static void recipes_are_not_beside_others(void **state) {
  (void)state;
  const mmci_recipe recipe = mmci_recipe_whole(1);
  mmc_chain *chain;
  mmci_plan plan = plan_of_halves(&chain);
  for (int32_t cut = 0; cut < STEPS; cut++) {
    plan.steps[cut].recipe = &recipe;
    for (int queues = 1; queues <= QUEUES; queues += 2) check_queues(&plan, cut, queues);
    plan.steps[cut].recipe = NULL;
  }
  mmci_plan_destroy(&plan);
  mmc_chain_destroy(chain);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sub_trees_have_queues_of_their_own),
      cmocka_unit_test(recipes_are_not_beside_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

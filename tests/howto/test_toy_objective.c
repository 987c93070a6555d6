/* test_toy_objective.c: the objective of docs/howto-objective.md goes through the planner's
 * sequence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "chain/chain.h"
#include "device/device.h"
#include "howto/toy_objective.h"

static int append(void *user, const char *bytes, size_t size) {
  strncat(user, bytes, size);
  return 0;
}

/* Plans the chain on plain loops and explains the plan, which has n-1 steps. */
static void explain(const char *chain_text, char text[4096]) {
  mmc_chain *chain;
  mmci_registry *registry;
  mmci_opened on;
  mmci_plan plan;
  mmci_precision precision = MMCI_NATIVE;
  const mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  assert_int_equal(mmci_chain_parse(chain_text, &chain, NULL), MMC_OK);
  assert_int_equal(mmci_registry_create("", &registry, NULL), MMC_OK);
  assert_int_equal(mmci_registry_open(registry, "ref", &on, NULL), MMC_OK);
  assert_int_equal(mmci_planner_plan(&toy_objective, chain, &options, &on, on.name, NULL,
                                     &precision, 0, &plan, NULL),
                   MMC_OK);
  assert_int_equal(plan.step_count, chain->n - 1);
  text[0] = '\0';
  assert_int_equal(mmci_plan_explain(&plan, MMC_TEXT, append, text, NULL), MMC_OK);
  mmci_plan_destroy(&plan);
  mmci_registry_destroy(registry);
  mmc_chain_destroy(chain);
}

static void few_products_wait_for_one_another(void **state) {
  (void)state;
  char text[4096];
  explain("f64:8x8x8x8x8x8x8x8x8", text);
  assert_non_null(strstr(text, "\nsolver           wide\n"));
  assert_non_null(strstr(text, "\nlevels           3\n"));
}

static void chains_without_runs_keep_their_order(void **state) {
  (void)state;
  char text[4096];
  explain("f64:2x30x4x50", text);
  assert_non_null(strstr(text, "\nsolver           hu-shing\n"));
  assert_non_null(strstr(text, "\nlevels           2\n"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(few_products_wait_for_one_another),
      cmocka_unit_test(chains_without_runs_keep_their_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

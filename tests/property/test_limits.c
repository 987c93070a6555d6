/* test_limits.c: a limit on memory that equals what a plan says that it needs is kept: planning the
 * same chain within it succeeds, needs no more, and is not dearer. Plans are drawn without a limit,
 * and within one.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../how_many.h"
#include "../random.h"
#include "mmchain.h"

enum { CHAINS = 10000, LONG_CHAINS = 100000, MOST_FACTORS = 9, TEXT_SIZE = 256 };

/* A chain of random dims, or a power, of one matrix or of a batch. */
static void random_chain(uint64_t *random, char text[TEXT_SIZE]) {
  static const char *const dtypes[] = {"f32", "f64", "c64"};
  static const int64_t sizes[] = {0, 1, 2, 3, 8, 16, 40, 100, 300};
  int64_t n = 2 + random_below(random, MOST_FACTORS - 1);
  size_t used = (size_t)snprintf(text, TEXT_SIZE, "%s:", dtypes[random_below(random, 3)]);
  if (random_below(random, 5) == 0) {
    int64_t side = sizes[1 + random_below(random, 5)];
    used += (size_t)snprintf(text + used, TEXT_SIZE - used, "%" PRId64 "x%" PRId64 "^%" PRId64,
                             side, side, n);
  } else {
    for (int64_t i = 0; i <= n; i++) {
      int64_t size = sizes[random_below(random, 30) == 0 ? 0 : 1 + random_below(random, 8)];
      used += (size_t)snprintf(text + used, TEXT_SIZE - used, "%s%" PRId64, i > 0 ? "x" : "", size);
    }
  }
  if (random_below(random, 3) != 0) return;
  used +=
      (size_t)snprintf(text + used, TEXT_SIZE - used, "@%" PRId64, 2 + random_below(random, 60));
  if (strchr(text, '^') != NULL || random_below(random, 2) == 0) return;
  for (int64_t i = 0; i < n; i++)
    used += (size_t)snprintf(text + used, TEXT_SIZE - used, "%s%c", i == 0 ? ":" : "",
                             random_below(random, 3) == 0 ? 'N' : 'n');
}

/* Returns what the plan was made for: seconds, joules, words or multiplications. */
static double cost_of(const mmc_plan *plan, const char *objective) {
  if (strcmp(objective, "time") == 0) return mmc_plan_predicted_seconds(plan);
  if (strcmp(objective, "energy") == 0) return mmc_plan_predicted_joules(plan);
  return mmc_count_to_double(strcmp(objective, "traffic") == 0 ? mmc_plan_traffic_words(plan)
                                                               : mmc_plan_multiplications(plan));
}

static void a_limit_that_a_plan_says_is_kept(void **state) {
  (void)state;
  static const char *const objectives[] = {"flops", "traffic", "time", "energy"};
  static const char *const devices[] = {"ref", "cpu"};
  const char *asked = getenv("MMCHAIN_TEST_SEED");
  const bool thorough = is_in_full();
  const uint64_t seed = asked != NULL ? strtoull(asked, NULL, 10) : 20261123;
  uint64_t random = seed;
  mmc_context *context;
  mmc_context_options context_options = MMC_CONTEXT_OPTIONS_INIT;
  context_options.wisdom_path = "";
  assert_int_equal(mmc_context_create(&context_options, &context), MMC_OK);
  int tried = 0;
  for (int c = 0; c < (thorough ? LONG_CHAINS : CHAINS); c++) {
    char text[TEXT_SIZE], message[512];
    mmc_chain *chain;
    mmc_plan *plan, *again;
    random_chain(&random, text);
    assert_int_equal(mmc_chain_parse(context, text, &chain), MMC_OK);
    mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
    options.objective = objectives[random_below(&random, 4)];
    options.device = devices[random_below(&random, 2)];
    if (random_below(&random, 2) == 0)
      options.memory_limit_bytes = (uint64_t)random_below(&random, 20000);
    mmc_status status = mmc_plan_create(context, chain, &options, &plan);
    if (status == MMC_OK) {
      uint64_t bytes = mmc_plan_workspace_bytes(plan);
      assert_true(bytes <= options.memory_limit_bytes);
      options.memory_limit_bytes = bytes;
      if (mmc_plan_create(context, chain, &options, &again) != MMC_OK)
        fail_msg("seed %" PRIu64 ", %s for %s on %s: %s", seed, text, options.objective,
                 options.device, mmc_context_message(context, message, sizeof message));
      assert_true(mmc_plan_workspace_bytes(again) <= bytes);
      const double cost = cost_of(plan, options.objective);
      if (!(cost_of(again, options.objective) <= cost * (1 + 1e-9)))
        fail_msg("seed %" PRIu64 ", %s for %s on %s within %" PRIu64 " bytes: %g, and %g before",
                 seed, text, options.objective, options.device, bytes,
                 cost_of(again, options.objective), cost);
      mmc_plan_destroy(again);
      mmc_plan_destroy(plan);
      tried++;
    } else {
      assert_int_equal(status, MMC_E_MEMORY_LIMIT);
    }
    mmc_chain_destroy(chain);
  }
  mmc_context_destroy(context);
  print_message("seed %" PRIu64 ", %d plans\n", seed, tried);
  assert_true(tried > CHAINS / 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_limit_that_a_plan_says_is_kept)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

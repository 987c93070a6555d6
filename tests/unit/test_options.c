/* test_options.c: options of callers that were built with another version of mmchain.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "base/options.h"
#include "mmchain.h"

/* ---- the reader ------------------------------------------------------------------------------ */

typedef struct known {
  size_t size;
  int64_t first, second;
  const char *third;
} known;

static const known defaults = {sizeof(known), 1, 2, "three"};

static void fewer_fields_are_read_as_far_as_they_go(void **state) {
  (void)state;
  const known given = {offsetof(known, second), 10, 20, "thirty"};
  known read = defaults;
  mmci_error error;
  assert_int_equal(mmci_options_read("options", &given, &read, sizeof read, &error), MMC_OK);
  assert_int_equal(read.size, sizeof read);
  assert_int_equal(read.first, 10);
  assert_int_equal(read.second, 2);
  assert_string_equal(read.third, "three");
  const size_t size_alone = sizeof(size_t);
  read = defaults;
  assert_int_equal(mmci_options_read("options", &size_alone, &read, sizeof read, &error), MMC_OK);
  assert_memory_equal(&read, &defaults, sizeof read);
  assert_int_equal(mmci_options_read("options", NULL, &read, sizeof read, &error), MMC_OK);
  assert_memory_equal(&read, &defaults, sizeof read);
}

typedef struct newer {
  known known;
  int64_t fourth, fifth;
} newer;

static void more_fields_fail_only_where_they_are_set(void **state) {
  (void)state;
  newer given = {.known = {sizeof given, 10, 20, "thirty"}};
  known read = defaults;
  mmci_error error;
  assert_int_equal(mmci_options_read("options", &given, &read, sizeof read, &error), MMC_OK);
  assert_int_equal(read.size, sizeof read);
  assert_int_equal(read.second, 20);
  assert_string_equal(read.third, "thirty");
  given.fifth = INT64_MIN; /* its last byte alone */
  read = defaults;
  assert_int_equal(mmci_options_read("wish", &given, &read, sizeof read, &error), MMC_E_ARG);
  assert_memory_equal(&read, &defaults, sizeof read);
  char expected[200];
  snprintf(expected, sizeof expected,
           "wish: expected 0 in the fields after byte %zu, which this version of mmchain does not "
           "know, got one that is set at byte %zu",
           sizeof(known), sizeof given - 1);
  assert_string_equal(error.text, expected);
}

static void other_sizes_are_none(void **state) {
  (void)state;
  static const size_t sizes[] = {0,
                                 1,
                                 7,
                                 9,
                                 sizeof(known) - 1,
                                 sizeof(known) + 4,
                                 MMCI_OPTIONS_MOST_BYTES + sizeof(size_t),
                                 SIZE_MAX};
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
    known read = defaults;
    mmci_error error;
    assert_int_equal(mmci_options_read("options", &sizes[s], &read, sizeof read, &error),
                     MMC_E_ARG);
    assert_memory_equal(&read, &defaults, sizeof read);
  }
}

/* ---- all that have options ------------------------------------------------------------------- */

static mmc_context *context;
static mmc_chain *chain;

static mmc_status make_context(const void *options) {
  mmc_context *made = NULL;
  mmc_status status = mmc_context_create(options, &made);
  mmc_context_destroy(made);
  return status;
}

static mmc_status make_chain(const void *options) {
  const int64_t dims[] = {2, 3, 4};
  mmc_chain *made = NULL;
  mmc_status status = mmc_chain_create_batch(context, MMC_F32, 2, dims, NULL, options, &made);
  mmc_chain_destroy(made);
  return status;
}

static mmc_status make_plan(const void *options) {
  mmc_plan *made = NULL;
  mmc_status status = mmc_plan_create(context, chain, options, &made);
  mmc_plan_destroy(made);
  return status;
}

static mmc_status make_order(const void *options) {
  const int64_t dims[] = {2, 3, 4, 5};
  mmc_order *made = NULL;
  mmc_status status = mmc_order_create(context, 3, dims, options, &made);
  mmc_order_destroy(made);
  return status;
}

/* Idle power alone, of a meter that measures nothing: fields up to idle_s are needed. */
static mmc_status measure(const void *options) {
  mmc_meter *meter = NULL;
  mmc_energy energy;
  assert_int_equal(mmc_meter_open(context, "none", &meter), MMC_OK);
  mmc_status status = mmc_meter_measure(meter, options, &energy);
  mmc_meter_destroy(meter);
  return status;
}

/* Forgets by a filter; that there is no store is said last, once the filter is read. */
static mmc_status forget(const void *filter) {
  mmc_status status = mmc_wisdom_forget(context, filter, NULL);
  return status == MMC_E_UNSUPPORTED ? MMC_OK : status;
}

/* Tunes with these options; that there is no store is said once they are read, too. */
static mmc_status tune(const void *options) {
  mmc_status status = mmc_tune(context, options, NULL);
  return status == MMC_E_UNSUPPORTED ? MMC_OK : status;
}

/* Options with room for a field that this version does not know. */
#define WITH_MORE(name, type, init) \
  union {                           \
    type known;                     \
    uint64_t words[64];             \
  } name = {.words = {0}};          \
  name.known = (type)init

enum { MORE = 8 };

/* size is what this version has, least the end of the last field that the call cannot do without.
 */
static void try_sizes(mmc_status (*use)(const void *), uint64_t *words, size_t size, size_t least) {
  size_t *given = (size_t *)words;
  for (*given = least; *given <= size + MORE; *given += sizeof(size_t))
    assert_int_equal(use(words), MMC_OK);
  *given = size + MORE;
  words[size / sizeof words[0]] = 1;
  assert_int_equal(use(words), MMC_E_ARG);
  *given = size - 1;
  assert_int_equal(use(words), MMC_E_ARG);
}

static void all_options_may_be_of_another_version(void **state) {
  (void)state;
  const size_t least = sizeof(size_t);
  WITH_MORE(of_context, mmc_context_options, MMC_CONTEXT_OPTIONS_INIT);
  try_sizes(make_context, of_context.words, sizeof of_context.known, least);
  WITH_MORE(of_chain, mmc_chain_options, MMC_CHAIN_OPTIONS_INIT);
  try_sizes(make_chain, of_chain.words, sizeof of_chain.known, least);
  WITH_MORE(of_plan, mmc_plan_options, MMC_PLAN_OPTIONS_INIT);
  try_sizes(make_plan, of_plan.words, sizeof of_plan.known, least);
  WITH_MORE(of_order, mmc_order_options, MMC_ORDER_OPTIONS_INIT);
  try_sizes(make_order, of_order.words, sizeof of_order.known, least);
  WITH_MORE(of_energy, mmc_energy_options, MMC_ENERGY_OPTIONS_INIT);
  of_energy.known.min_s = of_energy.known.idle_s = 1e-3;
  try_sizes(measure, of_energy.words, sizeof of_energy.known,
            offsetof(mmc_energy_options, idle_s) + sizeof of_energy.known.idle_s);
  WITH_MORE(of_filter, mmc_wisdom_filter, MMC_WISDOM_FILTER_INIT);
  try_sizes(forget, of_filter.words, sizeof of_filter.known, least);
  WITH_MORE(of_tune, mmc_tune_options, MMC_TUNE_OPTIONS_INIT);
  of_tune.known.range = 2;
  try_sizes(tune, of_tune.words, sizeof of_tune.known,
            offsetof(mmc_tune_options, range) + sizeof of_tune.known.range);
}

static void an_older_caller_has_the_defaults(void **state) {
  (void)state;
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.size = offsetof(mmc_plan_options, objective);
  options.solver = "left-to-right";
  options.objective = "no such thing, and not looked at";
  mmc_plan *plan;
  assert_int_equal(mmc_plan_create(context, chain, &options, &plan), MMC_OK);
  assert_int_equal(mmc_plan_multiplications(plan).lo, 2 * 3 * 4 + 2 * 4 * 5);
  mmc_plan_destroy(plan);
}

static int set_up(void **state) {
  (void)state;
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  options.wisdom_path = "";
  return mmc_context_create(&options, &context) != MMC_OK ||
         mmc_chain_parse(context, "f32:2x3x4x5", &chain) != MMC_OK;
}

static int tear_down(void **state) {
  (void)state;
  mmc_chain_destroy(chain);
  mmc_context_destroy(context);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fewer_fields_are_read_as_far_as_they_go),
      cmocka_unit_test(more_fields_fail_only_where_they_are_set),
      cmocka_unit_test(other_sizes_are_none),
      cmocka_unit_test(all_options_may_be_of_another_version),
      cmocka_unit_test(an_older_caller_has_the_defaults),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

/* test_given.c: orders as text: what is written is read back, what is no order is said where, and a
 * plan keeps the order that it is given under every objective. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "base/random.h"
#include "mmchain.h"
#include "order/order.h"

enum { MOST = 40, TEXT = 64 * MOST };

static uint64_t state_of_random;

static int32_t random_below(int32_t limit) {
  return (int32_t)(mmci_random_bits(&state_of_random) % (uint64_t)limit);
}

static int append(void *user, const char *bytes, size_t size) {
  strncat(user, bytes, size);
  return 0;
}

static int32_t any_split(void *user, int32_t i, int32_t j) {
  (void)user;
  return i + 1 + random_below(j - i - 1);
}

static mmci_tree random_tree(int32_t n) {
  mmci_tree tree;
  assert_int_equal(mmci_tree_create(n, &tree, NULL), MMC_OK);
  assert_int_equal(mmci_tree_from_splits(&tree, any_split, NULL, NULL), MMC_OK);
  return tree;
}

static void what_is_written_is_read(void **state) {
  (void)state;
  uint64_t seed = state_of_random = (uint64_t)time(NULL);
  printf("seed %llu\n", (unsigned long long)seed);
  for (int t = 0; t < 2000; t++) {
    int32_t n = 1 + random_below(MOST);
    mmci_tree tree = random_tree(n), read;
    char text[TEXT] = "";
    mmc_order_format format = random_below(2) ? MMC_ORDER_JSON : MMC_ORDER_TEXT;
    assert_int_equal(mmci_tree_write(&tree, format, append, text, NULL), MMC_OK);
    mmci_error error = {0};
    if (mmci_tree_read(text, n, &read, &error) != MMC_OK) fail_msg("%s: %s", text, error.text);
    assert_int_equal(read.n, n);
    assert_memory_equal(read.products, tree.products, (size_t)(n - 1) * sizeof *tree.products);
    mmci_tree_destroy(&read);
    /* One bracket more around it, and none, are the same order. */
    char around[TEXT + 4];
    snprintf(around, sizeof around, "( %s\n)", text);
    assert_int_equal(mmci_tree_read(around, n, &read, NULL), MMC_OK);
    assert_memory_equal(read.products, tree.products, (size_t)(n - 1) * sizeof *tree.products);
    mmci_tree_destroy(&read);
    if (n > 1) {
      text[strlen(text) - 1] = '\0';
      assert_int_equal(mmci_tree_read(text + 1, n, &read, NULL), MMC_OK);
      assert_memory_equal(read.products, tree.products, (size_t)(n - 1) * sizeof *tree.products);
      mmci_tree_destroy(&read);
    }
    mmci_tree_destroy(&tree);
  }
}

static void what_is_no_order_is_said(void **state) {
  (void)state;
  static const struct {
    int32_t n;
    const char *text, *message;
  } bad[] = {
      {2, "", "order: expected A1 at the end, character 1"},
      {2, "A1", "order: expected A2 at the end, character 3"},
      {2, "(A1 A2", "order: expected ')' at the end, character 7"},
      {2, "[A1 A2", "order: expected ']' at the end, character 7"},
      {2, "[A1 A2)",
       "order: expected the bracket that is open to be closed at character 7, got ')'"},
      {2, "A1 A2)",
       "order: expected the bracket that is open to be closed at character 6, got ')'"},
      {3, "(A1 A2 A3)",
       "order: expected two operands in a bracket, and no third at character 8, got 'A3'"},
      {3, "(A1 A3) A2", "order: expected A2 at character 5, got 'A3'"},
      {3, "(A1 A2) A4", "order: expected A3 at character 9, got 'A4'"},
      {2, "(A1 A2) A3", "order: expected no more factors at character 9, got 'A3'"},
      {2, "()", "order: expected A1 at character 2, got ')'"},
      {2, "A1 B2", "order: expected A2 at character 4, got 'B'"},
      {2, "A1 A", "order: expected A2 at character 4, got 'A'"},
      {2, "A1 A99999999999999999999", "order: expected A2 at character 4, got 'A99999999999'"},
      {2, "A1 -2", "order: expected A2 at character 4, got '-'"},
      {1, "0", "order: expected A1 at character 1, got '0'"},
  };
  for (size_t b = 0; b < sizeof bad / sizeof bad[0]; b++) {
    mmci_tree tree;
    mmci_error error = {0};
    assert_int_equal(mmci_tree_read(bad[b].text, bad[b].n, &tree, &error), MMC_E_ARG);
    assert_string_equal(error.text, bad[b].message);
  }
}

static const char *message_of(mmc_context *context) {
  static char text[512];
  mmc_context_message(context, text, sizeof text);
  return text;
}

static void plans_keep_it(void **state) {
  (void)state;
  static const char *const objectives[] = {"flops", "traffic", "time", "energy"};
  static const char given[] = "(A1 ((A2 A3) A4))";
  mmc_context *context;
  mmc_chain *chain;
  mmc_plan *plan;
  assert_int_equal(mmc_context_create(NULL, &context), MMC_OK);
  assert_int_equal(mmc_chain_parse(context, "f64:30x20x500x3x40", &chain), MMC_OK);
  for (size_t o = 0; o < sizeof objectives / sizeof objectives[0]; o++) {
    mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
    options.objective = objectives[o];
    options.order = given;
    assert_int_equal(mmc_plan_create(context, chain, &options, &plan), MMC_OK);
    assert_int_equal(mmc_plan_multiplications(plan).lo, 20 * 500 * 3 + 20 * 3 * 40 + 30 * 20 * 40);
    char text[8192] = "";
    assert_int_equal(mmc_plan_explain(plan, MMC_JSON, append, text), MMC_OK);
    assert_non_null(strstr(text, "\"solver\": \"given\""));
    const bool needs_workspace = strcmp(mmc_plan_device(plan), "ref") != 0;
    mmc_plan_destroy(plan);

    options.solver = "hu-shing";
    assert_int_equal(mmc_plan_create(context, chain, &options, &plan), MMC_E_ARG);
    assert_string_equal(message_of(context), "solver: expected auto with an order, got 'hu-shing'");
    options.solver = NULL;
    options.order = "((A1 A2) (A3 A4)) A5";
    assert_int_equal(mmc_plan_create(context, chain, &options, &plan), MMC_E_ARG);
    options.order = "(A1 A2) (A3 A4)";
    options.memory_limit_bytes = 30 * 500 * 8;
    if (!needs_workspace) continue;
    assert_int_equal(mmc_plan_create(context, chain, &options, &plan), MMC_E_MEMORY_LIMIT);
    assert_non_null(strstr(message_of(context), "the order given needs "));
  }
  mmc_chain_destroy(chain);
  mmc_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_written_is_read),
      cmocka_unit_test(what_is_no_order_is_said),
      cmocka_unit_test(plans_keep_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

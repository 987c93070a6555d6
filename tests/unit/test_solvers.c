/* test_solvers.c: known chains, edges, and the choice of a solver. What holds for any chain is in
 * tests/property. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../chains.h"
#include "chain/chain.h"
#include "order/order.h"

static int append(void *user, const char *bytes, size_t size) {
  strncat(user, bytes, size);
  return 0;
}

static mmci_order_answer solve(const char *solver, int32_t n, const int64_t *dims) {
  mmci_order_problem problem = {.n = n, .dims = dims};
  mmci_order_answer answer;
  const mmci_solver *used;
  mmci_error error;
  if (mmci_order_solve(solver, &problem, false, &used, &answer, &error) != MMC_OK)
    fail_msg("%s: %s", solver, error.text);
  assert_string_equal(used->name, solver);
  return answer;
}

static void known_chains_cost_what_is_known(void **state) {
  (void)state;
  for (size_t t = 0; t < sizeof known_chains / sizeof known_chains[0]; t++) {
    const known_chain *known = &known_chains[t];
    mmc_chain *chain;
    assert_int_equal(mmci_chain_parse(known->dims, &chain, NULL), MMC_OK);
    static const char *const solvers[] = {"hu-shing", "table", "brute"};
    for (int s = 0; s < 3; s++) {
      if (s == 2 && chain->n > 12) continue;
      mmci_order_answer answer = solve(solvers[s], chain->n, chain->dims);
      assert_true(answer.multiplications == known->multiplications);
      mmci_u128 of_tree;
      assert_int_equal(mmci_tree_multiplications(&answer.tree, chain->dims, &of_tree, NULL),
                       MMC_OK);
      assert_true(of_tree == known->multiplications);
      if (known->order != NULL) {
        char order[256] = "";
        assert_int_equal(mmci_tree_write(&answer.tree, MMC_ORDER_TEXT, append, order, NULL),
                         MMC_OK);
        assert_string_equal(order, known->order);
      }
      mmci_tree_destroy(&answer.tree);
    }
    mmci_order_answer left = solve("left-to-right", chain->n, chain->dims);
    assert_true(left.multiplications == known->left_to_right);
    mmci_tree_destroy(&left.tree);
    mmc_chain_destroy(chain);
  }
}

static void one_and_two_factors(void **state) {
  (void)state;
  const int64_t dims[] = {3, 4, 5};
  static const char *const solvers[] = {"hu-shing", "table", "brute", "left-to-right"};
  for (int s = 0; s < 4; s++) {
    mmci_order_answer one = solve(solvers[s], 1, dims), two = solve(solvers[s], 2, dims);
    char order[64] = "";
    assert_true(one.multiplications == 0);
    assert_int_equal(mmci_tree_write(&one.tree, MMC_ORDER_TEXT, append, order, NULL), MMC_OK);
    assert_string_equal(order, "A1");
    order[0] = '\0';
    assert_true(two.multiplications == 60);
    assert_int_equal(mmci_tree_write(&two.tree, MMC_ORDER_JSON, append, order, NULL), MMC_OK);
    assert_string_equal(order, "[1, 2]");
    mmci_tree_destroy(&one.tree);
    mmci_tree_destroy(&two.tree);
  }
}

/* Where every order costs the same it is left to right; a fan goes from the leftmost of equals. */
static void ties_go_left_to_right(void **state) {
  (void)state;
  const int64_t equal[] = {5, 5, 5, 5, 5}, zero[] = {3, 4, 0, 6, 2, 0, 7};
  static const char *const solvers[] = {"hu-shing", "table", "brute"};
  for (int s = 0; s < 3; s++) {
    char order[64] = "";
    mmci_order_answer answer = solve(solvers[s], 4, equal);
    assert_int_equal(mmci_tree_write(&answer.tree, MMC_ORDER_TEXT, append, order, NULL), MMC_OK);
    assert_string_equal(order, "(((A1 A2) A3) A4)");
    mmci_tree_destroy(&answer.tree);
    order[0] = '\0';
    answer = solve(solvers[s], 6, zero);
    assert_true(answer.multiplications == 0);
    assert_int_equal(mmci_tree_write(&answer.tree, MMC_ORDER_TEXT, append, order, NULL), MMC_OK);
    assert_string_equal(order, "((A1 A2) (((A3 A4) A5) A6))");
    mmci_tree_destroy(&answer.tree);
  }
}

typedef struct sink {
  unsigned char bytes[64];
  size_t size;
} sink;

static int collect(void *user, const char *bytes, size_t size) {
  sink *s = user;
  memcpy(s->bytes + s->size, bytes, size);
  s->size += size;
  return 0;
}

static void binary_form(void **state) {
  (void)state;
  const int64_t dims[] = {5, 1, 5, 1};
  static const unsigned char expected[] = {
      'M', 'M', 'C', 'O', 'R', 'D', 'E', 'R', 1, 0, 0, 0, 0, 0, 0, 0, /* version */
      3,   0,   0,   0,   0,   0,   0,   0,                           /* n */
      1,   0,   0,   0,   2,   0,   0,   0,                           /* A2 A3 */
      0,   0,   0,   0,   3,   0,   0,   0,                           /* A1 and the product 0 */
  };
  sink got = {.size = 0};
  mmci_order_answer answer = solve("hu-shing", 3, dims);
  assert_int_equal(mmci_tree_write(&answer.tree, MMC_ORDER_BINARY, collect, &got, NULL), MMC_OK);
  assert_int_equal(got.size, sizeof expected);
  assert_memory_equal(got.bytes, expected, sizeof expected);
  mmci_tree_destroy(&answer.tree);
}

/* 2^62 cubed times two still fits 128 bits saturated; what does not is said, never wrapped. */
static void overflow_is_an_error(void **state) {
  (void)state;
  const int64_t top = INT64_C(1) << 62;
  const int64_t dims[] = {top, top, top, 16, 1};
  static const char *const solvers[] = {"auto", "table", "brute", "left-to-right"};
  for (int s = 0; s < 4; s++) {
    mmci_order_answer answer;
    const mmci_solver *used;
    mmci_error error;
    mmci_order_problem problem = {.n = 2, .dims = dims};
    assert_int_equal(mmci_order_solve(solvers[s], &problem, false, &used, &answer, &error),
                     MMC_E_OVERFLOW);
    /* The orders that do fit are found among those that do not. */
    problem.n = 4;
    mmc_status status = mmci_order_solve(solvers[s], &problem, false, &used, &answer, &error);
    if (s == 3) {
      assert_int_equal(status, MMC_E_OVERFLOW);
      continue;
    }
    assert_int_equal(status, MMC_OK);
    mmci_u128 square = (mmci_u128)(uint64_t)top * (uint64_t)top;
    assert_true(answer.multiplications == 2 * square + 16 * (mmci_u128)(uint64_t)top);
    mmci_tree_destroy(&answer.tree);
  }
}

static void solvers_are_chosen(void **state) {
  (void)state;
  int64_t dims[16];
  for (int i = 0; i < 16; i++) dims[i] = 2 + i % 3;
  mmci_order_problem problem = {.n = 13, .dims = dims};
  mmci_order_answer answer;
  const mmci_solver *used;
  mmci_error error;
  assert_int_equal(mmci_order_solve("auto", &problem, false, &used, &answer, &error), MMC_OK);
  assert_ptr_equal(used, &mmci_solver_hu_shing);
  mmci_tree_destroy(&answer.tree);
  assert_int_equal(mmci_order_solve("brute", &problem, false, &used, &answer, &error), MMC_E_ARG);
  assert_string_equal(
      error.text, "solver: 'brute' cannot solve this: it tries every order, of at most 12 factors");
  assert_int_equal(mmci_order_solve("foo", &problem, false, &used, &answer, &error), MMC_E_ARG);
  assert_string_equal(error.text,
                      "solver: expected auto, hu-shing, table, brute or left-to-right, got 'foo'");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known_chains_cost_what_is_known),
      cmocka_unit_test(one_and_two_factors),
      cmocka_unit_test(ties_go_left_to_right),
      cmocka_unit_test(binary_form),
      cmocka_unit_test(overflow_is_an_error),
      cmocka_unit_test(solvers_are_chosen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

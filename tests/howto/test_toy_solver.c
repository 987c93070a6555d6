/* test_toy_solver.c: the solver of docs/howto-solver.md answers what a solver has to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "howto/toy_solver.h"

static void check_chain(int32_t n, const int64_t *dims, uint64_t multiplications) {
  const mmci_order_problem problem = {.n = n, .dims = dims};
  mmci_order_answer answer;
  mmci_u128 counted;
  const char *reason = "";
  assert_true(toy_solver.applicable(&problem, &reason));
  assert_int_equal(toy_solver.solve(&problem, false, &answer, NULL), MMC_OK);
  assert_int_equal(answer.tree.n, n);
  assert_true(answer.multiplications == multiplications);
  assert_int_equal(mmci_tree_multiplications(&answer.tree, dims, &counted, NULL), MMC_OK);
  assert_true(counted == multiplications);
  mmci_tree_destroy(&answer.tree);
}

static void multiplies_from_the_right(void **state) {
  (void)state;
  check_chain(1, (int64_t[]){3, 4}, 0);
  check_chain(2, (int64_t[]){3, 4, 5}, 60);
  check_chain(3, (int64_t[]){10, 30, 5, 60}, 30 * 5 * 60 + 10 * 30 * 60);
  check_chain(4, (int64_t[]){2, 0, 3, 4, 5}, 3 * 4 * 5);
}

static double price_of(void *user, int64_t i, int64_t k, int64_t j) {
  (void)user;
  return (double)(100 * i + 10 * k + j);
}

static void adds_up_prices(void **state) {
  (void)state;
  const mmci_order_problem problem = {.n = 3, .dims = (int64_t[]){1, 1, 1, 1}, .price = price_of};
  mmci_order_answer answer;
  assert_int_equal(toy_solver.solve(&problem, false, &answer, NULL), MMC_OK);
  assert_true(answer.price == price_of(NULL, 0, 1, 3) + price_of(NULL, 1, 2, 3));
  mmci_tree_destroy(&answer.tree);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(multiplies_from_the_right),
      cmocka_unit_test(adds_up_prices),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_toy_device.c: the device of docs/howto-device.md, of which the library knows a line: what it
 * tells decides orders, prices and dtypes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "howto/toy_device.h"

static mmc_context *context;

static mmc_status try_plan(const char *text, const char *device, const char *objective,
                           mmc_plan **out) {
  mmc_chain *chain;
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.device = device;
  options.objective = objective;
  assert_int_equal(mmc_chain_parse(context, text, &chain), MMC_OK);
  mmc_status status = mmc_plan_create(context, chain, &options, out);
  mmc_chain_destroy(chain);
  return status;
}

static mmc_plan *plan_of(const char *text, const char *device, const char *objective) {
  mmc_plan *plan;
  assert_int_equal(try_plan(text, device, objective, &plan), MMC_OK);
  return plan;
}

static void expect_message(const char *message) {
  char text[512];
  assert_string_equal(mmc_context_message(context, text, sizeof text), message);
}

static bool near(double x, double y) {
  return fabs(x - y) <= 1e-12 * fabs(y);
}

/* Of m x k by k x n: the launch and the flops, of which sums of few terms reach little. */
static double product_s(double m, double k, double n) {
  return 1e-6 + 2 * m * k * n / 1e9 * (1 + 1e6 / k);
}

static void prices_are_those_of_its_facts(void **state) {
  (void)state;
  mmc_plan *plan = plan_of("f64:20x30x40", "toy", "time");
  const double seconds = product_s(20, 30, 40);
  assert_true(near(mmc_plan_predicted_seconds(plan), seconds));
  mmc_plan_destroy(plan);
  plan = plan_of("f64:20x30x40", "toy", "energy");
  assert_true(near(mmc_plan_predicted_joules(plan), 60 * seconds + 1e-9 * 2 * 20 * 30 * 40));
  mmc_plan_destroy(plan);
}

/* By its facts the sizes of the results count and the lengths of the sums do not, so that the order
 * of fewest multiplications, (A1 A2) A3, is the slower one. */
static void orders_are_those_of_its_facts(void **state) {
  (void)state;
  static const char chain[] = "f64:1x10x1000x10";
  mmc_plan *toy = plan_of(chain, "toy", "time"), *fewest = plan_of(chain, "toy", "flops"),
           *ref = plan_of(chain, "ref", "time");
  assert_true(mmc_count_to_double(mmc_plan_multiplications(fewest)) == 20000);
  assert_true(mmc_count_to_double(mmc_plan_multiplications(ref)) == 20000);
  assert_true(mmc_count_to_double(mmc_plan_multiplications(toy)) == 100100);
  assert_true(
      near(mmc_plan_predicted_seconds(toy), product_s(10, 1000, 10) + product_s(1, 10, 10)));
  mmc_plan_destroy(toy);
  mmc_plan_destroy(fewest);
  mmc_plan_destroy(ref);
}

static void other_dtypes_are_turned_away(void **state) {
  (void)state;
  static const char *const objectives[] = {"flops", "traffic", "time", "energy"};
  mmc_plan *plan;
  for (int o = 0; o < 4; o++) {
    assert_int_equal(try_plan("f32:2x3x4x5", "toy", objectives[o], &plan), MMC_E_UNSUPPORTED);
    expect_message("device: 'toy' does not multiply matrices of f32");
  }
  assert_int_equal(try_plan("f64:2x3x4", "cuda", "flops", &plan), MMC_E_ARG);
  expect_message("device: expected cpu, ref or toy, got 'cuda'");
}

static void products_are_right(void **state) {
  (void)state;
  double a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, 2, 0, 1, 3}, c[] = {1, -1}, r[] = {9, 9, 9};
  mmc_plan *plan = plan_of("f64:2x3x2x1", "toy", "flops");
  const mmc_matrix factors[] = {{.data = a, .rows = 2, .cols = 3, .ld = 3},
                                {.data = b, .rows = 3, .cols = 2, .ld = 2},
                                {.data = c, .rows = 2, .cols = 1, .ld = 1}};
  const mmc_matrix out = {.data = r, .rows = 2, .cols = 1, .ld = 1};
  mmc_run *run;
  assert_string_equal(mmc_plan_device(plan), "toy");
  assert_string_equal(mmc_plan_step_kernel(plan, 0), "toy loops");
  assert_int_equal(mmc_run_create(plan, &run), MMC_OK);
  assert_int_equal(mmc_execute(run, factors, &out), MMC_OK);
  /* B c = (1, 2, -2). */
  assert_true(r[0] == 1 + 4 - 6 && r[1] == 4 + 10 - 12 && r[2] == 9);
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
}

static void it_is_listed(void **state) {
  (void)state;
  mmc_device_info info;
  assert_int_equal(mmc_device_describe(context, 1, &info), MMC_OK);
  assert_string_equal(info.name, "toy");
  assert_string_equal(info.description, "loops that are slow to start");
  assert_true(info.available);
  assert_int_equal(mmc_device_describe(context, 2, &info), MMC_E_ARG);
}

static int begin(void **state) {
  (void)state;
  return mmc_context_create(NULL, &context) == MMC_OK ? 0 : -1;
}

static int end(void **state) {
  (void)state;
  mmc_context_destroy(context);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(prices_are_those_of_its_facts),
      cmocka_unit_test(orders_are_those_of_its_facts),
      cmocka_unit_test(other_dtypes_are_turned_away),
      cmocka_unit_test(products_are_right),
      cmocka_unit_test(it_is_listed),
  };
  return cmocka_run_group_tests(tests, begin, end);
}

/* test_kernel.c: products and groups by the name of a kernel. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../facts.h"
#include "cost/recipe.h"
#include "device/device.h"
#include "planner/cover.h"
#include "planner/fewest.h"
#include "planner/offers.h"

/* ---- a device of four ways ------------------------------------------------------------------- */

enum { WAYS = 4, FEWEST_ROWS = 10 };

struct mmci_kernel {
  int variant;
};

static int prepared, released;

static bool supports(const mmci_device *device, const mmci_gemm *gemm) {
  (void)device;
  return gemm->m > 0;
}

static int variants(mmci_device *device, const mmci_gemm *gemm) {
  (void)device, (void)gemm;
  return WAYS - 1;
}

static const char *kernel_name(const mmci_device *device, const mmci_gemm *gemm) {
  static const char *const names[WAYS] = {"own", "tile 64x64", "tile 32x32", "slow"};
  (void)device;
  return names[gemm->variant];
}

/* Way 1 takes large products only. */
static mmc_status prepare(mmci_device *device, const mmci_gemm *gemm, mmci_kernel **out,
                          mmci_error *error) {
  (void)device;
  if (gemm->variant == 1 && gemm->m < FEWEST_ROWS)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "variant: expected more rows");
  *out = malloc(sizeof **out);
  if (*out == NULL) return mmci_fail_nomem(error, sizeof **out);
  prepared++;
  return MMC_OK;
}

static void release(mmci_kernel *kernel) {
  released++;
  free(kernel);
}

static const mmci_device_ops OPS = {.supports = supports,
                                    .variants = variants,
                                    .kernel_name = kernel_name,
                                    .prepare = prepare,
                                    .release = release};
static const mmci_opened ON = {.ops = &OPS, .name = "four"};

static mmci_plan plan_of(const int64_t *dims, int32_t n) {
  mmc_chain *chain;
  mmci_plan plan;
  mmci_error error;
  assert_int_equal(mmci_chain_create(MMC_F32, n, dims, NULL, &chain, &error), MMC_OK);
  assert_int_equal(
      mmci_plan_create(chain, "left-to-right", mmci_within(MMC_NO_LIMIT), &plan, &error), MMC_OK);
  mmc_chain_destroy(chain);
  return plan;
}

static bool by_kernel(mmci_plan *plan, const char *kernel) {
  mmci_error error;
  bool found;
  assert_int_equal(mmci_plan_by_kernel(plan, &ON, MMCI_NATIVE, kernel, &found, &error), MMC_OK);
  assert_int_equal(prepared, released);
  return found;
}

static int variant_of(const mmci_plan *plan, int32_t s) {
  return mmci_step_gemm(plan, &ON, MMCI_NATIVE, s).variant;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void names_begin_so(void **state) {
  (void)state;
  assert_true(mmci_kernel_is_called("tile 256x192", "tile"));
  assert_true(mmci_kernel_is_called("tile", "tile"));
  assert_true(mmci_kernel_is_called("tile", ""));
  assert_false(mmci_kernel_is_called("tile", "tile "));
  assert_false(mmci_kernel_is_called("a tile", "tile"));
}

static void first_way_that_can_is_taken(void **state) {
  (void)state;
  mmci_plan plan = plan_of((int64_t[]){20, 3, 4, 5}, 3);
  assert_true(by_kernel(&plan, "tile"));
  assert_int_equal(variant_of(&plan, 0), 1);
  assert_int_equal(variant_of(&plan, 1), 1);
  mmci_plan_destroy(&plan);
  plan = plan_of((int64_t[]){9, 3, 4, 5}, 3);
  assert_true(by_kernel(&plan, "tile"));
  assert_int_equal(variant_of(&plan, 0), 2);
  mmci_plan_destroy(&plan);
}

static void own_choice_has_no_recipe(void **state) {
  (void)state;
  mmci_plan plan = plan_of((int64_t[]){9, 3, 4, 5}, 3);
  assert_true(by_kernel(&plan, ""));
  assert_null(plan.steps[0].recipe);
  mmci_plan_destroy(&plan);
  plan = plan_of((int64_t[]){9, 3, 4, 5}, 3);
  assert_true(by_kernel(&plan, "own"));
  assert_null(plan.steps[1].recipe);
  mmci_plan_destroy(&plan);
}

static void without_such_a_way_nothing_changes(void **state) {
  (void)state;
  mmci_plan plan = plan_of((int64_t[]){9, 3, 4, 5}, 3);
  assert_false(by_kernel(&plan, "tile 64x64"));
  assert_false(by_kernel(&plan, "fused"));
  assert_null(plan.kernel_recipes);
  assert_int_equal(variant_of(&plan, 0), 0);
  plan.streamed = true; /* panels are the device's own choice */
  assert_false(by_kernel(&plan, "slow"));
  mmci_plan_destroy(&plan);
}

/* ---- groups ---------------------------------------------------------------------------------- */

static mmc_status takes_pairs(const void *user, const mmci_group *group, bool *out, double *seconds,
                              double *doubt, mmci_error *error) {
  (void)user, (void)doubt, (void)error;
  *seconds = (double)NAN;
  *out = group->count == 2;
  return MMC_OK;
}

/* A product on its own takes no time at all. */
static void nothing(const void *user, const mmci_gemm *gemm, mmci_price *out) {
  (void)user, (void)gemm;
  *out = (mmci_price){.recipe = mmci_recipe_whole(0)};
}

static void handicap_prefers_groups(void **state) {
  (void)state;
  mmci_error error;
  const mmci_pricing pricing = {.price = nothing};
  mmci_roofline roofline = mmci_roofline_assumed(&test_facts);
  mmci_group_machine machine = {.supports = takes_pairs,
                                .facts = mmci_group_facts_of(&test_facts, &roofline),
                                .pricing = &pricing};
  mmci_plan plan = plan_of((int64_t[]){9, 3, 4, 5, 6}, 4);
  assert_int_equal(mmci_plan_choose_groups(&plan, &machine, MMC_NO_LIMIT, &error), MMC_OK);
  assert_int_equal(plan.group_count, 0);
  machine.handicap_s = 1e9;
  assert_int_equal(mmci_plan_choose_groups(&plan, &machine, MMC_NO_LIMIT, &error), MMC_OK);
  assert_int_equal(plan.group_count, 1);
  assert_int_equal(plan.groups[0].step_count, 2);
  assert_true(plan.groups[0].predicted_s < 1); /* the handicap is no price */
  mmci_plan_destroy(&plan);
}

/* ---- the public functions -------------------------------------------------------------------- */

static void expect(mmc_context *context, mmc_status got, mmc_status status, const char *message) {
  char text[512];
  assert_int_equal(got, status);
  assert_string_equal(mmc_context_message(context, text, sizeof text), message);
}

static void kernels_of_a_device_are_described(void **state) {
  (void)state;
  mmc_context *context;
  mmc_kernel_info info = {0};
  mmc_tune_product product = {.dtype = MMC_F32, .m = 4, .k = 5, .n = 6};
  assert_int_equal(mmc_context_create(NULL, &context), MMC_OK);
  assert_int_equal(mmc_kernel_describe(context, "ref", NULL, &product, 0, &info), MMC_OK);
  assert_string_equal(info.name, "loops");
  assert_true(info.available);
  assert_int_equal(info.registers_per_thread, 0);
  expect(context, mmc_kernel_describe(context, "ref", NULL, &product, 1, &info), MMC_E_ARG,
         "index: expected 0 to 0, got 1");
  expect(context, mmc_kernel_describe(context, "ref", NULL, &product, -1, &info), MMC_E_ARG,
         "index: expected 0 to 0, got -1");
  expect(context, mmc_kernel_describe(context, "ref", "exact", &product, 0, &info), MMC_E_ARG,
         "precision: expected native, faithful, fast, reproducible or reproducible+faithful, got "
         "'exact'");
  expect(context, mmc_kernel_describe(context, "ref", NULL, NULL, 0, &info), MMC_E_ARG,
         "product: expected a product, got NULL");
  expect(context, mmc_kernel_describe(context, "ref", NULL, &product, 0, NULL), MMC_E_ARG,
         "out: expected an address, got NULL");
  product.k = 0;
  expect(context, mmc_kernel_describe(context, "ref", NULL, &product, 0, &info), MMC_E_ARG,
         "product: expected k from 1 to 2^62, got 0");
  product.k = INT64_MAX;
  expect(context, mmc_kernel_describe(context, "ref", NULL, &product, 0, &info), MMC_E_ARG,
         "product: expected k from 1 to 2^62, got 9223372036854775807");
  mmc_context_destroy(context);
}

static void plans_take_the_kernel_asked_for(void **state) {
  (void)state;
  mmc_context *context;
  mmc_chain *chain;
  mmc_plan *plan;
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  assert_int_equal(mmc_context_create(NULL, &context), MMC_OK);
  assert_int_equal(mmc_chain_parse(context, "f64:2x3x4x5", &chain), MMC_OK);
  options.device = "ref";
  options.kernel = "lo";
  assert_int_equal(mmc_plan_create(context, chain, &options, &plan), MMC_OK);
  assert_string_equal(mmc_plan_step_kernel(plan, 1), "loops");
  assert_string_equal(mmc_plan_step_kernel(plan, 2), "");
  assert_string_equal(mmc_plan_step_kernel(plan, -1), "");
  mmc_plan_destroy(plan);
  options.kernel = "tile";
  expect(context, mmc_plan_create(context, chain, &options, &plan), MMC_E_UNSUPPORTED,
         "kernel: device 'ref' has none called 'tile' for these products");
  options.objective = "time";
  expect(context, mmc_plan_create(context, chain, &options, &plan), MMC_E_ARG,
         "kernel: expected objective flops or traffic with it");
  mmc_chain_destroy(chain);
  mmc_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_begin_so),
      cmocka_unit_test(first_way_that_can_is_taken),
      cmocka_unit_test(own_choice_has_no_recipe),
      cmocka_unit_test(without_such_a_way_nothing_changes),
      cmocka_unit_test(handicap_prefers_groups),
      cmocka_unit_test(kernels_of_a_device_are_described),
      cmocka_unit_test(plans_take_the_kernel_asked_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

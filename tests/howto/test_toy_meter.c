/* test_toy_meter.c: the meter of docs/howto-meter.md, by its own name and by that of the device
 * that it reads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "howto/toy_device.h"

static mmc_context *context;

/* Lasts a millisecond. */
static int work(void *user) {
  (void)user;
  nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  return 0;
}

static void check_meter(const char *name) {
  mmc_meter *meter;
  mmc_energy energy;
  mmc_energy_options options = MMC_ENERGY_OPTIONS_INIT;
  options.min_s = 0.3;
  options.warm_s = options.idle_s = 0.05;
  options.work = work;
  assert_int_equal(mmc_meter_open(context, name, &meter), MMC_OK);
  assert_int_equal(mmc_meter_measure(meter, &options, &energy), MMC_OK);
  mmc_meter_destroy(meter);
  if (!energy.measured) fail_msg("%s: %s", name, energy.reason);
  assert_string_equal(energy.meter, "lamp");
  if (!(fabs(energy.watts / TOY_WATTS - 1) <= energy.tick_error + 1e-3))
    fail_msg("%s: %g W, told to be off by %g", name, energy.watts, energy.tick_error);
}

static void the_device_is_read_by_it(void **state) {
  (void)state;
  check_meter("lamp");
  check_meter("toy");
}

static void names_follow_the_lists(void **state) {
  (void)state;
  char text[512];
  mmc_meter *meter;
  static const char *const wrong[] = {"nvml", "lamp:0", "toy:0", "lam", "cuda", ""};
  for (size_t w = 0; w < sizeof wrong / sizeof wrong[0]; w++) {
    assert_int_equal(mmc_meter_open(context, wrong[w], &meter), MMC_E_ARG);
    mmc_context_message(context, text, sizeof text);
    assert_non_null(
        strstr(text, "meter: expected cpu, ref, toy, rapl, lamp, replay:FILE or none, got '"));
  }
}

static void it_is_listed(void **state) {
  (void)state;
  mmc_meter_info info;
  assert_int_equal(mmc_meter_describe(context, 1, &info), MMC_OK);
  assert_string_equal(info.name, "lamp");
  assert_string_equal(info.description, "a lamp of 60 W");
  assert_true(info.available);
  assert_int_equal(mmc_meter_describe(context, 2, &info), MMC_E_ARG);
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
      cmocka_unit_test(the_device_is_read_by_it),
      cmocka_unit_test(names_follow_the_lists),
      cmocka_unit_test(it_is_listed),
  };
  return cmocka_run_group_tests(tests, begin, end);
}

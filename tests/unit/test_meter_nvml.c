/* test_meter_nvml.c: the meter of NVIDIA GPUs, on a library that makes them up.
 *
 * test_meter_nvml FAKE FAKE_OLD: the paths of fake_nvml.c built in full and without what is new. */
#include <dlfcn.h>
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

#include "fake_nvml.h"
#include "meter/meter.h"
#include "meter/nvml.h"

static const char *fake_path, *old_path;
static fake_nvml *fake, *old, fake_fresh, old_fresh;

#define assert_holds(text, part) \
  if (strstr(text, part) == NULL) fail_msg("\"%s\" was expected in \"%s\"", part, text)

static const mmci_meter_ops *const ops = &mmci_meter_nvml;

static mmc_status open_meter(const char *library, const char *bus_id, mmci_meter **out,
                             mmci_error *error) {
  mmci_meter_source source = {.library = library, .address = bus_id};
  return ops->open(&source, out, error);
}

/* Every test begins with the GPUs as they are made; NVML is shut down as often as started. */
static int begin(void **state) {
  (void)state;
  *fake = fake_fresh;
  *old = old_fresh;
  return 0;
}

static int end(void **state) {
  (void)state;
  return fake->started != 0 || old->started != 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void joules_are_of_the_gpu_on_the_bus(void **state) {
  (void)state;
  mmci_error error;
  mmci_meter *first, *second;
  fake->ticking = 0;
  fake->millijoules[0] = 1500;
  fake->millijoules[1] = 9007199254740993ULL / 1024; /* exact as a double */
  assert_int_equal(open_meter(fake_path, "00000000:1B:00.0", &first, &error), MMC_OK);
  assert_int_equal(open_meter(fake_path, "00000000:1C:00.0", &second, &error), MMC_OK);
  double joules = 0;
  assert_int_equal(ops->joules(first, 0, &joules, &error), MMC_OK);
  assert_true(joules == 1.5);
  assert_int_equal(ops->joules(second, 0, &joules, &error), MMC_OK);
  assert_true(joules == (double)fake->millijoules[1] * 1e-3);
  char text[128];
  ops->describe(second, text, sizeof text);
  assert_string_equal(text, "Fake GPU 1 at 00000000:1C:00.0: energy counter and instant power");
  ops->close(first);
  ops->close(second);
}

static void state_is_read(void **state) {
  (void)state;
  mmci_error error;
  mmci_meter *meter;
  mmci_meter_state s;
  fake->reasons = 0x24;
  assert_int_equal(open_meter(fake_path, "00000000:1B:00.0", &meter, &error), MMC_OK);
  ops->state(meter, 0, &s);
  assert_true(s.watts == 150 && s.sm_mhz == 1980 && s.memory_mhz == 2619 && s.celsius == 61);
  assert_int_equal(s.throttle, MMCI_THROTTLE_POWER_CAP | MMCI_THROTTLE_THERMAL);
  fake->field_type = MMCI_NVML_VALUE_UNSIGNED_LONG_LONG;
  ops->state(meter, 0, &s);
  assert_true(s.watts == 150);
  fake->field_type = 77;
  ops->state(meter, 0, &s);
  assert_true(isnan(s.watts));
  ops->close(meter);
}

/* What cannot be read is unknown, and not 0; the rest is read all the same. */
static void state_that_fails_is_unknown(void **state) {
  (void)state;
  mmci_error error;
  mmci_meter *meter;
  mmci_meter_state s;
  int *const results[] = {&fake->fields, &fake->field, &fake->clock, &fake->temperature,
                          &fake->throttle};
  assert_int_equal(open_meter(fake_path, "00000000:1B:00.0", &meter, &error), MMC_OK);
  for (int r = 0; r < 5; r++) {
    *results[r] = 3;
    ops->state(meter, 0, &s);
    *results[r] = 0;
    assert_true(isnan(s.watts) == (r < 2));
    assert_true(isnan(s.sm_mhz) == (r == 2) && isnan(s.memory_mhz) == (r == 2));
    assert_true(isnan(s.celsius) == (r == 3));
    assert_true((s.throttle == -1) == (r == 4));
  }
  ops->close(meter);
}

static void averaged_power_stands_in_for_instant(void **state) {
  (void)state;
  mmci_error error;
  mmci_meter *meter;
  mmci_meter_state s;
  char text[128];
  fake->field = MMCI_NVML_NOT_SUPPORTED;
  assert_int_equal(open_meter(fake_path, "00000000:1B:00.0", &meter, &error), MMC_OK);
  ops->state(meter, 0, &s);
  assert_true(s.watts == 149);
  ops->describe(meter, text, sizeof text);
  assert_holds(text, "averaged power");
  fake->power = 3;
  ops->state(meter, 0, &s);
  assert_true(isnan(s.watts));
  ops->describe(meter, text, sizeof text);
  assert_holds(text, "energy counter alone");
  ops->close(meter);
}

static void an_old_library_will_do(void **state) {
  (void)state;
  mmci_error error;
  mmci_meter *meter;
  mmci_meter_state s;
  double joules = NAN;
  old->reasons = 0x8;
  assert_int_equal(open_meter(old_path, "00000000:1B:00.0", &meter, &error), MMC_OK);
  assert_int_equal(ops->joules(meter, 0, &joules, &error), MMC_OK);
  assert_true(joules > 0);
  ops->state(meter, 0, &s);
  assert_true(isnan(s.watts) && isnan(s.sm_mhz) && isnan(s.memory_mhz) && isnan(s.celsius));
  assert_int_equal(s.throttle, MMCI_THROTTLE_HARDWARE);
  ops->close(meter);
}

/* ---- what may be missing --------------------------------------------------------------------- */

static void expect_missing(const char *library, const char *bus_id, const char *why) {
  mmci_error error;
  mmci_meter *meter = NULL;
  assert_int_equal(open_meter(library, bus_id, &meter, &error), MMC_E_UNSUPPORTED);
  assert_null(meter);
  assert_holds(error.text, why);
}

static void what_is_missing_is_told(void **state) {
  (void)state;
  static const char bus_id[] = "00000000:1B:00.0";
  expect_missing("/no/such/libnvidia-ml.so.1", bus_id, "no NVIDIA driver is here: install it");
  expect_missing("libc.so.6", bus_id, "has no nvmlInit_v2: the NVIDIA driver is too old");
  expect_missing(fake_path, "00000000:99:00.0", "the GPU at 00000000:99:00.0: Fake Error");
  fake->energy = MMCI_NVML_NOT_SUPPORTED;
  expect_missing(fake_path, bus_id, "Fake GPU 0 has no energy counter");
  fake->energy = 4;
  expect_missing(fake_path, bus_id, "the energy counter of Fake GPU 0: Fake Error");
  fake->init = 9;
  expect_missing(fake_path, bus_id, "NVML does not start: Fake Error");
  mmci_error error;
  mmci_meter *meter = NULL;
  assert_int_equal(open_meter(fake_path, NULL, &meter, &error), MMC_E_ARG);
  assert_null(meter);
}

static void a_counter_that_fails_later_is_a_failure(void **state) {
  (void)state;
  mmci_error error;
  mmci_meter *meter;
  double joules = 7;
  assert_int_equal(open_meter(fake_path, "00000000:1B:00.0", &meter, &error), MMC_OK);
  fake->energy = 15;
  assert_int_equal(ops->joules(meter, 0, &joules, &error), MMC_E_DEVICE);
  assert_true(joules == 7);
  assert_holds(error.text, "Fake Error");
  ops->close(meter);
}

/* ---- CUDA's numbers -------------------------------------------------------------------------- */

static void cuda_numbers_follow_what_is_visible(void **state) {
  (void)state;
  static const struct {
    const char *visible;
    int index, bus; /* bus < 0: a status */
  } cases[] = {
      {NULL, 0, 0x1B},
      {NULL, 3, 0x1E},
      {NULL, 4, -MMC_E_ARG},
      {"2", 0, 0x1D},
      {"2", 1, -MMC_E_ARG},
      {"3,1", 0, 0x1E},
      {"3,1", 1, 0x1C},
      {" 3 , 1 ", 1, 0x1C},
      {"3,1", 2, -MMC_E_ARG},
      {"", 0, -MMC_E_ARG},
      {"-1", 0, -MMC_E_ARG},
      {"NoDevFiles", 0, -MMC_E_ARG},
      {"4,0", 0, -MMC_E_ARG},
      {"0,4,1", 0, 0x1B},
      {"0,4,1", 1, -MMC_E_ARG}, /* the list ends at what is not there */
      {"0,4,1", 2, -MMC_E_ARG},
      {"0,,1", 1, -MMC_E_ARG},
      {"99999999999999999999", 0, -MMC_E_ARG},
      {"GPU-cccc-2,0", 0, 0x1D},
      {"GPU-cccc-2,0", 1, 0x1B},
      {"GPU-d", 0, 0x1E},
      {"GPU-aab", 0, 0x1C},
      {"GPU-aa", 0, -MMC_E_ARG}, /* more than one */
      {"GPU-x", 0, -MMC_E_ARG},
      {"gpu-cccc", 0, -MMC_E_ARG},
      {"MIG-cccc", 0, -MMC_E_UNSUPPORTED},
      {"1,MIG-cccc", 0, 0x1C},
      {"1,MIG-cccc", 1, -MMC_E_UNSUPPORTED},
  };
  fake->gpus = 4;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    mmci_error error = {.text = ""};
    char bus_id[MMCI_NVML_BUS_ID_SIZE] = "untouched", expected[MMCI_NVML_BUS_ID_SIZE];
    mmc_status status =
        mmci_nvml_bus_id(fake_path, cases[i].visible, cases[i].index, bus_id, &error);
    if (cases[i].bus < 0) {
      if ((int)status != -cases[i].bus) fail_msg("case %zu: %d, %s", i, status, error.text);
      assert_string_equal(bus_id, "untouched");
      continue;
    }
    snprintf(expected, sizeof expected, "00000000:%02X:00.0", cases[i].bus);
    if (status != MMC_OK || strcmp(bus_id, expected) != 0)
      fail_msg("case %zu: %s, %s", i, bus_id, error.text);
  }
}

static void a_driver_without_gpus_is_told(void **state) {
  (void)state;
  mmci_error error;
  char bus_id[MMCI_NVML_BUS_ID_SIZE];
  fake->gpus = 0;
  assert_int_equal(mmci_nvml_bus_id(fake_path, NULL, 0, bus_id, &error), MMC_E_UNSUPPORTED);
  assert_string_equal(error.text, "the NVIDIA driver sees no GPU");
  fake->gpus = 2;
  fake->count = 999;
  assert_int_equal(mmci_nvml_bus_id(fake_path, NULL, 0, bus_id, &error), MMC_E_UNSUPPORTED);
  assert_holds(error.text, "counting GPUs: Fake Error");
  fake->count = 0;
  fake->handle = 15;
  assert_int_equal(mmci_nvml_bus_id(fake_path, NULL, 1, bus_id, &error), MMC_E_UNSUPPORTED);
  assert_holds(error.text, "finding GPU 1: Fake Error");
}

static fake_nvml *control_of(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  return library != NULL ? dlsym(library, "fake_nvml_control") : NULL;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  fake_path = argv[1];
  old_path = argv[2];
  fake = control_of(fake_path);
  old = control_of(old_path);
  if (fake == NULL || old == NULL || fake == old) return 2;
  fake_fresh = *fake;
  old_fresh = *old;
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
  const struct CMUnitTest tests[] = {
      TEST(joules_are_of_the_gpu_on_the_bus),
      TEST(state_is_read),
      TEST(state_that_fails_is_unknown),
      TEST(averaged_power_stands_in_for_instant),
      TEST(an_old_library_will_do),
      TEST(what_is_missing_is_told),
      TEST(a_counter_that_fails_later_is_a_failure),
      TEST(cuda_numbers_follow_what_is_visible),
      TEST(a_driver_without_gpus_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

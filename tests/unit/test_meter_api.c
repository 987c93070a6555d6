/* test_meter_api.c: meters as programs see them, with GPUs that fake_nvml.c makes up, found as
 * libnvidia-ml.so.1 through LD_LIBRARY_PATH. */
#include <dlfcn.h>
#include <math.h>

#include "base/monotonic.h"
#include "fake_nvml.h"
#include "npy_scratch.h"

static mmc_context *context;
static fake_nvml *fake, fresh;

static int begin(void **state) {
  (void)state;
  *fake = fresh;
  unsetenv("CUDA_VISIBLE_DEVICES");
  return 0;
}

static void expect_message(const char *part) {
  char text[512];
  assert_holds(mmc_context_message(context, text, sizeof text), part);
}

/* Half a millisecond. */
static int work(void *user) {
  double end_s = mmci_now_s() + 0.0005;
  ++*(int64_t *)user;
  while (mmci_now_s() < end_s) continue;
  return 0;
}

static mmc_energy measure(const char *name, double min_s) {
  mmc_meter *meter;
  mmc_energy energy;
  int64_t runs = 0;
  mmc_energy_options options = MMC_ENERGY_OPTIONS_INIT;
  options.min_s = min_s;
  options.warm_s = options.idle_s = 0.1;
  options.work = work;
  options.user = &runs;
  assert_int_equal(mmc_meter_open(context, name, &meter), MMC_OK);
  assert_int_equal(mmc_meter_measure(meter, &options, &energy), MMC_OK);
  mmc_meter_destroy(meter);
  assert_true(!energy.measured || ((double)runs >= energy.runs && energy.runs > 0));
  return energy;
}

/* ---- by the machine's clock ------------------------------------------------------------------ */

static void a_gpu_of_150_watts(void **state) {
  (void)state;
  mmc_energy e = measure("cuda:1", 0.5);
  if (!e.measured) fail_msg("%s", e.reason);
  assert_string_equal(e.meter, "nvml");
  /* A loaded machine looks late, and says so. */
  double told = e.tick_error + 1e-3;
  if (!(fabs(e.watts / 150 - 1) <= told)) fail_msg("%g W, told %g", e.watts, told);
  assert_true(fabs(e.joules / (e.watts * e.seconds) - 1) <= 1e-9);
  assert_true(e.seconds >= 0.0005 && e.window_s >= 0.5 && e.ticks >= 1);
  assert_true(fabs((1 + e.crosscheck) * e.watts / 150 - 1) <= 1e-9);
  assert_true(e.sm_mhz_median == 1980 && e.memory_mhz_median == 2619 && e.celsius_max == 61);
  assert_true(e.idle_watts > 0);
  assert_string_equal(e.throttle, "power cap");
}

static void a_recording_is_played(void **state) {
  (void)state;
  char text[1 << 16], name[SCRATCH_PATH_SIZE + 16];
  size_t size = 0;
  for (int i = 0; i < 2000; i++) /* 80 W in ticks of 10 ms, for 20 s */
    size += (size_t)snprintf(text + size, sizeof text - size, "%.2f %.1f 80\n", i * 0.01, i * 0.8);
  put_file(scratch("recording"), text, size);
  snprintf(name, sizeof name, "replay:%s", scratch("recording"));
  mmc_energy e = measure(name, 0.3);
  if (!e.measured) fail_msg("%s", e.reason);
  assert_string_equal(e.meter, "replay");
  double told = e.tick_error + 1e-3;
  if (!(fabs(e.watts / 80 - 1) <= told)) fail_msg("%g W, told %g", e.watts, told);

  put_file(scratch("recording"), text, 400); /* 36 moments and a part of one */
  mmc_meter *meter = NULL;
  assert_int_equal(mmc_meter_open(context, name, &meter), MMC_E_FORMAT);
  assert_null(meter);
  expect_message("recording:");
  text[400] = '\0';
  put_file(scratch("recording"), text, (size_t)(strrchr(text, '\n') + 1 - text));
  e = measure(name, 2);
  assert_false(e.measured);
  assert_holds(e.reason, "the recording has ended after 0.");
  assert_true(isnan(e.joules));
}

/* ---- names ----------------------------------------------------------------------------------- */

static void names_that_are_none(void **state) {
  (void)state;
  static const char *const names[] = {"",           "gpu",      "cpu:0",    "rapl:0",
                                      "cuda:",      "cuda:x",   "cuda:-1",  "cuda:1x",
                                      "cuda:99999", "nvml:0:1", "Replay:x", "none:"};
  for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
    mmc_meter *meter = NULL;
    assert_int_equal(mmc_meter_open(context, names[n], &meter), MMC_E_ARG);
    assert_null(meter);
    expect_message("meter: expected cpu, blas, ref, cuda");
    expect_message(names[n]);
  }
  mmc_meter *meter = NULL;
  assert_int_equal(mmc_meter_open(context, "replay:/no/such/file", &meter), MMC_E_IO);
  expect_message("/no/such/file: cannot open");
  assert_int_equal(mmc_meter_open(context, "replay:", &meter), MMC_E_ARG);
  assert_int_equal(mmc_meter_open(context, NULL, &meter), MMC_E_ARG);
  assert_int_equal(mmc_meter_open(context, "none", NULL), MMC_E_ARG);
  assert_int_equal(mmc_meter_open(NULL, "none", &meter), MMC_E_ARG);
  assert_null(meter);
  mmc_meter_destroy(NULL);
}

/* A device that is known opens a meter, there or not. */
static void every_device_has_a_meter(void **state) {
  (void)state;
  static const char *const names[] = {"cpu",  "blas", "ref",    "rapl",
                                      "cuda", "nvml", "nvml:1", "none"};
  for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
    mmc_meter *meter;
    assert_int_equal(mmc_meter_open(context, names[n], &meter), MMC_OK);
    mmc_meter_destroy(meter);
  }
  mmc_energy e = measure("none", 0.1);
  assert_false(e.measured);
  assert_string_equal(e.meter, "none");
  assert_string_equal(e.reason, "no meter is asked for");
}

static void visible_gpus_are_counted_as_cuda_does(void **state) {
  (void)state;
  fake->ticking = 0; /* so that both GPUs are told apart by failing, not by measuring */
  setenv("CUDA_VISIBLE_DEVICES", "GPU-aabb", 1);
  mmc_meter_info info;
  assert_int_equal(mmc_meter_describe(context, 1, &info), MMC_OK);
  assert_string_equal(info.name, "nvml:0");
  assert_holds(info.description, "Fake GPU 1 at 00000000:1C:00.0");
  assert_int_equal(mmc_meter_describe(context, 2, &info), MMC_E_ARG);
  mmc_energy e = measure("cuda:1", 0.1);
  assert_false(e.measured);
  assert_holds(e.reason, "there is no GPU 1: CUDA_VISIBLE_DEVICES is 'GPU-aabb'");
}

/* ---- the list -------------------------------------------------------------------------------- */

static int count_meters(void) {
  mmc_meter_info info;
  int count = 0;
  while (count < 10 && mmc_meter_describe(context, count, &info) == MMC_OK) {
    assert_true(info.name[0] != '\0' && info.description[0] != '\0');
    count++;
  }
  return count;
}

static void the_list_ends(void **state) {
  (void)state;
  mmc_meter_info info;
  assert_int_equal(count_meters(), 3); /* rapl and two GPUs */
  assert_int_equal(mmc_meter_describe(context, 0, &info), MMC_OK);
  assert_string_equal(info.name, "rapl");
  assert_int_equal(mmc_meter_describe(context, 2, &info), MMC_OK);
  assert_string_equal(info.name, "nvml:1");
  assert_true(info.available);
  assert_string_equal(info.description,
                      "Fake GPU 1 at 00000000:1C:00.0: energy counter and instant power");
  assert_int_equal(mmc_meter_describe(context, 3, &info), MMC_E_ARG);
  expect_message("index: there is no meter number 3");
  assert_int_equal(mmc_meter_describe(context, -1, &info), MMC_E_ARG);
  assert_int_equal(mmc_meter_describe(context, 0, NULL), MMC_E_ARG);
  fake->energy = 3; /* the GPUs are there and cannot tell */
  assert_int_equal(count_meters(), 3);
  assert_int_equal(mmc_meter_describe(context, 2, &info), MMC_OK);
  assert_false(info.available);
  assert_holds(info.description, "Fake GPU 1 has no energy counter");
  fake->init = 9; /* no driver */
  assert_int_equal(count_meters(), 2);
  assert_int_equal(mmc_meter_describe(context, 1, &info), MMC_OK);
  assert_string_equal(info.name, "nvml");
  assert_false(info.available);
  fake->init = 0;
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  assert_int_equal(count_meters(), 2);
}

/* ---- options --------------------------------------------------------------------------------- */

static int fail_at_once(void *user) {
  (void)user;
  return 1;
}

static void wrong_options_are_named(void **state) {
  (void)state;
  mmc_meter *meter;
  mmc_energy energy = {.joules = 7};
  int64_t runs = 0;
  assert_int_equal(mmc_meter_open(context, "none", &meter), MMC_OK);
  static const double odd[] = {NAN, -1, INFINITY};
  for (int o = 0; o < 3; o++)
    for (int field = 0; field < 3; field++) {
      mmc_energy_options options = MMC_ENERGY_OPTIONS_INIT;
      options.work = work;
      options.user = &runs;
      *(field == 0 ? &options.min_s : field == 1 ? &options.warm_s : &options.idle_s) = odd[o];
      assert_int_equal(mmc_meter_measure(meter, &options, &energy), MMC_E_ARG);
      expect_message(field == 0 ? "min_s: expected seconds"
                                : "warm_s and idle_s: expected seconds");
    }
  mmc_energy_options options = MMC_ENERGY_OPTIONS_INIT;
  options.min_s = 0;
  assert_int_equal(mmc_meter_measure(meter, &options, &energy), MMC_E_ARG);
  options = (mmc_energy_options)MMC_ENERGY_OPTIONS_INIT;
  options.idle_s = 0;
  assert_int_equal(mmc_meter_measure(meter, &options, &energy), MMC_E_ARG);
  expect_message("work: expected a function, got NULL, or idle_s above 0");
  options.size--;
  assert_int_equal(mmc_meter_measure(meter, &options, &energy), MMC_E_ARG);
  expect_message("options: expected a size of");
  assert_int_equal(mmc_meter_measure(meter, NULL, &energy), MMC_E_ARG);
  assert_int_equal(mmc_meter_measure(meter, &options, NULL), MMC_E_ARG);
  assert_int_equal(mmc_meter_measure(NULL, &options, &energy), MMC_E_ARG);
  assert_true(energy.joules == 7 && runs == 0);
  mmc_meter_destroy(meter);

  /* Work that stops has its own message. */
  assert_int_equal(mmc_meter_open(context, "nvml:0", &meter), MMC_OK);
  options = (mmc_energy_options)MMC_ENERGY_OPTIONS_INIT;
  options.idle_s = 0;
  options.work = fail_at_once;
  char before[512], after[512];
  mmc_context_message(context, before, sizeof before);
  assert_int_equal(mmc_meter_measure(meter, &options, &energy), MMC_E_INTERRUPTED);
  assert_string_equal(mmc_context_message(context, after, sizeof after), before);
  assert_true(energy.joules == 7);
  mmc_meter_destroy(meter);
}

static int group_begin(void **state) {
  void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  fake = library != NULL ? dlsym(library, "fake_nvml_control") : NULL;
  if (fake == NULL) {
    fprintf(stderr, "libnvidia-ml.so.1 is not the one of the tests: see LD_LIBRARY_PATH\n");
    return -1;
  }
  fresh = *fake;
  if (mmc_context_create(NULL, &context) != MMC_OK) return -1;
  return scratch_setup(state);
}

static int group_end(void **state) {
  mmc_context_destroy(context);
  return fake->started != 0 ? -1 : scratch_teardown(state);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup(name, begin)
  const struct CMUnitTest tests[] = {
      TEST(a_gpu_of_150_watts),
      TEST(a_recording_is_played),
      TEST(names_that_are_none),
      TEST(every_device_has_a_meter),
      TEST(visible_gpus_are_counted_as_cuda_does),
      TEST(the_list_ends),
      TEST(wrong_options_are_named),
      TEST(test_nothing_left),
  };
  return cmocka_run_group_tests(tests, group_begin, group_end);
}

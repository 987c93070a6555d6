/* test_meter_replay.c: recordings, good and hostile, and the meter that measures nothing. */
#include <math.h>

#include "../comma_locale.h"
#include "../random.h"
#include "meter/meter.h"
#include "npy_scratch.h"

static const mmci_meter_ops *const ops = &mmci_meter_replay;

static mmc_status open_bytes(const void *bytes, size_t size, mmci_meter **out, mmci_error *error) {
  const char *path = scratch("recording");
  put_file(path, bytes, size);
  return ops->open(&(mmci_meter_source){.recording = path}, out, error);
}

static mmci_meter *open_text(const char *text) {
  mmci_error error = {.text = ""};
  mmci_meter *meter;
  if (open_bytes(text, strlen(text), &meter, &error) != MMC_OK) fail_msg("%s", error.text);
  return meter;
}

static double joules_at(mmci_meter *meter, double time_s) {
  mmci_error error = {.text = ""};
  double joules = NAN;
  if (ops->joules(meter, time_s, &joules, &error) != MMC_OK) fail_msg("%s", error.text);
  return joules;
}

/* ---- good ------------------------------------------------------------------------------------ */

/* The first moment is when the meter is first read, whatever clocks say. */
static void a_line_holds_until_the_next(void **state) {
  (void)state;
  mmci_meter *meter = open_text(
      "# time joules watts sm memory celsius reasons\n"
      "\n"
      "100 5 200 1500 2600 50 4\r\n"
      "  100.5\t5 210 - - 51 0 # the counter rests\n"
      "101 305 -\n"
      "102 400\n");
  mmci_meter_state s;
  char text[64];
  ops->describe(meter, text, sizeof text);
  assert_string_equal(text, "a recording of 2 s in 4 moments");
  assert_true(joules_at(meter, 7000) == 5);
  ops->state(meter, 7000.25, &s);
  assert_true(s.watts == 200 && s.sm_mhz == 1500 && s.memory_mhz == 2600 && s.celsius == 50);
  assert_int_equal(s.throttle, 4);
  ops->state(meter, 7000.5, &s);
  assert_true(s.watts == 210 && isnan(s.sm_mhz) && isnan(s.memory_mhz) && s.celsius == 51);
  assert_int_equal(s.throttle, 0);
  assert_true(joules_at(meter, 7000.75) == 5);
  assert_true(joules_at(meter, 7001) == 305);
  ops->state(meter, 7001, &s);
  assert_true(isnan(s.watts) && isnan(s.celsius));
  assert_int_equal(s.throttle, -1);
  assert_true(joules_at(meter, 7002) == 400);
  mmci_error error;
  double joules = 7;
  assert_int_equal(ops->joules(meter, 7002.25, &joules, &error), MMC_E_DEVICE);
  assert_true(joules == 7);
  assert_string_equal(error.text, "the recording has ended after 2 s");
  ops->state(meter, 7002.25, &s);
  assert_true(isnan(s.watts));
  ops->close(meter);
}

static void random_recordings_play_as_written(void **state) {
  (void)state;
  enum { LINES = 500 };
  uint64_t seed = 20240611, numbers = seed;
  static char text[LINES * 64];
  double times[LINES], joules[LINES];
  size_t size = 0;
  for (int i = 0; i < LINES; i++) {
    times[i] = (i > 0 ? times[i - 1] : 0) + (double)(1 + random_below(&numbers, 1000)) / 1024;
    joules[i] = (double)random_below(&numbers, 1 << 30) / 1024;
    size += (size_t)snprintf(text + size, sizeof text - size, "%.17g %.17g\n", times[i], joules[i]);
  }
  mmci_meter *meter = open_text(text);
  int line = 0;
  for (int64_t i = 0; times[0] + (double)i / 4096 <= times[LINES - 1]; i++) {
    double time_s = times[0] + (double)i / 4096;
    while (line + 1 < LINES && times[line + 1] <= time_s) line++;
    if (joules_at(meter, time_s + 4096) != joules[line])
      fail_msg("seed %llu, at %g", (unsigned long long)seed, time_s);
  }
  ops->close(meter);
}

static void numbers_have_a_point_in_any_locale(void **state) {
  (void)state;
  if (!set_comma_locale()) skip();
  mmci_meter *meter = open_text("0.5 1.5\n1.5 2.5\n");
  assert_true(joules_at(meter, 0) == 1.5);
  assert_true(joules_at(meter, 1) == 2.5);
  ops->close(meter);
  leave_comma_locale();
}

/* ---- hostile --------------------------------------------------------------------------------- */

static void expect_bad(const void *bytes, size_t size, const char *message) {
  mmci_error error = {.text = ""};
  mmci_meter *meter = NULL;
  mmc_status status = open_bytes(bytes, size, &meter, &error);
  if (status != MMC_E_FORMAT) fail_msg("status %d for '%.*s'", status, (int)size, (char *)bytes);
  assert_null(meter);
  assert_holds(error.text, scratch("recording"));
  assert_holds(error.text, message);
}

static void bad_lines_are_named(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"", ": expected two moments at least, got 0"},
      {"# nothing\n", ": expected two moments at least, got 0"},
      {"0 1\n", ": expected two moments at least, got 1"},
      {"0 1\n1\n", ":2: expected time_s joules"},
      {"0 1\n1 2", ":2: expected a line of text"}, /* cut off: 2 of 23? */
      {"0 1\nnan 2\n", ":2: expected time_s joules"},
      {"0 1\n1 nan\n", ":2: expected time_s joules"},
      {"0 1\n1 inf\n", ":2: expected time_s joules"},
      {"0 1\n1 1e999\n", ":2: expected time_s joules"},
      {"0 1\n1 -2\n", ":2: expected time_s joules"},
      {"0 1\n- 2\n", ":2: expected time_s joules"},
      {"0 1\n1 -\n", ":2: expected time_s joules"},
      {"0 1\n1 2 --\n", ":2: expected time_s joules"},
      {"0 1\n1 2 3W\n", ":2: expected time_s joules"},
      {"0 1\n1,5 2\n", ":2: expected time_s joules"},
      {"0 1\n1 2 3 4 5 6 7 8\n", ":2: expected time_s joules"},
      {"0 1\n\n# x\n1 2\n1 3\n", ":5: time_s: expected more than 1, got 1"},
      {"2 1\n1 2\n", ":2: time_s: expected more than 2, got 1"},
      {"0 1\n1 2 3 4 5 6 4294967296\n", ":2: reasons: expected below 2^32"},
      {"0 1\n1 2 3 4 5 6 1e300\n", ":2: reasons: expected below 2^32"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    expect_bad(cases[i].text, strlen(cases[i].text), cases[i].message);
  expect_bad("0 1\n1 2\0 3\n2 3\n", 15, ":2: expected a line of text");
}

static void long_lines_and_long_files_end(void **state) {
  (void)state;
  enum { LONG = 1 << 16, LINES = (1 << 20) + 1 };
  char *text = malloc(2 * LINES);
  assert_non_null(text);
  memset(text, ' ', LONG);
  memcpy(text, "0 1\n", 4);
  text[LONG - 1] = '\n';
  expect_bad(text, LONG, ":2: expected a line of text, at most 510 characters");
  for (size_t i = 0; i < LINES; i++) memcpy(text + 2 * i, "#\n", 2);
  expect_bad(text, 2 * LINES, ": expected at most 1048576 lines");
  free(text);
}

/* Whatever the bytes are, opening ends, and what opens can be played. */
static void random_bytes_do_no_harm(void **state) {
  (void)state;
  uint64_t seed = 77, numbers = seed;
  static const char alphabet[] = "0123456789.eE+-# \t\n\n\r\0naif";
  for (int trial = 0; trial < 3000; trial++) {
    char bytes[96];
    size_t size = (size_t)random_below(&numbers, sizeof bytes);
    for (size_t b = 0; b < size; b++)
      bytes[b] = trial % 4 == 0 ? (char)random_bits(&numbers)
                                : alphabet[random_below(&numbers, sizeof alphabet - 1)];
    mmci_error error;
    mmci_meter *meter;
    if (open_bytes(bytes, size, &meter, &error) != MMC_OK) continue;
    assert_true(isfinite(joules_at(meter, 0)));
    ops->close(meter);
  }
}

static void files_that_cannot_be_read_are_told(void **state) {
  (void)state;
  static const struct {
    const char *path;
    mmc_status status;
    const char *message;
  } cases[] = {
      {NULL, MMC_E_ARG, "meter: expected a file, as in replay:FILE"},
      {"", MMC_E_ARG, "meter: expected a file, as in replay:FILE"},
      {"/no/such/file", MMC_E_IO, "/no/such/file: cannot open: No such file or directory"},
      {"/tmp", MMC_E_IO, "/tmp: cannot read: Is a directory"},
      {"/dev/zero", MMC_E_FORMAT, "/dev/zero:1: expected a line of text"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    mmci_error error = {.text = ""};
    mmci_meter *meter = NULL;
    mmci_meter_source source = {.recording = cases[i].path};
    assert_int_equal(ops->open(&source, &meter, &error), cases[i].status);
    assert_null(meter);
    assert_holds(error.text, cases[i].message);
  }
}

/* ---- none ------------------------------------------------------------------------------------ */

static void none_says_why(void **state) {
  (void)state;
  mmci_error error;
  mmci_meter *meter;
  char text[64];
  double joules = 7;
  assert_int_equal(
      mmci_meter_none.open(&(mmci_meter_source){.reason = "%s of 100%"}, &meter, &error), MMC_OK);
  assert_int_equal(mmci_meter_none.joules(meter, 0, &joules, &error), MMC_E_UNSUPPORTED);
  assert_string_equal(error.text, "%s of 100%");
  assert_true(joules == 7);
  mmci_meter_none.describe(meter, text, sizeof text);
  assert_string_equal(text, "%s of 100%");
  mmci_meter_none.close(meter);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_line_holds_until_the_next),
      cmocka_unit_test(random_recordings_play_as_written),
      cmocka_unit_test(numbers_have_a_point_in_any_locale),
      cmocka_unit_test(bad_lines_are_named),
      cmocka_unit_test(long_lines_and_long_files_end),
      cmocka_unit_test(random_bytes_do_no_harm),
      cmocka_unit_test(files_that_cannot_be_read_are_told),
      cmocka_unit_test(none_says_why),
      cmocka_unit_test(test_nothing_left),
  };
  return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}

/* test_window.c: the arithmetic from tick to tick, against exact answers on counters made up. */
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

#include "../random.h"
#include "meter/window.h"

/* Times are multiples of 1/1024 s and powers whole watts, so that sums are exact. */
static const double tick_s = 1.0 / 1024;

enum { TICKS = 400 };

/* A counter that is brought up to date at times[0], times[1], ... under power that changes then. */
typedef struct counter {
  int64_t times[TICKS]; /* in tick_s */
  double joules[TICKS]; /* from that moment on */
} counter;

static counter random_counter(uint64_t *numbers, double watts_least, double watts_most) {
  counter c;
  c.times[0] = 0;
  c.joules[0] = 1e6;
  for (int i = 1; i < TICKS; i++) {
    int64_t step = 60 + random_below(numbers, 80); /* about 100 ms */
    double watts =
        watts_least + (double)random_below(numbers, (int64_t)(watts_most - watts_least) + 1);
    c.times[i] = c.times[i - 1] + step;
    c.joules[i] = c.joules[i - 1] + watts * (double)step * tick_s;
  }
  return c;
}

static double joules_at(const counter *c, int64_t time) {
  int i = 0;
  while (i + 1 < TICKS && c->times[i + 1] <= time) i++;
  return c->joules[i];
}

static void fill(mmci_window *w, const counter *c, const int64_t *samples, int count,
                 const mmci_meter_state *state) {
  for (int s = 0; s < count; s++)
    mmci_window_add(w, (double)samples[s] * tick_s, 0, joules_at(c, samples[s]), state);
}

/* Moments to sample at, 1 to gap apart. */
static int random_samples(uint64_t *numbers, int64_t from, int64_t gap, int64_t *samples,
                          int most) {
  int count = 0;
  for (int64_t time = from; count < most; time += 1 + random_below(numbers, gap))
    samples[count++] = time;
  return count;
}

/* ---- from tick to tick ----------------------------------------------------------------------- */

/* The first and the last sample of the window by its definition, told from all samples at once. */
static void windows_begin_and_end_at_changes(void **state) {
  (void)state;
  uint64_t seed = 1, numbers = seed;
  for (int trial = 0; trial < 500; trial++) {
    enum { SAMPLES = 3000 };
    static int64_t samples[SAMPLES];
    counter c = random_counter(&numbers, 50, 700);
    int64_t gap = 1 + random_below(&numbers, 20);
    random_samples(&numbers, random_below(&numbers, 300), gap, samples, SAMPLES);
    double least_s = (double)random_below(&numbers, 2048) * tick_s;
    int first = 1, last, ticks = 1;
    while (joules_at(&c, samples[first]) == joules_at(&c, samples[first - 1])) first++;
    for (last = first + 1;; last++) {
      bool changed = joules_at(&c, samples[last]) != joules_at(&c, samples[last - 1]);
      if (changed && (double)(samples[last] - samples[first]) * tick_s >= least_s) break;
      ticks += changed;
      if (last + 1 == SAMPLES) break;
    }
    mmci_window w = {0};
    mmci_window_begin(&w, least_s);
    fill(&w, &c, samples, SAMPLES, NULL);
    bool long_enough = last + 1 < SAMPLES;
    if (w.phase != (long_enough ? MMCI_WINDOW_CLOSED : MMCI_WINDOW_OPEN))
      fail_msg("seed %llu trial %d: phase %d", (unsigned long long)seed, trial, (int)w.phase);
    if (!long_enough) continue;
    double seconds = (double)(samples[last] - samples[first]) * tick_s;
    double joules = joules_at(&c, samples[last]) - joules_at(&c, samples[first]);
    if (mmci_window_seconds(&w) != seconds || mmci_window_joules(&w) != joules ||
        mmci_window_watts(&w) != joules / seconds || w.ticks != ticks)
      fail_msg("seed %llu trial %d: %g s, %g J, %d ticks expected, got %g, %g, %d",
               (unsigned long long)seed, trial, seconds, joules, ticks, mmci_window_seconds(&w),
               mmci_window_joules(&w), (int)w.ticks);
    mmci_window_free(&w);
  }
}

/* Steady power is found within the error that the window itself tells. */
static void power_is_within_the_error_told(void **state) {
  (void)state;
  uint64_t seed = 2, numbers = seed;
  double worst = 0;
  for (int trial = 0; trial < 500; trial++) {
    enum { SAMPLES = 3000 };
    static int64_t samples[SAMPLES];
    double watts = (double)(1 + random_below(&numbers, 1000));
    counter c = random_counter(&numbers, watts, watts);
    random_samples(&numbers, random_below(&numbers, 300), 12, samples, SAMPLES);
    mmci_window w = {0};
    mmci_window_begin(&w, 2);
    fill(&w, &c, samples, SAMPLES, NULL);
    assert_int_equal(w.phase, MMCI_WINDOW_CLOSED);
    double error = fabs(mmci_window_watts(&w) / watts - 1);
    double told = w.late_s / mmci_window_seconds(&w);
    if (!(error <= told * (1 + 1e-9)) || !(told <= 12 * tick_s / 2))
      fail_msg("seed %llu trial %d: off by %g, told %g", (unsigned long long)seed, trial, error,
               told);
    worst = fmax(worst, error);
    mmci_window_free(&w);
  }
  assert_true(worst > 1e-4); /* it is a true error that is bounded */
}

/* Readings that take long, and show the counter as it was at any moment of theirs. */
static void long_readings_are_part_of_the_error_told(void **state) {
  (void)state;
  uint64_t seed = 4, numbers = seed;
  double worst = 0;
  for (int trial = 0; trial < 500; trial++) {
    double watts = (double)(1 + random_below(&numbers, 1000));
    counter c = random_counter(&numbers, watts, watts);
    mmci_window w = {0};
    mmci_window_begin(&w, 1);
    for (int64_t time = 0; w.phase != MMCI_WINDOW_CLOSED;) {
      int64_t half = random_below(&numbers, 10), took = 2 * half;
      int64_t at = random_below(&numbers, took + 1);
      mmci_window_add(&w, (double)(time + half) * tick_s, (double)took * tick_s,
                      joules_at(&c, time + at), NULL);
      time += took + 1 + random_below(&numbers, 4);
    }
    double error = fabs(mmci_window_watts(&w) / watts - 1);
    double told = w.late_s / mmci_window_seconds(&w);
    if (!(error <= told * (1 + 1e-9)) || !(told <= 44 * tick_s))
      fail_msg("seed %llu trial %d: off by %g, told %g", (unsigned long long)seed, trial, error,
               told);
    worst = fmax(worst, error);
    mmci_window_free(&w);
  }
  assert_true(worst > 1e-3);
}

/* Sampled at the very ticks, anything is exact. */
static void spread_is_of_slices(void **state) {
  (void)state;
  mmci_window w = {0};
  mmci_window_begin(&w, 2);
  double joules = 0, least, most;
  for (int i = 0; i <= 9; i++) { /* each a quarter of a second: 100, 110, ... watts */
    mmci_window_add(&w, 0.25 * i, 0, joules, NULL);
    mmci_window_spread(&w, &least, &most);
    assert_true(i < 3 ? isnan(least) && isnan(most) : least == 110 && most == 100 + 10 * (i - 1));
    joules += 0.25 * (100 + 10 * i);
  }
  assert_int_equal(w.phase, MMCI_WINDOW_CLOSED);
  assert_true(mmci_window_watts(&w) == 145);
  assert_int_equal(w.ticks, 8);
  mmci_window_free(&w);
}

/* ---- what is broken -------------------------------------------------------------------------- */

static void expect_failure(mmci_window *w, const char *message) {
  assert_int_equal(w->phase, MMCI_WINDOW_FAILED);
  if (strstr(w->error.text, message) == NULL) fail_msg("'%s'", w->error.text);
  /* For good. */
  mmci_window_begin(w, 1);
  for (int i = 0; i < 10; i++) mmci_window_add(w, 100 + i, 0, 1000 + i, NULL);
  assert_int_equal(w->phase, MMCI_WINDOW_FAILED);
  mmci_window_free(w);
}

static void a_counter_that_stands_still_has_failed(void **state) {
  (void)state;
  for (int ticks = 0; ticks < 3; ticks++) { /* before it stops */
    mmci_window w = {0};
    mmci_window_begin(&w, 2);
    double time_s = 0, stands_s = 0;
    for (; w.phase != MMCI_WINDOW_FAILED && time_s < 100; time_s += 1.0 / 16) {
      if (time_s <= ticks) stands_s = floor(time_s);
      mmci_window_add(&w, time_s, 0, floor(fmin(time_s, ticks)), NULL);
    }
    assert_true(time_s - stands_s > MMCI_STALL_S && time_s - stands_s < MMCI_STALL_S + 0.25);
    expect_failure(&w, "the energy counter has not moved for");
  }
}

static void a_counter_that_falls_has_failed(void **state) {
  (void)state;
  mmci_window w = {0};
  mmci_window_begin(&w, 2);
  mmci_window_add(&w, 0, 0, 10, NULL);
  mmci_window_add(&w, 0.5, 0, 9, NULL);
  expect_failure(&w, "the energy counter fell: from 10 to 9");
  w = (mmci_window){0};
  mmci_window_begin(&w, 2);
  for (int i = 0; i < 4; i++) mmci_window_add(&w, 0.5 * i, 0, i < 3 ? 10 + i : 0, NULL);
  expect_failure(&w, "the energy counter fell: from 12 to 0");
}

static void nonsense_has_failed(void **state) {
  (void)state;
  const double odd[] = {NAN, INFINITY, -INFINITY};
  for (int o = 0; o < 3; o++) {
    mmci_window w = {0};
    mmci_window_begin(&w, 2);
    if (o > 0) mmci_window_add(&w, 0, 0, 10, NULL);
    mmci_window_add(&w, 0.5, 0, odd[o], NULL);
    expect_failure(&w, "the counter is no number");
    w = (mmci_window){0};
    mmci_window_begin(&w, 2);
    mmci_window_add(&w, 5, 0, 10, NULL);
    mmci_window_add(&w, o == 0 ? NAN : 4, 0, 11, NULL);
    expect_failure(&w, "the clock went back");
  }
  mmci_window w = {0};
  mmci_error error;
  mmci_fail(&error, MMC_E_DEVICE, "the card is gone");
  mmci_window_begin(&w, 2);
  mmci_window_fail(&w, &error);
  mmci_fail(&error, MMC_E_DEVICE, "and more");
  mmci_window_fail(&w, &error);
  expect_failure(&w, "the card is gone");
}

/* ---- what goes with it ----------------------------------------------------------------------- */

static mmci_meter_state power(double watts) {
  mmci_meter_state state = mmci_meter_state_unknown;
  state.watts = watts;
  return state;
}

/* 100 W by the counter, sampled as told. */
static double crosscheck_of(double (*watts)(int i)) {
  mmci_window w = {0};
  mmci_window_begin(&w, 2);
  for (int i = 0; i < 100; i++) {
    mmci_meter_state s = power(watts(i));
    mmci_window_add(&w, i / 16.0, 0, 100 * (i / 16.0), &s);
  }
  assert_int_equal(w.phase, MMCI_WINDOW_CLOSED);
  double crosscheck = mmci_window_crosscheck(&w);
  mmci_window_free(&w);
  return crosscheck;
}

static double same(int i) {
  return i == 0 ? 5000 : 100; /* before the window */
}
static double higher(int i) {
  (void)i;
  return 110;
}
static double rising(int i) {
  return 84 + i - 1; /* the window has samples 1 to 33, of mean 100 */
}
static double often_unknown(int i) {
  return i < 12 ? 150 : NAN;
}
static double seldom_unknown(int i) {
  return i < 20 ? 100 : NAN;
}

static void sampled_power_is_checked_against_the_counter(void **state) {
  (void)state;
  assert_true(crosscheck_of(same) == 0);
  assert_true(fabs(crosscheck_of(higher) - 0.1) <= 1e-12);
  assert_true(fabs(crosscheck_of(rising)) <= 1e-12);
  assert_true(crosscheck_of(seldom_unknown) == 0);
  assert_true(isnan(crosscheck_of(often_unknown)));
}

static void unknown_stays_unknown(void **state) {
  (void)state;
  for (int with = 0; with < 2; with++) {
    mmci_window w = {0};
    mmci_window_begin(&w, 1);
    for (int i = 0; i < 40; i++)
      mmci_window_add(&w, i / 16.0, 0, i, with ? &mmci_meter_state_unknown : NULL);
    assert_int_equal(w.phase, MMCI_WINDOW_CLOSED);
    double min, median, max;
    mmci_numbers_summary(&w.sm_mhz, &min, &median, &max);
    assert_true(isnan(min) && isnan(median) && isnan(max));
    assert_true(isnan(w.celsius_max) && isnan(mmci_window_crosscheck(&w)));
    assert_int_equal(w.throttle, -1);
    mmci_window_free(&w);
  }
}

/* Only what lies in the window counts. */
static void clocks_and_reasons_are_gathered(void **state) {
  (void)state;
  static const double mhz[] = {9, 9, 1500, 1400, 1300, NAN, 1200, 9};
  static const int64_t reasons[] = {64, 64, 0, 4, -1, 0, 0x20, 64};
  mmci_window w = {0};
  mmci_window_begin(&w, 1);
  for (int i = 0; i < 8; i++) { /* the window has samples 2 to 6 */
    mmci_meter_state s = {.watts = 1,
                          .sm_mhz = mhz[i],
                          .memory_mhz = 2 * mhz[i],
                          .celsius = mhz[i] / 10,
                          .throttle = reasons[i]};
    mmci_window_add(&w, i * 0.25, 0, i < 2 ? 0 : i, &s);
  }
  assert_int_equal(w.phase, MMCI_WINDOW_CLOSED);
  double min, median, max;
  mmci_numbers_summary(&w.sm_mhz, &min, &median, &max);
  assert_true(min == 1200 && median == 1350 && max == 1500);
  mmci_numbers_summary(&w.memory_mhz, &min, &median, &max);
  assert_true(min == 2400 && median == 2700 && max == 3000);
  assert_true(w.celsius_max == 150);
  assert_int_equal(w.throttle, 0x24);
  mmci_window_free(&w);
}

static void throttle_reasons_have_names(void **state) {
  (void)state;
  static const struct {
    int64_t throttle;
    const char *text;
  } cases[] = {
      {-1, "unknown"},
      {0, "none"},
      {1, "idle"},
      {4, "power cap"},
      {0x24, "power cap, thermal"},
      {0x1ff,
       "idle, application clocks, power cap, hardware slowdown, sync boost, thermal, hardware "
       "thermal, power brake, display clocks"},
      {0x1000, "0x1000"},
      {0x7000000000000004, "power cap, 0x7000000000000000"},
  };
  char text[160];
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    mmci_throttle_text(cases[i].throttle, text, sizeof text);
    assert_string_equal(text, cases[i].text);
    for (size_t size = 1; size < sizeof text; size++) { /* cut anywhere */
      char cut[sizeof text];
      memset(cut, 'x', sizeof cut);
      mmci_throttle_text(cases[i].throttle, cut, size);
      assert_true(strlen(cut) < size && strncmp(cut, text, strlen(cut)) == 0);
      assert_true(cut[size] == 'x');
    }
  }
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void parts_of_batches_count_by_time(void **state) {
  (void)state;
  const mmci_batch batches[] = {{0, 1, 10}, {1, 2, 4}, {2.5, 3, 1}, {3, 3, 100}};
  assert_true(mmci_batches_within(batches, 4, -5, 5) == 15);
  assert_true(mmci_batches_within(batches, 4, 0, 1) == 10);
  assert_true(mmci_batches_within(batches, 4, 0.5, 1.25) == 6);
  assert_true(mmci_batches_within(batches, 4, 2, 2.5) == 0);
  assert_true(mmci_batches_within(batches, 4, 2.625, 2.75) == 0.25);
  assert_true(mmci_batches_within(batches, 4, 4, 5) == 0);
  assert_true(mmci_batches_within(batches, 0, 0, 5) == 0);
  uint64_t seed = 3, numbers = seed;
  for (int trial = 0; trial < 1000; trial++) { /* runs of 1/64 s without a gap */
    mmci_batch all[40];
    double time_s = 0, begin_s = (double)random_below(&numbers, 512) / 128,
           length_s = (double)random_below(&numbers, 512) / 128;
    for (int b = 0; b < 40; b++) {
      double runs = (double)(1 << random_below(&numbers, 5));
      all[b] = (mmci_batch){time_s, time_s + runs / 64, runs};
      time_s = all[b].end_s;
    }
    double end_s = fmin(time_s, begin_s + length_s);
    double expected = fmax(0, end_s - begin_s) * 64;
    if (mmci_batches_within(all, 40, begin_s, begin_s + length_s) != expected)
      fail_msg("seed %llu trial %d", (unsigned long long)seed, trial);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(windows_begin_and_end_at_changes),
      cmocka_unit_test(power_is_within_the_error_told),
      cmocka_unit_test(long_readings_are_part_of_the_error_told),
      cmocka_unit_test(spread_is_of_slices),
      cmocka_unit_test(a_counter_that_stands_still_has_failed),
      cmocka_unit_test(a_counter_that_falls_has_failed),
      cmocka_unit_test(nonsense_has_failed),
      cmocka_unit_test(sampled_power_is_checked_against_the_counter),
      cmocka_unit_test(unknown_stays_unknown),
      cmocka_unit_test(clocks_and_reasons_are_gathered),
      cmocka_unit_test(throttle_reasons_have_names),
      cmocka_unit_test(parts_of_batches_count_by_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_measure.c: measuring runs of work, in a world made up: its clock, its power, its counter. */
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
#include "base/alloc.h"
#include "meter/measure.h"

/* ---- the world ------------------------------------------------------------------------------- */

/* How the counter misbehaves, from break_s on: it stands still, falls at every look, cannot be
 * read. */
typedef enum fault { SOUND, STANDS, FALLS, FAILS } fault;

/* Idle power but while work runs; the counter shows the energy up to its last tick. */
typedef struct world {
  double time_s, joules;
  double idle_watts, work_watts, run_s;
  double tick_s, jitter; /* a tick is late by up to this share */
  uint64_t numbers;
  double next_tick_s, shown_joules;
  double sound_joules; /* shown last before break_s */
  fault fault;
  double break_s;
  double bias; /* of the sampled power */
  double watts;
  int64_t works, waits, enqueued, stop_after;
} world;

static world quiet_world(void) {
  return (world){.time_s = 1000,
                 .joules = 5e6,
                 .idle_watts = 64,
                 .work_watts = 512,
                 .run_s = 1.0 / 16,
                 .tick_s = 1.0 / 8,
                 .next_tick_s = 1000,
                 .break_s = INFINITY,
                 .bias = 1,
                 .watts = 64,
                 .stop_after = INT64_MAX};
}

static void pass(world *w, double seconds, double watts) {
  double end_s = w->time_s + seconds;
  w->watts = watts;
  while (w->next_tick_s <= end_s) {
    w->joules += watts * (w->next_tick_s - w->time_s);
    w->time_s = w->next_tick_s;
    w->shown_joules = w->joules;
    double late = w->jitter > 0 ? w->jitter * fabs(random_unit(&w->numbers)) : 0;
    w->next_tick_s += w->tick_s * (1 + late);
  }
  w->joules += watts * (end_s - w->time_s);
  w->time_s = end_s;
}

static double world_now(void *user) {
  return ((world *)user)->time_s;
}

static void world_rest(void *user, double seconds) {
  world *w = user;
  pass(w, seconds, w->idle_watts);
}

static int world_work(void *user) {
  world *w = user;
  pass(w, w->run_s, w->work_watts);
  return ++w->works > w->stop_after;
}

/* Enqueues, which takes no time to speak of; the wait does the work. */
static int world_enqueue(void *user) {
  world *w = user;
  w->enqueued++;
  return ++w->works > w->stop_after;
}

static int world_wait(void *user) {
  world *w = user;
  pass(w, (double)w->enqueued * w->run_s, w->work_watts);
  w->enqueued = 0;
  w->waits++;
  return w->works > w->stop_after;
}

/* ---- its meter ------------------------------------------------------------------------------- */

struct mmci_meter {
  world *world;
};

static mmc_status world_joules(mmci_meter *meter, double time_s, double *joules,
                               mmci_error *error) {
  world *w = meter->world;
  assert_true(time_s == w->time_s);
  if (w->time_s >= w->break_s) {
    if (w->fault == FAILS) return mmci_fail(error, MMC_E_DEVICE, "the card is gone");
    if (w->fault == FALLS) w->shown_joules = w->joules -= 1000;
  } else {
    w->sound_joules = w->shown_joules;
  }
  *joules = w->fault == STANDS ? w->sound_joules : w->shown_joules;
  return MMC_OK;
}

static void world_state(mmci_meter *meter, double time_s, mmci_meter_state *out) {
  (void)time_s;
  *out = mmci_meter_state_unknown;
  out->watts = meter->world->watts * meter->world->bias;
  out->sm_mhz = 1500;
  out->throttle = 4;
}

static const mmci_meter_ops world_ops = {
    .name = "world", .joules = world_joules, .state = world_state};
static const mmci_meter_ops stateless_ops = {.name = "stateless", .joules = world_joules};

static mmc_status measure_by(const mmci_meter_ops *ops, world *w, const mmc_energy_options *options,
                             mmc_energy *out, mmci_error *error) {
  mmci_clock clock = {.now = world_now, .rest = world_rest, .user = w};
  mmci_meter meter = {.world = w};
  return mmci_measure(ops, &meter, options, &clock, out, error);
}

static mmc_energy_options working(world *w) {
  mmc_energy_options options = MMC_ENERGY_OPTIONS_INIT;
  options.work = world_work;
  options.user = w;
  return options;
}

static mmc_energy measure(world *w, const mmc_energy_options *options) {
  mmc_energy out;
  mmci_error error = {.text = ""};
  if (measure_by(&world_ops, w, options, &out, &error) != MMC_OK) fail_msg("%s", error.text);
  return out;
}

/* ---- sound counters -------------------------------------------------------------------------- */

/* All times are powers of two and the meter is looked at at every tick: nothing is lost. */
static void aligned_ticks_give_exact_joules(void **state) {
  (void)state;
  for (int with_wait = 0; with_wait < 2; with_wait++) {
    world w = quiet_world();
    mmc_energy_options options = working(&w);
    if (with_wait) {
      options.work = world_enqueue;
      options.wait = world_wait;
    }
    options.idle_s = 0;
    mmc_energy e = measure(&w, &options);
    assert_true(e.measured);
    assert_string_equal(e.reason, "");
    assert_string_equal(e.meter, "world");
    assert_true(e.joules == 32 && e.seconds == 1.0 / 16 && e.watts == 512);
    assert_true(e.watts_min == 512 && e.watts_max == 512);
    assert_true(e.window_s == 2 && e.runs == 32 && e.ticks == 16 && e.crosscheck == 0);
    assert_true(e.tick_error == 1.0 / 32);
    assert_true(isnan(e.idle_watts) && isnan(e.idle_watts_min) && isnan(e.idle_watts_max));
    assert_true(e.sm_mhz_min == 1500 && e.sm_mhz_median == 1500 && e.sm_mhz_max == 1500);
    assert_true(isnan(e.memory_mhz_min) && isnan(e.memory_mhz_median) && isnan(e.celsius_max));
    assert_string_equal(e.throttle, "power cap");
    assert_true(!with_wait || w.waits == w.works);
  }
}

/* Runs far shorter and longer than a tick, ticks that are late, with and without waiting. */
static void random_worlds_are_measured_within_the_error_told(void **state) {
  (void)state;
  uint64_t seed = 5, numbers = seed;
  for (int trial = 0; trial < 300; trial++) {
    world w = quiet_world();
    w.numbers = random_bits(&numbers);
    w.run_s = pow(10, -5 + 5.5 * fabs(random_unit(&numbers)));
    w.tick_s = trial % 3 == 0 ? 0.001 : 0.1;
    w.jitter = trial % 2 == 0 ? 0.3 : 0;
    w.work_watts = 100 + 600 * fabs(random_unit(&numbers));
    w.idle_watts = 10 + 90 * fabs(random_unit(&numbers));
    w.bias = 1 + 0.1 * random_unit(&numbers);
    mmc_energy_options options = working(&w);
    if (trial % 5 < 2) {
      options.work = world_enqueue;
      options.wait = world_wait;
    }
    mmc_energy e = measure(&w, &options);
    /* What is not a run in time is nothing here, and a look blurs both ends and the last tick. */
    double told = e.tick_error + 1e-9, idle_told = 2 * 0.005;
    if (!e.measured || !(fabs(e.watts / w.work_watts - 1) <= told) ||
        !(fabs(e.seconds / w.run_s - 1) <= 1e-7) ||
        !(fabs(e.joules / (w.work_watts * w.run_s) - 1) <= told) ||
        !(fabs(e.idle_watts / w.idle_watts - 1) <= idle_told) || !(e.window_s >= 2) ||
        !(fabs(e.runs * e.seconds / e.window_s - 1) <= 1e-12) ||
        !(fabs((1 + e.crosscheck) * e.watts / (w.bias * w.work_watts) - 1) <= 1e-9))
      fail_msg("seed %llu trial %d: %s; %g W of %g, %g s of %g, idle %g W of %g, crosscheck %g",
               (unsigned long long)seed, trial, e.reason, e.watts, w.work_watts, e.seconds, w.run_s,
               e.idle_watts, w.idle_watts, e.crosscheck);
  }
}

static void idle_power_alone_can_be_measured(void **state) {
  (void)state;
  world w = quiet_world();
  mmc_energy_options options = MMC_ENERGY_OPTIONS_INIT;
  mmc_energy e = measure(&w, &options);
  assert_true(e.measured && fabs(e.idle_watts - 64) <= 64 * 0.01);
  assert_true(e.idle_watts_min <= e.idle_watts && e.idle_watts <= e.idle_watts_max);
  assert_true(isnan(e.joules) && isnan(e.seconds) && isnan(e.watts) && isnan(e.runs));
  assert_string_equal(e.throttle, "unknown");
}

static void a_meter_may_have_a_counter_alone(void **state) {
  (void)state;
  world w = quiet_world();
  mmc_energy_options options = working(&w);
  mmc_energy e;
  mmci_error error;
  assert_int_equal(measure_by(&stateless_ops, &w, &options, &e, &error), MMC_OK);
  assert_true(e.measured && e.joules == 32);
  assert_true(isnan(e.crosscheck) && isnan(e.sm_mhz_median) && isnan(e.celsius_max));
  assert_string_equal(e.throttle, "unknown");
}

/* ---- broken ones ----------------------------------------------------------------------------- */

static void expect_unmeasured(const mmc_energy *e, const char *reason) {
  assert_false(e->measured);
  if (strstr(e->reason, reason) == NULL) fail_msg("'%s'", e->reason);
  assert_true(isnan(e->joules) && isnan(e->seconds) && isnan(e->watts) && isnan(e->window_s) &&
              isnan(e->runs));
}

/* Whenever it breaks, in the idle part, in the warming up or in the window, the work soon ends. */
static void a_counter_that_breaks_is_no_measurement(void **state) {
  (void)state;
  static const char *const reasons[] = {[STANDS] = "the energy counter has not moved for 3",
                                        [FALLS] = "the energy counter fell: from ",
                                        [FAILS] = "the card is gone"};
  for (int f = STANDS; f <= FAILS; f++)
    for (int tenths = 0; tenths < 34; tenths++) {
      double after_s = tenths / 10.0;
      world w = quiet_world();
      w.fault = (fault)f;
      w.break_s = w.time_s + after_s;
      mmc_energy_options options = working(&w);
      mmc_energy e = measure(&w, &options);
      expect_unmeasured(&e, reasons[f]);
      assert_true(w.time_s < 1000 + after_s + 5);
      if (after_s < 1) assert_int_equal(w.works, 0);
    }
}

static void a_counter_that_never_moves_is_no_measurement(void **state) {
  (void)state;
  for (int idle = 0; idle < 2; idle++) {
    world w = quiet_world();
    w.tick_s = 1e9;
    mmc_energy_options options = working(&w);
    options.idle_s = idle;
    mmc_energy e = measure(&w, &options);
    expect_unmeasured(&e, "the energy counter has not moved for 3");
    assert_true((w.works == 0) == (idle == 1));
  }
}

static void nothing_is_run_for_no_meter(void **state) {
  (void)state;
  world w = quiet_world();
  mmc_energy_options options = working(&w);
  mmci_meter *none;
  mmc_energy e;
  mmci_error error;
  mmci_clock clock = {.now = world_now, .rest = world_rest, .user = &w};
  mmci_meter_source source = {.reason = "there is no counter"};
  assert_int_equal(mmci_meter_none.open(&source, &none, &error), MMC_OK);
  for (int idle = 0; idle < 2; idle++)
    for (int threaded = 0; threaded < 2; threaded++) {
      options.idle_s = idle;
      assert_int_equal(
          mmci_measure(&mmci_meter_none, none, &options, threaded ? NULL : &clock, &e, &error),
          MMC_OK);
      expect_unmeasured(&e, "there is no counter");
      assert_string_equal(e.meter, "none");
      assert_int_equal(w.works, 0);
    }
  mmci_meter_none.close(none);
}

/* Work that stops, in the warming up or in the window, leaves *out alone. */
static void work_can_stop_it(void **state) {
  (void)state;
  for (int with_wait = 0; with_wait < 2; with_wait++)
    for (int64_t after = 0; after < 40; after++) {
      world w = quiet_world();
      mmc_energy_options options = working(&w);
      if (with_wait) {
        options.work = world_enqueue;
        options.wait = world_wait;
      }
      w.stop_after = after;
      mmc_energy e = {.joules = 7};
      mmci_error error;
      assert_int_equal(measure_by(&world_ops, &w, &options, &e, &error), MMC_E_INTERRUPTED);
      assert_int_equal(w.works, after + 1);
      assert_true(e.joules == 7);
    }
  /* By the wait alone. */
  world w = quiet_world();
  mmc_energy_options options = working(&w);
  options.wait = world_work;
  w.stop_after = 1;
  mmc_energy e = {.joules = 7};
  mmci_error error;
  assert_int_equal(measure_by(&world_ops, &w, &options, &e, &error), MMC_E_INTERRUPTED);
  assert_string_equal(error.text, "stopped by the wait callback");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(aligned_ticks_give_exact_joules),
      cmocka_unit_test(random_worlds_are_measured_within_the_error_told),
      cmocka_unit_test(idle_power_alone_can_be_measured),
      cmocka_unit_test(a_meter_may_have_a_counter_alone),
      cmocka_unit_test(a_counter_that_breaks_is_no_measurement),
      cmocka_unit_test(a_counter_that_never_moves_is_no_measurement),
      cmocka_unit_test(nothing_is_run_for_no_meter),
      cmocka_unit_test(work_can_stop_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
